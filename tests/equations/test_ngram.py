"""The equations of n-gram smoothing, against dictionaries; and the worked example that equals lmplz's output."""

import math
from collections import Counter, defaultdict

import numpy as np
import pytest

import wenmai
from wenmai.models.ngram import discounts_of
from wenmai.runs.train import Callback

EXAMPLE = ["d b", "d", "c a", "d b", "a d c d", "c"]


def train(texts, tmp_path, **settings):
    callback = Notes()
    run = wenmai.train(
        "ngram", texts, out=tmp_path / f"run{len(list(tmp_path.iterdir()))}", callback=callback, **settings
    )
    return run.model, callback.notes


class Notes(Callback):
    def __init__(self):
        self.notes = []

    def note(self, message):
        self.notes.append(message)


def probability(model, word, context, *, fresh=False):
    """P(word | context); ``fresh``: the context begins a sentence."""
    return distribution(model, context, fresh=fresh)[number_of(model, word)]


def number_of(model, word):
    found = model.model.vocab.get(word)
    return 0 if found is None else found


def distribution(model, context, *, fresh=False):
    ngrams = model.model
    state = ngrams.begin() if fresh else np.array([0xFFFFFFFF, 0, 0], np.int64)
    words = np.array([number_of(model, word) for word in context], np.int32)
    ngrams.advance(state, words)
    return np.exp(ngrams.distribution(state).astype(np.float64))


# --- the worked example -------------------------------------------------------------------------------------------


def test_the_worked_example(tmp_path):
    model, notes = train(EXAMPLE, tmp_path, order=2)
    assert not notes
    assert np.allclose(model.model.facts["discounts"], [[0.2, 1.7, 2.2], [0.466667, 1.65, 3]], atol=1e-6)
    unigrams = {"<unk>": 0.111111, "</s>": 0.261111, "d": 0.177778, "b": 0.177778, "c": 0.136111, "a": 0.136111}
    for word, expected in unigrams.items():
        assert probability(model, word, []) == pytest.approx(expected, abs=1e-6)
    bigrams = {
        ("d", "b"): 0.203926,
        ("d", "c"): 0.209204,
        ("d", "</s>"): 0.266704,
        ("b", "</s>"): 0.390417,
        ("c", "a"): 0.241296,
        ("c", "d"): 0.260741,
        ("c", "</s>"): 0.299630,
        ("a", "d"): 0.349630,
        ("a", "</s>"): 0.388519,
        ("a", "b"): 0.082963,
        ("b", "a"): 0.112292,
    }
    for (context, word), expected in bigrams.items():
        assert probability(model, word, [context]) == pytest.approx(expected, abs=1e-6)
    for word, expected in {"d": 0.151605, "c": 0.174406, "a": 0.204961}.items():
        assert probability(model, word, [], fresh=True) == pytest.approx(expected, abs=1e-6)
    backoffs = {"<s>": -0.069164, "d": -0.123013, "b": -0.083546, "c": -0.330993, "a": -0.330993}
    for word, expected in backoffs.items():
        found = model.model.contexts["backoff"][number_of(model, word)] / math.log(10)
        assert found == pytest.approx(expected, abs=1e-6)


def test_the_worked_sentences(tmp_path):
    model, _ = train(EXAMPLE, tmp_path, order=2)
    known, unknown = model.score(["d c a", "d zzz a"])
    assert known.log10 == pytest.approx(-2.526755, abs=1e-6)
    assert known.tokens == 4
    assert math.exp(-known.log_prob / known.tokens) == pytest.approx(4.282415, abs=1e-5)
    assert unknown.token_log_probs[1] / math.log(10) == pytest.approx(-1.077255, abs=1e-6)
    assert unknown.token_log_probs[2] / math.log(10) == pytest.approx(-0.866106, abs=1e-6)
    assert unknown.log10 == pytest.approx(-3.173236, abs=1e-6)
    assert unknown.oov == 1
    assert math.exp(-unknown.log_prob / unknown.tokens) == pytest.approx(6.213111, abs=1e-5)
    without = math.exp(-unknown.known_log_prob / (unknown.tokens - unknown.oov))
    assert without == pytest.approx(4.996437, abs=1e-5)


def test_pruning_by_a_huge_number_is_that_of_all_longer_ngrams(tmp_path):
    for memory in (4.0, 1e-9):  # gigabytes: at once, and on disk
        model, _ = train(EXAMPLE, tmp_path, order=2, prune="0,99999999999999999999", memory=memory)
        assert model.model.ngrams == (7, 0)


