"""Absolute positions that are added to embeddings: sinusoidal, learned, or none."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["Learned", "PositionName", "Positions", "Sinusoidal", "make_positions", "sinusoid"]

PositionName = Literal["sinusoidal", "learned", "none"]


def sinusoid(positions: Tensor, size: int) -> Tensor:
    """PE[p, 2i] = sin(p / 10000^(2i/size)), PE[p, 2i+1] = cos of the same (Vaswani et al. 2017, section 3.5).

    Args:
        positions: (T,) any numbers.
        size: Columns; an odd size ends with a sine.

    Returns:
        (T, size) float32.
    """
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
    """One learned vector for each of ``max_length`` positions, N(0, 0.02²) at the start."""

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
