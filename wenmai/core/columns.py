"""Tables as plain text."""

from collections.abc import Sequence

__all__ = ["in_columns", "text_width"]


def in_columns(rows: Sequence[Sequence[str]]) -> str:
    """Returns rows as lines whose columns line up, wide characters included."""
    widths = [max(map(text_width, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell + " " * (width - text_width(cell)) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def text_width(text: str) -> int:
    """Returns how many columns of a terminal a text takes; Chinese characters take two."""
    from rich.cells import cell_len

    return cell_len(text)
