"""The layers of an encoder: the vectors of the tokens of a text before its first layer and after each."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Layers"]


class Layers(NamedTuple):
    """The vectors of one text.

    Attributes:
        tokens: The tokens, T.
        offsets: Where each begins and ends in the text, in characters.
        vectors: (L, T, M) float32: before the first layer and after each.
    """

    tokens: list[str]
    offsets: list[tuple[int, int]]
    vectors: npt.NDArray[np.float32]
