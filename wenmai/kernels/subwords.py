"""fastText's features: words, the character n-grams of words and the n-grams of words, as rows of one matrix.

A word is hashed by FNV-1a with 32 bits, bytes sign-extended as in the reference implementation (Bojanowski et al. 2017,
sec. 3.2; Joulin et al. 2017, sec. 2.2). Character n-grams are those of ``<word>`` over UTF-8 characters, where a byte
that begins with the bits 10 continues a character, and any other begins one.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

__all__ = [
    "Features",
    "KeptBuckets",
    "bucket_row",
    "fnv1a",
    "hash_word",
    "kept_table",
    "subword_table",
    "text_features",
    "word_index",
    "word_subwords",
]

COMPILE = {"nogil": True, "cache": True, "error_model": "numpy", "boundscheck": False}
_OFFSET, _PRIME, _LOW = np.int64(2166136261), np.int64(16777619), np.int64(0xFFFFFFFF)
_WORD_FACTOR = np.uint64(116049371)
_BEGIN, _END = np.uint8(ord("<")), np.uint8(ord(">"))
_NO_PRUNING, _NO_NGRAMS = -1, 0


class KeptBuckets(NamedTuple):
    """Which buckets a pruned model has kept: an open-addressed table, and how many there are."""

    size: int  # -1: not pruned; 0: no n-grams at all
    keys: np.ndarray  # int32 [power of two]: buckets, -1 where empty
    rows: np.ndarray  # int32 [the same]: rows after those of the words


class Features(NamedTuple):
    """What turns text into rows."""

    text: np.ndarray  # uint8: the words of the vocabulary, then the labels with their prefix
    bounds: np.ndarray  # int64 [words + labels + 1]: where each begins, and the end
    slots: np.ndarray  # int32 [power of two]: open-addressed table of their numbers, -1 where empty
    num_words: int
    start: np.ndarray  # int64 [words + 1]: where the rows of each word begin in ...
    rows: np.ndarray  # int32: its own row, then those of its character n-grams
    min_ngram: int
    max_ngram: int
    word_ngrams: int
    buckets: int
    kept: KeptBuckets
    label_prefix: np.ndarray  # uint8: unknown words that begin so are labels, which are no features


def fnv1a(text: bytes) -> int:
    """Returns the hash of a word, 0 to 2**32 - 1."""
    return int(hash_word(np.frombuffer(text, np.uint8), 0, len(text)))


@njit(**COMPILE)
def _mixed(state, byte):
    """Takes a byte into a hash, of which the lower 32 bits count: those above never reach them."""
    return (state ^ np.int64(np.int8(byte))) * _PRIME


@njit(**COMPILE)
def hash_word(text, begin, end):
    """The hash of the word ``text[begin:end]``, int64 from 0 to 2**32 - 1."""
    state = _OFFSET
    for place in range(begin, end):
        state = _mixed(state, text[place])
    return state & _LOW


# --- which buckets are kept -----------------------------------------------------------------------------------------


def kept_table(pairs: npt.NDArray[np.int32] | None) -> KeptBuckets:
    """Makes the lookup table of a pruned model's buckets.

    Args:
        pairs: int32 (K, 2), a bucket and its new row each; None if nothing is pruned.
    """
    if pairs is None:
        return KeptBuckets(_NO_PRUNING, np.full(1, -1, np.int32), np.zeros(1, np.int32))
    size = 1 << max(1, 2 * len(pairs) - 1).bit_length()
    keys, rows = np.full(size, -1, np.int32), np.zeros(size, np.int32)
    _fill_kept(pairs, keys, rows)
    return KeptBuckets(len(pairs), keys, rows)


@njit(**COMPILE)
def _fill_kept(pairs, keys, rows):
    mask = keys.shape[0] - 1
    for number in range(pairs.shape[0]):
        place = _kept_place(pairs[number, 0], mask)
        while keys[place] >= 0 and keys[place] != pairs[number, 0]:
            place = (place + 1) & mask
        keys[place] = pairs[number, 0]
        rows[place] = pairs[number, 1]


@njit(**COMPILE)
def _kept_place(bucket, mask):
    return ((np.int64(bucket) * np.int64(2654435761)) >> 16) & mask


@njit(**COMPILE)
def bucket_row(bucket, num_words, kept):
    """The row of a bucket, or -1 if it was pruned."""
    if kept.size == _NO_PRUNING:
        return num_words + bucket
    if kept.size == _NO_NGRAMS:
        return -1
    mask = kept.keys.shape[0] - 1
    place = _kept_place(bucket, mask)
    while kept.keys[place] >= 0:
        if kept.keys[place] == bucket:
            return num_words + np.int64(kept.rows[place])
        place = (place + 1) & mask
    return -1


# --- character n-grams ----------------------------------------------------------------------------------------------


@njit(**COMPILE)
def _bracketed(text, begin, end, word):
    """Writes ``<word>`` into ``word`` and returns its length in bytes."""
    length = end - begin + 2
    word[0] = _BEGIN
    for place in range(begin, end):
        word[place - begin + 1] = text[place]
    word[length - 1] = _END
    return length


@njit(**COMPILE)
def _ngrams(word, length, min_ngram, max_ngram, num_words, buckets, kept, rows, spans, at):
    """Appends the row of each n-gram of a bracketed word to ``rows`` from ``at`` on, and where it is to ``spans``.

    ``spans`` may be empty, and ``rows`` too, to count only. Returns the new end.
    """
    for begin in range(length):
        if word[begin] & 0xC0 == 0x80:
            continue
        state, end, characters = _OFFSET, begin, 0
        while end < length and characters < max_ngram:
            state = _mixed(state, word[end])
            end += 1
            while end < length and word[end] & 0xC0 == 0x80:
                state = _mixed(state, word[end])
                end += 1
            characters += 1
            if characters < min_ngram or (characters == 1 and (begin == 0 or end == length)):
                continue
            row = bucket_row((state & _LOW) % buckets, num_words, kept)
            if row < 0:
                continue
            if rows.shape[0] > 0:
                rows[at] = row
            if spans.shape[0] > 0:
                spans[at, 0], spans[at, 1] = begin, end
            at += 1
    return at


def subword_table(
    text: npt.NDArray[np.uint8],
    bounds: npt.NDArray[np.int64],
    *,
    min_ngram: int,
    max_ngram: int,
    buckets: int,
    end_of_line: bytes,
    kept: KeptBuckets | None = None,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Lists the rows of every word of a vocabulary: its own, then those of its character n-grams.

    Args:
        text: The words, one behind the other (:func:`wenmai.text.utf8.encode`).
        bounds: int64 [V + 1], where each begins, and the end.
        min_ngram: Characters of the shortest n-gram.
        max_ngram: Characters of the longest; 0 has none.
        buckets: Rows behind those of the words that the n-grams share.
        end_of_line: The word that has no n-grams.
        kept: Which buckets a pruned model has.

    Returns:
        ``start`` int64 [V + 1] and ``rows`` int32: those of word w are ``rows[start[w]:start[w + 1]]``.
    """
    kept = kept_table(None) if kept is None else kept
    start = np.zeros(len(bounds), np.int64)
    ending = np.frombuffer(end_of_line, np.uint8)
    none = np.empty(0, np.int32)
    max_ngram = max_ngram if buckets else 0
    _all_subwords(text, bounds, ending, min_ngram, max_ngram, max(buckets, 1), kept, start, none)
    rows = np.empty(start[-1], np.int32)
    if rows.size:
        _all_subwords(text, bounds, ending, min_ngram, max_ngram, max(buckets, 1), kept, start, rows)
    return start, rows


