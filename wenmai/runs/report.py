"""The report of a comparison: one self-contained HTML file.

The table, the notes and the facts are plain HTML, which needs no JavaScript; the script ``page/page.js`` draws the
curves, neighbours and maps from the comparison, which the page holds as JSON. The measures of the systems give the
columns, and the kinds of the comparison their form.
"""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from html import escape
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from wenmai.core.folder import writing
from wenmai.core.quantities import plural
from wenmai.core.wording import say
from wenmai.runs.by_task import task_figures
from wenmai.runs.comparison import ComparedSystem, Comparison, Facts, Kind, Measure, Panel
from wenmai.runs.page import filled, json_in_script, swatch

__all__ = ["report_html", "write_report"]

MOST_CURVE_POINTS = 300  # per system: more than a screen can resolve
_EPOCHS_TO_SMOOTH = 4  # with fewer, a mean over an epoch hides what happens in it
_FEWEST_TO_SMOOTH = 20  # points of a curve
_ROUNDING = 1e-9  # of the progress: what stands an epoch before is left out, so that the mean is over a whole one
_RESTLESS = 3  # times the way from the lowest loss to the highest
INTERVAL_WIDTH = 84  # pixels
BAR_WIDTH = 56


NOTES = {
    "Coverage": "counts the items whose words are all known to the system; scores of word sets leave out the others.",
    "Interval": "comes from drawing the test items again at random, many times: {confidence} of the "
    "draws score inside it. It reflects which items were tested, not how results vary with the training seed.",
    "Difference": "Δ is the metric of a system minus that of {first} on the same test items, and p the chance of a "
    "difference at least as large between systems that do not differ.",
    "Speed": "is the number of corpus words read per second of training, averaged over all epochs.",
    "Time": "is the wall-clock time of training, without encoding the corpus or evaluating.",
    "Memory": "is the largest resident memory of the training process.",
    "Size": "is what the finished model takes on disk.",
    "Cost": "is that of one training each, on the machine named below; small differences mean little.",
}


@dataclass(frozen=True, kw_only=True)
class _Column:
    """One column of a table: its cells in the order of the systems, ``None`` where nothing was measured."""

    title: str
    group: str
    note: str
    cells: list[Measure | None]
    text: Callable[[float], str]
    lower_is_better: bool
    judged: bool = True

    def measured(self) -> list[Measure]:
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


def write_report(comparison: Comparison, path: str | Path) -> None:
    """Writes the report of a comparison, whole or not at all.

    Args:
        comparison: The comparison; one system makes the report of a single run.
        path: The HTML file to write.

    Raises:
        RunError: if a field of the comparison has the wrong type.
    """
    with writing(path) as file:
        # a lone surrogate in a hand-made word becomes "?"
        file.write(report_html(comparison).encode("utf-8", "replace"))


def report_html(comparison: Comparison) -> str:
    """Returns the report of a comparison as one self-contained HTML page.

    Raises:
        RunError: if a field of the comparison has the wrong type.
    """
    stored = comparison.to_json()
    comparison = _spoken(Comparison.from_json(stored))  # plain Python numbers, and none that is not finite
    quality, cost = _quality_columns(comparison), _cost_columns(comparison.systems)
    return filled(
        "page",
        title=escape(comparison.title or _title(comparison)),
        byline=_byline(comparison),
        abstract=escape(_abstract(comparison, quality)),
        table=_table(comparison, quality, cost),
        sections=_sections(comparison),
        tasks=task_figures(comparison.systems),
        samples=_samples(comparison),
        notes=_notes(comparison, quality, cost),
        confidence=_confidence(comparison),
        map_method=escape(say("Laid out by {method}.", method=comparison.map_method) if comparison.map_method else ""),
        reproduce=_reproduce(comparison),
        data=_data(comparison.to_json()),
    )


