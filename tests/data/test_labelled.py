"""Labelled text is read as it was meant, and what makes no sense is named with file and line."""

import gzip
import lzma
from itertools import pairwise

import numpy as np
import pytest

from wenmai.core.errors import CorpusError, SettingError
from wenmai.data.encoded_labelled import EncodedLabelled, encode_labelled, words_of
from wenmai.data.labelled import LabelledConfig, LabelledStats, read_labelled
from wenmai.text.settings import TextConfig


def written(path, text, *, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


def columns(**more):
    return LabelledConfig(text_column="text", label_column="label", **more)


def test_labels_stand_anywhere_in_a_line(tmp_path):
    path = written(tmp_path / "a.txt", "__label__x a b\na __label__y b __label__x\nb\t__label__z\n")
    assert list(read_labelled(path)) == [("a b", ("x",)), ("a b ", ("y", "x")), ("b\t", ("z",))]


def test_only_a_whole_word_is_a_label(tmp_path):
    path = written(tmp_path / "a.txt", "__label__x a__label__y __label__\n")
    assert list(read_labelled(path)) == [("a__label__y __label__", ("x",))]


def test_another_prefix(tmp_path):
    path = written(tmp_path / "a.txt", "#x a __label__y\n")
    assert list(read_labelled(path, LabelledConfig(label_prefix="#"))) == [("a __label__y", ("x",))]


def test_csv_with_quotes_and_line_ends_inside(tmp_path):
    path = written(tmp_path / "a.csv", 'label,text\r\n1,"one, ""two""\nthree"\r\n2,four\r\n')
    assert list(read_labelled(path, columns())) == [('one, "two" three', ("1",)), ("four", ("2",))]


def test_numbered_columns_have_no_line_of_names(tmp_path):
    path = written(tmp_path / "a.csv", '"3","title","content"\n')
    config = LabelledConfig(text_column="2,3", label_column="1")
    assert list(read_labelled(path, config)) == [("title content", ("3",))]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "sentiment,review\nx,one two\n"),
        ("a.tsv", "标签\t文本\nx\tone two\n"),
        ("a.jsonl", '{"category": "x", "content": "one two"}\n'),
    ],
)
def test_columns_with_usual_names_are_found(tmp_path, name, content):
    assert list(read_labelled(written(tmp_path / name, content))) == [("one two", ("x",))]


def test_columns_that_are_not_read_may_have_one_name(tmp_path):
    path = written(tmp_path / "a.csv", ",,label,text\n0,x,1,a\n")
    assert list(read_labelled(path, columns())) == [("a", ("1",))]


def test_tabs_have_no_quotes(tmp_path):
    path = written(tmp_path / "a.tsv", 'text\tlabel\n"a\tx y\n')
    assert list(read_labelled(path, columns())) == [('"a', ("x_y",))]


def test_several_labels_in_a_column(tmp_path):
    path = written(tmp_path / "a.tsv", "text\tlabel\na\tx|y|x\n")
    assert list(read_labelled(path, columns(label_separator="|"))) == [("a", ("x", "y"))]


def test_json_lines(tmp_path):
    path = written(tmp_path / "a.jsonl", '{"text": "a", "label": 1}\n\n{"text": "b", "label": ["x", "y"]}\n')
    assert list(read_labelled(path)) == [("a", ("1",)), ("b", ("x", "y"))]


def test_columns_of_json_lines_are_named_as_those_of_tables(tmp_path):
    path = written(tmp_path / "a.jsonl", '{"a": "x", "b": 1, "c": "z"}\n')
    assert list(read_labelled(path, LabelledConfig(text_column="a, b", label_column="c"))) == [("x 1", ("z",))]


def test_null_is_no_text(tmp_path):
    path = written(tmp_path / "a.jsonl", '{"text": null, "label": "x"}\n{"text": null, "label": null}\n')
    stats = LabelledStats()
    assert list(read_labelled(path).read(stats)) == [("", ("x",))]
    assert (stats.without_text, stats.blank_lines) == (1, 1)


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_compressed_files_are_told_by_content(tmp_path, compress):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(compress(b"label,text\n1,a\n"))
    assert list(read_labelled(path, columns())) == [("a", ("1",))]


def test_python_items():
    assert list(read_labelled([("a", "x"), ("b", ["x", "y"])])) == [("a", ("x",)), ("b", ("x", "y"))]


