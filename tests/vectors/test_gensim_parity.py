"""The same answers as gensim and scipy."""

import numpy as np
import pytest

from wenmai.formats.word2vec import read_word2vec, write_word2vec
from wenmai.measures import words
from wenmai.measures.words import evaluate_analogies, evaluate_similarity, spearman
from wenmai.vectors import word_vectors
from wenmai.vectors.word_vectors import WordVectors

KeyedVectors = pytest.importorskip("gensim.models.keyedvectors").KeyedVectors
stats = pytest.importorskip("scipy.stats")

pytestmark = pytest.mark.parity

KEYS = [f"w{i}" for i in range(300)]


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return np.random.default_rng(5).standard_normal((300, 20)).astype(np.float32)


@pytest.fixture(scope="module")
def ours(rows) -> WordVectors:
    return WordVectors(KEYS, rows)


@pytest.fixture(scope="module")
def theirs(rows):
    vectors = KeyedVectors(20)
    vectors.add_vectors(KEYS, rows)
    return vectors


def assert_same_neighbours(found, expected, tolerance=1e-6):
    assert [word for word, _ in found] == [word for word, _ in expected]
    assert [score for _, score in found] == pytest.approx([score for _, score in expected], abs=tolerance)


@pytest.mark.parametrize(
    "question",
    [
        {"positive": "w1"},
        {"positive": ["w1", "w2"], "negative": ["w3"]},
        {"positive": [("w1", 2.0), "w2"], "negative": [("w3", -0.3)]},
        {"positive": ["w7"], "restrict_vocab": 50},
        {"positive": ["w7"], "topn": 400},
    ],
)
def test_most_similar(ours, theirs, question):
    assert_same_neighbours(ours.most_similar(**question), theirs.most_similar(**question))


def test_most_similar_to_vectors(ours, theirs, rows):
    assert_same_neighbours(
        ours.most_similar(["w1", rows[2]], [rows[3]]), theirs.most_similar(["w1", rows[2]], [rows[3]])
    )
    assert_same_neighbours(ours.similar_by_vector(rows[9]), theirs.similar_by_vector(rows[9]))


@pytest.mark.filterwarnings("ignore:Call to deprecated `init_sims`")  # gensim's own call
def test_most_similar_cosmul(monkeypatch, ours, theirs):
    monkeypatch.setattr(word_vectors, "COSMUL_EPSILON", 1e-6)  # gensim's, instead of the paper's 0.001
    for i in range(0, 60, 3):
        question = ([f"w{i}", f"w{i + 1}"], [f"w{i + 2}"])
        assert_same_neighbours(ours.most_similar_cosmul(*question), theirs.most_similar_cosmul(*question), 1e-5)


def test_pairs_and_lists(ours, theirs, rows):
    for i in range(30):
        a, b = f"w{i}", f"w{2 * i + 7}"
        assert ours.similarity(a, b) == pytest.approx(theirs.similarity(a, b), abs=1e-6)
        assert ours.distance(a, b) == pytest.approx(theirs.distance(a, b), abs=1e-6)
        assert ours.rank(a, b) == theirs.rank(a, b)
        assert ours.closer_than(a, b) == theirs.closer_than(a, b)
        five = [f"w{i + k}" for k in range(5)]
        assert ours.doesnt_match(five) == theirs.doesnt_match(five)
        assert ours.n_similarity(five, five[2:]) == pytest.approx(theirs.n_similarity(five, five[2:]), abs=1e-6)
        assert ours.get_vector(a, norm=True) == pytest.approx(theirs.get_vector(a, norm=True), abs=1e-6)
        for normalised in (False, True):
            mean = {"weights": [1, -2, 3, 4, 5], "pre_normalize": normalised, "post_normalize": not normalised}
            expected = theirs.get_mean_vector(five, **mean)
            assert ours.get_mean_vector(five, **mean) == pytest.approx(expected, abs=1e-6)
    assert ours.distances("w3") == pytest.approx(theirs.distances("w3"), abs=1e-6)
    assert ours.distances(rows[3], KEYS[:9]) == pytest.approx(theirs.distances(rows[3], KEYS[:9]), abs=1e-6)


