"""The architecture of a neural model, read from its folder."""

from pathlib import Path
from typing import Any, NamedTuple

from wenmai.config.recipe import Recipe
from wenmai.core.errors import FormatError, SettingError
from wenmai.core.registry import find_system
from wenmai.models.folder import CONFIG, read_fields

__all__ = ["Architecture", "architecture_of", "read_architecture"]


class Architecture(NamedTuple):
    """The contents of a neural model's ``config.json``.

    Attributes:
        model: The class of the network.
        config: Its settings.
        facts: All other fields, unchecked.
    """

    model: Any
    config: Any
    facts: dict[str, Any]


def read_architecture(folder: Path, family: type) -> Architecture:
    """Reads ``config.json`` of a model folder: ``kind`` names the system, ``model`` has the settings of its network.

    Args:
        folder: The folder.
        family: The base class of the network.

    Raises:
        FormatError: if the file is missing, damaged, or of another family of models.
    """
    path, facts = folder / CONFIG, read_fields(folder)
    found = architecture_of(path, facts.pop("kind", None), facts.pop("model", None), (family,))
    return found._replace(facts=facts)


def architecture_of(path: Path, kind: Any, settings: Any, families: tuple[type, ...]) -> Architecture:  # noqa: ANN401
    """Finds an architecture by the name of its system and its settings.

    Args:
        path: The file that says so, for messages.
        kind: The name.
        settings: Those of its network.
        families: Base classes of networks, one of which it must have.

    Raises:
        FormatError: if they are damaged, or of another family of models.
    """
    try:
        if kind is None or settings is None:
            raise ValueError("'kind' or 'model' is missing")
        model = find_system(kind).load_model()
        if not issubclass(model, families):
            raise ValueError(f"{kind!r} is another kind of model")
        config = Recipe.build(kind, {"model": model.config_class}, settings).sections["model"]
    except (KeyError, TypeError, ValueError, AttributeError, SettingError) as error:
        raise FormatError(f"{path}: is damaged or of another kind of model: {error}") from None
    return Architecture(model, config, {})
