"""A trained contextual encoder: the network, its tokenizer, and its verbs."""

from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from wenmai.core.errors import FormatError
from wenmai.core.showing import Shown
from wenmai.inference.architecture import read_architecture
from wenmai.inference.embedding_config import EmbeddingConfig
from wenmai.models.folder import CONFIG, read_settings, write_fields
from wenmai.nn.encoder import TextEncoder
from wenmai.text.tokenizer import Tokenizer
from wenmai.training.tensors import loaded_model, save_model

__all__ = ["MaskedModel", "build"]


def build(
    architecture: type[TextEncoder],
    config: Any,  # noqa: ANN401  each architecture has its own
    tokenizer: Tokenizer,
    *,
    vocab_size: int | None = None,
) -> TextEncoder:
    """Makes an encoder with fresh parameters for a tokenizer.

    Args:
        architecture: The class of the network.
        config: Its settings.
        tokenizer: The tokenizer.
        vocab_size: V, where it is more than the tokenizer's; some imported models have such rows.
    """
    size = tokenizer.vocab_size if vocab_size is None else vocab_size
    make: Any = architecture
    module: TextEncoder = make(config, vocab_size=size)
    return module


class MaskedModel(Shown):
    """Fills in masked tokens, scores texts by their pseudo-log-likelihood, and gives tokens and texts vectors.

    Args:
        module: The network.
        tokenizer: The tokenizer, with tokens for the beginning of a text, its end, and a masked token.
        embedding: How its states become vectors of texts; None: the mean of the last layer's.
    """

    def __init__(self, module: TextEncoder, tokenizer: Tokenizer, *, embedding: EmbeddingConfig | None = None) -> None:
        self.module = module
        self.tokenizer = tokenizer
        self.embedding = EmbeddingConfig() if embedding is None else embedding

    def _facts(self) -> dict[str, Any]:
        parameters = sum(parameter.numel() for parameter in self.module.parameters())
        sizes = {"parameters": parameters, "vocabulary": self.tokenizer.vocab_size}
        return {"kind": self.kind, **sizes, "heads": ", ".join(self.config.heads), "device": str(self.device)}

    @property
    def kind(self) -> str:
        """The system of the network."""
        return self.module.kind

    @property
    def config(self) -> Any:  # noqa: ANN401  each architecture has its own
        """The settings of the network."""
        return self.module.config

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return self.module.device

    @cached_property
    def frame_ids(self) -> list[int]:
        """The tokens that are not text: those around texts, padding, and the mask."""
        one = self.tokenizer
        return sorted({number for number in (one.pad_id, one.cls_id, one.sep_id, one.mask_id) if number is not None})

    # --- files --------------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Writes ``config.json``, ``model.safetensors`` and ``tokenizer.json``."""
        facts = {"vocab_size": self.module.vocab_size, "embedding": asdict(self.embedding)}
        write_fields(folder, kind=self.kind, model=asdict(self.config), **facts)
        save_model(self.module, folder)
        self.tokenizer.save(folder / "tokenizer.json")

    @classmethod
    def load(cls, folder: Path) -> "MaskedModel":
        """Reads what :meth:`save` wrote.

        Raises:
            FormatError: if a file is missing, damaged, or does not fit the others.
        """
        found = read_architecture(folder, TextEncoder)
        size = found.facts.get("vocab_size")
        tokenizer = Tokenizer.load(folder / "tokenizer.json")
        if type(size) is not int or size < tokenizer.vocab_size:
            raise FormatError(
                f"{folder / CONFIG}: is damaged: tokenizer.json has {tokenizer.vocab_size} tokens, the model {size!r}"
            )
        module = loaded_model(
            lambda: build(found.model, found.config, tokenizer, vocab_size=size), found.config, folder
        )
        settings = read_settings(folder / CONFIG, EmbeddingConfig, found.facts.get("embedding", {}), "vectors of texts")
        return cls(module, tokenizer, embedding=settings)
