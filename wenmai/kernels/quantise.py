"""Product quantisation: a row as a few bytes, each of which names one of 256 centres for a part of the row.

Jégou, Douze, Schmid 2011, "Product Quantization for Nearest Neighbor Search"; as Joulin et al. 2016, "FastText.zip",
sec. 3.1 use it: with or without the rows' lengths kept apart in a byte of their own.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

__all__ = ["CENTRES", "QuantisedRows", "k_means", "quantise"]

COMPILE = {"nogil": True, "cache": True, "error_model": "numpy", "boundscheck": False}
CENTRES = 256
_ITERATIONS = 25
_MOST_ROWS = 65_536  # that k-means uses
_SEED = 1234
_SPLIT = np.float32(1e-7)
_BLOCK = 1 << 14


@dataclass(frozen=True, eq=False, slots=True)
class QuantisedRows:
    """The rows of a matrix as bytes.

    Attributes:
        codes: uint8 (R, M), the centre of each of the M parts of a row.
        centres: float32 [256 · d]: those of part m begin at ``256 · m · part``, each with the width of the part.
        width: d, numbers in a row.
        part: Numbers in a part; the last may have fewer.
        norm_codes: uint8 [R], the centre of each row's length, or None if the codes include it.
        norm_centres: float32 [256], or None.
    """

    codes: npt.NDArray[np.uint8]
    centres: npt.NDArray[np.float32]
    width: int
    part: int
    norm_codes: npt.NDArray[np.uint8] | None = None
    norm_centres: npt.NDArray[np.float32] | None = None

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and numbers in a row."""
        return len(self.codes), self.width

    def _norms(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32]]:
        if self.norm_codes is None or self.norm_centres is None:
            return np.empty(0, np.uint8), np.empty(0, np.float32)
        return self.norm_codes, self.norm_centres

    def dense(self) -> npt.NDArray[np.float32]:
        """The rows (R, d) that the codes stand for."""
        size = len(self)
        return self.means(np.arange(size + 1, dtype=np.int64), np.arange(size, dtype=np.int32))

    def means(self, start: npt.NDArray[np.int64], rows: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        """Returns the mean (B, d) of the rows ``rows[start[b]:start[b + 1]]``; zeros where there are none."""
        means = np.zeros((len(start) - 1, self.width), np.float32)
        _quantised_means(self.codes, self.centres, self.part, *self._norms(), start, rows, means)
        return means

    def tensors(self, prefix: str) -> dict[str, npt.NDArray[Any]]:
        """The arrays by name, for a file."""
        named: dict[str, npt.NDArray[Any]] = {"codes": self.codes, "centres": self.centres}
        if self.norm_codes is not None and self.norm_centres is not None:
            named |= {"norm_codes": self.norm_codes, "norm_centres": self.norm_centres}
        return {f"{prefix}.{name}": array for name, array in named.items()}

    @classmethod
    def empty(cls, rows: int, width: int, part: int, *, with_norms: bool) -> "QuantisedRows":
        """Arrays of the right sizes for a file to be read into."""
        return cls(
            np.empty((rows, -(-width // part)), np.uint8),
            np.empty(CENTRES * width, np.float32),
            width,
            part,
            np.empty(rows, np.uint8) if with_norms else None,
            np.empty(CENTRES, np.float32) if with_norms else None,
        )


@njit(**COMPILE)  # no fused operations: the sums are those of the reference implementation, to the bit
def _quantised_means(codes, centres, part, norm_codes, norm_centres, start, rows, means):
    width = means.shape[1]
    for number in range(means.shape[0]):
        begin, end = start[number], start[number + 1]
        if begin == end:
            continue
        total = means[number]
        for place in range(begin, end):
            row = np.int64(rows[place])
            norm = np.float32(1.0)
            if norm_codes.shape[0] > 0:
                norm = norm_centres[norm_codes[row]]
            for first in range(0, width, part):
                size = min(part, width - first)
                centre = CENTRES * first + np.int64(codes[row, first // part]) * size
                for column in range(size):
                    total[first + column] += norm * centres[centre + column]
        scale = np.float32(1.0) / np.float32(end - begin)
        for column in range(width):
            total[column] *= scale


# --- making codes -----------------------------------------------------------------------------------------------


def quantise(matrix: npt.NDArray[np.float32], part: int, *, with_norms: bool, seed: int = _SEED) -> QuantisedRows:
    """Quantises the rows of a matrix.

    Args:
        matrix: float32 (R, d), R at least 256.
        part: Numbers in a part of a row, at least 1.
        with_norms: Keep the rows' lengths apart, as one byte each, and quantise directions.
        seed: Decides the rows that k-means uses and its first centres.
    """
    norm_codes, norm_centres = None, None
    if with_norms:
        norms = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
        matrix = (matrix / np.where(norms > 0, norms, 1)[:, None]).astype(np.float32)
        centres_of_norms, norm_codes = _part(norms[:, None], seed)
        norm_centres = centres_of_norms.ravel()
    width = matrix.shape[1]
    codes = np.empty((len(matrix), -(-width // part)), np.uint8)
    centres = np.empty(CENTRES * width, np.float32)
    for number, first in enumerate(range(0, width, part)):
        found, codes[:, number] = _part(matrix[:, first : first + part], seed + number)
        centres[CENTRES * first : CENTRES * first + found.size] = found.ravel()
    return QuantisedRows(codes, centres, width, part, norm_codes, norm_centres)


def _part(values: npt.NDArray[np.float32], seed: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.uint8]]:
    """The centres (256, w) of a part, and the nearest of each row."""
    chosen = np.random.default_rng(seed).permutation(len(values))[:_MOST_ROWS]
    centres = k_means(np.ascontiguousarray(values[chosen]))
    codes = np.empty(len(values), np.uint8)
    for start in range(0, len(values), _BLOCK):
        block = np.ascontiguousarray(values[start : start + _BLOCK])
        codes[start : start + _BLOCK] = _nearest(block, centres)
    return centres, codes


def k_means(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Returns 256 centres of rows in random order, the first of which are where they begin.

    25 rounds; a centre without rows takes half of a large one's.
    """
    centres = values[:CENTRES].copy()
    for _ in range(_ITERATIONS):
        _recentre(values, _nearest(values, centres), centres)
    return centres


def _nearest(values: npt.NDArray[np.float32], centres: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    """The number of the centre nearest to each row."""
    nearest = np.empty(len(values), np.uint8)
    _assign(values, np.ascontiguousarray(centres.T), nearest)
    return nearest


@njit(fastmath=True, **COMPILE)
def _assign(values, centres, nearest):
    """Centres (w, 256) lie column by column, so that the distances of a row to all of them are vector code."""
    distances = np.empty(centres.shape[1], np.float32)
    for row in range(values.shape[0]):
        distances[:] = np.float32(0.0)
        for column in range(values.shape[1]):
            value = values[row, column]
            for centre in range(centres.shape[1]):
                gap = value - centres[column, centre]
                distances[centre] += gap * gap
        smallest = distances[0]
        for centre in range(1, centres.shape[1]):
            smallest = min(smallest, distances[centre])
        for centre in range(centres.shape[1]):
            if distances[centre] == smallest:
                nearest[row] = centre
                break


@njit(**COMPILE)
def _recentre(values, nearest, centres):
    """Moves each centre to the mean of its rows, and an empty one beside a centre drawn by its size."""
    width = values.shape[1]
    counts = np.zeros(centres.shape[0], np.int64)
    sums = np.zeros(centres.shape, np.float64)
    for row in range(values.shape[0]):
        counts[nearest[row]] += 1
        for column in range(width):
            sums[nearest[row], column] += values[row, column]
    for centre in range(centres.shape[0]):
        if counts[centre] > 0:
            for column in range(width):
                centres[centre, column] = sums[centre, column] / counts[centre]
    for centre in range(centres.shape[0]):
        if counts[centre] == 0:
            largest = np.argmax(counts)
            for column in range(width):
                aside = _SPLIT if column % 2 == 0 else -_SPLIT
                centres[centre, column] = centres[largest, column] + aside
                centres[largest, column] -= aside
            counts[centre] = counts[largest] // 2
            counts[largest] -= counts[centre]
