"""How well texts are classified: accuracy, precision, recall and F1, with intervals; precision-recall curves.

A text may have several labels, and a classifier may name several. With ``true`` the pairs of a text and a label that
was named rightly, ``named`` all that were named, ``given`` all that the texts have:

    precision = true / named        recall = true / given        F1 = 2 true / (named + given)

*Micro* metrics count pairs over all labels, *macro* metrics are means over the labels. Where nothing was named or
given, a metric is 0. Precision at k and recall at k are micro metrics of the k best labels over the texts that have a
label which the classifier knows, as ``fasttext test`` prints them (Joulin et al. 2017, arXiv:1607.01759).

Where every text has one label and one was named, there are also Matthews' correlation coefficient (for several classes:
Gorodkin 2004, "Comparing two K-category assignments by a K-category correlation coefficient") and the confusion table.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import CorpusError
from wenmai.measures.bootstrap import percentile_interval, percentile_intervals, wilson_interval

__all__ = [
    "ChoiceResult",
    "ClassificationResult",
    "Curve",
    "LabelResult",
    "classification_metrics",
    "measure_choices",
    "measure_classification",
    "precision_recall_curves",
]

Prediction = Sequence[tuple[str, float]]
_MOST_SHOWN = 100  # labels of a confusion table
_MOST_LABELS = 2_000  # of which an interval of the macro F1 is drawn; more would take long


@dataclass(frozen=True, kw_only=True)
class LabelResult:
    """The metrics of one label.

    Attributes:
        label: Its name.
        precision: Proportion of the texts for which this label was predicted that have it.
        recall: Proportion of the texts with this label for which it was predicted.
        f1: Harmonic mean of the two.
        f1_low: 95 % bootstrap interval, from (None: no text has it, or there are too many labels) ...
        f1_high: ... to.
        support: Texts that have it.
    """

    label: str
    precision: float
    recall: float
    f1: float
    f1_low: float | None
    f1_high: float | None
    support: int


@dataclass(frozen=True, kw_only=True)
class ClassificationResult:
    """The metrics of a test set.

    Attributes:
        examples: Texts.
        unseen: Texts of which the classifier knows no label: they count as errors, but not in ``precision_at_k`` and
            ``recall_at_k``.
        k: Labels that were named for each text, at most.
        accuracy: Proportion of the texts whose best label is one of theirs.
        accuracy_low: 95 % interval of Wilson, from ...
        accuracy_high: ... to.
        precision_at_k: As ``fasttext test``.
        recall_at_k: As ``fasttext test``.
        micro_f1: Over all pairs of a text and a label.
        micro_f1_low: 95 % bootstrap interval, from (None: there are too many labels) ...
        micro_f1_high: ... to.
        macro_f1: Mean over the labels that the texts have.
        macro_f1_low: 95 % bootstrap interval, from (None likewise) ...
        macro_f1_high: ... to.
        matthews: Matthews' coefficient (None: a text has several labels, or none or several were named).
        matthews_low: 95 % bootstrap interval, from ...
        matthews_high: ... to.
        labels: Each label that the texts have or that was named, the most frequent first.
        confusion: A row for each of ``labels``: for how many of its texts each of them was named (None as for
            ``matthews``, or because there are more than 100).
        unknown_labels: Labels of the texts that the classifier does not know, with how often they occur.
    """

    examples: int
    unseen: int
    k: int
    accuracy: float
    accuracy_low: float
    accuracy_high: float
    precision_at_k: float
    recall_at_k: float
    micro_f1: float
    micro_f1_low: float | None
    micro_f1_high: float | None
    macro_f1: float
    macro_f1_low: float | None
    macro_f1_high: float | None
    matthews: float | None
    matthews_low: float | None
    matthews_high: float | None
    labels: tuple[LabelResult, ...]
    confusion: tuple[tuple[int, ...], ...] | None
    unknown_labels: dict[str, int]

    def as_dict(self) -> dict[str, Any]:
        """Returns plain JSON values."""
        return asdict(self)

    def f1_of(self, label: str) -> float:
        """The F1 of a label, 0 if no text has it."""
        return next((found.f1 for found in self.labels if found.label == label), 0.0)

    def __str__(self) -> str:
        matthews = (
            ""
            if self.matthews is None
            else f"Matthews {_ranged(self.matthews, self.matthews_low, self.matthews_high)}  "
        )
        return (
            f"accuracy {self.accuracy:.2%} [{self.accuracy_low:.2%}, {self.accuracy_high:.2%}]  {matthews}"
            f"micro F1 {_ranged(self.micro_f1, self.micro_f1_low, self.micro_f1_high)}  "
            f"macro F1 {_ranged(self.macro_f1, self.macro_f1_low, self.macro_f1_high)}  "
            f"P@{self.k} {self.precision_at_k:.4f}  R@{self.k} {self.recall_at_k:.4f}  ({self.examples:,} texts)"
        )


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Precision and recall of a label at every threshold, from the lowest threshold on.

    Attributes:
        label: Its name.
        thresholds: (n) probabilities from which on the label is named.
        precision: (n + 1), the last is 1.
        recall: (n + 1), the last is 0.
        average_precision: Area under the curve, as a sum over its steps.
    """

    label: str
    thresholds: tuple[float, ...]
    precision: tuple[float, ...]
    recall: tuple[float, ...]
    average_precision: float

    def precision_at_recall(self, recall: float) -> float:
        """The best precision among the thresholds with at least this recall; 0 if there is none."""
        return max((p for p, r in zip(self.precision, self.recall, strict=True) if r >= recall), default=0.0)

    def recall_at_precision(self, precision: float) -> float:
        """The best recall among the thresholds with at least this precision; 0 if there is none."""
        return max((r for p, r in zip(self.precision, self.recall, strict=True) if p >= precision), default=0.0)


