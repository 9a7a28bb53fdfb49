"""Counts of a corpus: worked values, what they do not depend on, and the cache."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from wenmai.core.errors import CorpusError, RunError
from wenmai.data.cooccurrence import Cooccurrences, CountsConfig
from wenmai.data.cooccurrence_counting import count_cooccurrences
from wenmai.data.corpus import Corpus
from wenmai.data.encoded_corpus import encode_corpus
from wenmai.text.settings import TextConfig, VocabConfig


def count(sentences, *, min_count=1, max_size=None, cache=None, **settings):
    places = {name: settings.pop(name) for name in ("threads", "seed", "part_words") if name in settings}
    corpus = encode_corpus(Corpus.of([sentence.split() for sentence in sentences]), TextConfig())
    vocabulary = VocabConfig(min_count=min_count, max_size=max_size)
    return count_cooccurrences(corpus, vocabulary, CountsConfig(**settings), cache=cache, **places)


def dense(counts):
    matrix = np.zeros((len(counts.vocab),) * 2, np.float32)
    for rows, columns, weights in counts.entries():
        matrix[rows, columns] = weights
        if counts.symmetric:
            matrix[columns, rows] = weights
    return matrix


def named(counts):
    """The non-zero counts as ``{"a b": value}``."""
    words, matrix = list(counts.vocab.tokens), dense(counts)
    return {f"{words[row]} {words[column]}": float(matrix[row, column]) for row, column in np.argwhere(matrix).tolist()}


def zipf_sentences(types, sentences, seed=1):
    generator = np.random.default_rng(seed)
    shares = 1 / np.arange(1, types + 1)
    return [
        " ".join(f"w{word}" for word in generator.choice(types, size, p=shares / shares.sum()))
        for size in generator.integers(1, 40, sentences)
    ]


def files(counts):
    return {path.name: path.read_bytes() for path in counts.folder.glob("*.bin")}


# --- values -------------------------------------------------------------------------------------------------------


def test_a_worked_example():
    counts = count(["a b c a"], window=2)
    pairs = {"a b": 1.5, "b a": 1.5, "b c": 1.0, "c b": 1.0, "a c": 1.5, "c a": 1.5}
    assert named(counts) == pairs
    assert counts.non_zeros == 6
    assert counts.facts["counting"]["words"] == 4


def test_each_side_and_weighting():
    assert named(count(["a b c"], window=2, sides="left")) == {"b a": 1, "c b": 1, "c a": 0.5}
    assert named(count(["a b c"], window=2, sides="right")) == {"a b": 1, "b c": 1, "a c": 0.5}
    assert named(count(["a b c"], window=2, sides="right", weighting="none"))["a c"] == 1
    third = named(count(["a b c d"], window=3, sides="right", weighting="linear"))
    assert (third["a b"], third["a c"], third["a d"]) == pytest.approx((1, 2 / 3, 1 / 3))


def test_words_outside_the_vocabulary_do_not_add_distance():
    sentences = ["a x b", "a b", "b a"]
    counts = count(sentences, window=1, min_count=2)
    assert named(counts) == {"a b": 3, "b a": 3}
    assert named(count(["a a x b b"], window=1, max_size=2)) == {"a a": 2, "b b": 2, "a b": 1, "b a": 1}


def test_windows_end_with_the_sentence():
    counts = count(["a b", "c d"], window=5)
    assert sorted(named(counts)) == ["a b", "b a", "c d", "d c"]


def test_the_sum_of_all_counts_is_that_of_all_pairs():
    sentences = zipf_sentences(600, 300)
    total = 2 * sum(
        Fraction(1, later - place)
        for sentence in sentences
        for length in [len(sentence.split())]
        for place in range(length)
        for later in range(place + 1, min(place + 8, length - 1) + 1)
    )
    counts = count(sentences, window=8)
    assert counts.tiles == 3
    assert dense(counts).sum(dtype=np.float64) == pytest.approx(float(total), rel=1e-7)
    assert counts.non_zeros == np.count_nonzero(dense(counts))


# --- what does not matter -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sides", ["both", "right"])
@pytest.mark.parametrize("sentences", [zipf_sentences(600, 300), [" ".join(zipf_sentences(600, 300))]])
def test_parts_and_threads_do_not_change_a_bit(sides, sentences, tmp_path):
    found = [
        count(sentences, sides=sides, cache=tmp_path / str(number), sample=1e-2, **chosen)
        for number, chosen in enumerate([{}, {"part_words": 500}, {"part_words": 1700, "threads": 3}, {"memory": 1e-9}])
    ]
    assert [counts.facts["counting"]["parts"] for counts in found[:2]] == [1, found[1].facts["counting"]["parts"]]
    assert found[1].facts["counting"]["parts"] > 5
    assert len({counts.facts["counting"]["words"] for counts in found}) == 1
    assert all(files(counts) == files(found[0]) for counts in found)
    assert not list(tmp_path.rglob("new-*"))


def test_sub_sampling_thins_out_frequent_words():
    sentences = zipf_sentences(50, 400)
    whole, thin = count(sentences), count(sentences, sample=1e-3)
    other = count(sentences, sample=1e-3, seed=2)
    clean = count(sentences, sample=1e-3, subsampling="clean")
    assert thin.facts["counting"]["words"] < 0.4 * whole.facts["counting"]["words"]
    assert thin.facts["counting"]["words"] == clean.facts["counting"]["words"]
    assert dense(clean).sum() < dense(thin).sum() < dense(whole).sum()
    assert dense(other).tolist() != dense(thin).tolist()
    assert count(sentences, seed=2).folder == whole.folder  # no draw, no matter


# --- the cache ----------------------------------------------------------------------------------------------------


def test_counts_are_made_once_for_all_that_ask_for_the_same():
    sentences = zipf_sentences(50, 20)
    first = count(sentences, window=4)
    again = count(sentences, window=4, memory=1.0, threads=2)
    assert again.folder == first.folder
    assert again.facts == first.facts
    others = [{"window": 5}, {"window": 4, "sides": "left"}, {"window": 4, "weighting": "none"}]
    others += [{"window": 4, "sample": 0.1}, {"window": 4, "min_count": 2}]
    assert len({count(sentences, **other).fingerprint for other in others} | {first.fingerprint}) == 6


def test_counts_of_a_copy_name_the_copy(tmp_path):
    for name in ("first.txt", "copy.txt"):
        (tmp_path / name).write_text("a b\n")
        corpus = encode_corpus(Corpus.of_paths([tmp_path / name]), TextConfig())
        found = count_cooccurrences(corpus, VocabConfig(min_count=1), CountsConfig())
        assert [source["path"] for source in found.facts["sources"]] == [str(tmp_path / name)]


def spoil_size(folder):
    path = folder / "weights.bin"
    path.write_bytes(path.read_bytes()[:-4])


def spoil_version(folder):
    content = json.loads((folder / "counts.json").read_bytes())
    (folder / "counts.json").write_text(json.dumps({**content, "version": 99}))


def spoil_order(folder):
    bounds = np.fromfile(folder / "tiles.bin", "<i8")
    bounds[0] = 7
    bounds.tofile(folder / "tiles.bin")


def spoil_entry(name, kind, place, value):
    def spoil(folder):
        content = np.fromfile(folder / name, kind)
        content[place] = value
        content.tofile(folder / name)

    return spoil


SPOILT = [
    spoil_entry("places.bin", "<u4", 3, 300 << 16),
    spoil_entry("places.bin", "<u4", 3, 300),
    spoil_entry("places.bin", "<u4", -1, 60 << 16),  # the vocabulary has fewer words
    spoil_entry("places.bin", "<u4", -1, 60),
    spoil_entry("weights.bin", "<f4", 3, 0),
    spoil_entry("weights.bin", "<f4", 3, np.nan),
]


@pytest.mark.parametrize(
    "spoil", [spoil_size, spoil_version, spoil_order, lambda f: (f / "vocab.json").unlink(), *SPOILT]
)
def test_damaged_counts_are_noticed_and_made_again(spoil):
    sentences = zipf_sentences(50, 20)
    counts = count(sentences)
    before = files(counts)
    spoil(counts.folder)
    with pytest.raises(RunError, match=str(counts.folder)):
        Cooccurrences.open(counts.folder)
    assert files(count(sentences)) == before


def test_one_word_a_line_has_nothing_to_count(cache_folder):
    with pytest.raises(CorpusError, match="no word of the vocabulary occurs beside another"):
        count(["a", "b", "a"])
    assert not list((Path(cache_folder) / "cooccurrences").iterdir())
