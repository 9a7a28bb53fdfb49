"""The same answers as gensim and scipy."""

import numpy as np
import pytest

from wenmai.formats.word2vec import read_word2vec, write_word2vec
from wenmai.measures.words import evaluate_analogies, evaluate_similarity, spearman
from wenmai.vectors import neighbours
from wenmai.vectors import questions as asking
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
    monkeypatch.setattr(neighbours, "COSMUL_EPSILON", 1e-6)  # gensim's, instead of the paper's 0.001
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


def test_lists_of_words(ours, theirs):
    for i in range(20):
        six = [f"w{(7 * i + k * k) % 300}" for k in range(6)] + ["nowhere"]
        for normalised in (True, False):
            found, expected = (vectors.rank_by_centrality(six, use_norm=normalised) for vectors in (ours, theirs))
            assert [word for _, word in found] == [word for _, word in expected]
            assert [score for score, _ in found] == pytest.approx([score for score, _ in expected], abs=1e-5)
        assert ours.doesnt_match(six) == theirs.doesnt_match(six)
        assert ours.n_similarity(six, six[3:]) == pytest.approx(theirs.n_similarity(six, six[3:]), abs=1e-6)
        assert ours.most_similar_to_given("w5", six[:6]) == theirs.most_similar_to_given("w5", six[:6])
        relative = [vectors.relative_cosine_similarity("w5", six[0], topn=4) for vectors in (ours, theirs)]
        assert relative[0] == pytest.approx(relative[1], abs=1e-6)


def test_rows_stand_for_words(ours, theirs, rows):
    assert ours[3].tolist() == theirs[3].tolist()
    assert ours[[3, "w4"]].tolist() == theirs[[3, "w4"]].tolist()
    assert ours.get_index(7) == theirs.get_index(7)
    assert (300 in ours, 299 in ours) == (300 in theirs, 299 in theirs)
    assert_same_neighbours(ours.most_similar(7, 8), theirs.most_similar(7, 8))
    assert ours.similarity(1, "w2") == pytest.approx(theirs.similarity(1, "w2"), abs=1e-6)
    found = ours.cosine_similarities(rows[0], rows[1:9])
    assert found == pytest.approx(theirs.cosine_similarities(rows[0], rows[1:9]), abs=1e-6)


@pytest.mark.parametrize("options", [{}, {"restrict_vocab": 20}, {"clip_start": 30, "clip_end": 90}])
def test_scores_of_all_words(ours, theirs, options):
    found = ours.most_similar(["w1", "w2"], topn=None, **options)
    assert found == pytest.approx(theirs.most_similar(["w1", "w2"], topn=None, **options), abs=1e-6)
    assert_same_neighbours(ours.most_similar("w33", **options), theirs.most_similar("w33", **options))


def test_changes(ours, theirs, rows):
    both = [ours.vectors_for_all(KEYS), KeyedVectors(20)]
    both[1].add_vectors(KEYS, rows)
    counts = np.random.default_rng(2).integers(1, 9, 300).tolist()
    for vectors in both:
        for key, count in zip(KEYS, counts, strict=True):
            vectors.set_vecattr(key, "count", count)
        vectors.add_vectors(["w3", "new"], rows[:2] * 2, replace=True)
        vectors.add_vectors(["w4", "newer"], rows[:2] * 3)
        vectors.set_vecattr("newer", "count", 5)
        vectors.allocate_vecattrs()
        vectors.sort_by_descending_frequency()
        vectors.key_to_index["drawn"] = len(vectors)
        vectors.index_to_key.append("drawn")
        vectors.resize_vectors(seed=3)
        vectors.fill_norms(force=True)
    assert both[0].index_to_key == both[1].index_to_key
    assert both[0].vectors.tobytes() == both[1].vectors.tobytes()
    assert both[0].expandos["count"].tolist() == both[1].expandos["count"].tolist()
    for vectors in both:
        vectors.unit_normalize_all()
    assert both[0].vectors == pytest.approx(both[1].vectors, abs=1e-6)


