"""fastText word vectors: words and their n-grams, trained by passes over an encoded corpus."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wenmai.config.recipe import Recipe
from wenmai.core.errors import SettingError
from wenmai.data.encoded_corpus import EncodedCorpus
from wenmai.models.fasttext import FastText, FastTextConfig
from wenmai.tasks.passes import BLOCK_TOKENS, PassesJob, PassesTask, row_of_type
from wenmai.tasks.sources.text import Tokens
from wenmai.tasks.task import Notes, noted_words
from wenmai.text.settings import TextConfig, VocabConfig
from wenmai.text.vocab import Vocab
from wenmai.training.passes import PassesConfig, Tally
from wenmai.training.strategy import SINGLE, Strategy
from wenmai.vectors.word_vectors import WordVectors

__all__ = ["FastTextJob", "FastTextTask", "keep_probabilities", "noise_weights"]

_RATE = 0.05  # the reference implementation's
_MOST = 1_000  # words of a window or of noise: imported models may have any number


class FastTextTask(PassesTask):
    """fastText word vectors on an encoded corpus."""

    source = Tokens()
    sections: Mapping[str, type] = {
        "text": TextConfig,
        "vocab": VocabConfig,
        "model": FastTextConfig,
        "train": PassesConfig,
    }
    inherited = ("text", "model")
    verbs = ("nearest", "analogy", "similarity", "embed")

    def load(self, folder: Path) -> WordVectors:
        """Reads a finished model as vectors, which unseen words have too."""
        return FastText.load(folder).vectors()

    def load_base(self, folder: Path) -> FastText:
        """Reads the whole model."""
        return FastText.load(folder)

    def begin(
        self, recipe: Recipe, corpus: EncodedCorpus, base: FastText | None = None, strategy: Strategy = SINGLE
    ) -> "FastTextJob":
        """Starts a training: a new model, or one that continues ``base`` with the new words of the corpus.

        Raises:
            SettingError: if the settings are invalid, or do not fit ``base``.
            VocabError: if no word reaches ``min_count``.
        """
        _check(recipe)
        _warm_up()
        config: FastTextConfig = recipe.sections["model"]
        wanted: VocabConfig = recipe.sections["vocab"]
        seed = recipe.sections["train"].seed
        if base is None:
            vocab = Vocab.from_counts(corpus.words, corpus.counts, min_count=wanted.min_count, max_size=wanted.max_size)
            model = FastText(config, vocab, tokens=len(corpus))
            model.initialise(seed)
            return FastTextJob(recipe, corpus, model)
        if not isinstance(base.config, FastTextConfig):
            raise SettingError(
                "a fastText classifier cannot be continued as word vectors; choose a run of word vectors"
            )
        vocab = base.vocab.grow(corpus.words, corpus.counts, min_count=wanted.min_count)
        model = base.grown(vocab, config, seed)
        model.tokens = base.tokens + len(corpus)
        return FastTextJob(recipe, corpus, model, old_rows=len(base.vocab))

    def restore(
        self,
        recipe: Recipe,
        corpus: EncodedCorpus,
        checkpoint: Path,
        noted: Notes,
        strategy: Strategy = SINGLE,
    ) -> "FastTextJob":
        """Resumes a training from the model of a checkpoint."""
        _warm_up()
        return FastTextJob(recipe, corpus, FastText.load(checkpoint), old_rows=noted_words(noted))


class FastTextJob(PassesJob):
    """A training of fastText word vectors; ``model`` has the parameters, changed in place."""

    config: FastTextConfig
    model: FastText

    @property
    def learning_rate(self) -> float:
        """α at the start."""
        return self.train_config.learning_rate or _RATE

    @property
    def objective(self) -> str:
        """What the loss is; only losses of the same objective can be compared."""
        kind = "hierarchical softmax" if self.config.hierarchical else "negative sampling"
        return f"{kind}, {self.config.algorithm} with subwords"

    # --- what a pass calls -----------------------------------------------------------------------------------

    def worker(self) -> Any:  # noqa: ANN401  a named tuple of the kernel
        """Working memory of one thread."""
        from wenmai.kernels.subword_window import Scratch

        longest_path = int(np.diff(self._tables.path_start).max(initial=0))
        padded = max(self._rows.input.shape[1], self._rows.output.shape[1])
        return Scratch.allocate(
            self._choices, self._subwords, block=2 * BLOCK_TOKENS, padded=padded, longest_path=longest_path
        )

    def train_block(self, worker: Any, epoch: int, block: int, rate: float) -> Tally:  # noqa: ANN401
        """Trains on a block of about 10,000 tokens."""
        from wenmai.kernels.subword_window import train_block

        tally = np.zeros(3)
        text, seed = self._text(block), self._seed(epoch, block)
        rows, subwords, tables, choices = self._rows, self._subwords, self._tables, self._choices
        train_block(*text, rows, subwords, tables, choices, worker, np.float32(rate), seed, tally)
        return Tally(float(tally[0]), int(tally[1]), int(tally[2]))

    def _vectors(self, begin: int, end: int) -> npt.NDArray[np.float32]:
        start, rows = self.model.subword_table
        return self.model.means(start[begin : end + 1] - start[begin], rows[start[begin] : start[end]])

    @property
    def _row_of_type(self) -> npt.NDArray[np.int32]:
        rows: npt.NDArray[np.int32] = self._tables.word
        return rows

    # --- tables of the kernel -----------------------------------------------------------------------------------

    @cached_property
    def _choices(self) -> Any:  # noqa: ANN401  a named tuple of the kernel
        from wenmai.kernels.subword_window import Choices

        return Choices(
            window=self.config.window,
            negative=0 if self.config.hierarchical else self.config.negative,
            hierarchical=self.config.hierarchical,
            cbow=self.config.algorithm == "cbow",
        )

    @cached_property
    def _rows(self) -> Any:  # noqa: ANN401  a named tuple of the kernel
        from wenmai.kernels.subword_window import Rows

        words = len(self.model.vocab)
        rows = self.model.dense("input")
        return Rows(
            input=rows,
            output=self.model.dense("output"),
            first_new=self.old_rows,
            last_new=words if self.old_rows else len(rows),
            old_rate=np.float32(self.train_config.old_rate),
        )

    @cached_property
    def _subwords(self) -> Any:  # noqa: ANN401  a named tuple of the kernel
        from wenmai.kernels.subword_window import Subwords

        return Subwords(*self.model.subword_table)

    @cached_property
    def _tables(self) -> Any:  # noqa: ANN401  a named tuple of the kernel
        from wenmai.kernels.huffman import huffman_paths
        from wenmai.kernels.window import Tables, noise_table

        vocab = self.model.vocab
        threshold, alias = noise_table(noise_weights(vocab.counts, self.config))
        if self.config.hierarchical:
            start, node, sign = huffman_paths(vocab.counts)
        else:
            start, node, sign = np.zeros(1, np.int64), np.zeros(1, np.int32), np.zeros(1, np.float32)
        return Tables(
            word=row_of_type(self._corpus, vocab),
            keep=keep_probabilities(vocab.counts, self.model.tokens, self.config),
            noise_threshold=threshold,
            noise_alias=alias,
            path_start=start,
            path_node=node,
            path_sign=sign,
        )


def keep_probabilities(counts: npt.NDArray[np.int64], tokens: int, config: FastTextConfig) -> npt.NDArray[np.float32]:
    """The fraction of each word's occurrences that sub-sampling keeps, (V,) float32, at most 1.

    ``√(t/f) + t/f`` with t = ``sample`` and f = count / tokens; words outside the vocabulary are tokens too.
    """
    if config.sample == 0:
        return np.ones(len(counts), np.float32)
    ratio = config.sample * tokens / np.maximum(counts, 1)
    return np.minimum(np.sqrt(ratio) + ratio, 1).astype(np.float32)


def noise_weights(counts: npt.NDArray[np.int64], config: FastTextConfig) -> npt.NDArray[np.float64]:
    """Weights (V,) of the noise distribution, count^noise_exponent."""
    return np.maximum(counts, 1.0) ** config.noise_exponent


def _check(recipe: Recipe) -> None:
    """Refuses settings that cannot be trained with."""
    config: FastTextConfig = recipe.sections["model"]
    if recipe.sections["train"].deterministic:
        raise SettingError("fastText has no deterministic mode; threads=1 gives the same bytes always")
    if not config.hierarchical and config.negative == 0:
        raise SettingError("there is nothing to learn from: set negative=5 or hierarchical=true")
    for name, fewest in (("window", 1), ("negative", 0)):
        if not fewest <= (value := getattr(config, name)) <= _MOST:
            raise SettingError(f"{name}={value} cannot be trained with; expected {fewest} to {_MOST}")


def _warm_up() -> None:
    """Compiles the kernels first, so that the clock measures training alone and memory peaks once."""
    from wenmai.kernels import subword_window

    subword_window.warm_up()
