"""Scaled dot-product attention (Vaswani et al. 2017, eq. 1) whose weights are dropped, on a CPU.

PyTorch's fused kernel for CPUs drops nothing, and what it does instead draws a random number for each weight and
computes the half that a causal mask throws away. Here each weight takes one random byte; so many heads are taken at a
time that their scores stay in the cache of the processor from one step to the next; and under a causal mask queries are
taken a few at a time, with the keys that they see.

Shapes: B batch, H heads, T queries, S keys, D head size.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from wenmai.nn.dropout import draw_kept, dropped_of_256

__all__ = ["attend_dropped"]

_QUERIES = 64  # at a time under a causal mask
_SCORES = 1 << 19  # at a time: 2 MB of float32, which stay in the cache


def attend_dropped(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    probability: float,
    *,
    scale: float,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    is_causal: bool = False,
) -> Tensor:
    """Returns dropout(softmax(scale · Q Kᵀ + bias)) V.

    The same weights are dropped as by :func:`wenmai.nn.dropout.dropout` of (B, H, T, S) weights with the same seed.

    Args:
        query: (B, H, T, D).
        key: (B, H, S, D).
        value: (B, H, S, Dv).
        probability: That a weight is dropped, rounded to 1/256.
        scale: Of the products.
        mask: Bool, broadcastable to (B, H, T, S), True = may attend. A query that may attend to nothing gets zeros.
        bias: Broadcastable to (B, H, T, S).
        is_causal: Query i sees the first i + 1 keys, and S is T; in place of a mask and a bias.
    """
    dropped = dropped_of_256(probability)
    if bias is not None:
        bias = _of_four(bias).expand(-1, -1, query.shape[2], key.shape[2])
    context: Tensor = _Attended.apply(query, key, value, bias, dropped, scale, mask, is_causal)  # type: ignore[no-untyped-call]
    return context


class _Attended(torch.autograd.Function):
    """P = softmax(scale · Q Kᵀ + bias), C = (P ∘ kept) V / (1 - p); saved are P and what was kept."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401  torch's context
        query: Tensor,
        key: Tensor,
        value: Tensor,
        bias: Tensor | None,
        dropped: int,
        scale: float,
        mask: Tensor | None,
        is_causal: bool,
    ) -> Tensor:
        rows, length, keys = query.shape[:2], query.shape[2], key.shape[2]
        kept = draw_kept((*rows, length, keys), dropped).flatten(0, 1)  # (B·H, T, S)
        q, k, v = query.flatten(0, 1), key.flatten(0, 1), value.flatten(0, 1)
        context = v.new_empty(q.shape[0], length, v.shape[2])
        later = q.new_full((_QUERIES, _QUERIES), -torch.inf).triu_(1) if is_causal else None
        biases, bias_rows = (None, None) if bias is None else (bias.flatten(0, 1), _rows_of(bias, rows))
        closed = None if mask is None else _of_four(~mask).expand(*rows, -1, -1).flatten(0, 1)
        saved = []
        for heads, queries, seen in _blocks(len(q), length, keys, is_causal):
            product = q[heads, queries], k[heads, seen].mT
            if biases is None or bias_rows is None:
                scores = torch.baddbmm(q.new_zeros(()), *product, beta=0, alpha=scale)
            else:
                scores = biases[bias_rows[heads]].baddbmm_(*product, alpha=scale)
            if later is not None:
                scores[:, :, queries] += later[: scores.shape[1], : scores.shape[1]]
            if closed is not None:
                scores.masked_fill_(closed[heads], -torch.inf)
            weights = scores.softmax(-1)
            if closed is not None:  # where all is masked the softmax is NaN
                weights.masked_fill_(closed[heads], 0.0)
            context[heads, queries] = torch.mul(weights, kept[heads, queries, seen], out=scores) @ v[heads, seen]
            saved.append(weights)
        context *= (growth := 256 / (256 - dropped))
        ctx.save_for_backward(q, k, v, kept, *saved)
        ctx.growth, ctx.scale, ctx.is_causal = growth, scale, is_causal
        ctx.bias_shape, ctx.bias_rows = None if bias is None else bias.shape, bias_rows
        return context.view(*rows, length, -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        q, k, v, kept, *saved = ctx.saved_tensors
        rows, outer = gradient.shape[:2], gradient.flatten(0, 1) * ctx.growth
        for_q, for_k, for_v = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        for_bias = None if ctx.bias_rows is None else q.new_zeros(ctx.bias_shape)
        blocks = _blocks(len(q), q.shape[1], k.shape[1], ctx.is_causal)
        for weights, (heads, queries, seen) in zip(saved, blocks, strict=True):
            here, from_here = kept[heads, queries, seen], outer[heads, queries]
            used = weights * here
            for_v[heads, seen] += used.mT @ from_here
            for_weights = torch.bmm(from_here, v[heads, seen].mT, out=used).mul_(here)
            for_scores = torch._softmax_backward_data(for_weights, weights, -1, weights.dtype)
            for_q[heads, queries] = for_scores @ k[heads, seen]
            for_k[heads, seen] += for_scores.mT @ q[heads, queries]
            if for_bias is not None:
                for_bias.flatten(0, 1).index_add_(0, ctx.bias_rows[heads], for_scores)
        for_q *= ctx.scale
        for_k *= ctx.scale
        found = (tensor.view(*rows, *tensor.shape[1:]) for tensor in (for_q, for_k, for_v))
        return (*found, for_bias, None, None, None, None)


def _of_four(tensor: Tensor) -> Tensor:
    """The tensor with four dimensions; those that it lacks are 1."""
    return tensor[(None,) * (4 - tensor.dim())]


def _rows_of(bias: Tensor, rows: Sequence[int]) -> Tensor:
    """Which of the matrices (T, S) of a bias each head of each row has, (B·H,) int64."""
    batch, heads = bias.shape[:2]
    return torch.arange(batch * heads).view(batch, heads).expand(*rows).flatten()


def _blocks(heads: int, length: int, keys: int, is_causal: bool) -> Iterator[tuple[slice, slice, slice]]:
    """The heads of all rows, the queries and the keys that they see, of each block."""
    queries = _QUERIES if is_causal else length
    at_once = max(1, _SCORES // max(1, queries * keys))
    for head in range(0, heads, at_once):
        for first in range(0, length, queries):
            last = min(first + queries, length)
            yield slice(head, head + at_once), slice(first, last), slice(0, last if is_causal else keys)
