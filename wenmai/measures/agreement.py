"""How well numbers and classes agree, without intervals: what a training measures after every epoch."""

import re
from collections import Counter
from collections.abc import Sequence
from string import punctuation
from unicodedata import category

import numpy as np
import numpy.typing as npt

from wenmai.measures.words import spearman

__all__ = ["agreement", "answer_agreement", "correlation", "normalised"]

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


def normalised(answer: str) -> list[str]:
    """Returns the words of an answer as SQuAD compares them: lower case, no punctuation, no articles.

    Chinese characters are words of their own, as in CMRC 2018.
    """
    kept = "".join(" " if category(one)[0] in "PS" and ord(one) > 127 else one for one in answer.lower())
    plain = "".join(one for one in kept if one not in punctuation)
    spaced = re.sub(r"([\u3400-\u9fff])", r" \1 ", re.sub(r"\b(a|an|the)\b", " ", plain))
    return spaced.split()


def answer_agreement(gold: Sequence[str], found: str) -> tuple[float, float]:
    """Returns exact match and F1 of the words of an answer, the most that it has with one of several.

    Args:
        gold: The right answers; none: there is no answer.
        found: The answer; empty: there is none.
    """
    exact = f1 = 0.0
    words = normalised(found)
    for one in gold or [""]:
        wanted = normalised(one)
        exact = max(exact, float(wanted == words))
        common = sum((Counter(wanted) & Counter(words)).values())
        if not wanted or not words:
            f1 = max(f1, float(wanted == words))
        elif common:
            f1 = max(f1, 2 * common / (len(wanted) + len(words)))
    return exact, f1
