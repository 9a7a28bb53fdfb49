"""Networks whose parameters are read from a file, made without drawing any that would be thrown away."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

__all__ = ["blank"]

_DRAWING = {"kaiming_uniform_", "normal_", "uniform_"}


class _Zeros(TorchFunctionMode):
    """Fills tensors with zeros where random numbers would be drawn."""

    def __torch_function__(
        self,
        function: Callable[..., object],
        types: object,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        if getattr(function, "__name__", "") in _DRAWING:
            return (args[0] if args else (kwargs or {})["tensor"]).detach().zero_()
        return function(*args, **(kwargs or {}))


@contextmanager
def blank(*, on_meta: bool = False) -> Iterator[None]:
    """Makes networks with zeros instead of random parameters.

    Large ones are made in less time, and on the meta device torch would load its compiler to draw a number.

    Args:
        on_meta: Without memory for tensors either: they have shapes alone.
    """
    with torch.device("meta") if on_meta else nullcontext(), _Zeros():
        yield