def _spoken(comparison: Comparison) -> Comparison:
    """Returns a comparison with its texts in the language of the reader; names stay as they are."""

    def kind(one: Kind) -> Kind:
        return replace(one, title=say(one.title), name=say(one.name), items=say(one.items), about=say(one.about))

    def panel(one: Panel) -> Panel:
        section, title, axis, unit = map(say, (one.section, one.title, one.axis, one.unit))
        return replace(one, section=section, title=title, axis=axis, unit=unit, caption=say(one.caption))

    def system(one: ComparedSystem) -> ComparedSystem:
        lines = {name: [replace(point, note=say(point.note)) for point in points] for name, points in one.lines.items()}
        return replace(one, label=say(one.label), loss_kind=say(one.loss_kind), lines=lines)

    sampled = comparison.sampled
    return replace(
        comparison,
        systems=list(map(system, comparison.systems)),
        kinds={name: kind(one) for name, one in comparison.kinds.items()},
        panels={name: panel(one) for name, one in comparison.panels.items()},
        sampled=sampled and replace(sampled, title=say(sampled.title), caption=say(sampled.caption)),
    )


# The columns


def _quality_columns(comparison: Comparison) -> list[_Column]:
    systems = comparison.systems
    named = dict.fromkeys((measure.kind, measure.name) for system in systems for measure in system.measures)
    kinds = list(dict.fromkeys(kind for kind, _ in named))
    keys = sorted(named, key=lambda key: kinds.index(key[0]))  # stable: columns of a kind stand together
    measures = [system.measures for system in systems]
    return [_quality_column(_kind(comparison, kind), kind, name, measures) for kind, name in keys]


def _quality_column(shown: Kind, kind: str, name: str, measures: list[list[Measure]]) -> _Column:
    found = [_find(own, kind, name) for own in measures]
    cells = [_cell(measure) if measure is not None else None for measure in found]
    return _Column(
        title=name,
        group=shown.title,
        note=_coverage_note(cells, shown.items),
        cells=cells,
        text=_percent if shown.percent else _short if shown.short else _decimal,
        lower_is_better=any(cell.lower_is_better for cell in cells if cell is not None),
        judged=shown.judged,
    )


def _cost_columns(systems: list[ComparedSystem]) -> list[_Column]:
    def column(
        title: str,
        note: str,
        text: Callable[[float], str],
        values: Iterable[float | None],
        lower: bool = True,
    ) -> _Column:
        cells = [_cell(Measure(name=title, kind="cost", value=value)) for value in values]
        return _Column(
            title=say(title), group=say("Cost"), note=note and say(note), cells=cells, text=text, lower_is_better=lower
        )

    columns = [
        column("Speed", "words/s", _short, (system.words_per_second for system in systems), lower=False),
        column("Time", "wall clock", _duration, (system.seconds for system in systems)),
        column("Memory", "peak", _bytes, (system.peak_memory_bytes for system in systems)),
        column("Size", "on disk", _bytes, (system.size_bytes for system in systems)),
    ]
    return [column for column in columns if column.measured()]


def _kind(comparison: Comparison, name: str) -> Kind:
    return comparison.kinds.get(name) or Kind(title=name[:1].upper() + name[1:])


def _named(comparison: Comparison, name: str, kind: str) -> str:
    return f"{name} ({_kind(comparison, kind).name or kind})"


def _find(measures: Iterable[Measure], kind: str, name: str) -> Measure | None:
    return next((measure for measure in measures if (measure.kind, measure.name) == (kind, name)), None)


def _cell(measure: Measure) -> Measure | None:
    return measure if measure.value is not None else None


def _value(measure: Measure) -> float:
    return measure.value if measure.value is not None else math.nan


def _ends(measure: Measure) -> tuple[float, float] | None:
    return (measure.low, measure.high) if measure.low is not None and measure.high is not None else None


def _mark(cell: Measure, best: Measure) -> str:
    if cell.value == best.value:
        return "best"
    one, other = _ends(cell), _ends(best)
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


# The words at the top


def _title(comparison: Comparison) -> str:
    systems = comparison.systems
    what = systems[0].name if len(systems) == 1 else say("{number} systems compared", number=_number(len(systems)))
    return say("{what} on {corpus}", what=what, corpus=_corpus(comparison))


def _corpus(comparison: Comparison) -> str:
    return say(comparison.corpus.name)  # a name, or that there are several


def _byline(comparison: Comparison) -> str:
    corpus = comparison.corpus
    counts = ((corpus.tokens, "token"), (corpus.types, "different word"), (corpus.sentences, "sentence"))
    parts = [comparison.created, *(plural(count, name) for count, name in counts if count is not None)]
    parts += [say("segmentation: {name}", name=corpus.segment)] if corpus.segment else []
    return "".join(f"<span>{escape(part)}</span>" for part in parts if part)


