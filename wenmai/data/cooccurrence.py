"""Co-occurrence counts of the words of a corpus, from which GloVe and PPMI are trained.

``<cache>/cooccurrences/<fingerprint>/`` holds the non-zero counts in square *tiles*, band of rows by band of rows, and
in a band tile by tile; within a tile they are in order of rows, then columns. ``places.bin`` (uint32) has row and
column within the tile, ``row << 16 | column``; ``weights.bin`` (float32) the counts; ``tiles.bin`` (int64) where each
tile begins, and the end. Of a symmetric matrix only the lower triangle is there. ``vocab.json`` says which word has
which row, ``counts.json`` what was counted. The folder is all that a training needs.

A corpus whose words and index do not fit the memory allowed is counted in parts, each written to disk as sorted rows,
which are then added up. The counts are sums of whole numbers (see :mod:`wenmai.kernels.counts`), so neither the memory
nor the number of threads changes a bit of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt, Le
from typing_extensions import Doc

from wenmai.config.effects import require_usual
from wenmai.data.cached import mapped, stored_head
from wenmai.text.vocab import Vocab

__all__ = ["VERSION", "Cooccurrences", "CountsConfig"]

VERSION = 1
_BLOCK = 1 << 22  # entries that are checked at once


@dataclass(frozen=True, kw_only=True, slots=True)
class CountsConfig:
    """Which pairs of words are counted, and with which weight."""

    window: Annotated[
        int, Ge(1), Le(1_000), Doc("words on each side that count; words outside the vocabulary are removed before")
    ] = 10
    sides: Annotated[
        Literal["both", "left", "right"], Doc("which neighbours are the context of a word: both sides, or one")
    ] = "both"
    weighting: Annotated[
        Literal["harmonic", "linear", "none"],
        Doc("a pair at distance d counts 1/d (GloVe), (window - d + 1)/window (as word2vec's dynamic windows), or 1"),
    ] = "harmonic"
    sample: Annotated[
        float, Ge(0), Doc("words with a larger fraction of the text f are subsampled, √(sample/f) stay; 0 keeps all")
    ] = 0.0
    subsampling: Annotated[
        Literal["dirty", "clean"],
        Doc("make windows after subsampling, so that they reach further (dirty), or before (clean)"),
    ] = "dirty"
    memory: Annotated[
        float, Gt(0), Doc("gigabytes for text and index while counting; a longer text is counted in parts")
    ] = 2.0

    def __post_init__(self) -> None:
        if not self.sample:
            require_usual(self, ("subsampling",), "sample=0", needed="sample=0.001")

    def identity(self, seed: int) -> list[Any]:
        """What the counts depend on, as JSON values; not the memory."""
        found: list[Any] = [self.window, self.sides, self.weighting]
        return [*found, self.sample, self.subsampling, seed] if self.sample else found


@dataclass(frozen=True, eq=False)
class Cooccurrences:
    """Co-occurrence counts on disk.

    Attributes:
        folder: Where they are.
        fingerprint: Of the corpus, the vocabulary and the settings.
        vocab: The word of each row and column.
        symmetric: Whether only the lower triangle is stored, the diagonal included.
        tile: Rows and columns of a tile.
        bounds: int64 [tiles * tiles + 1], memory-mapped: tile (r, c) is ``[bounds[t]:bounds[t + 1]]`` of the arrays
            below, with ``t = r * tiles + c``.
        places: uint32, memory-mapped: ``row << 16 | column`` within the tile.
        weights: float32, memory-mapped: the counts, above zero.
        diagonal: How many of the entries are on the diagonal.
        facts: What the corpus was (``sources``, ``text``, ``stats``) and what counting took (``counting``).
    """

    folder: Path
    fingerprint: str
    vocab: Vocab
    symmetric: bool
    tile: int
    bounds: npt.NDArray[np.int64]
    places: npt.NDArray[np.uint32]
    weights: npt.NDArray[np.float32]
    diagonal: int
    facts: dict[str, Any]

    @property
    def tiles(self) -> int:
        """Tiles side by side."""
        return -(-len(self.vocab) // self.tile)

    @property
    def non_zeros(self) -> int:
        """Non-zero counts of the whole matrix, both triangles."""
        return 2 * self.places.size - self.diagonal if self.symmetric else int(self.places.size)

    def describe(self) -> dict[str, Any]:
        """Returns what a run records of its data, as JSON values."""
        return self.facts

    def entries(self) -> Iterator[tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.float32]]]:
        """Yields rows, columns and counts of what is stored, tile by tile."""
        for tile in np.flatnonzero(np.diff(self.bounds)).tolist():
            begin, end = int(self.bounds[tile]), int(self.bounds[tile + 1])
            places = self.places[begin:end]
            row, column = divmod(tile, self.tiles)
            rows = (places >> np.uint32(16)).astype(np.int32) + np.int32(row * self.tile)
            columns = (places & np.uint32(0xFFFF)).astype(np.int32) + np.int32(column * self.tile)
            yield rows, columns, self.weights[begin:end]

    @classmethod
    def open(cls, folder: str | Path) -> "Cooccurrences":
        """Opens counts; checks the sizes of the files, and that every entry is inside the matrix.

        Raises:
            RunError: if the folder is missing, unfinished or damaged.
        """
        folder = Path(folder)
        with stored_head(folder, "counts.json", VERSION, "table of co-occurrences") as found:
            vocab = Vocab.load(folder / "vocab.json")
            tiles = -(-len(vocab) // int(found["tile"]))
            bounds = np.array(mapped(folder / "tiles.bin", "<i8", tiles * tiles + 1))
            entries = int(bounds[-1])
            if bounds[0] != 0 or (np.diff(bounds) < 0).any():
                raise ValueError("tiles.bin is not in order")
            counts = cls(
                folder=folder,
                fingerprint=str(found["fingerprint"]),
                vocab=vocab,
                symmetric=bool(found["symmetric"]),
                tile=int(found["tile"]),
                bounds=bounds,
                places=mapped(folder / "places.bin", "<u4", entries),
                weights=mapped(folder / "weights.bin", "<f4", entries),
                diagonal=int(found["diagonal"]),
                facts=dict(found["facts"]),
            )
            counts._check()
            return counts

    def _check(self) -> None:
        """Raises ValueError for an entry outside the matrix, which compiled code would access, or not above zero."""
        width, last = self.tile, len(self.vocab) - (self.tiles - 1) * self.tile
        for start in range(0, self.places.size, _BLOCK):
            places, weights = self.places[start : start + _BLOCK], self.weights[start : start + _BLOCK]
            if (places >> np.uint32(16)).max() >= width or (places & np.uint32(0xFFFF)).max() >= width:
                raise ValueError("places.bin has entries outside their tiles")
            if not (weights > 0).all() or not np.isfinite(weights).all():
                raise ValueError("weights.bin has counts that are not above zero")
        rows = self.places[self.bounds[-1 - self.tiles] :]
        ends = self.bounds[self.tiles :: self.tiles]
        starts = self.bounds[self.tiles - 1 :: self.tiles][: ends.size]
        columns = [self.places[begin:end] for begin, end in zip(starts, ends, strict=True)]
        if (rows >> np.uint32(16)).max(initial=0) >= last or any(
            (part & np.uint32(0xFFFF)).max(initial=0) >= last for part in columns
        ):
            raise ValueError("places.bin has entries outside the matrix")
