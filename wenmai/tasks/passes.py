"""What all systems trained by passes over a corpus have in common."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wenmai.config.effects import require_usual
from wenmai.config.recipe import Recipe
from wenmai.core.seeding import mixed_seed
from wenmai.data.encoded_corpus import EncodedCorpus
from wenmai.tasks.task import Job, Session, Task
from wenmai.text.vocab import Vocab
from wenmai.training.passes import PassesConfig, Tally, Totals, run_passes
from wenmai.vectors.word_vectors import WordVectors

__all__ = ["BLOCK_TOKENS", "PassesJob", "PassesTask", "Text", "block_bounds", "row_of_type"]

Text = tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]  # tokens; sentence starts and the end

BLOCK_TOKENS = 10_000  # as often as word2vec.c changes the learning rate
_FEWEST_BLOCKS = 100  # of a small corpus, so that threads share it evenly


class PassesTask(Task):
    """A system that is trained by passes over a corpus."""

    def check(self, recipe: Recipe) -> None:
        """Makes sure that a new model has no setting that is for a continued one."""
        if recipe.start is None:
            require_usual(recipe.sections["train"], ("old_rate",), "a new model", needed="--from RUN")


class PassesJob(Job):
    """Training vectors of words by passes over an encoded corpus. Subclasses train blocks.

    Attributes:
        config: The settings of the model.
        train_config: The settings of the passes.
        model: The parameters, changed in place by training.
        old_rows: In a continued training, the words that the model had before.
        totals: The progress of the training.
    """

    config: Any
    model: Any

    def __init__(self, recipe: Recipe, corpus: EncodedCorpus, model: Any, *, old_rows: int = 0) -> None:  # noqa: ANN401
        super().__init__(recipe)
        self.config = recipe.sections["model"]
        self.train_config: PassesConfig = recipe.sections["train"]
        self.model = model
        self.old_rows = old_rows
        self.totals = Totals()
        self._corpus = corpus
        self._bounds = block_bounds(corpus.starts, len(corpus))
        self._first_start = np.searchsorted(corpus.starts, self._bounds, side="right")

    # --- what each system has of its own ------------------------------------------------------------------------

    @property
    def learning_rate(self) -> float:
        """α at the start."""
        raise NotImplementedError

    @property
    def objective(self) -> str:
        """What the loss is; only losses of the same objective can be compared."""
        raise NotImplementedError

    def worker(self) -> Any:  # noqa: ANN401  a named tuple of the kernel
        """Working memory of one thread."""
        raise NotImplementedError

    def train_block(self, worker: Any, epoch: int, block: int, rate: float) -> Tally:  # noqa: ANN401
        """Trains on a block of about 10,000 tokens."""
        raise NotImplementedError

    def lanes(self) -> int:
        """Blocks that are trained at once in deterministic mode."""
        raise NotImplementedError

    def train_in_step(self, epoch: int, first: int, rates: Sequence[float], threads: int) -> list[Tally]:
        """Trains on a few blocks at once; the result does not depend on the number of threads."""
        raise NotImplementedError

    def _vectors(self, begin: int, end: int) -> npt.NDArray[np.float32]:
        """The vectors of the words from ``begin`` to before ``end`` as they are now."""
        raise NotImplementedError

    @property
    def _row_of_type(self) -> npt.NDArray[np.int32]:
        """The word that each type of the corpus is, or -1."""
        raise NotImplementedError

    # --- what a pass calls -----------------------------------------------------------------------------------

    @property
    def blocks(self) -> int:
        """Blocks in the corpus."""
        return len(self._bounds) - 1

    def share_before(self, block: int) -> float:
        """The fraction of the corpus before a block."""
        return float(self._bounds[block] / self._bounds[-1])

    # --- what a run calls ---------------------------------------------------------------------------------------

    def notes(self) -> dict[str, Any]:
        """How many words the continued model had."""
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

    def train(self, session: Session) -> None:
        """Makes the passes over the corpus."""
        if session.resumed is not None:
            self.totals = Totals.of_checkpoint(*session.resumed)
        run_passes(
            self,
            self.train_config,
            learning_rate=self.learning_rate,
            totals=self.totals,
            checkpoints=session.checkpoints,
            report=session.report,
        )

    def summary(self) -> dict[str, Any]:
        """Speed, loss and sizes."""
        return {
            **self.totals.metrics(),
            "objective": self.objective,
            "vocabulary": len(self.model.vocab),
            "words": self.totals.words,
            "epochs": self.train_config.epochs,
            "threads": self.train_config.worker_count,
        }

    def changes(self, base: Any) -> tuple[dict[str, Any], list[str]]:  # noqa: ANN401
        """How far old vectors have moved in a continued training."""
        notes = []
        if math.isnan(self.totals.last_epoch_loss):
            notes.append(
                "nothing was learnt: no word had a neighbour. One word a line has none; of a very small "
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
        """How far the vectors of old words in the text have moved: cosine distances."""
        cosine = np.empty(len(before))
        for start in range(0, len(before), 4096):
            old = before.vectors[start : start + 4096]
            new = self._vectors(start, start + len(old))
            lengths = np.linalg.norm(old, axis=1) * np.linalg.norm(new, axis=1)
            cosine[start : start + 4096] = (old * new).sum(axis=1) / np.maximum(lengths, np.finfo(np.float32).tiny)
        rows = self._row_of_type
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

    # --- input of the kernels -----------------------------------------------------------------------------------

    def _text(self, block: int) -> Text:
        """The tokens of a block and where its sentences begin, and its length."""
        begin, end = int(self._bounds[block]), int(self._bounds[block + 1])
        inner = self._corpus.starts[self._first_start[block] : self._first_start[block + 1]]
        inner = inner[(inner > begin) & (inner < end)] - begin
        return self._corpus.read(begin, end), np.concatenate([[0], inner, [end - begin]])

    def _seed(self, epoch: int, block: int) -> np.uint64:
        """The generator state of a block."""
        return np.uint64(mixed_seed(self.train_config.seed, epoch, block))


def block_bounds(starts: npt.NDArray[np.int64], tokens: int) -> npt.NDArray[np.int64]:
    """Cuts a corpus into blocks of about 10,000 tokens (fewer if it is small), at sentence starts where possible.

    Args:
        starts: Where sentences begin, and the end.
        tokens: Tokens in the corpus.

    Returns:
        int64 [blocks + 1]; no block has 20,000 tokens or more, and sentences are cut only if longer than a block.
    """
    size = min(BLOCK_TOKENS, max(100, tokens // _FEWEST_BLOCKS))
    targets = np.arange(size, tokens, size, dtype=np.int64)
    snapped = np.asarray(starts[np.searchsorted(starts, targets, side="right") - 1])
    inner = np.where(snapped > targets - size, snapped, targets)
    return np.concatenate([[0], inner, [tokens]]).astype(np.int64)


def row_of_type(corpus: EncodedCorpus, vocab: Vocab) -> npt.NDArray[np.int32]:
    """The row of each type of a corpus in a vocabulary, or -1; int32 [types]."""
    size = len(vocab)
    rows = np.full(max(1, corpus.counts.size), -1, np.int32)
    if corpus.words[:size] == vocab.tokens:  # the vocabulary was made from this corpus
        rows[:size] = np.arange(size, dtype=np.int32)
    else:
        row = dict(zip(vocab.tokens, range(size), strict=True))  # not kept, unlike the vocabulary's own
        rows[: len(corpus.words)] = [row.get(word, -1) for word in corpus.words]
    return rows
