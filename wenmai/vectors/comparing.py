"""Words compared with each other: similarity, distance, rank, centrality, clusters and a map."""

import logging
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wenmai.core.errors import SettingError
from wenmai.vectors.lengths import Vector, cosine, unit
from wenmai.vectors.neighbours import NearestWords
from wenmai.vectors.table import Key, is_key
from wenmai.vectors.transport import word_movers_distance

__all__ = ["ComparedWords"]

logger = logging.getLogger(__name__)


class ComparedWords(NearestWords):
    """A table of words whose words, where some are given, are compared with each other."""

    def similarity(self, w1: Key, w2: Key) -> float:
        """Returns the cosine of two words, from -1 to 1."""
        return cosine(self.get_vector(w1), self.get_vector(w2))

    def n_similarity(self, ws1: Sequence[Key], ws2: Sequence[Key]) -> float:
        """Returns the cosine of the mean vectors of two lists of words; words without a vector are left out.

        Raises:
            SettingError: if a list is empty.
        """
        return cosine(self.get_mean_vector(ws1, pre_normalize=False), self.get_mean_vector(ws2, pre_normalize=False))

    def distance(self, w1: Key, w2: Key) -> float:
        """Returns 1 minus the cosine of two words, from 0 to 2."""
        return 1 - self.similarity(w1, w2)

    def distances(self, word_or_vector: Key | NDArray[np.floating], other_words: Sequence[Key] | None = None) -> Vector:
        """Returns 1 minus the cosine to each of ``other_words``, or to all V words if none are given."""
        if is_key(word_or_vector):
            query = self.get_vector(word_or_vector, norm=True)
        else:
            query = unit(self._vector(word_or_vector))
        if other_words is not None and len(other_words):
            return 1 - self.get_vectors(other_words, norm=True) @ query
        return 1 - (self.vectors @ query) * self._inverse_norms

    @staticmethod
    def cosine_similarities(vector_1: ArrayLike, vectors_all: ArrayLike) -> NDArray[np.float64]:
        """Returns the cosines (n,) of a vector (d,) and the rows of a matrix (n, d)."""
        one, rows = np.asarray(vector_1, np.float64), np.asarray(vectors_all, np.float64)
        if one.ndim != 1 or rows.ndim != 2 or rows.shape[1] != len(one):
            raise SettingError(f"expected a vector and a matrix of as many columns, got {one.shape} and {rows.shape}")
        lengths = np.linalg.norm(one) * np.linalg.norm(rows, axis=1)
        found = np.zeros(len(rows))
        np.divide(rows @ one, lengths, out=found, where=lengths > 0)
        return found

    def closer_than(self, key1: Key, key2: Key) -> list[str]:
        """Returns all words that are closer to ``key1`` than ``key2`` is, in row order."""
        distances = self.distances(key1)
        limit = distances[self.get_index(key2)] if self.has_index_for(key2) else self.distances(key1, [key2])[0]
        closer = np.flatnonzero(distances < limit)
        own = self.get_index(key1, -1)
        return [self.index_to_key[row] for row in closer.tolist() if row != own]

    def rank(self, key1: Key, key2: Key) -> int:
        """Returns the rank of ``key2`` among the neighbours of ``key1``: 1 for the nearest."""
        return len(self.closer_than(key1, key2)) + 1

    def most_similar_to_given(self, key1: Key, keys_list: Sequence[Key]) -> Key:
        """Returns the one of ``keys_list`` that is most similar to a word.

        Raises:
            SettingError: if the list is empty.
        """
        if len(keys_list) == 0:
            raise SettingError("cannot choose from an empty list of words")
        return max(keys_list, key=lambda key: self.similarity(key1, key))

    def rank_by_centrality(self, words: Sequence[Key], use_norm: bool = True) -> list[tuple[float, Key]]:
        """Returns the cosine of each word to the mean of all of them, and the word; the nearest first.

        Args:
            words: what to rank; words without a vector are left out with a warning in the log.
            use_norm: scale the vectors to length 1; otherwise the numbers are products with the mean at length 1.

        Raises:
            SettingError: if none of them has a vector.
        """
        known = [word for word in words if self.has_vector(word)]
        if len(known) < len(words):
            logger.warning("left out words without a vector: %s", sorted({str(w) for w in words if w not in known}))
        if not known:
            raise SettingError("cannot choose from an empty list of words, or of words without vectors")
        rows = self.get_vectors(known, norm=use_norm)
        near = rows @ unit(rows.mean(axis=0))
        return sorted(zip(near.tolist(), known, strict=True), key=lambda pair: (pair[0], str(pair[1])), reverse=True)

    def doesnt_match(self, words: Sequence[Key]) -> Key:
        """Returns the word that is furthest from the mean of all of them; see :meth:`rank_by_centrality`."""
        return self.rank_by_centrality(words)[-1][1]

    def relative_cosine_similarity(self, wa: Key, wb: Key, topn: int = 10) -> float:
        """Returns the cosine of two words over the sum of those of the ``topn`` nearest words of the first.

        Raises:
            SettingError: if there are no such words, or their cosines sum to 0.

        Source: Leeuwenberg, Vela, Dehdari and van Genabith 2016, "A Minimally Supervised Approach for Synonym
        Extraction with Word Embeddings", equation 1.
        """
        found = self.most_similar(wa, topn=topn)
        if not found:
            raise SettingError("a relative similarity needs at least one similar word; set topn to 1 or more")
        total = sum(score for _, score in found)
        if total == 0:
            raise SettingError(
                f"{wa!r} has no relative similarity: the cosines of its {len(found)} nearest words sum to 0"
            )
        return self.similarity(wa, wb) / total

    def wmdistance(self, document1: Sequence[Key], document2: Sequence[Key], norm: bool = True) -> float:
        """Returns the word mover's distance of two texts, which takes the extra ``transport`` (POT).

        Args:
            document1: words; those without a vector are left out.
            document2: the other text.
            norm: scale the vectors to length 1 first.

        Returns:
            The distance; infinite if a text has no word with a vector.

        Raises:
            SettingError: if POT is not installed. It is an ``ImportError`` too.

        Source: Kusner, Sun, Kolkin and Weinberger 2015, "From Word Embeddings To Document Distances".
        """
        return word_movers_distance(self, document1, document2, norm=norm)

    def clusters(self, n: int, *, seed: int = 0) -> NDArray[np.int32]:
        """Groups the words by k-means on vectors scaled to length 1.

        Args:
            n: number of clusters, from 1 to V.
            seed: makes the choice of first centres repeatable.

        Returns:
            (V,) the cluster of each word, from 0 to n - 1.

        Raises:
            SettingError: if ``n`` is out of range.
        """
        if not 1 <= n <= len(self):
            raise SettingError(f"cannot make {n} clusters of {len(self)} words; expected 1 to {len(self)}")
        from sklearn.cluster import KMeans, MiniBatchKMeans

        # full k-means reads all words once per step; in batches, 100,000 words stay a matter of seconds
        method = KMeans if len(self) <= 10_000 else MiniBatchKMeans
        labels: NDArray[np.int32] = method(n, n_init=1, random_state=seed).fit_predict(self.get_normed_vectors())
        return labels.astype(np.int32)

    def map2d(self, words: Sequence[Key]) -> NDArray[np.float64]:
        """Projects words onto the two directions in which they differ most (PCA of vectors of length 1).

        Args:
            words: n words, at least two.

        Returns:
            (n, 2) coordinates.

        Raises:
            SettingError: for fewer than two words or dimensions.
            UnknownWordError: if a word has no vector.
        """
        units = self.get_vectors(words, norm=True)
        if len(units) < 2 or self.vector_size < 2:
            raise SettingError(f"a map needs at least 2 words of 2 dimensions, got {len(units)} of {self.vector_size}")
        from sklearn.decomposition import PCA

        points = PCA(2, svd_solver="full").fit_transform(units.astype(np.float64))
        return np.asarray(points, dtype=np.float64)
