"""Transformer-XL: a Transformer language model with a memory of earlier segments and relative positions.

Dai, Yang, Yang, Carbonell, Le, Salakhutdinov, "Transformer-XL: Attentive Language Models Beyond a Fixed-Length
Context", ACL 2019, https://aclanthology.org/P19-1285.

| equation (section 3) | where |
|---|---|
| h̃ = [SG(m); h]: keys and values also of the memory, without gradient | ``wenmai.nn.multihead.MultiHead`` |
| A = (a) + (b) + (c) + (d), with u and v | ``wenmai.nn.relative_xl.distance_bias`` |
| m = the last ``memory_length`` inputs of each layer | ``TransformerXLState.remember`` |
| LN(h + attention(h)), LN(h + ffn(h)) | ``wenmai.nn.transformer.EncoderLayer`` |
| adaptive softmax and input | ``wenmai.nn.softmax`` |

Without gradients the memory holds keys and values in place of hidden states: the same numbers, projected once. So the
cost of reading a text is that of its tokens, whatever the context.

As in the authors' code: embeddings times √M, dropout of the sinusoids and of the last layer's output, evaluation with
another ``memory``, ``same_length`` and ``clamp_length`` (:class:`Reading`). Differs from it: pre-norm layers normalise
once more at their end; the symbol of cluster i is in column i-1 behind the shortlist.

Shapes: B rows, T tokens of a segment, S keys, M hidden size, V vocabulary.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from wenmai.core.errors import SettingError
from wenmai.models.settings import TransformerXLConfig
from wenmai.nn.cache import RollingKeyValue
from wenmai.nn.dropout import Dropout
from wenmai.nn.embeddings import Embeddings
from wenmai.nn.language import LanguageState, NextToken, refuse_documents
from wenmai.nn.masks import causal, window
from wenmai.nn.relative_xl import RelativeAttention, RelativeBiases, distance_sinusoids
from wenmai.nn.softmax import AdaptiveEmbedding, AdaptiveSoftmax, Softmax
from wenmai.nn.transformer import EncoderLayer, FeedForward

__all__ = ["Reading", "TransformerXL", "TransformerXLConfig", "TransformerXLState"]

_CAUSAL = causal()
_EPSILON = 1e-5  # of layer norms
_STD = 0.02  # of every weight


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """How a trained model reads a text; the authors evaluate with a longer memory, the same length, and clamping.

    Attributes:
        memory: Tokens that are remembered; none: as in training.
        same_length: Whether every token sees equally many: the last ``memory``, itself counted.
        clamp_length: Farther distances are clipped to this one; none: no limit.

    Raises:
        SettingError: if a number is too small.
    """

    memory: int | None = None
    same_length: bool = False
    clamp_length: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("memory", self.memory), ("clamp_length", self.clamp_length)):
            if value is not None and value < 0:
                raise SettingError(f"{name}={value}: expected 0 or more tokens")


class TransformerXLState:
    """The memory of the tokens before a segment.

    Args:
        memories: (B, up to memory_length, M) of each layer: its inputs, for training.
        caches: Or keys and values of each layer, for reading without gradients.
    """

    def __init__(self, memories: list[Tensor], caches: list[RollingKeyValue] | None = None) -> None:
        self.memories = memories
        self.caches = caches
        self.relative: list[Tensor] = []  # r of each layer, (H, any S, D), while nothing is trained
        self.clamp_length: int | None = None  # that these are for

    @property
    def batch_size(self) -> int:
        """Rows."""
        return self.memories[0].shape[0] if self.caches is None else self.caches[0].batch_size

    @property
    def length(self) -> int:
        """Positions it holds."""
        return self.memories[0].shape[1] if self.caches is None else self.caches[0].length

    def known(self, layer: int, length: int) -> tuple[Tensor | None, RollingKeyValue | None]:
        """Returns the memory, or else the cache, of a layer: its last ``length`` positions."""
        if self.caches is None:
            return _last(self.memories[layer], length), None
        self.caches[layer].reach = length
        return None, self.caches[layer]

    def select(self, rows: Tensor) -> None:
        """Replaces the rows by ``rows`` (K,) int64 of them."""
        self.memories = [memory[rows] for memory in self.memories]
        for cache in self.caches or ():
            cache.select(rows)

    def detach(self) -> None:
        """Does nothing: memories never have a gradient."""

    def remember(self, inputs: Sequence[Tensor], length: int) -> None:
        """Adds the inputs (B, T, M) of each layer and keeps the last ``length`` positions."""
        memories = zip(self.memories, inputs, strict=True)
        self.memories = [_last(torch.cat((memory, new.detach()), 1), length) for memory, new in memories]

    def tensors(self) -> dict[str, Tensor]:
        """Returns the memories, or the keys and values, of each layer."""
        if self.caches is None:
            return {f"memory.{number}": memory for number, memory in enumerate(self.memories)}
        return {f"cache.{number}": torch.stack(cache.filled()) for number, cache in enumerate(self.caches)}

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Becomes the state whose :meth:`tensors` these are.

        Raises:
            ValueError: if they are of another model.
        """
        layers = len(self.memories) or len(self.caches or ())
        size = self.memories[0].shape[2] if self.memories else None
        if tensors.keys() == {f"memory.{number}" for number in range(layers)}:
            memories = [tensors[f"memory.{number}"] for number in range(layers)]
            if any(memory.dim() != 3 or memory.shape[2] != (size or memory.shape[2]) for memory in memories):
                raise ValueError(f"a memory of {size} numbers a token was expected, not {memories[0].shape[-1]}")
            self.memories, self.caches = memories, None
        elif tensors.keys() == {f"cache.{number}" for number in range(layers)}:
            found = [tensors[f"cache.{number}"] for number in range(layers)]
            if any(held.dim() != 5 or held.shape[0] != 2 or held.shape != found[0].shape for held in found):
                raise ValueError("keys and values (2, B, H, S, D) were expected, of one shape in all layers")
            self.caches = [RollingKeyValue(held, reach=held.shape[3], length=held.shape[3]) for held in found]
            self.memories = []
        else:
            raise ValueError(f"a state of {layers} layers was expected, not one of {', '.join(sorted(tensors))}")


