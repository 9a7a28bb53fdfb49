"""What every system provides to ``wenmai.runs``, so that all are trained by the same code.

A *source* reads one kind of data. A *task* says how a system is trained: its source, its settings, its job, and the
model that results. A *job* is one training.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from wenmai.config.recipe import Recipe
from wenmai.core.errors import RunError, SettingError
from wenmai.tasks.asked import Asked
from wenmai.training.checkpoint import Checkpoints
from wenmai.training.records import Record
from wenmai.training.strategy import SINGLE, Strategy

__all__ = ["Data", "Job", "Notes", "Opened", "ReadProgress", "Resumed", "Session", "Source", "Task", "noted_words"]

ReadProgress = Callable[[int, int | None], None]  # bytes read, of how many
Notes = Mapping[str, Any]  # what a training notes when it begins, as JSON values
Resumed = tuple[Path, dict[str, Any]]  # the folder of a checkpoint, and its state


def noted_words(noted: Notes) -> int:
    """Returns how many words the model had that a training continues, as ``corpus.json`` notes them.

    Raises:
        RunError: if it does not.
    """
    words = noted.get("words")
    if type(words) is not int or words < 0:
        raise RunError(f"corpus.json is damaged: expected the words of the model that is continued, not {words!r}")
    return words


class Data(Protocol):
    """What a system is trained on, read and encoded."""

    @property
    def fingerprint(self) -> str:
        """A hexadecimal hash of the data and of all settings that affect them."""

    def describe(self) -> dict[str, Any]:
        """What ``corpus.json`` holds: sources, statistics and so on, as JSON values."""


class Opened(NamedTuple):
    """Data that are not read yet.

    Attributes:
        source: What :meth:`Source.read` takes.
        hints: Settings that fit them, as ``section.name``.
        names: Their names in a recipe; empty if they are in memory.
        repeatable: Whether they can be read again.
        notes: What the user should know before they are read.
    """

    source: Any
    hints: Mapping[str, Any]
    names: tuple[str, ...]
    repeatable: bool
    notes: tuple[str, ...] = ()


class Session(NamedTuple):
    """What a training gets from its run.

    Attributes:
        checkpoints: Where to save it.
        report: Receives every record.
        resumed: The checkpoint to resume from, if any.
        strategy: The processes that train together.
        follow: Receives what is prepared before the first update, such as ``"example"``, which of how many, and these;
            see :meth:`wenmai.training.callback.Callback.evaluating`.
    """

    checkpoints: Checkpoints
    report: Callable[[Record], None]
    resumed: Resumed | None = None
    strategy: Strategy = SINGLE
    follow: Callable[[str, int, int], None] = lambda what, done, total: None


class Source(ABC):
    """Reads one kind of data."""

    @abstractmethod
    def open(self, corpus: Any) -> Opened:  # noqa: ANN401  whatever names or holds such data
        """Opens what the user named, without reading it."""

    @abstractmethod
    def read(self, recipe: Recipe, source: Any, progress: ReadProgress, base: Any) -> Data:  # noqa: ANN401
        """Reads and encodes what was opened.

        Args:
            recipe: Everything that was set.
            source: The one of :class:`Opened`.
            progress: Called with bytes read, and in all.
            base: The model that is continued, or None.
        """

    def sample(self, recipe: Recipe, source: Any) -> str:  # noqa: ANN401
        """Returns some of the text that was opened, without reading all of it; by default none."""
        return ""

    @abstractmethod
    def reopen(self, fingerprint: str) -> Data | None:
        """Opens data that were read before; None if they are gone from the cache or damaged."""


class Job(ABC):
    """One training.

    Args:
        recipe: Everything that was set.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What is shown when a training begins: ``sizes`` in words, epochs, threads, stats."""

    @abstractmethod
    def train(self, session: Session) -> None:
        """Trains to the end, from the checkpoint ``session.resumed`` if there is one."""

    @abstractmethod
    def summary(self) -> dict[str, Any]:
        """What the training ended with; at least loss, objective, seconds."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Writes the model."""

    def asked(self, count: int) -> list[list[Asked]]:
        """What the model is asked in some examples of the training, if the task is ``previewed``.

        Args:
            count: How many groups, of each kind of example if there are several.

        Returns:
            Groups of examples that ask about the same text.
        """
        return []

    def notes(self) -> dict[str, Any]:
        """What must be noted at the beginning to resume the training, as JSON values: by default nothing."""
        return {}

    def warnings(self) -> list[str]:
        """Notes for the user before it is trained: by default none."""
        return []

    def changes(self, base: Any) -> tuple[dict[str, Any], list[str]]:  # noqa: ANN401  the model that is continued
        """What to add to the summary, and notes for the user at the end: by default nothing."""
        return {}, []


