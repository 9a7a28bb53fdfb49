"""Published pairs of files: what they say, round trips, and damage."""

import json
import lzma
import shutil

import numpy as np
import pytest
import torch

import wenmai
from wenmai.core.errors import FormatError, RunError, SettingError
from wenmai.formats import elmo
from wenmai.formats.elmo import read_elmo, write_elmo
from wenmai.inference.elmo_model import ElmoModel
from wenmai.models.elmo import Elmo, ElmoConfig
from wenmai.runs.formats import import_run

h5py = pytest.importorskip("h5py", reason="the extra elmo")

SIZES = {"character_size": 3, "filters": (2, 0, 4), "hidden_size": 5, "cell_size": 7, "max_characters": 9}


def make(**settings):
    torch.manual_seed(1)
    return Elmo(ElmoConfig(**SIZES | settings), vocab_size=None).eval()


@pytest.fixture
def folder(tmp_path):
    write_elmo(tmp_path / "model", make())
    return tmp_path / "model"


@pytest.mark.parametrize(
    "settings",
    [{}, {"residual": False, "cell_clip": None, "activation": "tanh", "highway_layers": 0}, {"num_layers": 1}],
)
def test_what_was_written_is_read(settings, tmp_path):
    model = make(**settings)
    write_elmo(tmp_path / "model", model)
    found = read_elmo(tmp_path / "model")
    assert found.config == model.config
    for name, tensor in model.state_dict().items():
        assert torch.equal(found.state_dict()[name], tensor), name
    with h5py.File(tmp_path / "model" / "weights.hdf5") as file:
        assert file["char_embed"].shape == (261, 3)
        assert file["CNN/W_cnn_1"].shape == (1, 3, 3, 4)
        assert file["RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_0"].shape == (10, 28)


def test_an_imported_model_gives_vectors_and_predicts_nothing(folder, tmp_path):
    run = import_run("elmo", folder, tmp_path / "run")
    (found, empty) = run.model.layers([" the  cat ", ""])
    assert found.tokens == ["the", "cat"]
    assert found.offsets == [(1, 4), (6, 9)]
    assert found.vectors.shape == (3, 2, 10)
    assert empty.vectors.shape == (3, 0, 10)
    assert run.model.embed(["a b"]).shape == (1, 10)
    with pytest.raises(SettingError, match="predicts nothing: the files that it was imported from have no vocabulary"):
        [*run.model.score(["a b"])]


def test_an_imported_model_is_continued_with_a_new_softmax(folder, tmp_path):
    base = import_run("elmo", folder, tmp_path / "base")
    lines = ["the cat sat on the mat", "a dog ran"] * 20
    given = {"epochs": 1, "steps": 1, "learning_rate": 1e-6, "threads": 1, "quiet": True}
    run = wenmai.train("elmo", lines, start=base.path, out=tmp_path / "run", **given)
    for name, parameter in base.model.module.named_parameters():
        torch.testing.assert_close(run.model.module.get_parameter(name), parameter, atol=1e-5, rtol=0)
    assert run.model.module.vocab_size == run.model.tokenizer.vocab_size
    with pytest.raises(SettingError, match="the settings ask for"):
        wenmai.train("elmo", lines, start=base.path, out=tmp_path / "other", hidden_size=6, **given)


def test_a_pair_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    def full(path, content):
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(elmo, "writing_json", full)
        with pytest.raises(OSError, match="no space"):
            write_elmo(tmp_path / "model", make())
    assert [*tmp_path.iterdir()] == []
    write_elmo(tmp_path / "model", make())
    assert {path.name for path in (tmp_path / "model").iterdir()} == {"options.json", "weights.hdf5", "manifest.json"}


def test_a_folder_that_is_taken_is_left_alone(folder):
    with pytest.raises(RunError, match="exists already"):
        write_elmo(folder, make())


def test_a_projection_that_the_files_cannot_hold_is_refused(tmp_path):
    with pytest.raises(SettingError, match="no projection"):
        write_elmo(tmp_path / "model", make(filters=(2, 3)))
    assert not (tmp_path / "model").exists()


