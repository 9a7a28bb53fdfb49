"""What every neural language model is: hidden states that predict the next token, and a state that can be kept."""

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from wenmai.decode.protocol import Step
from wenmai.nn.cache import KeyValue
from wenmai.nn.softmax import AdaptiveSoftmax, Softmax

__all__ = ["CachedState", "LanguageState", "NextToken", "refuse_documents"]


class LanguageState(Protocol):
    """Everything a language model remembers of the tokens it has read, for each row of the batch."""

    @property
    def batch_size(self) -> int:
        """Rows it holds now."""
        ...

    def select(self, rows: Tensor) -> None:
        """Makes row ``i`` what row ``rows[i]`` was, in place; ``rows`` (K,) int64 may repeat or leave out."""
        ...

    def detach(self) -> None:
        """Ends gradients here: what follows does not train what came before."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Returns by name what :meth:`load` needs to go on from here, exactly."""
        ...

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Becomes the state whose :meth:`tensors` these are; its batch size may be another.

        Raises:
            ValueError: if they are not those of such a model.
        """
        ...


class NextToken(nn.Module):
    """A language model: P(next token | tokens so far), by a stack of layers and an output layer.

    Args:
        vocab_size: V.
        bos_id: The token that stands before every text.

    Attributes:
        kind: The name of the system whose registration names this class; model folders say it.
        config_class: The dataclass of its settings.
        config: The settings.
        stateful: Whether training carries the state from one segment of a stream to the next.
        masks_documents: Whether ``documents`` can keep the documents of a segment apart.
        max_length: Most tokens that one text can have; none: any number.
        output: From hidden states to probabilities.
    """

    kind: ClassVar[str]
    config_class: ClassVar[type]
    config: Any
    stateful: ClassVar[bool]
    masks_documents: ClassVar[bool]
    max_length: int | None = None
    output: Softmax | AdaptiveSoftmax

    def __init__(self, *, vocab_size: int, bos_id: int) -> None:
        super().__init__()
        if not 0 <= bos_id < vocab_size:
            raise ValueError(f"bos_id={bos_id} is none of {vocab_size} tokens")
        self.vocab_size = vocab_size
        self.bos_id = bos_id

    @property
    def device(self) -> torch.device:
        """Where its parameters are."""
        return next(self.parameters()).device

    def start(self, batch_size: int, *, capacity: int | None = None) -> LanguageState:
        """Returns the state of having read nothing.

        Args:
            batch_size: Rows.
            capacity: Tokens that will be read, at most; none: as many as the model can read.

        Raises:
            ValueError: if the model cannot read so many.
        """
        raise NotImplementedError

    def forward(self, tokens: Tensor, state: LanguageState | None = None, *, documents: Tensor | None = None) -> Tensor:
        """Reads tokens.

        Args:
            tokens: (B, T) int64.
            state: What was read before; continued, and advanced in place. None: nothing was.
            documents: (B, T) int64, number of the document that each token belongs to, where no position may look at
                another document; the tokens of one stand together.

        Returns:
            Hidden states (B, T, M) for ``output``; place t predicts token t + 1.

        Raises:
            ValueError: if the text is longer than ``max_length``, or the model cannot keep documents apart.
        """
        raise NotImplementedError

    def step(self, tokens: Tensor, state: LanguageState) -> Step:
        """Reads one token for each row, and returns the logits (N, V) of the next.

        Args:
            tokens: (N,) int64; the begin token at first.
            state: Of N rows; advanced.
        """
        return Step(self.output(self(tokens[:, None], state)[:, 0]))


class CachedState:
    """A state that is the keys and values of all positions so far.

    Args:
        caches: One for each layer.
        compiled: Takes a step in place of the model's modules, from (N,) tokens and this state to (N, V) logits; for
            few rows, where the model has such a thing.
    """

    def __init__(
        self, caches: list[KeyValue], *, compiled: "Callable[[Tensor, CachedState], Tensor] | None" = None
    ) -> None:
        self.caches = caches
        self.compiled = compiled

    @property
    def length(self) -> int:
        """Tokens that were read."""
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
    """Raises ValueError if documents shall be kept apart by a model that reads one stream."""
    if documents is not None:
        raise ValueError(f"{type(model).__name__} reads one stream and cannot keep the documents of a segment apart")
