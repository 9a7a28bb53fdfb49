"""Bootstrap intervals."""

import numpy as np
import pytest

from wenmai.core.errors import SettingError
from wenmai.measures import bootstrap
from wenmai.measures.bootstrap import percentile_interval


def mean_of(values):
    return lambda weights: weights @ values / len(values)


def test_the_interval_of_a_mean_is_the_normal_one():
    values = np.random.default_rng(1).normal(3, 2, 400)
    low, high = percentile_interval(mean_of(values), 400, resamples=4000)
    error = values.std() / 20
    assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.1 * error)
    assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.1 * error)


def test_every_resample_draws_as_many_items_as_there_are():
    seen = []
    percentile_interval(lambda weights: seen.append(weights) or weights[:, 0], 7, resamples=50)
    weights = np.concatenate(seen)
    assert weights.shape == (50, 7)
    assert (weights.sum(axis=1) == 7).all()
    assert len(np.unique(weights, axis=0)) > 40


def test_the_seed_decides(monkeypatch):
    values = np.arange(10.0)
    first = percentile_interval(mean_of(values), 10, seed=1)
    assert percentile_interval(mean_of(values), 10, seed=1) == first
    assert percentile_interval(mean_of(values), 10, seed=2) != first
    monkeypatch.setattr(bootstrap, "DRAWS_AT_ONCE", 30)
    assert percentile_interval(mean_of(values), 10, seed=1) == pytest.approx(first, abs=0.5)


def test_resamples_without_a_value_are_left_out():
    low, high = percentile_interval(lambda weights: np.where(weights[:, 0] > 0, 5.0, np.nan), 3)
    assert (low, high) == (5, 5)
    assert percentile_interval(lambda weights: np.full(len(weights), np.nan), 3) == (None, None)
    assert percentile_interval(lambda weights: np.ones(len(weights)), 0) == (None, None)


def test_no_resamples_make_no_interval():
    with pytest.raises(SettingError, match="at least 1 resample"):
        percentile_interval(mean_of(np.ones(3)), 3, resamples=0)
