"""``wenmai export`` and ``wenmai import``."""

import json
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["export_command", "import_command"]

Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]


def export_command(
    run: RunFolder,
    name: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT",
            help="word2vec, word2vec-binary, projector; glove and kin; fasttext; ctranslate2, onnx; arpa; huggingface.",
        ),
    ],
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH", help="The file, or for projector, ctranslate2 and huggingface the folder, to write."
        ),
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="fasttext as .ftz: cutoff, retrain, qnorm, qout, dsub."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the model of a run for other programs.

    Word vectors go out as word2vec, word2vec-binary or projector, Transformers as ctranslate2, the
    encoders of translators as onnx, fastText models as fasttext: .bin as they are, classifiers
    also as .ftz, quantised; n-gram models as arpa; GPTs as huggingface or ctranslate2.

    Example: wenmai export runs/first word2vec-binary vectors.bin

    Example: wenmai export runs/topics fasttext topics.ftz --set cutoff=100000 --set retrain=true

    Example: wenmai export runs/de-en ctranslate2 de-en-engine

    Example: wenmai export runs/news arpa news.arpa

    Example: wenmai export runs/gpt huggingface gpt2-folder
    """
    from wenmai.config.recipe import parse_assignments
    from wenmai.runs.exchange import export_run

    written = export_run(run, name, path, **parse_assignments(settings or []))
    print(json.dumps({"path": str(written), "format": name}) if as_json else written)


def import_command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT", help="word2vec (text or binary; GloVe text too), fasttext, arpa or huggingface."
        ),
    ],
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The file to read; for huggingface the folder.")],
    out: Annotated[Path, typer.Option(metavar="RUN", help="The run folder to make.")],
    as_json: Json = False,
) -> None:
    """Make a run of vectors or a model from elsewhere.

    Example: wenmai import word2vec GoogleNews-vectors-negative300.bin --out runs/google

    Example: wenmai import fasttext cc.en.300.bin --out runs/english

    Example: wenmai import arpa news.arpa.gz --out runs/news

    Example: wenmai import huggingface gpt2-folder --out runs/gpt2
    """
    from wenmai.runs.exchange import import_run

    run = import_run(name, path, out)
    print(json.dumps(run.summary, ensure_ascii=False) if as_json else run.path)
