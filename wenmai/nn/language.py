"""The contract of neural language models: hidden states that predict the next token, and a state to store."""

from collections.abc import Callable
from copy import copy
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import Tensor, nn

from wenmai.decode.protocol import Step
from wenmai.nn.cache import KeyValue
from wenmai.nn.softmax import AdaptiveSoftmax, Softmax

__all__ = ["CachedState", "LanguageState", "NextToken", "refuse_documents"]


class LanguageState(Protocol):
    """The state of a language model after the tokens it has read, for each row of the batch."""

    @property
    def batch_size(self) -> int:
        """Number of rows."""
        ...

    def select(self, rows: Tensor) -> None:
        """Makes row ``i`` what row ``rows[i]`` was, in place; ``rows`` (K,) int64 may repeat or leave out."""
        ...

    def detach(self) -> None:
        """Ends gradients here: later losses do not train earlier tokens."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Returns by name what :meth:`load` needs to continue exactly from here."""
        ...

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Becomes the state whose :meth:`tensors` these are; its batch size may differ.

        Raises:
            ValueError: if they are not those of such a model.
        """
        ...


class NextToken(nn.Module):
    """A language model: P(next token | tokens so far), by a stack of layers and an output layer.

    Args:
        vocab_size: V.
        bos_id: BOS, before every text.

    Attributes:
        kind: The name of the system that registers this class; stored in model folders.
        config_class: The dataclass of its settings.
        reading_class: The dataclass of what may be chosen anew each time that a trained model reads a text; none:
            nothing.
        config: The settings.
        reading: What was chosen.
        stateful: Whether training carries the state from one segment of a stream to the next.
        masks_documents: Whether ``documents`` can keep the documents of a segment apart.
        layered: Whether it has :meth:`hidden_states`; then ``num_layers`` is one of its settings.
        max_length: Most tokens that one text can have; none: any number.
        output: From hidden states to probabilities.
    """

    kind: ClassVar[str]
    config_class: ClassVar[type]
    reading_class: ClassVar[type | None] = None
    config: Any
    reading: Any = None
    stateful: ClassVar[bool]
    masks_documents: ClassVar[bool]
    layered: ClassVar[bool] = False
    max_length: int | None = None
    output: Softmax | AdaptiveSoftmax

    def __init__(self, *, vocab_size: int, bos_id: int) -> None:
        super().__init__()
        if not 0 <= bos_id < vocab_size:
            raise ValueError(f"bos_id={bos_id} is not one of {vocab_size} tokens")
        self.vocab_size = vocab_size
        self.bos_id = bos_id

    @property
    def device(self) -> torch.device:
        """The device of its parameters."""
        return next(self.parameters()).device

    @property
    def state_size(self) -> int:
        """M, the numbers of a state of :meth:`hidden_states`."""
        return int(self.config.hidden_size)

    def with_reading(self, reading: Any) -> Self:  # noqa: ANN401  a reading_class
        """Returns the same model, whose parameters are shared, that reads otherwise."""
        other = copy(self)
        other.reading = reading
        return other

    def start(self, batch_size: int, *, capacity: int | None = None) -> LanguageState:
        """Returns the initial state.

        Args:
            batch_size: Rows.
            capacity: Most tokens to read; none: as many as the model can read.

        Raises:
            ValueError: if the model cannot read so many.
        """
        raise NotImplementedError

    def forward(self, tokens: Tensor, state: LanguageState | None = None, *, documents: Tensor | None = None) -> Tensor:
        """Reads tokens.

        Args:
            tokens: (B, T) int64.
            state: Of the tokens read before, advanced in place. None: the initial state.
            documents: (B, T) int64, document of each token, where no position may attend to another document; the
                tokens of a document are contiguous.

        Returns:
            Hidden states (B, T, M) for ``output``; place t predicts token t + 1.

        Raises:
            ValueError: if the text is longer than ``max_length``, or the model cannot keep documents apart.
        """
        raise NotImplementedError

    def hidden_states(self, tokens: Tensor) -> list[Tensor]:
        """Returns the states of all layers, (B, T, M) each, the first those that the first layer reads.

        Args:
            tokens: (B, T) int64, texts from their beginnings on; padding behind them is seen by no token of theirs.

        Raises:
            ValueError: if a text is longer than ``max_length``.
        """
        raise NotImplementedError

    def step(self, tokens: Tensor, state: LanguageState) -> Step:
        """Reads one token for each row, and returns the logits (N, V) of the next.

        Args:
            tokens: (N,) int64; BOS at first.
            state: Of N rows; advanced.
        """
        return Step(self.output(self(tokens[:, None], state)[:, 0]))


class CachedState:
    """A state that is the keys and values of all positions so far.

    Args:
        caches: One for each layer.
        compiled: Takes a step in place of the model's modules, from (N,) tokens and this state to (N, V) logits; for
            few rows, where the model has it.
    """

    def __init__(
        self, caches: list[KeyValue], *, compiled: "Callable[[Tensor, CachedState], Tensor] | None" = None
    ) -> None:
        self.caches = caches
        self.compiled = compiled

    @property
    def length(self) -> int:
        """Tokens read."""
        return self.caches[0].length

    @property
    def batch_size(self) -> int:
        """Rows."""
        return self.caches[0].batch_size

    def select(self, rows: Tensor) -> None:
        """Replaces the rows by ``rows`` (K,) int64 of them: repeated, reordered or left out."""
        for cache in self.caches:
            cache.select(rows)

    def detach(self) -> None:
        """Ends gradients here."""
        for cache in self.caches:
            cache.buffer = cache.buffer.detach()

    def tensors(self) -> dict[str, Tensor]:
        """Returns keys and values of each layer, (2, B, H, length, D)."""
        return {f"layer.{number}": torch.stack(cache.filled()) for number, cache in enumerate(self.caches)}

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Becomes the state whose :meth:`tensors` these are.

        Raises:
            ValueError: if they do not fit the model.
        """
        names = [f"layer.{number}" for number in range(len(self.caches))]
        if tensors.keys() != set(names):
            raise ValueError(f"a state of {len(names)} layers was expected, not one of {', '.join(sorted(tensors))}")
        for name, cache in zip(names, self.caches, strict=True):
            cache.load(tensors[name])


def refuse_documents(model: nn.Module, documents: Tensor | None) -> None:
    """Raises ValueError if a model that reads one stream is to keep documents apart."""
    if documents is not None:
        raise ValueError(f"{type(model).__name__} reads one stream and cannot keep the documents of a segment apart")
