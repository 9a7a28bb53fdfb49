"""Labels and neighbours exactly as the reference implementation of fastText finds them, rounding and ties included.

Sums are taken in 32 bits from the first number to the last, without fused operations. The sigmoid of the losses ns and
ova is a table of 512 steps from -8 to 8, so that many labels are equal; which of them is named first is what the C++
library's heap makes of them, and so the heap is that of ``std::push_heap`` and ``std::pop_heap`` here. A probability p
counts as log(p + 1e-5).
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from wenmai.kernels.classes import Tree

__all__ = ["HIERARCHICAL", "SOFTMAX", "TABLE", "Labels", "Outputs", "best_labels", "length", "nearest", "unit_rows"]

_MADE_OF = "classes.py 80523a127680"  # numba's cache checks this file alone: this line changes with the others
COMPILE = {"nogil": True, "cache": True, "error_model": "numpy", "boundscheck": False}
SOFTMAX, HIERARCHICAL, TABLE = 0, 1, 2
_STEPS, _LIMIT = 512, 8
_RAISED = 1e-5


class Outputs(NamedTuple):
    """The output rows of a model."""

    columns: np.ndarray  # float32 [d, classes], contiguous: one row for each number of a vector
    norms: np.ndarray  # float32 [classes]: what a quantised row is multiplied by; empty: nothing
    tree: Tree


class Labels(NamedTuple):
    """What was found for B texts."""

    ids: np.ndarray  # int64 [B, k], best first
    scores: np.ndarray  # float32 [B, k]: log(p + 1e-5), or their sum along the path in a tree
    counts: np.ndarray  # int64 [B]: how many of them there are


def best_labels(hidden: npt.NDArray[np.float32], outputs: Outputs, loss: int, k: int, threshold: float) -> Labels:
    """Returns the ``k`` best labels of each text that are at least as probable as ``threshold``.

    Args:
        hidden: float32 [B, d].
        outputs: The output rows.
        loss: SOFTMAX, HIERARCHICAL or TABLE.
        k: 1 to the number of classes.
        threshold: Of the probability, in 32 bits.
    """
    size = len(hidden)
    found = Labels(np.zeros((size, k), np.int64), np.zeros((size, k), np.float32), np.zeros(size, np.int64))
    steps = np.arange(_STEPS + 1, dtype=np.float32) * np.float32(2 * _LIMIT) / np.float32(_STEPS) - np.float32(_LIMIT)
    table = (1.0 / (1.0 + np.exp(-steps).astype(np.float64))).astype(np.float32)
    _best_labels(hidden, outputs, loss, np.float32(threshold), table, found)
    return found


@njit(**COMPILE)
def _log(chance):
    """``std_log``: the sum in 64 bits, the result in 32."""
    return np.float32(np.log(np.float64(chance) + _RAISED))


@njit(**COMPILE)
def _best_labels(hidden, outputs, loss, threshold, table, found):
    size, k = outputs.columns.shape[1], found.ids.shape[1]
    chances = np.empty(size, np.float32)
    scores, ids = np.empty(k + 1, np.float32), np.empty(k + 1, np.int64)
    nodes, sums = np.empty(outputs.tree.depth + 2, np.int64), np.empty(outputs.tree.depth + 2, np.float32)
    for text in range(hidden.shape[0]):
        if loss == HIERARCHICAL:
            count = _of_tree(hidden[text], outputs, _log(threshold), k, nodes, sums, scores, ids)
        else:
            _products(hidden[text], outputs, chances)
            if loss == SOFTMAX:
                _softmax(chances)
            else:
                _look_up(chances, table)
            count = 0
            for label in range(size):
                if chances[label] >= threshold:
                    count = _keep(scores, ids, count, k, _log(chances[label]), label)
        _sort(scores, ids, count)
        found.counts[text] = count
        for place in range(count):
            found.ids[text, place], found.scores[text, place] = ids[place], scores[place]


@njit(**COMPILE)
def _products(vector, outputs, products):
    """The product with every row, each summed in order; the inner loop is over rows, and so vector code."""
    products[:] = np.float32(0.0)
    for column in range(vector.shape[0]):
        value, numbers = vector[column], outputs.columns[column]
        for row in range(products.shape[0]):
            products[row] += value * numbers[row]
    if outputs.norms.shape[0] > 0:
        for row in range(products.shape[0]):
            products[row] *= outputs.norms[row]


@njit(**COMPILE)
def _softmax(scores):
    highest, total = scores.max(), np.float32(0.0)
    for label in range(scores.shape[0]):
        scores[label] = np.float32(np.exp(np.float64(scores[label] - highest)))
        total += scores[label]
    for label in range(scores.shape[0]):
        scores[label] /= total


@njit(**COMPILE)
def _look_up(scores, table):
    for label in range(scores.shape[0]):
        score = scores[label]
        if score > _LIMIT:
            scores[label] = np.float32(1.0)
        elif score >= -_LIMIT:
            step = (score + np.float32(_LIMIT)) * np.float32(_STEPS) / np.float32(_LIMIT) / np.float32(2)
            scores[label] = table[np.int64(step)]
        else:  # NaN too, which is no place of the table
            scores[label] = np.float32(0.0)


@njit(**COMPILE)
def _of_tree(vector, outputs, least, k, nodes, sums, scores, ids):
    """Searches the tree from the root, the child of bit 0 first, and nowhere below the k-th label found so far."""
    children, count = outputs.tree.children, 0
    nodes[0], sums[0] = (children.shape[0] - 1 if children.shape[0] else ~0), np.float32(0.0)
    waiting = 1
    while waiting:
        waiting -= 1
        node, score = nodes[waiting], sums[waiting]
        if score < least or (count == k and score < scores[0]):
            continue
        if node < 0:
            count = _keep(scores, ids, count, k, score, ~node)
            continue
        product = np.float32(0.0)
        for column in range(vector.shape[0]):
            product += vector[column] * outputs.columns[column, node]
        if outputs.norms.shape[0] > 0:
            product *= outputs.norms[node]
        one = np.float32(1.0 / np.float64(np.float32(1.0) + np.exp(-product)))
        nodes[waiting], sums[waiting] = children[node, 1], score + _log(one)
        nodes[waiting + 1], sums[waiting + 1] = children[node, 0], score + _log(np.float32(1.0 - np.float64(one)))
        waiting += 2
    return count


# --- neighbours -----------------------------------------------------------------------------------------------------


def nearest(
    vectors: npt.NDArray[np.float32], query: npt.NDArray[np.float32], k: int, banned: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Returns the cosines and numbers of the ``k`` vectors nearest to ``query``, best first.

    Args:
        vectors: float32 [V, d], each of length 1 or 0.
        query: float32 [d], of any length.
        k: At least 1.
        banned: Numbers of vectors that are left out.
    """
    norm = length(query)
    kept = np.ones(len(vectors), np.bool_)
    kept[banned] = False
    k = min(k, len(vectors))
    scores, ids = np.empty(k + 1, np.float32), np.empty(k + 1, np.int64)
    count = _nearest(vectors, query, np.float32(1) if norm < 1e-8 else np.float32(norm), k, kept, scores, ids)
    return scores[:count], ids[:count]


