"""Trainings that are interrupted end as if nothing had happened."""

import os
import signal
from dataclasses import asdict

import pytest

from tests.training.toys import Killed, Toy, same, timeless, train, weights
from wenmai.core.errors import RunError
from wenmai.training import loop
from wenmai.training.checkpoint import Checkpoints

pytestmark = pytest.mark.usefixtures("unsynced")


LIVES = {
    "plain": {},
    "no validation data": {"validated": False},
    "mid-accumulation": {"accumulation": 3},
    "snapshots": {"average": 2, "evaluate_steps": 2},
    "last snapshots": {"average": 2, "validated": False},
    "patience": {"patience": 1, "evaluate_steps": 1, "optimiser": "sgd"},
    "sgd": {"optimiser": "sgd"},
    "momentum": {"optimiser": "sgd", "momentum": 0.9, "clip": 0.1},
    "adamw": {"optimiser": "adamw", "weight_decay": 0.1, "schedule": "cosine", "warmup": 5},
    "bfloat16": {"precision": "bfloat16", "schedule": "noam", "warmup": 3},
}


@pytest.mark.parametrize("life", LIVES)
def test_a_training_killed_at_any_step_ends_as_if_nothing_had_happened(life, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "_RECORDS", 7)
    settings = {"epochs": 2} | LIVES[life]
    toy = {"validated": settings.pop("validated", True), "sizes": (4, 8)}  # 6 batches, then 3
    whole = Toy(**toy)
    state, records = train(whole, tmp_path / "whole", **settings)
    for deaths in ([1], [4], [state.step - 1], [2, 3, 5]):
        folder = tmp_path / f"killed-{deaths}"

        def die_at(job, step):
            usual = job.loss

            def loss(module, batch, now):
                if now >= step:
                    raise Killed
                return usual(module, batch, now)

            job.loss = loss
            return job

        for number, step in enumerate(deaths):
            if step < state.step:
                with pytest.raises(Killed):
                    train(die_at(Toy(**toy), step), folder, resumed=number > 0, checkpoint_seconds=0, **settings)
        job = Toy(**toy)
        end, again = train(job, folder, resumed=True, checkpoint_seconds=0, **settings)
        assert same(weights(job), weights(whole))
        assert timeless(again) == timeless(records)
        assert {name: value for name, value in asdict(end).items() if name != "seconds"} == {
            name: value for name, value in asdict(state).items() if name != "seconds"
        }


def test_a_training_killed_between_two_checkpoints_makes_the_steps_since_again(tmp_path, monkeypatch):
    settings = {"average": 2, "evaluate_steps": 3, "epochs": 2}
    whole = Toy()
    _, records = train(whole, tmp_path / "whole", **settings)

    clock = [0.0]

    def listen(record):
        if record.position >= 20:
            raise Killed
        clock[0] = 100.0 * (record.position // 9)  # a checkpoint is due after 9 and 18

    monkeypatch.setattr(loop.CLOCK, "now", lambda: clock[0])
    with pytest.raises(Killed):
        train(Toy(), tmp_path / "run", listen=listen, checkpoint_seconds=50, **settings)
    monkeypatch.undo()
    job = Toy()
    _, again = train(job, tmp_path / "run", resumed=True, **settings)
    assert job.seen[0][0] == 19
    assert same(weights(job), weights(whole))
    assert timeless(again) == timeless(records)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_training_between_two_steps_after_a_checkpoint(number, tmp_path):
    whole = Toy()
    train(whole, tmp_path / "whole", average=2)

    def listen(record):
        if record.position == 7:
            os.kill(os.getpid(), number)

    job, before = Toy(), signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt):
        train(job, tmp_path / "run", listen=listen, average=2)
    assert signal.getsignal(number) is before
    newest, state, _ = Checkpoints(tmp_path / "run").newest_good()
    assert state["step"] in (7, 8)
    assert newest.name == f"step-{state['step']}"
    job = Toy()
    train(job, tmp_path / "run", resumed=True, average=2)
    assert same(weights(job), weights(whole))


def test_resuming_late_in_an_epoch_reads_only_what_is_left_of_it(tmp_path):
    def listen(record):
        if record.position == 20:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(Toy(), tmp_path / "run", listen=listen, epochs=1)
    job = Toy()
    state, _ = train(job, tmp_path / "run", resumed=True, epochs=1)
    assert state.step == 24
    assert len(job.seen) in (3, 4)


def test_a_damaged_snapshot_is_not_averaged(tmp_path):
    def listen(record):
        if record.kind == "step" and record.position == 20:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(Toy(), tmp_path / "run", listen=listen, average=3, evaluate_steps=2)
    for path in (tmp_path / "run" / "snapshots").glob("step-*/model.safetensors"):
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    with pytest.raises(RunError, match="has changed"):
        train(Toy(), tmp_path / "run", resumed=True, average=99, evaluate_steps=2)
