"""What can be trained, by name. Nothing is imported until a name is used.

A system is one registration. wenmai's own are in ``wenmai.systems``; another package announces each of its systems
under the entry point group ``wenmai.systems``, whose value names a :class:`System`. Both get the same.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

from wenmai.core.aliases import nearest_system
from wenmai.core.errors import SettingError, install_hint

__all__ = ["System", "announced", "announcements", "find_system", "needing_neural", "systems"]

_OWN = "wenmai.systems"  # imported by name: the table stands above what it names
_GROUP = "wenmai.systems"  # of entry points
_NEURAL = ("torch", "tokenizers", "sacrebleu")  # what the extra `neural` brings


@dataclass(frozen=True, kw_only=True)
class System:
    """Something that can be trained; several may share a task and a model and differ in settings.

    Attributes:
        name: What users type.
        summary: One line for people.
        task: ``module:Class`` of the task, which says how the model is trained.
        model: ``module:Class`` of the model.
        settings: Settings that the name implies.
        sections: Where task or model need a heavy library: ``module:NAME`` of the task's settings by section, and
        config: ``module:Class`` of those of the section ``model``, so that they can be listed without it.
    """

    name: str
    summary: str
    task: str
    model: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    sections: str | None = None
    config: str | None = None

    def load(self) -> Any:  # noqa: ANN401  a Task, of a higher layer
        """Imports task and model and returns the task; the same object for all systems that share both."""
        with needing_neural(self.name):
            return _task(self.task, self.model)

    def load_sections(self) -> Mapping[str, type]:
        """Returns the settings, a dataclass for each section, without the defaults that the name implies."""
        if self.sections is None:
            return dict(self.load().sections)
        listed: Mapping[str, type] = _imported(self.sections)
        return {**listed} if self.config is None else {**listed, "model": _imported(self.config)}

    def load_model(self) -> Any:  # noqa: ANN401  a class of a higher layer
        """Imports and returns the class of the model."""
        with needing_neural(self.name):
            return _imported(self.model)


@contextmanager
def needing_neural(what: str) -> Iterator[None]:
    """Says, where a package of the extra ``neural`` is missing, that ``what`` needs it.

    Raises:
        SettingError: if one is.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in _NEURAL:
            raise
        raise SettingError(f"{what} needs {error.name}, which is not installed; {install_hint('neural')}") from None


def systems() -> dict[str, System]:
    """Returns every known system by name, the built-in ones first; a name is taken only once."""
    known = dict(_built_in())
    for point in announcements(_GROUP):
        if point.name not in known:
            known[point.name] = announced(point, System)
    return known


def find_system(name: str) -> System:
    """Returns the system of this name.

    Raises:
        SettingError: if there is none; the message names the nearest.
    """
    if name in _built_in():  # those of other packages take time to find
        return _built_in()[name]
    for point in announcements(_GROUP):
        if point.name == name:
            found: System = announced(point, System)
            return found
    raise SettingError(f"no system is called {name!r}{nearest_system(name, systems())} (`wenmai systems` lists them)")


@cache
def _built_in() -> Mapping[str, System]:
    return {system.name: system for system in import_module(_OWN).SYSTEMS}


def announcements(group: str) -> Any:  # noqa: ANN401  importlib's EntryPoints
    """Returns the entry points of other packages in a group."""
    from importlib.metadata import entry_points

    return entry_points(group=group)


def announced(point: Any, kind: type) -> Any:  # noqa: ANN401  importlib's EntryPoint
    """Returns what another package announces.

    Args:
        point: The entry point.
        kind: What it must be, an instance or a subclass: something with a ``name``, which is that of the entry point.

    Raises:
        SettingError: if the package announces something else, or something that is not there.
    """
    what = kind.__name__.lower()
    try:
        found = point.load()
    except (ImportError, AttributeError) as error:
        raise SettingError(f"the {what} {point.name!r} of another package cannot be imported: {error}") from None
    fits = issubclass(found, kind) if isinstance(found, type) else isinstance(found, kind)
    if not fits or getattr(found, "name", None) != point.name:
        raise SettingError(
            f"the entry point {point.name!r} = {point.value!r} names {found!r:.100}; expected a "
            f"{kind.__module__}.{kind.__name__} of that name"
        )
    return found


@cache
def _task(task: str, model: str) -> Any:  # noqa: ANN401
    return _imported(task)(_imported(model))


def _imported(target: str) -> Any:  # noqa: ANN401
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)
