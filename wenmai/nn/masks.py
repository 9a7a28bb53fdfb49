"""Attention masks as predicates over absolute positions, joined by ``&``, ``|`` and ``~``.

True means *may attend*, everywhere. A mask stays a predicate until :meth:`Mask.dense` is asked for it, so that two
never become a tensor: the plain causal mask, which the fused kernel has built in, and that of texts side by side, which
attend one by one.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

__all__ = ["Mask", "block", "causal", "padding", "real_keys", "side_by_side", "window"]


class Mask:
    """Which key positions a query position may see.

    Args:
        predicate: Takes query positions (T, 1) and key positions (S,), int64, and returns a bool tensor that
            broadcasts to (B, H, T, S).
        is_causal: Whether this is the plain causal mask and nothing else.
        lengths: Of texts side by side, if this is their mask and nothing else.
    """

    def __init__(
        self,
        predicate: Callable[[Tensor, Tensor], Tensor],
        *,
        is_causal: bool = False,
        lengths: Sequence[int] | None = None,
    ) -> None:
        self.predicate = predicate
        self.is_causal = is_causal
        self.lengths = lengths

    def dense(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """Returns the mask as a bool tensor.

        Args:
            query_positions: (T,) int64.
            key_positions: (S,) int64.

        Returns:
            Bool, broadcastable to (B, H, T, S).
        """
        return self.predicate(query_positions[:, None], key_positions)

    def aligned(self, queries: int, keys: int, *, device: torch.device | None = None) -> Tensor:
        """The dense mask of the last ``queries`` of ``keys`` positions, as a cache needs it: j ≤ i + S - T."""
        return self.dense(torch.arange(keys - queries, keys, device=device), torch.arange(keys, device=device))

    def __and__(self, other: "Mask") -> "Mask":
        return Mask(lambda q, k: self.predicate(q, k) & other.predicate(q, k))

    def __or__(self, other: "Mask") -> "Mask":
        return Mask(lambda q, k: self.predicate(q, k) | other.predicate(q, k))

    def __invert__(self) -> "Mask":
        return Mask(lambda q, k: ~self.predicate(q, k))


def causal() -> Mask:
    """A query sees itself and what came before: j ≤ i."""
    return Mask(lambda q, k: k <= q, is_causal=True)


def padding(mask: Tensor) -> Mask:
    """Every query sees the real tokens.

    Args:
        mask: (B, S) bool, True = real token.
    """
    return Mask(lambda q, k: mask[:, None, None, k])  # (B, 1, 1, S)


def real_keys(real: Tensor) -> Tensor | None:
    """Returns the mask (B, 1, 1, S) of :func:`padding`; None if nothing is: attention is faster without a mask.

    While a model is compiled there is always a mask, since its graph would end at the question.

    Args:
        real: (B, S) bool, True = real token.
    """
    if not torch.compiler.is_compiling() and real.all():
        return None
    return real[:, None, None]


def window(left: int, right: int) -> Mask:
    """A query sees ``left`` positions before itself and ``right`` after: i - left ≤ j ≤ i + right.

    Restricted self-attention (Vaswani et al. 2017, section 4) is ``window(r, r)``; Luong's local-m around p = t is
    ``window(D, D)``.

    Raises:
        ValueError: if a side is negative.
    """
    if left < 0 or right < 0:
        raise ValueError(f"a window reaches {left} to the left and {right} to the right; expected no negative number")
    return Mask(lambda q, k: (k >= q - left) & (k <= q + right))


def block(size: int, *, previous: int = 1) -> Mask:
    """Positions are cut into blocks; a query sees its own block and the ``previous`` ones before it.

    Raises:
        ValueError: if ``size`` is not positive or ``previous`` is negative.
    """
    if size < 1 or previous < 0:
        raise ValueError(f"blocks of {size} with {previous} before; expected size >= 1 and previous >= 0")

    def predicate(q: Tensor, k: Tensor) -> Tensor:
        behind = q // size - k // size
        return (behind >= 0) & (behind <= previous)

    return Mask(predicate)


def side_by_side(lengths: Sequence[int]) -> Mask:
    """Texts are one after the other in a row; a query sees its own text.

    Args:
        lengths: Positions of each text, all of the row together.
    """
    ends = torch.tensor(lengths, dtype=torch.int64).cumsum(0)

    def text(positions: Tensor) -> Tensor:
        return torch.bucketize(positions, ends.to(positions.device), right=True)

    return Mask(lambda q, k: text(q) == text(k), lengths=lengths)
