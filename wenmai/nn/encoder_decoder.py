"""The contract of sequence-to-sequence models: encode sources, predict targets token by token."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from torch import Tensor, nn

from wenmai.decode.protocol import State, Step

__all__ = ["EncoderDecoder"]


class EncoderDecoder(nn.Module, ABC):
    """A model of P(target | source).

    Everywhere ``source_ids`` is (B, S) int64 and ``source_mask`` (B, S) bool, True for real tokens, all of them before
    the padding.

    Args:
        source_vocab_size: Tokens of the source.
        target_vocab_size: Tokens of the target, V.
        tied_sources: Whether source and target share one vocabulary, and so one embedding matrix.

    Attributes:
        kind: The name of the system that registers this class; stored in model folders.
        config_class: The dataclass of its settings.
        config: The settings.
        samples_targets: Whether training may feed the decoder its own predictions.
        has_attention: Whether the decoder attends to the source.
        samples_attention: Whether training samples the source tokens that it attends to.

    Raises:
        ValueError: if vocabularies of different sizes are to be tied.
    """

    kind: ClassVar[str]
    config_class: ClassVar[type]
    config: Any
    samples_targets: ClassVar[bool] = False
    has_attention: bool = True
    samples_attention: bool = False

    def __init__(self, *, source_vocab_size: int, target_vocab_size: int, tied_sources: bool) -> None:
        super().__init__()
        if tied_sources and source_vocab_size != target_vocab_size:
            raise ValueError(
                f"{source_vocab_size} source and {target_vocab_size} target tokens cannot share one embedding matrix"
            )

    @abstractmethod
    def forward(self, source_ids: Tensor, source_mask: Tensor, target_ids: Tensor) -> Tensor:
        """Returns the decoder's states (B, T, R) under teacher forcing, from which :meth:`logits` predicts.

        Args:
            source_ids: See the class, as for ``source_mask``.
            source_mask: The same.
            target_ids: (B, T) int64, beginning with BOS, padded at the right.
        """

    @property
    @abstractmethod
    def output_weight(self) -> Tensor:
        """(V, R), of the vocabulary projection."""

    @property
    @abstractmethod
    def output_bias(self) -> Tensor | None:
        """(V,), of the vocabulary projection, if it has one."""

    @abstractmethod
    def logits(self, hidden: Tensor) -> Tensor:
        """Projects states (..., R) to the vocabulary (..., V)."""

    @abstractmethod
    def begin(self, source_ids: Tensor, source_mask: Tensor, *, max_length: int, need_attention: bool = False) -> State:
        """Encodes sources and makes their initial decoder state, one hypothesis each.

        Args:
            source_ids: See the class, as for ``source_mask``.
            source_mask: The same.
            max_length: Most steps to take.
            need_attention: Whether each step returns attention weights.
        """

    @abstractmethod
    def step(self, tokens: Tensor, state: State) -> Step:
        """Takes one step with the last token of each hypothesis, and advances the state.

        Args:
            tokens: (N,) int64; BOS at first.
            state: Of N hypotheses, from :meth:`begin`; changed in place.
        """
