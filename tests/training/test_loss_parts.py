"""A loss in named parts: each is divided by its own count over all batches and processes of an update.

Run as a program, this file is one process of a training by several.
"""

import json
import math
import os
import socket
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from torch import nn

import wenmai
from tests.training.toys import PlainJob
from wenmai.core.errors import TrainingError
from wenmai.objectives.language import cross_entropy
from wenmai.objectives.loss import Loss, combined, evaluated, part_means
from wenmai.tasks.translation import TranslationJob
from wenmai.training import loop
from wenmai.training.checkpoint import Checkpoints
from wenmai.training.loop import LoopState, train_loop
from wenmai.training.records import RecordFile, read_records
from wenmai.training.settings import LoopConfig
from wenmai.training.strategy import launched_strategy
from wenmai.training.tensors import load_model

TOKENS, LENGTH, WIDTH, RATE = 11, 6, 4, 0.5
UNEVEN = [[0], [1, 2, 3, 4], [5, 6], [7, 8, 9, 10, 11], [12, 13]]
TOGETHER = [[*range(12)], [12, 13]]  # the updates that UNEVEN makes of four batches each
CLOCK = ("seconds", "seconds_left", "tokens_per_second")


class MaskedAndNext(PlainJob):
    """Predicts masked tokens, and whether two sentences follow each other, as BERT does; in float64.

    Text 0 has no masked token, and the last two have no label, so that the last update lacks that part.
    """

    loss_weights: ClassVar = {"masked": 1.0, "next": 0.3}
    best_by = "loss"

    def __init__(self, plan):
        draw = torch.Generator().manual_seed(5)
        self._plan = plan
        self.tokens = torch.randint(0, TOKENS, (14, LENGTH), generator=draw)
        self.masked = torch.rand((14, LENGTH), generator=draw) < 0.4
        self.masked[0] = False
        self.labels = torch.randint(0, 2, (14,), generator=draw)
        self.labelled = torch.arange(14) < 12
        torch.manual_seed(2)
        self.module = nn.ModuleDict(
            {"in": nn.Embedding(TOKENS + 1, WIDTH), "out": nn.Linear(WIDTH, TOKENS), "next": nn.Linear(WIDTH, 2)}
        ).double()

    def states(self, module, batch):
        return module["in"](self.tokens[batch].masked_fill(self.masked[batch], TOKENS)).cumsum(1).tanh()

    def rate_share(self, name, epoch):
        return 1.0

    def plan(self, epoch):
        return self._plan

    def counts(self, batch):
        return {"masked": int(self.masked[batch].sum()), "next": int(self.labelled[batch].sum())}

    def parts(self, batch):
        return (batch,)

    def loss(self, module, batch, step):
        hidden, masked, labelled = self.states(module, batch), self.masked[batch], self.labelled[batch]
        head, pair = module["out"], module["next"]
        parts = {"masked": cross_entropy(hidden[masked], head.weight, head.bias, self.tokens[batch][masked])}
        if labelled.any():
            last, labels = hidden[:, -1][labelled], self.labels[batch][labelled]
            parts["next"] = cross_entropy(last, pair.weight, pair.bias, labels)
        return parts

    def naive(self, module, batch):
        """The same by the book: means over the texts of a whole update."""
        hidden, masked, labelled = self.states(module, batch), self.masked[batch], self.labelled[batch]
        parts = {"masked": nn.functional.cross_entropy(module["out"](hidden[masked]), self.tokens[batch][masked])}
        if labelled.any():
            logits = module["next"](hidden[:, -1][labelled])
            parts["next"] = nn.functional.cross_entropy(logits, self.labels[batch][labelled])
        return parts

    def evaluate(self):
        return evaluated((self.loss(self.module, batch, 0) for batch in UNEVEN), self.loss_weights)