def _abstract(comparison: Comparison, quality: list[_Column]) -> str:
    systems, tokens = comparison.systems, comparison.corpus.tokens
    text = _corpus(comparison)
    if tokens is not None:
        text = say("{tokens} of {corpus}", tokens=plural(tokens, "token"), corpus=text)
    sentences = _trained(systems[0], text) if len(systems) == 1 else _compared(systems, text, tokens is not None)
    contested = [column.marks() for column in quality if column.judged and column.best() is not None]
    if contested:
        wins = [sum(mark != "" for mark in marks) for marks in zip(*contested, strict=True)]
        leaders = [system.name for system, won in zip(systems, wins, strict=True) if won == max(wins)]
        who = _listed(leaders) if len(leaders) < 4 else say("{number} systems", number=len(leaders))
        best = "{who} is best, or within noise of the best, on {measures}."
        best = best if len(leaders) == 1 else "{who} are each best, or within noise of the best, on {measures}."
        sentences.append(say(best, who=who, measures=_of_measures(max(wins), len(contested))))
    timed = sorted((system.words_per_second, system.name) for system in systems if system.words_per_second)
    alike = len({system.loss_kind for system in systems}) == 1  # a word costs unlike systems unlike work
    if alike and len(timed) > 1 and timed[0][0] < timed[-1][0]:
        (slow, last), (fast, first) = timed[0], timed[-1]
        fastest = "The fastest is {first} at {speed} words a second, {times} times as fast as {last}."
        sentences.append(say(fastest, first=first, speed=_short(fast), times=f"{fast / slow:.1f}", last=last))
    return say(" ").join(sentences)


def _trained(system: ComparedSystem, text: str) -> list[str]:
    what = say("{name} ({label})", name=system.name, label=system.label) if system.label else system.name
    facts: dict[str, str] = {"what": what, "text": text}
    sentence = "{what} was trained on {text}"
    if system.seconds is not None:
        sentence, facts["time"] = sentence + " in {time}", _duration(system.seconds)
    if system.words_per_second is not None:
        sentence, facts["speed"] = sentence + ", at {speed} words a second", _short(system.words_per_second)
    return [say(f"{sentence}.", **facts)]


def _compared(systems: list[ComparedSystem], text: str, same: bool) -> list[str]:
    trained = (
        "{number} systems were trained on the same {text}." if same else "{number} systems were trained on {text}."
    )
    return [say(trained, number=_number(len(systems)), text=text)]


def _of_measures(won: int, contested: int) -> str:
    if contested == 1:
        return say("the quality measure")
    if won == contested:
        return say("all {number} quality measures", number=contested)
    return say("{won} of {number} quality measures", won=won, number=contested)


def _number(count: int) -> str:
    words = ["One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten", "Eleven", "Twelve"]
    return say(words[count - 1]) if count <= len(words) else str(count)


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else say("{names} and {last}", names=", ".join(names[:-1]), last=names[-1])


# The main table


def _table(comparison: Comparison, quality: list[_Column], cost: list[_Column]) -> str:
    columns = quality + cost
    group_heads = "".join(
        f'<th class="group" scope="colgroup" colspan="{len(list(same))}"><span>{escape(group)}</span></th>'
        for group, same in groupby(columns, key=lambda column: column.group)
    )
    heads = "".join(
        f'<th scope="col" data-first="{"ascending" if column.lower_is_better else "descending"}">'
        f"<span>{escape(column.title)}</span>{_small(column.note)}{_small(_direction(column))}</th>"
        for column in columns
    )
    cells = [*map(_quality_cells, quality), *map(_cost_cells, cost)]
    rows = "".join(
        f'<tr><th scope="row">{swatch(index)}{escape(system.name)}{_small(system.label)}</th>'
        f"{''.join(column[index] for column in cells)}</tr>"
        for index, system in enumerate(comparison.systems)
    )
    head = f'<tr><td></td>{group_heads}</tr><tr><th scope="col"><span>{say("System")}</span></th>{heads}</tr>'
    table = _scroll(say("Results"), f'<table class="main"><thead>{head}</thead><tbody>{rows}</tbody></table>')
    return f'{table}<p class="caption main-caption">{_caption(comparison, quality)}</p>'