@njit(**COMPILE)
def _all_subwords(text, bounds, ending, min_ngram, max_ngram, buckets, kept, start, rows):
    words = bounds.shape[0] - 1
    longest = 0
    for word in range(words):
        longest = max(longest, bounds[word + 1] - bounds[word])
    bracketed = np.empty(longest + 2, np.uint8)
    spans = np.empty((0, 2), np.int64)
    at = np.int64(0)
    for word in range(words):
        if rows.shape[0] > 0:
            rows[at] = word
        at += 1
        begin, end = bounds[word], bounds[word + 1]
        if max_ngram > 0 and not _same(text, begin, end, ending, 0, ending.shape[0]):
            length = _bracketed(text, begin, end, bracketed)
            at = _ngrams(bracketed, length, min_ngram, max_ngram, words, buckets, kept, rows, spans, at)
        start[word + 1] = at


def word_subwords(word: bytes, features: Features) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Returns the rows of the n-grams of any word, and where each begins and ends in ``<word>``, int64 [n, 2]."""
    none, nowhere = np.empty(0, np.int32), np.empty((0, 2), np.int64)
    if not features.max_ngram:
        return none, nowhere
    bracketed = np.frombuffer(b"<" + word + b">", np.uint8)
    choices = (features.min_ngram, features.max_ngram, features.num_words, features.buckets, features.kept)
    count = _ngrams(bracketed, len(bracketed), *choices, none, nowhere, 0)
    if not count:
        return none, nowhere
    rows, spans = np.empty(count, np.int32), np.empty((count, 2), np.int64)
    _ngrams(bracketed, len(bracketed), *choices, rows, spans, 0)
    return rows, spans


# --- words by their bytes -------------------------------------------------------------------------------------------


@njit(**COMPILE)
def _same(one, begin, end, other, other_begin, other_end):
    if end - begin != other_end - other_begin:
        return False
    for place in range(end - begin):  # noqa: SIM110  the compiler has no all()
        if one[begin + place] != other[other_begin + place]:
            return False
    return True


def word_index(text: npt.NDArray[np.uint8], bounds: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Makes the open-addressed table of words that :func:`text_features` looks up."""
    slots = np.full(1 << max(1, 2 * len(bounds) - 1).bit_length(), -1, np.int32)
    _fill_index(text, bounds, slots)
    return slots


