"""Bags of n-grams, and averages of word vectors."""

import json
import math

import numpy as np
import pytest

from wenmai.core.errors import FormatError, SettingError, VocabError
from wenmai.data.features import FeaturesConfig, NgramFeatures, VectorFeatures, segmented
from wenmai.text.settings import TextConfig
from wenmai.vectors.pooling import StaticTokens
from wenmai.vectors.word_vectors import WordVectors

TEXTS = [["a", "b", "a"], ["b", "c"], ["c"], []]


def named(config, texts=TEXTS):
    """The features of each text by name, for features with a vocabulary."""
    features = NgramFeatures(config)
    table = features.fit_transform(texts).toarray()
    names = features._vectoriser.get_feature_names_out()
    return [{name: value for name, value in zip(names, row, strict=True) if value} for row in table]


def test_counts_are_scaled_to_length_one():
    config = FeaturesConfig(buckets=0, weighting="counts")
    rows = named(config)
    length = math.sqrt(4 + 1 + 1 + 1)
    assert rows[0] == pytest.approx({"a": 2 / length, "b": 1 / length, "a b": 1 / length, "b a": 1 / length})
    assert rows[3] == {}


def test_tfidf_is_the_formula():
    rows = named(FeaturesConfig(buckets=0, word_ngrams=1))
    idf = {word: math.log((1 + 4) / (1 + count)) + 1 for word, count in (("a", 1), ("b", 2), ("c", 2))}
    length = math.hypot(2 * idf["a"], idf["b"])
    assert rows[0] == pytest.approx({"a": 2 * idf["a"] / length, "b": idf["b"] / length})
    assert rows[2] == pytest.approx({"c": 1.0})


def test_binary_counts_once_and_rare_ngrams_go():
    assert named(FeaturesConfig(buckets=0, word_ngrams=1, weighting="binary", min_texts=2)) == [
        pytest.approx({"b": 1.0}),
        pytest.approx({"b": 2**-0.5, "c": 2**-0.5}),
        pytest.approx({"c": 1.0}),
        {},
    ]


def test_ngrams_of_characters_have_their_own_names():
    config = FeaturesConfig(buckets=0, word_ngrams=0, min_ngram=2, max_ngram=3, weighting="counts")
    assert set(named(config, [["ab"]])[0]) == {"\t<a", "\tab", "\tb>", "\t<ab", "\tab>"}


@pytest.mark.parametrize("weighting", ["counts", "binary", "tfidf"])
@pytest.mark.parametrize("buckets", [0, 64])
def test_saved_ngrams_come_back(tmp_path, buckets, weighting):
    config = FeaturesConfig(buckets=buckets, weighting=weighting, min_ngram=1, max_ngram=2)
    features = NgramFeatures(config)
    table = features.fit_transform(TEXTS)
    loaded = NgramFeatures.load(config, tmp_path, features.save(tmp_path))
    assert loaded.size == features.size == table.shape[1]
    unseen = [*TEXTS, ["a", "new"], ["new"]]
    np.testing.assert_allclose(loaded.transform(unseen).toarray(), features.transform(unseen).toarray())
    np.testing.assert_allclose(loaded.transform(TEXTS).toarray(), table.toarray())


def test_damaged_files_are_noticed(tmp_path):
    config = FeaturesConfig(buckets=0)
    features = NgramFeatures(config)
    features.fit_transform(TEXTS)
    tensors = features.save(tmp_path)
    with pytest.raises(FormatError, match="do not fit"):
        NgramFeatures.load(config, tmp_path, {"features.idf": tensors["features.idf"][1:]})
    with pytest.raises(FormatError, match="do not fit"):
        NgramFeatures.load(config, tmp_path, {})
    for content in (b"{", b"[]", b'{"version": 2, "tokens": []}', b'{"version": 1, "tokens": ["a", "a"]}', b"[" * 9999):
        (tmp_path / "vocabulary.json").write_bytes(content)
        with pytest.raises(FormatError, match=r"vocabulary\.json"):
            NgramFeatures.load(config, tmp_path, tensors)


