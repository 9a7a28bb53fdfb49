"""A model takes the parameters of the one that it continues, and a job says what of it is trained."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from wenmai.tasks.neural import NeuralJob, take_over
from wenmai.training.settings import LoopConfig


class Table(nn.Module):
    """Vectors of tokens, and something whose shape has nothing to do with them."""

    def __init__(self, vocab_size):
        super().__init__()
        self.vocab_size = vocab_size
        self.embedding = nn.Embedding(vocab_size, 3)
        self.layer = nn.Linear(3, 3)


@pytest.mark.parametrize("unused", [0, 1, 2, 3])
def test_a_new_token_begins_as_the_mean_of_its_pieces(unused):
    """Rows of the old model that no token had are left out, as many as there are."""
    old, new = Table(5 + unused), Table(7)
    take_over(new, old, [(1, 2), (5, 4)])  # the second is made of the first and another
    rows, known = new.embedding.weight.detach(), old.embedding.weight.detach()
    assert rows[:5].equal(known[:5])
    torch.testing.assert_close(rows[5], known[[1, 2]].mean(0))
    torch.testing.assert_close(rows[6], (rows[5] + known[4]) / 2)
    assert new.layer.weight.equal(old.layer.weight)


def test_a_token_made_of_nothing_that_is_there_begins_as_the_mean_of_all():
    old, new = Table(5), Table(6)
    take_over(new, old, [()])
    torch.testing.assert_close(new.embedding.weight[5], old.embedding.weight.mean(0))


class HeadJob(NeuralJob):
    """Trains a layer from the second epoch on, and no vectors."""

    objective_name = "nothing"
    best_by = "f1"

    def plan(self, epoch):
        return []

    def loss(self, module, batch, step):
        raise NotImplementedError

    def evaluate(self):
        return {}

    def facts(self):
        return {}

    def rate_share(self, name, epoch):
        return float(name.startswith("layer") and epoch >= 1)


def test_a_summary_says_how_much_is_trained_and_what_was_best():
    model = SimpleNamespace(module=Table(5))
    job = HeadJob(SimpleNamespace(sections={"train": LoopConfig(epochs=2)}), model)
    job.state.best = 0.75
    found = job.summary()
    assert (found["parameters"], found["trained_parameters"], found["best_validation_f1"]) == (15 + 12, 12, 0.75)
    assert "best_validation_loss" not in found
    model.module.layer.bias.requires_grad_(False)
    assert job.trained_parameters == 9
    job.rate_share = lambda name, epoch: 1.0
    model.module.requires_grad_(True)
    assert "trained_parameters" not in job.summary()
