"""Translators whose training is killed, stopped, or shared by several processes end up the same."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

import wenmai
from tests.runs.together import free_ports, run_script
from wenmai.core.errors import RunError
from wenmai.runs.train import Callback

CLOCK = ("seconds", "seconds_left", "tokens_per_second")
COMMON = {
    "num_layers": 1,
    "kind": "words",
    "min_count": 1,
    "batch_tokens": 40,
    "epochs": 2,
    "threads": 1,
    "dropout": 0.2,
    "hidden_size": 16,
}
SAMPLED = COMMON | {"embedding_size": 8, "selection": "sampled", "optimiser": "sgd", "learning_rate": 0.1}
TRANSFORMER = COMMON | {"num_heads": 2, "ffn_size": 16, "warmup": 10, "average": 2}
SYSTEMS = {
    "bfloat16": ("transformer", {"num_heads": 2, "ffn_size": 16, "precision": "bfloat16", "evaluate_steps": 4}),
    "luong": ("seq2seq", {"embedding_size": 8, "attention": "luong", "scorer": "bilinear", "joint": False}),
}


def some_pairs(number=60):
    draw = random.Random(1)
    made = [draw.choices("abcdefgh", k=draw.randint(1, 6)) for _ in range(number)]
    return [(" ".join(words), " ".join(reversed(words)).upper()) for words in made]


PAIRS = some_pairs()


def model_bytes(run):
    return (run.path / "model" / "model.safetensors").read_bytes()


def timeless(run):
    return [{name: value for name, value in record.items() if name not in CLOCK} for record in run.records]


class Stopping(Callback):
    """Sends this process a signal after some updates."""

    def __init__(self, step, number=signal.SIGINT):
        self.step, self.number, self.facts = step, number, []

    def begin(self, run, facts):
        self.facts.append(facts)

    def record(self, record):
        if record.kind == "step" and record.position == self.step:
            os.kill(os.getpid(), self.number)


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_stopped_training_goes_on_to_the_same_bytes_and_records(name, tmp_path):
    system, settings = SYSTEMS[name][0], COMMON | SYSTEMS[name][1]
    whole = wenmai.train(system, PAIRS, out=tmp_path / "whole", **settings)
    stop = Stopping(3)
    with pytest.raises(KeyboardInterrupt) as caught:
        wenmai.train(system, PAIRS, out=tmp_path / "run", callback=stop, **settings)
    assert caught.value.__notes__ == [f"`wenmai resume {tmp_path / 'run'}` continues it"]
    with pytest.raises(KeyboardInterrupt):
        wenmai.resume(tmp_path / "run", callback=Stopping(5, signal.SIGTERM))
    callback = Stopping(10**9)
    run = wenmai.resume(tmp_path / "run", callback=callback)
    assert callback.facts[0]["position"] in (5, 6)
    assert model_bytes(run) == model_bytes(whole)
    assert timeless(run) == timeless(whole)
    assert {path.name for path in run.path.iterdir()} == {path.name for path in whole.path.iterdir()}


def test_pairs_that_are_gone_from_memory_and_cache_are_explained(tmp_path, monkeypatch):
    with pytest.raises(KeyboardInterrupt):
        wenmai.train("seq2seq", PAIRS, out=tmp_path / "run", callback=Stopping(3), **COMMON)
    monkeypatch.setenv("WENMAI_CACHE", str(tmp_path / "other"))
    with pytest.raises(RunError, match="its corpus came from memory or standard input"):
        wenmai.resume(tmp_path / "run")


# --- several processes ------------------------------------------------------------------------------------------

TOGETHER = """
import json, os, signal, sys
import torch
import torch._dynamo  # which every optimiser imports, which takes a second; here once for all the children
from tests.runs.together import together as forked
from wenmai.runs.train import Callback, resume, train
from wenmai.tasks.translation import TranslationJob

torch.set_num_threads(1)
folder, ports, settings = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
pairs = [tuple(pair) for pair in json.loads(sys.argv[4])]


def together(work):
    return forked(folder, ports.pop(), work)


class Stop(Callback):
    def record(self, record):
        if record.kind == "step" and record.position == 5:
            os.kill(os.getpid(), signal.SIGTERM)


def failing(rank):
    usual = TranslationJob.loss
    def loss(self, module, batch, step):
        if rank == 1 and step == 3:
            1 / 0
        return usual(self, module, batch, step)
    TranslationJob.loss = loss
    train("transformer", pairs, out=f"{folder}/failed", **settings)


