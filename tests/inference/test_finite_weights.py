"""Every family refuses weights that are no numbers when its model is loaded."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import wenmai
from wenmai.core.errors import FormatError
from wenmai.core.folder import seal_files
from wenmai.core.tensors import require_finite

TINY = {"vector_size": 4, "epochs": 1, "threads": 1}
NEURAL = {"hidden_size": 8, "num_layers": 1, "vocab_size": 300, "epochs": 1, "threads": 1}
SYSTEMS = {
    "word2vec": TINY,
    "fasttext": TINY | {"buckets": 50},
    "glove": TINY,
    "ppmi-svd": {"vector_size": 4},
    "ngram": {"order": 2},
    "rnnlm": NEURAL,
    "gpt": NEURAL | {"num_heads": 2, "max_length": 16},
}


@pytest.fixture(scope="module")
def runs(topics, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WENMAI_CACHE", str(folder / "cache"))
        return {name: wenmai.train(name, topics, out=folder / name, **settings) for name, settings in SYSTEMS.items()}


def spoil(path: Path, value: float) -> None:
    """Puts a value into the last place of the first matrix of a file."""
    tensors = load_file(path)
    name = next(name for name, tensor in tensors.items() if tensor.ndim == 2 and tensor.dtype == np.float32)
    tensors[name][-1, -1] = value
    save_file(tensors, path)


def reseal(folder: Path) -> None:
    """Lets checksums match, as those of a stranger do."""
    seal_files(folder, [path.name for path in folder.iterdir() if path.name != "manifest.json"])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("system", [name for name in SYSTEMS if name != "ngram"])
def test_weights_that_are_no_numbers_are_refused(system, value, runs):
    path = runs[system].path / "model" / "model.safetensors"
    before = path.read_bytes()
    try:
        spoil(path, value)
        with pytest.raises(FormatError, match="has numbers that are not finite"):
            wenmai.load(runs[system].path)
    finally:
        path.write_bytes(before)
    wenmai.load(runs[system].path)


@pytest.mark.parametrize("ask", [lambda m: [*m.score(["a b"])], lambda m: m.next("a"), lambda m: m.generate("a")])
def test_weights_too_large_to_compute_with_give_no_answer(ask, runs):
    path = runs["gpt"].path / "model" / "model.safetensors"
    before = path.read_bytes()
    try:
        save_file({name: tensor * 1e30 for name, tensor in load_file(path).items()}, path)
        reseal(path.parent)
        with pytest.raises(FormatError, match="computes no numbers"):
            ask(wenmai.load(runs["gpt"].path))
    finally:
        path.write_bytes(before)
        reseal(path.parent)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["contexts", "leaves"])
def test_an_ngram_model_gives_no_probability_that_is_no_number(name, value, runs, topics):
    run = runs["ngram"].path
    lines = topics.read_text(encoding="utf-8").splitlines()[:20]
    path = run / "model" / f"{name}.bin"
    before = path.read_bytes()
    records = np.array(getattr(wenmai.load(run).model, name))
    records["log_prob"][1:] = value
    try:
        path.write_bytes(records.tobytes())
        reseal(path.parent)
        model = wenmai.load(run)
        with pytest.raises(FormatError, match="the n-grams are damaged"):
            print(model.next(lines[0].split()[0]), list(model.score(lines)))
    finally:
        path.write_bytes(before)
        reseal(path.parent)
    assert all(score.log_prob < 0 for score in wenmai.load(run).score(lines))


def test_every_number_is_looked_at():
    values = np.zeros((3_000_000, 1), np.float32)
    require_finite("FILE", "x", values)
    for place in (0, 1_048_576, -1):
        spoilt = values.copy()
        spoilt[place] = np.nan
        with pytest.raises(FormatError, match="FILE: x has"):
            require_finite("FILE", "x", spoilt)
    require_finite("FILE", "x", np.array(1, np.int64))
    with pytest.raises(FormatError, match="FILE: x has"):
        require_finite("FILE", "x", np.array(np.nan))
