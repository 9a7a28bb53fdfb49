"""The contract of contextual encoders: states of all tokens of a text, which see the whole text."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from wenmai.nn.masks import Mask

__all__ = ["TextEncoder", "apart", "predicting"]


class TextEncoder(nn.Module):
    """A network that gives each token of a text a state that depends on the whole text.

    Args:
        vocab_size: V.

    Attributes:
        kind: The name of the system that registers this class; stored in model folders.
        config_class: The dataclass of its settings.
        config: The settings.
        max_length: Most tokens that one text can have, special ones included.
        heads: What it predicts, by name.
    """

    kind: ClassVar[str]
    config_class: ClassVar[type]
    config: Any
    max_length: int
    heads: nn.ModuleDict

    def __init__(self, *, vocab_size: int) -> None:
        super().__init__()
        self.vocab_size = vocab_size

    @property
    def device(self) -> torch.device:
        """The device of its parameters."""
        return next(self.parameters()).device

    @property
    def unpads(self) -> bool:
        """Whether texts are read without their padding, so that a batch may have texts of unlike lengths."""
        return False

    def forward(
        self,
        tokens: Tensor,
        *,
        segments: Tensor | None = None,
        mask: Mask | Tensor | None = None,
        positions: Tensor | None = None,
        places: Tensor | None = None,
    ) -> Tensor:
        """Reads texts.

        Args:
            tokens: (B, T) int64, with special tokens.
            segments: (B, T) int64: of two texts of a pair; None: all tokens are of the first.
            mask: Which tokens attend to which, True = may attend: (B, 1, 1, T) real tokens, or (B, 1, T, T) of
                :func:`apart`; None: all to all.
            positions: (B, T) int64; None: 0 to T - 1.
            places: (B, K) int64, the tokens whose states are wanted; None: all.

        Returns:
            The states (B, T, M) of the last layer, or (B, K, M).

        Raises:
            ValueError: if the text is longer than ``max_length``.
        """
        raise NotImplementedError

    def hidden_states(
        self,
        tokens: Tensor,
        *,
        segments: Tensor | None = None,
        mask: Mask | Tensor | None = None,
        positions: Tensor | None = None,
    ) -> list[Tensor]:
        """Returns the states of all layers, (B, T, M) each, the first those of the embeddings."""
        raise NotImplementedError


def predicting(places: Tensor, *, shifted: bool) -> Tensor:
    """Returns the places of the states that tokens are predicted from.

    Args:
        places: Of the tokens, none of them the first.
        shifted: Whether a token is predicted from the state of the token before it, as in Charpentier, Samuel, "GPT or
            BERT: why not both?", CoNLL BabyLM 2024, https://aclanthology.org/2024.conll-babylm.24, section 2, where a
            masked token is predicted like a next one, so that one network and one output learn both.
    """
    return (places - 1).clamp(min=0) if shifted else places


def apart(pieces: Tensor) -> Tensor:
    """Returns a mask by which pieces of text in one row do not see each other.

    Args:
        pieces: (B, T) int64, the piece of each token; padding has a number of its own.

    Returns:
        (B, 1, T, T) bool, True = may attend.
    """
    return (pieces[:, :, None] == pieces[:, None, :])[:, None]
