"""``wenmai.fasttext`` beside the official module: every name is there, and the same file gives the same answers."""

import inspect
import io
import random
import re
from contextlib import redirect_stdout
from types import SimpleNamespace

import numpy as np
import pytest

import wenmai.fasttext as ours
from wenmai.fasttext import FastText as our_module
from wenmai.fasttext import util as our_util

official = pytest.importorskip("fasttext")
official_tests = pytest.importorskip("fasttext.tests.test_script")

pytestmark = pytest.mark.parity

DRAW = random.Random(5)
WORDS = [f"word{place}" for place in range(300)] + ["où", "中文", "naïve", "x"]
TEXTS = [" ".join(DRAW.choices(WORDS, range(304, 0, -1), k=DRAW.randrange(1, 20))) for _ in range(600)]
LINES = [f"__label__{len(text) % 40} {text} __label__{text[4:5]}" for text in TEXTS]
ASKED = [*TEXTS[:100], "", "unseen", "a __label__3 </s> b", "\tword1\vword2\0word3  ", "</s>"]
LOSSES = ("softmax", "hs", "ns", "ova")
FILES = [f"{loss}.{ending}" for loss in LOSSES for ending in ("bin", "ftz")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Models that the official module has trained: classifiers with all losses, dense and quantised; word vectors."""
    folder = tmp_path_factory.mktemp("official")
    (folder / "train").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    (folder / "test").write_text("\n".join([*LINES[:200], "no label", "__label__1", "__label__new word1"]) + "\n")
    choices = {"verbose": 0, "thread": 12, "dim": 6, "bucket": 700}
    for loss in LOSSES:
        model = official.train_supervised(str(folder / "train"), loss=loss, lr=0.5, epoch=9, wordNgrams=2, **choices)
        model.save_model(str(folder / f"{loss}.bin"))
        model.quantize(qnorm=True, cutoff=500)
        model.save_model(str(folder / f"{loss}.ftz"))
    for name in ("skipgram", "cbow"):
        model = official.train_unsupervised(str(folder / "train"), name, minCount=1, epoch=2, **choices)
        model.save_model(str(folder / f"{name}.bin"))
    return folder


def both(path):
    return official.load_model(str(path)), ours.load_model(str(path))


def public(thing):
    return {name for name, _ in inspect.getmembers(thing) if not name.startswith("_")}


def functions(module):
    return {name for name, value in vars(module).items() if inspect.isfunction(value) and not name.startswith("_")}


def test_every_public_name_is_there(folder):
    theirs, mine = both(folder / "softmax.bin")
    methods = public(type(theirs))
    assert len(methods) == 26
    assert methods <= public(type(mine))
    assert {"__getitem__", "__contains__"} <= set(vars(type(mine)))
    for name in methods - {"words", "labels", "set_args"}:
        given = list(inspect.signature(getattr(theirs, name)).parameters)
        assert list(inspect.signature(getattr(mine, name)).parameters) == given, name
    assert functions(official.FastText) <= set(vars(our_module))
    assert public(official.FastText._Meter) <= public(our_module._Meter)
    assert functions(official.util.util) - {"download_model", "urlopen"} <= public(our_util)
    assert set(our_module.unsupervised_default) == set(official.FastText.unsupervised_default)
    assert {"train_supervised", "train_unsupervised", "load_model", "tokenize", "EOS", "BOW", "EOW"} <= public(ours)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(("k", "threshold"), [(1, 0.0), (5, 0.0), (3, 0.2), (-1, 0.0), (1000, 0.01)])
def test_labels_and_probabilities(name, k, threshold, folder):
    theirs, mine = both(folder / name)
    labels, chances = theirs.predict(ASKED, k, threshold)
    my_labels, my_chances = mine.predict(ASKED, k, threshold)
    assert my_labels == labels
    for one, other in zip(my_chances, chances, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, atol=1e-6)
    for text in ASKED[-8:]:
        (found, values), (my_found, my_values) = theirs.predict(text, k, threshold), mine.predict(text, k, threshold)
        assert (my_found, my_values.dtype) == (found, values.dtype)
        np.testing.assert_allclose(my_values, values, atol=1e-6)


@pytest.mark.parametrize("name", FILES)
def test_measures(name, folder):
    theirs, mine = both(folder / name)
    path = str(folder / "test")
    for k, threshold in ((1, 0.0), (3, 0.0), (2, 0.2), (-1, 0.1)):
        np.testing.assert_allclose(mine.test(path, k, threshold), theirs.test(path, k, threshold), atol=1e-9)
        expected, found = theirs.test_label(path, k, threshold), mine.test_label(path, k, threshold)
        assert found.keys() == expected.keys()
        for label, values in expected.items():
            assert found[label] == pytest.approx(values, nan_ok=True)
    meter, my_meter = theirs.get_meter(path), mine.get_meter(path)
    for label in ("__label__3", "__label__40", None):
        for one, other in zip(my_meter.precision_recall_curve(label), meter.precision_recall_curve(label), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-9)
        for share in (0.1, 0.5, 0.9):
            assert my_meter.precision_at_recall(share, label) == pytest.approx(meter.precision_at_recall(share, label))
            assert my_meter.recall_at_precision(share, label) == pytest.approx(meter.recall_at_precision(share, label))
    for one, other in zip(my_meter.score_vs_true("__label__3"), meter.score_vs_true("__label__3"), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("name", ["skipgram.bin", "cbow.bin", "softmax.bin", "ova.ftz"])
def test_vectors_words_and_neighbours(name, folder):
    theirs, mine = both(folder / name)
    for word in ("word1", "word77x", "中文", "</s>", ""):
        np.testing.assert_array_equal(mine.get_word_vector(word), theirs.get_word_vector(word))
        np.testing.assert_array_equal(mine[word], theirs[word])
        names, rows = theirs.get_subwords(word)
        assert mine.get_subwords(word)[0] == names
        assert mine.get_subwords(word)[1].tolist() == rows.tolist()
        assert (word in mine, mine.get_word_id(word)) == (word in theirs, theirs.get_word_id(word))
        assert mine.get_subword_id(word) == theirs.get_subword_id(word)
        neighbours, expected = mine.get_nearest_neighbors(word, 25), theirs.get_nearest_neighbors(word, 25)
        assert [other for _, other in neighbours] == [other for _, other in expected]
        np.testing.assert_allclose([c for c, _ in neighbours], [c for c, _ in expected], atol=1e-6)
    analogies, expected = (model.get_analogies("word1", "word2", "word3", 9) for model in (mine, theirs))
    assert [word for _, word in analogies] == [word for _, word in expected]
    np.testing.assert_allclose([c for c, _ in analogies], [c for c, _ in expected], atol=1e-6)
    for text in ASKED:
        assert mine.get_line(text) == theirs.get_line(text)
        if "__label__" not in text:  # for a label the official module takes the row of a bucket, or none of the matrix
            np.testing.assert_allclose(mine.get_sentence_vector(text), theirs.get_sentence_vector(text), atol=1e-6)
    assert mine.get_line(ASKED) == theirs.get_line(ASKED)
    for names, counts in (("words", "get_words"), ("labels", "get_labels")):
        assert getattr(mine, names) == getattr(theirs, names) == getattr(mine, counts)()
        pair, expected = getattr(mine, counts)(include_freq=True), getattr(theirs, counts)(include_freq=True)
        assert (pair[0], pair[1].tolist(), pair[1].dtype) == (expected[0], expected[1].tolist(), expected[1].dtype)
    for label in ("__label__3", "__label__none", "word1"):
        assert mine.get_word_id(label) == theirs.get_word_id(label)
        if label != "word1":
            assert mine.get_label_id(label) == theirs.get_label_id(label)
    assert (mine.get_dimension(), mine.is_quantized()) == (theirs.get_dimension(), theirs.is_quantized())
    np.testing.assert_allclose(mine.get_input_vector(7), theirs.get_input_vector(7), atol=1e-7)
    if mine.is_quantized():
        with pytest.raises(ValueError, match="Can't get quantized Matrix"):
            mine.get_input_matrix()
    else:
        np.testing.assert_array_equal(mine.get_input_matrix(), theirs.get_input_matrix())
        np.testing.assert_array_equal(mine.get_output_matrix(), theirs.get_output_matrix())


def test_changed_models(folder, tmp_path):
    theirs, mine = both(folder / "softmax.bin")
    rows, output = mine.get_input_matrix()[:, :3], mine.get_output_matrix()[:, :3]
    for model in (theirs, mine):
        model.set_matrices(rows, output)
    assert mine.get_dimension() == theirs.get_dimension() == mine.dim == 3
    assert mine.predict(ASKED, 3)[0] == theirs.predict(ASKED, 3)[0]
    mine.save_model(tmp_path / "mine.bin")
    theirs.save_model(str(tmp_path / "theirs.bin"))
    assert (tmp_path / "mine.bin").read_bytes() == (tmp_path / "theirs.bin").read_bytes()
    with pytest.raises(ValueError, match="expected"):
        mine.set_matrices(rows[:-1], output)
    with pytest.raises(ValueError, match=r"matrices of \(3,\) and \(3,\); expected \(\d+, d\)"):
        mine.set_matrices(np.zeros(3), np.zeros(3))
    reduced = our_util.reduce_model(ours.load_model(folder / "softmax.bin"), 4)
    assert reduced.get_input_matrix().shape[1] == reduced.get_dimension() == 4
    for size in (0, 5):
        with pytest.raises(ValueError, match=f"target_dim={size}: expected 1 to 4, the size of a vector"):
            our_util.reduce_model(reduced, size)


@pytest.mark.parametrize("train", [ours.train_supervised, ours.train_unsupervised])
def test_bytes_that_are_no_text_are_named_in_the_file_of_the_user(train, tmp_path):
    path = tmp_path / "latin"
    path.write_bytes(b"__label__a one two\n" * 20 + b"__label__b caf\xe9 two\n")
    with pytest.raises(ValueError, match=r"latin: line 21: 0xe9 is not UTF-8; convert the file first.*iconv"):
        train(path, verbose=0, minCount=1, epoch=1, dim=4, thread=1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"lr": -1}, "lr=-1: expected greater than 0"),
        ({"neg": 0}, "set neg=5 or loss=hs"),
        ({"minCount": 99}, r"occurs minCount=99 times.*or minCount=20 or less"),
    ],
)
def test_mistakes_name_the_arguments(arguments, said, tmp_path):
    path = tmp_path / "text"
    path.write_text("one two three\n" * 20)
    with pytest.raises(ValueError, match=said):
        ours.train_unsupervised(path, verbose=0, **arguments)


@pytest.mark.parametrize("choices", [{}, {"qnorm": True, "cutoff": 400}, {"dsub": 4, "cutoff": 300, "retrain": True}])
def test_quantised_models_are_as_good(choices, folder, tmp_path):
    theirs, mine = both(folder / "ova.bin")
    if "retrain" in choices:
        choices = choices | {"input": str(folder / "train"), "epoch": 3, "lr": 0.3, "verbose": 0, "thread": 1}
    mine.quantize(**choices)
    mine.save_model(tmp_path / "mine.ftz")
    again = official.load_model(str(tmp_path / "mine.ftz"))
    assert again.is_quantized()
    assert mine.is_quantized()
    assert again.predict(ASKED, 5)[0] == mine.predict(ASKED, 5)[0]
    theirs.quantize(**choices)
    path = str(folder / "test")
    assert again.test(path)[1] == pytest.approx(theirs.test(path)[1], abs=0.12)


@pytest.mark.parametrize("kind", ["supervised", "skipgram", "cbow"])
def test_what_is_trained_is_what_is_saved(kind, folder, tmp_path):
    choices = {"dim": 5, "bucket": 300, "verbose": 0, "thread": 12, "minCount": 2}
    if kind == "supervised":
        mine = ours.train_supervised(str(folder / "train"), 0.4, loss="hs", word_ngrams=2, **choices)
        expected = official.train_supervised(str(folder / "train"), 0.4, loss="hs", word_ngrams=2, **choices)
        assert sorted(mine.labels) == sorted(expected.labels)
        names = [name for name in vars(expected) if not name.startswith("_") and name != "f"]
        assert len(names) == 18
        for name in names:
            assert str(getattr(mine, name)) == str(getattr(expected, name)), name
    else:
        mine = ours.train_unsupervised(str(folder / "train"), model=kind, **choices)
        expected = official.train_unsupervised(str(folder / "train"), model=kind, **choices)
    assert dict(zip(*mine.get_words(True), strict=True)) == dict(zip(*expected.get_words(True), strict=True))
    mine.save_model(str(tmp_path / "model.bin"))
    again = official.load_model(str(tmp_path / "model.bin"))
    np.testing.assert_array_equal(again.get_input_matrix(), mine.get_input_matrix())
    np.testing.assert_array_equal(again["word1"], mine["word1"])
    if kind == "supervised":
        assert again.predict(ASKED, 4)[0] == mine.predict(ASKED, 4)[0]


def test_tokenize():
    for text in ("asdf asdb", "\n", "asdf\n", "", " ", "a\tb\vc\fd\0e\rf \n\n g", "中文　字", "a b"):
        assert ours.tokenize(text) == official.tokenize(text)


@pytest.mark.parametrize(
    "question",
    [
        lambda module, folder: module.load_model("/nowhere"),
        lambda module, folder: module.load_model(str(folder / "train")),
        lambda module, folder: module.train_supervised("/nowhere"),
        lambda module, folder: module.train_supervised(str(folder / "train"), nonsense=2),
        lambda module, folder: module.train_supervised(str(folder / "train"), 0.1, lr=0.2),
        lambda module, folder: module.train_supervised(str(folder / "train"), loss="nonsense"),
        lambda module, folder: module.train_unsupervised(str(folder / "train"), model="nonsense"),
        lambda module, folder: module.load_model(str(folder / "cbow.bin")).predict("a"),
        lambda module, folder: module.load_model(str(folder / "cbow.bin")).quantize(),
        lambda module, folder: module.load_model(str(folder / "hs.bin")).predict("a", k=0),
        lambda module, folder: module.load_model(str(folder / "hs.bin")).predict("a\nb"),
        lambda module, folder: module.load_model(str(folder / "hs.bin")).get_sentence_vector("a\nb"),
        lambda module, folder: module.load_model(str(folder / "hs.bin")).get_line("a\nb"),
        lambda module, folder: module.load_model(str(folder / "hs.bin")).test("/nowhere"),
        lambda module, folder: module.load_model(str(folder / "hs.bin")).quantize(retrain=True),
        lambda module, folder: module.cbow("a"),
    ],
)
def test_mistakes_have_the_official_types(question, folder):
    with pytest.raises(Exception) as expected:  # noqa: PT011  whatever the official one is
        question(official, folder)
    with pytest.raises(expected.type):
        question(ours, folder)


@pytest.mark.parametrize("text", [None, 3, b"word1", ("word1", "word2"), np.array(["word1"]), ["word1", None]])
def test_what_is_no_text_is_told_so(text, folder):
    model = ours.load_model(str(folder / "hs.bin"))
    with pytest.raises(TypeError, match=r"^expected a text \(str\), not .*; predict and get_line take a list"):
        model.predict(text)


# --- the official tests and examples --------------------------------------------------------------------------------

GENERATED = sorted(name for name in vars(official_tests.TestFastTextUnitPy) if name.startswith("gen_test_"))
SETTING = {"minn": 2, "maxn": 4, "verbose": 0, "bucket": 1000, "thread": 1}


@pytest.mark.parametrize("name", GENERATED)
def test_official_unit_tests(name, monkeypatch):
    random.seed(1)
    monkeypatch.setattr(official_tests, "fasttext", ours)
    monkeypatch.setattr(official_tests, "util", our_util)
    for function in ("train_supervised", "train_unsupervised"):
        monkeypatch.setattr(official_tests, function, getattr(ours, function))
    getattr(official_tests.TestFastTextUnitPy(), name)(dict(SETTING))


def train_supervised_example(fasttext, folder):
    def print_results(examples, precision, recall):
        print("N\t" + str(examples))
        print(f"P@{1}\t{precision:.3f}")
        print(f"R@{1}\t{recall:.3f}")

    model = fasttext.train_supervised(
        input=str(folder / "train"), epoch=5, lr=1.0, wordNgrams=2, verbose=0, minCount=1, bucket=500, thread=12
    )
    print_results(*model.test(str(folder / "test")))
    model = fasttext.train_supervised(
        input=str(folder / "train"),
        epoch=5,
        lr=1.0,
        wordNgrams=2,
        verbose=0,
        minCount=1,
        loss="hs",
        bucket=500,
        thread=12,
    )
    print_results(*model.test(str(folder / "test")))
    model.quantize(input=str(folder / "train"), qnorm=True, retrain=True, cutoff=300)
    print_results(*model.test(str(folder / "test")))
    print(len(model.predict("word1 word2", k=3)[0]), model.labels[0][:9])


def train_unsupervised_example(fasttext, folder):
    model = fasttext.train_unsupervised(
        input=str(folder / "train"), model="skipgram", verbose=0, bucket=500, thread=12, dim=4
    )
    print(len(model.words), model.get_dimension())
    for cosine, word in model.get_nearest_neighbors("word1", k=3):
        print(f"{cosine:.3f} {word[:4]}")


def get_vocab_example(fasttext, folder):
    model = fasttext.load_model(str(folder / "skipgram.bin"))
    words, frequencies = model.get_words(include_freq=True)
    for word, frequency in zip(words, frequencies, strict=True):
        print(word + "\t" + str(frequency))


def bin_to_vec_example(fasttext, folder):
    model = fasttext.load_model(str(folder / "cbow.bin"))
    words = model.get_words()
    print(str(len(words)) + " " + str(model.get_dimension()))
    for word in words:
        print(word + "".join(" " + str(value) for value in model.get_word_vector(word)))


def predict_example(fasttext, folder):
    model = fasttext.load_model(str(folder / "ns.ftz"))
    for line in ASKED[:20]:
        labels, probabilities = model.predict(line, k=2, threshold=0.05)
        print(" ".join(f"{label} {chance:.4f}" for label, chance in zip(labels, probabilities, strict=True)))


def printed(example, fasttext, folder):
    with redirect_stdout(io.StringIO()) as output:
        example(fasttext, folder)
    return output.getvalue()


@pytest.mark.parametrize("example", [train_supervised_example, train_unsupervised_example])
def test_official_examples_that_train_print_the_same_shape(example, folder):
    shapes = [re.sub(r"-?\d+(\.\d+)?", "#", printed(example, module, folder)) for module in (official, ours)]
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize("example", [get_vocab_example, bin_to_vec_example, predict_example])
def test_official_examples_that_read_print_the_same(example, folder):
    assert printed(example, ours, folder) == printed(example, official, folder)


def test_autotune_and_arguments_without_effect(folder, capsys):
    common = SimpleNamespace(path=str(folder / "train"), valid=str(folder / "test"))
    model = ours.train_supervised(
        common.path, autotuneValidationFile=common.valid, autotuneDuration=1, dim=4, bucket=200, verbose=0, thread=1
    )
    assert model.get_dimension() == 4
    assert model.test(common.valid)[1] > 0.1
    ours.train_supervised(common.path, lrUpdateRate=7, ws=3, dim=2, epoch=1, bucket=0, thread=1)
    told = capsys.readouterr().err
    assert "lrUpdateRate has no effect: the learning rate falls with every block" in told
    assert "ws has no effect: it is for word vectors" in told
    assert "Number of labels: " in told
    assert "Progress: 100.0%" in told
    with pytest.raises(ValueError, match="autotuneMetric='precisionAtRecall:30' is not supported"):
        ours.train_supervised(
            common.path, autotuneValidationFile=common.valid, autotuneMetric="precisionAtRecall:30", verbose=0
        )
    for wrong in ({"autotuneModelSize": "0"}, {"autotuneDuration": float("nan")}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))}=.*: expected"):
            ours.train_supervised(common.path, autotuneValidationFile=common.valid, verbose=0, **wrong)
    with pytest.raises(ValueError, match="pretrainedVectors"):
        ours.train_unsupervised(common.path, pretrainedVectors="vectors.vec")
