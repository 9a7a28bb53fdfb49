"""The parameters of fastText, and the vectors and predictions that follow from them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from wenmai.core.collector import uncollected
from wenmai.core.errors import SettingError, require_label_count, require_list
from wenmai.models.fasttext.config import (
    END_OF_LINE,
    LABEL_PREFIX,
    Config,
    FastTextClassifierConfig,
    is_hierarchical,
    used_buckets,
)
from wenmai.models.fasttext.folder import read_parts, write_model
from wenmai.models.fasttext.matrices import Matrix, zero_rows
from wenmai.models.fasttext.reference import Loss, probabilities_of, reference_labels, reference_outputs
from wenmai.text.utf8 import encode, encode_lines
from wenmai.text.vocab import Vocab
from wenmai.vectors.subword_vectors import SubwordVectors

if TYPE_CHECKING:
    from wenmai.kernels.classes import Tree
    from wenmai.kernels.reference import Labels, Outputs
    from wenmai.kernels.subwords import Features, KeptBuckets

__all__ = ["FastText"]

_BLOCK_TEXTS, _BLOCK_CHARACTERS = 1 << 12, 1 << 21


class FastText:
    """The parameters of any of the three kinds of fastText model, and the words and labels they belong to.

    Attributes:
        config: The architecture.
        vocab: Words and counts, ``</s>`` among them if lines have an end; row i of ``input`` belongs to word i. Bytes
            that are not UTF-8 are kept as Python's ``surrogateescape`` has them.
        labels: Labels and counts without their prefix; None if there are none. Word vectors can have some, unused.
        tokens: How many tokens the training text had, those outside the vocabulary included.
        input: (V + buckets, P) float32 for words and then buckets; P is ``vector_size`` or a little more, and columns
            from ``vector_size`` on are zero. Or the same rows quantised.
        output: (labels, P); (V, P) for word vectors. Hierarchical softmax uses the rows of inner nodes, one fewer.
            Or the same rows quantised.
        kept_buckets: None, or int32 (K, 2) of a pruned model: a bucket and the row after the words' it has now.
        arguments: Further settings of the file it was read from, to write them back; None if trained here.
        label_prefix: What labels begin with in fastText's files.
    """

    def __init__(
        self,
        config: Config,
        vocab: Vocab,
        labels: Vocab | None = None,
        *,
        tokens: int | None = None,
        input: "Matrix | None" = None,
        output: "Matrix | None" = None,
        kept_buckets: npt.NDArray[np.int32] | None = None,
        arguments: Mapping[str, Any] | None = None,
        label_prefix: str = LABEL_PREFIX,
    ) -> None:
        if isinstance(config, FastTextClassifierConfig) and labels is None:
            raise SettingError("a fastText classifier needs labels")
        self.config = config
        self.vocab = vocab
        self.labels = labels
        self.tokens = int(vocab.counts.sum()) if tokens is None else tokens
        self.kept_buckets = kept_buckets
        self.arguments = arguments
        self.label_prefix = label_prefix
        self.input: Matrix = (
            zero_rows(len(vocab) + used_buckets(config), config.vector_size) if input is None else input
        )
        self.output: Matrix = zero_rows(len(self.classes), config.vector_size) if output is None else output

    @property
    def kind(self) -> Literal["skipgram", "cbow", "supervised"]:
        """Which of the three it is."""
        return "supervised" if isinstance(self.config, FastTextClassifierConfig) else self.config.algorithm

    @property
    def classes(self) -> Vocab:
        """What is predicted: labels, or the words themselves."""
        return self.labels if self.labels is not None and self.kind == "supervised" else self.vocab

    def initialise(self, seed: int, *, first: int = 0, stop: int | None = None) -> None:
        """Draws the input rows from ``first`` to ``stop`` uniformly from ±1/d; output rows stay zero."""
        rows, width = self.dense("input")[:stop], self.config.vector_size
        generator = np.random.default_rng([seed, first])
        for start in range(first, len(rows), 4096):
            block = rows[start : start + 4096, :width]
            drawn = generator.random(block.shape, np.float32)
            drawn *= np.float32(2)
            drawn -= np.float32(1)
            drawn /= np.float32(width)
            block[:] = drawn

    # --- features -----------------------------------------------------------------------------------------------

    @cached_property
    def subword_table(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """The rows of each word of the vocabulary: ``start`` int64 [V + 1] and ``rows`` int32.

        Word w is the mean of the input rows ``rows[start[w]:start[w + 1]]``: its own first, then its n-grams'.
        """
        size, buckets = len(self.vocab), used_buckets(self.config)
        if not self.config.max_ngram or not buckets:
            return np.arange(size + 1), np.arange(size, dtype=np.int32)
        from wenmai.kernels.subwords import subword_table

        return subword_table(
            *encode(self.vocab.tokens),
            min_ngram=self.config.min_ngram,
            max_ngram=self.config.max_ngram,
            buckets=buckets,
            end_of_line=END_OF_LINE.encode(),
            kept=self.kept_table,
        )

    @cached_property
    def kept_table(self) -> "KeptBuckets":
        """Where the rows of buckets are, for the kernels."""
        from wenmai.kernels.subwords import kept_table

        return kept_table(self.kept_buckets)

    @cached_property
    def features(self) -> "Features":
        """The arguments of the kernels that turn text into rows."""
        from wenmai.kernels.subwords import Features, word_index

        config, size, buckets = self.config, len(self.vocab), used_buckets(self.config)
        text, bounds = encode(self.vocab.tokens)
        start, rows = self.subword_table
        if self.labels is not None:
            names, ends = encode(self.label_prefix + label for label in self.labels.tokens)
            text, bounds = np.concatenate([text, names]), np.concatenate([bounds, ends[1:] + bounds[-1]])
            text.flags.writeable = False  # as that of words alone, so that kernels are compiled once
        return Features(
            text=text,
            bounds=bounds,
            slots=word_index(text, bounds),
            num_words=size,
            start=start,
            rows=rows,
            min_ngram=config.min_ngram,
            max_ngram=config.max_ngram if buckets else 0,
            word_ngrams=config.word_ngrams if buckets else 1,
            buckets=max(buckets, 1),
            kept=self.kept_table,
            label_prefix=np.frombuffer(LABEL_PREFIX.encode() if self.kind == "supervised" else b"", np.uint8),
        )

    def feature_rows(self, text: str) -> npt.NDArray[np.int32]:
        """The input rows of a text for a classifier: words, each with its n-grams, ``</s>``, then n-grams of words."""
        from wenmai.kernels.subwords import text_features

        rows: npt.NDArray[np.int32] = text_features(*encode([text]), self.features)[1]
        return rows

    def subwords(self, word: str) -> tuple[list[str], npt.NDArray[np.int32]]:
        """The word itself if it is known, then its n-grams, and the input row of each."""
        from wenmai.kernels.subwords import word_subwords

        known = self.vocab.get(word)
        names, rows = ([], []) if known is None else ([word], [known])
        if word != END_OF_LINE:
            text = encode([word])[0].tobytes()
            found, spans = word_subwords(text, self.features)
            bracketed = b"<" + text + b">"
            names += [bracketed[begin:end].decode("utf-8", "surrogateescape") for begin, end in spans.tolist()]
            rows += found.tolist()
        return names, np.array(rows, np.int32)

    # --- vectors ------------------------------------------------------------------------------------------------

    def vector(self, word: str) -> npt.NDArray[np.float32]:
        """The vector (d,) of any word: the mean of its rows, zeros if it has none."""
        rows = self.subwords(word)[1]
        return self._mean(rows)

    def sentence_vector(self, text: str) -> npt.NDArray[np.float32]:
        """The vector (d,) of a text.

        Of a classifier, the mean of its feature rows; of word vectors, the mean of its words' vectors at length 1,
        those of length 0 left out.
        """
        if self.kind == "supervised":
            return self._mean(self.feature_rows(text))
        total, count = np.zeros(self.config.vector_size), 0
        for word in text.encode("utf-8", "surrogateescape").split():
            vector = self.vector(word.decode("utf-8", "surrogateescape")).astype(np.float64)
            if length := float(np.linalg.norm(vector)):
                total += vector / length
                count += 1
        return (total / max(count, 1)).astype(np.float32)

    def _mean(self, rows: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        mean: npt.NDArray[np.float32] = self.means(np.array([0, len(rows)], np.int64), rows)[0]
        return mean

    def means(self, start: npt.NDArray[np.int64], rows: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        """The mean (B, d) of the input rows ``rows[start[b]:start[b + 1]]``, for each b; zeros where there are none."""
        from wenmai.kernels.pooling import mean_rows

        if isinstance(self.input, np.ndarray):
            return mean_rows(self.input, self.config.vector_size, start, rows)
        return self.input.means(start, rows)

    def vectors(self) -> SubwordVectors:
        """The vectors of all words of the vocabulary, which also has those of any other word with n-grams."""
        return SubwordVectors(
            self.vocab.tokens,
            self.means(*self.subword_table),
            self.vocab.counts if self.vocab.counts.any() else None,
            compose=self._composed,
            split=self.subwords,
        )

    def _composed(self, word: str) -> npt.NDArray[np.float32] | None:
        rows = self.subwords(word)[1]
        return self._mean(rows) if len(rows) else None

    # --- classes ------------------------------------------------------------------------------------------------

    def predict(self, texts: Iterable[str], k: int = 1, threshold: float = 0.0) -> list[list[tuple[str, float]]]:
        """The most probable labels of each text with their probabilities, best first.

        Args:
            texts: Any number of them; line feeds in them are white space. A text without features has no labels.
            k: Most labels of a text; -1 for all.
            threshold: Labels less probable are left out.

        Raises:
            SettingError: if this is no classifier, ``k`` is not in range, or ``texts`` is a single text.
        """
        config = self.config
        if not isinstance(config, FastTextClassifierConfig):
            raise SettingError("these are fastText word vectors, which cannot predict labels")
        names = list(self.classes.tokens)
        require_list(texts, "predict")
        require_label_count(k)
        k = len(names) if k == -1 else min(k, len(names))
        answers: list[list[tuple[str, float]]] = []
        with uncollected():
            for block in _blocks(texts):
                hidden, known = self.hidden(block)
                ids, chances, counts = self._best(hidden, config.loss, k, threshold)
                counts = counts * known
                if k == 1:
                    pairs = zip(map(names.__getitem__, ids[:, 0].tolist()), chances[:, 0].tolist(), strict=True)
                    answers += [[pair] if count else [] for pair, count in zip(pairs, counts.tolist(), strict=True)]
                    continue
                for labels, values, count in zip(ids.tolist(), chances.tolist(), counts.tolist(), strict=True):
                    answers.append(
                        [(names[label], value) for label, value in zip(labels[:count], values[:count], strict=True)]
                    )
        return answers

    def hidden(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
        """The hidden vectors (B, d) of texts, and which of the texts have features [B]; zeros where they have none."""
        from wenmai.kernels.subwords import text_features

        start, rows = text_features(*encode_lines(texts), self.features)
        return self.means(start, rows), start[1:] > start[:-1]

    def _best(
        self, hidden: npt.NDArray[np.float32], loss: Loss, k: int, threshold: float
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """The ids (B, k) of the best labels, their probabilities (B, k), and how many reach the threshold [B].

        A model from a file of fastText's was trained with its table of the sigmoid, which makes other labels the best
        ones than the exact sigmoid does.
        """
        if self.arguments is not None and loss in ("ns", "ova"):
            found = self.reference_labels(hidden, loss, k, threshold)
            return found.ids, probabilities_of(found.scores), found.counts
        from wenmai.kernels.classes import best_classes

        ids, probable = best_classes(hidden, self._dense_output, loss, k, self._tree)
        return ids, probable, (probable >= threshold).sum(axis=1)

    def reference_labels(self, hidden: npt.NDArray[np.float32], loss: Loss, k: int, threshold: float) -> "Labels":
        """The labels that the reference implementation finds for hidden vectors (B, d); ``k`` is at least 1."""
        return reference_labels(hidden, self._reference_outputs, loss, min(k, len(self.classes)), threshold)

    @cached_property
    def _reference_outputs(self) -> "Outputs":
        return reference_outputs(self.output, self.config.vector_size, self._tree)

    @property
    def _dense_output(self) -> npt.NDArray[np.float32]:
        if isinstance(self.output, np.ndarray):
            return self.output[:, : self.config.vector_size]
        return self._decoded_output

    @cached_property
    def _decoded_output(self) -> npt.NDArray[np.float32]:
        """A quantised output is small enough to be held as numbers too."""
        return self.output.dense() if not isinstance(self.output, np.ndarray) else self.output

    @cached_property
    def _tree(self) -> "Tree | None":
        from wenmai.kernels.classes import huffman_tree

        return huffman_tree(self.classes.counts) if is_hierarchical(self.config) else None

    # --- other sizes --------------------------------------------------------------------------------------------

    def grown(self, vocab: Vocab, config: Config, seed: int, labels: Vocab | None = None) -> "FastText":
        """Returns a model of a vocabulary that continues this one's: known rows and buckets kept, new rows drawn.

        The inner nodes of hierarchical softmax start anew if any count changed, because the tree does; so do all
        outputs where inner nodes become words or labels, or the other way round.

        Raises:
            SettingError: if vectors or subwords would have another size, or this model is quantised.
        """
        for name in ("vector_size", "min_ngram", "max_ngram", "buckets", "word_ngrams"):
            if getattr(config, name) != (before := getattr(self.config, name)):
                raise SettingError(f"{name}={getattr(config, name)}, but the run that is continued has {before}")
        if self.kept_buckets is not None:
            raise SettingError("a pruned model cannot grow; continue the original")
        grown = FastText(config, vocab, labels, label_prefix=self.label_prefix)
        width, old, new = config.vector_size, len(self.vocab), len(vocab)
        rows, ours = grown.dense("input"), self.dense("input")
        rows[:old, :width] = ours[:old, :width]
        rows[new:, :width] = ours[old : old + len(rows) - new, :width]
        grown.initialise(seed, first=old, stop=new)
        before, after = self.classes, grown.classes
        tree = is_hierarchical(config)
        same_tree = not tree or np.array_equal(before.counts, after.counts)
        if tree == is_hierarchical(self.config) and same_tree:
            grown.dense("output")[: len(before), :width] = self.dense("output")[:, :width]
        return grown

    def dense(self, name: Literal["input", "output"]) -> npt.NDArray[np.float32]:
        """One of the matrices, which must not be quantised.

        Raises:
            SettingError: if it is quantised.
        """
        matrix: Matrix = getattr(self, name)
        if not isinstance(matrix, np.ndarray):
            raise SettingError("this model is quantised already; use the original")
        return matrix

    # --- folders ------------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Writes ``config.json``, ``vocab.json``, ``labels.json`` and ``model.safetensors`` into an existing folder."""
        write_model(self, folder)

    @classmethod
    def load(cls, folder: str | Path) -> "FastText":
        """Reads what :meth:`save` wrote.

        Raises:
            FormatError: if a file is missing, damaged, or does not fit the others.
        """
        return cls(**read_parts(Path(folder)))


def _blocks(texts: Iterable[str]) -> Iterator[list[str]]:
    """Splits a stream of texts into lists of a few million characters at most, or single texts."""
    block: list[str] = []
    characters = 0
    for text in texts:
        block.append(text)
        characters += len(text)
        if len(block) == _BLOCK_TEXTS or characters > _BLOCK_CHARACTERS:
            yield block
            block, characters = [], 0
    if block:
        yield block
