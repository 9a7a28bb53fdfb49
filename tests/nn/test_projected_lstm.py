"""LSTM layers with projection: the gradients of a segment are those of its steps."""

import pytest
import torch

from wenmai.nn.projected_lstm import ProjectedLstm

B, T, SIZE, CELL = 3, 5, 4, 6


@pytest.mark.parametrize("clips", [(None, None), (0.5, 0.2), (None, 0.2)])
def test_gradients_are_those_of_torch(clips):
    torch.manual_seed(1)
    layer = ProjectedLstm(SIZE, CELL, SIZE, cell_clip=clips[0], output_clip=clips[1]).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    inputs = torch.randn(B, T, SIZE, dtype=torch.float64, requires_grad=True)
    state = (0.3 * torch.randn(B, layer.state_size, dtype=torch.float64)).requires_grad_()

    def run(*tensors):
        return layer(tensors[0], tensors[1])

    torch.autograd.gradcheck(run, (inputs, state, *layer.parameters()))
    with torch.no_grad():
        plain = run(inputs, state)
    for one, other in zip(run(inputs, state), plain, strict=True):
        assert torch.equal(one, other)
    if clips[1] is not None:
        assert (plain[0].abs() == clips[1]).any()


def test_the_state_goes_on():
    torch.manual_seed(2)
    layer = ProjectedLstm(SIZE, CELL, SIZE, cell_clip=3.0)
    inputs, state = torch.randn(B, T, SIZE), torch.zeros(B, layer.state_size)
    whole, last = layer(inputs, state)
    first, between = layer(inputs[:, :2], state)
    second, end = layer(inputs[:, 2:], between)
    torch.testing.assert_close(torch.cat((first, second), 1), whole)
    torch.testing.assert_close(end, last)
