"""Word vectors for users: lookup, neighbours, similarity, clusters, files; all that gensim's ``KeyedVectors`` has.

The class is in four parts, each on top of the one before: :mod:`wenmai.vectors.table` holds, adds and changes words,
:mod:`wenmai.vectors.neighbours` finds the nearest ones, :mod:`wenmai.vectors.comparing` compares those that are given,
and here are texts, test sets and files.
"""

import datetime
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Never

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from wenmai.core.errors import FormatError, SettingError, VocabError, require_list
from wenmai.core.showing import Shown
from wenmai.vectors.comparing import ComparedWords
from wenmai.vectors.errors import UnknownAttributeError, UnknownWordError
from wenmai.vectors.evaluation import Correlation, Section, SimilarityFunction, analogy_sections, pair_correlations
from wenmai.vectors.lengths import Vector
from wenmai.vectors.neighbours import Indexer, Neighbours
from wenmai.vectors.pooling import Weighting, embedded
from wenmai.vectors.store import read_table, write_table
from wenmai.vectors.table import Key
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


class WordVectors(ComparedWords, Shown):
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
        require_list(texts, "embed")
        return embedded(self, [text.split() if isinstance(text, str) else text for text in texts], weighting)

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
            SettingError: if an attribute has values that are neither finite numbers nor text.
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
