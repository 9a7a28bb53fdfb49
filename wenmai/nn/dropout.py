"""Dropout (Srivastava et al. 2014), on a CPU with eight times fewer random numbers than PyTorch's.

Each number takes one random byte, so the probability is a multiple of 1/256 there; kept numbers are scaled by that
probability, so that the expectation is exact.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["Dropout", "draw_kept", "dropout", "dropped_of_256"]


def dropout(hidden: Tensor, probability: float) -> Tensor:
    """Returns ``hidden`` with numbers set to zero at random and the others scaled up.

    Args:
        hidden: Of any shape.
        probability: Of a zero, 0 to below 1; on a CPU rounded to 1/256.
    """
    if hidden.device.type != "cpu" or not hidden.is_floating_point() or torch.compiler.is_compiling():
        return F.dropout(hidden, probability)
    if not probability:
        return hidden
    dropped: Tensor = _Dropped.apply(hidden, dropped_of_256(probability))  # type: ignore[no-untyped-call]
    return dropped


def dropped_of_256(probability: float) -> int:
    """Returns how many of 256 random bytes mean a zero; at least one, and not all."""
    return min(255, max(1, round(256 * probability)))


def draw_kept(shape: Sequence[int], dropped: int) -> Tensor:
    """Draws which numbers of a tensor to keep where ``dropped`` of 256 are dropped: 1 or 0, uint8, on the CPU.

    A comparison of bytes into bytes, and products by them, are several times faster than those of bool.
    """
    size = math.prod(shape)
    words = torch.empty((size + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
    return words.view(torch.uint8)[:size].ge_(dropped).view(*shape)


class Dropout(nn.Module):
    """:func:`dropout` while training, nothing otherwise."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, hidden: Tensor) -> Tensor:
        """Returns a tensor of the shape of ``hidden``."""
        return dropout(hidden, self.probability) if self.training else hidden


class _Dropped(torch.autograd.Function):
    """x·m/(1-p); the mask is one byte a number."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, dropped: int) -> Tensor:  # noqa: ANN401  torch's context
        kept = draw_kept(hidden.shape, dropped)
        ctx.save_for_backward(kept)
        ctx.scale = 256 / (256 - dropped)
        scaled: Tensor = (hidden * kept).mul_(ctx.scale)
        return scaled

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401
        (kept,) = ctx.saved_tensors
        return (gradients[0] * kept).mul_(ctx.scale), None
