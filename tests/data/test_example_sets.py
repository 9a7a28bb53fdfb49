"""Sets of labelled examples: their parts, examples from Python, limits, and what is set aside to validate on."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.labelled_files import written
from wenmai.core.errors import CorpusError, SettingError
from wenmai.data.drawing import drawn
from wenmai.data.example_settings import with_columns
from wenmai.data.examples import (
    Answer,
    ChoiceExample,
    ExamplesConfig,
    ExamplesStats,
    PairExample,
    ScoredExample,
    SpanExample,
    TaggedSentence,
    TextExample,
    open_examples,
    open_train_and_valid,
)
from wenmai.data.labelled import read_labelled
from wenmai.data.pairs import read_pairs
from wenmai.data.typed import WeightedText


def test_a_folder_has_its_splits(tmp_path):
    written(tmp_path / "train.tsv", "sentence\tlabel\na\t1\n")
    with pytest.raises(
        CorpusError, match=r"a folder with train\.tsv; expected one file called dev or valid, such as dev\.tsv"
    ):
        open_examples(tmp_path, "classification", split="dev")
    written(tmp_path / "validation.tsv", "sentence\tlabel\nb\t0\n")
    train, dev = open_train_and_valid(tmp_path, "classification")
    assert (list(train), list(dev or ())) == ([TextExample("a", "1")], [TextExample("b", "0")])
    again, dev = open_train_and_valid(list(train.sources), "classification")  # as a run that goes on reads them
    assert (list(again), list(dev or ())) == ([TextExample("a", "1")], [TextExample("b", "0")])
    train, dev = open_train_and_valid(tmp_path / "train.tsv", "classification", ExamplesConfig(valid=str(tmp_path)))
    assert list(dev or ()) == [TextExample("b", "0")]


def test_questions_without_a_text_are_set_aside_by_what_is_asked():
    rows = [ChoiceExample(("",), "which one?", (f"yes {number}", "no"), 0) for number in range(100)]
    train, aside = open_train_and_valid(rows, "choice")
    assert aside is not None
    assert (len(list(train)) + len(list(aside)), 0 < len(list(aside)) < 30) == (100, True)


@pytest.mark.parametrize(
    ("task", "example", "message"),
    [
        ("classification", TextExample(3, "x"), "text is '3'; expected a text"),
        ("classification", TextExample("a", ["x", "y"]), ".*expected one label"),
        ("classification", TextExample("a", ""), "has no label"),
        ("pair", PairExample("a", None, "x"), "second is 'None'; expected a text"),
        ("regression", ScoredExample("a", None, float("nan")), "score is 'nan'; expected a number"),
        ("choice", ChoiceExample(("a",), "b", ("c", "d"), 5), "the right answer is '5'; expected one of the 2"),
        ("choice", ChoiceExample(("a",), "b", ("c", "d"), -1), "has no right answer"),
        ("choice", ChoiceExample(("a",), "b", None, 0), ".*expected a whole ChoiceExample"),
        ("span", SpanExample("1", "", "a", "b", None), ".*expected a whole SpanExample"),
    ],
)
def test_typed_examples_are_checked_as_those_of_files_are(task, example, message):
    with pytest.raises(CorpusError, match=f"examples from Python: item 0: {message}"):
        list(open_examples([example], task))


def test_answers_of_typed_questions_may_be_texts():
    asked = SpanExample("1", "", "Paris is big", "Which one?", ("Paris",))
    (found,) = open_examples([asked], "span")
    assert [(answer.text, answer.start) for answer in found.answers] == [("Paris", 0)]


def test_values_of_numpy_are_those_of_python():
    plain = [("a", "1"), ("b", "0")]
    arrays = [
        [("a", np.int64(1)), ("b", np.int64(0))],
        np.array(plain),
        [{"text": np.str_("a"), "label": np.int64(1)}, {"text": "b", "label": np.array(0)}],
        [TextExample("a", np.int64(1)), TextExample("b", np.int64(0))],
    ]
    for items in arrays:
        assert list(open_examples(items, "classification")) == [TextExample(*one) for one in plain]
    tagged = {"tokens": np.array(["a", "b"]), "tags": np.array(["B-X", "O"])}
    assert list(open_examples([tagged], "tagging")) == [TaggedSentence(("a", "b"), ("B-X", "O"))]
    asked = {
        "question": "Who?",
        "context": "Ann went",
        "answers": {"text": np.array(["Ann"]), "answer_start": np.array([0])},
    }
    assert next(iter(open_examples([asked], "span"))).answers[0].text == "Ann"
    typed = SpanExample("1", "", "Ann went", "Who?", (Answer("went", np.int64(4)),), np.bool_(False))
    assert list(open_examples([typed], "span")) == [typed]
    chosen = ChoiceExample(("Ann went.",), "Who?", ("Bob", "Ann"), np.int64(1))
    (found,) = open_examples([chosen], "choice")
    assert found == chosen
    assert type(found.answer) is int

    class Table:
        """What pandas would have."""

        columns, iloc = ("text", "label"), None

        def to_dict(self, orient):
            assert orient == "records"
            return [dict(zip(self.columns, one, strict=True)) for one in (*plain, ("c", math.nan), (math.nan, "1"))]

    class Sentences(Table):
        def to_dict(self, orient):
            return [tagged]

    assert list(open_examples(Sentences(), "tagging")) == [TaggedSentence(("a", "b"), ("B-X", "O"))]
    opened = open_examples(Table(), "classification", ExamplesConfig(unlabelled="skip"))
    stats = ExamplesStats()
    assert [one.example for one in opened.read(stats)] == [TextExample(*one) for one in plain]
    assert (stats.without_label, stats.blank) == (1, 1)


@pytest.mark.parametrize(
    ("task", "records", "message"),
    [
        ("classification", [{"text": "a", "label": "x"}, {"text": "b"}, {"text": "c", "label": None}], "has no"),
        ("classification", [{"review": "a"}, {"review": "b", "label": "x"}], "has no 'label'"),
        ("pair", [{"premise": "a", "hypothesis": "b"}, {"premise": "c", "hypothesis": "d", "label": "x"}], "has no"),
        ("regression", [{"text": "a", "score": 1}, {"text": "b"}], "has no 'score'"),
        ("choice", [{"question": "a", "options": ["b", "c"], "answer": 0}, {"question": "a", "options": ["b", "c"]}],
         "has no right answer"),
    ],
)  # fmt: skip
def test_mappings_from_python_may_lack_their_label_as_records_of_a_file_may(tmp_path, task, records, message):
    path = written(tmp_path / "a.jsonl", records)
    skip = ExamplesConfig(unlabelled="skip")
    of_file, ours = (open_examples(spec, task, skip) for spec in (path, records))
    assert list(ours) == list(of_file) != []
    assert ours.stats().without_label == of_file.stats().without_label == len(records) - 1
    with pytest.raises(CorpusError, match=rf"examples from Python: item \d: {message}.*\. unlabelled=skip leaves out"):
        list(open_examples(records, task))


def test_mappings_of_which_none_has_a_label_are_refused_as_those_of_a_file_are(tmp_path):
    records, skip = [{"text": "a"}, {"text": "b", "verdict": "x"}], ExamplesConfig(unlabelled="skip")
    for spec in (written(tmp_path / "a.jsonl", records), records):
        with pytest.raises(CorpusError, match=r": no column has a usual name for the label \(columns: text\)"):
            list(open_examples(spec, "classification", skip))


@pytest.mark.parametrize("columns", [
    (["a", "b"], ["x", "y"]), (["a", "b", "c"], ["x", "y", "z"]), (["a", "b"], np.array([1, 2])),
    ([["a"], ["b"]], [["x"], ["y"]]),
])  # fmt: skip
@pytest.mark.parametrize("task", ["classification", "tagging", "regression", "texts", "translation"])
def test_columns_are_not_taken_for_rows(task, columns):
    def read(spec):
        if task == "texts":
            return list(read_labelled(spec))
        return list(read_pairs(spec) if task == "translation" else open_examples(spec, task))

    with pytest.raises(
        CorpusError, match="from Python: a tuple of 2 lists may be rows or columns; give a list of rows"
    ):
        read(columns)


def test_a_tuple_may_have_rows():
    rows = (("a", "x"), ("b", "y"))
    expected = [TextExample(*row) for row in rows]
    assert list(open_examples(rows, "classification")) == expected
    assert list(open_examples([*map(list, rows)], "classification")) == expected
    assert list(open_examples((*map(list, rows), ["c", "x"]), "classification"))[:2] == expected
    assert list(open_examples(zip("ab", "xy", strict=True), "classification")) == expected
    assert list(read_pairs(rows)) == [*rows]


def test_columns_of_pairs_are_not_taken_for_rows():
    for labelled, columns in ((True, (["a", "b", "c"], ["d", "e", "f"], ["x", "y", "z"])), (False, (["a"], ["b"]))):
        with pytest.raises(CorpusError, match=f"a tuple of {len(columns)} lists may be rows or columns"):
            list(open_examples(columns, "pair", labelled=labelled))
    with pytest.raises(CorpusError, match="item 0: has 2 parts; expected two texts and a label"):
        list(open_examples((["a", "b"], ["x", "y"]), "pair"))


def test_labels_and_numbers_of_typed_examples_become_what_those_of_files_are():
    (found,) = open_examples([WeightedText("a", 1, 0.5)], "classification")
    assert (found, found.weight) == (TextExample("a", "1"), 0.5)
    (found,) = open_examples([ScoredExample("a", None, np.float32(0.5))], "regression")
    assert type(found.score) is float
    (found,) = open_examples([ChoiceExample(("a",), "b", ("c", "d"), -1)], "choice", labelled=False)
    assert found.answer == -1


@pytest.mark.parametrize("task", ["classification", "pair"])
def test_a_limit_draws_from_all_of_a_file_and_keeps_the_shares_of_labels(task):
    labels = ["a"] * 600 + ["b"] * 300 + ["c"] * 97 + ["d"] * 3
    texts = [(f"text {number}",) if task == "classification" else (f"{number}", "x") for number in range(1000)]
    rows = [(*text, label) for text, label in zip(texts, labels, strict=True)]
    config = ExamplesConfig(valid_share=0, limit=20)
    train, _ = open_train_and_valid(rows, task, config, seed=3)
    found = list(train)
    assert Counter(one.label for one in found) == {"a": 12, "b": 6, "c": 1, "d": 1}
    assert len(set(found)) == 20
    assert found == list(train)  # and at every reading
    assert found == [one for one in open_examples(rows, task) if one in found]  # in the order of the file
    assert found != list(open_train_and_valid(rows, task, config, seed=4)[0])
    assert train.labels() == ("a", "b", "c", "d")
    assert train.stats().examples == 20
    assert max(rows.index(tuple(one)[: len(rows[0])]) for one in found if one.label == "a") > 200
    assert len(list(open_train_and_valid(rows, task, ExamplesConfig(valid_share=0, limit=1000))[0])) == 1000
    with pytest.raises(SettingError, match="limit=3: there are 4 labels, of which each needs an example"):
        list(open_train_and_valid(rows, task, ExamplesConfig(valid_share=0, limit=3))[0])


def test_a_limit_draws_from_all_numbers_too():
    rows = [(f"text {number}", number / 10) for number in range(1000)]
    found = [one.score for one in open_train_and_valid(rows, "regression", ExamplesConfig(valid_share=0, limit=50))[0]]
    assert found == sorted(found)
    assert len(found) == 50
    assert 30 < sum(found) / 50 < 70


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.integers(5, 70), st.integers(0, 9))
def test_what_is_drawn_has_every_label_and_no_more_than_there_is(labels, limit, seed):
    places = drawn([str(label) for label in labels], limit, seed)
    assert len(places) == min(limit, len(labels))
    for label, count in Counter(labels).items():
        share = len(places) * count / len(labels)
        have = sum(labels[place] == label for place in places)
        assert 1 <= have <= count
        assert share - 5 < have < share + 1 or have == 1


def test_a_share_is_set_aside_by_the_texts_alone():
    rows = [(f"text {number // 2}", str(number % 3)) for number in range(1000)]
    train, dev = open_train_and_valid(rows, "classification", ExamplesConfig(valid_share=0.2, limit=30))
    assert dev is not None
    assert len(list(train)) == 30
    assert 120 < len(list(dev)) < 280
    whole = open_train_and_valid(rows, "classification", ExamplesConfig(valid_share=0.2))[0]
    assert not {one.text for one in whole} & {one.text for one in dev}
    assert len(list(whole)) + len(list(dev)) == 1000
    assert train.fingerprint() != whole.fingerprint() != dev.fingerprint()
    assert open_train_and_valid(rows, "classification", ExamplesConfig(valid_share=0))[1] is None
    few = open_train_and_valid([("a", "b")], "classification", ExamplesConfig(valid_share=0.001))[1]
    with pytest.raises(
        CorpusError,
        match=r"too few different examples to set some aside \(valid_share=0\.001\); give valid=FILE, or valid_share=0",
    ):
        list(few or ())


def test_where_all_texts_are_empty_there_are_no_examples():
    for part in open_train_and_valid([("", "good"), ("", "bad")], "classification", ExamplesConfig()):
        with pytest.raises(CorpusError, match="no examples; 2 examples were left out because a text is empty"):
            list(part or ())


def test_tags_without_blank_lines_are_one_sentence(tmp_path):
    path = tmp_path / "tags.txt"

    def read() -> list[Any]:
        return [list(part or ()) for part in open_train_and_valid(path, "tagging", ExamplesConfig())]

    path.write_text("Ada B-PER\nwrites O\n" * 20)
    with pytest.raises(CorpusError, match="all of it is one sentence; put a blank line after each sentence"):
        read()
    path.write_text("Ada B-PER\nwrites O\n\n" * 2)  # equal sentences are on one side
    with pytest.raises(CorpusError, match=r"too few different examples(?!.*one sentence)"):
        read()


class Numbered:
    """What pandas makes of a table without a line of names: its columns are numbered from 0."""

    iloc = None

    def __init__(self, *rows):
        self.rows = rows
        self.columns = range(len(rows[0]))

    def to_dict(self, orient):
        assert orient == "records"
        return [dict(enumerate(row)) for row in self.rows]


def test_a_table_without_names_of_columns_has_rows_and_numbers():
    assert list(open_examples(Numbered(("a", "x"), ("b", "y")), "classification")) == [
        TextExample("a", "x"),
        TextExample("b", "y"),
    ]
    wide = Numbered((7, "a", "x"), (8, "b", "y"))
    with pytest.raises(CorpusError, match=r"item 0: has 3 parts; .*such as text_column=1 label_column=2"):
        list(open_examples(wide, "classification"))
    named = with_columns(ExamplesConfig(), {"text_column": 2, "label_column": "3"})
    assert list(open_examples(wide, "classification", named)) == [TextExample("a", "x"), TextExample("b", "y")]
    with pytest.raises(CorpusError, match="item 0: column 2 is 'x'; expected a number"):
        list(open_examples(Numbered(("a", "x")), "regression"))
    with pytest.raises(SettingError, match="token_column='x': expected a valid integer"):
        with_columns(ExamplesConfig(), {"token_column": "x"})
