"""Word vectors for users: lookup, similarity, search, clusters, projection."""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal, Never, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wenmai.core.errors import SettingError, VocabError, nearest_name
from wenmai.core.showing import Shown
from wenmai.vectors.pooling import Weighting, embedded
from wenmai.vectors.search import nearest_rows, top_scores

__all__ = ["UnknownWordError", "WordVectors"]

Vector = NDArray[np.float32]
Term = str | NDArray[np.floating] | tuple[str | NDArray[np.floating], float]
Terms = Term | Sequence[Term] | None

COSMUL_EPSILON = 0.001  # Levy and Goldberg 2014, below equation 4
SMALLEST_LENGTH = np.finfo(np.float32).tiny  # a shorter vector counts as zero: one over its length overflows

RENAMED = {
    "evaluate_word_analogies": "wenmai.measures.words.evaluate_analogies(vectors, path)",
    "evaluate_word_pairs": "wenmai.measures.words.evaluate_similarity(vectors, path)",
    "fill_norms": "nothing: the lengths are always there, in norms",
    "get_vecattr": "counts[key_to_index[word]]",
    "index2entity": "index_to_key",
    "index2word": "index_to_key",
    "init_sims": "nothing: the lengths are always there, in norms",
    "save_word2vec_format": "wenmai.formats.word2vec.write_word2vec(path, vectors)",
    "similar_by_key": "most_similar(word)",
    "similar_by_word": "most_similar(word)",
    "syn0": "vectors",
    "syn0norm": "get_normed_vectors()",
    "vectors_norm": "get_normed_vectors()",
    "vocab": "key_to_index (and counts)",
    "word_vec": "get_vector(word)",
    "words_closer_than": "closer_than(word, other)",
    "wv": "the object itself: this is the word vectors already",
}


class UnknownWordError(VocabError, KeyError):
    """A word that has no vector. It is a ``KeyError`` too, so that code written for gensim catches it.

    The nearest known spelling is looked up only when the message is read, so that catching is cheap.
    """

    def __init__(self, word: str, key_to_index: Mapping[str, int]) -> None:
        super().__init__(word)
        self.word = word
        self._key_to_index = key_to_index

    def __str__(self) -> str:
        return f"no vector for {self.word!r}{_nearest_spelling(self.word, self._key_to_index)}"


