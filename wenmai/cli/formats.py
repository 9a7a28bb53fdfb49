"""``wenmai formats``, ``wenmai export`` and ``wenmai import``."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from wenmai.cli.printing import show_rows

__all__ = ["export_command", "formats_command", "import_command"]

Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
FormatName = Annotated[str, typer.Argument(metavar="FORMAT", help="A format; `wenmai formats` lists them.")]


def formats_command(as_json: Json = False) -> None:
    """List the formats for export and import.

    Example: wenmai formats
    """
    from wenmai.formats.format import formats

    ways = {(True, False): "export", (False, True): "import", (True, True): "both"}
    rows = [
        {"name": one.name, "ways": ways[one.write is not None, one.read is not None], "summary": one.summary}
        for one in formats().values()
    ]
    show_rows(rows, as_json, lambda row: row.values())


def export_command(
    run: RunFolder,
    name: FormatName,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The file to write, or a folder for some formats.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="fasttext as .ftz: cutoff, retrain, qnorm, qout, dsub."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the model of a run for other programs.

    Each kind of run has its own formats; for another, the error message lists them.

    Example: wenmai export runs/first word2vec-binary vectors.bin

    Example: wenmai export runs/topics fasttext topics.ftz --set cutoff=100000 --set retrain=true

    Example: wenmai export runs/de-en ctranslate2 de-en-engine

    Example: wenmai export runs/news arpa news.arpa

    Example: wenmai export runs/gpt huggingface gpt2-folder
    """
    from wenmai.config.recipe import parse_assignments
    from wenmai.runs.formats import export_run

    written = export_run(
        run, name, path, on_note=lambda message: print(message, file=sys.stderr), **parse_assignments(settings or [])
    )
    print(json.dumps({"path": str(written), "format": name}) if as_json else written)


def import_command(
    name: FormatName,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The file to read; for huggingface the folder.")],
    out: Annotated[Path, typer.Option(metavar="RUN", help="The run folder to make.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="fasttext classifiers: how texts become words, as segment."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Import vectors or a model as a run.

    Example: wenmai import word2vec GoogleNews-vectors-negative300.bin --out runs/google

    Example: wenmai import fasttext cc.en.300.bin --out runs/english

    Example: wenmai import fasttext topics.ftz --out runs/topics --set segment=characters

    Example: wenmai import arpa news.arpa.gz --out runs/news

    Example: wenmai import huggingface gpt2-folder --out runs/gpt2
    """
    from wenmai.config.recipe import parse_assignments
    from wenmai.runs.formats import import_run

    run = import_run(name, path, out, **parse_assignments(settings or []))
    print(json.dumps(run.summary, ensure_ascii=False) if as_json else run.path)
