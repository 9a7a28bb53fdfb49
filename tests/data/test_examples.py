"""Labelled examples of the six fine-tuning tasks, from files as people have them, the registry, and Python."""

import math

import pytest

from tests.data.labelled_files import read, written
from wenmai.core.errors import CorpusError, SettingError
from wenmai.data.datasets import datasets
from wenmai.data.examples import (
    ChoiceExample,
    Examples,
    ExamplesConfig,
    PairExample,
    ScoredExample,
    TaggedSentence,
    TextExample,
    open_examples,
    open_train_and_valid,
    require_known,
)

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
        ("list.json", [{"text": "a fine film", "label": [1]}, {"text": "too long", "label": ["0"]}]),
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


def test_columns_are_named_for_examples_from_python_too():
    rows = [{"Body": f"text {number}", "label": "x", "topic": "pq"[number % 2]} for number in range(4)]
    settings = ExamplesConfig(text_column="Body", label_column="topic")
    assert open_examples(rows, "classification", settings).labels() == ("p", "q")
    with pytest.raises((CorpusError, SettingError), match="nonsense"):
        list(open_examples(rows, "classification", ExamplesConfig(text_column="Body", label_column="nonsense")))
    pairs = ExamplesConfig(text_column="a", second_column="b")
    assert next(iter(open_examples([{"a": "x", "b": "y", "score": 1}], "regression", pairs))).second == "y"
    parts = [("x", "some text", 3), ("y", "other text", 4)]
    found = open_examples(parts, "classification", ExamplesConfig(text_column="2", label_column="1"))
    assert list(found) == [TextExample("some text", "x"), TextExample("other text", "y")]
    named = open_examples([("some text", "x")], "classification", settings)  # a tuple has no names
    assert list(named) == [TextExample("some text", "x")]


def test_a_mapping_has_splits():
    splits = {"train": [("a", "x"), ("b", "y")], "validation": [("c", "x")], "test": iter([("d", "y")])}
    train, valid = open_train_and_valid(splits, "classification")
    assert list(train) == [TextExample("a", "x"), TextExample("b", "y")]
    assert list(valid) == [TextExample("c", "x")]
    assert list(open_examples(splits, "classification", split="test")) == [TextExample("d", "y")]
    _, aside = open_train_and_valid({"train": splits["train"] * 50}, "classification")
    assert aside.part == "aside"
    for wrong in ({"text": ["a"], "label": ["x"]}, {"validation": []}):
        with pytest.raises(CorpusError, match="a list of examples or rows, or a mapping of splits"):
            open_examples(wrong, "classification")


def test_lines_of_fasttext_may_have_tabs(tmp_path):
    content = "__label__a hello\tworld\n\n__label__b some\ttab here\n"
    found = open_examples(written(tmp_path / "a.txt", content), "classification")
    assert list(found) == [TextExample("hello world", "a"), TextExample("some tab here", "b")]


def test_lines_without_labels_are_all_kept(tmp_path):
    content = "__label__a hello\n\nno label\n__label__a __label__b two\n"
    found = open_examples(written(tmp_path / "a.txt", content), "classification", labelled=False)
    assert list(found) == [TextExample(text, "") for text in ("hello", "", "no label", "two")]
    pairs = open_examples(written(tmp_path / "b.tsv", "\n\na\tb\n\nc\td\n\n"), "pair", labelled=False)
    assert [one.first for one in pairs] == ["", "", "a", "", "c", ""]


@pytest.mark.parametrize("first", ['{"a": 1}', "[1, 2]", "{}"])
def test_lines_without_labels_may_begin_with_one_that_is_json(tmp_path, first):
    found = open_examples(written(tmp_path / "a.txt", f"{first}\nplain text\n"), "classification", labelled=False)
    assert [one.text for one in found] == [first, "plain text"]


def test_json_lines_without_labels_need_no_ending(tmp_path):
    for content, texts in (('{"text": "a"}\n\n{"text": "b"}\n', ["a", "b"]), ('{"text": "a"}', ["a"])):
        found = open_examples(written(tmp_path / "a.txt", content), "classification", labelled=False)
        assert [one.text for one in found] == texts
    broken = written(tmp_path / "b.txt", '{"text": "a"}\n{"text": "b}\n')
    with pytest.raises(CorpusError, match="line 2 is not JSON"):
        list(open_examples(broken, "classification", labelled=False))


