"""The uncertainty of metrics: intervals, and a significance test of the difference of two systems."""

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from wenmai.core.errors import SettingError

__all__ = ["percentile_interval", "percentile_intervals", "randomisation_p_value", "resampled", "wilson_interval"]

DRAWS_AT_ONCE = 1 << 20


def percentile_interval(
    statistic: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    size: int,
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> tuple[float, float] | tuple[None, None]:
    """Returns the 95 % percentile interval of a statistic of ``size`` items drawn with replacement.

    Args:
        statistic: maps weights (R, size), how often each item was drawn in each of R resamples, to values (R,);
            NaN where a resample has no value.
        size: number of items.
        resamples: how often to draw.
        seed: makes the interval reproducible.

    Returns:
        The 2.5th and 97.5th percentile of the values, or two ``None`` if no resample has one.

    Raises:
        SettingError: for fewer than one resample.

    Source: Efron and Tibshirani 1993, "An Introduction to the Bootstrap", section 13.3.
    """
    found = resampled(statistic, size, resamples=resamples, seed=seed)
    found = found[~np.isnan(found)]
    if not len(found):
        return None, None
    low, high = np.percentile(found, (2.5, 97.5)).tolist()
    return low, high


def percentile_intervals(
    statistics: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    size: int,
    count: int,
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> list[tuple[float, float] | tuple[None, None]]:
    """Returns the 95 % percentile intervals of several statistics, from the same draws of the same items.

    Args:
        statistics: maps weights (R, size) to values (R, count); NaN where a resample has no value.
        size: number of items.
        count: number of statistics.
        resamples: how often to draw.
        seed: makes the draws reproducible; the draws are those of :func:`percentile_interval`.

    Returns:
        For each statistic its interval, or two ``None`` if no resample has a value.

    Raises:
        SettingError: for fewer than one resample.
    """
    rows: list[NDArray[np.float64]] = []

    def keep(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        rows.append(statistics(weights))
        return np.empty(0)

    resampled(keep, size, resamples=resamples, seed=seed)
    found: list[tuple[float, float] | tuple[None, None]] = []
    for values in np.concatenate([np.empty((0, count)), *rows]).T:
        real = values[~np.isnan(values)]
        found.append(tuple(np.percentile(real, (2.5, 97.5)).tolist()) if len(real) else (None, None))
    return found


def resampled(
    statistic: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    size: int,
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Returns the values of a statistic in bootstrap resamples of ``size`` items.

    Args:
        statistic: maps weights (R, size), how often each item was drawn in each of R resamples, to values (R,).
        size: number of items.
        resamples: how often to draw.
        seed: makes the draws reproducible; the same seed and size draw the same items.

    Returns:
        (resamples,) values, none at all for no items.

    Raises:
        SettingError: for fewer than one resample.
    """
    if resamples < 1:
        raise SettingError(f"a bootstrap needs at least 1 resample, got {resamples}")
    generator = np.random.default_rng(seed)
    values = [np.empty(0)]
    for rows in _portions(resamples, size) if size else ():
        drawn = generator.integers(size, size=(rows, size)) + size * np.arange(rows)[:, None]
        weights = np.bincount(drawn.ravel(), minlength=rows * size).reshape(rows, size)
        values.append(statistic(weights.astype(np.float64)))
    return np.concatenate(values)


def wilson_interval(successes: int, trials: int) -> tuple[float, float]:
    """Returns the 95 % score interval of a proportion, which is wider than a point where all or no trials succeed.

    Args:
        successes: How many trials succeeded.
        trials: Of how many, at least one.

    Source: Wilson 1927, "Probable Inference, the Law of Succession, and Statistical Inference".
    """
    z = 1.959963984540054  # of the normal distribution, 97.5 %
    share = successes / trials
    middle = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    width = z / (1 + z * z / trials) * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    return max(0.0, middle - width), min(1.0, middle + width)


def randomisation_p_value(
    score: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    *,
    trials: int = 10_000,
    seed: int = 0,
) -> float:
    """Returns how likely a difference of this size is if the two systems do not differ (two-sided).

    Each trial swaps the outputs of the systems, item by item, at random. The p-value is the proportion of
    trials whose scores differ at least as much as the real ones, the real ones counted as one trial more, so it is
    never 0, and 1 for systems that are the same.

    Args:
        score: maps sums of statistics (R, K) to scores (R,).
        first: (n, K) statistics of the first system, whole numbers, a row for each item.
        second: (n, K) the same of the second system.
        trials: how often to swap.
        seed: makes the p-value reproducible.

    Raises:
        SettingError: for fewer than one trial.

    Source: Riezler and Maxwell 2005, "On Some Pitfalls in Automatic Evaluation and Significance Testing for MT".
    """
    if trials < 1:
        raise SettingError(f"a randomisation test needs at least 1 trial, got {trials}")
    generator = np.random.default_rng(seed)
    one, other, change = first.sum(axis=0), second.sum(axis=0), second - first
    real = abs(float(score(one[None])[0] - score(other[None])[0]))
    extreme = 0
    for rows in _portions(trials, len(first)):
        swapped = generator.integers(2, size=(rows, len(first)), dtype=np.uint8).astype(np.float64)
        moved = swapped @ change  # sums of whole numbers, so exact: no tolerance is needed below
        extreme += int((np.abs(score(one + moved) - score(other - moved)) >= real).sum())
    return (extreme + 1) / (trials + 1)


def _portions(total: int, size: int) -> Iterator[int]:
    """Splits ``total`` rows of ``size`` numbers into numbers of rows that fit the memory."""
    step = max(1, DRAWS_AT_ONCE // max(size, 1))
    for start in range(0, total, step):
        yield min(step, total - start)
