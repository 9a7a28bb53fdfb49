"""Transformer: an encoder and a decoder made of attention alone, and its relative positions.

Vaswani et al., "Attention Is All You Need", NIPS 2017, https://arxiv.org/abs/1706.03762; Shaw, Uszkoreit, Vaswani,
"Self-Attention with Relative Position Representations", NAACL 2018, https://aclanthology.org/N18-2074.

| equation | where |
|---|---|
| X_0 = dropout(√M·E[x] + PE) (section 3.4, 3.5) | ``Transformer._embed`` |
| attention, eq. 1; multi-head (section 3.2.2) | ``wenmai.nn.attention.attend``, ``wenmai.nn.multihead.MultiHead`` |
| feed-forward, eq. 2 | ``wenmai.nn.transformer.FeedForward`` |
| LN(x + dropout(f(x))) (section 3.1, 5.4) | ``wenmai.nn.transformer.PostNorm`` |
| softmax(H Eᵀ) (section 3.4) | ``Transformer.logits`` |
| relative positions, Shaw eq. 3 and 4 | ``wenmai.nn.biases.ShawRelative`` |

Differs from the paper: the embeddings are two matrices where source and target have vocabularies of their own;
projections have biases unless ``attention_bias`` is false. Differs from Tensor2Tensor: the paper's layout of
sinusoids, BOS instead of a zero vector, Xavier-uniform weights.
"""

import math
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wenmai.decode.protocol import State, Step
from wenmai.models.settings import TransformerConfig
from wenmai.nn import plain
from wenmai.nn.attention import watch_attention
from wenmai.nn.biases import ShawRelative
from wenmai.nn.cache import DecoderCache, DecoderState, KeyValue
from wenmai.nn.embeddings import Embeddings, make_positions
from wenmai.nn.encoder_decoder import EncoderDecoder
from wenmai.nn.linear import linear
from wenmai.nn.masks import causal, real_keys
from wenmai.nn.multihead import MultiHead
from wenmai.nn.transformer import Decoder, DecoderLayer, Encoder, EncoderLayer, FeedForward

__all__ = ["EncodedSource", "Transformer", "TransformerConfig"]

_CAUSAL = causal()


class EncodedSource(NamedTuple):
    """The output of the encoder.

    Attributes:
        hidden: (B, S, M).
        mask: (B, S) bool, True = real token.
    """

    hidden: Tensor
    mask: Tensor


