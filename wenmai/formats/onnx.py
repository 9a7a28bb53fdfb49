"""Encoders as ONNX files, which ONNX Runtime and other engines run without Python or torch.

The graph takes ``token_ids`` (B, S) int64 and ``mask`` (B, S) bool, True = real token, with any batch and length, and
returns ``states`` (B, S, hidden size) float32; one of ``seq2seq`` also ``last`` (L, B, ·), the states after the last
token, as in :class:`wenmai.models.seq2seq.Memory`. It is written from the parameters, node by node, so its content
depends on no exporter's version. States where ``mask`` is False have no meaning.

Source: https://onnx.ai/onnx/operators/, operator set 20.
"""

import math
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wenmai.core.errors import SettingError, install_hint
from wenmai.core.folder import writing
from wenmai.formats.format import Format

if TYPE_CHECKING:
    from torch import Tensor, nn

    from wenmai.models.seq2seq import Seq2Seq
    from wenmai.models.transformer import Transformer
    from wenmai.nn.convolution import ConvolutionEncoder
    from wenmai.nn.multihead import MultiHead
    from wenmai.nn.recurrent import Recurrent
    from wenmai.nn.transformer import EncoderLayer

__all__ = ["FORMATS", "write_onnx"]

_OPERATORS, _FILE_VERSION = 20, 9  # 20: the first with Gelu
_FLOAT, _INT32, _INT64 = 1, 6, 7  # onnx.TensorProto
_LARGEST_BYTES = (1 << 31) - (1 << 20)  # of a protobuf message, less than the graph takes beside the numbers
_LOWEST = np.float32(np.finfo(np.float32).min)
_HALF = np.float32(math.sqrt(0.5))  # of wenmai.nn.convolution
_GATES = {"rnn": (0,), "lstm": (0, 3, 1, 2), "gru": (1, 0, 2)}  # torch: ifgo, rzn; ONNX: iofg, zrn


def write_onnx(path: str | Path, model: "nn.Module") -> None:
    """Writes the encoder of a translator as one ONNX file, whole or not at all.

    Args:
        path: The file.
        model: A :class:`wenmai.models.transformer.Transformer` or :class:`wenmai.models.seq2seq.Seq2Seq`.

    Raises:
        SettingError: if the model is of another kind or larger than such a file may be (2 GiB), or the package onnx is
            not installed.
    """
    from wenmai.models.seq2seq import Seq2Seq
    from wenmai.models.transformer import Transformer

    if not isinstance(model, Transformer | Seq2Seq):
        raise SettingError(
            f"there is no ONNX form of {type(model).__name__}; it exists for the encoders of transformer and seq2seq"
        )
    graph = _Graph()
    if isinstance(model, Transformer):
        outputs = _transformer(graph, model)
    else:
        outputs = _recurrent(graph, model) if model.config.encoder != "cnn" else _convolutional(graph, model)
    content = graph.serialised(outputs, max_length=model.config.max_length)
    with writing(path) as file:
        file.write(content)


