"""What all torch models in training have in common: the loop, the rate, continuing a model, the summary."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wenmai.config.recipe import Recipe
from wenmai.core.errors import SettingError
from wenmai.inference.framing import grouped, tokens_at_once
from wenmai.objectives.loss import Losses
from wenmai.tasks.task import Job, Notes, Session, Task
from wenmai.training.loop import LoopState, train_loop
from wenmai.training.schedule import LONGEST_WARMUP, noam_peak
from wenmai.training.settings import LoopConfig
from wenmai.training.strategy import SINGLE, Strategy
from wenmai.training.tensorboard import require_tensorboard

__all__ = ["NeuralJob", "NeuralModel", "NeuralTask", "require_measured", "take_over"]

Ints = npt.NDArray[np.int64]


def require_measured(recipe: Recipe, valid: Sequence[Any]) -> None:
    """Makes sure that a training that waits for better evaluations has some.

    Raises:
        SettingError: if it has nothing to evaluate on.
    """
    patience = recipe.sections["train"].patience
    if patience is not None and not valid:
        raise SettingError(f"patience={patience} has no effect without examples to evaluate on")


class NeuralModel(Protocol):
    """A network with its tokenizers, such as a translator or a language model."""

    @property
    def config(self) -> Any:  # noqa: ANN401  each architecture has its own
        """Its settings."""

    @property
    def module(self) -> nn.Module:
        """The network."""

    @property
    def device(self) -> torch.device:
        """Where the model is."""

    def save(self, folder: Path) -> None:
        """Writes the model into a folder, its parameters as ``model.safetensors``."""


class NeuralTask(Task):
    """How a torch model is trained; a subclass says how a new one is made."""

    inherited: ClassVar[tuple[str, ...]] = ("tokenizer", "model")

    def begin(
        self,
        recipe: Recipe,
        data: Any,  # noqa: ANN401
        base: Any = None,  # noqa: ANN401
        strategy: Strategy = SINGLE,
    ) -> "NeuralJob":
        """Starts a training, of a new model or of ``base``."""
        config: LoopConfig = recipe.sections["train"]
        with torch.random.fork_rng([]):  # parameters are made on the CPU
            torch.default_generator.manual_seed(config.seed)
            model = self.make(recipe, data, base)
            if base is not None:
                self.initialise(model, data, base)
        strategy.place(model.module, config.device)
        if config.tensorboard:
            require_tensorboard()
        job = self.job(recipe, data, model)
        job.share(strategy)
        return job

    def restore(
        self,
        recipe: Recipe,
        data: Any,  # noqa: ANN401
        checkpoint: Path,
        noted: Notes,
        strategy: Strategy = SINGLE,
    ) -> "NeuralJob":
        """Resumes a training from the model of a checkpoint."""
        model = self.load(checkpoint)
        strategy.place(model.module, recipe.sections["train"].device)
        job = self.job(recipe, data, model)
        job.share(strategy)
        return job

    def load_base(self, folder: Path) -> Any:  # noqa: ANN401
        """Reads a finished model."""
        return self.load(folder)

    def initialise(self, model: Any, data: Any, base: Any) -> None:  # noqa: ANN401
        """Copies all parameters of ``base`` into a new model, by name."""
        take_over(model.module, base.module, getattr(data, "grown", ()))

    @abstractmethod
    def make(self, recipe: Recipe, data: Any, base: Any) -> NeuralModel:  # noqa: ANN401
        """Makes a model with fresh parameters, of the vocabulary of ``base`` if there is one."""

    @abstractmethod
    def job(self, recipe: Recipe, data: Any, model: Any) -> "NeuralJob":  # noqa: ANN401
        """Returns a training of a model that is on its device."""


class NeuralJob(Job):
    """Training a torch model; a subclass says on which data, and what is minimised.

    Args:
        recipe: Everything that was set.
        model: The model, on its device.
    """

    objective_name: ClassVar[str]  # the name of the loss, for people
    loss_weights: Mapping[str, float] = {"loss": 1.0}  # its parts by name; see :class:`wenmai.training.loop.Trainable`
    best_by: str | None = "loss"  # chooses the best snapshot; of other metrics more is better; None: the last one

    def __init__(self, recipe: Recipe, model: NeuralModel) -> None:
        super().__init__(recipe)
        self.config: LoopConfig = recipe.sections["train"]
        self.model = model
        self.state = LoopState()
        self.strategy: Strategy = SINGLE

    def share(self, strategy: Strategy) -> None:
        """Notes which processes share the training, before it begins.

        Raises:
            SettingError: if there is not enough for all of them to do.
        """
        self.strategy = strategy

    @property
    def module(self) -> nn.Module:
        """The model."""
        return self.model.module

    @property
    def parameters(self) -> int:
        """How many parameters the model has."""
        return sum(parameter.numel() for parameter in self.module.parameters())

    @property
    def trained_parameters(self) -> int:
        """How many of them are trained by the last epoch; to be asked before or after the training."""
        last = self.config.epochs - 1
        named = self.module.named_parameters()
        return sum(one.numel() for name, one in named if one.requires_grad and self.rate_share(name, last))

    @property
    def learning_rate(self) -> float:
        """The highest rate."""
        if self.config.learning_rate is not None:
            return self.config.learning_rate
        if self.config.schedule != "noam":
            return 1e-3
        warmup = LONGEST_WARMUP if self.config.warmup is None else self.config.warmup
        return noam_peak(self.model.config.hidden_size, warmup)

    @abstractmethod
    def plan(self, epoch: int) -> Sequence[Any]:
        """The batches of an epoch."""

    def parts(self, batch: Any) -> Sequence[Any]:  # noqa: ANN401
        """A batch is read at once."""
        return (batch,)

    @abstractmethod
    def loss(self, module: nn.Module, batch: Any, step: int) -> Losses:  # noqa: ANN401  one of the plan
        """The loss of a part of a batch."""

    def rate_share(self, name: str, epoch: int) -> float:
        """The share of the learning rate that a parameter has in an epoch from 0: all of it."""
        return 1.0

    def counts(self, batch: Any) -> Mapping[str, int]:  # noqa: ANN401
        """Targets of the parts of the loss in a batch; a loss in several parts must override this."""
        raise NotImplementedError

    @abstractmethod
    def evaluate(self) -> Mapping[str, float]:
        """Metrics on the validation data."""

    def save(self, folder: Path) -> None:
        """Writes the model."""
        self.model.save(folder)

    def note(self, means: Mapping[str, float | None]) -> None:
        """Does nothing."""

    def carried(self) -> Mapping[str, Tensor]:
        """Nothing: batches are independent."""
        return {}

    def carry(self, tensors: Mapping[str, Tensor]) -> None:
        """Does nothing."""

    @property
    def tokens_at_once(self) -> int:
        """How many tokens are learned from at once: on a GPU all of a batch."""
        most, device = tokens_at_once(self.model.device), self.model.device
        return most if device.type == "cpu" else max(most, self.config.batch_tokens)

    def in_room(self, batch: Ints, widths: Ints) -> Sequence[Ints]:
        """Divides a batch into parts that have room in memory.

        Args:
            batch: (N,) the examples.
            widths: (N,) the tokens of each.
        """
        most = self.tokens_at_once
        if len(batch) * widths.max() <= most:
            return (batch,)
        return [batch[group] for group in grouped(widths, max_tokens=most)]

    def train(self, session: Session) -> None:
        """Runs the loop."""
        if session.resumed is not None:
            self.state = LoopState.of_checkpoint(*session.resumed)
        train_loop(
            self,
            self.config,
            peak_rate=self.learning_rate,
            state=self.state,
            checkpoint=None if session.resumed is None else session.resumed[0],
            checkpoints=session.checkpoints,
            report=session.report,
            strategy=session.strategy,
        )

    @property
    def effort(self) -> dict[str, Any]:
        """How long it trains, at most."""
        return {"epochs": self.config.epochs, "steps": self.config.steps}

    def summary(self) -> dict[str, Any]:
        """Speed, loss and sizes."""
        state, trained = self.state, self.trained_parameters
        return {
            "tokens_per_second": state.tokens / state.seconds if state.seconds else 0.0,
            "loss": state.last_loss,
            **({"losses": state.last_losses} if state.last_losses else {}),
            "objective": self.objective_name,
            "validation": state.metrics,
            **({} if self.best_by is None else {f"best_validation_{self.best_by}": state.best}),
            "seconds": state.seconds,
            "steps": state.step,
            "epochs": state.epoch,
            "tokens": state.tokens,
            "parameters": self.parameters,
            **({"trained_parameters": trained} if trained != self.parameters else {}),
            "threads": self.threads,
        }

    @property
    def threads(self) -> int:
        """Threads on the CPU."""
        return self.config.threads or torch.get_num_threads()


def take_over(
    module: nn.Module, base: nn.Module, grown: Sequence[Sequence[int]] = (), *, fresh: tuple[str, ...] = ()
) -> None:
    """Copies the parameters of another model.

    Args:
        module: The new model.
        base: The other, of the same sizes but for the vocabulary.
        grown: For each new token the old tokens that it is made of: its rows begin as the mean of theirs, or of all
            rows if there are none. Unused rows of the other are left out.
        fresh: How names of parameters begin that are not copied; those of the new model stay as they are.

    Raises:
        SettingError: if their sizes differ.
    """
    vocab_size = int(getattr(module, "vocab_size", 0)) - len(grown)
    unused = int(getattr(base, "vocab_size", 0)) - vocab_size if grown else 0
    old = {name: one for name, one in base.state_dict().items() if not name.startswith(fresh)}
    new = {name: one for name, one in module.state_dict().items() if not name.startswith(fresh)}
    for name in (*old, *new):
        have, want = (tuple(one[name].shape) if name in one else None for one in (old, new))
        if have == want or (have and want and (have[0] - unused + len(grown), *have[1:]) == want):
            continue
        raise SettingError(
            f"the continued model has {name} of shape {have or 'none'}, the settings ask for {want or 'none'}; "
            "leave out the settings of the model, and name the system that the continued run is of"
        )
    for name, parameter in new.items():
        rows = old[name]
        replaced = unused and unused == len(grown) and len(rows) == vocab_size + unused  # the shape stays
        if rows.shape != parameter.shape or replaced:
            rows = rows[: len(rows) - unused]
            first = vocab_size - len(rows)  # of a cluster of rare tokens, its first id
            for parts in grown:
                inside = [part - first for part in parts if 0 <= part - first < len(rows)]
                rows = torch.cat((rows, rows[inside or slice(None)].mean(0, keepdim=True)))
        parameter.copy_(rows)
