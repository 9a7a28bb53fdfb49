"""Attention: one function with five slots, and the base of every attention module.

``context = reweight(softmax(mask(scorer(query, key) + bias))) @ value + values(weights)``

| slot | who uses it |
|---|---|
| scorer | Luong, Bahdanau, cosine (:mod:`wenmai.nn.scorers`); none: scaled dot product |
| mask | padding, causal, windows, blocks (:mod:`wenmai.nn.masks`); True = may attend |
| bias | relative positions (Shaw's keys, Transformer-XL), SSAN's entity structure (:mod:`wenmai.nn.biases`) |
| reweight | Luong's local-p: a Gaussian on the weights, not renormalised (:mod:`wenmai.nn.stepwise_attention`) |
| values | Shaw's relative values |

Shapes: B batch, H heads, T queries, S keys, D head size. A query that may attend to nothing gets zeros, and its
gradients are finite.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wenmai.nn.attention_dropout import attend_dropped
from wenmai.nn.dropout import dropout as apply_dropout
from wenmai.nn.masks import Mask
from wenmai.nn.scorers import ScaledDot, Scorer

__all__ = [
    "Attended",
    "Attention",
    "attend",
    "safe_softmax",
    "watch_attention",
    "watching",
]

_SCALED_DOT = ScaledDot()

Kernel = Callable[[Tensor, Tensor, Tensor], Tensor]


class Attended(NamedTuple):
    """The result of attention.

    Attributes:
        context: (..., T, D) weighted sums of the values.
        weights: (..., T, S) before dropout, if requested.
    """

    context: Tensor
    weights: Tensor | None


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    scorer: Scorer | None = None,
    mask: Mask | Tensor | None = None,
    bias: Tensor | None = None,
    reweight: Callable[[Tensor], Tensor] | None = None,
    values: Callable[[Tensor], Tensor] | None = None,
    dropout: float = 0.0,
    need_weights: bool = False,
) -> Attended:
    """Attends from each query to the keys and returns the weighted values.

    Args:
        query: (B, H, T, D), or (B, T, D) for one head.
        key: (B, H, S, D), or (B, S, D); what ``scorer.prepare`` returned.
        value: (B, H, S, Dv), or (B, S, Dv).
        scorer: None: scaled dot product.
        mask: Bool, broadcastable to (B, H, T, S), or to (B, T, S) for one head; or a :class:`Mask`, whose queries
            are the last T of S positions. True = may attend.
        bias: Added to the scores, broadcastable like the mask.
        reweight: Changes the weights (B, H, T, S) after the softmax.
        values: From the weights (B, H, T, S) to a term of the context, (B, H, T, Dv).
        dropout: Probability that a weight is dropped; 0 outside of training.
        need_weights: Whether to return the weights.

    Returns:
        The context (B, H, T, Dv) or (B, T, Dv), and the weights or None.

    Raises:
        ValueError: if the mask tensor is not bool.
    """
    if query.dim() == 3:  # one head
        attended = attend(
            query.unsqueeze(1),
            key.unsqueeze(1),
            value.unsqueeze(1),
            scorer=scorer,
            mask=_with_heads(mask) if isinstance(mask, Tensor) else mask,
            bias=None if bias is None else _with_heads(bias),
            reweight=reweight,
            values=values,
            dropout=dropout,
            need_weights=need_weights,
        )
        weights = attended.weights
        return Attended(attended.context.squeeze(1), None if weights is None else weights.squeeze(1))
    scale = (_SCALED_DOT if scorer is None else scorer).product_scale(query)
    if scale is None or need_weights or reweight is not None or values is not None:
        return _explicit(query, key, value, scorer or _SCALED_DOT, mask, bias, reweight, values, dropout)
    if dropout and bias is not None and query.device.type == "cpu" and not _in_blocks(query, key):
        return _explicit(query, key, value, scorer or _SCALED_DOT, mask, bias, None, None, dropout)
    return Attended(_fused(query, key, value, scale, mask, bias, dropout), None)


def _in_blocks(query: Tensor, key: Tensor) -> bool:
    """Whether weights can be dropped on a CPU by :func:`attend_dropped`."""
    return query.shape[:2] == key.shape[:2] and not torch.compiler.is_compiling()


def _fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float,
    mask: Mask | Tensor | None,
    bias: Tensor | None,
    dropout: float,
) -> Tensor:
    # A kernel may be told of some masks in words, ``is_causal`` or the lengths of texts, instead of by a tensor.
    known = mask if isinstance(mask, Mask) and bias is None and query.shape[2] == key.shape[2] else None
    is_causal = known is not None and known.is_causal
    lengths = None if known is None or dropout else known.lengths
    allowed = None if is_causal or lengths else _dense(mask, query, key)
    on_cpu, kind = query.device.type == "cpu", query.dtype
    if on_cpu:
        query, key, value = (_widened(part) for part in (query, key, value))
        bias = None if bias is None else bias.to(query.dtype)
        if dropout and _in_blocks(query, key):
            with torch.autocast("cpu", enabled=False):
                dropped = attend_dropped(
                    query, key, value, dropout, scale=scale, mask=allowed, bias=bias, is_causal=is_causal
                )
                return dropped.to(kind)
    if bias is not None:
        allowed = bias if allowed is None else torch.where(allowed, bias, -math.inf)
    if allowed is not None and allowed.dim() == 1:
        allowed = allowed[None]  # the kernel needs at least (T, S)
    kernel: Kernel = partial(
        F.scaled_dot_product_attention, attn_mask=allowed, dropout_p=dropout, is_causal=is_causal, scale=scale
    )
    if lengths:
        kernel = partial(_one_by_one, kernel, lengths)
    if not on_cpu:
        return kernel(query, key, value)
    with torch.autocast("cpu", enabled=False):
        return kernel(query, key, value).to(kind)


def _widened(part: Tensor) -> Tensor:
    """The tensor in float32 at least: the kernels of a CPU are several times slower in bfloat16."""
    return part if part.dtype is torch.float64 else part.float()


def _one_by_one(kernel: Kernel, lengths: Sequence[int], query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attention within texts that are side by side; neighbours of one length are a batch."""
    batch, heads, rows, _ = query.shape
    found = query.new_empty(batch, rows, heads, value.shape[3])
    runs = [(length, len(list(alike))) for length, alike in groupby(lengths)]
    parts = [torch.split(part, [length * count for length, count in runs], 2) for part in (query, key, value)]
    end = 0
    for (length, count), *texts in zip(runs, *parts, strict=True):
        if count > 1:
            texts = [text.unflatten(2, (count, length)).transpose(1, 2).flatten(0, 1) for text in texts]
        begin, end = end, end + length * count
        context = kernel(*texts).transpose(1, 2)  # (B·n, L, H, Dv)
        found[:, begin:end] = context.reshape(batch, end - begin, heads, -1)
    return found.transpose(1, 2)


