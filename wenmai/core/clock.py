"""A clock that stands still while code is compiled, so that no speed and no time left contains compiling.

numba compiles a kernel when it is first called, and ``torch.compile`` a model at its first batch: seconds that come
once and say nothing of what follows. Whoever compiles stops the clock (see :mod:`wenmai.kernels` and
:mod:`wenmai.training.compiling`); whoever times work reads it.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["CLOCK", "Clock"]

Announce = Callable[[str], None]


class Clock:
    """Seconds, without those of compiling.

    Args:
        time: The seconds that pass.
    """

    def __init__(self, time: Callable[[], float] = time.monotonic) -> None:
        self._time = time
        self._lock = threading.RLock()
        self._stops = 0  # that have not ended: one kernel compiles another, threads compile side by side
        self._stopped_at = 0.0
        self._left_out = 0.0
        self._listeners: list[Announce] = []

    def now(self) -> float:
        """Returns the seconds since some moment in the past."""
        with self._lock:
            return (self._stopped_at if self._stops else self._time()) - self._left_out

    def stop(self) -> None:
        """Stops the clock until :meth:`go_on` was called as often."""
        with self._lock:
            if self._stops == 0:
                self._stopped_at = self._time()
            self._stops += 1

    def go_on(self) -> None:
        """Ends a stop."""
        with self._lock:
            self._stops -= 1
            if self._stops == 0:
                self._left_out += self._time() - self._stopped_at

    def announce(self, what: str) -> None:
        """Tells all listeners what is being compiled."""
        for listener in [*self._listeners]:
            listener(what)

    @contextmanager
    def announcing(self, listener: Announce) -> Iterator[None]:
        """Lets a listener know when something is compiled; it may be called often, and in any thread."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)


CLOCK = Clock()
