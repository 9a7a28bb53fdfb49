"""Hashes, character n-grams and n-grams of words, against the published values and plain Python."""

import random

import numpy as np
import pytest

from wenmai.kernels.subwords import (
    Features,
    fnv1a,
    kept_table,
    subword_table,
    text_features,
    word_index,
    word_subwords,
)
from wenmai.text.utf8 import encode

BUCKETS = 2_000_000


def features(words, labels=(), *, lengths=(0, 0), word_ngrams=1, buckets=BUCKETS, kept=None):
    text, bounds = encode([*words, *labels])
    table = kept_table(None if kept is None else np.array(kept, np.int32).reshape(-1, 2))
    own = encode(words)
    choices = {"min_ngram": lengths[0], "max_ngram": lengths[1], "buckets": buckets, "end_of_line": b"</s>"}
    start, rows = subword_table(*own, **choices, kept=table)
    prefix = np.frombuffer(b"__label__", np.uint8)
    slots = word_index(text, bounds)
    return Features(text, bounds, slots, len(words), start, rows, *lengths, word_ngrams, buckets, table, prefix)


def hashed(text):
    state = 2166136261
    for byte in text:
        state = ((state ^ (byte if byte < 128 else byte | 0xFFFFFF00)) * 16777619) & 0xFFFFFFFF
    return state


def ngrams(word, shortest, longest):
    """The n-grams of a word of whole characters, in order."""
    found = []
    bracketed = f"<{word}>"
    for begin in range(len(bracketed)):
        for length in range(max(shortest, 1), longest + 1):
            end = begin + length
            if end <= len(bracketed) and not (length == 1 and (begin == 0 or end == len(bracketed))):
                found.append(bracketed[begin:end])
    return found


def rows_of_text(text, words, labels, *, lengths, word_ngrams, buckets, kept=None):
    """What a classifier sees of a text, as the format's description has it."""
    number = {word: place for place, word in enumerate(words)}

    def row(value):
        bucket = value % buckets
        if kept is None:
            return [len(words) + bucket]
        return [len(words) + kept[bucket]] if bucket in kept else []

    found, tokens = [], []
    for separator in "\n\r\t\v\f\0":
        text = text.replace(separator, " ")
    for token in [*filter(None, text.split(" ")), "</s>"]:
        if token in labels or (token not in number and token.startswith("__label__")):
            continue
        if token in number:
            found.append(number[token])
        if token != "</s>":
            for gram in ngrams(token, *lengths):
                found += row(hashed(gram.encode()))
        tokens.append(hashed(token.encode()))
        if token == "</s>":
            break
    signed = [token - (1 << 32) if token >> 31 else token for token in tokens]
    for first in range(len(signed)):
        state = signed[first]
        for token in signed[first + 1 : first + word_ngrams]:
            state = (state * 116049371 + token) % (1 << 64)
            found += row(state)
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 2166136261),
        ("a", 3826002220),
        ("<wh", 1048167652),
        ("where", 90969176),
        ("</s>", 3617362777),
        ("__label__a", 601031976),
        ("é", 1023043777),  # 513665217 if bytes were taken as unsigned
        ("的", 699393968),  # 4240892592
    ],
)
def test_hashes(text, expected):
    assert fnv1a(text.encode()) == expected == hashed(text.encode())


@pytest.mark.parametrize(
    ("word", "lengths", "expected"),
    [
        ("where", (3, 6), "<wh <whe <wher <where whe wher where where> her here here> ere ere> re>"),
        ("的", (3, 6), "<的>"),
        ("ab", (1, 2), "<a a ab b b>"),
        ("aaaa", (3, 3), "<aa aaa aaa aa>"),
    ],
)
def test_ngrams_of_a_word(word, lengths, expected):
    found = features([word], lengths=lengths)
    rows, spans = word_subwords(word.encode(), found)
    bracketed = f"<{word}>".encode()
    assert [bracketed[begin:end].decode() for begin, end in spans.tolist()] == expected.split()
    assert rows.tolist() == [1 + hashed(gram.encode()) % BUCKETS for gram in expected.split()]
    assert found.rows.tolist() == [0, *rows.tolist()]
    assert ngrams(word, *lengths) == expected.split()


