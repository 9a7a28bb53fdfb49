"""A whole training of the classifier against its equations, written out naively from the text on (Joulin et al. 2017).

The twin knows nothing of the kernels: it cuts lines into words, hashes them, makes n-grams, and descends the loss of
one text after the other in float64. Only the first rows are taken from the model.
"""

from collections import Counter

import numpy as np
import pytest

from wenmai.config.recipe import Recipe
from wenmai.core.registry import find_system
from wenmai.data.labelled import read_labelled
from wenmai.models.fasttext import FastText
from wenmai.tasks.task import Session

TASK = find_system("fasttext-supervised").load()

LINES = [
    "__label__sport the ball flew over the goal",
    "__label__food a soup of leek and the 王 spice",
    "the goal keeper fell __label__sport",
    "__label__food the soup was hot",
    "__label__work a meeting on the goal",
    "__label__food spice spice",
]


class NoCheckpoints:
    """Nothing is saved."""

    def save(self, *_):
        """Saves nothing."""


def fnv(word):
    state = 2166136261
    for byte in word.encode():
        state = ((state ^ (byte | (0xFFFFFF00 if byte > 127 else 0))) * 16777619) % 2**32
    return state


def signed(state):
    return state - 2**32 if state >= 2**31 else state


def characters(word, shortest, longest, buckets):
    if word == "</s>":
        return []
    word = f"<{word}>"
    spans = [(a, b) for a in range(len(word)) for b in range(a + 1, len(word) + 1) if shortest <= b - a <= longest]
    return [fnv(word[a:b]) % buckets for a, b in spans if b - a > 1 or 0 < a < len(word) - 1]


def learnt(lines, settings, epochs, rate):
    """The rows and outputs after training, and the mean loss of the last epoch."""
    texts = [[word for word in line.split() if not word.startswith("__label__")] + ["</s>"] for line in lines]
    labels = [next(word[9:] for word in line.split() if word.startswith("__label__")) for line in lines]
    words = [word for word, count in counted(texts) if count >= settings["min_count"]]
    names = [name for name, _ in Counter(labels).most_common()]
    buckets = settings["buckets"]
    first = TASK.begin(recipe(settings, epochs, rate), numbered(lines), None).model
    a, o = first.dense("input").astype(np.float64), first.dense("output").astype(np.float64)
    assert list(first.vocab.tokens) == words
    assert list(first.labels.tokens) == names
    total = 0.0
    for epoch in range(epochs):
        total = 0.0
        for number, (text, label) in enumerate(zip(texts, labels, strict=True)):
            alpha = rate * (1 - (epoch + number / len(texts)) / epochs)
            rows = []
            for word in text:
                rows += [words.index(word)] if word in words else []
                rows += [
                    len(words) + b for b in characters(word, settings["min_ngram"], settings["max_ngram"], buckets)
                ]
            for place, word in enumerate(text):
                state = signed(fnv(word)) % 2**64
                for other in text[place + 1 : place + settings["word_ngrams"]]:
                    state = (state * 116049371 + signed(fnv(other))) % 2**64
                    rows.append(len(words) + state % buckets)
            h = a[rows].mean(axis=0)
            p = np.exp(o @ h) / np.exp(o @ h).sum()
            y = names.index(label)
            total -= np.log(p[y])
            errors = alpha * ((np.arange(len(names)) == y) - p)
            step = errors @ o
            o += np.outer(errors, h)
            for row in rows:
                a[row] += step / len(rows)
    return a, o, total / len(texts)


def counted(texts):
    counts = Counter()
    counts["</s>"] = 0  # comes first among equals
    for text in texts:
        counts.update(text)
    return sorted(counts.items(), key=lambda item: -item[1])


def recipe(settings, epochs, rate):
    chosen = {**settings, "epochs": epochs, "learning_rate": rate, "threads": 1, "shuffle": False}
    return Recipe.build("fasttext-supervised", TASK.sections, chosen)


def numbered(lines):
    items = [
        (" ".join(word for word in line.split() if not word.startswith("__label__")),
         next(word[9:] for word in line.split() if word.startswith("__label__")))
        for line in lines
    ]  # fmt: skip
    built = recipe({}, 1, 0.1)
    return TASK.source.read(built, read_labelled(items), lambda done, total: None, None)


@pytest.mark.parametrize(
    "settings",
    [
        {"word_ngrams": 1, "min_ngram": 0, "max_ngram": 0, "min_count": 1},
        {"word_ngrams": 3, "min_ngram": 0, "max_ngram": 0, "min_count": 2},
        {"word_ngrams": 2, "min_ngram": 1, "max_ngram": 3, "min_count": 2},
    ],
    ids=["words", "word n-grams", "n-grams of both kinds, rare words"],
)
def test_a_training_is_what_the_paper_says(settings):
    settings = settings | {"buckets": 50, "vector_size": 7}
    a, o, loss = learnt(LINES, settings, epochs=3, rate=0.5)
    job = TASK.begin(recipe(settings, 3, 0.5), numbered(LINES), None)
    job.train(Session(NoCheckpoints(), lambda record: None))
    assert job.summary()["loss"] == pytest.approx(loss, rel=1e-5)
    assert job.model.dense("input") == pytest.approx(a, abs=1e-6)
    assert job.model.dense("output") == pytest.approx(o, abs=1e-6)


@pytest.mark.parity
@pytest.mark.parametrize("loss", ["softmax", "hs", "ns", "ova"])
def test_is_as_accurate_as_the_reference_implementation(loss, topics, tmp_path):
    reference = pytest.importorskip("fasttext")
    lines = [f"__label__{line[:5]} {line}" for line in topics.read_text().splitlines(keepends=True)]
    noisy = [line if place % 5 else line.replace("__label__", "__label__x") for place, line in enumerate(lines)]
    train, test = tmp_path / "train.txt", tmp_path / "test.txt"
    train.write_text("".join(noisy[:2000]))
    test.write_text("".join(noisy[2000:]))
    # 10 threads: with fewer, the reference implementation leaves memory that it trains on as it found it
    theirs = reference.train_supervised(
        str(train), loss=loss, dim=16, epoch=5, lr=0.2, wordNgrams=2, bucket=1000, thread=10, verbose=0
    )
    settings = {"loss": loss, "vector_size": 16, "word_ngrams": 2, "buckets": 1000, "threads": 1, "learning_rate": 0.2}
    built = Recipe.build("fasttext-supervised", TASK.sections, settings)
    data = TASK.source.read(built, read_labelled(train), lambda done, total: None, None)
    job = TASK.begin(built, data, None)
    job.train(Session(NoCheckpoints(), lambda record: None))
    gold = list(read_labelled(test))
    found = job.classifier().predict([example.text for example in gold])
    right = np.mean([best[0][0] in example.labels for best, example in zip(found, gold, strict=True)])
    assert isinstance(job.model, FastText)
    assert right >= theirs.test(str(test))[1] - 0.02
