"""Metrics of linear probes: how well a linear model solves a task on frozen vectors."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wenmai.measures.bootstrap import percentile_interval

__all__ = ["TagFigures", "TaggingProbe", "TextProbe", "accuracy_interval", "entities", "measure_tags"]

Entity = tuple[int, int, str]


@dataclass(frozen=True, kw_only=True)
class TextProbe:
    """A probe on averages of the vectors of a text's words.

    Attributes:
        dataset: The data set.
        split: What was measured on.
        weighting: ``mean``, ``tfidf`` or ``sif``.
        accuracy: Proportion of the texts that are classified correctly.
        low: 95 % bootstrap interval, from ...
        high: ... to.
        majority: The accuracy of always naming the most frequent class of the training texts.
        examples: Texts.
        covered: Proportion of the tokens that have a vector.
    """

    dataset: str
    split: str
    weighting: str
    accuracy: float
    low: float | None
    high: float | None
    majority: float
    examples: int
    covered: float

    def as_dict(self) -> dict[str, Any]:
        """Returns plain JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"{self.dataset} {self.split}, {self.weighting} of word vectors: accuracy {self.accuracy:.4f}"
            f"{_interval(self.low, self.high)}, always the most frequent class {self.majority:.4f}, "
            f"{self.examples:,} texts, {self.covered:.1%} of the words have vectors"
        )


@dataclass(frozen=True, kw_only=True)
class TaggingProbe:
    """A probe on windows of word vectors.

    Attributes:
        dataset: The data set.
        split: What was measured on.
        window: Neighbours on each side.
        accuracy: Proportion of the tokens that are tagged correctly.
        majority: The accuracy of always naming the most frequent tag of the training sentences.
        precision: Proportion of the predicted entities that are right; None if the set has no entities, such as parts
            of speech.
        recall: Proportion of the entities that are found.
        f1: Harmonic mean of the two.
        low: 95 % bootstrap interval over sentences of the F1, or where there is none of the accuracy, from ...
        high: ... to.
        sentences: Sentences.
        tokens: Tokens.
        covered: Proportion of the tokens that have a vector.
    """

    dataset: str
    split: str
    window: int
    accuracy: float
    majority: float
    precision: float | None
    recall: float | None
    f1: float | None
    low: float | None
    high: float | None
    sentences: int
    tokens: int
    covered: float

    def as_dict(self) -> dict[str, Any]:
        """Returns plain JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        interval = _interval(self.low, self.high)
        if self.f1 is None:
            found = f"token accuracy {self.accuracy:.4f}{interval}"
        else:
            found = (
                f"entity F1 {self.f1:.4f}{interval} (precision {self.precision:.4f}, recall {self.recall:.4f}), "
                f"token accuracy {self.accuracy:.4f}"
            )
        return (
            f"{self.dataset} {self.split}, window of {2 * self.window + 1} word vectors: {found}, always the most "
            f"frequent tag {self.majority:.4f}, {self.tokens:,} tokens, {self.covered:.1%} of them have vectors"
        )


def entities(tags: Sequence[str]) -> set[Entity]:
    """Returns the entities of a tagged sentence as (first token, place behind the last, type).

    Tags are O, B-TYPE and I-TYPE. As conlleval has it, an I-TYPE after O or after another type begins an entity.
    """
    found = set()
    begin, kind = 0, ""
    for place, tag in enumerate([*tags, "O"]):
        mark, _, type_ = tag.partition("-")
        if kind and (mark != "I" or type_ != kind):
            found.add((begin, place, kind))
            kind = ""
        if mark != "O" and not kind:
            begin, kind = place, type_
    return found


@dataclass(frozen=True, kw_only=True)
class TagFigures:
    """Token accuracy, and precision, recall and F1 of entities (None where the tags have none), with an interval."""

    accuracy: float
    precision: float | None
    recall: float | None
    f1: float | None
    low: float | None
    high: float | None


def measure_tags(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], *, seed: int = 0) -> TagFigures:
    """Compares the predicted tags of sentences with the gold ones.

    An entity is right if first token, last token and type are. The interval is that of the F1, or of the accuracy of
    tags that are not O, B-TYPE and I-TYPE, over sentences drawn with replacement.

    Args:
        gold: The right tags of each sentence.
        predicted: As many tags for each.
        seed: Decides the draws.
    """
    counts = np.array([len(tags) for tags in gold], np.float64)
    right = np.array([sum(a == b for a, b in zip(*pair, strict=True)) for pair in zip(gold, predicted, strict=True)])
    accuracy = float(right.sum() / max(1.0, counts.sum()))
    if any(not tag.startswith(("B-", "I-")) and tag != "O" for tags in gold for tag in tags):
        low, high = percentile_interval(lambda w: _share(w @ right, w @ counts), len(gold), seed=seed)
        return TagFigures(accuracy=accuracy, precision=None, recall=None, f1=None, low=low, high=high)
    true, found, given = np.zeros((3, len(gold)))
    for place, (tags, named) in enumerate(zip(gold, predicted, strict=True)):
        wanted, got = entities(tags), entities(named)
        true[place], found[place], given[place] = len(wanted & got), len(got), len(wanted)
    low, high = percentile_interval(lambda w: _share(2 * (w @ true), w @ (found + given)), len(gold), seed=seed)
    precision, recall = true.sum() / max(1.0, found.sum()), true.sum() / max(1.0, given.sum())
    f1 = 2 * true.sum() / max(1.0, (found + given).sum())
    return TagFigures(
        accuracy=accuracy, precision=float(precision), recall=float(recall), f1=float(f1), low=low, high=high
    )


def accuracy_interval(
    gold: Sequence[str], predicted: Sequence[str], *, seed: int = 0
) -> tuple[float, float | None, float | None]:
    """Returns the proportion of labels that are right and its 95 % bootstrap interval."""
    right = np.array([a == b for a, b in zip(gold, predicted, strict=True)], np.float64)
    low, high = percentile_interval(lambda weights: weights @ right / len(right), len(right), seed=seed)
    return float(right.mean()), low, high


def _share(part: npt.NDArray[np.float64], whole: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return part / np.maximum(1.0, whole)


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" [{low:.4f}, {high:.4f}]"
