"""Correlations and errors of predicted numbers, against scipy and scikit-learn."""

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from wenmai.core.errors import CorpusError
from wenmai.measures.regression import correlations, measure_regression


def test_against_scipy():
    draw = np.random.default_rng(1)
    for size in (2, 3, 40):
        gold = draw.integers(0, 6, size) + np.arange(size) % 2  # with ties
        found = gold + draw.normal(size=size)
        result = measure_regression(gold, found, resamples=200)
        assert result.spearman == pytest.approx(spearmanr(gold, found).statistic)
        assert result.pearson == pytest.approx(pearsonr(gold, found).statistic)
        assert result.squared_error == pytest.approx(np.mean((gold - found) ** 2))


def test_intervals_are_those_of_resamples():
    draw = np.random.default_rng(2)
    gold = draw.normal(size=60)
    found = gold + draw.normal(size=60)
    result = measure_regression(gold, found, resamples=2000)
    rows = [draw.integers(0, 60, 60) for _ in range(2000)]
    for name, one in (("pearson", pearsonr), ("spearman", spearmanr)):
        low, high = np.percentile([one(gold[row], found[row]).statistic for row in rows], (2.5, 97.5))
        assert getattr(result, f"{name}_low") == pytest.approx(low, abs=0.03)
        assert getattr(result, f"{name}_high") == pytest.approx(high, abs=0.03)
    assert "Spearman's ρ" in str(result)


def test_equal_numbers_have_no_correlation():
    assert correlations(np.ones(3), np.arange(3.0)) == {}
    result = measure_regression([1, 1, 1], [1, 2, 3])
    assert result.spearman is result.pearson is result.pearson_low is None
    assert result.squared_error == pytest.approx(5 / 3)
    assert str(result).startswith("squared error")


@pytest.mark.parametrize(("shift", "scale"), [(1e8, 1.0), (0.0, 1e-7), (-1e6, 1e3)])
def test_intervals_do_not_depend_on_units(shift, scale):
    draw = np.random.default_rng(3)
    gold = draw.normal(size=50)
    found = gold + draw.normal(size=50)
    plain = measure_regression(gold, found, resamples=100)
    moved = measure_regression(shift + scale * gold, shift + scale * found, resamples=100)
    assert moved.pearson_low == pytest.approx(plain.pearson_low, abs=1e-5)
    assert moved.pearson_high == pytest.approx(plain.pearson_high, abs=1e-5)


def test_equal_numbers_that_do_not_add_up_exactly_have_no_correlation():
    result = measure_regression([0.1] * 3, [0.3, 0.1, 0.2])
    assert result.spearman is result.pearson is result.pearson_high is None


def test_resamples_of_equal_numbers_have_no_correlation():
    """Also where they do not add up exactly."""
    for low, high in ((0.3, 4.7), (1.0, 5.0)):
        gold = [low] * 5 + [high]
        found = measure_regression(gold, [one + 0.01 * place for place, one in enumerate(gold)])
        assert found.pearson_low > 0.9


@pytest.mark.parametrize("huge", [1e200, float("inf"), float("nan")])
def test_numbers_that_are_too_large_are_refused(huge):
    for gold, found in (([1.0, huge], [1.0, 2.0]), ([1.0, 2.0], [1.0, huge])):
        with pytest.raises(CorpusError, match="too large to compute with; scale the numbers"):
            measure_regression(gold, found)


def test_numbers_without_predictions_are_refused():
    with pytest.raises(CorpusError, match="2 examples have 1 predictions"):
        measure_regression([1, 2], [1])
    with pytest.raises(CorpusError, match="0 examples"):
        measure_regression([], [])
