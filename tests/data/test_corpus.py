import bz2
import codecs
import gzip
import io
import lzma
import os
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from wenmai.core.errors import CorpusError, SettingError
from wenmai.data import documents as documents_module
from wenmai.data.corpus import Corpus, CorpusStats
from wenmai.data.sources import named_texts, open_texts
from wenmai.text.segment import LINE_END
from wenmai.text.settings import TextConfig

COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.compress,
}


def read(source: object, text: TextConfig | None = None) -> tuple[list[list[str]], CorpusStats]:
    """Reads a corpus as lines of tokens."""
    stats = CorpusStats()
    corpus = Corpus.of(source)
    tokens = [token for batch in corpus.batches(text or TextConfig(), stats=stats) for token in batch]
    lines: list[list[str]] = [[]]
    for token in tokens:
        if token == LINE_END:
            lines.append([])
        else:
            lines[-1].append(token)
    assert lines.pop() == [], "a corpus ends with a line end"
    return lines, stats


def write(path: Path, content: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# ---- where text comes from


def test_one_file(tmp_path: Path) -> None:
    lines, stats = read(write(tmp_path / "a.txt", "the cat\r\n\nsat  down"))
    assert lines == [["the", "cat"], [], ["sat", "down"]]
    assert (stats.files, stats.lines) == (1, 3)


def test_folders_are_read_in_order_without_hidden_files(tmp_path: Path) -> None:
    for name in ["b/2.txt", "b/10.txt", "a.txt", ".hidden", ".git/config", ".git/deep/x", "b/.swp"]:
        write(tmp_path / "folder" / name, name)
    os.mkfifo(tmp_path / "folder" / "pipe")  # would hang whoever opens it
    os.symlink(tmp_path / "folder", tmp_path / "folder" / "b" / "loop")
    lines, stats = read(str(tmp_path / "folder"))
    assert lines == [["a.txt"], ["b/10.txt"], ["b/2.txt"]]
    assert (stats.files, stats.skipped_files) == (3, 5)


def test_globs_and_several_sources_keep_their_order(tmp_path: Path) -> None:
    for name in ["x1.txt", "x2.txt", "y.txt", "deep/z.txt", "[odd].txt"]:
        write(tmp_path / name, name)
    assert read([str(tmp_path / "y.txt"), str(tmp_path / "x*.txt")])[0] == [["y.txt"], ["x1.txt"], ["x2.txt"]]
    assert len(read(tmp_path / "**" / "*.txt")[0]) == 5
    assert read(tmp_path / "[odd].txt")[0] == [["[odd].txt"]], "a file is itself before it is a pattern"


def test_broken_links_that_a_glob_matches_are_left_out(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "word")
    os.symlink(tmp_path / "nowhere", tmp_path / "b.txt")
    lines, stats = read(tmp_path / "*.txt")
    assert lines == [["word"]]
    assert (stats.files, stats.skipped_files) == (1, 1)
    assert Corpus.of(tmp_path / "*.txt").repeatable
    assert "no file matches this pattern" in error_of(tmp_path / "b*.txt")


def test_folders_that_a_glob_matches_at_any_depth_are_read(tmp_path: Path) -> None:
    for name in ["x/train/1", "x/train/train-2", "x/train/.hidden", "y/train.txt", "y/test/3", "z/train"]:
        write(tmp_path / name, name)
    lines, stats = read(tmp_path / "**" / "train*")
    assert lines == [["x/train/1"], ["x/train/train-2"], ["y/train.txt"], ["z/train"]]
    assert (stats.files, stats.skipped_files) == (4, 1)
    assert read(tmp_path / "**" / "test")[0] == [["y/test/3"]]
    for everything in (tmp_path / "**", tmp_path / "**" / "*"):
        assert len(read(everything)[0]) == 5


def test_empty_files_are_errors_only_where_they_are_named(tmp_path: Path) -> None:
    write(tmp_path / "full.txt", "word")
    empty = write(tmp_path / "empty.txt", "")
    lines, stats = read(tmp_path)
    assert lines == [["word"]]
    assert (stats.files, stats.empty_files) == (2, 1)
    with pytest.raises(CorpusError, match=r"empty\.txt: is empty"):
        read(empty)


@pytest.mark.parametrize("compressor", COMPRESSORS)
def test_standard_input(compressor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content = COMPRESSORS[compressor](b"from a pipe\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    corpus = Corpus.of("-")
    assert not corpus.repeatable
    assert corpus.sources == ("-",)
    assert corpus.hashes() is None
    assert read(corpus)[0] == [["from", "a", "pipe"]]
    with pytest.raises(CorpusError, match="twice"):
        Corpus.of_paths(["-", "-"])


def test_a_named_pipe_is_read_once_like_standard_input(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("through a pipe",))
    writer.start()
    corpus = Corpus.of(pipe)
    assert not corpus.repeatable
    assert read(corpus)[0] == [["through", "a", "pipe"]]
    writer.join()


def test_text_from_python() -> None:
    assert read(["the cat", "sat\ndown", ""])[0] == [["the", "cat"], ["sat"], ["down"], []]
    assert read(line for line in ["a b", "c"])[0] == [["a", "b"], ["c"]]
    lines, stats = read([["New York", "is"], (), ("big",)])
    assert lines == [["New York", "is"], [], ["big"]]
    assert (stats.files, stats.lines) == (1, 3)
    assert read(["汉 语"], TextConfig(segment="characters"))[0] == [["汉", "语"]]


def test_lists_of_tokens_come_in_large_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents_module, "BLOCK_BYTES", 100)
    seen: list[tuple[int, int | None]] = []
    batches = list(
        Corpus.of_texts([["word"] * 5] * 20).batches(
            TextConfig(), stats=CorpusStats(), progress=lambda *done: seen.append(done)
        )
    )
    assert [len(batch) for batch in batches] == [30, 30, 30, 30, 0]
    assert seen == [(100, None), (200, None), (300, None), (400, None)]


def test_lists_of_strings_are_paths_if_they_look_or_exist_like_paths(tmp_path: Path) -> None:
    path = write(tmp_path / "a file.txt", "inside")
    assert read([str(path)])[0] == [["inside"]]
    with pytest.raises(CorpusError, match=r"missing\.txt: no such file.*catalogue"):
        read([str(path), "missing.txt"])
    with pytest.raises(CorpusError, match=r"no such file.*catalogue"):
        read(["我来到北京", "清华大学"])
    assert read(Corpus.of_texts(["我来到北京"]))[0] == [["我来到北京"]]


def test_a_corpus_of_files_can_be_named_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.txt", "one")
    write(tmp_path / "more" / "b.txt", "two")
    monkeypatch.chdir(tmp_path)
    corpus = Corpus.of(["a.txt", "mo*"])
    monkeypatch.chdir("/")
    assert corpus.repeatable
    assert corpus.size_bytes == 6
    assert all(os.path.isabs(source) for source in corpus.sources)
    assert read(Corpus.of_paths(corpus.sources))[0] == [["one"], ["two"]]
    assert Corpus.of(corpus) is corpus
    assert str(tmp_path) in corpus.describe()


def test_progress_ends_at_the_size_on_disk(tmp_path: Path) -> None:
    write(tmp_path / "a.gz", gzip.compress(b"word " * 1000))
    write(tmp_path / "b.txt", "word")
    seen: list[tuple[int, int | None]] = []
    corpus = Corpus.of(tmp_path)
    for _ in corpus.batches(TextConfig(), stats=CorpusStats(), progress=lambda *done: seen.append(done)):
        pass
    assert seen[-1] == (corpus.size_bytes, corpus.size_bytes)


# ---- how it is spelled


@pytest.mark.parametrize("compressor", COMPRESSORS)
@pytest.mark.parametrize("copies", [1, 3])
def test_compression_is_told_by_content(tmp_path: Path, compressor: str, copies: int) -> None:
    path = write(tmp_path / "data.txt", COMPRESSORS[compressor](b"some text\n") * copies)
    assert read(path)[0] == [["some", "text"]] * copies


@pytest.mark.parametrize(
    ("encoding", "mark"),
    [
        ("utf-8", codecs.BOM_UTF8),
        ("utf-8-sig", codecs.BOM_UTF8),
        ("utf-8", b""),
        ("gb18030", b""),
        ("gb18030", "\ufeff".encode("gb18030")),
        ("big5hkscs", b""),
        ("shift_jis", b""),
        ("utf-16", b""),
        ("utf-16-le", codecs.BOM_UTF16_LE),
        ("utf-32", b""),
        ("hz", b""),
    ],
)
def test_encodings(tmp_path: Path, encoding: str, mark: bytes) -> None:
    text = "中文 文字\n漢\n" if encoding not in {"hz", "shift_jis"} else "中文 文字\n文\n"
    content = "".join(text).encode(encoding.removesuffix("-sig"))
    lines, stats = read(write(tmp_path / "a.txt", mark + content), TextConfig(encoding=encoding))
    assert lines == [line.split() for line in text.splitlines()]
    assert stats.lines == 2


WIKI = '<doc id="1" url="?curid=1" title="A > B">\nA > B\n\nText of A.\n</doc>\n\n<doc id="2">\nB\n</doc>\n'


def test_wikiextractor_files_are_recognised(tmp_path: Path) -> None:
    lines, stats = read(write(tmp_path / "wiki_00", "\ufeff\n" + WIKI))
    assert lines == [[], ["A", ">", "B"], [], ["Text", "of", "A."], [], ["B"]]
    assert (stats.documents, stats.lines) == (2, 10)


def test_wikiextractor_files_are_recognised_behind_lines_that_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents_module, "BLOCK_BYTES", 64)
    bad = write(tmp_path / "wiki_00", b"\xff\n" * 64 + WIKI.encode())
    lines, stats = read(bad, TextConfig(bad_lines="skip"))
    assert lines == [["A", ">", "B"], [], ["Text", "of", "A."], [], ["B"]]
    assert (stats.documents, stats.skipped_lines) == (2, 64)


def test_the_format_can_be_named(tmp_path: Path) -> None:
    wiki = write(tmp_path / "wiki", WIKI)
    assert read(wiki, TextConfig(format="lines"))[0][0][:2] == ["<doc", 'id="1"']
    late = write(tmp_path / "late", "preface\n" + WIKI)
    assert read(late)[1].documents == 0
    assert read(late, TextConfig(format="wikiextractor"))[1].documents == 2
    plain = write(tmp_path / "plain", "no documents")
    with pytest.raises(CorpusError, match="plain: has no line such as <doc"):
        read(plain, TextConfig(format="wikiextractor"))


@settings(max_examples=60, deadline=None)
@given(
    words=st.lists(st.sampled_from(["a", "bb", "don't", "北京", "é", "，", " ", " ", "\n", "3.14", "𠮷"]), max_size=60),
    block=st.integers(1, 40),
    segment=st.sampled_from(["whitespace", "words", "characters"]),
    encoding=st.sampled_from(["utf-8", "gb18030", "utf-16"]),
)
def test_blocks_leave_no_trace(
    tmp_path_factory: pytest.TempPathFactory, words: list[str], block: int, segment: str, encoding: str
) -> None:
    path = write(tmp_path_factory.mktemp("blocks") / "a.txt", ("x" + "".join(words)).encode(encoding))
    text = TextConfig(segment=segment, encoding=encoding)
    whole = read(path, text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents_module, "BLOCK_BYTES", block)
        assert read(path, text) == whole


# ---- what is wrong with it


def error_of(source: object, text: TextConfig | None = None) -> str:
    with pytest.raises(CorpusError) as caught:
        read(source, text)
    return str(caught.value)


def test_missing_things(tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    os.symlink(tmp_path / "nowhere", tmp_path / "link")
    write(tmp_path / "hidden" / ".secret", "text")
    assert "no such file or folder" in error_of(tmp_path / "missing.txt")
    assert "broken link" in error_of(tmp_path / "link")
    assert "no file matches" in error_of(tmp_path / "*.txt")
    assert "has no files" in error_of(tmp_path / "bare")
    assert "1 hidden" in error_of(tmp_path / "hidden")
    with pytest.raises(CorpusError, match="no corpus was named"):
        Corpus.of_paths([])


@pytest.mark.parametrize("names", [[""], ["text.txt", ""]])
def test_an_empty_name_is_not_this_folder(names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "text.txt", "one two")
    monkeypatch.chdir(tmp_path)
    for named in ("", names, named_texts(names)):
        for door in (open_texts, Corpus.of):
            with pytest.raises(CorpusError, match="no corpus was named"):
                door(named)


def test_a_line_that_begins_like_a_name_of_the_catalogue_is_text() -> None:
    lines = ["data: the bytes to write", "builtin: a part of Python"]
    opened, hints, names = open_texts(lines)
    assert read(opened)[0] == [line.split() for line in lines]
    assert (hints, names) == ({}, ())


@pytest.mark.parametrize("long_line", [False, True])
@pytest.mark.parametrize("bad", [b"caf\xe9 x", b"nul \0 x"])
def test_bad_lines_are_errors_with_their_place(
    tmp_path: Path, bad: bytes, long_line: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if long_line:
        monkeypatch.setattr(documents_module, "BLOCK_BYTES", 4)
    message = error_of(write(tmp_path / "a.txt", "gut für\n".encode() + bad + b"\n"))
    place = 9 + (3 if b"\xe9" in bad else 4)
    assert f"a.txt: line 2, byte {place}: " in message
    assert "bad_lines=skip" in message


def test_bad_lines_can_be_skipped_and_are_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", b"one\nb\xe9d\ntwo\n\0\nthree\nb\xe9d")
    lines, stats = read(path, TextConfig(bad_lines="skip"))
    assert lines == [["one"], ["two"], ["three"]]
    assert (stats.lines, stats.skipped_lines) == (6, 3)


def test_the_rest_of_a_bad_long_line_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents_module, "BLOCK_BYTES", 8)
    path = write(tmp_path / "a.txt", b"good start b\xe9d and much more to come\nnext line\n")
    lines, stats = read(path, TextConfig(bad_lines="skip"))
    assert lines == [["good"], ["next", "line"]]
    assert (stats.lines, stats.skipped_lines) == (2, 1)


def test_the_encoding_is_guessed_for_the_message_only(tmp_path: Path) -> None:
    assert "encoding=utf-16" in error_of(write(tmp_path / "a", "text".encode("utf-16")))
    assert "encoding=gb18030" in error_of(write(tmp_path / "b", "中文".encode("gb18030")))
    assert "is not utf-16" in error_of(
        write(tmp_path / "c", "odd".encode("utf-16") + b"x"), TextConfig(encoding="utf-16")
    )


@pytest.mark.parametrize("content", [b"PK\x03\x04" + bytes(600), b"%PDF-1.7\n", b"\x89PNG\r\n", b"PAR1\x15\x00"])
@pytest.mark.parametrize("bad_lines", ["error", "skip"])
def test_files_that_are_no_text(tmp_path: Path, content: bytes, bad_lines: str) -> None:
    for compressor in ["plain", "gz"]:
        path = write(tmp_path / "file", COMPRESSORS[compressor](content))
        assert ", not text; extract the text first" in error_of(path, TextConfig(bad_lines=bad_lines))


def test_a_compressed_tar_is_no_text(tmp_path: Path) -> None:
    header = b"name".ljust(257, b"\0") + b"ustar\x0000" + bytes(248)
    assert "is a tar archive" in error_of(write(tmp_path / "a.tgz", gzip.compress(header + b"text".ljust(512, b"\0"))))


@pytest.mark.parametrize("compressor", ["gz", "bz2", "xz", "zst"])
def test_every_truncation_of_a_compressed_file_is_refused(tmp_path: Path, compressor: str) -> None:
    whole = COMPRESSORS[compressor](os.urandom(40).hex().encode())
    for size in range(10, len(whole)):
        assert "ends too early" in error_of(write(tmp_path / "file", whole[:size]))


@pytest.mark.parametrize("compressor", ["gz", "bz2", "xz"])
def test_damage_in_a_compressed_file_is_refused(tmp_path: Path, compressor: str) -> None:
    whole = COMPRESSORS[compressor](os.urandom(4000).hex().encode())
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 0xFF
    assert "is damaged" in error_of(write(tmp_path / "file", bytes(damaged)))
    assert "is damaged" in error_of(write(tmp_path / "file", whole + b"trailing rubbish, long enough to be a header"))


@pytest.mark.parametrize("segment", ["whitespace", "words", "chinese"])
def test_an_endless_word_is_refused_with_its_place(tmp_path: Path, segment: str) -> None:
    path = write(tmp_path / "a.txt", b"first\n12345 " + b"x" * 3_000_000)
    message = error_of(path, TextConfig(segment=segment))
    assert "a.txt: line 2, byte 12: a word of more than 1,048,576 characters" in message
    assert "segment=chinese or characters" in message


@pytest.mark.parametrize("segment", ["chinese", "characters"])
def test_an_endless_line_without_spaces_is_read(tmp_path: Path, segment: str) -> None:
    sentence = "我来到北京清华大学"
    path = write(tmp_path / "a.txt", sentence * 60_000)  # 1.6 MB, one line
    lines, stats = read(path, TextConfig(segment=segment))
    assert "".join(lines[0]) == sentence * 60_000
    assert (len(lines), stats.lines) == (1, 1)


def test_a_file_that_changes_while_it_is_read(tmp_path: Path) -> None:
    corpus = Corpus.of(write(tmp_path / "a.txt", "before"))
    hashes = corpus.hashes()
    write(tmp_path / "a.txt", "after!")
    with pytest.raises(CorpusError, match="changed while it was read"):
        list(corpus.batches(TextConfig(), stats=CorpusStats(), hashes=hashes))


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], "gave no items"),
        (iter(()), "gave no items"),
        (b"bytes", "not bytes"),
        (7, "not int"),
        ([b"a line"], "item 0 of the corpus is bytes"),
        (["a b", ["c"]], "item 1 of the corpus is list, but item 0 was a string"),
        ([["a"], "b c"], "item 1 of the corpus is str"),
        ([["a", ""]], "the token ''"),
        ([["a"], ["b\nc"]], "item 1 of the corpus has the token 'b"),
        ([["a", "\0"]], "the token"),
        ([["a", 3]], "the token 3"),
        ([["\ud800"]], "the token '.ud800'"),
        (["a lone \ud800"], "line 1, byte 7"),
        (["good one", "a nul \0"], "line 2, byte 15"),
    ],
)
def test_text_from_python_that_makes_no_sense(texts: Iterable[object], message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        read(texts)


def test_settings_without_effect_are_refused() -> None:
    with pytest.raises(SettingError, match="taken as they are"):
        read([["A"]], TextConfig(lowercase=True))
    with pytest.raises(SettingError, match="encoding=gb18030 has no effect"):
        read(["a b"], TextConfig(encoding="gb18030"))