def test_the_worked_pruning(tmp_path):
    model, _ = train(EXAMPLE, tmp_path, order=2, prune="0,1")
    assert math.exp(model.model.contexts["backoff"][1]) == pytest.approx(0.941667, abs=1e-6)
    assert probability(model, "d", [], fresh=True) == pytest.approx(0.167407, abs=1e-6)
    assert np.allclose(model.model.facts["discounts"][1], [0.466667, 1.65, 3], atol=1e-6)
    assert model.model.ngrams == (7, 5)


def test_without_interpolated_unigrams(tmp_path):
    model, _ = train(EXAMPLE, tmp_path, order=2, interpolate_unigrams=False)
    assert probability(model, "<unk>", []) == pytest.approx(0.666667, abs=1e-6)
    assert probability(model, "</s>", []) == pytest.approx(0.15, abs=1e-6)


# --- naive twins --------------------------------------------------------------------------------------------------


class Naive:
    """The equations of spec and papers over dictionaries, every order for itself."""

    def __init__(self, sentences, order, smoothing, *, thresholds=(), k=1.0, discounts=None):
        self.order, self.smoothing, self.k = order, smoothing, k
        counts = [Counter() for _ in range(order + 1)]
        for sentence in sentences:
            words = ["<s>", *sentence.split(), "</s>"]
            for size in range(1, order + 1):
                for end in range(size, len(words) + 1):
                    counts[size][tuple(words[end - size : end])] += 1
        self.vocabulary = {word for (word,) in counts[1]} - {"<s>"} | {"<unk>"}
        adjusted = [Counter(one) for one in counts]
        if "kneser-ney" in smoothing:
            for size in range(1, order):
                left = defaultdict(set)
                for ngram in counts[size + 1]:
                    left[ngram[1:]].add(ngram[0])
                adjusted[size] = Counter(
                    {ngram: counts[size][ngram] if ngram[0] == "<s>" else len(left[ngram]) for ngram in counts[size]}
                )
        del adjusted[1]["<s>",]
        self.adjusted = adjusted
        self.kept = [
            {
                ngram
                for ngram in adjusted[size]
                if size < 2 or counts[size][ngram] > (thresholds or [0] * order)[size - 1]
            }
            for size in range(order + 1)
        ]
        self.discounts = discounts or [None, *(self.closed_form(adjusted[size]) for size in range(1, order + 1))]
        self.followers = defaultdict(list)
        for size in range(1, order + 1):
            for ngram in adjusted[size]:
                self.followers[ngram[:-1]].append(ngram)

    def closed_form(self, counts):
        t = Counter(counts.values())
        if self.smoothing in ("mle", "add-k"):
            return [0, 0, 0, 0]
        share = t[1] / (t[1] + 2 * t[2])
        if self.smoothing != "modified-kneser-ney":
            return [0, share, share, share]
        return [0, *(j - (j + 1) * share * t[j + 1] / t[j] for j in (1, 2, 3))]

    def probability(self, word, context):
        """P(word | the last N - 1 words of context), which has ``<s>`` if it begins a sentence."""
        context = tuple(context)[max(0, len(context) - self.order + 1) :]
        return self.add_k(word, context) if self.smoothing == "add-k" else self.interpolated(word, context)

    def add_k(self, word, context):
        size = len(context) + 1
        total = sum(self.adjusted[size][ngram] for ngram in self.followers[context])
        return (self.adjusted[size][(*context, word)] + self.k) / (total + self.k * len(self.vocabulary))

    def interpolated(self, word, context):
        size = len(context) + 1
        counts, discounts = self.adjusted[size], self.discounts[size]
        total = sum(counts[ngram] for ngram in self.followers[context])
        shorter = self.interpolated(word, context[1:]) if context else 1 / len(self.vocabulary)
        if total == 0:
            return shorter
        left = sum(
            discounts[min(3, counts[ngram])] if ngram in self.kept[size] else counts[ngram]
            for ngram in self.followers[context]
        )
        ngram = (*context, word)
        own = counts[ngram] - discounts[min(3, counts[ngram])] if ngram in self.kept[size] else 0
        if self.smoothing == "mle" and not context:
            left = 0
        return (own + left * shorter) / total


def texts(seed, count=400, types=25):
    draw = np.random.default_rng(seed)
    return [" ".join(f"w{min(n, types)}" for n in draw.zipf(1.6, draw.integers(1, 9))) for _ in range(count)]


