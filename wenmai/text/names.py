"""Names found in texts: the longest name of a list that stands at a place, from left to right.

A name stands where no word goes on at its ends: ``Ann`` is not in ``Annual``. Scripts without spaces between words,
such as Chinese, have no such ends.
"""

import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache

import numpy as np
import numpy.typing as npt

__all__ = ["Codes", "NameMatcher", "Spans", "codes_of", "in_words", "spaces"]

Codes = npt.NDArray[np.uint32]
Bools = npt.NDArray[np.bool_]
Spans = npt.NDArray[np.int64]

_PLANE = 1 << 16  # the characters of tables; those beyond are taken for its last one, which is none
_BUCKETS = 1 << 20
_PREFIXES = (8, 4, 2, 1)
_LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_UNSPACED = ((0xE00, 0xEFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3005, 0x3007), (0x3040, 0x30FF), (0x3400, 0x9FFF),
             (0xF900, 0xFAFF), (0xFF66, 0xFF9F))  # fmt: skip


def codes_of(text: str) -> Codes:
    """Returns the code points of a text, (N,)."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")


def in_words(codes: Codes) -> Bools:
    """Returns which characters are letters, digits and marks of scripts with spaces between words."""
    return _inner()[np.minimum(codes, _PLANE - 1)]


def spaces(codes: Codes) -> Bools:
    """Returns which characters are white space."""
    return _white()[np.minimum(codes, _PLANE - 1)]


class NameMatcher:
    """Finds names.

    Args:
        names: The names, each with a space between its words; empty ones are left out.
        fold: Whether upper and lower case are the same.
    """

    def __init__(self, names: Iterable[str], *, fold: bool = False) -> None:
        self._fold = fold
        folded = (folded_as_long(name) if fold else name for name in names)
        self.names = frozenset(name for one in folded if (name := " ".join(one.split())))
        lengths: dict[str, set[int]] = {}
        for name in self.names:
            lengths.setdefault(name[: _prefix_of(name)], set()).add(len(name))
        self._lengths = {prefix: tuple(sorted(sizes, reverse=True)) for prefix, sizes in lengths.items()}
        self._begins = {size: np.zeros(_BUCKETS, np.bool_) for size in sorted({len(prefix) for prefix in lengths})}
        for prefix in self._lengths:
            for size, buckets in _buckets(codes_of(prefix)):
                if size == len(prefix):
                    self._begins[size][buckets] = True

    def spans(self, text: str, codes: Codes | None = None) -> Spans:
        """Returns where names begin and end in a text, (N, 2), in order and apart.

        Args:
            text: The text; no name goes on in another line.
            codes: Its code points, if they are known.
        """
        if self._fold:
            text, codes = folded_as_long(text), None
        codes = codes_of(text) if codes is None else codes
        if (other := _other_white()[np.minimum(codes, _PLANE - 1)]).any():  # names have plain spaces
            codes = np.where(other, np.uint32(ord(" ")), codes)
            text = codes.tobytes().decode("utf-32-le", "surrogatepass")
        if not len(codes) or not self.names:
            return np.zeros((0, 2), np.int64)
        possible = np.zeros(len(codes), np.bool_)
        for size, buckets in _buckets(codes):
            if size in self._begins:
                possible[: len(buckets)] |= self._begins[size][buckets]
        inner = in_words(codes)
        goes_on = np.zeros(len(codes) + 1, np.bool_)
        goes_on[1:-1] = inner[1:] & inner[:-1]
        found: list[tuple[int, int]] = []
        behind = 0
        for place in np.flatnonzero(possible & ~goes_on[:-1]).tolist():
            if place < behind:
                continue
            end = self._end(text, place, goes_on)
            if end:
                found.append((place, end))
                behind = end
        return np.array(found, np.int64).reshape(-1, 2)

    def _end(self, text: str, place: int, goes_on: Bools) -> int:
        """Returns where the longest name ends that begins at a place; 0 if none does."""
        for size in _PREFIXES:
            for length in self._lengths.get(text[place : place + size], ()):
                end = place + length
                if end <= len(text) and text[place:end] in self.names and not goes_on[end]:
                    return end
        return 0


def folded_as_long(text: str) -> str:
    """Returns a text in lower case, each character in the place where it was."""
    return text.replace("\u0130", "i").lower()  # the only character with a longer small one


def _prefix_of(name: str) -> int:
    """Returns how many of its first characters a name is looked for by."""
    return next(size for size in _PREFIXES if size <= len(name))


def _buckets(codes: Codes) -> Iterator[tuple[int, npt.NDArray[np.uint32]]]:
    """Yields sizes of prefixes, and a number for the prefix of that size at each place that has one."""
    mixed = codes * np.uint32(0x9E3779B1)
    for size in sorted(_PREFIXES):
        if size > len(codes):
            return
        if size > 1:
            half = size // 2
            mixed = (mixed[:-half] ^ mixed[:-half] >> np.uint32(15)) * np.uint32(0x85EBCA77) + mixed[half:]
        yield size, mixed >> np.uint32(12)


@cache
def _inner() -> Bools:
    found = np.array([unicodedata.category(chr(code))[0] in "LMN" for code in range(_PLANE)])
    for first, last in _UNSPACED:
        found[first : last + 1] = False
    return found


@cache
def _white() -> Bools:
    return np.array([chr(code).isspace() for code in range(_PLANE)])


@cache
def _other_white() -> Bools:
    """White space within lines but the plain space, such as the no-break and the ideographic one."""
    found = _white().copy()
    found[[ord(one) for one in f" {_LINE_ENDS}"]] = False
    return found
