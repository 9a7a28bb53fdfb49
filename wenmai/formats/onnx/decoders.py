"""Decoders as ONNX graphs that continue from caches: GPT, and the decoder of a translating Transformer.

A graph takes any number of new tokens (B, T) and, for each layer, the keys and values of the P tokens before them,
``past_key_values.N.key`` and ``.value`` (B, H, P, D), with P = 0 at the beginning. It returns ``logits`` (B, T, V) and
the keys and values of all P + T tokens, ``present.N.key`` and ``.value``, which are the past of the next call.
"""

import math
from typing import TYPE_CHECKING

import numpy as np

from wenmai.formats.onnx.graph import (
    Graph,
    Outputs,
    add_residual,
    array,
    attend,
    distances,
    feed_forward,
    heads,
    within,
)

if TYPE_CHECKING:
    from wenmai.models.gpt import Gpt
    from wenmai.models.transformer import Transformer
    from wenmai.nn.names import ActivationName
    from wenmai.nn.transformer import DecoderLayer, EncoderLayer

__all__ = ["gpt", "transformer_decoder"]


class _Caches:
    """The keys and values of earlier tokens, which every layer continues."""

    def __init__(self, graph: Graph, layers: int, num_heads: int, head_size: int) -> None:
        self._graph = graph
        shape = ("batch", num_heads, "past", head_size)
        names = [[f"past_key_values.{number}.{part}" for part in ("key", "value")] for number in range(layers)]
        self._past = [[graph.input(name, "FLOAT", *shape) for name in pair] for pair in names]
        self._present: Outputs = {}
        self._shape = ("batch", num_heads, "total", head_size)

    @property
    def length(self) -> str:
        """P."""
        return self._graph.length(self._past[0][0], 2)

    def continued(self, number: int, key: str, value: str) -> tuple[str, str]:
        """Returns the keys and values of a layer with those of the new tokens (B, H, T, D)."""
        graph = self._graph
        old_key, old_value = self._past[number]
        key = graph.add("Concat", old_key, key, axis=2)
        value = graph.add("Concat", old_value, value, axis=2)
        self._present[f"present.{number}.key"] = (key, self._shape)
        self._present[f"present.{number}.value"] = (value, self._shape)
        return key, value

    def outputs(self, logits: str, vocab_size: int) -> Outputs:
        """Returns all outputs of the graph."""
        return {"logits": (logits, ["batch", "length", vocab_size]), **self._present}


class _Decoding:
    """What all layers of a decoder share.

    Attributes:
        caches: Of earlier tokens.
        queries: (T,) int64, the places of the new tokens, P to P + T - 1.
        causal: (T, P + T) bool, where a query may see a key.
    """

    def __init__(self, graph: Graph, activation: "ActivationName", layers: int, num_heads: int, head_size: int) -> None:
        self._graph = graph
        self._activation = activation
        self.caches = _Caches(graph, layers, num_heads, head_size)
        zero, one = graph.numbers(np.int64(0)), graph.numbers(np.int64(1))
        past = self.caches.length
        total = graph.add("Add", past, graph.length("input_ids", 1))
        self.queries = graph.add("Range", past, total, one)
        self._far = distances(graph, self.queries, graph.add("Range", zero, total, one))  # (T, P + T)
        self.causal = graph.add("LessOrEqual", self._far, zero)

    def self_attention(self, number: int, layer: "EncoderLayer | DecoderLayer", hidden: str, allowed: str) -> str:
        """Adds the self-attention of a layer, with its residual; ``allowed`` is causal."""
        graph, attention = self._graph, layer.attention
        if attention.window is not None:
            allowed = within(graph, self._far, attention.window, allowed)

        def sublayer(x: str) -> str:
            parts = graph.add("Split", graph.linear(x, attention.qkv), outputs=3, axis=2, num_outputs=3)
            query, key, value = (heads(graph, attention, part) for part in parts)
            key, value = self.caches.continued(number, key, value)
            return attend(graph, attention, query, key, value, allowed, self._far)

        return add_residual(graph, layer.attention_residual, hidden, sublayer)

    def memory_attention(self, number: int, layer: "DecoderLayer", hidden: str, allowed: str) -> str:
        """Adds the attention of a layer over the encoder's keys and values, with its residual."""
        graph, attention = self._graph, layer.memory_attention
        shape = ("batch", attention.num_heads, "source", attention.head_size)
        key, value = (graph.input(f"memory.{number}.{part}", "FLOAT", *shape) for part in ("key", "value"))

        def sublayer(x: str) -> str:
            query = heads(graph, attention, graph.linear(x, attention.query))
            return attend(graph, attention, query, key, value, allowed)

        return add_residual(graph, layer.memory_residual, hidden, sublayer)

    def feed_forward(self, layer: "EncoderLayer | DecoderLayer", hidden: str) -> str:
        """Adds the feed-forward network of a layer, with its residual."""
        return add_residual(
            self._graph,
            layer.ffn_residual,
            hidden,
            lambda x: feed_forward(self._graph, layer.ffn, self._activation, x),
        )


