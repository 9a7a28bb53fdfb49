"""The training loop of torch models: batches, gradients, updates, evaluations on the validation data, checkpoints.

Nothing random outlives a batch: its composition depends on (seed, epoch) and its dropout on (seed, epoch, place). So
the state of a training is its parameters, its optimiser, the state that a recurrent model carries from batch to batch,
and a few numbers. A resumed run equals an uninterrupted one to the bit, and resuming takes no longer late in an epoch
than early. Gradients are summed over the targets of all batches and processes of an update and divided once, so the
loss is exact by token however the batches are split. A loss in several parts divides each by its own count, which is
summed before the first batch of the update.
"""

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Protocol, Self

import torch
from annotated_types import Ge
from torch import Tensor, nn

from wenmai.core.clock import CLOCK
from wenmai.core.errors import TrainingError
from wenmai.core.folder import sealed_folder
from wenmai.core.seeding import mixed_seed
from wenmai.objectives.loss import GroupLoss, Losses, combined, part_means
from wenmai.training.checkpoint import Checkpoints, read_state, require_good
from wenmai.training.compiling import compiled
from wenmai.training.interrupts import interrupts_set
from wenmai.training.memory import keep_free_memory, release_free_memory
from wenmai.training.optimiser import Optimiser
from wenmai.training.records import EvaluationRecord, Record, UpdateRecord
from wenmai.training.run import CURVES
from wenmai.training.schedule import rate_schedule
from wenmai.training.settings import LoopConfig
from wenmai.training.strategy import Strategy
from wenmai.training.tensorboard import reporting_curves
from wenmai.training.tensors import load_carried, mean_of_models, save_carried
from wenmai.training.utilisation import flops_share

__all__ = ["LoopState", "Trainable", "train_loop"]

_RECORDS = 400  # of a training, about
_RELEASE_EVERY = 50  # updates: seldom enough to cost nothing, often enough that holes stay few
_SNAPSHOTS = "snapshots"
_CURE = "Train again into another folder with a lower learning_rate, a longer warmup, or clip=1"
_OLD_NAMES = {"looks": "evaluations", "best_look": "best_evaluation", "figures": "metrics"}
_ALMOST = 0.999  # progress of a training that has made the expected updates but not ended


class Trainable(Protocol):
    """What :func:`train_loop` trains."""

    @property
    def module(self) -> nn.Module:
        """The model, on its device."""

    @property
    def loss_weights(self) -> Mapping[str, float]:
        """The weight of each part of the loss by name; the tokens of the first part are counted."""

    def plan(self, epoch: int) -> Sequence[Any]:
        """The batches of an epoch; the same in every process and at every call."""

    def parts(self, batch: Any) -> Sequence[Any]:  # noqa: ANN401
        """What a batch of the plan is divided into, so that each has room in memory; their gradients are added."""

    def loss(self, module: nn.Module, batch: Any, step: int) -> Losses:  # noqa: ANN401  the task's own
        """The loss of a part of a batch after ``step`` updates; a loss in parts: those that the batch has, by name.

        ``module`` is the model, perhaps compiled.
        """

    def counts(self, batch: Any) -> Mapping[str, int]:  # noqa: ANN401
        """How many targets the parts of the loss will have in a batch; asked only if there are several parts."""

    @property
    def best_by(self) -> str | None:
        """The metric that says which snapshot is the best: ``loss``, or another one, the higher the better.

        None: the last parameters are taken.
        """

    def rate_share(self, name: str, epoch: int) -> float:
        """The share of the learning rate that a parameter has in an epoch from 0; 0: it is not trained."""

    def evaluate(self) -> Mapping[str, float]:
        """Metrics on the validation data, ``loss`` among them; empty if there is none.

        One that cannot be told, such as the correlation of a constant, is left out.
        """

    def save(self, folder: Path) -> None:
        """Writes the model into a folder, its parameters as ``model.safetensors``."""

    def note(self, means: Mapping[str, float | None]) -> None:
        """Called after an update with the mean of each part of its loss over the batches of all processes."""

    def carried(self) -> Mapping[str, Tensor]:
        """The state that the next batch needs, such as a memory; saved with every checkpoint.

        Called in all processes at once; what the first returns is saved.
        """

    def carry(self, tensors: Mapping[str, Tensor]) -> None:
        """Restores the state that :meth:`carried` returned when the checkpoint was written.

        Raises:
            SettingError: if it is the state of another number of processes.
        """


Count = Annotated[int, Ge(0)]


