"""Ctrl-C, and the signal of a scheduler, end a training between two steps."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["interrupts_set", "terminations_as_interrupts"]


@contextmanager
def interrupts_set(stop: threading.Event) -> Iterator[None]:
    """Lets SIGINT and SIGTERM set ``stop``, so that a training ends between two steps; a second one ends it at once.

    Handlers installed by others stay.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    usual = (signal.default_int_handler, signal.SIG_DFL)
    replaced = {number: handler for number, handler in handlers.items() if handler in usual}

    def interrupt(*_: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    for number in replaced:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in replaced.items():
            signal.signal(number, handler)


@contextmanager
def terminations_as_interrupts() -> Iterator[None]:
    """Lets SIGTERM raise KeyboardInterrupt, as SIGINT does, so that whoever is at work can tidy up and say so.

    A handler that someone else has installed stays.
    """
    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if ours:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