def change_options(folder, place, value):
    content = json.loads((folder / "options.json").read_text())
    content[place[0]][place[1]] = value
    (folder / "options.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("lstm", "dim"), 8, r"has the shape \(10, 28\), and the options say \(10, 32\)"),
        (("lstm", "dim"), 10**12, "and the options say"),
        (("lstm", "n_layers"), 3, "Cell2/LSTMCell/W_0 is missing"),
        (("lstm", "projection_dim"), -1, "not the options of an ELMo"),
        (("lstm", "cell_clip"), "far", "not the options of an ELMo"),
        (("char_cnn", "n_characters"), 256, "n_characters=256; expected 262"),
        (("char_cnn", "filters"), [[3, 4], [1, 2]], r"filters of the widths \[3, 1\]"),
        (("char_cnn", "filters"), [[1]], "not the options of an ELMo"),
        (("char_cnn", "filters"), [], "not the options of an ELMo"),
        (("char_cnn", "embedding"), {}, "KeyError 'dim'"),
        (("char_cnn", "activation"), "sin", "not the options of an ELMo"),
    ],
)
def test_options_that_do_not_fit_are_refused(folder, place, value, message):
    change_options(folder, place, value)
    with pytest.raises(FormatError, match=message) as error:
        read_elmo(folder)
    assert "\n" not in str(error.value)


def test_a_cut_or_foreign_file_is_refused(folder):
    path = folder / "weights.hdf5"
    whole = path.read_bytes()
    for content in (*(whole[: len(whole) * part // 7] for part in range(7)), b"no HDF5" * 100):
        path.write_bytes(content)
        with pytest.raises(FormatError, match="is not a whole HDF5 file") as error:
            read_elmo(folder)
        assert "\n" not in str(error.value)
    path.unlink()
    with pytest.raises(FormatError, match=r"expected one file whose name ends in weights\.hdf5, found 0"):
        read_elmo(folder)
    with pytest.raises(FormatError, match="expected a folder"):
        read_elmo(path)


def soft_link(file, values, folder):
    file["elsewhere"] = values
    file["CNN_proj/b_proj"] = h5py.SoftLink("/elsewhere")


def external_link(file, values, folder):
    with h5py.File(folder.parent / "other.hdf5", "w") as other:
        other["b_proj"] = values
    file["CNN_proj/b_proj"] = h5py.ExternalLink(str(folder.parent / "other.hdf5"), "/b_proj")


def external_data(file, values, folder):
    (folder.parent / "secret").write_bytes(values.tobytes())
    outside = [(str(folder.parent / "secret"), 0, values.nbytes)]
    file.create_dataset("CNN_proj/b_proj", values.shape, values.dtype, external=outside)


def never_written(file, values, folder):
    file.create_dataset("CNN_proj/b_proj", values.shape, values.dtype, chunks=True, fillvalue=1.0)


def compressed(file, values, folder):
    file.create_dataset("CNN_proj/b_proj", data=np.zeros_like(values), compression="gzip")


def of_text(file, values, folder):
    file["CNN_proj/b_proj"] = np.array([b"text"] * len(values))


def a_group(file, values, folder):
    file.create_group("CNN_proj/b_proj")


def not_finite(file, values, folder):
    file["CNN_proj/b_proj"] = np.full_like(values, np.nan)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (soft_link, "is a link"),
        (external_link, "is a link"),
        (external_data, "is a link"),
        (never_written, "not there"),
        (compressed, "compressed"),
        (of_text, "has the type"),
        (a_group, "is missing"),
        (not_finite, "not finite"),
    ],
)
def test_traps_in_the_file_are_refused(folder, change, message):
    with h5py.File(folder / "weights.hdf5", "a") as file:
        values = file["CNN_proj/b_proj"][()]
        del file["CNN_proj/b_proj"]
        change(file, values, folder)
    with pytest.raises(FormatError, match=message):
        read_elmo(folder)


@pytest.mark.shared_data
def test_the_published_fixture_gives_the_stored_vectors(shared_data, tmp_path):
    """Its vectors were made with states that go on from sentence to sentence."""
    source = shared_data / "formats" / "bilm-tf"
    shutil.copy(source / "options.json", tmp_path)
    (tmp_path / "lm_weights.hdf5").write_bytes(lzma.decompress((source / "lm_weights.hdf5.xz").read_bytes()))
    encoder = ElmoModel(read_elmo(tmp_path), None)
    streams = json.loads((source / "lm_embeddings_sentences.json").read_text())
    for number, sentences in enumerate(streams):
        path = tmp_path / "expected.hdf5"
        path.write_bytes(lzma.decompress((source / f"lm_embeddings_{number}.hdf5.xz").read_bytes()))
        with h5py.File(path) as expected:
            wanted = [np.concatenate(expected[str(place)][()], 1) for place in range(len(sentences))]
        for found, vectors in zip(encoder.layers(sentences, carried=True), wanted, strict=True):
            np.testing.assert_allclose(found.vectors[2], vectors, rtol=0, atol=2e-6)
        (alone,) = encoder.layers(sentences[:1])  # nothing was read before
        np.testing.assert_allclose(alone.vectors[2], wanted[0], rtol=0, atol=2e-6)
