"""Biases of self-attention: the part of a score that depends on the relation of query and key.

A bias sees queries, keys and the structure of the sequence, and fills slots of :func:`wenmai.nn.attention.attend`. Any
function or module of this form can be given to :class:`wenmai.nn.multihead.MultiHead`.

| bias | source |
|---|---|
| :class:`ShawRelative` | Shaw, Uszkoreit, Vaswani 2018, https://aclanthology.org/N18-2074 |
| :func:`wenmai.nn.relative_xl.distance_bias` | Dai et al. 2019, https://aclanthology.org/P19-1285 |
| :class:`wenmai.nn.structure_bias.StructureBias` | Xu et al. 2021, https://arxiv.org/abs/2102.10249 |
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

__all__ = ["Bias", "ShawRelative", "Slots", "Structure"]

Structure = Mapping[str, Tensor]  # facts of a sequence besides its hidden states; each bias takes those it knows


class Slots(NamedTuple):
    """The slots of :func:`wenmai.nn.attention.attend` that a bias fills.

    Attributes:
        query: (B, H, T, D), the queries that are compared with the keys.
        bias: (B, H, T, S), added to the scores; with fewer rows, but more than one, those of the first queries.
        values: From the weights (B, H, T, S) to a term of the context, (B, H, T, D); none: no term.
    """

    query: Tensor
    bias: Tensor
    values: Callable[[Tensor], Tensor] | None = None


class Bias(Protocol):
    """A bias of self-attention."""

    def __call__(self, query: Tensor, key: Tensor, structure: Structure) -> Slots:
        """Returns the slots of one layer.

        Args:
            query: (B, H, T, D), the last T of S positions.
            key: (B, H, S, D).
            structure: Of the S positions; may be empty.
        """
        ...


class ShawRelative(nn.Module):
    """A learned vector for each clipped distance r = clip(j - i, -k, k), added to keys and to values.

    e_ij = q_i·(k_j + a^K_r)/√D (eq. 4) becomes the slot ``bias`` = q_i·a^K_r/√D; z_i = Σ_j p_ij (v_j + a^V_r) (eq. 3)
    becomes the slot ``values`` = Σ_r (Σ_{j at distance r} p_ij) a^V_r, so that no (T, S, D) tensor is made.

    Args:
        head_size: D.
        max_distance: k.
        num_heads: One table for each head; None: one for all, as in Tensor2Tensor and the paper's big model.
    """

    def __init__(self, head_size: int, max_distance: int, *, num_heads: int | None = None) -> None:
        super().__init__()
        self.max_distance = max_distance
        shape = (num_heads or 1, 2 * max_distance + 1, head_size)
        self.keys = nn.Parameter(_tables(shape))
        self.values = nn.Parameter(_tables(shape))

    def distances(self, queries: int, keys: int) -> Tensor:
        """Returns r + k, (T, S) int64 in 0..2k, for queries that are the last of the keys' positions."""
        device = self.keys.device
        i, j = torch.arange(keys - queries, keys, device=device), torch.arange(keys, device=device)
        return (j - i[:, None]).clamp(-self.max_distance, self.max_distance) + self.max_distance

    def forward(self, query: Tensor, key: Tensor, structure: Structure) -> Slots:
        """Returns the slots, of distances alone."""
        keys = key.shape[2]
        batch, heads, queries, size = query.shape
        places = self.distances(queries, keys).expand(batch, heads, queries, keys)
        by_distance = (query * size**-0.5) @ self.keys.mT  # (B, H, T, 2k+1)

        def values(weights: Tensor) -> Tensor:
            sums = weights.new_zeros(by_distance.shape).scatter_add(-1, places, weights)  # (B, H, T, 2k+1)
            return sums @ self.values

        return Slots(query, by_distance.gather(-1, places), values)


def _tables(shape: tuple[int, int, int]) -> Tensor:
    tables = torch.empty(shape)
    for table in tables:
        nn.init.xavier_uniform_(table)
    return tables
