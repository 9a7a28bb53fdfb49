"""Counting n-grams by sorting once, against counting them one by one."""

from collections import Counter

import numpy as np
import pytest

from wenmai.data.ngram_counting import Rows, _sorted_rows, count_in_parts, count_rows
from wenmai.kernels.ngram_lookup import number_text, word_slots
from wenmai.kernels.ngrams import hashed_words
from wenmai.models.ngram import SPECIALS, Words


class Corpus:
    """The parts of an encoded corpus that counting needs."""

    def __init__(self, sentences):
        self.tokens = np.array([word for sentence in sentences for word in sentence], np.int32)
        self.starts = np.cumsum([0, *map(len, sentences)])

    def __len__(self):
        return len(self.tokens)

    def read(self, start, end):
        return self.tokens[start:end]


def random_sentences(seed, count, types, longest):
    draw = np.random.default_rng(seed)
    return [np.minimum(draw.zipf(1.5, draw.integers(1, longest + 1)) - 1, types - 1).tolist() for _ in range(count)]


def naive_rows(sentences, order):
    """Each place's words read backwards to ``<s>``, at most ``order`` of them; and how often that occurs."""
    found = Counter()
    for sentence in sentences:
        words = [1, *(word + 3 for word in sentence), 2]
        for end in range(len(words)):
            found[tuple(words[max(0, end - order + 1) : end + 1][::-1])] += 1
    return sorted(found.items())


def count(sentences, order, *, types) -> Rows:
    return count_rows(Corpus(sentences), np.arange(3, types + 3, dtype=np.int32), types + 3, order)


def count_parts(sentences, order, tmp_path, *, types):
    """The rows and their counts, from parts, and how many parts there were."""
    table = np.arange(3, types + 3, dtype=np.int32)
    runs = count_in_parts(Corpus(sentences), table, types + 3, order, memory_bytes=1, path=tmp_path / "runs")
    found = Counter()
    merged = np.concatenate([block.copy() for block in runs.merged(1)]).tolist()
    assert merged == sorted(merged, key=lambda row: row[:-1])
    for row in merged:
        found[tuple(word - 1 for word in row[:-1] if word)] += row[-1]
    assert not list(tmp_path.iterdir())
    return list(found.items()), runs.runs


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_rows_are_those_that_counting_one_by_one_finds(order):
    sentences = random_sentences(order, 300, 12, 9)
    expected = naive_rows(sentences, order)
    rows = count(sentences, order, types=12)
    assert rows.times.tolist() == [times for _, times in expected]
    assert rows.length.tolist() == [len(words) for words, _ in expected]
    assert rows.last_words.tolist() == [words[0] for words, _ in expected]
    for place in range(1, len(expected)):
        one, other = expected[place - 1][0], expected[place][0]
        same = next((step for step, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
        assert rows.shared[place] == (min(len(one), len(other)) if same is None else same)
    for place, (words, _) in enumerate(expected):
        if len(words) > 1 and order > 1:
            before = expected[rows.before[place]][0]
            assert before[: len(words) - 1] == words[1:]


@pytest.mark.parametrize("order", [1, 2, 5])
def test_counting_in_parts_changes_nothing(order, tmp_path):
    sentences = random_sentences(7, 20_000, 40, 10)
    rows, parts = count_parts(sentences, order, tmp_path, types=40)
    assert parts > 2
    assert rows == naive_rows(sentences, order)


@pytest.mark.parametrize("order", [1, 3])
def test_a_sentence_longer_than_a_part_is_cut(order, tmp_path):
    draw = np.random.default_rng(1)
    sentences = [[4, 4], draw.integers(0, 5, 150_000).tolist(), [1, 2], [3]]
    rows, parts = count_parts(sentences, order, tmp_path, types=5)
    assert parts == 4
    assert rows == naive_rows(sentences, order)


@pytest.mark.parametrize("rest", range(-4, 3))
def test_a_sentence_is_cut_just_before_its_end(rest, tmp_path):
    sentences = [np.random.default_rng(2).integers(0, 3, (1 << 16) + rest).tolist(), [1]]
    assert count_parts(sentences, 3, tmp_path, types=3)[0] == naive_rows(sentences, 3)


def test_places_are_sorted_by_what_stands_before_them():
    text = np.array([1, 3, 4, 3, 2, 1, 4, 3, 2], np.int32)
    places, _, length, times, row_of_place = _sorted_rows(text, 5, 3)
    found = [tuple(text[max(0, place - 2) : place + 1][::-1].tolist()) for place in places.tolist()]
    assert [words[:size] for words, size in zip(found, length.tolist(), strict=True)] == [
        words for words, _ in naive_rows([[0, 1, 0], [1, 0]], 3)
    ]
    assert times.sum() == text.size
    assert row_of_place.max() == len(places) - 1


def test_hashed_words_are_distinct():
    assert np.unique(hashed_words(1 << 16)).size == 1 << 16


def test_words_are_split_as_python_splits_them():
    names = [*SPECIALS, "a", "bé", "中", "longer"]
    words = Words.of(names)
    spaces = [chr(code) for code in range(0x3100) if chr(code).isspace() and chr(code) != "\n"]
    text = (
        "".join(f"{space}{name}" for space in spaces for name in ["a", "bé", "中", "longer", "x", "€\u2007"]) + "\n\n"
    )
    found, spelled = words.number(text)
    numbers = {name: place for place, name in enumerate(names)}
    expected = [numbers.get(token, 0) for token in text.split()]
    assert found.tolist() == [*expected, 2, 2]
    sizes = [0 if token in numbers else len(token.encode()) + 1 for token in text.split()]
    assert spelled.tolist() == [*sizes, 0, 0]


def test_marks_in_a_text_are_unknown_words():
    words = Words.of([*SPECIALS, "a"])
    text = "<s> a </s> <unk>\n"
    found, spelled = words.number(text)
    assert found.tolist() == [0, 3, 0, 0, 2]
    assert spelled.tolist() == [4, 0, 5, 0, 0]
    assert words.number(text, unknown_is_word=False)[1].tolist() == [4, 0, 5, 6, 0]


def test_a_table_that_points_outside_finds_nothing():
    words = Words.of([*SPECIALS, "a"])
    slots = np.full(16, 1 << 20, np.uint32)
    numbers, spelled = np.empty(4, np.int32), np.empty(4, np.int32)
    text = np.frombuffer(b"a b\n", np.uint8)
    assert number_text(words.text, words.bounds, slots, text, True, numbers, spelled) == 3
    assert spelled.tolist()[:2] == [2, 2]
    word_slots(words.text, words.bounds, again := np.zeros(16, np.uint32))
    assert np.array_equal(again, words.slots)
