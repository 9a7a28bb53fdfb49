"""Attention with Transformer-XL's relative positions, over a segment and what is remembered from before it.

Dai, Yang, Yang, Carbonell, Le, Salakhutdinov 2019, section 3.3, https://aclanthology.org/P19-1285. The score of query i
for key j, at the distance Δ = i - j, is

    A_ij = (a) q_iᵀ k_j + (b) q_iᵀ r_Δ + (c) uᵀ k_j + (d) vᵀ r_Δ,    r_Δ = W_kR R_Δ,

divided by √D. In the slots of :func:`wenmai.nn.attention.attend`: (a) + (c) are the product of q + u with the keys, and
(b) + (d) are the bias, which :func:`relative_shift` makes of the product of q + v with all r at once (appendix B).

Shapes: B batch, H heads, T queries, S keys (T last of them are the segment itself), D head size, M hidden size.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wenmai.nn.attention import Attention
from wenmai.nn.cache import KeyValue
from wenmai.nn.linear import Linear, linear
from wenmai.nn.masks import Mask

__all__ = ["RelativeAttention", "RelativeBiases", "distance_sinusoids", "relative_shift"]


def distance_sinusoids(keys: int, size: int, *, clamp: int | None = None, like: Tensor) -> Tensor:
    """Returns R, (S, size): the sinusoids of the distances S-1, ..., 1, 0; sines in the first half, then cosines.

    Args:
        keys: S.
        size: M, even.
        clamp: Farther distances count as this one.
        like: Says type and device.
    """
    distances = torch.arange(keys - 1, -1, -1, dtype=torch.float64, device=like.device)
    if clamp is not None:
        distances = distances.clamp(max=clamp)
    frequencies = 10000.0 ** (-torch.arange(0, size, 2, dtype=torch.float64, device=like.device) / size)
    angles = distances[:, None] * frequencies  # (S, M/2)
    return torch.cat((angles.sin(), angles.cos()), 1).to(like.dtype)


def relative_shift(scores: Tensor) -> Tensor:
    """Moves scores by distance to their keys, without an index: a column of zeros shears each row by one more place.

    Args:
        scores: (..., T, S), column c of every row for the distance S-1-c.

    Returns:
        (..., T, S): row i, column j is for the distance i + S - T - j. Where that is negative, for keys that come after
        their query, stands something without a meaning.
    """
    queries, keys = scores.shape[-2:]
    if queries == 1:
        return scores
    sheared = F.pad(scores, (1, 0)).view(*scores.shape[:-2], keys + 1, queries)
    return sheared[..., 1:, :].view(scores.shape)


class RelativeBiases(nn.Module):
    """What every query asks for besides itself: u of the content, v of the distance; (H, D) each."""

    def __init__(self, num_heads: int, head_size: int) -> None:
        super().__init__()
        self.content = nn.Parameter(torch.empty(num_heads, head_size).normal_(std=0.02))
        self.distance = nn.Parameter(torch.empty(num_heads, head_size).normal_(std=0.02))


class RelativeAttention(Attention):
    """Multi-head attention of a segment to its memory and itself, by content and by distance; no biases but u and v.

    Args:
        hidden_size: M, a multiple of H.
        num_heads: H.
        dropout: Of the weights, while training.
    """

    def __init__(self, hidden_size: int, num_heads: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.num_heads = num_heads
        self.head_size = hidden_size // num_heads
        self.dropout = dropout
        self.qkv = Linear(hidden_size, 3 * hidden_size, bias=False)
        self.positions = Linear(hidden_size, hidden_size, bias=False)
        self.output = Linear(hidden_size, hidden_size, bias=False)

    def forward(
        self,
        hidden: Tensor,
        relative: Tensor,
        biases: RelativeBiases,
        *,
        mask: Mask,
        memory: Tensor | None = None,
        cache: KeyValue | None = None,
    ) -> Tensor:
        """Attends.

        Args:
            hidden: (B, T, M), the segment.
            relative: (H, S or more, D), of :meth:`project_distances`.
            biases: u and v.
            mask: Over all S positions, of which the queries are the last.
            memory: (B, S - T, M), hidden states before the segment, where there is no cache.
            cache: Keys and values before the segment, which those of the segment are appended to.

        Returns:
            (B, T, M).
        """
        if cache is not None:
            query, *keys_values = self._heads(linear(hidden, self.qkv.weight))
            key, value = cache.append(torch.stack(keys_values))
        else:
            query = self._heads(linear(hidden, self.qkv.weight[: self.hidden_size]))[0]
            key, value = self.project_memory(hidden if memory is None else torch.cat((memory, hidden), 1))
        relative = relative[:, -key.shape[2] :]
        by_distance = (query + biases.distance[:, None]) * self.head_size**-0.5 @ relative.mT  # (B, H, T, S)
        context = self.attend(
            query + biases.content[:, None],
            key,
            value,
            mask=mask,
            bias=relative_shift(by_distance),
            dropout=self.dropout if self.training else 0.0,
        ).context
        output: Tensor = self.output(context.transpose(1, 2).flatten(2))
        return output

    def project_memory(self, memory: Tensor) -> Tensor:
        """Returns keys and values (2, B, H, S, D) of hidden states (B, S, M)."""
        return self._heads(linear(memory, self.qkv.weight[self.hidden_size :]))

    def project_distances(self, sinusoids: Tensor) -> Tensor:
        """Returns r, (H, S, D), of sinusoids (S, M)."""
        projected: Tensor = self.positions(sinusoids)
        return projected.view(-1, self.num_heads, self.head_size).transpose(0, 1)

    def _heads(self, projected: Tensor) -> Tensor:
        """Returns (n, B, H, S, D) of n projections side by side (B, S, n·M)."""
        batch, length, size = projected.shape
        count = size // self.hidden_size
        return projected.view(batch, length, count, self.num_heads, self.head_size).permute(2, 0, 3, 1, 4)
