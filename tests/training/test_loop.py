"""The loop of torch models: exact by token, exact after any interruption, and what its settings promise."""

import json
import math
import os
import signal
import time
import weakref
from dataclasses import asdict
from typing import ClassVar

import pytest
import torch
from torch import nn

from wenmai.core import clock
from wenmai.core.errors import FormatError, RunError, SettingError, TrainingError
from wenmai.nn.dropout import Dropout
from wenmai.objectives.language import cross_entropy
from wenmai.training import loop
from wenmai.training.checkpoint import Checkpoints
from wenmai.training.loop import LoopState, train_loop
from wenmai.training.settings import LoopConfig
from wenmai.training.strategy import SINGLE
from wenmai.training.tensors import load_model, mean_of_models, save_model

EXAMPLES, TOKENS, WIDTH = 24, 7, 5
CLOCK = ("seconds", "seconds_left", "tokens_per_second")


@pytest.fixture(autouse=True)
def unsynced(monkeypatch):
    """Syncing tiny files takes most of the time."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


class Killed(BaseException):
    """Stands for the end of the process."""


class Toy:
    """Predicts tokens from tokens. Batches differ in size, and their number from epoch to epoch."""

    def __init__(self, *, dropout=0.3, validated=True, sizes=(1, 2, 4), most=EXAMPLES, sick_from=None):
        torch.manual_seed(3)
        self.module = nn.Sequential(nn.Embedding(TOKENS, WIDTH), Dropout(dropout), nn.LayerNorm(WIDTH))
        self.output = nn.Parameter(torch.randn(TOKENS, WIDTH))
        self.module.register_parameter("output", self.output)
        self.inputs = torch.randint(0, TOKENS, (EXAMPLES,))
        self.targets = torch.randint(0, TOKENS, (EXAMPLES,))
        self.validated, self.sizes, self.most, self.sick_from = validated, sizes, most, sick_from
        self.seen, self.values, self.in_half = [], [], []

    loss_weights: ClassVar = {"loss": 1.0}
    best_by = "loss"

    def rate_share(self, name, epoch):
        return 1.0

    def plan(self, epoch):
        draw = torch.Generator().manual_seed(epoch)
        order = torch.randperm(EXAMPLES, generator=draw).tolist()
        size = self.sizes[epoch % len(self.sizes)]
        return [order[start : start + size] for start in range(0, EXAMPLES, size)]

    def parts(self, batch):
        return [batch[start : start + self.most] for start in range(0, len(batch), self.most)]

    def loss(self, module, batch, step):
        self.seen.append((step, tuple(batch)))
        self.in_half.append(torch.is_autocast_enabled("cpu"))
        found = cross_entropy(module(self.inputs[batch]), self.output, None, self.targets[batch])
        sick = self.sick_from is not None and step >= self.sick_from
        return found._replace(total=found.total * math.nan) if sick else found

    def evaluate(self):
        assert not self.module.training
        if not self.validated:
            return {}
        loss = cross_entropy(self.module(self.inputs), self.output, None, self.targets)
        value = self.values.pop(0) if self.values else float(loss.nll) / EXAMPLES
        return {"loss": value}

    def save(self, folder):
        save_model(self.module, folder)

    def note(self, means):
        assert list(means) == list(self.loss_weights)

    def carried(self):
        return {}

    def carry(self, tensors):
        assert not tensors


def weights(job):
    return {name: tensor.clone() for name, tensor in job.module.state_dict().items()}


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def train(job, folder, *, rate=0.1, listen=None, resumed=False, **settings):
    """Trains, or goes on; returns the state and the records, those a resumed run has kept included."""
    settings = {"epochs": 4, "warmup": 0, "schedule": "linear", "precision": "float32"} | settings
    config, checkpoints, state, newest = LoopConfig(**settings), Checkpoints(folder), LoopState(), None
    path = folder.with_suffix(".jsonl")
    if resumed:
        newest, found, _ = checkpoints.newest_good()
        if newest is not None:
            load_model(job.module, newest)
            state = LoopState.of_checkpoint(newest, found)
    lines = path.read_text().splitlines() if resumed and path.exists() else []
    records = [record for record in map(json.loads, lines) if record["position"] <= state.step]

    def report(record):
        records.append({"kind": record.kind, **asdict(record)})
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        if listen is not None:
            listen(record)

    train_loop(
        job,
        config,
        peak_rate=rate,
        state=state,
        checkpoint=newest,
        checkpoints=checkpoints,
        report=report,
        strategy=SINGLE,
    )
    return state, records


def test_the_compiled_model_is_the_one_that_is_trained(tmp_path, monkeypatch):
    """Compiling takes a compiler and long; that the loop calls what was compiled can be seen without."""
    compiled, called = [], []

    class Compiled(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.inner = module
            compiled.append(module)

        def forward(self, inputs):
            called.append(inputs)
            return self.inner(inputs)

    monkeypatch.setattr(torch, "compile", Compiled)
    job = Toy()
    train(job, tmp_path / "compiled", compile=True)
    assert compiled == [job.module]
    assert len(called) == len(job.seen)
    again = Toy()
    train(again, tmp_path / "usual")
    assert len(compiled) == 1
    assert same(weights(job), weights(again))


def timeless(records):
    return [{name: value for name, value in record.items() if name not in CLOCK} for record in records]


def steps_of(records):
    return [record for record in records if record["kind"] == "step"]


def looks_of(records):
    return [record for record in records if record["kind"] == "evaluation"]


# --- exact by token ---------------------------------------------------------------------------------------------


def test_a_step_follows_the_mean_gradient_over_all_targets(tmp_path):
    job, naive = Toy(dropout=0), Toy(dropout=0)
    train(job, tmp_path / "run", steps=1, accumulation=100, optimiser="sgd", rate=0.5, schedule="constant", average=9)
    logits = naive.module(naive.inputs) @ naive.output.T
    nn.functional.cross_entropy(logits, naive.targets).backward()
    for ours, theirs in zip(job.module.parameters(), naive.module.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs - 0.5 * theirs.grad)


@pytest.mark.parametrize("accumulation", [2, 5, 24])
def test_how_an_update_is_split_into_batches_changes_nothing(tmp_path, accumulation):
    split, whole = Toy(dropout=0, sizes=(1,)), Toy(dropout=0, sizes=(accumulation,))
    _, pieces = train(split, tmp_path / "split", accumulation=accumulation)
    _, once = train(whole, tmp_path / "whole")
    assert [r["position"] for r in pieces] == [r["position"] for r in once]
    assert [r["loss"] for r in steps_of(pieces)] == pytest.approx([r["loss"] for r in steps_of(once)], rel=1e-5)
    for name, tensor in weights(split).items():
        torch.testing.assert_close(tensor, weights(whole)[name], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("most", [1, 3])
def test_how_a_batch_is_split_into_parts_changes_nothing(tmp_path, most):
    split, whole = Toy(dropout=0, sizes=(8,), most=most), Toy(dropout=0, sizes=(8,))
    _, pieces = train(split, tmp_path / "split")
    _, once = train(whole, tmp_path / "whole")
    assert [r["position"] for r in pieces] == [r["position"] for r in once]
    assert max(len(batch) for _, batch in split.seen) == most
    assert [r["loss"] for r in steps_of(pieces)] == pytest.approx([r["loss"] for r in steps_of(once)], rel=1e-5)
    for name, tensor in weights(split).items():
        torch.testing.assert_close(tensor, weights(whole)[name], atol=1e-4, rtol=1e-4)


def test_the_recorded_loss_is_the_mean_over_the_targets_since_the_last_record(tmp_path, monkeypatch):
    every = Toy(dropout=0)
    _, each = train(every, tmp_path / "each", epochs=2)
    monkeypatch.setattr(loop, "_RECORDS", 5)
    job = Toy(dropout=0)
    state, few = train(job, tmp_path / "few", epochs=2)
    losses = {record["position"]: record["loss"] for record in steps_of(each)}
    assert len(losses) == state.step == 36  # 24 batches of one, 12 of two
    start = 0
    for record in steps_of(few):
        sizes = {step: 1 if step <= 24 else 2 for step in range(start + 1, record["position"] + 1)}
        expected = sum(losses[step] * size for step, size in sizes.items()) / sum(sizes.values())
        assert record["loss"] == pytest.approx(expected, rel=1e-6)
        start = record["position"]
    assert len(steps_of(few)) < 10
    assert state.tokens == 48


# --- interruptions ----------------------------------------------------------------------------------------------

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


# --- no number --------------------------------------------------------------------------------------------------


def test_a_loss_that_is_no_number_stops_the_training_and_names_the_last_good_checkpoint(tmp_path):
    with pytest.raises(TrainingError) as caught:
        train(Toy(sick_from=26), tmp_path / "run", checkpoint_seconds=0)
    message = str(caught.value)
    for part in ("step 27 (epoch 2, batch 3,", "learning rate ", str(tmp_path / "run" / "step-26"), "clip=1"):
        assert part in message
    load_model(Toy().module, tmp_path / "run" / "step-26")


def test_without_a_checkpoint_that_is_said_and_all_batches_of_the_update_are_named(tmp_path):
    with pytest.raises(TrainingError, match=r"step 2 \(epoch 1, batches 4 to 6, .* no checkpoint had been saved"):
        train(Toy(sick_from=1), tmp_path / "run", accumulation=3)


def test_a_huge_learning_rate_is_noticed(tmp_path):
    with pytest.raises(TrainingError, match="no longer a number"):
        train(Toy(), tmp_path / "run", optimiser="sgd", rate=1e38, schedule="constant", epochs=30)


def test_a_validation_loss_that_is_no_number_stops_the_training_too(tmp_path):
    job = Toy()
    job.values = [1.0, math.nan]
    with pytest.raises(TrainingError, match=r"validation loss is no longer a number after step 36 \(epoch 2"):
        train(job, tmp_path / "run")


# --- averaging and choosing -------------------------------------------------------------------------------------


def snapshots(folder):
    return sorted(int(path.name.removeprefix("step-")) for path in (folder / "snapshots").glob("step-*"))


def test_the_model_is_the_mean_of_the_best_snapshots(tmp_path):
    job = Toy()
    job.values = [5.0, 2.0, 4.0, 3.0]
    kept = {}

    def listen(record):
        if record.kind == "evaluation":
            kept[record.position] = weights(job)

    state, records = train(job, tmp_path / "run", listen=listen, average=2)
    positions = [record["position"] for record in looks_of(records)]
    assert [step for step, _ in state.snapshots] == [positions[1], positions[3]] == snapshots(tmp_path / "run")
    assert (state.best, state.best_evaluation) == (2.0, 2)
    expected = {name: (kept[positions[1]][name] + kept[positions[3]][name]) / 2 for name in weights(job)}
    for name, tensor in weights(job).items():
        torch.testing.assert_close(tensor, expected[name])
    assert not job.module.training


def test_without_averaging_the_model_is_the_best_on_the_validation_data(tmp_path):
    job, kept = Toy(), []
    job.values = [5.0, 2.0, 4.0, 3.0]

    def listen(record):
        if record.kind == "evaluation":
            kept.append(weights(job))

    state, _ = train(job, tmp_path / "run", listen=listen)
    assert same(weights(job), kept[1])
    assert snapshots(tmp_path / "run") == [state.snapshots[0][0]]


def test_the_figures_in_the_end_are_those_of_the_final_model(tmp_path):
    job = Toy()
    state, _ = train(job, tmp_path / "run", average=3)
    assert state.metrics == job.evaluate()


def test_without_validation_data_the_last_snapshots_are_averaged(tmp_path):
    job = Toy(validated=False)
    state, records = train(job, tmp_path / "run", average=2)
    positions = [record["position"] for record in looks_of(records)]
    assert [step for step, _ in state.snapshots] == positions[-2:] == snapshots(tmp_path / "run")
    last = Toy(validated=False)
    state, _ = train(last, tmp_path / "last", average=1)
    assert state.snapshots == []
    assert not (tmp_path / "last" / "snapshots").exists()


@pytest.mark.parametrize("number", [1, 2, 3, 7])
def test_the_mean_of_identical_models_is_that_model(tmp_path, number):
    job = Toy()
    folders = [tmp_path / str(place) for place in range(number)]
    for folder in folders:
        folder.mkdir()
        job.save(folder)
    assert same(mean_of_models(folders), weights(job))


def test_a_folder_that_does_not_fit_is_refused_with_all_differences(tmp_path):
    Toy().save(tmp_path)
    with pytest.raises(FormatError, match=r"weight is missing.*output is unexpected"):
        load_model(nn.Linear(2, 3), tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(FormatError, match="is not a whole safetensors file"):
        load_model(nn.Linear(2, 3), tmp_path)


# --- what settings promise --------------------------------------------------------------------------------------


def test_a_training_has_the_epochs_that_were_asked_for_however_many_batches_they_have(tmp_path):
    state, records = train(Toy(sizes=(8, 1, 1)), tmp_path / "run", epochs=3)
    assert (state.step, state.epoch, state.batch) == (3 + 24 + 24, 3, 0)
    assert [(look["position"], look["epoch"]) for look in looks_of(records)] == [(3, 1), (27, 2), (51, 3)]
    assert steps_of(records)[-1]["progress"] == 1
    assert all(record["progress"] < 1 for record in steps_of(records)[:-1])


def test_a_model_is_compiled_if_asked_for_and_that_is_said_and_on_no_clock(tmp_path, monkeypatch):
    compile_model, heard = torch.compile, []
    monkeypatch.setattr(torch, "compile", lambda module: compile_model(module, backend="eager"))
    with clock.CLOCK.announcing(heard.append):
        plain, _ = train(Toy(dropout=0), tmp_path / "plain", epochs=1)
        assert not heard
        began = time.monotonic()
        compiled, _ = train(Toy(dropout=0), tmp_path / "compiled", epochs=1, compile=True)
    assert set(heard) == {"compiling the model (once)"}
    assert compiled.seconds < 0.9 * (time.monotonic() - began)
    assert compiled.last_loss == pytest.approx(plain.last_loss)


def test_steps_end_a_training_within_an_epoch(tmp_path):
    state, records = train(Toy(), tmp_path / "run", steps=30)
    assert (state.step, state.epoch, state.batch) == (30, 1, 6)
    assert [look["position"] for look in looks_of(records)] == [24, 30]


def test_minutes_end_a_training(tmp_path):
    state, records = train(Toy(), tmp_path / "run", minutes=1e-9)
    assert state.step == 1
    assert state.over
    assert steps_of(records)[-1]["progress"] == 1
    assert len(looks_of(records)) == 1


@pytest.fixture
def second_by_second(monkeypatch):
    """A job each of whose updates takes a second."""
    job, clock = Toy(), [0.0]
    usual = job.loss

    def loss(module, batch, step):
        clock[0] += 1.0
        return usual(module, batch, step)

    job.loss = loss
    monkeypatch.setattr(loop.CLOCK, "now", lambda: clock[0])
    return job


def test_where_minutes_end_a_training_its_rate_has_fallen(tmp_path, second_by_second):
    state, records = train(second_by_second, tmp_path / "run", minutes=0.5, rate=0.3)
    assert state.step == 30
    rates = [record["learning_rate"] for record in steps_of(records)]
    assert rates[1:] == pytest.approx([0.3 * (1 - seconds / 30) for seconds in range(1, 30)])


def test_records_of_a_training_that_minutes_end_are_spread_over_its_time(tmp_path, second_by_second, monkeypatch):
    monkeypatch.setattr(loop, "_RECORDS", 10)
    _, records = train(second_by_second, tmp_path / "run", minutes=0.5, epochs=10**6)
    assert [record["position"] for record in steps_of(records)] == list(range(3, 31, 3))


def test_looks_come_after_so_many_updates(tmp_path):
    _, records = train(Toy(), tmp_path / "run", evaluate_steps=10, epochs=1)
    assert [look["position"] for look in looks_of(records)] == [10, 20, 24]


def test_patience_ends_a_training_that_no_longer_gets_better(tmp_path):
    job = Toy()
    job.values = [3.0, 2.0, 2.5, 2.0, 1.0]
    state, records = train(job, tmp_path / "run", evaluate_steps=2, patience=2)
    assert state.evaluations == 4
    assert state.step == 8 == records[-1]["position"]
    assert state.best_evaluation == 2
    job = Toy(validated=False)
    state, _ = train(job, tmp_path / "blind", evaluate_steps=2, patience=1, epochs=1)
    assert state.step == 24  # nothing is known, so nothing is late


def test_long_gradients_are_shortened_to_the_clip(tmp_path):
    clipped, free = Toy(dropout=0), Toy(dropout=0)
    start = weights(free)
    common = {"steps": 1, "optimiser": "sgd", "schedule": "constant", "rate": 1.0, "average": 2}
    _, records = train(free, tmp_path / "free", **common)
    length = records[0]["gradient_norm"]
    moved = torch.cat([(weights(free)[name] - start[name]).flatten() for name in start]).norm()
    assert float(moved) == pytest.approx(length, rel=1e-4)
    _, records = train(clipped, tmp_path / "clipped", clip=length / 10, **common)
    moved = torch.cat([(weights(clipped)[name] - start[name]).flatten() for name in start]).norm()
    assert float(moved) == pytest.approx(length / 10, rel=1e-4)
    assert records[0]["gradient_norm"] == pytest.approx(length, rel=1e-6)  # before clipping


def test_gradients_are_gone_before_the_next_ones_are_computed(tmp_path):
    job, before, alive = Toy(validated=False), [], []
    for parameter in job.module.parameters():
        parameter.register_post_accumulate_grad_hook(lambda one: before.append(weakref.ref(one.grad)))

    def loss(module, batch, step):
        alive.extend(one() is not None for one in before)
        before.clear()
        return Toy.loss(job, module, batch, step)

    job.loss = loss
    train(job, tmp_path / "run", steps=4)
    assert len(alive) == 3 * len([*job.module.parameters()])
    assert not any(alive)


@pytest.mark.parametrize("optimiser", ["adam", "adamw", "sgd"])
def test_every_optimiser_lowers_the_loss(optimiser, tmp_path):
    _, records = train(Toy(dropout=0), tmp_path / "run", optimiser=optimiser, epochs=8, rate=0.05)
    losses = [look["figures"]["loss"] for look in looks_of(records)]
    assert losses[-1] < 0.9 * losses[0]


def test_weight_decay_leaves_biases_and_norms_alone(tmp_path):
    job = Toy(validated=False)
    before = weights(job)
    job.loss = lambda module, batch, step: Toy.loss(job, module, batch, step)._replace(
        total=0 * module(job.inputs).sum() + 0 * job.output.sum()
    )
    train(job, tmp_path / "run", optimiser="adamw", weight_decay=0.5, steps=1, schedule="constant", rate=0.1)
    for name, tensor in weights(job).items():
        torch.testing.assert_close(tensor, before[name] * (1 - 0.05 if tensor.dim() > 1 else 1))


@pytest.mark.parametrize(
    "settings", [{"weight_decay": 0.1}, {"momentum": 0.5}, {"momentum": 0.5, "optimiser": "adamw"}]
)
def test_a_setting_without_effect_is_refused(settings):
    with pytest.raises(SettingError, match="has no effect"):
        LoopConfig(**settings)


def test_the_products_are_bfloat16_where_that_is_asked_for_or_fast(tmp_path):
    for precision in ("float32", "bfloat16", "auto"):
        job = Toy()
        train(job, tmp_path / precision, precision=precision, epochs=1)
        fast = loop._has_bfloat16(torch.device("cpu"))
        assert set(job.in_half) == {precision == "bfloat16" or (precision == "auto" and fast)}
        assert all(tensor.dtype == torch.float32 for tensor in weights(job).values())


def test_the_dropout_of_a_batch_depends_on_seed_epoch_and_place_alone(tmp_path):
    def once(name, **settings):
        job = Toy(validated=False)
        train(job, tmp_path / name, **settings)
        return weights(job)

    first = once("first")
    torch.rand(1000)
    assert same(first, once("again"))
    assert not same(first, once("other", seed=2))


def test_a_gpu_that_is_not_there_is_an_error(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SettingError, match="device=cuda: torch finds no GPU"):
        SINGLE.device("cuda")
    assert SINGLE.device("auto") == torch.device("cpu")
