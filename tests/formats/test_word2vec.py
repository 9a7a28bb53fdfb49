"""word2vec and GloVe files, whole and damaged."""

import bz2
import gzip
import logging
import lzma
import re
import struct
import tracemalloc

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from wenmai.core.errors import FormatError, SettingError
from wenmai.formats.word2vec import read_word2vec, write_word2vec
from wenmai.vectors import word2vec_files
from wenmai.vectors.word_vectors import WordVectors

WORDS = ["the", "文脉", "наука", "2003", "a,b"]
ROWS = np.array([[1, -0.5], [0.1, 3e-7], [-2.5e8, 7], [0, -0.0], [0.33333334, 123456.79]], np.float32)

TEXT = b"5 2\nthe 1.0 -0.5\n\xe6\x96\x87\xe8\x84\x89 0.1 3e-07\n"
TEXT += "наука -250000000.0 7\n2003 0.0 -0.0\na,b 0.33333334 123456.79\n".encode()
C_TEXT = TEXT.replace(b"\n", b" \n").replace(b"5 2 \n", b"5 2\n")
GLOVE = TEXT.removeprefix(b"5 2\n")


def binary(newline: bytes, words=WORDS, rows=ROWS) -> bytes:
    entries = (word.encode() + b" " + row.tobytes() + newline for word, row in zip(words, rows, strict=True))
    return b"%d %d\n" % rows.shape + b"".join(entries)


FILES = {
    "text": TEXT,
    "word2vec.c text": C_TEXT,
    "glove": GLOVE,
    "word2vec.c binary": binary(b"\n"),
    "gensim binary": binary(b""),
}


@pytest.fixture
def vectors() -> WordVectors:
    return WordVectors(WORDS, ROWS)


def loaded(tmp_path, data: bytes, **options) -> WordVectors:
    path = tmp_path / "vectors"
    path.write_bytes(data)
    return read_word2vec(path, **options)


def assert_same(found: WordVectors, words=WORDS, rows=ROWS) -> None:
    assert found.index_to_key == list(words)
    assert found.vectors.tobytes() == np.ascontiguousarray(rows).tobytes()  # so that -0.0 is not 0.0


@pytest.mark.parametrize("kind", FILES)
def test_reads_every_kind_by_its_content(tmp_path, kind):
    assert_same(loaded(tmp_path, FILES[kind]))
    assert_same(loaded(tmp_path, FILES[kind], limit=9))
    assert_same(loaded(tmp_path, FILES[kind], limit=2), WORDS[:2], ROWS[:2])
    assert_same(loaded(tmp_path, FILES[kind], binary="binary" in kind, no_header=kind == "glove"))


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress, zstandard.ZstdCompressor().compress])
@pytest.mark.parametrize("kind", FILES)
def test_reads_compressed_files(tmp_path, kind, compress):
    assert_same(loaded(tmp_path, compress(FILES[kind])))


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("block", [1, 7, 64])
def test_reading_does_not_depend_on_the_block_size(tmp_path, monkeypatch, kind, block):
    monkeypatch.setattr(word2vec_files, "BLOCK_BYTES", block)
    monkeypatch.setattr(word2vec_files, "MAX_WORD_BYTES", 16)
    assert_same(loaded(tmp_path, FILES[kind]))
    assert_same(loaded(tmp_path, gzip.compress(FILES[kind])))


@pytest.mark.parametrize(
    "data",
    [
        TEXT.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + TEXT,
        b"\xef\xbb\xbf" + GLOVE,
        TEXT.replace(b" ", b"\t"),
        TEXT.replace(b" ", b"  "),
        TEXT + b"\n\r\n \n",
        GLOVE + b"\n",
        C_TEXT.replace(b"\n", b"\r\n"),
        C_TEXT.removesuffix(b"\n"),
    ],
)
def test_reads_text_with_other_spaces_and_line_ends(tmp_path, data):
    assert_same(loaded(tmp_path, data))


def test_words_of_a_text_may_hold_spaces(tmp_path):
    found = loaded(tmp_path, b"the 1 2\nat name@domain.com 3 4\n. . . 5 6\n")
    assert found.index_to_key == ["the", "at name@domain.com", ". . ."]
    assert found[". . ."].tolist() == [5, 6]


def test_one_dimension_without_heading_must_be_asked_for(tmp_path):
    assert loaded(tmp_path, b"2 1\na 0.5\nb 7\n")["a"].tolist() == [0.5]
    assert loaded(tmp_path, b"a 0.5\nb 7\n", no_header=True)["b"].tolist() == [7]
    with pytest.raises(FormatError, match="line 1"):
        loaded(tmp_path, b"a 0.5\nb 7\n")


