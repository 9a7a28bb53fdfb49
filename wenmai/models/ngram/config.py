"""The settings of n-gram models."""

import re
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from annotated_types import Ge, Gt, Le
from typing_extensions import Doc

from wenmai.config.effects import require_usual
from wenmai.core.errors import SettingError, nearest_name

__all__ = ["MAX_ORDER", "CountingConfig", "NgramConfig", "Smoothing"]

MAX_ORDER = 16
_MOST_TIMES = 2**63 - 1  # what kernels can count to
Smoothing = Literal["modified-kneser-ney", "kneser-ney", "absolute", "add-k", "mle", "arpa"]


@dataclass(frozen=True, kw_only=True, slots=True)
class NgramConfig:
    """What is counted, and how counts become probabilities."""

    kind: Annotated[Literal["ngram"], Doc("the architecture")] = "ngram"
    order: Annotated[
        int, Ge(1), Le(MAX_ORDER), Doc("words of the longest n-gram: the predicted one, and those before it")
    ] = 5
    smoothing: Annotated[
        Smoothing,
        Doc(
            "where the probability of unseen words comes from: discounts of counts and of left neighbours "
            "(modified-kneser-ney, kneser-ney) or of counts alone (absolute), k more for each count, or nowhere (mle); "
            "arpa: of an imported file, not for training"
        ),
    ] = "modified-kneser-ney"
    k: Annotated[float, Gt(0), Doc("what add-k adds to each count; 1 is Laplace's rule")] = 1.0
    prune: Annotated[
        str,
        Doc("n-grams that occur at most so often are left out, a number for each order from 1 (0), such as 0,0,1"),
    ] = ""
    interpolate_unigrams: Annotated[
        bool, Doc("words share the probability of unknown words; off: it all goes to <unk>, as in SRILM")
    ] = True

    def __post_init__(self) -> None:
        if self.smoothing not in get_args(Smoothing):
            hint = nearest_name(str(self.smoothing), get_args(Smoothing))
            raise SettingError(f"smoothing={self.smoothing!r} is not one of {', '.join(get_args(Smoothing))}{hint}")
        if self.smoothing == "add-k" and any(self.thresholds):
            raise SettingError("prune cannot be used with add-k, where n-grams left out would have no probability")
        if self.k != 1.0 and self.smoothing != "add-k":
            raise SettingError(f"k={self.k} has no effect with smoothing={self.smoothing}; it is for smoothing=add-k")
        if self.smoothing in ("add-k", "mle"):
            require_usual(
                self, ("interpolate_unigrams",), f"smoothing={self.smoothing}", needed="smoothing=modified-kneser-ney"
            )

    @property
    def thresholds(self) -> tuple[int, ...]:
        """For each order from 1, how often an n-gram may occur and still be left out."""
        parts = [part for part in re.split(r"[,\s]+", self.prune.strip("[]() ")) if part]
        if not all(part.isascii() and part.isdigit() for part in parts):
            raise SettingError(f"prune={self.prune!r}: expected whole numbers with commas, such as 0,0,1")
        numbers = [min(int(part), _MOST_TIMES) for part in parts] or [0]
        if numbers[0] != 0:
            raise SettingError(
                f"prune={self.prune!r}: the first is of single words, which min_count leaves out; give 0"
            )
        if numbers != sorted(numbers) or len(numbers) > self.order:
            raise SettingError(
                f"prune={self.prune!r}: expected at most {self.order} numbers, none smaller than the one before; the "
                "last is that of all longer n-grams too"
            )
        return (*numbers, *[numbers[-1]] * (self.order - len(numbers)))

    @property
    def continues(self) -> bool:
        """Whether shorter n-grams are counted by their left neighbours."""
        return self.smoothing in ("kneser-ney", "modified-kneser-ney")


@dataclass(frozen=True, kw_only=True, slots=True)
class CountingConfig:
    """How a text is counted."""

    memory: Annotated[
        float, Gt(0), Doc("gigabytes for counting and estimating; a text that needs more is sorted on disk")
    ] = 4.0