class _Graph:
    """Collects nodes and constants."""

    def __init__(self) -> None:
        try:
            self._onnx = import_module("onnx")
        except ImportError as error:
            raise SettingError(
                f"this format needs onnx, which cannot be imported ({error}); {install_hint('onnx')}"
            ) from None
        self._nodes: list[Any] = []
        self._numbers: list[Any] = []
        self._size = self._count = 0

    def add(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:  # noqa: ANN401
        """Adds a node; returns the name of its output, or a list of names if there are several."""
        names = [self._name() for _ in range(outputs)]
        self._nodes.append(self._onnx.helper.make_node(operator, inputs, names, **attributes))
        return names if outputs > 1 else names[0]

    def numbers(self, values: Any) -> str:  # noqa: ANN401  whatever numpy takes
        """Adds constants; float64 becomes float32. Returns their name."""
        array = np.asarray(values)
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        self._size += array.nbytes
        if self._size > _LARGEST_BYTES:
            raise SettingError("this encoder is larger than 2 GiB, more than an ONNX file holds")
        name = self._name()
        self._numbers.append(self._onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def linear(self, hidden: str, linear: Any) -> str:  # noqa: ANN401
        """The product x Wᵀ + b."""
        product: str = self.add("MatMul", hidden, self.numbers(_array(linear.weight).T))
        return product if linear.bias is None else self.add("Add", product, self.numbers(_array(linear.bias)))

    def norm(self, hidden: str, norm: Any) -> str:  # noqa: ANN401
        """Layer norm over the last dimension."""
        weights = [self.numbers(_array(part)) for part in (norm.weight, norm.bias)]
        normed: str = self.add("LayerNormalization", hidden, *weights, axis=-1, epsilon=norm.eps)
        return normed

    def shaped(self, tensor: str, *shape: int) -> str:
        """Reshapes; 0 keeps a size and -1 is what remains."""
        found: str = self.add("Reshape", tensor, self.numbers(np.array(shape, np.int64)))
        return found

    def unsqueezed(self, tensor: str, *axes: int) -> str:
        """Adds dimensions of size 1."""
        found: str = self.add("Unsqueeze", tensor, self.numbers(np.array(axes, np.int64)))
        return found

    def zero_unless(self, condition: str, tensor: str) -> str:
        """The numbers where a condition holds, zero elsewhere."""
        found: str = self.add("Where", condition, tensor, self.numbers(np.float32(0)))
        return found

    def first(self, table: NDArray[np.float32]) -> str:
        """The first S rows of a table."""
        start, axis = self.numbers(np.array([0], np.int64)), self.numbers(np.array([0], np.int64))
        length = self.add("Shape", "token_ids", start=1, end=2)
        found: str = self.add("Slice", self.numbers(table), start, length, axis)
        return found

    def serialised(self, outputs: dict[str, tuple[str, Sequence[str | int]]], *, max_length: int) -> bytes:
        """Returns the file: outputs are a title, and what computes it with its shape."""
        helper, kinds = self._onnx.helper, self._onnx.TensorProto
        for title, (name, _) in outputs.items():
            self._nodes.append(helper.make_node("Identity", [name], [title]))
        graph = helper.make_graph(
            self._nodes,
            "encoder",
            [
                helper.make_tensor_value_info("token_ids", kinds.INT64, ["batch", "length"]),
                helper.make_tensor_value_info("mask", kinds.BOOL, ["batch", "length"]),
            ],
            [helper.make_tensor_value_info(title, kinds.FLOAT, shape) for title, (_, shape) in outputs.items()],
            self._numbers,
        )
        model = helper.make_model(
            graph,
            producer_name="wenmai",
            ir_version=_FILE_VERSION,
            opset_imports=[helper.make_opsetid("", _OPERATORS)],
        )
        helper.set_model_props(model, {"max_length": str(max_length)})
        self._onnx.checker.check_model(model, full_check=True)
        content: bytes = model.SerializeToString()
        return content

    def _name(self) -> str:
        self._count += 1
        return f"n{self._count}"


_Outputs = dict[str, tuple[str, Sequence[str | int]]]


# --- Transformer ----------------------------------------------------------------------------------------------------


def _transformer(graph: _Graph, model: "Transformer") -> _Outputs:
    config = model.config
    size = config.hidden_size
    table = _array(model.embedding if model.source_embedding is None else model.source_embedding)
    hidden = graph.add("Gather", graph.numbers(table * math.sqrt(size)), "token_ids")
    positions = model.source_positions(0, config.max_length)
    if positions is not None:
        hidden = graph.add("Add", hidden, graph.first(_array(positions)))
    distances = _distances(graph) if config.window is not None or config.positions == "shaw" else None
    allowed = graph.unsqueezed("mask", 1, 2)  # (B, 1, 1, S)
    if config.window is not None and distances is not None:
        far = graph.add("Abs", distances)
        near = graph.add("LessOrEqual", far, graph.numbers(np.int64(config.window)))  # (S, S)
        allowed = graph.add("And", allowed, near)
    for layer in model.encoder.layers:
        hidden = _layer(graph, layer, hidden, allowed, distances)  # type: ignore[arg-type]
    if config.norm == "pre":
        hidden = graph.norm(hidden, model.encoder.norm)
    return {"states": (hidden, ["batch", "length", size])}


def _distances(graph: _Graph) -> str:
    """The distances j - i, (S, S) int64."""
    zero, one = graph.numbers(np.int64(0)), graph.numbers(np.int64(1))
    length = graph.add("Squeeze", graph.add("Shape", "token_ids", start=1, end=2))
    places = graph.add("Range", zero, length, one)
    found: str = graph.add("Sub", places, graph.unsqueezed(places, 1))
    return found


def _layer(graph: _Graph, layer: "EncoderLayer", hidden: str, allowed: str, distances: str | None) -> str:
    from wenmai.nn.transformer import PreNorm

    def attention(x: str) -> str:
        return _attention(graph, layer.attention, x, allowed, distances)

    def feed_forward(x: str) -> str:
        inner = graph.linear(x, layer.ffn.inner)
        return graph.linear(graph.add(_ACTIVATIONS[layer.ffn.activation.__name__], inner), layer.ffn.outer)

    for sublayer, residual in ((attention, layer.attention_residual), (feed_forward, layer.ffn_residual)):
        if isinstance(residual, PreNorm):
            hidden = graph.add("Add", hidden, sublayer(graph.norm(hidden, residual.norm)))
        else:
            hidden = graph.norm(graph.add("Add", hidden, sublayer(hidden)), residual.norm)
    return hidden


_ACTIVATIONS = {"relu": "Relu", "gelu": "Gelu"}


def _attention(graph: _Graph, attention: "MultiHead", hidden: str, allowed: str, distances: str | None) -> str:
    from wenmai.nn.biases import ShawRelative

    heads, size = attention.num_heads, attention.head_size
    parts = graph.add("Split", graph.linear(hidden, attention.qkv), outputs=3, axis=2, num_outputs=3)
    query, key, value = (
        graph.add("Transpose", graph.shaped(part, 0, 0, heads, size), perm=perm)
        for part, perm in zip(parts, ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)), strict=True)
    )
    query = graph.add("Mul", query, graph.numbers(np.float32(size**-0.5)))
    scores = graph.add("MatMul", query, key)  # (B, H, S, S)
    relative, places, by_distance = attention.relative, "", ""
    assert relative is None or isinstance(relative, ShawRelative)
    if relative is not None and distances is not None:
        reach = relative.max_distance
        clipped = graph.add("Clip", distances, graph.numbers(np.int64(-reach)), graph.numbers(np.int64(reach)))
        places = graph.add("Add", clipped, graph.numbers(np.int64(reach)))
        places = graph.add("Expand", places, graph.add("Shape", scores))
        by_distance = graph.add("MatMul", query, graph.numbers(_array(relative.keys.mT)))  # (B, H, S, 2k+1)
        scores = graph.add("Add", scores, graph.add("GatherElements", by_distance, places, axis=3))
    weights = graph.add("Softmax", graph.add("Where", allowed, scores, graph.numbers(_LOWEST)), axis=-1)
    weights = graph.zero_unless(allowed, weights)  # also where a query may attend to nothing
    context = graph.add("MatMul", weights, value)
    if relative is not None:
        none = graph.add("Mul", by_distance, graph.numbers(np.float32(0)))
        sums = graph.add("ScatterElements", none, places, weights, axis=3, reduction="add")
        context = graph.add("Add", context, graph.add("MatMul", sums, graph.numbers(_array(relative.values))))
    context = graph.add("Transpose", context, perm=(0, 2, 1, 3))
    return graph.linear(graph.shaped(context, 0, 0, heads * size), attention.output)


