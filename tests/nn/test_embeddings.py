"""Embeddings: the sum of several tables, and positions."""

import math

import pytest
import torch

from wenmai.nn.embeddings import Embeddings, Learned, Sinusoidal, make_positions, sinusoid


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


def test_a_sum_of_four_tables_is_normed_and_dropped():
    """As BERT and ERNIE 2.0 have it: token, position, segment and task."""
    torch.manual_seed(1)
    tables = {name: Learned(4, rows).double() for name, rows in (("position", 6), ("segment", 2), ("task", 3))}
    tokens, norm = torch.nn.Embedding(9, 4).double(), torch.nn.LayerNorm(4).double()
    torch.nn.init.normal_(norm.weight)
    embeddings = Embeddings(norm=norm, dropout=0.5)
    ids, segments, task = torch.randint(0, 9, (2, 5)), torch.randint(0, 2, (2, 5)), torch.tensor(2)

    def run():
        return embeddings(
            tokens(ids),
            position=tables["position"](0, 5),
            segment=tables["segment"].at(segments),
            task=tables["task"].at(task),
        )

    dropped, found = run(), embeddings.eval() and run()
    for row in range(2):
        for t in range(5):
            x = tokens.weight[ids[row, t]] + tables["position"].weight[t]
            x = x + tables["segment"].weight[segments[row, t]] + tables["task"].weight[2]
            x = (x - x.mean()) / ((x - x.mean()).square().mean() + norm.eps).sqrt()
            torch.testing.assert_close(found[row, t], norm.weight * x + norm.bias)
    kept = dropped != 0
    assert 5 < int(kept.sum()) < 35
    torch.testing.assert_close(dropped[kept], 2 * found[kept])


def test_a_scale_is_that_of_tokens_alone():
    token, position = torch.randn(2, 3, 4), torch.randn(3, 4)
    embeddings = Embeddings(scale=3.0)
    torch.testing.assert_close(embeddings(token, position=position), 3 * token + position)
    assert torch.equal(embeddings(token, position=None), 3 * token)
