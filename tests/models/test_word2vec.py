"""The parameters of word2vec in memory and on disk, and how a corpus is cut for them."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wenmai.core.errors import FormatError, SettingError
from wenmai.core.tensors import write_tensors
from wenmai.data.corpus import Corpus
from wenmai.data.encoded_corpus import encode_corpus
from wenmai.models.word2vec import Word2Vec, Word2VecConfig, keep_probabilities
from wenmai.tasks.passes import block_bounds, row_of_type
from wenmai.text.settings import TextConfig
from wenmai.text.vocab import Vocab
from wenmai.vectors import padding

VOCAB = Vocab(["the", "文", "脉", "rare"], [50, 20, 10, 1])
OBJECTIVES = [
    {},
    {"negative": 0, "hierarchical": True},
    {"hierarchical": True},
    {"negative": 0, "softmax": True},
    {"algorithm": "cbow", "vector_size": 16},
]


def model(vocab: Vocab = VOCAB, **settings) -> Word2Vec:
    """A model whose parameters are all different."""
    made = Word2Vec(Word2VecConfig(**{"vector_size": 5} | settings), vocab)
    made.initialise(1)
    for start, rows in enumerate((made.negative, made.hierarchical)):
        if len(rows) == len(vocab):
            rows[:, : made.config.vector_size] = np.random.default_rng(start).normal(size=(len(vocab), 1))
    return made


def parameters(of: Word2Vec) -> list[bytes]:
    return [of.input.tobytes(), of.negative.tobytes(), of.hierarchical.tobytes()]


# --- in memory ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 15, 16, 100])
def test_new_input_rows_are_uniform_and_padding_is_zero(size):
    made = Word2Vec(Word2VecConfig(vector_size=size), Vocab([f"w{i}" for i in range(6000)], [1] * 6000))
    made.initialise(3)
    values = made.input[:, :size] * size
    assert -0.5 <= values.min() < -0.49
    assert 0.49 < values.max() <= 0.5
    assert abs(values.mean()) < 0.02
    assert values.std() == pytest.approx(12**-0.5, rel=0.02)
    assert len(np.unique(made.input[:, 0])) > 5900  # blocks of rows do not repeat each other
    assert not made.input[:, size:].any()
    assert not made.negative.any()
    assert made.input.shape == made.negative.shape == (6000, -(-size // 16) * 16)
    assert made.input.ctypes.data % 64 == 0


def test_rows_are_padded_to_whole_vectors_only_where_that_takes_little_memory(monkeypatch):
    def padded(vector_size):
        return Word2Vec(Word2VecConfig(vector_size=vector_size), Vocab(["a", "b"], [2, 1])).input.shape[1]

    assert [padded(size) for size in (1, 16, 50, 100)] == [16, 16, 64, 112]
    monkeypatch.setattr(padding, "_PADDING_BYTES", 2 * 4 * 12)  # of two rows, twelve numbers each
    assert [padded(size) for size in (1, 4, 16, 50, 51, 100)] == [4, 16, 16, 52, 52, 112]


def test_a_model_grows_from_padded_rows_to_dense_ones(monkeypatch):
    config = Word2VecConfig(vector_size=5, hierarchical=True)
    old = Word2Vec(config, Vocab(["a", "b"], [2, 1]))
    for matrix in (old.input, old.negative, old.hierarchical):
        matrix[:, :5] = np.random.default_rng(1).normal(size=(2, 5))
    monkeypatch.setattr(padding, "_PADDING_BYTES", 0)
    new = old.grown(old.vocab, config, 1)
    assert (old.input.shape[1], new.input.shape[1]) == (16, 8)
    for name in ("input", "negative", "hierarchical"):
        np.testing.assert_array_equal(getattr(new, name)[:, :5], getattr(old, name)[:, :5])
        assert not getattr(new, name)[:, 5:].any()


def test_the_seed_decides_the_beginning():
    first, same, other = (Word2Vec(Word2VecConfig(), VOCAB) for _ in range(3))
    first.initialise(1)
    same.initialise(1)
    other.initialise(2)
    assert first.input.tobytes() == same.input.tobytes() != other.input.tobytes()


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_only_what_the_objective_needs_is_allocated(objective):
    made = model(**objective)
    config = made.config
    assert len(made.negative) == (4 if config.negative or config.softmax else 1)
    assert len(made.hierarchical) == (4 if config.hierarchical else 1)


def test_published_vectors_share_no_memory_with_the_parameters():
    made = model()
    vectors = made.vectors()
    np.testing.assert_array_equal(vectors["文"], made.input[1, :5])
    assert not np.shares_memory(vectors.vectors, made.input)
    assert vectors.vectors.shape == (4, 5)


def test_contradictory_objectives_are_refused():
    with pytest.raises(SettingError, match="nothing to learn from"):
        Word2VecConfig(negative=0)
    for more in ({}, {"negative": 0, "hierarchical": True}):
        with pytest.raises(SettingError, match="add negative=0 and leave hierarchical off"):
            Word2VecConfig(softmax=True, **more)
    many = Vocab([f"w{i}" for i in range(50_001)], [1] * 50_001)
    with pytest.raises(SettingError, match="softmax=true compares every word with all 50001 others"):
        Word2Vec(Word2VecConfig(negative=0, softmax=True), many)


@pytest.mark.parametrize(
    ("objective", "text"),
    [
        ({}, "negative sampling, skipgram"),
        ({"negative": 0, "hierarchical": True}, "hierarchical softmax, skipgram"),
        ({"hierarchical": True, "algorithm": "cbow"}, "negative sampling + hierarchical softmax, cbow"),
        ({"negative": 0, "softmax": True}, "softmax, skipgram"),
    ],
)
def test_the_objective_says_what_the_loss_is(objective, text):
    assert Word2VecConfig(**objective).objective == text


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 10**9), min_size=1, max_size=30),
    st.floats(0, 0.1),
    st.sampled_from(["word2vec.c", "paper"]),
)
def test_frequent_words_are_kept_less_often(counts, sample, formula):
    counts = np.sort(counts)[::-1]
    keep = keep_probabilities(counts, Word2VecConfig(sample=sample, subsampling=formula))
    assert keep.dtype == np.float32
    assert ((keep >= 0) & (keep <= 1)).all()
    assert (np.diff(keep) >= 0).all()
    assert (keep[counts <= sample * counts.sum()] == 1).all()


# --- growing ------------------------------------------------------------------------------------------------------

GROWN = VOCAB.grow(["new", "the", "newer"], [7, 3, 2])


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_grown_model_keeps_its_rows_and_draws_the_new_ones(objective):
    old = model(**objective)
    grown = old.grown(GROWN, old.config, seed=1)
    assert grown.vocab.tokens == ["the", "文", "脉", "rare", "new", "newer"]
    assert grown.input[:4].tobytes() == old.input.tobytes()
    drawn = grown.input[4:, : old.config.vector_size]
    assert drawn.any(axis=1).all()
    assert (np.abs(drawn) <= 0.5 / old.config.vector_size).all()
    assert not np.isin(drawn, old.input).any()  # not the same draws again
    if old.config.negative or old.config.softmax:
        assert grown.negative[:4].tobytes() == old.negative.tobytes()
        assert not grown.negative[4:].any()
    if old.config.hierarchical:
        assert not grown.hierarchical.any()  # another tree
    assert not np.shares_memory(grown.input, old.input)


def test_the_tree_stays_while_no_count_changes():
    old = model(hierarchical=True)
    assert parameters(old.grown(VOCAB, old.config, seed=1)) == parameters(old)
    other = VOCAB.grow(["the"], [1])
    assert not old.grown(other, old.config, seed=1).hierarchical.any()


def test_a_grown_model_may_have_another_objective():
    old = model()
    grown = old.grown(GROWN, Word2VecConfig(vector_size=5, negative=0, hierarchical=True), seed=1)
    assert grown.input[:4].tobytes() == old.input.tobytes()
    assert len(grown.negative) == 1
    assert not grown.hierarchical.any()
    back = grown.grown(GROWN, old.config, seed=1)
    assert not back.negative.any()


def test_a_grown_model_of_one_word_keeps_its_output():
    one = model(Vocab(["only"], [3]))
    grown = one.grown(one.vocab.grow(["new"], [2]), one.config, seed=1)
    assert grown.negative[:1].tobytes() == one.negative.tobytes()
    assert one.negative.any()


def test_the_size_of_vectors_cannot_change():
    with pytest.raises(SettingError, match="vector_size=6, but the run that is continued has 5"):
        model().grown(GROWN, Word2VecConfig(vector_size=6), seed=1)


# --- on disk ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 5, 16, 33])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_model_is_loaded_as_it_was_saved(tmp_path, objective, size):
    saved = model(**objective | {"vector_size": size})
    saved.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "model.safetensors", "vocab.json"]
    loaded = Word2Vec.load(tmp_path)
    assert loaded.config == saved.config
    assert loaded.vocab == saved.vocab
    assert parameters(loaded) == parameters(saved)
    assert loaded.input.ctypes.data % 64 == 0
    vectors = Word2Vec.load_vectors(tmp_path)
    assert vectors.index_to_key == saved.vocab.tokens
    assert vectors.vectors.tobytes() == saved.input[:, :size].tobytes()
    elsewhere = tmp_path / "again"
    elsewhere.mkdir()
    loaded.save(elsewhere)
    for name in ("config.json", "model.safetensors", "vocab.json"):
        assert (elsewhere / name).read_bytes() == (tmp_path / name).read_bytes()


@pytest.fixture
def saved(tmp_path) -> Path:
    model(hierarchical=True).save(tmp_path)
    return tmp_path


def refused(folder: Path, name: str) -> str:
    """The message with which both loaders refuse a folder; it names the file."""
    with pytest.raises(FormatError, match=name) as error:
        Word2Vec.load(folder)
    with pytest.raises(FormatError, match=name):
        Word2Vec.load_vectors(folder)
    return str(error.value)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocab.json"])
def test_missing_and_truncated_files_are_refused(saved, name):
    whole = (saved / name).read_bytes()
    for length in range(len(whole.rstrip())):
        (saved / name).write_bytes(whole[:length])
        refused(saved, name)
    (saved / name).unlink()
    refused(saved, name)
    (saved / name).mkdir()
    refused(saved, name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "is not the configuration of a model, version 1"),
        ({"kind": "glove"}, "is not a word2vec configuration"),
        ({"vector_size": 0}, "is not a word2vec configuration"),
        ({"vector_size": "5"}, "is not a word2vec configuration"),
        ({"vector_size": True}, "is not a word2vec configuration"),
        ({"negative": 0, "hierarchical": False}, "nothing to learn from"),
        ({"noise_exponent": 1e3}, "is not a word2vec configuration"),
        ({"vocab_size": None}, "'vocab_size' is None, which is not what a word2vec model has there"),
        ({"colour": 1}, "the setting 'colour' is none of word2vec's"),
    ],
)
def test_a_changed_configuration_is_refused(saved, change, message):
    config = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps(config | change))
    assert message in refused(saved, "config.json")


@pytest.mark.parametrize("content", ["[]", "7", "null", '"text"', "{}", "[" * 100_000, "\0"])
def test_a_configuration_that_is_something_else_is_refused(saved, content):
    (saved / "config.json").write_text(content)
    refused(saved, "config.json")


@pytest.mark.parametrize("change", [{"vector_size": 6}, {"vector_size": 9999}, {"vocab_size": 5}])
def test_parts_that_do_not_fit_together_are_refused(saved, change):
    config = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps(config | change))
    message = refused(saved, "model.safetensors" if "vector_size" in change else "vocab.json")
    assert str(next(iter(change.values()))) in message


def test_a_vocabulary_of_another_model_is_refused(saved):
    GROWN.save(saved / "vocab.json")
    assert "has 6 tokens, but config.json says 4" in refused(saved, "vocab.json")


def test_output_vectors_that_a_file_lacks_are_zero(saved):
    config = (saved / "config.json").read_bytes()
    model(negative=0, hierarchical=True).save(saved)
    (saved / "config.json").write_bytes(config)
    loaded = Word2Vec.load(saved)
    assert not loaded.negative.any()
    assert loaded.hierarchical.tobytes() == model(hierarchical=True).hierarchical.tobytes()


@pytest.mark.parametrize("name", [b"input", b"negative", b"hierarchical"])
def test_a_tensor_of_another_name_is_refused(saved, name):
    path = saved / "model.safetensors"
    path.write_bytes(path.read_bytes().replace(b'"' + name + b'"', b'"' + b"x" * len(name) + b'"'))
    refused(saved, "model.safetensors")


def test_a_flipped_bit_of_the_header_is_refused_or_harmless(saved):
    path, expected = saved / "model.safetensors", parameters(Word2Vec.load(saved))
    whole = path.read_bytes()
    refused = 0
    for place in range(8 + int.from_bytes(whole[:8], "little")):
        for bit in (place % 8, (place + 3) % 8):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << bit
            path.write_bytes(damaged)
            try:
                assert parameters(Word2Vec.load(saved)) == expected
            except FormatError:
                refused += 1
    assert refused > len(whole) / 2


@pytest.mark.parametrize("name", ["negative", "hierarchical"])
def test_a_tensor_of_another_shape_is_refused(saved, name):
    rows = {tensor: np.zeros((4, 5), np.float32) for tensor in ("input", "negative", "hierarchical")}
    write_tensors(saved / "model.safetensors", rows | {name: np.zeros((5, 4), np.float32)})
    with pytest.raises(FormatError, match=f"tensor '{name}' has the shape"):
        Word2Vec.load(saved)


# --- cutting a corpus ---------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(1, 30) | st.integers(1, 30_000), min_size=1, max_size=60),
    st.integers(1, 40),
)
def test_blocks_cover_a_corpus_and_begin_with_sentences_where_they_can(lengths, repeat):
    starts = np.cumsum([0, *(lengths * repeat)])
    tokens = int(starts[-1])
    bounds = block_bounds(starts, tokens)
    assert bounds.dtype == np.int64
    assert (bounds[0], bounds[-1]) == (0, tokens)
    sizes = np.diff(bounds)
    assert (sizes > 0).all()
    assert sizes.max() < 20_000 or len(sizes) == 1
    size = min(10_000, max(100, tokens // 100))
    assert sizes.max() < 2 * size
    assert len(sizes) >= tokens // size - 1
    cut = bounds[~np.isin(bounds, starts)]  # in the middle of a sentence
    containing = np.searchsorted(starts, cut, side="right") - 1
    assert (np.diff(starts)[containing] > size).all()


def test_a_large_corpus_has_blocks_of_ten_thousand_tokens():
    starts = np.arange(0, 3_000_001, 20)
    sizes = np.diff(block_bounds(starts, 3_000_000))
    assert set(sizes) == {10_000}
    one_line = np.array([0, 3_000_005])
    assert np.diff(block_bounds(one_line, 3_000_005)).tolist() == [10_000] * 300 + [5]


def test_rows_of_types_are_found_also_in_another_vocabulary(tmp_path):
    corpus = encode_corpus(Corpus.of(["a a a b b c", "a d"]), TextConfig(), cache=tmp_path)
    assert corpus.words == ["a", "b", "c", "d"]
    own = Vocab.from_counts(corpus.words, corpus.counts, min_count=2)
    assert row_of_type(corpus, own).tolist() == [0, 1, -1, -1]
    other = Vocab(["c", "x", "a"], [1, 1, 1])
    assert row_of_type(corpus, other).tolist() == [2, -1, 0, -1]
    longer = Vocab(["a", "b", "c", "d", "e"], [1, 1, 1, 1, 1])
    assert row_of_type(corpus, longer).tolist() == [0, 1, 2, 3]
    assert row_of_type(corpus, own).dtype == np.int32