def train(job, folder, *, resumed=False, **settings):
    usual = {"epochs": 3, "optimiser": "sgd", "schedule": "constant", "warmup": 0, "precision": "float32", "average": 9}
    state, newest, checkpoints = LoopState(), None, Checkpoints(folder / "checkpoints")
    if resumed:
        newest, found, _ = checkpoints.newest_good()
        load_model(job.module, newest)
        state = LoopState.of_checkpoint(newest, found)
    config, strategy = LoopConfig(**usual | settings), launched_strategy()
    file = RecordFile(folder / "metrics.jsonl", position=state.step) if strategy.first else None
    places = {"checkpoint": newest, "checkpoints": checkpoints, "report": file or (lambda record: None)}
    try:
        train_loop(job, config, peak_rate=RATE, state=state, strategy=strategy, **places)
    finally:
        if file is not None:
            file.close()
    if strategy.first:
        job.save(folder)
    return state


def outcome(folder):
    """The parameters, and the records without times."""
    module = MaskedAndNext(UNEVEN).module
    load_model(module, folder)
    records = [{k: v for k, v in record.items() if k not in CLOCK} for record in read_records(folder / "metrics.jsonl")]
    return dict(module.named_parameters()), records


def assert_alike(one, other):
    for name, tensor in one[0].items():
        torch.testing.assert_close(tensor, other[0][name], atol=1e-12, rtol=1e-12)
    assert one[1] == [about(record) for record in other[1]]


def about(value):
    if isinstance(value, dict):
        return {name: about(inner) for name, inner in value.items()}
    return pytest.approx(value, rel=1e-12) if isinstance(value, float) else value


@pytest.fixture
def whole(tmp_path):
    """Trained with one batch for each update."""
    folder = tmp_path / "whole"
    train(MaskedAndNext(TOGETHER), folder)
    return outcome(folder)


def test_an_update_follows_the_mean_of_each_part(tmp_path):
    train(MaskedAndNext(TOGETHER), tmp_path, average=1, evaluate_steps=10**6)
    job = MaskedAndNext(TOGETHER)
    expected = []
    for batch in TOGETHER * 3:
        parts = job.naive(job.module, batch)
        loss = combined(job.loss_weights, parts)
        job.module.zero_grad()
        loss.backward()
        for parameter in job.module.parameters():
            parameter.data -= RATE * (0 if parameter.grad is None else parameter.grad)
        expected.append({"loss": loss.item(), "losses": {name: part.item() for name, part in parts.items()}})
    expected = [{**record, "losses": {"next": None} | record["losses"]} for record in expected]
    parameters, records = outcome(tmp_path)
    steps = [{name: record[name] for name in ("loss", "losses")} for record in records if record["kind"] == "step"]
    assert_alike((parameters, steps), (dict(job.module.named_parameters()), expected))
    assert steps[1]["losses"]["next"] is None  # no text of the second update has a label


def test_how_an_update_is_split_into_batches_changes_nothing(whole, tmp_path):
    train(MaskedAndNext(UNEVEN), tmp_path, accumulation=4)
    assert_alike(outcome(tmp_path), whole)


def test_two_processes_train_what_one_trains(whole, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    common = {**os.environ, **address, "PYTHONPATH": str(Path(wenmai.__file__).parents[1])}
    ranks = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(2)]
    started = [subprocess.Popen([sys.executable, __file__, tmp_path], env=common | rank) for rank in ranks]
    assert [process.wait(timeout=100) for process in started] == [0, 0]
    assert_alike(outcome(tmp_path), whole)


def test_a_training_killed_between_two_records_goes_on_to_the_same_records(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "_RECORDS", 3)  # of six updates
    train(MaskedAndNext(UNEVEN), tmp_path / "run", accumulation=4)
    job = MaskedAndNext(UNEVEN)

    def dying(module, batch, step):
        if step == 3:
            raise RuntimeError
        return MaskedAndNext.loss(job, module, batch, step)

    job.loss = dying
    with pytest.raises(RuntimeError):
        train(job, tmp_path / "killed", accumulation=4, checkpoint_seconds=0)
    state = train(MaskedAndNext(UNEVEN), tmp_path / "killed", accumulation=4, checkpoint_seconds=0, resumed=True)
    assert (tmp_path / "killed" / "model.safetensors").read_bytes() == (
        tmp_path / "run" / "model.safetensors"
    ).read_bytes()
    assert outcome(tmp_path / "killed")[1] == outcome(tmp_path / "run")[1]
    assert state.last_losses["masked"] > 0
    assert LoopState.of_checkpoint(Path(), json.loads(json.dumps(asdict(state)))) == state


