"""Memory of tensors whose addresses are handed to compiled code.

A tensor of PyTorch may get other memory at any time: ``to``, ``half`` and ``data = ...`` replace it, ``resize_`` and
``share_memory_`` move it, ``del`` frees it. So compiled code gets the address of a :class:`Held` tensor alone.
"""

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["Held", "Parameters", "usable"]

_version = attrgetter("_version")


def usable(tensor: Tensor, dtype: torch.dtype = torch.float32) -> bool:
    """Whether compiled code can read a tensor: plain, contiguous, on the CPU, with all of its memory there."""
    return (
        type(tensor) in (Tensor, nn.Parameter)
        and tensor.dtype is dtype
        and tensor.is_cpu
        and tensor.layout is torch.strided
        and tensor.is_contiguous()
        and not tensor.is_neg()
        and (tensor.storage_offset() + tensor.numel()) * tensor.element_size() <= tensor.untyped_storage().nbytes()
    )


class Held:
    """The memory of a tensor, which stays where it is as long as this object lives.

    This is another tensor of the same memory, so that the first may be moved, cast or deleted; and NumPy's view of it,
    which forbids PyTorch to resize it. Only ``share_memory_`` moves it still.

    Args:
        tensor: What is done to it later is of no concern.
        shape: That it must have.
        what: Its name, for the message.
        dtype: That it must have.

    Attributes:
        address: Of its first number.

    Raises:
        ValueError: if it has another shape, or cannot be read by compiled code.
    """

    __slots__ = ("_view", "address", "dtype", "shape", "tensor")

    def __init__(self, tensor: Tensor, shape: Sequence[int], what: str, dtype: torch.dtype = torch.float32) -> None:
        self.tensor, self.shape, self.dtype = tensor.detach(), torch.Size(shape), dtype
        if not self.describes(tensor) or not usable(self.tensor, dtype):
            self._refuse(what)
        self._view: Any = self.tensor.numpy()
        if not usable(self.tensor, dtype):  # another thread had resized it meanwhile
            self._refuse(what)
        self.address: int = self.tensor.data_ptr()

    def describes(self, tensor: Tensor) -> bool:
        """Whether a tensor is of this type and shape."""
        return tensor.shape == self.shape and tensor.dtype is self.dtype and tensor.is_contiguous()

    def _refuse(self, what: str) -> None:
        found, expected = (str(dtype).removeprefix("torch.") for dtype in (self.tensor.dtype, self.dtype))
        raise ValueError(
            f"{what}: expected contiguous {expected} of the shape {(*self.shape,)} on the CPU, not {found} of "
            f"{(*self.tensor.shape,)} on {self.tensor.device}"
        )


class Parameters:
    """The parameters of a model at the addresses, and with the values, that they have now.

    Args:
        tensors: With the shape of each; or none.

    Attributes:
        addresses: Of each; 0 for none.

    Raises:
        ValueError: as :class:`Held`.
    """

    def __init__(self, tensors: Iterable[tuple[Tensor | None, Sequence[int]]]) -> None:
        held = [None if tensor is None else Held(tensor, shape, "a parameter") for tensor, shape in tensors]
        self.addresses = [0 if one is None else one.address for one in held]
        self._held = [one for one in held if one is not None]
        self._tensors = [one.tensor for one in self._held]
        self._found = [one.address for one in self._held]
        self._counted = [tensor for tensor in self._tensors if not tensor.is_inference()]  # others count no writing
        self._versions = [*map(_version, self._counted)]

    def require_unchanged(self) -> None:
        """Makes sure that the memory is still there, and was not written to.

        Raises:
            ValueError: if it was moved into shared memory, or its values were changed in place.
        """
        if [*map(Tensor.data_ptr, self._tensors)] != self._found or [*map(_version, self._counted)] != self._versions:
            raise ValueError(
                "the parameters of the model were changed while a text was being generated; begin the text again"
            )
