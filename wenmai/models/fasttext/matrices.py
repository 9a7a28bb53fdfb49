"""A matrix of parameters in memory: padded rows of numbers, or quantised ones."""

from typing import TYPE_CHECKING, TypeAlias, Union

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from wenmai.kernels.quantise import QuantisedRows

__all__ = ["Matrix", "padded_size", "zero_rows"]

Matrix: TypeAlias = Union[npt.NDArray[np.float32], "QuantisedRows"]
_VECTOR_FLOATS, _ROW_FLOATS = 16, 4  # rows are padded to multiples of one or the other, see kernels/window.py
_PADDING_BYTES = 1 << 23  # of a matrix, at most, for the sake of speed


def zero_rows(rows: int, vector_size: int) -> npt.NDArray[np.float32]:
    """Returns zeros (rows, :func:`padded_size`)."""
    from wenmai.kernels.window import aligned_rows

    zeros: npt.NDArray[np.float32] = aligned_rows(rows, padded_size(rows, vector_size))
    return zeros


def padded_size(rows: int, vector_size: int) -> int:
    """Floats that a row takes in memory: whole SIMD vectors, unless that takes much memory."""
    whole = -(-vector_size // _VECTOR_FLOATS) * _VECTOR_FLOATS
    if 4 * rows * (whole - vector_size) <= _PADDING_BYTES:
        return whole
    return -(-vector_size // _ROW_FLOATS) * _ROW_FLOATS
