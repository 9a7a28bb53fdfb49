"""Ctrl-C, and the signal of a scheduler, end a training between two steps."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["interrupts_set"]


@contextmanager
def interrupts_set(stop: threading.Event) -> Iterator[None]:
    """Lets SIGINT and SIGTERM set ``stop``, so that a training ends between two steps; a second one ends it at once.

    Handlers installed by others stay.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    replaced = {number: usual for number, usual in ours.items() if signal.getsignal(number) is usual}

    def interrupt(*_: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    for number in replaced:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, usual in replaced.items():
            signal.signal(number, usual)
