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


print(json.dumps(together(folder, ports.pop(), work)))
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
    told = run_script(TOGETHER, str(folder), *map(json.dumps, (free_ports(1), systems)))
    assert told[:2] == [None, None]
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


def test_the_rows_of_two_processes_cannot_be_read_on_by_one(trained):
    with pytest.raises(SettingError, match=r"holds the states of 2 processes.*resume with as many, not 1"):
        wenmai.resume(trained / "stopped")


def test_a_text_too_short_for_all_processes_leaves_nothing_behind(trained):
    assert not (trained / "long").exists()
