"""The loop of torch models: exact by token, and what its settings promise."""

import math
import time
import weakref

import pytest
import torch
from torch import nn

from tests.training.toys import Toy, looks_of, same, steps_of, train, weights
from wenmai.core import clock
from wenmai.core.errors import SettingError, TrainingError
from wenmai.training import loop
from wenmai.training.settings import LoopConfig
from wenmai.training.strategy import SINGLE
from wenmai.training.tensors import load_model

pytestmark = pytest.mark.usefixtures("unsynced")


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
