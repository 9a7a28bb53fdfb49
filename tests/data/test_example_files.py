"""Questions whose answers are parts of texts, and what is wrong with files of examples."""

import json
from typing import Any

import pytest

from tests.data.labelled_files import read, written
from wenmai.core.errors import CorpusError
from wenmai.data.examples import (
    Answer,
    ExamplesConfig,
    SpanExample,
    open_examples,
)

# --- questions ----------------------------------------------------------------------------------------------------

CONTEXT = "Anna went to Bonn. Later Anna went home."
ASKED = {"id": "q1", "question": "Who?", "answers": [{"text": "Anna", "answer_start": 25}]}
SPAN = SpanExample("q1", "T", CONTEXT, "Who?", (Answer("Anna", 25),))


def squad(*questions: Any, **more: Any) -> dict[str, Any]:
    return {
        "version": "1.1",
        "data": [{"title": "T", "paragraphs": [{"context": CONTEXT, "qas": list(questions)}]}],
        **more,
    }


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("train.json", squad(ASKED)),
        ("pretty.json", json.dumps(squad(ASKED), indent=2)),
        ("packed.json.gz", squad(ASKED | {"is_impossible": False, "plausible_answers": []})),
        ("lines.jsonl", [ASKED | {"title": "T", "context": CONTEXT}]),
        (
            "columns.jsonl",
            [ASKED | {"title": "T", "context": CONTEXT, "answers": {"text": ["Anna"], "answer_start": [25]}}],
        ),
        ("list.json", [ASKED | {"title": "T", "context": CONTEXT}]),
        (
            "cmrc.json",
            [
                {
                    "context_id": "c",
                    "context_text": CONTEXT,
                    "title": "T",
                    "qas": [
                        {"query_id": "q1", "query_text": "Who?", "answers": [{"text": "Anna", "answer_start": 25}]}
                    ],
                }
            ],
        ),
    ],
)
def test_questions_are_read_from_files_as_people_have_them(tmp_path, name, content):
    found = open_examples(written(tmp_path / name, content), "span")
    assert list(found) == [SPAN]
    assert found.fingerprint() == open_examples([SPAN], "span").fingerprint()
    assert found.labels() == ()


def test_json_in_another_encoding(tmp_path):
    path = written(tmp_path / "a.json", squad(ASKED), "utf-16")
    assert read(path, "span", encoding="utf-16") == [SPAN]


def test_an_article_needs_no_title():
    assert list(open_examples([SPAN._replace(title="")], "span")) == [SPAN._replace(title="")]


def test_endless_blank_lines_are_refused(tmp_path):
    path = written(tmp_path / "a.tsv.gz", b"text\tlabel\n" + b"\n" * 1_100_000 + b"a\tb\n")
    with pytest.raises(CorpusError, match="1,000,000 lines before line 1000002 are blank"):
        read(path, "classification")


def test_offsets_count_characters(tmp_path):
    question = {"id": "1", "question": "?", "answers": [{"text": "b", "answer_start": 3}]}
    content = {"data": [{"paragraphs": [{"context": "\U0001f600é\u0301b", "qas": [question]}]}]}
    assert read(written(tmp_path / "a.json", content), "span")[0].answers == (Answer("b", 3),)


def test_questions_without_an_answer(tmp_path):
    none = ASKED | {"answers": [], "is_impossible": True, "plausible_answers": [{"text": "Bonn", "answer_start": 13}]}
    (found,) = read(written(tmp_path / "a.json", squad(none)), "span")
    assert (found.answers, found.impossible) == ((), True)
    unknown = squad({"id": "1", "question": "Who?"})
    with pytest.raises(CorpusError, match="question 1 has no answers"):
        read(written(tmp_path / "b.json", unknown), "span")
    (found,) = read(tmp_path / "b.json", "span", labelled=False)
    assert (found.answers, found.impossible) == ((), False)


def test_answers_are_taken_from_the_nearest_place_or_refused(tmp_path):
    asked = [
        ASKED | {"id": str(n), "answers": [{"text": t, "answer_start": s}]}
        for n, t, s in ((1, "Anna", 20), (2, "Anna", 3), (3, "Otto", 0))
    ]
    asked.append(
        ASKED | {"id": "4", "answers": [{"text": "Otto", "answer_start": -5}, {"text": "Bonn", "answer_start": 999}]}
    )
    path = written(tmp_path / "a.json", squad(*asked))
    with pytest.raises(CorpusError) as error:
        read(path, "span")
    assert str(error.value).startswith(
        f"{path}: the answer 'Anna' of question 1 is not at character 20 of its context, which has 'ater' there; "
        "it stands at 25. bad_answers=repair"
    )
    found = open_examples(path, "span", ExamplesConfig(bad_answers="repair"))
    assert [one.answers for one in found] == [
        (Answer("Anna", 25),),
        (Answer("Anna", 0),),
        (Answer("Otto", -1), Answer("Bonn", 13)),
    ]
    spans = found.stats().spans
    assert (spans.moved_answers, spans.absent_answers, spans.without_answer) == (3, 2, 1)
    assert len(found.stats().left_out()) == 3