@pytest.mark.parametrize("as_binary", [False, True])
@pytest.mark.parametrize("header", [False, True])
def test_writes_what_it_reads(tmp_path, vectors, as_binary, header):
    path = tmp_path / "new folder" / "vectors.vec"
    if as_binary and not header:
        with pytest.raises(SettingError, match="heading"):
            write_word2vec(path, vectors, binary=True, header=False)
        return
    write_word2vec(path, vectors, binary=as_binary, header=header)
    assert_same(read_word2vec(path))
    assert path.read_bytes() == (FILES["word2vec.c binary"] if as_binary else text_of(vectors, header))


def text_of(vectors: WordVectors, header: bool) -> bytes:
    lines = [f"{len(vectors)} {vectors.vector_size}"] * header
    lines += [
        f"{word} {' '.join(str(x) for x in row)}"
        for word, row in zip(vectors.index_to_key, vectors.vectors, strict=True)
    ]
    return "".join(line + "\n" for line in lines).encode()


@settings(max_examples=60, deadline=None)
@given(
    arrays(np.float32, (4, 3), elements=st.floats(-(2.0**100), 2.0**100, width=32)),
    st.lists(st.text("ab文é\u3000\x85.-19e", min_size=1), min_size=4, max_size=4, unique=True),
    st.booleans(),
)
def test_every_float_and_word_survives_the_round_trip(tmp_path_factory, rows, words, as_binary):
    path = tmp_path_factory.mktemp("round") / "vectors"
    write_word2vec(path, WordVectors(words, rows), binary=as_binary)
    assert_same(read_word2vec(path), words, rows)


@pytest.mark.parametrize("characters", ["\nף<", "abcd", "one\n"])
def test_floats_whose_bytes_are_characters_are_still_binary(tmp_path, characters):
    rows = np.full((4, 3), np.frombuffer(characters.encode(), "<f4"))  # 0.02 is a newline, a Hebrew letter and '<'
    write_word2vec(tmp_path / "vectors", WordVectors(["1", "9", "a", "11"], rows), binary=True)
    assert_same(read_word2vec(tmp_path / "vectors"), ["1", "9", "a", "11"], rows)


def test_text_is_exact_for_random_bit_patterns(tmp_path):
    bits = np.random.default_rng(0).integers(0, 1 << 32, 200_000, dtype=np.uint32).view(np.float32)
    rows = bits[np.isfinite(bits) & (np.abs(bits) < 1e37)][:190_000].reshape(-1, 10)
    words = [str(i) for i in range(len(rows))]
    write_word2vec(tmp_path / "vectors", WordVectors(words, rows))
    assert_same(read_word2vec(tmp_path / "vectors"), words, rows)


def test_repeated_words_are_counted_and_the_first_kept(tmp_path, caplog):
    data = b"4 1\na 1\nb 2\na 3\na 4\n"
    with caplog.at_level(logging.WARNING, "wenmai"):
        assert_same(loaded(tmp_path, data), ["a", "b"], np.array([[1], [2]], np.float32))
    assert "left out 2 of 4 vectors" in caplog.text
    assert "the first is 'a' (word 3)" in caplog.text


@pytest.mark.parametrize("data", [b"2 2\nthe 1 2\n\xff\xfe 3 4\n", b"2 1\nthe 1234\xff\xfe " + struct.pack("<f", 1)])
def test_words_that_are_not_utf8(tmp_path, data):
    with pytest.raises(
        FormatError, match=r"word 2: '\\\\xff\\\\xfe' is not UTF-8; .*iconv -f .*with unicode_errors='replace'"
    ):
        loaded(tmp_path, data)
    assert loaded(tmp_path, data, encoding_errors="replace").index_to_key == ["the", "\ufffd\ufffd"]


@pytest.mark.parametrize(
    ("word", "why"),
    [(word, "whitespace separates words") for word in ("", "New York", "a\tb", "a\nb", "a\0b")]
    + [(word, "the word has bytes that are not") for word in ("caf\udce9", "\ud800")],
)
@pytest.mark.parametrize("as_binary", [False, True])
def test_words_that_the_format_cannot_express_are_refused(tmp_path, word, why, as_binary):
    path = tmp_path / "vectors"
    path.write_bytes(b"before")
    with pytest.raises(FormatError, match=f"cannot write the word .*: .*{why}"):
        write_word2vec(path, WordVectors(["a", word], [[1], [2]]), binary=as_binary)
    assert path.read_bytes() == b"before"


def test_a_name_that_promises_compression_is_refused(tmp_path, vectors):
    with pytest.raises(SettingError, match="written uncompressed"):
        write_word2vec(tmp_path / "vectors.vec.gz", vectors)


