"""The fast product of matrices is PyTorch's own, up to rounding."""

import pytest
import torch
import torch.nn.functional as F

from wenmai.nn import linear as module
from wenmai.nn.linear import Linear, linear, transposed_product


@pytest.fixture(autouse=True, params=["mkl", "onednn"])
def library(request, monkeypatch):
    """Both ways, whatever the processor's own is."""
    operator = torch.ops.mkldnn._linear_pointwise if request.param == "onednn" else None
    monkeypatch.setattr(module, "_ONEDNN", operator)


@pytest.mark.parametrize("shape", [(1, 64), (600, 64), (3, 200, 64)])
@pytest.mark.parametrize("biased", [False, True])
def test_the_product_and_its_gradients_are_those_of_pytorch(shape, biased):
    torch.manual_seed(1)
    hidden = torch.randn(shape, requires_grad=True)
    weight = torch.randn(40, 64, requires_grad=True)
    bias = torch.randn(40, requires_grad=True) if biased else None
    tensors = [hidden, weight] + ([bias] if biased else [])
    results = []
    for product in (F.linear, linear):
        output = product(hidden, weight, bias)
        results.append([output, *torch.autograd.grad(output.square().sum(), tensors)])
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-4)


def test_only_what_needs_a_gradient_gets_one():
    hidden, weight = torch.randn(600, 64), torch.randn(40, 64, requires_grad=True)
    linear(hidden, weight).sum().backward()
    assert hidden.grad is None
    torch.testing.assert_close(weight.grad, hidden.sum(0).expand(40, 64), atol=1e-4, rtol=1e-4)
    with torch.inference_mode():
        torch.testing.assert_close(linear(hidden, weight), hidden @ weight.t(), atol=1e-4, rtol=1e-4)


def test_a_bias_may_be_all_that_is_trained():
    hidden, weight, bias = torch.randn(600, 64), torch.randn(40, 64), torch.randn(40, requires_grad=True)
    linear(hidden, weight, bias).sum().backward()
    torch.testing.assert_close(bias.grad, torch.full((40,), 600.0))


def test_rows_may_lie_apart_in_memory():
    wide = torch.randn(600, 3, 64)
    weight = torch.randn(64, 40).t()
    torch.testing.assert_close(linear(wide[:, 1], weight), F.linear(wide[:, 1], weight), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("left", "right"), [(64, 40), (40, 64)])
def test_the_gradient_of_a_weight_is_a_product_over_rows(left, right):
    one, other = torch.randn(600, left), torch.randn(600, right)
    found = transposed_product(one, other)
    torch.testing.assert_close(found, one.t() @ other, atol=1e-3, rtol=1e-4)
    assert found.is_contiguous()


def test_double_precision_and_autocast_take_pytorchs_way():
    hidden, layer = torch.randn(20, 6), Linear(6, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(hidden).dtype is torch.bfloat16
    assert layer.double()(hidden.double()).dtype is torch.float64
    assert torch.autograd.gradcheck(layer, torch.randn(9, 6, dtype=torch.float64, requires_grad=True))
