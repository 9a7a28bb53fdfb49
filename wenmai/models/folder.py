"""What the folders of all models have: ``config.json``, and vocabularies of the sizes that it says."""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar

from wenmai.config.recipe import first_problem
from wenmai.core.errors import FormatError, SettingError
from wenmai.core.folder import read_json_object, writing_json
from wenmai.text.vocab import Vocab

__all__ = ["CONFIG", "read_config", "read_fields", "read_settings", "read_vocab", "write_config", "write_fields"]

VERSION = 1
CONFIG = "config.json"
Config = TypeVar("Config")


def write_config(folder: Path, config: Any, **facts: Any) -> None:  # noqa: ANN401  a dataclass; JSON values
    """Writes ``config.json``: the settings of a model, and what else its reader needs before the other files."""
    write_fields(folder, **asdict(config), **facts)


def write_fields(folder: Path, **fields: Any) -> None:  # noqa: ANN401  JSON values
    """Writes ``config.json`` for :func:`read_fields`."""
    writing_json(folder / CONFIG, {"version": VERSION, **fields})


def read_config(
    folder: Path, kind: type[Config], name: str, facts: Mapping[str, type | UnionType]
) -> tuple[Config, dict[str, Any]]:
    """Reads what :func:`write_config` wrote.

    Args:
        folder: The folder of the model.
        kind: The dataclass of the settings.
        name: Name of the model for messages.
        facts: Fields beside the settings, and their types.

    Returns:
        The settings, and the facts.

    Raises:
        FormatError: if the file is missing, damaged, or of another model.
    """
    path, found = folder / CONFIG, read_fields(folder)
    given = {fact: found.pop(fact, None) for fact in facts}
    for fact, kinds in facts.items():
        if not isinstance(given[fact], kinds) or (isinstance(given[fact], bool) and kinds is not bool):
            raise FormatError(f"{path}: {fact!r} is {given[fact]!r}, which is not what a {name} model has there")
    return read_settings(path, kind, found, name), given


def read_settings(path: Path, kind: type[Config], found: Any, name: str) -> Config:  # noqa: ANN401  a JSON value
    """Makes settings of what a file says.

    Args:
        path: The file.
        kind: The dataclass of the settings.
        found: Their values in the file.
        name: Name of the model for messages.

    Raises:
        FormatError: for an unknown setting, or an invalid value.
    """
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    if isinstance(found, dict) and (unknown := sorted(set(found) - known)):
        raise FormatError(f"{path}: the setting {unknown[0]!r} is none of {name}'s")
    try:
        return checked(kind, found)
    except SettingError as error:
        raise FormatError(f"{path}: is not a {name} configuration: {error}") from None


def checked(kind: type[Config], content: object) -> Config:
    """Returns what a file says as a dataclass, or as a list of something.

    Args:
        kind: What is expected.
        content: JSON values.

    Raises:
        SettingError: if they are something else; one line says where.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_json(json.dumps(content), strict=True)
    except ValidationError as error:
        first = first_problem(error)
        where = "".join(f"{part}: " for part in first["loc"])
        raise SettingError(f"{where}{first['msg'][:1].lower()}{first['msg'][1:]}") from None


def read_fields(folder: Path, *, kind: str | None = None) -> dict[str, Any]:
    """Returns the fields of ``config.json`` unchecked, but for its version and its kind.

    Args:
        folder: That of a model.
        kind: The kind of model that it has to be; None: any.

    Raises:
        FormatError: if the file is missing, damaged, or of another kind of model.
    """
    path = folder / CONFIG
    found = read_json_object(path)
    if found.pop("version", None) != VERSION:
        raise FormatError(f"{path}: is not the configuration of a model, version {VERSION}")
    if kind is not None and found.get("kind") != kind:
        raise FormatError(f"{path}: is damaged or of another kind of model: {found.get('kind')!r} is not {kind}")
    return found


def read_vocab(path: Path, size: int | None) -> Vocab:
    """Reads a vocabulary.

    Raises:
        FormatError: if it is damaged, or its size is not that in ``config.json``.
    """
    vocab = Vocab.load(path)
    if len(vocab) != size:
        raise FormatError(f"{path}: has {len(vocab)} tokens, but {CONFIG} says {size}")
    return vocab