@pytest.mark.parametrize("options", [{"limit": 0}, {"binary": True, "no_header": True}])
def test_options_without_sense_are_refused(tmp_path, options):
    with pytest.raises(SettingError):
        loaded(tmp_path, TEXT, **options)


# The malformed-file suite


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("compressed", [False, True])
def test_every_truncation_is_noticed(tmp_path, kind, compressed):
    data = FILES[kind]
    for length in range(len(data)):
        cut = data[:length]
        try:
            found = loaded(tmp_path, gzip.compress(cut) if compressed else cut)
        except FormatError:
            continue
        if kind == "glove":  # without a heading, a cut between two lines cannot be noticed
            assert cut.endswith(b"\n")
            assert_same(found, WORDS[: len(found)], ROWS[: len(found)])
        else:  # nothing but the last newline is missing
            assert cut + b"\n" == data
            assert_same(found)


TELLING = b"0123456789+-._,eEx \t\n\v\f\r\0\x1c\x7f\x80\x85\xa0\xc3\xff"  # one of each kind for who reads numbers


@pytest.mark.parametrize("kind", [kind for kind in FILES if kind != "glove"])
@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("shape", [(5, 2), (5, 1), (1, 2), (11, 2)])
def test_every_change_of_a_heading_byte_is_noticed_or_harmless(tmp_path, kind, compressed, shape):
    words = [*WORDS, *"abcdef"][: shape[0]]
    rows = np.resize(ROWS, shape)
    if "binary" in kind:
        data = binary(b"\n" if "word2vec.c" in kind else b"", words, rows)
    else:
        data = text_of(WordVectors(words, rows), True)
        data = data.replace(b"\n", b" \n") if "word2vec.c" in kind else data
    every = range(256) if shape == (5, 2) and not compressed else TELLING  # the other headings differ in few digits
    for place in range(data.index(b"\n") + 1):
        for byte in every:
            changed = data[:place] + bytes([byte]) + data[place + 1 :]
            try:
                found = loaded(tmp_path, gzip.compress(changed) if compressed else changed)
            except FormatError:
                continue
            assert_same(found, words, rows)


@pytest.mark.parametrize("kind", [kind for kind in FILES if kind != "glove"])
@pytest.mark.parametrize("value", [b"0", b"-1", b"2147483648", b"9223372036854775808", b"1" * 30, b"x", b""])
@pytest.mark.parametrize("field", [0, 1])
@pytest.mark.parametrize("compressed", [False, True])
def test_impossible_headings_are_refused_in_little_memory(tmp_path, kind, value, field, compressed):
    heading, newline, rest = FILES[kind].partition(b"\n")
    fields = heading.split()
    fields[field] = value
    data = b" ".join(fields) + newline + rest
    tracemalloc.start()
    try:
        with pytest.raises(FormatError):
            loaded(tmp_path, gzip.compress(data) if compressed else data)
        assert tracemalloc.get_traced_memory()[1] < 30e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b"\n", "line 1"),
        (b"\n\n\n", "line 1"),
        ("5 2\n".encode("utf-16"), "UTF-16"),
        (b"just some prose\nand more\n", "line 1: 'just some prose' is no heading"),
        (b"a 1 2\n\nb 3 4\n", "line 2: '' is not a word and 2 finite numbers"),
        (b"2 2\na 1 2\nb 3\n", "line 3: 'b 3'"),
        (b"2 2\na 1 2\nb 3 4 5\n", "line 3: 'b 3 4 5'"),
        (b"2 2\na 1 2 3\nb 4\n", "line 2: 'a 1 2 3'"),
        (b"2 2\na 1  2\nb 3\t4 5\n", "line 3"),
        (b"2 2\na 1 2\nb 3 x\n", "line 3: 'b 3 x'"),
        (b"2 2\na 1 2\nb 3 1_0\n", "line 3"),
        (b"2 2\na 1 2\nb 3 1-2\n", "line 3"),
        (b"2 2\na 1 2\nb 3 nan\n", "line 3"),
        (b"2 2\na 1 2\nb 3 inf\n", "line 3"),
        (b"2 2\na 1 2\nb 3 1e39\n", "line 3"),
        (b"2 2\na 1 2\nb 3 4\0\n", "line 3"),
        (b"2 2\na 1 2\nb\0 3 4\n", "line 3"),
        (b"2 2\na 1 2\n 3 4\n", "line 3"),
        (b"the 1 2\ncat 3 4\vsat 5 6\n", "line 2"),
        (b"the 1 2\ncat 3 4\fsat 5 6\n", "line 2"),
        (b"the 1 2\ncat 3 4\rsat 5 6\n", "line 2"),
        (b"the 1 2\ncat 3 4the 1 2\ndog 5 6\n", "line 2: 'cat 3 4the 1 2'"),
        (b"1 2\ncat - .5 1\n", "line 2: 'cat - .5 1'"),
        (b"1 2\ncat -. 5 1\n", "line 2"),
        (b"1 2\ncat . 5 1\n", "line 2"),
        (b"1 2\ncat 1e -5 1\n", "line 2"),
        (b"2 2\na 1 2\nb 3e38 3e38\n", "'b' .row 1. has no finite length"),
        (b"3 2\na 1.0 2.0\nb 3 4\n\n", "ends after 2 of 3 words"),
        (b"3 2\na 1 2\nb 3 4\n", "line 1: the heading says 3 words of 2 dimensions, at least 18 bytes"),
        (b"1 2\na 1 2\nb 3 4\n", "line 3: there are more lines than the 1 words"),
        (b"2 2\na 1 2\nb 3 4", "line 3: it does not end in a newline"),
        (binary(b"\n") + b"x", "more data after the 5 words"),
        (binary(b"\n") + b"\n", "more data after the 5 words"),
        (binary(b"\n\n"), "word 2 of 5"),
        (binary(b"").replace(b"the", b""), "word 1 of 5: '' is no word"),
        (binary(b"").replace(struct.pack("<f", 7), struct.pack("<f", np.nan)), "word 3 of 5"),
        (b"2 1\n" + bytes(70_000), "no space ends the word"),
        (b"\xba\x16\x4f\x2f\x0c\0\0\0" * 9, "line 1"),
    ],
)
def test_damage_is_named_with_its_place(tmp_path, data, message):
    with pytest.raises(FormatError, match=f"{re.escape(str(tmp_path / 'vectors'))}.*{message}"):
        loaded(tmp_path, data)


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("block", range(1, 24))
def test_data_after_the_end_is_noticed_wherever_blocks_end(tmp_path, monkeypatch, kind, block):
    monkeypatch.setattr(word2vec_files, "BLOCK_BYTES", block)
    monkeypatch.setattr(word2vec_files, "MAX_WORD_BYTES", 16 + block)
    for extra in (b"x", b"\nx"):
        with pytest.raises(FormatError):
            loaded(tmp_path, FILES[kind] + extra)


