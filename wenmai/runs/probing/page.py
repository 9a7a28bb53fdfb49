"""The page of probes: a comparison whose charts go from layer to layer."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from wenmai.runs.compare import described, written
from wenmai.runs.comparison import Comparison, Kind, LinePoint, Measure, Panel
from wenmai.runs.probing.results import LayerProbe, SetProbe
from wenmai.training.run import Run

__all__ = ["compared", "write_page"]

_KINDS = {
    "layer probe": Kind(
        title="Probes of the best layer, %",
        about="is how well logistic regression on the states of one layer labels what it has not seen: the F1 of named "
        "entities, else the accuracy. The layer was chosen on other examples.",
        percent=True,
    )
}


def write_page(runs: Sequence[Run], results: Sequence[SetProbe], folder: Path, command: str) -> Path:
    """Writes ``comparison.json`` and ``report.html`` into a folder; returns the report.

    Raises:
        RunError: if they cannot be written.
    """
    return written(compared(described(runs, command, kinds=_KINDS, own_tokens=True), results), folder)


def compared(comparison: Comparison, results: Sequence[SetProbe]) -> Comparison:
    """Returns a comparison of the runs with the probes: a measure for each set, and panels by layer."""
    panels: dict[str, Panel] = {}
    systems = []
    deepest = max(len(one.layers) for one in results) - 1
    for system in comparison.systems:
        own = [one for one in results if one.system == system.name]
        lines = dict[str, list[LinePoint]]()
        for one in own:
            score, more = f"probe {one.dataset}", f"selectivity {one.dataset}"
            panels[score] = Panel(
                section="Probes by layer",
                title=f"Probes of each layer on {one.dataset}: {one.metric}",
                axis="Layer, 0 what the first one reads",
                unit="layers up",
                caption="The same logistic regression on the states of each layer. A level line is of a model with one "
                "vector for each word. Point at the panel to read values and their intervals.",
                whole=True,
            )
            lines[score] = _line(one, [(layer, layer.score) for layer in one.layers], deepest)
            if any(layer.selectivity is not None for layer in one.layers):
                panels[more] = Panel(
                    section="Probes by layer",
                    title=f"Selectivity of each layer on {one.dataset}",
                    axis="Layer, 0 what the first one reads",
                    unit="layers up",
                    caption="Accuracy minus that of the same probe on random labels, "
                    "which each word type has, or each training text. Where it is low, the probe has so much capacity "
                    "of its own that its accuracy says little about the states.",
                    whole=True,
                )
                lines[more] = _line(one, [(layer, layer.selectivity) for layer in one.layers], deepest)
        systems.append(replace(system, measures=[_measure(one) for one in own], lines=lines))
    return replace(comparison, systems=systems, panels=panels)


def _line(one: SetProbe, values: Sequence[tuple[LayerProbe, float | None]], deepest: int) -> list[LinePoint]:
    """The points of a line; one layer alone is a level line."""
    points = [LinePoint(x=layer.layer, y=value, note=_note(layer)) for layer, value in values]
    return [*points, replace(points[0], x=deepest)] if len(points) == 1 and deepest else points


def _note(layer: LayerProbe) -> str:
    return "" if layer.low is None or layer.high is None else f"[{layer.low:.3f}, {layer.high:.3f}]"


def _measure(one: SetProbe) -> Measure:
    return replace(
        _layer_measure(one.layers[one.best], one.dataset),
        total=one.measured,
        parts=[_layer_measure(layer, f"layer {layer.layer}") for layer in one.layers] if len(one.layers) > 1 else [],
    )


def _layer_measure(layer: LayerProbe, name: str) -> Measure:
    return Measure(name=name, kind="layer probe", value=layer.score, low=layer.low, high=layer.high)
