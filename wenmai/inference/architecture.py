"""What all trained networks have, and how they are read from their folders."""

from pathlib import Path
from typing import Any, NamedTuple

import torch

from wenmai.config.recipe import Recipe
from wenmai.core.errors import FormatError, SettingError
from wenmai.core.registry import find_system
from wenmai.core.showing import Shown
from wenmai.models.folder import CONFIG, read_fields
from wenmai.text.tokenizer import Tokenizer

__all__ = ["Architecture", "Network", "architecture_of", "read_architecture", "read_tokenizer"]


class Network(Shown):
    """A trained network with its verbs.

    Attributes:
        module: The network.
    """

    module: Any

    def _sizes(self) -> dict[str, Any]:
        """What else is shown."""
        return {}

    def _facts(self) -> dict[str, Any]:
        parameters = sum(parameter.numel() for parameter in self.module.parameters())
        return {"kind": self.kind, "parameters": parameters, **self._sizes(), "device": str(self.device)}

    @property
    def kind(self) -> str:
        """The system of the network."""
        kind: str = self.module.kind
        return kind

    @property
    def config(self) -> Any:  # noqa: ANN401  each architecture has its own
        """The settings of the network."""
        return self.module.config

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        device: torch.device = next(self.module.parameters()).device
        return device


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


def read_tokenizer(folder: Path, found: Architecture, *, fewer: bool = False) -> Tokenizer:
    """Reads ``tokenizer.json``, which ``vocab_size`` of the model must fit.

    Args:
        folder: The folder.
        found: What its ``config.json`` says.
        fewer: Whether the model has at most the tokens of the tokenizer; otherwise it has these at least.

    Raises:
        FormatError: if the file is missing or damaged, or the sizes do not fit.
    """
    size = found.facts.get("vocab_size")
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    have = tokenizer.vocab_size
    if type(size) is not int or not (0 < size <= have if fewer else size >= have):
        raise FormatError(f"{folder / CONFIG}: is damaged: tokenizer.json has {have} tokens, the model {size!r}")
    return tokenizer
