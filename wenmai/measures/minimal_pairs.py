"""How often a language model finds the acceptable sentence of a minimal pair likelier than the other one.

A pair is right if log P(good) > log P(bad), where log P is that of a sentence by itself and of its end. A tie is wrong:
a model that reads both sentences alike has not told them apart. Published is the mean of the accuracies of paradigms.

Source: Warstadt et al. 2020, "BLiMP: The Benchmark of Linguistic Minimal Pairs for English", section 4; of masked
models: Salazar et al. 2020, "Masked Language Model Scoring", whose pseudo-log-likelihood takes the place of log P.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wenmai.core.errors import CorpusError
from wenmai.measures.bootstrap import randomisation_p_value, wilson_interval
from wenmai.measures.language import SentenceScore

__all__ = ["AccuracyDifference", "MinimalPairsResult", "PairsFigure", "compare_outcomes", "measure_minimal_pairs"]

Bools = NDArray[np.bool_]

_ROUNDING = 1e-6  # two log-probabilities this near, relatively, are equal: else rounding in float32 would decide
_RESAMPLES = 1000
_SCALE = 1 << 20  # weights of pairs are whole numbers, so that sums are exact


@dataclass(frozen=True, kw_only=True)
class PairsFigure:
    """The accuracy on some pairs.

    Attributes:
        name: The paradigm or the phenomenon.
        phenomenon: To which it belongs.
        pairs: How many pairs.
        ties: Those of which both sentences have the same probability.
        accuracy: The mean of the accuracies of the paradigms.
        low: 95 % interval over the pairs, from ...
        high: ... to.
    """

    name: str
    phenomenon: str
    pairs: int
    ties: int
    accuracy: float
    low: float
    high: float

    def as_dict(self) -> dict[str, Any]:
        """Returns plain JSON values."""
        names = ("name", "phenomenon", "pairs", "ties", "accuracy", "low", "high")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, kw_only=True)
class MinimalPairsResult:
    """The result on a set of minimal pairs.

    Attributes:
        total: All pairs; its accuracy is the mean of the accuracies of the paradigms.
        pair_accuracy: Proportion of all pairs that are right.
        unknown: Pairs with an unknown token.
        uneven: Pairs of which one sentence has more unknown tokens than the other: what is compared there is the
            probability of a word with that of any unknown word.
        unknown_ties: Ties of sentences that are one to the model, since the words in which they differ are unknown.
        phenomena: By phenomenon, in the order in which they first occur.
        paradigms: By paradigm, likewise.
        outcomes: Of each pair whether it is right.
        groups: Of each pair the index of its paradigm.
    """

    total: PairsFigure
    pair_accuracy: float
    unknown: int
    uneven: int
    unknown_ties: int
    phenomena: tuple[PairsFigure, ...]
    paradigms: tuple[PairsFigure, ...]
    outcomes: Bools = field(repr=False, compare=False)
    groups: NDArray[np.intp] = field(repr=False, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """Returns plain JSON values; those of all pairs are at the top."""
        total = self.total
        names = ("accuracy", "low", "high", "pairs", "ties")
        return {
            **{name: getattr(total, name) for name in names},
            "pair_accuracy": self.pair_accuracy,
            "unknown": self.unknown,
            "uneven": self.uneven,
            "unknown_ties": self.unknown_ties,
            "phenomena": [one.as_dict() for one in self.phenomena],
            "paradigms": [one.as_dict() for one in self.paradigms],
        }


@dataclass(frozen=True, kw_only=True)
class AccuracyDifference:
    """By how much the accuracy of a second model is above that of a first on the same pairs.

    ``difference`` is between ``low`` and ``high`` with 95 % confidence (a bootstrap of the pairs of each paradigm).
    ``p_value`` is the chance of a difference at least as large between models that do not differ.
    """

    difference: float
    low: float
    high: float
    p_value: float


def measure_minimal_pairs(
    good: Sequence[SentenceScore],
    bad: Sequence[SentenceScore],
    names: Sequence[tuple[str, str]],
    *,
    seed: int = 0,
) -> MinimalPairsResult:
    """Compares the probabilities of sentences.

    The interval of one paradigm is Wilson's, that of the mean of several a bootstrap of the pairs of each.

    Args:
        good: The scores of the acceptable sentences.
        bad: Those of the others, in the same order.
        names: The phenomenon and the paradigm of each pair.
        seed: Makes the intervals reproducible.

    Raises:
        CorpusError: if there are no pairs.
    """
    if not names:
        raise CorpusError("there are no minimal pairs to measure on")
    both = list(zip(good, bad, strict=True))
    ties = np.array([_equal(first, second) for first, second in both])
    right = ~ties & np.array([first.log_prob > second.log_prob for first, second in both])
    unknown = np.array([(first.oov, second.oov) for first, second in both])
    keys = {key: place for place, key in enumerate(dict.fromkeys(names))}
    groups = np.array([keys[name] for name in names], np.intp)
    counted = [np.bincount(groups, what, len(keys)).astype(np.float64) for what in (right, ties, np.ones(len(both)))]

    def figure(name: str, phenomenon: str, places: Sequence[int]) -> PairsFigure:
        hits, tied, sizes = (one[places] for one in counted)
        low, high = _interval(hits, sizes, seed)
        return PairsFigure(
            name=name,
            phenomenon=phenomenon,
            pairs=int(sizes.sum()),
            ties=int(tied.sum()),
            accuracy=float((hits / sizes).mean()),
            low=low,
            high=high,
        )

    phenomena: dict[str, list[int]] = {}
    for (phenomenon, _), place in keys.items():
        phenomena.setdefault(phenomenon, []).append(place)
    return MinimalPairsResult(
        total=figure("all", "", range(len(keys))),
        pair_accuracy=float(right.mean()),
        unknown=int(unknown.any(axis=1).sum()),
        uneven=int((unknown[:, 0] != unknown[:, 1]).sum()),
        unknown_ties=sum(
            bool(tie) and first.oov > 0 and _alike(first, second)
            for tie, (first, second) in zip(ties, both, strict=True)
        ),
        phenomena=tuple(figure(name, name, places) for name, places in phenomena.items()),
        paradigms=tuple(figure(paradigm, phenomenon, [place]) for (phenomenon, paradigm), place in keys.items()),
        outcomes=right,
        groups=groups,
    )


def compare_outcomes(
    first: MinimalPairsResult, second: MinimalPairsResult, *, seed: int = 0, trials: int = 10_000
) -> AccuracyDifference:
    """Compares two models on the same pairs in the same order.

    Args:
        first: The result of one.
        second: That of the other.
        seed: Makes interval and p-value reproducible.
        trials: Of the randomisation test, see :func:`~wenmai.measures.bootstrap.randomisation_p_value`.
    """
    groups = first.groups
    sizes = np.bincount(groups)
    change = second.outcomes.astype(np.int64) - first.outcomes
    shares = np.stack([np.bincount(groups[change == value], minlength=len(sizes)) for value in (1, -1, 0)], 1)
    drawn = np.random.default_rng(seed).multinomial(sizes, shares / sizes[:, None], size=(_RESAMPLES, len(sizes)))
    means = ((drawn[..., 0] - drawn[..., 1]) / sizes).mean(1)
    low, high = np.percentile(means, (2.5, 97.5)).tolist()
    weights = np.rint(_SCALE * sizes.max() / sizes)[groups, None]
    p_value = randomisation_p_value(
        lambda sums: sums[:, 0], weights * first.outcomes[:, None], weights * second.outcomes[:, None],
        trials=trials, seed=seed,
    )  # fmt: skip
    return AccuracyDifference(
        difference=second.total.accuracy - first.total.accuracy, low=low, high=high, p_value=p_value
    )


def _equal(first: SentenceScore, second: SentenceScore) -> bool:
    """Whether no sentence is likelier; nothing is said of one without any token."""
    if not first.tokens or not second.tokens:
        return True
    return math.isclose(first.log_prob, second.log_prob, rel_tol=_ROUNDING)


def _alike(first: SentenceScore, second: SentenceScore) -> bool:
    """Whether a model reads the same in both: all their tokens are equally likely, one after the other."""
    if len(first.token_log_probs) != len(second.token_log_probs):
        return False
    pairs = zip(first.token_log_probs, second.token_log_probs, strict=True)
    return all(math.isclose(one, other, rel_tol=1e-5, abs_tol=1e-6) for one, other in pairs)


def _interval(hits: NDArray[np.float64], sizes: NDArray[np.float64], seed: int) -> tuple[float, float]:
    """The interval of the mean of the accuracies of paradigms with so many right pairs of so many."""
    if len(sizes) == 1:
        return wilson_interval(int(hits[0]), int(sizes[0]))
    # how often right pairs are drawn, of all pairs of a paradigm drawn with replacement, is binomial
    drawn = np.random.default_rng(seed).binomial(sizes.astype(np.int64), hits / sizes, size=(_RESAMPLES, len(sizes)))
    low, high = np.percentile((drawn / sizes).mean(1), (2.5, 97.5)).tolist()
    return low, high
