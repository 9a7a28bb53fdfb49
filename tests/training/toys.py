"""A toy that the loop of torch models trains, and what its tests compare."""

import json
import math
from dataclasses import asdict
from typing import ClassVar

import torch
from torch import nn

from wenmai.nn.dropout import Dropout
from wenmai.objectives.language import cross_entropy
from wenmai.training.checkpoint import Checkpoints
from wenmai.training.loop import LoopState, train_loop
from wenmai.training.settings import LoopConfig
from wenmai.training.strategy import SINGLE
from wenmai.training.tensors import load_model, save_model

EXAMPLES, TOKENS, WIDTH = 24, 7, 5
CLOCK = ("seconds", "seconds_left", "tokens_per_second")


class Killed(BaseException):
    """Stands for the end of the process."""


class PlainJob:
    """What the jobs of tests have alike: a module that is saved, and nothing that is carried over."""

    def save(self, folder):
        save_model(self.module, folder)

    def note(self, means):
        assert list(means) == list(self.loss_weights)

    def carried(self):
        return {}

    def carry(self, tensors):
        assert not tensors


class Toy(PlainJob):
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


def timeless(records):
    return [{name: value for name, value in record.items() if name not in CLOCK} for record in records]


def steps_of(records):
    return [record for record in records if record["kind"] == "step"]


def looks_of(records):
    return [record for record in records if record["kind"] == "evaluation"]
