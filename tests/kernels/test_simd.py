"""SIMD vectors against numpy."""

import numpy as np
import pytest
from numba import njit

from wenmai.kernels import simd


@njit
def decline(margins, count, rate):
    return simd.decline_in_place(simd.address(margins), count, rate)


@njit
def sums(vectors, out):
    zero, at = simd.zeros(16), simd.address(vectors)
    a, b, c, d = simd.load(at, zero), simd.load(at + 64, zero), simd.load(at + 128, zero), simd.load(at + 192, zero)
    simd.store_sums(simd.address(out), simd.address(out) + 8, a, b, c, d)
    return simd.lane_sum(a)


def vector_functions(lanes):
    @njit
    def times_scalar(scale, x, y, out):
        zero = simd.zeros(lanes)
        vector = simd.multiply_add(scale, simd.load(simd.address(x), zero), simd.load(simd.address(y), zero))
        simd.store(simd.address(out), vector)

    @njit
    def times_vector(x, y, z, out):
        zero = simd.zeros(lanes)
        product = simd.multiply_add(simd.load(simd.address(x), zero), simd.load(simd.address(y), zero), zero)
        simd.store(simd.address(out), simd.add(product, simd.load(simd.address(z), zero)))
        return simd.lane_sum(product)

    return times_scalar, times_vector


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("lanes", [16, 32, 64])
def test_vectors_multiply_and_add_and_touch_nothing_else(lanes):
    times_scalar, times_vector = vector_functions(lanes)
    x, y, z = numbers(3, lanes + 1)[:, 1:]  # rows of an odd stride: nothing is aligned
    out = np.full(lanes + 8, 7, np.float32)
    times_scalar(np.float32(-0.3), x, y, out)
    np.testing.assert_allclose(out[:lanes], np.float32(-0.3) * x + y, rtol=1e-6, atol=1e-6)
    total = times_vector(x, y, z, out)
    np.testing.assert_allclose(out[:lanes], x * y + z, rtol=1e-6, atol=1e-6)
    assert total == pytest.approx((x * y).sum(), abs=1e-5)
    assert (out[lanes:] == 7).all()


def test_four_sums_at_once():
    vectors, out = numbers(4, 16), np.full(6, 7, np.float32)
    first = sums(vectors, out)
    np.testing.assert_allclose(out, [*vectors.sum(axis=1), 7, 7], atol=1e-5)
    assert first == pytest.approx(vectors[0].sum(), abs=1e-5)


def test_scalars_are_stored_and_loaded():
    @njit
    def exchange(integers, floats):
        whole, real = simd.address(integers), simd.address(floats)
        simd.store_int(whole + 8, simd.load_int(whole))
        simd.store_float(real + 4, simd.load_float(real))
        return whole

    integers, floats = np.array([1 << 40, 2, 3]), numbers(3)
    expected = floats[[0, 0, 2]]
    assert exchange(integers, floats) == integers.ctypes.data
    assert integers.tolist() == [1 << 40, 1 << 40, 3]
    np.testing.assert_array_equal(floats, expected)


def test_logistic_loss_and_slope_are_accurate_everywhere():
    margins = np.linspace(-40, 40, 4001).astype(np.float32)
    exact = np.clip(margins.astype(np.float64), -30, 30)
    for margin, x in zip(margins, exact, strict=True):
        block = np.full(16, 80, np.float32)
        block[5] = margin
        loss = decline(block, 16, np.float32(0.5))
        assert loss == pytest.approx(np.log1p(np.exp(-x)), rel=5e-7, abs=1e-7)
        assert block[5] == pytest.approx(0.5 / (1 + np.exp(x)), rel=1e-6)


def test_the_losses_of_all_blocks_are_summed():
    margins = numbers(64, seed=3) * 5
    expected = np.logaddexp(0, -margins.astype(np.float64))
    assert decline(margins.copy(), 64, np.float32(1)) == pytest.approx(expected.sum(), rel=1e-6)
    changed = margins.copy()
    assert decline(changed, 17, np.float32(1)) == pytest.approx(expected[:32].sum(), rel=1e-6)  # whole blocks
    np.testing.assert_allclose(changed[:32], 1 / (1 + np.exp(margins[:32])), rtol=1e-6)
    np.testing.assert_array_equal(changed[32:], margins[32:])


def test_unused_places_cost_nothing():
    block = np.full(32, 80, np.float32)
    assert decline(block, 32, np.float32(1)) == 0
    assert block.max() < 1e-12


def test_one_nan_makes_the_loss_nan():
    for place in range(32):
        margins = numbers(32)
        margins[place] = np.nan
        assert np.isnan(decline(margins, 32, np.float32(0.1)))
        assert np.isnan(margins[place])


def test_infinite_margins_are_held_like_large_ones():
    block = np.full(16, 80, np.float32)
    block[:2] = np.inf, -np.inf
    assert decline(block, 16, np.float32(1)) == pytest.approx(30)
    np.testing.assert_allclose(block[:2], [0, 1], atol=1e-12)
