"""Measures of classification against scikit-learn, fastText's test and figures worked by hand."""

import random

import pytest
from sklearn.metrics import f1_score, precision_recall_fscore_support
from sklearn.preprocessing import MultiLabelBinarizer

from wenmai.core.errors import CorpusError
from wenmai.measures.classification import measure_classification, precision_recall_curves


def named(*labels):
    return [(label, 0.5) for label in labels]


def test_a_worked_example():
    gold = [["a"], ["a"], ["b"], ["c"]]
    found = measure_classification(gold, [named("a"), named("b"), named("b"), named("a")], ["a", "b"])
    assert found.accuracy == 0.5
    assert found.unseen == 1
    assert found.unknown_labels == {"c": 1}
    assert found.precision_at_k == pytest.approx(2 / 3)  # of three texts with a known label
    assert found.recall_at_k == pytest.approx(2 / 3)
    assert found.f1_of("a") == pytest.approx(2 / 4)
    assert found.f1_of("b") == pytest.approx(2 / 3)
    assert found.macro_f1 == pytest.approx((2 / 4 + 2 / 3 + 0) / 3)
    assert found.accuracy_low <= 0.5 <= found.accuracy_high


@pytest.mark.parametrize("k", [1, 2])
def test_agrees_with_scikit_learn(k):
    draw = random.Random(k)
    labels = ["a", "b", "c", "d"]
    gold = [draw.sample(labels, draw.randint(1, 3)) for _ in range(300)]
    predicted = [named(*draw.sample(labels, 2)) for _ in gold]
    found = measure_classification(gold, predicted, labels, k=k)
    binary = MultiLabelBinarizer(classes=labels)
    truth = binary.fit_transform(gold)
    guess = binary.transform([[label for label, _ in answer[:k]] for answer in predicted])
    assert found.micro_f1 == pytest.approx(f1_score(truth, guess, average="micro"))
    assert found.macro_f1 == pytest.approx(f1_score(truth, guess, average="macro"))
    wanted = precision_recall_fscore_support(truth, guess, zero_division=0)
    for place, label in enumerate(labels):
        one = next(result for result in found.labels if result.label == label)
        expected = [column[place] for column in wanted]
        assert [one.precision, one.recall, one.f1, one.support] == pytest.approx(expected)
    assert found.macro_f1_low <= found.macro_f1 <= found.macro_f1_high


def test_texts_without_an_answer_count():
    found = measure_classification([["a"], ["b"]], [[], named("b")], ["a", "b"])
    assert (found.accuracy, found.precision_at_k, found.recall_at_k) == (0.5, 1.0, 0.5)


def test_nothing_to_measure():
    with pytest.raises(CorpusError):
        measure_classification([], [], ["a"])
    with pytest.raises(CorpusError):
        measure_classification([["a"]], [], ["a"])


def test_precision_recall_curves():
    gold = [["a"], ["b"], ["a"], ["b"]]
    predicted = [[("a", 0.9)], [("a", 0.8)], [("a", 0.7)], [("a", 0.1), ("b", 0.9)]]
    (curve, other) = precision_recall_curves(gold, predicted, ["a", "b", "never"])
    assert curve.thresholds == (0.1, 0.7, 0.8, 0.9)
    assert curve.precision_at_recall(1.0) == pytest.approx(2 / 3)
    assert curve.recall_at_precision(1.0) == pytest.approx(1 / 2)
    assert curve.average_precision == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)
    assert other.label == "b"
