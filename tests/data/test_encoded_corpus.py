import json
import logging
import multiprocessing
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wenmai.core.errors import CorpusError, RunError
from wenmai.data import encoded_corpus as module
from wenmai.data.corpus import Corpus
from wenmai.data.encoded_corpus import EncodedCorpus, encode_corpus
from wenmai.text.settings import TextConfig

SENTENCES = st.lists(st.lists(st.sampled_from(["a", "b", "c", "dd", "é", "中"]), max_size=8), min_size=1, max_size=12)


def number(source: object, *, max_types: int = 1000, **text: object) -> EncodedCorpus:
    return encode_corpus(Corpus.of(source), TextConfig(**text), max_types=max_types)


def text_file(folder: Path, content: str = "b a\n\nc a b\na\n", name: str = "corpus.txt") -> Path:
    path = folder / name
    path.write_text(content)
    return path


def test_ids_are_in_order_of_frequency_and_ties_in_order_of_appearance(tmp_path: Path) -> None:
    encoded = number(text_file(tmp_path, "x b a\n\n  \nc a b\na d\n"))
    assert encoded.words == ["a", "b", "x", "c", "d"]
    assert encoded.counts.tolist() == [3, 2, 1, 1, 1]
    assert encoded.tokens.tolist() == [2, 1, 0, 3, 0, 1, 0, 4]
    assert encoded.starts.tolist() == [0, 3, 6, 8]
    assert (encoded.tokens.dtype, encoded.starts.dtype, encoded.counts.dtype) == (np.int32, np.int64, np.int64)
    assert list(encoded.sentences()) == [["x", "b", "a"], ["c", "a", "b"], ["a", "d"]]
    stats = encoded.stats
    assert (stats.lines, stats.sentences, stats.blank_lines, stats.tokens, stats.types) == (5, 3, 2, 8, 5)
    assert len(encoded) == 8


@settings(max_examples=50, deadline=None)
@given(sentences=SENTENCES, block=st.integers(1, 30))
def test_numbering_loses_nothing(sentences: list[list[str]], block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wenmai.data.documents.BLOCK_BYTES", block)
        patch.setattr(module, "BLOCK_TOKENS", block)
        if not any(sentences):
            with pytest.raises(CorpusError, match="no words"):
                number(Corpus.of_texts(sentences))
            return
        encoded = number(Corpus.of_texts(sentences))
    assert list(encoded.sentences()) == [sentence for sentence in sentences if sentence]
    expected = Counter(token for sentence in sentences for token in sentence).most_common()  # stable on ties too
    assert list(zip(encoded.words, encoded.counts.tolist(), strict=True)) == expected
    assert encoded.stats.blank_lines == sentences.count([])


# ---- the cache


def test_a_corpus_is_numbered_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = text_file(tmp_path)
    first = number(path)
    copy = tmp_path / "elsewhere" / ".hidden-is-skipped"
    copy.parent.mkdir()
    copy.write_text("not read")
    text_file(copy.parent)
    monkeypatch.setattr(Corpus, "batches", None)  # reading would fail
    assert number(path).folder == first.folder
    again = number(copy.parent)  # the same content by another name
    assert again.folder == first.folder
    assert again.stats.skipped_files == 1
    for encoded, named in ((first, path), (again, copy.parent / path.name)):
        assert [(file.path, file.size_bytes) for file in encoded.sources] == [(str(named), path.stat().st_size)]


def test_a_copy_of_a_text_is_known_by_its_own_name(tmp_path: Path) -> None:
    for name in ("first.txt", "copy.txt"):
        path = text_file(tmp_path, "new york\n" * 20, name)
        encoded = number(path, phrases=1, phrase_threshold=1.0)
        assert [file.path for file in encoded.sources] == [str(path)]
    assert encoded.words == ["new_york"]


def test_content_and_settings_make_the_fingerprint(tmp_path: Path) -> None:
    prints = {number(text_file(tmp_path)).fingerprint}
    prints.add(number(text_file(tmp_path, "b a\n\nc a b\na B\n")).fingerprint)
    prints.add(number(text_file(tmp_path, "b a\n\nc a b\na B\n"), lowercase=True).fingerprint)
    prints.add(number(tmp_path / "corpus.txt", segment="characters").fingerprint)
    prints.add(number(tmp_path / "corpus.txt", max_types=2000).fingerprint)
    assert len(prints) == 5


def test_text_without_files_is_known_by_its_tokens() -> None:
    one = number(["a b", "c"])
    assert number(iter(["a b", "c"])).fingerprint == one.fingerprint
    others = [["a", "b c"], ["a b c"], ["a x", "c"], ["a b", "", "c"]]
    assert len({number(lines).fingerprint for lines in others} | {one.fingerprint}) == 5
    assert one.sources == []


def test_damage_is_noticed_and_repaired(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = text_file(tmp_path)
    folder = number(path).folder
    assert EncodedCorpus.open(folder).verify() == []
    for name in ["tokens.bin", "sentences.bin", "counts.bin", "words.txt", "corpus.json", "manifest.json"]:
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[:-1])
        if name != "manifest.json":  # a final line end is no part of its content
            with pytest.raises(RunError, match=str(folder)):
                EncodedCorpus.open(folder)
        (folder / name).unlink()
        with pytest.raises(RunError, match=str(folder)):
            EncodedCorpus.open(folder)
        with caplog.at_level(logging.WARNING):
            assert number(path).words == ["a", "b", "c"]
        assert "made again" in caplog.text
        caplog.clear()
        assert (folder / name).read_bytes() == whole
    (folder / "tokens.bin").write_bytes(bytes(folder.joinpath("tokens.bin").stat().st_size))
    assert any("tokens.bin has changed" in problem for problem in EncodedCorpus.open(folder).verify())
    assert sorted(entry.name for entry in folder.parent.iterdir()) == [folder.name], "nothing is left behind"


@pytest.mark.parametrize(
    "change",
    [
        {"version": 99},
        {"stats": {"tokens": 2**60}},
        {"stats": {"tokens": "six"}},
        {"stats": {"unknown": 1}},
        {"stats": []},
        {"sources": [{"path": 1}]},
        {"text": None},
    ],
)
def test_descriptions_are_not_trusted(tmp_path: Path, change: dict[str, object]) -> None:
    folder = number(text_file(tmp_path)).folder
    content = json.dumps(json.loads((folder / "corpus.json").read_bytes()) | change)
    manifest = json.loads((folder / "manifest.json").read_bytes())
    manifest["files"]["corpus.json"]["bytes"] = len(content)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "corpus.json").write_text(content)
    with pytest.raises(RunError, match="damaged"):
        EncodedCorpus.open(folder)