def _direction(column: _Column) -> str:
    """Says so where less is better, which readers of quality do not expect; of costs they do."""
    return say("lower is better") if column.lower_is_better and column.judged and column.group != say("Cost") else ""


def _caption(comparison: Comparison, quality: list[_Column]) -> str:
    has_intervals = any(_ends(cell) for column in quality for cell in column.measured())
    sentences = []
    if len(comparison.systems) > 1:
        sentences.append(say("<b>Bold</b>: best of its column."))
        if has_intervals:
            sentences.append(say("<b>≈</b>: within noise, its interval overlaps that of the best, the shaded band."))
    if has_intervals:
        interval = "Dot and line: value and {confidence} interval, on one scale per column."
        sentences.append(say(interval, confidence=_confidence(comparison)))
    return say(" ").join(sentences)


def _quality_cells(column: _Column) -> list[str]:
    measured, best = column.measured(), column.best()
    ends = [end for cell in measured for end in (_value(cell), *(_ends(cell) or ()))]
    low, high = min(ends, default=0.0), max(ends, default=0.0)
    shared_coverage = len({(cell.covered, cell.total) for cell in measured}) == 1

    def place(value: float) -> float:
        if high == low:
            return INTERVAL_WIDTH / 2
        return round(3 + (INTERVAL_WIDTH - 6) * (value - low) / (high - low), 1)

    def more(cell: Measure) -> str:
        text = ""
        interval, band = _ends(cell), _ends(best) if best is not None else None
        if interval:
            if band:
                start, end = place(band[0]), place(band[1])
                text = f'<rect class="band" x="{start}" y="-2" width="{end - start:.1f}" height="14"/>'
            text += f'<line class="whisker" x1="{place(interval[0])}" x2="{place(interval[1])}" y1="5" y2="5"/>'
            text += f'<circle class="dot" cx="{place(_value(cell))}" cy="5" r="3"/>'
            text = _drawing(INTERVAL_WIDTH, text) + _small(" – ".join(map(column.text, interval)))
        if cell.difference is not None:
            change = cell.difference.value
            text += _small(f"Δ {'+' if change > 0 else ''}{column.text(change)}, p = {cell.difference.p_value:.2g}")
        if cell.covered is not None and cell.total is not None and not shared_coverage:
            text += _small(say("{covered} of {total} covered", covered=f"{cell.covered:,}", total=f"{cell.total:,}"))
        return text

    return _cells(column, more)


def _cost_cells(column: _Column) -> list[str]:
    most = max(map(_value, column.measured())) or 1.0

    def more(cell: Measure) -> str:
        width = max(1.0, BAR_WIDTH * _value(cell) / most)
        return _drawing(BAR_WIDTH, f'<rect class="bar" x="0" y="3.5" width="{width:.1f}" height="3"/>')

    return _cells(column, more)


def _cells(column: _Column, more: Callable[[Measure], str]) -> list[str]:
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


