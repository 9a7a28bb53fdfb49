"""Sorting more records than memory holds: runs that are sorted one by one, merged, and dealt out to their places.

A record is a row of uint32. Its first columns are the key; keys compare column by column.
"""

import numpy as np
from numba import njit

__all__ = ["deal", "merge_runs", "place_records", "sort_records", "start_merge"]

COMPILE = {"nogil": True, "cache": True, "error_model": "numpy", "boundscheck": False}
_DIGIT = 11  # bits that are sorted by at once: their counts stay in the first cache


@njit(**COMPILE)
def sort_records(records, columns, order, spare):
    """Sorts records by their first ``columns``; stable.

    Args:
        records: uint32 [records, width].
        columns: Columns of the key, from the first on.
        order: uint32 [records], receives the order.
        spare: uint32 [records], working memory.

    Returns:
        Whichever of ``order`` and ``spare`` has the result.
    """
    size = records.shape[0]
    mask = np.uint32((1 << _DIGIT) - 1)
    following = np.empty(1 << _DIGIT, np.int64)
    for entry in range(size):
        order[entry] = entry
    for column in range(columns - 1, -1, -1):
        for shift in range(0, 32, _DIGIT):
            following[:] = 0
            for entry in range(size):
                following[(records[entry, column] >> np.uint32(shift)) & mask] += 1
            if size == 0 or following[(records[0, column] >> np.uint32(shift)) & mask] == size:
                continue  # all have the same digit
            total = 0
            for digit in range(following.shape[0]):
                count = following[digit]
                following[digit] = total
                total += count
            for entry in range(size):
                record = order[entry]
                digit = (records[record, column] >> np.uint32(shift)) & mask
                spare[following[digit]] = record
                following[digit] += 1
            order, spare = spare, order
    return order


@njit(**COMPILE)
def _before(buffers, at, ended, columns, one, other):
    """Whether the next record of a run comes before that of another; a run that has ended comes last."""
    if ended[one] or ended[other]:
        return not ended[one] or (ended[other] and one < other)
    for column in range(columns):
        left, right = buffers[one, at[one], column], buffers[other, at[other], column]
        if left != right:
            return left < right
    return one < other


@njit(**COMPILE)
def start_merge(buffers, at, ended, columns, tree):
    """Lets the runs play for the first place: ``tree`` (int64 [runs]) receives the winner, then the losers."""
    runs = at.shape[0]
    winners = np.empty(2 * runs, np.int64)
    for run in range(runs):
        winners[runs + run] = run
    for node in range(runs - 1, 0, -1):
        left, right = winners[2 * node], winners[2 * node + 1]
        is_left = _before(buffers, at, ended, columns, left, right)
        winners[node] = left if is_left else right
        tree[node] = right if is_left else left
    tree[0] = winners[1]


@njit(**COMPILE)
def merge_runs(buffers, at, filled, ended, columns, tree, refilled, merged):
    """Merges runs until a buffer is used up, ``merged`` is full, or nothing is left.

    Args:
        buffers: uint32 [runs, records, width], the next records of each run.
        at: int64 [runs], the first of them that is not taken yet.
        filled: int64 [runs], how many there are.
        ended: uint8 [runs], whether nothing is left of a run.
        columns: Columns of the key.
        tree: int64 [runs], from :func:`start_merge`.
        refilled: Whether the run that came first has a new record, and plays again before anything else.
        merged: uint32 [records, width], receives the result.

    Returns:
        How many records were merged, and the run whose buffer is used up (-1: none is).
    """
    runs, width, count = at.shape[0], buffers.shape[2], 0
    while True:
        run = tree[0]
        if refilled:
            node = (run + runs) // 2
            while node > 0:
                if _before(buffers, at, ended, columns, tree[node], run):
                    run, tree[node] = tree[node], run
                node //= 2
            tree[0] = run
        if ended[run] or count == merged.shape[0]:
            return count, -1
        for column in range(width):
            merged[count, column] = buffers[run, at[run], column]
        count += 1
        at[run] += 1
        refilled = True
        if at[run] == filled[run]:
            return count, run


@njit(**COMPILE)
def deal(records, start, shift, buffers, filled):
    """Deals records out to buffers by ``place >> shift``, until one is full; returns how many were dealt.

    Args:
        records: With a field ``place``.
        start: The first to deal.
        shift: Bits of the places in a buffer's share.
        buffers: Records [buffers, capacity].
        filled: int64 [buffers], how many each has.
    """
    for entry in range(start, records.shape[0]):
        buffer = records[entry].place >> shift
        if filled[buffer] == buffers.shape[1]:
            return entry
        buffers[buffer, filled[buffer]] = records[entry]
        filled[buffer] += 1
    return records.shape[0]


@njit(**COMPILE)
def place_records(records, first, placed):
    """Brings records, whose places are all from ``first`` on, to their places."""
    for entry in range(records.shape[0]):
        placed[records[entry].place - first] = records[entry]
