"""Settings that have no effect beside others."""

from collections.abc import Iterable
from dataclasses import fields
from typing import TYPE_CHECKING

from wenmai.core.errors import SettingError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["require_usual"]


def require_usual(section: "DataclassInstance", names: Iterable[str], choice: str, *, needed: str) -> None:
    """Makes sure that settings that have no effect were not set.

    Args:
        section: A section of settings.
        names: Those of its fields that have no effect.
        choice: Beside what they have none, such as ``mode=full``.
        needed: Beside what they would have one, such as ``mode=lora``.

    Raises:
        SettingError: if one of them differs from its default.
    """
    usual = {field.name: field.default for field in fields(section)}
    for name in names:
        if getattr(section, name) != usual[name]:
            raise SettingError(f"{name} has no effect with {choice}; leave it out, or add {needed}")