def test_texts_without_words_are_an_error():
    for buckets in (0, 64):
        with pytest.raises(VocabError):
            NgramFeatures(FeaturesConfig(buckets=buckets)).fit_transform([[], []])
    with pytest.raises(VocabError, match="2 texts"):
        NgramFeatures(FeaturesConfig(buckets=0, min_texts=2)).fit_transform([["a"], ["b"]])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"weighting": "sif"}, "is for word vectors"),
        ({"weighting": "counts", "features": "runs/a"}, "is for n-grams"),
        ({"buckets": 7, "features": "runs/a"}, "buckets has no effect"),
        ({"min_texts": 2}, "buckets=0"),
        ({"min_ngram": 3, "max_ngram": 2}, "in order"),
        ({"max_ngram": 2}, "both"),
        ({"word_ngrams": 0}, "no features"),
    ],
)
def test_settings_without_an_effect_are_refused(settings, message):
    with pytest.raises(SettingError, match=message):
        FeaturesConfig(**settings)


# --- averages -----------------------------------------------------------------------------------------------------


@pytest.fixture
def vectors():
    draws = np.random.default_rng(5)
    return WordVectors(["a", "b", "c"], draws.normal(size=(3, 4)))


def naive(vectors, texts, weights):
    rows = np.zeros((len(texts), 4))
    for row, text in enumerate(texts):
        known = [word for word in text if word in vectors]
        if known:
            total = sum(weights(word) for word in known)
            rows[row] = sum(weights(word) / total * vectors[word] for word in known)
    return rows


@pytest.mark.parametrize("weighting", ["mean", "tfidf", "sif"])
def test_averages_are_the_formula(vectors, weighting, tmp_path):
    texts = [["a", "b", "a", "?"], ["b", "c"], ["c"], [], ["a"]]
    words = [word for text in texts for word in text]
    if weighting == "mean":
        rows = naive(vectors, texts, lambda word: 1.0)
    elif weighting == "tfidf":
        rows = naive(vectors, texts, lambda word: math.log(6 / (1 + sum(word in text for text in texts))) + 1)
    else:
        rows = naive(vectors, texts, lambda word: 1e-3 / (1e-3 + words.count(word) / len(words)))
        component = np.linalg.svd(rows)[2][0]
        rows = rows - np.outer(rows @ component, component)
    deviation = rows.std(axis=0)
    expected = (rows - rows.mean(axis=0)) / np.where(deviation > 0, deviation, 1)
    config = FeaturesConfig(features="vectors", weighting=weighting)
    encoder = StaticTokens(vectors)
    features = VectorFeatures(config, encoder)
    np.testing.assert_allclose(features.fit_transform(texts), expected, atol=1e-4)
    tensors = features.save(tmp_path)
    loaded = VectorFeatures.load(config, encoder, tmp_path, tensors)
    new = [["a", "b", "new"], ["c", "c"]]
    np.testing.assert_allclose(loaded.transform(new), features.transform(new), atol=1e-5)
    with pytest.raises(FormatError, match=r"features\.mean"):
        VectorFeatures.load(config, encoder, tmp_path, tensors | {"features.mean": np.zeros(3)})


def test_words_that_no_vector_has_are_an_error(vectors):
    with pytest.raises(VocabError, match="segmentation"):
        VectorFeatures(FeaturesConfig(features="vectors"), StaticTokens(vectors)).fit_transform([["x"], ["y"]])


def test_texts_are_cut_one_by_one():
    texts = ["A b\nc", "", "你好 world\0x", "d"] * 600
    found = segmented(texts, TextConfig(lowercase=True))
    assert found[:4] == [["a", "b", "c"], [], ["你好", "world", "x"], ["d"]]
    assert len(found) == 2400
    assert segmented(["你好"], TextConfig(segment="characters")) == [["你", "好"]]
    assert segmented([], TextConfig()) == []
    assert json.dumps(found[2396]) == '["a", "b", "c"]'
