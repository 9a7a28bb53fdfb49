"""From counts of n-grams to their probabilities; rows and nodes are defined in :mod:`wenmai.kernels.ngrams`."""

import numpy as np
from numba import njit

from wenmai.kernels.ngrams import NONE, hashed_word

__all__ = [
    "accumulate",
    "adjusted_counts",
    "arrange",
    "backoff_weight",
    "backoff_weights",
    "count_nodes",
    "frequencies",
    "join_nodes",
    "log_likelihood",
    "number_nodes",
    "probabilities",
    "probability",
    "raw_counts",
]

_MADE_OF = "ngrams.py d4ecb2a5a136"
COMPILE = {"nogil": True, "cache": True, "error_model": "numpy", "boundscheck": False}


@njit(**COMPILE)
def count_nodes(shared, length, order):
    """How many nodes each order has: int64 [order + 1]."""
    counts = np.zeros(order + 1, np.int64)
    for row in range(shared.shape[0]):
        for step in range(shared[row] + 1, length[row] + 1):
            counts[step] += 1
    return counts


@njit(**COMPILE)
def number_nodes(shared, length, order, nodes):
    """Writes the node of order ``order`` >= 2 that each row belongs to: ``nodes`` is uint32 [rows]."""
    count = 0
    for row in range(shared.shape[0]):
        if shared[row] < order <= length[row]:
            count += 1
        nodes[row] = count - 1


@njit(**COMPILE)
def join_nodes(shared, length, last_words, before, lower, order, word, context, parent):
    """Writes the last word, the context and the parent of each node of an order >= 2.

    Args:
        shared: uint8 [rows].
        length: uint8 [rows].
        last_words: uint32 [rows].
        before: uint32 [rows].
        lower: uint32 [rows], the nodes of order - 1.
        order: n.
        word: uint32 [nodes], with ``context`` and ``parent`` receives the result.
        context: uint32 [nodes], numbers of nodes of order - 1.
        parent: uint32 [nodes], likewise.
    """
    count = 0
    for row in range(shared.shape[0]):
        if shared[row] < order <= length[row]:
            word[count] = last_words[row]
            context[count] = lower[before[row]]
            parent[count] = lower[row]
            count += 1


@njit(**COMPILE)
def raw_counts(times, length, nodes, order, counts):
    """Adds up how often each n-gram of an order occurs: ``counts`` is uint32 or int64 [nodes], 0 before."""
    for row in range(times.shape[0]):
        if length[row] >= order:
            counts[nodes[row]] += times[row]


@njit(**COMPILE)
def adjusted_counts(shared, length, times, nodes, order, counts):
    """Adds up the left neighbours of each n-gram of an order below N; one that begins with ``<s>`` keeps its count."""
    for row in range(times.shape[0]):
        if shared[row] <= order < length[row]:
            counts[nodes[row]] += 1
        elif length[row] == order:
            counts[nodes[row]] += times[row]


@njit(**COMPILE)
def frequencies(counts):
    """How many of some counts are 0, 1, 2, 3, 4, and 5 or more: int64 [6]."""
    found = np.zeros(6, np.int64)
    for node in range(counts.shape[0]):
        found[min(counts[node], 5)] += 1
    return found


@njit(**COMPILE)
def accumulate(counts, kept, context, discounts, sums):
    """Sums the nodes of an order >= 2 by context.

    Args:
        counts: uint32 or int64 [nodes], a(g).
        kept: uint8 [nodes], 0 for one that is pruned; empty if none is.
        context: uint32 [nodes].
        discounts: float64 [4], D(0) = 0, D(1), D(2), D(3 and more).
        sums: float64 [contexts, 2], zero before: receives A(h), and the mass that goes to the lower order times A(h).
    """
    for node in range(counts.shape[0]):
        count = counts[node]
        place = context[node]
        sums[place, 0] += count
        sums[place, 1] += discounts[min(count, 3)] if kept.shape[0] == 0 or kept[node] else count


@njit(**COMPILE)
def probability(count, is_kept, total, left, lower, discounts, added, predictable):
    """The probability of an n-gram: ``added`` below 0: (a - D(a)) / A(h) + γ(h) p(parent), else (c + k) / (c(h) + k V).

    Args:
        count: a(g), or c(g) of add-k.
        is_kept: Whether the n-gram is not pruned; the first term is left out for one that is.
        total: A(h).
        left: γ(h) A(h).
        lower: p(parent).
        discounts: float64 [4].
        added: k, or below 0.
        predictable: V.
    """
    if added >= 0:
        return (count + added) / (total + added * predictable)
    own = count - discounts[min(count, 3)] if is_kept else 0.0
    return (own + left * lower) / total


