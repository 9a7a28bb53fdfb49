"""Estimating n-grams that do not fit into memory: rows and n-grams pass by in order, some at a time.

In a row as it is stored, the words stand last word first, each plus one; 0 stands behind the first word. In an n-gram
they stand as the model sorts them: the first word, the hashed ones, and the last. Behind an n-gram's words are its
number among those of its order (its *rank*: n-grams come in the order of their rows) and, as a signed number of 64
bits, its count, negative if it is pruned.
"""

import numpy as np
from numba import njit

from wenmai.kernels.ngram_estimate import backoff_weight, probability
from wenmai.kernels.ngram_lookup import END
from wenmai.kernels.ngrams import hashed_word

__all__ = [
    "FOLLOWING",
    "PRUNED",
    "RECORD",
    "SUMS",
    "finish_contexts",
    "interpolate",
    "row_keys",
    "split",
    "sum_contexts",
]

_MADE_OF = "ngram_estimate.py 3fb2e08feca7, ngram_lookup.py 7025c13e28e5, ngrams.py d4ecb2a5a136"
COMPILE = {"nogil": True, "cache": True, "error_model": "numpy", "boundscheck": False}

SUMS = np.dtype([("place", "<u4"), ("slot", "<u4"), ("total", "<f8"), ("left", "<f8")])  # of an n-gram's context
FOLLOWING = np.dtype([("backoff", "<f4"), ("count", "<u4")])  # of a context, and how many n-grams go on from it
RECORD = np.dtype([("place", "<u4"), ("log_prob", "<f4"), ("suffix", "<u4")])
PRUNED = np.uint32(1 << 31)  # beside a word
_NO_SLOT = np.uint32(0xFFFFFFFF)
_FEW = 16  # n-grams that are sorted one by one


@njit(**COMPILE)
def row_keys(text, places, length, times, rows):
    """Writes rows as they are stored: ``rows`` is uint32 [rows, N + 1], with the count of each in its last column."""
    order = rows.shape[1] - 1
    for row in range(rows.shape[0]):
        for step in range(order):
            rows[row, step] = text[places[row] - step] + 1 if step < length[row] else 0
        rows[row, order] = times[row]


@njit(**COMPILE)
def split(rows, is_last, continues, thresholds, pending, counts, words, found, ngrams, sizes, shared, length, times):
    """Splits sorted rows, in which one may stand several times, into the n-grams that they are made of.

    Args:
        rows: uint32 [rows, N + 1]; those that came before are in ``pending``.
        is_last: Whether no others follow.
        continues: Whether n-grams below the highest order are counted by their left neighbours.
        thresholds: int64 [N + 1], for each order how often an n-gram may occur and still be pruned.
        pending: int64 [N + 3]: the row under way, as its words, length, count, and what it shares with the row before;
            length 0 before the first.
        counts: int64 [N + 1, 3]: of the n-grams under way a(g) and how often they occur, and the next rank.
        words: int64 [V], receives the counts of words.
        found: int64 [N + 1, 6], receives how many n-grams have the count 1, 2, 3, 4, and 5 or more.
        ngrams: uint32 [N + 1, rows + 1, N + 3], receives the n-grams of each order from 2 on.
        sizes: int64 [N + 1], receives how many these are.
        shared: uint8 [rows + 1], with ``length`` (uint8) and ``times`` (int64) receives the distinct rows.
        length: uint8 [rows + 1].
        times: int64 [rows + 1].

    Returns:
        How many distinct rows there are.
    """
    order = rows.shape[1] - 1
    done = 0
    sizes[:] = 0
    for row in range(rows.shape[0] + (1 if is_last else 0)):
        size, same, before = 0, 0, pending[order]
        if row < rows.shape[0]:
            while size < order and rows[row, size] != 0:
                size += 1
            while same < min(size, before) and rows[row, same] == pending[same]:
                same += 1
            if same == size and same == before:
                pending[order + 1] += rows[row, order]
                continue
        if before > 0:
            shared[done], length[done], times[done] = pending[order + 2], before, pending[order + 1]
            done += 1
            for number in range(1, before + 1):
                counts[number, 1] += times[done - 1]
            counts[before, 0] += times[done - 1]
        for number in range(before, same, -1):
            count = counts[number, 0] if continues or number == order else counts[number, 1]
            is_kept = counts[number, 1] > thresholds[number]
            counts[number, 0] = counts[number, 1] = 0
            if number == 1:
                words[pending[0] - 1] = count
                continue
            found[number, min(count, 5)] += 1
            place = sizes[number]
            sizes[number] += 1
            ngrams[number, place, 0] = pending[number - 1] - 1
            for step in range(1, number - 1):
                ngrams[number, place, step] = hashed_word(pending[number - 1 - step] - 1)
            ngrams[number, place, number - 1] = pending[0] - 1
            ngrams[number, place, number] = counts[number, 2]
            counts[number, 2] += 1
            signed = count if is_kept else -count
            ngrams[number, place, number + 1] = signed & 0xFFFFFFFF
            ngrams[number, place, number + 2] = (signed >> 32) & 0xFFFFFFFF
        for number in range(max(same, 1), size):
            counts[number, 0] += 1
        if row < rows.shape[0]:
            for step in range(order + 1):
                pending[step] = rows[row, step]
            pending[order + 1] = rows[row, order]
        pending[order], pending[order + 2] = size, same
    return done


@njit(**COMPILE)
def _signed(low, high):
    """The number of 64 bits whose halves are given."""
    return np.int64(np.uint64(low) | (np.uint64(high) << np.uint64(32)))


