"""Tables as plain text."""

from collections.abc import Sequence

__all__ = ["in_columns"]


def in_columns(rows: Sequence[Sequence[str]]) -> str:
    """Returns rows as lines whose columns line up, wide characters included."""
    from rich.cells import cell_len

    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
