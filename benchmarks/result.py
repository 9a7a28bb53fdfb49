"""The results of a theme: the rows of its result file, and the values that templates take from them."""

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from string import Formatter
from typing import Any

__all__ = ["Facts", "Numbers", "Result", "Row", "Rows", "Score", "read_results"]

Row = Mapping[str, Any]
UNITS = {  # of a format: size, and how values are usually written in it
    "MiB": (2**20, ",.0f"),
    "MB": (1e6, ",.0f"),
    "M": (1e6, ".2f"),
    "ms": (1e-3, ",.1f"),
    "pp": (0.01, "+.2f"),
}


class Numbers(list[float]):
    """Measurements of one thing; as a number, their median.

    In a template, a unit may stand after the usual format: ``{speed:M}`` (millions), ``{peak:MB}``, ``{wait:.0fms}``,
    ``{gain:pp}`` (percentage points). ``{ratio:each}`` shows the median and all values. No value is a dash.
    """

    def __float__(self) -> float:
        return float(statistics.median(self))

    @property
    def most(self) -> "Numbers":
        """The largest value."""
        return Numbers(sorted(self)[-1:])

    def __format__(self, form: str) -> str:
        if not self:
            return "-"
        if form == "each":
            return f"**{float(self):.2f}** ({', '.join(f'{one:.2f}' for one in self)})"
        form, unit, usual = _unit(form)
        value = float(self) / unit
        form = form or usual
        return f"{int(value):{form}}" if value.is_integer() and form in ("", ",") else f"{value:{form}}"


class Score:
    """The mean of a value on our side and on a baseline's, over pairs of rows; as a number, the difference.

    In a template, ``{score}`` shows all three, the difference bold if it is below ``-allowed``.
    """

    def __init__(self, pairs: Sequence[tuple[float, float]], *, allowed: float) -> None:
        self._ours, self._theirs = (statistics.mean(side) for side in zip(*pairs, strict=True))
        self._allowed = allowed

    def __float__(self) -> float:
        return self._ours - self._theirs

    def __format__(self, form: str) -> str:
        form, unit, usual = _unit(form)
        if form or usual:
            return f"{float(self) / unit:{form or usual}}"
        mark = "" if float(self) >= -self._allowed else "**"
        return f"{self._ours:.4f} / {self._theirs:.4f} ({mark}{float(self):+.4f}{mark})"


def _unit(form: str) -> tuple[str, float, str]:
    """Splits a format into that of Python and a unit, and adds the usual format of the unit."""
    for name, (unit, usual) in UNITS.items():
        if form.endswith(name):
            return form.removesuffix(name), unit, usual
    return form, 1, ""


class Rows(list[Row]):
    """Some measurements of a theme, in the order in which they were made; an attribute has the values of all rows."""

    def __getattr__(self, name: str) -> Any:
        values = [row[name] for row in self if row.get(name) is not None]
        return Numbers(values) if all(isinstance(value, float | int) for value in values) else values[0]

    def __format__(self, form: str) -> str:
        return format(Numbers(), form)  # of a value that no row has

    def where(self, **wanted: object) -> "Rows":
        """Returns the rows that have all the given values."""
        return Rows(row for row in self if all(row.get(name) == value for name, value in wanted.items()))

    def by(self, names: str) -> dict[Any, "Rows"]:
        """Groups the rows by one value, or by several with spaces between (the keys are tuples then)."""
        found: dict[Any, Rows] = {}
        for row in self:
            key = tuple(row.get(name) for name in names.split())
            found.setdefault(key if len(key) > 1 else key[0], Rows()).append(row)
        return found

    def largest(self, key: Callable[[Row], Any]) -> "Rows":
        """Returns the row with the largest key, if there is any."""
        return Rows(sorted(self, key=key)[-1:])

    def beside(self, baseline: str, turn: str) -> list[tuple[Row, Row]]:
        """Pairs each row of ours with the baseline's row of the same round or seed."""
        theirs = {row[turn]: row for row in self.where(side=baseline)}
        return [(row, theirs[row[turn]]) for row in self.where(side="ours") if row[turn] in theirs]

    def ratios(self, baseline: str, name: str, turn: str) -> Numbers:
        """Returns the speedup of ours over the baseline, round by round; ``name`` is a speed or a time."""
        pairs = self.beside(baseline, turn)
        both = [(ours[name], theirs[name]) for ours, theirs in pairs if name in ours and name in theirs]
        return Numbers(theirs / ours if name.endswith("seconds") else ours / theirs for ours, theirs in both)


class Result:
    """A result file: its rows, its settings, and all else as ``content``."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self.content = content
        self.rows = Rows(content["rows"])
        self.settings: Mapping[str, Any] = content.get("settings", {})


class Facts(dict[str, Any]):
    """The names of a template: given facts; ``over_BASELINE`` (ratios); a side such as ``ours``; else a value of rows.

    Args:
        rows: The measurements.
        speed: The value that ``over_BASELINE`` compares.
        turn: The value that identifies a round.
        given: Facts that come first.
    """

    def __init__(self, rows: Rows, *, speed: str, turn: str, given: Mapping[str, Any]) -> None:
        super().__init__(given)
        self._rows, self._speed, self._turn = rows, speed, turn

    def __missing__(self, name: str) -> Any:
        if name.startswith("over_"):
            return self._rows.ratios(name.removeprefix("over_"), self._speed, self._turn)
        return getattr(self._rows, name) if any(name in row for row in self._rows) else self._rows.where(side=name)

    def fill(self, template: str) -> str:
        """Fills a template and joins its lines."""
        return " ".join(template.format_map(self).split())

    def numbers(self, template: str) -> list[float]:
        """Returns the values that a template names, in the units it shows; none if the first is missing."""
        fields = [(str(path), str(form)) for _, path, form, _ in Formatter().parse(template) if path is not None]
        found = [(self.find(path), _unit(form)[1]) for path, form in fields]
        missing = isinstance(found[0][0], list) and not found[0][0]
        return [] if missing else [float(value) / unit for value, unit in found]

    def origin(self, template: str, machine: Mapping[str, Any]) -> dict[str, Any]:
        """Returns how often what a template names was measured, on which processors and of which commits.

        Args:
            template: If its first value is of rows such as ``{best[gpt].bleu}``, these count, otherwise all.
            machine: Of the result file: rows of before name no processor of their own.
        """
        path = next(str(path) for _, path, _, _ in Formatter().parse(template) if path is not None)
        named = self.find(path.rpartition(".")[0]) if "." in path else None
        rows = named if isinstance(named, Rows) and named else self._rows
        return {
            "repeats": max(1, len({row[self._turn] for row in rows if self._turn in row})),
            "processors": tuple(dict.fromkeys(row.get("processor", machine["processor"]) for row in rows)),
            "commits": tuple(dict.fromkeys(row["commit"] for row in rows)),
        }

    def find(self, path: str) -> Any:
        """Returns what ``{path}`` stands for in a template."""
        return Formatter().get_field(path, (), self)[0]


def read_results(folder: Path) -> dict[str, Result]:
    """Reads all result files of a folder, by theme."""
    found = {path.stem: json.loads(path.read_bytes()) for path in sorted(folder.glob("*.json"))}
    return {theme: Result(content) for theme, content in found.items() if "rows" in content}
