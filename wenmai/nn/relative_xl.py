"""Attention with Transformer-XL's relative positions, over a segment and the memory before it.

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

from wenmai.nn.biases import Slots, Structure
from wenmai.nn.linear import Linear
from wenmai.nn.multihead import MultiHead

__all__ = ["RelativeAttention", "RelativeBiases", "distance_bias", "distance_sinusoids", "relative_shift"]


def distance_sinusoids(keys: int, size: int, *, clamp: int | None = None, like: Tensor) -> Tensor:
    """Returns R, (S, size): the sinusoids of the distances S-1, ..., 1, 0; sines in the first half, then cosines.

    Args:
        keys: S.
        size: M, even.
        clamp: Farther distances are clipped to this one.
        like: Gives type and device.
    """
    distances = torch.arange(keys - 1, -1, -1, dtype=torch.float64, device=like.device)
    if clamp is not None:
        distances = distances.clamp(max=clamp)
    frequencies = 10000.0 ** (-torch.arange(0, size, 2, dtype=torch.float64, device=like.device) / size)
    angles = distances[:, None] * frequencies  # (S, M/2)
    return torch.cat((angles.sin(), angles.cos()), 1).to(like.dtype)


def relative_shift(scores: Tensor) -> Tensor:
    """Moves scores by distance to their keys, without an index: a column of zeros shifts each row by one more position.

    Args:
        scores: (..., T, S), column c of every row for the distance S-1-c.

    Returns:
        (..., T, S): row i, column j is for the distance i + S - T - j. Where that is negative, for keys after their
        query, the values have no meaning.
    """
    queries, keys = scores.shape[-2:]
    if queries == 1:
        return scores
    sheared = F.pad(scores, (1, 0)).view(*scores.shape[:-2], keys + 1, queries)
    return sheared[..., 1:, :].view(scores.shape)


class RelativeBiases(nn.Module):
    """The vectors added to every query: u for the content, v for the distance; (H, D) each."""

    def __init__(self, num_heads: int, head_size: int) -> None:
        super().__init__()
        self.content = nn.Parameter(torch.empty(num_heads, head_size).normal_(std=0.02))
        self.distance = nn.Parameter(torch.empty(num_heads, head_size).normal_(std=0.02))

    def structure(self, relative: Tensor) -> Structure:
        """Returns what :func:`distance_bias` needs to know; ``relative``: of ``project_distances``."""
        return {"relative": relative, "content": self.content, "distance": self.distance}


def distance_bias(query: Tensor, key: Tensor, structure: Structure) -> Slots:
    """Terms (b), (c) and (d): a :class:`wenmai.nn.biases.Bias` for the structure of :class:`RelativeBiases`."""
    relative = structure["relative"][:, -key.shape[2] :]
    by_distance = (query + structure["distance"][:, None]) * query.shape[-1] ** -0.5 @ relative.mT  # (B, H, T, S)
    return Slots(query + structure["content"][:, None], relative_shift(by_distance))


class RelativeAttention(MultiHead):
    """Multi-head attention of a segment to its memory and itself, by content and by distance; no biases but u and v.

    Args:
        hidden_size: M, a multiple of H.
        num_heads: H.
        dropout: Of the weights, while training.
    """

    def __init__(self, hidden_size: int, num_heads: int, *, dropout: float = 0.0) -> None:
        super().__init__(hidden_size, num_heads, dropout=dropout, bias=False, relative=distance_bias)
        output = self.output
        del self.output  # the order of the parameters in optimiser checkpoints: qkv, positions, output
        self.positions = Linear(hidden_size, hidden_size, bias=False)
        self.output = output

    def reset_parameters(self) -> None:
        """Does nothing: the model draws all of its weights."""

    def project_distances(self, sinusoids: Tensor) -> Tensor:
        """Returns r, (H, S, D), of sinusoids (S, M)."""
        projected: Tensor = self.positions(sinusoids)
        return projected.view(-1, self.num_heads, self.head_size).transpose(0, 1)
