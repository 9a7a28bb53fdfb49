"""The files of word2vec.c, gensim, fastText and GloVe, both ways; :mod:`wenmai.vectors.word2vec_files` reads them."""

from pathlib import Path

import numpy as np

from wenmai.formats.format import Format, Imported
from wenmai.models.word2vec import Word2Vec, Word2VecConfig
from wenmai.text.vocab import Vocab
from wenmai.vectors.word2vec_files import write_rows
from wenmai.vectors.word_vectors import WordVectors

__all__ = ["FORMATS", "import_vectors", "read_word2vec", "write_word2vec"]


def read_word2vec(
    path: str | Path,
    *,
    binary: bool | None = None,
    limit: int | None = None,
    no_header: bool | None = None,
    encoding_errors: str = "strict",
) -> WordVectors:
    """Reads word vectors in word2vec's text or binary format, or GloVe's text format.

    The arguments are those of :meth:`WordVectors.load_word2vec_format`, ``encoding_errors`` its ``unicode_errors``.

    Raises:
        FormatError: if the file is missing, damaged, truncated, or of another format.
        SettingError: if the arguments are invalid.
    """
    return WordVectors.load_word2vec_format(
        path, binary=binary, limit=limit, no_header=no_header, unicode_errors=encoding_errors
    )


def write_word2vec(path: str | Path, vectors: WordVectors, *, binary: bool = False, header: bool = True) -> None:
    """Writes word vectors in word2vec's text or binary format, whole or not at all, in the order of their rows.

    Raises:
        FormatError: if a word is empty, holds whitespace, or is no valid Unicode.
        SettingError: if a binary file is wanted without a heading, or the name ends like a compressed file's.
    """
    write_rows(path, vectors.index_to_key, vectors.vectors, binary=binary, header=header)


def import_vectors(path: Path) -> Imported:
    """Reads what :func:`read_word2vec` does as the model of a word2vec run, whose other half is unknown.

    Raises:
        FormatError: as :func:`read_word2vec`.
    """
    vectors = read_word2vec(path)
    config = Word2VecConfig(vector_size=vectors.vector_size)
    counts = vectors.counts if vectors.counts is not None else np.zeros(len(vectors), np.int64)
    model = Word2Vec(config, Vocab(vectors.index_to_key, counts))
    model.input[:, : config.vector_size] = vectors.vectors
    settings = {"vector_size": config.vector_size}
    return Imported(system="word2vec", model=model, vocabulary=len(vectors), settings=settings)


FORMATS = (
    Format(
        name="word2vec",
        summary="word2vec text: `V d`, then a word and its numbers a line; read: binary, GloVe and compressed too",
        verb="nearest",
        write=lambda path, run: write_word2vec(path, run.model),
        read=import_vectors,
    ),
    Format(
        name="word2vec-binary",
        summary="word2vec binary: the same with float32 numbers",
        verb="nearest",
        write=lambda path, run: write_word2vec(path, run.model, binary=True),
    ),
)
