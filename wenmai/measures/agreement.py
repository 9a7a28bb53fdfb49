"""How well numbers and classes agree, without intervals: what a training measures after every epoch."""

import numpy as np
import numpy.typing as npt

from wenmai.measures.words import spearman

__all__ = ["agreement", "correlation"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def agreement(gold: Ints, found: Ints, classes: int) -> dict[str, float]:
    """Returns accuracy, the mean F1 of the classes that occur, and Matthews' correlation coefficient.

    Args:
        gold: (N,) class numbers, N at least 1.
        found: (N,) those that were predicted.
        classes: How many there are.
    """
    table = np.zeros((classes, classes))
    np.add.at(table, (gold, found), 1)
    right, given, named, total = table.diagonal(), table.sum(1), table.sum(0), table.sum()
    occurring = given + named > 0
    f1 = 2 * right[occurring] / (given + named)[occurring]
    covariance = right.sum() * total - given @ named
    spread = np.sqrt((total**2 - named @ named) * (total**2 - given @ given))
    return {
        "accuracy": float(right.sum() / total),
        "macro_f1": float(f1.mean()),
        "matthews": float(covariance / spread) if spread else 0.0,
    }


def correlation(gold: Floats, found: Floats) -> dict[str, float]:
    """Returns Pearson's and Spearman's coefficients of (N,) numbers; none where all numbers are equal."""
    if len(gold) < 2 or not gold.std() or not found.std():
        return {}
    ranks = float(spearman(gold, found, np.ones((1, len(gold)), np.int64))[0])
    return {"pearson": float(np.corrcoef(gold, found)[0, 1]), "spearman": ranks}
