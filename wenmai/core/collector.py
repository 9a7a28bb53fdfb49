"""Python's garbage collector, paused while many objects are made."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["uncollected"]


@contextmanager
def uncollected() -> Iterator[None]:
    """Pauses the garbage collector while many objects are made that are kept and have no cycles.

    It would traverse all objects of the process again and again, which can take longer than making the new ones.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
