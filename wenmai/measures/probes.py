"""Metrics of linear probes: how well a linear model solves a task on frozen vectors."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from wenmai.measures.bootstrap import wilson_interval
from wenmai.measures.tagging import TagFigures, entities, measure_tags

__all__ = ["TagFigures", "TaggingProbe", "TextProbe", "accuracy_interval", "entities", "measure_tags"]


@dataclass(frozen=True, kw_only=True)
class TextProbe:
    """A probe on averages of the vectors of a text's words.

    Attributes:
        dataset: The data set.
        split: What was measured on.
        weighting: ``mean``, ``tfidf`` or ``sif``.
        accuracy: Proportion of the texts that are classified correctly.
        low: 95 % interval of Wilson, from ...
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


def accuracy_interval(gold: Sequence[str], predicted: Sequence[str]) -> tuple[float, float, float]:
    """Returns the proportion of labels that are right and its 95 % interval, that of Wilson."""
    right = sum(a == b for a, b in zip(gold, predicted, strict=True))
    return right / len(gold), *wilson_interval(right, len(gold))


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" [{low:.4f}, {high:.4f}]"
