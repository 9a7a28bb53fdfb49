"""A graph of ONNX nodes and constants, and the parts of a Transformer in it.

It is written from the parameters, node by node, so its content depends on no exporter's version.

Source: https://onnx.ai/onnx/operators/, operator set 20.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wenmai.core.errors import SettingError, install_hint

if TYPE_CHECKING:
    from torch import Tensor

    from wenmai.nn.disentangled import DisentangledAttention
    from wenmai.nn.multihead import MultiHead
    from wenmai.nn.names import ActivationName
    from wenmai.nn.transformer import FeedForward, GatedFeedForward, PostNorm

__all__ = [
    "FLOAT",
    "INT32",
    "INT64",
    "Disentangled",
    "Graph",
    "Outputs",
    "activated",
    "add_residual",
    "array",
    "attend",
    "distances",
    "feed_forward",
    "heads",
    "within",
]

_OPERATORS, _FILE_VERSION = 20, 9  # 20: the first with Gelu
FLOAT, INT32, INT64 = 1, 6, 7  # onnx.TensorProto
_LARGEST_BYTES = (1 << 31) - (1 << 20)  # of a protobuf message, less than the graph takes beside the numbers
_LOWEST = np.float32(np.finfo(np.float32).min)

Shape = Sequence[str | int]
Outputs = dict[str, tuple[str, Shape]]  # a title: what computes it, and its shape


class Graph:
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
        self._inputs: list[Any] = []
        self._size = self._count = 0

    def input(self, title: str, kind: str, *shape: str | int) -> str:
        """Declares an input; ``kind`` is ``INT64``, ``BOOL`` or ``FLOAT``. Returns its name."""
        described = self._onnx.helper.make_tensor_value_info(title, getattr(self._onnx.TensorProto, kind), shape)
        self._inputs.append(described)
        return title

    def add(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:  # noqa: ANN401
        """Adds a node; returns the name of its output, or a list of names if there are several."""
        names = [self._name() for _ in range(outputs)]
        self._nodes.append(self._onnx.helper.make_node(operator, inputs, names, names[0], **attributes))
        return names if outputs > 1 else names[0]

    def numbers(self, values: Any) -> str:  # noqa: ANN401  whatever numpy takes
        """Adds constants; float64 becomes float32. Returns their name."""
        content = np.asarray(values)
        if content.dtype == np.float64:
            content = content.astype(np.float32)
        self._size += content.nbytes
        if self._size > _LARGEST_BYTES:
            raise SettingError("this model is larger than 2 GiB, more than an ONNX file holds")
        name = self._name()
        self._numbers.append(self._onnx.numpy_helper.from_array(np.ascontiguousarray(content), name))
        return name

    def linear(self, hidden: str, linear: Any) -> str:  # noqa: ANN401
        """The product x Wᵀ + b."""
        product: str = self.add("MatMul", hidden, self.numbers(array(linear.weight).T))
        return product if linear.bias is None else self.add("Add", product, self.numbers(array(linear.bias)))

    def norm(self, hidden: str, norm: Any) -> str:  # noqa: ANN401
        """Layer norm over the last dimension."""
        plain = norm.weight is None
        gain = np.ones(norm.normalized_shape, np.float32) if plain else array(norm.weight)
        weights = [self.numbers(part) for part in ((gain,) if plain else (gain, array(norm.bias)))]
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

    def length(self, tensor: str, axis: int) -> str:
        """One size of a tensor, int64 without dimensions."""
        found: str = self.add("Squeeze", self.add("Shape", tensor, start=axis, end=axis + 1))
        return found

    def first(self, table: NDArray[np.float32], tokens: str) -> str:
        """As many rows of a table as there are tokens in each row (B, S)."""
        start, axis = self.numbers(np.array([0], np.int64)), self.numbers(np.array([0], np.int64))
        found: str = self.add("Slice", self.numbers(table), start, self.add("Shape", tokens, start=1, end=2), axis)
        return found

    def serialised(self, title: str, outputs: Outputs, properties: Mapping[str, object]) -> bytes:
        """Returns the file, with properties that its users can read."""
        helper, kinds = self._onnx.helper, self._onnx.TensorProto
        for name, (computed, _) in outputs.items():
            self._nodes.append(helper.make_node("Identity", [computed], [name]))
        described = [helper.make_tensor_value_info(name, kinds.FLOAT, shape) for name, (_, shape) in outputs.items()]
        graph = helper.make_graph(self._nodes, title, self._inputs, described, self._numbers)
        model = helper.make_model(
            graph,
            producer_name="wenmai",
            ir_version=_FILE_VERSION,
            opset_imports=[helper.make_opsetid("", _OPERATORS)],
        )
        helper.set_model_props(model, {name: str(value) for name, value in properties.items()})
        self._onnx.checker.check_model(model, full_check=True)
        content: bytes = model.SerializeToString()
        return content

    def _name(self) -> str:
        self._count += 1
        return f"n{self._count}"


def array(tensor: "Tensor") -> NDArray[np.float32]:
    """A parameter as float32."""
    found: NDArray[np.float32] = tensor.detach().float().cpu().numpy()
    return found


# --- parts of a Transformer -----------------------------------------------------------------------------------------


def distances(graph: Graph, queries: str, keys: str) -> str:
    """The distances j - i of places (T,) and (S,): (T, S) int64."""
    found: str = graph.add("Sub", keys, graph.unsqueezed(queries, 1))
    return found


def within(graph: Graph, far: str, window: int, allowed: str) -> str:
    """Where both ``allowed`` holds and a distance is at most ``window``, on either side."""
    near = graph.add("LessOrEqual", graph.add("Abs", far), graph.numbers(np.int64(window)))
    found: str = graph.add("And", allowed, near)
    return found


def add_residual(graph: Graph, residual: "PostNorm", hidden: str, sublayer: Callable[[str], str]) -> str:
    """A part of a layer with its sum and its layer norm."""
    from wenmai.nn.transformer import NestedNorm, PreNorm

    if isinstance(residual, PreNorm):
        output = sublayer(graph.norm(hidden, residual.norm))
        if isinstance(residual, NestedNorm):
            output = graph.norm(output, residual.after)
        found: str = graph.add("Add", hidden, output)
        return found
    return graph.norm(graph.add("Add", hidden, sublayer(hidden)), residual.norm)


def feed_forward(graph: Graph, ffn: "FeedForward | GatedFeedForward", activation: "ActivationName", hidden: str) -> str:
    """The network at each position."""
    from wenmai.nn.transformer import GatedFeedForward

    inner = graph.linear(hidden, ffn.inner)
    if not isinstance(ffn, GatedFeedForward):
        return graph.linear(activated(graph, activation, inner), ffn.outer)
    linear, gate = graph.add("Split", inner, outputs=2, axis=-1, num_outputs=2)
    gated = graph.add("Mul", linear, activated(graph, activation, gate))
    return graph.linear(graph.norm(gated, ffn.norm), ffn.outer)


def activated(graph: Graph, activation: "ActivationName | Literal['tanh']", inner: str) -> str:
    """A function of each number."""
    match activation:
        case "relu" | "tanh":
            active: str = graph.add(activation.capitalize(), inner)
        case "silu":
            active = graph.add("Mul", inner, graph.add("Sigmoid", inner))
        case _:
            active = graph.add("Gelu", inner, approximate="tanh" if activation == "gelu_tanh" else "none")
    return active


def heads(graph: Graph, attention: "MultiHead", projected: str) -> str:
    """Splits (B, T, M) into heads (B, H, T, D)."""
    split = graph.shaped(projected, 0, 0, attention.num_heads, attention.head_size)
    found: str = graph.add("Transpose", split, perm=(0, 2, 1, 3))
    return found


class Disentangled(NamedTuple):
    """What disentangled attention knows of a text.

    Attributes:
        vectors: (R, M), of the buckets.
        buckets: Those (T, T) of the distances j - i.
        turned: The same, transposed.
    """

    vectors: "Tensor"
    buckets: str
    turned: str


def attend(
    graph: Graph,
    attention: "MultiHead",
    query: str,
    key: str,
    value: str,
    allowed: str,
    far: "str | Disentangled | None" = None,
) -> str:
    """Attention of queries (B, H, T, D) to keys and values (B, H, S, D), with the projection after it: (B, T, M).

    Args:
        graph: Gets the nodes.
        attention: The module.
        query: Before they are scaled.
        key: Of all positions.
        value: Of all positions.
        allowed: What broadcasts to (B, H, T, S) bool.
        far: For relative positions, the distances (T, S), or their buckets.
    """
    from wenmai.nn.biases import ShawRelative
    from wenmai.nn.disentangled import DisentangledAttention

    terms = 3 if isinstance(attention, DisentangledAttention) else 1  # of a score, with a variance each
    query = graph.add("Mul", query, graph.numbers(np.float32((terms * attention.head_size) ** -0.5)))
    scores = graph.add("MatMul", query, graph.add("Transpose", key, perm=(0, 1, 3, 2)))  # (B, H, T, S)
    relative, places, by_distance = attention.relative, "", ""
    if isinstance(attention, DisentangledAttention):
        assert isinstance(far, Disentangled)
        scores, relative = _by_buckets(graph, attention, query, key, scores, far), None
    assert relative is None or isinstance(relative, ShawRelative)
    if relative is not None:
        assert isinstance(far, str)
        reach = relative.max_distance
        clipped = graph.add("Clip", far, graph.numbers(np.int64(-reach)), graph.numbers(np.int64(reach)))
        places = graph.add("Add", clipped, graph.numbers(np.int64(reach)))
        places = graph.add("Expand", places, graph.add("Shape", scores))
        by_distance = graph.add("MatMul", query, graph.numbers(array(relative.keys.mT)))  # (B, H, T, 2k+1)
        scores = graph.add("Add", scores, graph.add("GatherElements", by_distance, places, axis=3))
    weights = graph.add("Softmax", graph.add("Where", allowed, scores, graph.numbers(_LOWEST)), axis=-1)
    weights = graph.zero_unless(allowed, weights)  # also where a query may attend to nothing
    context = graph.add("MatMul", weights, value)
    if relative is not None:
        none = graph.add("Mul", by_distance, graph.numbers(np.float32(0)))
        sums = graph.add("ScatterElements", none, places, weights, axis=3, reduction="add")
        context = graph.add("Add", context, graph.add("MatMul", sums, graph.numbers(array(relative.values))))
    context = graph.add("Transpose", context, perm=(0, 2, 1, 3))
    return graph.linear(graph.shaped(context, 0, 0, attention.hidden_size), attention.output)


def _by_buckets(
    graph: Graph, attention: "DisentangledAttention", query: str, key: str, scores: str, far: Disentangled
) -> str:
    """Adds to scores (B, H, T, T) those from content to distance, and from distance to content."""
    shape, scale = graph.add("Shape", scores), (3 * attention.head_size) ** -0.5  # which the query has already
    queries, keys = array(attention.of_buckets(far.vectors)[:, 0])  # (H, R, D) each
    to_distance = graph.add("MatMul", query, graph.numbers(keys.swapaxes(1, 2)))  # (B, H, T, R)
    from_distance = graph.add("MatMul", key, graph.numbers(scale * queries.swapaxes(1, 2)))
    found = graph.add("GatherElements", to_distance, graph.add("Expand", far.buckets, shape), axis=3)
    turned = graph.add("GatherElements", from_distance, graph.add("Expand", far.turned, shape), axis=3)
    both = graph.add("Add", found, graph.add("Transpose", turned, perm=(0, 1, 3, 2)))
    summed: str = graph.add("Add", scores, both)
    return summed
