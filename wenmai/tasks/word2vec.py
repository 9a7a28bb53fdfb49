"""word2vec, trained by passes over an encoded corpus."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wenmai.config.recipe import Recipe
from wenmai.core.errors import SettingError
from wenmai.data.encoded_corpus import EncodedCorpus
from wenmai.models.word2vec import Word2Vec, Word2VecConfig, keep_probabilities
from wenmai.tasks.passes import BLOCK_TOKENS, PassesJob, PassesTask, Text, row_of_type
from wenmai.tasks.sources.text import Tokens
from wenmai.tasks.task import Notes, noted_words
from wenmai.text.settings import TextConfig, VocabConfig
from wenmai.text.vocab import Vocab
from wenmai.training.passes import PassesConfig, Tally
from wenmai.training.strategy import SINGLE, Strategy
from wenmai.vectors.word_vectors import WordVectors

__all__ = ["Word2VecJob", "Word2VecTask"]

_SKIPGRAM_RATE, _CBOW_RATE = 0.025, 0.05  # word2vec.c


class Word2VecTask(PassesTask):
    """word2vec on an encoded corpus."""

    source = Tokens()
    sections: Mapping[str, type] = {
        "text": TextConfig,
        "vocab": VocabConfig,
        "model": Word2VecConfig,
        "train": PassesConfig,
    }
    inherited = ("text", "model")
    verbs = ("nearest", "analogy", "similarity", "embed")

    def load(self, folder: Path) -> WordVectors:
        """Reads the vectors of a finished model."""
        return Word2Vec.load_vectors(folder)

    def load_base(self, folder: Path) -> Word2Vec:
        """Reads the whole model."""
        return Word2Vec.load(folder)

    def begin(
        self, recipe: Recipe, corpus: EncodedCorpus, base: Word2Vec | None = None, strategy: Strategy = SINGLE
    ) -> "Word2VecJob":
        """Starts a training: a new model, or one that continues ``base`` with the new words of the corpus.

        Raises:
            VocabError: if no word reaches ``min_count``.
        """
        _warm_up(recipe)
        config: Word2VecConfig = recipe.sections["model"]
        wanted: VocabConfig = recipe.sections["vocab"]
        seed = recipe.sections["train"].seed
        if base is None:
            vocab = Vocab.from_counts(corpus.words, corpus.counts, min_count=wanted.min_count, max_size=wanted.max_size)
            model = Word2Vec(config, vocab)
            model.initialise(seed)
            return Word2VecJob(recipe, corpus, model)
        vocab = base.vocab.grow(corpus.words, corpus.counts, min_count=wanted.min_count)
        return Word2VecJob(recipe, corpus, base.grown(vocab, config, seed), old_rows=len(base.vocab))

    def restore(
        self,
        recipe: Recipe,
        corpus: EncodedCorpus,
        checkpoint: Path,
        noted: Notes,
        strategy: Strategy = SINGLE,
    ) -> "Word2VecJob":
        """Resumes a training from the model of a checkpoint."""
        _warm_up(recipe)
        return Word2VecJob(recipe, corpus, Word2Vec.load(checkpoint), old_rows=noted_words(noted))


class Word2VecJob(PassesJob):
    """A training of word2vec; ``model`` has the parameters, changed in place."""

    config: Word2VecConfig
    model: Word2Vec

    def __init__(self, recipe: Recipe, corpus: EncodedCorpus, model: Word2Vec, *, old_rows: int = 0) -> None:
        super().__init__(recipe, corpus, model, old_rows=old_rows)
        if self.config.softmax and self.train_config.deterministic:
            raise SettingError("softmax=true has no deterministic mode; threads=1 gives the same bytes always")

    @property
    def learning_rate(self) -> float:
        """α at the start."""
        default = _CBOW_RATE if self.config.algorithm == "cbow" else _SKIPGRAM_RATE
        return self.train_config.learning_rate or default

    @property
    def objective(self) -> str:
        """What the loss is; only losses of the same objective are comparable."""
        return self.config.objective

    # --- what a pass calls -----------------------------------------------------------------------------------

    def worker(self) -> Any:  # noqa: ANN401  a named tuple of the kernel
        """Working memory of one thread."""
        from wenmai.kernels.window import Scratch

        return Scratch.allocate(
            self._choices,
            block=2 * BLOCK_TOKENS,
            padded=self.model.input.shape[1],
            longest_path=self._longest_path,
            vocabulary=len(self.model.vocab),
        )

    def train_block(self, worker: Any, epoch: int, block: int, rate: float) -> Tally:  # noqa: ANN401
        """Trains on a block of about 10,000 tokens."""
        return self._train_text(self._text(block), worker, rate, self._seed(epoch, block))

    def lanes(self) -> int:
        """Blocks that are trained at once in deterministic mode."""
        from wenmai.kernels.lanes import LANES

        return LANES

    def train_in_step(self, epoch: int, first: int, rates: Sequence[float], threads: int) -> list[Tally]:
        """Trains on a few blocks at once; the result does not depend on the number of threads."""
        blocks = range(first, first + len(rates))
        seeds = np.array([self._seed(epoch, block) for block in blocks])
        return self._train_texts_in_step([self._text(block) for block in blocks], rates, seeds, threads)

    def _vectors(self, begin: int, end: int) -> npt.NDArray[np.float32]:
        return self.model.input[begin:end, : self.config.vector_size]

    @property
    def _row_of_type(self) -> npt.NDArray[np.int32]:
        rows: npt.NDArray[np.int32] = self._tables.word
        return rows

    # --- calls of the kernels -----------------------------------------------------------------------------------

    def _train_text(self, text: Text, worker: Any, rate: float, seed: np.uint64) -> Tally:  # noqa: ANN401
        from wenmai.kernels.window import train_block

        tally = np.zeros(3)
        rows, tables, choices = self._rows, self._tables, self._choices
        train_block(*text, rows, tables, choices, worker, np.float32(rate), seed, tally)
        return Tally(float(tally[0]), int(tally[1]), int(tally[2]))

    def _train_texts_in_step(
        self, texts: Sequence[Text], rates: Sequence[float], seeds: npt.NDArray[np.uint64], threads: int
    ) -> list[Tally]:
        from wenmai.kernels.lanes import train_lanes

        rows, tables, choices, memory = self._rows, self._tables, self._choices, self._lane_memory
        tallies = train_lanes(texts, rows, tables, choices, memory, np.array(rates, np.float32), seeds, threads)
        return [Tally(float(loss), int(examples), int(words)) for loss, examples, words in tallies]

    # --- tables of the kernels ----------------------------------------------------------------------------------

    @cached_property
    def _choices(self) -> Any:  # noqa: ANN401  a named tuple of the kernel
        from wenmai.kernels.window import Choices

        return Choices(
            window=self.config.window,
            dynamic=self.config.dynamic_window,
            negative=self.config.negative,
            hierarchical=self.config.hierarchical,
            softmax=self.config.softmax,
            cbow=self.config.algorithm == "cbow",
            mean=self.config.cbow_mean,
            true_gradient=self.config.true_gradient,
            shared=self.config.shared_negatives,
        )

    @cached_property
    def _rows(self) -> Any:  # noqa: ANN401  a named tuple of the kernel
        from wenmai.kernels.window import Rows

        model = self.model
        return Rows(
            input=model.input,
            negative=model.negative,
            hierarchical=model.hierarchical,
            old_rows=self.old_rows,
            old_rate=np.float32(self.train_config.old_rate),
        )

    @cached_property
    def _tables(self) -> Any:  # noqa: ANN401  a named tuple of the kernel
        from wenmai.kernels.huffman import huffman_paths
        from wenmai.kernels.window import Tables, noise_table

        vocab = self.model.vocab
        threshold, alias = noise_table(self.model.noise())
        if self.config.hierarchical:
            start, node, sign = huffman_paths(vocab.counts)
        else:
            start, node, sign = np.zeros(1, np.int64), np.zeros(1, np.int32), np.zeros(1, np.float32)
        return Tables(
            word=row_of_type(self._corpus, vocab),
            keep=keep_probabilities(vocab.counts, self.config),
            noise_threshold=threshold,
            noise_alias=alias,
            path_start=start,
            path_node=node,
            path_sign=sign,
        )

    @cached_property
    def _longest_path(self) -> int:
        return int(np.diff(self._tables.path_start).max(initial=0))

    @cached_property
    def _lane_memory(self) -> Any:  # noqa: ANN401  a named tuple of the kernel
        from wenmai.kernels.lanes import LaneMemory

        return LaneMemory.allocate(
            self._choices, block=2 * BLOCK_TOKENS, padded=self.model.input.shape[1], longest_path=self._longest_path
        )


def _warm_up(recipe: Recipe) -> None:
    """Compiles the kernels first, so that the clock measures training alone and memory peaks once."""
    from wenmai.kernels import lanes, window

    (lanes if recipe.sections["train"].deterministic else window).warm_up()
