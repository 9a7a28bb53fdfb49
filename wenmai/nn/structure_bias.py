"""Structured self-attention: a term of each score for how two tokens are related by sentences and entities.

Xu, Wang, Lyu, Zhu, Mao, "Entity Structure Within and Throughout: Modeling Mention Dependencies for Document-Level
Relation Extraction", AAAI 2021, https://arxiv.org/abs/2102.10249.

Token i of an entity sees token j as one of five *dependencies* (section 3.1, here by number):

| number | same sentence | token j |
|---|---|---|
| 0 | yes | of the same entity |
| 1 | yes | of another entity |
| 2 | yes | of no entity |
| 3 | no | of the same entity |
| 4 | no | of another entity |

All other pairs have none: tokens of no entity see nothing, and special tokens and padding are not seen. The score is
ẽ_ij = (q_i·k_j + T_s(q_i, k_j))/√D (eq. 3), with parameters of their own for each layer, head and dependency s:

| bias | T_s(q, k) |
|---|---|
| :class:`Biaffine` (eq. 4) | q A_s kᵀ + b_s |
| :class:`Decomposed` (eq. 5) | q·K_s + Q_s·k + b_s |

Unlike the paper's, all parameters are 0 at the beginning: an encoder that was trained before computes what it did, and
they learn from the first update on, since the gradients of A_s, K_s and Q_s are made of queries and keys alone.

Only tokens of entities have a bias. They come first in the sequence, so that it is a block of E rows: of their pairs
with each other, where all five dependencies are, and with tokens of no entity, which have but one. Nothing of the size
5·T·T is ever made.

Shapes: B sequences, T tokens, of which the first E are those with a bias, H heads, D head size.
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from wenmai.nn.biases import Slots, Structure

__all__ = ["DEPENDENCIES", "Biaffine", "Decomposed", "StructureBias", "dependencies"]

DEPENDENCIES = ("intra+coref", "intra+relate", "intraNE", "inter+coref", "inter+relate")
_NONE = len(DEPENDENCIES)
_TO_NO_ENTITY = 2  # the only dependency of a token of no entity


def dependencies(sentences: Tensor, entities: Tensor, rows: int | None = None) -> Tensor:
    """Returns how tokens see each other.

    Args:
        sentences: (B, T) int64, the sentence of each token; -1 for special tokens and padding.
        entities: (B, T) int64, the entity of each token; -1: of none.
        rows: E, so many tokens see; None: all.

    Returns:
        (B, E, T) int8, numbers of ``DEPENDENCIES``; 5 where there is none.
    """
    rows = sentences.shape[1] if rows is None else rows
    seeing = (sentences[:, :rows, None] >= 0) & (entities[:, :rows, None] >= 0)
    seen = (sentences >= 0)[:, None]
    intra = sentences[:, :rows, None] == sentences[:, None]
    coref = entities[:, :rows, None] == entities[:, None]
    named = (entities >= 0)[:, None]
    found = torch.where(coref, 0, 1) + torch.where(intra, 0, 3)
    found = torch.where(named, found, torch.where(intra, _TO_NO_ENTITY, _NONE))
    return torch.where(seeing & seen, found, _NONE).to(torch.int8)


class StructureBias(nn.Module, ABC):
    """The bias of one layer: a block for the first rows, of all their columns.

    Args:
        num_heads: H.
        head_size: D.
    """

    def __init__(self, num_heads: int, head_size: int) -> None:
        super().__init__()
        self.num_heads, self.head_size = num_heads, head_size
        self.prior = nn.Parameter(torch.zeros(_NONE, num_heads))

    @abstractmethod
    def term(self, query: Tensor, key: Tensor, dependency: int) -> Tensor:
        """Returns T_s without b_s, (B, H, E, S) or what broadcasts to it, of queries (B, H, E, D) and S keys."""

    def forward(self, query: Tensor, key: Tensor, structure: Structure) -> Slots:
        """Returns the slots: the bias of the first E queries, (B, H, E, T), or none without a structure.

        Args:
            query: (B, H, T, D).
            key: (B, H, T, D).
            structure: ``dependencies``, (B, E, T) int8 as of :func:`dependencies`, for all T tokens.
        """
        found = structure.get("dependencies")
        if found is None or not found.shape[1]:
            return Slots(query, query.new_zeros(1, 1, 1, 1))
        rows = found.shape[1]
        seeing = query[:, :, :rows] * self.head_size**-0.5
        near = self._block(seeing, key[:, :, :rows], found[:, :, :rows], range(_NONE))
        if rows == key.shape[2]:
            return Slots(query, near)
        far = self._block(seeing, key[:, :, rows:], found[:, :, rows:], (_TO_NO_ENTITY,))
        return Slots(query, torch.cat((near, far), -1))

    def _block(self, query: Tensor, key: Tensor, found: Tensor, which: range | tuple[int, ...]) -> Tensor:
        """The bias of some keys, which are seen by the dependencies ``which`` or by none."""
        bias = query.new_zeros(())
        prior = self.prior.to(query.dtype) * self.head_size**-0.5
        for dependency in which:
            here = (found == dependency)[:, None]  # (B, 1, E, S)
            term = self.term(query, key, dependency) + prior[dependency, :, None, None]
            bias = torch.where(here, term, bias)
        return bias.expand(*query.shape[:3], key.shape[2])


class Biaffine(StructureBias):
    """T_s(q, k) = q A_s kᵀ + b_s, 5·H·(D² + 1) parameters."""

    def __init__(self, num_heads: int, head_size: int) -> None:
        super().__init__(num_heads, head_size)
        self.matrix = nn.Parameter(torch.zeros(_NONE, num_heads, head_size, head_size))

    def term(self, query: Tensor, key: Tensor, dependency: int) -> Tensor:
        """Returns q A_s kᵀ, (B, H, E, S)."""
        found: Tensor = query @ self.matrix[dependency].to(query.dtype) @ key.mT
        return found


class Decomposed(StructureBias):
    """T_s(q, k) = q·K_s + Q_s·k + b_s, 5·H·(2D + 1) parameters."""

    def __init__(self, num_heads: int, head_size: int) -> None:
        super().__init__(num_heads, head_size)
        self.of_query = nn.Parameter(torch.zeros(_NONE, num_heads, head_size))
        self.of_key = nn.Parameter(torch.zeros(_NONE, num_heads, head_size))

    def term(self, query: Tensor, key: Tensor, dependency: int) -> Tensor:
        """Returns q·K_s + Q_s·k, (B, H, E, S)."""
        by_query = query @ self.of_query[dependency, :, :, None].to(query.dtype)  # (B, H, E, 1)
        by_key = key @ self.of_key[dependency, :, :, None].to(key.dtype)  # (B, H, S, 1)
        found: Tensor = by_query + by_key.mT * self.head_size**-0.5
        return found
