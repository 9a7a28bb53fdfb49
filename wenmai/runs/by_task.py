"""What each task of a training came to at its evaluations: the metrics ``NAME_loss`` and ``NAME_accuracy``.

They are drawn by task if a run has such metrics of several names: a panel for the losses and one for the accuracies,
with a line for each name. The page has their key; the script draws them.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import accumulate
from typing import Any

from wenmai.runs.comparison import ComparedSystem, LinePoint
from wenmai.runs.page import swatch

__all__ = ["FIGURES", "drawn_by_task", "metrics_by_task", "stage_starts", "task_figures", "task_places"]

FIGURES = {"loss": "Loss", "accuracy": "Accuracy"}  # ending of a metric's name: title of its panel

Lines = dict[str, list[LinePoint]]


def metrics_by_task(records: Iterable[Mapping[str, Any]]) -> dict[str, Lines]:
    """Returns the metrics of the evaluations among records.

    Returns:
        For each of :data:`FIGURES` of which there are several names, a line for each name; x is in updates.
    """
    found: dict[str, Lines] = {figure: {} for figure in FIGURES}
    for record in records:
        if record.get("kind") != "evaluation":
            continue
        for metric, value in record.get("figures", {}).items():
            task, _, figure = metric.rpartition("_")
            if task and figure in found:
                point = LinePoint(x=record["position"], y=value)
                found[figure].setdefault(task.replace("_", " "), []).append(point)
    return {figure: lines for figure, lines in found.items() if len(lines) > 1}


def stage_starts(stages: Mapping[str, Sequence[int]], updates: int) -> list[int]:
    """Returns after how many updates each stage but the first begins.

    Args:
        stages: The batches of each task by stage.
        updates: Of the whole training; each has equally many batches.
    """
    sizes = [sum(batches) for batches in zip(*stages.values(), strict=True)]
    return [round(updates * done / sum(sizes)) for done in accumulate(sizes[:-1])]


def drawn_by_task(system: ComparedSystem) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Returns what of :attr:`ComparedSystem.by_task` makes curves: the points of lines that have two and more."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for figure, lines in system.by_task.items():
        known = {task: [(one.x, one.y) for one in points if one.y is not None] for task, points in lines.items()}
        curves = {task: points for task, points in known.items() if len(points) > 1}
        found |= {figure: curves} if curves else {}
    return found


def task_places(systems: Iterable[ComparedSystem]) -> dict[str, int]:
    """Returns a number for each name among the lines of systems, which gives its colour wherever it is drawn."""
    names = dict.fromkeys(task for system in systems for lines in drawn_by_task(system).values() for task in lines)
    return {task: place for place, task in enumerate(names)}


def task_figures(systems: Sequence[ComparedSystem]) -> str:
    """Returns the figures of the page, with the key of each system that has lines; its panels are still empty."""
    places, figures = task_places(systems), ""
    for number, system in enumerate(systems):
        names = dict.fromkeys(task for lines in drawn_by_task(system).values() for task in lines)
        if names:
            key = "".join(f"<li>{swatch(places[name])}<span>{escape(name)}</span></li>" for name in names)
            head = f'<h3>{escape(system.name)}</h3><ul class="legend">{key}</ul>'
            figures += f'<figure data-system="{number}">{head}<div class="beside"></div></figure>'
    return figures
