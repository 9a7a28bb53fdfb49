"""The encoders of translators as ONNX graphs.

The graph takes ``token_ids`` (B, S) int64 and ``mask`` (B, S) bool, True = real token, with any batch and length, and
returns ``states`` (B, S, hidden size) float32; one of ``seq2seq`` also ``last`` (L, B, ·), the states after the last
token, as in :class:`wenmai.models.seq2seq.Memory`; one of ``transformer`` also the keys and values of the states for
each layer of the decoder. States where ``mask`` is False have no meaning.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wenmai.formats.onnx.graph import (
    FLOAT,
    INT32,
    INT64,
    Disentangled,
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
    from torch import Tensor

    from wenmai.models.seq2seq import Seq2Seq
    from wenmai.models.transformer import Transformer
    from wenmai.nn.convolution import ConvolutionEncoder
    from wenmai.nn.names import ActivationName
    from wenmai.nn.recurrent import Recurrent
    from wenmai.nn.transformer import DecoderLayer, EncoderLayer

__all__ = ["encoder_layer", "recurrent_encoder", "recurrent_layer", "transformer_encoder"]

_HALF = np.float32(math.sqrt(0.5))  # of wenmai.nn.convolution
_GATES = {"rnn": (0,), "lstm": (0, 3, 1, 2), "gru": (1, 0, 2)}  # torch: ifgo, rzn; ONNX: iofg, zrn


def _inputs(graph: Graph) -> None:
    graph.input("token_ids", "INT64", "batch", "length")
    graph.input("mask", "BOOL", "batch", "length")


# --- Transformer ----------------------------------------------------------------------------------------------------


def transformer_encoder(graph: Graph, model: "Transformer") -> Outputs:
    """Adds the encoder of a Transformer, and what its decoder attends to."""
    _inputs(graph)
    config = model.config
    size = config.hidden_size
    table = array(model.embedding if model.source_embedding is None else model.source_embedding)
    hidden = graph.add("Gather", graph.numbers(table * math.sqrt(size)), "token_ids")
    positions = model.source_positions(0, config.max_length)
    if positions is not None:
        hidden = graph.add("Add", hidden, graph.first(array(positions), "token_ids"))
    zero, one = graph.numbers(np.int64(0)), graph.numbers(np.int64(1))
    places = graph.add("Range", zero, graph.length("token_ids", 1), one)
    far = distances(graph, places, places) if config.window is not None or config.positions == "shaw" else None
    allowed = graph.unsqueezed("mask", 1, 2)  # (B, 1, 1, S)
    if config.window is not None and far is not None:
        allowed = within(graph, far, config.window, allowed)
    for layer in model.encoder.layers:
        hidden = encoder_layer(graph, layer, config.activation, hidden, allowed, far)  # type: ignore[arg-type]
    if config.norm == "pre":
        hidden = graph.norm(hidden, model.encoder.norm)
    outputs: Outputs = {"states": (hidden, ["batch", "length", size])}
    shape = ["batch", config.num_heads, "length", size // config.num_heads]
    for number, layer in enumerate(model.decoder.layers):
        for name, projected in _memory(graph, layer, hidden).items():  # type: ignore[arg-type]
            outputs[f"memory.{number}.{name}"] = (projected, shape)
    return outputs


def encoder_layer(
    graph: Graph,
    layer: "EncoderLayer",
    activation: "ActivationName",
    hidden: str,
    allowed: str,
    far: str | Disentangled | None = None,
) -> str:
    """Adds a layer to states (B, S, M); see :func:`wenmai.formats.onnx.graph.attend`."""

    def attention(x: str) -> str:
        parts = graph.add("Split", graph.linear(x, layer.attention.qkv), outputs=3, axis=2, num_outputs=3)
        query, key, value = (heads(graph, layer.attention, part) for part in parts)
        return attend(graph, layer.attention, query, key, value, allowed, far)

    hidden = add_residual(graph, layer.attention_residual, hidden, attention)
    return add_residual(graph, layer.ffn_residual, hidden, lambda x: feed_forward(graph, layer.ffn, activation, x))


def _memory(graph: Graph, layer: "DecoderLayer", states: str) -> dict[str, str]:
    """Keys and values (B, H, S, D) of the states, for one layer of the decoder."""
    attention = layer.memory_attention
    parts = graph.add("Split", graph.linear(states, attention.memory), outputs=2, axis=2, num_outputs=2)
    return {name: heads(graph, attention, part) for name, part in zip(("key", "value"), parts, strict=True)}


# --- seq2seq --------------------------------------------------------------------------------------------------------


def recurrent_encoder(graph: Graph, model: "Seq2Seq") -> Outputs:
    """Adds the encoder of a recurrent or convolutional translator."""
    _inputs(graph)
    return _convolutional(graph, model) if model.config.encoder == "cnn" else _recurrent(graph, model)


def _recurrent(graph: Graph, model: "Seq2Seq") -> Outputs:
    layers: Recurrent = model.encoder.layers  # type: ignore[assignment]
    size, directions = layers.layers.hidden_size, layers.output_size // layers.layers.hidden_size
    axis = graph.numbers(np.array([1], np.int64))
    counts = graph.add("ReduceSum", graph.add("Cast", "mask", to=INT32), axis, keepdims=0)
    lengths = graph.add("Max", counts, graph.numbers(np.int32(1)))  # (B,) int32, which recurrent nodes want
    steps = graph.add("Cast", lengths, to=INT64)  # int64, which ReverseSequence wants
    real = graph.unsqueezed(graph.add("Transpose", "mask", perm=(1, 0)), 2)  # (S, B, 1)
    hidden = graph.add("Transpose", _words(graph, model), perm=(1, 0, 2))  # (S, B, E)

    def turned(sequence: str) -> str:
        if not model.config.reverse_source:
            return sequence
        found: str = graph.add("ReverseSequence", sequence, steps, time_axis=0, batch_axis=1)
        return found

    hidden, last = turned(hidden), []
    for number in range(layers.layers.num_layers):
        hidden, finals = recurrent_layer(graph, layers, number, hidden, lengths)
        merged = graph.shaped(graph.add("Transpose", hidden, perm=(0, 2, 1, 3)), 0, 0, directions * size)
        hidden = graph.zero_unless(real, merged)  # (S, B, D·H)
        ends = [graph.shaped(graph.add("Transpose", end, perm=(1, 0, 2)), 1, -1, directions * size) for end in finals]
        last.append(ends[0] if len(ends) == 1 else graph.add("Concat", *ends, axis=2))
    states = graph.add("Transpose", turned(hidden), perm=(1, 0, 2))
    whole = last[0] if len(last) == 1 else graph.add("Concat", *last, axis=0)
    return {
        "states": (states, ["batch", "length", directions * size]),
        "last": (whole, [len(last), "batch", layers.state_size]),
    }


def recurrent_layer(
    graph: Graph, layers: "Recurrent", number: int, hidden: str, lengths: str
) -> tuple[str, Sequence[str]]:
    """Returns all states (S, D, B, H) of a layer, and the last ones (D, B, H): hidden states, and memory cells."""
    sides = ("", "_reverse") if layers.layers.bidirectional else ("",)

    def stacked(name: str) -> NDArray[np.float32]:
        parts = [np.split(array(getattr(layers.layers, f"{name}_l{number}{side}")), len(order)) for side in sides]
        return np.stack([np.concatenate([part[gate] for gate in order]) for part in parts])

    order = _GATES[layers.kind]
    biases = np.concatenate([stacked("bias_ih"), stacked("bias_hh")], axis=1)
    numbers = [graph.numbers(part) for part in (stacked("weight_ih"), stacked("weight_hh"), biases)]
    attributes: dict[str, Any] = {"hidden_size": layers.layers.hidden_size}
    attributes["direction"] = "bidirectional" if len(sides) == 2 else "forward"
    if layers.kind == "gru":
        attributes["linear_before_reset"] = 1  # the reset gate acts after U
    outputs = 3 if layers.kind == "lstm" else 2
    found = graph.add(layers.kind.upper(), hidden, *numbers, lengths, outputs=outputs, **attributes)
    return found[0], found[1:]


def _convolutional(graph: Graph, model: "Seq2Seq") -> Outputs:
    size, layers = model.config.hidden_size, model.config.num_layers
    stack: ConvolutionEncoder = model.encoder.layers  # type: ignore[assignment]
    positions: Tensor = model.encoder.positions.weight  # type: ignore[union-attr, assignment]
    words = graph.add("Add", _words(graph, model), graph.first(array(positions), "token_ids"))
    real = graph.unsqueezed("mask", 1)  # (B, 1, S)
    entered = graph.add("Transpose", graph.linear(words, stack.enter), perm=(0, 2, 1))
    hidden = graph.zero_unless(real, entered)  # (B, M, S)
    for layer in stack.layers:
        weights = [graph.numbers(array(part)) for part in (layer.weight, layer.bias)]  # type: ignore[arg-type]
        linear, gate = graph.add(
            "Split",
            graph.add("Conv", hidden, *weights, pads=stack.window),
            outputs=2,
            axis=1,
            num_outputs=2,
        )
        update = graph.add("Mul", linear, graph.add("Sigmoid", gate))
        scaled = graph.add("Mul", graph.add("Add", hidden, update), graph.numbers(_HALF))
        hidden = graph.zero_unless(real, scaled)
    axis = graph.numbers(np.array([1], np.int64))
    counts = graph.add("ReduceSum", graph.add("Cast", "mask", to=FLOAT), axis, keepdims=1)
    states = graph.add("Transpose", hidden, perm=(0, 2, 1))
    total = graph.add("ReduceSum", states, axis, keepdims=0)  # (B, M)
    mean = graph.unsqueezed(graph.add("Div", total, graph.add("Max", counts, graph.numbers(np.float32(1)))), 0)
    last = mean if layers == 1 else graph.add("Concat", *[mean] * layers, axis=0)
    return {"states": (states, ["batch", "length", size]), "last": (last, [layers, "batch", size])}


def _words(graph: Graph, model: "Seq2Seq") -> str:
    """The embeddings of the source (B, S, E)."""
    embedding = model.source_embedding or model.target_embedding
    found: str = graph.add("Gather", graph.numbers(array(embedding.weight)), "token_ids")
    return found
