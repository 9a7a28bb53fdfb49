"""The words of an n-gram model, looked up without Python strings."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import FormatError
from wenmai.kernels.ngram_lookup import BEGIN, END, UNKNOWN, find_word, number_text, word_slots
from wenmai.text.vocab import WordTable

__all__ = ["SPECIALS", "Words", "mapped_file", "read_only"]

SPECIALS = ("<unk>", "<s>", "</s>")
_TEXT, _BOUNDS, _SLOTS = "words.txt", "word-bounds.bin", "word-slots.bin"
_UTF8 = ("utf-8", "surrogatepass")
_Scalar = TypeVar("_Scalar", bound=np.generic)


class Words(Sequence[str]):
    """Words by id and ids by word: ``<unk>``, ``<s>``, ``</s>``, then the others.

    Attributes:
        text: (bytes) uint8: the words in UTF-8, with a line feed after each.
        bounds: (V + 1) int64, where each begins.
        slots: (a power of two) uint32: a table in which words are found by their hash.
    """

    def __init__(
        self, text: npt.NDArray[np.uint8], bounds: npt.NDArray[np.int64], slots: npt.NDArray[np.uint32]
    ) -> None:
        self.text, self.bounds, self.slots = read_only(text), read_only(bounds), read_only(slots)

    @classmethod
    def of(cls, words: Iterable[str]) -> "Words":
        """Makes a table of distinct words, the specials first; none has a line feed."""
        return cls._of_lines(*(words if isinstance(words, WordTable) else WordTable(words)).lines())

    @classmethod
    def of_bytes(cls, encoded: Sequence[bytes]) -> "Words":
        """Makes a table of distinct words as they are spelled in a file; none has a line feed."""
        bounds = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(word) + 1 for word in encoded], out=bounds[1:])
        return cls._of_lines(b"".join([word + b"\n" for word in encoded]), bounds)

    @classmethod
    def _of_lines(cls, lines: bytes, starts: npt.NDArray[np.integer]) -> "Words":
        text, bounds = np.frombuffer(lines, np.uint8), starts.astype(np.int64)
        slots = np.zeros(_places(bounds.size - 1), np.uint32)
        word_slots(text, bounds, slots)
        return cls(text, bounds, slots)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> "str | list[str]":
        if isinstance(place, slice):
            return [self[number] for number in range(*place.indices(len(self)))]
        number = range(len(self))[place]
        begin, end = int(self.bounds[number]), int(self.bounds[number + 1]) - 1
        return self.text[begin:end].tobytes().decode("utf-8", "replace")

    def __len__(self) -> int:
        return self.bounds.size - 1

    def get(self, word: str) -> int | None:
        """The id of a word, or None if it is unknown."""
        raw = np.frombuffer(word.encode(*_UTF8), np.uint8)
        found = int(find_word(self.text, self.bounds, self.slots, raw, 0, raw.size))
        return found if found >= 0 else None

    def number(
        self, lines: str, *, unknown_is_word: bool = True
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Splits lines at white space and encodes their words.

        Args:
            lines: Each ends with a line feed.
            unknown_is_word: Whether ``<unk>`` in the lines is a known word.

        Returns:
            The ids, ``</s>`` for each line feed, and for unknown words their bytes and one more, else 0.
        """
        raw = np.frombuffer(lines.encode(*_UTF8), np.uint8)
        words, spelled = np.empty(raw.size, np.int32), np.empty(raw.size, np.int32)
        count = number_text(self.text, self.bounds, self.slots, raw, unknown_is_word, words, spelled)
        return words[:count], spelled[:count]

    def save(self, folder: Path) -> None:
        """Writes the three files."""
        self.text.tofile(folder / _TEXT)
        self.bounds.astype("<i8").tofile(folder / _BOUNDS)
        self.slots.astype("<u4").tofile(folder / _SLOTS)

    @classmethod
    def load(cls, folder: Path, size: int) -> "Words":
        """Maps what :meth:`save` wrote.

        Raises:
            FormatError: if a file is missing, or does not fit the others.
        """
        bounds = mapped_file(folder / _BOUNDS, np.dtype("<i8"), size + 1)
        text = mapped_file(folder / _TEXT, np.dtype("u1"), None)
        slots = mapped_file(folder / _SLOTS, np.dtype("<u4"), _places(size))
        if bounds[0] != 0 or bounds[-1] != text.size or (np.diff(bounds) < 2).any():
            raise FormatError(f"{folder / _BOUNDS}: does not fit {_TEXT}")
        words = cls(text, bounds, slots)
        if size < len(SPECIALS) or any(words[number] != SPECIALS[number] for number in (UNKNOWN, BEGIN, END)):
            raise FormatError(f"{folder / _TEXT}: does not begin with {', '.join(SPECIALS)}")
        return words


def _places(words: int) -> int:
    """The size of a table of words: a power of two, at most half full."""
    return 1 << max(4, (2 * words).bit_length())


def mapped_file(path: Path, dtype: np.dtype[np.generic], size: int | None) -> Any:  # noqa: ANN401  an array
    """Maps a file of ``size`` records into memory; None: of however many it has.

    Raises:
        FormatError: if it is missing or has another size.
    """
    try:
        found = path.stat().st_size
        if size is None:
            size = found // dtype.itemsize
        if found != size * dtype.itemsize:
            raise FormatError(f"{path}: has {found} bytes, expected {size * dtype.itemsize}")
        return read_only(np.asarray(np.memmap(path, dtype, "r", shape=(size,))) if size else np.zeros(0, dtype))
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror})") from None


def read_only(array: npt.NDArray[_Scalar]) -> npt.NDArray[_Scalar]:
    """Returns a view that cannot be written, as files cannot: kernels are compiled once for models made and read."""
    view = array.view()
    view.flags.writeable = False
    return view
