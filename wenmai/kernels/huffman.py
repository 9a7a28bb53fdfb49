"""Huffman codes for hierarchical softmax."""

import numpy as np
import numpy.typing as npt
from numba import njit

__all__ = ["huffman_paths"]


def huffman_paths(
    counts: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """Builds the Huffman tree of a vocabulary, exactly as word2vec.c does for descending counts.

    Args:
        counts: int64 [V], in any order; equal counts keep their order.

    Returns:
        ``start`` int64 [V + 1], ``node`` int32 and ``sign`` float32: the path of word w is ``node[start[w]:
        start[w + 1]]``, inner nodes from the root (V - 2) down, with +1 for code 0 and -1 for code 1.
    """
    order = np.argsort(-counts, kind="stable")
    weight = np.full(max(1, 2 * order.size - 1), np.iinfo(np.int64).max)
    weight[: order.size] = counts[order]  # here: compiled, the check of the sizes takes two seconds to compile
    parent, one = _tree(weight, order.size)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    start, node, sign = _paths(parent, one, rank)
    return start, node, sign


@njit(cache=True)
def _tree(weight, size):
    """Merges the two rarest of the leaves (from the rarest) and the inner nodes (in order of making), V - 1 times.

    On ties the inner node is taken; the second of a pair gets bit 1. ``weight`` are the counts of the leaves, with the
    largest number for each node to come.
    """
    parent = np.zeros(weight.shape[0], np.int64)
    one = np.zeros(weight.shape[0], np.bool_)
    leaf, inner = size - 1, size
    for made in range(size, 2 * size - 1):
        total = 0
        for second in range(2):
            if leaf >= 0 and weight[leaf] < weight[inner]:
                chosen = leaf
                leaf -= 1
            else:
                chosen = inner
                inner += 1
            parent[chosen] = made
            one[chosen] = second == 1
            total += weight[chosen]
        weight[made] = total
    return parent, one


@njit(cache=True)
def _paths(parent, one, rank):
    size = rank.shape[0]
    root = 2 * size - 2
    start = np.zeros(size + 1, np.int64)
    for w in range(size):
        length, at = 0, rank[w]
        while at != root:
            at = parent[at]
            length += 1
        start[w + 1] = start[w] + length
    node = np.empty(start[size], np.int32)
    sign = np.empty(start[size], np.float32)
    for w in range(size):
        place, at = start[w + 1], rank[w]
        while at != root:
            place -= 1
            sign[place] = -1.0 if one[at] else 1.0
            at = parent[at]
            node[place] = at - size
    return start, node, sign
