"""``wenmai nearest`` and ``wenmai analogy``."""

from pathlib import Path
from typing import Annotated

import typer

from wenmai.cli.printing import show_rows

__all__ = ["analogy", "nearest"]

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]


def nearest(
    run: RunFolder,
    words: Annotated[list[str], typer.Argument(metavar="WORD", help="Several words are added.")],
    topn: Annotated[int, typer.Option("--topn", min=1, help="How many.")] = 10,
    as_json: Json = False,
) -> None:
    """Show the words nearest to a word.

    Example: wenmai nearest runs/first king --topn 5
    """
    from wenmai.training.run import Run

    found = Run(run).vectors.most_similar(positive=words, topn=topn)
    show_rows(found, as_json, lambda pair: (f"{pair[1]:.4f}", pair[0]))


def analogy(
    run: RunFolder,
    a: Annotated[str, typer.Argument(metavar="A")],
    b: Annotated[str, typer.Argument(metavar="B")],
    c: Annotated[str, typer.Argument(metavar="C")],
    topn: Annotated[int, typer.Option("--topn", min=1, help="How many answers.")] = 5,
    multiply: Annotated[bool, typer.Option("--multiply", help="3CosMul instead of 3CosAdd.")] = False,
    as_json: Json = False,
) -> None:
    """Answer: A is to B as C is to what?

    Example: wenmai analogy runs/first man king woman
    """
    from wenmai.training.run import Run

    found = Run(run).vectors.analogy(a, b, c, topn=topn, method="mul" if multiply else "add")
    show_rows(found, as_json, lambda pair: (f"{pair[1]:.4f}", pair[0]))
