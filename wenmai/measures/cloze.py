"""How many masked entities a model recovers exactly: a cloze test of what it knows (Sun et al. 2019, section 4.5).

An entity is recovered if each of its tokens is the one that the model finds most likely there. The interval is a
bootstrap of texts, whose entities are not independent of each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wenmai.core.errors import CorpusError
from wenmai.measures.bootstrap import percentile_interval, wilson_interval

__all__ = ["ClozeResult", "measure_cloze"]


@dataclass(frozen=True, kw_only=True)
class ClozeResult:
    """The entities that were recovered.

    Attributes:
        entities: How many were masked.
        texts: In how many texts.
        exact: The fraction that was recovered exactly.
        low: 95 % interval over the texts, from ...
        high: ... to.
        token_accuracy: The fraction of their tokens that was recovered.
        by_length: Of entities of each number of tokens how many there are, and the fraction that was recovered.
        outcomes: (entities,) which were recovered, in the order in which they were given.
    """

    entities: int
    texts: int
    exact: float
    low: float
    high: float
    token_accuracy: float
    by_length: dict[int, tuple[int, float]]
    outcomes: NDArray[np.bool_] = field(repr=False, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """Returns plain JSON values."""
        names = ("entities", "texts", "exact", "low", "high", "token_accuracy")
        lengths = {str(length): {"entities": n, "exact": share} for length, (n, share) in self.by_length.items()}
        return {**{name: getattr(self, name) for name in names}, "by_length": lengths}


def measure_cloze(
    wanted: Sequence[Sequence[int]], found: Sequence[Sequence[int]], texts: Sequence[int], *, seed: int = 0
) -> ClozeResult:
    """Compares what a model fills in with what was masked.

    Args:
        wanted: The tokens of each entity.
        found: As many, those that the model finds most likely.
        texts: The number of the text of each.
        seed: Makes the interval reproducible.

    Raises:
        CorpusError: if there are no entities.
    """
    if not len(wanted):
        raise CorpusError("there are no entities to measure on")
    outcomes = np.array([list(one) == list(other) for one, other in zip(wanted, found, strict=True)])
    tokens = [one == other for row in zip(wanted, found, strict=True) for one, other in zip(*row, strict=True)]
    _, groups = np.unique(np.asarray(texts), return_inverse=True)
    right, counts = np.bincount(groups, outcomes), np.bincount(groups).astype(np.float64)

    def share(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        return (weights @ right) / (weights @ counts)

    low, high = percentile_interval(share, len(counts), seed=seed)
    if low is None or high is None or low == high:  # such as none recovered at all
        low, high = wilson_interval(int(outcomes.sum()), len(outcomes))
    sizes = np.array([len(one) for one in wanted])
    return ClozeResult(
        entities=len(outcomes),
        texts=len(counts),
        exact=float(outcomes.mean()),
        low=low,
        high=high,
        token_accuracy=float(np.mean(tokens)),
        by_length={
            int(size): (int((sizes == size).sum()), float(outcomes[sizes == size].mean())) for size in np.unique(sizes)
        },
        outcomes=outcomes,
    )
