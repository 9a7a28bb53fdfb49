"""``wenmai formats``, ``wenmai export`` and ``wenmai import``."""

import json
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from wenmai.cli.completion import complete_format
from wenmai.cli.options import Json, RunFolder, Sets
from wenmai.cli.printing import note, show_rows
from wenmai.core.errors import SettingError

__all__ = ["export_command", "formats_command", "import_command"]

FormatName = Annotated[
    str,
    typer.Argument(metavar="FORMAT", help="A format; `wenmai formats` lists them.", autocompletion=complete_format),
]


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
    path: Annotated[
        Path,
        typer.Argument(metavar="PATH", help="The file to write, - for standard output; a folder for some formats."),
    ],
    settings: Sets = None,
    as_json: Json = False,
) -> None:
    """Write the model of a run for other programs.

    Each kind of run has its own formats; for another, the error message lists them. Settings of fasttext as .ftz:
    cutoff, retrain, qnorm, qout, dsub.

    Example: wenmai export runs/first word2vec-binary vectors.bin

    Example: wenmai export runs/topics fasttext topics.ftz --cutoff 100000 --retrain

    Example: wenmai export runs/first word2vec - | head

    Example: wenmai export runs/de-en ctranslate2 de-en-engine

    Example: wenmai export runs/news arpa news.arpa

    Example: wenmai export runs/gpt huggingface gpt2-folder
    """
    from wenmai.config.recipe import parse_assignments
    from wenmai.runs.formats import export_run

    chosen = parse_assignments(settings or [])
    if str(path) == "-":
        if as_json:
            raise SettingError("--json would be printed among the model on standard output; leave one of them out")
        _print_export(run, name, chosen)
        return
    written = export_run(run, name, path, on_note=note, **chosen)
    print(json.dumps({"path": str(written), "format": name}) if as_json else written)


def _print_export(run: Path, name: str, settings: dict[str, str]) -> None:
    from wenmai.runs.formats import export_run

    with TemporaryDirectory() as folder:
        told: list[str] = []
        written = export_run(run, name, Path(folder) / "model", on_note=told.append, **settings)
        if written.is_dir():
            raise SettingError(f"{name} is a folder of files, which cannot go to standard output; name a folder")
        if len(list(Path(folder).iterdir())) > 1:
            raise SettingError(
                f"{name} needs a second file for how texts become words, which cannot go to standard output; name a "
                "file"
            )
        for message in told:
            note(message)
        with open(written, "rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)


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
