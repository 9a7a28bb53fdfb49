"""Product quantisation against plain numpy."""

import numpy as np
import pytest

from wenmai.kernels.quantise import CENTRES, k_means, quantise

GENERATOR = np.random.default_rng(2)


def decoded(rows):
    """The rows that codes stand for, part by part."""
    found = np.zeros(rows.shape)
    for number, first in enumerate(range(0, rows.width, rows.part)):
        size = min(rows.part, rows.width - first)
        centres = rows.centres[CENTRES * first : CENTRES * (first + size)].reshape(CENTRES, size)
        found[:, first : first + size] = centres[rows.codes[:, number]]
    return found if rows.norm_codes is None else found * rows.norm_centres[rows.norm_codes][:, None]


@pytest.mark.parametrize("with_norms", [False, True])
@pytest.mark.parametrize("part", [1, 2, 3, 5])
def test_codes_stand_for_rows_like_the_original(part, with_norms):
    matrix = GENERATOR.normal(size=(700, 5)).astype(np.float32)
    rows = quantise(matrix, part, with_norms=with_norms)
    assert rows.codes.shape == (700, -(-5 // part))
    np.testing.assert_allclose(rows.dense(), decoded(rows), rtol=1e-5, atol=1e-6)
    error = np.mean((rows.dense() - matrix) ** 2)
    assert error < {1: 1e-3, 2: 0.02, 3: 0.1, 5: 0.5}[part]


def test_means_of_rows():
    matrix = GENERATOR.normal(size=(300, 7)).astype(np.float32)
    rows = quantise(matrix, 2, with_norms=True)
    start, chosen = np.array([0, 3, 3, 5]), np.array([7, 299, 7, 0, 1], np.int32)
    expected = [decoded(rows)[[7, 299, 7]].mean(axis=0), np.zeros(7), decoded(rows)[[0, 1]].mean(axis=0)]
    np.testing.assert_allclose(rows.means(start, chosen), expected, rtol=1e-5, atol=1e-6)


def test_every_row_has_its_nearest_centre():
    matrix = GENERATOR.normal(size=(400, 2)).astype(np.float32)
    rows = quantise(matrix, 2, with_norms=False)
    distances = ((matrix[:, None] - rows.centres.reshape(1, CENTRES, 2)) ** 2).sum(axis=2)
    chosen = np.take_along_axis(distances, rows.codes.astype(np.int64), axis=1)[:, 0]
    np.testing.assert_allclose(chosen, distances.min(axis=1), atol=1e-6)


def test_few_different_rows_are_kept_exactly():
    matrix = np.repeat(GENERATOR.normal(size=(20, 4)).astype(np.float32), 20, axis=0)
    np.testing.assert_allclose(quantise(matrix, 4, with_norms=False).dense(), matrix, atol=1e-5)
    assert not quantise(np.zeros((256, 2), np.float32), 2, with_norms=True).dense().any()


def test_more_rounds_bring_centres_closer():
    values = np.concatenate([GENERATOR.normal(size=(2_000, 3)), np.full((500, 3), 5)]).astype(np.float32)
    GENERATOR.shuffle(values)
    centres = k_means(values)
    error = ((values[:, None] - centres[None]) ** 2).sum(axis=2).min(axis=1).mean()
    first = ((values[:, None] - values[None, :CENTRES]) ** 2).sum(axis=2).min(axis=1).mean()
    assert np.isfinite(centres).all()
    assert error < 0.8 * first


def test_the_same_seed_gives_the_same_bytes():
    matrix = GENERATOR.normal(size=(300, 3)).astype(np.float32)
    one, two = quantise(matrix, 2, with_norms=True), quantise(matrix, 2, with_norms=True)
    assert all(np.array_equal(array, two.tensors("")[name]) for name, array in one.tensors("").items())