def test_utf_16(tmp_path):
    path = written(tmp_path / "a.txt", "__label__x 一\n__label__y 二\n", encoding="utf-16")
    assert list(read_labelled(path, None, TextConfig(encoding="utf-16"))) == [("一", ("x",)), ("二", ("y",))]


def test_what_is_left_out_is_counted(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"__label__x a\n\n  \nno label\n__label__y\n\xff __label__x\n")
    stats = LabelledStats()
    found = list(read_labelled(path, LabelledConfig(unlabelled="skip"), TextConfig(bad_lines="skip")).read(stats))
    assert len(found) == 2
    assert (stats.lines, stats.examples, stats.blank_lines, stats.unlabelled, stats.skipped_lines) == (6, 2, 2, 1, 1)
    assert stats.without_text == 1


def test_records_without_the_key_of_their_label_have_none(tmp_path):
    path = written(tmp_path / "a.jsonl", '{"text": "a"}\n{"text": "b", "label": "x"}\n{"text": "c", "label": null}\n')
    stats = LabelledStats()
    assert list(read_labelled(path, LabelledConfig(unlabelled="skip")).read(stats)) == [("b", ("x",))]
    assert stats.unlabelled == 2


@pytest.mark.parametrize(
    ("name", "content", "config", "message"),
    [
        ("a.txt", b"__label__x a\nb c\n", LabelledConfig(), "line 2 has no label"),
        ("a.txt", b"__label__x \xff\n", LabelledConfig(), "line 1: 0xff is not utf-8"),
        ("a.txt", b"__label__x a\n__label__x \0\n", LabelledConfig(), "line 2: it has a NUL"),
        ("a.txt", b"", LabelledConfig(), "is empty"),
        ("a.txt", b"\n\n", LabelledConfig(), "no examples in 2 lines"),
        ("a.csv", b"mark,words\n1,a\n", LabelledConfig(), r"text and label \(line 1: mark, words\); say text_column="),
        ("a.csv", b"text\na\n", LabelledConfig(), r"text and label \(line 1: text\)"),
        ("a.csv", b"label,text,text\n1,a,b\n", LabelledConfig(), "two columns have one name .* rename one"),
        ("a.csv", b"label,text\n1,a\n2,b,c\n", columns(), "line 3 has 3 columns"),
        ("a.csv", b"label,txt\n1,a\n", columns(), "did you mean 'txt'"),
        ("a.csv", b"label,text,text\n1,a,b\n", columns(), r"line 1: two columns have one name \(label, text, text\)"),
        ("a.csv", b'label,text\n1,a\n2,"b\n', columns(), "line 3: is not CSV"),
        ("a.csv", b"label,text\n1,a\n,b\n", columns(), "line 3 has no label"),
        ("a.jsonl", b'{"text": "a", "label": 1}\n{"text": "a"}\n', LabelledConfig(), "line 2 has text"),
        ("a.jsonl", b'{"text": "a", "label": null}\n', LabelledConfig(), "line 1 has no label .* a text and its label"),
        ("a.jsonl", b'{"text": "a \\ud800", "label": 1}', LabelledConfig(), r"line 1 has the lone surrogate '.ud800'"),
        ("a.jsonl", b'{"text": "a", "label": "\\ud800"}', LabelledConfig(), "line 1 has the lone surrogate"),
        ("a.jsonl", b'{"text": "a \\u0000", "label": 1}', LabelledConfig(), "line 1 has a NUL"),
        ("a.jsonl", b"{\n", LabelledConfig(), "line 1 is not JSON"),
        ("a.jsonl", b'{"text": ["a", "b"], "label": 1}\n', LabelledConfig(), "line 1: text is .* expected a text"),
        ("a.jsonl", b'{"text": {"en": "a"}, "label": 1}\n', LabelledConfig(), "line 1: text is .* expected a text"),
        ("a.txt.gz", gzip.compress(b"__label__x a\n", mtime=0)[:-4], LabelledConfig(), "gzip data is damaged"),
    ],
)
def test_mistakes_are_named_with_their_line(tmp_path, name, content, config, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(CorpusError, match=message) as caught:
        list(read_labelled(path, config))
    assert str(path) in str(caught.value)


def test_lines_that_were_left_out_count_in_the_place_of_a_mistake(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'label,text\n1,a\n\xff,b\n2,"c\nd"\n\xff\n,e\n')
    with pytest.raises(CorpusError, match=r"a\.csv: line 7 has no label"):
        list(read_labelled(path, columns(), TextConfig(bad_lines="skip")))


def test_settings_that_have_no_effect_are_refused(tmp_path):
    with pytest.raises(SettingError, match="label_column is missing"):
        LabelledConfig(text_column="a")
    with pytest.raises(SettingError, match="label_separator"):
        LabelledConfig(label_separator=",")
    with pytest.raises(SettingError, match="phrases"):
        read_labelled([("a", "x")], None, TextConfig(phrases=1))


@pytest.mark.parametrize("spec", [["__label__good a fine film", "__label__bad no"], "__label__good " + "long " * 999])
def test_texts_that_are_given_like_files_are_recognised(spec):
    with pytest.raises(
        CorpusError, match=r"__label__good .*: no such file; .* in a line\. Texts in memory are pairs: \[\("
    ):
        read_labelled(spec)
    with pytest.raises(
        CorpusError, match=r"(long)+l?o?n?: no such file; expected a file with a text and its labels in a line$"
    ):
        read_labelled("long" * 999)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (("b \ud800", "x"), "text from Python: item 1 has the lone surrogate '.ud800', which is no character"),
        (("b", "\udc80"), "item 1 has the lone surrogate '.udc80'"),
        (("b", "x\0"), "item 1 has a NUL, which no text has"),
    ],
)
def test_what_is_no_character_is_named_with_its_item(item, message):
    with pytest.raises(CorpusError, match=message):
        list(read_labelled([("a", "x"), item]))


