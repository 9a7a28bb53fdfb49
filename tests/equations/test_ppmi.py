"""PPMI + SVD against its equations, on dense matrices in float64."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from wenmai.core.errors import SettingError, TrainingError
from wenmai.models.ppmi import PpmiConfig, PpmiSvd, positive_information
from wenmai.text.vocab import Vocab

EXAMPLE = np.array([[0, 2, 1], [2, 0, 3], [1, 3, 0]], np.float32)


def information(matrix, **chosen):
    return positive_information(sparse.csr_array(matrix), **chosen).toarray()


def by_definition(counts, smoothing, negative):
    """max(log(#(w,c) Σ#(c)^s / (#(w) #(c)^s)) - log k, 0), 0 where the count is."""
    counts = counts.astype(np.float64)
    contexts = counts.sum(axis=0) ** smoothing
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.log(counts * contexts.sum() / np.outer(counts.sum(axis=1), contexts)) - np.log(negative)
    return np.maximum(np.nan_to_num(found, nan=0, posinf=0, neginf=0), 0)


def vocab(size):
    return Vocab([f"w{number}" for number in range(size)], np.arange(size, 0, -1))


def test_worked_values():
    plain = information(EXAMPLE)
    assert plain[0, 1] == pytest.approx(0.470004, abs=1e-6)
    assert plain[0, 2] == 0
    assert plain[1, 2] == pytest.approx(0.587787, abs=1e-6)
    smoothed = information(EXAMPLE, smoothing=0.75)
    assert smoothed[0, 1] == pytest.approx(0.521816, abs=1e-6)
    assert smoothed[0, 2] == 0  # -0.003973 before the cut
    assert smoothed[1, 0] == pytest.approx(0.394110, abs=1e-6)
    assert smoothed[2, 1] == pytest.approx(0.639599, abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 1000),
    size=st.integers(1, 12),
    smoothing=st.sampled_from([1.0, 0.75]),
    negative=st.sampled_from([1.0, 1.5, 5.0]),
)
def test_associations_are_those_of_the_definition(seed, size, smoothing, negative):
    generator = np.random.default_rng(seed)
    counts = (generator.gamma(0.5, 4, (size, size)) * (generator.random((size, size)) < 0.5)).astype(np.float32)
    counts[0, 0] = 1
    found = information(counts, smoothing=smoothing, negative=negative)
    np.testing.assert_allclose(found, by_definition(counts, smoothing, negative), atol=1e-5)
    stored = positive_information(sparse.csr_array(counts), smoothing=smoothing, negative=negative)
    assert (stored.data > 0).all()


@pytest.fixture(scope="module")
def counts():
    generator = np.random.default_rng(1)
    topics = generator.gamma(0.3, 1, (60, 4))
    found = generator.poisson(3 * topics @ topics.T)
    return (found + found.T).astype(np.float32)


def fit(counts, **chosen):
    return PpmiSvd.fit(PpmiConfig(vector_size=6, **chosen), vocab(60), sparse.csr_array(counts), 1)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_the_factors_are_those_of_the_dense_decomposition(counts, power):
    matrix = by_definition(counts, 0.75, 1.0)
    left, values, right = np.linalg.svd(matrix)
    model = fit(counts, eigenvalue_weight=power)
    np.testing.assert_allclose(model.singular_values, values[:6], rtol=1e-4)
    for ours, basis in ((model.words, left), (model.contexts, right.T)):
        expected = basis[:, :6] * values[:6] ** power
        np.testing.assert_allclose(ours @ ours.T, expected @ expected.T, atol=2e-3 * values[0])  # signs are free
    assert model.left_out == pytest.approx(1 - (values[:6] ** 2).sum() / (matrix**2).sum(), abs=1e-5)
    if power == 0.5:
        best = (left[:, :6] * values[:6]) @ right[:6]
        np.testing.assert_allclose(model.words @ model.contexts.T, best, atol=1e-3)


def test_the_same_seed_gives_the_same_bytes(counts):
    assert fit(counts).words.tobytes() == fit(counts).words.tobytes()


def test_contexts_can_be_added_and_rows_made_equally_long(counts):
    plain, added = fit(counts), fit(counts, add_contexts=True)
    np.testing.assert_array_equal(added.vectors().vectors, plain.words + plain.contexts)
    lengths = np.linalg.norm(fit(counts, normalise=True).vectors().vectors, axis=1)
    present = np.linalg.norm(plain.words, axis=1) > 0
    np.testing.assert_allclose(lengths[present], 1, rtol=1e-5)
    assert not lengths[~present].any()


def test_directions_that_the_matrix_does_not_have_stay_empty():
    counts = np.zeros((21, 21), np.float32)
    counts[0, 1:] = counts[1:, 0] = 3  # all words but the first have the same neighbour: the rank is 2
    config = PpmiConfig(vector_size=10, eigenvalue_weight=0.0)
    model = PpmiSvd.fit(config, vocab(21), sparse.csr_array(counts), seed=1)
    assert (np.abs(model.words).max(axis=0) > 0).tolist() == [True] * 2 + [False] * 8
    np.testing.assert_allclose(model.words[1:], np.tile(model.words[1], (20, 1)), atol=1e-5)


def test_what_cannot_be_factorised_is_explained(counts):
    with pytest.raises(SettingError, match="a vocabulary of more than 60 words, but it has 60"):
        PpmiSvd.fit(PpmiConfig(vector_size=60), vocab(60), sparse.csr_array(counts), 1)
    with pytest.raises(TrainingError, match="more often than by chance; lower `negative`"):
        fit(np.ones((60, 60), np.float32), negative=5.0)
