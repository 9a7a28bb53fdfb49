"""Text classification by linear models on bags of n-grams or averages of word vectors."""

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Gt
from typing_extensions import Doc

from wenmai.config.effects import require_usual
from wenmai.config.recipe import Recipe
from wenmai.core.clock import CLOCK
from wenmai.core.errors import CorpusError, FormatError, SettingError
from wenmai.core.tensors import write_tensors
from wenmai.data.features import NGRAMS, FeaturesConfig, make_features
from wenmai.data.labelled import LabelledConfig
from wenmai.inference.linear_classifier import (
    ENCODER,
    TENSORS,
    LinearClassifierConfig,
    LinearTextClassifier,
    load_encoder,
    read_tensors,
)
from wenmai.tasks.sources.labelled import LabelledTexts, SegmentedTexts, left_out
from wenmai.tasks.task import Job, Notes, Session, Task
from wenmai.text.settings import TextConfig
from wenmai.training.passes import PassesConfig, Tally, Totals, run_passes
from wenmai.training.records import EpochRecord, EvaluationRecord, Record, StepRecord
from wenmai.training.run import MODEL, RECIPE
from wenmai.training.strategy import SINGLE, Strategy

__all__ = ["ClassifierJob", "ClassifierTask", "DescentConfig"]

_BLOCKS = 20  # of an epoch, at most: records inside it


@dataclass(frozen=True, kw_only=True, slots=True)
class DescentConfig:
    """How a linear model is trained.

    Raises:
        SettingError: if a setting would have no effect.
    """

    solver: Annotated[
        Literal["gradient", "closed"], Doc("gradient: gradient descent; closed: the normal equations of least squares")
    ] = "gradient"
    batch_size: Annotated[
        int, Ge(0), Doc("examples in a step: 1 is stochastic gradient descent, 0 the whole batch")
    ] = 32
    epochs: Annotated[int, Ge(1), Doc("passes over the examples")] = 20
    learning_rate: Annotated[
        float | None, Gt(0), Doc("at the start; falls linearly to a ten-thousandth; none: the method's own")
    ] = None
    seed: Annotated[int, Ge(0), Doc("decides the order of the examples")] = 1
    checkpoint_seconds: Annotated[float, Ge(0), Doc("seconds between checkpoints, at least")] = 600.0

    def __post_init__(self) -> None:
        if self.solver == "closed":
            steps = ("batch_size", "epochs", "learning_rate")
            require_usual(self, steps, "solver=closed", needed="solver=gradient")


class ClassifierTask(Task):
    """Linear classifiers of labelled texts."""

    source = LabelledTexts()
    sections: Mapping[str, type] = {
        "text": TextConfig,
        "data": LabelledConfig,
        "features": FeaturesConfig,
        "model": LinearClassifierConfig,
        "train": DescentConfig,
    }
    verbs = ("classify",)

    def load(self, folder: Path) -> LinearTextClassifier:
        """Reads a finished model."""
        return LinearTextClassifier.load(folder)

    def load_base(self, folder: Path) -> Any:  # noqa: ANN401
        """Refuses, as the features depend on the texts.

        Raises:
            SettingError: always.
        """
        raise SettingError("a classifier cannot be continued: its features are those of its texts; train a new one")

    def begin(
        self, recipe: Recipe, data: SegmentedTexts, base: None = None, strategy: Strategy = SINGLE
    ) -> "ClassifierJob":
        """Starts a training."""
        return ClassifierJob(recipe, data)

    def restore(
        self,
        recipe: Recipe,
        data: SegmentedTexts,
        checkpoint: Path,
        noted: Notes,
        strategy: Strategy = SINGLE,
    ) -> "ClassifierJob":
        """Resumes a training from the parameters of a checkpoint."""
        job = ClassifierJob(recipe, data)
        tensors = read_tensors(checkpoint / TENSORS)
        for name in ("weights", "bias", "state", "drag"):
            target = getattr(job.descent, name)
            if name in tensors and tensors[name].shape == target.shape:
                target[...] = tensors[name]
            elif target.size:
                raise FormatError(f"{checkpoint / TENSORS}: the tensor {name!r} does not have the shape {target.shape}")
        return job