def unit_rows(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Returns rows (V, d) divided by their lengths; those of length 0 stay as they are."""
    units = rows.copy()
    _normalise(units)
    return units


@njit(**COMPILE)
def _normalise(rows):
    for row in range(rows.shape[0]):
        norm = length(rows[row])
        if norm > 0:
            scale = np.float32(1.0 / np.float64(norm))
            for column in range(rows.shape[1]):
                rows[row, column] *= scale


@njit(**COMPILE)
def length(vector):
    """The length of a vector, float32."""
    total = np.float32(0.0)
    for column in range(vector.shape[0]):
        total += vector[column] * vector[column]
    return np.sqrt(total)


@njit(**COMPILE)
def _nearest(vectors, query, norm, k, kept, scores, ids):
    count = 0
    for row in range(vectors.shape[0]):
        if kept[row]:
            product = np.float32(0.0)
            for column in range(query.shape[0]):
                product += vectors[row, column] * query[column]
            count = _keep(scores, ids, count, k, product / norm, row)
    _sort(scores, ids, count)
    return count


# --- the heap of the C++ library, the worst on top ------------------------------------------------------------------


@njit(**COMPILE)
def _keep(scores, ids, count, k, score, number):
    """Takes a number into the heap of the best ``k``; returns how many it has."""
    if count == k and score < scores[0]:
        return count
    _rise(scores, ids, count, 0, score, number)
    if count < k:
        return count + 1
    _sink(scores, ids, k, scores[k], ids[k])
    return k


@njit(**COMPILE)
def _rise(scores, ids, hole, top, score, number):
    parent = (hole - 1) // 2
    while hole > top and scores[parent] > score:
        scores[hole], ids[hole] = scores[parent], ids[parent]
        hole = parent
        parent = (hole - 1) // 2
    scores[hole], ids[hole] = score, number


@njit(**COMPILE)
def _sink(scores, ids, size, score, number):
    """Fills the top of a heap of ``size``: the better child rises all the way down, then what is new rises from there.

    Of two equal children it is the second.
    """
    hole, child = 0, 0
    while child < (size - 1) // 2:
        child = 2 * (child + 1)
        if scores[child] > scores[child - 1]:
            child -= 1
        scores[hole], ids[hole] = scores[child], ids[child]
        hole = child
    if size % 2 == 0 and child == (size - 2) // 2:
        child = 2 * (child + 1)
        scores[hole], ids[hole] = scores[child - 1], ids[child - 1]
        hole = child - 1
    _rise(scores, ids, hole, 0, score, number)


@njit(**COMPILE)
def _sort(scores, ids, count):
    for last in range(count - 1, 0, -1):
        score, number = scores[last], ids[last]
        scores[last], ids[last] = scores[0], ids[0]
        _sink(scores, ids, last, score, number)
