"""Running text as numbers."""

import io
import itertools
import json
import os
import sys

import numpy as np
import pytest

from wenmai.core.errors import CorpusError, RunError
from wenmai.data.corpus import Corpus
from wenmai.data.encoded_text import EncodedText, LinesConfig, encode_text, readable_twice
from wenmai.text.pieces import TokenizerConfig
from wenmai.text.tokenizer import Tokenizer


def tokenizer(texts=("a b c",), **settings):
    return Tokenizer.train(
        [text for text in texts for _ in range(2)], TokenizerConfig(**{"kind": "whitespace"} | settings)
    )


def written(tmp_path, text, name="text.txt"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def encoded(path, cutter=None, **settings):
    return encode_text(Corpus.of_paths([path]), cutter or tokenizer(), LinesConfig(**settings))


def test_every_line_is_closed_by_the_end_token_and_blank_lines_are_left_out(tmp_path):
    cutter = tokenizer()
    text = encoded(written(tmp_path, "a b\n\n  \nc zzz\na"), cutter)
    a, b, c = (cutter.id(word) for word in "abc")
    assert text.tokens.tolist() == [a, b, cutter.eos_id, c, cutter.unk_id, cutter.eos_id, a, cutter.eos_id]
    stats = text.stats
    assert (stats.lines, stats.blank_lines, stats.tokens, stats.unknown) == (3, 2, 8, 1)
    assert (stats.words, stats.characters) == (8, len("a b\nc zzz\na\n"))
    assert text.ends.tolist() == [[3, 4], [6, 10], [8, 12]]


def test_copies_that_killed_processes_left_behind_go_after_a_day(tmp_path, cache_folder):
    old, fresh = cache_folder / "texts" / ".copy-1", cache_folder / "texts" / ".copy-2"
    for folder in (old, fresh):
        folder.mkdir(parents=True)
        (folder / "text.txt").write_text("half")
    os.utime(old, (0, 0))
    encoded(written(tmp_path, "a b"))
    assert not old.exists()
    assert fresh.exists()


def test_words_are_counted_alike_whatever_the_tokenizer(tmp_path):
    path = written(tmp_path, "我爱北京 and GPT4\n你好，世界。\n")
    for kind in ("characters", "chinese", "whitespace"):
        stats = encoded(path, tokenizer(["我爱北京 and GPT4", "你好，世界。"], kind=kind)).stats
        assert stats.words == 4 + 2 + 1 + len("你好，世界。") + 1


def test_a_line_of_several_megabytes_is_one_line(tmp_path):
    cutter = tokenizer()
    text = encoded(written(tmp_path, "a b " * 700_000), cutter)
    assert len(text) == 1_400_001
    assert np.array_equal(text.tokens[:-1].reshape(-1, 2), np.tile([cutter.id("a"), cutter.id("b")], (700_000, 1)))
    assert text.stats.lines == 1
    assert text.stats.words == 1_400_001


def test_pieces_of_bytes_are_the_same_in_parts_of_a_long_line(tmp_path):
    line = "the cat  sat, on the mat " * 60_000
    cutter = tokenizer([line[:500]], kind="byte-bpe", vocab_size=300)
    text = encoded(written(tmp_path, line + "\n"), cutter)
    assert cutter.decode(text.tokens[:-1]) == line


def test_the_text_is_encoded_once(tmp_path, monkeypatch):
    path = written(tmp_path, "a b\n")
    cutter = tokenizer()
    first = encoded(path, cutter)
    monkeypatch.setattr(Tokenizer, "encode_batch", None)
    assert encoded(path, cutter).folder == first.folder
    assert first.verify() == []
    copy = encoded(written(tmp_path, "a b\n", "copy.txt"), cutter)
    assert (copy.folder, copy.sources) == (first.folder, (str(tmp_path / "copy.txt"),))
    assert [file["path"] for file in copy.files] == [str(tmp_path / "copy.txt")]


@pytest.mark.parametrize("damage", ["cut", "lines", "documents", "json", "version", "missing"])
def test_a_damaged_text_is_refused(tmp_path, damage):
    folder = encoded(written(tmp_path, "a b c\n")).folder
    if damage == "cut":
        (folder / "tokens.bin").write_bytes((folder / "tokens.bin").read_bytes()[:-1])
    elif damage == "lines":
        (folder / "lines.bin").write_bytes(bytes(16))
    elif damage == "documents":
        (folder / "documents.bin").write_bytes(np.array([9], "<i8").tobytes())
    elif damage == "json":
        (folder / "text.json").write_text("[]")
    elif damage == "version":
        head = json.loads((folder / "text.json").read_text())
        (folder / "text.json").write_text(json.dumps(head | {"version": 9}))
    else:
        (folder / "tokens.bin").unlink()
    with pytest.raises(RunError, match="encoded text"):
        EncodedText.open(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [(b"", "is empty"), (b"\n \n", "has no text"), (b"a \xff b\n", "line 1, byte 2"), (b"a\0b\n", "line 1, byte 1")],
)
def test_what_is_no_text_is_told_with_its_place(tmp_path, text, message):
    with pytest.raises(CorpusError, match=message):
        encoded(written(tmp_path, text))


def test_bad_lines_can_be_left_out_and_are_counted(tmp_path):
    text = encoded(written(tmp_path, b"a\n\xff\nb\n"), bad_lines="skip")
    assert (text.stats.lines, text.stats.skipped_lines) == (2, 1)


def test_what_can_be_read_once_only_is_copied_while_it_is_needed(monkeypatch, cache_folder):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a b\nc\n")))
    for corpus in (Corpus.of(iter(["a b", "c"])), Corpus.of([["a", "b"], ["c"]]), Corpus.of("-")):
        with readable_twice(corpus, LinesConfig()) as (text, _):
            assert len(encode_text(text, tokenizer(), LinesConfig())) == 5
            assert encode_text(text, tokenizer(), LinesConfig()).stats.lines == 2
    assert not list((cache_folder / "texts").glob(".copy-*"))


WIKI = (
    '<doc id="1" url="u" title="A">\nA\n\na b.\n\nb\n</doc>\n'
    '<doc id="2" url="u" title="empty">\n</doc>\n'
    '<doc id="3" url="u" title="C">\n\nC c\n</doc>\n'
)


def documents(text, cutter):
    """Each document as its lines."""
    ends = [*text.documents.tolist()[1:], len(text)]
    lines = [0, *text.ends[:, 0].tolist()]
    found = []
    for begin, end in zip(text.documents.tolist(), ends, strict=True):
        assert begin in lines
        places = [place for place in lines if begin <= place <= end]
        found.append([cutter.decode(text.tokens[low:high]) for low, high in itertools.pairwise(places)])
    assert len(found) == text.stats.documents
    return found


def bytes_cutter():
    return tokenizer(["a b c"], kind="byte-bpe", vocab_size=270)


@pytest.mark.parametrize(
    ("written_text", "expected"),
    [
        ("a\nb\nc", [["a", "b", "c"]]),
        ("\n\na\nb\n\n\nc\n \t\r\na", [["a", "b"], ["c", " \t"], ["a"]]),
        ("a\r\n\r\nb\r\n", [["a"], ["b"]]),
        (WIKI, [["A", "a b.", "b"], ["C c"]]),
        ("\n" + WIKI + "after the last\n\ntag\n" + WIKI, None),
    ],
)
def test_documents_end_at_blank_lines_and_at_tags(tmp_path, written_text, expected):
    cutter = bytes_cutter()
    if expected is None:
        expected = [["A", "a b.", "b"], ["C c"], ["after the last", "tag"], ["A", "a b.", "b"], ["C c"]]
    text = encoded(written(tmp_path, written_text), cutter)
    assert text.documents.dtype == np.int64
    assert documents(text, cutter) == expected
    assert documents(EncodedText.open(text.folder), cutter) == expected


@pytest.mark.parametrize(
    ("written_text", "expected"),
    [
        ("a\nb c\n\n \na\n", [["a"], ["b c", " "], ["a"]]),
        ("a", [["a"]]),
    ],
)
def test_a_document_may_be_a_line(tmp_path, written_text, expected):
    cutter = bytes_cutter()
    path = written(tmp_path, written_text)
    assert documents(encoded(path, cutter, format="documents"), cutter) == expected
    assert len(documents(encoded(path, cutter), cutter)) < max(len(expected), 2)


RUNNING = "Mr. A came. B left!\n\n我们走。你来？ \nc"


def test_lines_may_be_split_into_sentences(tmp_path):
    cutter = bytes_cutter()
    path = written(tmp_path, RUNNING)
    text = encoded(path, cutter, sentences="split")
    assert documents(text, cutter) == [["Mr. A came.", "B left!"], ["我们走。", "你来？", "c"]]
    assert (text.stats.lines, text.stats.blank_lines, text.stats.documents) == (5, 1, 2)
    each = documents(encoded(path, cutter, sentences="split", format="documents"), cutter)
    assert each == [["Mr. A came.", "B left!"], ["我们走。", "你来？"], ["c"]]
    whole = encoded(path, cutter)
    assert len({whole.folder, text.folder, encoded(path, cutter, sentences="lines").folder}) == 2


def test_sentences_of_wikiextractor(tmp_path):
    cutter = bytes_cutter()
    content = WIKI.replace("a b.", "A b. C d! e.")
    assert documents(encoded(written(tmp_path, content), cutter, sentences="split"), cutter) == [
        ["A", "A b.", "C d! e.", "b"],
        ["C c"],
    ]


@pytest.mark.parametrize("held", [10, 1 << 20])
def test_sentences_of_a_line_that_is_read_in_parts(tmp_path, monkeypatch, held):
    monkeypatch.setattr("wenmai.data.documents.BLOCK_BYTES", 64)
    monkeypatch.setattr("wenmai.data.encoded_text._MOST_HELD", held)
    cutter = bytes_cutter()
    lines = [[f"Number {place} is {'a ' * place}b." for place in range(1, 12)], ["No end " * 30], ["C."]]
    content = "\n".join(" ".join(line) for line in lines)
    expected = [one.strip() for line in lines for one in line]
    for form, parts in (("lines", [expected]), ("documents", [[one.strip() for one in line] for line in lines])):
        found = documents(encoded(written(tmp_path, content), cutter, sentences="split", format=form), cutter)
        if held > 10:
            assert [[one.strip() for one in document] for document in found] == parts
        else:  # parts of a sentence, with the space between them
            assert [" ".join(document).split() for document in found] == [" ".join(part).split() for part in parts]


def test_sentences_of_what_is_read_once(monkeypatch):
    cutter = bytes_cutter()
    for items in (["A b. C d.", "", "e"], iter(["A b. C d.", "e"])):
        config = LinesConfig(sentences="split", format="lines" if isinstance(items, list) else "documents")
        with readable_twice(Corpus.of_texts(items), config) as (corpus, reading):
            found = documents(encode_text(corpus, cutter, reading), cutter)
        assert found == [["A b.", "C d."], ["e"]]


def test_documents_end_with_their_file_and_keep_the_order_of_the_files(tmp_path):
    cutter = bytes_cutter()
    paths = [
        written(tmp_path, content, f"{name}.txt") for name, content in (("b", "b\nb"), ("a", WIKI), ("c", "c\n\nc\n"))
    ]
    text = encode_text(Corpus.of_paths(paths), cutter, LinesConfig())
    assert documents(text, cutter) == [["b", "b"], ["A", "a b.", "b"], ["C c"], ["c"], ["c"]]


def test_documents_may_be_longer_than_what_is_read_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr("wenmai.data.documents.BLOCK_BYTES", 64)
    monkeypatch.setattr("wenmai.data.encoded_text._BATCH_CHARACTERS", 50)
    cutter = bytes_cutter()
    lines = [["a " * size + "b"] * 3 for size in (1, 5, 40, 90, 2, 33)]
    for text, between in (("", "\n"), ('<doc id="1">\n', '</doc>\n<doc id="2">\n')):
        content = text + between.join("".join(f"{line}\n" for line in document) for document in lines)
        assert documents(encoded(written(tmp_path, content), cutter), cutter) == lines


def test_without_tags_a_line_of_white_space_alone_is_in_the_document_before_it(tmp_path):
    cutter = tokenizer()
    text = encoded(written(tmp_path, "a\n  \n\nb c\n\n \n"), cutter)
    assert text.documents.tolist() == [0, 2]


@pytest.mark.parametrize(
    "config", [LinesConfig(), LinesConfig(format="wikiextractor"), LinesConfig(encoding="gb18030")]
)
def test_a_copy_has_the_same_documents(tmp_path, monkeypatch, config):
    cutter = bytes_cutter()
    content = (WIKI + "中文\n").encode(config.encoding)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    with readable_twice(Corpus.of("-"), config) as (corpus, reading):
        copied = encode_text(corpus, cutter, reading)
        direct = encode_text(Corpus.of_paths([written(tmp_path, content)]), cutter, config)
        assert copied.folder != direct.folder
        assert documents(copied, cutter) == documents(direct, cutter) == [["A", "a b.", "b"], ["C c"], ["中文"]]


@pytest.mark.parametrize("space", ["", " ", "\t \t", "\u3000"])
def test_a_copy_has_the_documents_of_tags_around_white_space(space):
    cutter = bytes_cutter()
    tagged = ['<doc id="1">', space, "a", space, "b", space, "</doc>", '<doc id="2">', space, "c", "</doc>"]
    with readable_twice(Corpus.of(iter(tagged)), LinesConfig()) as (corpus, reading):
        found = documents(encode_text(corpus, cutter, reading), cutter)
    assert [[line for line in document if line.strip()] for document in found] == [["a", "b"], ["c"]]


def test_texts_from_memory_are_lines_and_blank_ones_end_documents():
    cutter = bytes_cutter()
    for items in (["a", "b", "", "c"], [["a"], ["b"], [], ["c"]]):
        with readable_twice(Corpus.of(iter(items)), LinesConfig()) as (corpus, reading):
            assert documents(encode_text(corpus, cutter, reading), cutter) == [["a", "b"], ["c"]]


def test_a_text_of_the_cache_without_documents_is_encoded_again(tmp_path):
    path = written(tmp_path, "a b\n\nc\n")
    first = encoded(path)
    head = json.loads((first.folder / "text.json").read_text())
    (first.folder / "text.json").write_text(json.dumps(head | {"version": 2}))
    (first.folder / "documents.bin").unlink()
    again = encoded(path)
    assert again.folder == first.folder
    assert again.documents.tolist() == [0, 3]
