"""Counting the n-grams of an encoded corpus, in as many parts as memory requires."""

import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from wenmai.data.encoded_corpus import EncodedCorpus
from wenmai.kernels.ngrams import (
    context_rows,
    find_rows,
    lay_out,
    merge_rows,
    row_words,
    rows_before,
    sort_places,
    sort_rows,
)

__all__ = ["Rows", "count_rows"]

_PLACE_BYTES = 24  # of a part of the text: the word, its position twice, its row, and what is known of it
_FEWEST_PLACES, _MOST_PLACES = 1 << 16, (1 << 31) - 1

_Small = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Rows:
    """The distinct sequences of up to N words of a text, in order; see :mod:`wenmai.kernels.ngrams`.

    Attributes:
        shared: (rows) uint8.
        length: (rows) uint8.
        times: (rows) uint32 or int64.
        before: (rows) uint32.
        last_words: (rows) uint32.
        parts: Number of parts the text was counted in.
    """

    shared: npt.NDArray[np.uint8]
    length: npt.NDArray[np.uint8]
    times: npt.NDArray[np.integer]
    before: npt.NDArray[np.uint32]
    last_words: npt.NDArray[np.uint32]
    parts: int


def count_rows(
    corpus: EncodedCorpus,
    word_of_type: npt.NDArray[np.int32],
    vocabulary: int,
    order: int,
    *,
    memory_bytes: int,
    folder: Path,
    advance: Callable[[int], None] = lambda tokens: None,
) -> Rows:
    """Counts the n-grams of a corpus.

    Args:
        corpus: The text.
        word_of_type: The word of each type.
        vocabulary: V.
        order: N.
        memory_bytes: For the text and its positions; parts are merged on disk.
        folder: Where the parts are stored meanwhile.
        advance: Called with the number of tokens counted since.
    """
    most_words = min(max(_FEWEST_PLACES, memory_bytes // _PLACE_BYTES), _MOST_PLACES)
    texts = _texts(corpus, word_of_type, most_words)
    text, tokens, is_all = next(texts)
    if is_all:
        rows = _in_memory(text, vocabulary, order)
        advance(tokens)
        return rows
    with tempfile.TemporaryDirectory(prefix=".parts-", suffix=".tmp", dir=folder) as place:
        parts = _Parts(Path(place), order)
        while True:
            parts.add(text, vocabulary)
            advance(tokens)
            following = next(texts, None)
            if following is None:
                break
            text, tokens, _ = following
        del text
        return parts.merged(vocabulary)


def _texts(
    corpus: EncodedCorpus, word_of_type: npt.NDArray[np.int32], most_words: int
) -> Iterator[tuple[npt.NDArray[np.int32], int, bool]]:
    """Yields the text in parts of whole sentences: words, how many tokens they come from, and whether that is all.

    A part has at most ``most_words`` words, unless a sentence alone has more.
    """
    starts = np.asarray(corpus.starts)
    ends = starts + 2 * np.arange(starts.size)  # with the marks
    first = 0
    while first < starts.size - 1:
        last = max(first + 1, int(np.searchsorted(ends, ends[first] + most_words, side="right")) - 1)
        text = np.empty(int(ends[last] - ends[first]), np.int32)
        begin, end = int(starts[first]), int(starts[last])
        count = lay_out(corpus.read(begin, end), starts[first : last + 1] - begin, word_of_type, text)
        yield text[:count], end - begin, first == 0 and last == starts.size - 1
        first = last


def _sorted_rows(
    text: npt.NDArray[np.int32], vocabulary: int, order: int
) -> tuple[
    npt.NDArray[np.int32], npt.NDArray[np.uint8], npt.NDArray[np.uint8], npt.NDArray[np.uint32], npt.NDArray[np.int32]
]:
    """Returns a place of each row, what it shares, its length, its count, and the row of each place."""
    places, spare = np.empty(text.size, np.int32), np.empty(text.size, np.int32)
    found = sort_places(text, order, vocabulary, places, spare)
    row_of_place = spare if found is places else places
    shared, length = (np.empty(text.size, np.uint8) for _ in range(2))
    times = np.empty(text.size, np.uint32)
    rows = find_rows(text, found, order, shared, length, times, row_of_place)
    return found[:rows], shared[:rows], length[:rows], times[:rows], row_of_place


def _in_memory(text: npt.NDArray[np.int32], vocabulary: int, order: int) -> Rows:
    places, shared, length, times, row_of_place = _sorted_rows(text, vocabulary, order)
    before, last_words = (np.empty(places.size, np.uint32) for _ in range(2))
    rows_before(text, places, row_of_place, before, last_words)
    return Rows(shared, length, times, before, last_words, parts=1)


class _Parts:
    """Rows of parts of a text, in files that are merged in pairs.

    Args:
        folder: Where they are.
        order: N.
    """

    def __init__(self, folder: Path, order: int) -> None:
        self._folder = folder
        self._order = order
        self._waiting: list[tuple[Path, int, int]] = []  # file, rows, how many parts it is made of
        self._made = 0
        self._parts = 0

    def add(self, text: npt.NDArray[np.int32], vocabulary: int) -> None:
        """Counts a part of the text, and merges files that are made of as many parts."""
        places, _, length, times, _ = _sorted_rows(text, vocabulary, self._order)
        path = self._new()
        words, counts = _row_file(path, places.size, self._order, "w+")
        row_words(text, places, length, words)
        counts[:] = times
        self._parts += 1
        self._waiting.append((path, places.size, 1))
        while len(self._waiting) > 1 and self._waiting[-1][2] == self._waiting[-2][2]:
            self._merge_two()

    def merged(self, vocabulary: int) -> Rows:
        """Merges what is left, and describes the rows."""
        while len(self._waiting) > 1:
            self._merge_two()
        path, rows, _ = self._waiting[0]
        words, counts = _row_file(path, rows, self._order, "r")
        shared, length = (np.empty(rows, np.uint8) for _ in range(2))
        first, second, before = (np.empty(rows, np.uint32) for _ in range(3))
        context_rows(words, sort_rows(words, vocabulary, first, second), shared, length, before)
        return Rows(shared, length, np.array(counts), before, words[:, 0].astype(np.uint32), parts=self._parts)

    def _merge_two(self) -> None:
        (left, left_rows, some), (right, right_rows, more) = self._waiting[-2:]
        path = self._new()
        merged = _row_file(path, left_rows + right_rows, self._order, "w+")
        rows = merge_rows(
            *_row_file(left, left_rows, self._order, "r"), *_row_file(right, right_rows, self._order, "r"), *merged
        )
        left.unlink()
        right.unlink()
        self._waiting[-2:] = [(path, rows, some + more)]

    def _new(self) -> Path:
        self._made += 1
        return self._folder / f"rows-{self._made}"


def _row_file(path: Path, rows: int, order: int, mode: str) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Maps a file of rows: their words, and how often each occurs; the file may be longer."""
    dtype = np.dtype([("words", "<i4", (order,)), ("times", "<i8")])
    if mode == "w+" and hasattr(os, "posix_fallocate"):
        with path.open("wb") as file:  # writing to a mapped file on a full disk kills the process
            os.posix_fallocate(file.fileno(), 0, rows * dtype.itemsize)
        mode = "r+"
    records = np.asarray(np.memmap(path, dtype, mode, shape=(rows,)))  # type: ignore[call-overload]
    return records["words"], records["times"]
