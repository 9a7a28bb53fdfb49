"""What only the GloVe program writes: all parameters, biases included, as text or as float64 numbers.

The text of its vectors is that of word2vec without the heading, see :mod:`wenmai.formats.word2vec`.
"""

from pathlib import Path

import numpy as np

from wenmai.core.folder import writing
from wenmai.formats.format import Format
from wenmai.formats.word2vec import import_vectors, write_word2vec
from wenmai.models.glove import GloVeVectors
from wenmai.vectors.word_vectors import WordVectors

__all__ = ["FORMATS", "write_glove_binary", "write_glove_parameters"]

_MODELS = ("wenmai.models.glove:GloVe",)


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


FORMATS = (
    Format(
        name="glove",
        summary="GloVe text: a word and its numbers a line, no heading",
        verb="nearest",
        write=lambda path, run: write_word2vec(path, run.model, header=False),
        read=import_vectors,
    ),
    Format(
        name="glove-words",
        summary="GloVe text of the word vectors alone, without those of contexts",
        models=_MODELS,
        write=lambda path, run: write_word2vec(path, run.model.in_form("words"), header=False),
    ),
    Format(
        name="glove-both",
        summary="GloVe text with word vector and context vector side by side",
        models=_MODELS,
        write=lambda path, run: write_word2vec(path, run.model.in_form("both"), header=False),
    ),
    Format(
        name="glove-parameters",
        summary="GloVe text of everything: word vector, its bias, context vector, its bias",
        models=_MODELS,
        write=lambda path, run: write_glove_parameters(path, run.model),
    ),
    Format(
        name="glove-binary",
        summary="GloVe's vectors.bin: the same as float64 numbers, words first, then contexts",
        models=_MODELS,
        write=lambda path, run: write_glove_binary(path, run.model),
    ),
)
