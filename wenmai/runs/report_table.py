"""The tables of a report: measures and costs as columns, systems as rows."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from itertools import groupby

from wenmai.core.wording import say
from wenmai.runs.comparison import ComparedSystem, Comparison, Kind, Measure
from wenmai.runs.page import scrolling, small, swatch
from wenmai.runs.report_numbers import decimal, duration, percent, short_bytes, short_number

__all__ = [
    "Column",
    "confidence_text",
    "cost_columns",
    "ends_of",
    "kind_of",
    "quality_columns",
    "results_table",
    "section_tables",
]

INTERVAL_WIDTH = 84  # pixels
BAR_WIDTH = 56


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of a table: its cells in the order of the systems, ``None`` where nothing was measured."""

    title: str
    group: str
    note: str
    cells: list[Measure | None]
    text: Callable[[float], str]
    lower_is_better: bool
    judged: bool = True

    def measured(self) -> list[Measure]:
        """Returns the cells that have a value."""
        return [cell for cell in self.cells if cell is not None]

    def best(self) -> Measure | None:
        """Returns the cell with the best value, or ``None`` if there are fewer than two values."""
        cells = self.measured()
        return (min if self.lower_is_better else max)(cells, key=_value) if len(cells) > 1 else None

    def marks(self) -> list[str]:
        """Returns ``best``, ``noise`` (its interval overlaps the best one's) or nothing for each cell."""
        best = self.best()
        if best is None:
            return [""] * len(self.cells)
        return ["" if cell is None else _mark(cell, best) for cell in self.cells]


def quality_columns(comparison: Comparison) -> list[Column]:
    """Returns a column for each measure of the systems; those of a kind stand together."""
    systems = comparison.systems
    named = dict.fromkeys((measure.kind, measure.name) for system in systems for measure in system.measures)
    kinds = list(dict.fromkeys(kind for kind, _ in named))
    keys = sorted(named, key=lambda key: kinds.index(key[0]))  # stable: columns of a kind stand together
    measures = [system.measures for system in systems]
    return [_quality_column(kind_of(comparison, kind), kind, name, measures) for kind, name in keys]


def _quality_column(shown: Kind, kind: str, name: str, measures: list[list[Measure]]) -> Column:
    found = [_find(own, kind, name) for own in measures]
    cells = [_cell(measure) if measure is not None else None for measure in found]
    return Column(
        title=name,
        group=shown.title,
        note=_coverage_note(cells, shown.items),
        cells=cells,
        text=percent if shown.percent else short_number if shown.short else decimal,
        lower_is_better=any(cell.lower_is_better for cell in cells if cell is not None),
        judged=shown.judged,
    )


def cost_columns(systems: list[ComparedSystem]) -> list[Column]:
    """Returns the columns of speed, time, memory and size, where something was measured."""

    def column(
        title: str,
        note: str,
        text: Callable[[float], str],
        values: Iterable[float | None],
        lower: bool = True,
    ) -> Column:
        cells = [_cell(Measure(name=title, kind="cost", value=value)) for value in values]
        return Column(
            title=say(title), group=say("Cost"), note=note and say(note), cells=cells, text=text, lower_is_better=lower
        )

    columns = [
        column("Speed", "words/s", short_number, (system.words_per_second for system in systems), lower=False),
        column("Time", "wall clock", duration, (system.seconds for system in systems)),
        column("Memory", "peak", short_bytes, (system.peak_memory_bytes for system in systems)),
        column("Size", "on disk", short_bytes, (system.size_bytes for system in systems)),
    ]
    return [column for column in columns if column.measured()]


def kind_of(comparison: Comparison, name: str) -> Kind:
    """Returns what a kind of measures is called, and how it is shown."""
    return comparison.kinds.get(name) or Kind(title=name[:1].upper() + name[1:])


def _named(comparison: Comparison, name: str, kind: str) -> str:
    return f"{name} ({kind_of(comparison, kind).name or kind})"


