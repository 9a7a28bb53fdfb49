"""What every converter of pinyin does."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

__all__ = ["Candidate", "Converter"]


class Candidate(NamedTuple):
    """Characters that an input may stand for.

    Attributes:
        text: The characters; what is no pinyin is as it was typed.
        probability: How likely they are among all that the search kept, 0 to 1.
    """

    text: str
    probability: float


class Converter(Protocol):
    """Turns pinyin into characters."""

    def convert(
        self, texts: Sequence[str], *, n_best: int = 1, toned: bool | None = None, context: str = ""
    ) -> list[list[Candidate]]:
        """Converts inputs.

        Args:
            texts: Pinyin: letters with or without spaces, apostrophes and tones; everything else is kept.
            n_best: Candidates of each input, the most likely first.
            toned: Whether tones count; None: where there are some.
            context: The text before.
        """
