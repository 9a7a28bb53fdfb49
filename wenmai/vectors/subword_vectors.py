"""Word vectors that also have a vector for unseen words, computed from their parts."""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wenmai.vectors.errors import UnknownWordError
from wenmai.vectors.lengths import Vector, unit
from wenmai.vectors.table import Key
from wenmai.vectors.word_vectors import WordVectors

__all__ = ["SubwordVectors"]

Compose = Callable[[str], NDArray[np.float32] | None]
Split = Callable[[str], tuple[list[str], NDArray[np.int32]]]


class SubwordVectors(WordVectors):
    """Word vectors in which a word outside the vocabulary has a vector too.

    Every method that takes words takes unseen ones; those that return words search the vocabulary. ``word in vectors``
    says whether a word is in the vocabulary (in gensim, whether it has a vector).

    Args:
        keys: V different words.
        vectors: (V, d) numbers.
        counts: (V,) whole numbers, if known.
        compose: Gives the vector (d,) of a word outside the vocabulary, or None if it has no known part.
        split: Gives the parts of a word and the row of each in the model's input.
    """

    def __init__(
        self,
        keys: Iterable[str],
        vectors: ArrayLike,
        counts: ArrayLike | None = None,
        *,
        compose: Compose,
        split: Split,
    ) -> None:
        super().__init__(keys, vectors, counts)
        self._compose = compose
        self._split = split

    def get_subwords(self, word: str) -> tuple[list[str], NDArray[np.int32]]:
        """Returns the parts of a word, itself among them if it is known, and their rows in the model's input."""
        return self._split(word)

    def get_vector(self, word: Key, norm: bool = False) -> Vector:
        """Returns the vector (d,) of any word, scaled to length 1 if ``norm``.

        Raises:
            UnknownWordError: if it is not in the vocabulary and has no part that the model knows.
        """
        if word in self.key_to_index or not isinstance(word, str):
            return super().get_vector(word, norm)
        vector = self._compose(word)
        if vector is None:
            raise UnknownWordError(word, self.key_to_index)
        return unit(vector) if norm else vector

    def get_vectors(self, words: Iterable[Key], norm: bool = False) -> Vector:
        """Returns the vectors (n, d) of any words, scaled to length 1 if ``norm``."""
        found = [self.get_vector(word, norm) for word in words]
        return np.stack(found) if found else np.empty((0, self.vector_size), np.float32)

    def has_vector(self, word: Key) -> bool:
        """Whether the word is in the vocabulary or has a part that the model knows."""
        return word in self or (isinstance(word, str) and self._compose(word) is not None)
