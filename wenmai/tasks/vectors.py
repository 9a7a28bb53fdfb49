"""Word vectors: a static model, trained by sweeping over a numbered corpus."""

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from wenmai.config.recipe import Recipe
from wenmai.core.errors import SettingError
from wenmai.core.folder import cache_folder, check_sealed
from wenmai.core.seeding import mixed_seed
from wenmai.data.corpus import Corpus
from wenmai.data.numbered import NumberedCorpus, number_corpus
from wenmai.data.sources import open_texts
from wenmai.models.word2vec import Word2Vec, Word2VecConfig, keep_probabilities
from wenmai.tasks.protocol import ReadProgress
from wenmai.text.settings import TextConfig, VocabConfig
from wenmai.text.vocab import Vocab
from wenmai.training.checkpoint import Checkpoints
from wenmai.training.distributed import Ranks
from wenmai.training.records import Record
from wenmai.training.sweep import SweepConfig, Tally, Totals, sweep
from wenmai.vectors.word_vectors import WordVectors

__all__ = ["Word2VecTask"]

Text = tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]  # tokens; sentence starts and the end

_BLOCK_TOKENS = 10_000  # as often as word2vec.c changes the learning rate
_FEWEST_BLOCKS = 100  # of a small corpus, so that threads share it evenly
_SKIPGRAM_RATE, _CBOW_RATE = 0.025, 0.05  # word2vec.c


