"""Python's collector of garbage."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["uncollected"]


@contextmanager
def uncollected() -> Iterator[None]:
    """Keeps the collector away while many objects are made that stay and have no cycles.

    It would look at all objects of the process again and again, which can take longer than making the new ones.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
