"""Entities and the figures of tagging, against conlleval, seqeval and worked values."""

import random
import warnings

import pytest

from wenmai.core.errors import CorpusError
from wenmai.measures.tagging import entities, measure_tagging

MARKS = {
    "lenient": "OBIES",
    "IOB1": "OIB",
    "IOB2": "OIB",
    "IOE1": "OIE",
    "IOE2": "OIE",
    "IOBES": "OIBES",
    "BILOU": "OBILU",
}


def drawn(marks, seed, sentences=400):
    draw = random.Random(seed)
    kinds = ["PER", "LOC", "a-b"]

    def one():
        mark = draw.choice(marks)
        return mark if mark == "O" else f"{mark}-{draw.choice(kinds)}"

    gold = [[one() for _ in range(draw.randint(1, 9))] for _ in range(sentences)]
    # mostly the gold tags, so that some entities are right
    return gold, [[tag if draw.random() < 0.8 else one() for tag in tags] for tags in gold]


@pytest.mark.parity
@pytest.mark.parametrize("seed", range(8))
def test_agrees_with_conlleval(seed):
    import conlleval

    gold, predicted = drawn("OBI", seed)
    found = measure_tagging(gold, predicted, resamples=1)
    lines = [
        line for tags in zip(gold, predicted, strict=True) for line in (*map(" ".join, zip(*tags, strict=True)), "")
    ]
    theirs = conlleval.evaluate([f"w {line}".strip() if line else "" for line in lines])["overall"]["chunks"]["evals"]
    assert (found.precision, found.recall, found.f1) == pytest.approx((theirs["prec"], theirs["rec"], theirs["f1"]))
    assert 0.1 < found.f1 < 1


@pytest.mark.parametrize(
    ("rules", "tags", "expected"),
    [
        ("lenient", "I-A I-A O I-B", {(0, 2, "A"), (3, 4, "B")}),
        ("IOB2", "I-A I-A O I-B", set()),
        ("IOB1", "I-A I-A B-A I-B", {(0, 2, "A"), (2, 3, "A"), (3, 4, "B")}),
        ("lenient", "S-A B-A I-A E-A E-A", {(0, 1, "A"), (1, 4, "A"), (4, 5, "A")}),
        ("IOBES", "S-A B-A I-A E-A E-A", {(0, 1, "A"), (1, 4, "A")}),
        ("IOBES", "B-A I-A O", set()),
        ("BILOU", "U-A B-A L-A", {(0, 1, "A"), (1, 3, "A")}),
        ("IOE2", "I-A E-A I-A", {(0, 2, "A")}),
        ("IOE1", "I-A E-A I-A", {(0, 2, "A"), (2, 3, "A")}),
        ("IOB2", "", set()),
    ],
)
def test_rules_decide_what_is_an_entity(rules, tags, expected):
    assert entities(tags.split(), rules=rules) == expected


@pytest.mark.parity
@pytest.mark.parametrize("rules", MARKS)
@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_seqeval(rules, seed):
    import seqeval.metrics as metrics
    import seqeval.scheme

    gold, predicted = drawn(MARKS[rules], seed)
    found = measure_tagging(gold, predicted, rules=rules, resamples=1)
    mode = {} if rules == "lenient" else {"mode": "strict", "scheme": getattr(seqeval.scheme, rules)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for average, value in (("micro", found.f1), ("macro", found.macro_f1)):
            assert value == pytest.approx(metrics.f1_score(gold, predicted, average=average, **mode))
        assert found.precision == pytest.approx(metrics.precision_score(gold, predicted, **mode))
        assert found.recall == pytest.approx(metrics.recall_score(gold, predicted, **mode))
        report = metrics.classification_report(gold, predicted, output_dict=True, **mode)
    assert found.accuracy == pytest.approx(metrics.accuracy_score(gold, predicted))
    assert len(found.types) == 3
    for one in found.types:
        wanted = [report[one.label][name] for name in ("precision", "recall", "f1-score", "support")]
        assert [one.precision, one.recall, one.f1, one.support] == pytest.approx(wanted)


def test_intervals_lie_around_their_values():
    gold, predicted = drawn("OBI", 1)
    found = measure_tagging(gold, predicted)
    assert found.f1_low < found.f1 < found.f1_high
    assert found.macro_f1_low < found.macro_f1 < found.macro_f1_high
    assert found.accuracy_low < found.accuracy < found.accuracy_high
    assert all(one.low < one.f1 < one.high for one in found.types)
    assert measure_tagging(gold, predicted).as_dict() == found.as_dict()
    assert f"entity F1 {found.f1:.4f} [" in str(found)


def test_types_are_counted_where_first_and_last_token_agree():
    gold = [["B-A", "I-A", "O", "B-B", "O"], ["B-A", "O", "B-C"]]
    found = [["B-A", "O", "O", "B-A", "B-C"], ["B-A", "O", "B-C"]]
    table = measure_tagging(gold, found, resamples=1).confusion
    assert table == (
        (1, 0, 0, 1),  # of A one is right, and one is longer than what was found
        (1, 0, 0, 0),
        (0, 0, 1, 0),
        (1, 0, 1, 0),  # what was found where no entity is: one that is too short, one of nothing
    )
    assert measure_tagging([["B-A"]], [["B-A"]], rules="none").confusion is None


def test_no_entities_at_all_are_zero():
    found = measure_tagging([["O", "O"]], [["O", "O"]])
    assert (found.accuracy, found.precision, found.recall, found.f1, found.macro_f1) == (1, 0, 0, 0, 0)
    assert found.types == ()


def test_types_that_are_only_predicted_count_in_the_macro_mean():
    found = measure_tagging([["B-A", "O"]], [["B-A", "B-B"]], resamples=1)
    assert found.macro_f1 == pytest.approx(0.5)
    assert [(one.label, one.support, one.found) for one in found.types] == [("A", 1, 1), ("B", 0, 1)]


def test_what_cannot_be_measured_is_one_message():
    with pytest.raises(CorpusError, match="0 sentences"):
        measure_tagging([], [])
    with pytest.raises(CorpusError, match="sentence 2: 1 tokens have 2"):
        measure_tagging([["O"], ["O"]], [["O"], ["O", "O"]])
    with pytest.raises(CorpusError, match="mark 'S'"):
        measure_tagging([["S-A"]], [["O"]], rules="IOB2")


def test_a_type_that_was_not_drawn_has_no_score_in_a_resample():
    gold = [["O", "O"]] * 40 + [["B-A", "O"]] * 2
    found = measure_tagging(gold, gold)
    assert (found.f1_low, found.f1, found.f1_high) == (1.0, 1.0, 1.0)
    assert (found.macro_f1_low, found.macro_f1, found.macro_f1_high) == (1.0, 1.0, 1.0)
    assert (found.types[0].low, found.types[0].high) == (1.0, 1.0)
    nothing = measure_tagging([["O"]] * 9, [["O"]] * 9)
    assert (nothing.f1, nothing.f1_low, nothing.macro_f1) == (0.0, None, 0.0)
