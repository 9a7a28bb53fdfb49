"""Lists as settings: ``mlm,pair`` on the command line."""

from typing import Any

__all__ = ["listed"]


def listed(value: Any) -> Any:  # noqa: ANN401  what a user wrote, and pydantic checks
    """Returns the parts of ``mlm,pair`` as a list, for a ``BeforeValidator``; anything but text as it is."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value
