"""Counting n-grams and estimating their probabilities, by sorting a text once.

The places of a text are sorted by the words that end there, read backwards: (w_i, w_{i-1}, ..., w_{i-N+1}). In that
order the distinct n-grams of *every* order are runs, and a run of order n is made of runs of order n + 1: as many as
the n-gram has left neighbours, which is the adjusted count of Kneser and Ney. A run's parent is the n-gram without its
first word; its context is found through the place before. Nothing is hashed, and nothing is sorted twice.

Words are int32: 0 ``<unk>``, 1 ``<s>``, 2 ``</s>``, then the others. Each sentence is ``<s> words </s>``; reading
backwards ends at ``<s>``.

A *row* is a distinct sequence of up to N words. Of rows in order, ``shared`` is how many words one has in common with
the row before, ``length`` how many it has, ``times`` how often it occurs, ``before`` the row of its context. A *node*
of order n is an n-gram; nodes have ids in the order of their first rows, those of order 1 by their word.
"""

import numpy as np
import numpy.typing as npt
from numba import njit

__all__ = [
    "NONE",
    "find_rows",
    "hashed_word",
    "hashed_words",
    "lay_out",
    "rows_before",
    "sort_places",
]

COMPILE = {"nogil": True, "cache": True, "error_model": "numpy", "boundscheck": False}
NONE = np.uint32(0xFFFFFFFF)
_BEGIN, _END = 1, 2
_GOLDEN = np.uint32(2654435769)  # 2**32 over the golden ratio: spreads consecutive numbers evenly


@njit(**COMPILE)
def hashed_word(word):
    """A uint32 that stands for a word and for no other, spread evenly over all uint32."""
    return np.uint32(np.uint32(word) * _GOLDEN)


def hashed_words(vocabulary: int) -> npt.NDArray[np.uint32]:
    """What :func:`hashed_word` makes of each word."""
    return np.arange(vocabulary, dtype=np.uint32) * _GOLDEN


@njit(**COMPILE)
def lay_out(tokens, starts, word_of_type, text):
    """Writes sentences as ``<s> words </s>``; returns how many words that are.

    Args:
        tokens: int32 types of a corpus; below 0 is a type that was dropped.
        starts: int64 [sentences + 1], places in ``tokens``.
        word_of_type: int32, the word that each type is.
        text: int32, with room for the tokens and two for each sentence.
    """
    count = 0
    for sentence in range(starts.shape[0] - 1):
        text[count] = _BEGIN
        count += 1
        for place in range(starts[sentence], starts[sentence + 1]):
            token = tokens[place]
            text[count] = word_of_type[token] if token >= 0 else 0
            count += 1
        text[count] = _END
        count += 1
    return count


@njit(**COMPILE)
def sort_places(text, order, vocabulary, places, spare):
    """Sorts the places of a text by the ``order`` words that end there, read backwards.

    One pass a word, each a counting sort: who comes after a place that stands earlier comes earlier within its word.

    Args:
        text: int32, begins with ``<s>``.
        order: N.
        vocabulary: V, words are below.
        places: int32 [text], receives the places in order.
        spare: int32 [text], working memory.

    Returns:
        Whichever of ``places`` and ``spare`` has the result.
    """
    bounds = np.zeros(vocabulary + 1, np.int64)
    for place in range(text.shape[0]):
        bounds[text[place] + 1] += 1
    for word in range(vocabulary):
        bounds[word + 1] += bounds[word]
    following = bounds[:-1].copy()
    for place in range(text.shape[0]):
        word = text[place]
        places[following[word]] = place
        following[word] += 1
    for _ in range(order - 1):
        for word in range(vocabulary):
            following[word] = bounds[word]
        for entry in range(bounds[_BEGIN], bounds[_BEGIN + 1]):
            spare[entry] = places[entry]
        for entry in range(text.shape[0]):
            place = places[entry] + 1
            if place < text.shape[0]:
                word = text[place]
                if word != _BEGIN:
                    spare[following[word]] = place
                    following[word] += 1
        places, spare = spare, places
    return places


@njit(**COMPILE)
def find_rows(text, places, order, shared, length, times, row_of_place):
    """Finds the distinct rows among sorted places; returns how many there are.

    Args:
        text: int32.
        places: int32, from :func:`sort_places`; receives one place of each row.
        order: N.
        shared: uint8, with ``length`` and ``times`` (uint32), receive the rows; room for as many as places.
        length: uint8.
        times: uint32.
        row_of_place: int32 [text], receives the row of each place.
    """
    rows = 0
    last = 0
    for entry in range(places.shape[0]):
        place = places[entry]
        same = 0
        if entry > 0:
            while same < order and text[last - same] == text[place - same]:
                same += 1
                if text[place - same + 1] == _BEGIN:
                    break
        words = max(same, 1)
        while words < order and text[place - words + 1] != _BEGIN:
            words += 1
        last = place
        if entry > 0 and same == words:
            times[rows - 1] += 1
        else:
            places[rows] = place
            shared[rows] = same
            length[rows] = words
            times[rows] = 1
            rows += 1
        row_of_place[place] = rows - 1
    return rows


@njit(**COMPILE)
def rows_before(text, places, row_of_place, before, last_words):
    """Writes the row of each row's context, and its last word.

    Args:
        text: int32.
        places: int32 [rows], a place of each row.
        row_of_place: int32 [text].
        before: uint32 [rows]; ``<s>`` alone has none.
        last_words: uint32 [rows].
    """
    for row in range(places.shape[0]):
        place = places[row]
        last_words[row] = text[place]
        before[row] = NONE if text[place] == _BEGIN else row_of_place[place - 1]
