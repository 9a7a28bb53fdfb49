"""A model takes the parameters of the one that it continues, and new tokens begin as what they are made of."""

import pytest
import torch
from torch import nn

from wenmai.tasks.neural import take_over


class Table(nn.Module):
    """Vectors of tokens, and something whose shape has nothing to do with them."""

    def __init__(self, vocab_size):
        super().__init__()
        self.vocab_size = vocab_size
        self.embedding = nn.Embedding(vocab_size, 3)
        self.layer = nn.Linear(3, 3)


@pytest.mark.parametrize("unused", [0, 1, 2, 3])
def test_a_new_token_begins_as_the_mean_of_its_pieces(unused):
    """Rows of the old model that no token had are left out, as many as there are."""
    old, new = Table(5 + unused), Table(7)
    take_over(new, old, [(1, 2), (5, 4)])  # the second is made of the first and another
    rows, known = new.embedding.weight.detach(), old.embedding.weight.detach()
    assert rows[:5].equal(known[:5])
    torch.testing.assert_close(rows[5], known[[1, 2]].mean(0))
    torch.testing.assert_close(rows[6], (rows[5] + known[4]) / 2)
    assert new.layer.weight.equal(old.layer.weight)


def test_a_token_made_of_nothing_that_is_there_begins_as_the_mean_of_all():
    old, new = Table(5), Table(6)
    take_over(new, old, [()])
    torch.testing.assert_close(new.embedding.weight[5], old.embedding.weight.mean(0))
