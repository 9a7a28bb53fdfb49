"""The texts of a batch without their padding: side by side in one row, each of which sees itself alone.

Linear maps, norms and activations take each token by itself, and are fastest in one large product; attention alone has
to know where a text begins (:func:`wenmai.nn.masks.side_by_side`).
"""

import torch
from torch import Tensor
from torch import compiler as torch_compiler
from torch.jit import is_tracing  # type: ignore[attr-defined]

from wenmai.nn.attention import watching
from wenmai.nn.masks import Mask, side_by_side

__all__ = ["Unpadded", "undisturbed", "unpadded"]


class Unpadded:
    """Where the real tokens of a batch are.

    Args:
        real: (B, T) bool, False at padding.

    Attributes:
        mask: Of the row.
    """

    def __init__(self, real: Tensor) -> None:
        self._shape = real.shape
        (self._places,) = real.flatten().nonzero(as_tuple=True)
        self.mask = side_by_side([length for length in real.sum(1).tolist() if length])

    def joined(self, hidden: Tensor) -> Tensor:
        """Returns the row (1, N, M) of the N real tokens of a batch (B, T, M)."""
        return hidden.flatten(0, 1).index_select(0, self._places)[None]

    def padded(self, row: Tensor) -> Tensor:
        """Returns the batch (B, T, M) of a row (1, N, M), with zeros at padding."""
        batch, length = self._shape
        found = row.new_zeros(batch * length, row.shape[2])
        return found.index_copy_(0, self._places, row[0]).view(batch, length, -1)


def unpadded(hidden: Tensor, mask: Mask | Tensor | None) -> Unpadded | None:
    """Returns where the real tokens of a batch are; none where its padding has to stay.

    It stays if gradients, attention weights, or a graph of the computation are requested, and on other devices than a
    CPU, which would wait for the call of each text.

    Args:
        hidden: (B, T, M), what self-attention reads.
        mask: Only one of keys, (B, 1, 1, T), is padding.
    """
    if not isinstance(mask, Tensor) or mask.dim() != 4 or hidden.device.type != "cpu" or not undisturbed():
        return None
    batch, length = hidden.shape[:2]
    if mask.shape != (batch, 1, 1, length) or mask.dtype is not torch.bool or not mask.any():
        return None
    return Unpadded(mask[:, 0, 0])


def undisturbed() -> bool:
    """Whether no gradients, attention weights, other precision or other compilation are requested."""
    compiling = torch_compiler.is_compiling() or is_tracing()  # type: ignore[no-untyped-call]
    return not (torch.is_grad_enabled() or torch.is_autocast_enabled("cpu") or compiling or watching())
