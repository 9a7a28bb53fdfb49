"""What a training on several tasks learns if nobody says so: by its data, its language, and the continued run."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from wenmai.config.lists import listed
from wenmai.config.recipe import Recipe
from wenmai.core.errors import SettingError
from wenmai.data.pretraining import find_task
from wenmai.data.pretraining.knowledge import MASKING_TASKS
from wenmai.data.token_marks import ENTITY

__all__ = ["implied_tasks"]

_FILES = {"dialogue": "dialogue_threads", "prepared": "prepared_files", "relevance": "relevance_file"}
_WITH_UNITS = ("prepared",)  # tasks whose files say what is masked together
_WITH_FILES = ("dialogue", "prepared")  # tasks that come with their files
_ENTITIES = ("entities_list", "entities_run", "entities_inline")
_SOURCES = {*_ENTITIES, *_FILES.values()}


def implied_tasks(
    given: Mapping[str, Any],
    base: Recipe | None,
    usual: Callable[..., list[str]],
    *,
    same: bool,
    alternates: bool,
) -> dict[str, Any]:
    """Returns the settings that others imply, as ``section.name``.

    Args:
        given: What the user sets, as ``section.name`` or ``name``, unchecked.
        base: The recipe of the run that is continued; language, entities and files are those of it.
        usual: Gives the tasks of a system, of the settings and whether there are ``entities``.
        same: Whether the tasks are those of ``base`` too.
        alternates: Whether dialogues alternate with the other tasks.

    Raises:
        SettingError: if no task has a name that is given, or ``masking`` is given but would have no effect.
    """
    plain = {name.rpartition(".")[2]: value for name, value in given.items()}
    plain |= {name: None for name in _SOURCES & plain.keys() if str(plain[name]).lower() in ("none", "null", "false")}
    before: dict[str, Any] = {} if base is None or "stages" not in base.sections else base.flat_settings()
    sources: Mapping[str, Any] = plain if set(_ENTITIES) & set(plain) else _of_tasks(before)
    entities = {name: value for name in _ENTITIES if (value := sources.get(name))}
    language = plain.get("language", before.get("tasks.language"))
    found: dict[str, Any] = {} if language is None else {"tasks.language": language}
    if "tasks" in plain:
        tasks = list(listed(plain["tasks"]) or ())
    else:
        of_files = [name for name in _WITH_FILES if plain.get(_FILES[name])]
        tasks = list(before.get("stages.tasks", ())) if same else []
        if not tasks or (entities and not _has_entities(tasks)):
            tasks = usual({**plain, "language": language}, entities=bool(entities))
        tasks = list(dict.fromkeys([*tasks, *of_files]))
        found["stages.tasks"] = tasks
    if any(find_task(name).level == "sequence" for name in tasks):
        found["model.pooler"] = "tanh"
    if _has_entities(tasks):
        found |= {f"tasks.{name}": value for name, value in entities.items()}
    for task, file in _FILES.items():
        if task in tasks and (value := before.get(f"tasks.{file}")) is not None:
            found[f"tasks.{file}"] = value
    if alternates and "dialogue" in tasks and len(tasks) > 1:
        found["stages.stages"] = "mixed"
    if tasks and set(tasks) <= {*MASKING_TASKS, *_WITH_UNITS}:
        _require_units(plain.get("masking"), tasks)
        found["masking.masking"] = "unit"
    return found


def _of_tasks(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removeprefix("tasks."): value for name, value in settings.items() if name.startswith("tasks.")}


def _has_entities(tasks: Iterable[str]) -> bool:
    return any(find_task(name).marks & ENTITY for name in tasks)


def _require_units(masking: object, tasks: Sequence[str]) -> None:
    """Makes sure that a policy that is given has an effect: tasks of masking have units of their own."""
    if masking in ("token", "whole-word", "span"):
        raise SettingError(
            f"masking={masking} has no effect on the tasks {', '.join(tasks)}, which say what is masked together; "
            "leave it out, or set masking=unit or masking=released"
        )