# --- seq2seq --------------------------------------------------------------------------------------------------------


def _recurrent(graph: _Graph, model: "Seq2Seq") -> _Outputs:
    layers: Recurrent = model.encoder.layers  # type: ignore[assignment]
    size, directions = layers.layers.hidden_size, layers.output_size // layers.layers.hidden_size
    axis = graph.numbers(np.array([1], np.int64))
    counts = graph.add("ReduceSum", graph.add("Cast", "mask", to=_INT32), axis, keepdims=0)
    lengths = graph.add("Max", counts, graph.numbers(np.int32(1)))  # (B,) int32, which recurrent nodes want
    steps = graph.add("Cast", lengths, to=_INT64)  # int64, which ReverseSequence wants
    real = graph.unsqueezed(graph.add("Transpose", "mask", perm=(1, 0)), 2)  # (S, B, 1)
    hidden = graph.add("Transpose", _words(graph, model), perm=(1, 0, 2))  # (S, B, E)

    def turned(sequence: str) -> str:
        if not model.config.reverse_source:
            return sequence
        found: str = graph.add("ReverseSequence", sequence, steps, time_axis=0, batch_axis=1)
        return found

    hidden, last = turned(hidden), []
    for number in range(layers.layers.num_layers):
        hidden, finals = _recurrent_layer(graph, layers, number, hidden, lengths)
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


