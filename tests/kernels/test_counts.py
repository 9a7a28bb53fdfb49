"""Counting is compared with a brute-force counter that follows the definition, in whole numbers."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wenmai.kernels.counts import (
    arrange_tiles,
    compact_text,
    count_rows,
    distance_units,
    index_text,
    row_memory,
    sum_rows,
)

WORDS = 150  # more than two words of the bitmap
SENTENCES = st.lists(st.lists(st.integers(-1, WORDS + 5), max_size=30), max_size=6)


def compacted(sentences, *, keep=(), clean=False, seed=0):
    tokens = np.array([token for sentence in sentences for token in sentence], np.int32)
    starts = np.cumsum([0, *map(len, sentences)])[:-1]
    text = np.empty(len(tokens) + len(starts) + 1, np.int32)
    share = np.array(keep, np.float32)
    count = compact_text(tokens, starts, 0, WORDS, share, clean, np.uint64(seed), text, 0)
    return text[:count]


def counted(text, *, units, before, after, lower):
    """All rows of the matrix of a text, as ``{(row, column): units}``."""
    bounds, places = index_text(text, 0, len(text), WORDS)
    sums, met = row_memory(WORDS)
    row_bounds = np.empty(WORDS + 1, np.int64)
    room = max(1, len(text) * (before + after))
    columns, values = np.empty(room, np.int32), np.empty(room, np.int64)
    count_rows(
        text, bounds, places, 0, WORDS, lower, before, after, units, sums, met, row_bounds, columns, values
    )  # fmt: skip
    assert not sums[:WORDS].any(), "the memory is not left clean"
    assert not met.any()
    found = {}
    for row in range(WORDS):
        part = columns[row_bounds[row] : row_bounds[row + 1]].tolist()
        assert part == sorted(set(part))
        found |= {(row, column): int(values[row_bounds[row] + k]) for k, column in enumerate(part)}
    return found, (row_bounds, columns, values)


def by_definition(sentences, *, units, before, after):
    found = Counter()
    for sentence in sentences:
        words = [token for token in sentence if 0 <= token < WORDS]  # those outside are taken out first
        for place, word in enumerate(words):
            for distance in range(1, len(units)):
                if distance <= before and place >= distance:
                    found[word, words[place - distance]] += int(units[distance])
                if distance <= after and place + distance < len(words):
                    found[word, words[place + distance]] += int(units[distance])
    return found


@settings(max_examples=150, deadline=None)
@given(SENTENCES, st.integers(1, 6), st.sampled_from(["both", "left", "right"]), st.sampled_from(["harmonic", "none"]))
def test_rows_are_those_of_the_definition(sentences, window, sides, weighting):
    units, _ = distance_units(weighting, window)
    before, after = window * (sides != "right"), window * (sides != "left")
    expected = by_definition(sentences, units=units, before=before, after=after)
    text = compacted(sentences)
    found, _ = counted(text, units=units, before=before, after=after, lower=False)
    assert found == dict(expected)
    if sides == "both":
        lower, _ = counted(text, units=units, before=before, after=after, lower=True)
        assert lower == {(row, column): value for (row, column), value in expected.items() if column <= row}


@settings(max_examples=50, deadline=None)
@given(SENTENCES, SENTENCES)
def test_rows_of_two_texts_add_up(one, two):
    units, _ = distance_units("linear", 3)
    parts = [counted(compacted(sentences), units=units, before=3, after=3, lower=False)[1] for sentences in (one, two)]
    ends = np.cumsum([0, *(bounds[-1] for bounds, _, _ in parts)])
    columns = np.concatenate([found[: bounds[-1]] for bounds, found, _ in parts])
    values = np.concatenate([found[: bounds[-1]] for bounds, _, found in parts])
    starts = np.stack([bounds + end for (bounds, _, _), end in zip(parts, ends, strict=False)])
    sums, met = row_memory(WORDS)
    bounds = np.empty(WORDS + 1, np.int64)
    room = max(1, len(columns))
    summed_columns, summed = np.empty(room, np.int32), np.empty(room, np.int64)
    sum_rows(starts, columns, values, sums, met, bounds, summed_columns, summed)
    expected = by_definition([*one, *two], units=units, before=3, after=3)
    rows = np.repeat(np.arange(WORDS), np.diff(bounds))
    found = zip(rows.tolist(), summed_columns[: bounds[-1]].tolist(), summed[: bounds[-1]].tolist(), strict=True)
    assert list(found) == sorted((row, column, value) for (row, column), value in expected.items())


@pytest.mark.parametrize("window", [1, 5, 10, 22])
def test_harmonic_weights_are_exact_up_to_a_window_of_22(window):
    units, scale = distance_units("harmonic", window)
    assert all(units[distance] * distance == scale for distance in range(1, window + 1))


@pytest.mark.parametrize("window", [23, 100, 1000])
def test_harmonic_weights_of_wide_windows_are_nearly_exact(window):
    units, scale = distance_units("harmonic", window)
    distances = np.arange(1, window + 1)
    np.testing.assert_allclose(units[1:] / scale, 1 / distances, rtol=2e-7)


def test_linear_weights_are_the_mean_of_dynamic_windows():
    units, scale = distance_units("linear", 5)
    widths = np.arange(1, 6)
    assert [units[d] / scale for d in range(1, 6)] == [np.mean(widths >= d) for d in range(1, 6)]
    assert distance_units("none", 3)[0].tolist() == [0, 1, 1, 1]


def test_a_place_is_kept_or_not_whatever_part_of_the_text_it_is_read_in():
    generator = np.random.default_rng(1)
    tokens = generator.integers(0, WORDS, 1000).astype(np.int32)
    keep = np.full(WORDS, 0.5, np.float32)
    whole = np.empty(1100, np.int32)
    arguments = (WORDS, keep, False, np.uint64(3))
    count = compact_text(tokens, np.zeros(0, np.int64), 0, *arguments, whole, 0)
    assert 400 < count < 600
    parts, done = np.empty(1100, np.int32), 0
    for first in range(0, 1000, 130):
        done = compact_text(tokens[first : first + 130], np.zeros(0, np.int64), first, *arguments, parts, done)
    assert parts[:done].tolist() == whole[:count].tolist()


def test_clean_sub_sampling_keeps_distances():
    keep = np.array([1, 0, 1] + [1] * (WORDS - 3), np.float32)
    assert compacted([[0, 1, 2]], keep=keep).tolist() == [0, 2]
    text = compacted([[0, 1, 2], [2]], keep=keep, clean=True)
    assert text.tolist() == [0, WORDS + 1, 2, WORDS, 2]
    units, scale = distance_units("harmonic", 2)
    found, _ = counted(text, units=units, before=2, after=2, lower=False)
    assert found == {(0, 2): scale // 2, (2, 0): scale // 2}


def test_tiles_hold_every_entry_in_order():
    generator = np.random.default_rng(2)
    dense = generator.integers(0, 5, (256, 700)) * (generator.random((256, 700)) < 0.1)
    rows, columns = np.nonzero(dense)
    bounds = np.searchsorted(rows, np.arange(257))
    sizes = np.empty(3, np.int64)
    places, weights = np.empty(len(rows), np.uint32), np.empty(len(rows), np.float32)
    arrange_tiles(bounds, columns.astype(np.int32), dense[rows, columns], 256, 3, 2, sizes, places, weights)
    start = 0
    for tile, size in enumerate(sizes.tolist()):
        part = dense[:, 256 * tile : 256 * (tile + 1)]
        row, column = np.nonzero(part)
        assert places[start : start + size].tolist() == (row << 16 | column).tolist()
        assert weights[start : start + size].tolist() == (part[row, column] / 2).tolist()
        start += size
