"""Words and vectors that are added and changed, their attributes, and the files they are saved in."""

import pickle
import sys

import numpy as np
import pytest

from wenmai.core.errors import FormatError, SettingError, VocabError, WenmaiError
from wenmai.core.tensors import write_tensors
from wenmai.vectors.word_vectors import UnknownWordError, WordVectors


@pytest.fixture
def given() -> np.ndarray:
    return np.array([[1, 0], [0, 2]], np.float32)


@pytest.fixture
def vectors(given) -> WordVectors:
    return WordVectors(["east", "north"], given, counts=[7, 3])


def test_words_are_added_one_by_one_and_together():
    vectors = WordVectors.empty(2)
    assert (len(vectors), vectors.vectors.shape) == (0, (0, 2))
    with pytest.raises(UnknownWordError):
        vectors.most_similar("east")
    assert vectors.add_vector("east", [1, 0]) == 0
    vectors.add_vectors(["north", "west"], [[0, 2], [-1, 0]])
    vectors["south"] = [0, -1]
    vectors[["up", "down"]] = np.array([[5, 1], [5, -1.0]])
    assert vectors.index_to_key == ["east", "north", "west", "south", "up", "down"]
    assert vectors.key_to_index == {word: row for row, word in enumerate(vectors.index_to_key)}
    assert vectors.norms.tolist() == pytest.approx([1, 2, 1, 1, np.sqrt(26), np.sqrt(26)])
    assert [word for word, _ in vectors.most_similar("east", topn=2)] == ["up", "down"]
    for number in range(100):
        vectors.add_vector(f"w{number}", [number, 1])
    assert vectors["w99"].tolist() == [99, 1]
    assert vectors["south"].tolist() == [0, -1]


def test_what_is_there_stays_unless_it_is_replaced(vectors, given):
    vectors.add_vectors(["east", "up"], [[9, 9], [1, 1]])
    assert vectors["east"].tolist() == [1, 0]
    vectors.add_vectors(["east", "down"], [[3, 4], [1, -1]], replace=True)
    assert vectors["east"].tolist() == [3, 4]
    assert vectors.get_vector("east", norm=True).tolist() == pytest.approx([0.6, 0.8])
    vectors[1] = [0, 8]
    assert vectors["north"].tolist() == [0, 8]
    assert given.tolist() == [[1, 0], [0, 2]]  # whose array it is
    with pytest.raises(ValueError, match="read-only"):
        vectors.vectors[0] = 2


def test_no_words_are_added_as_well(vectors, tmp_path):
    vectors.add_vectors([], [])
    vectors.add_vectors([], np.empty((0, 2)), replace=True)
    (tmp_path / "file").write_text("1 2\nup 1 1\n")
    vectors.intersect_word2vec_format(tmp_path / "file")
    assert (len(vectors), vectors.lifecycle_events[0]["msg"].split()[1]) == (2, "0")


def test_of_a_word_that_is_given_twice_one_vector_counts():
    vectors = WordVectors.empty(1)
    vectors.add_vectors(["a", "b", "a"], [[1], [2], [3]])
    assert vectors.vectors.tolist() == [[1], [2]]
    vectors.add_vectors(["c", "a", "c"], [[4], [5], [6]], replace=True)
    assert (vectors["a"].tolist(), vectors["c"].tolist(), len(vectors)) == ([5], [6], 3)


def test_another_array_can_be_set(vectors):
    vectors.vectors = vectors.vectors * 3
    assert vectors.norms.tolist() == [3, 6]
    vectors.vectors = np.eye(2, 5)
    assert vectors.vector_size == 5
    vectors["north"] = [0, 0, 0, 0, 3]
    vectors.unit_normalize_all()
    assert vectors["north"].tolist() == [0, 0, 0, 0, 1]
    with pytest.raises(VocabError, match=r"vectors of shape \(1, 2\) do not fit 2 words"):
        vectors.vectors = np.eye(1, 2)


