"""The table of a comparison in the forms that papers, pages and spreadsheets take."""

import csv
import io
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from wenmai.core.quantities import words_a_second
from wenmai.core.wording import say

if TYPE_CHECKING:
    from wenmai.core.showing import Table
    from wenmai.runs.comparison import Comparison, Measure

__all__ = ["csv_table", "latex_table", "markdown_table", "shown_rows"]

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "[": "{[}",  # behind the end of a row, it and the star would be its options
    "*": "{*}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


def csv_table(table: "Table") -> str:
    """Returns a table as comma-separated values: names first, an empty field where there is no value."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(["" if value is None else value for value in row] for row in table.rows)
    return written.getvalue()


def markdown_table(comparison: "Comparison") -> str:
    """Returns a comparison as a table of Markdown: intervals in brackets, the best of each test set in bold."""
    heads, *rows = shown_rows(comparison, _markdown, bold="**{}**", interval="{} {}")
    sides = [":--", *["--:"] * (len(heads) - 1)]
    return "".join(f"| {' | '.join(row)} |\n" for row in (heads, sides, *rows))


def latex_table(comparison: "Comparison") -> str:
    r"""Returns a comparison as a ``tabular`` of LaTeX; it needs ``\usepackage{booktabs}``."""
    heads, *rows = shown_rows(comparison, _latex, bold=r"\textbf{{{}}}", interval=r"{} {{\small {}}}")
    lines = [" & ".join(row) + r" \\" for row in (heads, *rows)]
    begun = rf"\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}"
    ruled = [begun, r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule", r"\end{tabular}"]
    return "\n".join(ruled) + "\n"


def shown_rows(
    comparison: "Comparison", escape: Callable[[str], str] = str, *, bold: str = "{}", interval: str = "{} {}"
) -> list[list[str]]:
    """Returns what people read: the names of the columns, then a row for each system.

    Args:
        comparison: The comparison.
        escape: Makes a text safe in the form.
        bold: How the best value of a column is marked.
        interval: How a value and its interval stand together.
    """
    measured: dict[str, list[str]] = {say("system"): [escape(system.name) for system in comparison.systems]}
    for title, measures in comparison.columns(spoken=True).items():
        best = _best(measures) if len(measures) > 1 else None
        measured[title] = [_cell(one, one is not None and one.value == best, bold, interval) for one in measures]
    systems, columns = comparison.systems, dict[str, list[str]]()
    speeds = [system.words_per_second for system in systems]
    columns[say("words/s")] = ["-" if speed is None else words_a_second(speed) for speed in speeds]
    columns[say("seconds")] = _numbers([system.seconds for system in systems], 1)
    for name, sizes in (
        ("peak MB", [system.peak_memory_bytes for system in systems]),
        ("size MB", [system.size_bytes for system in systems]),
    ):
        columns[say(name)] = _numbers([None if size is None else size / 1e6 for size in sizes], 0)
    known = measured | {name: cells for name, cells in columns.items() if set(cells) != {"-"}}
    return [[escape(name) for name in known], *map(list, zip(*known.values(), strict=True))]


def _cell(measure: "Measure | None", best: bool, bold: str, interval: str) -> str:
    if measure is None or measure.value is None:
        return "-"
    value = bold.format(f"{measure.value:z.3f}") if best else f"{measure.value:z.3f}"
    if measure.low is None or measure.high is None:
        return value
    return interval.format(value, f"[{measure.low:z.3f}, {measure.high:z.3f}]")


def _best(measures: "Sequence[Measure | None]") -> float | None:
    found = [one for one in measures if one is not None and one.value is not None]
    values = [one.value for one in found if one.value is not None and math.isfinite(one.value)]
    if not values:
        return None
    return min(values) if any(one.lower_is_better for one in found) else max(values)


def _numbers(values: Sequence[float | None], digits: int) -> list[str]:
    return ["-" if value is None else f"{value:.{digits}f}" for value in values]


def _markdown(text: str) -> str:
    return "".join(f"\\{character}" if character in "\\|*_`<[" else character for character in text)


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)
