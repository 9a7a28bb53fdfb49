"""The words of a converter with their readings, as a trie of syllables; see :mod:`wenmai.kernels.pinyin_words`."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import FormatError
from wenmai.core.tensors import read_tensor_into, tensor_shapes, write_tensors
from wenmai.kernels.pinyin_words import MAX_SYLLABLES

__all__ = ["LEXICON", "Lexicon", "Reading"]

LEXICON = "lexicon.safetensors"
_TYPES: dict[str, npt.DTypeLike] = {  # of the arrays that are written
    "first": "<i4",
    "syllables": "<i4",
    "entries": "<i4",
    "weights": "<f4",
    "tones": "<i8",
    "bounds": "<i4",
    "codes": "<i4",
}
_DAMAGED = "does not hold the words of a converter; copy or train the model again"


class Reading(NamedTuple):
    """A word with one of its readings.

    Attributes:
        word: Its characters.
        syllables: Its syllables without their tones, 1 to 16; of erhua the last is ``r``.
        tones: Their tones, 1 to 5.
        weight: What it adds to the score of a path, a log-probability times its weight.
    """

    word: str
    syllables: tuple[str, ...]
    tones: tuple[int, ...]
    weight: float


class Lexicon:
    """Words by their syllables.

    Attributes:
        inventory: The syllables that there are, in the order of the alphabet.
        first: (nodes + 1) uint32, the first child of each node, see :mod:`wenmai.kernels.pinyin_words`.
        syllables: (nodes) uint32.
        entries: (nodes + 1) uint32.
        weights: (words) float32.
        tones: (words) uint64.
        bounds: (words + 1) uint32, where each word begins in ``codes``.
        codes: (characters) uint32, the characters of the words by their code points.
    """

    def __init__(self, inventory: Sequence[str], arrays: dict[str, npt.NDArray[Any]]) -> None:
        self.inventory = tuple(inventory)
        self._places = {syllable: place for place, syllable in enumerate(self.inventory)}
        self.first: npt.NDArray[np.uint32] = _frozen(arrays["first"].view("<u4"))
        self.syllables: npt.NDArray[np.uint32] = _frozen(arrays["syllables"].view("<u4"))
        self.entries: npt.NDArray[np.uint32] = _frozen(arrays["entries"].view("<u4"))
        self.weights: npt.NDArray[np.float32] = _frozen(arrays["weights"])
        self.tones: npt.NDArray[np.uint64] = _frozen(arrays["tones"].view("<u8"))
        self.bounds: npt.NDArray[np.uint32] = _frozen(arrays["bounds"].view("<u4"))
        self.codes: npt.NDArray[np.uint32] = _frozen(arrays["codes"].view("<u4"))

    def __len__(self) -> int:
        return self.weights.size

    @classmethod
    def of(cls, inventory: Sequence[str], readings: Iterable[Reading]) -> Self:
        """Makes a lexicon.

        Args:
            inventory: The syllables, sorted.
            readings: The words; those with syllables that are not of the inventory are left out.
        """
        number = {syllable: place for place, syllable in enumerate(inventory)}
        kept = [
            one for one in readings if 0 < len(one.syllables) <= MAX_SYLLABLES and number.keys() >= {*one.syllables}
        ]
        keys = np.full((len(kept), MAX_SYLLABLES), -1, np.int32)
        for row, one in enumerate(kept):
            keys[row, : len(one.syllables)] = [number[syllable] for syllable in one.syllables]
        weights = np.array([one.weight for one in kept], np.float32)
        lengths = np.array([len(one.syllables) for one in kept], np.int64)
        order = np.lexsort((-weights, *keys.T[::-1]))
        keys, lengths = keys[order], lengths[order]
        kept = [kept[place] for place in order.tolist()]
        first, syllables, node = _nodes(keys, lengths)
        by_node = np.argsort(node, kind="stable")
        kept = [kept[place] for place in by_node.tolist()]
        arrays = {
            "first": first,
            "syllables": syllables,
            "entries": np.searchsorted(node[by_node], np.arange(syllables.size + 1)),
            "weights": np.array([one.weight for one in kept]),
            "tones": np.array([_packed(one.tones) for one in kept], np.uint64).view(np.int64),
            "bounds": np.cumsum([0, *[len(one.word) for one in kept]]),
            "codes": np.frombuffer("".join([one.word for one in kept]).encode("utf-32-le"), "<i4"),
        }
        return cls(inventory, {name: array.astype(_TYPES[name]) for name, array in arrays.items()})

    def word(self, entry: int) -> str:
        """The characters of a word by its number."""
        return self.codes[self.bounds[entry] : self.bounds[entry + 1]].tobytes().decode("utf-32-le")

    def place_of(self, syllable: str) -> int:
        """The number of a syllable of the inventory; of one that is not there, that of none."""
        return self._places.get(syllable, len(self.inventory))

    def range_of(self, letters: str) -> tuple[int, int]:
        """Which syllables begin with letters: from the first to before the last."""
        return bisect_left(self.inventory, letters), bisect_left(self.inventory, letters + "\x7f")

    def lines(self) -> str:
        """The words, a line each."""
        text = self.codes.tobytes().decode("utf-32-le")
        bounds = self.bounds.tolist()
        return "".join([text[begin:end] + "\n" for begin, end in pairwise(bounds)])

    def characters_numbered(self, number_of: Callable[[str], int]) -> npt.NDArray[np.uint32]:
        """What a function says of each character of the words."""
        known, place = np.unique(self.codes, return_inverse=True)
        return _frozen(np.array([number_of(chr(code)) for code in known.tolist()], np.uint32)[place])

    def save(self, folder: Path) -> None:
        """Writes ``lexicon.safetensors`` into a folder."""
        write_tensors(folder / LEXICON, {name: getattr(self, name).view(kind) for name, kind in _TYPES.items()})

    @classmethod
    def load(cls, folder: Path, inventory: Sequence[str]) -> Self:
        """Reads what :meth:`save` wrote.

        Raises:
            FormatError: if the file is missing or damaged.
        """
        path = folder / LEXICON
        shapes = tensor_shapes(path)
        if shapes.keys() != _TYPES.keys() or any(len(shape) != 1 for shape in shapes.values()):
            raise FormatError(f"{path}: {_DAMAGED}")
        arrays = {name: np.empty(shapes[name], kind) for name, kind in _TYPES.items()}
        for name, array in arrays.items():
            read_tensor_into(path, name, array)
        nodes, words = arrays["syllables"].size, arrays["weights"].size
        if (
            not nodes
            or (arrays["first"].size, arrays["entries"].size) != (nodes + 1, nodes + 1)
            or (arrays["tones"].size, arrays["bounds"].size) != (words, words + 1)
            or not _rises(arrays["first"], 1, nodes)
            or (arrays["first"][:-1] <= np.arange(nodes)).any()
            or not _rises(arrays["entries"], 0, words)
            or not _rises(arrays["bounds"], 0, arrays["codes"].size)
            or _outside(arrays["syllables"], len(inventory))
            or _outside(arrays["codes"], 0x110000)
            or ((arrays["codes"] >= 0xD800) & (arrays["codes"] < 0xE000)).any()
        ):
            raise FormatError(f"{path}: {_DAMAGED}")
        return cls(inventory, arrays)


def _nodes(
    keys: npt.NDArray[np.int32], lengths: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Numbers the prefixes of sorted keys, the shortest first: their first children, last syllables; node of each key.

    The root is node 0.
    """
    rows = len(keys)
    firsts, syllables = [np.zeros(0, np.int64)], [np.zeros(1, np.int64)]
    of_row, node, nodes = np.zeros(rows, np.int64), np.zeros(rows, np.int64), 1
    begin_of_level = 0
    for depth in range(MAX_SYLLABLES + 1):
        level = nodes - begin_of_level
        node[lengths == depth] = of_row[lengths == depth]
        alive = np.flatnonzero(lengths > depth)
        column = keys[alive, min(depth, MAX_SYLLABLES - 1)].astype(np.int64)
        parent = of_row[alive]
        fresh = np.ones(alive.size, bool)
        fresh[1:] = (parent[1:] != parent[:-1]) | (column[1:] != column[:-1])
        children = parent[fresh]
        firsts.append(nodes + np.searchsorted(children, np.arange(begin_of_level, begin_of_level + level)))
        syllables.append(column[fresh])
        of_row[alive] = nodes + np.cumsum(fresh) - 1
        begin_of_level, nodes = nodes, nodes + children.size
        if not children.size:
            break
    return np.append(np.concatenate(firsts), nodes), np.concatenate(syllables), node


def _packed(tones: Sequence[int]) -> int:
    return sum(tone << 4 * place for place, tone in enumerate(tones))


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.flags.writeable = False
    return array


def _rises(array: npt.NDArray[Any], first: int, last: int) -> bool:
    return bool(array[0] == first and array[-1] == last and (np.diff(array) >= 0).all())


def _outside(array: npt.NDArray[Any], end: int) -> bool:
    return bool(array.size and (array.min() < 0 or array.max() >= end))
