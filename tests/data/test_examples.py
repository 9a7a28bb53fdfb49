"""Labelled examples of the six fine-tuning tasks, from files as people have them, the registry, and Python."""

import gzip
import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wenmai.core.errors import CorpusError, SettingError
from wenmai.data.datasets import datasets
from wenmai.data.drawing import drawn
from wenmai.data.examples import (
    ChoiceExample,
    Examples,
    ExamplesConfig,
    ExamplesStats,
    PairExample,
    ScoredExample,
    TaggedSentence,
    TextExample,
    open_examples,
    open_train_and_valid,
    require_known,
)
from wenmai.data.typed import WeightedText


def written(path: Path, content: Any, encoding: str = "utf-8") -> Path:
    if isinstance(content, list) and path.name.split(".")[1] in ("jsonl", "ndjson"):
        content = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in content)
    elif not isinstance(content, str | bytes):
        content = json.dumps(content, ensure_ascii=False)
    data = content.encode(encoding) if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def read(path: Any, task: Any, labelled: bool = True, **settings: Any) -> list[Any]:
    return list(open_examples(path, task, ExamplesConfig(**settings), labelled=labelled))


GOOD, BAD = TextExample("a fine film", "1"), TextExample("too long", "0")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("sst.tsv", "sentence\tlabel\na fine film\t1\ntoo long\t0\n"),
        ("dos.tsv", "\ufeffsentence\tlabel\r\na fine film\t1\r\n\r\ntoo long\t0\r\n"),
        ("packed.tsv.gz", "Sentence\tLabel\na fine film\t1\ntoo long\t0"),
        ("bare.txt", "a fine film\t1\ntoo long\t0\n" + "more\t1\n" * 0),
        ("swapped.csv", "label,review\n1,a fine film\n0,too long\n"),
        ("quoted.csv", '"id","content","class"\n7,"a fine\nfilm",1\n8,too long,0\n'),
        ("chinese.csv", "编号,内容,标签\n7,a fine film,1\n8,too long,0\n"),
        ("objects.jsonl", [{"text": "a fine film", "label": 1}, {"text": "too long", "label": 0}]),
        ("clue.json", '{"label": "1", "sentence": "a fine film"}\n{"label": "0", "sentence": "too long"}\n'),
        ("list.json", [{"text": "a fine film", "label": "1"}, {"text": "too long", "label": ["0"]}]),
        ("data.json", {"data": [{"text": "a fine film", "gold-label": 1}, {"text": "too long", "gold-label": 0}]}),
        ("cola.tsv", "gj04\t1\t\ta fine film\ngj04\t0\t*\ttoo long\n"),
        ("words.txt", "__label__1 a fine film\ntoo __label__0 long\n"),
    ],
)
def test_classes_are_read_from_files_as_people_have_them(tmp_path, name, content):
    found = open_examples(written(tmp_path / name, content), "classification")
    if name == "bare.txt":  # two rows do not show which column is the label's
        with pytest.raises(CorpusError, match=r"which column has the labels \(1: 'a fine film'; 2: '1'\)"):
            list(found)
        return
    assert list(found) == [GOOD, BAD]
    assert found.labels() == ("0", "1")
    assert found.fingerprint() == open_examples([GOOD, BAD], "classification").fingerprint()
    assert found.stats().left_out() == []


def test_a_table_without_names_shows_its_labels(tmp_path):
    path = written(tmp_path / "a.txt", "a\tgood\nb\tbad\nc\tgood\n")
    assert read(path, "classification") == [
        TextExample(text, label) for text, label in zip("abc", ("good", "bad", "good"), strict=True)
    ]
    assert read(path, "classification", text_column="2", label_column="1")[0] == TextExample("good", "a")
    path = written(tmp_path / "b.tsv", "1\ta b\tb a\n0\tc\td\n1\te\tf\n")
    assert read(path, "pair")[1] == PairExample("c", "d", "0")
    assert read(path, "regression")[0] == ScoredExample("a b", "b a", 1.0)
    assert read(path, "pair", text_column="3", second_column="2", label_column="1")[0] == PairExample("b a", "a b", "1")


