"""Learning rates by step."""

import itertools
import math

import pytest

from wenmai.core.errors import SettingError
from wenmai.training.schedule import noam_peak, rate_schedule
from wenmai.training.settings import LoopConfig


def noam(step, size=512, warmup=4000):
    """Vaswani et al. 2017, eq. 3."""
    return size**-0.5 * min(step**-0.5, step * warmup**-1.5)


@pytest.mark.parametrize(
    ("step", "expected"),
    [(1, 1.746928e-7), (100, 1.746928e-5), (4000, 6.987712e-4), (10_000, 4.419417e-4), (100_000, 1.397542e-4)],
)
def test_noam_has_the_values_of_the_paper(step, expected):
    rate = rate_schedule("noam", peak=noam_peak(512, 4000), warmup=4000, steps=100_000)
    assert rate(step) == pytest.approx(expected, rel=1e-6)
    assert rate(step) == pytest.approx(noam(step), rel=1e-12)


@pytest.mark.parametrize("kind", ["noam", "linear", "cosine", "constant"])
def test_every_schedule_rises_to_the_peak_in_the_warmup_and_never_exceeds_it(kind):
    rate = rate_schedule(kind, peak=0.5, warmup=10, steps=100)
    assert [rate(step) for step in range(1, 11)] == pytest.approx([0.05 * step for step in range(1, 11)])
    assert all(0 <= rate(step) <= 0.5 for step in range(1, 200))


@pytest.mark.parametrize("kind", ["linear", "cosine"])
def test_the_floor_is_where_a_falling_rate_ends(kind):
    """GPT-3, appendix B: cosine decay to 10 % of the highest rate."""
    rate = rate_schedule(kind, peak=2.0, warmup=20, steps=120, floor=0.1)
    assert rate(20) == 2.0
    assert rate(70) == pytest.approx(2.0 * 0.55)
    assert rate(120) == rate(500) == pytest.approx(0.2)
    rates = [rate(step) for step in range(20, 130)]
    assert rates == sorted(rates, reverse=True)


def test_a_floor_without_a_fall_is_refused():
    with pytest.raises(SettingError, match="rate_floor has no effect with schedule=noam"):
        LoopConfig(rate_floor=0.1)


def test_linear_and_cosine_end_at_zero_and_stay_there():
    for kind, half in (("linear", 0.5), ("cosine", 0.5)):
        rate = rate_schedule(kind, peak=1.0, warmup=20, steps=120)
        assert rate(70) == pytest.approx(half)
        assert rate(120) == pytest.approx(0, abs=1e-12)
        assert rate(500) == pytest.approx(0, abs=1e-12)  # an epoch may have more batches than the first had


@pytest.mark.parametrize("kind", ["noam", "linear", "cosine", "constant"])
def test_a_training_of_one_step_learns(kind):
    assert rate_schedule(kind, peak=1.0, warmup=None, steps=1)(1) >= 0.5


def test_cosine_is_a_cosine():
    rate = rate_schedule("cosine", peak=2.0, warmup=0, steps=10)
    assert rate(3) == pytest.approx(1 + math.cos(0.3 * math.pi))


@pytest.mark.parametrize("kind", ["noam", "linear", "cosine", "constant"])
def test_without_a_warmup_the_first_step_is_finite(kind):
    rate = rate_schedule(kind, peak=1.0, warmup=0, steps=10)
    assert 0.8 < rate(1) <= 1.0
    assert rate_schedule(kind, peak=1.0, warmup=50, steps=10)(10) == pytest.approx(0.2)  # a warmup that never ends


def test_with_an_end_by_the_clock_the_rate_is_zero_when_time_is_up():
    for kind in ("linear", "cosine"):
        rate = rate_schedule(kind, peak=1.0, warmup=10, steps=1000)
        assert rate(20, 0.5) == pytest.approx(0.5)
        assert rate(30, 1.01) == pytest.approx(0, abs=1e-12)
        assert rate(505, 0.1) == rate(505)  # whichever end is nearer
        assert rate(5, 0.2) == 0.5  # so many updates of warm-up were asked for
        assert rate(5, 1.0) == pytest.approx(0, abs=1e-12)  # which time does not suffice for


@pytest.mark.parametrize("kind", ["noam", "linear", "cosine", "constant"])
def test_a_warmup_that_was_not_set_is_over_after_a_tenth_of_the_time(kind):
    rate = rate_schedule(kind, peak=1.0, warmup=None, steps=100_000)
    assert rate(10, 0.05) == pytest.approx(0.5)
    assert rate(20, 0.1) == pytest.approx(1.0)
    assert all(rate(step, share / 20) <= 1.0 for step in (1, 100, 4000, 8000) for share in range(21))
    assert rate(1000) == pytest.approx(0.25)  # without an end by the clock: a tenth of the updates, 4,000 at most


@pytest.mark.parametrize("kind", ["noam", "linear", "cosine", "constant"])
@pytest.mark.parametrize("warmup", [None, 300])
def test_a_rate_never_jumps(kind, warmup):
    steps = 2000
    rate = rate_schedule(kind, peak=1.0, warmup=warmup, steps=10 * steps)
    rates = [rate(step, step / steps) for step in range(1, steps + 1)]
    assert max(abs(after - before) for before, after in itertools.pairwise(rates)) < 0.0051