class Task(ABC):
    """How a system is trained: a stateless object for all systems that share it and its model.

    Args:
        model: The class of the model.

    Attributes:
        source: Reads its data.
        sections: The settings, by section; a model with a ``config_class`` adds the section ``model``.
        inherited: Sections that a continued training takes from its base run.
        added: Parts that the network of the base run may lack, as the setting that says so, such as
            ``{"model.pooler": "none"}``; where it does, the system's own setting counts.
        verbs: What its models can do.
        measurers: ``module:NAME`` of a measurer for each verb that wenmai does not know; see ``wenmai.runs.measuring``.
        replicated: Whether several processes may train together.
        previewed: Whether its jobs say what they ask of a model.
    """

    source: Source
    sections: Mapping[str, type]
    inherited: ClassVar[tuple[str, ...]] = ()
    added: ClassVar[Mapping[str, Any]] = {}
    verbs: tuple[str, ...]
    measurers: ClassVar[Mapping[str, str]] = {}
    replicated: bool = False
    previewed: ClassVar[bool] = False

    def __init__(self, model: Any) -> None:  # noqa: ANN401  a class
        self.model = model
        if config := getattr(model, "config_class", None):
            self.sections = {
                name: config if name == "model" else section for name, section in type(self).sections.items()
            }

    def implied(self, given: Mapping[str, Any], base: Recipe | None) -> Mapping[str, Any]:
        """Returns defaults that settings or the continued run imply, as ``section.name``: by default none.

        Args:
            given: The settings of the user, as ``section.name`` or ``name``, unchecked.
            base: The recipe of the run that is continued.
        """
        return {}

    def check(self, recipe: Recipe) -> None:  # noqa: B027  of most systems all settings do
        """Makes sure that settings of several sections fit each other, before any text is read: by default they do.

        Raises:
            SettingError: if they do not.
        """

    @abstractmethod
    def load(self, folder: Path) -> Any:  # noqa: ANN401
        """Reads a finished model as the object that has the verbs."""

    @abstractmethod
    def begin(self, recipe: Recipe, data: Any, base: Any = None, strategy: Strategy = SINGLE) -> Job:  # noqa: ANN401
        """Starts a training, of a new model or of ``base``, which ``strategy`` puts on its device."""

    def restore(
        self,
        recipe: Recipe,
        data: Any,  # noqa: ANN401
        checkpoint: Path,
        noted: Notes,
        strategy: Strategy = SINGLE,
    ) -> Job:
        """Resumes a training, by default from the start.

        ``noted`` is what :meth:`Job.notes` returned when it began.
        """
        return self.begin(recipe, data, None, strategy)

    def starts_from(self, other: "Task") -> bool:
        """Whether a training may start from a run of another task; by default only from its own."""
        return other is self

    def adopt(self, imported: Any, recipe: Recipe) -> Any:  # noqa: ANN401
        """Turns an imported model into one that can be saved, with the settings of its run; most need no change."""
        return imported

    def load_base(self, folder: Path) -> Any:  # noqa: ANN401
        """Reads the whole model of a finished run, to continue it.

        Raises:
            SettingError: if models of this kind cannot be continued.
        """
        raise SettingError(f"{folder.parent}: a run of this system cannot be continued; train a new one")

    def retrain(self, recipe: Recipe, data: Any, model: Any) -> None:  # noqa: ANN401
        """Trains a changed copy of a whole model in place, for a format that needs it.

        Raises:
            SettingError: if models of this kind cannot be trained so.
        """
        raise SettingError(f"a model of {recipe.system} cannot be changed and trained again")
