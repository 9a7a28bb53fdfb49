"""Export and import of models in the formats of ``wenmai.formats``."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from wenmai.config.recipe import Recipe, settings_of
from wenmai.core.errors import RunError, SettingError, nearest_name
from wenmai.core.folder import sealed_folder, writing_json
from wenmai.core.registry import find_system
from wenmai.formats.format import Format, Imported, formats, require_free
from wenmai.runs.environment import describe_environment
from wenmai.runs.owner import claimed, require_room
from wenmai.runs.train import read_again
from wenmai.tasks.task import Task
from wenmai.training.run import ENVIRONMENT, MODEL, RECIPE, SUMMARY, Run, folder_bytes, remove

__all__ = ["FinishedRun", "adopt_run", "export_run", "import_run", "make_run"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class FinishedRun:
    """A run for formats: :class:`wenmai.formats.format.Trained`.

    Attributes:
        run: The run.
        settings: The chosen settings of the format, or None.
        told: Receives notes for the user.
    """

    run: Run
    settings: Any = None
    told: Callable[[str], None] = logger.warning

    def note(self, message: str) -> None:
        """Tells the user something about what was written."""
        self.told(message)

    @property
    def path(self) -> Path:
        """The run folder."""
        return self.run.path

    @property
    def model(self) -> Any:  # noqa: ANN401
        """The object that has the verbs."""
        return self.run.model

    @cached_property
    def whole(self) -> Any:  # noqa: ANN401
        """All parameters."""
        return self.run.read_base()

    def retrain(self, model: Any) -> None:  # noqa: ANN401
        """Trains a changed copy of the model, in place, on the text of the run.

        Raises:
            RunError: if the run came from a file, or its text is gone.
        """
        if "imported" in self.run.summary:
            raise RunError(f"{self.path}: was imported without its training text, and cannot be trained again")
        self.run.task.retrain(self.run.recipe, read_again(self.run), model)


def export_run(
    run: str | Path | Run,
    name: str,
    path: str | Path,
    /,
    *,
    on_note: Callable[[str], None] = logger.warning,
    **settings: Any,  # noqa: ANN401  checked against the format's settings
) -> Path:
    """Writes the model of a finished run in a format that other programs read.

    Args:
        run: A run or its folder.
        name: One of :func:`wenmai.formats.format.formats`.
        path: The file to write, which must be new; a folder, new or empty, for ``projector``, ``elmo``,
            ``ctranslate2`` and ``huggingface``.
            For ``fasttext`` a name that ends in ``.ftz`` asks for a quantised model.
        on_note: Receives what the file does not hold; by default it is logged.
        **settings: Settings of the format: for a ``.ftz`` file of ``fasttext`` the fields of ``QuantisationConfig`` in
            ``wenmai.formats.fasttext.quantised``.

    Raises:
        SettingError: for an unknown format or setting, or a format that has no such model or needs a package that is
            missing; or if the model cannot be quantised.
        RunError: if the run is not finished, is of a system that has nothing for this format, or the path exists or
            cannot be written.
    """
    known = formats()
    export = _named(name, "export", (one for one in known.values() if one.write))
    opened = run if isinstance(run, Run) else Run(run)
    task = opened.task
    if export.write is None or not export.takes(task.model, task.verbs):
        possible = ", ".join(one.name for one in known.values() if one.takes(task.model, task.verbs))
        if not possible:
            raise RunError(
                f"{opened.path}: is a run of {opened.recipe.system}, which cannot be exported as {name}; no format "
                "takes such a model yet"
            )
        raise RunError(
            f"{opened.path}: is a run of {opened.recipe.system}, which cannot be exported as {name}; it can as "
            f"{possible}"
        )
    target = require_free(path)
    try:
        export.write(target, FinishedRun(opened, _chosen(export, settings), on_note))
    except OSError as error:
        raise RunError(f"{target}: cannot be written ({error.strerror})") from None
    return target


def import_run(
    name: str,
    path: str | Path,
    out: str | Path,
    /,
    **settings: Any,  # noqa: ANN401  checked against the system's settings
) -> Run:
    """Makes a run of an imported model; it can do what a trained one can.

    Args:
        name: One of :func:`wenmai.formats.format.formats`.
        path: The file, of ``huggingface`` the folder.
        out: The run folder to make.
        **settings: What the file does not hold: of a classifier of ``fasttext`` how texts become words, such as
            ``segment="characters"``.

    Raises:
        SettingError: for an unknown format or setting.
        FormatError: if the file is damaged or of another format.
        RunError: if ``out`` exists already.
    """
    read = _named(name, "import", (one for one in formats().values() if one.read)).read
    assert read is not None
    folder = Path(out)
    require_room(folder)
    found = read(Path(path))
    return adopt_run(found, folder, {"imported": str(Path(path).absolute())}, settings)


def adopt_run(
    found: Imported, folder: Path, facts: Mapping[str, Any], settings: Mapping[str, Any] | None = None
) -> Run:
    """Makes a run of a model that was not trained as one.

    Args:
        found: The model.
        folder: The run folder to make.
        facts: Where it came from, for the summary; ``imported`` is one of them.
        settings: What the user chose of ``found.open``.

    Raises:
        SettingError: for a setting that is not open.
        RunError: if the folder cannot be written, or exists.
    """
    task = find_system(found.system).load()
    chosen = {**found.settings, **_missing(found, task, settings or {})}
    recipe = Recipe.build(found.system, task.sections, chosen)
    summary = {"vocabulary": found.vocabulary, **facts}
    return make_run(folder, recipe, lambda inside: task.adopt(found.model, recipe).save(inside), summary)


def make_run(folder: Path, recipe: Recipe, save: Callable[[Path], None], summary: Mapping[str, Any]) -> Run:
    """Makes a finished run of a model that is there already.

    Args:
        folder: The run folder; new, or empty.
        recipe: The settings of the run.
        save: Writes the model into the folder that it is given.
        summary: What else the summary says; JSON values.

    Raises:
        RunError: if the folder is taken, or cannot be written. Nothing is left there then.
    """
    facts = {"run": str(folder), "system": recipe.system, **summary}
    with claimed(folder):
        try:
            writing_json(folder / ENVIRONMENT, describe_environment())
            with sealed_folder(folder / MODEL) as temporary:
                save(temporary)
                writing_json(folder / SUMMARY, facts | {"size_bytes": folder_bytes(temporary)})
            recipe.write(folder / RECIPE)  # it makes the folder a run
            run = Run(folder)
            run.seal()
        except BaseException as error:
            for file in (RECIPE, ENVIRONMENT, SUMMARY, MODEL):
                remove(folder / file)
            if isinstance(error, OSError):
                raise RunError(f"{folder}: cannot be written ({error.strerror})") from None
            raise
    return run


def _missing(found: Imported, task: Task, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings that the user chose, as ``section.name``.

    Raises:
        SettingError: if one is not among those that the file does not hold.
    """
    places = {
        setting.name: f"{section}.{setting.name}"
        for section in found.open
        for setting in settings_of({section: task.sections[section]})
    }
    chosen = {}
    for given, value in settings.items():
        name = given.rpartition(".")[2]
        if name not in places or given not in (name, places[name]):
            listed = f"those that it does not hold: {', '.join(places)}" if places else "it holds them all"
            raise SettingError(f"{given!r} cannot be set for this file{nearest_name(name, places)} ({listed})")
        chosen[places[name]] = value
    return chosen


def _named(name: str, verb: str, possible: Iterable[Format]) -> Format:
    """Returns the format of this name.

    Raises:
        SettingError: if there is none; the message lists all and names the nearest.
    """
    known = {one.name: one for one in possible}
    if name not in known:
        raise SettingError(f"cannot {verb} {name!r}{nearest_name(name, known)} (formats: {', '.join(known)})")
    return known[name]


def _chosen(export: Format, settings: Mapping[str, Any]) -> Any:  # noqa: ANN401  the format's own
    """Returns the settings as an object of the format's dataclass, or None if there are none.

    Raises:
        SettingError: for a setting that the format does not have, or a value that makes no sense.
    """
    if not settings:
        return None
    sections = {"export": export.settings} if export.settings else {}
    known = [setting.name for setting in settings_of(sections)]
    for setting in settings:
        if setting not in known:
            listed = f"its settings: {', '.join(known)}" if known else "it has none"
            raise SettingError(f"{export.name} has no setting {setting!r}{nearest_name(setting, known)} ({listed})")
    return Recipe.build(export.name, sections, settings).sections["export"]
