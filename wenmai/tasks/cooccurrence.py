"""Word vectors from co-occurrence counts: GloVe, by passes over the counts, and PPMI + SVD, in one step."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge
from typing_extensions import Doc

from wenmai.config.recipe import Recipe
from wenmai.core.clock import CLOCK
from wenmai.core.errors import SettingError
from wenmai.data.cooccurrence import Cooccurrences, CountsConfig
from wenmai.models.glove import GloVe, GloVeConfig, GloVeVectors
from wenmai.models.ppmi import PpmiConfig, PpmiSvd
from wenmai.tasks.factorising import CountsPasses, FactoriseConfig, diverged
from wenmai.tasks.sources.counts import Counts
from wenmai.tasks.task import Job, Notes, Session, Task
from wenmai.text.settings import TextConfig, VocabConfig
from wenmai.training.passes import PassesConfig, Totals, available_cores, run_passes
from wenmai.training.records import EpochRecord, Record, StepRecord
from wenmai.training.strategy import SINGLE, Strategy
from wenmai.vectors.word_vectors import WordVectors

__all__ = ["GloveJob", "GloveTask", "PpmiJob", "PpmiTask", "SolveConfig"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SolveConfig:
    """How the vectors are computed."""

    threads: Annotated[int | None, Ge(1), Doc("threads that count; none: one for each processor core")] = None
    seed: Annotated[int, Ge(0), Doc("decides every random draw")] = 1

    @property
    def worker_count(self) -> int:
        """The number of threads used."""
        return self.threads or available_cores()


class _CountsTask(Task):
    """What both systems have in common: the counts."""

    source = Counts()
    inherited = ("text", "counts", "model")
    verbs = ("nearest", "analogy", "similarity", "embed")

    def load_base(self, folder: Path) -> Any:  # noqa: ANN401
        """Refuses, as new text cannot be added to factorised counts.

        Raises:
            SettingError: always.
        """
        raise SettingError(
            f"{folder.parent}: vectors made from co-occurrence counts cannot be continued with new text, as the counts "
            "of both texts belong together; train anew on both, or continue a word2vec run"
        )


class _CountsJob(Job):
    """A training on counts."""

    def __init__(self, recipe: Recipe, counts: Cooccurrences) -> None:
        super().__init__(recipe)
        self.config: Any = recipe.sections["model"]
        self.train_config: Any = recipe.sections["train"]
        self._counts = counts

    def facts(self) -> dict[str, Any]:
        """The sizes of corpus, vocabulary and counts."""
        stats, size = self._counts.facts["stats"], len(self._counts.vocab)
        sizes = f"{stats['tokens']:,} tokens, {stats['types']:,} types, vocabulary {size:,}"
        return {
            "sizes": f"{sizes}, {self._counts.non_zeros:,} counts",
            "tokens": stats["tokens"],
            "vocabulary": size,
            "threads": self.train_config.worker_count,
            "stats": stats,
        }

    def _summary(self, loss: float, seconds: float, words: int) -> dict[str, Any]:
        return {
            "words_per_second": words / seconds if seconds else 0.0,
            "loss": None if math.isnan(loss) else loss,
            "objective": self.config.objective,
            "seconds": seconds,
            "counting_seconds": self._counts.facts["counting"]["seconds"],
            "non_zeros": self._counts.non_zeros,
            "vocabulary": len(self._counts.vocab),
            "words": words,
            "threads": self.train_config.worker_count,
        }

    @property
    def _words(self) -> int:
        """Words of the text that were counted."""
        return int(self._counts.facts["counting"]["words"])


class GloveTask(_CountsTask):
    """GloVe on co-occurrence counts."""

    sections: Mapping[str, type] = {
        "text": TextConfig,
        "vocab": VocabConfig,
        "counts": CountsConfig,
        "model": GloVeConfig,
        "train": FactoriseConfig,
    }

    def load(self, folder: Path) -> GloVeVectors:
        """Reads the vectors of a finished model."""
        return GloVe.load_vectors(folder)

    def begin(
        self, recipe: Recipe, counts: Cooccurrences, base: None = None, strategy: Strategy = SINGLE
    ) -> "GloveJob":
        """Starts a training."""
        _warm_up()
        model = GloVe(recipe.sections["model"], counts.vocab)
        model.initialise(recipe.sections["train"].seed)
        return GloveJob(recipe, counts, model)

    def restore(
        self,
        recipe: Recipe,
        counts: Cooccurrences,
        checkpoint: Path,
        noted: Notes,
        strategy: Strategy = SINGLE,
    ) -> "GloveJob":
        """Resumes a training from the model and the AdaGrad sums of a checkpoint."""
        _warm_up()
        return GloveJob(recipe, counts, GloVe.load(checkpoint, sums=True))


class GloveJob(_CountsJob):
    """A training of GloVe.

    Attributes:
        model: The parameters, changed in place.
        totals: The progress of the training.
    """

    def __init__(self, recipe: Recipe, counts: Cooccurrences, model: GloVe) -> None:
        super().__init__(recipe, counts)
        self.model = model
        self.totals = Totals()

    def facts(self) -> dict[str, Any]:
        """The sizes of corpus, vocabulary and counts, and the effort."""
        return {**super().facts(), "epochs": self.train_config.epochs}

    def train(self, session: Session) -> None:
        """Makes the passes over the counts."""
        if session.resumed is not None:
            self.totals = Totals.of_checkpoint(*session.resumed)
        config: FactoriseConfig = self.train_config

        def report_rate(record: Record) -> None:
            if isinstance(record, StepRecord):
                record = replace(record, learning_rate=config.learning_rate)  # the rate does not fall
            session.report(record)

        run_passes(
            CountsPasses(self.model, self._counts, config, self._words),
            PassesConfig(
                epochs=config.epochs,
                threads=config.threads,
                seed=config.seed,
                checkpoint_seconds=config.checkpoint_seconds,
            ),
            learning_rate=config.learning_rate,
            totals=self.totals,
            checkpoints=session.checkpoints,
            report=report_rate,
        )
        if not all(np.isfinite(rows).all() for rows in (self.model.words, self.model.contexts)):
            raise diverged(config)

    def summary(self) -> dict[str, Any]:
        """Speed, loss and sizes."""
        totals = self.totals
        visited = self._counts.non_zeros * self.train_config.epochs
        return {
            **self._summary(totals.last_epoch_loss, totals.seconds, totals.words),
            "non_zeros_per_second": visited / totals.seconds if totals.seconds else 0.0,
            "epochs": self.train_config.epochs,
        }

    def save(self, folder: Path) -> None:
        """Writes the model."""
        self.model.save(folder)


class PpmiTask(_CountsTask):
    """PPMI + SVD on co-occurrence counts: one step, so there are no checkpoints, and resuming starts over."""

    sections: Mapping[str, type] = {
        "text": TextConfig,
        "vocab": VocabConfig,
        "counts": CountsConfig,
        "model": PpmiConfig,
        "train": SolveConfig,
    }

    def load(self, folder: Path) -> WordVectors:
        """Reads the vectors of a finished model."""
        return PpmiSvd.load(folder).vectors()

    def begin(self, recipe: Recipe, counts: Cooccurrences, base: None = None, strategy: Strategy = SINGLE) -> "PpmiJob":
        """Starts a training."""
        size = recipe.sections["model"].vector_size
        if len(counts.vocab) <= size:
            raise SettingError(
                f"vector_size={size} needs a vocabulary of more than {size} words, but it has {len(counts.vocab)}; "
                "lower vector_size or min_count"
            )
        return PpmiJob(recipe, counts)


class PpmiJob(_CountsJob):
    """A factorisation; ``model`` has the factors once :meth:`train` is done."""

    model: PpmiSvd

    def facts(self) -> dict[str, Any]:
        """The sizes of corpus, vocabulary and counts."""
        return {**super().facts(), "epochs": 1}

    def train(self, session: Session) -> None:
        """Computes associations and factorises them."""
        began = CLOCK.now()
        matrix = _csr(self._counts)
        self.model = PpmiSvd.fit(self.config, self._counts.vocab, matrix, self.train_config.seed)
        self._seconds = CLOCK.now() - began
        loss = self.model.left_out
        session.report(
            StepRecord(
                progress=1.0,
                position=1,
                epoch=1,
                loss=loss,
                learning_rate=0.0,
                words_per_second=self._words / max(1e-9, self._seconds),
                seconds=self._seconds,
                seconds_left=0.0,
            )
        )
        session.report(EpochRecord(position=1, epoch=1, loss=loss, seconds=self._seconds, words=self._words))

    def summary(self) -> dict[str, Any]:
        """Speed, loss and sizes."""
        return {**self._summary(self.model.left_out, self._seconds, self._words), "epochs": 1}

    def save(self, folder: Path) -> None:
        """Writes the model."""
        self.model.save(folder)


def _csr(counts: Cooccurrences) -> Any:  # noqa: ANN401  a scipy.sparse.csr_array
    """The whole matrix, both triangles."""
    from scipy import sparse

    size, stored = len(counts.vocab), counts.places.size
    rows, columns = (np.empty(stored, np.int32) for _ in range(2))
    done = 0
    for row, column, _ in counts.entries():
        rows[done : done + row.size], columns[done : done + row.size] = row, column
        done += row.size
    matrix = sparse.csr_array((np.asarray(counts.weights), (rows, columns)), shape=(size, size))
    if not counts.symmetric:
        return matrix
    diagonal = sparse.diags_array(matrix.diagonal(), dtype=np.float32)
    return (matrix + matrix.T - diagonal).tocsr()


def _warm_up() -> None:
    """Compiles the kernels first, so that the clock measures training alone and memory peaks once."""
    from wenmai.kernels import factorise

    factorise.warm_up()
