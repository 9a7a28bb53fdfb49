"""The charts of a comparison as files, SVG or PNG: for slides, papers and README files."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count, takewhile
from pathlib import Path
from typing import TypeGuard

from wenmai.core.columns import text_width
from wenmai.core.folder import make_folder, writing
from wenmai.core.wording import say
from wenmai.runs.by_task import FIGURES, drawn_by_task, task_places
from wenmai.runs.comparison import ComparedSystem, Comparison, Measure
from wenmai.runs.drawing import Dot, Drawing, Line, Text, require_picture

__all__ = ["charts", "write_charts"]

COLOURS = ("#2f81c9", "#d97a1f", "#b5496b", "#1a9b84", "#7f6bc4", "#7a828b")
WIDTH, HEIGHT = 640, 360
LEFT, TOP, BOTTOM = 56, 40, 48
MOST_POINTS = 300
_LONGEST_NAME = 200  # bytes of a file, of 255 that systems take, beside a number and an ending
_MOST_COLUMNS = 40  # of a name, which a terminal would show in as many; some 280 pixels


@dataclass(frozen=True)
class _Curve:
    """One system of a chart: its place in the comparison, its name, and its points from left to right."""

    place: int
    name: str
    points: Sequence[tuple[float, float]]


def write_charts(comparison: Comparison, folder: str | Path, form: str = "svg") -> list[Path]:
    """Writes each chart of a comparison as a file; returns the files.

    Raises:
        SettingError: if ``form`` is neither ``svg`` nor ``png``, or is ``png`` and matplotlib is not installed.
        OSError: if the folder cannot be written.
    """
    require_picture(form)
    make_folder(Path(folder))
    written = []
    for name, drawing in charts(comparison).items():
        path = Path(folder) / f"{name}.{form}"
        content = drawing.png() if form == "png" else drawing.svg().encode("utf-8", "replace")
        with writing(path) as file:
            file.write(content)
        written.append(path)
    return written


def charts(comparison: Comparison) -> dict[str, Drawing]:
    """Returns the charts of a comparison by name: measures, learning curves, tasks, and the panels of the report."""
    names = _short([system.name for system in comparison.systems])
    systems = [replace(system, name=name) for system, name in zip(comparison.systems, names, strict=True)]
    found = dict[str, Drawing]()

    def add(title: str, drawing: Drawing) -> None:
        """Titles that differ in signs alone have one name for a file, so the second gets a number."""
        name = _file_name(title)
        names = (f"{name}-{number}" if number > 1 else name for number in count(1))
        found[next(name for name in names if name not in found)] = drawing

    for title, measures in comparison.columns(spoken=True).items():
        known = [(place, one) for place, one in enumerate(measures) if one is not None and _is_drawn(one.value)]
        if len(known) > 1:
            add(title, _dots(title, [(place, systems[place].name, one) for place, one in known]))
    for kind in dict.fromkeys(system.loss_kind for system in systems):
        lines = [
            _Curve(place, system.name, _curve(system))
            for place, system in enumerate(systems)
            if system.loss_kind == kind and len(_curve(system)) > 1
        ]
        if lines:
            title = f"{say('Loss')}, {say(kind)}" if kind else say("Loss")
            add(f"loss {kind}", _lines(title, say("Training done, %"), lines))
    places = task_places(systems)
    for system in systems:
        for figure, tasks in drawn_by_task(system).items():
            title = say("{figure} by task, {name}", figure=say(FIGURES[figure]), name=system.name)
            lines = [_Curve(places[task], task, points) for task, points in tasks.items()]
            add(f"{figure} by task {system.name}", _lines(title, say("Updates"), lines, whole=True))
    for name, panel in comparison.panels.items():
        lines = [
            _Curve(place, system.name, [(one.x, one.y) for one in system.lines.get(name, ()) if one.y is not None])
            for place, system in enumerate(systems)
        ]
        if any(len(line.points) > 1 for line in lines):
            title, axis = say(panel.title), say(panel.axis)
            lines = [one for one in lines if one.points]
            add(name, _lines(title, axis, lines, log=panel.log, whole=panel.whole))
    return found


def _is_drawn(value: float | None) -> TypeGuard[float]:
    """Whether there is a value that has a place; a probability of 0 makes a loss infinite."""
    return value is not None and math.isfinite(value)


def _curve(system: ComparedSystem) -> list[tuple[float, float]]:
    points = [(100 * point.progress, point.loss) for point in system.curve if _is_drawn(point.loss)]
    if len(points) <= MOST_POINTS:
        return points
    return [*points[: -1 : -(-len(points) // (MOST_POINTS - 1))], points[-1]]


def _lines(title: str, axis: str, lines: Sequence[_Curve], *, log: bool = False, whole: bool = False) -> Drawing:
    """Draws lines with their names at their right ends."""
    right = WIDTH - 24 - 7 * max(text_width(line.name) for line in lines)
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for _, y in line.points]
    across = _scale(min(xs), max(xs), LEFT, right, log=log)
    low, high = _padded(ys)
    up = _scale(low, high, HEIGHT - BOTTOM, TOP)
    shapes: list[Line | Dot | Text] = [_title(title), Text(x=right, y=HEIGHT - 10, text=axis, anchor="end")]
    for tick in _ticks(low, high):
        shapes.append(Line(points=[(LEFT, up(tick)), (right, up(tick))]))
        shapes.append(Text(x=LEFT - 8, y=up(tick) + 4, text=f"{tick:g}", anchor="end"))
    for tick in _powers(min(xs), max(xs)) if log else _ticks(min(xs), max(xs)):
        if whole and tick != int(tick):
            continue
        shapes.append(Text(x=across(tick), y=HEIGHT - BOTTOM + 18, text=f"{tick:g}", anchor="middle"))
    places = _spread([up(line.points[-1][1]) for line in lines])
    for line, y in zip(lines, places, strict=True):
        colour, rounds = COLOURS[line.place % len(COLOURS)], line.place // len(COLOURS)
        points = [(across(x), up(value)) for x, value in line.points]
        shapes.append(Line(points=points, colour=colour, width=2, dashes=(6 // rounds, 3) if rounds else ()))
        shapes.append(Text(x=points[-1][0] + 8, y=y + 4, text=line.name, colour=colour))
    return Drawing(width=WIDTH, height=HEIGHT, title=title, shapes=shapes)


def _dots(title: str, measures: Sequence[tuple[int, str, Measure]]) -> Drawing:
    """Draws a row for each system: its value, and its interval as a line."""
    left, right, height = 16 + 7 * max(text_width(name) for _, name, _ in measures), WIDTH - 70, 26
    ends = [end for _, _, one in measures for end in (one.value, one.low, one.high) if end is not None]
    low, high = _padded(ends)
    across, bottom = _scale(low, high, left, right), TOP + height * len(measures)
    shapes: list[Line | Dot | Text] = [_title(title)]
    if any(one.lower_is_better for _, _, one in measures):
        shapes.append(Text(x=WIDTH, y=18, text=say("lower is better"), anchor="end"))
    for tick in _ticks(low, high):
        shapes.append(Line(points=[(across(tick), TOP - 6), (across(tick), bottom)]))
        shapes.append(Text(x=across(tick), y=bottom + 18, text=f"{tick:g}", anchor="middle"))
    for row, (place, name, one) in enumerate(measures):
        y, value, colour = TOP + height * (row + 0.5), one.value or 0.0, COLOURS[place % len(COLOURS)]
        if one.low is not None and one.high is not None:
            shapes.append(Line(points=[(across(one.low), y), (across(one.high), y)], colour=colour, width=2))
        shapes.append(Dot(x=across(value), y=y, radius=5, colour=colour))
        shapes.append(Text(x=left - 10, y=y + 4, text=name, anchor="end"))
        shapes.append(Text(x=right + 12, y=y + 4, text=f"{value:.3f}"))
    return Drawing(width=WIDTH, height=bottom + 30, title=title, shapes=shapes)


def _short(names: Sequence[str]) -> list[str]:
    """Returns names that leave half of a chart for what is drawn: without their middles, if these do not differ."""
    without_middles: dict[str, list[str]] = {}
    for name in names:
        without_middles.setdefault(_cut(name, middle=True), []).append(name)
    found: dict[str, str] = {}
    for short, alike in without_middles.items():
        shared = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, zip(*alike, strict=False)))
        start = shared - _MOST_COLUMNS // 4  # a little before they differ
        found |= {name: short if len(alike) == 1 else _cut(f"…{name[start:]}", middle=False) for name in alike}
    return [found[name] for name in names]


def _cut(name: str, *, middle: bool) -> str:
    kept = len(name) * _MOST_COLUMNS // max(1, text_width(name))
    if kept >= len(name):
        return name
    return f"{name[: kept // 2]}…{name[-(kept // 2) :]}" if middle else f"{name[:kept]}…"


def _title(text: str) -> Text:
    return Text(x=0, y=18, text=text, size=15, weight=600)


def _scale(low: float, high: float, start: float, end: float, *, log: bool = False) -> Callable[[float], float]:
    """Returns where a value stands between two places."""
    if log:
        low, high = math.log(low), math.log(high)
    size = (high - low) or 1.0
    return lambda value: start + (end - start) * ((math.log(value) if log else value) - low) / size


def _padded(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    pad = 0.06 * ((high - low) or abs(high) or 1.0)
    return low - pad, high + pad


def _ticks(low: float, high: float) -> list[float]:
    """Returns about five round values."""
    rough = (high - low) / 5 or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(number * step, 10) for number in range(first, math.floor(high / step + 1e-9) + 1)]


def _powers(low: float, high: float) -> list[float]:
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [10.0**one * factor for one in exponents for factor in (1, 2, 5) if low <= 10.0**one * factor <= high]


def _spread(places: Sequence[float]) -> list[float]:
    """Moves the names of lines apart where these end close together."""
    found = list(places)
    above = -math.inf
    for index in sorted(range(len(places)), key=lambda one: places[one]):
        above = found[index] = max(places[index], above + 16)
    return found


def _file_name(title: str) -> str:
    name = re.sub(r"[^\w.]+", "-", title).lower().encode()[:_LONGEST_NAME]
    return name.decode(errors="ignore").strip("-.") or "chart"
