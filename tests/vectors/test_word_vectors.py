"""Word vectors through their public methods."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from wenmai.core.errors import SettingError, VocabError
from wenmai.vectors import search
from wenmai.vectors.word_vectors import UnknownWordError, WordVectors


@pytest.fixture
def random_vectors() -> WordVectors:
    rng = np.random.default_rng(7)
    return WordVectors([f"w{i}" for i in range(500)], rng.standard_normal((500, 12)))


@pytest.fixture
def plane() -> WordVectors:
    """Directions at 0, 30, 90, 180 degrees, and a zero vector."""
    rows = [[2, 0], [np.sqrt(3), 1], [0, 5], [-1, 0], [0, 0]]
    return WordVectors(["east", "east-north-east", "north", "west", "nowhere"], rows, counts=[9, 7, 5, 3, 1])


def brute_force(vectors: WordVectors, query: np.ndarray) -> np.ndarray:
    rows = vectors.vectors.astype(np.float64)
    return rows @ query / np.linalg.norm(rows, axis=1) / np.linalg.norm(query)


def test_looks_up_words(plane):
    assert plane["north"].tolist() == [0, 5]
    assert plane[["west", "east"]].tolist() == [[-1, 0], [2, 0]]
    assert plane[[]].shape == (0, 2)
    assert plane.get_vector("east", norm=True).tolist() == [1, 0]
    assert "north" in plane
    assert "south" not in plane
    assert list(plane) == plane.index_to_key
    assert plane.key_to_index == {word: i for i, word in enumerate(plane.index_to_key)}
    assert (len(plane), plane.vector_size, plane.vectors.dtype) == (5, 2, np.float32)
    assert plane.counts.dtype == np.int64
    assert repr(plane) == "WordVectors(words=5, dimensions=2)"
    assert plane.get_normed_vectors()[[2, 4]].tolist() == [[0, 1], [0, 0]]


def test_keeps_the_given_array_but_does_not_let_it_change():
    given = np.ones((2, 3), np.float32)
    vectors = WordVectors(["a", "b"], given)
    assert np.shares_memory(vectors.vectors, given)
    for view in (vectors.vectors, vectors["a"]):
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 2
    given[0] = 2  # the owner of the array still may


@pytest.mark.parametrize(
    ("keys", "rows", "counts", "message"),
    [
        ([], np.empty((0, 0)), None, r"shape \(0, 0\) do not fit 0 words"),
        (["a"], [1.0, 2.0], None, r"shape \(2,\) do not fit 1 words"),
        (["a"], np.empty((1, 0)), None, r"shape \(1, 0\)"),
        (["a", "b"], [[1.0]], None, r"shape \(1, 1\) do not fit 2 words"),
        (["a", "b", "a"], np.ones((3, 1)), None, "'a' occurs twice, in rows 0 and 2"),
        (["a", b"b"], np.ones((2, 1)), None, "must be text, got words of type bytes"),
        (["a", "b"], [[1.0], [np.nan]], None, r"'b' \(row 1\) has no finite length"),
        (["a", "b"], [[-np.inf], [np.nan]], None, r"'a' \(row 0\) has no finite length"),
        (["a"], [[3e38, 3e38]], None, "no finite length"),
        (["a", "b"], np.ones((2, 1)), [1], r"counts of shape \(1,\)"),
    ],
)
def test_refuses_inconsistent_parts(keys, rows, counts, message):
    with pytest.raises(VocabError, match=message):
        WordVectors(keys, rows, counts)


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("North", "did you mean 'north'"),
        ("ｎｏｒｔｈ", "did you mean 'north'"),
        ("nort", "did you mean 'north'"),
        ("xyz", "no vector for 'xyz'$"),
    ],
)
def test_an_unknown_word_is_named_with_the_nearest_spelling(plane, asked, hint):
    with pytest.raises(VocabError, match=hint):
        plane[asked]
    with pytest.raises(KeyError):
        plane[["east", asked]]


def test_a_row_number_stands_for_its_word(plane):
    assert plane[2].tolist() == plane[np.int64(2)].tolist() == [0, 5]
    assert plane[[3, "east"]].tolist() == [[-1, 0], [2, 0]]
    assert plane.get_index(4) == 4
    assert 4 in plane
    assert plane.most_similar(0) == plane.most_similar("east")
    assert plane.most_similar_cosmul(0) == plane.most_similar_cosmul("east")
    assert plane.doesnt_match([0, 1, 3]) == 3
    for number in (5, -1):
        assert number not in plane
        with pytest.raises(KeyError, match=f"no vector for {number}; expected a word, or the number of one of 5 rows"):
            plane[number]


def test_the_spelling_hint_is_fast_in_a_large_vocabulary():
    vectors = WordVectors([f"word{i}" for i in range(200_000)], np.ones((200_000, 1), np.float32))
    with pytest.raises(UnknownWordError, match="did you mean 'word7'"):
        vectors["wrd7"]


@pytest.mark.parametrize(
    ("old", "present"),
    [("index2word", "index_to_key"), ("vocab", "key_to_index"), ("wv", "itself"), ("syn0norm", "get_normed")],
)
def test_old_gensim_names_point_to_the_present_ones(plane, old, present):
    with pytest.raises(AttributeError, match=f"{old}.*{present}"):
        getattr(plane, old)


def test_copies_and_pickles_like_any_object(plane):
    for twin in (copy.deepcopy(plane), pickle.loads(pickle.dumps(plane))):
        assert twin.most_similar("east") == plane.most_similar("east")


def test_similarity_by_known_angles(plane):
    assert plane.similarity("east", "east-north-east") == pytest.approx(np.cos(np.pi / 6), abs=1e-6)
    assert plane.similarity("east", "west") == -1
    assert plane.distance("east", "north") == 1
    assert plane.distances("east").tolist() == pytest.approx([0, 1 - np.sqrt(0.75), 1, 2, 1], abs=1e-6)
    assert plane.distances(np.array([3.0, 0]), ["west", "north"]).tolist() == [2, 1]
    assert plane.n_similarity(["east", "north"], ["east", "north"]) == pytest.approx(1)
    assert plane.closer_than("east", "west") == ["east-north-east", "north", "nowhere"]
    assert plane.rank("east", "east-north-east") == 1
    assert plane.rank("east", "west") == 4


def test_a_zero_vector_is_similar_to_nothing(plane):
    assert plane.similarity("nowhere", "nowhere") == 0
    assert plane.similarity("nowhere", "east") == 0
    assert [score for _, score in plane.most_similar("nowhere")] == [0, 0, 0, 0]
    assert dict(plane.most_similar("east"))["nowhere"] == 0


@pytest.mark.parametrize("size", [1e-25, 1e-37, 1e25, 1e37])
def test_tiny_and_huge_vectors_have_exact_cosines(size):
    vectors = WordVectors(["a", "b"], np.array([[3, 4], [4, 3]], np.float32) * np.float32(size))
    assert vectors.similarity("a", "b") == pytest.approx(0.96, rel=1e-5)
    assert vectors.most_similar("a") == [("b", pytest.approx(0.96, rel=1e-5))]


def test_below_the_normal_numbers_a_vector_counts_as_zero():
    vectors = WordVectors(["a", "b"], np.array([[1e-44, 0], [1, 0]], np.float32))
    assert vectors.similarity("a", "b") == 0
    assert vectors.most_similar("b") == [("a", 0.0)]


def test_most_similar_is_the_brute_force_order(random_vectors):
    cosines = brute_force(random_vectors, random_vectors["w3"])
    expected = [i for i in np.argsort(-cosines).tolist() if i != 3]
    found = random_vectors.most_similar("w3", topn=600)
    assert [word for word, _ in found] == [f"w{i}" for i in expected]
    assert [score for _, score in found] == pytest.approx(cosines[expected].tolist(), abs=1e-6)


def test_most_similar_adds_words_vectors_and_weights(random_vectors):
    unit = random_vectors.get_normed_vectors().astype(np.float64)
    query = unit[1] + 0.5 * unit[2] + random_vectors.vectors[3] - unit[4] - 0.25 * unit[5]
    cosines = brute_force(random_vectors, query)
    cosines[[1, 2, 4, 5]] = -2
    found = random_vectors.most_similar(
        ["w1", ("w2", 0.5), random_vectors["w3"]], ["w4", ("w5", -0.25)], topn=5, restrict_vocab=300
    )
    assert [word for word, _ in found] == [f"w{i}" for i in np.argsort(-cosines[:300])[:5]]


def test_analogies_by_sum_and_by_product(random_vectors):
    unit = random_vectors.get_normed_vectors().astype(np.float64)
    a, b, c = unit[0] @ unit.T, unit[1] @ unit.T, unit[2] @ unit.T
    product = (b + 1) / 2 * (c + 1) / 2 / ((a + 1) / 2 + 0.001)
    for method, scores in (("add", b - a + c), ("mul", product)):
        scores[:3] = -9
        best = np.argsort(-scores)[:10]
        found = random_vectors.analogy("w0", "w1", "w2", method=method)
        assert [word for word, _ in found] == [f"w{i}" for i in best]
    assert [score for _, score in found] == pytest.approx(product[best].tolist(), rel=1e-5)
    assert random_vectors.most_similar_cosmul(["w1", "w2"], "w0") == found
    vector = random_vectors["w1"] * 3  # its length does not matter
    assert "w1" in dict(random_vectors.most_similar_cosmul([vector, "w2"], "w0"))


def test_similar_by_vector_finds_the_word_itself(random_vectors):
    word, score = random_vectors.similar_by_vector(random_vectors["w9"] * 2, topn=1)[0]
    assert (word, score) == ("w9", pytest.approx(1))


def test_equal_similarities_come_in_row_order():
    rows = np.tile([[1.0, 0], [0, 1]], (50, 1))
    vectors = WordVectors([str(i) for i in range(100)], rows)
    assert [word for word, _ in vectors.most_similar("1", topn=7)] == ["3", "5", "7", "9", "11", "13", "15"]
    ids, _ = vectors.nearest([[0, 1], [1, 0]], topn=4)
    assert ids.tolist() == [[1, 3, 5, 7], [0, 2, 4, 6]]


@pytest.mark.parametrize("topn", [1, 3, 40, 97, 200])
@pytest.mark.parametrize("block", [1, 64, 300, 1 << 22])
def test_nearest_does_not_depend_on_the_block_size(monkeypatch, topn, block):
    rng = np.random.default_rng(topn)
    rows = rng.integers(-2, 3, (97, 3)).astype(np.float32)  # many exact ties, some zero vectors
    vectors = WordVectors([str(i) for i in range(97)], rows)
    queries = rng.integers(-2, 3, (11, 3))
    monkeypatch.setattr(search, "BLOCK", block)
    ids, scores = vectors.nearest(queries, topn)
    lengths = np.linalg.norm(rows, axis=1)
    units = rows / np.where(lengths > 0, lengths, 1)[:, None]
    all_scores = queries @ units.T / np.maximum(np.linalg.norm(queries, axis=1), 1)[:, None]
    assert ids.shape == scores.shape == (11, min(topn, 97))
    assert scores == pytest.approx(-np.sort(-all_scores, axis=1)[:, :topn], abs=1e-6)
    assert scores == pytest.approx(np.take_along_axis(all_scores, ids, axis=1), abs=1e-6)
    for row_ids, row_scores in zip(ids, scores, strict=True):
        assert len(set(row_ids)) == len(row_ids)
        tied = row_scores[1:] == row_scores[:-1]
        assert (row_ids[1:] > row_ids[:-1])[tied].all()


def test_nearest_of_nothing_and_of_a_wrong_shape(plane):
    ids, scores = plane.nearest(np.empty((0, 2)))
    assert ids.shape == scores.shape == (0, 5)
    assert plane.nearest([[1, 0]], topn=0)[0].shape == (1, 0)
    for queries in ([1.0, 0], [[1.0, 2, 3]], [[np.nan, 1]]):
        with pytest.raises(SettingError, match=r"finite queries of shape \(B, 2\)"):
            plane.nearest(queries)


@settings(max_examples=50, deadline=None)
@given(arrays(np.float32, (9, 3), elements=st.floats(-1e6, 1e6, width=32)), st.integers(1, 12))
def test_most_similar_is_sorted_complete_and_bounded(rows, topn):
    vectors = WordVectors([str(i) for i in range(9)], rows)
    found = vectors.most_similar("4", topn=topn)
    scores = [score for _, score in found]
    assert scores == sorted(scores, reverse=True)
    assert len({word for word, _ in found} - {"4"}) == len(found) == min(topn, 8)
    assert all(-1.0001 < score < 1.0001 for score in scores)


def test_mean_vectors(plane):
    assert plane.get_mean_vector(["east", "north"]).tolist() == [0.5, 0.5]
    assert plane.get_mean_vector(["east", "north"], pre_normalize=False).tolist() == [1, 2.5]
    assert plane.get_mean_vector(["east", "north"], weights=[3, -1]).tolist() == [0.75, -0.25]
    assert plane.get_mean_vector(["east", np.array([0, 3.0])], post_normalize=True).tolist() == pytest.approx(
        (np.array([1, 3]) / np.sqrt(10)).tolist()
    )
    assert plane.get_mean_vector(["east", "south"]).tolist() == [1, 0]
    assert plane.get_mean_vector(["south"]).tolist() == [0, 0]
    with pytest.raises(UnknownWordError):
        plane.get_mean_vector(["east", "south"], ignore_missing=False)


@pytest.mark.parametrize("counts", [None, [0, 0]])
def test_sif_needs_counts(counts):
    vectors = WordVectors(["east", "north"], [[1, 0], [0, 1]], counts)
    with pytest.raises(SettingError, match="weighting=sif needs the counts of words"):
        vectors.embed(["east"], weighting="sif")


def test_finds_the_word_that_does_not_match(plane):
    assert plane.doesnt_match(["east", "west", "east-north-east"]) == "west"
    assert plane.doesnt_match(["west"]) == "west"


@pytest.mark.parametrize(
    "call",
    [
        lambda v: v.most_similar(),
        lambda v: v.most_similar("east", restrict_vocab=0),
        lambda v: v.most_similar(np.array([1.0, 2, 3])),
        lambda v: v.most_similar(np.array([np.nan, 0])),
        lambda v: v.most_similar_cosmul(negative=["east"]),
        lambda v: v.most_similar_cosmul([("east", 0.5)]),
        lambda v: v.analogy("east", "north", "west", method="plus"),
        lambda v: v.get_mean_vector([]),
        lambda v: v.get_mean_vector(["east"], weights=[1, 2]),
        lambda v: v.get_mean_vector(["east"], weights=[np.nan]),
        lambda v: v.most_similar([("east", np.inf)]),
        lambda v: v.n_similarity([], ["east"]),
        lambda v: v.doesnt_match([]),
        lambda v: v.clusters(0),
        lambda v: v.clusters(6),
        lambda v: v.map2d(["east"]),
        lambda v: WordVectors(["a", "b"], [[1.0], [2.0]]).map2d(["a", "b"]),
    ],
)
def test_questions_without_sense_are_refused(plane, call):
    with pytest.raises(SettingError):
        call(plane)


def test_no_neighbours_are_wanted(plane):
    assert plane.most_similar("east", topn=0) == []
    assert plane.most_similar_cosmul("east", topn=0) == []


def test_clusters_group_directions_and_repeat():
    rng = np.random.default_rng(0)
    rows = np.repeat(np.eye(3), 20, axis=0) * rng.uniform(1, 9, (60, 1)) + rng.normal(0, 0.05, (60, 3))
    vectors = WordVectors([str(i) for i in range(60)], rows)
    labels = vectors.clusters(3, seed=4)
    assert (labels.dtype, labels.shape) == (np.int32, (60,))
    assert [len(set(labels[i : i + 20])) for i in (0, 20, 40)] == [1, 1, 1]
    assert set(labels) == {0, 1, 2}
    assert vectors.clusters(3, seed=4).tolist() == labels.tolist()


def test_many_words_are_clustered_in_batches():
    vectors = WordVectors([str(i) for i in range(10_001)], np.random.default_rng(0).normal(size=(10_001, 2)))
    assert set(vectors.clusters(5)) == {0, 1, 2, 3, 4}


def test_the_map_keeps_the_widest_directions():
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(0, 0.01, (20, 3)) + direction for direction in np.eye(3)])
    vectors = WordVectors([str(i) for i in range(60)], rows)
    points = vectors.map2d(vectors.index_to_key)
    assert points.shape == (60, 2)
    assert points.mean(axis=0) == pytest.approx([0, 0], abs=1e-9)
    centres = points.reshape(3, 20, 2).mean(axis=1)
    spread = np.abs(points.reshape(3, 20, 2) - centres[:, None]).max()
    apart = min(np.linalg.norm(centres[i] - centres[i - 1]) for i in range(3))
    assert apart == pytest.approx(np.sqrt(2), abs=0.1)
    assert spread < 0.1
    assert np.array_equal(vectors.map2d(vectors.index_to_key), points)
