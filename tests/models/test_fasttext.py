"""fastText models: vectors of seen and unseen words, labels of texts, growing, folders; and the reference's answers."""

import json
from itertools import pairwise

import numpy as np
import pytest
from safetensors.numpy import load_file

from wenmai.core.errors import FormatError, SettingError
from wenmai.core.tensors import write_tensors
from wenmai.formats.fasttext import read_fasttext, write_fasttext
from wenmai.kernels.huffman import huffman_paths
from wenmai.kernels.quantise import QuantisedRows
from wenmai.models.fasttext import FastText, FastTextClassifierConfig, FastTextConfig
from wenmai.models.fasttext.reference import probabilities_of, reference_labels, reference_outputs
from wenmai.text.vocab import Vocab
from wenmai.vectors.word_vectors import UnknownWordError

DRAW = np.random.default_rng(7)
LABELS = Vocab([f"l{place}" for place in range(90)], [*range(100, 60, -1), *[5] * 50])
TEXTS = ["one two unseen", "", "two</s> 中文", "</s>", "one " * 50, "zzz\nmark one"]


def vectors_model(**choices):
    config = FastTextConfig(**({"vector_size": 10, "buckets": 60, "min_ngram": 2, "max_ngram": 3} | choices))
    model = FastText(config, Vocab(["</s>", "one", "two", "中文", "b\udcff"], [9, 7, 5, 3, 1]))
    model.initialise(1)
    return model


def classifier(loss="softmax", labels=LABELS, **choices):
    choices = {"vector_size": 6, "word_ngrams": 2, "min_ngram": 1, "max_ngram": 2, "buckets": 50} | choices
    words = Vocab(["</s>", "one", "two", "中文"], [9, 7, 5, 3])
    model = FastText(FastTextClassifierConfig(loss=loss, **choices), words, labels)
    model.initialise(2)
    model.output[:, :6] = DRAW.normal(size=(len(labels), 6)) * 4
    return model


def test_a_word_is_the_mean_of_its_rows():
    model = vectors_model()
    for word in ("one", "中文", "b\udcff", "unseen", "</s>"):
        names, rows = model.subwords(word)
        assert (names[0] == word) == (word in model.vocab)
        np.testing.assert_allclose(model.vector(word), model.input[rows, :10].mean(axis=0), atol=1e-6)
    start, rows = model.subword_table
    assert rows[start[1] : start[2]].tolist() == model.subwords("one")[1].tolist()
    assert model.subwords("中文")[0] == ["中文", "<中", "<中文", "中文", "中文>", "文>"]
    assert not vectors_model(max_ngram=0).vector("unseen").any()
    assert vectors_model(max_ngram=0).input.shape[0] == 5


def test_rows_begin_evenly_around_zero():
    rows = vectors_model(buckets=20_000).input
    assert not rows[:, 10:].any()
    assert abs(rows[:, :10].mean()) < 1e-3
    assert 0.0999 < rows.max() <= 0.1
    assert -0.0999 > rows.min() >= -0.1


def test_unseen_words_are_searched_with():
    vectors = vectors_model().vectors()
    model = vectors_model()
    assert "ones" not in vectors
    assert vectors.has_vector("ones")
    np.testing.assert_array_equal(vectors["ones"], model.vector("ones"))
    np.testing.assert_array_equal(vectors["one"], model.vector("one"))
    np.testing.assert_allclose(np.linalg.norm(vectors.get_vector("ones", norm=True)), 1, rtol=1e-5)
    assert vectors.most_similar("ones", topn=1)[0][0] == "one"
    assert vectors.most_similar(["one", "ones"], ["two"], topn=9)
    assert {word for word, _ in vectors.most_similar("ones", topn=9)} == set(model.vocab.tokens)
    assert len(vectors.analogy("ones", "two", "twos", topn=3)) == 3
    assert len(vectors.analogy("ones", "two", "twos", topn=3, method="mul")) == 3
    assert vectors.similarity("ones", "ones") == pytest.approx(1)
    assert vectors.doesnt_match(["one", "ones", "中文中"]) == "中文中"
    assert vectors.distances("ones", ["one", "twos"]).shape == (2,)
    assert vectors.map2d(["one", "twos"]).shape == (2, 2)
    nearest = sorted(vectors.closer_than("one", "ones"))
    assert nearest == sorted(
        word for word, score in vectors.most_similar("one") if score > vectors.similarity("one", "ones")
    )
    assert vectors.get_subwords("ones")[0] == model.subwords("ones")[0]
    assert vectors.vectors_for_all(["one", "ones"]).index_to_key == ["one", "ones"]
    assert vectors.vectors_for_all(["one", "ones"], allow_inference=False).index_to_key == ["one"]
    assert vectors.get_mean_vector(["one", "twos"]).any()
    bare = vectors_model(max_ngram=0).vectors()
    assert not bare.has_vector("ones")
    with pytest.raises(UnknownWordError, match="no vector for 'ones'; did you mean 'one'"):
        bare.most_similar("ones")


