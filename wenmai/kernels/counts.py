"""Counting which words stand near each other, row by row of the matrix, without ever sorting a pair.

A text of word numbers is indexed first: for every word the places where it stands (:func:`index_text`). A row of the
matrix is then what is found around the places of one word, summed in a table of one number per word that stays in the
processor's cache; a bitmap of the words that were met gives the row back in order. So memory grows with the text, not
with its pairs, rows can be counted by any thread, and nothing has to be merged unless the text is cut into parts.

Counts are whole numbers: a pair at distance d adds ``units[d]``, and ``scale`` of them make 1 (:func:`distance_units`).
Their sum does not depend on the order of adding, so the result is bitwise the same for any number of parts and
threads.

In a text, ``V`` (the size of the vocabulary) marks the end of a sentence, and ``V + 1`` a word that is not counted but
keeps its place.
"""

import math

import numpy as np
import numpy.typing as npt
from numba import njit

__all__ = [
    "arrange_tiles",
    "compact_text",
    "count_rows",
    "distance_units",
    "index_text",
    "row_memory",
    "sum_rows",
    "warm_up",
]

COMPILE = {"nogil": True, "cache": True, "error_model": "numpy", "boundscheck": False}
_LARGEST_SCALE = 1 << 32
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_BIT_PLACES = np.empty(64, np.int64)
for _bit in range(64):
    _BIT_PLACES[(int(_DE_BRUIJN) << _bit) % 2**64 >> 58] = _bit


def distance_units(weighting: str, window: int) -> tuple[npt.NDArray[np.int64], int]:
    """What a pair adds to a count, by distance, in whole units.

    Args:
        weighting: ``harmonic`` (1/d, GloVe), ``linear`` ((window - d + 1) / window, the mean of word2vec's dynamic
            windows) or ``none`` (1).
        window: The largest distance.

    Returns:
        int64 ``[window + 1]`` with 0 at distance 0, and how many units make 1. ``harmonic`` is exact up to a window of
        22; beyond, each pair's 1/d is rounded to a multiple of 2**-32.
    """
    distances = np.arange(1, window + 1)
    if weighting == "none":
        scale, units = 1, np.ones(window, np.int64)
    elif weighting == "linear":
        scale, units = window, window - distances + 1
    else:
        scale = min(math.lcm(*range(1, window + 1)), _LARGEST_SCALE)
        units = np.rint(scale / distances).astype(np.int64)
    return np.concatenate([[0], units]).astype(np.int64), scale


@njit(**COMPILE)
def _draw(seed, place):
    """A number from 0 to 1 that belongs to a place of the corpus, by SplitMix64's mixing."""
    state = seed + np.uint64(place) * np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    state ^= state >> np.uint64(31)
    return np.float32(state >> np.uint64(40)) * np.float32(2.0**-24)


@njit(**COMPILE)
def compact_text(tokens, starts, first_place, vocabulary, keep, keeps_places, seed, text, count):
    """Appends the words of a vocabulary to ``text[:count]``; returns the new count.

    Args:
        tokens: int32 ids of the corpus; ids below 0 and from ``vocabulary`` on are left out.
        starts: int64 places in ``tokens`` where a sentence begins, ascending; an end mark is put before each.
        first_place: Place of ``tokens[0]`` in the corpus, which decides the draws of subsampling.
        vocabulary: V.
        keep: float32 [V], the fraction of each word that subsampling keeps; empty to keep all.
        keeps_places: Whether words that subsampling drops still count for the distance of others.
        seed: uint64 of the draws.
        text: int32, with room for ``len(tokens) + len(starts)`` more.
        count: Words in ``text`` so far.
    """
    sentence = 0
    for place in range(tokens.shape[0]):
        while sentence < starts.shape[0] and starts[sentence] <= place:
            sentence += 1
            if count > 0 and text[count - 1] != vocabulary:
                text[count] = vocabulary
                count += 1
        token = tokens[place]
        if token < 0 or token >= vocabulary:
            continue
        if keep.shape[0] > 0 and _draw(seed, first_place + place) >= keep[token]:
            if keeps_places:
                text[count] = vocabulary + 1
                count += 1
            continue
        text[count] = token
        count += 1
    return count


@njit(**COMPILE)
def index_text(text, first, last, vocabulary):
    """Lists the places of every word in ``text[first:last]``.

    Returns:
        int64 ``[V + 1]`` bounds and int32 places: word w stands at ``places[bounds[w]:bounds[w + 1]]``, ascending.
    """
    bounds = np.zeros(vocabulary + 1, np.int64)
    for place in range(first, last):
        word = text[place]
        if word < vocabulary:
            bounds[word + 1] += 1
    for word in range(vocabulary):
        bounds[word + 1] += bounds[word]
    following = bounds[:-1].copy()
    places = np.empty(bounds[vocabulary], np.int32)
    for place in range(first, last):
        word = text[place]
        if word < vocabulary:
            places[following[word]] = place
            following[word] += 1
    return bounds, places