@torch.no_grad()
def test_evaluations_have_a_metric_for_each_part(whole):
    job = MaskedAndNext(UNEVEN)
    metrics = job.evaluate()
    parts = job.naive(job.module, [*range(14)])
    assert list(metrics) == ["loss", "masked_loss", "next_loss"]
    assert metrics["masked_loss"] == pytest.approx(float(parts["masked"]), rel=1e-12)
    assert metrics["next_loss"] == pytest.approx(float(parts["next"]), rel=1e-12)
    assert metrics["loss"] == pytest.approx(metrics["masked_loss"] + 0.3 * metrics["next_loss"], rel=1e-12)
    looked = [record["figures"] for record in whole[1] if record["kind"] == "evaluation"]
    assert [list(figures) for figures in looked] == [list(metrics)] * 3
    unlabelled = evaluated([job.loss(job.module, [12, 13], 0)], job.loss_weights)
    assert list(unlabelled) == ["loss", "masked_loss"]
    assert evaluated([], job.loss_weights) == {}


def test_counts_that_do_not_come_true_are_refused(tmp_path):
    job = MaskedAndNext(UNEVEN)
    job.counts = lambda batch: {"masked": 1, "next": 1}
    with pytest.raises(TrainingError, match=r"masked, next of the loss have \[\d+.*instead of \[4, 4\]"):
        train(job, tmp_path, accumulation=4)


def test_a_run_reports_the_parts_of_its_loss(tmp_path, cache_folder, monkeypatch):
    """A translator whose short and long sentences count alike, however many tokens they have."""
    usual = TranslationJob.loss

    def parts(task, batch):
        lengths = task._data.train.lengths[batch, 1]
        return {name: batch[mask] for name, mask in (("short", lengths < 4), ("long", lengths >= 4)) if mask.any()}

    def loss(task, module, batch, step):
        return {name: usual(task, module, part, step) for name, part in parts(task, batch).items()}

    def counts(task, batch):
        return {name: int((task._data.train.lengths[part, 1] + 1).sum()) for name, part in parts(task, batch).items()}

    monkeypatch.setattr(TranslationJob, "loss", loss)
    monkeypatch.setattr(TranslationJob, "counts", counts)
    monkeypatch.setattr(TranslationJob, "loss_weights", {"short": 0.5, "long": 0.5})
    monkeypatch.setattr(TranslationJob, "evaluate", lambda task: {})
    pairs = [(" ".join("abcdefgh"[: 1 + n % 7]), " ".join("zyxwvuts"[: 1 + n % 7])) for n in range(60)]
    sizes = {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "ffn_size": 16, "kind": "words", "batch_tokens": 40}
    run = wenmai.train("transformer", pairs, out=tmp_path / "run", epochs=2, accumulation=3, threads=1, **sizes)
    last = [record for record in run.records if record["kind"] == "step"][-1]
    assert last["losses"].keys() == {"short", "long"}
    assert last["loss"] == sum(0.5 * value for value in last["losses"].values())
    assert run.summary["losses"] == last["losses"]
    assert run.summary["loss"] == last["loss"]


def test_one_part_has_no_name_in_metrics_and_may_have_a_weight():
    lost = [Loss(torch.tensor(3.0), torch.tensor(2.0), 2), Loss(torch.tensor(9.0), torch.tensor(4.0), 1)]
    assert evaluated(lost, {"loss": 1.0}) == {"loss": 2.0}
    assert evaluated([{"loss": part} for part in lost], {"loss": 0.5}) == {"loss": 1.0}
    assert combined({"a": 1.0}, part_means({"a": (0.0, 0)})) is None
    assert not math.isnan(combined({"a": 1.0, "b": 2.0}, part_means({"a": (0.0, 0), "b": (3.0, 2)})))


if __name__ == "__main__":
    torch.set_num_threads(1)
    train(MaskedAndNext(UNEVEN), Path(sys.argv[1]), accumulation=2)