def _recurrent_layer(
    graph: _Graph, layers: "Recurrent", number: int, hidden: str, lengths: str
) -> tuple[str, Sequence[str]]:
    """Returns all states (S, D, B, H) of a layer, and the last ones (D, B, H): hidden states, and memory cells."""
    sides = ("", "_reverse") if layers.layers.bidirectional else ("",)

    def stacked(name: str) -> NDArray[np.float32]:
        parts = [np.split(_array(getattr(layers.layers, f"{name}_l{number}{side}")), len(order)) for side in sides]
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


def _convolutional(graph: _Graph, model: "Seq2Seq") -> _Outputs:
    size, layers = model.config.hidden_size, model.config.num_layers
    stack: ConvolutionEncoder = model.encoder.layers  # type: ignore[assignment]
    positions: Tensor = model.encoder.positions.weight  # type: ignore[union-attr, assignment]
    words = graph.add("Add", _words(graph, model), graph.first(_array(positions)))
    real = graph.unsqueezed("mask", 1)  # (B, 1, S)
    entered = graph.add("Transpose", graph.linear(words, stack.enter), perm=(0, 2, 1))
    hidden = graph.zero_unless(real, entered)  # (B, M, S)
    for layer in stack.layers:
        weights = [graph.numbers(_array(part)) for part in (layer.weight, layer.bias)]  # type: ignore[arg-type]
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
    counts = graph.add("ReduceSum", graph.add("Cast", "mask", to=_FLOAT), axis, keepdims=1)
    states = graph.add("Transpose", hidden, perm=(0, 2, 1))
    total = graph.add("ReduceSum", states, axis, keepdims=0)  # (B, M)
    mean = graph.unsqueezed(graph.add("Div", total, graph.add("Max", counts, graph.numbers(np.float32(1)))), 0)
    last = mean if layers == 1 else graph.add("Concat", *[mean] * layers, axis=0)
    return {"states": (states, ["batch", "length", size]), "last": (last, [layers, "batch", size])}


def _words(graph: _Graph, model: "Seq2Seq") -> str:
    """The embeddings of the source (B, S, E)."""
    embedding = model.source_embedding or model.target_embedding
    found: str = graph.add("Gather", graph.numbers(_array(embedding.weight)), "token_ids")
    return found


def _array(tensor: "Tensor") -> NDArray[np.float32]:
    found: NDArray[np.float32] = tensor.detach().float().cpu().numpy()
    return found


FORMATS = (
    Format(
        name="onnx",
        summary="the encoder of a translator as one ONNX file, for ONNX Runtime and other engines",
        models=("wenmai.models.seq2seq:Seq2Seq", "wenmai.models.transformer:Transformer"),
        write=lambda path, run: write_onnx(path, run.model.module),
    ),
)
