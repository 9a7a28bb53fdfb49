"""Cross-entropy over a vocabulary equals torch's own, in value and gradients, however it is cut in blocks."""

import math

import pytest
import torch
import torch.nn.functional as F

from wenmai.objectives import language
from wenmai.objectives.language import cross_entropy

VOCAB, WIDTH, ROWS = 11, 6, 17


def problem(dtype=torch.float32, rows=ROWS, bias=True):
    torch.manual_seed(5)
    hidden = torch.randn(rows, WIDTH, dtype=dtype, requires_grad=True)
    weight = torch.randn(VOCAB, WIDTH, dtype=dtype, requires_grad=True)
    shift = torch.randn(VOCAB, dtype=dtype, requires_grad=True) if bias else None
    return hidden, weight, shift, torch.randint(0, VOCAB, (rows,))


def gradients(total, *tensors):
    return torch.autograd.grad(total, [tensor for tensor in tensors if tensor is not None])


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("group", "block"), [(1, 1), (5 * VOCAB, 20), (1 << 21, 40), (1 << 21, 1 << 21)])
def test_value_and_gradients_equal_those_of_torch(group, block, bias, smoothing, monkeypatch):
    monkeypatch.setattr(language, "_GROUP_NUMBERS", group)
    monkeypatch.setattr(language, "_BLOCK_NUMBERS", block)
    hidden, weight, shift, targets = problem(torch.float64, bias=bias)
    found = cross_entropy(hidden, weight, shift, targets, label_smoothing=smoothing)
    logits = F.linear(hidden, weight, shift)
    expected = F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)
    torch.testing.assert_close(found.total, expected)
    torch.testing.assert_close(found.nll, F.cross_entropy(logits, targets, reduction="sum").detach())
    assert found.targets == ROWS
    assert not found.nll.requires_grad
    ours, theirs = gradients(found.total, hidden, weight, shift), gradients(expected, hidden, weight, shift)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_gradients_are_those_of_differences(smoothing):
    hidden, weight, shift, targets = problem(torch.float64, rows=3)
    assert torch.autograd.gradcheck(
        lambda *inputs: 3.5 * cross_entropy(*inputs, targets, label_smoothing=smoothing).total, (hidden, weight, shift)
    )


def test_the_true_token_has_its_share_of_the_smoothing():
    """Szegedy et al. 2016, sec. 7, for V = 5 and 0.1: 0.92 for the target and 0.02 for each other token."""
    logits = torch.tensor([[0.3, -1.0, 2.0, 0.5, 0.0]])
    found = cross_entropy(torch.eye(1), logits.T.contiguous(), None, torch.tensor([2]), label_smoothing=0.1)
    weights = torch.tensor([0.02, 0.02, 0.92, 0.02, 0.02])
    assert float(found.total.detach()) == pytest.approx(float(-(weights * logits.log_softmax(1)[0]).sum()), rel=1e-6)


def test_a_padded_batch_costs_what_its_sentences_cost_alone():
    torch.manual_seed(1)
    hidden, weight = torch.randn(4, 6, WIDTH), torch.randn(VOCAB, WIDTH)
    targets = torch.randint(0, VOCAB, (4, 6))
    real = torch.arange(6) < torch.tensor([6, 1, 3, 4])[:, None]
    together = cross_entropy(hidden[real], weight, None, targets[real], label_smoothing=0.1)
    alone = [
        cross_entropy(hidden[row][real[row]], weight, None, targets[row][real[row]], label_smoothing=0.1)
        for row in range(4)
    ]
    assert float(together.total.detach()) == pytest.approx(
        math.fsum(float(loss.total.detach()) for loss in alone), rel=1e-6
    )
    assert float(together.nll) == pytest.approx(math.fsum(float(loss.nll) for loss in alone), rel=1e-6)
    assert together.targets == sum(loss.targets for loss in alone) == 14


