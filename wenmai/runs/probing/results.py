"""The results of probes of every layer."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from wenmai.core.columns import in_columns
from wenmai.core.showing import Table, Tabled
from wenmai.core.wording import say

__all__ = ["LayerProbe", "Probing", "SetProbe"]


@dataclass(frozen=True, kw_only=True)
class LayerProbe:
    """A probe of one layer.

    Attributes:
        layer: From 0, which is what the first layer reads; of word vectors 0.
        accuracy: Proportion of the texts, pairs or words that are labelled correctly.
        f1: Of entities the F1 of them; else None.
        low: 95 % bootstrap interval of the F1, or where there is none of the accuracy, from ...
        high: ... to.
        control: Accuracy of the same probe on its control task: of tags, on random tags that each word type has; else
            on random labels of the training examples themselves, so how many of them it has learnt by heart. None if
            it was left out.
        selectivity: ``accuracy`` minus ``control``.
        chosen: Accuracy on the examples that penalty and layer were chosen by.
    """

    layer: int
    accuracy: float
    f1: float | None = None
    low: float | None
    high: float | None
    control: float | None = None
    selectivity: float | None = None
    chosen: float

    @property
    def score(self) -> float:
        """F1 of entities, else accuracy."""
        return self.accuracy if self.f1 is None else self.f1


@dataclass(frozen=True, kw_only=True)
class SetProbe:
    """The probes of all layers of a run on one set.

    Attributes:
        run: The run folder.
        system: What the run is called among the others.
        dataset: The set.
        task: ``classification``, ``pair`` or ``tagging``.
        layers: A probe for each layer; of word vectors one.
        static: Whether each word has one vector in every context.
        best: The layer that was most accurate on the examples to choose by, which are not those of ``accuracy``.
        strength: The penalty, as scikit-learn's C; the same for all probes of the set.
        majority: Accuracy of always naming the most frequent label of the training examples.
        trained: Examples that probes were trained on; of tagging sentences.
        available: Training examples that there are.
        measured: Examples that were measured on.
        covered: Of word vectors, the proportion of the words measured on that have one.
        note: What else to know, or nothing.
        left_out: What was left out of the set or repaired, one sentence for each reason.
    """

    run: str
    system: str
    dataset: str
    task: str
    layers: tuple[LayerProbe, ...]
    static: bool
    best: int
    strength: float
    majority: float
    trained: int
    available: int
    measured: int
    covered: float | None = None
    note: str = ""
    left_out: tuple[str, ...] = ()

    @property
    def metric(self) -> str:
        """What the score is: ``entity F1`` or ``accuracy``."""
        return "accuracy" if self.layers[0].f1 is None else "entity F1"

    def as_dict(self) -> dict[str, Any]:
        """Returns plain JSON values."""
        return asdict(self) | {"metric": self.metric, "layers": [asdict(layer) for layer in self.layers]}


@dataclass(frozen=True, kw_only=True, repr=False)
class Probing(Tabled):
    """Probes of several runs on several sets; ``str()`` is what the command line prints.

    Attributes:
        results: A result for each set and run.
        report: The page that was written, or None.
    """

    results: tuple[SetProbe, ...]
    report: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Returns plain JSON values."""
        return {"results": [one.as_dict() for one in self.results], "report": self.report}

    @property
    def notes(self) -> list[str]:
        """What else to know, one sentence each."""
        sampled = {one.dataset: one for one in self.results if one.trained < one.available}
        notes = [
            f"{one.dataset}: trained on {one.trained:,} of {one.available:,} examples, drawn at random (limit)"
            for one in sampled.values()
        ]
        notes += dict.fromkeys(f"{one.dataset}: {reason}" for one in self.results for reason in one.left_out)
        return notes + [f"{one.system} on {one.dataset}: {one.note}" for one in self.results if one.note]

    def table(self) -> Table:
        """Returns a row for each layer of each run on each set."""
        return Table.of([_row(one, layer) for one in self.results for layer in one.layers])

    def __str__(self) -> str:
        return self.shown()

    def shown(self, *, layers: bool = False) -> str:
        """Returns a table for each set: of each run the best layer, or with ``layers`` all of them."""
        blocks = []
        for dataset in dict.fromkeys(one.dataset for one in self.results):
            results = [one for one in self.results if one.dataset == dataset]
            first = results[0]
            counted = f"{_UNITS[first.task]}: {first.measured:,}"
            head = (
                f"{dataset}: {first.metric} ({counted}); always the most frequent label: accuracy {first.majority:.4f}"
            )
            blocks.append(f"{head}\n{in_columns(_lines(results, every=layers))}")
        return "\n\n".join(blocks)

    def _facts(self) -> dict[str, Any]:
        return {"results": len(self.results), "report": self.report}


_UNITS = {"classification": "texts", "pair": "pairs of texts", "tagging": "sentences"}


def _row(one: SetProbe, layer: LayerProbe) -> dict[str, Any]:
    return {
        "set": one.dataset,
        "system": one.system,
        "layer": layer.layer,
        "best": layer.layer == one.best,
        one.metric: layer.score,
        "low": layer.low,
        "high": layer.high,
        "token accuracy" if one.task == "tagging" else "accuracy": layer.accuracy,
        "control": layer.control,
        "selectivity": layer.selectivity,
        "C": one.strength,
    }


def _lines(results: Sequence[SetProbe], *, every: bool) -> list[list[str]]:
    """The rows of a table that is printed."""
    entities = results[0].layers[0].f1 is not None
    controlled = any(layer.control is not None for one in results for layer in one.layers)
    head = ["system", "layer", results[0].metric, "95 % interval", *(["accuracy"] if entities else [])]
    lines = [[say(one) for one in head + (["control", "selectivity"] if controlled else [])]]
    for one in results:
        for layer in one.layers:
            best = layer.layer == one.best
            if not (best or every):
                continue
            place = (
                say("words") if one.static else f"{layer.layer}" if every else f"{layer.layer}/{len(one.layers) - 1}"
            )
            interval = "" if layer.low is None or layer.high is None else f"[{layer.low:.4f}, {layer.high:.4f}]"
            line = [one.system, place + (" *" if every and best and not one.static else ""), f"{layer.score:.4f}"]
            line += [interval, *([f"{layer.accuracy:.4f}"] if entities else [])]
            if controlled:
                line += ["" if value is None else f"{value:.4f}" for value in (layer.control, layer.selectivity)]
            lines.append(line)
    return lines
