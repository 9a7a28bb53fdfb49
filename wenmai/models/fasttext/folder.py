"""A fastText model as a folder: ``config.json``, ``vocab.json``, ``labels.json`` and ``model.safetensors``."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import FormatError
from wenmai.core.tensors import read_tensor_into, tensor_shapes, write_tensors
from wenmai.models.fasttext.config import Config, FastTextClassifierConfig, FastTextConfig, used_buckets
from wenmai.models.fasttext.matrices import Matrix, misnamed_buckets, zero_rows
from wenmai.models.folder import CONFIG, read_config, read_fields, read_vocab, write_config

if TYPE_CHECKING:
    from wenmai.models.fasttext.model import FastText

__all__ = ["read_parts", "write_model"]

_HEAD: dict[str, Any] = {  # what config.json says beside the configuration
    "vocab_size": int,
    "label_count": int | None,
    "label_prefix": str,
    "tokens": int,
    "input_part": int | None,
    "output_part": int | None,
    "arguments": dict | None,
}


def write_model(model: "FastText", folder: Path) -> None:
    """Writes a model into an existing folder."""
    width = model.config.vector_size
    tensors: dict[str, npt.NDArray[Any]] = {}
    for name, matrix in (("input", model.input), ("output", model.output)):
        tensors |= {name: matrix[:, :width]} if isinstance(matrix, np.ndarray) else matrix.tensors(name)
    if model.kept_buckets is not None:
        tensors["kept_buckets"] = model.kept_buckets
    if model.labels is not None:
        model.labels.save(folder / "labels.json")
    facts = {
        "vocab_size": len(model.vocab),
        "label_count": None if model.labels is None else len(model.labels),
        "label_prefix": model.label_prefix,
        "tokens": model.tokens,
        "input_part": None if isinstance(model.input, np.ndarray) else model.input.part,
        "output_part": None if isinstance(model.output, np.ndarray) else model.output.part,
        "arguments": None if model.arguments is None else dict(model.arguments),
    }
    write_config(folder, model.config, **facts)
    model.vocab.save(folder / "vocab.json")
    write_tensors(folder / "model.safetensors", tensors)


def read_parts(folder: Path) -> dict[str, Any]:
    """Reads what :func:`write_model` wrote, as the arguments of the class.

    Raises:
        FormatError: if a file is missing, damaged, or does not fit the others.
    """
    path = folder / "model.safetensors"
    kind = FastTextClassifierConfig if read_fields(folder).get("kind") == "fasttext-supervised" else FastTextConfig
    config: Config
    config, head = read_config(folder, kind, "fastText", _HEAD)
    vocab = read_vocab(folder / "vocab.json", head["vocab_size"])
    labels = None
    if head["label_count"] is not None or isinstance(config, FastTextClassifierConfig):
        labels = read_vocab(folder / "labels.json", head["label_count"])
    shapes = tensor_shapes(path)
    kept = None
    if "kept_buckets" in shapes:
        kept = np.empty((*shapes["kept_buckets"][:1], 2), np.int32)
        read_tensor_into(path, "kept_buckets", kept)
        if (wrong := misnamed_buckets(kept, config.buckets)) is not None:
            what, limit = wrong
            raise FormatError(f"{path}: the list of kept buckets names {what} twice or beyond {limit}")
    behind = {used_buckets(config), config.buckets} if kept is None else {len(kept)}
    outputs = labels if labels is not None and isinstance(config, FastTextClassifierConfig) else vocab
    return {
        "config": config,
        "vocab": vocab,
        "labels": labels,
        "tokens": head["tokens"],
        "input": _read_matrix(path, shapes, "input", {len(vocab) + rows for rows in behind}, config, head),
        "output": _read_matrix(path, shapes, "output", {len(outputs)}, config, head),
        "kept_buckets": kept,
        "arguments": head["arguments"],
        "label_prefix": head["label_prefix"],
    }


def _read_matrix(
    path: Path,
    shapes: Mapping[str, tuple[int, ...]],
    name: str,
    rows: set[int],
    config: Config,
    head: Mapping[str, Any],
) -> Matrix:
    """Reads a matrix that has one of these numbers of rows, checking that before allocating."""
    from wenmai.kernels.quantise import QuantisedRows

    width, part = config.vector_size, head[f"{name}_part"]
    found = shapes.get(name if part is None else f"{name}.codes", (-1,))
    expected = {(size, width if part is None else -(-width // max(part, 1))) for size in rows}
    if found not in expected:
        raise FormatError(
            f"{path}: the {name} has the shape {found}, expected {' or '.join(map(str, sorted(expected)))}"
        )
    if part is not None and part < 1:
        raise FormatError(f"{path.with_name(CONFIG)}: {name}_part={part}: expected 1 or more")
    if part is None:
        matrix = zero_rows(found[0], width)
        read_tensor_into(path, name, matrix[:, :width])
        return matrix
    arrays = QuantisedRows.empty(found[0], width, part, with_norms=f"{name}.norm_codes" in shapes)
    for tensor, array in arrays.tensors(name).items():
        read_tensor_into(path, tensor, array)
    return arrays