class WordVectors(Shown):
    """Words and their vectors, with the methods that users of gensim's ``KeyedVectors`` know.

    The rows are in order of frequency wherever they come from a training run. Vectors do not change:
    ``vectors`` is a read-only view of the array that was given (not a copy if that is C-contiguous float32).
    Similarity is always the cosine; that of a zero vector is 0. Words of equal similarity come in row order.

    Attributes:
        index_to_key: the words, in row order.
        key_to_index: the row number of each word.
        vectors: (V, d) float32.
        norms: (V,) float32, the length of each vector.
        counts: (V,) int64, how often each word occurred in the training text, or ``None`` if that is unknown.

    Example:
        >>> vectors = WordVectors(["red", "crimson", "seven"], [[1, 0.1], [1, 0.2], [0, 1]])
        >>> vectors.most_similar("red", topn=1)[0][0]
        'crimson'
    """

    def __init__(self, keys: Iterable[str], vectors: ArrayLike, counts: ArrayLike | None = None) -> None:
        """Checks and keeps words and vectors.

        Args:
            keys: V different words.
            vectors: (V, d) numbers.
            counts: (V,) whole numbers, if known.

        Raises:
            VocabError: if there are no words, a word occurs twice or is not text, the shapes disagree, or a
                vector has a value that is not a finite number.
        """
        rows = np.ascontiguousarray(vectors, dtype=np.float32)
        self.index_to_key: list[str] = list(keys)
        size = len(self.index_to_key)
        if size == 0:
            raise VocabError("word vectors need at least one word, got none")
        if rows.ndim != 2 or len(rows) != size or rows.shape[1] == 0:
            raise VocabError(f"vectors of shape {rows.shape} do not fit {size} words; expected ({size}, dimensions)")
        others = {kind.__name__ for kind in set(map(type, self.index_to_key)) if not issubclass(kind, str)}
        if others:
            raise VocabError(f"words must be text, got words of type {', '.join(sorted(others))}")
        self.key_to_index: dict[str, int] = dict(zip(self.index_to_key, range(size), strict=True))
        if len(self.key_to_index) != size:
            first = next(i for i, word in enumerate(self.index_to_key) if self.key_to_index[word] != i)
            word = self.index_to_key[first]
            raise VocabError(f"the word {word!r} occurs twice, in rows {first} and {self.key_to_index[word]}")
        self.vectors: Vector = rows.view()
        self.vectors.setflags(write=False)
        self.norms: Vector = _lengths(self.vectors)
        if not np.isfinite(self.norms).all():
            first = int(np.argmin(np.isfinite(self.norms)))
            raise VocabError(
                f"the vector of {self.index_to_key[first]!r} (row {first}) has no finite length: its largest "
                f"value is {np.abs(rows[first]).max()}; was it trained with too high a learning rate?"
            )
        self._inverse_norms: Vector = np.zeros_like(self.norms)
        np.divide(1, self.norms, out=self._inverse_norms, where=self.norms >= SMALLEST_LENGTH)
        self.counts: NDArray[np.int64] | None = None
        if counts is not None:
            self.counts = np.array(counts, dtype=np.int64)
            if self.counts.shape != (size,):
                raise VocabError(f"counts of shape {self.counts.shape} do not fit {size} words; expected ({size},)")

    @property
    def vector_size(self) -> int:
        """The number of dimensions d."""
        return int(self.vectors.shape[1])

    def __len__(self) -> int:
        return len(self.index_to_key)

    def __contains__(self, word: object) -> bool:
        return word in self.key_to_index

    def __iter__(self) -> Iterator[str]:
        return iter(self.index_to_key)

    def _facts(self) -> Mapping[str, int]:
        return {"words": len(self), "dimensions": self.vector_size}

    @overload
    def __getitem__(self, words: str) -> Vector: ...
    @overload
    def __getitem__(self, words: Sequence[str]) -> Vector: ...
    def __getitem__(self, words: str | int | Sequence[str]) -> Vector:
        """Returns the vector (d,) of a word, or the vectors (n, d) of a list of words."""
        if isinstance(words, str | int):
            return self.get_vector(cast(str, words))  # which refuses a number with a hint
        return self.get_vectors(words)

    def __getattr__(self, name: str) -> Never:
        advice = f"; use {RENAMED[name]}" if name in RENAMED else ""
        raise AttributeError(f"WordVectors has no {name!r}{advice}", name=name, obj=self)

    def get_index(self, word: str) -> int:
        """Returns the row number of a word.

        Raises:
            UnknownWordError: if it has no vector.
        """
        if not isinstance(word, str):
            raise VocabError(f"a word is text, got {word!r}; for a row number use vectors[i] and index_to_key[i]")
        try:
            return self.key_to_index[word]
        except KeyError:
            raise UnknownWordError(word, self.key_to_index) from None

    def get_vector(self, word: str, norm: bool = False) -> Vector:
        """Returns the vector (d,) of a word, scaled to length 1 if ``norm``."""
        index = self.get_index(word)
        return self.unit_vectors(index) if norm else self.vectors[index]

    def get_vectors(self, words: Sequence[str], norm: bool = False) -> Vector:
        """Returns the vectors (n, d) of words, scaled to length 1 if ``norm``."""
        rows = [self.get_index(word) for word in words]
        return self.unit_vectors(rows) if norm else self.vectors[rows]

    def has_vector(self, word: str) -> bool:
        """Whether :meth:`get_vector` has something to return."""
        return word in self.key_to_index

    def unit_vectors(self, rows: int | slice | NDArray[np.int64] | Sequence[int]) -> Vector:
        """Returns a copy of the given rows, each scaled to length 1 (zero vectors stay zero)."""
        return self.vectors[rows] * self._inverse_norms[rows, ..., None]

    def get_normed_vectors(self) -> Vector:
        """Returns a copy (V, d) of all vectors, each scaled to length 1 (zero vectors stay zero)."""
        return self.unit_vectors(slice(None))

    def embed(self, texts: Iterable[str | Sequence[str]], *, weighting: Weighting = "mean") -> Vector:
        """Returns the vectors (n, d) of texts: averages of their words, those without a vector left out.

        A text without any has zeros. :meth:`wenmai.Run.embed` cuts texts as the training text was cut.

        Args:
            texts: n texts, split at white space, or lists of words.
            weighting: ``mean``, or ``sif``, by which frequent words count less; see
                :func:`wenmai.vectors.pooling.embedded`.
        """
        if isinstance(texts, str):
            raise SettingError("embed takes a list of texts; put a single one in brackets")
        return embedded(self, [text.split() if isinstance(text, str) else text for text in texts], weighting)

    def get_mean_vector(
        self,
        keys: Sequence[str | NDArray[np.floating]],
        weights: ArrayLike | None = None,
        pre_normalize: bool = True,
        post_normalize: bool = False,
        ignore_missing: bool = True,
    ) -> Vector:
        """Returns the weighted mean (d,) of words and vectors; weights count by their absolute value.

        Args:
            keys: words, or vectors (d,), which are taken as they are.
            weights: one number per key; all 1 if not given.
            pre_normalize: scale the vectors of words to length 1 first.
            post_normalize: scale the mean to length 1.
            ignore_missing: leave words without a vector out instead of raising.

        Raises:
            SettingError: if there are no keys, or not as many weights.
            UnknownWordError: for a missing word, unless those are ignored.
        """
        if len(keys) == 0:
            raise SettingError("a mean needs at least one word or vector, got none")
        factors = np.ones(len(keys)) if weights is None else np.asarray(weights, dtype=np.float64)
        if factors.shape != (len(keys),):
            raise SettingError(f"{len(keys)} words or vectors need as many weights, got shape {factors.shape}")
        mean = np.zeros(self.vector_size)
        total = 0.0
        for key, factor in zip(keys, factors.tolist(), strict=True):
            if isinstance(key, str) and ignore_missing and not self.has_vector(key):
                continue
            mean += factor * (self.get_vector(key, pre_normalize) if isinstance(key, str) else self._vector(key))
            total += abs(factor)
        if total > 0:
            mean /= total
        return _unit(mean) if post_normalize else mean.astype(np.float32)

    def most_similar(
        self,
        positive: Terms = None,
        negative: Terms = None,
        topn: int = 10,
        restrict_vocab: int | None = None,
    ) -> list[tuple[str, float]]:
        """Returns the words with the largest cosine to a sum of words and vectors (3CosAdd).

        Args:
            positive: words, vectors, or ``(word or vector, weight)`` pairs that are added.
            negative: those that are subtracted. As in gensim, the weight of a pair is taken as it is, so a
                pair here needs a negative weight.
            topn: how many words to return; the words of the question never are.
            restrict_vocab: search only this many of the first (most frequent) words.

        Raises:
            SettingError: if nothing is asked for.
            UnknownWordError: if a word has no vector.

        Source: Mikolov, Yih and Zweig 2013, "Linguistic Regularities in Continuous Space Word
        Representations".
        """
        if topn < 1:
            return []
        weighted = [_weighted(term, 1.0) for term in _terms(positive)]
        weighted += [_weighted(term, -1.0) for term in _terms(negative)]
        keys = [key for key, _ in weighted]
        weights = [weight for _, weight in weighted]
        mean = self.get_mean_vector(keys, weights, post_normalize=True, ignore_missing=False)
        asked = {self.key_to_index[key] for key in keys if isinstance(key, str) and key in self.key_to_index}
        rows = self._restricted(restrict_vocab)
        ids, scores = nearest_rows(self.vectors[:rows], self._inverse_norms[:rows], mean[None], topn + len(asked))
        return self._named(ids[0], scores[0], asked, topn)

    def similar_by_vector(
        self, vector: NDArray[np.floating], topn: int = 10, restrict_vocab: int | None = None
    ) -> list[tuple[str, float]]:
        """Returns the words with the largest cosine to a vector (d,)."""
        return self.most_similar([vector], topn=topn, restrict_vocab=restrict_vocab)

    def most_similar_cosmul(
        self,
        positive: Terms = None,
        negative: Terms = None,
        topn: int = 10,
        restrict_vocab: int | None = None,
    ) -> list[tuple[str, float]]:
        """Returns the words that maximise a product and quotient of cosines (3CosMul).

        The score is ``prod(cos'(w, positive)) / (prod(cos'(w, negative)) + 0.001)`` with
        ``cos' = (cos + 1) / 2``.

        Args:
            positive: words or vectors in the numerator.
            negative: words or vectors in the denominator.
            topn: how many words to return; the words of the question never are.
            restrict_vocab: search only this many of the first (most frequent) words.

        Raises:
            SettingError: if there is nothing positive, or a term has a weight.
            UnknownWordError: if a word has no vector.

        Source: Levy and Goldberg 2014, equation 4. gensim adds 0.000001 instead of the paper's 0.001.
        """
        added, taken = _terms(positive), _terms(negative)
        if not added:
            raise SettingError("a multiplicative query needs at least one positive word or vector, got none")
        if topn < 1:
            return []
        terms = []
        asked = set()
        for term in (*added, *taken):
            if isinstance(term, tuple):
                raise SettingError("a multiplicative query takes words and vectors without weights")
            if isinstance(term, str) and term in self.key_to_index:
                asked.add(self.key_to_index[term])
            terms.append(self.get_vector(term, norm=True) if isinstance(term, str) else _unit(self._vector(term)))
        matrix = np.stack(terms)

        def scores(start: int, stop: int) -> Vector:
            cosines: Vector = matrix @ self.vectors[start:stop].T
            shifted = (cosines * self._inverse_norms[start:stop] + 1) / 2
            numerator = shifted[: len(added)].prod(axis=0)
            quotient: Vector = numerator / (shifted[len(added) :].prod(axis=0) + np.float32(COSMUL_EPSILON))
            return quotient[None]

        rows = self._restricted(restrict_vocab)
        ids, best = top_scores(scores, 1, rows, min(topn + len(asked), rows))
        return self._named(ids[0], best[0], asked, topn)

    def analogy(
        self, a: str, b: str, c: str, topn: int = 10, method: Literal["add", "mul"] = "add"
    ) -> list[tuple[str, float]]:
        """Answers "``a`` is to ``b`` as ``c`` is to what?" by 3CosAdd (``add``) or 3CosMul (``mul``)."""
        if method not in ("add", "mul"):
            raise SettingError(f"no analogy method {method!r}; expected 'add' or 'mul'")
        search = self.most_similar if method == "add" else self.most_similar_cosmul
        return search([b, c], [a], topn=topn)

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

    def similarity(self, w1: str, w2: str) -> float:
        """Returns the cosine of two words, from -1 to 1."""
        return float(self.get_vector(w1, norm=True) @ self.get_vector(w2, norm=True))

    def n_similarity(self, ws1: Sequence[str], ws2: Sequence[str]) -> float:
        """Returns the cosine of the mean vectors of two lists of words.

        Raises:
            SettingError: if a list is empty.
            UnknownWordError: if a word has no vector.
        """
        first, second = (
            _unit(self.get_mean_vector(words, pre_normalize=False, ignore_missing=False)) for words in (ws1, ws2)
        )
        return float(first @ second)

    def distance(self, w1: str, w2: str) -> float:
        """Returns 1 minus the cosine of two words, from 0 to 2."""
        return 1 - self.similarity(w1, w2)

    def distances(self, word_or_vector: str | NDArray[np.floating], other_words: Sequence[str] = ()) -> Vector:
        """Returns 1 minus the cosine to each of ``other_words``, or to all V words if none are given."""
        if isinstance(word_or_vector, str):
            query = self.get_vector(word_or_vector, norm=True)
        else:
            query = _unit(self._vector(word_or_vector))
        if len(other_words):
            return 1 - self.get_vectors(other_words, norm=True) @ query
        return 1 - (self.vectors @ query) * self._inverse_norms

    def closer_than(self, w1: str, w2: str) -> list[str]:
        """Returns all words that are closer to ``w1`` than ``w2`` is, in row order."""
        distances = self.distances(w1)
        closer = np.flatnonzero(distances < distances[self.get_index(w2)])
        return [self.index_to_key[row] for row in closer.tolist() if row != self.key_to_index.get(w1)]

    def rank(self, w1: str, w2: str) -> int:
        """Returns the rank of ``w2`` among the neighbours of ``w1``: 1 for the nearest."""
        return len(self.closer_than(w1, w2)) + 1

    def doesnt_match(self, words: Sequence[str]) -> str:
        """Returns the word that is furthest from the mean of all of them.

        Raises:
            SettingError: if there are no words.
            UnknownWordError: if a word has no vector (gensim leaves it out instead).
        """
        if len(words) == 0:
            raise SettingError("cannot choose from an empty list of words")
        units = self.get_vectors(words, norm=True)
        return words[int(np.argmin(units @ _unit(units.mean(axis=0))))]

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

    def map2d(self, words: Sequence[str]) -> NDArray[np.float64]:
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

    def _vector(self, vector: NDArray[np.floating]) -> NDArray[np.float64]:
        row = np.asarray(vector, dtype=np.float64)
        if row.shape != (self.vector_size,) or not np.isfinite(row).all():
            raise SettingError(f"expected a finite vector of shape ({self.vector_size},), got {row.shape}")
        return row

    def _restricted(self, restrict_vocab: int | None) -> int:
        if restrict_vocab is not None and restrict_vocab < 1:
            raise SettingError(f"restrict_vocab must be at least 1 word, got {restrict_vocab}")
        return len(self) if restrict_vocab is None else min(restrict_vocab, len(self))

    def _named(self, ids: NDArray[np.int64], scores: Vector, asked: set[int], topn: int) -> list[tuple[str, float]]:
        pairs = zip(ids.tolist(), scores.tolist(), strict=True)
        return list(islice(((self.index_to_key[i], score) for i, score in pairs if i not in asked), topn))


