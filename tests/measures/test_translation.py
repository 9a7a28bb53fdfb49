"""BLEU, chrF, their intervals, and the comparison of two systems, against sacreBLEU and worked values."""

import json
import random
import re
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from wenmai.core.errors import FormatError, SettingError
from wenmai.measures.bootstrap import randomisation_p_value
from wenmai.measures.translation import compare_translations, measure_translation

REFERENCE = "the cat is on the mat"
WORDS = ["the", "cat", "sat", "on", "a", "mat", "it", "rained,", "and", "dogs", "(all", "of", "them)", "barked"]
WORDS += ["at", "3.5", "o'clock", ";", "我们", "爱", "你", "。"]


def measure(hypotheses, references, **settings):
    return measure_translation(references, hypotheses, references, **settings)


def a_set(size, *, seed=1, noise=0.2):
    """References and translations of them with some words changed, left out or repeated."""
    draw = random.Random(seed)
    references = [" ".join(draw.choices(WORDS, k=draw.randint(1, 18))) for _ in range(size)]

    def spoil(words):
        for word in words:
            if draw.random() > noise:
                yield word
            else:
                yield from draw.choices(WORDS, k=draw.randrange(3))

    return [" ".join(spoil(reference.split())) for reference in references], references


def test_the_worked_values():
    assert measure(["the cat the cat on the mat"], [REFERENCE]).bleu == pytest.approx(30.7394, abs=5e-5)
    result = measure(["the cat is on mat"], [REFERENCE])
    assert result.bleu == pytest.approx(57.8930, abs=5e-5)
    assert result.chrf == pytest.approx(64.2000, abs=5e-5)
    assert result.brevity_penalty == pytest.approx(np.exp(-0.2))
    assert (result.hypothesis_length, result.reference_length) == (5, 6)
    assert (result.sentences, result.exact_match) == (1, 0)
    assert (result.bleu_low, result.bleu_high) == pytest.approx((result.bleu, result.bleu))  # one sentence


def test_a_perfect_translation_scores_100_and_nothing_in_common_0():
    result = measure([f" {REFERENCE}\n"], [REFERENCE])
    assert (result.bleu, result.chrf, result.exact_match) == pytest.approx((100, 100, 1))
    for hypothesis in ("xyz", ""):
        result = measure([hypothesis], [REFERENCE])
        assert (result.bleu, result.chrf, result.exact_match) == (0, 0, 0)
    assert measure([""], [REFERENCE]).brevity_penalty == 0


@pytest.mark.parametrize("tokenize", ["13a", "intl", "zh", "char", "none"])
def test_scores_and_signatures_are_those_of_sacrebleu(tokenize):
    hypotheses, references = a_set(60)
    result = measure(hypotheses, references, tokenize=tokenize)
    bleu, chrf = BLEU(tokenize=tokenize, force=True), CHRF()
    score = bleu.corpus_score(hypotheses, [references])
    assert result.bleu == pytest.approx(score.score, rel=1e-12)
    assert result.brevity_penalty == pytest.approx(score.bp, rel=1e-12)
    assert (result.hypothesis_length, result.reference_length) == (score.sys_len, score.ref_len)
    assert result.chrf == pytest.approx(chrf.corpus_score(hypotheses, [references]).score, rel=1e-12)
    assert result.signature == str(bleu.get_signature())
    assert result.chrf_signature == str(chrf.get_signature())
    assert result.tokenize == tokenize


texts = st.lists(st.sampled_from(["a", "b", "c", "de", "，", "好", "b.", "&amp;", ""]), max_size=7).map(" ".join)


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=4), st.sampled_from(["13a", "zh"]))
def test_short_odd_and_empty_sentences_score_as_in_sacrebleu(pairs, tokenize):
    hypotheses, references = map(list, zip(*pairs, strict=True))
    result = measure(hypotheses, references, tokenize=tokenize, resamples=5)
    expected = BLEU(tokenize=tokenize).corpus_score(hypotheses, [references]).score
    assert result.bleu == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert result.chrf == pytest.approx(CHRF().corpus_score(hypotheses, [references]).score, rel=1e-9, abs=1e-9)
    assert 0 <= result.bleu_low <= result.bleu_high <= 100 + 1e-9


def test_intervals_agree_with_the_bootstrap_of_sacrebleu():
    hypotheses, references = a_set(80)
    result = measure(hypotheses, references, resamples=4000, tokenize="13a")
    both = ((BLEU(force=True), result.bleu_low, result.bleu_high), (CHRF(), result.chrf_low, result.chrf_high))
    for metric, low, high in both:
        told = str(metric.corpus_score(hypotheses, [references], n_bootstrap=1000))
        mean, half = map(float, re.search(r"μ = ([\d.]+) ± ([\d.]+)", told).groups())
        assert (high - low) / 2 == pytest.approx(half, rel=0.15)
        assert (high + low) / 2 == pytest.approx(mean, abs=0.2 * half)


def test_p_values_agree_with_the_randomisation_of_sacrebleu():
    first, references = a_set(60, seed=3)
    second = [r if i % 12 == 0 else h for i, (h, r) in enumerate(zip(first, references, strict=True))]
    second = [h.replace("cat", "sat") if i % 3 else h for i, h in enumerate(second)]
    result = compare_translations(first, second, references, tokenize="13a", trials=2000)
    metrics = {"BLEU": BLEU(references=[references], force=True), "chrF2": CHRF(references=[references])}
    test = PairedTest([("first", first), ("second", second)], metrics, None, test_type="ar", n_samples=2000)
    _, scores = test()
    for ours, theirs in ((result.bleu, scores["BLEU"]), (result.chrf, scores["chrF2"])):
        assert (ours.first, ours.second) == pytest.approx([each.score for each in theirs], rel=1e-9)
        p = theirs[1].p_value
        assert 0.01 < p < 0.99
        assert ours.p_value == pytest.approx(p, abs=4 * np.sqrt(2 * p * (1 - p) / 2000))


