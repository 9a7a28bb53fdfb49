"""The description of a file format, and how formats are found.

A module of this package has a tuple ``FORMATS``; another package announces each of its formats under the entry point
group ``wenmai.formats``, whose value names a :class:`Format`.
"""

import pkgutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from wenmai.core.errors import RunError
from wenmai.core.registry import announced, announcements

__all__ = ["FINE_TUNED", "Format", "Imported", "Trained", "formats", "is_a", "require_free"]

FINE_TUNED = "wenmai.inference.finetuned:FineTuned"
"""What has ``published()``, one network with its head."""

_GROUP = "wenmai.formats"  # of entry points, and the package of our own


class Trained(Protocol):
    """The finished run that a format writes."""

    @property
    def path(self) -> Path:
        """The run folder, for messages."""

    @property
    def model(self) -> Any:  # noqa: ANN401  each system's own
        """The object that has the verbs: word vectors, a translator, a language model ..."""

    @property
    def whole(self) -> Any:  # noqa: ANN401
        """All parameters, as a continued training gets them; of systems that can be continued."""

    @property
    def settings(self) -> Any:  # noqa: ANN401
        """The chosen settings, an object of :attr:`Format.settings`; None: the defaults."""

    def note(self, message: str) -> None:
        """Tells the user something about what was written."""

    def retrain(self, model: Any) -> None:  # noqa: ANN401
        """Trains a changed copy of :attr:`whole`, in place, on the text of the run."""


@dataclass(frozen=True, kw_only=True)
class Imported:
    """A model from elsewhere.

    Attributes:
        system: The system whose runs have such models.
        model: The model; the task of the system turns it into one that can be saved.
        vocabulary: How many tokens it knows.
        settings: Where the model differs from the settings of the system, by ``name`` or ``section.name``.
        open: Sections of which the user may choose settings, as the file does not hold them.
    """

    system: str
    model: Any
    vocabulary: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    open: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Format:
    """Files that models are written as, read from, or both.

    Attributes:
        name: Its name for users.
        summary: One line for users.
        models: Classes of the models that are written so, ``module:Class``; their subclasses are too.
        verb: Or a verb that any model must have, whatever its class.
        write: Takes the path and the run; None for a format that is read only.
        settings: The dataclass of what one may choose in writing, or None.
        read: Takes the path; None for a format that is written only.
    """

    name: str
    summary: str
    models: tuple[str, ...] = ()
    verb: str | None = None
    write: Callable[[Path, Trained], None] | None = None
    settings: type | None = None
    read: Callable[[Path], Imported] | None = None

    def takes(self, model: type, verbs: Sequence[str]) -> bool:
        """Whether models of a class with these ``verbs`` are written so."""
        return self.write is not None and (self.verb in verbs or any(is_a(model, name) for name in self.models))


def is_a(model: type, name: str) -> bool:
    """Whether a class is the one of that name or a subclass; imports nothing, as bases are imported before."""
    module, _, attribute = name.partition(":")
    kind = getattr(sys.modules.get(module), attribute, None)
    return isinstance(kind, type) and issubclass(model, kind)


def formats() -> dict[str, Format]:
    """Returns every known format by name: ours in alphabetical order, then those of other packages.

    A name is taken only once.
    """
    known = dict(_built_in())
    for point in announcements(_GROUP):
        if point.name not in known:
            known[point.name] = announced(point, Format)
    return known


def require_free(path: str | Path) -> Path:
    """Returns the path of a file or folder that can be written without a loss.

    Raises:
        RunError: if something is there but an empty folder.
    """
    path = Path(path)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise RunError(f"{path}: exists already; choose another path to write")
    return path


@cache
def _built_in() -> Mapping[str, Format]:
    package = import_module(_GROUP)
    modules = [import_module(f"{_GROUP}.{found.name}") for found in pkgutil.iter_modules(package.__path__)]
    found = [one for module in modules for one in getattr(module, "FORMATS", ())]
    return {one.name: one for one in sorted(found, key=lambda one: one.name)}
