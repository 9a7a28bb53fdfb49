"""From vectors of words to features of texts and of positions in them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import RunError, SettingError

__all__ = ["SIF", "StaticTokens", "TokenVectors", "Weighting", "Windows", "embedded", "pooled", "token_encoder"]

Rows = npt.NDArray[np.float32]
Weighting = Literal["mean", "sif"]

SIF = 1e-3  # Arora et al. 2017, section 4.1: weights a / (a + p(w)) with a between 1e-4 and 1e-3


class TokenVectors(Protocol):
    """Whatever gives each token of a sentence a vector; one of a contextual model depends on the whole sentence."""

    @property
    def vector_size(self) -> int:
        """The number of dimensions d."""

    def token_vectors(self, sentences: Iterable[Sequence[str]]) -> Iterator[Rows]:
        """Yields float32 [T, d] for each sentence of T tokens; a token without a vector has zeros."""


class StaticTokens:
    """Word vectors as :class:`TokenVectors`: each word has one vector in every context.

    Args:
        vectors: An object with ``vector_size``, ``key_to_index``, ``vectors`` [V, d], ``get_vector(word)`` and
            ``has_vector(word)``, which may hold for words outside the vocabulary too (subwords).
    """

    def __init__(self, vectors: Any) -> None:  # noqa: ANN401  any of several classes
        self._vectors = vectors
        self._unseen: dict[str, Rows] = {}

    @property
    def vector_size(self) -> int:
        """The number of dimensions d."""
        return int(self._vectors.vector_size)

    def in_vocabulary(self, token: str) -> bool:
        """Whether the text of the vectors had the token; others may have a vector all the same."""
        return token in self._vectors.key_to_index

    def token_vectors(self, sentences: Iterable[Sequence[str]]) -> Iterator[Rows]:
        """Yields float32 [T, d] for each sentence."""
        table, index = self._vectors.vectors, self._vectors.key_to_index
        for sentence in sentences:
            rows = np.array([index.get(token, -1) for token in sentence], np.int64)
            known = rows >= 0
            found = np.zeros((len(sentence), self.vector_size), np.float32)
            found[known] = table[rows[known]]
            for place in np.flatnonzero(~known).tolist():
                found[place] = self._of_unseen(sentence[place])
            yield found

    def _of_unseen(self, token: str) -> Rows:
        if token not in self._unseen:
            has = bool(token) and self._vectors.has_vector(token)
            found = self._vectors.get_vector(token) if has else np.zeros(self.vector_size)
            self._unseen[token] = np.asarray(found, np.float32)
        return self._unseen[token]


def token_encoder(model: Any, system: str = "model") -> TokenVectors:  # noqa: ANN401  the model of any run
    """Returns the token vectors of a model.

    Args:
        model: Has ``token_vectors``, or is word vectors, or has word vectors under ``vectors()``.
        system: What was trained, for the message.

    Raises:
        RunError: if it has none of these.
    """
    if callable(getattr(model, "token_vectors", None)):
        encoder: TokenVectors = model
        return encoder
    if hasattr(model, "key_to_index"):
        return StaticTokens(model)
    if callable(getattr(model, "vectors", None)):
        return StaticTokens(model.vectors())
    raise RunError(f"a run of {system} has no vectors of words; name a run of word vectors or of an encoder")


def pooled(
    encoder: TokenVectors, sentences: Sequence[Sequence[str]], weight: Callable[[str], float] | None = None
) -> Rows:
    """Returns the weighted average of the vectors of each sentence, float32 [N, d].

    Tokens without a vector do not count; a sentence with none of them has zeros.

    Args:
        encoder: Gives tokens their vectors.
        sentences: N lists of tokens.
        weight: Of a token; all 1 if not given.
    """
    found = np.zeros((len(sentences), encoder.vector_size), np.float32)
    for row, (tokens, vectors) in enumerate(zip(sentences, encoder.token_vectors(sentences), strict=True)):
        if not len(tokens):
            continue
        weights = np.array([weight(token) for token in tokens]) if weight else np.ones(len(tokens))
        weights *= vectors.any(axis=1)
        total = weights.sum()
        if total > 0:
            found[row] = (weights / total) @ vectors
    return found


def embedded(vectors: Any, sentences: Sequence[Sequence[str]], weighting: Weighting = "mean") -> Rows:  # noqa: ANN401
    """Returns the vectors of sentences by those of their words, float32 [N, d]; see :func:`pooled`.

    Args:
        vectors: Word vectors, as :class:`StaticTokens` takes them, with ``counts`` [V] or None.
        sentences: N lists of words.
        weighting: ``mean``: all words alike; ``sif``: a / (a + p) with a = 0.001 and the frequency p of the word in
            the training text (Arora, Liang and Ma 2017, equation 1, without their common component).

    Raises:
        SettingError: for another weighting, or ``sif`` where the frequencies are unknown.
    """
    encoder = StaticTokens(vectors)
    if weighting == "mean":
        return pooled(encoder, sentences)
    if weighting != "sif":
        raise SettingError(f"weighting={weighting!r}: expected mean or sif")
    if vectors.counts is None or not vectors.counts.any():
        raise SettingError("weighting=sif needs the counts of words, which these vectors do not have; use mean")
    total, counts, index = vectors.counts.sum(), vectors.counts, vectors.key_to_index
    return pooled(
        encoder, sentences, lambda word: SIF / (SIF + (counts[index[word]] / total if word in index else 0.0))
    )


class Windows:
    """For each token its vector between those of its neighbours, computed on demand.

    Rows are taken as of an array, ``windows[rows]`` is float32 [len(rows), (2 width + 1) d]; beyond the ends of a
    sentence there are zeros.

    Args:
        encoder: Gives tokens their vectors.
        sentences: Lists of tokens.
        width: Neighbours on each side.
        scaling: Mean and deviation [d] that vectors are scaled by; those of these tokens if not given. Tokens without
            a vector stay zero.

    Attributes:
        shape: Tokens and features.
        scaling: Mean and deviation [d] that were used.
        covered: The proportion of tokens that have a vector.
    """

    def __init__(
        self,
        encoder: TokenVectors,
        sentences: Sequence[Sequence[str]],
        width: int,
        scaling: tuple[Rows, Rows] | None = None,
    ) -> None:
        size = encoder.vector_size
        total = sum(map(len, sentences))
        self._offsets = np.arange(-width, width + 1)
        self._table = np.zeros((total + width * (len(sentences) + 1), size), np.float32)
        self._places = np.empty(total, np.int64)
        at, row = width, 0
        for vectors in encoder.token_vectors(sentences):
            count = len(vectors)
            self._table[at : at + count] = vectors
            self._places[row : row + count] = np.arange(at, at + count)
            at, row = at + count + width, row + count
        known = self._places[self._table[self._places].any(axis=1)]
        self.covered = len(known) / max(1, total)
        if scaling is None:
            found = self._table[known] if len(known) else np.zeros((1, size), np.float32)
            deviation = found.std(axis=0)
            scaling = found.mean(axis=0), np.where(deviation > 0, deviation, 1).astype(np.float32)
        self.scaling = scaling
        self._table[known] = (self._table[known] - scaling[0]) / scaling[1]
        self.shape = (total, (2 * width + 1) * size)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Rows:  # noqa: ANN401  whatever indexes an array
        found: Rows = self._table[self._places[rows][:, None] + self._offsets]
        return found.reshape(len(found), -1)
