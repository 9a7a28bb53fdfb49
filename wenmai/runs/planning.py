"""What a training will do: its recipe, from what is given and what the text, the system and a continued run imply."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wenmai.config.recipe import Recipe, has_setting, named_settings, settings_of, with_absolute_paths
from wenmai.core.errors import RunError, SettingError
from wenmai.core.registry import find_system
from wenmai.runs.segmentation import suited_segmentation
from wenmai.tasks.task import Opened, Task
from wenmai.training.run import RECIPE, Run
from wenmai.training.strategy import several_processes

__all__ = ["overruled", "plan", "require_same"]


def plan(
    system: str,
    corpus: Any,  # noqa: ANN401
    *,
    start: str | Path | Run | None = None,
    **settings: Any,  # noqa: ANN401
) -> tuple[Recipe, Opened]:
    """Returns what :func:`train` would do with the same arguments, and on which text; raises as it does."""
    described = find_system(system)
    task: Task = described.load()
    settings = named_settings(task.sections, settings)
    start = start.path if isinstance(start, Run) else start
    base = None if start is None else Run(os.path.abspath(start)).recipe
    implied = _giving_way(overruled(described.settings, task.implied(settings, base)), settings, task)
    chosen = {**_without(implied, settings), **settings}
    if base is not None:
        start = Path(os.path.abspath(str(start)))
        preset = base.system != described.name and find_system(base.system).task == described.task
        _inherit(base, described.name, task, chosen, typed=settings, meant=chosen if preset else settings)
    opened = task.source.open(corpus)
    hints = {name: value for name, value in opened.hints.items() if has_setting(task.sections, name)}
    chosen |= _without(_giving_way(hints, settings, task), chosen)
    chosen = with_absolute_paths(task.sections, chosen)
    recipe = Recipe.build(
        system, task.sections, chosen, corpus=opened.names, start=None if start is None else str(start)
    )
    task.check(recipe)
    if "-" in opened.names and several_processes():  # which share what they read
        return recipe, opened
    decided = {name.rpartition(".")[2] for name in chosen if name in settings or name not in implied}
    if start is not None:
        decided = {name.rpartition(".")[2] for name in settings}  # the others are the run's
    suited, notes = suited_segmentation(task, recipe, opened, decided, continued=start is not None)
    if suited:
        recipe = Recipe.build(system, task.sections, overruled(chosen, suited), corpus=opened.names)
    return recipe, opened._replace(notes=notes)


def require_same(path: Path, wanted: Recipe) -> None:
    """Makes sure that a run is the one that is wanted, if there is one at a path.

    Raises:
        RunError: if it is of another system, or was trained on another corpus, from another run or with other settings.
    """
    if not (path / RECIPE).exists():
        return
    found = Run(path).recipe
    if found.system != wanted.system:
        raise RunError(f"{path}: is a run of {found.system}; choose another --out for a run of {wanted.system}")
    if found.corpus != wanted.corpus:
        raise RunError(f"{path}: was trained on {', '.join(found.corpus)}; choose another --out for another corpus")
    if found.start is None and wanted.start is not None:
        raise RunError(f"{path}: was trained from no other run; choose another --out to start from one")
    if found.start != wanted.start:
        raise RunError(f"{path}: was trained from {found.start}; choose another --out for another start")
    before, now = found.flat_settings(), wanted.flat_settings()
    if other := [f"{name}={before.get(name)}" for name in now if before.get(name) != now[name]]:
        raise RunError(f"{path}: was trained with {', '.join(other)}; choose another --out for other settings")


def overruled(settings: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings with those replaced that ``chosen`` names; each is named with its section or without."""
    return {**_without(settings, chosen), **chosen}


def _inherit(
    base: Recipe,
    system: str,
    task: Task,
    chosen: dict[str, Any],
    *,
    typed: Mapping[str, Any],
    meant: Mapping[str, Any],
) -> None:
    """Takes the settings that make the model from the continued run, unless they are meant; a tokenizer's, if typed."""
    if not task.starts_from(find_system(base.system).load()):
        raise SettingError(f"a run of {base.system} cannot be continued as {system}")
    named, given = ({name.partition(".")[2] or name for name in settings} for settings in (meant, typed))
    for full, value in base.flat_settings().items():
        section, _, name = full.partition(".")
        stays = name not in (given if section == "tokenizer" else named)  # a tokenizer cannot be another
        if section in task.inherited and stays and task.added.get(full, ...) != value:
            chosen.pop(name, None)
            chosen[full] = value


def _giving_way(implied: Mapping[str, Any], given: Mapping[str, Any], task: Task) -> dict[str, Any]:
    """Returns implied settings without those of a section whose ``file`` is given: they would have no effect."""
    found = dict(implied)
    for section, kind in task.sections.items():
        names = {setting.name for setting in settings_of({section: kind})}
        named = [str(given[name]).lower() for name in ("file", f"{section}.file") if given.get(name) is not None]
        if "file" in names and any(name not in ("none", "null") for name in named):
            found = {name: value for name, value in found.items() if name.removeprefix(f"{section}.") not in names}
    return found


def _without(settings: Mapping[str, Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings that are not named."""
    plain = {name.rpartition(".")[2] for name in named}
    return {name: value for name, value in settings.items() if name.rpartition(".")[2] not in plain}
