"""Evaluate fine-tuned models that are no classifiers: taggers, answers to questions, choices and numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wenmai.measures.bootstrap import percentile_interval
from wenmai.runs.comparison import Comparison, Kind, Measure
from wenmai.runs.measuring.classification import check
from wenmai.runs.measuring.examples import read_examples
from wenmai.runs.measuring.measurer import Evaluation, Measurer, Progress, Turns, title_of, unwatched
from wenmai.training.run import Run

__all__ = ["ANSWERERS", "CHOOSERS", "RATERS", "TAGGERS", "FineTunedEvaluation"]


@dataclass(frozen=True, kw_only=True, repr=False)
class FineTunedEvaluation(Evaluation):
    """The evaluation on a test set.

    Attributes:
        on: The test set.
        examples: How many examples it has.
        metrics: The metrics by name, the first the one that counts.
        low: 95 % bootstrap interval of that one, from ...
        high: ... to.
    """

    on: str
    examples: int
    metrics: Mapping[str, float]
    low: float | None
    high: float | None

    @property
    def main(self) -> str:
        """The metric that counts."""
        return next(iter(self.metrics))

    def as_dict(self) -> dict[str, Any]:
        """Returns plain JSON values; the metrics are at the top."""
        interval = {f"{self.main}_low": self.low, f"{self.main}_high": self.high}
        return {"run": self.run, "on": self.on, "examples": self.examples, **self.metrics, **interval}

    def __str__(self) -> str:
        first, *others = (f"{name} {value:.4f}" for name, value in self.metrics.items())
        interval = "" if self.low is None else f" [{self.low:.4f}, {self.high:.4f}]"
        return "  ".join([first + interval, *others, f"({self.examples:,} examples)"])


def evaluate(run: Run, *, on: Any) -> FineTunedEvaluation:  # noqa: ANN401  whatever names or holds examples
    """Evaluates a fine-tuned model on labelled examples.

    Args:
        run: A finished run.
        on: Examples, as for training.

    Raises:
        RunError: if the run is not finished.
        CorpusError: if the test set cannot be read, or has a label that the model does not know.
    """
    return _evaluated(run, run.model, on)


def _evaluated(run: Run, model: Any, on: Any) -> FineTunedEvaluation:  # noqa: ANN401
    examples = read_examples(run, on)
    items = model.items([model.gold(example) for example in examples])
    outputs = model.outputs(items)
    tallies = model.tallies(examples, items, outputs)
    metrics = model.metrics(tallies)
    main = model.best_by if model.best_by in metrics else next(iter(metrics))

    def values(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        repeated = (tallies.repeat(row.astype(np.int64), 0) for row in weights)
        return np.array([model.metrics(some).get(main, np.nan) for some in repeated])

    low, high = percentile_interval(values, len(examples))
    return FineTunedEvaluation(
        run=str(run.path),
        on=str(on) if isinstance(on, str | Path) else "examples from Python",
        examples=len(examples),
        metrics={main: metrics[main], **metrics},
        low=low,
        high=high,
    )


def compare(
    runs: Sequence[Run], comparison: Comparison, *, on: Sequence[str] = (), kind: str, progress: Progress = unwatched
) -> Comparison:
    """Compares the metric that counts on test sets."""
    systems, turns = [], Turns(progress, runs=len(runs), sets=len(on))
    for run, system in zip(runs, comparison.systems, strict=True):
        model, measures = run.read_model(), []
        for name in on:
            turns.begin(name, system.name)
            found = _evaluated(run, model, name)
            value = found.metrics[found.main]
            measures.append(Measure(name=title_of(name), kind=kind, value=value, low=found.low, high=found.high))
        systems.append(replace(system, measures=measures))
    return replace(comparison, systems=systems)


def _measurer(models: str, kind: str, shown: Kind) -> Measurer:
    def compared(
        runs: Sequence[Run], comparison: Comparison, *, on: Sequence[str] = (), progress: Progress = unwatched
    ) -> Comparison:
        return compare(runs, comparison, on=on, kind=kind, progress=progress)

    return Measurer(models=models, evaluate=evaluate, compare=compared, check=check, kinds={kind: shown})


TAGGERS = _measurer("taggers", "tagging", Kind(title="Tags, F1 of entities or right tags, %", percent=True))
ANSWERERS = _measurer("models that answer questions", "answers", Kind(title="Answers, F1, %", percent=True))
CHOOSERS = _measurer("models that choose", "choices", Kind(title="Right choices, %", percent=True))
RATERS = _measurer("models that rate texts", "ratings", Kind(title="Numbers of texts, Spearman's ρ"))
