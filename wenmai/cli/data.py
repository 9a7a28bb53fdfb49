"""``wenmai data``: the catalogue of public corpora and test sets."""

import json
import sys
from typing import Annotated

import typer

from wenmai.cli.completion import complete_catalogue
from wenmai.cli.options import Json
from wenmai.cli.printing import plain, show_columns, show_rows
from wenmai.core.wording import say

__all__ = ["app"]

app = typer.Typer(
    help="The catalogue of public corpora and test sets.\n\nExample: wenmai data get text8",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("list")
def data_list(as_json: Json = False) -> None:
    """List what the catalogue knows.

    Example: wenmai data list
    """
    from wenmai.data.catalogue import cached, entries

    rows = [{**plain(entry), "here": plain(cached(entry.name))} for entry in entries()]
    if as_json:
        print(json.dumps(rows, ensure_ascii=False, allow_nan=False))
        return
    show_columns([[row["name"], row["kind"], say("here") if row["here"] else "", say(row["title"])] for row in rows])


@app.command("get")
def data_get(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="An entry of the catalogue.", autocompletion=complete_catalogue)
    ],
    as_json: Json = False,
) -> None:
    """Download a corpus or test set and print its path.

    Its checksum is verified. Downloads resume. WENMAI_DATA_MIRROR names a folder or address to use instead.

    Example: wenmai data get text8
    """
    from wenmai.data.catalogue import get

    path = get(name, progress=_progress if sys.stderr.isatty() else None)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    print(json.dumps({"name": name, "path": str(path)}) if as_json else path)


@app.command("check")
def data_check(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="By default all downloaded files.")] = None,
    as_json: Json = False,
) -> None:
    """Check the downloaded files.

    Each is compared with its registered checksum.

    Example: wenmai data check text8
    """
    from wenmai.core.errors import DownloadError
    from wenmai.data.catalogue import cached, check, entries

    chosen = names or [entry.name for entry in entries() if cached(entry.name)]
    results = [check(name) for name in chosen]
    show_rows([plain(result) for result in results], as_json, lambda row: (row["name"], row["status"], row["message"]))
    bad = [result.name for result in results if result.status not in ("good", "unregistered")]
    if bad:
        raise DownloadError(f"not good: {', '.join(bad)}")


def _progress(done: int, total: int | None) -> None:
    progress = f"{done / total:6.1%} of {total / 1e6:.1f} MB" if total else f"{done / 1e6:.1f} MB"
    print(f"\r{say('downloading')}  {progress}", end="", file=sys.stderr, flush=True)
