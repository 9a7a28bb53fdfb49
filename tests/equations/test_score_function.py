"""The gradient of sampled attention against that of the expected loss, over all that can be drawn."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from wenmai.models.seq2seq import Seq2Seq, Seq2SeqConfig
from wenmai.nn.stepwise_attention import SampledAttention
from wenmai.objectives.score_function import score_function

SOURCE, TARGET = 3, 2


class Scripted(SampledAttention):
    """Draws what it is told: for each step the number of a token, or none for the expectation."""

    script = ()

    def draw(self, weights):
        token = self.script[self.step]
        self.step += 1
        drawn = F.one_hot(torch.full(weights.shape[:2], token or 0), weights.shape[-1]).to(weights)
        self.probs.append(0.5 if token is None else 0.5 * float(weights[0, 0, token]))
        return drawn, torch.full(weights.shape[:2], token is None)

    def run(self, script):
        self.script, self.step, self.probs = script, 0, []


def model(attention):
    torch.manual_seed(3)
    config = Seq2SeqConfig(embedding_size=2, hidden_size=4, dropout=0.0, selection="sampled", attention=attention)
    made = Seq2Seq(config, source_vocab_size=5, target_vocab_size=4, tied_sources=False).double()
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.8)
    made.decoder.attention.__class__ = Scripted
    return made


def sentence():
    torch.manual_seed(4)
    valid = torch.ones(1, SOURCE, dtype=torch.bool)
    return torch.randint(5, (1, SOURCE)), valid, torch.randint(4, (1, TARGET)), torch.randint(4, (1, TARGET))


def gradients(made, loss):
    found = torch.autograd.grad(loss, list(made.parameters()), allow_unused=True, retain_graph=True)
    return [torch.zeros_like(one) if part is None else part for one, part in zip(made.parameters(), found, strict=True)]


@pytest.mark.parametrize("baseline", [0.0, -1.3])
@pytest.mark.parametrize("attention", ["bahdanau", "luong"])
def test_its_expectation_is_the_gradient_of_the_expected_loss(attention, baseline):
    made, (source, valid, fed, wanted) = model(attention), sentence()
    expected_loss, total, estimate = 0.0, 0.0, None
    for script in itertools.product((None, *range(SOURCE)), repeat=TARGET):
        made.decoder.attention.run(script)
        choices = []
        log_probs = made.logits(made(source, valid, fed, choices=choices)).log_softmax(-1)
        log_probs = log_probs.gather(2, wanted[..., None])[..., 0]
        (choice,) = choices
        prob = math.prod(made.decoder.attention.probs)
        total += prob
        # P(script) with its gradient: half, and for a draw the probability of the token
        expected_loss = expected_loss + 0.5**TARGET * choice.log_probs.sum().exp() * -log_probs.sum()
        real = torch.ones_like(wanted, dtype=torch.bool)
        term = score_function(*choice, log_probs, real, baseline=baseline, entropy_weight=0.0)
        assert term == 0
        found = gradients(made, -log_probs.sum() + term)
        estimate = [prob * part + (0 if estimate is None else estimate[k]) for k, part in enumerate(found)]
    assert total == pytest.approx(1.0)
    for found, exact in zip(estimate, gradients(made, expected_loss), strict=True):
        torch.testing.assert_close(found, exact, atol=1e-10, rtol=1e-8)


def test_it_is_the_sum_of_the_formula_for_the_targets_that_are_real():
    torch.manual_seed(2)
    draws, entropies, log_probs = (torch.randn(2, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    real = torch.tensor([[True] * 4, [True, True, False, False]])
    score_function(draws, entropies, log_probs, real, baseline=0.5, entropy_weight=0.25).backward()
    for row, length in enumerate((4, 2)):
        for step in range(4):
            reward = sum(log_probs[row, later].item() - 0.5 for later in range(step, length))
            inside = step < length
            assert draws.grad[row, step].item() == pytest.approx(-reward if inside else 0.0)
            assert entropies.grad[row, step].item() == (-0.25 if inside else 0.0)
    assert log_probs.grad is None
