"""Tables that the vocabulary decides: the noise distribution and the Huffman tree."""

import heapq
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wenmai.kernels.huffman import huffman_paths
from wenmai.kernels.window import noise_table

COUNTS = st.lists(st.integers(1, 50) | st.integers(1, 10**12), min_size=1, max_size=80)


def reconstructed(threshold, alias):
    """The distribution that an alias table draws from."""
    size = len(threshold)
    kept = threshold.astype(np.float64)
    return (kept + np.bincount(alias, 1 - kept, minlength=size)) / size


@settings(max_examples=300, deadline=None)
@given(st.lists(st.floats(1e-12, 1e12) | st.integers(1, 3).map(float), min_size=1, max_size=80))
def test_noise_is_drawn_from_the_weights(weights):
    threshold, alias = noise_table(np.array(weights))
    assert (threshold.dtype, alias.dtype) == (np.float32, np.int32)
    assert 0 <= threshold.min() <= threshold.max() <= 1
    np.testing.assert_allclose(reconstructed(threshold, alias), np.array(weights) / sum(weights), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("weights", [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 0.3, 0.0, 0.7, 0.0]])
def test_words_of_no_weight_are_never_drawn(weights):
    threshold, alias = noise_table(np.array(weights))
    np.testing.assert_allclose(reconstructed(threshold, alias), weights, atol=1e-7)


def test_noise_of_a_real_vocabulary_is_exact_also_for_rare_words():
    weights = (1e7 / np.arange(1, 200_001)).round() ** 0.75
    found = reconstructed(*noise_table(weights))
    np.testing.assert_allclose(found, weights / weights.sum(), rtol=1e-4)
    assert found.sum() == pytest.approx(1, abs=1e-9)


def paths_of(counts):
    start, node, sign = huffman_paths(np.array(counts, np.int64))
    assert (start.dtype, node.dtype, sign.dtype) == (np.int64, np.int32, np.float32)
    assert len(start) == len(counts) + 1
    assert len(node) == len(sign) == start[-1]
    spans = [slice(start[w], start[w + 1]) for w in range(len(counts))]
    codes = ["".join("0" if s == 1 else "1" for s in sign[span]) for span in spans]
    return codes, [node[span].tolist() for span in spans]


def cheapest_code(counts):
    """Σ count · length of the best prefix code, by the textbook's heap."""
    heap, cost = list(counts), 0
    heapq.heapify(heap)
    while len(heap) > 1:
        merged = heapq.heappop(heap) + heapq.heappop(heap)
        cost += merged
        heapq.heappush(heap, merged)
    return cost


@settings(max_examples=300, deadline=None)
@given(COUNTS)
def test_huffman_codes_are_prefix_free_and_the_shortest_there_are(counts):
    codes, nodes = paths_of(counts)
    if len(counts) == 1:
        assert (codes, nodes) == ([""], [[]])
        return
    assert sum(2.0 ** -len(code) for code in codes) == 1  # prefix-free, and no code is left over
    ordered = sorted(codes)
    assert not any(after.startswith(before) for before, after in pairwise(ordered))
    assert sum(count * len(code) for count, code in zip(counts, codes, strict=True)) == cheapest_code(counts)
    share = np.array(counts) / sum(counts)
    entropy = -(share * np.log2(share)).sum()
    mean = sum(share * [len(code) for code in codes])
    assert entropy - 1e-9 <= mean <= entropy + 1


@settings(max_examples=100, deadline=None)
@given(COUNTS.filter(lambda counts: len(counts) > 1))
def test_the_nodes_of_a_path_are_the_prefixes_of_its_code(counts):
    codes, nodes = paths_of(counts)
    prefix_of_node = {}
    for code, path in zip(codes, nodes, strict=True):
        assert path[0] == len(counts) - 2  # the root
        for depth, node in enumerate(path):
            assert prefix_of_node.setdefault(node, code[:depth]) == code[:depth]
    assert sorted(prefix_of_node) == list(range(len(counts) - 1))
    assert len(set(prefix_of_node.values())) == len(counts) - 1


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 10**6), min_size=2, max_size=40, unique=True), st.randoms())
def test_the_order_of_counts_does_not_matter(counts, random):
    order = list(range(len(counts)))
    random.shuffle(order)
    codes, nodes = paths_of(counts)
    assert paths_of([counts[i] for i in order]) == ([codes[i] for i in order], [nodes[i] for i in order])


def test_small_trees_and_ties():
    assert paths_of([5, 3]) == (["1", "0"], [[0], [0]])
    assert paths_of([3, 5]) == (["0", "1"], [[0], [0]])
    codes, _ = paths_of([4] * 8)
    assert {len(code) for code in codes} == {3}
    fibonacci = [1, 1]
    while len(fibonacci) < 40:
        fibonacci.append(fibonacci[-1] + fibonacci[-2])
    codes, _ = paths_of(fibonacci)
    assert max(map(len, codes)) == 39  # the deepest tree there is
