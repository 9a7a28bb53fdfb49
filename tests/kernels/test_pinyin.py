"""The search through a lattice of words equals that through all paths; the walk through a trie, that through a list."""

import itertools
import random

import numpy as np
import pytest

import wenmai
from wenmai.kernels.ngram_lookup import END
from wenmai.kernels.pinyin_search import HYPOTHESIS, close_paths, search_lattice, trace_paths
from wenmai.kernels.pinyin_words import EDGE, SYLLABLE, is_reachable, match_words, order_by_end

LETTERS = "abcde"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Models of order 1 to 4 of the same letters."""
    draw = random.Random(3)
    texts = [" ".join(draw.choices(LETTERS, [5, 4, 3, 2, 1], k=draw.randint(1, 7))) for _ in range(60)]
    folder = tmp_path_factory.mktemp("ngrams")
    return {
        order: wenmai.train("ngram", texts, out=folder / str(order), order=order, min_count=1).model.model
        for order in (1, 2, 3, 4)
    }


def log_probs(model, words):
    """Of words from the beginning of a sentence on, without its end."""
    return model.log_probs(np.array([*words, END], np.int32)).astype(np.float64)


class Lattice:
    """Random words between random places."""

    def __init__(self, seed, places, entries, edges, characters, words):
        draw = random.Random(seed)
        self.places, self.characters, self.words = places, characters, words
        self.spelt = [draw.choices(range(3, 3 + len(LETTERS)), k=draw.randint(1, 3)) for _ in range(entries)]
        self.word = [draw.randrange(3, 3 + len(LETTERS)) for _ in range(entries)]
        steps = [(place, place + 1) for place in range(places - 1)]
        steps += [tuple(sorted(draw.sample(range(places), 2))) for _ in range(edges)]
        self.edges = sorted((*step, draw.randrange(entries), round(draw.uniform(-3, 1), 3)) for step in steps)

    def paths(self, place=0):
        """All paths from a place to the end."""
        if place == self.places - 1:
            yield ()
        for edge in self.edges:
            if edge[0] == place:
                yield from ((edge, *rest) for rest in self.paths(edge[1]))

    def scored(self, weights, *, close):
        """The best score of every text."""
        found = {}
        for path in self.paths():
            text = tuple(itertools.chain.from_iterable(self.spelt[edge[2]] for edge in path))
            score = sum(edge[3] for edge in path)
            for weight, model, sequence in (
                (weights[0], self.characters, text),
                (weights[1], self.words, [self.word[edge[2]] for edge in path]),
            ):
                score += weight * log_probs(model, sequence)[: None if close else -1].sum()
            found[text] = max(found.get(text, -np.inf), score)
        return sorted(((score, text) for text, score in found.items()), reverse=True)

    def search(self, weights, *, close, beam=400, reach=np.inf, best=50, start=None, fixed=4):
        """The same by the kernel; entries from ``fixed`` on are given as further ones."""
        raw = np.zeros(len(self.edges), EDGE)
        for place, edge in enumerate(self.edges):
            raw[place] = (*edge, 1)
        edges, bounds = np.empty(len(raw), EDGE), np.empty(self.places + 1, np.int64)
        order_by_end(raw, len(raw), self.places, edges, bounds)
        assert is_reachable(edges, bounds)
        hypotheses, counts = np.zeros((self.places, beam), HYPOTHESIS), np.zeros(self.places, np.int64)
        hypotheses[0, 0]["characters"], hypotheses[0, 0]["words"] = self.characters.begin()[0], self.words.begin()[0]
        counts[0] = 1
        tables = []
        for model, weight in ((self.characters, weights[0]), (self.words, weights[1])):
            tables += [model.contexts, model.leaves, model.config.order, weight]
        entries = []
        for spelt, word in (
            (self.spelt[:fixed], self.word[:fixed]),
            (self.spelt[fixed:], self.word[fixed:]),
        ):
            ends = np.cumsum([0, *map(len, spelt)])
            entries += [np.array([*itertools.chain(*spelt)], np.uint32)] * 2 + [ends.astype(np.uint32)]
            entries += [np.array(word, np.uint32)]
        for array in entries:
            array.flags.writeable = False  # as those of models are
        for first in [1] if start is None else [1, start]:
            assert search_lattice(*tables, edges, bounds, *entries, first, reach, best, hypotheses, counts)
        last = self.places - 1
        scores = hypotheses[last, : counts[last]]["score"].copy()
        if close:
            assert close_paths(*tables, hypotheses[last], scores)
        chosen = np.argsort(-scores, kind="stable")
        paths, begins = (np.zeros((chosen.size, self.places), np.uint32) for _ in range(2))
        lengths = trace_paths(hypotheses, last, chosen, paths, begins)
        texts = [
            tuple(itertools.chain.from_iterable(self.spelt[entry] for entry in row[:length][::-1]))
            for row, length in zip(paths.tolist(), lengths.tolist(), strict=True)
        ]
        assert all(row[length - 1] == 0 for row, length in zip(begins.tolist(), lengths.tolist(), strict=True))
        return [*zip(scores[chosen].tolist(), texts, strict=True)]


@pytest.mark.parametrize("orders", [(1, 2), (2, 1), (3, 1), (4, 2)])
@pytest.mark.parametrize("seed", range(6))
def test_the_search_equals_that_through_all_paths(models, orders, seed):
    lattice = Lattice(seed, 6, 7, 9, models[orders[0]], models[orders[1]])
    for weights in ((1.0, 0.0), (0.0, 1.0), (0.4, 1.0)):
        for close in (False, True):
            expected = lattice.scored(weights, close=close)
            found = lattice.search(weights, close=close, best=1)
            assert found[0][0] == pytest.approx(expected[0][0], abs=1e-5)
            assert {text: score for score, text in expected}[found[0][1]] == pytest.approx(found[0][0], abs=1e-5)
            found = lattice.search(weights, close=close)
            assert len({text for _, text in found}) == len(found)
            assert [score for score, _ in found[:20]] == pytest.approx([score for score, _ in expected[:20]], abs=1e-5)


def test_a_part_is_searched_again(models):
    lattice = Lattice(1, 7, 7, 9, models[3], models[2])
    whole = lattice.search((0.5, 1.0), close=True)
    assert lattice.search((0.5, 1.0), close=True, start=4) == whole
    assert lattice.search((0.5, 1.0), close=True, fixed=0) == whole == lattice.search((0.5, 1.0), close=True, fixed=7)


def test_a_beam_keeps_the_best(models):
    for seed in range(5):
        lattice = Lattice(seed, 9, 9, 40, models[4], models[1])
        whole = lattice.search((1.0, 0.0), close=False, beam=2000)
        narrow = lattice.search((1.0, 0.0), close=False, beam=12)
        assert len(narrow) <= 12
        assert narrow[0][0] == pytest.approx(whole[0][0], abs=1.0)
        near = lattice.search((1.0, 0.0), close=False, beam=2000, reach=6.0)
        assert near[0] == whole[0]
        assert near[-1][0] >= near[0][0] - 6 > whole[-1][0]


# --- words ----------------------------------------------------------------------------------------------------------

SYLLABLES = ["a", "ba", "ban", "be", "ca"]


class Trie:
    """Words of syllables with tones, as the kernel wants them."""

    def __init__(self, words):
        self.words = sorted(words, key=lambda word: ([one[0] for one in word[0]], -word[1]))
        keys = sorted({tuple(s for s, _ in word[0][:size]) for word in words for size in range(len(word[0]) + 1)})
        keys.sort(key=len)  # breadth first
        self.words.sort(key=lambda word: (len(word[0]), [one[0] for one in word[0]], -word[1]))
        place = {key: number for number, key in enumerate(keys)}
        spelt = [tuple(s for s, _ in word[0]) for word in self.words]
        children = [1 + sum(len(key) and place[key[:-1]] < number for key in keys) for number in range(len(keys) + 1)]
        self.first = np.array(children, np.uint32)
        self.syllables = np.array([key[-1] if key else 0 for key in keys], np.uint32)
        self.entries = np.array([sum(place[s] < n for s in spelt) for n in range(len(keys) + 1)], np.uint32)
        self.weights = np.array([word[1] for word in self.words], np.float32)
        packed = [sum(tone << 4 * number for number, (_, tone) in enumerate(word[0])) for word in self.words]
        self.tones = np.array(packed, np.uint64)

    def arrays(self):
        found = self.first, self.syllables, self.entries, self.weights, self.tones
        for array in found:
            array.flags.writeable = False  # as those of models are
        return found


def test_words_are_found_in_a_graph_of_syllables():
    draw = random.Random(2)
    words = [
        (tuple((draw.randrange(5), draw.randint(1, 3)) for _ in range(draw.randint(1, 3))), float(-number))
        for number in range(60)
    ]
    trie = Trie(words)
    steps = [(0, 2, 1, 3, 0, -1.0), (0, 1, 0, 1, 2, 0.0), (1, 3, 2, 3, 0, 0.0), (2, 3, 4, 5, 1, 0.0)]
    steps += [(3, 4, 0, 5, 0, -2.0), (3, 5, 3, 4, 3, 0.0), (4, 5, 0, 1, 0, 0.0)]
    graph = np.array([step[1:] for step in steps], SYLLABLE)
    bounds = np.searchsorted([step[0] for step in steps], np.arange(6)).astype(np.int64)
    expected, surely = [], []

    def walk(place, here, left, word, number, score, guessed=False):
        if not left:
            expected.append((place, here, number, round(score + word[1], 3)))
            if not guessed or len(word[0]) == 1:
                surely.append((place, here, number))
            return
        for begin, end, low, high, tone, more in steps:
            if begin == here and low <= left[0][0] < high:
                wrong = -5.0 if tone not in (0, left[0][1]) else 0.0
                walk(place, end, left[1:], word, number, score + more + wrong, guessed or high - low > 1)

    for place in range(5):
        for number, word in enumerate(trie.words):
            walk(place, place, word[0], word, number + 7, 0.0)
    edges, count = match_words(*trie.arrays(), graph, bounds, 7, 99, 16, -5.0, 0, np.empty(2, EDGE), 0)
    found = [(begin, end, entry, round(score, 3)) for begin, end, entry, score, _ in edges[:count].tolist()]
    assert sorted(found) == sorted(expected)
    assert len(found) > 60
    fewer, count = match_words(*trie.arrays(), graph, bounds, 7, 1, 16, -5.0, 0, np.empty(2, EDGE), 0)
    kept = {tuple(edge)[:3] for edge in fewer[:count].tolist()}
    assert kept < {edge[:3] for edge in found}
    short, count = match_words(*trie.arrays(), graph, bounds, 7, 99, 1, -5.0, 0, np.empty(2, EDGE), 0)
    assert 0 < count < len(found)
    assert sorted(tuple(edge)[:3] for edge in short[:count].tolist()) == sorted(surely)
    later, count = match_words(*trie.arrays(), graph, bounds, 7, 99, 16, -5.0, 3, np.empty(2, EDGE), 0)
    assert sorted(later[:count].tolist()) == sorted(edge for edge in edges[: len(found)].tolist() if edge[0] >= 3)


def test_a_gap_is_noticed():
    edges, bounds = np.empty(2, EDGE), np.empty(5, np.int64)
    order_by_end(np.array([(0, 1, 0, 0.0, 1), (2, 3, 0, 0.0, 1)], EDGE), 2, 4, edges, bounds)
    assert not is_reachable(edges, bounds)
    order_by_end(np.array([(0, 1, 0, 0.0, 1), (1, 3, 0, 0.0, 1)], EDGE), 2, 4, edges, bounds)
    assert is_reachable(edges, bounds)
