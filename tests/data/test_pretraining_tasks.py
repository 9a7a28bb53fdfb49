"""The tasks of ERNIE 2.0: what their rows ask for, against naive twins on small texts."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from wenmai.core.errors import CorpusError, SettingError
from wenmai.data.corpus import Corpus
from wenmai.data.encoded_text import LinesConfig
from wenmai.data.masking import MaskingConfig
from wenmai.data.pretraining import Context, marks_of, task_of, token_document
from wenmai.data.pretraining.relevance import read_queries
from wenmai.data.pretraining.reordering import orders
from wenmai.data.pretraining.settings import TasksConfig
from wenmai.data.running_text import read_language_data
from wenmai.tasks.marking import marking
from wenmai.text.pieces import StreamTokenizerConfig

ENGLISH = "\n\n".join(
    "\n".join(
        f"{start} Word{(7 * doc + sentence) % 11} common item{doc} text{(3 * doc + 5 * sentence) % 13} ."
        for sentence, start in enumerate(("The", "However ,", "And then", "Butter", "For example ,", "But"))
    )
    for doc in range(60)
)


def made(tmp_path, name, text=ENGLISH, *, max_length=24, kind="wordpiece", lowercase=True, valid=None, **settings):
    """A task with its text."""
    path = tmp_path / "text.txt"
    path.write_text(text)
    config = TasksConfig(**settings)
    data = read_language_data(
        Corpus.of_paths([path]),
        LinesConfig(valid=valid),
        StreamTokenizerConfig(kind=kind, vocab_size=200, min_count=1, lowercase=lowercase),
        inherited=None,
        roles=("cls", "sep", "mask"),
        marking=marking(config, [name]),
    )
    context = Context(
        tokenizer=data.tokenizer, max_length=max_length, segments=4, masking=MaskingConfig(), settings=config
    )
    stream, _ = data.sentences(separator=data.tokenizer.sep_id)
    return task_of(name, context), stream, data.tokenizer


def rows_of(task, stream, seed=1):
    plan = task.examples(stream, np.random.default_rng(seed))
    rows = [task.row(stream, plan, place) for place in range(len(plan.lengths))]
    assert [len(row.tokens) for row in rows] == plan.lengths.tolist()
    return rows


def sentences_of(stream):
    """The tokens of all sentences by document."""
    begins, ends = (side.tolist() for side in stream.sentences)
    return [
        [tuple(stream.read(begins[place], ends[place]).tolist()) for place in range(first, behind)]
        for first, behind in stream.document_sentences
    ]


def texts_of(row, tokenizer):
    """The texts of a row, without special tokens."""
    ends = [place for place, token in enumerate(row.tokens.tolist()) if token == tokenizer.sep_id]
    assert row.tokens[0] == tokenizer.cls_id
    assert ends[-1] == len(row.tokens) - 1
    return [tuple(row.tokens[low + 1 : high].tolist()) for low, high in pairwise([0, *ends])]


@pytest.mark.parametrize(
    "name", ["capitalisation", "token-document", "reordering", "distance", "discourse", "relevance"]
)
def test_rows_are_the_same_for_the_same_generator_and_fit(tmp_path, name):
    task, stream, tokenizer = made(tmp_path, name)
    task.require(stream)
    first, again, other = (rows_of(task, stream, seed) for seed in (1, 1, 2))
    assert [row.tokens.tolist() for row in first] == [row.tokens.tolist() for row in again]
    assert [np.asarray(row.labels).tolist() for row in first] == [np.asarray(row.labels).tolist() for row in again]
    if name != "discourse":
        assert [row.tokens.tolist() for row in first] != [row.tokens.tolist() for row in other]
    assert all(len(row.tokens) <= 24 for row in first)
    assert all(row.tokens[0] == tokenizer.cls_id and row.tokens[-1] == tokenizer.sep_id for row in first)
    labels = np.concatenate([np.atleast_1d(row.labels) for row in first])
    assert labels.max() < len(task.classes)
    assert labels.min() >= (-1 if task.level == "token" else 0)


# --- capital letters ------------------------------------------------------------------------------------------------


def test_capitals_are_those_of_the_text(tmp_path):
    task, stream, tokenizer = made(tmp_path, "capitalisation", "The Cat saw Anna , an APPLE and iPads .\n" * 30)
    capital = {"the", "cat", "anna", "apple"}
    for row in rows_of(task, stream)[:5]:
        word = None
        for token, label in zip(row.tokens.tolist(), row.labels.tolist(), strict=True):
            piece = tokenizer.decode([token])
            if token in (tokenizer.cls_id, tokenizer.sep_id):
                assert label == -1
                continue
            word = word + piece.removeprefix("##") if word and piece.startswith("##") else piece
            if word in capital:
                assert label == 1
            elif not any(one.startswith(word) for one in capital):
                assert label == 0


def test_a_tokenizer_that_keeps_capitals_is_refused(tmp_path):
    with pytest.raises(SettingError, match="begin with a tokenizer that has lowercase=true"):
        made(tmp_path, "capitalisation", lowercase=False)


# --- tokens and documents -------------------------------------------------------------------------------------------


def test_tokens_that_return_in_another_part(tmp_path):
    task, stream, _ = made(tmp_path, "token-document")
    rows = rows_of(task, stream)
    documents = [Counter(token for one in document for token in one) for document in sentences_of(stream)]
    marks = Counter()
    for row in rows:
        inside = Counter(row.tokens[1:-1].tolist())
        fitting = [document for document in documents if not inside - document]
        assert fitting
        for token, label in zip(row.tokens[1:-1].tolist(), row.labels[1:-1].tolist(), strict=True):
            assert label in {int(document[token] > inside[token]) for document in fitting}
            marks[label] += 1
    assert set(marks) == {0, 1}
    assert all(row.labels[0] == row.labels[-1] == -1 for row in rows)


def test_little_is_sorted_together_whatever_stands_between_the_documents(tmp_path, monkeypatch):
    long = "\n".join(f"The word{n} common text ." for n in range(12))
    text = "\n\n".join([long, *["a b .\n\nc d ."] * 200] * 4)
    task, stream, _ = made(tmp_path, "token-document", text)
    expected = [row.labels.tolist() for row in rows_of(task, stream)]
    read, sizes = type(stream).read, []
    monkeypatch.setattr(token_document, "_AT_ONCE", 1000)
    monkeypatch.setattr(type(stream), "read", lambda self, low, high: sizes.append(high - low) or read(self, low, high))
    assert [row.labels.tolist() for row in rows_of(task, stream)] == expected
    assert len(stream) > 4000
    assert max(sizes) < 1000


def test_a_document_of_one_part_is_refused(tmp_path):
    task, stream, _ = made(tmp_path, "token-document", "a b\n\n" * 60)
    with pytest.raises(CorpusError, match="no document of more than 22 tokens"):
        task.require(stream)


# --- order ----------------------------------------------------------------------------------------------------------


def test_classes_of_orders():
    assert [len(orders(most)) for most in (1, 2, 3, 4)] == [1, 3, 9, 33]
    assert orders(3)[7] == (2, 0, 1)
    assert orders(2) == [(0,), (0, 1), (1, 0)]


@pytest.mark.parametrize("parts", [2, 3, 4])
def test_parts_are_those_of_a_paragraph_in_the_order_of_the_class(tmp_path, parts):
    task, stream, tokenizer = made(tmp_path, "reordering", max_length=48, reordering_parts=parts)
    assert len(task.classes) == {2: 3, 3: 9, 4: 33}[parts]
    whole = [tuple(token for one in document for token in one) for document in sentences_of(stream)]
    seen = set()
    for row in rows_of(task, stream):
        texts = texts_of(row, tokenizer)
        order = orders(parts)[row.labels]
        assert len(texts) == len(order)
        restored = [text for _, text in sorted(zip(order, texts, strict=True))]
        joined = tuple(token for text in restored for token in text)
        assert any(joined == text[at : at + len(joined)] for text in whole for at in range(len(text)))
        assert all(texts)
        seen.add(row.labels)
    assert len(seen) > 2


def test_a_text_of_single_sentences_is_refused(tmp_path):
    task, stream, _ = made(tmp_path, "reordering", "a b\n\nc d\n\n" * 40)
    with pytest.raises(CorpusError, match="no document of two sentences"):
        task.require(stream)
    task, stream, _ = made(tmp_path, "reordering", f"{'a ' * 20}\n{'b ' * 20}\n\n" * 40)
    with pytest.raises(CorpusError, match="no two sentences that fit into max_length=24 together"):
        task.require(stream)
    with pytest.raises(SettingError, match="do not fit into max_length=4"):
        made(tmp_path, "reordering", max_length=4)


# --- distance -------------------------------------------------------------------------------------------------------


def test_distances_are_as_the_class_says(tmp_path):
    task, stream, tokenizer = made(tmp_path, "distance", max_length=64)
    documents = sentences_of(stream)
    known = {text: (number, at) for number, document in enumerate(documents) for at, text in enumerate(document)}
    counts = Counter()
    for row in rows_of(task, stream):
        one, other = texts_of(row, tokenizer)
        first, second = known[one], known[other]
        found = 2 if first[0] != second[0] else 0 if second[1] == first[1] + 1 else 1
        assert found == row.labels
        assert found != 1 or abs(first[1] - second[1]) > 1
        counts[found] += 1
    assert min(counts.values()) > len(documents)


@pytest.mark.parametrize("name", ["distance", "relevance"])
def test_a_single_document_has_no_example_of_another(tmp_path, name):
    alone = tmp_path / "valid.txt"
    alone.write_text(ENGLISH.split("\n\n", maxsplit=1)[0])
    task, _, tokenizer = made(tmp_path, name, valid=str(alone))
    data = read_language_data(
        Corpus.of_paths([tmp_path / "text.txt"]),
        LinesConfig(valid=str(alone)),
        StreamTokenizerConfig(),
        inherited=tokenizer,
        roles=("cls", "sep", "mask"),
        marking=marking(TasksConfig(), [name]),
    )
    _, stream = data.sentences(separator=tokenizer.sep_id)
    labels = {row.labels for row in rows_of(task, stream)}
    assert labels == {0, 1}


# --- connectives ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["wordpiece", "bpe"])
def test_connectives_are_taken_away_and_are_the_class(tmp_path, kind):
    text = ENGLISH.replace(" ,", ",")  # a comma behind a word is another token of BPE than one alone
    task, stream, tokenizer = made(tmp_path, "discourse", text, max_length=64, kind=kind)
    rows = rows_of(task, stream)
    documents = len(stream.document_sentences)
    counts = Counter(task.classes[row.labels] for row in rows)
    assert counts == dict.fromkeys(("however", "and", "for example", "but"), documents)  # no butter
    for row in rows:
        before, after = (tokenizer.decode(list(text)).split() for text in texts_of(row, tokenizer))
        assert before[-1].endswith(".")
        assert after[0].startswith("word") or (task.classes[row.labels] == "and" and after[0] == "then")


def test_chinese_connectives_need_no_space(tmp_path):
    text = "".join(f"第{number}天下雨。\n但是我们去了公园{number}。\n但愿天晴。\n\n" for number in range(60))
    task, stream, tokenizer = made(tmp_path, "discourse", text, kind="characters", language="chinese", max_length=40)
    rows = rows_of(task, stream)
    assert {task.classes[row.labels] for row in rows} == {"但是", "但"}
    assert all("但" not in tokenizer.decode(list(texts_of(row, tokenizer)[1])) for row in rows)


def test_a_text_without_connectives_is_refused(tmp_path):
    task, stream, _ = made(tmp_path, "discourse", "a b .\nc d .\n\n" * 40)
    with pytest.raises(CorpusError, match="begins with a connective such as also"):
        task.require(stream)


# --- relevance ------------------------------------------------------------------------------------------------------


def test_a_single_sentence_has_no_order(tmp_path):
    """Rows of one sentence would say by themselves that there is one part."""
    task, stream, tokenizer = made(tmp_path, "reordering", f"{'a ' * 30}\nb c d .\ne f g .\n{'h ' * 40}\n\n" * 40)
    words = ("b c d .", "e f g .")
    known = {tuple(one) for one in tokenizer.encode_batch([*words, " ".join(words)])}
    for row in rows_of(task, stream):
        assert set(texts_of(row, tokenizer)) <= known
        assert sum(map(len, texts_of(row, tokenizer))) == 8


def test_a_setting_of_a_task_that_is_not_there_is_refused():
    for settings in ({"dialogue_threads": "a"}, {"relevance_file": "a"}, {"reordering_parts": 4}):
        with pytest.raises(SettingError, match="has no effect without the task"):
            TasksConfig(**settings).require_use(["phrases", "distance"])
    TasksConfig(reordering_parts=4, phrases_min_count=2).require_use(["knowledge", "reordering"])


def test_a_table_without_words_is_refused(tmp_path):
    file = tmp_path / "queries.tsv"
    file.write_text("a\t \t0\nb\t \t0\nc\t \t0\n")
    task, stream, _ = made(tmp_path, "relevance", relevance_file=str(file))
    with pytest.raises(CorpusError, match="no row of a query and a title"):
        task.require(stream)


def test_a_query_is_on_one_side_with_all_its_titles(tmp_path):
    file = tmp_path / "queries.tsv"
    labels = (0, 1, 1, 1, 2, 2, 2, 2, 2, 2)
    file.write_text("".join(f"word{n} is\ttext{m}\t{label}\n" for n in range(60) for m, label in enumerate(labels)))
    task, train, tokenizer = made(tmp_path, "relevance", max_length=64, relevance_file=str(file))
    learned = rows_of(task, train)
    assert Counter(row.labels for row in learned) == {0: 57, 1: 171, 2: 342}  # one query in 20 is to validate on
    assert len({texts_of(row, tokenizer)[0] for row in learned}) == 57
    assert not any("left out" in note for note in task.notes)


def test_rows_without_a_title_are_left_out_and_counted(tmp_path):
    file = tmp_path / "queries.tsv"
    file.write_text("".join(f"word{n}\t{'text' * (n % 3)}\t{n % 3}\n" for n in range(90)))
    task, stream, _ = made(tmp_path, "relevance", relevance_file=str(file))
    assert {row.labels for row in rows_of(task, stream)} == {1, 2}
    assert task.notes == [f"{file}: 30 of 90 rows have no query or no title, and are left out"]


def test_a_label_in_capitals_is_no_heading(tmp_path):
    file = tmp_path / "queries.tsv"
    file.write_text("a word\ttext\tSTRONG\nanother\ttext\tweak\nthird\ttext\tstrong\n")
    with pytest.raises(CorpusError, match=r"line 1 is 'a word\\ttext\\tSTRONG'"):
        read_queries(file)


def test_titles_stand_in_for_queries(tmp_path):
    task, stream, tokenizer = made(tmp_path, "relevance", max_length=64)
    documents = sentences_of(stream)
    counts = Counter()
    for row in rows_of(task, stream):
        query, text = texts_of(row, tokenizer)
        (own,) = [number for number, document in enumerate(documents) if document[0] == query]
        if row.labels == 2:
            assert text not in documents[own]
        else:
            assert documents[own].index(text) == 1 if row.labels == 0 else documents[own].index(text) > 1
        counts[row.labels] += 1
    assert set(counts.values()) == {len(documents)}


def test_queries_are_read_from_a_table(tmp_path):
    file = tmp_path / "queries.tsv"
    for heading in ("relevance", "label_id", "标签", "label"):
        rows = "".join(f"word{n} ?\ttext{n}\t{n % 3}\n" for n in range(10))
        file.write_text(f"query\ttitle\t{heading}\n{rows}")
        assert len(read_queries(file)) == 10
    file.write_text("query\ttitle\tlabel\n" + "".join(f"word{n} ?\ttext{n}\t{n % 3}\n" for n in range(10)))
    assert read_queries(file)[1] == ("word1 ?", "text1", 1)
    task, stream, tokenizer = made(tmp_path, "relevance", relevance_file=str(file))
    rows = rows_of(task, stream)
    encoded = {tuple(row): n % 3 for n, row in enumerate(tokenizer.encode_batch([f"word{n} ?" for n in range(10)]))}
    assert len(rows) == 8  # two are to validate on
    assert all(row.labels == encoded[texts_of(row, tokenizer)[0]] for row in rows)
    assert task.sources[0]["path"] == str(file)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\tb\t0\nc\td\n", "line 2 is 'c\\\\td'"),
        ("a\tb\t0\nc\td\t7\n", "line 2"),
        ("a\tb\t3\nc\td\t1\n", "line 1 is 'a"),
        ("a\tb\tstrongly\nc\td\t1\n", "line 1 is 'a"),
        ("a\tb\t0\n", "has 1 queries"),
        ("", "has 0 queries"),
    ],
)
def test_bad_tables_are_refused(tmp_path, content, message):
    (tmp_path / "queries.tsv").write_text(content)
    with pytest.raises(CorpusError, match=message):
        read_queries(tmp_path / "queries.tsv")


def test_an_unknown_task_is_refused():
    with pytest.raises(SettingError, match="no pre-training task is called 'reordring'; did you mean 'reordering'"):
        marks_of(["reordring"])


@pytest.mark.parametrize(
    ("name", "otherwise"), [("distance", "or leave"), ("relevance", r"or name a table .* or leave")]
)
def test_what_a_task_of_documents_lacks_is_said(tmp_path, name, otherwise):
    task, stream, _ = made(tmp_path, name, "a b\nc d\n" * 40)
    with pytest.raises(CorpusError, match=rf"is one document, .* {otherwise} {name} out of tasks"):
        task.require(stream)
    (tmp_path / "more").mkdir()
    task, stream, _ = made(tmp_path / "more", name, "a b\n\nc d\n\n" * 40)
    with pytest.raises(CorpusError, match=rf"one sentence in each document, .* {otherwise} {name} out of tasks"):
        task.require(stream)