@njit(**COMPILE)
def sum_contexts(ngrams, discounts, added, predictable, slot, placed, words, following):
    """Sums the n-grams of an order by context, and numbers them as the model stores them.

    Args:
        ngrams: uint32 [n-grams, n + 3], sorted by their words; all of each context.
        discounts: float64 [4], D(0) = 0, D(1), D(2), D(3 and more).
        added: k of add-k, or below 0.
        predictable: V.
        slot: Number of n-grams that were stored before.
        placed: :data:`SUMS` [n-grams], receives for each rank the place in the model and the sums of the context.
        words: uint32 [n-grams], receives the last words in the order of the model, with :data:`PRUNED`.
        following: :data:`FOLLOWING` [n-grams], receives the contexts.

    Returns:
        How many contexts there are, and the number of n-grams that are stored now.
    """
    order = ngrams.shape[1] - 3
    contexts, begin = 0, 0
    keys, turns = np.empty(_FEW, np.uint32), np.empty(_FEW, np.int64)
    while begin < ngrams.shape[0]:
        end = begin + 1
        while end < ngrams.shape[0]:
            step = 0
            while step < order - 1 and ngrams[end, step] == ngrams[begin, step]:
                step += 1
            if step < order - 1:
                break
            end += 1
        size = end - begin
        if size > keys.shape[0]:
            keys, turns = np.empty(2 * size, np.uint32), np.empty(2 * size, np.int64)
        total, left = 0.0, 0.0  # summed by ascending words, as everywhere: the last bits depend on it
        for place in range(size):
            count = _signed(ngrams[begin + place, order + 1], ngrams[begin + place, order + 2])
            total += abs(count)
            left += discounts[min(count, 3)] if count > 0 else -count
            keys[place] = hashed_word(ngrams[begin + place, order - 1])
            turns[place] = place
        if size > _FEW:
            for place, turn in enumerate(np.argsort(keys[:size])):
                turns[place] = turn
        else:
            for place in range(1, size):
                turn, key = turns[place], keys[turns[place]]
                free = place
                while free > 0 and keys[turns[free - 1]] > key:
                    turns[free] = turns[free - 1]
                    free -= 1
                turns[free] = turn
        stored = slot
        for place in range(size):
            one = begin + turns[place]
            is_kept = _signed(ngrams[one, order + 1], ngrams[one, order + 2]) > 0
            words[begin + place] = ngrams[one, order - 1] if is_kept else ngrams[one, order - 1] | PRUNED
            placed[one].place = ngrams[one, order]
            placed[one].slot = slot if is_kept else _NO_SLOT
            placed[one].total, placed[one].left = total, left
            slot += 1 if is_kept else 0
        following[contexts].backoff = backoff_weight(total, left, added, predictable)
        following[contexts].count = slot - stored
        contexts += 1
        begin = end
    return contexts, slot


@njit(**COMPILE)
def interpolate(
    shared, length, times, order, counts, sums, lower, lower_slots, lower_first_id, discounts, added, predictable,
    found, records, likelihood,
):  # fmt: skip
    """The probabilities of the n-grams of an order >= 2 that begin in some rows.

    Args:
        shared: uint8 [rows].
        length: uint8 [rows].
        times: int64 [rows].
        order: n.
        counts: int64 [n-grams], as in the rows.
        sums: :data:`SUMS` [n-grams].
        lower: float64 [1 + n-grams of order - 1 that begin in these rows], the probabilities; the first is of the
            n-gram that began before.
        lower_slots: uint32, likewise, their places in the model.
        lower_first_id: What is added to these to make an id.
        discounts: float64 [4].
        added: k of add-k, or below 0.
        predictable: V.
        found: float64 [1 + n-grams], the first that of the n-gram that began before; receives the probabilities.
        records: :data:`RECORD` [n-grams], receives those that are stored.
        likelihood: float64 [2], to which are added log p of the places of the text with just ``order`` words, and how
            many these places are.

    Returns:
        How many n-grams are stored.
    """
    node, parent, stored = 0, 0, 0
    for row in range(shared.shape[0]):
        if shared[row] < order - 1 <= length[row]:
            parent += 1
        if shared[row] < order <= length[row]:
            one, count = sums[node], counts[node]
            node += 1
            found[node] = probability(
                abs(count), count > 0, one.total, one.left, lower[parent], discounts, added, predictable
            )
            if count > 0:
                records[stored].place = one.slot
                records[stored].log_prob = np.log(found[node])
                records[stored].suffix = lower_first_id + lower_slots[parent]
                stored += 1
        if length[row] == order:
            likelihood[0] += times[row] * np.log(found[node])
            likelihood[1] += times[row]
    return stored


@njit(**COMPILE)
def finish_contexts(words, following, added, predictable, records, first, contexts):
    """Joins what is known of the n-grams below the highest order.

    Args:
        words: uint32 [n-grams], see :func:`sum_contexts`.
        following: :data:`FOLLOWING` [n-grams that do not end in ``</s>`].
        added: k of add-k, or below 0.
        predictable: V.
        records: :data:`RECORD` [stored n-grams].
        first: Where the n-grams begin that go on from the first.
        contexts: Records of ``CONTEXT`` [stored n-grams], receives the result.

    Returns:
        Where those begin that go on from the next.
    """
    context, stored = 0, 0
    nothing = backoff_weight(0.0, 0.0, added, predictable)
    for node in range(words.shape[0]):
        word = words[node] & ~PRUNED
        is_kept = words[node] & PRUNED == 0
        if is_kept:
            contexts[stored].word = hashed_word(word)
            contexts[stored].log_prob = records[stored].log_prob
            contexts[stored].suffix = records[stored].suffix
            contexts[stored].backoff = nothing
            contexts[stored].first = first
        if word != END:
            if is_kept:
                contexts[stored].backoff = following[context].backoff
                first += following[context].count
            context += 1
        stored += 1 if is_kept else 0
    return first