def row_memory(vocabulary: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    """Working memory of one thread: the sums of a row, and the bitmap of words that were met; both zero."""
    return np.zeros(vocabulary + 1, np.int64), np.zeros(vocabulary // 64 + 1, np.uint64)


@njit(**COMPILE)
def _lowest_bit(word):
    """The place of the lowest bit that is set: the top six bits of the product with a de Bruijn sequence name it."""
    return _BIT_PLACES[((word & (~word + np.uint64(1))) * _DE_BRUIJN) >> np.uint64(58)]


@njit(**COMPILE)
def _take_row(sums, met, limit, columns, values, count):
    """Appends the row in ``sums`` to columns and values, in order, and leaves all zero; returns the new count."""
    for block in range(limit // 64 + 1):
        word = met[block]
        if word == 0:
            continue
        met[block] = 0
        base = 64 * block
        while word != 0:
            column = base + _lowest_bit(word)
            word &= word - np.uint64(1)
            if column <= limit:
                columns[count] = column
                values[count] = sums[column]
                count += 1
            sums[column] = 0
    return count


@njit(**COMPILE)
def count_rows(text, bounds, places, first, last, lower, before, after, units, sums, met, row_bounds, columns, values):
    """Counts the rows first..last-1 of the matrix in a part of the text.

    Args:
        text: int32, see the module.
        bounds: From :func:`index_text`, with ``places``.
        places: Where each word stands.
        first: The first row.
        last: The row after the last.
        lower: Whether only columns up to the row's own number are wanted, which is all of a symmetric matrix.
        before: Words to the left of a place that count.
        after: Words to the right.
        units: int64 [window + 1], what a pair at each distance adds.
        sums: From :func:`row_memory`, with ``met``.
        met: The bitmap.
        row_bounds: int64 [rows + 1], receives where rows begin in columns and values.
        columns: int32, receives the columns of the entries, ascending within a row; has room for all.
        values: int64, receives the sums of units.
    """
    vocabulary = bounds.shape[0] - 1
    count = 0
    row_bounds[0] = 0
    for row in range(first, last):
        limit = row if lower else vocabulary - 1
        for entry in range(bounds[row], bounds[row + 1]):
            place = np.int64(places[entry])
            for distance in range(1, min(before, place) + 1):
                word = np.int64(text[place - distance])
                if word == vocabulary:
                    break
                if word <= limit:
                    sums[word] += units[distance]
                    met[word >> 6] |= np.uint64(1) << np.uint64(word & 63)
            for distance in range(1, min(after, text.shape[0] - 1 - place) + 1):
                word = np.int64(text[place + distance])
                if word == vocabulary:
                    break
                if word <= limit:
                    sums[word] += units[distance]
                    met[word >> 6] |= np.uint64(1) << np.uint64(word & 63)
        count = _take_row(sums, met, limit, columns, values, count)
        row_bounds[row - first + 1] = count


@njit(**COMPILE)
def sum_rows(parts, part_columns, part_values, sums, met, row_bounds, columns, values):
    """Adds up the same rows of several parts of a text.

    Args:
        parts: int64 [parts, rows + 1], where each row of each part begins in part_columns and part_values, and its end.
        part_columns: int32.
        part_values: int64.
        sums: From :func:`row_memory`, with ``met``.
        met: The bitmap.
        row_bounds: int64 [rows + 1], receives where rows begin in columns and values.
        columns: int32, receives the columns, ascending within a row; has room for all.
        values: int64, receives the sums.
    """
    count = 0
    row_bounds[0] = 0
    for row in range(parts.shape[1] - 1):
        for part in range(parts.shape[0]):
            for entry in range(parts[part, row], parts[part, row + 1]):
                column = np.int64(part_columns[entry])
                sums[column] += part_values[entry]
                met[column >> 6] |= np.uint64(1) << np.uint64(column & 63)
        count = _take_row(sums, met, sums.shape[0] - 2, columns, values, count)
        row_bounds[row + 1] = count


@njit(**COMPILE)
def arrange_tiles(row_bounds, columns, values, width, tiles, scale, tile_sizes, places, weights):
    """Brings some rows into the order of their tiles of ``width`` columns; within a tile rows stay in order.

    Args:
        row_bounds: int64 [rows + 1].
        columns: int32 [entries].
        values: int64 [entries], units.
        width: Columns of a tile, at most 65536, as many as there may be rows.
        tiles: Tiles side by side.
        scale: Units that make 1.
        tile_sizes: int64 [tiles], receives the number of entries of each tile.
        places: uint32 [entries], receives row and column within the tile: ``row << 16 | column``.
        weights: float32 [entries], receives the counts.
    """
    tile_sizes[:] = 0
    for entry in range(row_bounds[row_bounds.shape[0] - 1]):
        tile_sizes[columns[entry] // width] += 1
    following = np.zeros(tiles, np.int64)
    for tile in range(1, tiles):
        following[tile] = following[tile - 1] + tile_sizes[tile - 1]
    for row in range(row_bounds.shape[0] - 1):
        for entry in range(row_bounds[row], row_bounds[row + 1]):
            tile = columns[entry] // width
            target = following[tile]
            following[tile] = target + 1
            places[target] = np.uint32(row << 16) | np.uint32(columns[entry] - tile * width)
            weights[target] = np.float32(values[entry] / scale)


def warm_up() -> None:
    """Compiles the kernels, or reads them from the cache."""
    text, row_bounds, columns, values = (np.zeros(2, kind) for kind in (np.int32, np.int64, np.int32, np.int64))
    starts, keep = np.zeros(0, np.int64), np.zeros(0, np.float32)
    count = compact_text(text[:1], starts, 0, 1, keep, False, np.uint64(0), text, 0)
    bounds, places = index_text(text, 0, count, 1)
    units, _ = distance_units("none", 1)
    sums, met = row_memory(1)
    count_rows(text[:1], bounds, places, 0, 1, True, 1, 1, units, sums, met, row_bounds, columns, values)
    parts = np.zeros((1, 2), np.int64)
    sum_rows(parts, columns, values, sums, met, row_bounds, columns.copy(), values.copy())
    tile_sizes, weights = np.zeros(1, np.int64), np.zeros(2, np.float32)
    arrange_tiles(row_bounds, columns, values, 256, 1, 1, tile_sizes, np.zeros(2, np.uint32), weights)