@dataclass(frozen=True, kw_only=True)
class ChoiceResult:
    """The result of choosing one of several options.

    Attributes:
        questions: Questions.
        accuracy: Proportion of right choices.
        accuracy_low: 95 % interval of Wilson, from ...
        accuracy_high: ... to.
    """

    questions: int
    accuracy: float
    accuracy_low: float
    accuracy_high: float

    def as_dict(self) -> dict[str, Any]:
        """Returns plain JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        interval = f"[{self.accuracy_low:.4f}, {self.accuracy_high:.4f}]"
        return f"accuracy {self.accuracy:.4f} {interval}  ({self.questions:,} questions)"


def measure_choices(right: npt.NDArray[np.float64]) -> ChoiceResult:
    """Returns how many choices are right.

    Args:
        right: (N,) 1 for a right choice, else 0.

    Raises:
        CorpusError: if there are no questions.
    """
    if not len(right):
        raise CorpusError("there are no questions; expected at least one")
    low, high = wilson_interval(int(right.sum()), len(right))
    return ChoiceResult(questions=len(right), accuracy=float(right.mean()), accuracy_low=low, accuracy_high=high)


def measure_classification(
    gold: Sequence[Sequence[str]],
    predicted: Sequence[Prediction],
    known: Sequence[str],
    *,
    k: int = 1,
    resamples: int = 1000,
    seed: int = 0,
) -> ClassificationResult:
    """Compares what texts have been classified as with what they are.

    Args:
        gold: The labels of each text.
        predicted: What the classifier named for each text, the best first; at most the first ``k`` count.
        known: The labels of the classifier.
        k: Labels that count.
        resamples: Draws of the bootstrap.
        seed: Decides the draws.

    Raises:
        CorpusError: if there are no texts, or not as many predictions.
    """
    from scipy.sparse import csr_array

    if not gold or len(gold) != len(predicted):
        raise CorpusError(f"{len(gold)} texts have {len(predicted)} predictions; expected one for each of at least one")
    named = [[label for label, _ in found[: None if k < 0 else k]] for found in predicted]
    numbers: dict[str, int] = {}
    for labels in (*gold, *named):
        for label in labels:
            numbers.setdefault(label, len(numbers))
    shape = (len(gold), max(1, len(numbers)))

    def table(rows: Sequence[Sequence[str]]) -> Any:  # noqa: ANN401  a sparse array
        columns = [numbers[label] for labels in rows for label in dict.fromkeys(labels)]
        lines = np.repeat(np.arange(len(rows)), [len(dict.fromkeys(labels)) for labels in rows])
        return csr_array((np.ones(len(columns)), (lines, np.array(columns, np.int64))), shape=shape)

    given_table, named_table = table(gold), table(named)
    true_table = given_table.multiply(named_table).tocsr()
    true, of_named, of_given = (np.asarray(found.sum(axis=0)) for found in (true_table, named_table, given_table))
    present = np.flatnonzero(of_given)
    f1 = _share(2 * true, of_named + of_given)
    correct = np.array([bool(labels) and labels[0] in truth for labels, truth in zip(named, gold, strict=True)], float)
    low, high = wilson_interval(int(correct.sum()), len(correct))

    def f1_scores(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The micro F1, the macro F1, and that of each label that occurs; NaN of labels that were not drawn."""
        right, both = (np.asarray(weights @ found, np.float64) for found in (true_table, named_table + given_table))
        micro = _share(2 * right.sum(1), both.sum(1), nothing=np.nan)
        right, both = right[:, present], both[:, present]
        macro = _share(_share(2 * right, both).sum(1), (both > 0).sum(1), nothing=np.nan)
        return np.column_stack([micro, macro, _share(2 * right, both, nothing=np.nan)])

    single = all(len(labels) == 1 for rows in (gold, named) for labels in rows)
    matthews: tuple[float | None, float | None, float | None] = (None, None, None)
    if single:

        def coefficient(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
            return _matthews(weights @ correct, weights @ given_table, weights @ named_table)

        bounds = percentile_interval(coefficient, len(gold), resamples=resamples, seed=seed)
        matthews = (float(np.nan_to_num(coefficient(np.ones((1, len(gold)))))[0]), *bounds)
    count = 2 + len(present)
    intervals: list[tuple[float, float] | tuple[None, None]] = [(None, None)] * count
    if 0 < len(present) <= _MOST_LABELS:
        intervals = percentile_intervals(f1_scores, len(gold), count, resamples=resamples, seed=seed)
    (micro_low, micro_high), (macro_low, macro_high), *own = intervals
    by_label = dict(zip(present.tolist(), own, strict=True))
    knows = set(known)
    seen = np.array([any(label in knows for label in labels) for labels in gold])
    known_given = sum(label in knows for labels in gold for label in dict.fromkeys(labels))
    true_seen = float(true.sum())
    unknown: dict[str, int] = {}
    for labels in gold:
        for label in labels:
            if label not in knows:
                unknown[label] = unknown.get(label, 0) + 1
    order = sorted(range(len(numbers)), key=lambda place: -of_given[place])
    names = list(numbers)
    precision, recall = _share(true, of_named), _share(true, of_given)
    return ClassificationResult(
        examples=len(gold),
        unseen=int((~seen).sum()),
        k=k,
        accuracy=float(correct.mean()),
        accuracy_low=low,
        accuracy_high=high,
        precision_at_k=true_seen / max(1.0, float(named_table.sum(axis=1)[seen].sum())),
        recall_at_k=true_seen / max(1, known_given),
        micro_f1=2 * true_seen / max(1.0, float(of_named.sum() + of_given.sum())),
        micro_f1_low=micro_low,
        micro_f1_high=micro_high,
        macro_f1=float(f1[present].mean()) if len(present) else 0.0,
        macro_f1_low=macro_low,
        macro_f1_high=macro_high,
        matthews=matthews[0],
        matthews_low=matthews[1],
        matthews_high=matthews[2],
        labels=tuple(
            LabelResult(
                label=names[place],
                precision=float(precision[place]),
                recall=float(recall[place]),
                f1=float(f1[place]),
                f1_low=by_label.get(place, (None, None))[0],
                f1_high=by_label.get(place, (None, None))[1],
                support=int(of_given[place]),
            )
            for place in order
        ),
        confusion=_confusion(given_table, named_table, order) if single and len(order) <= _MOST_SHOWN else None,
        unknown_labels=unknown,
    )


def classification_metrics(gold: npt.NDArray[np.int64], found: npt.NDArray[np.int64], classes: int) -> dict[str, float]:
    """Returns accuracy, the mean F1 of the labels that the texts have, and Matthews' coefficient, without intervals.

    Args:
        gold: (N,) numbers of labels, N at least 1.
        found: (N,) those that were predicted.
        classes: How many labels there are.
    """
    right = np.bincount(gold[gold == found], minlength=classes)
    given, named = np.bincount(gold, minlength=classes), np.bincount(found, minlength=classes)
    occurring = given > 0
    return {
        "accuracy": float(right.sum() / len(gold)),
        "macro_f1": float((2 * right[occurring] / (given + named)[occurring]).mean()),
        "matthews": float(np.nan_to_num(_matthews(right.sum(keepdims=True), given[None], named[None]))[0]),
    }


def _ranged(value: float, low: float | None, high: float | None) -> str:
    """A metric with its interval."""
    return f"{value:.4f}" if low is None else f"{value:.4f} [{low:.4f}, {high:.4f}]"


def _matthews(right: npt.NDArray[Any], given: npt.NDArray[Any], named: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Matthews' coefficients (R,), NaN for 0/0: (R,) right ones; (R, C) how often each label is given, and named."""
    right, given, named = (np.asarray(part, np.float64) for part in (right, given, named))
    total = given.sum(1)
    covariance = right * total - (given * named).sum(1)
    spread = np.sqrt((total**2 - (named**2).sum(1)) * (total**2 - (given**2).sum(1)))
    return _share(covariance, spread, np.nan)


def _confusion(given: Any, named: Any, order: Sequence[int]) -> tuple[tuple[int, ...], ...]:  # noqa: ANN401  sparse
    table = np.asarray((given.T @ named).todense(), np.int64)[np.ix_(order, order)]
    return tuple(map(tuple, table.tolist()))


def precision_recall_curves(
    gold: Sequence[Sequence[str]], predicted: Sequence[Prediction], labels: Sequence[str]
) -> tuple[Curve, ...]:
    """Returns the precision-recall curve of each label that a text has.

    Args:
        gold: The labels of each text.
        predicted: The probabilities of each text's labels; of one that is not there the probability is taken as 0.
        labels: Which labels.

    Raises:
        CorpusError: if there are not as many predictions as texts.
    """
    from sklearn.metrics import average_precision_score, precision_recall_curve

    if len(gold) != len(predicted):
        raise CorpusError(f"{len(gold)} texts have {len(predicted)} predictions; expected one for each")
    scores = [dict(found) for found in predicted]
    curves = []
    for label in labels:
        truth = np.array([label in given for given in gold])
        if not truth.any():
            continue
        score = np.array([found.get(label, 0.0) for found in scores])
        precision, recall, thresholds = precision_recall_curve(truth, score)
        curves.append(
            Curve(
                label=label,
                thresholds=tuple(thresholds.tolist()),
                precision=tuple(precision.tolist()),
                recall=tuple(recall.tolist()),
                average_precision=float(average_precision_score(truth, score)),
            )
        )
    return tuple(curves)


def _share(
    part: npt.NDArray[np.float64], whole: npt.NDArray[np.float64], nothing: float = 0.0
) -> npt.NDArray[np.float64]:
    found: npt.NDArray[np.float64] = np.full(np.shape(whole), nothing)
    np.divide(part, whole, out=found, where=np.asarray(whole) > 0)
    return found