def test_columns_are_named_and_joined(tmp_path):
    path = written(tmp_path / "a.csv", "kind,head,body,mark\nx,one,two,early\n")
    assert read(path, "classification", text_column="head,body", label_column="mark") == [
        TextExample("one two", "early")
    ]
    with pytest.raises(
        CorpusError, match=r"no column is called 'heat'; did you mean 'head'\? \(columns: kind, head, body, mark"
    ):
        read(path, "classification", text_column="heat", label_column="mark")
    path = written(tmp_path / "b.csv", "label,stuff\n1,x\n")
    with pytest.raises(
        CorpusError,
        match=r"b\.csv: no column has a usual name for the text \(columns: label, stuff\); name it: text_column=NAME",
    ):
        read(path, "classification")


@pytest.mark.parametrize(
    ("header", "row", "label"),
    [
        ("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", "yes\t1\t2\ta b\tc", "yes"),
        ("id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", "0\t1\t2\ta b\tc\t0", "0"),
        ("index\tquestion\tsentence\tlabel", "0\ta b\tc\tentailment", "entailment"),
        ("index\tsentence1\tsentence2\tlabel", "0\ta b\tc\t1", "1"),
        (
            "index\tgenre\tsentence1_parse\tsentence2_parse\tsentence1\tsentence2\tlabel1\tgold_label",
            "0\tx\ty\tz\ta b\tc\tn\te",
            "e",
        ),
        (
            "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment",
            "1\ta b\tc\t4.5\tNEUTRAL",
            "NEUTRAL",
        ),
        ("premise\thypothesis\tclass", "a b\tc\tx", "x"),
        ("句子1\t句子2\t标签", "a b\tc\t1", "1"),
    ],
)
def test_layouts_of_pairs_are_known(tmp_path, header, row, label):
    assert read(written(tmp_path / "dev.tsv", f"{header}\n{row}\n"), "pair") == [PairExample("a b", "c", label)]


def test_quotes_in_tsv_are_letters(tmp_path):
    path = written(tmp_path / "a.tsv", 'text\tlabel\n"so\tx\nsaid"\ty\n')
    assert read(path, "classification") == [TextExample('"so', "x"), TextExample('said"', "y")]


def test_scores_are_numbers(tmp_path):
    path = written(tmp_path / "sts.tsv", "index\tsentence1\tsentence2\tscore\n0\ta\tb\t3.5\n")
    assert read(path, "regression") == [ScoredExample("a", "b", 3.5)]
    path = written(tmp_path / "stars.csv", "review,stars\nfine,4\n")
    assert read(path, "regression") == [ScoredExample("fine", None, 4.0)]
    for bad in ("nan", "1e999", "four"):
        written(path, f"review,stars\nfine,{bad}\n")
        with pytest.raises(CorpusError, match=f"line 2: stars is '{bad}'; expected a number"):
            read(path, "regression")


def test_pairs_that_nobody_agreed_on_are_left_out(tmp_path):
    records = [{"sentence1": "a", "sentence2": "b", "gold_label": label} for label in ("-", "neutral", "-")]
    found = open_examples(written(tmp_path / "a.jsonl", records), "pair")
    assert list(found) == [PairExample("a", "b", "neutral")]
    assert found.stats().left_out() == ["2 pairs without a label that the annotators agreed on were left out"]


def test_labels_are_sorted_and_numbers_by_their_value():
    assert open_examples([("a", "10"), ("b", "9"), ("c", "-1")], "classification").labels() == ("-1", "9", "10")
    assert open_examples([("a", "b"), ("b", "10"), ("c", "9")], "classification").labels() == ("10", "9", "b")
    odd = [(one, one) for one in ("nan", "2", "inf", "10")]
    assert open_examples(odd, "classification").labels() == ("10", "2", "inf", "nan")  # as texts, nan being no number
    assert datasets()["sst2"].labels == ("negative", "positive")


# --- tags ---------------------------------------------------------------------------------------------------------

CONLL = (
    "-DOCSTART- -X- O O\n\nEU NNP B-NP I-ORG\nrejects VBZ I-VP O\n"
    "German JJ I-NP I-MISC\nBritish JJ I-NP B-MISC\n\nPeter NNP I-NP I-PER\n"
)


