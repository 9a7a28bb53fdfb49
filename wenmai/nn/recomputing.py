"""Long texts in training: what a part of one keeps for its gradient is made again when it is needed.

Chen, Xu, Zhang, Guestrin 2016, "Training Deep Nets with Sublinear Memory Cost", https://arxiv.org/abs/1604.06174,
section 3, with windows of a text in place of layers.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
from torch.utils.checkpoint import checkpoint

__all__ = ["in_parts"]

Part = TypeVar("Part")


def in_parts(compute: Callable[[Part], Any], parts: Iterable[Part]) -> list[Any]:
    """Returns what ``compute`` makes of each part; their gradients need the memory of one part only.

    Several parts are computed twice while training, with the same numbers dropped; a single one is not.

    Args:
        compute: A function of tensors and parameters, without other effects.
        parts: Its arguments, tensors on the device where it computes or tuples of them: PyTorch remembers the random
            numbers of these devices.
    """
    several = list(parts)
    if len(several) < 2 or not torch.is_grad_enabled():
        return [compute(part) for part in several]
    return [checkpoint(compute, part, use_reentrant=False) for part in several]
