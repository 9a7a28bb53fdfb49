"""The states that a contextual encoder gives the tokens of a text."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Layers"]


class Layers(NamedTuple):
    """The states of the T tokens of a text in all layers.

    Attributes:
        tokens: The tokens of the text, without special ones.
        offsets: Where each begins and ends in the text, in characters.
        vectors: (L + 1, T, M) float32: first those that the first of L layers reads, which do not depend on the text
            around a token, then what each layer makes of them.
    """

    tokens: list[str]
    offsets: list[tuple[int, int]]
    vectors: npt.NDArray[np.float32]
