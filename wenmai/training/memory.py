"""Free memory: kept between the steps of a training, given back to the operating system now and then.

The largest tensors live for one step. The allocator of glibc returns what is freed at the end of its heap at once, so
the next step has to fault thousands of empty pages in again, which can cost a tenth of a training.

Batches differ in shape, so tensors of a training on a CPU differ in size from batch to batch. The allocator of glibc
puts those below 32 MB into one heap, which it can shorten only at its end: what is freed inside stays resident, holes
seldom fit the next batch, and the process grows for as long as new shapes come. ``malloc_trim`` gives such holes back.
"""

import ctypes
from collections.abc import Callable
from functools import cache

__all__ = ["keep_free_memory", "release_free_memory"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # glibc's names of what mallopt sets
_KEPT = 1 << 30
_LARGEST_OF_HEAP = 32 << 20  # glibc takes no more


def keep_free_memory() -> None:
    """Lets this process keep up to 1 GB at the end of its heap; does nothing where the allocator is not glibc's."""
    if (mallopt := _function("mallopt")) is not None:
        mallopt(_TRIM_THRESHOLD, _KEPT)
        mallopt(_MMAP_THRESHOLD, _LARGEST_OF_HEAP)


def release_free_memory() -> None:
    """Gives memory back that nothing uses; does nothing where the allocator is not that of glibc."""
    if (trim := _function("malloc_trim")) is not None:
        trim(0)


@cache
def _function(name: str) -> Callable[..., int] | None:
    try:
        function: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (OSError, TypeError, AttributeError):  # Windows; musl, macOS
        return None
    return function