def test_words_are_not_trusted(tmp_path: Path) -> None:
    folder = number(text_file(tmp_path)).folder
    (folder / "words.txt").write_bytes(b"a\nb\nc\n".replace(b"b\n", b"bb"))
    with pytest.raises(RunError, match="has 2 words, expected 3"):
        _ = EncodedCorpus.open(folder).words


def test_an_error_leaves_nothing_behind(tmp_path: Path, cache_folder: Path) -> None:
    with pytest.raises(CorpusError, match=r"corpus\.txt: no words in 3 lines"):
        number(text_file(tmp_path, "\n \n\t\n"))
    with pytest.raises(CorpusError, match=r"2 of them skipped as bad"):
        number(text_file(tmp_path, "\0\n\0\n"), bad_lines="skip")
    with pytest.raises(CorpusError, match="line 1, byte 2"):
        number(text_file(tmp_path, "ab\0"))
    assert list(cache_folder.rglob("*.bin")) == []
    assert list((cache_folder / "corpora").iterdir()) == []


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "_finish", full)
    with pytest.raises(RunError, match=r"No space left on device.*WENMAI_CACHE"):
        number(text_file(tmp_path))


def _number_in_process(path: Path, cache: Path, barrier: "multiprocessing.synchronize.Barrier") -> None:
    barrier.wait()
    encoded = encode_corpus(Corpus.of(path), TextConfig(), cache=cache)
    assert encoded.counts.sum() == 300_000
    assert encoded.words[0] == "w0"


