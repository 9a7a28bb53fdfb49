"""The labellers of pinyin as ONNX graphs.

The graph takes ``token_ids`` (B, T) int64 and ``mask`` (B, T) bool, True = real symbol, all of them before the padding,
with any batch and length, and returns for each head its logits: ``characters`` (B, T, C), and of an encoder that has
learned them ``readings`` (B, T, R), float32. What they are at padding has no meaning.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from wenmai.formats.onnx.encoders import encoder_layer, recurrent_layer
from wenmai.formats.onnx.graph import INT32, Graph, Outputs, array

if TYPE_CHECKING:
    from wenmai.models.pinyin_letters import Cbhg, ConvolutionNorm, PinyinLetters
    from wenmai.nn.characters import Highway
    from wenmai.nn.convolution import LocalConvolution
    from wenmai.nn.labelling import Labeller

__all__ = ["labeller"]


def labeller(graph: Graph, model: "Labeller") -> Outputs:
    """Adds a labeller of syllables or letters."""
    from torch.nn import LayerNorm

    from wenmai.nn.transformer import Encoder

    graph.input("token_ids", "INT64", "batch", "length")
    graph.input("mask", "BOOL", "batch", "length")
    made: Any = model
    hidden = graph.add("Gather", graph.numbers(array(made.embedding.weight)), "token_ids")
    if made.neighbours is not None:
        hidden = graph.add("Add", hidden, _neighbours(graph, made.neighbours, hidden))
    if made.positions is not None:
        hidden = graph.add("Add", hidden, graph.first(array(made.positions(0, made.max_length)), "token_ids"))
    if isinstance(made.encoder, Encoder):
        allowed = graph.unsqueezed("mask", 1, 2)  # (B, 1, 1, T)
        for layer in made.encoder.layers:
            one: Any = layer
            hidden = encoder_layer(graph, one, "relu", hidden, allowed)
        if isinstance(made.encoder.norm, LayerNorm):
            hidden = graph.norm(hidden, made.encoder.norm)
    else:
        hidden = _cbhg(graph, made, hidden)
    outputs: Outputs = {}
    for name, head in made.heads.items():
        logits = graph.linear(hidden, head)
        outputs[name] = (logits, ["batch", "length", head.vocab_size])
    return outputs


def _neighbours(graph: Graph, convolution: "LocalConvolution", vectors: str) -> str:
    entered = graph.zero_unless(graph.unsqueezed("mask", 1), graph.add("Transpose", vectors, perm=(0, 2, 1)))
    assert convolution.bias is not None
    parts = [graph.numbers(array(part)) for part in (convolution.weight, convolution.bias)]
    found: str = graph.add(
        "Transpose", graph.add("Conv", entered, *parts, pads=2 * tuple(convolution.padding)), perm=(0, 2, 1)
    )
    return found


def _cbhg(graph: Graph, model: "PinyinLetters", hidden: str) -> str:
    net: Cbhg = model.encoder  # type: ignore[assignment]
    real = graph.unsqueezed("mask", 1)  # (B, 1, T)
    for linear in net.prenet:
        hidden = graph.add("Relu", graph.linear(hidden, linear))
    entered = graph.zero_unless(real, graph.add("Transpose", hidden, perm=(0, 2, 1)))  # (B, M/2, T)
    bank: Any = net.bank
    banked = [graph.add("Relu", _convolution(graph, one, entered, real)) for one in bank]
    joined = banked[0] if len(banked) == 1 else graph.add("Concat", *banked, axis=1)
    pooled = graph.add("MaxPool", joined, kernel_shape=(2,), strides=(1,), pads=(0, 1))
    first, second = net.projections
    inner = graph.add("Relu", _convolution(graph, first, pooled, real))  # type: ignore[arg-type]
    summed = graph.add("Add", entered, _convolution(graph, second, inner, real))  # type: ignore[arg-type]
    states = graph.add("Transpose", summed, perm=(0, 2, 1))
    for highway in net.highways:
        states = _highway(graph, highway, states)  # type: ignore[arg-type]
    axis = graph.numbers(np.array([1], np.int64))
    lengths = graph.add("ReduceSum", graph.add("Cast", "mask", to=INT32), axis, keepdims=0)
    steps = graph.add("Transpose", states, perm=(1, 0, 2))
    every, _ = recurrent_layer(graph, net.recurrent, 0, steps, lengths)  # (T, 2, B, M/2)
    merged = graph.shaped(graph.add("Transpose", every, perm=(2, 0, 1, 3)), 0, 0, net.recurrent.output_size)
    found: str = merged
    return found


def _convolution(graph: Graph, one: "ConvolutionNorm", hidden: str, real: str) -> str:
    found = graph.add("Conv", hidden, graph.numbers(array(one.convolution.weight)), pads=one.window)
    norm: Any = one.norm
    parts = (norm.weight, norm.bias, norm.running_mean, norm.running_var)
    normed = graph.add("BatchNormalization", found, *[graph.numbers(array(part)) for part in parts], epsilon=norm.eps)
    return graph.zero_unless(real, normed)


def _highway(graph: Graph, highway: "Highway", states: str) -> str:
    gate = graph.add("Sigmoid", graph.linear(states, highway.carry))
    changed = graph.add("Relu", graph.linear(states, highway.transform))
    moved = graph.add("Mul", gate, graph.add("Sub", changed, states))
    found: str = graph.add("Add", states, moved)
    return found
