"""How the page writes tables and figures."""

from collections.abc import Iterable, Sequence

__all__ = ["megabytes", "table"]


def table(heading: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Returns a Markdown table; all columns but the first are aligned to the right."""
    lines = [heading, ["---"] + ["--:"] * (len(heading) - 1), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines) + "\n"


def megabytes(value: float) -> str:
    """Returns bytes as whole megabytes."""
    return f"{value / 1e6:,.0f}"
