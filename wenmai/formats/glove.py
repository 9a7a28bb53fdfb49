"""What only the GloVe program writes: all parameters, biases included, as text or as float64 numbers.

The text of its vectors is that of word2vec without the heading, see :mod:`wenmai.formats.word2vec`.
"""

from pathlib import Path

import numpy as np

from wenmai.core.folder import writing
from wenmai.formats.word2vec import write_word2vec
from wenmai.models.glove import GloVeVectors
from wenmai.vectors.word_vectors import WordVectors

__all__ = ["write_glove_binary", "write_glove_parameters"]


def write_glove_parameters(path: str | Path, vectors: GloVeVectors) -> None:
    """Writes a line for each word, as ``glove -model 0``: its vector and bias, then those of it as a context."""
    rows = vectors.parameters().astype(np.float32)
    size = len(vectors)
    both = WordVectors(vectors.index_to_key, np.concatenate([rows[:size], rows[size:]], axis=1))
    write_word2vec(path, both, header=False)


def write_glove_binary(path: str | Path, vectors: GloVeVectors) -> None:
    """Writes ``vectors.bin``: (2V, d + 1) float64, little endian, no heading; the words are in no file of GloVe's."""
    with writing(path) as file:
        file.write(vectors.parameters().astype("<f8").data)
