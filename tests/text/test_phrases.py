import itertools
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wenmai.text.phrases import PairCounter, joined_pairs


def spelled_out(
    sentences: list[list[int]], counts: list[int], threshold: float, min_count: int
) -> tuple[set[tuple[int, int]], list[list[bool]]]:
    """The algorithm word by word: which pairs score above the threshold, and which are joined."""
    total = sum(counts)
    pairs = Counter(pair for sentence in sentences for pair in itertools.pairwise(sentence))
    phrases = {
        (a, b)
        for (a, b), together in pairs.items()
        if min(counts[a], counts[b]) >= min_count
        and (together - min_count) / (counts[a] * counts[b]) * total > threshold
    }
    joined = []
    for sentence in sentences:
        flags: list[bool] = []
        for pair in itertools.pairwise(sentence):
            flags.append(pair in phrases and not (flags and flags[-1]))
        joined.append([*flags, False])
    return phrases, joined


@given(
    sentences=st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=12), min_size=1, max_size=12),
    threshold=st.floats(0.1, 5),
    min_count=st.integers(1, 3),
    block=st.integers(1, 20),
)
def test_equals_the_algorithm_word_by_word(
    sentences: list[list[int]], threshold: float, min_count: int, block: int
) -> None:
    by_frequency = Counter(token for sentence in sentences for token in sentence).most_common()
    number = {token: place for place, (token, _) in enumerate(by_frequency)}
    sentences = [[number[token] for token in sentence] for sentence in sentences]
    counts = [count for _, count in by_frequency]
    expected_phrases, expected_joined = spelled_out(sentences, counts, threshold, min_count)

    tokens = np.array([token for sentence in sentences for token in sentence] + [-1], np.int32)
    neighbours = np.concatenate([[True] * (len(sentence) - 1) + [False] for sentence in sentences])
    counter = PairCounter(np.array(counts), total=sum(counts), threshold=threshold, min_count=min_count)
    blocks = [slice(start, min(start + block, neighbours.size)) for start in range(0, neighbours.size, block)]
    for part in blocks:
        counter.add(tokens[part.start : part.stop + 1], neighbours[part])
    phrases = counter.phrases()
    assert {divmod(int(key), len(counts)) for key in phrases} == expected_phrases

    joined: list[bool] = []
    for part in blocks:
        taken = bool(joined) and joined[-1]
        ids = tokens[part.start : part.stop + 1]
        joined += joined_pairs(ids, neighbours[part], phrases, len(counts), first_is_taken=taken).tolist()
    assert joined == [flag for flags in expected_joined for flag in flags]


def test_rare_pairs_are_forgotten_when_there_are_too_many() -> None:
    counts = np.full(100, 40)
    counter = PairCounter(counts, total=4000, threshold=1.0, min_count=1, max_pairs=50)
    rng = np.random.default_rng(0)
    for _ in range(10):
        tokens = rng.integers(0, 100, 401, dtype=np.int32)
        tokens[1::8], tokens[2::8] = 7, 8
        counter.add(tokens, np.ones(400, np.bool_))
    assert counter.pruned > 50
    assert 7 * 100 + 8 in counter.phrases()