@pytest.mark.parametrize("spec", ["nothing.txt", "-", 3, [1, 2]])
def test_what_is_no_labelled_text(spec):
    with pytest.raises(CorpusError):
        list(read_labelled(spec))


def test_numbers_say_what_the_text_says(tmp_path):
    lines = ["__label__x b a b", "__label__y __label__x c", "a __label__y"]
    path = written(tmp_path / "a.txt", "\n".join(lines) + "\n")
    found = encode_labelled(read_labelled(path))
    words, names = list(found.words), list(found.label_names)
    texts = [[words[t] for t in found.tokens[a:b]] for a, b in pairwise(found.starts)]
    labels = [[names[t] for t in found.labels[a:b]] for a, b in pairwise(found.label_starts)]
    assert texts == [["b", "a", "b", "</s>"], ["c", "</s>"], ["a", "</s>"]]
    assert labels == [["x"], ["y", "x"], ["y"]]
    assert words == ["</s>", "b", "a", "c"]
    assert found.counts.tolist() == [3, 2, 2, 1]
    assert found.label_counts.tolist() == [2, 2]
    assert not found.verify()


def test_numbering_is_kept_and_noticed_when_damaged(tmp_path):
    path = written(tmp_path / "a.txt", "__label__x a\n")
    first = encode_labelled(read_labelled(path))
    assert encode_labelled(read_labelled(path)).folder == first.folder
    assert encode_labelled(read_labelled(path, None, TextConfig(lowercase=True))).folder != first.folder
    (first.folder / "tokens.bin").write_bytes(b"\1")
    assert EncodedLabelled.reopen(first.fingerprint) is None
    again = encode_labelled(read_labelled(path))
    assert np.array_equal(again.tokens, [1, 0]) or again.tokens.size == 2


def test_words_are_those_of_fasttext_unless_a_segmenter_is_chosen():
    assert words_of(TextConfig())(["a\u3000b c\x0bd"]) == [["a\u3000b".encode(), b"c", b"d"]]
    assert words_of(TextConfig(segment="characters"))(["一 二", "", "a\nb"]) == [
        ["一".encode(), "二".encode()],
        [],
        [b"a", b"b"],
    ]


def test_the_data_pack_is_read_whole(shared_data):
    config = LabelledConfig(text_column="content", label_column="label")
    counts = {}
    for _, labels in read_labelled(shared_data / "ag_news" / "train_8000.csv.gz", config):
        counts[labels] = counts.get(labels, 0) + 1
    assert counts == {(str(label),): 2000 for label in range(1, 5)}
    config = LabelledConfig(text_column="3", label_column="1")
    assert len(list(read_labelled(shared_data / "ag_news" / "test_first100.csv", config))) == 100
    config = LabelledConfig(text_column="1", label_column="2")
    assert len(list(read_labelled(shared_data / "thucnews" / "dev.txt.gz", config))) == 10_000