@pytest.mark.parametrize("bias", [True, False])
def test_no_target_costs_nothing(bias):
    hidden, weight, shift, targets = problem(rows=0, bias=bias)
    found = cross_entropy(hidden, weight, shift, targets, label_smoothing=0.1)
    assert (float(found.total.detach()), float(found.nll), found.targets) == (0, 0, 0)
    for gradient in gradients(found.total, hidden, weight, shift):
        assert not gradient.any()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_half_precision_is_close_and_gives_gradients_of_the_type_of_the_weights(smoothing):
    hidden, weight, shift, targets = problem()
    exact = cross_entropy(hidden, weight, shift, targets, label_smoothing=smoothing)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = cross_entropy(hidden, weight, shift, targets, label_smoothing=smoothing)
        from_half = cross_entropy(hidden.bfloat16(), weight, shift, targets, label_smoothing=smoothing)
    for found in (half, from_half):
        assert float(found.total.detach()) == pytest.approx(float(exact.total.detach()), rel=2e-2)
    for one, other in zip(
        gradients(half.total, hidden, weight, shift), gradients(exact.total, hidden, weight, shift), strict=True
    ):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one, other, atol=0.1, rtol=0.05)


def test_rows_of_half_precision_are_padded_without_a_trace():
    hidden, weight, shift, targets = problem(rows=language._ROWS + 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        whole = cross_entropy(hidden, weight, shift, targets, label_smoothing=0.1)
        parts = [
            cross_entropy(hidden[rows], weight, shift, targets[rows], label_smoothing=0.1)
            for rows in (slice(language._ROWS), slice(language._ROWS, None))
        ]
    assert float(whole.nll) == pytest.approx(sum(float(part.nll) for part in parts), rel=1e-6)
    together, apart = whole.total, parts[0].total + parts[1].total
    assert float(together.detach()) == pytest.approx(float(apart.detach()), rel=1e-6)
    for one, other in zip(
        gradients(together, hidden, weight, shift), gradients(apart, hidden, weight, shift), strict=True
    ):
        torch.testing.assert_close(one, other, atol=0.02, rtol=0.02)


def test_a_loss_over_many_tokens_keeps_its_digits():
    torch.manual_seed(2)
    rows = 200_000
    hidden, weight = torch.randn(rows, 1), torch.randn(3, 1)
    targets = torch.randint(0, 3, (rows,))
    found = cross_entropy(hidden, weight, None, targets, label_smoothing=0.1)
    expected = F.cross_entropy(
        F.linear(hidden.double(), weight.double()), targets, reduction="sum", label_smoothing=0.1
    )
    assert float(found.total.detach()) == pytest.approx(float(expected), rel=1e-7)


def test_many_rows_are_cut_in_groups_whatever_the_vocabulary(monkeypatch):
    hidden, weight, shift, targets = problem(torch.float64)
    whole = cross_entropy(hidden, weight, shift, targets)
    monkeypatch.setattr(language, "_GROUP_ROWS", 4)
    cut = cross_entropy(hidden, weight, shift, targets)
    torch.testing.assert_close(cut.total, whole.total)
    for one, other in zip(gradients(cut.total, hidden, weight), gradients(whole.total, hidden, weight), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("block", [1, 1 << 21])
def test_logits_far_apart_overflow_nothing(block, monkeypatch):
    monkeypatch.setattr(language, "_BLOCK_NUMBERS", block)
    hidden = torch.tensor([[1.0], [-1.0]], requires_grad=True)
    weight = torch.tensor([[500.0], [-500.0], [0.0]], requires_grad=True)
    for targets, expected in ((torch.tensor([0, 1]), 0.0), (torch.tensor([1, 0]), 2000.0)):
        found = cross_entropy(hidden, weight, None, targets)
        assert float(found.total.detach()) == expected
        assert all(gradient.isfinite().all() for gradient in gradients(found.total, hidden, weight))


def test_without_gradients_nothing_is_kept(monkeypatch):
    monkeypatch.setattr(language, "transposed_product", None)  # of the gradient of W
    hidden, weight, shift, targets = problem()
    with torch.no_grad():
        found = cross_entropy(hidden, weight, shift, targets)
    assert not found.total.requires_grad
    frozen = cross_entropy(hidden.detach(), weight.detach(), None, targets)
    assert not frozen.total.requires_grad
