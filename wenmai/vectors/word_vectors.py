"""Word vectors for users: lookup, neighbours, similarity, clusters, files; all that gensim's ``KeyedVectors`` has.

The class is in three parts, each on top of the one before: :mod:`wenmai.vectors.table` holds, adds and changes words,
:mod:`wenmai.vectors.neighbours` finds the nearest ones, and here words that are given are compared with each other.
"""

import datetime
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Never

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from wenmai.core.errors import FormatError, SettingError, VocabError
from wenmai.core.showing import Shown
from wenmai.vectors.evaluation import Correlation, Section, SimilarityFunction, analogy_sections, pair_correlations
from wenmai.vectors.lengths import Vector, cosine, unit
from wenmai.vectors.neighbours import Indexer, NearestWords, Neighbours
from wenmai.vectors.pooling import Weighting, embedded
from wenmai.vectors.store import read_table, write_table
from wenmai.vectors.table import Key, UnknownAttributeError, UnknownWordError, is_key
from wenmai.vectors.transport import word_movers_distance
from wenmai.vectors.word2vec_files import read_counts, read_rows, write_counts, write_rows

__all__ = ["Indexer", "Neighbours", "UnknownAttributeError", "UnknownWordError", "Vector", "WordVectors"]

logger = logging.getLogger(__name__)

RENAMED = {
    "index2entity": "index_to_key",
    "index2word": "index_to_key",
    "syn0": "vectors",
    "syn0norm": "get_normed_vectors()",
    "vectors_norm": "get_normed_vectors()",
    "vocab": "key_to_index (and counts)",
    "wv": "the object itself: this is the word vectors already",
}


