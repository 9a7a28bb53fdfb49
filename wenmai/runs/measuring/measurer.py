"""What is measured of models, by what they can do.

A *measurer* says of one verb how a run is evaluated, what of it is printed, and how runs are compared and drawn. What
may be chosen is what its functions take as keywords: options of the shell have the same names.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from wenmai.core.errors import RunError, SettingError
from wenmai.data.sources import in_catalogue
from wenmai.runs.comparison import Comparison, Kind

__all__ = ["MEASURERS", "Evaluation", "Measurer", "choose_measurer", "title_of"]

# The first verb that can be measured with the options given is. A task may bring more, see `Task.measurers`.
MEASURERS = {
    "nearest": "wenmai.runs.measuring.vectors:VECTORS",
    "classify": "wenmai.runs.measuring.classification:CLASSIFIERS",
    "score": "wenmai.runs.measuring.language:LANGUAGE_MODELS",
    "translate": "wenmai.runs.measuring.translation:TRANSLATORS",
    "embed": "wenmai.runs.measuring.vectors:EMBEDDINGS",
}


@dataclass(frozen=True, kw_only=True)
class Evaluation(ABC):
    """What was measured on a run; as text it is what the shell prints.

    Attributes:
        run: The run.
    """

    run: str

    @abstractmethod
    def as_dict(self) -> dict[str, Any]:
        """Returns plain JSON values; ``run`` is one of them."""

    @abstractmethod
    def __str__(self) -> str: ...

    @property
    def notes(self) -> list[str]:
        """What a reader of the metrics must know, one sentence each."""
        return []


@dataclass(frozen=True, kw_only=True)
class Measurer:
    """How models with one verb are measured.

    Attributes:
        models: What such models are called, in the plural.
        evaluate: Takes a run and options, and returns an :class:`Evaluation`.
        compare: Takes runs, the comparison that describes them, and options; returns it with what was measured.
        check: Takes the options of ``compare``, and makes sure that what they name is there before anything is trained.
        kinds: How each kind of :class:`~wenmai.runs.comparison.Measure` that ``compare`` gives is shown.
        own_tokens: Whether each model cuts text in its own way, so that counts of tokens say nothing of all.
    """

    models: str
    evaluate: Callable[..., Evaluation]
    compare: Callable[..., Comparison]
    check: Callable[..., None]
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    own_tokens: bool = False


def choose_measurer(
    systems: Mapping[str, Any], use: Literal["evaluate", "compare"], options: Mapping[str, Any]
) -> Measurer:
    """Returns what measures systems with the options given.

    Args:
        systems: The task of each system, by name.
        use: The function of the measurer that will be called.
        options: What will be chosen.

    Raises:
        RunError: if the systems have no verb in common that is measured.
        SettingError: if what measures them does not take an option, or needs one that is not given.
    """
    tasks = list(systems.values())
    known = {verb: where for task in tasks for verb, where in task.measurers.items()} | MEASURERS
    shared = [verb for verb in known if all(verb in task.verbs for task in tasks)]
    if not shared:
        can = "; ".join(f"{name}: {', '.join(task.verbs)}" for name, task in systems.items())
        raise RunError(f"{', '.join(systems)} can do nothing alike that is measured ({can})")
    found = [_imported(known[verb]) for verb in shared]
    fitting = [measurer for measurer in found if not set(options) - set(_options(measurer, use))]
    if not fitting:
        taken = _options(found[0], use)
        wrong = _spelled([name for name in options if name not in taken])
        raise SettingError(f"{wrong}: not for {found[0].models}, which take {_spelled(taken)}")
    for name, option in _options(fitting[0], use).items():
        if option.default is option.empty and options.get(name) in (None, (), []):
            raise SettingError(f"name at least one test set: {_spelled([name])} FILE, for {fitting[0].models}")
    chosen: Measurer = fitting[0]
    return chosen


def title_of(name: str | Path) -> str:
    """Returns what a test set is called in a table: a file's own name, or that of the catalogue."""
    return str(name).removeprefix("data:") if in_catalogue(name) else Path(name).name


def _options(measurer: Measurer, use: str) -> dict[str, inspect.Parameter]:
    """Returns what may be chosen; ``progress`` is no choice."""
    parameters = inspect.signature(getattr(measurer, use)).parameters.values()
    return {one.name: one for one in parameters if one.kind is one.KEYWORD_ONLY and one.name != "progress"}


def _spelled(names: Sequence[str] | Mapping[str, Any]) -> str:
    """Writes options as the shell has them."""
    return ", ".join(f"--{name.replace('_', '-')}" for name in names)


def _imported(target: str) -> Any:  # noqa: ANN401  a Measurer
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)