@pytest.mark.parametrize("binary", [False, True])
def test_files_go_both_ways(tmp_path, ours, theirs, rows, binary):
    theirs.save_word2vec_format(str(tmp_path / "theirs"), binary=binary)
    found = read_word2vec(tmp_path / "theirs")
    assert found.index_to_key == KEYS
    assert found.vectors.tobytes() == rows.tobytes()
    write_word2vec(tmp_path / "ours", ours, binary=binary)
    back = KeyedVectors.load_word2vec_format(str(tmp_path / "ours"), binary=binary)
    assert back.index_to_key == KEYS
    assert back.vectors.tobytes() == rows.tobytes()


@pytest.mark.filterwarnings("ignore:unclosed file", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_glove_text_goes_both_ways(tmp_path, ours, theirs, rows):  # gensim opens the file twice, closes it once
    theirs.save_word2vec_format(str(tmp_path / "theirs"), write_header=False)
    assert read_word2vec(tmp_path / "theirs").vectors.tobytes() == rows.tobytes()
    write_word2vec(tmp_path / "ours", ours, header=False)
    back = KeyedVectors.load_word2vec_format(str(tmp_path / "ours"), no_header=True)
    assert back.vectors.tobytes() == rows.tobytes()


def test_similarity_sets(tmp_path, ours, theirs):
    rng = np.random.default_rng(0)
    lines = [f"W{a}\tw{b}\t{score}\n" for a, b, score in rng.integers(0, [310, 310, 8], (120, 3))]
    (tmp_path / "set").write_text("".join(lines))
    result = evaluate_similarity(ours, tmp_path / "set")
    _, expected, unknown = theirs.evaluate_word_pairs(str(tmp_path / "set"))
    assert result.spearman == pytest.approx(expected.statistic, abs=1e-9)
    assert 100 * (1 - result.covered / result.total) == pytest.approx(unknown)


def test_spearman():
    rng = np.random.default_rng(0)
    for levels in (2, 5, 1000):
        x, y = rng.integers(levels, size=(2, 60)).astype(float)
        assert spearman(x, y, np.ones((1, 60)))[0] == pytest.approx(stats.spearmanr(x, y).statistic)


@pytest.mark.filterwarnings("ignore:Call to deprecated `init_sims`")
def test_analogy_sets(tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    base, shift = rng.normal(size=(40, 10)), 2 * rng.normal(size=10)
    rows = np.concatenate([base, base + shift + rng.normal(0, 0.8, (40, 10))]).astype(np.float32)
    keys = [f"s{i}" for i in range(40)] + [f"p{i}" for i in range(40)]
    ours, theirs = WordVectors(keys, rows), KeyedVectors(10)
    theirs.add_vectors(keys, rows)
    text = "".join(f": part {i}\n" + "".join(f"S{i} p{i} s{j} P{j}\n" for j in range(45) if i != j) for i in range(6))
    (tmp_path / "set").write_text(text)
    result = evaluate_analogies(ours, tmp_path / "set", restrict_vocab=75)
    accuracy, sections = theirs.evaluate_word_analogies(str(tmp_path / "set"), restrict_vocab=75)
    assert 0.2 < accuracy < 0.98
    assert result.accuracy == accuracy
    counts = [(len(part["correct"]), len(part["correct"] + part["incorrect"])) for part in sections[:-1]]
    assert [(part.correct, part.attempted) for part in result.sections] == counts
    # by product gensim has no such function that works: it asks most_similar whatever it is told
    right = 0
    monkeypatch.setattr(words, "COSMUL_EPSILON", 1e-6)
    for i in range(6):
        for j in range(40):
            if i == j:
                continue
            best = theirs.most_similar_cosmul([f"p{i}", f"s{j}"], [f"s{i}"], topn=1)
            right += best[0][0] == f"p{j}"
    product = evaluate_analogies(ours, tmp_path / "set", method="mul", restrict_vocab=None)
    assert sum(part.correct for part in product.sections) == right