@pytest.mark.parametrize(
    ("task", "name", "content", "message"),
    [
        ("classification", "a.tsv", "", r"a\.tsv: is empty; expected examples for classification"),
        ("classification", "a.tsv", "text\tlabel\n", "has a line of column names .text, label. and nothing below it"),
        ("classification", "a.tsv", "text\tlabel\na\tb\tc\n", "line 2 has 3 columns .*the first row has 2"),
        ("classification", "a.tsv", b"text\tlabel\na\0b\tc\n", "line 2: it has a NUL"),
        ("classification", "a.txt", "just words\nand more\n", "line 1 is 'just words'; expected columns with tabs"),
        ("classification", "a.tsv", "text\ttext\tlabel\na\tb\tc\n", "has 3 columns without usual names"),
        ("classification", "a.csv", 'text,label\n"a,b\n', "is not CSV"),
        ("classification", "a.jsonl", '{"text": "a", "label": "b"}\n{"text"\n', "line 2 is not JSON"),
        ("classification", "a.jsonl", "[" * 100_000, "line 1 is not JSON"),
        ("classification", "a.jsonl", '{"text": "a", "label": "b"}\n[1]\n', r"line 2 is '\[1\]'; expected an object"),
        (
            "classification",
            "a.jsonl",
            '{"text": "a", "label": "b"}\n{"text": "a"}\n',
            "line 2: has no 'label'; it has text",
        ),
        ("classification", "a.jsonl", '{"text": 3, "label": "b"}\n', "line 1: text is '3'; expected a text"),
        ("classification", "a.jsonl", '{"text": "\\ud800", "label": "b"}\n', "lone surrogate"),
        ("classification", "a.jsonl", '{"text": "a", "label": ["b", "c"]}\n', "expected one label"),
        ("classification", "a.json", "[" * 100_000, "is not JSON"),
        ("classification", "a.json", "7\n", "expected a list of objects, or JSON lines"),
        (
            "classification",
            "a.txt",
            "__label__a b\n__label__a __label__b c\n",
            "line 2: has the labels a, b; expected one",
        ),
        ("pair", "a.tsv", "a\tb\tc\td\n", "has 4 columns without usual names"),
        ("tagging", "a.txt", "a O\nb\n", r"line 2 \('b'\) has 1 column, others 2"),
        ("tagging", "a.txt", "# a comment\na O\nb O\n", r"line 1 \('# a comment'\) has 3 columns, others 2"),
        ("tagging", "a.txt", "\n# two comments\n# of words\na O\n", r"line 2 \('# two comments'\) has 3 columns"),
        ("tagging", "a.txt", "# X O\na Y O\nb O\n", r"line 3 \('b O'\) has 2 columns, others 3"),
        ("tagging", "a.txt", "a O\n# a comment\n", r"line 2 \('# a comment'\) has 3 columns, others 2"),
        ("tagging", "a.txt", "just\nwords\n", r"line 1 \('just'\) has 1 column; expected a token and its tag"),
        ("tagging", "a.txt", "a\tO\n\tO\n", "line 2 .* has an empty token or tag"),
        (
            "tagging",
            "a.jsonl",
            '{"tokens": ["a", "b"], "tags": ["O"]}\n',
            "line 1: has 2 tokens and 1 tags; expected as many",
        ),
        ("tagging", "a.jsonl", '{"words": "a"}\n', "line 1: has no tokens with tags"),
        (
            "tagging",
            "a.jsonl",
            '{"text": "ab", "label": {"X": {"b": [[0, 0]]}}}\n',
            "line 1: is 'b'; expected the characters 0 to 0",
        ),
        ("span", "a.json", "{", "is not JSON"),
        ("span", "a.json", "[" * 100_000, "is not JSON"),
        ("span", "a.json", '{"data": []}', "expected SQuAD's"),
        ("span", "a.json", '{"data": [3]}', "article 1 is '3'"),
        ("span", "a.json", '{"data": [{"title": "x"}]}', "article 1 has title; expected paragraphs, or context"),
        ("span", "a.json", squad(ASKED, ASKED), "two questions have the id 'q1'"),
        ("span", "a.json", squad(ASKED | {"answers": [{"text": "", "answer_start": 0}]}), "question q1 is empty"),
        (
            "span",
            "a.json",
            squad(ASKED | {"answers": [{"text": "A", "answer_start": "0"}]}),
            "answer_start of question q1 is '0'",
        ),
        ("span", "a.json", squad(ASKED | {"is_impossible": True}), "has answers and is_impossible"),
        ("span", "a.json", squad(ASKED | {"is_impossible": 1}), "is_impossible of question q1 is 1"),
        ("span", "a.json", squad(ASKED | {"question": "a\0"}), "has a NUL"),
        (
            "span",
            "a.json",
            squad(ASKED | {"answers": [{"text": "Otto", "answer_start": 2}]}),
            "it stands nowhere in it",
        ),
        ("choice", "a.json", "[[1, 2]]", "item 1: .*expected .turns"),
        (
            "choice",
            "a.jsonl",
            '{"question": "a", "options": ["b"], "answer": 0}\n',
            "line 1: has 1 answers to choose from",
        ),
        (
            "choice",
            "a.jsonl",
            '{"question": "a", "options": ["b", "c"], "answer": 2}\n',
            "the right answer is '2'; expected one of the 2",
        ),
        ("choice", "a.jsonl", '{"question": "a", "options": ["b", "c"], "answer": "d"}\n', "the right answer is 'd'"),
        ("choice", "a.jsonl", '{"question": "a", "options": ["b", "c"]}\n', "line 1: has no right answer"),
        ("classification", "a.jsonl", '{"text": "a", "label": "b\\tc"}\n', "label is 'b.*without tabs and line ends"),
        ("choice", "a.jsonl", '{"options": ["b", "c"], "answer": 0}\n', "has no question and no text"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path, task, name, content, message):
    path = written(tmp_path / name, content)
    with pytest.raises(CorpusError, match=message):
        read(path, task)


# --- names of columns -----------------------------------------------------------------------------------------------

SPAM = ["ham\tsee you at nine", "spam\tfree prize inside", "ham\tfine", "ham\tis it far?"] * 4


def test_names_of_columns_are_no_example_where_numbers_are_given(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("text\tlabel\na b\tx\nc\ty\n")
    numbered = ExamplesConfig(text_column="1", label_column="2")
    with pytest.raises(CorpusError, match=r"line 1 \(text, label\) has names of columns; give these instead of their"):
        list(open_examples(path, "classification", numbered))
    path.write_text("the text\tlabel\na b\tx\nc\ty\n")
    assert len(list(open_examples(path, "classification", numbered))) == 3


def test_names_that_are_unusual_are_no_example(tmp_path):
    path = written(tmp_path / "spam.tsv", "\n".join(["v1\tv2", *SPAM]) + "\n")
    message = (
        r"line 1 \(v1, v2\) looks like names .*; give text_column=v2 label_column=v1, or if it is an example text_"
    )
    with pytest.raises(CorpusError, match=message):
        read(path, "classification")
    assert len(read(path, "classification", text_column="v2", label_column="v1")) == len(SPAM)
    assert read(path, "classification", text_column="2", label_column="1")[0] == ("v2", "v1")
    pairs = [f"a {n}\tb {n}\t{'yes' if n % 2 else 'no'}" for n in range(12)]
    path = written(tmp_path / "pairs.tsv", "\n".join(["left\tright\trelated_to", *pairs]) + "\n")
    with pytest.raises(CorpusError, match="give text_column=left second_column=right label_column=related_to, or"):
        read(path, "pair")


def test_unusual_names_of_several_words_are_no_example(tmp_path):
    path = written(tmp_path / "spam.tsv", "\n".join(["My Label\tThe Mail", *SPAM]) + "\n")
    with pytest.raises(CorpusError, match=r"looks like names .*; give text_column=The Mail label_column=My Label, or"):
        read(path, "classification")
    assert len(read(path, "classification", text_column="The Mail", label_column="My Label")) == len(SPAM)


@pytest.mark.parametrize(
    "lines",
    [
        ["never\tword", *SPAM[:8]],  # few: a label may have one example
        ["never\ttwo words", *SPAM],
        ["ham\tword", *SPAM],
        ["never\tword", "once\tcat", *(f"{label}\tdog{n}" for n, label in enumerate("xyxyxyxyxyxy"))],  # all are words
    ],
)
def test_a_first_example_is_no_names(tmp_path, lines):
    assert len(read(written(tmp_path / "a.tsv", "\n".join(lines) + "\n"), "classification")) == len(lines)
