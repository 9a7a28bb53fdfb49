"""Entities, and the figures of tagging."""

import pytest

from wenmai.measures.probes import TaggingProbe, TextProbe, accuracy_interval, entities, measure_tags


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("O B-A I-A O", {(1, 3, "A")}),
        ("B-A B-A I-B", {(0, 1, "A"), (1, 2, "A"), (2, 3, "B")}),
        ("I-A I-A O I-B", {(0, 2, "A"), (3, 4, "B")}),
        ("O O", set()),
        ("", set()),
    ],
)
def test_entities_are_those_of_conlleval(tags, expected):
    assert entities(tags.split()) == expected


def test_figures_of_tags_by_hand():
    gold = [("B-A", "I-A", "O"), ("B-B", "O"), ("O",)]
    predicted = [("B-A", "I-A", "B-B"), ("B-A", "O"), ("O",)]
    found = measure_tags(gold, predicted)
    assert found.accuracy == pytest.approx(4 / 6)
    assert (found.precision, found.recall) == (pytest.approx(1 / 3), pytest.approx(1 / 2))
    assert found.f1 == pytest.approx(2 * 1 / (3 + 2))
    assert found.low is not None
    assert 0 <= found.low <= found.f1 <= found.high <= 1


def test_tags_without_entities_have_an_accuracy_alone():
    found = measure_tags([("NN", "VB"), ("NN",)], [("NN", "NN"), ("NN",)])
    assert found.accuracy == pytest.approx(2 / 3)
    assert (found.precision, found.recall, found.f1) == (None, None, None)
    assert found.low <= found.accuracy <= found.high


def test_accuracy_of_labels():
    accuracy, low, high = accuracy_interval(["a", "b", "b", "a"], ["a", "b", "a", "a"])
    assert accuracy == 0.75
    assert 0 <= low <= accuracy <= high <= 1


def test_accuracy_of_few_labels_is_uncertain_even_if_all_are_right():
    accuracy, low, high = accuracy_interval(["a"] * 10, ["a"] * 10)
    assert (accuracy, high) == (1, pytest.approx(1))
    assert low == pytest.approx(0.7224672)  # Wilson's: 1 / (1 + z²/n)


def test_results_say_what_they_measured():
    shared = {"dataset": "d", "split": "dev", "low": 0.1, "high": 0.3, "covered": 0.5, "majority": 0.4}
    text = TextProbe(weighting="sif", accuracy=0.2, examples=9, **shared)
    assert "d dev, sif of word vectors: accuracy 0.2000 [0.1000, 0.3000]" in str(text)
    tags = TaggingProbe(window=1, accuracy=0.9, precision=None, recall=None, f1=None, sentences=3, tokens=9, **shared)
    assert "token accuracy 0.9000 [0.1000, 0.3000]" in str(tags)
    assert text.as_dict()["weighting"] == "sif"
    assert tags.as_dict()["f1"] is None