def _find(measures: Iterable[Measure], kind: str, name: str) -> Measure | None:
    return next((measure for measure in measures if (measure.kind, measure.name) == (kind, name)), None)


def _cell(measure: Measure) -> Measure | None:
    return measure if measure.value is not None else None


def _value(measure: Measure) -> float:
    return measure.value if measure.value is not None else math.nan


def ends_of(measure: Measure) -> tuple[float, float] | None:
    """Returns the interval of a measure; None if it has none."""
    return (measure.low, measure.high) if measure.low is not None and measure.high is not None else None


def _mark(cell: Measure, best: Measure) -> str:
    if cell.value == best.value:
        return "best"
    one, other = ends_of(cell), ends_of(best)
    return "noise" if one and other and one[0] <= other[1] and other[0] <= one[1] else ""


def _coverage_note(cells: Iterable[Measure | None], items: str) -> str:
    """Returns the coverage common to all systems, which is shown once in the head of the column."""
    coverages = {(cell.covered, cell.total) for cell in cells if cell is not None}
    totals = {total for _, total in coverages if total is not None}
    if len(totals) != 1:
        return ""
    covered, total = next(iter(coverages))
    shared = len(coverages) == 1 and covered is not None
    if shared:
        return say("{covered} of {total} {items}", covered=f"{covered:,}", total=f"{total:,}", items=items)
    return say("{total} {items}", total=f"{totals.pop():,}", items=items)


def confidence_text(comparison: Comparison) -> str:
    """Returns the confidence of the intervals as a percentage."""
    return f"{100 * comparison.confidence:g}\N{NO-BREAK SPACE}%"


# --- as HTML ------------------------------------------------------------------------------------------------------


def results_table(comparison: Comparison, quality: list[Column], cost: list[Column]) -> str:
    """Returns the table of all systems and columns with its caption."""
    columns = quality + cost
    group_heads = "".join(
        f'<th class="group" scope="colgroup" colspan="{len(list(same))}"><span>{escape(group)}</span></th>'
        for group, same in groupby(columns, key=lambda column: column.group)
    )
    heads = "".join(
        f'<th scope="col" data-first="{"ascending" if column.lower_is_better else "descending"}">'
        f"<span>{escape(column.title)}</span>{small(column.note)}{small(_direction(column))}</th>"
        for column in columns
    )
    cells = [*map(_quality_cells, quality), *map(_cost_cells, cost)]
    rows = "".join(
        f'<tr><th scope="row">{swatch(index)}{escape(system.name)}{small(system.label)}</th>'
        f"{''.join(column[index] for column in cells)}</tr>"
        for index, system in enumerate(comparison.systems)
    )
    head = f'<tr><td></td>{group_heads}</tr><tr><th scope="col"><span>{say("System")}</span></th>{heads}</tr>'
    table = scrolling(say("Results"), f'<table class="main"><thead>{head}</thead><tbody>{rows}</tbody></table>')
    return f'{table}<p class="caption main-caption">{_caption(comparison, quality)}</p>'


def _direction(column: Column) -> str:
    """Says so where less is better, which readers of quality do not expect; of costs they do."""
    return say("lower is better") if column.lower_is_better and column.judged and column.group != say("Cost") else ""


def _caption(comparison: Comparison, quality: list[Column]) -> str:
    has_intervals = any(ends_of(cell) for column in quality for cell in column.measured())
    sentences = []
    if len(comparison.systems) > 1:
        sentences.append(say("<b>Bold</b>: best of its column."))
        if has_intervals:
            sentences.append(say("<b>≈</b>: within noise, its interval overlaps that of the best, the shaded band."))
    if has_intervals:
        interval = "Dot and line: value and {confidence} interval, on one scale per column."
        sentences.append(say(interval, confidence=confidence_text(comparison)))
    return say(" ").join(sentences)


