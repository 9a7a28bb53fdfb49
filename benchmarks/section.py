"""How a theme describes its section of the page, and how that becomes Markdown."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import ge, le, lt
from typing import Any, NamedTuple

from benchmarks.plots import Panel, Plot, Series
from benchmarks.result import Facts, Result, Rows

__all__ = ["Bars", "Checked", "Claim", "Part", "Section", "table"]

COMPARISONS = {"≥": ge, "≤": le, "<": lt}


@dataclass(frozen=True)
class Part:
    """A text, and a table under it. Both are templates; see ``result.py`` for what they can name.

    Attributes:
        text: Left out, with the table, if there are no rows.
        columns: Heading: template of a cell.
        by: There is a row of the table for each value of these names; for each measurement if it is empty.
        where: Takes only the measurements with these values.
        has: Takes only the measurements that have this value.
    """

    text: str
    columns: Mapping[str, str] = field(default_factory=dict)
    by: str = ""
    where: Mapping[str, object] = field(default_factory=dict)
    has: str = ""


class Checked(NamedTuple):
    """A value beside its target, both in words, and its name in Chinese if it stands in the READMEs."""

    name: str
    value: str
    target: str
    met: bool
    chinese: str


@dataclass(frozen=True)
class Claim:
    """A value that is held to a target.

    Attributes:
        name: What was measured, as a template.
        value: A template, such as ``{over_gensim:.2f} ×``; without its first value there is no claim.
        target: A template, such as ``≥ 5 ×``: a comparison (``≥``, ``≤`` or ``<``) and a number. If both name more
            numbers (``41.0 in 59.0 min``, ``≥ 39 in 60 min``), those of the value should be no larger.
        by: There is a claim for each group.
        worst: There is one claim, for the group with the worst value.
        chinese: The name in the Chinese README; claims with such a name stand in both READMEs.
        only: The group that the READMEs show, if there are several.
    """

    name: str
    value: str
    target: str
    by: str = ""
    worst: bool = False
    chinese: str = ""
    only: object = None

    def check(self, facts: Facts, key: object) -> Checked | None:
        """Compares the value of a group with the target of the group."""
        values = facts.numbers(self.value)
        if not values:
            return None
        target = facts.fill(self.target)
        bound, *more = (float(number) for number in re.findall(r"-?\d[\d.]*(?:e-?\d+)?", target))
        met = COMPARISONS[target[0]](values[0], bound) and all(map(le, values[1:], more))
        chinese = self.chinese if self.only in (None, key) else ""
        return Checked(facts.fill(self.name), facts.fill(self.value), target, met, chinese)


@dataclass(frozen=True)
class Bars:
    """A plot with the groups of ``by`` from top to bottom, in panels side by side.

    Attributes:
        by: There are bars for each value of these names.
        label: The name of a group, as a template.
        panels: Title: name of a bar: where its value is.
        x: What the bars show, as a template, in multiples of ``unit``.
        size: In inches.
        kind: ``bars`` for medians, ``dots`` for all values.
        mark: Title: where a dotted line stands.
    """

    by: str
    label: str
    panels: Mapping[str, Mapping[str, str]]
    x: str
    size: tuple[float, float]
    unit: float = 1
    kind: str = "bars"
    mark: Mapping[str, float] = field(default_factory=dict)

    def __call__(self, section: "Section", result: Result) -> Plot:
        """Returns the plot of a result."""
        groups = {facts.fill(self.label): facts for _, facts in section.groups(result, self.by)}
        panels = []
        for title, bars in self.panels.items():
            series = []
            for name, path in bars.items():
                found = {label: facts.find(path) for label, facts in groups.items()}
                points = {label: [one / self.unit for one in values or ()] for label, values in found.items()}
                series.append(Series(name, points))
            marks = {"target": self.mark[title]} if title in self.mark else {}
            x = section.about(result.rows, result).fill(self.x)
            panels.append(Panel(series=series, title=title, x=x, marks=marks))
        return Plot(kind=self.kind, panels=panels, size=self.size)


class Section:
    """What the page says about a theme.

    Args:
        title: The heading.
        parts: Texts with tables; a function where the columns depend on what was measured.
        claims: The targets.
        facts: Returns what the templates can name besides, of all rows and of those of a group.
        plot: Returns the picture of the section.
        speed: What ``over_PEER`` compares, and ``turn`` what tells its rounds apart.
    """

    def __init__(
        self,
        title: str,
        parts: Sequence[Part | Callable[["Section", Result], Iterator[str]]],
        *claims: Claim,
        facts: Callable[[Rows, Result], Mapping[str, Any]] = lambda _rows, _result: {},
        plot: Callable[["Section", Result], Plot] | None = None,
        speed: str = "tokens_per_second",
        turn: str = "repeat",
    ) -> None:
        self.title, self.parts, self.claims, self.facts, self.plot = title, parts, claims, facts, plot
        self.speed, self.turn = speed, turn

    def about(self, rows: Rows, result: Result, **given: object) -> Facts:
        """Returns what templates can name about some rows."""
        given = {**result.settings, **given, **self.facts(rows, result)}
        return Facts(rows, speed=self.speed, turn=self.turn, given=given)

    def groups(self, result: Result, by: str, rows: Rows | None = None) -> Iterator[tuple[Any, Facts]]:
        """Yields the key and the facts of each group; of each row if ``by`` is empty."""
        rows = result.rows if rows is None else rows
        for key, group in rows.by(by).items() if by else ((None, Rows([row])) for row in rows):
            names = by.split() or group[0]
            yield key, self.about(group, result, **{name: getattr(group, name) for name in names})

    def body(self, result: Result) -> Iterator[str]:
        """Yields the texts and tables."""
        for part in self.parts:
            if not isinstance(part, Part):
                yield from part(self, result)
                continue
            rows = Rows(row for row in result.rows.where(**part.where) if not part.has or part.has in row)
            if rows and part.text:
                yield self.about(rows, result).fill(part.text) + "\n"
            if rows and part.columns:
                groups = self.groups(result, part.by, rows)
                cells = part.columns.items()
                yield table([{heading: facts.fill(cell) for heading, cell in cells} for _, facts in groups])

    def checked(self, result: Result) -> Iterator[Checked]:
        """Yields the values that are held to a target."""
        for claim in self.claims:
            groups = self.groups(result, claim.by) if claim.by else [(None, self.about(result.rows, result))]
            known = [(facts, key) for key, facts in groups if facts.numbers(claim.value)]
            if claim.worst:
                known.sort(key=lambda group: group[0].numbers(claim.value), reverse=claim.target[0] != "≥")
            found = [claim.check(*group) for group in (known[:1] if claim.worst else known)]
            yield from filter(None, found)


def table(rows: Sequence[Mapping[str, object]]) -> str:
    """Returns a Markdown table of rows that map headings to cells; all columns but the first are aligned right."""
    heading, *cells = [list(row) for row in rows[:1]] + [list(row.values()) for row in rows]
    lines = [heading, ["---"] + ["--:"] * (len(heading) - 1), *cells]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines) + "\n"
