"""Arrays in safetensors files.

Writing streams row by row: saving a model must not need a second copy of it in memory, which the library's writer
makes. Reading is the library's, after the file's own size claims have been compared with its real size.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import FormatError
from wenmai.core.folder import plain_file, writing

__all__ = ["read_tensor_into", "require_finite", "require_numbers", "tensor_file", "tensor_shapes", "write_tensors"]

_NAMES = {
    np.dtype("<f4"): "F32",
    np.dtype("<f8"): "F64",
    np.dtype("<i4"): "I32",
    np.dtype("<i8"): "I64",
    np.dtype("u1"): "U8",
}
_BLOCK_BYTES = 1 << 22


def write_tensors(path: str | Path, tensors: Mapping[str, npt.NDArray[np.generic]], *, library: str = "np") -> None:
    """Writes a safetensors file, completely or not at all.

    Args:
        path: Where.
        tensors: Name to array; rows may be strided (a slice of padded rows), the file holds them dense.
        library: The framework they are for; some readers require ``pt``.
    """
    header: dict[str, object] = {"__metadata__": {"format": library}}
    start = 0
    for name, tensor in tensors.items():
        end = start + tensor.size * tensor.dtype.itemsize
        header[name] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
        start = end
    encoded = json.dumps(header, separators=(",", ":")).encode()
    encoded += b" " * (-len(encoded) % 8)
    with writing(path) as file:
        file.write(len(encoded).to_bytes(8, "little") + encoded)
        for tensor in tensors.values():
            step = max(1, _BLOCK_BYTES // max(1, tensor[:1].nbytes))
            for row in range(0, len(tensor), step):
                file.write(np.ascontiguousarray(tensor[row : row + step]).data)


def tensor_file(path: str | Path) -> Path:
    """Makes sure that a file of tensors may be read; the library would say that there is none.

    Raises:
        FormatError: if reading it is not permitted.
        OSError: if it is missing, or no file.
    """
    try:
        with plain_file(path).open("rb"):
            return Path(path)
    except PermissionError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror})") from None


def tensor_shapes(path: str | Path) -> dict[str, tuple[int, ...]]:
    """Returns the name and shape of each tensor of a file.

    Raises:
        FormatError: if it is missing, truncated, or not a safetensors file.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(tensor_file(path)), framework="np") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118  no iterator
    except MemoryError:  # it is mapped whole, whatever is in it
        raise FormatError(f"{path}: is larger than the memory that there is") from None
    except (OSError, SafetensorError) as error:
        raise FormatError(f"{path}: is not a whole safetensors file ({error})") from None


def require_finite(path: str | Path, name: str, values: npt.NDArray[Any]) -> None:
    """Makes sure that the numbers of a model are numbers: one that is not spoils each that it is added to.

    Args:
        path: The file that they are from.
        name: What they are called there.
        values: The numbers; those that are not floating-point are fine.

    Raises:
        FormatError: if one is NaN or infinite.
    """
    if not np.issubdtype(values.dtype, np.floating):
        return
    rows = np.atleast_1d(values)
    step = max(1, _BLOCK_BYTES // max(1, rows[:1].nbytes))
    for row in range(0, len(rows), step):
        block = rows[row : row + step]
        if not np.isfinite(block).all():
            raise FormatError(f"{path}: {name} has numbers that are not finite; copy or train the model again")


def require_numbers(are_numbers: bool) -> None:
    """Makes sure that what a model computed are numbers: weights may be finite, and yet too large to compute with.

    Raises:
        FormatError: if they are not.
    """
    if not are_numbers:
        raise FormatError(
            "the model computes no numbers (NaN): its weights are damaged, or its training diverged; copy or train it "
            "again"
        )


def read_tensor_into(path: str | Path, name: str, target: npt.NDArray[Any]) -> None:
    """Fills ``target``, whose rows may be strided, with a tensor of its shape and type, a block of rows at a time.

    Raises:
        FormatError: if the file is damaged, lacks the tensor, has it in another shape or type, or with numbers that are
            not finite.
    """
    from safetensors import SafetensorError, safe_open

    shape = tensor_shapes(path).get(name)
    if shape != target.shape:
        found = "is missing" if shape is None else f"has the shape {shape}"
        raise FormatError(f"{path}: the tensor {name!r} {found}, expected {target.shape}")
    try:
        with safe_open(str(tensor_file(path)), framework="np") as file:
            stored = file.get_slice(name)
            if stored.get_dtype() != (wanted := _NAMES[target.dtype]):
                raise FormatError(f"{path}: the tensor {name!r} is {stored.get_dtype()}, expected {wanted}")
            step = max(1, _BLOCK_BYTES // max(1, target[:1].nbytes))
            for row in range(0, len(target), step):
                end = min(row + step, len(target))
                target[row:end] = block = stored[row:end]
                require_finite(path, name, block)
    except (OSError, SafetensorError) as error:
        raise FormatError(f"{path}: cannot be read ({error})") from None
