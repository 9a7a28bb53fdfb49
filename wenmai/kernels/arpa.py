"""The lines of ARPA files, as bytes: n-grams with logarithms to base 10, read and written in compiled loops."""

import numpy as np
from numba import njit

from wenmai.kernels.ngram_lookup import advance, find_word, follow

__all__ = [
    "MISPLACED",
    "MOST_BACKOFF",
    "NOT_A_NUMBER",
    "POSITIVE",
    "TOO_LARGE",
    "UNKNOWN_WORD",
    "find_places",
    "format_lines",
    "parse_lines",
]

_MADE_OF = "ngram_lookup.py 7025c13e28e5"
COMPILE = {"nogil": True, "cache": True, "error_model": "numpy", "boundscheck": False}
NOT_A_NUMBER, MISPLACED, UNKNOWN_WORD, POSITIVE, TOO_LARGE = 1, 2, 3, 4, 5  # what may be wrong with a line
MOST_BACKOFF = 99.0  # to base 10; as far from 1 as the least probability that files write
_LN10 = np.log(10.0)
_MOST_DIGITS = 18  # of an int64


@njit(**COMPILE)
def _number(raw, begin, end):
    """The decimal number that stands in ``raw[begin:end]``; NaN if there is none."""
    place, negative = begin, False
    if place < end and (raw[place] == 45 or raw[place] == 43):
        negative = raw[place] == 45
        place += 1
    if end - place == 3 and raw[place] | 32 == 105 and raw[place + 1] | 32 == 110 and raw[place + 2] | 32 == 102:
        return -np.inf if negative else np.inf
    value, digits, power, seen = np.int64(0), 0, 0, False
    point = False
    while place < end:
        byte = raw[place]
        if 48 <= byte <= 57:
            seen = True
            if digits < _MOST_DIGITS:
                value = value * 10 + np.int64(byte - 48)
                digits += 1 if value > 0 else 0
                power -= 1 if point else 0
            elif not point:
                power += 1
        elif byte == 46 and not point:
            point = True
        else:
            break
        place += 1
    if place < end and seen and raw[place] | 32 == 101:
        place += 1
        down, exponent, given = False, 0, False
        if place < end and (raw[place] == 45 or raw[place] == 43):
            down = raw[place] == 45
            place += 1
        while place < end and 48 <= raw[place] <= 57:
            exponent = min(exponent * 10 + int(raw[place]) - 48, 9999)
            given = True
            place += 1
        seen = given
        power += -exponent if down else exponent
    if not seen or place < end:
        return np.nan
    found = np.float64(value) * 10.0 ** np.float64(power)
    return -found if negative else found


@njit(**COMPILE)
def parse_lines(raw, order, text, bounds, slots, words, log_probs, backoffs):
    """Reads lines of one order of n-grams, up to the first that begins with a backslash; blank ones are left out.

    Args:
        raw: uint8, whole lines.
        order: n.
        text: The words, see :func:`wenmai.kernels.ngram_lookup.word_slots`.
        bounds: int64.
        slots: uint32.
        words: int32 [lines, n], receives the words.
        log_probs: float32 [lines], receives natural logarithms.
        backoffs: float32 [lines], likewise; 0 where none is given.

    Returns:
        How many n-grams were read, where the next line begins, and what is wrong with it (0: nothing).
    """
    count, place = 0, 0
    while place < raw.shape[0] and count < words.shape[0]:
        begin = place
        while begin < raw.shape[0] and (raw[begin] == 32 or raw[begin] == 9):
            begin += 1
        end = begin
        while end < raw.shape[0] and raw[end] != 10:
            end += 1
        following = min(end + 1, raw.shape[0])
        while end > begin and (raw[end - 1] == 13 or raw[end - 1] == 32 or raw[end - 1] == 9):
            end -= 1
        if end == begin:
            place = following
            continue
        if raw[begin] == 92:
            return count, place, 0
        fields, now = 0, begin
        backoff = 0.0
        while now < end:
            stop = now
            while stop < end and raw[stop] != 32 and raw[stop] != 9:
                stop += 1
            if fields == 0:
                log_prob = _number(raw, now, stop)
                if np.isnan(log_prob):
                    return count, place, NOT_A_NUMBER
                if log_prob > 0:
                    return count, place, POSITIVE
                log_probs[count] = log_prob * _LN10
            elif fields <= order:
                word = find_word(text, bounds, slots, raw, now, stop)
                if word < 0:
                    return count, place, UNKNOWN_WORD
                words[count, fields - 1] = word
            elif fields == order + 1:
                backoff = _number(raw, now, stop)
                if np.isnan(backoff):
                    return count, place, NOT_A_NUMBER
                if backoff > MOST_BACKOFF:
                    return count, place, TOO_LARGE
            fields += 1
            now = stop
            while now < end and (raw[now] == 32 or raw[now] == 9):
                now += 1
        if fields < order + 1 or fields > order + 2:
            return count, place, MISPLACED
        backoffs[count] = backoff * _LN10
        count += 1
        place = following
    return count, place, 0


