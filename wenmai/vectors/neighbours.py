"""The nearest words: of a word, of a vector, of a sum or a product of several."""

from collections.abc import Iterable, Sequence
from itertools import islice
from numbers import Integral
from typing import Literal, Protocol, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wenmai.core.errors import SettingError
from wenmai.vectors.lengths import Vector, unit
from wenmai.vectors.search import nearest_rows, top_scores
from wenmai.vectors.table import Key, VectorTable, is_key

__all__ = ["COSMUL_EPSILON", "Indexer", "NearestWords", "Neighbours", "Term", "Terms"]

Term = Key | NDArray[np.floating] | tuple[Key | NDArray[np.floating], float]
Terms = Term | Sequence[Term] | None
Neighbours = list[tuple[str, float]]

COSMUL_EPSILON = 0.001  # Levy and Goldberg 2014, below equation 4


class Indexer(Protocol):
    """A search of one's own, such as an approximate one."""

    def most_similar(self, vector: Vector, num_neighbors: int, /) -> Neighbours:
        """Returns the words nearest to a vector (d,) of length 1."""


class NearestWords(VectorTable):
    """A table of vectors that is asked for the nearest words.

    Similarity is always the cosine; that of a zero vector is 0. Words of equal similarity come in row order.
    """

    @overload
    def most_similar(
        self,
        positive: Terms = None,
        negative: Terms = None,
        topn: int = 10,
        clip_start: int = 0,
        clip_end: int | None = None,
        restrict_vocab: int | None = None,
        indexer: Indexer | None = None,
    ) -> Neighbours: ...
    @overload
    def most_similar(
        self,
        positive: Terms = None,
        negative: Terms = None,
        *,
        topn: None,
        clip_start: int = 0,
        clip_end: int | None = None,
        restrict_vocab: int | None = None,
    ) -> Vector: ...
    def most_similar(
        self,
        positive: Terms = None,
        negative: Terms = None,
        topn: int | None = 10,
        clip_start: int = 0,
        clip_end: int | None = None,
        restrict_vocab: int | None = None,
        indexer: Indexer | None = None,
    ) -> Neighbours | Vector:
        """Returns the words with the largest cosine to a sum of words and vectors (3CosAdd).

        Args:
            positive: words, vectors, or ``(word or vector, weight)`` pairs that are added.
            negative: those that are subtracted. As in gensim, the weight of a pair is taken as it is, so a
                pair here needs a negative weight.
            topn: how many words to return; the words of the question never are. None: the cosines of all rows
                that are searched, in row order, as an array.
            clip_start: the first row that is searched.
            clip_end: the row after the last one; the last of all by default.
            restrict_vocab: search only this many of the first (most frequent) words.
            indexer: searches instead, all rows, if a number of words is wanted.

        Raises:
            SettingError: if nothing is asked for, or a weight is not finite.
            UnknownWordError: if a word has no vector.

        Source: Mikolov, Yih and Zweig 2013, "Linguistic Regularities in Continuous Space Word
        Representations".
        """
        wanted = _wanted(topn)
        if wanted == 0:
            return []
        weighted = [_weighted(term, 1.0) for term in _terms(positive)]
        weighted += [_weighted(term, -1.0) for term in _terms(negative)]
        keys = [key for key, _ in weighted]
        weights = [weight for _, weight in weighted]
        mean = self.get_mean_vector(keys, weights, post_normalize=True, ignore_missing=False)
        if indexer is not None and wanted is not None:
            return indexer.most_similar(mean, wanted)
        start, stop = self._searched(restrict_vocab, clip_start, clip_end)
        rows, scale = self.vectors[start:stop], self._inverse_norms[start:stop]
        if wanted is None:
            cosines: Vector = (rows @ mean) * scale
            return cosines
        asked = {self.get_index(key) for key in keys if is_key(key) and self.has_index_for(key)}
        ids, scores = nearest_rows(rows, scale, mean[None], wanted + len(asked))
        return self._named(ids[0] + start, scores[0], asked, wanted)

    @overload
    def similar_by_key(self, key: Key, topn: int = 10, restrict_vocab: int | None = None) -> Neighbours: ...
    @overload
    def similar_by_key(self, key: Key, topn: None, restrict_vocab: int | None = None) -> Vector: ...
    def similar_by_key(self, key: Key, topn: int | None = 10, restrict_vocab: int | None = None) -> Neighbours | Vector:
        """Returns the words with the largest cosine to a word, or all cosines for ``topn=None``."""
        if topn is None:
            return self.most_similar([key], topn=None, restrict_vocab=restrict_vocab)
        return self.most_similar([key], topn=topn, restrict_vocab=restrict_vocab)

    similar_by_word = similar_by_key

    @overload
    def similar_by_vector(
        self, vector: NDArray[np.floating], topn: int = 10, restrict_vocab: int | None = None
    ) -> Neighbours: ...
    @overload
    def similar_by_vector(
        self, vector: NDArray[np.floating], topn: None, restrict_vocab: int | None = None
    ) -> Vector: ...
    def similar_by_vector(
        self, vector: NDArray[np.floating], topn: int | None = 10, restrict_vocab: int | None = None
    ) -> Neighbours | Vector:
        """Returns the words with the largest cosine to a vector (d,), or all cosines for ``topn=None``."""
        if topn is None:
            return self.most_similar([vector], topn=None, restrict_vocab=restrict_vocab)
        return self.most_similar([vector], topn=topn, restrict_vocab=restrict_vocab)

    @overload
    def most_similar_cosmul(
        self, positive: Terms = None, negative: Terms = None, topn: int = 10, restrict_vocab: int | None = None
    ) -> Neighbours: ...
    @overload
    def most_similar_cosmul(
        self, positive: Terms = None, negative: Terms = None, *, topn: None, restrict_vocab: int | None = None
    ) -> Vector: ...
    def most_similar_cosmul(
        self, positive: Terms = None, negative: Terms = None, topn: int | None = 10, restrict_vocab: int | None = None
    ) -> Neighbours | Vector:
        """Returns the words that maximise a product and quotient of cosines (3CosMul).

        The score is ``prod(cos'(w, positive)) / (prod(cos'(w, negative)) + 0.001)`` with
        ``cos' = (cos + 1) / 2``.

        Args:
            positive: words or vectors in the numerator.
            negative: words or vectors in the denominator.
            topn: how many words to return; the words of the question never are. None: all scores, as an array.
            restrict_vocab: search only this many of the first (most frequent) words.

        Raises:
            SettingError: if there is nothing positive, or a term has a weight.
            UnknownWordError: if a word has no vector.

        Source: Levy and Goldberg 2014, equation 4. gensim adds 0.000001 instead of the paper's 0.001.
        """
        added, taken = _terms(positive), _terms(negative)
        if not added:
            raise SettingError("a multiplicative query needs at least one positive word or vector, got none")
        wanted = _wanted(topn)
        if wanted == 0:
            return []
        terms = []
        asked = set()
        for term in (*added, *taken):
            if isinstance(term, tuple):
                raise SettingError("a multiplicative query takes words and vectors without weights")
            if is_key(term) and self.has_index_for(term):
                asked.add(self.get_index(term))
            terms.append(self.get_vector(term, norm=True) if is_key(term) else unit(self._vector(term)))
        matrix = np.stack(terms)

        def scores(start: int, stop: int) -> Vector:
            cosines: Vector = matrix @ self.vectors[start:stop].T
            shifted = (cosines * self._inverse_norms[start:stop] + 1) / 2
            numerator = shifted[: len(added)].prod(axis=0)
            quotient: Vector = numerator / (shifted[len(added) :].prod(axis=0) + np.float32(COSMUL_EPSILON))
            return quotient[None]

        _, rows = self._searched(restrict_vocab)
        if wanted is None:
            every: Vector = scores(0, rows)[0]
            return every
        ids, best = top_scores(scores, 1, rows, min(wanted + len(asked), rows))
        return self._named(ids[0], best[0], asked, wanted)

    def analogy(self, a: Key, b: Key, c: Key, topn: int = 10, method: Literal["add", "mul"] = "add") -> Neighbours:
        """Answers "``a`` is to ``b`` as ``c`` is to what?" by 3CosAdd (``add``) or 3CosMul (``mul``)."""
        if method not in ("add", "mul"):
            raise SettingError(f"no analogy method {method!r}; expected 'add' or 'mul'")
        if method == "add":
            return self.most_similar([b, c], [a], topn=topn)
        return self.most_similar_cosmul([b, c], [a], topn=topn)

    def nearest(self, queries: ArrayLike, topn: int = 10) -> tuple[NDArray[np.int64], Vector]:
        """Finds the nearest words of many vectors at once, exactly, in bounded memory.

        Args:
            queries: (B, d) vectors of any length.
            topn: how many neighbours each; a word's own vector is its own nearest neighbour.

        Returns:
            Row numbers (B, topn) and cosines (B, topn), best first.

        Raises:
            SettingError: if the shape of the queries does not fit or they are not finite.
        """
        matrix = np.asarray(queries, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[1] != self.vector_size or not np.isfinite(matrix).all():
            raise SettingError(f"expected finite queries of shape (B, {self.vector_size}), got {matrix.shape}")
        lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
        units = np.divide(matrix, lengths, out=np.zeros_like(matrix), where=lengths > 0)
        return nearest_rows(self.vectors, self._inverse_norms, units.astype(np.float32), max(topn, 0))

    def _searched(
        self, restrict_vocab: int | None, clip_start: int = 0, clip_end: int | None = None
    ) -> tuple[int, int]:
        """The first row that is searched, and the one after the last."""
        if restrict_vocab is not None and restrict_vocab < 1:
            raise SettingError(f"restrict_vocab must be at least 1 word, got {restrict_vocab}")
        chosen = slice(clip_start, clip_end or None) if restrict_vocab is None else slice(restrict_vocab)
        start, stop, _ = chosen.indices(len(self))
        return start, max(start, stop)

    def _named(self, ids: NDArray[np.int64], scores: Vector, asked: set[int], topn: int) -> Neighbours:
        pairs = zip(ids.tolist(), scores.tolist(), strict=True)
        return list(islice(((self.index_to_key[i], score) for i, score in pairs if i not in asked), topn))


def _wanted(topn: object) -> int | None:
    """How many neighbours are asked for; None for all scores."""
    if topn is None:
        return None
    if not isinstance(topn, Integral):
        raise SettingError(f"topn is a whole number, or None for the scores of all words; got {topn!r}")
    return max(int(topn), 0)


def _terms(terms: Terms) -> list[Term]:
    """A single word or vector stands for a list of one, as in gensim; the rows of a matrix are vectors."""
    if terms is None:
        return []
    if is_key(terms) or (isinstance(terms, np.ndarray) and terms.ndim == 1):
        return [terms]
    if not isinstance(terms, Iterable):
        raise SettingError(f"expected words and vectors, or a list of them; got {terms!r:.80}")
    return list(terms)


def _weighted(term: Term, weight: float) -> tuple[Key | NDArray[np.floating], float]:
    if not isinstance(term, tuple):
        return term, weight
    try:
        key, factor = term
        return key, float(factor)
    except (TypeError, ValueError):
        raise SettingError(f"expected a pair of a word or vector and its weight, got {term!r:.80}") from None
