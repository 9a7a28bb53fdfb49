"""Gated convolutions: the equation place by place, and padding that never matters."""

import math

import pytest
import torch

from wenmai.nn.convolution import ConvolutionEncoder

LENGTHS = (4, 1, 5)


def batch(extra=0):
    torch.manual_seed(3)
    mask = torch.arange(5 + extra) < torch.tensor(LENGTHS)[:, None]
    return torch.randn(3, 5 + extra, 3, dtype=torch.float64), mask


def encoder(**options):
    torch.manual_seed(5)
    options = {"input_size": 3, "hidden_size": 4, "num_layers": 2} | options
    return ConvolutionEncoder(**options).double()


@pytest.mark.parametrize("kernel_size", [1, 2, 3, 4])
def test_a_padded_batch_equals_the_equation_place_by_place(kernel_size):
    made = encoder(kernel_size=kernel_size)
    inputs, mask = batch()
    outputs = made(inputs, mask)
    left = (kernel_size - 1) // 2
    for row, length in enumerate(LENGTHS):
        hidden = [made.enter.weight @ x + made.enter.bias for x in inputs[row, :length]]
        for layer in made.layers:
            update = []
            for place in range(length):
                both = layer.bias.clone()
                for tap in range(kernel_size):
                    if 0 <= (near := place + tap - left) < length:
                        both = both + layer.weight[:, :, tap] @ hidden[near]
                update.append(both[:4] * torch.sigmoid(both[4:]))
            hidden = [(x + u) * math.sqrt(0.5) for x, u in zip(hidden, update, strict=True)]
        torch.testing.assert_close(outputs[row, :length], torch.stack(hidden))
        assert not outputs[row, length:].any()


def test_padding_changes_nothing_and_gets_no_gradient():
    made = encoder(num_layers=3)
    inputs, mask = batch()
    longer = torch.cat((inputs, inputs.new_full((3, 4, 3), 1e3)), 1)
    longer[:, :5][~mask] = -77.0
    longer.requires_grad_()
    outputs = made(longer, torch.cat((mask, mask.new_zeros(3, 4)), 1))
    torch.testing.assert_close(outputs[:, :5], made(inputs, mask))
    outputs.square().sum().backward()
    assert longer.grad[:, :5][mask].any(-1).all()
    assert not longer.grad[:, :5][~mask].any()
    assert not longer.grad[:, 5:].any()


def test_each_layer_sees_one_more_token_to_each_side():
    made = encoder(num_layers=2)
    inputs = torch.randn(1, 9, 3, dtype=torch.float64, requires_grad=True)
    made(inputs, torch.ones(1, 9, dtype=torch.bool))[0, 4].sum().backward()
    assert inputs.grad[0].any(-1).tolist() == [False, False, True, True, True, True, True, False, False]


def test_signals_neither_die_nor_explode_over_many_layers():
    torch.manual_seed(1)
    made = ConvolutionEncoder(input_size=64, hidden_size=64, num_layers=8)
    torch.nn.init.eye_(made.enter.weight)
    outputs = made(torch.randn(8, 64, 64), torch.ones(8, 64, dtype=torch.bool))
    assert 0.3 < outputs[:, 16:48].var() < 10


def test_dropout_works_in_training_only():
    made, (inputs, mask) = encoder(dropout=0.5), batch()
    assert not torch.equal(made(inputs, mask), made(inputs, mask))
    made.eval()
    torch.testing.assert_close(made(inputs, mask), made(inputs, mask))
