"""Draws of words, and the loss over them."""

import math
from collections import Counter

import numpy as np
import pytest
import torch

from wenmai.nn.softmax import Softmax
from wenmai.objectives.language import next_token_loss
from wenmai.objectives.sampled import expected_counts, log_uniform_draw, sampled_loss

V, WIDTH, ROWS = 12, 5, 7


def problem():
    torch.manual_seed(3)
    output = Softmax(V, WIDTH, bias=True).double()
    torch.nn.init.normal_(output.weight)
    torch.nn.init.normal_(output.bias)
    return output, torch.randn(ROWS, WIDTH, dtype=torch.float64, requires_grad=True), torch.randint(0, V, (ROWS,))


def test_words_are_drawn_as_often_as_the_law_says():
    random = np.random.default_rng(1)
    firsts, kept = Counter(), Counter()
    expected = np.zeros(V)
    draws = 3000
    for _ in range(draws):
        one = log_uniform_draw(V, 1, random)
        assert one.tries == 1
        firsts.update(one.words.tolist())
        drawn = log_uniform_draw(V, 5, random)
        assert len({*drawn.words.tolist()}) == 5 <= drawn.tries
        kept.update(drawn.words.tolist())
        expected += expected_counts(torch.arange(V), V, drawn.tries).numpy()
    probability = [math.log((k + 2) / (k + 1)) / math.log(V + 1) for k in range(V)]
    assert sum(probability) == pytest.approx(1)
    np.testing.assert_allclose([firsts[k] / draws for k in range(V)], probability, atol=0.02)
    np.testing.assert_allclose([kept[k] / draws for k in range(V)], expected / draws, atol=0.05)


def test_the_drawn_words_stand_for_all_in_the_mean():
    """The mean of Σ exp(corrected logit) over the drawn words is Σ exp(logit) over all, for draws by single tries."""
    output, hidden, _ = problem()
    logits = output(hidden).detach().numpy()
    random = np.random.default_rng(2)
    sums = np.zeros(ROWS)
    draws = 2000
    for _ in range(draws):
        word = int(log_uniform_draw(V, 1, random).words[0])
        sums += np.exp(logits[:, word]) / expected_counts(torch.tensor([word]), V, 1).numpy()
    np.testing.assert_allclose(sums / draws, np.exp(logits).sum(1), rtol=0.15)


def test_the_loss_is_that_of_its_definition():
    output, hidden, targets = problem()
    drawn = log_uniform_draw(V, 6, np.random.default_rng(4))
    found = sampled_loss(output, hidden, targets, drawn)
    counts = expected_counts(torch.arange(V), V, drawn.tries).numpy()
    logits = output(hidden).detach().numpy() - np.log(counts)
    expected = 0.0
    for row, target in enumerate(targets.tolist()):
        others = [word for word in drawn.words.tolist() if word != target]
        expected += np.log(np.exp(logits[row, [target, *others]]).sum()) - logits[row, target]
    assert float(found.nll) == pytest.approx(expected, rel=1e-6)
    assert found.targets == ROWS
    found.total.backward()
    assert hidden.grad.abs().sum() > 0


def test_with_nearly_all_words_it_is_nearly_the_full_loss():
    torch.manual_seed(5)
    output = Softmax(40, WIDTH, bias=True).double()
    hidden, targets = torch.randn(ROWS, WIDTH).double(), torch.randint(0, 40, (ROWS,))
    full = float(next_token_loss(output, hidden, targets).nll)
    random = np.random.default_rng(6)
    found = [float(sampled_loss(output, hidden, targets, log_uniform_draw(40, 39, random)).nll) for _ in range(20)]
    assert np.mean(found) == pytest.approx(full, rel=0.02)


@pytest.mark.parametrize("number", [0, V, V + 1])
def test_more_words_than_there_are_cannot_be_drawn(number):
    with pytest.raises(ValueError, match="cannot be drawn"):
        log_uniform_draw(V, number, np.random.default_rng(1))