@njit(**COMPILE)
def find_places(contexts, leaves, words, log_probs, context, suffix):
    """Finds the contexts and suffixes of n-grams among those of lower orders.

    Args:
        contexts: Records of lower orders; those of the order before have no n-grams yet.
        leaves: No records.
        words: int32 [n-grams, n], n at least 2.
        log_probs: float32 [n-grams]; one that is NaN receives what follows from lower orders.
        context: int64 [n-grams], receives ids, -1 where there is none.
        suffix: int64 [n-grams], likewise.
    """
    order = words.shape[1]
    for gram in range(words.shape[0]):
        for skip in range(2):
            state = np.int64(words[gram, skip])
            for step in range(skip + 1, order - 1 + skip):
                if state >= 0:
                    state = follow(contexts, leaves, state, words[gram, step])
            if skip == 0:
                context[gram] = state
            else:
                suffix[gram] = state
        if np.isnan(log_probs[gram]) and context[gram] >= 0:
            log_probs[gram] = advance(contexts, leaves, context[gram], order - 1, words[gram, order - 1])[2]


@njit(**COMPILE)
def _write_number(value, out, place):
    """Writes a natural logarithm to base 10 with seven decimals; returns the place behind it."""
    value = max(-MOST_BACKOFF, min(MOST_BACKOFF, value / _LN10))
    if value < 0:
        out[place] = 45
        place += 1
        value = -value
    whole = np.int64(np.rint(value * 1e7))
    front, back = whole // 10_000_000, whole % 10_000_000
    if front >= 10:
        out[place] = 48 + front // 10
        place += 1
    out[place] = 48 + front % 10
    place += 1
    if back > 0:
        out[place] = 46
        place += 1
        divisor = 1_000_000
        while back > 0:
            out[place] = 48 + back // divisor
            place += 1
            back %= divisor
            divisor //= 10
    return place


@njit(**COMPILE)
def format_lines(words, log_probs, backoffs, text, bounds, begin, limit, out):
    """Writes lines of n-grams until ``out`` is nearly full.

    Args:
        words: int32 [n-grams, n].
        log_probs: float32 [n-grams], natural.
        backoffs: float32 [n-grams], or empty for the highest order.
        text: The words.
        bounds: int64.
        begin: The first n-gram to write.
        limit: Bytes of the longest line.
        out: uint8, receives the lines.

    Returns:
        The n-gram after the last that was written, and how many bytes there are.
    """
    place, gram = 0, begin
    while gram < words.shape[0] and place + limit <= out.shape[0]:
        place = _write_number(np.float64(log_probs[gram]), out, place)
        for step in range(words.shape[1]):
            out[place] = 9 if step == 0 else 32
            place += 1
            word = words[gram, step]
            for byte in range(bounds[word], bounds[word + 1] - 1):
                out[place] = text[byte]
                place += 1
        if backoffs.shape[0] > 0:
            out[place] = 9
            place = _write_number(np.float64(backoffs[gram]), out, place + 1)
        out[place] = 10
        place += 1
        gram += 1
    return gram, place
