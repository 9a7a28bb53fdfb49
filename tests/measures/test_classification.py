"""Measures of classification against scikit-learn, fastText's test and figures worked by hand."""

import random

import numpy as np
import pytest
import sklearn.metrics
from sklearn.metrics import f1_score, precision_recall_fscore_support
from sklearn.preprocessing import MultiLabelBinarizer

from wenmai.core.errors import CorpusError
from wenmai.measures.classification import (
    classification_metrics,
    measure_choices,
    measure_classification,
    precision_recall_curves,
)


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


def test_intervals_of_f1_are_those_of_the_metric_on_drawn_texts():
    draw = random.Random(3)
    labels = ["a", "b", "c"]
    gold = [draw.sample(labels, draw.randint(1, 2)) for _ in range(40)]
    predicted = [named(draw.choice([*truth, *labels])) for truth in gold]
    found = measure_classification(gold, predicted, labels, resamples=30)
    binary = MultiLabelBinarizer(classes=labels)
    truth, guess = binary.fit_transform(gold), binary.transform([[answer[0][0]] for answer in predicted])
    drawn = np.random.default_rng(0).integers(40, size=(30, 40))

    def interval(average, only=None):
        scores = [f1_score(truth[rows], guess[rows], average=average, labels=only) for rows in drawn]
        return pytest.approx(np.percentile(scores, (2.5, 97.5)).tolist())

    assert [found.micro_f1_low, found.micro_f1_high] == interval("micro")
    assert [found.macro_f1_low, found.macro_f1_high] == interval("macro")
    for one in found.labels:
        assert [one.f1_low, one.f1_high] == interval("macro", [labels.index(one.label)])
    assert f"micro F1 {found.micro_f1:.4f} [{found.micro_f1_low:.4f}, {found.micro_f1_high:.4f}]" in str(found)


def test_a_label_that_no_text_has_has_no_interval():
    found = measure_classification([["a"], ["a"]], [named("a"), named("b")], ["a", "b"])
    assert [(one.label, one.f1_low is None) for one in found.labels] == [("a", False), ("b", True)]


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
    assert curve.recall_at_precision(2.0) == curve.precision_at_recall(2.0) == 0.0
    assert curve.average_precision == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)
    assert other.label == "b"


def test_all_labels_may_be_measured():
    gold = [["a"], ["b"]]
    every = [named("b", "a"), named("a", "b")]
    assert measure_classification(gold, every, ["a", "b"], k=-1).recall_at_k == 1


def test_a_label_that_was_not_drawn_has_no_score_in_a_resample():
    """A classifier without a mistake is perfect in every resample, also in those without its rare label."""
    gold = [["a"]] * 40 + [["b"]] * 2
    found = measure_classification(gold, [named(*labels) for labels in gold], ["a", "b"])
    for low, high in (
        (found.macro_f1_low, found.macro_f1_high),
        (found.micro_f1_low, found.micro_f1_high),
        (found.matthews_low, found.matthews_high),
        *((one.f1_low, one.f1_high) for one in found.labels),
    ):
        assert (low, high) == (1.0, 1.0)


def test_one_label_each_gives_matthews_and_a_confusion_table():
    draw = np.random.default_rng(4)
    names = ["a", "b", "c", "d"]
    for classes in (2, 4):
        gold = draw.integers(0, classes, 80)
        found = np.where(draw.random(80) < 0.6, gold, draw.integers(0, classes, 80))
        result = measure_classification(
            [[names[one]] for one in gold], [[(names[one], 0.5)] for one in found], names, resamples=400
        )
        assert result.matthews == pytest.approx(sklearn.metrics.matthews_corrcoef(gold, found))
        assert result.matthews_low < result.matthews < result.matthews_high
        order = [names.index(label.label) for label in result.labels]
        table = sklearn.metrics.confusion_matrix(gold, found, labels=order)
        assert np.array_equal(result.confusion, table)
        metrics = classification_metrics(gold, found, 4)
        assert metrics["matthews"] == pytest.approx(result.matthews)
        assert metrics["macro_f1"] == pytest.approx(sklearn.metrics.f1_score(gold, found, average="macro"))
        assert metrics["accuracy"] == result.accuracy


def test_several_labels_have_neither():
    result = measure_classification([["a", "b"], ["b"]], [[("a", 0.9)], [("b", 0.9)]], ["a", "b"])
    assert result.matthews is result.confusion is None
    assert "Matthews" not in str(result)


def test_matthews_of_one_class_is_0():
    result = measure_classification([["a"], ["a"]], [[("a", 0.9)], [("a", 0.9)]], ["a", "b"])
    assert result.matthews == 0


def test_choices():
    result = measure_choices(np.array([1.0, 0.0, 1.0, 1.0]))
    assert (result.questions, result.accuracy) == (4, 0.75)
    assert result.accuracy_low <= 0.75 <= result.accuracy_high
    with pytest.raises(CorpusError, match="no questions"):
        measure_choices(np.zeros(0))
