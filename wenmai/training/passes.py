"""The training loop of models that make passes over an encoded corpus: threads train blocks of text.

The result of a block depends on the parameters, its place and the seed, never on the thread or the time: random
streams and the learning rate are functions of the place. So the state of a training is its parameters and one number,
the *position* (blocks finished), and resuming needs no replay.
"""

import math
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Protocol, Self

from annotated_types import Ge, Gt
from typing_extensions import Doc

from wenmai.core.clock import CLOCK
from wenmai.core.errors import TrainingError
from wenmai.training.checkpoint import Checkpoints, read_state
from wenmai.training.interrupts import interrupts_set
from wenmai.training.records import EpochRecord, Record, StepRecord

__all__ = ["BlockTrainable", "PassesConfig", "Tally", "Totals", "run_passes"]

_ROUNDS = 200  # records of a training, about
_ROUND_SECONDS = 2.0  # but no longer than this between them
_SHORTEST_ROUND_SECONDS = 0.005  # nor shorter, as threads wait for one another after a round
_RATE_FLOOR = 1e-4  # the learning rate ends at this fraction of its start, as in word2vec.c


@dataclass(frozen=True, kw_only=True, slots=True)
class PassesConfig:
    """Passes over a corpus."""

    epochs: Annotated[int, Ge(1), Doc("passes over the corpus")] = 5
    learning_rate: Annotated[
        float | None, Gt(0), Doc("at the start; falls linearly to a ten-thousandth; none: the system's own")
    ] = None
    threads: Annotated[int | None, Ge(1), Doc("threads; none: one for each processor core")] = None
    deterministic: Annotated[bool, Doc("the same bytes for any number of threads, but slower; see the docs")] = False
    seed: Annotated[int, Ge(0), Doc("decides every random draw")] = 1
    checkpoint_seconds: Annotated[float, Ge(0), Doc("seconds between checkpoints, at least")] = 600.0
    old_rate: Annotated[
        float, Ge(0), Doc("continued training: updates of old input rows are multiplied by this; 0 freezes them")
    ] = 1.0

    @property
    def worker_count(self) -> int:
        """The number of threads used."""
        return self.threads or available_cores()


def available_cores() -> int:
    """Returns the number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Tally(NamedTuple):
    """What a block returns: the summed loss (float64), predictions made, words of the vocabulary read."""

    loss: float
    examples: int
    words: int


class BlockTrainable(Protocol):
    """What :func:`run_passes` trains."""

    @property
    def blocks(self) -> int:
        """Blocks in the corpus."""

    def share_before(self, block: int) -> float:
        """The fraction of the corpus before a block, 0 to 1."""

    def worker(self) -> Any:  # noqa: ANN401  each system's own scratch memory
        """Working memory for one thread."""

    def train_block(self, worker: Any, epoch: int, block: int, rate: float) -> Tally:  # noqa: ANN401
        """Trains on a block."""

    def train_in_step(self, epoch: int, first: int, rates: Sequence[float], threads: int) -> list[Tally]:
        """Trains on ``len(rates)`` blocks from ``first`` on so that the result does not depend on ``threads``."""

    def lanes(self) -> int:
        """Blocks that :meth:`train_in_step` trains at once."""

    def save(self, folder: Path) -> None:
        """Writes the model into a folder."""


@dataclass
class Totals:
    """The progress of a training, saved with every checkpoint."""

    position: Annotated[int, Ge(0)] = 0
    seconds: Annotated[float, Ge(0)] = 0.0
    words: Annotated[int, Ge(0)] = 0
    epoch_loss: float = 0.0
    epoch_examples: Annotated[int, Ge(0)] = 0
    last_epoch_loss: float = math.nan

    @classmethod
    def of_checkpoint(cls, checkpoint: Path, state: Mapping[str, Any]) -> Self:
        """Restores what :meth:`state` returned, from a checkpoint.

        Raises:
            RunError: if the checkpoint does not hold that.
        """
        loss = state.get("last_epoch_loss")
        return read_state(cls, checkpoint, {**state, "last_epoch_loss": math.nan if loss is None else loss})

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps, as JSON values."""
        return {**vars(self), "last_epoch_loss": self.loss}

    @property
    def loss(self) -> float | None:
        """The mean loss of the last epoch that predicted anything; None if none did."""
        return None if math.isnan(self.last_epoch_loss) else self.last_epoch_loss

    def metrics(self) -> dict[str, Any]:
        """Speed, loss and time, as the summary has them."""
        speed = self.words / self.seconds if self.seconds else 0.0
        return {"words_per_second": speed, "loss": self.loss, "seconds": self.seconds}


