"""Errors as the official module raises them."""

from collections.abc import Iterator
from contextlib import contextmanager

from wenmai.core.errors import WenmaiError

__all__ = ["FastTextError", "value_errors"]


class FastTextError(WenmaiError, ValueError):
    """Anything that cannot be done; the official module raises ``ValueError``."""


@contextmanager
def value_errors() -> Iterator[None]:
    """Turns the errors of wenmai into :class:`FastTextError`, with the same message."""
    try:
        yield
    except FastTextError:
        raise
    except WenmaiError as error:
        raise FastTextError(str(error)) from error
