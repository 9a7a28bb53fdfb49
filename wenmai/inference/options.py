"""The options of a verb: a dataclass that is made of the keywords of a call."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, Self

from wenmai.core.errors import SettingError, nearest_name

__all__ = ["Options", "require_one_text", "require_positive", "require_repetition_penalty", "require_sampling"]

_HOTTEST = 1000  # nearly equal chances for all tokens
_SEEDS = 2**64
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


def require_one_text(verb: str, text: object) -> None:
    """Raises SettingError for what is no text, such as a list of them, where a verb takes one."""
    if not isinstance(text, str):
        raise SettingError(f"{verb} takes one text, not a {type(text).__name__}; call it for each text")


def require_positive(name: str, value: int) -> None:
    """Raises SettingError for a number of things below 1."""
    if value < 1:
        raise SettingError(f"{name}={value}: expected 1 or more")


def require_repetition_penalty(value: float) -> None:
    """Raises SettingError for a penalty with which the logits of a model may be no numbers any more."""
    least, most = _PENALTIES
    if not least <= value <= most:
        raise SettingError(f"repetition_penalty={value}: expected {least} to {most}")


def require_sampling(seed: int, temperature: float, top_k: int | None, top_p: float | None) -> None:
    """Raises SettingError for options of sampling that make no sense or would have no effect."""
    if not 0 <= seed < _SEEDS:
        raise SettingError(f"seed={seed}: expected 0 to {_SEEDS - 1}")
    if not 0 <= temperature <= _HOTTEST:
        raise SettingError(f"temperature={temperature}: expected 0 (the most likely token) to {_HOTTEST}")
    if top_k is not None:
        require_positive("top_k", top_k)
    if top_p is not None and not 0 < top_p <= 1:
        raise SettingError(f"top_p={top_p}: expected more than 0, and 1 at most")
    if temperature == 0 and (top_k is not None or top_p is not None):
        raise SettingError("top_k and top_p have no effect at temperature 0, which takes the most likely token")
