"""BERT and ``bert-efficient`` as ONNX graphs, with their heads; names are those that ``transformers`` has.

The graph takes ``input_ids`` (B, T) int64, ``attention_mask`` (B, T) int64, 1 = real token, and, of a model with more
than one segment, ``token_type_ids`` (B, T) int64. It returns ``last_hidden_state`` (B, T, M), with a pooler
``pooler_output`` (B, M), and what its heads predict:

| heads | outputs |
|---|---|
| ``mlm`` alone | ``logits`` (B, T, V) |
| ``mlm`` beside others | ``prediction_logits`` (B, T, V) |
| ``pair`` alone; beside others | ``logits`` (B, 2); ``seq_relationship_logits`` |
| ``replaced``, ``token-classification``, ``classification`` | ``logits`` (B, T), (B, T, labels), (B, labels) |
| ``multiple-choice`` | ``logits`` (B, 1), of one choice a row |
| ``question-answering`` | ``start_logits``, ``end_logits`` (B, T) |

The ``mlm`` logits of a token are those that it is predicted with: of ``gpt-bert`` they come from the state of the token
before it. Padding stands behind texts. Its own states and logits have no meaning.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from wenmai.formats.onnx.encoders import encoder_layer
from wenmai.formats.onnx.graph import Disentangled, Graph, Outputs, Shape, activated, array, distances
from wenmai.nn.disentangled import bucket_of

if TYPE_CHECKING:
    from wenmai.models.bert import Bert
    from wenmai.nn.disentangled import Buckets
    from wenmai.nn.names import HeadName

__all__ = ["bert"]


def bert(graph: Graph, model: "Bert", *, heads: bool = True) -> Outputs:
    """Adds a BERT, with its heads or without."""
    config = model.config
    graph.input("input_ids", "INT64", "batch", "length")
    mask = graph.input("attention_mask", "INT64", "batch", "length")
    table = graph.numbers(array(model.embedding.weight))
    hidden = graph.add("Gather", table, "input_ids")
    if model.positions is not None:
        hidden = graph.add("Add", hidden, graph.first(array(model.positions.weight), "input_ids"))
    if config.segments == 1:
        hidden = graph.add("Add", hidden, graph.numbers(_first_row(model.segments)))
    elif config.segments:
        graph.input("token_type_ids", "INT64", "batch", "length")
        assert model.segments is not None
        second = graph.add("Gather", graph.numbers(array(model.segments.weight)), "token_type_ids")
        hidden = graph.add("Add", hidden, second)
    if model.task_types is not None:
        hidden = graph.add("Add", hidden, graph.numbers(_first_row(model.task_types)))
    hidden = graph.norm(hidden, model.embeddings.norm)
    if model.projection is not None:
        hidden = graph.linear(hidden, model.projection)
    allowed = graph.unsqueezed(graph.add("Greater", mask, graph.numbers(np.int64(0))), 1, 2)  # (B, 1, 1, T)
    far = None if model.buckets is None else _disentangled(graph, model.buckets, config.max_length)
    for layer in model.encoder.layers:
        hidden = encoder_layer(graph, layer, config.activation, hidden, allowed, far)  # type: ignore[arg-type]
    if config.norm != "post":
        hidden = graph.norm(hidden, model.encoder.norm)
    outputs: Outputs = {"last_hidden_state": (hidden, ["batch", "length", config.hidden_size])}
    pooled = None
    if model.pooler is not None and config.pooler != "none":
        pooled = activated(graph, config.pooler, graph.linear(_taken(graph, hidden, 0, 1), model.pooler))
        outputs["pooler_output"] = (pooled, ["batch", config.hidden_size])
    for name in config.heads if heads else ():
        outputs |= _head(graph, model, name, hidden, pooled, table)
    return outputs


def _disentangled(graph: Graph, buckets: "Buckets", longest: int) -> Disentangled:
    """The buckets of the distances in texts of any length up to the longest."""
    reach = longest - 1
    table = bucket_of(torch.arange(-reach, longest), buckets.near, buckets.farthest).numpy()
    places = graph.add("Range", graph.numbers(np.int64(0)), graph.length("input_ids", 1), graph.numbers(np.int64(1)))
    far = graph.add("Add", distances(graph, places, places), graph.numbers(np.int64(reach)))
    index = graph.add("Gather", graph.numbers(table), far)
    return Disentangled(buckets.norm(buckets.weight), index, graph.add("Transpose", index, perm=(1, 0)))


def _first_row(table: Any) -> Any:  # noqa: ANN401  a table of vectors, and an array
    return array(table.weight[0])


def _head(graph: Graph, model: "Bert", name: "HeadName", hidden: str, pooled: str | None, table: str) -> Outputs:
    """Adds a head; returns what it predicts."""
    head: Any = model.heads[name]
    alone = len(model.config.heads) == 1
    tokens: Shape = ["batch", "length"]
    match name:
        case "mlm":
            if model.config.shifted:  # a token is predicted from the state of the token before it
                hidden = _behind(graph, hidden)
            active = activated(graph, model.config.activation, graph.linear(hidden, head.dense))
            matrix = table if model.config.tied else graph.numbers(array(head.output.weight))
            product = graph.add("MatMul", graph.norm(active, head.norm), graph.add("Transpose", matrix, perm=(1, 0)))
            logits = graph.add("Add", product, graph.numbers(array(head.output.bias)))
            return {"logits" if alone else "prediction_logits": (logits, [*tokens, model.vocab_size])}
        case "replaced":
            active = activated(graph, model.config.activation, graph.linear(hidden, head.dense))
            return {"logits": (_taken(graph, graph.linear(active, head.output), 0, -1), tokens)}
        case "token-classification":
            return {"logits": (graph.linear(hidden, head), [*tokens, head.out_features])}
        case "question-answering":
            both = graph.linear(hidden, head)
            return {
                f"{side}_logits": (_taken(graph, both, place, -1), tokens)
                for place, side in enumerate(("start", "end"))
            }
        case _:
            assert pooled is not None
            title = "seq_relationship_logits" if name == "pair" and not alone else "logits"
            return {title: (graph.linear(pooled, head), ["batch", head.out_features])}


def _behind(graph: Graph, hidden: str) -> str:
    """The states (B, T, M) of the tokens before, where the first has its own."""
    start, axis = graph.numbers(np.array([0], np.int64)), graph.numbers(np.array([1], np.int64))
    first = graph.add("Slice", hidden, start, graph.numbers(np.array([1], np.int64)), axis)
    rest = graph.add("Slice", hidden, start, graph.numbers(np.array([-1], np.int64)), axis)
    joined: str = graph.add("Concat", first, rest, axis=1)
    return joined


def _taken(graph: Graph, tensor: str, place: int, axis: int) -> str:
    """One place of a dimension, which is gone then."""
    found = graph.add("Gather", tensor, graph.numbers(np.array([place], np.int64)), axis=axis)
    squeezed: str = graph.add("Squeeze", found, graph.numbers(np.array([axis], np.int64)))
    return squeezed
