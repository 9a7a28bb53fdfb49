"""The entries of a fastText dictionary: a word, a zero byte, int64 count, int8 type, one behind the other."""

import numpy as np
from numba import njit

__all__ = ["EMPTY", "ENDED", "LONG", "find_entries", "joined_words"]

COMPILE = {"nogil": True, "cache": True, "boundscheck": False}
EMPTY, ENDED, LONG = 1, 2, 3
_AFTER_WORD = 10  # the zero byte, count and type


@njit(**COMPILE)
def find_entries(content, at, longest, begins, ends, counts, kinds):
    """Finds ``begins.size`` entries in the bytes ``content`` from ``at`` on.

    Fills ``begins`` and ``ends`` (int64, of the words), ``counts`` (int64) and ``kinds`` (int8). Returns how many
    entries are good, where the next one begins, and what is wrong with it: it is empty, the content ends within it, or
    its word is longer than ``longest`` bytes; 0 if all are good.
    """
    for number in range(begins.shape[0]):
        end = at
        last = min(content.shape[0], at + longest + 1)
        while end < last and content[end] != 0:
            end += 1
        if end + _AFTER_WORD > content.shape[0]:
            return number, at, ENDED
        if end == last:
            return number, at, LONG
        if end == at:
            return number, at, EMPTY
        count = np.uint64(0)
        for place in range(8):
            count |= np.uint64(content[end + 1 + place]) << np.uint64(8 * place)
        begins[number], ends[number] = at, end
        counts[number], kinds[number] = np.int64(count), np.int8(content[end + 9])
        at = end + _AFTER_WORD
    return begins.shape[0], at, 0


@njit(**COMPILE)
def joined_words(content, begins, ends, separator):
    """Copies words out of ``content``, each followed by the byte ``separator``."""
    size = begins.shape[0]
    for word in range(begins.shape[0]):
        size += ends[word] - begins[word]
    words = np.empty(size, np.uint8)
    at = 0
    for word in range(begins.shape[0]):
        for place in range(begins[word], ends[word]):
            words[at] = content[place]
            at += 1
        words[at] = separator
        at += 1
    return words