class Word2VecTask:
    """word2vec on a numbered corpus.

    Attributes:
        sections: The settings, by section.
        model: The parameters, changed in place by training.
    """

    sections: ClassVar[dict[str, type]] = {
        "text": TextConfig,
        "vocab": VocabConfig,
        "model": Word2VecConfig,
        "train": SweepConfig,
    }
    inherited: ClassVar[tuple[str, ...]] = ("text", "model")
    distributed: ClassVar[bool] = False
    verbs: ClassVar[tuple[str, ...]] = ("nearest", "analogy", "export")

    def __init__(self, recipe: Recipe, corpus: NumberedCorpus, model: Word2Vec, *, old_rows: int = 0) -> None:
        self.config: Word2VecConfig = recipe.sections["model"]
        self.train_config: SweepConfig = recipe.sections["train"]
        self.model = model
        self.old_rows = old_rows
        self.totals = Totals()
        self._corpus = corpus
        self._bounds = block_bounds(corpus.starts, len(corpus))
        self._first_start = np.searchsorted(corpus.starts, self._bounds, side="right")
        if self.config.softmax and self.train_config.deterministic:
            raise SettingError("softmax=true has no deterministic mode; threads=1 gives the same bytes always")

    @classmethod
    def open(cls, corpus: Any) -> tuple[Corpus, dict[str, Any], tuple[str, ...]]:  # noqa: ANN401
        """Opens a text; see :class:`wenmai.tasks.protocol.Task`."""
        return open_texts(corpus)

    @classmethod
    def with_absolute_paths(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """No setting is a path."""
        return settings

    @classmethod
    def read(cls, recipe: Recipe, source: Corpus, progress: ReadProgress, base: Word2Vec | None) -> NumberedCorpus:
        """Numbers a text."""
        return number_corpus(source, recipe.sections["text"], progress=progress)

    @classmethod
    def reopen(cls, fingerprint: str) -> NumberedCorpus | None:
        """Opens a text that was numbered before."""
        folder = cache_folder() / "corpora" / fingerprint
        if folder.is_dir() and not check_sealed(folder):
            return NumberedCorpus.open(folder)
        shutil.rmtree(folder, ignore_errors=True)  # damaged, perhaps where only a checksum shows it
        return None

    @classmethod
    def begin(cls, recipe: Recipe, corpus: NumberedCorpus, base: Word2Vec | None = None) -> Self:
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
            return cls(recipe, corpus, model)
        vocab = base.vocab.grow(corpus.words, corpus.counts, min_count=wanted.min_count)
        return cls(recipe, corpus, base.grown(vocab, config, seed), old_rows=len(base.vocab))

    @classmethod
    def restore(cls, recipe: Recipe, corpus: NumberedCorpus, checkpoint: Path, noted: Mapping[str, Any]) -> Self:
        """Takes a training up again from the model that a checkpoint holds."""
        _warm_up(recipe)
        return cls(recipe, corpus, Word2Vec.load(checkpoint), old_rows=noted["words"])

    @classmethod
    def load_model(cls, folder: Path) -> Word2Vec:
        """Reads the whole model of a finished run, to continue it."""
        return Word2Vec.load(folder)

    @classmethod
    def load(cls, folder: Path) -> WordVectors:
        """Reads the vectors of a finished model folder."""
        return Word2Vec.load_vectors(folder)

    @property
    def learning_rate(self) -> float:
        """α at the start."""
        default = _CBOW_RATE if self.config.algorithm == "cbow" else _SKIPGRAM_RATE
        return self.train_config.learning_rate or default

    # --- what the sweep asks for --------------------------------------------------------------------------------

    @property
    def blocks(self) -> int:
        """Blocks in the corpus."""
        return len(self._bounds) - 1

    def share_before(self, block: int) -> float:
        """The share of the corpus before a block."""
        return float(self._bounds[block] / self._bounds[-1])

    def worker(self) -> Any:  # noqa: ANN401  a named tuple of the kernel
        """Working memory for one thread."""
        from wenmai.kernels.window import Scratch

        return Scratch.allocate(
            self._choices,
            block=2 * _BLOCK_TOKENS,
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

    # --- what a run asks for ------------------------------------------------------------------------------------

    def notes(self) -> dict[str, Any]:
        """How many words the model had that is continued."""
        return {"words": self.old_rows}

    def facts(self) -> dict[str, Any]:
        """The sizes of corpus and vocabulary, and the effort."""
        size, new = len(self.model.vocab), len(self.model.vocab) - self.old_rows
        grown = f", {new:,} of them new" if self.old_rows else ""
        sizes = f"{len(self._corpus):,} tokens, {len(self._corpus.counts):,} types, vocabulary {size:,}{grown}"
        return {
            "sizes": sizes,
            "tokens": len(self._corpus),
            "vocabulary": size,
            "epochs": self.train_config.epochs,
            "threads": self.train_config.worker_count,
            "stats": asdict(self._corpus.stats),
        }

    def train(
        self,
        checkpoints: Checkpoints,
        report: Callable[[Record], None],
        *,
        resumed: tuple[Path, dict[str, Any]] | None,
        ranks: Ranks,
    ) -> None:
        """Sweeps over the corpus."""
        if resumed is not None:
            state = resumed[1]
            state["last_epoch_loss"] = math.nan if state["last_epoch_loss"] is None else state["last_epoch_loss"]
            self.totals = Totals(**state)
        sweep(
            self,
            self.train_config,
            learning_rate=self.learning_rate,
            totals=self.totals,
            checkpoints=checkpoints,
            report=report,
        )

    def summary(self) -> dict[str, Any]:
        """Speed, loss and sizes."""
        totals = self.totals
        return {
            "words_per_second": totals.words / totals.seconds if totals.seconds else 0.0,
            "loss": None if math.isnan(totals.last_epoch_loss) else totals.last_epoch_loss,
            "objective": self.config.objective,
            "seconds": totals.seconds,
            "vocabulary": len(self.model.vocab),
            "words": totals.words,
            "epochs": self.train_config.epochs,
            "threads": self.train_config.worker_count,
        }

    def changes(self, base: Word2Vec | None) -> tuple[dict[str, Any], list[str]]:
        """How far old vectors have moved in a continued training."""
        notes = []
        if math.isnan(self.totals.last_epoch_loss):
            notes.append(
                "nothing was learnt: no word stood beside another. One word a line has no neighbours; of a very small "
                "text sub-sampling may leave too little (sample=0 keeps all)"
            )
        if base is None:
            return {}, notes
        drift = self.drift(base.vectors())
        furthest = ", ".join(repr(word) for word, _ in drift["furthest"][:3])
        notes.append(
            f"{drift['seen_words']:,} of {drift['old_words']:,} old words occur in the new text; they moved by "
            f"{drift['mean_cosine_distance']:.3f} on average (cosine distance), most {furthest or 'none'}"
        )
        return {"drift": drift}, notes

    def save(self, folder: Path) -> None:
        """Writes the model."""
        self.model.save(folder)

    def drift(self, before: WordVectors) -> dict[str, Any]:
        """How far the vectors of a continued run have moved: cosine distances of the old words that the text has."""
        cosine = np.empty(len(before))
        width = self.config.vector_size
        for start in range(0, len(before), 4096):
            old = before.vectors[start : start + 4096]
            new = self.model.input[start : start + len(old), :width]
            lengths = np.linalg.norm(old, axis=1) * np.linalg.norm(new, axis=1)
            cosine[start : start + 4096] = (old * new).sum(axis=1) / np.maximum(lengths, np.finfo(np.float32).tiny)
        rows = self._tables.word
        seen = np.unique(rows[(rows >= 0) & (rows < len(before))])
        distance = np.clip(1 - cosine[seen], 0, 2)
        furthest = np.argsort(-distance, kind="stable")[:10]
        return {
            "old_words": len(before),
            "seen_words": len(seen),
            "mean_cosine_distance": float(distance.mean()) if len(seen) else 0.0,
            "median_cosine_distance": float(np.median(distance)) if len(seen) else 0.0,
            "largest_cosine_distance": float(distance.max(initial=0.0)),
            "furthest": [(before.index_to_key[seen[place]], float(distance[place])) for place in furthest],
        }

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

    # --- what the kernels ask for -------------------------------------------------------------------------------

    def _text(self, block: int) -> Text:
        """The tokens of a block and where its sentences begin, and its length."""
        begin, end = int(self._bounds[block]), int(self._bounds[block + 1])
        inner = self._corpus.starts[self._first_start[block] : self._first_start[block + 1]]
        inner = inner[(inner > begin) & (inner < end)] - begin
        return self._corpus.read(begin, end), np.concatenate([[0], inner, [end - begin]])

    def _seed(self, epoch: int, block: int) -> np.uint64:
        """The generator state of a block."""
        return np.uint64(mixed_seed(self.train_config.seed, epoch, block))

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
            self._choices, block=2 * _BLOCK_TOKENS, padded=self.model.input.shape[1], longest_path=self._longest_path
        )


def _warm_up(recipe: Recipe) -> None:
    """Compiles what the training will run, so that the clock measures training, and memory peaks once."""
    from wenmai.kernels import lanes, window

    (lanes if recipe.sections["train"].deterministic else window).warm_up()


def block_bounds(starts: npt.NDArray[np.int64], tokens: int) -> npt.NDArray[np.int64]:
    """Cuts a corpus into blocks of about 10,000 tokens (fewer if it is small), at sentence starts where possible.

    Args:
        starts: Where sentences begin, and the end.
        tokens: Tokens in the corpus.

    Returns:
        int64 [blocks + 1]; no block has 20,000 tokens or more, and sentences are cut only if longer than a block.
    """
    size = min(_BLOCK_TOKENS, max(100, tokens // _FEWEST_BLOCKS))
    targets = np.arange(size, tokens, size, dtype=np.int64)
    snapped = np.asarray(starts[np.searchsorted(starts, targets, side="right") - 1])
    inner = np.where(snapped > targets - size, snapped, targets)
    return np.concatenate([[0], inner, [tokens]]).astype(np.int64)


def row_of_type(corpus: NumberedCorpus, vocab: Vocab) -> npt.NDArray[np.int32]:
    """The row of each type of a corpus in a vocabulary, or -1; int32 [types]."""
    size = len(vocab)
    rows = np.full(max(1, corpus.counts.size), -1, np.int32)
    if corpus.words[:size] == vocab.tokens:  # the vocabulary was made from this corpus
        rows[:size] = np.arange(size, dtype=np.int32)
    else:
        row = dict(zip(vocab.tokens, range(size), strict=True))  # not kept, as the vocabulary's own would be
        rows[: len(corpus.words)] = [row.get(word, -1) for word in corpus.words]
    return rows