class WordVectors(NearestWords, Shown):
    """Words and their vectors, with the methods of gensim's ``KeyedVectors``.

    The rows are in order of frequency wherever they come from a training run. Words can be added and vectors changed;
    the array or the run that they come from stays as it is: ``vectors`` is a read-only view of the array that was
    given (not a copy if that is C-contiguous float32) until something changes. Similarity is always the cosine; that
    of a zero vector is 0. Words of equal similarity come in row order. Wherever a word is asked for, the number of
    its row does too.

    Attributes:
        index_to_key: the words, in row order.
        key_to_index: the row number of each word.
        vectors: (V, d) float32; another array of V rows can be set.
        norms: (V,) float32, the length of each vector.
        counts: (V,) int64, how often each word occurred in the training text, or ``None`` if that is unknown.
        expandos: attributes of words by name, see :meth:`set_vecattr`; the counts are ``count``.

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
            VocabError: if a word occurs twice or is not text, the shapes disagree, or a vector has a value that is
                not a finite number.
        """
        super().__init__(keys, vectors, counts)
        self.lifecycle_events: list[dict[str, object]] = []

    @classmethod
    def empty(cls, vector_size: int) -> "WordVectors":
        """Returns vectors of this size without any words yet, as ``KeyedVectors(vector_size)`` does."""
        if vector_size < 1:
            raise SettingError(f"vector_size={vector_size}: expected at least 1 dimension")
        return WordVectors([], np.empty((0, vector_size), np.float32))

    def _facts(self) -> Mapping[str, int]:
        return {"words": len(self), "dimensions": self.vector_size}

    def __getattr__(self, name: str) -> Never:
        advice = f"; use {RENAMED[name]}" if name in RENAMED else ""
        raise AttributeError(f"WordVectors has no {name!r}{advice}", name=name, obj=self)

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

    # --- comparing words ----------------------------------------------------------------------------------------

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
            SettingError: if there are no such words.

        Source: Leeuwenberg, Vela, Dehdari and van Genabith 2016, "A Minimally Supervised Approach for Synonym
        Extraction with Word Embeddings", equation 1.
        """
        found = self.most_similar(wa, topn=topn)
        if not found:
            raise SettingError("a relative similarity needs at least one similar word; set topn to 1 or more")
        return self.similarity(wa, wb) / sum(score for _, score in found)

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

    def vectors_for_all(
        self, keys: Iterable[Key], allow_inference: bool = True, copy_vecattrs: bool = False
    ) -> "WordVectors":
        """Returns the vectors of these words alone, each once, in the order in which they are given.

        Args:
            keys: words; those without a vector are left out.
            allow_inference: take words outside the vocabulary too, if they have a vector.
            copy_vecattrs: give them the attributes that they have here, such as counts; unseen words have zero.
        """
        has = self.has_vector if allow_inference else self.has_index_for
        named = (key if isinstance(key, str) else self.index_to_key[self.get_index(key)] for key in keys if has(key))
        words = list(dict.fromkeys(named))
        found = WordVectors(words, self.get_vectors(words)) if words else WordVectors.empty(self.vector_size)
        rows = np.array([self.get_index(word, -1) for word in words], np.int64)
        for name, values in self.expandos.items() if copy_vecattrs else ():
            found.expandos[name] = np.zeros((len(words), *values.shape[1:]), values.dtype)
            found.expandos[name][rows >= 0] = values[rows[rows >= 0]]
        return found

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

    # --- test sets ----------------------------------------------------------------------------------------------

    def evaluate_word_pairs(
        self,
        pairs: str | Path,
        delimiter: str = "\t",
        encoding: str = "utf8",
        restrict_vocab: int | None = 300_000,
        case_insensitive: bool = True,
        dummy4unknown: bool = False,
    ) -> tuple[Correlation, Correlation, float]:
        """Correlates the cosines of word pairs with human scores; :mod:`wenmai.measures.words` has intervals too.

        Args:
            pairs: a file of lines of word, word and score; those of another form and comments (``#``) are left out.
            delimiter: what stands between them.
            encoding: of the file.
            restrict_vocab: of the vocabulary only the first so many words count.
            case_insensitive: fold case; of several spellings the first (most frequent) counts.
            dummy4unknown: count pairs with a word that has no vector, with a cosine of 0.

        Returns:
            Pearson's and Spearman's correlation, each with its two-sided p-value, and the percentage of pairs with a
            word that has no vector.

        Raises:
            FormatError: if the file cannot be read, or no pair has vectors.
        """
        found = pair_correlations(
            self,
            pairs,
            delimiter=delimiter,
            encoding=encoding,
            restrict_vocab=restrict_vocab,
            case_insensitive=case_insensitive,
            dummy4unknown=dummy4unknown,
        )
        self.log_evaluate_word_pairs(*found, str(pairs))
        return found

    def evaluate_word_analogies(
        self,
        analogies: str | Path,
        restrict_vocab: int | None = 300_000,
        case_insensitive: bool = True,
        dummy4unknown: bool = False,
        similarity_function: SimilarityFunction = "most_similar",
    ) -> tuple[float, list[Section]]:
        """Answers the questions of an analogy set; :mod:`wenmai.measures.words` has intervals too.

        Args:
            analogies: a file of lines ``: section``, each followed by lines of four words; others are left out.
            restrict_vocab: ask and answer among the first so many words.
            case_insensitive: fold case.
            dummy4unknown: count questions with a word that has no vector, as wrong.
            similarity_function: ``most_similar`` or ``most_similar_cosmul``.

        Returns:
            The proportion of right answers, and for each section its name (``section``) and the questions answered
            ``correct`` and ``incorrect``; the last section is the total.

        Raises:
            FormatError: if the file cannot be read, or a question stands before the first section.
        """
        accuracy, sections = analogy_sections(
            self,
            analogies,
            restrict_vocab=restrict_vocab,
            case_insensitive=case_insensitive,
            dummy4unknown=dummy4unknown,
            similarity_function=similarity_function,
        )
        for section in sections:
            self.log_accuracy(section)
        return accuracy, sections

    @staticmethod
    def log_accuracy(section: Section) -> None:
        """Logs the accuracy of a section of :meth:`evaluate_word_analogies`."""
        right, wrong = len(section["correct"]), len(section["incorrect"])
        if right + wrong:
            share = 100 * right / (right + wrong)
            logger.info("%s: %.1f%% (%d/%d)", section["section"], share, right, right + wrong)

    @staticmethod
    def log_evaluate_word_pairs(pearson: Correlation, spearman: Correlation, oov: float, pairs: str) -> None:
        """Logs the results of :meth:`evaluate_word_pairs`."""
        logger.info("%s: Pearson %.4f, Spearman %.4f, %.1f%% unknown", pairs, pearson[0], spearman[0], oov)

    # --- files --------------------------------------------------------------------------------------------------

    def save(self, fname: str | Path) -> None:
        """Writes words, vectors and attributes into one file, which :meth:`load` reads: safetensors, never a pickle.

        Raises:
            SettingError: if an attribute has values that are neither numbers nor text.
        """
        write_table(fname, self)

    @classmethod
    def load(cls, fname: str | Path) -> "WordVectors":
        """Reads what :meth:`save` wrote.

        Raises:
            FormatError: if the file is missing, damaged, or something else, such as a pickle of gensim.
        """
        words, rows, attributes = read_table(fname)
        found = _made(fname, words, rows)
        found.expandos |= attributes
        return found

    def save_word2vec_format(
        self,
        fname: str | Path,
        fvocab: str | Path | None = None,
        binary: bool = False,
        total_vec: int | None = None,
        write_header: bool = True,
        prefix: str = "",
        append: bool = False,
        sort_attr: str = "count",
    ) -> None:
        """Writes word vectors in word2vec's text or binary format.

        Args:
            fname: the file, which is not compressed.
            fvocab: a file for the words and their counts.
            binary: write numbers as bytes.
            total_vec: the number of words in the heading, if more are appended later.
            write_header: write the heading; without it the text is GloVe's.
            prefix: what to write before each word.
            append: add to the end of the files.
            sort_attr: the attribute in whose order words are written, the largest first, if they have it; otherwise
                in row order.

        Raises:
            FormatError: if a word is empty, holds whitespace, or is no valid Unicode.
            UnknownAttributeError: if counts are wanted that are not known.
            SettingError: if the attribute is no number, or the name ends like a compressed file's.
        """
        order = np.arange(len(self))
        if sort_attr in self.expandos:
            if (kind := self.expandos[sort_attr].dtype).kind not in "biuf":
                raise SettingError(
                    f"sort_attr={sort_attr}: this attribute is of type {kind}; words are put in order by numbers"
                )
            order = np.argsort(-self.expandos[sort_attr].astype(np.float64), kind="stable")
        elif fvocab is not None:
            raise UnknownAttributeError(f"the words have no attribute {sort_attr!r}, which {fvocab} would hold")
        words = [prefix + self.index_to_key[row] for row in order.tolist()]
        rows = self.vectors if np.all(order == np.arange(len(self))) else self.vectors[order]
        write_rows(fname, words, rows, binary=binary, header=write_header, total=total_vec, append=append)
        if fvocab is not None:
            write_counts(fvocab, words, self.expandos[sort_attr].astype(np.int64)[order].tolist(), append=append)

    @classmethod
    def load_word2vec_format(
        cls,
        fname: str | Path,
        fvocab: str | Path | None = None,
        binary: bool | None = None,
        encoding: str = "utf8",
        unicode_errors: str = "strict",
        limit: int | None = None,
        datatype: DTypeLike = np.float32,
        no_header: bool | None = None,
    ) -> "WordVectors":
        """Reads word vectors in word2vec's text or binary format, or GloVe's text format.

        The file may be compressed with gzip, bzip2, xz or zstd. If a word occurs several times, its first vector
        is kept and the number of others is logged as a warning.

        Args:
            fname: the file.
            fvocab: a file of words and their counts, such as word2vec.c's ``-save-vocab`` writes; counts are unknown
                without it.
            binary: whether it is binary; detected by its content if ``None``.
            encoding: of the words.
            unicode_errors: what to do with words of another encoding: ``strict`` refuses them, ``replace`` and
                ``ignore`` work as in ``bytes.decode``.
            limit: read the first so many words only.
            datatype: float32, which vectors always are.
            no_header: whether the heading line is missing, as in GloVe's text; detected by the first line if
                ``None`` (where vectors of one dimension look like a heading).

        Returns:
            The vectors, in the order of the file.

        Raises:
            FormatError: if the file is missing, damaged, truncated, or of another format.
            SettingError: if the arguments are invalid.
        """
        if np.dtype(datatype) != np.float32:
            raise SettingError(f"datatype={datatype}: word vectors are float32")
        words, rows = read_rows(
            fname, binary=binary, limit=limit, no_header=no_header, encoding=encoding, errors=unicode_errors
        )
        found = _made(fname, words, rows)
        if fvocab is not None:
            counts = read_counts(fvocab, encoding=encoding, errors=unicode_errors)
            if missing := sum(word not in counts for word in words):
                logger.warning("%s: has no counts of %d words; they count as 0", fvocab, missing)
            found.expandos["count"] = np.array([counts.get(word, 0) for word in words], np.int64)
        return found

    def intersect_word2vec_format(
        self,
        fname: str | Path,
        lockf: float = 0.0,
        binary: bool | None = None,
        encoding: str = "utf8",
        unicode_errors: str = "strict",
    ) -> None:
        """Takes the vectors of a file for the words that are here and in the file.

        Args:
            fname: as of :meth:`load_word2vec_format`.
            lockf: kept as the attribute ``lockf`` of these words; nothing trains these vectors further.
            binary: as of :meth:`load_word2vec_format`.
            encoding: as of :meth:`load_word2vec_format`.
            unicode_errors: as of :meth:`load_word2vec_format`.

        Raises:
            FormatError: if the file cannot be read.
            VocabError: if its vectors have another size.
        """
        words, rows = read_rows(fname, binary=binary, encoding=encoding, errors=unicode_errors)
        if rows.shape[1] != self.vector_size:
            raise VocabError(f"{fname}: has vectors of {rows.shape[1]} numbers; expected {self.vector_size}")
        shared = [(row, word) for row, word in enumerate(words) if word in self]
        self.add_vectors([word for _, word in shared], rows[[row for row, _ in shared]], replace=True)
        for _, word in shared:
            self.set_vecattr(word, "lockf", float(lockf))
        self.add_lifecycle_event("intersect_word2vec_format", msg=f"merged {len(shared)} vectors of {fname}")

    def add_lifecycle_event(self, event_name: str, log_level: int = logging.INFO, **event: object) -> None:
        """Notes in ``lifecycle_events``, and in the log, that something happened to these vectors."""
        noted = {"datetime": datetime.datetime.now(datetime.UTC).isoformat(), "event": event_name} | event
        self.lifecycle_events.append(noted)
        logger.log(log_level, "%s: %s", type(self).__name__, noted)

    # --- names of gensim's that have others too -----------------------------------------------------------------

    def word_vec(self, word: Key, norm: bool = False) -> Vector:
        """The same as :meth:`get_vector`."""
        return self.get_vector(word, norm)

    def words_closer_than(self, word1: Key, word2: Key) -> list[str]:
        """The same as :meth:`closer_than`."""
        return self.closer_than(word1, word2)

    def init_sims(self, replace: bool = False) -> None:
        """Nothing, because lengths are always there; with ``replace`` the same as :meth:`unit_normalize_all`."""
        if replace:
            self.unit_normalize_all()

    def similarity_unseen_docs(self, *documents: object) -> Never:
        """Belongs to models of documents, in gensim too.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("word vectors have no documents; compare two texts by n_similarity or wmdistance")


def _made(path: str | Path, words: Sequence[str], rows: Vector) -> WordVectors:
    try:
        return WordVectors(words, rows)
    except VocabError as error:
        raise FormatError(f"{path}: {error}") from None
