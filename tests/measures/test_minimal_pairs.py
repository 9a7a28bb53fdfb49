"""Accuracy on minimal pairs: ties, means of paradigms, intervals and differences, against the definitions."""

import json
import math
import random

import numpy as np
import pytest

from wenmai.core.errors import CorpusError
from wenmai.measures.bootstrap import wilson_interval
from wenmai.measures.language import SentenceScore
from wenmai.measures.minimal_pairs import compare_outcomes, measure_minimal_pairs


def scored(log_prob, oov=0, tokens=4, parts=()):
    return SentenceScore(text="a text", log_prob=log_prob, tokens=tokens, oov=oov, token_log_probs=tuple(parts))


def outcomes(**paradigms):
    """The result of paradigms whose pairs are right (1), wrong (0) or ties (-1)."""
    good, bad, names = [], [], []
    for name, found in paradigms.items():
        for one in found:
            good.append(scored(-10.0 - (one == 0)))
            bad.append(scored(-10.0 - (one == 1)))
            names.append((name[0], name))
    return measure_minimal_pairs(good, bad, names)


def test_accuracy_is_the_mean_of_paradigms_and_ties_are_wrong():
    found = outcomes(a1=[1, 1, 1, 0], a2=[1, -1], b1=[-1, 0])
    assert found.total.accuracy == pytest.approx((3 / 4 + 1 / 2 + 0) / 3)
    assert found.pair_accuracy == 4 / 8
    assert (found.total.pairs, found.total.ties) == (8, 2)
    assert [(one.name, one.phenomenon, one.accuracy) for one in found.paradigms] == [
        ("a1", "a", 0.75), ("a2", "a", 0.5), ("b1", "b", 0.0),
    ]  # fmt: skip
    assert [(one.name, one.accuracy, one.pairs, one.ties) for one in found.phenomena] == [
        ("a", 0.625, 6, 1), ("b", 0.0, 2, 1),
    ]  # fmt: skip
    assert json.loads(json.dumps(found.as_dict()))["phenomena"][0]["accuracy"] == 0.625
    with pytest.raises(CorpusError, match="no minimal pairs"):
        measure_minimal_pairs([], [], [])


@pytest.mark.parametrize(
    ("good", "bad", "right", "tie"),
    [
        (-10.0, -10.001, True, False),
        (-10.001, -10.0, False, False),
        (-10.0, -10.0, False, True),
        (-30.000001, -30.00001, False, True),  # what the order of a sum in float32 makes of one number
        (-math.inf, -math.inf, False, True),
        (-50.0, -math.inf, True, False),
        (-math.inf, -50.0, False, False),
    ],
)
def test_only_a_greater_probability_is_right(good, bad, right, tie):
    found = measure_minimal_pairs([scored(good)], [scored(bad)], [("p", "p")])
    assert (found.total.accuracy, found.total.ties) == (float(right), int(tie))


def test_a_sentence_without_tokens_tells_nothing():
    found = measure_minimal_pairs([scored(0.0, tokens=0)], [scored(-9.0)], [("p", "p")])
    assert (found.total.accuracy, found.total.ties) == (0.0, 1)


def test_pairs_with_unknown_words_are_counted():
    counts = [(0, 0, -1.0), (1, 1, -1.0), (1, 1, -2.0), (2, 1, -1.0), (0, 1, -1.0)]
    good, bad = zip(*[(scored(-2.0, one), scored(log_prob, other)) for one, other, log_prob in counts], strict=True)
    found = measure_minimal_pairs(good, bad, [("p", "p")] * 5)
    assert (found.unknown, found.uneven, found.unknown_ties, found.total.ties) == (4, 2, 1, 1)


@pytest.mark.parametrize(
    ("good", "bad", "alike"),
    [([-1.0, -2.0], [-1.0, -2.0000001], True), ([-1.0, -2.0], [-2.0, -1.0], False), ([-3.0], [-1.0, -2.0], False)],
)
def test_sentences_whose_words_change_places_are_not_read_alike(good, bad, alike):
    both = [scored(-3.0, 1, parts=parts) for parts in (good, bad)]
    found = measure_minimal_pairs(both[:1], both[1:], [("p", "p")])
    assert (found.total.ties, found.unknown_ties) == (1, int(alike))


@pytest.mark.parametrize(("successes", "trials"), [(0, 10), (3, 10), (50, 100), (100, 100), (1, 1)])
def test_the_interval_of_one_paradigm_is_wilsons(successes, trials):
    low, high = wilson_interval(successes, trials)
    share = successes / trials
    assert 0 <= low <= share <= high <= 1
    for end in (low, high):  # where the proportion is 1.96 standard errors away, as these are at the end
        if 0 < end < 1:
            assert abs(share - end) == pytest.approx(1.959964 * math.sqrt(end * (1 - end) / trials), rel=1e-5)
    found = outcomes(p=[1] * successes + [0] * (trials - successes))
    assert (found.total.low, found.total.high) == (low, high)


def test_the_interval_of_several_paradigms_is_a_bootstrap_of_the_pairs_of_each():
    draw = random.Random(1)
    pairs = {f"p{number}": [int(draw.random() < number / 6) for _ in range(20 * number)] for number in (1, 3, 5)}
    found = outcomes(**pairs).total
    generator = np.random.default_rng(2)
    means = [
        np.mean([generator.choice(own, len(own)).mean() for own in map(np.array, pairs.values())]) for _ in range(3000)
    ]
    assert (found.low, found.high) == pytest.approx(tuple(np.percentile(means, (2.5, 97.5))), abs=0.02)
    assert found.low < found.accuracy < found.high


def test_models_are_compared_pair_by_pair():
    draw = random.Random(1)
    one = {"a": [draw.randint(0, 1) for _ in range(60)], "b": [draw.randint(0, 1) for _ in range(30)]}
    better = {name: [1 if place % 3 else value for place, value in enumerate(own)] for name, own in one.items()}
    first, second = outcomes(**one), outcomes(**better)
    found = compare_outcomes(first, second)
    assert found.difference == pytest.approx(second.total.accuracy - first.total.accuracy)
    assert 0 < found.low < found.difference < found.high
    assert found.p_value < 0.01
    same = compare_outcomes(first, first)
    assert (same.difference, same.low, same.high, same.p_value) == (0, 0, 0, 1)
    back = compare_outcomes(second, first)
    assert (back.difference, back.p_value) == (-found.difference, found.p_value)


def test_each_paradigm_counts_as_much_as_another_in_the_test_of_a_difference():
    one = {"a": [0] * 1000, "b": [0] * 4}
    other = {"a": [0] * 1000, "b": [1] * 4}
    assert compare_outcomes(outcomes(**one), outcomes(**other)).p_value == pytest.approx(2 / 2**4, abs=0.02)
