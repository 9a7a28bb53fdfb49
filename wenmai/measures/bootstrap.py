"""How far a measured number can be trusted: bootstrap confidence intervals."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from wenmai.core.errors import SettingError

__all__ = ["percentile_interval"]

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
        seed: makes the interval repeatable.

    Returns:
        The 2.5th and 97.5th percentile of the values, or two ``None`` if no resample has one.

    Raises:
        SettingError: for fewer than one resample.

    Source: Efron and Tibshirani 1993, "An Introduction to the Bootstrap", section 13.3.
    """
    if resamples < 1:
        raise SettingError(f"a bootstrap needs at least 1 resample, got {resamples}")
    generator = np.random.default_rng(seed)
    step = max(1, DRAWS_AT_ONCE // max(size, 1))
    values = []
    for start in range(0, resamples if size else 0, step):
        rows = min(step, resamples - start)
        drawn = generator.integers(size, size=(rows, size)) + size * np.arange(rows)[:, None]
        weights = np.bincount(drawn.ravel(), minlength=rows * size).reshape(rows, size)
        values.append(statistic(weights.astype(np.float64)))
    found = np.concatenate([*values, np.empty(0)])
    found = found[~np.isnan(found)]
    if not len(found):
        return None, None
    low, high = np.percentile(found, (2.5, 97.5)).tolist()
    return low, high
