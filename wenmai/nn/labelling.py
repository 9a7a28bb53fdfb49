"""The contract of networks that label each symbol of a sequence."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

__all__ = ["Labeller"]


class Labeller(nn.Module):
    """A network that gives each symbol of a text a state that depends on the whole text, and labels it.

    Args:
        vocab_size: V, the symbols that it reads.

    Attributes:
        kind: The name of the system that registers this class; stored in model folders.
        config_class: The dataclass of its settings.
        config: The settings.
        max_length: Most symbols that one text can have.
        heads: Output layers by name: what is predicted of a state.
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

    def forward(self, symbols: Tensor, real: Tensor | None = None) -> Tensor:
        """Reads texts.

        Args:
            symbols: (B, T) int64.
            real: (B, T) bool, False at padding, which comes last; None: there is none.

        Returns:
            The states (B, T, M). Padding never changes those of real symbols.

        Raises:
            ValueError: if the text is longer than ``max_length``.
        """
        raise NotImplementedError

    def logits(self, symbols: Tensor, real: Tensor | None = None, *, head: str = "characters") -> Tensor:
        """Returns what a head says of each symbol, (B, T, C); the arguments are those of :meth:`forward`."""
        found: Tensor = self.heads[head](self(symbols, real))
        return found

    def require_length(self, length: int) -> None:
        """Makes sure that a text is not too long.

        Raises:
            ValueError: if it is.
        """
        if length > self.max_length:
            raise ValueError(f"{length} symbols are more than max_length={self.max_length}: cut the text")
