"""Measures of conversions from pinyin, against their definitions."""

import json
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wenmai.core.errors import CorpusError
from wenmai.measures.conversion import edit_distance, measure_conversion


def naive(first, second):
    @cache
    def distance(i, j):
        if not i or not j:
            return i + j
        step = distance(i - 1, j - 1) + (first[i - 1] != second[j - 1])
        return min(step, distance(i - 1, j) + 1, distance(i, j - 1) + 1)

    return distance(len(first), len(second))


@given(st.text("abc", max_size=8), st.text("abcd", max_size=8))
def test_the_distance_is_the_definition(first, second):
    assert edit_distance(first, second) == naive(first, second)


def test_the_published_example():
    assert edit_distance("出境手续在哪儿办理？", "出境手续在哪办里？") == 2
    found = measure_conversion(["出境手续在哪儿办理？"], ["出境手续在哪办里？"])
    assert (found.cer, found.distance, found.characters) == (0.2, 2, 10)
    assert found.sentence_accuracy == 0
    assert (found.equally_long, found.character_accuracy, found.character_low) == (0, None, None)
    assert found.syllable_accuracy is None
    assert found.coverage == found.tones == found.syllables == ()


def test_all_sentences_count_together():
    found = measure_conversion(["你好", "我 爱你们"], ["你好", "我爱他"])
    assert found.cer == 2 / 6
    assert found.sentence_accuracy == 0.5
    assert found.sentence_low < 0.5 < found.sentence_high
    assert found.cer_low <= found.cer <= found.cer_high
    assert (found.equally_long, found.character_accuracy) == (1, 1.0)
    assert str(found).startswith("CER 0.3333 [0.0000, 0.5000], sentences 50.0% [")


def test_syllables_tones_and_confusions():
    references = ["他是哪儿的人。", "她是谁"]
    readings = [["ta1", "shi4", "na3", "er5", "de5", "ren2", "。"], ["ta1", "shi4", "shei2"]]
    found = measure_conversion(references, ["她是哪的人。", "他是谁"], readings=readings)
    assert found.syllable_accuracy == 6 / 9
    assert {one.tone: (one.syllables, one.accuracy) for one in found.tones} == {
        1: (2, 0),
        2: (2, 1),
        3: (1, 1),
        4: (2, 1),
        5: (2, 0.5),
    }
    first, second = found.syllables
    assert (first.syllable, first.errors, first.total) == ("ta1", 2, 2)
    assert set(first.confusions) == {("他", "她", 1), ("她", "他", 1)}
    assert (second.syllable, second.confusions) == ("er5", (("儿", "", 1),))
    toneless = measure_conversion(["你a"], ["你a"], readings=[["ni", "a"]])
    assert [(one.tone, one.syllables, one.accuracy) for one in toneless.tones] == [(0, 1, 1.0)]


def test_an_insertion_is_no_error_of_a_syllable():
    found = measure_conversion(["你好"], ["你们好"], readings=[["ni3", "hao3"]])
    assert found.syllable_accuracy == 1
    assert found.cer == 0.5


def test_coverage_of_n_best_lists():
    found = measure_conversion(
        ["甲", "乙", "丙"], ["甲", "丁", "丁"], n_best=[["甲"], ["丁", "乙"], ["丁", "戊", "己"]]
    )
    assert [(one.k, one.share) for one in found.coverage] == [(1, 1 / 3), (2, 2 / 3), (3, 2 / 3)]
    assert all(one.low < one.share < one.high for one in found.coverage)
    assert found.coverage[0].share == found.sentence_accuracy


def test_the_interval_covers_most_of_the_resamples():
    references = ["你好吗"] * 40
    hypotheses = ["你好吗"] * 20 + ["你号码"] * 20
    found = measure_conversion(references, hypotheses)
    assert 0.2 < found.cer_low < found.cer < found.cer_high < 0.5
    assert measure_conversion(references, hypotheses) == found


def test_results_are_plain_values():
    found = measure_conversion(["你好"], ["你号"], readings=[["ni3", "hao3"]], n_best=[["你号", "你好"]])
    again = json.loads(json.dumps(found.as_dict()))
    assert again == found.as_dict()
    assert again["syllables"][0]["confusions"] == [["好", "号", 1]]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"references": [], "hypotheses": []}, "no sentence"),
        ({"references": ["a"], "hypotheses": []}, "1 references and 0 hypotheses"),
        ({"references": ["a", " "], "hypotheses": ["a", "b"]}, "reference 1 is empty"),
        ({"references": ["a"], "hypotheses": ["a"], "n_best": []}, "0 n-best lists"),
        ({"references": ["你好"], "hypotheses": ["a"], "readings": [["ni3"]]}, "its reading has 1 items"),
    ],
)
def test_lists_that_do_not_fit(arguments, says):
    with pytest.raises(CorpusError, match=says):
        measure_conversion(arguments.pop("references"), arguments.pop("hypotheses"), **arguments)


def test_an_empty_hypothesis_is_all_wrong():
    found = measure_conversion(["你好"], [""], readings=[["ni3", "hao3"]], n_best=[[]])
    assert found.cer == 1
    assert found.syllable_accuracy == 0
    assert found.coverage == ()
