"""Evaluate classifiers on labelled text."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from wenmai.core.columns import in_columns
from wenmai.core.errors import CorpusError
from wenmai.core.quantities import counted
from wenmai.core.showing import Table
from wenmai.core.wording import say
from wenmai.data.datasets import named_dataset, open_labelled
from wenmai.data.drawing import drawn
from wenmai.data.example_settings import ExamplesConfig, with_columns
from wenmai.data.labelled import LabelledConfig, LabelledStats
from wenmai.data.sources import open_texts
from wenmai.data.typed import TextExample
from wenmai.inference.verbs import Classifier
from wenmai.measures.classification import (
    ClassificationResult,
    Curve,
    measure_classification,
    precision_recall_curves,
)
from wenmai.runs.comparison import Comparison, Kind, Measure
from wenmai.runs.measuring.examples import columns_notes, drawn_note, read_examples
from wenmai.runs.measuring.measurer import Evaluation, Measurer, Progress, Turns, title_of, unwatched
from wenmai.runs.measuring.mistakes import Mistakes, write_mistakes, wrong_classes
from wenmai.runs.page import require_page
from wenmai.text.settings import TextConfig
from wenmai.training.run import Run

__all__ = [
    "CLASSIFIERS",
    "ClassificationEvaluation",
    "check",
    "compare",
    "confusion_table",
    "evaluate",
    "few",
    "unknown_note",
]

_MOST_COLUMNS = 12  # of the confusion table that is printed
_FEW = 5  # labels that a message names


@dataclass(frozen=True, kw_only=True, repr=False)
class ClassificationEvaluation(Evaluation):
    """The evaluation on a test set.

    Attributes:
        on: The test set.
        result: Its metrics.
        stats: What was left out of a test set of lines with labels; None of another.
        left_out: What was left out of a test set of examples, one sentence for each reason.
        curves: Precision-recall curves by label, if wanted.
        mistakes: The worst mistakes, if wanted.
    """

    on: str
    result: ClassificationResult
    stats: LabelledStats | None = None
    left_out: tuple[str, ...] = ()
    curves: tuple[Curve, ...] = ()
    mistakes: Mistakes | None = None

    def as_dict(self) -> dict[str, Any]:
        """Returns plain JSON values; the metrics are at the top."""
        found = {"run": self.run, "on": self.on, **self.result.as_dict()}
        found |= {} if self.stats is None else {"stats": asdict(self.stats)}
        found |= {"curves": [asdict(curve) for curve in self.curves]} if self.curves else {}
        return found | ({} if self.mistakes is None else {"mistakes": self.mistakes.worst})

    def __str__(self) -> str:
        rows = [[*(say(name) for name in ("label", "texts", "precision", "recall", "F1")), ""]]
        for label in self.result.labels:
            metrics = [f"{value:.4f}" for value in (label.precision, label.recall, label.f1)]
            interval = "" if label.f1_low is None else f"[{label.f1_low:.4f}, {label.f1_high:.4f}]"
            rows.append([label.label, str(label.support), *metrics, interval])
        parts = [str(self.result), in_columns(rows)]
        names = [label.label for label in self.result.labels]
        if self.result.confusion is not None and len(names) > 1:
            parts.append(confusion_table(say("label, predicted as"), names, self.result.confusion))
        return "\n".join(parts)

    def _facts(self) -> dict[str, Any]:
        found = self.result
        return {"run": self.run, "on": self.on, "accuracy": found.accuracy, "macro_f1": found.macro_f1}

    def table(self) -> Table:
        """Returns a row for each label."""
        return Table.of([asdict(label) for label in self.result.labels])

    @property
    def notes(self) -> list[str]:
        """Unknown labels, and lines that were left out."""
        unknown = unknown_note(
            self.result.unknown_labels,
            "1 label of the test set is unknown to the classifier and counts as missed",
            "{count} labels of the test set are unknown to the classifier and count as missed",
        )
        stats = self.stats or LabelledStats()
        lines = counted(
            (
                stats.blank_lines + stats.unlabelled + stats.skipped_lines,
                "1 line without text, label or good characters was left out",
                "{count} lines without text, label or good characters were left out",
            )
        )
        return [*self.left_out, *unknown, *lines]


def evaluate(
    run: Run,
    *,
    on: Any,  # noqa: ANN401  whatever names or holds labelled text
    k: int = 1,
    threshold: float = 0.0,
    curves: bool = False,
    columns: Mapping[str, Any] | None = None,
    limit: int | None = None,
    mistakes: str | Path | None = None,
) -> ClassificationEvaluation:
    """Evaluates a classifier on a test set.

    Args:
        run: A finished run that classifies.
        on: Labelled text, as for training.
        k: Most labels predicted for a text.
        threshold: Less probable labels are left out.
        curves: Also compute the precision-recall curve of every label.
        columns: Settings of the test set that differ from those of the training text, such as ``text_column``.
        limit: Most examples to evaluate on, drawn by chance; None: all.
        mistakes: An HTML page to write, with the hundred texts whose wrong label is most probable.

    Raises:
        RunError: if the run is not finished.
        CorpusError: if the test set cannot be read.
        SettingError: if the page cannot be where it should.
    """
    require_page(mistakes, "mistakes.html")
    found = _evaluated(
        run,
        run.model,
        on,
        k=k,
        threshold=threshold,
        curves=curves,
        columns=columns or {},
        limit=limit,
        wrong=mistakes is not None,
    )
    if mistakes is not None and found.mistakes is not None:
        result = found.result
        names = [label.label for label in result.labels]
        write_mistakes(mistakes, found.mistakes, found, names, result.confusion)
    return found


def confusion_table(title: str, names: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    """Returns a confusion table in columns, or where it is if it is too wide."""
    if len(names) > _MOST_COLUMNS:
        where = "The confusion table of {labels} labels is in --json and on the page of --mistakes."
        return say(where, labels=f"{len(names):,}")
    return in_columns([[title, *names], *([name, *map(str, row)] for name, row in zip(names, counts, strict=True))])


def _require_known(gold: Sequence[Sequence[str]], known: Sequence[str], on: Any) -> None:  # noqa: ANN401
    """Makes sure that the test set and the classifier speak of the same labels.

    Raises:
        CorpusError: if the classifier knows none of those of the test set.
    """
    found = dict.fromkeys(label for labels in gold for label in labels)
    if found and not found.keys() & set(known):
        path = on if isinstance(on, str | Path) else "text from Python"
        raise CorpusError(
            f"{path}: has the labels {few(found)}, none of which the model knows; it knows {few(known)}; "
            "name the labels of the test set as those of the training text"
        )


def unknown_note(unknown: Mapping[str, int], one: str, several: str) -> list[str]:
    """Returns a note on the names of a test set that a model does not know, if there are any.

    Args:
        unknown: How often each of them occurs.
        one: The note for one occurrence.
        several: The note for ``{count}`` of them; the most frequent names follow.
    """
    listed = ", ".join(f"{name} ({count:,})" for name, count in Counter(unknown).most_common(_FEW))
    return [f"{note}: {listed}" for note in counted((sum(unknown.values()), one, several))]


def few(labels: Iterable[str]) -> str:
    """Names some labels."""
    first = list(islice(labels, _FEW + 1))
    return ", ".join(map(repr, first[:_FEW])) + ", …" * (len(first) > _FEW)


def _evaluated(
    run: Run,
    classifier: Classifier,
    on: Any,  # noqa: ANN401
    *,
    k: int = 1,
    threshold: float = 0.0,
    curves: bool = False,
    columns: Mapping[str, Any],
    limit: int | None = None,
    wrong: bool = False,
) -> ClassificationEvaluation:
    texts, gold, places, stats, left_out = _read(run, classifier, on, columns, limit)
    _require_known(gold, classifier.labels, on)
    every = classifier.predict(texts, -1) if curves or wrong else None
    if every is None or threshold > 0:
        predicted = classifier.predict(texts, k, threshold)
    else:
        predicted = [labels[: None if k < 0 else k] for labels in every]
    return ClassificationEvaluation(
        run=str(run.path),
        on=str(on) if isinstance(on, str | Path) else "text from Python",
        result=measure_classification(gold, predicted, classifier.labels, k=k),
        stats=stats,
        left_out=tuple(left_out),
        curves=precision_recall_curves(gold, every, classifier.labels) if curves and every is not None else (),
        mistakes=wrong_classes(texts, gold, every, places) if wrong and every is not None else None,
    )


def _read(
    run: Run,
    classifier: Classifier,
    on: Any,  # noqa: ANN401
    columns: Mapping[str, Any],
    limit: int | None,
) -> tuple[list[Any], list[Sequence[str]], list[str], LabelledStats | None, list[str]]:
    """Reads texts, or pairs of texts, as the training text was read.

    Returns:
        The texts, the labels of each, where each stands, what was found in lines with labels, and what was left out,
        one sentence for each reason.
    """
    read = list(run.recipe.sections.values())
    if any(isinstance(section, ExamplesConfig) for section in read):
        placed, left_out = read_examples(run, classifier, on, columns, limit)
        found = [one.example for one in placed]
        texts: list[Any] = [one.text if isinstance(one, TextExample) else (one.first, one.second) for one in found]
        return texts, [(one.label,) for one in found], [one.where for one in placed], None, left_out
    config = next((section for section in read if isinstance(section, LabelledConfig)), LabelledConfig())
    text = next((section for section in read if isinstance(section, TextConfig)), TextConfig())
    columns = dict(columns)
    text = replace(text, encoding=columns.pop("encoding", text.encoding))
    stats = LabelledStats()
    every = list(open_labelled(on, with_columns(config, columns), text, split="dev").read(stats))
    kept = list(range(len(every)))
    if limit is not None:
        kept = sorted(drawn([next(iter(example.labels), None) for example in every], limit, seed=1))
    examples, places = [every[number] for number in kept], [f"example {number + 1}" for number in kept]
    left_out = drawn_note(len(examples), len(every) - len(examples))
    return [example.text for example in examples], [example.labels for example in examples], places, stats, left_out


def compare(
    runs: Sequence[Run], comparison: Comparison, *, on: Sequence[str] = (), progress: Progress = unwatched
) -> Comparison:
    """Compares accuracy on test sets; the F1 of labels are its parts."""
    systems, turns = [], Turns(progress, runs=len(runs), sets=len(on))
    for run, system, columns in zip(runs, comparison.systems, columns_notes(runs), strict=True):
        classifier, measures = run.read_model(), []
        for name in on:
            turns.begin(name, system.name)
            found = _evaluated(run, classifier, name, columns={})
            notes = found.notes + columns
            if cut := getattr(classifier, "cut", 0):
                notes.append(classifier.cut_note(cut, found.result.examples))
            measures.append(replace(_measure(title_of(name, on), found.result), notes=notes))
        systems.append(replace(system, measures=measures))
    return replace(comparison, systems=systems)


def check(*, on: Sequence[str] = ()) -> None:
    """Makes sure that texts are there, and downloads them if need be.

    Raises:
        WenmaiError: if they are not.
    """
    for name in on:
        if named := named_dataset(name):
            dataset, split = named
            dataset.path(split or "dev")
        else:
            open_texts(name)


def _measure(name: str, result: ClassificationResult) -> Measure:
    return Measure(
        name=name,
        kind="classification",
        value=result.accuracy,
        low=result.accuracy_low,
        high=result.accuracy_high,
        parts=[Measure(name=label.label, kind="f1", value=label.f1) for label in result.labels],
    )


CLASSIFIERS = Measurer(
    models="classifiers",
    evaluate=evaluate,
    compare=compare,
    check=check,
    kinds={
        "classification": Kind(
            title="Texts, % classified correctly",
            about="is the proportion of texts whose most probable label is one of theirs.",
            percent=True,
        ),
        "f1": Kind(title="F1 of a label, %", percent=True),
    },
)
