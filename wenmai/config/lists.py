"""Lists as settings: ``mlm,pair`` on the command line."""

from typing import Any

__all__ = ["listed"]


def listed(value: Any) -> Any:  # noqa: ANN401  what a user wrote, and pydantic checks
    """Returns the parts of ``mlm,pair``, or a list, as a tuple, for a ``BeforeValidator``; anything else as it is."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return tuple(value) if isinstance(value, list) else value
