"""Dropout keeps the expectation, repeats its mask in the gradient, and follows torch's seed."""

import pytest
import torch

from wenmai.nn.dropout import Dropout, dropout


@pytest.mark.parametrize("probability", [0.1, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_share_that_is_dropped_and_the_mean_are_right(probability, dtype):
    torch.manual_seed(1)
    ones = torch.ones(400, 501, dtype=dtype)
    found = dropout(ones, probability)
    assert found.dtype == dtype
    assert float((found == 0).float().mean()) == pytest.approx(probability, abs=0.005)
    assert float(found.double().mean()) == pytest.approx(1, abs=0.02 + probability / 50)
    kept = found[found != 0].double()
    assert float(kept.max() - kept.min()) == 0  # one scale for all


def test_hardly_anything_may_be_kept():
    torch.manual_seed(1)
    found = dropout(torch.ones(64, 1024), 0.999)
    assert 0 < int((found != 0).sum()) < 0.01 * found.numel()
    assert float(found.max()) == 256


def test_rows_columns_and_neighbours_are_independent():
    torch.manual_seed(2)
    kept = (dropout(torch.ones(512, 512), 0.5) != 0).double() - 0.5
    for one, other in ((kept[:, 1:], kept[:, :-1]), (kept[1:], kept[:-1]), (kept[:, 8:], kept[:, :-8])):
        assert abs(float((one * other).mean())) < 0.005
    assert float(kept.mean(0).abs().max()) < 0.12


def test_the_gradient_has_the_mask_and_the_scale_of_the_values():
    torch.manual_seed(3)
    hidden = torch.randn(13, 7, requires_grad=True)  # no multiple of eight
    found = dropout(hidden, 0.4)
    factor = (found / hidden).detach()
    (gradient,) = torch.autograd.grad(found, hidden, outer := torch.randn(13, 7))
    torch.testing.assert_close(gradient, factor * outer)


def test_a_seed_decides_the_mask():
    ones = torch.ones(64, 64)

    def drawn(seed):
        torch.manual_seed(seed)
        return dropout(ones, 0.5)

    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))


def test_zero_drops_nothing_and_a_tiny_probability_something():
    ones = torch.ones(300, 300)
    assert dropout(ones, 0.0) is ones
    assert (dropout(ones, 1e-6) == 0).any()
    assert dropout(torch.ones(0, 4), 0.5).shape == (0, 4)


def test_the_module_drops_while_training_only():
    layer, ones = Dropout(0.5), torch.ones(100)
    assert (layer(ones) == 0).any()
    assert layer.eval()(ones) is ones
