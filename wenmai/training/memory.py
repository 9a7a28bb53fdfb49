"""Free memory given back to the operating system.

Batches differ in shape, so tensors of a training on a CPU differ in size from batch to batch. The allocator of glibc
puts those below 32 MB into one heap, which it can shorten only at its end: what is freed inside stays resident, holes
seldom fit the next batch, and the process grows for as long as new shapes come. ``malloc_trim`` gives such holes back.
"""

import ctypes
from collections.abc import Callable
from functools import cache

__all__ = ["release_free_memory"]


def release_free_memory() -> None:
    """Gives memory back that nothing uses; does nothing where the allocator is not that of glibc."""
    if (trim := _malloc_trim()) is not None:
        trim(0)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, TypeError, AttributeError):  # Windows; musl, macOS
        return None
    return trim