print(json.dumps({
    "whole": together(lambda rank: train("transformer", pairs, out=f"{folder}/two", **settings)),
    "stopped": together(lambda rank: train("transformer", pairs, out=f"{folder}/run", callback=Stop(), **settings)),
    "sampled": together(lambda rank: train("seq2seq", pairs, out=f"{folder}/sampled", **json.loads(sys.argv[5]))),
    "resumed": together(lambda rank: resume(f"{folder}/run")),
    "taken": together(lambda rank: train("transformer", pairs, out=f"{folder}/two", **settings)),
    "failed": together(failing),
    "nameless": together(lambda rank: train("transformer", pairs, **settings)),
    "alone": together(lambda rank: train("word2vec", [["a"]], out=f"{folder}/words")),
}))
"""


def test_two_processes_train_what_one_would_have_trained(tmp_path, cache_folder):
    settings = TRANSFORMER | {"accumulation": 2, "precision": "float32"}
    sampled = SAMPLED | {"epochs": 1, "precision": "float32"}
    arguments = [free_ports(8), settings | {"accumulation": 1}, PAIRS, sampled]
    told = run_script(TOGETHER, str(tmp_path), *map(json.dumps, arguments))
    assert told["whole"][:2] == told["resumed"][:2] == [None, None]
    two, alone = wenmai.Run(tmp_path / "two"), wenmai.train("transformer", PAIRS, out=tmp_path / "one", **settings)
    assert [record["position"] for record in two.records] == [record["position"] for record in alone.records]
    for one, other in zip(two.records, alone.records, strict=True):
        if one["kind"] == "step":
            assert one["loss"] == pytest.approx(other["loss"], rel=1e-4)
            assert one["gradient_norm"] == pytest.approx(other["gradient_norm"], rel=1e-3)
        else:
            assert one["figures"]["loss"] == pytest.approx(other["figures"]["loss"], rel=1e-4)
    assert two.summary["tokens"] == alone.summary["tokens"]

    assert all(message.startswith("KeyboardInterrupt") for message in told["stopped"][:2])
    assert model_bytes(wenmai.Run(tmp_path / "run")) == model_bytes(two)

    assert told["sampled"][:2] == [None, None]
    one = wenmai.train("seq2seq", PAIRS, out=tmp_path / "sampled-one", **sampled | {"accumulation": 2})
    shared = load_file(tmp_path / "sampled/model/model.safetensors")
    for name, tensor in load_file(one.path / "model/model.safetensors").items():
        assert (shared[name] - tensor).abs().max() < 1e-5, name

    assert told["taken"][0].startswith("RunError: ")
    assert told["taken"][1].startswith("TrainingError: another process of this training could not go on")
    assert told["failed"][1].startswith("ZeroDivisionError")
    assert told["failed"][0].startswith("TrainingError: another process of this training")
    assert told["failed"][2] < 60
    assert (
        told["nameless"][:2]
        == ["SettingError: several processes train one model together; name its folder with --out"] * 2
    )
    assert all(message.startswith("SettingError: word2vec is trained by one process") for message in told["alone"][:2])


def test_torchrun_starts_them_as_documented(tmp_path, cache_folder):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    settings = TRANSFORMER | {"accumulation": 2, "precision": "float32"}
    flags = [part for name, value in (settings | {"accumulation": 1}).items() for part in ("--set", f"{name}={value}")]
    launched = ["torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(free_ports(1)[0])]
    made = subprocess.run(
        [sys.executable, "-m", *launched, "-m", "wenmai", "train", "transformer", pairs, "--out", "two", *flags],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(wenmai.__file__).parents[1]), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    assert made.stdout.count("two") == 1, made.stdout  # the first process speaks for both
    two, alone = wenmai.Run(tmp_path / "two"), wenmai.train("transformer", pairs, out=tmp_path / "one", **settings)
    assert two.summary["steps"] == alone.summary["steps"]
    assert two.summary["loss"] == pytest.approx(alone.summary["loss"], rel=1e-4)


def test_a_process_leaves_its_connections_before_it_ends():
    """Threads of torch that are left to the end of the interpreter abort the process now and then."""
    script = (
        "import atexit; from torch import distributed; atexit.register(lambda: print(distributed.is_initialized())); "
        "from wenmai.training.strategy import Replicated; Replicated().wait(); print(distributed.is_initialized())"
    )
    one = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_ports(1)[0])}
    path = {"PYTHONPATH": str(Path(wenmai.__file__).parents[1])}
    made = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | one | path, capture_output=True, text=True, check=True
    )
    assert made.stdout.split() == ["True", "False"]