@njit(**COMPILE)
def _fill_index(text, bounds, slots):
    mask = slots.shape[0] - 1
    for number in range(bounds.shape[0] - 1):
        place = _slot(hash_word(text, bounds[number], bounds[number + 1]), mask)
        while slots[place] >= 0:
            place = (place + 1) & mask
        slots[place] = number


@njit(**COMPILE)
def _slot(state, mask):
    return (state ^ (state >> 15)) & mask


@njit(**COMPILE)
def _find(text, begin, end, state, features):
    """The number of a word or label, or -1."""
    mask = features.slots.shape[0] - 1
    place = _slot(state, mask)
    while features.slots[place] >= 0:
        number = np.int64(features.slots[place])
        if _same(text, begin, end, features.text, features.bounds[number], features.bounds[number + 1]):
            return number
        place = (place + 1) & mask
    return np.int64(-1)


# --- texts ----------------------------------------------------------------------------------------------------------


def text_features(
    text: npt.NDArray[np.uint8], bounds: npt.NDArray[np.int64], features: Features
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Lists the rows of many texts, as a classifier sees them.

    The rows of a text are, word by word, its own and those of its character n-grams, then ``</s>``, then the n-grams of
    words. Words are parted by white space and zero bytes; labels are no features; the word ``</s>`` ends a text. A word
    outside the vocabulary counts by its n-grams.

    Args:
        text: The texts, one behind the other (:func:`wenmai.text.utf8.encode`).
        bounds: int64 [B + 1], where each begins, and the end.
        features: The vocabulary and the choices.

    Returns:
        ``start`` int64 [B + 1] and ``rows`` int32: those of text b are ``rows[start[b]:start[b + 1]]``.
    """
    text = text.view()
    text.setflags(write=False)  # the same type as the bytes below, and so one compilation
    start, rows = _texts(text, bounds, features, np.frombuffer(b"</s>", np.uint8))
    return start, rows


@njit(**COMPILE)
def _texts(text, bounds, features, ending):
    longest = np.int64(0)
    for number in range(bounds.shape[0] - 1):
        longest = max(longest, bounds[number + 1] - bounds[number])
    hashes = np.empty(longest // 2 + 2, np.int64)
    bracketed = np.empty(longest + 2, np.uint8)
    spans = np.empty((0, 2), np.int64)
    # Ample, as memory that is not written to costs nothing, and growing costs twice what is written.
    rows = np.empty(text.shape[0] * (3 if features.max_ngram > 0 else 1) + bounds.shape[0] + 64, np.int32)
    room = rows.shape[0]
    plain = features.max_ngram == 0
    start = np.zeros(bounds.shape[0], np.int64)
    word_start, word_rows, num_words = features.start, features.rows, features.num_words
    end_hash = hash_word(ending, 0, ending.shape[0])
    end_number = _find(ending, 0, ending.shape[0], end_hash, features)
    at = np.int64(0)
    for number in range(bounds.shape[0] - 1):
        place, stop = bounds[number], bounds[number + 1]
        words, ended = 0, False
        most = (stop - place) // 2 + 2  # words of a byte, and </s>
        if at + most > room:
            rows = _larger(rows, at + most)
            room = rows.shape[0]
        while not ended:
            while place < stop and _separates(text[place]):
                place += 1
            begin, state = place, _OFFSET
            while place < stop and not _separates(text[place]):
                state = _mixed(state, text[place])
                place += 1
            state &= _LOW
            if begin == place:
                known, state, ended = end_number, end_hash, True
            else:
                known = _find(text, begin, place, state, features)
                ended = state == end_hash and _same(text, begin, place, ending, 0, ending.shape[0])
            if known >= num_words:
                continue
            if known >= 0 and plain:
                rows[at] = known
                at += 1
            elif known >= 0:
                first, last = word_start[known], word_start[known + 1]
                if at + last - first > room:
                    rows = _larger(rows, at + last - first)
                    room = rows.shape[0]
                for one in range(first, last):
                    rows[at] = word_rows[one]
                    at += 1
            elif not ended:
                if _begins_with(text, begin, place, features.label_prefix):
                    continue
                if features.max_ngram > 0:
                    if at + (place - begin + 2) * features.max_ngram > room:
                        rows = _larger(rows, at + (place - begin + 2) * features.max_ngram)
                        room = rows.shape[0]
                    length = _bracketed(text, begin, place, bracketed)
                    at = _ngrams(
                        bracketed,
                        length,
                        features.min_ngram,
                        features.max_ngram,
                        num_words,
                        features.buckets,
                        features.kept,
                        rows,
                        spans,
                        at,
                    )
            hashes[words] = state
            words += 1
        if features.word_ngrams > 1:
            more = words * (min(words, features.word_ngrams) - 1)
            if at + more > room:
                rows = _larger(rows, at + more)
                room = rows.shape[0]
            at = _word_ngrams(hashes, words, features, rows, at)
        start[number + 1] = at
    return start, rows[:at]


@njit(**COMPILE)
def _separates(byte):
    return byte <= 0x20 and (byte == 0x20 or (byte <= 0x0D and byte >= 0x09) or byte == 0)  # the rest by one comparison


@njit(**COMPILE)
def _begins_with(text, begin, end, prefix):
    if prefix.shape[0] == 0 or end - begin < prefix.shape[0]:
        return False
    return _same(text, begin, begin + prefix.shape[0], prefix, 0, prefix.shape[0])


@njit(**COMPILE)
def _word_ngrams(hashes, words, features, rows, at):
    """Appends the rows of the n-grams of words: the hashes, as signed numbers of 32 bits, in a product of 64 bits."""
    for first in range(words):
        state = np.uint64(_signed(hashes[first]))
        for place in range(first + 1, min(words, first + features.word_ngrams)):
            state = state * _WORD_FACTOR + np.uint64(_signed(hashes[place]))
            row = bucket_row(np.int64(state % np.uint64(features.buckets)), features.num_words, features.kept)
            if row >= 0:
                rows[at] = row
                at += 1
    return at


@njit(**COMPILE)
def _signed(state):
    return state - (np.int64(1) << 32) if state >> 31 else state


@njit(**COMPILE)
def _larger(rows, needed):
    larger = np.empty(max(needed, 2 * rows.shape[0]), np.int32)
    larger[: rows.shape[0]] = rows
    return larger
