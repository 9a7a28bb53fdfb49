"""The files of GloVe and PPMI + SVD models, their forms, and what a damaged file is told."""

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from wenmai.core.errors import FormatError
from wenmai.formats.format import formats
from wenmai.formats.glove import write_glove_binary, write_glove_parameters
from wenmai.formats.word2vec import read_word2vec
from wenmai.models.glove import GloVe, GloVeConfig
from wenmai.models.ppmi import PpmiConfig, PpmiSvd
from wenmai.text.vocab import Vocab

VOCAB = Vocab(["the", "of", "cat"], np.array([9, 5, 2]))


@pytest.fixture
def glove():
    model = GloVe(GloVeConfig(vector_size=5), VOCAB)
    model.initialise(3)
    return model


@pytest.fixture
def ppmi():
    words, contexts = np.arange(6, dtype=np.float32).reshape(2, 3, 1)
    values = np.array([2.0], np.float32)
    return PpmiSvd(PpmiConfig(vector_size=1, add_contexts=True), VOCAB, words, contexts, values)


@pytest.fixture(params=["glove", "ppmi"])
def saved(request, tmp_path):
    model = request.getfixturevalue(request.param)
    model.save(tmp_path)
    return type(model), tmp_path


def test_parameters_are_drawn_as_in_the_authors_program(glove):
    for rows in glove.tensors().values():
        assert 0 < np.abs(rows).max() <= 0.5 / 5
    assert all((rows == 1).all() for rows in glove.sums().values())
    assert glove.words.ctypes.data % 64 == 0
    other = GloVe(GloVeConfig(vector_size=5), VOCAB)
    other.initialise(4)
    assert not np.array_equal(other.words, glove.words)


def test_a_checkpoint_gives_back_every_bit(glove, tmp_path):
    generator = np.random.default_rng(1)
    for rows in (*glove.tensors().values(), *glove.sums().values()):
        rows[:] = generator.random(rows.shape)
    glove.save(tmp_path)
    glove.save_sums(tmp_path)
    back = GloVe.load(tmp_path, sums=True)
    np.testing.assert_array_equal(back.words, glove.words)
    np.testing.assert_array_equal(back.contexts, glove.contexts)
    assert (GloVe.load(tmp_path).sums()["words"] == 1).all()


@pytest.mark.parametrize("output", ["sum", "words", "contexts", "both"])
def test_vectors_have_four_forms(output, glove, tmp_path):
    glove.save(tmp_path)
    tensors = glove.tensors()
    expected = {
        "sum": tensors["words"] + tensors["contexts"],
        "both": np.hstack([tensors["words"], tensors["contexts"]]),
    }
    expected |= {name: tensors[name] for name in ("words", "contexts")}
    vectors = GloVe.load_vectors(tmp_path)
    np.testing.assert_array_equal(vectors.vectors, expected["sum"])
    np.testing.assert_array_equal(vectors.in_form(output).vectors, expected[output])
    np.testing.assert_array_equal(glove.vectors(output).vectors, expected[output])
    assert vectors.in_form(output).counts.tolist() == [9, 5, 2]


@pytest.mark.parametrize(("name", "output"), [("glove", "sum"), ("glove-words", "words"), ("glove-both", "both")])
def test_exports_are_glove_text(name, output, glove, tmp_path):
    glove.save(tmp_path)
    formats()[name].write(tmp_path / "vectors.txt", SimpleNamespace(model=GloVe.load_vectors(tmp_path)))
    lines = (tmp_path / "vectors.txt").read_text().splitlines()
    assert [line.split(" ")[0] for line in lines] == ["the", "of", "cat"]
    assert {len(line.split(" ")) for line in lines} == {11 if output == "both" else 6}
    back = read_word2vec(tmp_path / "vectors.txt")
    np.testing.assert_array_equal(back.vectors, glove.vectors(output).vectors)


def test_everything_goes_out_as_the_glove_program_writes_it(glove, tmp_path):
    glove.save(tmp_path)
    vectors, tensors = GloVe.load_vectors(tmp_path), glove.tensors()
    layout = np.vstack([np.hstack([tensors[f"{one}s"], tensors[f"{one}_biases"]]) for one in ("word", "context")])
    write_glove_binary(tmp_path / "vectors.bin", vectors)
    np.testing.assert_array_equal(np.fromfile(tmp_path / "vectors.bin", "<f8").reshape(layout.shape), layout)
    write_glove_parameters(tmp_path / "vectors.txt", vectors)
    rows = [line.split(" ") for line in (tmp_path / "vectors.txt").read_text().splitlines()]
    assert [row[0] for row in rows] == ["the", "of", "cat"]
    found = np.array([row[1:] for row in rows], np.float32)
    np.testing.assert_array_equal(found, np.hstack([layout[:3], layout[3:]]).astype(np.float32))


def test_ppmi_comes_back(ppmi, tmp_path):
    ppmi.save(tmp_path)
    back = PpmiSvd.load(tmp_path)
    np.testing.assert_array_equal(back.words, ppmi.words)
    np.testing.assert_array_equal(back.singular_values, ppmi.singular_values)
    np.testing.assert_array_equal(back.vectors().vectors, ppmi.words + ppmi.contexts)


# --- damage -------------------------------------------------------------------------------------------------------


def edit(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **changes}))


DAMAGE = {
    "no config": (lambda folder: (folder / "config.json").unlink(), "cannot be read"),
    "no JSON": (lambda folder: (folder / "config.json").write_text("{"), "is not JSON"),
    "deep JSON": (lambda folder: (folder / "config.json").write_text("[" * 100_000), "is not JSON"),
    "a list": (lambda folder: (folder / "config.json").write_text("[]"), "expected a JSON object"),
    "another version": (lambda folder: edit(folder, version=2), "not the configuration of a model, version 1"),
    "unknown setting": (lambda folder: edit(folder, extra=1), "the setting 'extra' is none of"),
    "wrong type": (lambda folder: edit(folder, vector_size="5"), "configuration"),
    "wrong kind": (lambda folder: edit(folder, kind="bert"), "configuration"),
    "another size": (lambda folder: edit(folder, vocab_size=4), "has 3 tokens, but config.json says 4"),
    "huge vectors": (lambda folder: edit(folder, vector_size=9_999), "has the tensors"),
    "no vocabulary": (lambda folder: (folder / "vocab.json").unlink(), "vocab.json"),
    "no tensors": (lambda folder: (folder / "model.safetensors").unlink(), "not a whole safetensors file"),
    "cut tensors": (
        lambda folder: (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-8]),
        "not a whole safetensors file",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_explained(name, saved):
    kind, folder = saved
    spoil, message = DAMAGE[name]
    spoil(folder)
    with pytest.raises(FormatError, match=message):
        kind.load(folder)


def test_the_files_of_another_model_are_refused(glove, ppmi, tmp_path):
    for name, model in (("glove", glove), ("ppmi", ppmi)):
        (tmp_path / name).mkdir()
        model.save(tmp_path / name)
    shutil.copy(tmp_path / "ppmi" / "model.safetensors", tmp_path / "glove")
    with pytest.raises(FormatError, match="has the tensors"):
        GloVe.load_vectors(tmp_path / "glove")
    with pytest.raises(FormatError, match="is none of PPMI-SVD's"):
        PpmiSvd.load(tmp_path / "glove")


def test_a_checkpoint_without_its_sums_is_refused(glove, tmp_path):
    glove.save(tmp_path)
    with pytest.raises(FormatError, match=r"adagrad\.safetensors"):
        GloVe.load(tmp_path, sums=True)