@njit(**COMPILE)
def backoff_weight(total, left, added, predictable):
    """The natural logarithm of the back-off weight of a context: 0 for one that nothing follows.

    Args:
        total: A(h), 0 if nothing follows.
        left: γ(h) A(h).
        added: k of add-k, whose weights are the probabilities of unseen words; or below 0.
        predictable: V.
    """
    if added >= 0:
        return np.log(added / (total + added * predictable))
    return np.log(left / total) if total > 0 else 0.0


@njit(**COMPILE)
def probabilities(counts, kept, context, parent, sums, lower, discounts, added, predictable, found):
    """The probabilities of the nodes of an order >= 2, natural numbers from 0 to 1; see :func:`probability`.

    Args:
        counts: int64 [nodes].
        kept: uint8 [nodes], or empty.
        context: uint32 [nodes].
        parent: uint32 [nodes].
        sums: From :func:`accumulate`.
        lower: float64 [nodes of order - 1], their probabilities.
        discounts: float64 [4].
        added: k, or below 0.
        predictable: V.
        found: float64 [nodes], receives the result.
    """
    for node in range(counts.shape[0]):
        total, left = sums[context[node], 0], sums[context[node], 1]
        is_kept = kept.shape[0] == 0 or kept[node] != 0
        lower_one = lower[parent[node]]
        found[node] = probability(counts[node], is_kept, total, left, lower_one, discounts, added, predictable)


@njit(**COMPILE)
def backoff_weights(sums, slots, added, predictable, found):
    """The natural logarithms of the back-off weights of an order's nodes: 0 for one that nothing follows.

    Args:
        sums: From :func:`accumulate`.
        slots: uint32 [nodes], their places in the file; ``NONE`` for one that is pruned.
        added: k of add-k, whose weights are the probabilities of unseen words; or below 0.
        predictable: V.
        found: float32 [places], receives the result.
    """
    for node in range(slots.shape[0]):
        if slots[node] == NONE:
            continue
        found[slots[node]] = backoff_weight(sums[node, 0], sums[node, 1], added, predictable)


@njit(**COMPILE)
def log_likelihood(length, times, nodes, order, found):
    """The sum of log p over the places of a text that have just ``order`` words, and how many these are.

    Places within a text have N words, those near the beginning of a sentence fewer.
    """
    total, places = 0.0, 0
    for row in range(length.shape[0]):
        if length[row] == order:
            total += times[row] * np.log(found[nodes[row]])
            places += times[row]
    return total, places


@njit(**COMPILE)
def arrange(word, context, parent, kept, lower_slots, lower_first_id, spread, found, first, slots, nodes):
    """Brings the nodes of an order >= 2 into the order of the file: by context, then by hashed word.

    Args:
        word: uint32 [nodes], ascending.
        context: uint32 [nodes]; receives the places of the contexts in the file.
        parent: uint32 [nodes].
        kept: uint8 [nodes], or empty.
        lower_slots: uint32 [nodes of order - 1], their places in the file, from 0.
        lower_first_id: What is added to these to make an id.
        spread: uint32 [V], all words, ascending by hashed word.
        found: float64 [nodes], probabilities.
        first: uint32 [places of order - 1 + 1], zero before: receives where the n-grams of each context begin.
        slots: uint32 [nodes], receives the places.
        nodes: Records with ``word``, ``log_prob`` and ``suffix`` [places], receives the n-grams.
    """
    count = word.shape[0]
    bounds = np.zeros(spread.shape[0] + 1, np.int64)
    for node in range(count):
        bounds[word[node] + 1] += 1
        slots[node] = NONE
        if kept.shape[0] == 0 or kept[node]:
            context[node] = lower_slots[context[node]]
            first[context[node] + 1] += 1
    for place in range(first.shape[0] - 1):
        first[place + 1] += first[place]
    for number in range(spread.shape[0]):
        bounds[number + 1] += bounds[number]
    following = first[:-1].copy()
    for number in range(spread.shape[0]):
        one = spread[number]
        key = hashed_word(one)
        for node in range(bounds[one], bounds[one + 1]):
            if kept.shape[0] == 0 or kept[node]:
                place = following[context[node]]
                following[context[node]] = place + 1
                slots[node] = place
                nodes[place].word = key
                nodes[place].log_prob = np.log(found[node])
                nodes[place].suffix = lower_first_id + lower_slots[parent[node]]