@pytest.mark.parametrize(
    "change",
    [
        lambda v: v.add_vectors(["up"], [[1, 2, 3]]),
        lambda v: v.add_vectors(["up", "down"], [[1, 2]]),
        lambda v: v.add_vectors(["up", "down"], [[1, 2], [np.nan, 0]]),
        lambda v: v.add_vectors(["up", b"down"], [[1, 2], [3, 4]]),
        lambda v: v.add_vectors([7], [[1, 2]]),
        lambda v: v.add_vectors(["up"], [[1, 2]], {"count": [1, 2]}),
        lambda v: v.add_vectors(["up"], [[1, 2]], {"count": ["many"]}),
        lambda v: v.add_vectors(["up"], [[1, 2]], {"count": [[1, 2]]}),
        lambda v: v.add_vector("up", [[1, 2]]),
        lambda v: v.set_vecattr("east", "count", "many"),
        lambda v: v.set_vecattr("up", "count", 3),
        lambda v: v.get_vecattr("east", "colour"),
        lambda v: v.most_similar("east", topn=2.5),
        lambda v: v.most_similar(3.5),
        lambda v: v.most_similar([("east",)]),
        lambda v: v.most_similar([["east", "north"]]),
        lambda v: v.most_similar_to_given("east", []),
        lambda v: v.relative_cosine_similarity("east", "north", topn=0),
        lambda v: v.relative_cosine_similarity("east", "north", topn=1),  # they are at a right angle
        lambda v: v.rank_by_centrality(["nowhere"]),
        lambda v: v.cosine_similarities([1, 2], [[1, 2, 3]]),
        lambda v: v[None],
        lambda v: v[1:],
        lambda v: WordVectors.empty(0),
        lambda v: WordVectors.empty(3).sort_by_descending_frequency(),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(vectors, change):
    with pytest.raises(WenmaiError) as caught:
        change(vectors)
    assert isinstance(caught.value, ValueError)
    assert vectors.index_to_key == ["east", "north"]
    assert vectors.vectors.tolist() == [[1, 0], [0, 2]]
    assert {name: values.tolist() for name, values in vectors.expandos.items()} == {"count": [7, 3]}


def test_attributes(vectors):
    assert vectors.get_vecattr("north", "count") == 3
    vectors.set_vecattr("north", "count", 30)
    assert vectors.counts.tolist() == [7, 30]
    vectors.set_vecattr("east", "colour", "red")
    vectors.set_vecattr("east", "share", 0.5)
    vectors.add_vectors(["west"], [[-1, 0]], {"count": [8]})
    assert [vectors.get_vecattr("west", name) for name in ("count", "colour", "share")] == [8, 0, 0]
    with pytest.raises(KeyError, match="no attribute 'colou' "):
        vectors.get_vecattr("east", "colou")
    vectors.sort_by_descending_frequency()
    assert vectors.index_to_key == ["north", "west", "east"]
    assert vectors["west"].tolist() == [-1, 0]
    assert vectors.get_vecattr("east", "colour") == "red"


def test_attributes_of_several_numbers(vectors, tmp_path):
    vectors.add_vectors(["north", "west"], [[0, 3], [-1, 0]], {"place": [[1, 2], [3, 4]]}, replace=True)
    vectors.add_vectors(["up"], [[5, 5]], {"place": [[5, 6]]})
    vectors.save(tmp_path / "vectors")
    for found in (vectors, WordVectors.load(tmp_path / "vectors")):
        assert found.expandos["place"].tolist() == [[0, 0], [1, 2], [3, 4], [5, 6]]
        assert found.get_vecattr("west", "place").tolist() == [3, 4]


def test_words_appended_by_hand_get_random_vectors(vectors):
    vectors.index_to_key += ["up", "down"]
    vectors.key_to_index |= {"up": 2, "down": 3}
    vectors.resize_vectors(seed=5)
    assert vectors.vectors.shape == (4, 2)
    assert vectors["east"].tolist() == [1, 0]
    assert 0 < np.abs(vectors[["up", "down"]]).max() <= 0.5
    assert vectors.counts.tolist() == [7, 3, 0, 0]


def test_the_vectors_of_some_words(vectors):
    found = vectors.vectors_for_all(["north", "nowhere", "north", 0], copy_vecattrs=True)
    assert found.index_to_key == ["north", "east"]
    assert found.vectors.tolist() == [[0, 2], [1, 0]]
    assert found.counts.tolist() == [3, 7]
    assert vectors.vectors_for_all(["north"]).counts is None
    assert len(vectors.vectors_for_all(["nowhere"])) == 0


def test_unknown_words_are_left_out_of_lists(vectors):
    assert vectors.doesnt_match(["east", "north", "nowhere"]) in ("east", "north")
    assert vectors.n_similarity(["east", "nowhere"], ["east"]) == 1
    assert vectors.n_similarity(["nowhere"], ["east"]) == 0
    assert vectors.get_index("nowhere", -1) == -1


@pytest.mark.parametrize("size", [1e-30, 0.1, 1, 1e30])
def test_a_word_has_no_distance_to_itself(size):
    rows = np.random.default_rng(3).standard_normal((200, 30)) * size
    vectors = WordVectors([str(row) for row in range(200)], rows)
    assert {vectors.distance(word, word) for word in vectors} == {0}


def test_all_scores_as_an_array(vectors):
    vectors["up"] = [3, 4]
    assert vectors.most_similar("east", topn=None).tolist() == pytest.approx([1, 0, 0.6])
    assert vectors.similar_by_word("east", None).tolist() == pytest.approx([1, 0, 0.6])
    assert vectors.similar_by_vector(np.array([2.0, 0]), None, 2).tolist() == [1, 0]
    assert vectors.most_similar_cosmul("east", topn=None).shape == (3,)
    assert vectors.most_similar("east", clip_start=2) == [("up", pytest.approx(0.6))]
    assert vectors.most_similar("up", clip_end=1) == [("east", pytest.approx(0.6))]
    assert vectors.most_similar("up", clip_start=2) == []


def test_another_search(vectors):
    class Indexer:
        def most_similar(self, vector, num_neighbors):
            return [(f"{num_neighbors} near {vector.tolist()}", 1.0)]

    assert vectors.most_similar("north", topn=3, indexer=Indexer()) == [("3 near [0.0, 1.0]", 1.0)]


def test_a_file_of_our_own(vectors, tmp_path):
    vectors.set_vecattr("east", "colour", "赤")
    vectors.set_vecattr("east", "share", 0.25)
    vectors.save(tmp_path / "vectors")
    found = WordVectors.load(tmp_path / "vectors")
    assert found.index_to_key == vectors.index_to_key
    assert found.vectors.tobytes() == vectors.vectors.tobytes()
    assert {name: values.tolist() for name, values in found.expandos.items()} == {
        "count": [7, 3],
        "colour": ["赤", 0],
        "share": [0.25, 0],
    }
    WordVectors.empty(4).save(tmp_path / "empty")
    assert WordVectors.load(tmp_path / "empty").vectors.shape == (0, 4)
    vectors.set_vecattr("east", "name", np.str_("east"))
    vectors.save(tmp_path / "named")
    assert WordVectors.load(tmp_path / "named").get_vecattr("east", "name") == "east"
    vectors.set_vecattr("east", "unknown", np.nan)
    with pytest.raises(SettingError, match="'unknown' cannot be saved; expected finite numbers or text"):
        vectors.save(tmp_path / "unknown")
    del vectors.expandos["unknown"]
    vectors.set_vecattr("east", "thing", object())
    with pytest.raises(SettingError, match="'thing' cannot be saved"):
        vectors.save(tmp_path / "other")


def test_other_files_are_refused(vectors, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(pickle.dumps(vectors.vectors))
    with pytest.raises(FormatError, match="pickles are never opened"):
        WordVectors.load(path)
    rows = vectors.vectors
    words = np.frombuffer(b'["a", "b"]', np.uint8)
    for tensors in (
        {"vectors": rows},
        {"words": words, "vectors": rows[0]},
        {"words": words[:-1], "vectors": rows},
        {"words": np.frombuffer(b'["a", 1]', np.uint8), "vectors": rows},
        {"words": np.frombuffer(b'["a", "a"]', np.uint8), "vectors": rows},
        {"words": np.frombuffer(b'["a"]', np.uint8), "vectors": rows},
        {"words": np.frombuffer(b"7", np.uint8), "vectors": rows},
        {"words": np.frombuffer(b"[" * 100_000, np.uint8), "vectors": rows},
        {"words": words, "vectors": rows, "integers.count": np.ones(3, np.int64)},
        {"words": words, "vectors": rows, "others.count": np.ones(2, np.int64)},
        {"words": words, "vectors": rows, "floats.share": np.full(2, np.nan)},
    ):
        write_tensors(path, tensors)
        with pytest.raises(FormatError, match="file"):
            WordVectors.load(path)


def test_word2vec_files_with_counts(vectors, tmp_path):
    vectors["west"] = [-1, 0]
    vectors.set_vecattr("west", "count", 5)
    vectors.save_word2vec_format(tmp_path / "text", tmp_path / "counts", prefix="en:", total_vec=4)
    assert (tmp_path / "text").read_text() == "4 2\nen:east 1.0 0.0\nen:west -1.0 0.0\nen:north 0.0 2.0\n"
    assert (tmp_path / "counts").read_text() == "en:east 7\nen:west 5\nen:north 3\n"
    more = WordVectors(["haut"], [[0, 9]], [1])
    more.save_word2vec_format(tmp_path / "text", tmp_path / "counts", write_header=False, append=True, prefix="fr:")
    found = WordVectors.load_word2vec_format(tmp_path / "text", tmp_path / "counts")
    assert dict(zip(found, found.counts.tolist(), strict=True)) == {
        "en:east": 7,
        "en:west": 5,
        "en:north": 3,
        "fr:haut": 1,
    }
    vectors.set_vecattr("west", "language", "en")
    with pytest.raises(SettingError, match="sort_attr=language: this attribute is of type"):
        vectors.save_word2vec_format(tmp_path / "other", sort_attr="language")
    with pytest.raises(KeyError, match="no attribute 'count'"):
        WordVectors.empty(2).save_word2vec_format(tmp_path / "other", tmp_path / "counts")
    assert not (tmp_path / "other").exists()
    for line in (b"east\n", b"east seven\n", b"east 7 7\n", b"east 1" + b"0" * 30 + b"\n"):
        (tmp_path / "counts").write_bytes(line)
        with pytest.raises(FormatError, match="counts, line 1"):
            WordVectors.load_word2vec_format(tmp_path / "text", tmp_path / "counts")


def test_words_of_another_encoding(tmp_path):
    (tmp_path / "latin").write_bytes("1 1\ncafé 5\n".encode("latin-1"))
    assert WordVectors.load_word2vec_format(tmp_path / "latin", encoding="latin-1").index_to_key == ["café"]
    with pytest.raises(UnicodeDecodeError, match=r"word 1: .* is not UTF-8"):
        WordVectors.load_word2vec_format(tmp_path / "latin")
    with pytest.raises(SettingError, match="no encoding 'klingon'"):
        WordVectors.load_word2vec_format(tmp_path / "latin", encoding="klingon")
    with pytest.raises(SettingError, match="float32"):
        WordVectors.load_word2vec_format(tmp_path / "latin", datatype=np.float16)


def test_vectors_of_a_file_replace_those_of_the_same_words(vectors, tmp_path):
    (tmp_path / "file").write_text("2 2\nnorth 0 5\nup 1 1\n")
    vectors.intersect_word2vec_format(tmp_path / "file", lockf=0.5)
    assert vectors["north"].tolist() == [0, 5]
    assert (vectors.get_vecattr("north", "lockf"), "up" in vectors) == (0.5, False)
    assert vectors.lifecycle_events[0]["event"] == "intersect_word2vec_format"
    with pytest.raises(VocabError, match="vectors of 2 numbers; expected 3"):
        WordVectors(["north"], [[1, 2, 3]]).intersect_word2vec_format(tmp_path / "file")


def test_without_its_package_a_distance_says_what_to_install(vectors, monkeypatch):
    monkeypatch.setitem(sys.modules, "ot", None)
    with pytest.raises(SettingError, match=r"needs POT.*pip install -e '\.\[transport\]'"):
        vectors.wmdistance(["east"], ["north"])
    with pytest.raises(ImportError):
        vectors.wmdistance(["east"], ["north"])


def test_errors_are_those_that_other_libraries_raise(vectors, tmp_path):
    for binary in (False, True):
        vectors.save_word2vec_format(tmp_path / "file", binary=binary)
        whole = (tmp_path / "file").read_bytes()
        for end in (len(whole) // 2, len(whole) - 2):
            (tmp_path / "file").write_bytes(whole[:end])
            with pytest.raises(EOFError, match="file"):
                WordVectors.load_word2vec_format(tmp_path / "file", binary=binary)
    (tmp_path / "file").write_text("neither words nor numbers\n")
    with pytest.raises(ValueError, match="no heading"):
        WordVectors.load_word2vec_format(tmp_path / "file")
    with pytest.raises(KeyError, match="no vector for 'eats'; did you mean 'east'"):
        vectors.most_similar("eats")