def run_passes(
    job: BlockTrainable,
    config: PassesConfig,
    *,
    learning_rate: float,
    totals: Totals,
    checkpoints: Checkpoints,
    report: Callable[[Record], None],
) -> None:
    """Trains from ``totals.position`` to the end, updating ``totals``.

    Args:
        job: The training.
        config: Epochs, threads and so on.
        learning_rate: α at the start; block by block α·max(1e-4, 1 - fraction of the words before the block).
        totals: Where to begin; holds the final metrics afterwards.
        checkpoints: Where to save every ``checkpoint_seconds``, and on an interrupt.
        report: Receives every record.

    Raises:
        TrainingError: if the loss is no longer a number.
        KeyboardInterrupt: on an interrupt, after a checkpoint was saved.
    """
    end = config.epochs * job.blocks
    threads = config.worker_count
    lanes = job.lanes() if config.deterministic else 1
    stop = threading.Event()
    seconds_before = totals.seconds
    words_before = totals.words
    shortest = max(4 * threads, math.ceil(end / _ROUNDS))  # blocks, so that threads finish a round together
    round_blocks = shortest

    def rate(position: int) -> float:
        epoch, block = divmod(position, job.blocks)
        done = (epoch + job.share_before(block)) / config.epochs
        return learning_rate * max(_RATE_FLOOR, 1.0 - done)

    def save() -> None:
        checkpoints.save(totals.position, totals.state(), job.save)

    with interrupts_set(stop), ThreadPoolExecutor(threads) as pool:
        workers = [] if config.deterministic else [job.worker() for _ in range(threads)]
        saved_at = started = CLOCK.now()
        while totals.position < end:
            epoch, block = divmod(totals.position, job.blocks)
            size = min(-(-round_blocks // lanes) * lanes, job.blocks - block)
            round_started = CLOCK.now()
            if config.deterministic:
                tallies: list[Tally] = []
                for first in range(block, block + size, lanes):
                    rates = [rate(epoch * job.blocks + b) for b in range(first, min(first + lanes, job.blocks))]
                    tallies += job.train_in_step(epoch, first, rates, threads)
                    if stop.is_set():
                        break
            else:
                tallies = _threaded(job, pool, workers, totals.position, size, rate, stop)
            now = CLOCK.now()
            totals.position += len(tallies)
            totals.seconds = seconds_before + now - started
            loss, examples = math.fsum(t.loss for t in tallies), sum(t.examples for t in tallies)
            totals.words += sum(t.words for t in tallies)
            totals.epoch_loss += loss
            totals.epoch_examples += examples
            if not math.isfinite(loss):
                raise TrainingError(
                    f"the loss is no longer a number after {totals.position / end:.1%} of the training (learning rate "
                    f"{rate(max(0, totals.position - 1)):.5g}); lower learning_rate"
                )
            speed = (totals.words - words_before) / max(1e-9, now - started)
            progress = totals.position / end
            report(
                StepRecord(
                    progress=progress,
                    position=totals.position,
                    epoch=epoch + 1,
                    loss=loss / examples if examples else None,
                    learning_rate=rate(min(totals.position, end - 1)),
                    words_per_second=speed,
                    seconds=totals.seconds,
                    seconds_left=totals.seconds / progress * (1 - progress) if progress else 0.0,
                )
            )
            if totals.position % job.blocks == 0:
                mean = totals.epoch_loss / totals.epoch_examples if totals.epoch_examples else None
                if mean is not None:  # of a very small text sub-sampling may leave nothing now and then
                    totals.last_epoch_loss = mean
                totals.epoch_loss, totals.epoch_examples = 0.0, 0
                report(
                    EpochRecord(
                        position=totals.position,
                        epoch=epoch + 1,
                        loss=mean,
                        seconds=totals.seconds,
                        words=totals.words,
                    )
                )
            if stop.is_set():
                save()
                raise KeyboardInterrupt
            if now - saved_at >= config.checkpoint_seconds and totals.position < end:
                save()
                saved_at = CLOCK.now()
            blocks_per_second = len(tallies) / max(1e-9, now - round_started)
            round_blocks = max(shortest, math.ceil(blocks_per_second * _SHORTEST_ROUND_SECONDS))
            round_blocks = max(1, min(round_blocks, int(blocks_per_second * _ROUND_SECONDS)))


def _threaded(
    job: BlockTrainable,
    pool: ThreadPoolExecutor,
    workers: list[Any],
    position: int,
    size: int,
    rate: Callable[[int], float],
    stop: threading.Event,
) -> list[Tally]:
    """Hands out ``size`` blocks in order to whichever thread is free; returns their tallies.

    On ``stop`` the blocks already handed out are finished, so that the finished blocks are always a prefix.
    """
    tallies: list[Tally | None] = [None] * size
    following = iter(range(size))
    lock = threading.Lock()

    def work(worker: Any) -> None:  # noqa: ANN401
        try:
            while True:
                with lock:
                    index = next(following, None)
                if index is None:
                    return
                epoch, block = divmod(position + index, job.blocks)
                tallies[index] = job.train_block(worker, epoch, block, rate(position + index))
                if stop.is_set():
                    return
        except BaseException:
            stop.set()  # the other threads need not go on
            raise

    for future in [pool.submit(work, worker) for worker in workers]:
        future.result()
    return [tally for tally in tallies if tally is not None]
