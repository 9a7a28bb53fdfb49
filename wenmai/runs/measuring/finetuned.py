"""Evaluate fine-tuned models that are no classifiers: taggers, answers to questions, choices and numbers."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from wenmai.core.columns import in_columns
from wenmai.core.errors import CorpusError
from wenmai.core.showing import Table
from wenmai.core.wording import say
from wenmai.data.tags import types_of
from wenmai.measures.classification import ChoiceResult
from wenmai.measures.questions import QuestionResult
from wenmai.measures.regression import RegressionResult
from wenmai.measures.tagging import TaggingResult
from wenmai.runs.comparison import Comparison, Kind, Measure
from wenmai.runs.measuring.classification import check, confusion_table, few, unknown_note
from wenmai.runs.measuring.examples import columns_notes, read_examples
from wenmai.runs.measuring.measurer import Evaluation, Measurer, Progress, Turns, title_of, unwatched
from wenmai.runs.measuring.mistakes import Mistakes, mistakes_of, write_mistakes
from wenmai.runs.page import require_page
from wenmai.training.run import Run

__all__ = ["ANSWERERS", "CHOOSERS", "RATERS", "TAGGERS", "FineTunedEvaluation"]


Result = TaggingResult | QuestionResult | ChoiceResult | RegressionResult


@dataclass(frozen=True, kw_only=True, repr=False)
class FineTunedEvaluation(Evaluation):
    """The evaluation on a test set.

    Attributes:
        on: The test set.
        result: Its metrics.
        main: The name of the metric that counts.
        left_out: What was left out or repaired of the test set, one sentence for each reason.
        mistakes: The worst mistakes, if wanted.
    """

    on: str
    result: Result
    main: str
    left_out: tuple[str, ...] = ()
    mistakes: Mistakes | None = None

    @property
    def notes(self) -> list[str]:
        """What was left out or repaired."""
        return list(self.left_out)

    @property
    def value(self) -> float | None:
        """The metric that counts; None if it cannot be told."""
        found: float | None = getattr(self.result, self.main)
        return found

    @property
    def interval(self) -> tuple[float | None, float | None]:
        """Its 95 % bootstrap interval."""
        return getattr(self.result, f"{self.main}_low"), getattr(self.result, f"{self.main}_high")

    def as_dict(self) -> dict[str, Any]:
        """Returns plain JSON values; the metrics are at the top."""
        found = {"run": self.run, "on": self.on, **self.result.as_dict()}
        return found | ({} if self.mistakes is None else {"mistakes": self.mistakes.worst})

    def _facts(self) -> dict[str, Any]:
        return {"run": self.run, "on": self.on, self.main: self.value}

    def __str__(self) -> str:
        if not isinstance(self.result, TaggingResult) or not self.result.types:
            return str(self.result)
        rows = [[*map(say, ("entities", "gold", "found", "precision", "recall", "F1")), ""]]
        for one in self.result.types:
            interval = "" if one.low is None else f"[{one.low:.4f}, {one.high:.4f}]"
            metrics = [f"{value:.4f}" for value in (one.precision, one.recall, one.f1)]
            rows.append([one.label, f"{one.support:,}", f"{one.found:,}", *metrics, interval])
        parts = [str(self.result), in_columns(rows)]
        if self.result.confusion is not None:
            parts.append(confusion_table(say("entity, predicted as"), self.labels, self.result.confusion))
        return "\n".join(parts)

    @property
    def labels(self) -> list[str]:
        """The types of entities, and what the confusion table calls none; empty where there is no such table."""
        if not isinstance(self.result, TaggingResult) or self.result.confusion is None:
            return []
        return [*(one.label for one in self.result.types), say("no entity")]

    def table(self) -> Table:
        """Returns a row for each type of entity; otherwise one row of all metrics."""
        if isinstance(self.result, TaggingResult) and self.result.types:
            return Table.of([asdict(one) for one in self.result.types])
        return Table.of([self.result.as_dict()])


def evaluate(
    run: Run,
    *,
    on: Any,  # noqa: ANN401  whatever names or holds examples
    columns: Mapping[str, Any] | None = None,
    limit: int | None = None,
    mistakes: str | Path | None = None,
) -> FineTunedEvaluation:
    """Evaluates a fine-tuned model on labelled examples.

    Args:
        run: A finished run.
        on: Examples, as for training.
        columns: Settings of the test set that differ from those of the training data, such as ``text_column``.
        limit: Most examples to evaluate on, drawn by chance; None: all.
        mistakes: An HTML page to write, with the hundred worst mistakes.

    Raises:
        RunError: if the run is not finished.
        CorpusError: if the test set cannot be read, or the model knows none of its tags.
        SettingError: if the page cannot be where it should.
    """
    require_page(mistakes, "mistakes.html")
    found = _evaluated(run, run.model, on, columns=columns, limit=limit, wrong=mistakes is not None)
    if mistakes is not None and found.mistakes is not None:
        write_mistakes(mistakes, found.mistakes, found, found.labels, getattr(found.result, "confusion", None))
    return found


def _evaluated(
    run: Run,
    model: Any,  # noqa: ANN401
    on: Any,  # noqa: ANN401
    *,
    columns: Mapping[str, Any] | None = None,
    limit: int | None = None,
    wrong: bool = False,
) -> FineTunedEvaluation:
    placed, left_out = read_examples(run, model, on, columns, limit)
    examples = [one.example for one in placed]
    name = str(on) if isinstance(on, str | Path) else "examples from Python"
    if model.task == "tagging":
        left_out += _unknown_tags(model.labels, (tag for one in examples for tag in one.tags), name)
    items = model.items([model.gold(example) for example in examples])
    if model.cut:
        left_out.append(model.cut_note(model.cut, len(items)))
    if model.task == "span" and not model.tunes and (without := sum(not one.answers for one in examples)):
        left_out.append(
            f"{without:,} questions have no answer, but this model always answers: they count as mistakes; "
            "`wenmai answer --threshold` lets it give none"
        )
    outputs = model.outputs(items)
    result = model.measured(examples, items, outputs)
    found = result.as_dict()
    return FineTunedEvaluation(
        run=str(run.path),
        on=name,
        result=result,
        main="accuracy"
        if found.get("rules") == "none"
        else next(name for name in ("f1", model.best_by) if name in found),
        left_out=tuple(left_out),
        mistakes=mistakes_of(model, examples, items, outputs, [one.where for one in placed]) if wrong else None,
    )


def _unknown_tags(labels: Iterable[str], tags: Iterable[str], on: str) -> list[str]:
    """Returns a note on the tags that a tagger does not know, if there are any; of entities it is their types.

    Raises:
        CorpusError: if it knows none.
    """
    known, found = dict.fromkeys(types_of(labels)), Counter(types_of(tags))
    if found and not found.keys() & known.keys():
        raise CorpusError(
            f"{on}: has the tags {few(found)}, none of which the model knows; it knows {few(known)}; name a test set "
            "that is tagged as the training data were"
        )
    return unknown_note(
        {name: count for name, count in found.items() if name not in known},
        "1 tag of the test set is unknown to the model and counts as missed",
        "{count} tags of the test set are unknown to the model and count as missed",
    )


def compare(
    runs: Sequence[Run], comparison: Comparison, *, on: Sequence[str] = (), kind: str, progress: Progress = unwatched
) -> Comparison:
    """Compares the metric that counts on test sets."""
    systems, turns = [], Turns(progress, runs=len(runs), sets=len(on))
    mains: list[list[str]] = []
    for run, system, columns in zip(runs, comparison.systems, columns_notes(runs), strict=True):
        model, measures = run.read_model(), []
        mains.append([])
        for name in on:
            turns.begin(name, system.name)
            found = _evaluated(run, model, name)
            value, (low, high) = found.value, found.interval
            title, notes = title_of(name, on), found.notes + columns
            measures.append(Measure(name=title, kind=kind, value=value, low=low, high=high, notes=notes))
            mains[-1].append(found.main)
        systems.append(replace(system, measures=measures))
    for place, of_set in enumerate(zip(*mains, strict=True)):
        if len({*of_set}) > 1:
            for system, main in zip(systems, of_set, strict=True):
                system.measures[place].notes.append(
                    f"measured by {main}, others by another metric: do not compare them"
                )
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