@dataclass
class LoopState:
    """The progress of a training, saved with every checkpoint.

    Attributes:
        step: Updates done.
        epoch: Epochs done.
        batch: Batches of this epoch done.
        seconds: Spent training.
        tokens: Targets of the first part of the loss so far.
        evaluations: Evaluations on the validation data so far.
        best: The metric ``best_by`` of the best evaluation, if there was any.
        best_evaluation: The evaluation that had it.
        snapshots: ``(step, metric best_by or None)`` of those kept for averaging.
        pending: Not in a record yet: sum and targets of each part of the loss, gradient norms, updates.
        last_loss: Mean loss of the last record.
        last_losses: Mean losses of its parts, if there are several.
        metrics: Metrics of the last evaluation; in the end, of the final model.
        over: Whether the training has ended.
    """

    step: Count = 0
    epoch: Count = 0
    batch: Count = 0
    seconds: float = 0.0
    tokens: Count = 0
    evaluations: Count = 0
    best: float | None = None
    best_evaluation: Count = 0
    snapshots: list[tuple[int, float | None]] = field(default_factory=list)
    pending: tuple[float, ...] = ()
    last_loss: float | None = None
    last_losses: dict[str, float | None] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    over: bool = False

    def __post_init__(self) -> None:
        self.snapshots = [(step, value) for step, value in self.snapshots]  # JSON has lists
        self.pending = (*self.pending,)

    @classmethod
    def of_checkpoint(cls, checkpoint: Path, state: Mapping[str, Any]) -> Self:
        """Reads the state of a checkpoint, which an older version may have written.

        Raises:
            RunError: if it is no state of a training.
        """
        return read_state(cls, checkpoint, {_OLD_NAMES.get(name, name): value for name, value in state.items()})