def test_vectors_of_texts():
    model = vectors_model()
    units = [model.vector(word) / np.linalg.norm(model.vector(word)) for word in ("one", "unseen")]
    np.testing.assert_allclose(model.sentence_vector("one\n unseen "), np.mean(units, axis=0), atol=1e-6)
    assert not model.sentence_vector(" ").any()
    supervised = classifier()
    rows = supervised.feature_rows("one unseen")
    expected = supervised.input[rows, :6].mean(axis=0)
    np.testing.assert_allclose(supervised.sentence_vector("one unseen"), expected, atol=1e-6)


def expected_probabilities(model, text):
    """All labels' probabilities in float64, None for a text without features."""
    rows = model.feature_rows(text)
    if not len(rows):
        return None
    hidden = model.input[rows, :6].astype(np.float64).mean(axis=0)
    scores = model.output[:, :6].astype(np.float64) @ hidden
    if model.config.loss == "softmax":
        return np.exp(scores) / np.exp(scores).sum()
    if model.config.loss != "hs":
        return 1 / (1 + np.exp(-scores))
    start, node, sign = huffman_paths(model.labels.counts)
    steps = 1 / (1 + np.exp(sign * scores[node]))  # a label goes the way of bit 1, whose sign is -1
    return np.array([steps[begin:end].prod() for begin, end in pairwise(start)])


@pytest.mark.parametrize("loss", ["softmax", "hs", "ns", "ova"])
def test_probabilities(loss):
    model = classifier(loss)
    for k in (1, 3, 70, -1):
        for text, answers in zip(TEXTS, model.predict(TEXTS, k=k), strict=True):
            expected = expected_probabilities(model, text)
            order = np.argsort(-expected, kind="stable")[: k if k > 0 else None]
            np.testing.assert_allclose([value for _, value in answers], expected[order], rtol=2e-4)
            if k == 1:
                assert answers[0][0] == LABELS.tokens[order[0]]
    total = sum(value for _, value in model.predict(["one"], k=-1)[0])
    assert loss in ("ns", "ova") or total == pytest.approx(1, abs=1e-5)
    above = model.predict(TEXTS, k=-1, threshold=0.3)
    assert all(value >= 0.3 for answers in above for _, value in answers)
    assert model.predict(TEXTS * 1000, k=2) == model.predict(TEXTS, k=2) * 1000
    assert model.predict(iter(TEXTS)) == model.predict(TEXTS, k=1)


@pytest.mark.parametrize("loss", ["softmax", "hs", "ova"])
def test_one_label(loss):
    answers = classifier(loss, Vocab(["only"], [3])).predict(["one"], k=5)
    assert [label for label, _ in answers[0]] == ["only"]
    assert loss == "ova" or answers[0][0][1] == pytest.approx(1)


def test_texts_without_features_have_no_labels():
    model = classifier(max_ngram=0, word_ngrams=1)
    bare = FastText(model.config, Vocab(["one"], [1]), LABELS)
    assert bare.predict(["zzz", "one", ""])[0] == bare.predict([""])[0] == []
    assert len(bare.predict(["one"], k=4)[0]) == 4
    assert bare.predict([]) == []


def test_equal_labels_come_in_order():
    model = classifier()
    model.output[:] = 0
    assert [label for label, _ in model.predict(["one"], k=3)[0]] == ["l0", "l1", "l2"]


def test_wrong_questions():
    with pytest.raises(SettingError, match="put a single one in brackets"):
        classifier().predict("one two")
    with pytest.raises(SettingError, match="k=0: expected at least 1"):
        classifier().predict(["one"], k=0)
    with pytest.raises(SettingError, match="cannot predict labels"):
        vectors_model().predict(["one"])
    with pytest.raises(SettingError, match="needs labels"):
        FastText(FastTextClassifierConfig(), Vocab(["a"], [1]))


