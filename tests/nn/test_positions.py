"""Positions: the sinusoid's values, its continuation, and the end of what was learned."""

import math

import pytest
import torch

from wenmai.nn.positions import Learned, Sinusoidal, make_positions, sinusoid


def test_the_sinusoid_has_the_layout_of_the_paper():
    expected = torch.tensor([[0, 1, 0, 1], [0.841471, 0.540302, 0.01, 0.99995]])
    torch.testing.assert_close(sinusoid(torch.arange(2), 4), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("size", [5, 6])
def test_the_sinusoid_is_its_formula_for_odd_sizes_too(size):
    table = torch.zeros(9, size)
    for position in range(9):
        for column in range(size):
            angle = position / 10000 ** (2 * (column // 2) / size)
            table[position, column] = math.cos(angle) if column % 2 else math.sin(angle)
    torch.testing.assert_close(sinusoid(torch.arange(9), size), table)


def test_positions_beyond_the_table_continue_it():
    short, long = Sinusoidal(6, 4), Sinusoidal(6, 40)
    torch.testing.assert_close(short(2, 30), long(2, 30))
    torch.testing.assert_close(short(1, 3), long(1, 3))
    assert not list(short.state_dict())


def test_learned_positions_end():
    positions = Learned(6, 4)
    assert positions(1, 3).equal(positions.weight[1:4])
    with pytest.raises(ValueError, match="position 5 was asked for; 4 were learned"):
        positions(4, 1)


def test_positions_are_made_by_name():
    assert make_positions("none", 6, 4)(0, 3) is None
    assert isinstance(make_positions("learned", 6, 4), Learned)
    assert isinstance(make_positions("sinusoidal", 6, 4), Sinusoidal)
    with pytest.raises(ValueError, match="no positions are called 'rotary'"):
        make_positions("rotary", 6, 4)
