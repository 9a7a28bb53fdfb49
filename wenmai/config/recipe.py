"""Recipes: every setting of a training, written out, so that the file alone repeats the run.

Settings live in frozen dataclasses beside the code they configure, grouped in *sections* (``text``, ``vocab``,
``model``, ``train``). A user names a setting without its section where only one section has it.
"""

import json
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from wenmai.core.aliases import find_setting, nearest_setting
from wenmai.core.errors import SettingError, nearest_name
from wenmai.core.folder import writing

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

__all__ = [
    "Located",
    "Recipe",
    "Setting",
    "changed_settings",
    "first_problem",
    "has_setting",
    "is_setting",
    "named_settings",
    "parse_assignments",
    "read_recipe",
    "settings_of",
    "validated",
    "with_absolute_paths",
]

VERSION = 1
_MOST_BYTES = 1 << 20  # of a recipe; YAML takes some ten seconds for so much
_MOST_SHOWN = 100  # characters of a value in a message
_MOST_DEPTH = 64  # of brackets within brackets, for which YAML takes the square of their number
Sections = Mapping[str, type]

_FORMER: dict[str, dict[str, dict[str, bool]]] = {  # settings that are called otherwise today, with their old values
    "tokenizer.normalise": {
        "nfc": {"tokenizer.nfc": True, "tokenizer.nfkc": False},
        "nfkc": {"tokenizer.nfc": True, "tokenizer.nfkc": True},
        "none": {"tokenizer.nfc": False, "tokenizer.nfkc": False},
    },
    "tokenizer.case": {"keep": {"tokenizer.lowercase": False}, "lower": {"tokenizer.lowercase": True}},
}


@dataclass(frozen=True)
class Located:
    """Marks a setting that names files, beside its ``Doc``.

    Attributes:
        absolute: Names them so that they are found from anywhere.
    """

    absolute: Callable[[str], str]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting as ``--help`` shows it."""

    section: str
    name: str
    default: Any
    choices: tuple[str, ...]
    meaning: str


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A training, fully expanded.

    Attributes:
        system: What is trained.
        corpus: Paths of the text, absolute; empty if it came from memory.
        start: The run whose model is continued, or None.
        sections: Section name to its dataclass.
    """

    system: str
    corpus: tuple[str, ...]
    start: str | None
    sections: Mapping[str, Any]

    @classmethod
    def build(
        cls,
        system: str,
        sections: Sections,
        settings: Mapping[str, Any],
        *,
        corpus: tuple[str, ...] = (),
        start: str | None = None,
    ) -> "Recipe":
        """Validates settings against the sections of a system.

        Args:
            system: Name of the system.
            sections: Section name to dataclass type.
            settings: Setting name (``epochs`` or ``train.epochs``) to value; text is parsed by its type.
            corpus: Paths of the text.
            start: The run that is continued.

        Raises:
            SettingError: for an unknown setting (the nearest is named) or a value out of range.
        """
        chosen: dict[str, dict[str, Any]] = {section: {} for section in sections}
        for given, value in settings.items():
            section, name = _place(given, sections, system)
            chosen[section][name] = value
        built = {section: validated(kind, chosen[section]) for section, kind in sections.items()}
        return cls(system=system, corpus=corpus, start=start, sections=built)

    def as_dict(self) -> dict[str, Any]:
        """Returns the recipe as plain JSON values."""
        head = {"version": VERSION, "system": self.system, "corpus": list(self.corpus), "start": self.start}
        return head | {section: asdict(value) for section, value in self.sections.items()}

    def flat_settings(self) -> dict[str, Any]:
        """Returns ``section.name`` to value, for all settings."""
        return {
            f"{section}.{name}": value
            for section, values in self.sections.items()
            for name, value in asdict(values).items()
        }

    def write(self, path: str | Path) -> None:
        """Writes the recipe as YAML in which every setting has its meaning as a comment."""
        lines = [
            f"version: {VERSION}",
            f"system: {_flow(self.system)}",
            f"corpus: {_flow(list(self.corpus))}",
            f"start: {_flow(self.start)}",
        ]
        kinds = {section: type(value) for section, value in self.sections.items()}
        meanings = {(setting.section, setting.name): setting.meaning for setting in settings_of(kinds)}
        for section, values in self.sections.items():
            lines.append(f"{section}:")
            for name, value in asdict(values).items():
                lines.append(f"  {name}: {_flow(value)}  # {meanings[section, name]}")
        with writing(path) as file:
            file.write(("\n".join(lines) + "\n").encode(errors="backslashreplace"))  # names of files may be any bytes


