"""Embeddings: the input of a network, a sum of one vector from each of several tables.

| table | models |
|---|---|
| token | all |
| position: sinusoidal, learned, or none | Transformer; GPT and BERT: learned |
| segment | BERT |
| task | ERNIE 2.0 |

The tables belong to the model, under the names in its checkpoints; :class:`Embeddings` adds the vectors looked up in
them.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wenmai.nn.dropout import dropout

__all__ = ["Embeddings", "Learned", "PositionName", "Positions", "Sinusoidal", "make_positions", "sinusoid"]

PositionName = Literal["sinusoidal", "learned", "none"]


class Embeddings(nn.Module):
    """dropout(norm(scale·E[x] + Σ others)) at each position.

    Args:
        scale: Of the vectors of tokens; √M in the Transformer (Vaswani et al. 2017, section 3.4).
        norm: Of the sum, as in BERT; none: no norm.
        dropout: While training.
    """

    def __init__(self, *, scale: float = 1.0, norm: nn.LayerNorm | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        self.scale = scale
        self.norm = norm
        self.dropout = dropout

    def forward(self, token: Tensor, **others: Tensor | None) -> Tensor:
        """Adds the vectors.

        Args:
            token: (B, T, M), the vectors of the tokens.
            others: From each other table by its name, (B, T, M) or what broadcasts to it; None: nothing.

        Returns:
            (B, T, M).
        """
        added = [vectors for vectors in others.values() if vectors is not None]
        hidden = torch.add(added[0], token, alpha=self.scale) if added else token * self.scale
        for vectors in added[1:]:
            hidden = hidden + vectors
        if self.norm is not None:
            hidden = self.norm(hidden)
        return dropout(hidden, self.dropout) if self.training else hidden


def sinusoid(positions: Tensor, size: int) -> Tensor:
    """PE[p, 2i] = sin(p / 10000^(2i/size)), PE[p, 2i+1] = cos of the same (Vaswani et al. 2017, section 3.5).

    Args:
        positions: (T,) any numbers.
        size: Columns; an odd size ends with a sine.

    Returns:
        (T, size) float32.
    """
    if positions.is_meta:  # shapes alone
        return torch.empty(len(positions), size)
    even = torch.arange(0, size, 2, device=positions.device, dtype=torch.float64)
    angles = positions.to(torch.float64)[:, None] * 10000.0 ** (-even / size)  # float64: exact far out
    table = torch.stack((angles.sin(), angles.cos()), dim=-1)  # (T, size/2, 2)
    return table.flatten(1)[:, :size].float()


class Positions(nn.Module):
    """No positions; base of the others. ``positions(first, length) -> (length, M)`` or None."""

    def forward(self, first: int, length: int) -> Tensor | None:
        """Returns the vectors of positions ``first`` to ``first + length - 1``, or None for none at all."""
        return None


class Sinusoidal(Positions):
    """Fixed sinusoids; those beyond ``max_length`` are computed when they are asked for."""

    table: Tensor

    def __init__(self, hidden_size: int, max_length: int) -> None:
        super().__init__()
        self.register_buffer("table", sinusoid(torch.arange(max_length), hidden_size), persistent=False)

    def forward(self, first: int, length: int) -> Tensor:
        """Returns (length, M)."""
        table = self.table
        if first + length <= table.shape[0]:
            return table[first : first + length]
        positions = torch.arange(first, first + length, device=table.device)
        return sinusoid(positions, table.shape[1]).to(table.dtype)


class Learned(Positions):
    """One learned vector for each of ``max_length`` positions, segments or tasks, N(0, 0.02²) at the start."""

    def __init__(self, hidden_size: int, max_length: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_length, hidden_size).normal_(std=0.02))

    def forward(self, first: int, length: int) -> Tensor:
        """Returns (length, M).

        Raises:
            ValueError: for positions that were not learned.
        """
        weight: Tensor = self.weight
        if first + length > weight.shape[0]:
            raise ValueError(
                f"position {first + length} was asked for; {weight.shape[0]} were learned: cut the text or raise "
                "max_length"
            )
        return weight[first : first + length]

    def at(self, positions: Tensor) -> Tensor:
        """Returns (..., M) of positions (...) int64, each below ``max_length``."""
        return F.embedding(positions, self.weight)


def make_positions(name: PositionName, hidden_size: int, max_length: int) -> Positions:
    """Builds the positions of a setting."""
    match name:
        case "sinusoidal":
            return Sinusoidal(hidden_size, max_length)
        case "learned":
            return Learned(hidden_size, max_length)
        case "none":
            return Positions()
    raise ValueError(f"no positions are called {name!r}; choose sinusoidal, learned or none")
