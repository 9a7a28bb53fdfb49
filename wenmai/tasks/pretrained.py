"""Pretrained vectors as the initial vectors of a training."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import RunError, SettingError
from wenmai.models.fasttext import FastText
from wenmai.text.vocab import Vocab
from wenmai.training.run import Run
from wenmai.vectors.word_vectors import WordVectors

__all__ = ["insert_vectors", "numbers_of", "pretrained_vectors"]


def numbers_of(names: Sequence[str], vocab: Any) -> npt.NDArray[np.int32]:  # noqa: ANN401  Vocab or ()
    """The number of each name in a vocabulary, or -1; int32."""
    tokens = vocab.tokens if isinstance(vocab, Vocab) else vocab
    size = len(tokens)
    if size <= len(names) and names[:size] == tokens:  # it was made from these names
        return np.where(np.arange(len(names)) < size, np.arange(len(names)), -1).astype(np.int32)
    number = dict(zip(tokens, range(size), strict=True))
    return np.array([number.get(name, -1) for name in names], np.int32)


def pretrained_vectors(name: str, size: int) -> WordVectors:
    """Reads vectors from a file or a run.

    Raises:
        SettingError: if their size differs.
    """
    from wenmai.formats.word2vec import read_word2vec

    path = Path(name)
    if path.is_dir():
        found = Run(path).model
        if not isinstance(found, WordVectors):
            if not hasattr(found, "vectors"):
                raise RunError(f"{path}: has no word vectors")
            found = found.vectors()
        vectors: WordVectors = found
    else:
        vectors = read_word2vec(path)
    if vectors.vector_size != size:
        raise SettingError(
            f"pretrained={name} has vectors of {vectors.vector_size} numbers; set vector_size={vectors.vector_size}"
        )
    return vectors


def insert_vectors(model: FastText, vectors: WordVectors, *, first: int) -> None:
    """Copies vectors into the rows of their words, from row ``first`` on."""
    numbers = numbers_of(vectors.index_to_key, model.vocab)
    chosen = np.flatnonzero(numbers >= first)
    model.dense("input")[numbers[chosen], : vectors.vector_size] = vectors.vectors[chosen]