@pytest.mark.parametrize(("name", "heading"), [("a.csv", "id;text"), ("a.csv", "id,text"), ("a.tsv", "id\ttext")])
@pytest.mark.parametrize("blank", ["\n", "\n \n\r\n"])
def test_blank_lines_before_a_heading_are_no_examples(tmp_path, name, heading, blank):
    content = f"{blank}{heading}\n{heading.replace('id', '1').replace('text', 'hello')}\n"
    found = open_examples(written(tmp_path / name, content), "classification", labelled=False)
    assert [one.text for one in found] == ["hello"]
    config = ExamplesConfig(text_column="words")
    content = content.replace(";", ",")
    path = written(tmp_path / name, content.replace("text", "words"))
    assert [one.text for one in open_examples(path, "classification", config, labelled=False)] == ["hello"]
    path = written(tmp_path / name, f"{blank}{heading.replace('id', 'label')}\n{heading.replace('id', 'x')}\n")
    assert list(open_examples(path, "classification")) == [TextExample("text", "x")]


def test_csv_with_semicolons(tmp_path):
    content = 'text;label\n"hello; you, there";x\nsome;y\n'
    found = open_examples(written(tmp_path / "a.csv", content), "classification")
    assert list(found) == [TextExample("hello; you, there", "x"), TextExample("some", "y")]
    plain = open_examples(written(tmp_path / "b.csv", "text\none; two\n"), "classification", labelled=False)
    assert [one.text for one in plain] == ["one; two"]


def test_quotes_of_a_spreadsheet_are_noted(tmp_path):
    content = 'text\tlabel\n"He said ""hi"" to me"\tx\n"a"\ty\n'
    found = open_examples(written(tmp_path / "a.tsv", content), "classification")
    assert found.stats().left_out() == [
        "1 cell has quotes around it and doubled ones within; quotes are read in .csv files alone"
    ]


@pytest.mark.parametrize(
    ("task", "name", "content"),
    [
        ("classification", "a.csv", "text,label\ra,x\rb,y\r"),
        ("classification", "a.txt", "__label__x a\r__label__x b\r"),
        ("tagging", "a.txt", "EU B-ORG\ris O\r"),
    ],
)
def test_lines_that_end_with_a_carriage_return_alone(tmp_path, task, name, content):
    with pytest.raises(CorpusError, match="line 1: has a carriage return without a line feed"):
        list(open_examples(written(tmp_path / name, content), task))


@pytest.mark.parametrize("names", [[f"option{number}" for number in range(1, 13)], [*"ABCDEFGHIJKL"]])
def test_a_question_may_have_more_than_ten_options(tmp_path, names):
    row = ["which"] + [f"o{number}" for number in range(1, 13)]
    content = "\n".join(",".join(cells) for cells in (["question", *names, "answer"], [*row, "o12"]))
    (found,) = open_examples(written(tmp_path / "a.csv", content), "choice")
    assert len(found.options) == 12
    assert found.answer == 11


def test_records_without_the_key_of_their_label_have_none(tmp_path):
    path = written(tmp_path / "a.jsonl", [{"text": "a", "label": "x"}, {"text": "b", "label": None}, {"text": "c"}])
    found = open_examples(path, "classification", ExamplesConfig(unlabelled="skip"))
    assert list(found) == [TextExample("a", "x")]
    assert found.stats().left_out() == ["2 examples without a label were left out (unlabelled=skip)"]
    path = written(tmp_path / "b.jsonl", [{"text": "a", "label": "x"}, {"text": "c"}])
    with pytest.raises(CorpusError, match=r"line 2: has no 'label'; it has text\. unlabelled=skip"):
        list(open_examples(path, "classification"))


