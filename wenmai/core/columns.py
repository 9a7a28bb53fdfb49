"""Tables as plain text."""

import unicodedata
from collections.abc import Sequence

__all__ = ["in_columns", "text_width"]


def in_columns(rows: Sequence[Sequence[str]]) -> str:
    """Returns rows as lines whose columns line up, wide characters included."""
    from rich.cells import cell_len

    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def text_width(text: str) -> int:
    """Returns how many columns of a terminal a text takes; Chinese characters take two."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