def test_a_grown_model_keeps_words_and_buckets():
    model = vectors_model()
    model.output[:, :10] = DRAW.normal(size=(5, 10))
    vocab = model.vocab.grow(["one", "new"], [3, 2])
    grown = model.grown(vocab, model.config, seed=5)
    for word in ("one", "unseen", "中文"):
        np.testing.assert_array_equal(grown.vector(word), model.vector(word))
    assert grown.input[5, :10].any()
    assert np.array_equal(grown.output[:5], model.output)
    assert not grown.output[5:].any()
    tree = vectors_model(hierarchical=True)
    tree.output[:4, :10] = 1
    assert not tree.grown(vocab, tree.config, seed=5).output.any()
    assert tree.grown(tree.vocab, tree.config, seed=5).output.any()
    with pytest.raises(SettingError, match="max_ngram=6, but the run that is continued has 3"):
        model.grown(vocab, FastTextConfig(vector_size=10, buckets=60, min_ngram=2), seed=5)


@pytest.mark.parametrize(("before", "after"), [("hs", "softmax"), ("softmax", "hs"), ("hs", "ns"), ("ns", "softmax")])
def test_outputs_of_the_tree_are_not_those_of_labels(before, after):
    model = classifier(before)
    wanted = classifier(after).config
    kept = model.grown(model.vocab, wanted, 5, model.labels).output
    assert np.array_equal(kept, model.output if "hs" not in (before, after) else np.zeros_like(kept))


def test_outputs_of_the_tree_are_not_those_of_words():
    for before, after in ((True, False), (False, True)):
        model = vectors_model(hierarchical=before)
        model.output[:, :10] = 1
        assert not model.grown(model.vocab, vectors_model(hierarchical=after).config, 5).output.any()


@pytest.mark.parametrize("model", [vectors_model(), classifier("hs")], ids=["vectors", "classifier"])
def test_folders(model, tmp_path):
    model.save(tmp_path)
    again = FastText.load(tmp_path)
    assert (again.config, again.vocab, again.labels, again.tokens) == (
        model.config,
        model.vocab,
        model.labels,
        model.tokens,
    )
    assert np.array_equal(again.input, model.input)
    assert np.array_equal(again.output, model.output)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("config.json", {"vector_size": 7}, "the input has the shape"),
        ("config.json", {"vocab_size": 9}, "has 4 tokens, but config.json says 9"),
        ("config.json", {"label_count": 9}, "has 90 tokens, but config.json says 9"),
        ("config.json", {"buckets": 1 << 30}, "the input has the shape"),
        ("config.json", {"input_part": 2}, "the input has the shape"),
        ("config.json", {"input_part": -1}, "the input has the shape"),
        ("config.json", {"tokens": "many"}, "'tokens' is 'many'"),
        ("config.json", {"loss": "hinge"}, "is not a fastText configuration"),
        ("config.json", {"loss": 1, "more": 2}, "the setting 'more' is none of fastText's"),
        ("config.json", {"version": 2}, "version 1"),
        ("config.json", None, "is not JSON"),
        ("labels.json", None, "is not a vocabulary"),
        ("model.safetensors", None, "is not a whole safetensors file"),
    ],
)
def test_damaged_folders(name, change, message, tmp_path):
    classifier().save(tmp_path)
    path = tmp_path / name
    path.write_text("nothing" if change is None else json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(FormatError, match=message):
        FastText.load(tmp_path)


@pytest.mark.parametrize("kept", [[[3, 0], [4, 2]], [[3, 0], [4, -1]], [[3, 1], [4, 1]], [[3, 0], [50, 1]]])
def test_damaged_lists_of_kept_buckets(kept, tmp_path):
    model = classifier()
    FastText(
        model.config, model.vocab, LABELS, input=model.input[:6], kept_buckets=np.array([[3, 0], [4, 1]], np.int32)
    ).save(tmp_path)
    assert FastText.load(tmp_path).kept_buckets.tolist() == [[3, 0], [4, 1]]
    path = tmp_path / "model.safetensors"
    write_tensors(path, load_file(path) | {"kept_buckets": np.array(kept, np.int32)})
    with pytest.raises(FormatError, match=r"the list of kept buckets names (rows|buckets) twice or beyond"):
        FastText.load(tmp_path)


@pytest.mark.parametrize("part", [0, -1])
def test_parts_of_no_numbers(part, tmp_path):
    model = classifier()
    codes = QuantisedRows.empty(54, 6, 1, with_norms=False)
    codes.codes[:], codes.centres[:] = 0, 0
    FastText(model.config, model.vocab, LABELS, input=codes).save(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"input_part": part}))
    with pytest.raises(FormatError, match=f"input_part={part}: expected 1 or more"):
        FastText.load(tmp_path)


