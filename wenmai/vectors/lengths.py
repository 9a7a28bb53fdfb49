"""Lengths of vectors and the cosines between them, right also for tiny and huge numbers."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["Vector", "cosine", "cosines", "inverse", "lengths_of", "unit", "unit_rows"]

Vector = NDArray[np.float32]

SMALLEST_LENGTH = float(np.finfo(np.float32).tiny)  # a shorter vector counts as zero: one over its length overflows


def lengths_of(rows: Vector) -> Vector:
    """Returns the Euclidean lengths (V,) of rows (V, d), also where squares leave the range of float32."""
    with np.errstate(over="ignore"):
        squares = np.einsum("ij,ij->i", rows, rows)
    doubtful = np.flatnonzero(~((squares > 1e-30) & (squares < np.inf)))
    lengths: Vector = np.sqrt(squares)
    with np.errstate(over="ignore"):
        for start in range(0, len(doubtful), 4096):
            chosen = doubtful[start : start + 4096]
            lengths[chosen] = np.linalg.norm(rows[chosen].astype(np.float64), axis=1)
    return lengths


def inverse(lengths: Vector) -> Vector:
    """Returns one over each length, 0 for a zero vector."""
    found = np.zeros_like(lengths)
    np.divide(1, lengths, out=found, where=lengths >= SMALLEST_LENGTH)
    return found


def unit(vector: NDArray[np.floating]) -> Vector:
    """Returns a vector scaled to length 1; a zero vector stays zero."""
    wide = vector.astype(np.float64)
    length = float(np.linalg.norm(wide))
    return (wide / length if length > 0 else wide).astype(np.float32)


def unit_rows(rows: Vector) -> Vector:
    """Returns rows (V, d) scaled to length 1; those that are zero stay zero."""
    return rows * inverse(lengths_of(rows))[:, None]


def cosine(first: NDArray[np.floating], second: NDArray[np.floating]) -> float:
    """Returns the cosine of two vectors (d,), exactly 1 of a vector and itself, and 0 if one is zero."""
    left, right = first.astype(np.float64), second.astype(np.float64)
    squares = float(left @ left), float(right @ right)
    if min(squares) < SMALLEST_LENGTH**2:
        return 0.0
    return float(left @ right) / float(np.sqrt(squares[0] * squares[1]))


def cosines(first: NDArray[np.floating], second: NDArray[np.floating]) -> NDArray[np.float64]:
    """Returns the cosines (n,) of the rows of two matrices (n, d), in float64, as rounding may not make ties."""
    left, right = first.astype(np.float64), second.astype(np.float64)
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    found = np.zeros(len(left))
    np.divide(np.einsum("ij,ij->i", left, right), lengths, out=found, where=lengths > 0)
    return found
