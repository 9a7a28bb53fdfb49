import math

import pytest
import torch

from wenmai.decode.scoring import Scoring, coverage_penalty, gnmt_length_penalty


@pytest.mark.parametrize(
    ("length", "alpha", "expected"),
    [(1, 0.6, 1.0), (5, 0.6, 1.358655), (10, 0.6, 1.732862), (20, 0.6, 2.354362), (10, 0.2, 1.201124), (7, 0, 1)],
)
def test_the_gnmt_length_penalty_has_its_published_form(length, alpha, expected):
    assert gnmt_length_penalty(length, alpha) == pytest.approx(expected, abs=1e-6)


def test_coverage_costs_nothing_when_everything_is_covered():
    assert coverage_penalty(torch.tensor([[1.0, 2.5, 1.0]])).tolist() == [0]


def test_coverage_sums_the_logarithms_of_what_is_missing():
    attended = torch.tensor([[0.5, 3.0, 0.25, 0.0]], dtype=torch.float64)
    mask = torch.tensor([[True, True, True, False]])
    assert coverage_penalty(attended, mask).item() == pytest.approx(math.log(0.5) + math.log(0.25))


def test_a_source_position_without_any_attention_is_not_forbidden():
    assert math.isfinite(coverage_penalty(torch.zeros(1, 2)).item())


@pytest.mark.parametrize(
    ("kind", "alpha", "expected"),
    [("none", 1.0, -6.0), ("mean", 1.0, -1.5), ("mean", 0.5, -3.0), ("gnmt", 1.0, -4.0), ("reward", 0.5, -4.0)],
)
def test_each_penalty_follows_its_equation(kind, alpha, expected):
    scoring = Scoring(length_penalty=kind, alpha=alpha, coverage_beta=0.0)
    assert scoring.scores(torch.tensor(-6.0), 4).item() == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["none", "mean", "gnmt", "reward"])
def test_no_continuation_exceeds_the_bound(kind):
    scoring = Scoring(length_penalty=kind, alpha=0.7, coverage_beta=0.0)
    bound = scoring.bound(torch.tensor([-3.0]), torch.tensor([9]))
    for length in range(3, 10):
        for loss in (0.0, 0.5, 4.0):
            assert scoring.scores(torch.tensor([-3.0 - loss]), length) <= bound + 1e-6


@pytest.mark.parametrize(
    "values", [("cubic", 1.0, 0.0), ("mean", -1.0, 0.0), ("none", 1.0, -0.1), ("mean", math.nan, 0)]
)
def test_settings_without_a_meaning_are_refused(values):
    with pytest.raises(ValueError, match=r"must be|cannot be"):
        Scoring(length_penalty=values[0], alpha=values[1], coverage_beta=values[2])
