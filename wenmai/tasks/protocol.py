"""What every system gives to ``wenmai.runs``, so that one life of a run serves all of them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from wenmai.config.recipe import Recipe
from wenmai.training.checkpoint import Checkpoints
from wenmai.training.records import Record
from wenmai.training.strategy import Strategy

__all__ = ["Data", "ReadProgress", "Task"]

ReadProgress = Callable[[int, int | None], None]  # bytes read, of how many


class Data(Protocol):
    """What a system is trained on, read and numbered."""

    @property
    def fingerprint(self) -> str:
        """Changes with any byte of the data and any setting that shapes them."""

    def describe(self) -> dict[str, Any]:
        """What ``corpus.json`` says of it: sources, statistics and so on, as JSON values."""


class Task(Protocol):
    """A system in training: the class is what the registry names, an instance is one training."""

    sections: ClassVar[dict[str, type]]
    inherited: ClassVar[tuple[str, ...]]  # sections that a continued training takes from the run it continues
    verbs: ClassVar[tuple[str, ...]]  # what its models can do in the shell
    distributed: ClassVar[bool]  # whether several processes may train together

    @classmethod
    def open(cls, corpus: Any) -> tuple[Any, dict[str, Any], tuple[str, ...]]:  # noqa: ANN401
        """Opens what the user named, without reading it: the source, settings that fit it, its names in a recipe."""

    @classmethod
    def with_absolute_paths(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """Returns settings in which files are named so that they are found from anywhere."""

    @classmethod
    def load(cls, folder: Path) -> Any:  # noqa: ANN401
        """Reads a finished model as the object that has the verbs."""

    @classmethod
    def load_model(cls, folder: Path) -> Any:  # noqa: ANN401
        """Reads the whole model of a finished run, to continue it: the ``base`` of the methods below."""

    @classmethod
    def read(cls, recipe: Recipe, source: Any, progress: ReadProgress, base: Any) -> Any:  # noqa: ANN401
        """Reads and numbers the source."""

    @classmethod
    def reopen(cls, fingerprint: str) -> Any:  # noqa: ANN401
        """Opens data that were read before; None if the cache has them no more, or damaged."""

    @classmethod
    def begin(cls, recipe: Recipe, data: Any, base: Any, strategy: Strategy) -> Self:  # noqa: ANN401
        """Starts a training, of a new model or of ``base``, which ``strategy`` puts on its device."""

    @classmethod
    def restore(
        cls,
        recipe: Recipe,
        data: Any,  # noqa: ANN401
        checkpoint: Path,
        noted: Mapping[str, Any],
        strategy: Strategy,
    ) -> Self:
        """Takes a training up again; ``noted`` is what :meth:`notes` gave when it began."""

    def notes(self) -> dict[str, Any]:
        """What must be remembered of the beginning to take the training up again, as JSON values."""

    def facts(self) -> dict[str, Any]:
        """What the shell tells when a training begins."""

    def train(
        self,
        checkpoints: Checkpoints,
        report: Callable[[Record], None],
        *,
        resumed: tuple[Path, dict[str, Any]] | None,
        strategy: Strategy,
    ) -> None:
        """Trains to the end, from the checkpoint ``resumed`` (its folder and state) if there is one."""

    def summary(self) -> dict[str, Any]:
        """What the training ended with; at least loss, objective, seconds."""

    def changes(self, base: Any) -> tuple[dict[str, Any], list[str]]:  # noqa: ANN401
        """What to add to the summary and to tell the user at the end."""

    def save(self, folder: Path) -> None:
        """Writes the model."""
