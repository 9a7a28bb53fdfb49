"""How good predictions are: precision, recall and their curve, counted as the official module counts them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

__all__ = ["ALL_LABELS", "Meter", "Tally"]

ALL_LABELS = -1
_MISSED = -1.0  # the score of a true label that was not predicted

Curve = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]


@dataclass(slots=True)
class Tally:
    """What is counted for a label, or for all."""

    gold: int = 0
    predicted: int = 0
    right: int = 0
    scores: list[tuple[float, float]] = field(default_factory=list)  # and 1.0 if the label is true, else 0.0

    @property
    def precision(self) -> float:
        """The share of predictions that are right; NaN if there are none."""
        return self.right / self.predicted if self.predicted else float("nan")

    @property
    def recall(self) -> float:
        """The share of true labels that were predicted; NaN if there are none."""
        return self.right / self.gold if self.gold else float("nan")

    @property
    def f1score(self) -> float:
        """The harmonic mean of both; NaN if there is nothing to count."""
        counted = self.predicted + self.gold
        return 2 * self.right / counted if counted else float("nan")


class Meter:
    """The predictions for a file and its true labels.

    Args:
        label_id: Gives the number of a label, -1 if there is no such label.
    """

    def __init__(self, label_id: Callable[[str], int]) -> None:
        self._label_id = label_id
        self._by_label: dict[int, Tally] = {}
        self.total = Tally()
        self.examples = 0

    def log(self, gold: Sequence[int], predicted: Sequence[tuple[int, float]]) -> None:
        """Counts the labels of a text, and the predicted ones with their probabilities."""
        self.examples += 1
        self.total.gold += len(gold)
        self.total.predicted += len(predicted)
        for label, chance in predicted:
            tally, true = self.of(label), label in gold
            tally.predicted += 1
            tally.right += true
            self.total.right += true
            tally.scores.append((min(chance, 1.0), float(true)))
        found = {label for label, _ in predicted}
        for label in gold:
            self.of(label).gold += 1
            if label not in found:
                self.of(label).scores.append((_MISSED, 1.0))

    def of(self, label: int) -> Tally:
        """The tally of a label."""
        return self._by_label.setdefault(label, Tally())

    def score_vs_true(self, label: str) -> Curve:
        """The probabilities that were given to a label, ascending, and for each 1.0 if the label was true, else 0.0.

        A true label that was not predicted has the probability -1.
        """
        pairs = self._pairs(self._label_id(label))
        return np.asarray([score for score, _ in pairs]), np.asarray([true for _, true in pairs])

    def precision_recall_curve(self, label: str | None = None) -> Curve:
        """Precision and recall at every probability, the highest first; at the end 1 and 0."""
        points = self._curve(self._label_id(label) if label else ALL_LABELS)
        return np.asarray([precision for precision, _ in points]), np.asarray([recall for _, recall in points])

    def precision_at_recall(self, recall: float, label: str | None = None) -> float:
        """The best precision that has at least this recall."""
        points = self._curve(self._label_id(label) if label else ALL_LABELS)
        return max((precision for precision, found in points if found >= recall), default=0.0)

    def recall_at_precision(self, precision: float, label: str | None = None) -> float:
        """The best recall that has at least this precision."""
        points = self._curve(self._label_id(label) if label else ALL_LABELS)
        return max((found for least, found in points if least >= precision), default=0.0)

    def _pairs(self, label: int) -> list[tuple[float, float]]:
        if label == ALL_LABELS:
            return sorted(pair for tally in self._by_label.values() for pair in tally.scores)
        return sorted(self._by_label[label].scores) if label in self._by_label else []

    def _curve(self, label: int) -> list[tuple[float, float]]:
        points: list[tuple[int, int]] = []  # true and false ones above a probability
        right, last = 0, None
        pairs = [pair for pair in reversed(self._pairs(label)) if pair[0] >= 0]
        for number, (score, true) in enumerate(pairs, start=1):
            right += true == 1.0
            if score == last:
                points.pop()  # equal probabilities make one point
            points.append((right, number - right))
            last = score
        if not points:
            return []
        gold = self.total.gold if label == ALL_LABELS else self.of(label).gold
        full = next((place + 1 for place, (found, _) in enumerate(points) if found >= gold), len(points))
        curve = [(found / (found + wrong), found / gold if gold else float("nan")) for found, wrong in points[:full]]
        return [*curve, (1.0, 0.0)]