def test_bytes_that_are_not_utf8_begin_characters_of_their_own():
    found = features(["a"], lengths=(1, 1))
    assert word_subwords(b"\xff\x80a", found)[1].tolist() == [
        [1, 3],
        [3, 4],
    ]  # a continuation byte stays with the first


def test_bigrams_of_words():
    rows = text_features(*encode(["hello world"]), features(["x"], word_ngrams=2))[1]
    assert (rows - 1).tolist() == [1485020, 1298458]


def test_the_end_of_a_line_has_no_ngrams():
    found = features(["</s>", "a"], lengths=(1, 3))
    assert found.start.tolist() == [0, 1, 6]
    assert text_features(*encode([""]), found)[1].tolist() == [0]


def texts():
    draw = random.Random(5)
    pieces = ["one", "two", "three", "été", "中文", "unseen", "</s>", "__label__a", "__label__other", "mark"]
    for _ in range(60):
        words = draw.choices(pieces, [9, 9, 9, 5, 5, 5, 1, 1, 1, 1], k=draw.randrange(8))
        yield draw.choice([" ", "  ", "\t", "\n", "\0 "]).join(words) + draw.choice(["", " "])


@pytest.mark.parametrize("lengths", [(0, 0), (2, 4)])
@pytest.mark.parametrize("word_ngrams", [1, 3])
@pytest.mark.parametrize("pruned", [False, True])
def test_texts_of_all_kinds(lengths, word_ngrams, pruned):
    words, labels, buckets = ["one", "</s>", "été", "two"], ["__label__a", "mark"], 97
    kept = {bucket: place for place, bucket in enumerate(range(5, 97, 2))} if pruned else None
    choices = {"lengths": lengths, "word_ngrams": word_ngrams, "buckets": buckets}
    made = features(words, labels, kept=None if kept is None else list(kept.items()), **choices)
    batch = list(texts())
    start, rows = text_features(*encode(batch), made)
    for place, text in enumerate(batch):
        expected = rows_of_text(text, words, labels, kept=kept, **choices)
        assert rows[start[place] : start[place + 1]].tolist() == expected, repr(text)


def test_many_ngrams_of_short_words_leave_room_for_the_next_text():
    found = features(["a", "b"], word_ngrams=5)
    batch = ["a b " * 100, "b a " * 140, "a"]
    start, rows = text_features(*encode(batch), found)
    for place, text in enumerate(batch):
        assert rows[start[place] : start[place + 1]].tolist() == text_features(*encode([text]), found)[1].tolist()


def test_a_model_with_all_buckets_pruned_has_no_ngrams():
    found = features(["one"], lengths=(2, 3), word_ngrams=2, kept=[])
    assert found.rows.tolist() == [0]
    assert text_features(*encode(["one zzz"]), found)[1].tolist() == [0]


def test_no_texts_and_empty_texts():
    found = features(["one"])
    assert text_features(*encode([]), found)[0].tolist() == [0]
    start, rows = text_features(*encode(["", "one", ""]), found)
    assert start.tolist() == [0, 0, 1, 1]
    assert rows.tolist() == [0]


def test_words_keep_their_bytes():
    text, bounds = encode(["a", b"\xff\xe4".decode("utf-8", "surrogateescape"), "\ud800"])
    assert text.tobytes() == b"a\xff\xe4\xed\xa0\x80"
    assert bounds.tolist() == [0, 1, 3, 6]


def test_every_word_of_a_large_vocabulary_is_found():
    words = [f"w{place}" for place in range(5_000)]
    rows = text_features(*encode([" ".join(words)]), features(words))[1]
    assert rows.tolist() == list(range(5_000))
