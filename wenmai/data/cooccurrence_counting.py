"""Counting which words of an encoded corpus occur near each other, in as many parts as memory requires."""

import hashlib
import json
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from wenmai.core.clock import CLOCK
from wenmai.core.errors import CorpusError, VocabError
from wenmai.core.folder import cache_folder, writing_json
from wenmai.data.cached import made, new_folder, opened
from wenmai.data.cooccurrence import VERSION, Cooccurrences, CountsConfig
from wenmai.data.corpus import Progress
from wenmai.data.encoded_corpus import EncodedCorpus
from wenmai.kernels.counts import (
    arrange_tiles,
    compact_text,
    count_rows,
    distance_units,
    index_text,
    row_memory,
    sum_rows,
    warm_up,
)
from wenmai.text.settings import VocabConfig
from wenmai.text.vocab import Vocab

__all__ = ["count_cooccurrences"]

_WORD_BYTES = 8  # of a part of the text: the word, and its position in the index
_FEWEST_WORDS, _MOST_WORDS = 1 << 16, 1 << 30  # of a part, whose positions are int32
_TILE, _MOST_TILES = 256, 2048  # rows of a tile at least; tiles side by side at most
_PIECE = 1 << 20  # tokens that are read at once
_GROUP_PAIRS = 1 << 21  # pairs that a thread counts before it hands over the rows

_Counts = npt.NDArray[np.int64]
_Columns = npt.NDArray[np.int32]


def count_cooccurrences(
    corpus: EncodedCorpus,
    vocabulary: VocabConfig,
    config: CountsConfig,
    *,
    threads: int = 1,
    seed: int = 1,
    cache: Path | None = None,
    part_words: int | None = None,
    progress: Progress | None = None,
) -> Cooccurrences:
    """Counts which words occur near each other, or opens existing counts.

    Args:
        corpus: The text.
        vocabulary: Which words have a row.
        config: Which pairs are counted.
        threads: Number of threads; they do not change the counts.
        seed: Of the draws of sub-sampling.
        cache: Cache folder; by default that of wenmai (``WENMAI_CACHE``).
        part_words: Words that are counted at once; by default as many as ``config.memory`` holds.
        progress: Called with bytes of the encoded corpus read, and bytes in all.

    Raises:
        VocabError: if no word is frequent enough.
        CorpusError: if no word of the vocabulary occurs beside another.
        RunError: if the result cannot be written.
    """
    vocab = Vocab.from_counts(corpus.words, corpus.counts, min_count=vocabulary.min_count, max_size=vocabulary.max_size)
    if corpus.words[: len(vocab)] != vocab.tokens:
        raise VocabError("the rows of co-occurrence counts are the most frequent words, in the order of the corpus")
    key = json.dumps([VERSION, corpus.fingerprint, len(vocab), config.identity(seed)])
    fingerprint = hashlib.sha256(key.encode()).hexdigest()
    folder = (cache or cache_folder()) / "cooccurrences"
    if found := opened(folder / fingerprint, Cooccurrences.open):
        return replace(found, facts=found.facts | corpus.describe())
    warm_up()  # so that the clock measures counting
    began = CLOCK.now()
    most = part_words or min(max(_FEWEST_WORDS, int(config.memory * 2**30 / _WORD_BYTES)), _MOST_WORDS)
    job = _Counting(
        corpus, len(vocab), vocab.counts, config, threads=threads, seed=seed, part_words=most, progress=progress
    )

    def fill(entry: Path) -> str:
        with _TileWriter(entry, len(vocab), job.scale) as tiles:
            parts = job.count(tiles.add, folder)
        if tiles.entries == 0:
            raise CorpusError(
                "nothing to count: no word of the vocabulary occurs beside another. One word a line has no "
                "neighbours; min_count may be too high for a small text"
            )
        vocab.save(entry / "vocab.json")
        counting = {
            "seconds": CLOCK.now() - began,
            "parts": parts,
            "words": job.words,
            "entries": tiles.entries,
        }
        content = {
            "version": VERSION,
            "fingerprint": fingerprint,
            "symmetric": config.sides == "both",
            "tile": tiles.width,
            "diagonal": tiles.diagonal,
            "facts": {**corpus.describe(), "counting": counting},
        }
        writing_json(entry / "counts.json", content)
        return fingerprint

    return made(folder, fill, Cooccurrences.open, "table of co-occurrences")


class _Rows(NamedTuple):
    """Some rows of the matrix, in order."""

    first: int
    bounds: _Counts  # where each row begins, and the end of the last
    columns: _Columns
    units: _Counts


