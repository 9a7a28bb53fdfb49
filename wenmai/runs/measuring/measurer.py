"""How models are measured, by verb.

A *measurer* says how runs with a verb are evaluated, printed, compared and drawn. The keywords of its functions are the
options; those of the command line have the same names.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_origin

from wenmai.core.errors import RunError, SettingError
from wenmai.core.showing import Table, Tabled
from wenmai.data.sources import in_catalogue
from wenmai.runs.comparison import Comparison, Kind

__all__ = [
    "MEASURERS",
    "Evaluation",
    "Measurer",
    "Progress",
    "Turns",
    "choose_measurer",
    "title_of",
    "unwatched",
    "watched",
]

Progress = Callable[[str, int, int], None]
"""Called with what is evaluated, its number from 1, and how many there are."""

# The first verb that the options fit is measured. A task may add more, see `Task.measurers`.
MEASURERS = {
    "nearest": "wenmai.runs.measuring.vectors:VECTORS",
    "classify": "wenmai.runs.measuring.classification:CLASSIFIERS",
    "tag": "wenmai.runs.measuring.finetuned:TAGGERS",
    "answer": "wenmai.runs.measuring.finetuned:ANSWERERS",
    "choose": "wenmai.runs.measuring.finetuned:CHOOSERS",
    "extract": "wenmai.runs.measuring.relations:EXTRACTORS",
    "rate": "wenmai.runs.measuring.finetuned:RATERS",
    "score": "wenmai.runs.measuring.language:LANGUAGE_MODELS",
    "translate": "wenmai.runs.measuring.translation:TRANSLATORS",
    "convert": "wenmai.runs.measuring.conversion:CONVERTERS",
    "embed": "wenmai.runs.measuring.vectors:EMBEDDINGS",
}


@dataclass(frozen=True, kw_only=True, repr=False)
class Evaluation(Tabled, ABC):
    """The evaluation of a run; ``str()`` is what the command line prints, and ``repr()`` the same.

    Attributes:
        run: The run.
    """

    run: str

    @abstractmethod
    def as_dict(self) -> dict[str, Any]:
        """Returns plain JSON values; ``run`` is one of them."""

    @abstractmethod
    def __str__(self) -> str: ...

    def _facts(self) -> dict[str, Any]:
        return {name: value for name in ("run", "on") if (value := getattr(self, name, None)) is not None}

    def table(self) -> Table:
        """Returns the metrics as a table: by default all numbers of :meth:`as_dict`."""
        found = self.as_dict().items()
        rows = [(name, value) for name, value in found if isinstance(value, int | float)]
        return Table(["metric", "value"], rows)

    @property
    def notes(self) -> list[str]:
        """Notes on the metrics, one sentence each."""
        return []


@dataclass(frozen=True, kw_only=True)
class Measurer:
    """How models with one verb are measured.

    Attributes:
        models: The name of such models, in the plural.
        evaluate: Takes a run and options, and returns an :class:`Evaluation`; ``progress``, if it takes that, is no
            option but a :data:`Progress`.
        compare: Takes runs, the comparison that describes them, and options; returns it with the measures. Likewise.
        check: Takes the options of ``compare``, and makes sure before any work that their files are there.
        kinds: How each kind of :class:`~wenmai.runs.comparison.Measure` that ``compare`` gives is shown.
        own_tokens: Whether each model has its own tokens, so that their counts cannot be compared.
    """

    models: str
    evaluate: Callable[..., Evaluation]
    compare: Callable[..., Comparison]
    check: Callable[..., None]
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    own_tokens: bool = False

    def listed(self, use: Literal["evaluate", "compare"], options: Mapping[str, Any]) -> dict[str, Any]:
        """Returns options of a function, a single name as a list where that takes several.

        Raises:
            SettingError: if a test set that is read several times is no name, or standard input.
        """
        several = {name for name, one in _options(self, use).items() if get_origin(one.annotation) is Sequence}
        found = {
            name: [value] if name in several and isinstance(value, str | Path) else value
            for name, value in options.items()
        }
        for name in found.get("on", ()) if use == "compare" else ():
            if not isinstance(name, str | Path):
                kind = type(name).__name__
                raise SettingError(f"a comparison takes names of test sets, not {kind}; evaluate takes others too")
            if str(name) == "-":
                raise SettingError("a comparison reads its test sets once for each run; give it files, not stdin")
        return found


def unwatched(what: str, done: int, total: int) -> None:
    """The progress of an evaluation that nobody watches."""


def watched(measure: Callable[..., Any], progress: Progress) -> Callable[..., Any]:
    """Returns a function of a measurer whose progress is watched, if it takes that."""
    return partial(measure, progress=progress) if "progress" in inspect.signature(measure).parameters else measure


class Turns:
    """Reports the test sets of an evaluation, each when its turn comes.

    Args:
        progress: Where to.
        runs: How many runs are evaluated.
        sets: On how many test sets.
    """

    def __init__(self, progress: Progress, *, runs: int = 1, sets: int) -> None:
        self._progress = progress
        self._done, self._total = 0, runs * sets

    def begin(self, test_set: str | Path, system: str = "") -> None:
        """The turn of a test set."""
        self._done += 1
        self._progress(f"evaluating {system and f'{system} '}on {title_of(test_set)}", self._done, self._total)


def choose_measurer(
    systems: Mapping[str, Any], use: Literal["evaluate", "compare"], options: Mapping[str, Any]
) -> Measurer:
    """Returns the measurer for systems and options.

    Args:
        systems: The task of each system, by name.
        use: The function of the measurer that will be called.
        options: The options.

    Raises:
        RunError: if the systems share no verb that can be measured.
        SettingError: if an option is unknown or missing.
    """
    tasks = list(systems.values())
    known = {verb: where for task in tasks for verb, where in task.measurers.items()} | MEASURERS
    shared = [verb for verb in known if all(verb in task.verbs for task in tasks)]
    can = "; ".join(f"{name}: {', '.join(task.verbs)}" for name, task in systems.items())
    if not shared:
        raise RunError(f"{', '.join(systems)} share no verb that can be measured ({can})")
    found = [_imported(known[verb]) for verb in shared]
    fitting = [measurer for measurer in found if not set(options) - set(_options(measurer, use))]
    if not fitting:
        taken = _options(found[0], use)
        wrong = _spelled([name for name in options if name not in taken])
        takes = {verb for verb, where in known.items() if set(options) <= set(_options(_imported(where), use))}
        if all(takes & set(task.verbs) for task in tasks):
            raise SettingError(
                f"{wrong}: the runs are of different tasks ({can}), and can only be compared as {found[0].models}, by "
                f"{_spelled(taken)}"
            )
        raise SettingError(f"{wrong}: not for {found[0].models}, which take {_spelled(taken)}")
    for name, option in _options(fitting[0], use).items():
        given = options.get(name)  # which may be a table, that is neither equal to another thing nor not
        if option.default is option.empty and (given is None or (isinstance(given, str | list | tuple) and not given)):
            raise SettingError(f"name at least one test set: {_spelled([name])} FILE, for {fitting[0].models}")
    chosen: Measurer = fitting[0]
    return chosen


def title_of(name: str | Path, among: Iterable[str | Path] = ()) -> str:
    """Returns the title of a test set: its name in the catalogue, or that of the file.

    Args:
        name: The test set.
        among: All test sets; the title has as many folders as tell files of one name apart, and ``data:`` where a file
            has the name.
    """
    others = [Path(other).parts for other in among if not in_catalogue(other)]
    if in_catalogue(name):
        short = str(name).partition(":")[2]
        return str(name) if any(other[-1:] == (short,) for other in others) else short
    parts = Path(name).parts
    length = 1
    while length < len(parts) and any(parts[-length:] == other[-length:] and parts != other for other in others):
        length += 1
    return str(Path(*parts[-length:]))


def _options(measurer: Measurer, use: str) -> dict[str, inspect.Parameter]:
    """Returns the options; ``progress`` is none."""
    parameters = inspect.signature(getattr(measurer, use)).parameters.values()
    return {one.name: one for one in parameters if one.kind is one.KEYWORD_ONLY and one.name != "progress"}


def _spelled(names: Sequence[str] | Mapping[str, Any]) -> str:
    """Writes options as on the command line, where each of ``columns`` has its own."""
    return ", ".join("--text-column etc." if name == "columns" else f"--{name.replace('_', '-')}" for name in names)


def _imported(target: str) -> Any:  # noqa: ANN401  a Measurer
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)