def test_products_that_are_no_numbers_are_no_places_of_the_sigmoids_table():
    rows = np.array([[3e38, -3e38], [0, 0]], np.float32)
    found = reference_labels(np.full((1, 2), 3e38, np.float32), reference_outputs(rows, 2, None), "ova", 2, 0.0)
    assert found.ids[0].tolist() == [1, 0]
    np.testing.assert_allclose(probabilities_of(found.scores)[0], [0.5, 0], atol=1e-6)


# --- the reference libraries ----------------------------------------------------------------------------------------

PARITY_WORDS = ["word1", "wordx", "été", "中文", "文", "</s>", "a"]
LINES = [f"__label__{place % 7} word{place % 40} word{place % 7} été 中文 w\udcff" for place in range(400)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("reference") / "text"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8", errors="surrogateescape")
    return path


@pytest.mark.parity
@pytest.mark.parametrize("loss", ["ns", "hs"])
def test_vectors_of_the_reference(loss, corpus, tmp_path):
    reference = pytest.importorskip("fasttext")
    theirs = reference.train_unsupervised(
        str(corpus), dim=7, bucket=500, epoch=1, minCount=1, loss=loss, verbose=0, thread=12
    )
    theirs.save_model(str(tmp_path / "theirs"))
    model = read_fasttext(tmp_path / "theirs")
    write_fasttext(tmp_path / "ours", model)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    for word in PARITY_WORDS:
        np.testing.assert_allclose(model.vector(word), theirs.get_word_vector(word), atol=1e-6)
        names, rows = theirs.get_subwords(word)
        assert model.subwords(word)[0] == names
        assert model.subwords(word)[1].tolist() == list(rows)
    text = "word1 wordx 中文"
    np.testing.assert_allclose(model.sentence_vector(text), theirs.get_sentence_vector(text), atol=1e-6)


@pytest.mark.parity
@pytest.mark.parametrize("loss", ["softmax", "hs", "ns", "ova"])
@pytest.mark.parametrize("small", [False, True])
def test_labels_of_the_reference(loss, small, corpus, tmp_path):
    reference = pytest.importorskip("fasttext")
    choices = {"dim": 6, "bucket": 400, "epoch": 2, "wordNgrams": 2, "minn": 2, "maxn": 3, "verbose": 0, "thread": 12}
    theirs = reference.train_supervised(str(corpus), loss=loss, **choices)
    if small:
        theirs.quantize(cutoff=300, qnorm=True)
    theirs.save_model(str(tmp_path / "theirs"))
    model = read_fasttext(tmp_path / "theirs")
    write_fasttext(tmp_path / "ours", model)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    texts = [line.split(" ", 1)[1].replace("\udcff", "é") for line in LINES[:40]] + [
        "unseen",
        "",
        "a __label__1 </s> b",
    ]
    for text, answers in zip(texts, model.predict(texts, k=-1), strict=True):
        expected = theirs.f.predict(text + "\n", -1, 0.0, "strict")
        if loss in ("ns", "ova"):  # by its table of the sigmoid many labels are equal, and come in its heap's order
            assert ["__label__" + label for label, _ in answers] == [label for _, label in expected]
        found, tolerance = dict(answers), 1e-4 if loss == "hs" else 1e-6
        for chance, label in expected:
            assert found[label.removeprefix("__label__")] == pytest.approx(chance - 1e-5, abs=tolerance)


@pytest.mark.parity
def test_gensim_reads_what_is_written(tmp_path):
    facebook = pytest.importorskip("gensim.models.fasttext")
    model = vectors_model()
    write_fasttext(tmp_path / "ours.bin", model)
    theirs = facebook.load_facebook_model(str(tmp_path / "ours.bin"))
    for word in ("one", "unseen", "中文"):
        np.testing.assert_allclose(theirs.wv[word], model.vector(word), atol=1e-6)
    facebook.save_facebook_model(theirs, str(tmp_path / "theirs.bin"))
    again = read_fasttext(tmp_path / "theirs.bin")
    np.testing.assert_allclose(again.vector("unseen"), model.vector("unseen"), atol=1e-6)