class _Counting:
    """Counts a corpus, in as many parts as it needs.

    Args:
        corpus: The text.
        size: Words of the vocabulary V, which are the first ids of the corpus.
        word_counts: int64 [V].
        config: Which pairs are counted.
        threads: Number of threads.
        seed: Of the draws of sub-sampling.
        part_words: Words of a part.
        progress: Called with bytes read, and bytes in all.

    Attributes:
        words: Words of the text counted so far.
        units: What a pair adds, by distance.
        scale: Units that make 1.
    """

    def __init__(
        self,
        corpus: EncodedCorpus,
        size: int,
        word_counts: npt.NDArray[np.int64],
        config: CountsConfig,
        *,
        threads: int,
        seed: int,
        part_words: int,
        progress: Progress | None,
    ) -> None:
        self.words = 0
        self.units, self.scale = distance_units(config.weighting, config.window)
        self._corpus = corpus
        self._size = size
        self._config = config
        self._threads = threads
        self._seed = np.uint64(seed)
        self._part_words = part_words
        self._progress = progress
        self._keep = np.zeros(0, np.float32)
        if config.sample:
            frequency = np.maximum(word_counts, 1) / max(1, int(word_counts.sum()))
            self._keep = np.minimum(1, np.sqrt(config.sample / frequency)).astype(np.float32)

    def count(self, add: Callable[[_Rows], None], folder: Path) -> int:
        """Passes every row to ``add``, in order; returns the number of parts."""
        runs: list[_Run] = []
        with ExitStack() as stack:
            for text, first, last, is_all in self._parts():
                if is_all:
                    for rows in self._count_part(text, first, last):
                        add(rows)
                    return 1
                if not runs:
                    place = stack.enter_context(_scratch(folder))
                with _RunWriter(place / f"run-{len(runs)}", self._size) as writer:
                    for rows in self._count_part(text, first, last):
                        writer.add(rows)
                runs.append(writer.run)
            for rows in self._merge(runs):
                add(rows)
        return len(runs)

    def _parts(self) -> Iterator[tuple[_Columns, int, int, bool]]:
        """Yields parts of the text: words, which of them are counted in it, and whether that is the whole text.

        A part begins with the last words of the one before, so that every counted word has all of its neighbours.
        """
        corpus, window = self._corpus, self._config.window
        size = max(min(self._part_words, len(corpus)), 8 * window)
        piece = min(_PIECE, size)
        text = np.empty(size + 2 * piece + 2 * window, np.int32)
        count = first = begin = 0
        whole = True
        while begin < len(corpus):
            end = min(begin + piece, len(corpus))
            low, high = np.searchsorted(corpus.starts, [begin, end])
            starts = np.asarray(corpus.starts[low:high]) - begin
            clean = self._config.subsampling == "clean"
            count = compact_text(
                corpus.read(begin, end), starts, begin, self._size, self._keep, clean, self._seed, text, count
            )
            begin = end
            if self._progress is not None:
                self._progress(4 * begin, 4 * len(corpus))
            if count >= size and begin < len(corpus):
                yield text[:count], first, count - window, False
                carried = text[count - 2 * window : count].copy()
                text[: 2 * window] = carried
                count, first, whole = 2 * window, window, False
        yield text[:count], first, count, whole

    def _count_part(self, text: _Columns, first: int, last: int) -> Iterator[_Rows]:
        """Counts the rows of a part of the text, several at a time."""
        bounds, places = index_text(text, first, last, self._size)
        self.words += places.size
        symmetric = self._config.sides == "both"
        before = 0 if self._config.sides == "right" else self._config.window
        after = 0 if self._config.sides == "left" else self._config.window
        memory: SimpleQueue[Any] = SimpleQueue()
        for _ in range(self._threads):
            memory.put(row_memory(self._size))

        def count(group: tuple[int, int]) -> _Rows:
            low, high = group
            widest = np.arange(low + 1, high + 1) if symmetric else self._size
            most = int(np.minimum(np.diff(bounds[low : high + 1]) * (before + after), widest).sum())
            rows = _Rows(low, np.empty(high - low + 1, np.int64), np.empty(most, np.int32), np.empty(most, np.int64))
            sums, met = memory.get()
            count_rows(text, bounds, places, low, high, symmetric, before, after, self.units, sums, met, *rows[1:])
            memory.put((sums, met))
            return rows

        yield from _in_order(count, _groups(bounds, max(1, _GROUP_PAIRS // (before + after))), self._threads)

    def _merge(self, runs: list["_Run"]) -> Iterator[_Rows]:
        """Adds up the rows of all parts."""
        memory: SimpleQueue[Any] = SimpleQueue()
        for _ in range(self._threads):
            memory.put(row_memory(self._size))

        def merge(group: tuple[int, int]) -> _Rows:
            low, high = group
            pieces = [run.read(low, high) for run in runs]
            ends = np.cumsum([0, *(piece.columns.size for piece in pieces)])
            parts = np.stack([piece.bounds + end for piece, end in zip(pieces, ends, strict=False)])
            columns = np.concatenate([piece.columns for piece in pieces])
            units = np.concatenate([piece.units for piece in pieces])
            rows = _Rows(low, np.empty(high - low + 1, np.int64), np.empty_like(columns), np.empty_like(units))
            sums, met = memory.get()
            sum_rows(parts, columns, units, sums, met, *rows[1:])
            memory.put((sums, met))
            return rows

        together = np.sum([run.bounds for run in runs], axis=0)
        yield from _in_order(merge, _groups(together, _GROUP_PAIRS), self._threads)


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """A folder for the parts of a text, removed afterwards; after a kill by who makes the next entry of the cache."""
    place = new_folder(folder)
    place.mkdir(parents=True)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _groups(bounds: _Counts, most: int) -> Iterator[tuple[int, int]]:
    """Cuts rows into groups of at most ``most`` by ``bounds``, or one row; none crosses a multiple of ``_TILE``."""
    size, low = bounds.size - 1, 0
    while low < size:
        high = int(np.searchsorted(bounds, bounds[low] + most, side="right")) - 1
        high = min(max(high, low + 1), (low // _TILE + 1) * _TILE, size)
        yield low, high
        low = high


def _in_order(
    work: Callable[[tuple[int, int]], _Rows], groups: Iterable[tuple[int, int]], threads: int
) -> Iterator[_Rows]:
    """Works on several groups at a time and yields the results in order."""
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[_Rows]] = deque()
        try:
            for group in groups:
                waiting.append(pool.submit(work, group))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


class _Run:
    """The rows of a part of the text, on disk."""

    def __init__(self, folder: Path, bounds: _Counts) -> None:
        self.bounds = bounds
        self._folder = folder

    def read(self, low: int, high: int) -> _Rows:
        """Reads rows low..high-1."""
        begin, end = int(self.bounds[low]), int(self.bounds[high])
        columns = np.fromfile(self._folder / "columns.bin", "<i4", count=end - begin, offset=4 * begin)
        units = np.fromfile(self._folder / "units.bin", "<i8", count=end - begin, offset=8 * begin)
        return _Rows(low, self.bounds[low : high + 1] - begin, columns, units)


class _RunWriter:
    """Writes the rows of a part of the text."""

    def __init__(self, folder: Path, size: int) -> None:
        folder.mkdir()
        self.run = _Run(folder, np.zeros(size + 1, np.int64))
        self._folder = folder

    def __enter__(self) -> "_RunWriter":
        self._columns: BinaryIO = open(self._folder / "columns.bin", "wb")
        self._units: BinaryIO = open(self._folder / "units.bin", "wb")
        return self

    def __exit__(self, *_: object) -> None:
        self._columns.close()
        self._units.close()

    def add(self, rows: _Rows) -> None:
        """Appends some rows."""
        end = int(rows.bounds[-1])
        last = rows.first + rows.bounds.size
        self.run.bounds[rows.first + 1 : last] = self.run.bounds[rows.first] + rows.bounds[1:]
        self._columns.write(rows.columns[:end].astype("<i4", copy=False).data)
        self._units.write(rows.units[:end].astype("<i8", copy=False).data)


class _TileWriter:
    """Writes rows as tiles, a band of rows at a time.

    Args:
        folder: Where.
        size: Rows and columns of the matrix.
        scale: Units that make 1.

    Attributes:
        width: Rows and columns of a tile.
        entries: Counts that were written so far.
        diagonal: How many of them are on the diagonal.
    """

    def __init__(self, folder: Path, size: int, scale: int) -> None:
        self.width = _TILE
        while size > self.width * _MOST_TILES:
            self.width *= 2
        self.entries = self.diagonal = 0
        self._size, self._scale = size, scale
        self._folder = folder
        self._tiles = -(-size // self.width)
        self._sizes = np.zeros((self._tiles, self._tiles), np.int64)
        self._band: list[_Rows] = []

    def __enter__(self) -> "_TileWriter":
        self._places: BinaryIO = open(self._folder / "places.bin", "wb")
        self._weights: BinaryIO = open(self._folder / "weights.bin", "wb")
        return self

    def __exit__(self, *_: object) -> None:
        self._places.close()
        self._weights.close()
        bounds = np.zeros(self._sizes.size + 1, "<i8")
        np.cumsum(self._sizes.ravel(), out=bounds[1:])
        bounds.tofile(self._folder / "tiles.bin")

    def add(self, rows: _Rows) -> None:
        """Takes some rows, the next in order."""
        self._band.append(rows)
        last = rows.first + rows.bounds.size - 1
        if last % self.width == 0 or last == self._size:
            self._write()

    def _write(self) -> None:
        ends = np.cumsum([0, *(int(rows.bounds[-1]) for rows in self._band)])
        inner = [rows.bounds[1:] + end for rows, end in zip(self._band, ends, strict=False)]
        bounds = np.concatenate([np.zeros(1, np.int64), *inner])
        columns = np.concatenate([rows.columns[: rows.bounds[-1]] for rows in self._band])
        units = np.concatenate([rows.units[: rows.bounds[-1]] for rows in self._band])
        first = self._band[0].first
        places, weights = np.empty(columns.size, np.uint32), np.empty(columns.size, np.float32)
        sizes = self._sizes[first // self.width]
        arrange_tiles(bounds, columns, units, self.width, self._tiles, self._scale, sizes, places, weights)
        self._places.write(places.astype("<u4", copy=False).data)
        self._weights.write(weights.astype("<f4", copy=False).data)
        self.entries += columns.size
        self.diagonal += int((columns == first + np.repeat(np.arange(bounds.size - 1), np.diff(bounds))).sum())
        self._band = []
