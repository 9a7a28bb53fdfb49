"""Results on stdout: aligned columns for people, one JSON value for scripts."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from wenmai.core.columns import in_columns
from wenmai.core.quantities import words_a_second
from wenmai.core.wording import say

__all__ = ["note", "plain", "show", "show_columns", "show_rows", "show_run"]


def show(result: object) -> None:
    """Prints a result for people, line by line in their language."""
    print("\n".join(say(line) for line in str(result).split("\n")))


def note(message: str) -> None:
    """Prints a note on standard error."""
    print(say("note: {message}", message=say(message)), file=sys.stderr)


def show_run(run: Any, as_json: bool) -> None:  # noqa: ANN401  a Run, not imported for speed
    """Prints the result of a training."""
    summary = run.summary
    if as_json:
        print(json.dumps(summary, ensure_ascii=False, allow_nan=False))
        return
    if "imported" in summary:
        show(f"{run.path}: imported from {summary['imported']}")
        return
    loss = [] if summary["loss"] is None else [f"loss {summary['loss']:.4f}"]
    if "tokens_per_second" in summary:
        speed = f"{summary['tokens_per_second']:,.0f} tokens/s"
    else:
        speed = f"{words_a_second(summary['words_per_second'])} words/s"
    print(f"{run.path}: {', '.join(map(say, [*loss, speed]))}, {summary['seconds']:.1f} s")


def show_rows(rows: Iterable[Any], as_json: bool, cells: Any) -> None:  # noqa: ANN401
    """Prints rows as one JSON list, or as columns of ``cells(row)``."""
    rows = list(rows)
    if as_json:
        print(json.dumps(rows, ensure_ascii=False, allow_nan=False))
    else:
        show_columns([[say(str(cell)) for cell in cells(row)] for row in rows])


def show_columns(rows: list[list[str]]) -> None:
    """Prints aligned columns, wide characters included."""
    if rows:
        print(in_columns(rows))


def plain(value: Any) -> Any:  # noqa: ANN401  a dataclass of the catalogue, or a path
    """Turns entries of the catalogue into JSON values."""
    from dataclasses import asdict, is_dataclass

    if is_dataclass(value) and not isinstance(value, type):
        return {name: plain(item) for name, item in asdict(value).items()}
    return str(value) if isinstance(value, Path) else value