CASES = [
    ("modified-kneser-ney", 1, ""),
    ("modified-kneser-ney", 3, ""),
    ("modified-kneser-ney", 4, "0,0,1,2"),
    ("kneser-ney", 3, ""),
    ("absolute", 3, ""),
    ("absolute", 3, "0,1"),
    ("add-k", 1, ""),
    ("add-k", 3, ""),
    ("mle", 2, ""),
    ("mle", 3, "0,0,1"),
]


@pytest.mark.parametrize(("smoothing", "order", "prune"), CASES)
def test_probabilities_are_those_of_the_equations(smoothing, order, prune, tmp_path):
    lines = texts(order)
    settings = {"k": 0.3} if smoothing == "add-k" else {}
    model, _ = train(lines, tmp_path, order=order, smoothing=smoothing, prune=prune, **settings)
    discounts = [None, *([0, *ones] for ones in model.model.facts["discounts"])]
    naive = Naive(lines, order, smoothing, thresholds=_thresholds(prune, order), discounts=discounts, **settings)
    if not model.model.facts["fallback"]:
        computed = [naive.closed_form(naive.adjusted[size])[1:] for size in range(1, order + 1)]
        assert np.allclose(model.model.facts["discounts"], computed)
    draw = np.random.default_rng(5)
    words = [model.model.vocab[number] for number in range(len(model.model.vocab))]
    for _ in range(60):
        fresh = bool(draw.integers(2))
        size = int(draw.integers(0, order + 2)) if fresh else order - 1
        context = [words[place] for place in draw.integers(3, min(len(words), 12), size)]
        if not fresh and order > 1 and draw.integers(2):
            line = ["<s>", *lines[draw.integers(len(lines))].split()]
            context, fresh = line[1:-1], True
        found = distribution(model, context, fresh=fresh)
        marked = ["<s>", *context] if fresh else context
        expected = [0.0 if word == "<s>" else naive.probability(word, marked) for word in words]
        assert np.allclose(found, expected, rtol=2e-6, atol=1e-9)


def _thresholds(prune, order):
    numbers = [int(part) for part in prune.split(",")] if prune else [0]
    return [*numbers, *[numbers[-1]] * (order - len(numbers))]


@pytest.mark.parametrize(("smoothing", "order", "prune"), CASES)
def test_probabilities_sum_to_one_after_any_words(smoothing, order, prune, tmp_path):
    lines = texts(11, count=2000, types=60)
    model, _ = train(lines, tmp_path, order=order, smoothing=smoothing, prune=prune)
    draw = np.random.default_rng(3)
    sums = []
    for number in range(1000):
        line = lines[draw.integers(len(lines))].split()
        context = line[: draw.integers(0, len(line) + 1)] if number % 2 else []
        context += [f"w{draw.integers(1, 70)}" for _ in range(draw.integers(0, order))]  # some of them unknown
        sums.append(distribution(model, context, fresh=True).sum())
    assert len(sums) == 1000
    assert np.allclose(sums, 1, rtol=0, atol=1e-6)


def test_more_for_each_count_moves_to_the_uniform(tmp_path):
    shares = []
    for k in (0.1, 1.0, 10.0, 1000.0):
        model, _ = train(EXAMPLE, tmp_path, order=2, smoothing="add-k", k=k)
        shares.append(probability(model, "</s>", ["b"]))
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] == pytest.approx(1 / 6, abs=1e-3)
    assert shares[1] == pytest.approx((2 + 1) / (2 + 6))


def test_discounts():
    found, told = discounts_of([0, 7, 4, 1, 0], "modified-kneser-ney")
    assert told
    assert np.allclose(found, [0, 0.466667, 1.65, 3], atol=1e-6)
    for counts in ([0, 0, 4, 1, 0], [0, 7, 0, 1, 0], [0, 7, 4, 0, 0], [0, 1, 9, 400, 9]):
        found, told = discounts_of(counts, "modified-kneser-ney")
        assert not told
        assert found.tolist() == [0, 0.5, 1, 1.5]
    assert discounts_of([0, 6, 2, 0, 0], "absolute")[0].tolist() == [0, 0.6, 0.6, 0.6]
    assert discounts_of([0, 0, 2, 0, 0], "kneser-ney")[0].tolist() == [0, 0.5, 0.5, 0.5]


def test_a_tiny_text_is_trained_with_assumed_discounts_and_a_warning(tmp_path):
    model, notes = train(["a b", "a b"], tmp_path, order=3)
    assert model.model.facts["fallback"] == [1, 2, 3]
    assert any("0.5, 1 and 1.5 stand for them" in note for note in notes)
    assert distribution(model, ["a"], fresh=True).sum() == pytest.approx(1, abs=1e-6)
