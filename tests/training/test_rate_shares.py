"""Shares of the learning rate: by layer and by epoch, exact when resumed; and the metric that says what is best."""

import json
from dataclasses import asdict
from typing import ClassVar

import pytest
import torch
from torch import nn

from wenmai.core.errors import SettingError, TrainingError
from wenmai.nn.lora import add_lora
from wenmai.nn.transformer import FeedForward
from wenmai.objectives.language import cross_entropy
from wenmai.tasks.settings import FineTuneConfig
from wenmai.training.checkpoint import Checkpoints
from wenmai.training.loop import LoopState, train_loop
from wenmai.training.settings import LoopConfig
from wenmai.training.shares import RateShares, layer_depths
from wenmai.training.strategy import SINGLE
from wenmai.training.tensors import load_model, read_tensors, save_model

WIDTH, LABELS, EXAMPLES = 4, 3, 12
NAMES = ["embedding.weight", "layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias", "head.weight"]
CLOCK = ("seconds", "seconds_left", "tokens_per_second")


@pytest.fixture(autouse=True)
def unsynced(monkeypatch):
    """Syncing tiny files takes most of the time."""
    monkeypatch.setattr("os.fsync", lambda handle: None)


class Killed(BaseException):
    """Stands for the end of the process."""


class Deep(nn.Module):
    """An embedding, two layers, and a head; it notes which of them a gradient reaches."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.embedding = nn.Embedding(7, WIDTH)
        self.layers = nn.ModuleList([nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)])
        self.head = nn.Linear(WIDTH, LABELS, bias=False)
        self.reached = []

    def forward(self, tokens):
        hidden = self.embedding(tokens)
        for number, layer in enumerate(self.layers):
            hidden = torch.tanh(layer(hidden))
            if hidden.requires_grad:
                hidden.register_hook(lambda _, number=number: self.reached.append(number))
        return hidden


class Job:
    """Trains it."""

    loss_weights: ClassVar = {"loss": 1.0}

    def __init__(self, share=lambda name, epoch: 1.0, best_by="loss", die_at=None):
        self.module, self.rate_share, self.best_by, self.die_at = Deep(), share, best_by, die_at
        draw = torch.Generator().manual_seed(1)
        self.tokens = torch.randint(0, 7, (EXAMPLES,), generator=draw)
        self.labels = torch.randint(0, LABELS, (EXAMPLES,), generator=draw)
        self.metrics, self.seen = [], []

    def plan(self, epoch):
        return [[*range(start, start + 4)] for start in range(0, EXAMPLES, 4)]

    def parts(self, batch):
        return (batch,)

    def loss(self, module, batch, step):
        if step == self.die_at:
            raise Killed
        self.seen.append({name: one.requires_grad for name, one in module.named_parameters()})
        return cross_entropy(module(self.tokens[batch]), self.module.head.weight, None, self.labels[batch])

    def evaluate(self):
        return self.metrics.pop(0) if self.metrics else {}

    def save(self, folder):
        save_model(self.module, folder)

    def note(self, means):
        pass

    def carried(self):
        return {}

    def carry(self, tensors):
        pass


def weights(job):
    return {name: one.detach().clone() for name, one in job.module.named_parameters()}


def train(job, folder, *, resumed=False, rate=0.1, listen=lambda record: None, **settings):
    settings = {"epochs": 3, "warmup": 0, "schedule": "constant", "precision": "float32"} | settings
    checkpoints, state, newest = Checkpoints(folder), LoopState(), None
    if resumed:
        newest, found, _ = checkpoints.newest_good()
        load_model(job.module, newest)
        state = LoopState.of_checkpoint(newest, found)
    places = {"checkpoint": newest, "checkpoints": checkpoints, "report": listen, "strategy": SINGLE}
    train_loop(job, LoopConfig(**settings), peak_rate=rate, state=state, **places)
    return state


def gradual(name, epoch):
    """The head first, then the layers from the top, the embedding never in three epochs."""
    return RateShares(depths=layer_depths(NAMES, heads=["head"]), decay=0.5, unfreeze=1)(name, epoch)


# --- shares -----------------------------------------------------------------------------------------------------


def test_depths_count_from_the_head_down_to_the_embeddings():
    names = ["encoder.embedding.weight", "encoder.norm.weight", "encoder.decoder.layers.0.ffn.inner.weight"]
    names += ["encoder.decoder.layers.1.ffn.inner.weight", "encoder.decoder.norm.weight", "encoder.pooler.bias"]
    names += ["headache.layers.0.weight", "head.layers.7.weight", "head"]
    depths = layer_depths(names, heads=["head", "encoder.pooler"])
    assert [*depths.values()] == [3, 3, 2, 1, 1, 0, 2, 0, 0]
    both = ["words.weight", "forwards.layers.0.bias", "forwards.layers.1.bias", "backwards.layers.0.bias", "head.bias"]
    assert [*layer_depths(both, heads=["head"]).values()] == [3, 2, 1, 2, 0]
    assert layer_depths(["vectors", "head.bias"], heads=["head"]) == {"vectors": 1, "head.bias": 0}


def test_shares_fall_by_layer_and_begin_by_epoch():
    depths = {"head": 0, "top": 1, "low": 2, "words": 3}

    def table(epochs=1, **settings):
        shares = RateShares(depths=depths, **settings)
        found = [[shares(name, epoch) for name in depths] for epoch in range(epochs)]
        return found if epochs > 1 else found[0]

    assert table() == [1, 1, 1, 1]
    assert table(decay=0.5) == [1, 0.5, 0.25, 0.125]
    assert table(deepest=0) == [1, 0, 0, 0]
    assert table(deepest=2) == [1, 1, 1, 0]
    assert table(4, unfreeze=1) == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    assert table(3, unfreeze=2, deepest=2, decay=0.5) == [[1, 0, 0, 0], [1, 0.5, 0.25, 0], [1, 0.5, 0.25, 0]]


@pytest.mark.parametrize("optimiser", ["sgd", "adam", "adamw"])
def test_each_parameter_moves_by_its_share(optimiser, tmp_path):
    shares = dict(zip(NAMES, (0.125, 0.25, 0.25, 0.5, 0.5, 1.0), strict=True))
    settings = {"optimiser": optimiser, "steps": 1} | ({"weight_decay": 0.3} if optimiser == "adamw" else {})
    start, whole, shared = weights(Job()), Job(), Job(lambda name, epoch: shares[name])
    train(whole, tmp_path / "whole", **settings)
    train(shared, tmp_path / "shared", **settings)
    for name, now in weights(shared).items():
        expected = shares[name] * (weights(whole)[name] - start[name])
        assert expected.any()
        torch.testing.assert_close(now - start[name], expected, atol=1e-7, rtol=1e-5)


def test_many_steps_equal_an_optimiser_with_one_group_for_each_parameter(tmp_path):
    job, naive = Job(gradual), Job()
    train(job, tmp_path / "run", optimiser="adamw", weight_decay=0.2)
    states = {}
    for step in range(9):
        naive.loss(naive.module, naive.plan(0)[step % 3], step).total.backward()
        for name, one in naive.module.named_parameters():
            share, gradient, one.grad = gradual(name, step // 3), one.grad / 4, None
            if not share:
                continue
            number, mean, square = states.get(name, (0, 0.0, 0.0))
            number, mean, square = number + 1, 0.9 * mean + 0.1 * gradient, 0.98 * square + 0.02 * gradient**2
            states[name] = number, mean, square
            rate = 0.1 * share
            with torch.no_grad():
                one.mul_(1 - rate * (0.2 if one.dim() > 1 else 0.0))
                one.sub_(rate * (mean / (1 - 0.9**number)) / ((square / (1 - 0.98**number)).sqrt() + 1e-8))
    for name, one in weights(job).items():
        torch.testing.assert_close(one, weights(naive)[name], atol=1e-6, rtol=1e-5)


def test_what_is_frozen_stays_as_it_is_and_costs_no_gradient(tmp_path):
    start, kept = weights(Job()), []
    job = Job(gradual)
    job.metrics = [{"loss": 3.0}, {"loss": 2.0}, {"loss": 1.0}]
    train(job, tmp_path / "run", listen=lambda record: record.kind == "evaluation" and kept.append(weights(job)))
    moved = [[name for name in NAMES if not torch.equal(now[name], start[name])] for now in kept]
    assert moved == [NAMES[5:], NAMES[3:], NAMES[1:]]
    assert [[name for name in NAMES if seen[name]] for seen in job.seen[::3]] == [NAMES[5:], NAMES[3:], NAMES[1:]]
    assert job.module.reached == [1] * 3 + [1, 0] * 3  # backpropagation ended above
    assert all(one.requires_grad for one in job.module.parameters())


def test_parameters_that_need_no_gradient_are_left_alone(tmp_path):
    job, start = Job(), weights(Job())
    job.module.embedding.weight.requires_grad_(False)
    train(job, tmp_path / "run")
    assert torch.equal(job.module.embedding.weight, start["embedding.weight"])
    assert not job.module.embedding.weight.requires_grad
    assert not torch.equal(job.module.head.weight, start["head.weight"])


def test_the_length_of_the_gradient_is_that_of_what_is_trained(tmp_path):
    whole, alone = [], []
    train(Job(), tmp_path / "whole", steps=1, listen=whole.append)
    train(Job(gradual), tmp_path / "alone", steps=1, listen=alone.append)
    job = Job()
    job.loss(job.module, job.plan(0)[0], 0).total.backward()
    assert alone[0].gradient_norm == pytest.approx(float(job.module.head.weight.grad.norm()) / 4, rel=1e-5)
    assert alone[0].gradient_norm < whole[0].gradient_norm


def test_the_optimiser_has_no_state_of_what_is_not_trained_yet(tmp_path):
    for step, count in ((2, 1), (3, 1), (4, 3), (7, 5)):
        folder = tmp_path / str(step)
        with pytest.raises(Killed):
            train(Job(gradual, die_at=step), folder, checkpoint_seconds=0)
        stored = read_tensors(folder / f"step-{step}" / "optimiser.safetensors")
        assert len({name.partition(".")[0] for name in stored}) == count


def rising_and_falling(name, epoch):
    """Each layer learns for one epoch and is frozen again, the head learns in all of them."""
    return 1.0 if name == NAMES[5] or name.startswith(f"layers.{epoch % 2}") else 0.0


@pytest.mark.parametrize("share", [gradual, rising_and_falling])
@pytest.mark.parametrize("optimiser", ["sgd", "adam", "adamw"])
def test_a_training_killed_at_any_step_ends_as_if_nothing_had_happened(optimiser, share, tmp_path):
    settings = {"optimiser": optimiser, "epochs": 5, "schedule": "linear"}
    settings |= {"momentum": 0.9} if optimiser == "sgd" else {}
    whole, records = Job(share), []
    state = train(whole, tmp_path / "whole", listen=records.append, **settings)
    assert state.step == 15
    for step in (2, 3, 4, 6, 7, 14):  # 3, 6, 9 and 12 begin an epoch
        folder = tmp_path / f"killed-{step}"
        with pytest.raises(Killed):
            train(Job(share, die_at=step), folder, checkpoint_seconds=0, **settings)
        job, again = Job(share), []
        end = train(job, folder, resumed=True, listen=again.append, checkpoint_seconds=0, **settings)
        assert all(torch.equal(one, weights(whole)[name]) for name, one in weights(job).items())
        timeless = [{k: v for k, v in asdict(record).items() if k not in CLOCK} for record in (*records, *again)]
        assert timeless[len(records) :] == [record for record in timeless[: len(records)] if record["position"] > step]
        assert asdict(end) | {"seconds": 0.0} == asdict(state) | {"seconds": 0.0}


def with_lora(die_at=None):
    """A job whose first layer has small matrices that are trained beside it."""
    job = Job(die_at=die_at)
    job.module.layers[0] = FeedForward(WIDTH, 5)
    trained = add_lora(job.module.layers, rank=2, alpha=4.0, dropout=0.25, targets=["ffn"])
    assert len(trained) == 4
    return job


def test_lora_is_resumed_exactly_and_leaves_the_rest_alone(tmp_path):
    start, whole = weights(with_lora()), with_lora()
    train(whole, tmp_path / "whole", optimiser="adamw", weight_decay=0.1)
    moved = {name for name, one in weights(whole).items() if not torch.equal(one, start[name])}
    frozen = {name for name in start if name.startswith("layers") and "lora" not in name}
    assert moved == start.keys() - frozen
    for step in (1, 3, 5):
        folder = tmp_path / f"killed-{step}"
        settings = {"optimiser": "adamw", "weight_decay": 0.1, "checkpoint_seconds": 0}
        with pytest.raises(Killed):
            train(with_lora(die_at=step), folder, **settings)
        job = with_lora()
        train(job, folder, resumed=True, **settings)
        assert all(torch.equal(one, weights(whole)[name]) for name, one in weights(job).items())


def test_an_epoch_in_which_nothing_learns_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no parameter has a share"):
        train(Job(lambda name, epoch: 0.0), tmp_path / "run")


# --- the best by a metric ---------------------------------------------------------------------------------------

SCORES = [{"loss": 3.0, "f1": 0.2}, {"loss": 2.0, "f1": 0.8}, {"loss": 1.0, "f1": 0.7}, {"loss": 0.5, "f1": 0.8}]


def evaluated(folder, *, best_by, metrics, **settings):
    """Trains with an evaluation after every update; returns the job, the state and the weights at each evaluation."""
    job, kept = Job(best_by=best_by), []
    job.metrics = [*metrics]

    def listen(record):
        if record.kind == "evaluation":
            kept.append(weights(job))

    state = train(job, folder, listen=listen, evaluate_steps=1, **({"steps": len(metrics), "epochs": 9} | settings))
    return job, state, kept


@pytest.mark.parametrize(("best_by", "best"), [("f1", 2), ("loss", 4)])
def test_the_best_snapshot_is_the_best_by_that_metric(best_by, best, tmp_path):
    job, state, kept = evaluated(tmp_path / "run", best_by=best_by, metrics=[*SCORES, *SCORES[:1], {}])
    assert (state.best, state.best_evaluation) == (SCORES[best - 1][best_by], best)
    assert state.snapshots == [(best, SCORES[best - 1][best_by])]
    assert all(torch.equal(one, kept[best - 1][name]) for name, one in weights(job).items())


def test_the_mean_is_of_the_best_by_that_metric(tmp_path):
    job, state, kept = evaluated(tmp_path / "run", best_by="f1", metrics=SCORES, average=2)
    assert state.snapshots == [(2, 0.8), (4, 0.8)]
    for name, one in weights(job).items():
        torch.testing.assert_close(one, (kept[1][name] + kept[3][name]) / 2)


def test_patience_waits_for_that_metric(tmp_path):
    _, state, _ = evaluated(tmp_path / "f1", best_by="f1", metrics=SCORES, patience=2)
    assert state.step == 4  # the second was the best
    _, state, _ = evaluated(tmp_path / "loss", best_by="loss", metrics=[*SCORES, {"loss": 0.6}], patience=2)
    assert state.step == 5


def test_an_evaluation_without_that_metric_is_never_the_best(tmp_path):
    metrics = [{"loss": 1.0}, {"loss": 1.0, "f1": 0.1}, {"loss": 1.0, "f1": 0.0}, {"loss": 1.0}]
    _, state, _ = evaluated(tmp_path / "run", best_by="f1", metrics=metrics, average=2)
    assert (state.best, state.best_evaluation) == (0.1, 2)
    assert state.snapshots == [(2, 0.1), (3, 0.0)]
    with pytest.raises(TrainingError, match="validation loss is no longer a number"):
        evaluated(tmp_path / "nan", best_by="f1", metrics=[{"loss": float("nan"), "f1": 0.5}])


def test_what_was_best_is_known_after_an_interruption(tmp_path):
    whole, state, _ = evaluated(tmp_path / "whole", best_by="f1", metrics=SCORES, patience=2)
    for step in (1, 2, 3):
        job = Job(best_by="f1", die_at=step)
        job.metrics = [*SCORES]
        settings = {"evaluate_steps": 1, "epochs": 9, "steps": 4, "patience": 2, "checkpoint_seconds": 0}
        with pytest.raises(Killed):
            train(job, tmp_path / f"{step}", **settings)
        again = Job(best_by="f1")
        again.metrics = SCORES[step:]
        end = train(again, tmp_path / f"{step}", resumed=True, **settings)
        assert json.dumps(asdict(end) | {"seconds": 0}) == json.dumps(asdict(state) | {"seconds": 0})
        assert all(torch.equal(one, weights(whole)[name]) for name, one in weights(again).items())


@pytest.mark.parametrize(
    "settings",
    [
        {"top_layers": 3},
        {"mode": "frozen", "lora_rank": 4},
        {"mode": "lora", "unfreeze": 1},
        {"mode": "mix", "layer_decay": 0.9},
        {"scratch": True, "mode": "frozen"},
    ],
)
def test_a_setting_of_fine_tuning_without_effect_is_refused(settings):
    with pytest.raises(SettingError, match=r"no effect|leave"):
        FineTuneConfig(**settings)