class ClassifierJob(Job):
    """A training of a linear classifier."""

    def __init__(self, recipe: Recipe, texts: SegmentedTexts) -> None:
        from wenmai.kernels.descent import Descent, coded_targets

        super().__init__(recipe)
        self.config: LinearClassifierConfig = recipe.sections["model"]
        self.train_config: DescentConfig = recipe.sections["train"]
        self.totals = Totals()
        self._texts = texts
        method = self.config.method
        if self.train_config.solver == "closed" and method != "least-squares":
            raise SettingError(f"solver=closed needs method=least-squares; {method} is trained by gradient descent")
        self.labels = sorted(set(texts.labels))
        if len(self.labels) < 2:
            raise CorpusError(
                f"all {len(texts.labels)} texts have the label {self.labels[0]!r}; at least 2 labels are needed"
            )
        wanted: FeaturesConfig = recipe.sections["features"]
        self.encoder_folder = None if wanted.features == NGRAMS else Path(wanted.features)
        encoder = None if self.encoder_folder is None else load_encoder(self.encoder_folder)
        self.features = make_features(wanted, encoder)
        matrix = self.features.fit_transform(texts.tokens)
        number = {label: place for place, label in enumerate(self.labels)}
        objective = self.config.objective
        targets = coded_targets(objective, np.array([number[label] for label in texts.labels]), len(self.labels))
        self.descent = Descent(
            objective,
            matrix,
            targets,
            batch_size=self.train_config.batch_size or None,
            l2=self.l2,
            averaged=method == "perceptron",
            seed=self.train_config.seed,
        )
        self._words = np.array([len(tokens) for tokens in texts.tokens])
        steps = -(-len(targets) // self.descent.batch_size)
        self._block_rows = -(-steps // _BLOCKS) * self.descent.batch_size
        self.valid_metrics: dict[str, float] = {}

    @property
    def l2(self) -> float:
        """The penalty used."""
        if self.config.l2 is not None and self.config.method == "perceptron" and self.config.l2 > 0:
            raise SettingError("l2 has no effect on the averaged perceptron; leave it out")
        if self.config.l2 is not None:
            return self.config.l2
        return {"perceptron": 0.0, "least-squares": 1e-4}.get(self.config.method, 1e-6)

    @property
    def learning_rate(self) -> float:
        """The learning rate at the start."""
        if self.train_config.learning_rate is not None:
            return self.train_config.learning_rate
        if self.encoder_folder is not None:  # features have variance 1: the squared norm of a row is their number
            return {"perceptron": 1.0, "least-squares": 0.5 / self.features.size}.get(self.config.method, 0.05)
        # rows have norm 1; the mean gradient of more examples has less noise and allows longer steps
        own = min(20.0, 1.75 * math.sqrt(self.descent.batch_size))
        return {"perceptron": 1.0, "least-squares": 0.3}.get(self.config.method, own)

    # --- what a pass calls -----------------------------------------------------------------------------------

    @property
    def blocks(self) -> int:
        """Parts of an epoch."""
        return -(-len(self._words) // self._block_rows)

    def share_before(self, block: int) -> float:
        """The fraction of the examples before a block."""
        return block * self._block_rows / len(self._words)

    def worker(self) -> None:
        """Nothing: the parameters are all there is."""

    def lanes(self) -> int:
        """One thread trains."""
        return 1

    def train_block(self, worker: None, epoch: int, block: int, rate: float) -> Tally:
        """Trains on some mini-batches."""
        first = block * self._block_rows
        last = min(first + self._block_rows, len(self._words))
        sums = self.descent.train(epoch, first, last, rate)
        return Tally(float(sums.sum()), last - first, int(self._words.mean() * (last - first)))

    def train_in_step(self, epoch: int, first: int, rates: Sequence[float], threads: int) -> list[Tally]:
        """Trains on a few blocks, one after another."""
        return [self.train_block(None, epoch, first + place, rate) for place, rate in enumerate(rates)]

    # --- what a run calls ---------------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """The sizes of data and model."""
        count, size = len(self._words), self.features.size
        return {
            "sizes": f"{count:,} texts, {len(self.labels)} labels, {size:,} features",
            "tokens": int(self._words.sum()),
            "vocabulary": size,
            "epochs": self.train_config.epochs,
            "threads": 1,
            "stats": asdict(self._texts.stats),
        }

    def train(self, session: Session) -> None:
        """Trains to the end; reports the loss of every block, and the metrics on ``valid`` after each epoch."""
        if self.train_config.solver == "closed":
            self._solve(session.report)
            return
        if session.resumed is not None:
            self.totals = Totals.of_checkpoint(*session.resumed)

        def report(record: Record) -> None:
            session.report(record)
            if isinstance(record, EpochRecord) and self._texts.valid is not None:
                rate = self.learning_rate * (1 - record.epoch / self.train_config.epochs)
                session.report(self._measured(record, max(rate, 0.0)))

        config = PassesConfig(
            epochs=self.train_config.epochs, threads=1, checkpoint_seconds=self.train_config.checkpoint_seconds
        )
        run_passes(
            _Job(self),
            config,
            learning_rate=self.learning_rate,
            totals=self.totals,
            checkpoints=session.checkpoints,
            report=report,
        )

    def summary(self) -> dict[str, Any]:
        """Speed, loss, sizes, and the last metrics on ``valid``."""
        return {
            **self.totals.metrics(),
            "objective": f"{self.config.method}, {len(self.labels)} labels",
            "labels": len(self.labels),
            "features": self.features.size,
            "texts": len(self._words),
            **{f"valid_{name}": value for name, value in self.valid_metrics.items()},
        }

    def changes(self, base: Any) -> tuple[dict[str, Any], list[str]]:  # noqa: ANN401
        """Notes what was left out of the text, and how many texts have no word."""
        notes = left_out(self._texts.stats)
        if empty := int((self._words == 0).sum()):
            notes.append(f"{empty:,} of {len(self._words):,} texts have no word; the bias alone classifies them")
        return {}, notes

    def save(self, folder: Path) -> None:
        """Writes the model, and a copy of the model that provides its features."""
        if self.encoder_folder is not None:
            copy = folder / ENCODER
            copy.mkdir()
            shutil.copyfile(self.encoder_folder / RECIPE, copy / RECIPE)
            shutil.copytree(self.encoder_folder / MODEL, copy / MODEL)
        self.classifier().save(folder)

    def classifier(self) -> LinearTextClassifier:
        """Returns the model as it is now."""
        text: TextConfig = self.recipe.sections["text"]
        return LinearTextClassifier(self.labels, self.config, text, self.features, *self.descent.settle())

    def save_state(self, folder: Path) -> None:
        """Writes the state of a checkpoint."""
        kept = {name: getattr(self.descent, name) for name in ("weights", "bias", "state", "drag")}
        write_tensors(folder / TENSORS, {name: value for name, value in kept.items() if value.size})

    def _measured(self, record: EpochRecord, rate: float) -> EvaluationRecord:
        tokens, labels = self._texts.valid or ([], [])
        numbers = self.classifier().numbers(tokens)
        best = [self.labels[place] for place in numbers.argmax(axis=1)]
        right = sum(found == label for found, label in zip(best, labels, strict=True))
        self.valid_metrics = {"accuracy": right / len(labels)}
        return EvaluationRecord(
            position=record.position,
            epoch=record.epoch,
            seconds=record.seconds,
            learning_rate=rate,
            figures=self.valid_metrics,
        )

    def _solve(self, report: Callable[[Record], None]) -> None:
        """Solves the normal equations: one step."""
        started = CLOCK.now()
        loss = self.descent.solve()
        seconds = CLOCK.now() - started
        words = int(self._words.sum())
        self.totals = Totals(position=1, seconds=seconds, words=words, last_epoch_loss=loss)
        speed = words / max(seconds, 1e-9)
        shared: dict[str, Any] = {"position": 1, "epoch": 1, "loss": loss, "seconds": seconds}
        report(StepRecord(progress=1.0, learning_rate=0.0, words_per_second=speed, seconds_left=0.0, **shared))
        ended = EpochRecord(words=words, **shared)
        report(ended)
        if self._texts.valid is not None:
            report(self._measured(ended, 0.0))


class _Job:
    """A job for passes: it saves a checkpoint, not the model."""

    def __init__(self, task: ClassifierJob) -> None:
        self.blocks, self.share_before, self.worker = task.blocks, task.share_before, task.worker
        self.lanes, self.train_block, self.train_in_step = task.lanes, task.train_block, task.train_in_step
        self.save = task.save_state
