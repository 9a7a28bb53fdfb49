"""The charts of a comparison as SVG files: for slides, papers and README files.

A chart has no background, and its greys and colours are read on white and on black pages; text stays text.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from wenmai.core.folder import writing
from wenmai.core.wording import say
from wenmai.runs.comparison import ComparedSystem, Comparison, Measure

__all__ = ["charts", "write_charts"]

COLOURS = ("#2f81c9", "#d97a1f", "#b5496b", "#1a9b84", "#7f6bc4", "#7a828b")
INK, FAINT = "#747c85", "#747c8540"
WIDTH, HEIGHT = 640, 360
LEFT, TOP, BOTTOM = 56, 40, 48
FONT = "Inter, 'Helvetica Neue', 'Segoe UI', Roboto, 'PingFang SC', 'Microsoft YaHei', 'Noto Sans CJK SC', sans-serif"
MOST_POINTS = 300


@dataclass(frozen=True)
class _Line:
    """One system of a chart: its place in the comparison, its name, and its points from left to right."""

    place: int
    name: str
    points: Sequence[tuple[float, float]]


def write_charts(comparison: Comparison, folder: str | Path) -> list[Path]:
    """Writes each chart of a comparison as an SVG file; returns the files.

    Raises:
        OSError: if the folder cannot be written.
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    written = []
    for name, drawing in charts(comparison).items():
        path = Path(folder) / f"{name}.svg"
        with writing(path) as file:
            file.write(drawing.encode("utf-8", "replace"))
        written.append(path)
    return written


def charts(comparison: Comparison) -> dict[str, str]:
    """Returns the charts of a comparison as SVG by name: measures, learning curves, and the panels of the report."""
    systems, found = comparison.systems, dict[str, str]()
    for title, measures in comparison.columns(spoken=True).items():
        known = [(place, one) for place, one in enumerate(measures) if one is not None and one.value is not None]
        if len(known) > 1:
            found[_file_name(title)] = _dots(title, [(place, systems[place].name, one) for place, one in known])
    for kind in dict.fromkeys(system.loss_kind for system in systems):
        lines = [
            _Line(place, system.name, _curve(system))
            for place, system in enumerate(systems)
            if system.loss_kind == kind and len(_curve(system)) > 1
        ]
        if lines:
            title = f"{say('Loss')}, {say(kind)}" if kind else say("Loss")
            found[_file_name(f"loss {kind}")] = _lines(title, say("Training done, %"), lines)
    for name, panel in comparison.panels.items():
        lines = [
            _Line(place, system.name, [(one.x, one.y) for one in system.lines.get(name, ()) if one.y is not None])
            for place, system in enumerate(systems)
        ]
        if any(len(line.points) > 1 for line in lines):
            title, axis = say(panel.title), say(panel.axis)
            found[_file_name(name)] = _lines(title, axis, [one for one in lines if one.points], log=panel.log)
    return found


def _curve(system: ComparedSystem) -> list[tuple[float, float]]:
    points = [(100 * point.progress, point.loss) for point in system.curve if point.loss is not None]
    return points[:: -(-len(points) // MOST_POINTS)] if points else []


def _lines(title: str, axis: str, lines: Sequence[_Line], *, log: bool = False) -> str:
    """Draws lines with their names at their right ends."""
    right = WIDTH - 24 - 7 * max(len(line.name) for line in lines)
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for _, y in line.points]
    across = _scale(min(xs), max(xs), LEFT, right, log=log)
    low, high = _padded(ys)
    up = _scale(low, high, HEIGHT - BOTTOM, TOP)
    shapes = [_text(0, 18, title, size=15, weight=600), _text(right, HEIGHT - 10, axis, anchor="end")]
    for tick in _ticks(low, high):
        shapes += [_rule(LEFT, right, up(tick)), _text(LEFT - 8, up(tick) + 4, f"{tick:g}", anchor="end")]
    for tick in _powers(min(xs), max(xs)) if log else _ticks(min(xs), max(xs)):
        shapes.append(_text(across(tick), HEIGHT - BOTTOM + 18, f"{tick:g}", anchor="middle"))
    places = _spread([up(line.points[-1][1]) for line in lines])
    for line, y in zip(lines, places, strict=True):
        colour, path = (
            COLOURS[line.place % len(COLOURS)],
            " ".join(f"{across(x):.1f},{up(v):.1f}" for x, v in line.points),
        )
        dashes = f' stroke-dasharray="{6 // (line.place // len(COLOURS))} 3"' if line.place >= len(COLOURS) else ""
        shapes.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        shapes.append(_text(across(line.points[-1][0]) + 8, y + 4, line.name, colour=colour))
    return _drawing(HEIGHT, title, shapes)


def _dots(title: str, measures: Sequence[tuple[int, str, Measure]]) -> str:
    """Draws a row for each system: its value, and its interval as a line."""
    left, right, height = 16 + 7 * max(len(name) for _, name, _ in measures), WIDTH - 70, 26
    ends = [end for _, _, one in measures for end in (one.value, one.low, one.high) if end is not None]
    low, high = _padded(ends)
    across, bottom = _scale(low, high, left, right), TOP + height * len(measures)
    direction = say("lower is better") if any(one.lower_is_better for _, _, one in measures) else ""
    shapes = [_text(0, 18, title, size=15, weight=600), _text(WIDTH, 18, direction, anchor="end")]
    for tick in _ticks(low, high):
        shapes.append(f'<path d="M{across(tick):.1f} {TOP - 6}V{bottom}" stroke="{FAINT}"/>')
        shapes.append(_text(across(tick), bottom + 18, f"{tick:g}", anchor="middle"))
    for row, (place, name, one) in enumerate(measures):
        y, value, colour = TOP + height * (row + 0.5), one.value or 0.0, COLOURS[place % len(COLOURS)]
        if one.low is not None and one.high is not None:
            ends_path = f"M{across(one.low):.1f} {y}H{across(one.high):.1f}"
            shapes.append(f'<path d="{ends_path}" stroke="{colour}" stroke-width="2"/>')
        shapes.append(f'<circle cx="{across(value):.1f}" cy="{y}" r="5" fill="{colour}"/>')
        shapes += [_text(left - 10, y + 4, name, anchor="end"), _text(right + 12, y + 4, f"{value:.3f}")]
    return _drawing(bottom + 30, title, shapes)


def _drawing(height: float, title: str, shapes: Sequence[str]) -> str:
    begun = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" role="img"'
    body = "\n".join(shapes)
    return f'{begun} font-family="{FONT}" font-size="13">\n<title>{escape(title)}</title>\n{body}\n</svg>\n'


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", size: int = 13, weight: int = 400, colour: str = INK
) -> str:
    if not text:
        return ""
    style = f'font-size="{size}" font-weight="{weight}" fill="{colour}" text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'


def _rule(left: float, right: float, y: float) -> str:
    return f'<path d="M{left} {y:.1f}H{right}" stroke="{FAINT}"/>'


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
    return re.sub(r"[^\w.]+", "-", title).strip("-.").lower() or "chart"
