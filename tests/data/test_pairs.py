"""Parallel text from files, the catalogue and Python."""

import bz2
import gzip
import json
import lzma
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from wenmai.core.errors import CorpusError, SettingError
from wenmai.data import numerals
from wenmai.data.pairs import PairsConfig, PairsStats, read_pairs

PAIRS = [("Go.", "Ve."), ("I run.", "Yo corro."), ("你好 \u2028 x", "Hola")]
TSV = "".join(f"{source}\t{target}\n" for source, target in PAIRS)


def write(path: Path, text: str | bytes) -> str:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_a_file_with_tabs_is_read_again_and_again(tmp_path):
    pairs = read_pairs(write(tmp_path / "spa.txt", TSV))
    assert list(pairs) == list(pairs) == PAIRS
    assert pairs.sources == (str(tmp_path / "spa.txt"),)


def test_further_columns_line_ends_and_a_byte_order_mark_are_left_out(tmp_path):
    text = "\ufeffGo.\tVe.\tCC-BY 2.0\tTom\r\n I run. \tYo corro.\r\n"
    assert list(read_pairs(write(tmp_path / "spa.txt", text))) == PAIRS[:2]


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress, zstandard.compress])
def test_compressed_files_are_told_by_content(tmp_path, compress):
    assert list(read_pairs(write(tmp_path / "pairs", compress(TSV.encode())))) == PAIRS


def test_two_files_belong_together_line_by_line(tmp_path):
    first = write(tmp_path / "train.en", "".join(f"{source}\n" for source, _ in PAIRS))
    second = write(tmp_path / "train.es.gz", gzip.compress("\n".join(target for _, target in PAIRS).encode()))
    pairs = read_pairs(f"{first},{second}")
    assert list(pairs) == PAIRS
    assert pairs.sources == (first, second)


def test_names_may_have_commas(tmp_path):
    first, second = write(tmp_path / "a,b.en", "one\n"), write(tmp_path / "a,b.de", "eins\n")
    assert list(read_pairs(f"{first},{second}")) == [("one", "eins")]
    assert list(read_pairs(write(tmp_path / "x,y", "one\teins\n"))) == [("one", "eins")]


@pytest.mark.parametrize(
    "record",
    [
        lambda source, target: {"source": source, "target": target, "id": 3},
        lambda source, target: {"tgt": target, "src": source},
        lambda source, target: {"translation": {"en": source, "es": target}},
    ],
)
@pytest.mark.parametrize("name", ["pairs.jsonl", "pairs.NDJSON", "pairs.jsonl.gz"])
def test_json_lines_name_their_sides(tmp_path, record, name):
    text = "\n".join(json.dumps(record(*pair)) for pair in PAIRS)
    content = gzip.compress(text.encode()) if name.endswith("gz") else text
    assert list(read_pairs(write(tmp_path / name, content))) == PAIRS


def test_the_first_record_decides_which_language_is_the_source(tmp_path):
    lines = ['{"translation": {"de": "eins", "en": "one"}}', '{"translation": {"en": "two", "de": "zwei"}}']
    path = write(tmp_path / "pairs.jsonl", "\n".join(lines))
    assert list(read_pairs(path)) == [("eins", "one"), ("zwei", "two")]


def test_pairs_from_python_are_read_again_and_again():
    for given_pairs in (PAIRS, iter(PAIRS), [list(pair) for pair in PAIRS]):
        pairs = read_pairs(given_pairs)
        assert list(pairs) == list(pairs) == PAIRS
        assert pairs.sources == ()


def test_the_catalogue_names_pairs():
    pairs = read_pairs("builtin:numerals-test")
    assert list(pairs) == list(numerals.pairs("test"))
    assert pairs.sources == ("builtin:numerals-test",)
    with pytest.raises(SettingError, match="did you mean 'builtin:numerals"):
        read_pairs("builtin:numeral")


@pytest.mark.shared_data
def test_the_catalogue_has_the_pairs_of_the_data_pack(shared_data, monkeypatch):
    monkeypatch.setenv("WENMAI_DATA_MIRROR", str(shared_data))
    stats = PairsStats()
    pairs = read_pairs("data:multi30k-valid-de,data:multi30k-valid-en")
    assert next(iter(pairs))[1] == "A group of men are loading cotton onto a truck"
    assert sum(1 for _ in pairs.read(stats)) == stats.lines == 1014
    spanish = read_pairs("data:spa-eng", swap=True)
    assert next(iter(spanish))[1] == "Go."
    assert sum(1 for _ in spanish) == 60_000


def test_swapping_takes_the_second_side_for_the_source(tmp_path):
    path = write(tmp_path / "spa.txt", TSV)
    assert list(read_pairs(path, swap=True)) == [(target, source) for source, target in PAIRS]
    assert read_pairs(path, swap=True).fingerprint() != read_pairs(path).fingerprint()


def test_pairs_with_an_empty_side_are_left_out_and_counted(tmp_path):
    stats = PairsStats()
    path = write(tmp_path / "spa.txt", "\tVe.\nGo.\t \nI run.\tYo corro.\n\n")
    assert list(read_pairs(path).read(stats)) == [("I run.", "Yo corro.")]
    assert (stats.lines, stats.empty) == (4, 3)


@given(st.lists(st.tuples(*[st.text(st.characters(codec="utf-8", exclude_characters="\t\n\r\0"), min_size=1)] * 2)))
def test_what_is_written_is_read(tmp_path_factory, pairs):
    path = tmp_path_factory.mktemp("pairs") / "pairs.tsv"
    path.write_bytes("".join(f"{source}\t{target}\n" for source, target in [("a", "b"), *pairs]).encode())
    expected = [(source.strip(), target.strip()) for source, target in pairs if source.strip() and target.strip()]
    assert list(read_pairs(path)) == [("a", "b"), *expected]