def read_recipe(path: str | Path) -> dict[str, Any]:
    """Reads a recipe file: ``version``, ``system``, ``corpus``, ``start`` and sections of settings.

    Returns:
        ``{"system", "corpus", "start", "settings"}``, settings named ``section.name`` as they are called
        today; values are checked by :meth:`Recipe.build`.

    Raises:
        SettingError: if it cannot be read or is not a recipe.
    """
    import yaml

    try:
        with open(path, "rb") as file:
            text = file.read(_MOST_BYTES + 1)
        _require_plain(text, path)
        content = yaml.safe_load(text)
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text)):  # written out it may have no end
            raise SettingError(f"{path}: has something in several places, by an alias (*); write each out")
    except SettingError:
        raise
    except OSError as error:
        raise SettingError(f"{path}: cannot be read ({error.strerror})") from None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise SettingError(f"{path}: is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict) or "system" not in content:
        raise SettingError(f"{path}: is not a recipe; expected at least `version: {VERSION}` and `system: NAME`")
    if content.pop("version", None) != VERSION:
        raise SettingError(f"{path}: this wenmai reads recipes of `version: {VERSION}`")
    system, corpus, start = content.pop("system"), content.pop("corpus", []), content.pop("start", None)
    corpus = [corpus] if isinstance(corpus, str) else corpus
    if not isinstance(system, str) or not isinstance(corpus, list) or not all(isinstance(p, str) for p in corpus):
        raise SettingError(f"{path}: `system` must be a name and `corpus` a list of paths")
    if not (start is None or isinstance(start, str)):
        raise SettingError(f"{path}: `start` must be the path of a run")
    settings: dict[str, Any] = {}
    for section, values in content.items():
        if not isinstance(values, dict):
            raise SettingError(f"{path}: `{section}` must be a section with settings in it, not {values!r}")
        for name, value in values.items():
            former = _FORMER.get(f"{section}.{name}", {}).get(str(value))
            settings |= {f"{section}.{name}": value} if former is None else former
    return {"system": system, "corpus": corpus, "start": start, "settings": settings}


def _require_plain(text: bytes, path: str | Path) -> None:
    """Raises SettingError for what YAML would take too long to read."""
    if len(text) > _MOST_BYTES:
        more = "; to train on many files, name their folder or a pattern" if text.startswith(b"version:") else ""
        raise SettingError(f"{path}: is larger than a recipe can be, {_MOST_BYTES >> 20} MiB{more}")
    depth = 0
    for bracket in re.findall(rb"[\[\]{}]", text):
        depth = depth + 1 if bracket in b"[{" else max(0, depth - 1)
        if depth > _MOST_DEPTH:
            raise SettingError(f"{path}: is no recipe: it has more than {_MOST_DEPTH} brackets within brackets")


def parse_assignments(assignments: list[str]) -> dict[str, str]:
    """Turns ``["epochs=3", ...]`` into a mapping.

    Raises:
        SettingError: for an item without ``=``, or a setting given twice.
    """
    settings: dict[str, str] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name.strip():
            raise SettingError(f"--set {assignment!r}: expected name=value, for example --set epochs=3")
        plain = name.strip().rpartition(".")[2]
        if any(plain == given.rpartition(".")[2] for given in settings):
            raise SettingError(f"{plain} was given twice; give it once")
        settings[name.strip()] = value.strip()
    return settings


def settings_of(sections: Sections) -> list[Setting]:
    """Lists the settings of a system with default, choices and meaning."""
    found = []
    for section, kind in sections.items():
        hints = get_type_hints(kind, include_extras=True)
        for field in fields(kind):
            annotated = get_args(hints[field.name])
            meaning = next((note.documentation for note in annotated if hasattr(note, "documentation")), "")
            hint = annotated[0] if annotated else None
            choices = get_args(get_args(hint)[0] if get_origin(hint) is tuple else hint)
            names = tuple(choice for choice in choices if isinstance(choice, str))
            setting = Setting(section=section, name=field.name, default=field.default, choices=names, meaning=meaning)
            found.append(setting)
    return found


def has_setting(sections: Sections, name: str) -> bool:
    """Returns whether there is a setting ``section.name``."""
    section, _, plain = name.partition(".")
    return section in sections and any(field.name == plain for field in fields(sections[section]))


def is_setting(sections: Sections, name: str) -> bool:
    """Returns whether there is a setting of this name, with or without its section."""
    return has_setting(sections, name) or any(has_setting(sections, f"{section}.{name}") for section in sections)


def named_settings(sections: Sections, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings under the names that they have here; see :mod:`wenmai.core.aliases`.

    Args:
        sections: The settings there are.
        given: Settings as a user named them; names that are not found stay.

    Raises:
        SettingError: if two of the names are one setting.
    """
    names = {section: [field.name for field in fields(kind)] for section, kind in sections.items()}
    known, places = _every_name(names), Counter(chain.from_iterable(names.values()))
    found: dict[str, Any] = {}
    typed: dict[str, str] = {}
    for name, value in given.items():
        setting = find_setting(name, known) or name
        plain = setting.rpartition(".")[2]
        place = plain if places[plain] == 1 else setting  # whether its section is named or not
        if place in typed:
            raise SettingError(f"{typed[place]} and {name} are one setting; give it once")
        found[setting], typed[place] = value, name
    return found


def with_absolute_paths(sections: Sections, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings in which those that are marked :class:`Located` are found from anywhere."""
    found = dict(settings)
    for section, kind in sections.items():
        for name, hint in get_type_hints(kind, include_extras=True).items():
            for mark in get_args(hint):
                for given in (name, f"{section}.{name}") if isinstance(mark, Located) else ():
                    if isinstance(found.get(given), str | Path) and not _is_none(found[given]):
                        found[given] = mark.absolute(str(found[given]))
    return found


def changed_settings(recipe: Recipe) -> dict[str, Any]:
    """Returns the settings of a recipe that differ from the defaults, by plain name."""
    kinds = {section: type(value) for section, value in recipe.sections.items()}
    return {
        setting.name: value
        for setting in settings_of(kinds)
        if (value := getattr(recipe.sections[setting.section], setting.name)) != setting.default
    }


def _place(given: str, sections: Sections, system: str) -> tuple[str, str]:
    """Returns the section and name that a user meant by ``given``."""
    known = {section: {field.name for field in fields(kind)} for section, kind in sections.items()}
    section, dot, name = given.partition(".")
    if dot:
        if section in known and name in known[section]:
            return section, name
    else:
        places = [section for section, names in known.items() if given in names]
        if len(places) == 1:
            return places[0], given
        if places:
            raise SettingError(f"{given!r} is in several sections; write {' or '.join(f'{p}.{given}' for p in places)}")
    raise SettingError(
        f"{system} has no setting {given!r}{nearest_setting(given, _every_name(known))} "
        f"(`wenmai systems {system}` lists them)"
    )


def _every_name(known: Mapping[str, Collection[str]]) -> list[str]:
    """Returns the names of settings, without and with their sections."""
    return [name for names in known.values() for name in names] + [f"{s}.{n}" for s in known for n in known[s]]


def validated(kind: type, values: Mapping[str, Any]) -> Any:  # noqa: ANN401  an instance of `kind`
    """Returns a section of settings, text parsed by its type.

    Args:
        kind: The dataclass of the section.
        values: Setting name to value.

    Raises:
        SettingError: for a value of a wrong type, or out of range.
    """
    from pydantic import ValidationError

    hints = get_type_hints(kind)
    cleaned = {name: _typed(value, hints[name]) for name, value in values.items()}
    for name, value in cleaned.items():
        if not all(_encodable(part) for part in (value if isinstance(value, list | tuple) else [value])):
            raise SettingError(f"{name}={value!r}: has a lone surrogate, which is no character")
        if isinstance(value, bool) and {int, float} & {hints[name], *get_args(hints[name])}:
            raise SettingError(f"{name}={value}: expected a number")
    try:
        built: Any = _adapter(kind).validate_python(cleaned)
    except ValidationError as error:
        first = first_problem(error)
        name = str(first["loc"][0]) if first["loc"] else "?"
        raise SettingError(f"{name}={_shown(values.get(name))}: {_explained(first)}") from None
    for name in cleaned:
        value = getattr(built, name)
        if isinstance(value, float) and not math.isfinite(value):
            raise SettingError(f"{name}={values[name]!r}: expected a finite number")
    return built


def _shown(value: object) -> str:
    """A value as it was given, but for the end of a long one."""
    text = repr(value).replace("\n", " ")  # of a table
    return text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "…"


def _typed(value: object, hint: object) -> object:
    """Returns None for its name where a setting may be that, and text for a number where only text is expected."""
    if _is_none(value) and _may_be_none(hint):
        return None
    kinds = {hint, *get_args(hint)}
    return str(value) if type(value) is int and str in kinds and int not in kinds else value


def _encodable(value: object) -> bool:
    """Whether a value is no text, or one that the name of a file could have."""
    try:
        return not isinstance(value, str) or bool(os.fsencode(value)) or not value
    except UnicodeEncodeError:
        return False


def first_problem(error: "ValidationError") -> "ErrorDetails":
    """Returns the first thing that pydantic found wrong.

    Raises:
        SettingError: if that is an error of a dataclass itself, which says more.
    """
    first = error.errors()[0]
    own = first.get("ctx", {}).get("error")
    if isinstance(own, SettingError):
        raise own from None
    return first


@cache
def _adapter(kind: type) -> Any:  # noqa: ANN401  pydantic's TypeAdapter
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _is_none(value: Any) -> bool:  # noqa: ANN401
    return isinstance(value, str) and value.lower() in ("none", "null")


def _may_be_none(hint: Any) -> bool:  # noqa: ANN401  a type, perhaps a union
    return type(None) in get_args(hint)


def _explained(problem: Any) -> str:  # noqa: ANN401  pydantic's ErrorDetails
    """Turns an error of pydantic into a message of wenmai."""
    message = str(problem["msg"]).removeprefix("Input should be ").removeprefix("Value error, ")
    context = problem.get("ctx", {})
    if problem["type"] == "literal_error":
        choices = str(context["expected"]).replace("'", "").replace(" or ", ", ").split(", ")
        return f"expected one of {', '.join(choices)}{nearest_name(str(problem['input']), choices)}"
    return f"expected {message}"


def _flow(value: Any) -> str:  # noqa: ANN401  a YAML scalar or a list of them
    """Writes a value so that YAML reads the same value back.

    JSON is YAML, but for floats such as 1e-05 and for characters that YAML takes as line ends or refuses.
    """
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, float) and "e-" in text and "." not in text:
        return text.replace("e-", ".0e-")
    return re.sub("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]", lambda found: f"\\u{ord(found[0]):04x}", text)