def _quality_cells(column: Column) -> list[str]:
    measured, best = column.measured(), column.best()
    ends = [end for cell in measured for end in (_value(cell), *(ends_of(cell) or ()))]
    low, high = min(ends, default=0.0), max(ends, default=0.0)
    shared_coverage = len({(cell.covered, cell.total) for cell in measured}) == 1

    def place(value: float) -> float:
        if high == low:
            return INTERVAL_WIDTH / 2
        return round(3 + (INTERVAL_WIDTH - 6) * (value - low) / (high - low), 1)

    def more(cell: Measure) -> str:
        text = ""
        interval, band = ends_of(cell), ends_of(best) if best is not None else None
        if interval:
            if band:
                start, end = place(band[0]), place(band[1])
                text = f'<rect class="band" x="{start}" y="-2" width="{end - start:.1f}" height="14"/>'
            text += f'<line class="whisker" x1="{place(interval[0])}" x2="{place(interval[1])}" y1="5" y2="5"/>'
            text += f'<circle class="dot" cx="{place(_value(cell))}" cy="5" r="3"/>'
            text = _drawing(INTERVAL_WIDTH, text) + small(" – ".join(map(column.text, interval)))
        if cell.difference is not None:
            change = cell.difference.value
            text += small(f"Δ {'+' if change > 0 else ''}{column.text(change)}, p = {cell.difference.p_value:.2g}")
        if cell.covered is not None and cell.total is not None and not shared_coverage:
            text += small(say("{covered} of {total} covered", covered=f"{cell.covered:,}", total=f"{cell.total:,}"))
        return text

    return _cells(column, more)


def _cost_cells(column: Column) -> list[str]:
    most = max(map(_value, column.measured())) or 1.0

    def more(cell: Measure) -> str:
        width = max(1.0, BAR_WIDTH * _value(cell) / most)
        return _drawing(BAR_WIDTH, f'<rect class="bar" x="0" y="3.5" width="{width:.1f}" height="3"/>')

    return _cells(column, more)


def _cells(column: Column, more: Callable[[Measure], str]) -> list[str]:
    spoken = {"best": say(", best"), "noise": say(", within noise of the best")}
    cells = []
    for cell, mark in zip(column.cells, column.marks(), strict=True):
        if cell is None:
            cells.append('<td class="none">–</td>')
            continue
        value = f'<span class="value">{column.text(_value(cell))}</span>'
        value += f'<span class="unseen">{spoken[mark]}</span>' if mark else ""
        cells.append(f'<td class="{mark}" data-sort="{_value(cell)!r}">{value}{more(cell)}</td>')
    return cells


def section_tables(comparison: Comparison) -> str:
    """Returns a folded table for each measure with parts: sections as rows, systems as columns."""
    systems = comparison.systems
    heads = "".join(f'<th scope="col">{escape(system.name)}</th>' for system in systems)
    tables = []
    divided = list(dict.fromkeys((m.kind, m.name) for system in systems for m in system.measures if m.parts))
    for kind, name in divided:
        found = [_find(system.measures, kind, name) for system in systems]
        parts = [measure.parts if measure is not None else [] for measure in found]
        rows = ""
        for part_kind, part in dict.fromkeys((part.kind, part.name) for own in parts for part in own):
            column = _quality_column(kind_of(comparison, part_kind), part_kind, part, parts)
            cells = "".join(_cells(column, lambda _: ""))
            shown = part if kind == "classification" else say(part)  # labels are the user's
            rows += f'<tr><th scope="row">{escape(shown)}{small(column.note)}</th>{cells}</tr>'
        several = len({other for other, known in divided if known == name}) > 1
        title = say("{name} by section", name=_named(comparison, name, kind) if several else name)
        head = f'<tr><th scope="col">{say("Section")}</th>{heads}</tr>'
        table = scrolling(title, f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>")
        tables.append(f'<details class="parts"><summary>{escape(title)}</summary>{table}</details>')
    return "".join(tables)


def _drawing(width: int, shapes: str) -> str:
    return f'<svg width="{width}" height="10" viewBox="0 0 {width} 10" aria-hidden="true">{shapes}</svg>'