def test_the_fingerprint_follows_the_content(tmp_path):
    one, two = (read_pairs(write(tmp_path / name, TSV)) for name in ("one", "two"))
    assert one.fingerprint() == two.fingerprint()
    assert read_pairs(PAIRS).fingerprint() == read_pairs(iter(PAIRS)).fingerprint()
    write(tmp_path / "two", TSV + "a\tb\n")
    assert one.fingerprint() != two.fingerprint()
    assert [file.size_bytes for file in one.hashes()] == [len(TSV.encode())]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"one\teins\ntwo zwei\n", r"line 2 has no tab \('two zwei'\)"),
        (b"one\teins\n\xff\tx\n", "line 2: 0xff is not UTF-8"),
        ("one\teins\n".encode("utf-16"), "line 1: 0xff is not UTF-8.*UTF-16"),
        (b"one\teins\na\0b\tx\n", "line 2 has a NUL"),
        (b"one\teins\rtwo\tzwei\r", "line 1: has a carriage return without a line feed"),
        (b"\t\n\n", "no pairs in 2 lines"),
        (b"x" * (1 << 20) + b"\ty\n", "line 1 is longer than a megabyte"),
        (gzip.compress(TSV.encode() * 99, mtime=0)[:-9], "gzip data is damaged"),
    ],
)
def test_a_bad_file_is_explained(tmp_path, content, message):
    pairs = read_pairs(write(tmp_path / "pairs.txt", content))
    with pytest.raises(CorpusError, match=message) as caught:
        list(pairs)
    assert str(tmp_path / "pairs.txt") in str(caught.value)


@pytest.mark.parametrize(("lines", "others"), [(3, 5), (5, 3)])
def test_files_of_different_length_are_named_with_both_counts(tmp_path, lines, others):
    first, second = write(tmp_path / "a.en", "x\n" * lines), write(tmp_path / "a.de", "x\n" * others)
    with pytest.raises(CorpusError, match=rf"a.en has {lines} lines, .*a.de has {others}"):
        list(read_pairs(f"{first},{second}"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2 is not JSON"),
        ("[1]", "line 2 lacks 'source' or 'target'"),
        ('{"source": "a"}', "line 2 lacks 'source' or 'target'"),
        ('{"source": "a", "target": 3}', "line 2 has a side that is int"),
        ('{"source": "a", "target": "\\u0000"}', "line 2 has a NUL"),
        ('{"source": "a", "target": "\\ud800"}', "line 2 has the lone surrogate"),
        ("[" * 100_000, "line 2 is not JSON"),
    ],
)
def test_a_bad_record_is_explained(tmp_path, line, message):
    path = write(tmp_path / "pairs.jsonl", '{"source": "a", "target": "b"}\n' + line)
    with pytest.raises(CorpusError, match=message):
        list(read_pairs(path))


@pytest.mark.parametrize("line", ['{"a": 1, "b": 2}', "3", '{"translation": {"de": "a"}}', "{}"])
def test_records_without_known_names_are_explained(tmp_path, line):
    with pytest.raises(CorpusError, match=r"line 1 has .*expected an object with 'source' and 'target'"):
        list(read_pairs(write(tmp_path / "pairs.jsonl", line)))


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([], "no pairs in 0 lines"),
        ([("a", "b"), "ab"], "pair 1 from Python is 'ab'"),
        ([("a", "b", "c")], "expected \\(source, target\\)"),
        ([("a", 3)], "side that is int"),
        ([("a", "\0")], "NUL"),
        ([("a", "\ud800")], "lone surrogate"),
    ],
)
def test_bad_pairs_from_python_are_explained(items, message):
    with pytest.raises(CorpusError, match=message):
        list(read_pairs(items))


def test_missing_files_are_named(tmp_path):
    there = write(tmp_path / "a.en", "x\n")
    missing = tmp_path / "a.de"
    for spec in (missing, str(missing), f"{there},{missing}"):
        with pytest.raises(CorpusError, match=r"a\.de: no such file"):
            read_pairs(spec)
    with pytest.raises(CorpusError, match="is a folder"):
        read_pairs(tmp_path)
    with pytest.raises(CorpusError, match="not int"):
        read_pairs(3)
    pairs = read_pairs(there)
    Path(there).unlink()
    with pytest.raises(CorpusError, match=r"a\.en: cannot be read"):
        pairs.fingerprint()


def test_the_settings_have_defaults():
    assert PairsConfig() == PairsConfig(valid=None, swap=False, longest=256)


@pytest.mark.parametrize("form", ["tsv", "tsv.gz", "files"])
def test_progress_counts_the_bytes_on_disk(tmp_path, form):
    rows = [(f"source {number}", f"target {number}") for number in range(40_000)]
    if form == "files":
        paths = [tmp_path / "a", tmp_path / "b"]
        for side, path in enumerate(paths):
            path.write_text("".join(f"{row[side]}\n" for row in rows), encoding="utf-8")
    else:
        paths = [tmp_path / form]
        content = "".join(f"{first}\t{second}\n" for first, second in rows).encode()
        paths[0].write_bytes(gzip.compress(content) if form.endswith(".gz") else content)
    seen = []
    pairs = read_pairs(",".join(map(str, paths)))
    assert list(pairs.read(PairsStats(), progress=lambda done, total: seen.append((done, total)))) == rows
    size = sum(path.stat().st_size for path in paths)
    assert seen == sorted(seen)
    assert seen[-1] == (size, size)
    assert {total for _, total in seen} == {size}