def test_two_processes_at_once(tmp_path: Path) -> None:
    path = text_file(tmp_path, " ".join(f"w{number % 1000}" for number in range(300_000)))
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    cache = tmp_path / "cache"
    processes = [context.Process(target=_number_in_process, args=(path, cache, barrier)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
    assert len(list((cache / "corpora").iterdir())) == 1


def test_whoever_comes_second_takes_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = text_file(tmp_path)
    first = number(path)
    found = iter([None])  # nothing at first, as if the other process finished between the look and the move
    monkeypatch.setattr(module, "opened", lambda folder, open_folder: next(found, EncodedCorpus.open(folder)))
    assert number(path).folder == first.folder
    assert [entry.name for entry in first.folder.parent.iterdir()] == [first.folder.name]


# ---- limits


def test_rare_types_are_pruned_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wenmai.data.documents.BLOCK_BYTES", 64)
    sentences = [["the", "cat", f"rare{place}"] for place in range(200)]
    encoded = number(sentences, max_types=20)
    stats = encoded.stats
    assert encoded.words[:2] == ["the", "cat"]
    assert encoded.counts[:2].tolist() == [200, 200]
    assert stats.types <= 20
    assert stats.tokens == 600
    assert stats.pruned_tokens == np.count_nonzero(encoded.tokens == -1) > 150
    assert stats.pruned_types + stats.types == 202
    assert next(iter(encoded.sentences())) == ["the", "cat"]
    kept = encoded.tokens[encoded.tokens >= 0]
    assert np.bincount(kept, minlength=stats.types).tolist() == encoded.counts.tolist()


def test_memory_stays_flat_as_one_line_grows(tmp_path: Path) -> None:
    """Peak memory of numbering one line of 2 MB and one of 42 MB differs by less than the text's growth."""
    script = """
import resource, sys
from pathlib import Path
from wenmai.data.corpus import Corpus
from wenmai.data.encoded_corpus import encode_corpus
from wenmai.text.settings import TextConfig
def peak(path):
    encode_corpus(Corpus.of(path), TextConfig(), cache=Path(sys.argv[3]))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(-peak(sys.argv[1]) + peak(sys.argv[2]))
"""
    words = np.array([f"word{number:05}" for number in range(20_000)])
    line = " ".join(np.random.default_rng(1).choice(words, 200_000)) + " "
    paths = [text_file(tmp_path, line * times, f"{times}.txt") for times in (1, 21)]
    command = [sys.executable, "-c", script, *map(str, paths), str(tmp_path / "cache")]
    growth = int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    assert growth < 8_000_000, f"{growth:,} bytes more for 40 MB more text"


# ---- phrases

PHRASES = ["new york is big", "new york is old", "old is new", "is york in new york", "in new york city"] * 5


def test_phrases_are_joined() -> None:
    encoded = number(PHRASES, phrases=1, phrase_threshold=2.0, phrase_min_count=5)
    assert list(encoded.sentences())[:5] == [
        ["new_york", "is", "big"],
        ["new_york", "is", "old"],
        ["old", "is", "new"],
        ["is", "york", "in", "new_york"],
        ["in", "new_york", "city"],
    ]
    expected = Counter(word for sentence in encoded.sentences() for word in sentence)
    assert dict(zip(encoded.words, encoded.counts.tolist(), strict=True)) == expected
    assert encoded.stats.types == len(encoded.words) == len(expected)
    assert encoded.stats.tokens == len(encoded.tokens) == expected.total()
    assert encoded.verify() == []


def test_phrases_grow_by_passes_with_a_falling_threshold(cache_folder: Path) -> None:
    lines = ["a b c x", "a b c y", "z a b c", "x y z x"] * 30
    once = number(lines, phrases=1, phrase_threshold=2.0, phrase_min_count=1)
    twice = number(lines, phrases=2, phrase_threshold=1.0, phrase_min_count=1)
    assert next(once.sentences()) == ["a_b", "c", "x"]
    assert next(twice.sentences()) == ["a_b_c", "x"]
    assert len(list((cache_folder / "corpora").iterdir())) == 3, "the first pass is shared, as is the plain corpus"


def test_a_phrase_may_be_a_word_that_is_there_already() -> None:
    encoded = number(["a b c", "a_b"] * 10, phrases=1, phrase_threshold=1.0, phrase_min_count=1)
    assert encoded.counts[encoded.words.index("a_b")] == 20
    assert len(set(encoded.words)) == len(encoded.words)


def test_no_pair_reaches_the_threshold() -> None:
    plain = number(PHRASES)
    encoded = number(PHRASES, phrases=1, phrase_threshold=1e6)
    assert encoded.words == plain.words
    assert encoded.tokens.tolist() == plain.tokens.tolist()
    assert encoded.fingerprint != plain.fingerprint


@settings(max_examples=40, deadline=None)
@given(sentences=SENTENCES.filter(any), block=st.integers(1, 12), passes=st.integers(1, 2))
def test_joining_does_not_depend_on_blocks_and_loses_nothing(
    sentences: list[list[str]], block: int, passes: int
) -> None:
    phrases = {"phrases": passes, "phrase_threshold": 0.5, "phrase_min_count": 1}
    whole = number(Corpus.of_texts(sentences), **phrases)
    (whole.folder / "manifest.json").unlink()  # or the cache would answer
    expected = list(whole.sentences())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK_TOKENS", block)
        again = number(Corpus.of_texts(sentences), **phrases)
    assert list(again.sentences()) == expected
    spelled = [[part for word in sentence for part in word.split("_")] for sentence in expected]
    assert spelled == [sentence for sentence in sentences if sentence]


# ---- real text


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("name", "segment", "first"),
    [("enwiki", "words", "the"), ("zhwiki/zhwiki_hant_sample.txt.xz", "chinese", "的")],
)
def test_wikipedia(shared_data: Path, name: str, segment: str, first: str) -> None:
    encoded = number(shared_data / name, segment=segment, script="simplified", max_types=1_000_000)
    stats = encoded.stats
    assert stats.lines == stats.sentences + stats.blank_lines + 2 * stats.documents
    assert stats.documents > 200
    assert first in encoded.words[:5]
    assert not any(word.startswith("<doc") for word in encoded.words)


def test_what_killed_processes_left_behind_goes_after_a_day(tmp_path: Path, cache_folder: Path) -> None:
    corpora = cache_folder / "corpora"
    old, fresh = corpora / ".new-1.abc.tmp", corpora / ".new-2.abc.tmp"
    for folder in (old, fresh):
        folder.mkdir(parents=True)
        (folder / "tokens.bin").write_bytes(b"half")
    os.utime(old, (0, 0))
    number(text_file(tmp_path))
    assert not old.exists()
    assert fresh.exists()
