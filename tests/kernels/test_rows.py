"""Rows padded to whole SIMD vectors are fast, rows padded to four numbers are small: the result is the same."""

import numpy as np
import pytest

from wenmai.kernels.huffman import huffman_paths
from wenmai.kernels.lanes import LaneMemory, train_lanes
from wenmai.kernels.window import ROW_FLOATS, Choices, Rows, Scratch, Tables, aligned_rows, noise_table, train_block

SKIPGRAM = Choices(
    window=3,
    dynamic=True,
    negative=4,
    hierarchical=True,
    softmax=False,
    cbow=False,
    mean=True,
    true_gradient=False,
    shared=True,
)
CHOICES = {
    "skipgram": SKIPGRAM,
    "skipgram, classic": SKIPGRAM._replace(shared=False),
    "skipgram, softmax": SKIPGRAM._replace(negative=0, hierarchical=False, softmax=True),
    "cbow": SKIPGRAM._replace(cbow=True),
    "cbow, softmax": SKIPGRAM._replace(cbow=True, negative=0, hierarchical=False, softmax=True),
}
VOCABULARY, TOKENS = 30, 500


def rows(size, padded):
    generator = np.random.default_rng(size)
    matrices = [aligned_rows(VOCABULARY, padded) for _ in range(3)]
    for matrix in matrices:
        matrix[:, :size] = generator.normal(size=(VOCABULARY, size), scale=0.3)
    return Rows(*matrices, 5, np.float32(0.5))


def text(seed):
    tokens = (VOCABULARY * np.random.default_rng(seed).random(TOKENS) ** 2).astype(np.int32)
    return tokens, np.array([0, 7, 200, TOKENS])


def tables():
    counts = np.arange(VOCABULARY, 0, -1)
    paths = huffman_paths(counts)
    keep = np.full(VOCABULARY, 0.9, np.float32)
    return Tables(np.arange(VOCABULARY, dtype=np.int32), keep, *noise_table(counts**0.75), *paths)


def trained(choices, size, padded, *, lanes):
    parameters, known = rows(size, padded), tables()
    longest = int(np.diff(known.path_start).max())
    if lanes:
        memory = LaneMemory.allocate(choices, block=TOKENS, padded=padded, longest_path=longest)
        seeds, rates = np.arange(3, dtype=np.uint64), np.full(3, 0.1, np.float32)
        tally = train_lanes([text(seed) for seed in range(3)], parameters, known, choices, memory, rates, seeds, 2)
    else:
        scratch = Scratch.allocate(choices, block=TOKENS, padded=padded, longest_path=longest, vocabulary=VOCABULARY)
        tally = np.zeros(3)
        train_block(*text(1), parameters, known, choices, scratch, np.float32(0.1), np.uint64(1), tally)
    for matrix in parameters[:3]:
        assert not matrix[:, size:].any(), "padding is no longer zero"
    return [matrix[:, :size] for matrix in parameters[:3]], tally


@pytest.mark.parametrize("size", [1, 4, 7, 16, 20, 60, 100])
@pytest.mark.parametrize(
    ("name", "lanes"),
    [(name, lanes) for name in CHOICES for lanes in (False, True) if not (lanes and "softmax" in name)],
)
def test_the_padding_of_rows_does_not_change_a_bit(name, lanes, size):
    small, small_tally = trained(CHOICES[name], size, -(-size // ROW_FLOATS) * ROW_FLOATS, lanes=lanes)
    whole, whole_tally = trained(CHOICES[name], size, -(-size // 16) * 16, lanes=lanes)
    np.testing.assert_array_equal(small_tally, whole_tally)
    for one, other in zip(small, whole, strict=True):
        np.testing.assert_array_equal(one, other)
