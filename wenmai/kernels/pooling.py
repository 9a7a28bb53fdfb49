"""Means of rows of a matrix: what fastText makes of a word or a text."""

import numpy as np
import numpy.typing as npt
from numba import njit

from wenmai.kernels.simd import LANE_BYTES, add, address, load, multiply_add, store, zeros

__all__ = ["mean_rows"]

_MADE_OF = "simd.py 0a572d10aeed"  # numba's cache checks this file alone: this line changes with the others
COMPILE = {"nogil": True, "cache": True, "error_model": "numpy", "boundscheck": False}
_SMALL_BYTES = 16  # rows are padded to multiples of four numbers at least


def mean_rows(
    matrix: npt.NDArray[np.float32], width: int, start: npt.NDArray[np.int64], rows: npt.NDArray[np.int32]
) -> npt.NDArray[np.float32]:
    """Returns the mean (B, width) of the rows ``rows[start[b]:start[b + 1]]`` of a matrix; zeros where there are none.

    Args:
        matrix: float32 (R, P), contiguous, P a multiple of 4 and at least ``width``.
        width: Columns that count.
        start: int64 [B + 1].
        rows: int32, row numbers.
    """
    means = np.zeros((len(start) - 1, matrix.shape[1]), np.float32)
    _means(matrix, start, rows, means)
    return np.ascontiguousarray(means[:, :width])


@njit(**COMPILE)
def _means(matrix, start, rows, means):
    """Sums some columns of all rows of a text at a time: the sum stays in a register, and the rows come unhindered."""
    row_bytes = np.int64(4 * matrix.shape[1])
    first, target = address(matrix), address(means)
    for number in range(means.shape[0]):
        begin, end = start[number], start[number + 1]
        if begin == end:
            continue
        scale = np.float32(1.0) / np.float32(end - begin)
        offset = np.int64(0)
        while offset + LANE_BYTES <= row_bytes:
            total = zeros(16)
            for place in range(begin, end):
                total = add(total, load(first + np.int64(rows[place]) * row_bytes + offset, total))
            store(target + number * row_bytes + offset, multiply_add(scale, total, zeros(16)))
            offset += LANE_BYTES
        while offset < row_bytes:
            small = zeros(4)
            for place in range(begin, end):
                small = add(small, load(first + np.int64(rows[place]) * row_bytes + offset, small))
            store(target + number * row_bytes + offset, multiply_add(scale, small, zeros(4)))
            offset += _SMALL_BYTES
