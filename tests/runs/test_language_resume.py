"""Language models whose training is stopped end up the same, memories included."""

import os
import random
import signal

import pytest

import wenmai
from wenmai.core.errors import FormatError, SettingError
from wenmai.runs.train import Callback

COMMON = {
    "tokenizer.kind": "whitespace",
    "min_count": 1,
    "batch_tokens": 24,
    "segment_length": 6,
    "epochs": 2,
    "threads": 1,
}
COMMON_TRAINING = {"epochs": 4, "learning_rate": 0.02, "schedule": "constant", "batch_tokens": 24, "threads": 1}
SYSTEMS = {
    "nnlm": {"embedding_size": 4, "hidden_size": 8, "order": 3},
    "rnnlm": {"hidden_size": 8, "num_layers": 2, "dropout": 0.2},
    "gpt": {"hidden_size": 8, "num_layers": 1, "num_heads": 2, "max_length": 8, "accumulation": 2},
    "transformer-xl": {"hidden_size": 8, "num_layers": 2, "num_heads": 2, "ffn_size": 8, "memory_length": 9},
}
CLOCK = ("seconds", "seconds_left", "tokens_per_second")


def lines(number=80):
    draw = random.Random(1)
    return [" ".join(draw.choices("abcdefgh", k=draw.randint(1, 6))) for _ in range(number)]


class Stopping(Callback):
    """Sends this process an interrupt after some updates."""

    def __init__(self, step):
        self.step = step

    def record(self, record):
        if record.kind == "step" and record.position == self.step:
            os.kill(os.getpid(), signal.SIGINT)


def timeless(run):
    return [{name: value for name, value in record.items() if name not in CLOCK} for record in run.records]


def model_bytes(run):
    return (run.path / "model" / "model.safetensors").read_bytes()


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_stopped_training_goes_on_to_the_same_bytes_and_records(system, tmp_path):
    settings = COMMON | SYSTEMS[system]
    whole = wenmai.train(system, lines(), out=tmp_path / "whole", **settings)
    with pytest.raises(KeyboardInterrupt):
        wenmai.train(system, lines(), out=tmp_path / "run", callback=Stopping(3), **settings)
    with pytest.raises(KeyboardInterrupt):
        wenmai.resume(tmp_path / "run", callback=Stopping(whole.summary["steps"] // 2 + 2))
    run = wenmai.resume(tmp_path / "run")
    assert model_bytes(run) == model_bytes(whole)
    assert timeless(run) == timeless(whole)


def test_a_run_is_continued_on_more_text_and_scores_it_better(tmp_path):
    settings = COMMON | SYSTEMS["rnnlm"] | {"learning_rate": 0.02, "schedule": "constant"}
    first = wenmai.train("rnnlm", lines(), out=tmp_path / "first", **settings)
    more = ["a b c d"] * 100
    second = wenmai.train("rnnlm", iter(more), out=tmp_path / "second", start=first.path, **COMMON_TRAINING)
    scores = [next(wenmai.load(run.path).score(["a b c d"])).log_prob for run in (first, second)]
    assert scores[1] > scores[0] + 1


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_vocabulary_grows_with_a_run_that_is_continued(system, tmp_path):
    settings = COMMON | SYSTEMS[system] | {"learning_rate": 1e-9}
    first = wenmai.train(system, lines(), out=tmp_path / "first", **settings)
    more = ["x y a b"] * 40 + lines()
    second = wenmai.train(
        system,
        iter(more),
        out=tmp_path / "second",
        start=first.path,
        grow=5,
        **COMMON_TRAINING | {"learning_rate": 1e-9},
    )
    old, new = wenmai.load(first.path), wenmai.load(second.path)
    assert new.tokenizer.vocab_size == old.tokenizer.vocab_size + 2
    assert next(new.score(["x y"])).oov == 0
    before, after = old.module.state_dict(), new.module.state_dict()
    for name, rows in before.items():
        assert after[name][: len(rows)].allclose(rows, atol=1e-5)
    with pytest.raises(SettingError, match="continues another"):
        wenmai.train(system, lines(), out=tmp_path / "third", grow=5, **settings)


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_damaged_model_is_refused(tmp_path, file):
    run = wenmai.train("rnnlm", lines(), out=tmp_path / "run", **COMMON | SYSTEMS["rnnlm"] | {"epochs": 1})
    path = run.path / "model" / file
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"{}", b""):
        path.write_bytes(damaged)
        with pytest.raises(FormatError, match=file):
            wenmai.load(run.path)
