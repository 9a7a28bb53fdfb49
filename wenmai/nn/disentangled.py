"""Attention with disentangled relative positions: by content, from content to distance, and from distance to content.

He, Liu, Gao, Chen, "DeBERTa: Decoding-enhanced BERT with Disentangled Attention", ICLR 2021,
https://arxiv.org/abs/2006.03654, eq. 4, with the distances in logarithmic buckets of Samuel et al. 2023,
https://aclanthology.org/2023.findings-eacl.146. The score of query i for key j, at the bucket δ of j - i, is

    A_ij = (q_iᵀ k_j + q_iᵀ k^p_δ + q^p_δᵀ k_j) / √(3D),    q^p = W_q P, k^p = W_k P,

where P are the vectors of the buckets, which all layers share, and W_q and W_k those of the content.

Shapes: B batch, H heads, T tokens, D head size, M hidden size, R buckets.
"""

import math

import torch
from torch import Tensor, nn

from wenmai.nn.biases import Slots, Structure
from wenmai.nn.multihead import MultiHead, rows_at

__all__ = ["Buckets", "DisentangledAttention", "bucket_of"]


def bucket_of(distances: Tensor, near: int, farthest: int) -> Tensor:
    """Returns the buckets of distances: one for each near one, of farther ones ever wider, by the logarithm.

    Args:
        distances: Any shape, int64.
        near: Buckets on each side; the first half of them are for one distance each.
        farthest: Farther distances are in the last bucket.

    Returns:
        In the same shape, from 0 for the farthest on the left to 2·near - 2; near - 1 is the distance 0.
    """
    middle = near // 2
    size = distances.abs().clamp(max=farthest)
    share = torch.log(size.clamp(min=middle).double() / middle) / math.log((farthest - 1) / middle)
    wide = middle + torch.ceil(share * (near - 1 - middle)).long()
    bucket = torch.where(size < middle, size, wide).clamp(max=near - 1)
    return near - 1 + bucket * distances.sign()


class Buckets(nn.Module):
    """The vectors of the buckets of distances, LN(P), for all layers.

    Args:
        hidden_size: M.
        near: Buckets on each side.
        farthest: The distance with which the last one begins, about.
    """

    def __init__(self, hidden_size: int, near: int, farthest: int) -> None:
        super().__init__()
        self.near = near
        self.farthest = max(farthest, near)
        self.weight = nn.Parameter(torch.empty(2 * near - 1, hidden_size).normal_(std=0.02))
        self.norm = nn.LayerNorm(hidden_size, eps=1e-7)

    def structure(self, positions: Tensor) -> Structure:
        """Returns what :class:`DisentangledAttention` needs of positions (T,), or (B, T) of several pieces in a row."""
        distances = positions[..., None, :] - positions[..., :, None]  # j - i
        vectors: Tensor = self.norm(self.weight)
        return {"buckets": vectors, "distances": bucket_of(distances, self.near, self.farthest)}


class DisentangledAttention(MultiHead):
    """Multi-head self-attention by content and by distance.

    Args:
        hidden_size: M, a multiple of H.
        num_heads: H.
        dropout: Of the weights, while training.
    """

    def __init__(self, hidden_size: int, num_heads: int, *, dropout: float = 0.0) -> None:
        super().__init__(hidden_size, num_heads, dropout=dropout, relative=self._slots)

    def structure_at(self, structure: Structure, places: Tensor) -> Structure:
        """Returns the structure with the distances from some positions (B, K) alone."""
        distances = structure["distances"]  # (T, T) or (B, T, T)
        return {**structure, "distances": rows_at(distances.expand(len(places), -1, -1), places)}

    def of_buckets(self, vectors: Tensor) -> Tensor:
        """Returns the queries and keys q^p and k^p of the vectors (R, M) of the buckets, (2, 1, H, R, D)."""
        return self._projected(vectors[None], slice(2 * self.hidden_size))

    def _slots(self, query: Tensor, key: Tensor, structure: Structure) -> Slots:
        positions = self.of_buckets(structure["buckets"])
        index = structure["distances"]  # (T, T) or (B, T, T), or from some positions (B, K, T)
        index = index.expand(len(query), *index.shape[-2:])[:, None].expand(-1, self.num_heads, -1, -1)
        query = query * 3**-0.5
        scale = self.head_size**-0.5
        to_distance = (query * scale @ positions[1].mT).gather(-1, index)  # (B, H, T, T)
        from_distance = (key * (scale * 3**-0.5) @ positions[0].mT).gather(-1, index.mT).mT
        return Slots(query, to_distance + from_distance)