def _sections(comparison: Comparison) -> str:
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
            column = _quality_column(_kind(comparison, part_kind), part_kind, part, parts)
            cells = "".join(_cells(column, lambda _: ""))
            rows += f'<tr><th scope="row">{escape(part)}{_small(column.note)}</th>{cells}</tr>'
        several = len({other for other, known in divided if known == name}) > 1
        title = say("{name} by section", name=_named(comparison, name, kind) if several else name)
        head = f'<tr><th scope="col">{say("Section")}</th>{heads}</tr>'
        table = _scroll(title, f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>")
        tables.append(f'<details class="parts"><summary>{escape(title)}</summary>{table}</details>')
    return "".join(tables)


def _samples(comparison: Comparison) -> str:
    """Returns the sample of each system for each prompt."""
    systems, sampled = comparison.systems, comparison.sampled
    prompts = list(dict.fromkeys(prompt for system in systems for prompt in system.samples))
    if not prompts or sampled is None:
        return ""
    tables = []
    for prompt in prompts:
        begun = f"<b>{escape(prompt)}</b>"
        rows = "" if sampled.continued else _sample_row(say("source"), begun)
        if prompt in sampled.references:
            rows += _sample_row(say("reference"), escape(sampled.references[prompt]))
        for index, system in enumerate(systems):
            if prompt in system.samples:
                text = (begun if sampled.continued else "") + escape(system.samples[prompt])
                rows += _sample_row(f"{swatch(index)}{escape(system.name)}", text)
        tables.append(
            _scroll(
                say("Samples after {prompt}", prompt=prompt), f'<table class="samples"><tbody>{rows}</tbody></table>'
            )
        )
    return (
        f'<section id="samples" aria-labelledby="samples-title"><h2 id="samples-title">{escape(sampled.title)}</h2>'
        f'{"".join(tables)}<p class="caption">{escape(sampled.caption)}</p></section>'
    )


def _sample_row(head: str, text: str) -> str:
    return f'<tr><th scope="row">{head}</th><td class="sample">{text}</td></tr>'


def _notes(comparison: Comparison, quality: list[_Column], cost: list[_Column]) -> str:
    kinds = dict.fromkeys(measure.kind for system in comparison.systems for measure in system.measures)
    shown_kinds = [_kind(comparison, kind) for kind in kinds]
    notes = {re.split("[,，]", kind.title)[0]: kind.about for kind in shown_kinds if kind.about}
    cells = [cell for column in quality for cell in column.measured()]
    shown = {
        "Coverage": any(cell.covered is not None for cell in cells),
        "Interval": any(_ends(cell) for cell in cells),
        "Difference": any(cell.difference is not None for cell in cells),
        "Cost": bool(cost),
        **{name: say(name) in {column.title for column in cost} for name in ("Speed", "Time", "Memory", "Size")},
    }
    values = {"confidence": _confidence(comparison), "first": comparison.systems[0].name}
    notes |= {say(name): say(text, **values) for name, text in NOTES.items() if shown.get(name)}
    items = "".join(f"<li><b>{escape(name)}</b>{say(' ')}{escape(about)}</li>" for name, about in notes.items())
    return f'<ul class="notes">{items}</ul>'


# How to repeat this


def _reproduce(comparison: Comparison) -> str:
    corpus = comparison.corpus
    corpus_facts: Facts = {
        "corpus": say(corpus.name),
        "tokens": corpus.tokens,
        "sentences": corpus.sentences,
        "different tokens": corpus.types,
        "segmentation": corpus.segment,
        "fingerprint": corpus.fingerprint,
        **corpus.facts,
    }
    lists = ""
    for title, facts in (("Corpus", corpus_facts), ("Machine and versions", comparison.machine)):
        known = ((name, value) for name, value in facts.items() if value not in ("", None))
        said = ((name, "; ".join(map(say, _fact(value, name).split("; ")))) for name, value in known)
        rows = "".join(f"<dt>{escape(_fact_name(name))}</dt><dd>{escape(value)}</dd>" for name, value in said)
        lists += f"<div><h3>{say(title)}</h3><dl>{rows}</dl></div>" if rows else ""
    command = (
        f"<h3>{say('Command')}</h3><pre><code>{escape(comparison.command)}</code></pre>" if comparison.command else ""
    )
    return f'{command}<div class="facts">{lists}</div><h3>{say("Settings")}</h3>{_settings(comparison.systems)}'


_CLASSES = {"Changed settings": ' class="settings"'}


def _settings(systems: list[ComparedSystem]) -> str:
    changed = [[_setting(name, value) for name, value in system.settings.items()] for system in systems]
    common = set(changed[0]).intersection(*changed[1:]) if len(systems) > 1 else set()

    def listed(settings: Iterable[str]) -> str:
        return " ".join(f"<code>{escape(setting)}</code>" for setting in settings)

    columns = {
        "Changed settings": [listed(s for s in own if s not in common) or say("defaults") for own in changed],
        "Vocabulary": [_fact(system.vocabulary) for system in systems],
        "Parameters": [_fact(system.parameters) for system in systems],
        "Run": [f"<code>{escape(system.run)}</code>" for system in systems],
    }
    known = {name: cells for name, cells in columns.items() if set(cells) != {"–"}}
    rows = "".join(
        f'<tr><th scope="row">{swatch(index)}{escape(system.name)}</th>'
        + "".join(f"<td{_CLASSES.get(name, '')}>{cells[index]}</td>" for name, cells in known.items())
        + "</tr>"
        for index, system in enumerate(systems)
    )
    heads = "".join(f'<th scope="col">{say(name)}</th>' for name in ("System", *known))
    table = f'<table class="systems"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>'
    everywhere = ""
    if common:
        everywhere = f'<p class="caption">{say("Common to all: {settings}", settings=listed(sorted(common)))}</p>'
    return _scroll(say("Settings"), table) + everywhere


def _setting(name: str, value: str | int | float | bool | None) -> str:
    return f"{name}={str(value).lower() if isinstance(value, bool) else value}"  # as --set takes it


# Pieces of markup; the callers have escaped what they pass in, except for the text of _small and _scroll


def _small(text: str) -> str:
    return f"<small>{escape(text)}</small>" if text else ""


def _scroll(label: str, table: str) -> str:
    return f'<div class="scroll" role="region" aria-label="{escape(label)}" tabindex="0">{table}</div>'


def _drawing(width: int, shapes: str) -> str:
    return f'<svg width="{width}" height="10" viewBox="0 0 {width} 10" aria-hidden="true">{shapes}</svg>'


# Numbers


def _confidence(comparison: Comparison) -> str:
    return f"{100 * comparison.confidence:g}\N{NO-BREAK SPACE}%"


def _decimal(value: float) -> str:
    return f"{value:.{3 if abs(value) < 10 else 1}f}".replace("-", "−")


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _short(value: float) -> str:
    for unit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit * 0.9995:
            return f"{value / unit:.3g}\N{NO-BREAK SPACE}{name}"
    return f"{value:.3g}"


def _bytes(value: float) -> str:
    return f"{_short(value)}B" if value >= 999.5 else f"{_short(value)}\N{NO-BREAK SPACE}B"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if seconds < 99.5:
        text = f"{seconds:.3g} s"
    else:
        text = f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def _fact_name(name: str) -> str:
    return say(name.removesuffix("_bytes").replace("_", " "))


def _fact(value: str | int | float | bool | None, name: str = "") -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return say("yes") if value else say("no")
    if isinstance(value, int):
        return _bytes(value) if name.endswith("_bytes") else f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value)


