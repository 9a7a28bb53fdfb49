"""Parallel text as numbers in the cache."""

import errno
import json
import logging
import tracemalloc

import numpy as np
import pytest

from wenmai.core.errors import CorpusError, RunError
from wenmai.data.cached import kept
from wenmai.data.encoded_pairs import EncodedPairs, encode_pairs
from wenmai.data.pairs import read_pairs
from wenmai.text.tokenizer import Tokenizer, TokenizerConfig

PAIRS = [("a b c", "x y"), ("c", "z z z z"), ("", "x"), ("b b", "y q"), ("a a a a a a", "x")]


def words(texts) -> Tokenizer:
    return Tokenizer.train(texts, TokenizerConfig(kind="words", min_count=1))


SOURCE = words(source for source, _ in PAIRS)
TARGET = words(["x y z"])


@pytest.fixture
def encoded() -> EncodedPairs:
    return encode_pairs(read_pairs(PAIRS), SOURCE, TARGET, longest=5)


def test_each_side_is_encoded_by_its_tokenizer(encoded):
    kept = [PAIRS[place] for place in (0, 1, 3)]
    assert len(encoded) == 3
    for number, (source, target) in enumerate(kept):
        assert encoded.source(number).tolist() == SOURCE.encode(source).ids
        assert encoded.target(number).tolist() == TARGET.encode(target).ids
    assert encoded.lengths.tolist() == [[3, 2], [1, 4], [2, 2]]
    assert encoded.source(0).dtype == np.int32
    assert encoded.verify() == []


def test_what_is_left_out_and_what_is_unknown_is_counted(encoded):
    stats = encoded.stats
    assert (stats.pairs, stats.empty, stats.too_long) == (3, 1, 1)
    assert (stats.source_tokens, stats.target_tokens) == (6, 8)
    assert (stats.source_unknown, stats.target_unknown) == (0, 1)


def test_a_number_that_no_pair_has_is_refused(encoded):
    for number in (-1, 3):
        with pytest.raises(IndexError, match=f"no pair {number} among 3"):
            encoded.source(number)


def test_pairs_are_encoded_once(encoded, monkeypatch):
    monkeypatch.setattr(Tokenizer, "encode_batch", None)
    again = encode_pairs(read_pairs(iter(PAIRS)), SOURCE, TARGET, longest=5)
    assert again.folder == encoded.folder
    assert again.stats == encoded.stats


def test_all_that_matters_changes_the_fingerprint(encoded):
    others = [
        encode_pairs(read_pairs(PAIRS[:-1]), SOURCE, TARGET, longest=5),
        encode_pairs(read_pairs(PAIRS), SOURCE, TARGET, longest=6),
        encode_pairs(read_pairs(PAIRS), TARGET, SOURCE, longest=5),
        encode_pairs(read_pairs(PAIRS, swap=True), SOURCE, TARGET, longest=5),
        encode_pairs(read_pairs(PAIRS), words(["a b c d"]), TARGET, longest=5),
    ]
    assert len({each.fingerprint for each in [encoded, *others]}) == 6


def test_a_damaged_cache_is_made_again(encoded, caplog):
    path = encoded.folder / "source.bin"
    content = path.read_bytes()
    path.write_bytes(content[:-4])
    with caplog.at_level(logging.WARNING):
        again = encode_pairs(read_pairs(PAIRS), SOURCE, TARGET, longest=5)
    assert "made again" in caplog.text
    assert path.read_bytes() == content
    assert again.verify() == []
    assert [folder.name for folder in encoded.folder.parent.iterdir()] == [encoded.folder.name]


@pytest.mark.parametrize("name", ["source.bin", "target-starts.bin", "pairs.json", "manifest.json"])
def test_a_damaged_folder_is_explained(encoded, name):
    path = encoded.folder / name
    for content in (b"", path.read_bytes()[:-8], None):
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        with pytest.raises(RunError):
            EncodedPairs.open(encoded.folder)


def test_starts_that_do_not_rise_are_found(encoded):
    np.array([0, 4, 3, 6], "<i8").tofile(encoded.folder / "source-starts.bin")
    with pytest.raises(RunError, match="does not rise from 0 to 6"):
        EncodedPairs.open(encoded.folder)
    assert encoded.verify() != []


def test_another_version_is_refused(encoded):
    path = encoded.folder / "pairs.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | {"version": 99}), encoding="utf-8")
    with pytest.raises(RunError, match="version is 99"):
        EncodedPairs.open(encoded.folder)


def test_nothing_left_is_explained():
    with pytest.raises(CorpusError, match=r"all 5 pairs were left out: 4 have a side of more than 1 tokens.*1 have"):
        encode_pairs(read_pairs([*PAIRS[:1], *PAIRS[:1], *PAIRS[2:]]), SOURCE, TARGET, longest=1)


def test_a_side_that_normalisation_empties_is_left_out():
    tokenizer = Tokenizer.train(["a b"] * 2, TokenizerConfig())
    found = encode_pairs(read_pairs([("a", "b"), ("▁", "b")]), tokenizer, tokenizer, longest=9)
    assert (found.stats.pairs, found.stats.empty) == (1, 1)


def test_a_file_that_changes_meanwhile_is_an_error(tmp_path, cache_folder):
    path = tmp_path / "pairs.tsv"
    path.write_text("a\tx\n", encoding="utf-8")

    def change(_: int, __: int | None) -> None:
        path.write_text("b\tx\n", encoding="utf-8")

    with pytest.raises(CorpusError, match="changed while it was read"):
        encode_pairs(read_pairs(path), SOURCE, TARGET, longest=5, progress=change)
    assert list((cache_folder / "pairs").iterdir()) == []


def test_a_cache_that_cannot_be_written_is_explained(tmp_path):
    (tmp_path / "cache").write_text("a file, not a folder", encoding="utf-8")
    with pytest.raises(RunError, match="set WENMAI_CACHE"):
        encode_pairs(read_pairs(PAIRS), SOURCE, TARGET, longest=5, cache=tmp_path / "cache")


def test_memory_does_not_grow_with_the_text(tmp_path):
    def peak(lines: int) -> int:
        path = tmp_path / f"{lines}.tsv"
        path.write_text("a b c a b c\tx y z x y z\n" * lines, encoding="utf-8")
        tracemalloc.start()
        encode_pairs(read_pairs(path), SOURCE, TARGET, longest=9)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    assert peak(20_000) < 1.3 * peak(5_000)


def test_a_cache_without_room_is_reported_in_one_line(tmp_path, monkeypatch):
    def full(folder):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setenv("WENMAI_CACHE", str(tmp_path))
    with pytest.raises(RunError, match=r"cannot be written \(No space left on device\); set WENMAI_CACHE"):
        kept("pairs", "0" * 64, full)
    assert not (tmp_path / "pairs" / ("0" * 64)).exists()