def test_columns_of_conll_become_bio(tmp_path):
    found = open_examples(written(tmp_path / "eng.train", CONLL), "tagging")
    first, second = found
    assert first == TaggedSentence(("EU", "rejects", "German", "British"), ("B-ORG", "O", "B-MISC", "B-MISC"))
    assert second == TaggedSentence(("Peter",), ("B-PER",))
    assert found.labels() == ("O", "B-MISC", "I-MISC", "B-ORG", "I-ORG", "B-PER", "I-PER")
    assert found.stats().left_out() == []  # IOB1 as it should be
    parts = open_examples(found.paths[0], "tagging", ExamplesConfig(tag_column=2))
    assert parts.labels() == ("JJ", "NNP", "VBZ")
    assert next(iter(parts)).tags == ("NNP", "VBZ", "JJ", "JJ")
    places = [where for _, where in found.read(ExamplesStats())]
    assert [place.rpartition(": ")[2] for place in places] == ["line 3", "line 8"]


@pytest.mark.parametrize(
    "content",
    [
        "他 O\n在 O\n北 B-LOC\n京 E-LOC\n。 O\n",
        "他\tO\n在\tO\n北\tB-LOC\n京\tI-LOC\n。\tO\n\n\n",
        "他 _ O\n在 _ O\n北 _ B-LOC\n京 _ L-LOC\n。 _ O",
        "# text = 他\n他\t1\tO\n在\t2\tO\n北\t3\tB-LOC\n京\t4\tE-LOC\n。\t5\tO\n",
    ],
)
def test_schemes_and_separators_are_found(tmp_path, content):
    found = open_examples(written(tmp_path / "a.bio", content), "tagging")
    assert list(found) == [TaggedSentence(tuple("他在北京。"), ("O", "O", "B-LOC", "I-LOC", "O"))]
    assert found.stats().left_out() == []


def test_tables_of_ernie_join_tokens_and_tags(tmp_path):
    path = written(tmp_path / "train.tsv", "text_a\tlabel\n北\x02京\x02。\tB-LOC\x02I-LOC\x02O\n他\tO\n")
    expected = [TaggedSentence(tuple("北京。"), ("B-LOC", "I-LOC", "O")), TaggedSentence(("他",), ("O",))]
    assert read(path, "tagging") == expected
    path = written(tmp_path / "turned.tsv", "label\ttext_a\nB-LOC\x02I-LOC\x02O\t北\x02京\x02。\n\nO\t他\n")
    assert read(path, "tagging") == expected
    texts = written(tmp_path / "text.tsv", "text_a\n北\x02京\n")
    assert [one.tokens for one in open_examples(texts, "tagging", labelled=False)] == [("北", "京")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text_a\tlabel\n北\x02京\tO\n", "line 2 has 2 tokens and 1 tags"),
        ("text_a\tlabel\n北\x02\tO\x02O\n", "line 2 .*empty"),
        ("text_a\tmood\n北\x02京\tO\x02O\n", "line 1 .*text_a and label"),
    ],
)
def test_tables_of_ernie_that_are_wrong(tmp_path, content, message):
    with pytest.raises(CorpusError, match=message):
        read(written(tmp_path / "train.tsv", content), "tagging")


def test_columns_of_ernie_have_their_names(tmp_path):
    path = written(tmp_path / "train.tsv", "label\ttext_a\n1\t好\n0\t不好\n")
    assert read(path, "classification") == [TextExample("好", "1"), TextExample("不好", "0")]
    path = written(tmp_path / "pairs.tsv", "text_a\ttext_b\tlabel\n一\t二\t1\n")
    assert read(path, "pair") == [PairExample("一", "二", "1")]


def test_a_space_that_is_a_token_stays(tmp_path):
    path = written(tmp_path / "a.txt", "北 O\n\u3000 O\n京 O\n")
    assert read(path, "tagging")[0].tokens == ("北", "\u3000", "京")


def test_tags_in_json(tmp_path):
    expected = TaggedSentence(("a", "b"), ("O", "B-X"))
    path = written(tmp_path / "a.jsonl", [{"tokens": ["a", "b"], "ner_tags": ["O", "B-X"]}])
    assert read(path, "tagging") == [expected]
    path = written(tmp_path / "b.json", '{"text": "ab", "label": {"X": {"b": [[1, 1]]}}}\n')
    assert read(path, "tagging") == [expected]
    assert read([(["a", "b"], ["O", "B-X"])], "tagging") == [expected]
    assert read([expected], "tagging") == [expected]
    assert read(written(tmp_path / "c.jsonl", [{"tokens": ["a"], "tags": [3]}]), "tagging")[0].tags == ("3",)