def train_loop(
    job: Trainable,
    config: LoopConfig,
    *,
    peak_rate: float,
    state: LoopState,
    checkpoint: Path | None,
    checkpoints: Checkpoints,
    report: Callable[[Record], None],
    strategy: Strategy,
) -> None:
    """Trains from ``state`` to the end; the module then holds the final (averaged) parameters.

    Args:
        job: The task.
        config: How to train.
        peak_rate: Highest learning rate.
        state: Where to begin; where it ended afterwards.
        checkpoint: The folder to resume from, whose parameters ``job.module`` already has.
        checkpoints: Where to save.
        report: Receives every record.
        strategy: The processes that train together.

    Raises:
        SettingError: if TensorBoard's curves are asked for and it is not installed.
        TrainingError: if the loss or a gradient is no longer a number, or another process has ended.
        KeyboardInterrupt: on an interrupt, after a checkpoint was saved.
    """
    module, device = job.module, next(job.module.parameters()).device
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    if device.type == "cpu":
        keep_free_memory()
    called = compiled(module) if config.compile else module
    weights, names = job.loss_weights, list(job.loss_weights)
    nothing = (0.0,) * (2 * len(names) + 1) + (0,)
    state.pending = state.pending or nothing
    optimiser = Optimiser(config, module, peak_rate=peak_rate, share=job.rate_share, epoch=state.epoch)
    if checkpoint is not None:
        optimiser.load(checkpoint)
        job.carry(load_carried(checkpoint))
    strategy.wait()  # until all have read what they need: checkpoints come and go from here on
    group_size = config.accumulation * strategy.size
    an_epoch = math.ceil(len(job.plan(0)) / group_size)  # other epochs may have a batch more or less
    steps = min(config.steps or config.epochs * an_epoch, config.epochs * an_epoch)  # expected
    record_every = max(1, steps // _RECORDS)
    rate = rate_schedule(config.schedule, peak=peak_rate, warmup=config.warmup, steps=steps, floor=config.rate_floor)
    precision = _precision(config, device)
    stop = threading.Event()
    started = CLOCK.now()
    saved_at, seconds_before, tokens_before = state.seconds, state.seconds, state.tokens

    def save() -> None:
        carried = job.carried()

        def write() -> None:
            checkpoints.save(state.step, asdict(state), lambda folder: _save(job, optimiser, carried, folder))
            _drop_snapshots(checkpoints, state)

        strategy.write(write)

    def evaluate(learning_rate: float) -> EvaluationRecord:
        module.eval()
        with torch.no_grad(), precision():
            metrics = dict(job.evaluate())
        module.train()
        state.evaluations += 1
        state.metrics = metrics
        loss = metrics.get("loss")
        if loss is not None and not math.isfinite(loss):
            raise TrainingError(_not_a_number(state, None, checkpoints, learning_rate))
        value = None if job.best_by is None else metrics.get(job.best_by)
        if value is not None and (state.best is None or _rank(job, value) < _rank(job, state.best)):
            state.best, state.best_evaluation = value, state.evaluations
        if config.average > 1 or value is not None:
            _take_snapshot(job, checkpoints, state, value, config.average, strategy)
        return EvaluationRecord(
            position=state.step,
            epoch=state.epoch + 1,
            seconds=state.seconds,
            learning_rate=learning_rate,
            figures=metrics,
        )

    # torch.manual_seed also notes, each with a formatted stack, what three kinds of devices that nobody uses would draw
    seed = torch.default_generator.manual_seed if device.type == "cpu" else torch.manual_seed
    module.train()
    batches = () if state.over else job.plan(state.epoch)
    with (
        interrupts_set(stop),
        torch.random.fork_rng([] if device.type == "cpu" else [device]),  # the caller has random numbers of its own
        optimiser,
        _reporting(config, checkpoints, report, state, strategy) as report_all,
    ):
        while not state.over:
            group = range(state.batch, min(state.batch + group_size, len(batches)))
            own = group[strategy.rank :: strategy.size]
            update = GroupLoss(weights, _counts(job, [batches[place] for place in own], strategy), device)
            for place in own:
                seed(mixed_seed(config.seed, state.epoch, place) >> 1)  # it takes 63 bits
                for part in job.parts(batches[place]):
                    with precision():
                        losses = job.loss(called, part, state.step)
                    update.backward(losses)
            gradients = optimiser.gradients()
            clock = torch.tensor((CLOCK.now() - started, stop.is_set()), dtype=torch.float64, device=device)
            strategy.all_reduce([*gradients, optimiser.needed, update.tally, clock])
            sums = update.finish(gradients)
            seconds, stopping = clock.tolist()
            norm = strategy.gradient_norm(gradients)
            spent = _spent(state, config)
            learning_rate = rate(state.step + 1, spent)
            if not (math.isfinite(norm) and all(math.isfinite(total) for total, _ in sums.values())):
                raise TrainingError(_not_a_number(state, group, checkpoints, learning_rate))
            if config.clip is not None and norm > config.clip:
                torch._foreach_mul_(gradients, config.clip / norm)
            optimiser.step(learning_rate)
            del gradients  # else they would still be there while the next update computes its own
            job.note(part_means(sums))
            state.step += 1
            if device.type == "cpu" and state.step % _RELEASE_EVERY == 0:
                release_free_memory()
            state.batch = group.stop
            state.tokens += update.tokens
            state.seconds = seconds_before + seconds / strategy.size
            fresh = (*chain.from_iterable(sums.values()), norm, 1)
            state.pending = tuple(old + new for old, new in zip(state.pending, fresh, strict=True))
            epoch_over = state.batch == len(batches)
            enough = config.steps is not None and state.step >= config.steps
            at_end = enough or (epoch_over and state.epoch + 1 == config.epochs) or _spent(state, config) >= 1
            due = state.step % record_every == 0 or int(_RECORDS * spent) < int(_RECORDS * _spent(state, config))
            if due or at_end:
                *flat, norms, updates = state.pending
                means = part_means(dict(zip(names, zip(flat[::2], flat[1::2], strict=True), strict=True)))
                state.last_loss = combined(weights, means)
                state.last_losses = means if len(names) > 1 else {}
                progress = 1.0 if at_end else _progress(state, steps, config)
                speed = (state.tokens - tokens_before) / max(1e-9, state.seconds - seconds_before)
                report_all(
                    UpdateRecord(
                        progress=progress,
                        position=state.step,
                        epoch=state.epoch + 1,
                        loss=state.last_loss,
                        losses=state.last_losses,
                        learning_rate=learning_rate,
                        gradient_norm=norms / updates,
                        tokens_per_second=speed,
                        flops_share=flops_share(module, speed / strategy.size, device, precision is not nullcontext),
                        seconds=state.seconds,
                        seconds_left=state.seconds / progress * (1 - progress),
                    )
                )
                state.pending = nothing
            if at_end or (state.step % config.evaluate_steps == 0 if config.evaluate_steps else epoch_over):
                report_all(evaluate(learning_rate))
                late = config.patience is not None and state.evaluations - state.best_evaluation >= config.patience
                state.over = at_end or (late and state.best is not None)
            if epoch_over:
                state.epoch, state.batch = state.epoch + 1, 0
                optimiser.begin(state.epoch)
                if not state.over:
                    batches = job.plan(state.epoch)
            if state.over or stopping or state.seconds - saved_at >= config.checkpoint_seconds:
                save()
                saved_at = state.seconds
            if stopping and not state.over:
                raise KeyboardInterrupt
    _finish(job, checkpoints, state, precision, strategy)


def _reporting(
    config: LoopConfig, checkpoints: Checkpoints, report: Callable[[Record], None], state: LoopState, strategy: Strategy
) -> AbstractContextManager[Callable[[Record], None]]:
    """Sends records to ``report``, and to TensorBoard's file in the run if that is asked for."""
    if not (config.tensorboard and strategy.first):
        return nullcontext(report)
    return reporting_curves(checkpoints.folder.with_name(CURVES), report, position=state.step)


def _counts(job: Trainable, batches: Sequence[Any], strategy: Strategy) -> list[int] | None:
    """How many targets each part of the loss has in the batches of all processes; None if there is only one part."""
    if len(job.loss_weights) == 1:
        return None
    total = torch.zeros(len(job.loss_weights), dtype=torch.int64)
    for counts in map(job.counts, batches):
        total += torch.tensor([counts.get(name, 0) for name in job.loss_weights])
    strategy.all_reduce([total])
    return [int(count) for count in total]


def _precision(config: LoopConfig, device: torch.device) -> Callable[[], AbstractContextManager[Any]]:
    if config.precision == "bfloat16" or (config.precision == "auto" and _has_bfloat16(device)):
        return lambda: torch.autocast(device.type, dtype=torch.bfloat16)
    return nullcontext


def _has_bfloat16(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 numbers in hardware, several times faster than float32."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def _progress(state: LoopState, steps: int, config: LoopConfig) -> float:
    return min(_ALMOST, max(state.step / steps, _spent(state, config)))


def _spent(state: LoopState, config: LoopConfig) -> float:
    """The fraction of its time that a training has spent; 0 without a time limit."""
    return 0.0 if config.minutes is None else state.seconds / (60 * config.minutes)


def _save(job: Trainable, optimiser: Optimiser, carried: Mapping[str, Tensor], folder: Path) -> None:
    job.save(folder)
    optimiser.save(folder)
    save_carried(carried, folder)


def _take_snapshot(
    job: Trainable, checkpoints: Checkpoints, state: LoopState, value: float | None, keep: int, strategy: Strategy
) -> None:
    """Saves the parameters if they are among the ``keep`` best, or the last where nothing says which are better."""
    wanted = [*state.snapshots, (state.step, value)]
    if any(known is not None for _, known in wanted):
        wanted = sorted(wanted, key=lambda item: math.inf if item[1] is None else _rank(job, item[1]))[:keep]
    state.snapshots = sorted(wanted[-keep:])

    def write() -> None:
        if any(step == state.step for step, _ in state.snapshots):
            with sealed_folder(checkpoints.folder / _SNAPSHOTS / f"step-{state.step}") as folder:
                job.save(folder)
            _drop_snapshots(checkpoints, state)

    strategy.write(write)


def _rank(job: Trainable, value: float) -> float:
    """Lower is better."""
    return value if job.best_by == "loss" else -value


def _drop_snapshots(checkpoints: Checkpoints, state: LoopState) -> None:
    """Removes the snapshots that no kept checkpoint needs."""
    needed = {step for step, _ in state.snapshots}
    for checkpoint, older in checkpoints.states():
        needed |= {step for step, _ in LoopState.of_checkpoint(checkpoint, older).snapshots}
    Checkpoints(checkpoints.folder / _SNAPSHOTS).drop(keep=needed)


def _finish(
    job: Trainable,
    checkpoints: Checkpoints,
    state: LoopState,
    precision: Callable[[], AbstractContextManager[Any]],
    strategy: Strategy,
) -> None:
    """Gives the model the mean of the snapshots, if there are any, and evaluates it if it is not the last one."""
    job.module.eval()
    if not state.snapshots or not strategy.first:
        return
    folders = [checkpoints.folder / _SNAPSHOTS / f"step-{step}" for step, _ in state.snapshots]
    for folder in folders:
        require_good(folder)
    job.module.load_state_dict(mean_of_models(folders))
    if [step for step, _ in state.snapshots] != [state.step]:
        with torch.no_grad(), precision():
            state.metrics = dict(job.evaluate())


def _not_a_number(state: LoopState, group: range | None, checkpoints: Checkpoints, rate: float) -> str:
    newest, _, _ = checkpoints.newest_good()
    saved = f"the last good checkpoint is {newest}" if newest else "no checkpoint had been saved"
    if group is None:
        where = f"after step {state.step} (epoch {state.epoch + 1}, learning rate {rate:.3g})"
        return f"the validation loss is no longer a number {where}; {saved}. {_CURE}"
    which = f"batch {group.start + 1}" if len(group) == 1 else f"batches {group.start + 1} to {group.stop}"
    return (
        f"the loss or its gradient is no longer a number at step {state.step + 1} (epoch {state.epoch + 1}, {which}, "
        f"learning rate {rate:.3g}); {saved}. {_CURE}"
    )
