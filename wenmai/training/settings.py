"""The settings of the training loop, in a module of their own so that listing them needs no torch."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Lt
from typing_extensions import Doc

from wenmai.config.effects import require_usual
from wenmai.core.errors import SettingError
from wenmai.training.schedule import Schedule

__all__ = ["LoopConfig"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LoopConfig:
    """How a torch model is trained.

    Raises:
        SettingError: if a setting would have no effect.
    """

    epochs: Annotated[int, Ge(1), Doc("most passes over the data")] = 30
    steps: Annotated[int | None, Ge(1), Doc("most updates; none: as many as the epochs have")] = None
    minutes: Annotated[
        float | None,
        Gt(0),
        Doc("most minutes of training; a falling rate is zero by then; how far it gets depends on the machine"),
    ] = None
    batch_tokens: Annotated[int, Ge(1), Doc("tokens of a batch on its longer side, padding included")] = 4096
    accumulation: Annotated[int, Ge(1), Doc("batches of each process in one update")] = 1
    optimiser: Annotated[Literal["adam", "adamw", "sgd"], Doc("the optimiser")] = "adam"
    beta2: Annotated[float, Gt(0), Lt(1), Doc("of Adam: decay of the mean of squared gradients")] = 0.98
    weight_decay: Annotated[float, Ge(0), Doc("of adamw; not applied to biases and normalisation")] = 0.0
    momentum: Annotated[float, Ge(0), Lt(1), Doc("of sgd")] = 0.0
    learning_rate: Annotated[
        float | None, Gt(0), Doc("the highest rate; none: as published for such a system and size, else 0.001")
    ] = None
    schedule: Annotated[Schedule, Doc("how the rate falls after the warm-up: as 1/√step, to zero, or not")] = "noam"
    rate_floor: Annotated[
        float, Ge(0), Lt(1), Doc("linear and cosine schedules end at this fraction of the highest rate; 0.1 in GPT-3")
    ] = 0.0
    warmup: Annotated[
        int | None, Ge(0), Doc("updates in which the rate rises; none: a tenth of the training, 4000 at most")
    ] = None
    clip: Annotated[float | None, Gt(0), Doc("largest norm of a gradient; none: no limit")] = None
    evaluate_steps: Annotated[
        int | None, Ge(1), Doc("updates between evaluations on the validation data; none: an epoch")
    ] = None
    patience: Annotated[
        int | None,
        Ge(1),
        Doc("stop after this many evaluations without a better result on the validation data; none: never"),
    ] = None
    average: Annotated[
        int, Ge(1), Doc("the model is the mean of the best snapshots on the validation data, or of the last: this many")
    ] = 1
    precision: Annotated[
        Literal["auto", "float32", "bfloat16"], Doc("of matrix products; auto: bfloat16 where the device has it")
    ] = "auto"
    device: Annotated[Literal["auto", "cpu", "cuda"], Doc("auto: a GPU if there is one")] = "auto"
    compile: Annotated[bool, Doc("compile the model with torch.compile; needs a C++ compiler on CPUs")] = False
    threads: Annotated[int | None, Ge(1), Doc("threads on the CPU; none: one for each processor core")] = None
    seed: Annotated[int, Ge(0), Lt(2**63), Doc("decides every random draw")] = 1
    checkpoint_seconds: Annotated[float, Ge(0), Doc("seconds between checkpoints, at least")] = 600.0
    tensorboard: Annotated[bool, Doc("write the curves for TensorBoard too; needs the extra tensorboard")] = False

    def __post_init__(self) -> None:
        if self.weight_decay and self.optimiser != "adamw":
            raise SettingError(
                f"weight_decay has no effect with optimiser={self.optimiser}; add weight_decay=0, or optimiser=adamw"
            )
        if self.schedule not in ("linear", "cosine"):
            require_usual(self, ("rate_floor",), f"schedule={self.schedule}", needed="schedule=cosine")
        if self.optimiser != "sgd":
            require_usual(self, ("momentum",), f"optimiser={self.optimiser}", needed="optimiser=sgd")
