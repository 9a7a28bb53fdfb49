"""Word similarity of contextual encoders: a word's vector is its mean over sentences, in the layer that does best.

The layer is no free choice of whoever reports: it is chosen on one half of the pairs and measured on the other, both
ways, as in cross-validation with two folds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wenmai.measures.bootstrap import percentile_interval
from wenmai.measures.words import Pair, SimilarityResult, spearman
from wenmai.vectors.lengths import cosines

__all__ = ["InContextResult", "evaluate_in_context"]

_FEWEST = 4  # pairs, two in each half


@dataclass(frozen=True, kw_only=True)
class InContextResult(SimilarityResult):
    """The similarity of words whose vectors are means over sentences.

    ``spearman`` is the mean of those of the two ``halves`` of the pairs, each in the layer of ``layers`` that is best
    for the other half. ``every`` has the correlation of each layer over all pairs; its largest would be too good.
    """

    layers: tuple[int, ...] = ()
    halves: tuple[float, ...] = ()
    every: tuple[float | None, ...] = ()

    def __str__(self) -> str:
        text = super().__str__()
        if not self.layers:
            return text
        chosen = " and ".join(map(str, dict.fromkeys(self.layers)))
        return f"{text}; layer {chosen}, chosen on the other half of the pairs"


def evaluate_in_context(
    name: str,
    pairs: Sequence[Pair],
    vectors: Mapping[str, NDArray[np.float32]],
    *,
    seed: int = 0,
    resamples: int = 1000,
) -> InContextResult:
    """Correlates the cosines of pairs of words with human scores; the layer is chosen by halves.

    Args:
        name: Of the set.
        pairs: Words and scores; every other pair is in the first half, in the order of the set.
        vectors: (K, M), those of K layers, by word in lower case; words that are missing are not covered.
        seed: Of the bootstrap.
        resamples: Of the bootstrap, over the covered pairs, in the chosen layers.
    """
    known = [
        (vectors[a.lower()], vectors[b.lower()], score)
        for a, b, score in pairs
        if {a.lower(), b.lower()} <= vectors.keys()
    ]
    facts: Any = {"name": name, "covered": len(known), "total": len(pairs)}
    if len(known) < _FEWEST:
        return InContextResult(spearman=None, low=None, high=None, **facts)
    left, right = (np.stack([one[side] for one in known], 1) for side in (0, 1))  # (K, n, M)
    similar = np.stack([cosines(one, other) for one, other in zip(left, right, strict=True)])  # (K, n)
    people = np.array([score for _, _, score in known], np.float64)
    first = np.arange(len(known)) % 2 == 0
    halves = (first, ~first)
    # The layer of each half, chosen on the other one; of equally good layers the lowest.
    layers = [_best(similar[:, other], people[other]) for other in (halves[1], halves[0])]

    def mean(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        found = [
            spearman(similar[layer, half], people[half], weights[:, half])
            for layer, half in zip(layers, halves, strict=True)
        ]
        return np.mean(found, axis=0)  # type: ignore[no-any-return]

    def alone(layer: int, half: NDArray[np.bool_]) -> float:
        return float(spearman(similar[layer, half], people[half], np.ones((1, int(half.sum()))))[0])

    every = [alone(layer, first | ~first) for layer in range(len(similar))]
    value = float(mean(np.ones((1, len(known))))[0])
    if np.isnan(value):
        return InContextResult(spearman=None, low=None, high=None, **facts)
    low, high = percentile_interval(mean, len(known), resamples=resamples, seed=seed)
    return InContextResult(
        spearman=value,
        low=low,
        high=high,
        layers=tuple(layers),
        halves=tuple(alone(layer, half) for layer, half in zip(layers, halves, strict=True)),
        every=tuple(None if np.isnan(one) else one for one in every),
        **facts,
    )


def _best(similar: NDArray[np.float64], people: NDArray[np.float64]) -> int:
    found = [spearman(one, people, np.ones((1, len(people))))[0] for one in similar]
    return int(np.argmax(np.nan_to_num(found, nan=-np.inf)))
