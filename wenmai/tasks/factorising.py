"""Passes over co-occurrence counts: which tiles make a block, and in which order."""

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt
from typing_extensions import Doc

from wenmai.core.errors import TrainingError
from wenmai.core.seeding import mixed_seed
from wenmai.data.cooccurrence import Cooccurrences
from wenmai.models.glove import GloVe
from wenmai.training.passes import Tally, available_cores

__all__ = ["CountsPasses", "FactoriseConfig", "diverged"]

_BLOCK_COUNTS = 1 << 17  # non-zero counts that a thread trains on before it reports
_FEWEST_BLOCKS = 64  # of a small corpus with that many tiles


@dataclass(frozen=True, kw_only=True, slots=True)
class FactoriseConfig:
    """Passes over counts."""

    epochs: Annotated[int, Ge(1), Doc("passes over the counts")] = 15
    learning_rate: Annotated[float, Gt(0), Doc("η of AdaGrad, the same from start to end")] = 0.05
    scale_biases: Annotated[
        bool, Doc("biases take steps of the learning rate, as vectors do; off: of 1, as GloVe's own program")
    ] = True
    gradient_clip: Annotated[float, Gt(0), Doc("each component of a gradient is clipped to ± this")] = 100.0
    threads: Annotated[int | None, Ge(1), Doc("threads; none: one for each processor core")] = None
    seed: Annotated[int, Ge(0), Doc("decides every random draw")] = 1
    checkpoint_seconds: Annotated[float, Ge(0), Doc("seconds between checkpoints, at least")] = 600.0

    @property
    def worker_count(self) -> int:
        """The number of threads used."""
        return self.threads or available_cores()


class CountsPasses:
    """The counts as blocks for :func:`wenmai.training.passes.run_passes`.

    A block is some visits of tiles, drawn anew for every epoch. Blocks have about the same number of counts, and each
    depends on seed, epoch and its number alone.

    Args:
        model: The parameters, changed in place.
        counts: The counts.
        config: The settings of the training.
        words: Words of the text that were counted; an epoch reads them once.
    """

    def __init__(self, model: GloVe, counts: Cooccurrences, config: FactoriseConfig, words: int) -> None:
        self._model = model
        self._config = config
        self._source = counts
        self._words = words
        sizes = np.diff(counts.bounds)
        tiles = np.flatnonzero(sizes)
        self._visits = np.concatenate([2 * tiles, 2 * tiles + 1]) if counts.symmetric else 2 * tiles
        self._sizes = sizes
        wanted = max(_FEWEST_BLOCKS, counts.non_zeros // _BLOCK_COUNTS)
        self._blocks = min(wanted, len(self._visits))
        self._lock = threading.Lock()
        self._drawn: tuple[int, npt.NDArray[np.int64], npt.NDArray[np.int64]] | None = None

    @property
    def blocks(self) -> int:
        """Blocks of an epoch."""
        return self._blocks

    def share_before(self, block: int) -> float:
        """The fraction of the counts before a block, about."""
        return block / self._blocks

    def worker(self) -> Any:  # noqa: ANN401  a named tuple of the kernel
        """Working memory of one thread."""
        from wenmai.kernels.factorise import Visited

        return Visited.allocate(self._counts)

    def train_block(self, worker: Any, epoch: int, block: int, rate: float) -> Tally:  # noqa: ANN401
        """Trains on some tiles; AdaGrad's rate does not fall, so ``rate`` is not used."""
        from wenmai.kernels.factorise import train_visits

        order, cuts = self._order(epoch)
        seed = np.uint64(mixed_seed(self._config.seed, epoch, block))
        tally = np.zeros(2)
        visits = order[cuts[block] : cuts[block + 1]]
        model = self._model
        train_visits(
            visits, self._counts, model.words, model.contexts, model.padded, self._settings, worker, seed, tally
        )
        if not math.isfinite(tally[0]):
            raise diverged(self._config)
        words = self._words * (block + 1) // self._blocks - self._words * block // self._blocks
        return Tally(float(tally[0]), int(tally[1]), words)

    def lanes(self) -> int:
        """One: the only deterministic mode is one thread."""
        return 1

    def train_in_step(self, epoch: int, first: int, rates: Sequence[float], threads: int) -> list[Tally]:
        """Trains on blocks one after the other."""
        worker = self.worker()
        return [self.train_block(worker, epoch, first + place, rate) for place, rate in enumerate(rates)]

    def save(self, folder: Path) -> None:
        """Writes what a checkpoint needs: the model, and the sums of AdaGrad."""
        self._model.save(folder)
        self._model.save_sums(folder)

    def _order(self, epoch: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The visits of an epoch in order, and where its blocks begin, and the end."""
        with self._lock:
            if self._drawn is None or self._drawn[0] != epoch:
                generator = np.random.default_rng([self._config.seed, 1, epoch])
                order = generator.permutation(self._visits)
                ends = np.cumsum(self._sizes[order >> 1])
                targets = np.arange(1, self._blocks) * (ends[-1] / self._blocks)
                cuts = np.concatenate([[0], np.searchsorted(ends, targets), [len(order)]]).astype(np.int64)
                self._drawn = epoch, order, cuts
            return self._drawn[1:]

    @cached_property
    def _counts(self) -> Any:  # noqa: ANN401  a named tuple of the kernel
        from wenmai.kernels.factorise import Counts

        source = self._source
        return Counts(source.bounds, source.places, source.weights, source.tiles, source.tile)

    @cached_property
    def _settings(self) -> Any:  # noqa: ANN401  a named tuple of the kernel
        from wenmai.kernels.factorise import Settings

        config, model = self._config, self._model.config
        rate = np.float32(config.learning_rate)
        return Settings(
            rate=rate,
            x_max=np.float32(model.x_max),
            alpha=np.float32(model.alpha),
            clip=np.float32(config.gradient_clip),
            bias_rate=rate if config.scale_biases else np.float32(1),
        )


def diverged(config: FactoriseConfig) -> TrainingError:
    """The error when the parameters are no longer numbers."""
    return TrainingError(
        f"the training diverges: the loss is no longer a number (learning rate {config.learning_rate:g}, gradients "
        f"clipped to ±{config.gradient_clip:g}); lower learning_rate or gradient_clip"
    )