def _explicit(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scorer: Scorer,
    mask: Mask | Tensor | None,
    bias: Tensor | None,
    reweight: Callable[[Tensor], Tensor] | None,
    values: Callable[[Tensor], Tensor] | None,
    dropout: float,
) -> Attended:
    weights = safe_softmax(_scores(query, key, scorer, mask, bias))
    if reweight is not None:
        weights = reweight(weights)
    used = apply_dropout(weights, dropout) if dropout else weights
    context = used @ value
    if values is not None:
        context = context + values(used)
    return Attended(context, weights)


def safe_softmax(scores: Tensor) -> Tensor:
    """Softmax over the last dimension; a row of -inf alone gives zeros and a zero gradient."""
    if not scores.shape[-1]:  # there is no key
        return scores
    dead = scores.amax(-1, keepdim=True) == -math.inf
    return scores.masked_fill(dead, 0.0).softmax(-1).masked_fill(dead, 0.0)


def _scores(query: Tensor, key: Tensor, scorer: Scorer, mask: Mask | Tensor | None, bias: Tensor | None) -> Tensor:
    scores: Tensor = scorer(query, key)  # (B, H, T, S)
    if bias is not None:
        scores = scores + bias
    allowed = _dense(mask, query, key)
    return scores if allowed is None else scores.masked_fill(~allowed, -math.inf)


def _dense(mask: Mask | Tensor | None, query: Tensor, key: Tensor) -> Tensor | None:
    if isinstance(mask, Mask):
        return mask.aligned(query.shape[-2], key.shape[-2], device=query.device)
    if mask is not None and mask.dtype is not torch.bool:
        raise ValueError(f"a mask is bool (True = may attend), not {mask.dtype}; give numbers to add as bias")
    return mask


def _with_heads(tensor: Tensor) -> Tensor:
    return tensor.unsqueeze(1) if tensor.dim() == 3 else tensor


_WATCHED: ContextVar[dict[nn.Module, list[Tensor]]] = ContextVar("watched")


def _watched() -> dict[nn.Module, list[Tensor]]:
    """The weights collected of each watched module; none within a compiled model, whose graph would end here."""
    return {} if torch.compiler.is_compiling() else _WATCHED.get({})


class Attention(nn.Module):
    """Base of every attention module: it calls :meth:`attend`, so that :func:`watch_attention` sees it."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor, **slots: Any) -> Attended:  # noqa: ANN401  those of attend
        """:func:`attend`, recording the weights when this module is watched."""
        if not self.watched:
            return attend(query, key, value, **slots)
        attended = attend(query, key, value, **{**slots, "need_weights": True})
        assert attended.weights is not None
        self.show(attended.weights)
        return attended

    def show(self, weights: Tensor) -> None:
        """Records weights (B, H, T, S), or (B, T, S) of one head, when this module is watched."""
        if self.watched:
            _watched()[self].append(_with_heads(weights.detach()))

    @property
    def watched(self) -> bool:
        """Whether this module is watched."""
        return self in _watched()


def watching() -> bool:
    """Whether any module is watched."""
    return bool(_watched())


@contextmanager
def watch_attention(module: nn.Module) -> Iterator[dict[str, list[Tensor]]]:
    """Collects the attention weights of a model while it runs, without changing it or its results.

    Args:
        module: Any model made of :class:`Attention` modules; of one that ``torch.compile`` has compiled, none are seen.

    Yields:
        Dotted name of each attention module to its weights (B, H, T, S), one tensor for each time it attended.
    """
    modules = {child: name for name, child in module.named_modules() if isinstance(child, Attention)}
    weights: dict[str, list[Tensor]] = {name: [] for name in modules.values()}
    token = _WATCHED.set({**_WATCHED.get({}), **{child: weights[name] for child, name in modules.items()}})
    try:
        yield weights
    finally:
        _WATCHED.reset(token)