@pytest.mark.parametrize("options", [{"binary": True}, {"no_header": False}])
def test_a_heading_that_must_be_there(tmp_path, options):
    with pytest.raises(FormatError, match="is no heading 'words dimensions'; is"):
        loaded(tmp_path, GLOVE, **options)


def test_text_is_not_read_as_binary_nor_binary_as_text(tmp_path):
    with pytest.raises(FormatError):
        loaded(tmp_path, TEXT, binary=True)
    with pytest.raises(FormatError):
        loaded(tmp_path, binary(b"\n"), binary=False)


@pytest.mark.parametrize("data", [b"x" * (1 << 25), b"9 9\n" + b"x" * (1 << 25), b"9 9\n" + b"\0" * (1 << 25)])
def test_an_endless_line_is_refused_without_reading_on(tmp_path, data):
    with pytest.raises(FormatError):
        loaded(tmp_path, gzip.compress(data, 1))


def test_a_limit_reads_the_sound_beginning_of_a_damaged_file(tmp_path):
    for data in (TEXT[:30], binary(b"\n")[:30], GLOVE[:26]):
        assert_same(loaded(tmp_path, data, limit=1), WORDS[:1], ROWS[:1])


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("name", "shape", "word", "value"),
    [
        ("euclidean_vectors.bin.xz", (2747, 10), "the", 0.42145327),
        ("high_precision.kv.bin", (2, 2), "kangaroo.n.01", -7.367134e-04),
        ("high_precision.kv.txt", (2, 2), "kangaroo.n.01", -0.0007369244245224787),
        ("test_glove.txt.gz", (76, 50), "the", 0.418),
        ("toy-model.vec", (22, 5), "the", 0.068811),
        ("crime-and-punishment.vec.gz", (291, 5), "и", -0.11189),
    ],
)
def test_reads_files_of_other_tools(shared_data, name, shape, word, value):
    found = read_word2vec(shared_data / "formats" / "gensim" / name)
    assert found.vectors.shape == shape
    assert found.index_to_key[0] == word
    assert found.vectors[0, 0] == np.float32(value)


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pretrained.vec", "ends after 1 of 3 words"),
        ("lee_fasttext_new.bin.xz", "line 1"),
        ("cp852_fasttext.bin", "line 1"),
        ("toy-data.txt", "line 1"),
        ("lee_background.cor.xz", "line 1"),
    ],
)
def test_refuses_files_of_other_kinds(shared_data, name, message):
    with pytest.raises(FormatError, match=message):
        read_word2vec(shared_data / "formats" / "gensim" / name)