def _lengths(rows: Vector) -> Vector:
    """Euclidean lengths (V,), right also where the squares leave the range of float32."""
    with np.errstate(over="ignore"):
        squares = np.einsum("ij,ij->i", rows, rows)
    doubtful = np.flatnonzero(~((squares > 1e-30) & (squares < np.inf)))
    lengths: Vector = np.sqrt(squares)
    with np.errstate(over="ignore"):
        for start in range(0, len(doubtful), 4096):
            chosen = doubtful[start : start + 4096]
            lengths[chosen] = np.linalg.norm(rows[chosen].astype(np.float64), axis=1)
    return lengths


def _unit(vector: NDArray[np.floating]) -> Vector:
    wide = vector.astype(np.float64)
    length = float(np.linalg.norm(wide))
    return (wide / length if length > 0 else wide).astype(np.float32)


def _terms(terms: Terms) -> list[Term]:
    """A single word or vector stands for a list of one, as in gensim; the rows of a matrix are vectors."""
    if terms is None:
        return []
    if isinstance(terms, str) or (isinstance(terms, np.ndarray) and terms.ndim == 1):
        return [terms]
    return list(terms)


def _weighted(term: Term, weight: float) -> tuple[str | NDArray[np.floating], float]:
    return (term[0], float(term[1])) if isinstance(term, tuple) else (term, weight)


def _nearest_spelling(word: str, key_to_index: Mapping[str, int]) -> str:
    """Other case and width first, then a few thousand frequent words of about the same length."""
    plain = unicodedata.normalize("NFKC", word).strip()
    for spelling in (plain, plain.lower(), plain.capitalize(), plain.upper(), plain.replace(" ", "_")):
        if spelling in key_to_index:
            return f"; did you mean {spelling!r}?"
    alike = (
        key
        for key in islice(key_to_index, 200_000)
        if abs(len(key) - len(plain)) <= 2 and (key[:1] == plain[:1] or key[-1:] == plain[-1:])
    )
    return nearest_name(plain, islice(alike, 5_000))
