"""From the hidden vector of a text to its most probable classes."""

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from wenmai.kernels.huffman import huffman_paths

__all__ = ["Tree", "best_classes", "huffman_tree"]

_MADE_OF = "huffman.py d03772d1d564"  # numba's cache checks this file alone: this line changes with the others
COMPILE = {"nogil": True, "cache": True, "error_model": "numpy", "boundscheck": False}
_BLOCK_SCORES = 1 << 20  # probabilities that are held at once
_FEW = 64  # classes, up to which a search of the tree is faster than scoring all of them

Found = tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]


class Tree(NamedTuple):
    """A binary tree of classes, for hierarchical softmax."""

    children: np.ndarray  # int32 [classes - 1, 2]: an inner node, or ~class; the last row is the root's
    depth: int  # of the deepest class


def huffman_tree(counts: npt.NDArray[np.int64]) -> Tree:
    """Makes the Huffman tree of classes; the child for bit 1 has the probability σ(node · hidden)."""
    start, node, sign = huffman_paths(counts)
    children = np.zeros((max(len(counts) - 1, 0), 2), np.int32)
    following = np.append(node[1:], np.int32(0))
    following[start[1:] - 1] = ~np.arange(len(counts), dtype=np.int32)
    if len(node):
        children[node, (sign < 0).astype(np.int64)] = following
    return Tree(children, int(np.diff(start).max(initial=0)))


def best_classes(
    hidden: npt.NDArray[np.float32],
    output: npt.NDArray[np.float32],
    loss: Literal["softmax", "hs", "ns", "ova"],
    k: int,
    tree: Tree | None = None,
) -> Found:
    """Returns the ``k`` most probable classes of each text (B, k) and their probabilities (B, k), best first.

    Args:
        hidden: float32 (B, d).
        output: float32 (classes, d), the vector of each class, or of each inner node of the tree.
        loss: softmax: probabilities of all classes sum to 1; hs: they do, over the tree; ns, ova: each class has one of
            its own, σ(u · hidden).
        k: 1 to the number of classes.
        tree: For hs.
    """
    if loss == "hs":
        return _best_of_tree(
            hidden, output, tree if tree is not None else huffman_tree(np.ones(len(output), np.int64)), k
        )
    step = max(1, _BLOCK_SCORES // len(output))
    found = [_best(_probabilities(hidden[at : at + step] @ output.T, loss), k) for at in range(0, len(hidden), step)]
    return _joined(found, k)


def _joined(found: list[Found], k: int) -> Found:
    if len(found) == 1:
        return found[0]
    if not found:
        return np.empty((0, k), np.int64), np.empty((0, k), np.float32)
    return np.concatenate([ids for ids, _ in found]), np.concatenate([values for _, values in found])


def _probabilities(scores: npt.NDArray[np.float32], loss: str) -> npt.NDArray[np.float32]:
    """Turns scores (B, classes) into probabilities, in place."""
    if loss == "softmax":
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=1, keepdims=True)
        return scores
    scores *= np.float32(0.5)
    np.tanh(scores, out=scores)
    scores *= np.float32(0.5)
    scores += np.float32(0.5)
    return scores


def _best(values: npt.NDArray[np.float32], k: int) -> Found:
    """The ``k`` largest of each row, equal ones in the order of classes."""
    if k == 1:
        ids = values.argmax(axis=1)[:, None]
        return ids, np.take_along_axis(values, ids, axis=1)
    size = values.shape[1]
    if k < size:
        candidates = values >= np.partition(values, size - k, axis=1)[:, size - k, None]
        if np.count_nonzero(candidates) == k * len(values):  # otherwise some are equal to the k-th
            chosen = np.nonzero(candidates)[1].reshape(len(values), k)
            values = np.take_along_axis(values, chosen, axis=1)
            order = np.argsort(-values, axis=1, kind="stable")
            return np.take_along_axis(chosen, order, axis=1), np.take_along_axis(values, order, axis=1)
    order = np.argsort(-values, axis=1, kind="stable")
    return order[:, :k], np.take_along_axis(values, order[:, :k], axis=1)


def _best_of_tree(hidden: npt.NDArray[np.float32], output: npt.NDArray[np.float32], tree: Tree, k: int) -> Found:
    classes = len(tree.children) + 1
    if k <= min(_FEW, classes):
        ids, values = np.empty((len(hidden), k), np.int64), np.empty((len(hidden), k), np.float32)
        _search(hidden, output, tree.children, tree.depth, ids, values)
        return ids, values
    step = max(1, _BLOCK_SCORES // classes)
    found = []
    for at in range(0, len(hidden), step):
        values = np.empty((len(hidden[at : at + step]), classes), np.float32)
        _all_of_tree(hidden[at : at + step], output, tree.children, tree.depth, values)
        found.append(_best(values, k))
    return _joined(found, k)


@njit(fastmath=True, **COMPILE)
def _sigmoid(node, vector):
    score = np.float32(0.0)
    for column in range(vector.shape[0]):
        score += node[column] * vector[column]
    return np.float32(1.0) / (np.float32(1.0) + np.exp(-score))


@njit(**COMPILE)
def _search(hidden, output, children, depth, ids, values):
    """Goes down to the more probable child first, and nowhere less probable than the k-th class found so far."""
    k = ids.shape[1]
    nodes, chances = np.empty(depth + 2, np.int64), np.empty(depth + 2, np.float32)
    for text in range(hidden.shape[0]):
        ids[text] = 0
        values[text] = np.float32(-1.0)
        nodes[0], chances[0] = (children.shape[0] - 1 if children.shape[0] else ~0), np.float32(1.0)
        waiting = 1
        while waiting:
            waiting -= 1
            node, chance = nodes[waiting], chances[waiting]
            if chance <= values[text, k - 1]:
                continue
            if node < 0:
                place = k - 1
                while place > 0 and values[text, place - 1] < chance:
                    ids[text, place], values[text, place] = ids[text, place - 1], values[text, place - 1]
                    place -= 1
                ids[text, place], values[text, place] = ~node, chance
                continue
            one = _sigmoid(output[node], hidden[text])
            likely = 1 if one > np.float32(0.5) else 0
            share = one if likely else np.float32(1.0) - one
            nodes[waiting], chances[waiting] = children[node, 1 - likely], chance * (np.float32(1.0) - share)
            nodes[waiting + 1], chances[waiting + 1] = children[node, likely], chance * share
            waiting += 2


@njit(**COMPILE)
def _all_of_tree(hidden, output, children, depth, values):
    nodes, chances = np.empty(depth + 2, np.int64), np.empty(depth + 2, np.float32)
    for text in range(hidden.shape[0]):
        nodes[0], chances[0] = (children.shape[0] - 1 if children.shape[0] else ~0), np.float32(1.0)
        waiting = 1
        while waiting:
            waiting -= 1
            node, chance = nodes[waiting], chances[waiting]
            if node < 0:
                values[text, ~node] = chance
                continue
            one = _sigmoid(output[node], hidden[text])
            nodes[waiting], chances[waiting] = children[node, 0], chance * (np.float32(1.0) - one)
            nodes[waiting + 1], chances[waiting + 1] = children[node, 1], chance * one
            waiting += 2