@pytest.mark.parametrize(
    ("tags", "scheme", "repaired", "message"),
    [
        (
            "O I-A I-A B-B O B-A",
            "auto",
            "O B-A I-A B-B O B-A",
            "I-A after O: no entity of this type is open (token 2, 'b')",
        ),
        ("O B-A I-B B-A", "bio", "O B-A B-B B-A", "I-B after B-A: no entity of this type is open (token 3, 'c')"),
        ("B-A O E-A", "auto", "B-A O B-A", "B-A before O: the entity does not end (token 1, 'a')"),
        ("O S-A M-A", "auto", "O B-A B-A", "M-A after S-A: no entity of this type is open (token 3, 'c')"),
        ("O B-A", "bioes", "O B-A", "B-A before the end: the entity does not end (token 2, 'b')"),
    ],
)
def test_impossible_tags_are_repaired_and_counted_or_refused(tags, scheme, repaired, message):
    rows = [(list("abcdef")[: len(tags.split())], tags.split())]
    found = open_examples(rows, "tagging", ExamplesConfig(tag_scheme=scheme))
    assert " ".join(next(iter(found)).tags) == repaired
    assert found.stats().repaired_tags >= 1
    with pytest.raises(CorpusError) as error:
        read(rows, "tagging", tag_scheme=scheme, bad_tags="error")
    assert f"examples from Python: item 0: {message}" in str(error.value)


# --- multiple choice ----------------------------------------------------------------------------------------------

CHOICE = ChoiceExample(("A talk.",), "Who?", ("he", "she", "it"), 1)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("c3.json", [[["A talk."], [{"question": "Who?", "choice": ["he", "she", "it"], "answer": "she"}], "1"]]),
        ("race.jsonl", [{"article": "A talk.", "question": "Who?", "options": ["he", "she", "it"], "answer": "B"}]),
        (
            "hf.jsonl",
            [
                {
                    "context": "A talk.",
                    "question": "Who?",
                    "choices": {"label": ["1", "2", "3"], "text": ["he", "she", "it"]},
                    "answerKey": "2",
                }
            ],
        ),
        ("swag.csv", ",video-id,sent1,sent2,ending0,ending1,ending2,label\n0,v,A talk.,Who?,he,she,it,1\n"),
        ("abc.tsv", "passage\tquestion\tA\tB\tC\tanswer\nA talk.\tWho?\the\tshe\tit\tb\n"),
        ("four.tsv", "passage\tquestion\tA\tB\tC\tD\tanswer\nA talk.\tWho?\the\tshe\tit\t\tB\n"),
        ("list.json", [{"turns": ["A talk."], "question": "Who?", "choices": ["he", "she", "it"], "label": 1}]),
    ],
)
def test_questions_with_choices_are_read_from_files_as_people_have_them(tmp_path, name, content):
    found = open_examples(written(tmp_path / name, content), "choice")
    assert list(found) == [CHOICE]
    assert found.fingerprint() == open_examples([CHOICE], "choice").fingerprint()


def test_an_answer_that_is_also_the_place_of_another_one_is_refused(tmp_path):
    def read(answer, options=("2", "0", "1"), **more):
        record = {"question": "How many?", "choices": list(options), "answer": answer} | more
        return next(iter(open_examples(written(tmp_path / "one.json", [record]), "choice"))).answer

    assert (read(1), read("2", ("0", "1", "2")), read("c"), read("7", ("7", "8"))) == (1, 2, 2, 0)
    assert read("1", choices={"label": ["1", "2"], "text": ["2", "1"]}) == 0
    with pytest.raises(CorpusError, match="the right answer is '1', which is one of the answers, and says where"):
        read("1")
    with pytest.raises(CorpusError, match="one of its answers is empty"):
        read(0, ("a", " ", "b"))


# --- sets and parts -----------------------------------------------------------------------------------------------


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
    ],
)
def test_typed_examples_are_checked_as_those_of_files_are(task, example, message):
    with pytest.raises(CorpusError, match=f"examples from Python: item 0: {message}"):
        list(open_examples([example], task))


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
        CorpusError, match=r"too few examples to set some aside \(valid_share=0\.001\); give valid=FILE"
    ):
        list(few or ())


