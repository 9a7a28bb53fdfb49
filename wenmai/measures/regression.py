"""How well numbers are predicted: correlation and error, with intervals."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import CorpusError
from wenmai.measures.bootstrap import percentile_intervals
from wenmai.measures.words import spearman

__all__ = ["RegressionResult", "correlations", "measure_regression"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class RegressionResult:
    """The result on a test set; intervals are 95 % bootstrap intervals over examples.

    Attributes:
        examples: Examples.
        spearman: Spearman's ρ (None where all numbers are equal).
        spearman_low: Its interval, from ...
        spearman_high: ... to.
        pearson: Pearson's r (None where all numbers are equal).
        pearson_low: Its interval, from ...
        pearson_high: ... to.
        squared_error: Mean squared error.
        squared_error_low: Its interval, from ...
        squared_error_high: ... to.
    """

    examples: int
    spearman: float | None
    spearman_low: float | None
    spearman_high: float | None
    pearson: float | None
    pearson_low: float | None
    pearson_high: float | None
    squared_error: float
    squared_error_low: float | None
    squared_error_high: float | None

    def as_dict(self) -> dict[str, Any]:
        """Returns plain JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        parts = []
        for name, title in (
            ("spearman", "Spearman's ρ"),
            ("pearson", "Pearson's r"),
            ("squared_error", "squared error"),
        ):
            value, low, high = (getattr(self, name + end) for end in ("", "_low", "_high"))
            if value is not None:
                form = ".4g" if name == "squared_error" else ".4f"  # which has the scale of the numbers
                parts.append(f"{title} {value:{form}}" + ("" if low is None else f" [{low:{form}}, {high:{form}}]"))
        return "  ".join([*parts, f"({self.examples:,} examples)"])


def correlations(gold: Floats, found: Floats) -> dict[str, float]:
    """Returns ``spearman`` and ``pearson`` of (N,) numbers; neither where all numbers of a side are equal."""
    if len(gold) < 2 or gold.min() == gold.max() or found.min() == found.max():
        return {}
    ranks = float(spearman(gold, found, np.ones((1, len(gold)), np.int64))[0])
    return {"spearman": ranks, "pearson": float(np.corrcoef(gold, found)[0, 1])}


def measure_regression(
    gold: Sequence[float] | Floats, found: Sequence[float] | Floats, *, resamples: int = 1000, seed: int = 0
) -> RegressionResult:
    """Compares predicted numbers with the right ones.

    Args:
        gold: (N,) the right numbers.
        found: (N,) those that were predicted.
        resamples: Draws of the bootstrap.
        seed: Decides the draws.

    Raises:
        CorpusError: if there are no numbers, not as many predictions, or some whose squares are too large.
    """
    right, given = np.asarray(gold, np.float64), np.asarray(found, np.float64)
    if not len(right) or right.shape != given.shape:
        raise CorpusError(f"{len(right)} examples have {len(given)} predictions; expected one for each of at least one")
    with np.errstate(over="ignore", invalid="ignore"):
        error = np.square(right - given)
    if not np.isfinite(error).all():
        raise CorpusError("a number, or what was predicted, is too large to compute with; scale the numbers")
    known = correlations(right, given)

    def statistics(weights: Floats) -> Floats:
        return np.column_stack(
            [
                spearman(right, given, weights.astype(np.int64)) if known else np.full(len(weights), np.nan),
                _pearson(right, given, weights),
                weights @ error / weights.sum(1),
            ]
        )

    bounds = percentile_intervals(statistics, len(right), 3, resamples=resamples, seed=seed)
    return RegressionResult(
        examples=len(right),
        spearman=known.get("spearman"),
        spearman_low=bounds[0][0],
        spearman_high=bounds[0][1],
        pearson=known.get("pearson"),
        pearson_low=bounds[1][0],
        pearson_high=bounds[1][1],
        squared_error=float(error.mean()),
        squared_error_low=bounds[2][0],
        squared_error_high=bounds[2][1],
    )


def _pearson(one: Floats, other: Floats, weights: Floats) -> Floats:
    """Pearson's r of numbers that were drawn so often, (R,); NaN where all that was drawn is equal."""
    one, other = _centred(one), _centred(other)
    count = weights.sum(1)
    means = weights @ one / count, weights @ other / count
    both = weights @ (one * other) / count - means[0] * means[1]
    spread = [weights @ np.square(x) / count - np.square(mean) for x, mean in zip((one, other), means, strict=True)]
    product = np.sqrt(np.maximum(spread[0], 0) * np.maximum(spread[1], 0))
    differ = np.minimum(*spread) > 1e-12  # of numbers with a deviation of 1, less is rounding
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Floats = np.where(differ, both / product, np.nan)
    return found


def _centred(numbers: Floats) -> Floats:
    """Numbers around 0 with a deviation of 1, so that sums of squares lose nothing; equal ones are all 0."""
    if numbers.min() == numbers.max():
        return np.zeros(len(numbers))
    centred = (numbers - numbers.mean()) / np.abs(numbers - numbers.mean()).max()
    found: Floats = centred / centred.std()
    return found