def test_word_movers_distance(ours, theirs):
    pytest.importorskip("ot")
    rng = np.random.default_rng(0)
    for _ in range(10):
        first, second = ([f"w{i}" for i in rng.integers(0, 320, size)] for size in rng.integers(3, 12, 2))
        for norm in (True, False):
            expected = theirs.wmdistance(first, second, norm=norm)
            assert ours.wmdistance(first, second, norm) == pytest.approx(expected, abs=1e-6)
    assert ours.wmdistance(["w1"], ["w1"]) == theirs.wmdistance(["w1"], ["w1"]) == 0
    assert ours.wmdistance(["w1"], ["nowhere"]) == theirs.wmdistance(["w1"], ["nowhere"]) == np.inf


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


@pytest.mark.parametrize("options", [{}, {"dummy4unknown": True}, {"case_insensitive": False}, {"restrict_vocab": 200}])
def test_word_pairs_with_p_values(tmp_path, ours, theirs, options):
    rng = np.random.default_rng(0)
    lines = [f"{'Ww'[i % 2]}{a}\tw{b}\t{s}\n" for i, (a, b, s) in enumerate(rng.integers(0, [310, 310, 8], (120, 3)))]
    (tmp_path / "set").write_text("# heading\n" + "".join(lines) + "no score\n")
    found = ours.evaluate_word_pairs(tmp_path / "set", **options)
    expected = theirs.evaluate_word_pairs(str(tmp_path / "set"), **options)
    for i in range(2):
        assert found[i][:] == pytest.approx(expected[i][:], abs=1e-6)
        assert found[i].pvalue == pytest.approx(expected[i].pvalue, abs=1e-6)
    assert found[2] == pytest.approx(expected[2])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "gb18030"])
def test_word_pairs_in_another_encoding(tmp_path, ours, theirs, encoding):
    (tmp_path / "set").write_bytes("# 标题\nw1\tw2\t1\r\nw3\tw4\t2\nw5\tw6\t2\n".encode(encoding))
    found = ours.evaluate_word_pairs(tmp_path / "set", encoding=encoding)
    assert found[0][0] == pytest.approx(theirs.evaluate_word_pairs(str(tmp_path / "set"), encoding=encoding)[0][0])
    for unknown in ("klingon", "utf-8\0"):
        with pytest.raises(ValueError, match=r"encoding='.*' is not a text encoding"):
            ours.evaluate_word_pairs(tmp_path / "set", encoding=unknown)
    (tmp_path / "set").write_bytes(b"w1\tw2\t1\nw3\t\xff\t2\n")
    with pytest.raises(ValueError, match="line 2, byte 3: is not utf-8"):
        ours.evaluate_word_pairs(tmp_path / "set", encoding="utf-8")


def test_word_pairs_without_any_vector(tmp_path, ours, theirs):
    (tmp_path / "set").write_text("a\tb\t1\n")
    for vectors in (ours, theirs):
        with pytest.raises(ValueError, match="set"):
            vectors.evaluate_word_pairs(str(tmp_path / "set"))


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
    for options in ({}, {"dummy4unknown": True}, {"case_insensitive": False}):
        mine = ours.evaluate_word_analogies(tmp_path / "set", restrict_vocab=75, **options)
        assert mine == theirs.evaluate_word_analogies(str(tmp_path / "set"), restrict_vocab=75, **options)
    # by product gensim has no such function that works: it asks most_similar whatever it is told
    right = 0
    monkeypatch.setattr(asking, "COSMUL_EPSILON", 1e-6)
    for i in range(6):
        for j in range(40):
            if i == j:
                continue
            best = theirs.most_similar_cosmul([f"p{i}", f"s{j}"], [f"s{i}"], topn=1)
            right += best[0][0] == f"p{j}"
    product = evaluate_analogies(ours, tmp_path / "set", method="mul", restrict_vocab=None)
    assert sum(part.correct for part in product.sections) == right
