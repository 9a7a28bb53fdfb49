"""How rows of vectors lie in memory, for kernels that read whole SIMD vectors (:mod:`wenmai.kernels.window`)."""

__all__ = ["VECTOR_FLOATS", "padded_size"]

VECTOR_FLOATS = 16  # of the widest SIMD vector; a row may be read that far past its end
_ROW_FLOATS = 4  # of which a row takes a multiple at least
_PADDING_BYTES = 1 << 23  # of a matrix, at most, for the sake of speed


def padded_size(rows: int, vector_size: int) -> int:
    """Returns the floats that each of so many rows takes in memory.

    Whole SIMD vectors, which begin on cache lines, are 5 to 20 % faster; where they would take much memory, rows are
    padded as little as the kernels allow.
    """
    whole = -(-vector_size // VECTOR_FLOATS) * VECTOR_FLOATS
    if 4 * rows * (whole - vector_size) <= _PADDING_BYTES:
        return whole
    return -(-vector_size // _ROW_FLOATS) * _ROW_FLOATS
