"""The options of a verb: a dataclass that is made of the keywords of a call."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, Self

from wenmai.core.errors import SettingError, nearest_name

__all__ = ["Options", "require_positive", "require_repetition_penalty"]

_PENALTIES = (0.01, 100)  # with others the numbers of a model overflow


class Options:
    """Base of the options of a verb, which are dataclasses.

    Attributes:
        work: What they are options of, for messages.
    """

    __slots__ = ()
    work: ClassVar[str]

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Makes the options of a call.

        Raises:
            SettingError: if there is no such option, or a value makes no sense.
        """
        known = [one.name for one in fields(cls)]  # type: ignore[arg-type]  # each subclass is a dataclass
        for name in options:
            if name not in known:
                raise SettingError(f"there is no option {name!r} of {cls.work}{nearest_name(name, known)}")
        return cls(**options)


def require_positive(name: str, value: int) -> None:
    """Raises SettingError for a number of things below 1."""
    if value < 1:
        raise SettingError(f"{name}={value}: expected 1 or more")


def require_repetition_penalty(value: float) -> None:
    """Raises SettingError for a penalty with which the logits of a model may be no numbers any more."""
    least, most = _PENALTIES
    if not least <= value <= most:
        raise SettingError(f"repetition_penalty={value}: expected {least} to {most}")
