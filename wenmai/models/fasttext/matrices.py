"""A matrix of parameters in memory: padded rows of numbers, or quantised ones."""

import mmap
from typing import TYPE_CHECKING, TypeAlias, Union

import numpy as np
import numpy.typing as npt

from wenmai.vectors.padding import VECTOR_FLOATS, padded_size

if TYPE_CHECKING:
    from wenmai.kernels.quantise import QuantisedRows

__all__ = ["Matrix", "misnamed_buckets", "rows_to_fill", "zero_rows"]

Matrix: TypeAlias = Union[npt.NDArray[np.float32], "QuantisedRows"]


def zero_rows(rows: int, vector_size: int) -> npt.NDArray[np.float32]:
    """Returns zeros (rows, ``padded_size``) that begin on a cache line; a SIMD vector may be read past the end."""
    from wenmai.kernels.window import aligned_rows

    zeros: npt.NDArray[np.float32] = aligned_rows(rows, padded_size(rows, vector_size))
    return zeros


def rows_to_fill(rows: int, vector_size: int) -> npt.NDArray[np.float32]:
    """Returns zeros as :func:`zero_rows` does, for a model that is read, without loading a compiler.

    They lie in pages of the ordinary size: numpy asks for huge ones, which are good for training, but the system may
    have to make them first, and that takes longer than reading the model.
    """
    padded = padded_size(rows, vector_size)
    size = 4 * (rows * padded + VECTOR_FLOATS)
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    memory = np.frombuffer(mmap.mmap(-1, size, **private), np.float32)
    return memory[: rows * padded].reshape(rows, padded)


def misnamed_buckets(kept: npt.NDArray[np.int32], buckets: int) -> tuple[str, int] | None:
    """Returns what is wrong with a list (K, 2) of the buckets that are kept and their new rows.

    Kernels trust it, so whoever reads one asks before.

    Returns:
        Which of them, ``buckets`` or ``rows``, are named twice, or not from 0 to below a limit, and that; none: all is
        well.
    """
    for column, limit, what in ((0, buckets, "buckets"), (1, len(kept), "rows")):
        ids = np.sort(kept[:, column])
        if len(ids) and (ids[0] < 0 or ids[-1] >= limit or np.any(ids[1:] == ids[:-1])):
            return what, limit
    return None
