"""Language models that two processes train together, each with its share of the rows of the text."""

import json
import random

import pytest
from safetensors.torch import load_file

import wenmai
from tests.contract.examples import EXAMPLES
from tests.runs.together import free_ports, run_script
from wenmai.core.errors import SettingError
from wenmai.core.registry import find_system
from wenmai.tasks.language import LanguageTask

CARRYING = ("nnlm", "rnnlm", "transformer-xl")
COMMON = {"batch_tokens": 24, "segment_length": 6, "epochs": 1, "threads": 1, "precision": "float32", "dropout": 0.0}
COMMON |= {"min_count": 1, "kind": "words", "average": 1}
COMMON |= {"optimiser": "sgd", "learning_rate": 0.5}  # Adam magnifies the rounding of gradients that are almost zero

TOGETHER = """
import json, os, signal, sys
import torch
import torch._dynamo  # which every optimiser imports, which takes a second; here once for all the children
from tests.runs.together import together
from wenmai.runs.train import Callback, resume, train
from wenmai.tasks.language import LanguageJob

torch.set_num_threads(1)
folder, ports, systems = sys.argv[1], *map(json.loads, sys.argv[2:])
text = f"{folder}/text.txt"


class Stop(Callback):
    def record(self, record):
        if record.kind == "step" and record.position == 5:
            os.kill(os.getpid(), signal.SIGTERM)


def work(rank):
    for system, settings in systems.items():
        train(system, text, out=f"{folder}/{system}-two", **settings)
        try:
            train(system, text, out=f"{folder}/{system}-run", callback=Stop(), **settings)
        except KeyboardInterrupt:
            pass
        resume(f"{folder}/{system}-run")
    try:
        train(system, text, out=f"{folder}/stopped", callback=Stop(), **settings)
    except KeyboardInterrupt:
        pass
    try:
        train(system, text, out=f"{folder}/long", **settings | {"segment_length": 300})
    except Exception as error:
        return
    raise ZeroDivisionError("a text that is too short was accepted")


def killed(victim, step, act):
    # what becomes of two processes of which one is killed in an update
    def begin(rank):
        usual = LanguageJob.loss
        def loss(self, module, batch, place):
            if rank == victim and place == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return usual(self, module, batch, place)
        LanguageJob.loss = loss
        act()
    return together(folder, ports.pop(), begin)


often = systems["rnnlm"] | {"checkpoint_seconds": 0}
print(json.dumps({
    "work": together(folder, ports.pop(), work),
    "second killed": killed(1, 4, lambda: train("rnnlm", text, out=f"{folder}/killed", **often)),
    "kept": os.listdir(f"{folder}/killed/checkpoints"),
    "first killed": killed(0, 7, lambda: resume(f"{folder}/killed")),
    "kept then": os.listdir(f"{folder}/killed/checkpoints"),
    "restarted": together(folder, ports.pop(), lambda rank: resume(f"{folder}/killed")),
}))
"""


def settings_of(system):
    """Those of the tests' example, but without dropout, which every batch draws for itself."""
    known = {name for section in find_system(system).load().sections.values() for name in section.__dataclass_fields__}
    chosen = {**EXAMPLES[system].settings, **COMMON}
    return {name: value for name, value in chosen.items() if name in known}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("together")
    draw = random.Random(1)
    lines = [" ".join(draw.choices("abcdefgh", k=draw.randint(1, 6))) for _ in range(120)]
    (folder / "text.txt").write_text("\n".join(lines) + "\n")
    systems = {system: settings_of(system) for system in CARRYING}
    told = run_script(TOGETHER, str(folder), *map(json.dumps, (free_ports(4), systems)))
    assert told["work"][:2] == [None, None]
    (folder / "told.json").write_text(json.dumps(told))
    return folder


def test_every_stateful_language_model_is_tested():
    tasks = {name: find_system(name).load() for name in EXAMPLES}
    language = {name for name, task in tasks.items() if isinstance(task, LanguageTask) and task.model.stateful}
    assert language == set(CARRYING)


@pytest.mark.parametrize("system", CARRYING)
def test_two_processes_train_what_one_with_as_many_rows_would_have_trained(system, trained, tmp_path):
    two = wenmai.Run(trained / f"{system}-two")
    one = wenmai.train(system, trained / "text.txt", out=tmp_path / "one", **settings_of(system) | {"batch_tokens": 48})
    assert two.summary["steps"] == one.summary["steps"] >= 10
    assert two.summary["tokens"] == one.summary["tokens"]
    for found, expected in zip(two.records, one.records, strict=True):
        if expected["kind"] == "step":
            assert found["loss"] == pytest.approx(expected["loss"], rel=1e-5)
        else:
            assert found["figures"]["loss"] == pytest.approx(expected["figures"]["loss"], rel=1e-5)
    parameters = [load_file(run.path / "model" / "model.safetensors") for run in (two, one)]
    for name, tensor in parameters[1].items():
        assert (parameters[0][name] - tensor).abs().max() < 1e-5, name


@pytest.mark.parametrize("system", CARRYING)
def test_two_processes_that_were_stopped_go_on_to_the_same_bytes(system, trained):
    whole, run = (wenmai.Run(trained / f"{system}-{name}") for name in ("two", "run"))
    assert [record["position"] for record in run.records] == [record["position"] for record in whole.records]
    assert (run.path / "model/model.safetensors").read_bytes() == (whole.path / "model/model.safetensors").read_bytes()


def test_two_processes_of_which_one_was_killed_are_restarted_to_the_same_bytes(trained):
    """As ``torchrun --max-restarts`` does with ``wenmai resume``: the other one ends by itself, in bounded time."""
    told = json.loads((trained / "told.json").read_text())
    ended = "TrainingError: another process of this training has ended or cannot be reached"
    assert told["second killed"][1] == told["first killed"][0] == "SIGKILL"
    assert told["second killed"][0].startswith(ended)
    assert told["first killed"][1].startswith(ended)
    assert max(told["second killed"][2], told["first killed"][2]) < 60
    assert told["kept"]  # checkpoints, from which it goes on
    assert told["kept then"]
    assert told["restarted"][:2] == [None, None]
    whole, run = (wenmai.Run(trained / name) for name in ("rnnlm-two", "killed"))
    assert run.finished
    assert (run.path / "model/model.safetensors").read_bytes() == (whole.path / "model/model.safetensors").read_bytes()
    assert [record["position"] for record in run.records] == [record["position"] for record in whole.records]
    assert {path.name for path in run.path.iterdir()} == {path.name for path in whole.path.iterdir()}


def test_the_rows_of_two_processes_cannot_be_read_on_by_one(trained):
    with pytest.raises(SettingError, match=r"holds the states of 2 processes.*resume with as many, not 1"):
        wenmai.resume(trained / "stopped")


def test_a_text_too_short_for_all_processes_leaves_nothing_behind(trained):
    assert not (trained / "long").exists()
