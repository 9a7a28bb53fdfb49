"""The losses of relations against naive twins, and their gradients."""

import math

import pytest
import torch
from torch.autograd import gradcheck

from wenmai.objectives.relations import adaptive_threshold_loss, binary_loss

P, C = 7, 5


@pytest.fixture(params=range(3))
def drawn(request):
    """Logits and gold; the first pair has no relation, the last has all."""
    draw = torch.Generator().manual_seed(request.param)
    logits = 3 * torch.randn(P, C, generator=draw, dtype=torch.float64)
    gold = (torch.rand(P, C, generator=draw) < 0.4).double()
    gold[0], gold[-1] = 0, 1
    gold[:, 0] = (gold[:, 1:].sum(1) == 0).double()
    return logits, gold


def softplus(x):
    return math.log1p(math.exp(x))


def test_binary_loss_by_pair_and_class(drawn):
    logits, gold = drawn
    total = 0.0
    for row, right in zip(logits.tolist(), gold.tolist(), strict=True):
        total += sum(softplus(-score) if yes else softplus(score) for score, yes in zip(row, right, strict=True)) / C
    assert float(binary_loss(logits, gold)) == pytest.approx(total / P)


def naive_adaptive(logits, gold):
    """Zhou et al. 2021, eq. 4 to 6: TH is class 0, P_T the relations that there are, N_T the others."""
    total = 0.0
    for row, right in zip(logits.tolist(), gold.tolist(), strict=True):
        positive = [c for c in range(1, C) if right[c]]
        negative = [c for c in range(1, C) if not right[c]]
        above = sum(math.exp(row[c]) for c in [*positive, 0])
        below = sum(math.exp(row[c]) for c in [*negative, 0])
        total -= sum(math.log(math.exp(row[r]) / above) for r in positive)
        total -= math.log(math.exp(row[0]) / below)
    return total / P


def test_adaptive_loss_by_pair(drawn):
    logits, gold = drawn
    expected = naive_adaptive(logits, gold)
    assert float(adaptive_threshold_loss(logits, gold)) == pytest.approx(expected)
    other = gold.clone()
    other[:, 0] = 1 - other[:, 0]  # which is not looked at, nor changed
    kept = other.clone()
    assert float(adaptive_threshold_loss(logits, other)) == pytest.approx(expected)
    assert torch.equal(other, kept)


@pytest.mark.parametrize("loss", [binary_loss, adaptive_threshold_loss])
def test_gradients(loss, drawn):
    logits, gold = drawn
    assert gradcheck(lambda scores: loss(scores, gold), logits.requires_grad_())


@pytest.mark.parametrize("loss", [binary_loss, adaptive_threshold_loss])
def test_large_scores_are_no_infinity(loss):
    logits = torch.tensor([[0.0, 500.0, -500.0], [0.0, -500.0, 500.0]], requires_grad=True)
    gold = torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    found = loss(logits, gold)
    found.backward()
    assert found.isfinite()
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("loss", [binary_loss, adaptive_threshold_loss])
def test_no_pair_is_no_loss(loss):
    logits = torch.zeros(0, C, requires_grad=True)
    found = loss(logits, torch.zeros(0, C))
    found.backward()
    assert float(found.detach()) == 0
    assert logits.grad.shape == (0, C)


def test_adaptive_loss_puts_relations_above_the_threshold():
    gold = torch.tensor([[0.0, 1.0, 1.0, 0.0]])
    good, bad = torch.tensor([[0.0, 9.0, 9.0, -9.0]]), torch.tensor([[0.0, 9.0, -9.0, -9.0]])
    # Two relations share the probability, so the loss does not go to 0 with several of them.
    assert float(adaptive_threshold_loss(good, gold)) == pytest.approx(2 * math.log(2), abs=1e-3)
    assert float(adaptive_threshold_loss(bad, gold)) > 10
