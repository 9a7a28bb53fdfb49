"""Counting the n-grams of an encoded corpus: at once where memory allows, else in sorted parts on disk."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from wenmai.data.external_sort import SortedRuns
from wenmai.kernels.ngram_stream import row_keys
from wenmai.kernels.ngrams import find_rows, lay_out, rows_before, sort_places

__all__ = ["CountedText", "Rows", "count_in_parts", "count_rows", "places_of"]

_PLACE_BYTES = 20  # of a part of the text: the word, its position twice, and what is known of its row
_FEWEST_PLACES, _MOST_PLACES = 1 << 16, (1 << 31) - 1
_PIECE = 1 << 16  # rows that are written at once


class CountedText(Protocol):
    """Sentences of tokens, such as an encoded corpus."""

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """(sentences + 1) where each begins."""

    def read(self, start: int, end: int) -> npt.NDArray[np.int32]:
        """Returns the tokens from ``start`` to before ``end``; below 0 is one that was pruned."""

    def __len__(self) -> int: ...


@dataclass(frozen=True, eq=False)
class Rows:
    """The distinct sequences of up to N words of a text, in order; see :mod:`wenmai.kernels.ngrams`.

    Attributes:
        shared: (rows) uint8.
        length: (rows) uint8.
        times: (rows) uint32.
        before: (rows) uint32.
        last_words: (rows) uint32.
    """

    shared: npt.NDArray[np.uint8]
    length: npt.NDArray[np.uint8]
    times: npt.NDArray[np.uint32]
    before: npt.NDArray[np.uint32]
    last_words: npt.NDArray[np.uint32]


def places_of(corpus: CountedText) -> int:
    """Returns how many places a text has: its words, and two marks for each sentence."""
    return len(corpus) + 2 * (corpus.starts.size - 1)


def count_rows(
    corpus: CountedText,
    word_of_type: npt.NDArray[np.int32],
    vocabulary: int,
    order: int,
    *,
    advance: Callable[[int], None] = lambda tokens: None,
) -> Rows:
    """Counts the n-grams of a corpus in memory.

    Args:
        corpus: The text, of fewer than 2**31 places.
        word_of_type: The word of each type.
        vocabulary: V.
        order: N.
        advance: Called with the number of tokens that are counted.
    """
    text, _, tokens = next(_texts(corpus, word_of_type, order, _MOST_PLACES))
    places, shared, length, times, row_of_place = _sorted_rows(text, vocabulary, order)
    before, last_words = (np.empty(places.size, np.uint32) for _ in range(2))
    rows_before(text, places, row_of_place, before, last_words)
    advance(tokens)
    return Rows(shared, length, times, before, last_words)


def count_in_parts(
    corpus: CountedText,
    word_of_type: npt.NDArray[np.int32],
    vocabulary: int,
    order: int,
    *,
    memory_bytes: int,
    path: Path,
    advance: Callable[[int], None] = lambda tokens: None,
) -> SortedRuns:
    """Counts the n-grams of a corpus in parts: each is a run of rows, see :mod:`wenmai.kernels.ngram_stream`.

    Args:
        corpus: The text.
        word_of_type: The word of each type.
        vocabulary: V.
        order: N.
        memory_bytes: For a part.
        path: The file of the runs.
        advance: Called with the number of tokens that are counted.
    """
    runs, done = SortedRuns(path, order + 1, order), 0
    most = max(_FEWEST_PLACES, memory_bytes // _PLACE_BYTES)
    for text, known, tokens in _texts(corpus, word_of_type, order, most):
        _write_rows(runs, text, vocabulary, order, known)
        del text  # before the next is read
        done += tokens
        advance(done)
    return runs


def _write_rows(runs: SortedRuns, text: npt.NDArray[np.int32], vocabulary: int, order: int, known: int) -> None:
    """Writes the rows of a part as a run."""
    places, _, length, times, _ = _sorted_rows(text, vocabulary, order, known)
    for start in range(0, places.size, _PIECE):
        some = slice(start, start + _PIECE)
        rows = np.empty((places[some].size, order + 1), np.uint32)
        row_keys(text, places[some], length[some], times[some], rows)
        runs.write(rows)
    runs.end_run()


def _texts(
    corpus: CountedText, word_of_type: npt.NDArray[np.int32], order: int, most: int
) -> Iterator[tuple[npt.NDArray[np.int32], int, int]]:
    """Yields the text in parts of at most ``most`` places, cut between sentences where that is possible.

    Yields:
        Words; how many of them are only the context of the others, which is where a sentence was cut; and the number
        of tokens that are new.
    """
    sentences, sentence, begin = corpus.starts.size - 1, 0, 0
    while sentence < sentences:
        bounds = np.array(corpus.starts[sentence : sentence + min(most // 3, sentences) + 1])
        opened = begin - int(bounds[0])  # tokens of the sentence that earlier parts have
        bounds[0] = begin - min(opened, order - 1)
        known = begin - int(bounds[0]) + 1 if opened else 0
        whole = int(np.searchsorted(bounds[1:] - bounds[0] + 2 * np.arange(1, bounds.size), most, side="right"))
        bounds = bounds[: whole + 1] if whole else np.array([bounds[0], bounds[0] + most - 1])
        end = int(bounds[-1])
        yield _laid_out(corpus, bounds, word_of_type, is_whole=whole > 0), known, end - begin
        sentence, begin = sentence + whole, end


def _laid_out(
    corpus: CountedText, bounds: npt.NDArray[np.int64], word_of_type: npt.NDArray[np.int32], *, is_whole: bool
) -> npt.NDArray[np.int32]:
    """Returns sentences with their marks, the last without its end unless it is whole; nobody else holds them."""
    text = np.empty(int(bounds[-1] - bounds[0]) + 2 * (bounds.size - 1), np.int32)
    tokens = corpus.read(int(bounds[0]), int(bounds[-1]))
    count = lay_out(tokens, bounds - bounds[0], word_of_type, text)
    return text[: count if is_whole else count - 1]


def _sorted_rows(
    text: npt.NDArray[np.int32], vocabulary: int, order: int, known: int = 0
) -> tuple[
    npt.NDArray[np.int32], npt.NDArray[np.uint8], npt.NDArray[np.uint8], npt.NDArray[np.uint32], npt.NDArray[np.int32]
]:
    """Returns a place of each row, what it shares, its length, its count, and the row of each place.

    The first ``known`` places are not counted.
    """
    places, spare = np.empty(text.size, np.int32), np.empty(text.size, np.int32)
    found = sort_places(text, order, vocabulary, places, spare)
    row_of_place = spare if found is places else places
    if known:
        found = found[found >= known]
    shared, length = (np.empty(found.size, np.uint8) for _ in range(2))
    times = np.empty(found.size, np.uint32)
    rows = find_rows(text, found, order, shared, length, times, row_of_place)
    return found[:rows], shared[:rows], length[:rows], times[:rows], row_of_place
