"""A run whose checksums are right but whose content is not is refused with one message."""

import json
import shutil
from pathlib import Path

import pytest

import wenmai
from tests.contract.examples import EXAMPLES, TEXTS
from wenmai.core.errors import RunError
from wenmai.core.folder import seal_files
from wenmai.runs.train import Callback
from wenmai.training.run import verify

SETTINGS = {"word2vec": {"vector_size": 8, "checkpoint_seconds": 0}, "rnnlm": {"hidden_size": 8, "threads": 1}}
SETTINGS["rnnlm"] |= {"num_layers": 1, "vocab_size": 60, "epochs": 3, "checkpoint_seconds": 0}


class Stopped(Callback):
    """Stops a training soon after its first checkpoint."""

    def record(self, record):
        if self.run.checkpoints.newest_good()[0] is not None:
            raise KeyboardInterrupt

    def begin(self, run, facts):
        self.run = run


@pytest.fixture(scope="module")
def stopped(topics, tmp_path_factory):
    made = {}
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WENMAI_CACHE", str(folder / "cache"))
        for system, settings in SETTINGS.items():
            with pytest.raises(KeyboardInterrupt):
                wenmai.train(system, topics, out=folder / system, callback=Stopped(), **settings)
            made[system] = folder / system
    return made


@pytest.fixture
def copies(stopped, tmp_path, monkeypatch):
    monkeypatch.setenv("WENMAI_CACHE", str(next(iter(stopped.values())).parent / "cache"))
    return {system: shutil.copytree(path, tmp_path / system) for system, path in stopped.items()}


def newest(run: Path) -> Path:
    checkpoint, _, _ = wenmai.Run(run).checkpoints.newest_good()
    assert checkpoint is not None
    return checkpoint


def reseal(checkpoint: Path) -> None:
    seal_files(checkpoint, [file.name for file in checkpoint.iterdir() if file.name != "manifest.json"])


def change_state(run: Path, change) -> None:
    checkpoint = newest(run)
    state = json.loads((checkpoint / "state.json").read_text())
    (checkpoint / "state.json").write_text(json.dumps(change(state)))
    reseal(checkpoint)


@pytest.mark.parametrize("system", SETTINGS)
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"extra": 1}, "'extra' is unknown"),
        ({"seconds": "long"}, "seconds: "),
        ({"seconds": []}, "seconds: "),
        ({"position": -1, "step": -1}, "(position|step|unknown)"),
    ],
)
def test_a_state_that_makes_no_sense_is_refused(system, changed, message, copies):
    known = {"position", "step"}

    def change(state):
        return state | {name: value for name, value in changed.items() if name in state or name not in known}

    change_state(copies[system], change)
    with pytest.raises(RunError, match=rf"state\.json: is damaged, or of a later version \(.*{message}"):
        wenmai.resume(copies[system])


@pytest.mark.parametrize("system", SETTINGS)
@pytest.mark.parametrize("content", ["[]", "{", None])
def test_a_checkpoint_without_a_state_is_passed_over(system, content, copies):
    path = newest(copies[system]) / "state.json"
    path.unlink()
    if content is not None:
        path.write_text(content)
    reseal(path.parent)
    _, _, passed_over = wenmai.Run(copies[system]).checkpoints.newest_good()
    assert any("state.json: is missing or damaged" in problem for problem in passed_over)


@pytest.mark.parametrize("words", ["many", None, -1, True, 1.5])
def test_what_was_noted_of_the_beginning_is_checked(words, copies):
    path = copies["word2vec"] / "corpus.json"
    noted = json.loads(path.read_text())
    noted["continues"]["words"] = words
    path.write_text(json.dumps(noted))
    wenmai.Run(copies["word2vec"]).seal()
    with pytest.raises(RunError, match="the words of the model that is continued"):
        wenmai.resume(copies["word2vec"])


@pytest.mark.parametrize("name", ["corpus.json", "environment.json", "metrics.jsonl"])
@pytest.mark.parametrize("manifest", [True, False])
def test_verify_names_files_that_are_missing(name, manifest, copies):
    run = copies["word2vec"]
    (run / name).unlink()
    if not manifest:  # as in runs of earlier versions
        (run / "manifest.json").unlink()
    assert verify(run)[1] == [f"{run / name} is missing"]


@pytest.mark.parametrize("system", SETTINGS)
def test_a_training_without_its_corpus_file_is_not_resumed(system, copies):
    (copies[system] / "corpus.json").unlink()
    with pytest.raises(RunError, match=r"corpus\.json is missing"):
        wenmai.resume(copies[system])
    (copies[system] / "manifest.json").unlink()
    with pytest.raises(RunError, match=r"corpus\.json: is missing or damaged"):
        wenmai.resume(copies[system])


def test_the_state_of_another_optimiser_is_refused(copies):
    from safetensors.torch import load_file, save_file

    checkpoint = newest(copies["rnnlm"])
    tensors = load_file(checkpoint / "optimiser.safetensors")
    for name, tensor in (("x.exp_avg", tensors["0.exp_avg"].clone()), ("0.exp_avg", tensors["0.exp_avg"][:1].clone())):
        save_file({**tensors, name: tensor}, checkpoint / "optimiser.safetensors")
        reseal(checkpoint)
        with pytest.raises(wenmai.core.errors.FormatError, match="does not fit the model"):
            wenmai.resume(copies["rnnlm"])


@pytest.mark.parametrize(("system", "name"), [("nnlm", "text.txt"), ("transformer", "pairs.tsv")])
def test_encoded_data_that_were_damaged_in_the_cache_are_read_again(system, name, tmp_path, monkeypatch):
    class Stopping(Callback):
        def record(self, record):
            raise KeyboardInterrupt

    (tmp_path / name).write_text(TEXTS[name]["enough"])
    given = {"corpus": tmp_path / name, **EXAMPLES[system].settings}
    whole = wenmai.train(system, out=tmp_path / "whole", **given)
    monkeypatch.setenv("WENMAI_CACHE", str(tmp_path / "cache"))
    with pytest.raises(KeyboardInterrupt):
        wenmai.train(system, out=tmp_path / "run", callback=Stopping(), **given)
    for path in (tmp_path / "cache").rglob("*.bin"):
        content = bytearray(path.read_bytes())
        content[-1] ^= 64
        path.write_bytes(content)
    wenmai.resume(tmp_path / "run")
    for file in ("model.safetensors", "manifest.json"):
        assert (tmp_path / "run" / "model" / file).read_bytes() == (whole.path / "model" / file).read_bytes()