def gpt(graph: Graph, model: "Gpt") -> Outputs:
    """Adds a GPT. ``attention_mask`` (B, P + T) int64 is 1 for real tokens; padding may stand before a text."""
    from wenmai.nn.transformer import EncoderLayer

    config = model.config
    graph.input("input_ids", "INT64", "batch", "length")
    mask = graph.input("attention_mask", "INT64", "batch", "total")
    head_size = config.hidden_size // config.num_heads
    decoding = _Decoding(graph, config.activation, config.num_layers, config.num_heads, head_size)
    zero, one = graph.numbers(np.int64(0)), graph.numbers(np.int64(1))
    counted = graph.add("Sub", graph.add("CumSum", mask, one), one)  # padding has no position
    position = graph.add("Gather", graph.add("Max", counted, zero), decoding.queries, axis=1)  # (B, T)
    hidden = graph.add("Gather", graph.numbers(array(model.embedding.weight)), "input_ids")
    hidden = graph.add("Add", hidden, graph.add("Gather", graph.numbers(array(model.positions.weight)), position))
    real = graph.unsqueezed(graph.add("Greater", mask, zero), 1, 2)  # (B, 1, 1, P + T)
    allowed = graph.add("And", real, decoding.causal)
    for number, layer in enumerate(model.decoder.layers):
        assert isinstance(layer, EncoderLayer)
        hidden = decoding.self_attention(number, layer, hidden, allowed)
        hidden = decoding.feed_forward(layer, hidden)
    if config.norm == "pre":
        hidden = graph.norm(hidden, model.decoder.norm)
    logits = graph.add("MatMul", hidden, graph.numbers(array(model.output.weight).T))
    return decoding.caches.outputs(logits, model.vocab_size)


def transformer_decoder(graph: Graph, model: "Transformer") -> Outputs:
    """Adds the decoder of a Transformer. It also takes ``mask`` and ``memory.N.key`` and ``.value`` of the encoder."""
    from wenmai.nn.transformer import DecoderLayer

    config = model.config
    graph.input("input_ids", "INT64", "batch", "length")
    source = graph.unsqueezed(graph.input("mask", "BOOL", "batch", "source"), 1, 2)  # (B, 1, 1, S)
    layers, head_size = len(model.decoder.layers), config.hidden_size // config.num_heads
    decoding = _Decoding(graph, config.activation, layers, config.num_heads, head_size)
    table = array(model.embedding)
    hidden = graph.add("Gather", graph.numbers(table * math.sqrt(config.hidden_size)), "input_ids")
    positions = model.target_positions(0, config.max_length)
    if positions is not None:
        hidden = graph.add("Add", hidden, graph.add("Gather", graph.numbers(array(positions)), decoding.queries))
    for number, layer in enumerate(model.decoder.layers):
        assert isinstance(layer, DecoderLayer)
        hidden = decoding.self_attention(number, layer, hidden, decoding.causal)
        hidden = decoding.memory_attention(number, layer, hidden, source)
        hidden = decoding.feed_forward(layer, hidden)
    if config.norm == "pre":
        hidden = graph.norm(hidden, model.decoder.norm)
    logits = graph.add("MatMul", hidden, graph.numbers(table.T))
    return decoding.caches.outputs(logits, table.shape[0])
