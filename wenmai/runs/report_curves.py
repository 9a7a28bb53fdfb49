"""What the script of a report draws: the comparison as JSON, its curves smoothed and thinned."""

import math
from itertools import pairwise
from typing import Any

from wenmai.runs.page import json_in_script

__all__ = ["script_data"]

MOST_CURVE_POINTS = 300  # per system: more than a screen can resolve
_EPOCHS_TO_SMOOTH = 4  # with fewer, a mean over an epoch hides what happens in it
_FEWEST_TO_SMOOTH = 20  # points of a curve
_ROUNDING = 1e-9  # of the progress: what stands an epoch before is left out, so that the mean is over a whole one
_RESTLESS = 3  # times the way from the lowest loss to the highest


def script_data(stored: dict[str, Any]) -> str:
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