def test_a_label_that_training_lacks_is_named_with_its_place(tmp_path):
    path = written(tmp_path / "dev.tsv", "text\tlabel\na\tgood\nb\tgod\n")
    dev = open_examples(path, "classification")
    require_known(("bad", "god", "good"), dev)
    with pytest.raises(
        CorpusError, match=r"dev\.tsv: line 3: the label 'god' is none of what is trained on; did you mean 'good'\?"
    ):
        require_known(("bad", "good"), dev)
    tags = open_examples(written(tmp_path / "dev.bio", "a O\n\nb B-X\n"), "tagging")
    with pytest.raises(CorpusError, match=r"dev\.bio: line 3: the label 'B-X'"):
        require_known(("O", "B-Y", "I-Y"), tags)


def test_what_is_empty_or_has_no_label_is_counted_or_refused(tmp_path):
    path = written(tmp_path / "a.tsv", "text\tlabel\n \t1\na\t\nb\t0\n")
    with pytest.raises(CorpusError, match=r"a\.tsv: line 3: has no label\. unlabelled=skip leaves out such examples"):
        read(path, "classification")
    found = open_examples(path, "classification", ExamplesConfig(unlabelled="skip"))
    assert list(found) == [TextExample("b", "0")]
    assert len(found.stats().left_out()) == 2
    assert found.stats().examples == 1


def test_without_labels_every_line_counts(tmp_path):
    path = written(tmp_path / "a.txt", "first\n\nsecond one\n")
    assert [one.text for one in read(path, "classification", labelled=False)] == ["first", "", "second one"]
    path = written(tmp_path / "b.tsv", "text\tlabel\n \t1\n")
    assert read(path, "classification", labelled=False) == [TextExample(" ", "")]
    assert read(["a", "b"], "classification", labelled=False) == [TextExample("a", ""), TextExample("b", "")]
    assert read([("a", "b")], "pair", labelled=False) == [PairExample("a", "b", "")]
    assert math.isnan(read(["a"], "regression", labelled=False)[0].score)
    assert read([["a", "b"]], "tagging", labelled=False) == [TaggedSentence(("a", "b"), ("O", "O"))]
    (one,) = read([{"question": "Who?", "options": ["a", "b"]}], "choice", labelled=False)
    assert one.answer == -1


def test_other_encodings(tmp_path):
    path = written(tmp_path / "a.tsv", "文本\t标签\n很好\t好\n", "gb18030")
    assert read(path, "classification", encoding="gb18030") == [TextExample("很好", "好")]
    with pytest.raises(CorpusError, match=r"line 1: 0x.. is not utf-8 .*name it \(encoding=gb18030"):
        read(path, "classification")


def test_wrong_names_and_tasks_are_refused(tmp_path):
    with pytest.raises(SettingError, match="data:sst2 is for classification, not for tagging"):
        open_examples("data:sst2", "tagging")
    with pytest.raises(SettingError, match="task 'classifications'; did you mean 'classification'"):
        open_examples([], "classifications")
    with pytest.raises(CorpusError, match="no such file"):
        open_examples(tmp_path / "missing.tsv", "pair")
    with pytest.raises(CorpusError, match="are a list of examples or rows, not int"):
        open_examples(3, "pair")
    with pytest.raises(CorpusError, match=r"item 1: has 3 parts; expected a text and a label"):
        read([("a", "b"), ("a", "b", "c")], "classification")
    for setting in ({"tag_column": 0}, {"encoding": "klingon"}):
        with pytest.raises(SettingError):
            ExamplesConfig(**setting)


@pytest.mark.shared_data
@pytest.mark.parametrize("name", sorted(datasets()))
def test_every_set_of_the_registry_serves_its_tasks(shared_data, monkeypatch, name):
    monkeypatch.setenv("WENMAI_DATA_MIRROR", str(shared_data))
    for task in datasets()[name].tasks:
        train, dev = open_train_and_valid(f"data:{name}", task, ExamplesConfig(limit=200))
        assert isinstance(dev, Examples)
        assert train.hints()
        for examples in (train, dev):
            found = examples.stats()
            assert found.examples == (200 if examples is train else found.examples) > 50
        if labels := train.labels():
            assert len(set(labels)) == len(labels)
            require_known(labels, dev)
