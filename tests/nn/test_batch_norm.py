"""Batch norm is PyTorch's where nothing is padded, and padding changes nothing."""

import pytest
import torch
from torch import nn

from wenmai.nn.batch_norm import BatchNorm


@pytest.fixture
def norms():
    torch.manual_seed(1)
    ours, theirs = BatchNorm(5), nn.BatchNorm1d(5)
    for norm in (ours, theirs):
        nn.init.constant_(norm.weight, 1.7)
        nn.init.constant_(norm.bias, -0.3)
    return ours, theirs


def test_it_is_that_of_torch_in_training_and_in_evaluation(norms):
    ours, theirs = norms
    valid = torch.ones(3, 4, dtype=torch.bool)
    for _ in range(3):
        hidden = torch.randn(3, 4, 5) * 2 + 1
        one, other = hidden.clone().requires_grad_(), hidden.clone().requires_grad_()
        found, expected = ours(one, valid), theirs(other.flatten(0, 1)).view(3, 4, 5)
        torch.testing.assert_close(found, expected)
        outer = torch.randn(3, 4, 5)
        found.backward(outer)
        expected.backward(outer)
        torch.testing.assert_close(one.grad, other.grad, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_variance, theirs.running_var)
    torch.testing.assert_close(ours.eval()(hidden, valid), theirs.eval()(hidden.flatten(0, 1)).view(3, 4, 5))


def test_padding_changes_nothing_and_stays_zero(norms):
    ours, theirs = norms
    hidden, valid = torch.randn(2, 6, 5), torch.ones(2, 6, dtype=torch.bool)
    valid[1, 2:] = False
    expected = theirs(hidden[valid])
    for rubbish in (0.0, 1e6):
        found = ours(hidden.masked_fill(~valid[..., None], rubbish), valid)
        torch.testing.assert_close(found[valid], expected)
        assert not found[~valid].any()


def test_one_token_has_no_variance():
    norm, valid = BatchNorm(5), torch.tensor([[True, False]])
    with pytest.raises(ValueError, match="two tokens or more, found 1"):
        norm(torch.randn(1, 2, 5), valid)
    assert norm.eval()(torch.randn(1, 2, 5), valid).shape == (1, 2, 5)
