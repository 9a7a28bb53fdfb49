"""A table of vectors in one file of our own: safetensors, with the words and other text as JSON in tensors of bytes.

``words`` is the JSON list of the words, ``vectors`` float32 (V, d). An attribute is ``integers.NAME`` (int64),
``floats.NAME`` (float64), each (V, ...), or the JSON list ``texts.NAME``.
"""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wenmai.core.errors import FormatError, SettingError
from wenmai.core.tensors import read_tensor_into, tensor_shapes, write_tensors
from wenmai.vectors.lengths import Vector
from wenmai.vectors.table import VectorTable

__all__ = ["Stored", "read_table", "write_table"]

_KINDS = {"integers": np.dtype(np.int64), "floats": np.dtype(np.float64)}


class Stored(NamedTuple):
    """What a file holds."""

    words: list[str]
    vectors: Vector
    attributes: dict[str, NDArray[np.generic]]


def write_table(path: str | Path, table: VectorTable) -> None:
    """Writes words, vectors and attributes, whole or not at all.

    Raises:
        SettingError: if an attribute has values that are neither finite numbers nor text.
    """
    tensors: dict[str, NDArray[np.generic]] = {"words": _packed(table.index_to_key), "vectors": table.vectors}
    for name, values in table.expandos.items():
        if values.dtype.kind in "biu":
            tensors[f"integers.{name}"] = values.astype(np.int64)
        elif values.dtype.kind == "f" and np.isfinite(values).all():
            tensors[f"floats.{name}"] = values.astype(np.float64)
        elif all(isinstance(value, str | int) for value in values.tolist()):  # 0 where no text was set
            tensors[f"texts.{name}"] = _packed(values.tolist())
        else:
            raise SettingError(f"{path}: the attribute {name!r} cannot be saved; expected finite numbers or text")
    write_tensors(path, tensors)


def read_table(path: str | Path) -> Stored:
    """Reads what :func:`write_table` wrote.

    Raises:
        FormatError: if the file is missing, damaged, or something else, such as a pickle of gensim.
    """
    try:
        shapes = tensor_shapes(path)
    except FormatError as error:
        raise FormatError(
            f"{error}; expected what WordVectors.save writes: save the vectors of gensim with save_word2vec_format "
            "and read them with load_word2vec_format, because pickles are never opened"
        ) from None
    if not {"words", "vectors"} <= shapes.keys() or len(shapes["vectors"]) != 2:
        raise FormatError(f"{path}: has the tensors {', '.join(shapes)}; expected what WordVectors.save writes")
    words = _unpacked(path, "words", shapes["words"])
    if not all(type(word) is str for word in words):
        raise FormatError(f"{path}: 'words' is not a list of words")
    vectors = np.empty(shapes["vectors"], np.float32)
    read_tensor_into(path, "vectors", vectors)
    attributes: dict[str, NDArray[np.generic]] = {}
    for stored in sorted(shapes.keys() - {"words", "vectors"}):
        kind, _, name = stored.partition(".")
        if kind == "texts":
            texts = _unpacked(path, stored, shapes[stored])
            found: NDArray[np.generic] = np.empty(len(texts), object)
            found[:] = texts
        elif kind in _KINDS:
            found = np.empty(shapes[stored], _KINDS[kind])
            read_tensor_into(path, stored, found)
        else:
            raise FormatError(f"{path}: the tensor {stored!r} is none that WordVectors.save writes")
        if found.shape[:1] != (len(words),):
            raise FormatError(f"{path}: the attribute {name!r} has another number of values than there are words")
        attributes[name] = found
    return Stored(words, vectors, attributes)


def _packed(values: list[str]) -> NDArray[np.uint8]:
    return np.frombuffer(json.dumps(values).encode(), np.uint8)


def _unpacked(path: str | Path, name: str, shape: tuple[int, ...]) -> list[str]:
    data = np.empty(shape, np.uint8)
    read_tensor_into(path, name, data)
    try:
        found = json.loads(data.tobytes())
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: the tensor {name!r} is not JSON ({error})") from None
    if not isinstance(found, list):
        raise FormatError(f"{path}: the tensor {name!r} is not a list")
    return found