def test_the_first_record_may_be_without_the_key_of_its_label(tmp_path):
    path = written(tmp_path / "a.jsonl", [{"text": "a"}, {"text": "b", "label": "x"}])
    for settings in ({}, {"label_column": "label"}):
        found = open_examples(path, "classification", ExamplesConfig(unlabelled="skip", **settings))
        assert list(found) == [TextExample("b", "x")]
    with pytest.raises(CorpusError, match=r"line 1: has no 'label'; it has text\. unlabelled=skip"):
        list(open_examples(path, "classification"))
    path = written(tmp_path / "b.jsonl", [{"text": "a"}, {"text": "b", "verdict": "x"}])
    with pytest.raises(CorpusError, match=r"line 1: no column has a usual name for the label \(columns: text\)"):
        list(open_examples(path, "classification"))


def test_pairs_without_agreement_are_left_out_from_python_too():
    pairs = [{"premise": "a", "hypothesis": "b", "label": one} for one in ("yes", "-")]
    found = open_examples(pairs, "pair")
    assert len(list(found)) == 1
    assert found.stats().undecided == 1


def test_quotes_in_tsv_are_letters(tmp_path):
    path = written(tmp_path / "a.tsv", 'text\tlabel\n"so\tx\nsaid"\ty\n')
    assert read(path, "classification") == [TextExample('"so', "x"), TextExample('said"', "y")]


def test_scores_are_numbers(tmp_path):
    path = written(tmp_path / "sts.tsv", "index\tsentence1\tsentence2\tscore\n0\ta\tb\t3.5\n")
    assert read(path, "regression") == [ScoredExample("a", "b", 3.5)]
    path = written(tmp_path / "stars.csv", "review,stars\nfine,4\n")
    assert read(path, "regression") == [ScoredExample("fine", None, 4.0)]
    for bad in ("nan", "1e999", "four", "1_000"):
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


@pytest.mark.parametrize(
    ("task", "content"),
    [
        ("choice", "question\tA\tA\tB\tanswer\nWho?\the\tshe\tit\tB\n"),
        ("classification", "text\ttext\tlabel\na\tb\tgood\n"),
        ("tagging", "text_a\tlabel\tlabel\na\x02b\tO\x02O\tO\x02B-X\n"),
    ],
)
def test_columns_of_one_name_are_refused(tmp_path, task, content):
    config = ExamplesConfig(text_column="text", label_column="label") if task == "classification" else None
    with pytest.raises(CorpusError, match=r"a\.tsv: line 1: two columns have one name"):
        list(open_examples(written(tmp_path / "a.tsv", content), task, config))


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


# --- what is wrong with a file ------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("between", [",", ";", "\t"])
def test_rows_of_empty_cells_are_blank_lines(tmp_path, between):
    rows = ["text,label", "a,0", ",", " , ", "b,1", ","]
    path = written(tmp_path / ("a.tsv" if between == "\t" else "a.csv"), "\n".join(rows).replace(",", between))
    assert read(path, "classification") == [TextExample("a", "0"), TextExample("b", "1")]


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
    path = written(tmp_path / "b.tsv", "文本\t标签\n很好\t好\n", "utf-8")
    with pytest.raises(CorpusError, match=r"is not ascii .*name it \(encoding=utf-8, \.\.\.\)"):
        read(path, "classification", encoding="ascii")


def test_a_folder_does_not_hide_a_name_of_the_catalogue(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data:nosuch").mkdir()
    with pytest.raises(SettingError, match="no corpus or test set is called 'data:nosuch'"):
        open_examples("data:nosuch", "classification")


def test_wrong_names_and_tasks_are_refused(tmp_path):
    with pytest.raises(SettingError, match="data:sst2 is for classification, not for tagging"):
        open_examples("data:sst2", "tagging")
    with pytest.raises(SettingError, match="task 'classifications'; did you mean 'classification'"):
        open_examples([], "classifications")
    with pytest.raises(CorpusError, match="no such file"):
        open_examples(tmp_path / "missing.tsv", "pair")
    with pytest.raises(CorpusError, match=r"are a list of examples or rows, .* not int"):
        open_examples(3, "pair")
    with pytest.raises(CorpusError, match=r"item 1: has 3 parts; expected a text and a label"):
        read([("a", "b"), ("a", "b", "c")], "classification")
    for setting in ({"tag_column": 0}, {"encoding": "klingon"}, {"encoding": "utf-8\0"}):
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