def test_a_system_does_not_differ_from_itself():
    hypotheses, references = a_set(20)
    result = compare_translations(hypotheses, hypotheses, references)
    for paired in (result.bleu, result.chrf):
        assert (paired.difference, paired.low, paired.high) == (0, 0, 0)
        assert (paired.p_value, paired.second_wins) == (1, 0)


def test_a_far_better_system_wins_surely_and_the_order_only_turns_the_sign():
    worse, references = a_set(50, noise=0.5)
    better, _ = a_set(50, noise=0.05)
    result = compare_translations(worse, better, references, trials=500)
    turned = compare_translations(better, worse, references, trials=500)
    for ours, back in ((result.bleu, turned.bleu), (result.chrf, turned.chrf)):
        assert ours.difference > 10
        assert 0 < ours.low < ours.difference < ours.high
        assert ours.p_value == pytest.approx(1 / 501)
        assert ours.second_wins == 1
        assert (back.difference, back.low, back.p_value) == pytest.approx((-ours.difference, -ours.high, ours.p_value))


def test_the_p_value_is_exact_where_all_swaps_can_be_counted():
    # the sums differ by 3; of the 8 swaps only none and all reach that: p is 2 / 8
    first, second = np.zeros((3, 1)), np.ones((3, 1))
    p = randomisation_p_value(lambda sums: sums[:, 0], first, second, trials=20_000)
    assert p == pytest.approx(0.25, abs=0.015)
    with pytest.raises(SettingError, match="at least 1 trial"):
        randomisation_p_value(lambda sums: sums[:, 0], first, second, trials=0)


def test_buckets_follow_the_length_of_the_source():
    sources = ["a", "", "a b c d e", "a b c d e f", " ".join("a" * 31)]
    references = [REFERENCE, REFERENCE, REFERENCE, "one two three four", REFERENCE]
    hypotheses = [REFERENCE, REFERENCE, "the cat is on mat", "one two three four", "no"]
    result = measure_translation(sources, hypotheses, references)
    assert result.length_unit == "words"
    assert [(bucket.name, bucket.sentences) for bucket in result.buckets] == [("1-5", 3), ("6-10", 1), ("31+", 1)]
    first, second, last = result.buckets
    expected = BLEU().corpus_score(hypotheses[:3], [references[:3]]).score
    assert (first.bleu, first.exact_match) == pytest.approx((expected, 2 / 3))
    assert (second.bleu, second.chrf, second.exact_match) == pytest.approx((100, 100, 1))
    assert (last.low, last.high, last.exact_match) == (31, None, 0)
    result = measure_translation(sources, hypotheses, references, bucket_ends=[4])
    assert [(bucket.name, bucket.sentences) for bucket in result.buckets] == [("1-4", 2), ("5+", 3)]


def test_chinese_is_split_into_characters():
    chinese, english = ["我 爱你 。", "他在 Wikipedia 上工作了很多年"], ["I love you.", "He worked there for years."]
    to_english = measure_translation(chinese, english, english)
    assert (to_english.tokenize, to_english.length_unit) == ("13a", "characters")
    assert [bucket.name for bucket in to_english.buckets] == ["1-5", "16-20"]
    to_chinese = measure_translation(english, chinese, chinese)
    assert (to_chinese.tokenize, to_chinese.length_unit) == ("zh", "words")
    assert "tok:zh" in to_chinese.signature
    assert compare_translations(chinese, chinese, chinese).tokenize == "zh"


def test_the_seed_decides_the_interval():
    hypotheses, references = a_set(30)
    assert measure(hypotheses, references, seed=4) == measure(hypotheses, references, seed=4)
    assert measure(hypotheses, references, seed=4) != measure(hypotheses, references, seed=5)


def test_results_can_be_stored_and_read():
    hypotheses, references = a_set(12)
    result = measure(hypotheses, references)
    stored = json.loads(json.dumps(result.as_dict()))
    assert stored["buckets"] == [
        {name: getattr(bucket, name) for name in stored["buckets"][0]} for bucket in result.buckets
    ]
    assert stored["bleu"] == result.bleu
    assert str(result).startswith(f"BLEU {result.bleu:.2f} [{result.bleu_low:.2f}, ")
    assert result.signature in str(result)
    paired = compare_translations(hypotheses, references, references, trials=50)
    assert json.loads(json.dumps(paired.as_dict()))["chrf"]["p_value"] == paired.chrf.p_value
    assert str(paired).startswith("BLEU +")


def test_uneven_and_empty_sets_are_refused():
    with pytest.raises(FormatError, match=r"2 sources, 1 hypotheses, 2 references; line i of each"):
        measure_translation(["a", "b"], ["a"], ["a", "b"])
    with pytest.raises(FormatError, match="no sentences"):
        measure_translation([], [], [])
    with pytest.raises(FormatError, match="1 first, 2 second"):
        compare_translations(["a"], ["a", "b"], ["a", "b"])


def test_settings_without_a_meaning_are_refused():
    with pytest.raises(SettingError, match="no tokenize 'moses' for BLEU; expected one of 13a"):
        measure(["a"], ["a"], tokenize="moses")
    for ends in ([], [0, 5], [5, 5]):
        with pytest.raises(SettingError, match="rising numbers"):
            measure(["a"], ["a"], bucket_ends=ends)
    with pytest.raises(SettingError, match="at least 1 resample"):
        measure(["a"], ["a"], resamples=0)


def test_a_missing_sacrebleu_is_explained(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(SettingError, match="pip install"):
        measure(["a"], ["a"])