def _last(memory: Tensor, length: int) -> Tensor:
    """The last positions of (B, S, M)."""
    return memory[:, max(0, memory.shape[1] - length) :]


def _layer(config: TransformerXLConfig) -> EncoderLayer:
    size, rate = config.hidden_size, config.dropout
    return EncoderLayer(
        RelativeAttention(size, config.num_heads, dropout=config.attention_dropout),
        FeedForward(size, config.ffn_size, activation="relu", dropout=rate),
        norm=config.norm,
        dropout=rate,
        epsilon=_EPSILON,
    )


class TransformerXL(NextToken):
    """Transformer-XL.

    Args:
        config: Sizes and choices.
        vocab_size: V.
        bos_id: BOS, before every text.

    Raises:
        SettingError: if the cutoffs do not lie within the vocabulary.
    """

    kind: ClassVar[str] = "transformer-xl"
    config_class: ClassVar[type] = TransformerXLConfig
    reading_class: ClassVar[type | None] = Reading
    stateful: ClassVar[bool] = True
    masks_documents: ClassVar[bool] = False
    layered: ClassVar[bool] = True

    def __init__(self, config: TransformerXLConfig, *, vocab_size: int, bos_id: int) -> None:
        super().__init__(vocab_size=vocab_size, bos_id=bos_id)
        self.config = config
        self.reading = Reading()
        size = config.hidden_size
        if config.cutoffs:
            if config.cutoffs[-1] >= vocab_size:
                raise SettingError(f"cutoffs reach {config.cutoffs[-1]}; the vocabulary has {vocab_size} tokens")
            self.embedding: nn.Embedding | AdaptiveEmbedding = AdaptiveEmbedding(
                vocab_size,
                size,
                embedding_size=config.embedding_size or size,
                cutoffs=config.cutoffs,
                div_value=config.div_value,
            )
            self.output = AdaptiveSoftmax(self.embedding, tied_projections=config.tied_projections)
        else:
            self.embedding = nn.Embedding(vocab_size, size)
            self.output = Softmax(vocab_size, size, bias=True, tied_to=self.embedding)
        self.embeddings = Embeddings(scale=math.sqrt(size), dropout=config.dropout)
        self.biases = nn.ModuleList(
            RelativeBiases(config.num_heads, size // config.num_heads)
            for _ in range(1 if config.shared_biases else config.num_layers)
        )
        self.layers = nn.ModuleList(_layer(config) for _ in range(config.num_layers))
        self.norm = nn.LayerNorm(size, eps=_EPSILON) if config.norm == "pre" else nn.Identity()
        self.dropout = Dropout(config.dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """N(0, 0.02²), gains of layer norms around 1, projections of embeddings half as wide, zero biases."""
        for name, parameter in self.named_parameters():
            if "norm.weight" in name:
                nn.init.normal_(parameter, mean=1.0, std=_STD)
            elif parameter.dim() > 1:
                nn.init.normal_(parameter, std=_STD / 2 if "projections" in name else _STD)

    @property
    def memory_length(self) -> int:
        """Tokens that are remembered."""
        remembered: int = self.config.memory_length if self.reading.memory is None else self.reading.memory
        return remembered

    def with_reading(self, reading: Reading) -> "TransformerXL":
        """Returns the same model, whose parameters are shared, that reads otherwise.

        Raises:
            SettingError: if every token is to see the same length, and that is 0.
        """
        other = super().with_reading(reading)
        if reading.same_length and not other.memory_length:
            raise SettingError("same_length lets every token see the last `memory` tokens; that is 0: give memory=N")
        return other

    def start(self, batch_size: int, *, capacity: int | None = None) -> TransformerXLState:
        """Returns the initial state: empty memories."""
        like = self.layers[0].get_parameter("attention.output.weight")
        empty = like.new_zeros(batch_size, 0, self.config.hidden_size)
        return TransformerXLState([empty] * self.config.num_layers)

    def forward(self, tokens: Tensor, state: LanguageState | None = None, *, documents: Tensor | None = None) -> Tensor:
        """Returns the states (B, T, M) of the last layer.

        Raises:
            ValueError: if documents are to be kept apart, or a state read without gradients is to be trained on.
        """
        refuse_documents(self, documents)
        return self._states(tokens, state)[-1]

    def hidden_states(self, tokens: Tensor) -> list[Tensor]:
        """Returns what each layer reads, and the states of the last, (B, T, M) each."""
        return self._states(tokens, None)

    def _states(self, tokens: Tensor, state: LanguageState | None) -> list[Tensor]:
        mask = _CAUSAL & window(self.memory_length - 1, 0) if self.reading.same_length else _CAUSAL
        state = self.start(tokens.shape[0]) if state is None else state
        assert isinstance(state, TransformerXLState)
        if not torch.is_grad_enabled():
            self._project_memories(state)
        elif state.caches is not None:
            raise ValueError("a state that was read into without gradients cannot be trained on; start another")
        relative = self._distances(state, min(state.length, self.memory_length) + tokens.shape[1])
        states = [self.embeddings(self.embedding(tokens))]
        for number, layer in enumerate(self.layers):
            biases = self.biases[0 if self.config.shared_biases else number]
            assert isinstance(biases, RelativeBiases)
            memory, cache = state.known(number, self.memory_length)
            structure = biases.structure(relative[number])
            states.append(layer(states[-1], memory, mask=mask, structure=structure, cache=cache))
        if state.caches is None:
            state.remember(states[:-1], self.memory_length)
        states[-1] = self.dropout(self.norm(states[-1]))
        return states

    def _project_memories(self, state: TransformerXLState) -> None:
        """Makes keys and values of what a state remembers, if it does not have them yet."""
        if state.caches is None:
            projected = [
                layer.project_memory(_last(memory, self.memory_length))
                for layer, memory in zip(self._layers(), state.memories, strict=True)
            ]
            state.caches = [RollingKeyValue(held, reach=held.shape[3], length=held.shape[3]) for held in projected]
            state.memories = []

    def _distances(self, state: TransformerXLState, keys: int) -> list[Tensor]:
        """Returns r of each layer, (H, ``keys`` or more, D); cached in the state without gradients."""
        like, size = self.biases[0].get_parameter("distance"), self.config.hidden_size
        if torch.is_grad_enabled():
            waves = self.dropout(distance_sinusoids(keys, size, clamp=self.reading.clamp_length, like=like))
            return self._project(waves)
        if not state.relative or state.relative[0].shape[1] < keys or state.clamp_length != self.reading.clamp_length:
            enough = keys + max(64, keys // 4)
            waves = self.dropout(distance_sinusoids(enough, size, clamp=self.reading.clamp_length, like=like))
            state.relative = self._project(waves)
            state.clamp_length = self.reading.clamp_length
        return state.relative

    def _project(self, waves: Tensor) -> list[Tensor]:
        """Returns r of each layer, (H, S, D), of sinusoids (S, M)."""
        attentions = (layer.attention for layer in self._layers())
        return [each.project_distances(waves) for each in attentions if isinstance(each, RelativeAttention)]

    def _layers(self) -> Iterator[EncoderLayer]:
        for layer in self.layers:
            assert isinstance(layer, EncoderLayer)
            yield layer
