"""The classifier's kernel against a twin in float64, written from its equations."""

from itertools import pairwise

import numpy as np
import pytest

from wenmai.kernels.classify import (
    HIERARCHICAL,
    NEGATIVE,
    ONE_VERSUS_ALL,
    SOFTMAX,
    Choices,
    Examples,
    Rows,
    Scratch,
    Tables,
    most_features,
    noise_table,
    train_block,
    word_hashes,
)
from wenmai.kernels.huffman import huffman_paths
from wenmai.kernels.subwords import kept_table
from wenmai.kernels.window import aligned_rows
from wenmai.text.utf8 import encode

WORDS, BUCKETS, LABELS, RATE = 6, 11, 5, 0.3
TEXTS = [[0, 1, 2, 2], [3], [4, 5, 0], [1, 1], [2, 5, 3, 0, 4]]
NAMES = [[0], [1, 3], [2], [4], [0, 4]]
COUNTS = np.array([9, 7, 4, 2, 1])


def frozen(values, kind):
    array = np.array(values, kind)
    array.flags.writeable = False
    return array


def bounds(lists):
    return frozen(np.concatenate([[0], np.cumsum([len(one) for one in lists])]), np.int64)


def flat(lists):
    return frozen([item for one in lists for item in one], np.int32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class Case:
    """A model small enough to be computed twice."""

    def __init__(self, loss, *, width=20, word_ngrams=1, labels=NAMES, old_rate=1.0, kept=None, negative=2, seed=1):
        draw = np.random.default_rng(seed)
        self.width = width
        rows = WORDS + (BUCKETS if kept is None else len(kept))
        self.input, self.output = aligned_rows(rows, width + 4), aligned_rows(LABELS, width + 12)
        self.input[:, :width] = draw.normal(size=(rows, width)) * 0.5
        self.output[:, :width] = draw.normal(size=(LABELS, width)) * 0.5
        self.hashes = word_hashes(*encode(["the", "王", "cat", "é", "sat", "</s>"]))
        # word 1 has two n-grams besides its own row, one of them twice
        features = [[0], [1, 7, 9, 7], [2], [3], [4, 8], [5]]
        start, node, sign = huffman_paths(COUNTS)
        self.paths = [list(zip(node[a:b], -sign[a:b], strict=True)) for a, b in pairwise(start)]
        self.features, self.texts, self.labels = features, TEXTS, labels
        self.kept = None if kept is None else dict(kept)
        self.examples = Examples(flat(TEXTS), bounds(TEXTS), flat(labels), bounds(labels))
        self.choices = Choices(
            loss=loss, negative=negative, labels=LABELS, word_ngrams=word_ngrams, words=WORDS, buckets=BUCKETS
        )
        self.tables = Tables(
            np.array(bounds(features)),
            np.array(flat(features)),
            self.hashes,
            *noise_table(np.sqrt(COUNTS.astype(np.float64))),
            start,
            node,
            -sign,
            kept_table(None if kept is None else np.array(kept, np.int32)),
        )
        self.old = old_rate
        self.rows = Rows(self.input, self.output, 2 if old_rate != 1 else 0, WORDS if old_rate != 1 else 1 << 62,
                         np.float32(old_rate))  # fmt: skip
        self.scratch = Scratch.allocate(self.choices, features=40, padded=width + 12, longest_path=LABELS)

    def run(self, order, seed=5):
        tally = np.zeros(3)
        order = np.array(order, np.int64)
        train_block(self.examples, order, self.rows, self.tables, self.choices, self.scratch, np.float32(RATE),
                    np.uint64(seed), tally)  # fmt: skip
        return tally

    def rows_of(self, text):
        found = [row for word in text for row in self.features[word]]
        for first in range(len(text)):
            state = int(self.hashes[text[first]])
            for word in text[first + 1 : first + self.choices.word_ngrams]:
                state = (state * 116049371 + int(self.hashes[word])) % 2**64
                bucket = state % BUCKETS
                if self.kept is None:
                    found.append(WORDS + bucket)
                elif bucket in self.kept:
                    found.append(WORDS + self.kept[bucket])
        return found

    def twin(self, order, labels):
        """Trains on float64 copies with the labels given; returns them and the loss."""
        a, o = (array[:, : self.width].astype(np.float64) for array in (self.input, self.output))
        total = 0.0
        for e, label in zip(order, labels, strict=True):
            rows = self.rows_of(self.texts[e])
            h = a[rows].mean(axis=0)
            if self.choices.loss == SOFTMAX:
                p = np.exp(o @ h) / np.exp(o @ h).sum()
                total -= np.log(p[label])
                errors, outputs = (np.arange(LABELS) == label) - p, range(LABELS)
            else:
                if self.choices.loss == HIERARCHICAL:
                    outputs, signs = map(list, zip(*self.paths[label], strict=True))
                else:
                    outputs = list(range(LABELS))
                    signs = [1.0 if one in self.labels[e] else -1.0 for one in outputs]
                signs = np.array(signs)
                margins = signs * (o[outputs] @ h)
                total -= np.log(sigmoid(margins)).sum()
                errors = signs * sigmoid(-margins)
            step = RATE * errors @ o[outputs]
            o[outputs] += RATE * np.outer(errors, h)
            for row in rows:
                a[row] += (
                    step / len(rows) * (self.old if row < self.rows.old_words or row >= self.rows.old_bucket else 1)
                )
        return a, o, total


@pytest.mark.parametrize("loss", [SOFTMAX, HIERARCHICAL, ONE_VERSUS_ALL])
@pytest.mark.parametrize(
    "settings",
    [{}, {"width": 116, "word_ngrams": 3}, {"width": 4, "word_ngrams": 2, "old_rate": 0.25},
     {"word_ngrams": 4, "kept": [[b, i] for i, b in enumerate((1, 3, 4, 10, 7))]}],
)  # fmt: skip
def test_a_block_is_what_the_equations_say(loss, settings):
    single = [[one[0]] for one in NAMES]
    case = Case(loss, labels=NAMES if loss == ONE_VERSUS_ALL else single, **settings)
    order = [3, 0, 2, 4, 1, 0]
    a, o, total = case.twin(order, [single[e][0] for e in order])
    tally = case.run(order)
    assert tally.tolist() == pytest.approx([total, 6, sum(len(TEXTS[e]) for e in order)], rel=1e-5)
    assert case.input[:, : case.width] == pytest.approx(a, abs=2e-6)
    assert case.output[:, : case.width] == pytest.approx(o, abs=2e-6)
    assert not case.input[:, case.width :].any()
    assert not case.output[:, case.width :].any()


def test_every_label_of_a_text_has_its_turn():
    case = Case(SOFTMAX)
    drawn = []
    for seed in range(40):
        case.input[:], case.output[:] = 0.1, 0.0
        case.run([4], seed)
        drawn.append(int(case.output[:, 0].argmax()))
    assert set(drawn) == {0, 4}
    assert 10 <= drawn.count(0) <= 30


def test_negative_sampling_pushes_others_away_as_often_as_they_are_drawn():
    case = Case(NEGATIVE, labels=[[2]] * 5, negative=3)
    pushed = np.zeros(LABELS)
    for seed in range(3000):
        case.input[:, : case.width], case.output[:] = 0.5, 0.0
        tally = case.run([0], seed)
        assert tally[0] == pytest.approx(4 * np.log(2), rel=1e-6)  # the label and three draws, none of them the label
        change = case.output[:, 0] / (0.25 * RATE)
        assert change[2] == pytest.approx(1)
        assert change.sum() == pytest.approx(1 - 3)
        pushed -= np.where(np.arange(LABELS) == 2, 0, change)
    weights = np.sqrt(COUNTS) * (np.arange(LABELS) != 2)
    assert pushed / pushed.sum() == pytest.approx(weights / weights.sum(), abs=0.02)


def test_examples_without_a_known_label_are_passed_over():
    case = Case(SOFTMAX, labels=[[-1], [-1, 2], [2], [3], [4]])
    before = case.input.copy()
    assert case.run([0]).tolist() == [0, 0, 4]
    assert np.array_equal(case.input, before)
    assert case.run([1])[1] == 1


def test_a_loss_that_is_no_number_is_told():
    case = Case(SOFTMAX)
    case.input[0, 0] = np.nan
    assert np.isnan(case.run([0])[0])


def test_hashes_are_those_of_the_format():
    found = word_hashes(*encode(["a", "where", "é", "的"]))
    assert [int(one) % 2**32 for one in found] == [3826002220, 90969176, 1023043777, 699393968]
    assert found.min() < 0 <= found.max()


def test_the_most_features_are_counted():
    case = Case(SOFTMAX, word_ngrams=2)
    count = most_features(case.examples.tokens, case.examples.starts, case.tables.start, 2)
    assert count >= max(len(case.rows_of(text)) for text in TEXTS)