class Transformer(EncoderDecoder):
    """The Transformer for sequence to sequence.

    Args:
        config: Sizes and choices.
        source_vocab_size: Tokens of the source.
        target_vocab_size: Tokens of the target, V.
        tied_sources: Whether source and target share one vocabulary, and so one embedding matrix.

    Raises:
        ValueError: if vocabularies of different sizes are to be tied.
    """

    kind: ClassVar[str] = "transformer"
    config_class: ClassVar[type] = TransformerConfig

    def __init__(
        self, config: TransformerConfig, *, source_vocab_size: int, target_vocab_size: int, tied_sources: bool
    ) -> None:
        super().__init__(
            source_vocab_size=source_vocab_size, target_vocab_size=target_vocab_size, tied_sources=tied_sources
        )
        self.config = config
        size = config.hidden_size
        self.embedding = nn.Parameter(torch.empty(target_vocab_size, size).normal_(std=size**-0.5))
        self.source_embedding = (
            None if tied_sources else nn.Parameter(torch.empty(source_vocab_size, size).normal_(std=size**-0.5))
        )
        absolute = "none" if config.positions == "shaw" else config.positions
        self.source_positions = make_positions(absolute, size, config.max_length)
        self.target_positions = make_positions(absolute, size, config.max_length)
        self.embeddings = Embeddings(scale=math.sqrt(size), dropout=config.dropout)
        self.encoder = Encoder((_encoder_layer(config) for _ in range(config.num_layers)), hidden_size=size)
        decoder_layers = config.decoder_layers or config.num_layers
        self.decoder = Decoder((_decoder_layer(config) for _ in range(decoder_layers)), hidden_size=size)
        self._shortcut = plain.Shortcut()

    def encode(self, source_ids: Tensor, source_mask: Tensor) -> EncodedSource:
        """Encodes sources, to be attended to.

        Args:
            source_ids: (B, S) int64.
            source_mask: (B, S) bool, True = real token.
        """
        table = self.embedding if self.source_embedding is None else self.source_embedding
        hidden = self._embed(source_ids, table, self.source_positions(0, source_ids.shape[1]))
        return EncodedSource(self.encoder(hidden, mask=real_keys(source_mask)), source_mask)

    def forward(self, source_ids: Tensor, source_mask: Tensor, target_ids: Tensor) -> Tensor:
        """Returns the decoder's states (B, T, M) under teacher forcing, before the output layer."""
        memory = self.encode(source_ids, source_mask)
        hidden = self._embed(target_ids, self.embedding, self.target_positions(0, target_ids.shape[1]))
        states: Tensor = self.decoder(hidden, memory.hidden, mask=_CAUSAL, memory_mask=real_keys(memory.mask))
        return states

    @property
    def output_weight(self) -> Tensor:
        """(V, M): the target embeddings (section 3.4)."""
        return self.embedding

    @property
    def output_bias(self) -> Tensor | None:
        """None: the output layer has no bias."""
        return None

    def logits(self, hidden: Tensor) -> Tensor:
        """Returns H Eᵀ, (..., V) of (..., M)."""
        return linear(hidden, self.embedding)

    def begin(
        self, source_ids: Tensor, source_mask: Tensor, *, max_length: int, need_attention: bool = False
    ) -> DecoderState:
        """Encodes sources and makes their initial decoder state, one hypothesis each.

        Raises:
            ValueError: if learned positions do not reach that far.
        """
        if self.config.positions == "learned" and max_length > self.config.max_length:
            raise ValueError(
                f"{max_length} steps were asked for; positions are learned up to max_length={self.config.max_length}"
            )
        source_mask = source_mask.contiguous()
        memory = self.encode(source_ids, source_mask)
        batch, heads = source_ids.shape[0], self.config.num_heads
        head_size = self.config.hidden_size // heads
        caches = []
        for layer in self.decoder.layers:
            assert isinstance(layer, DecoderLayer)
            projected = layer.memory_attention.project_memory(memory.hidden).contiguous()
            caches.append(
                DecoderCache(
                    own=KeyValue.empty(batch, heads, max_length, head_size, like=projected),
                    memory=KeyValue(projected, length=source_ids.shape[1]),
                )
            )
        state = DecoderState(caches, memory_mask=real_keys(source_mask), need_attention=need_attention)
        if not need_attention:
            state.compiled = self._shortcut.begin(
                batch,
                self.decoder,
                self.embedding,
                self.target_positions,
                capacity=max_length,
                num_heads=heads,
                activation=self.config.activation,
                scale=self.embeddings.scale,
                window=self.config.window,
            )
        return state

    def step(self, tokens: Tensor, state: State) -> Step:
        """Takes one step with the last token of each hypothesis, and advances the state."""
        assert isinstance(state, DecoderState)
        if not state.need_attention:
            return Step(self._step(tokens, state))
        with watch_attention(self.decoder.layers[-1]) as watched:
            logits = self._step(tokens, state)
        weights = watched["memory_attention"][0].mean(1)  # (B, N/B, S)
        return Step(logits, weights.flatten(0, 1))

    def _step(self, tokens: Tensor, state: DecoderState) -> Tensor:
        logits = self._shortcut.step(tokens, state)
        if logits is not None:
            return logits
        hidden = self._embed(tokens[:, None], self.embedding, self.target_positions(state.length, 1))
        hidden = self.decoder(hidden, memory_mask=state.memory_mask, caches=state.caches)
        return self.logits(hidden.squeeze(1))

    def _embed(self, token_ids: Tensor, table: Tensor, positions: Tensor | None) -> Tensor:
        embedded: Tensor = self.embeddings(F.embedding(token_ids, table), position=positions)  # (B, T, M)
        return embedded


def _self_attention(config: TransformerConfig) -> MultiHead:
    head_size = config.hidden_size // config.num_heads
    return MultiHead(
        config.hidden_size,
        config.num_heads,
        dropout=config.attention_dropout,
        bias=config.attention_bias,
        relative=ShawRelative(head_size, config.max_distance) if config.positions == "shaw" else None,
        window=config.window,
    )


def _ffn(config: TransformerConfig) -> FeedForward:
    return FeedForward(
        config.hidden_size, config.ffn_size, activation=config.activation, dropout=config.activation_dropout
    )


def _encoder_layer(config: TransformerConfig) -> EncoderLayer:
    return EncoderLayer(_self_attention(config), _ffn(config), norm=config.norm, dropout=config.dropout)


def _decoder_layer(config: TransformerConfig) -> DecoderLayer:
    memory_attention = MultiHead(
        config.hidden_size,
        config.num_heads,
        memory_size=config.hidden_size,
        dropout=config.attention_dropout,
        bias=config.attention_bias,
    )
    return DecoderLayer(
        _self_attention(config), memory_attention, _ffn(config), norm=config.norm, dropout=config.dropout
    )