# The data of the script


def _data(stored: dict[str, Any]) -> str:
    """Returns the comparison as JSON that can stand in a script element, curves thinned, numbers rounded."""
    systems = [
        {**system, "curve": _thinned(_smoothed(system["curve"])), "by_task": _thinned_lines(system["by_task"])}
        for system in stored["systems"]
    ]
    return json_in_script(_rounded({**stored, "systems": systems}))


def _smoothed(curve: list[Any]) -> list[Any]:
    """Adds a moving ``mean`` to each loss of a curve that goes up and down more than it goes anywhere.

    The parts of a text or of a table of counts are not equally hard, which draws the same teeth in every epoch: the
    mean is over an epoch, half of it before and half after; where there are few epochs, over a tenth of the training.
    """
    known = [point for point in curve if point["loss"] is not None]
    losses = [point["loss"] for point in known]
    travelled = math.fsum(abs(later - earlier) for earlier, later in pairwise(losses))
    if len(known) < _FEWEST_TO_SMOOTH or travelled < _RESTLESS * (max(losses) - min(losses)):
        return curve
    epochs = max(point["epoch"] or 0 for point in known)
    half = 0.5 / epochs if epochs >= _EPOCHS_TO_SMOOTH else 0.05
    means, first, end, total = [], 0, 0, 0.0
    for point in known:
        while end < len(known) and known[end]["progress"] <= point["progress"] + half + _ROUNDING:
            total += losses[end]
            end += 1
        while known[first]["progress"] <= point["progress"] - half + _ROUNDING:
            total -= losses[first]
            first += 1
        means.append(total / (end - first))
    smooth = iter(means)
    return [point if point["loss"] is None else {**point, "mean": next(smooth)} for point in curve]


def _thinned_lines(by_task: dict[str, Any]) -> dict[str, Any]:
    return {figure: {task: _thinned(points) for task, points in lines.items()} for figure, lines in by_task.items()}


def _thinned(curve: list[Any]) -> list[Any]:
    if len(curve) <= MOST_CURVE_POINTS:
        return curve
    last = len(curve) - 1
    return [curve[round(index * last / (MOST_CURVE_POINTS - 1))] for index in range(MOST_CURVE_POINTS)]


def _rounded(value: Any) -> Any:  # noqa: ANN401  any JSON value
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
