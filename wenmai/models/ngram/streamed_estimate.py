"""From counts to the files of a model within a bounded memory: n-grams stream from file to file.

Four passes, after Heafield et al. 2013, who sort n-grams between these orders:

1. Rows in order are split into the n-grams of each order, with their counts, and these are sorted by context.
2. By context: sums over contexts, discounts and back-off weights. N-grams are now in the order of the model.
3. In the order of rows again, where each n-gram follows the one without its first word: probabilities.
4. In the order of the model: the files.

The first n-grams of pass 1 are numbered, and those of pass 2 too, so that the way back is no sort: a record goes to the
place of its number (:class:`wenmai.data.external_sort.PlacedRecords`). Every number is computed from the same values in
the same order as in memory, so that the files have the same bytes.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from wenmai.data.external_sort import PlacedRecords, RecordFile, Records, SortedRuns, Sorter
from wenmai.kernels.ngram_estimate import backoff_weight, count_nodes, frequencies, log_likelihood
from wenmai.kernels.ngram_lookup import BEGIN, CONTEXT, END, LEAF, ROOT
from wenmai.kernels.ngram_stream import (
    FOLLOWING,
    PRUNED,
    RECORD,
    SUMS,
    finish_contexts,
    interpolate,
    split,
    sum_contexts,
)
from wenmai.kernels.ngrams import hashed_words
from wenmai.models.ngram.config import NgramConfig
from wenmai.models.ngram.estimate import (
    CONTEXTS,
    LEAVES,
    Estimated,
    Floats,
    check_numbers,
    discounts_of,
    unigram_probabilities,
)

__all__ = ["estimate_in_parts"]

_ROW = np.dtype([("shared", "u1"), ("length", "u1"), ("times", "<i8")])
_PIECE = 1 << 16  # n-grams that are handed on at once
_SPLIT, _SUMMED, _INTERPOLATED = 0.4, 0.85, 0.95  # how much of the work is done after each pass, roughly
_SPLIT_BYTES = 1 << 22  # of n-grams that rows are split into
_Integers = npt.NDArray[np.int64]


def estimate_in_parts(
    rows: SortedRuns,
    vocabulary: int,
    config: NgramConfig,
    folder: Path,
    parts: Path,
    *,
    memory_bytes: int,
    advance: Callable[[float], None] = lambda done: None,
) -> Estimated:
    """Writes ``contexts.bin`` and ``leaves.bin``, as :func:`wenmai.models.ngram.estimate.estimate` does.

    Args:
        rows: The counts.
        vocabulary: Words, ``<s>`` among them.
        config: The settings.
        folder: Where the two files are written.
        parts: Where others are written meanwhile.
        memory_bytes: For what is sorted and read ahead.
        advance: Called with the fraction of the work that is done.

    Raises:
        TrainingError: if there are more n-grams than 32 bits can number.
    """
    job = _Estimate(vocabulary, config, parts, memory_bytes, advance)
    job.result.parts = rows.runs
    job.count(rows)
    job.sum_contexts()
    job.interpolate()
    with open(folder / CONTEXTS, "wb") as contexts, open(folder / LEAVES, "wb") as leaves:
        job.write(contexts, leaves)
    return job.result


class _Order:
    """The n-grams of an order from 2 on: what each pass leaves for the next.

    Attributes:
        discounts: D(0) to D(3 and more).
        ngrams: As the rows have them, to be sorted by context.
        counts: int64, in the order of rows; negative for those that are pruned.
        sums: In the order of rows, see :data:`wenmai.kernels.ngram_stream.SUMS`.
        words: The last words, in the order of the model.
        contexts: Those of order - 1, in the order of the model: what follows them.
        stored: Number of n-grams that are not pruned.
        records: In the order of the model, see :data:`wenmai.kernels.ngram_stream.RECORD`.
    """

    discounts: Floats
    sums: PlacedRecords
    words: RecordFile
    contexts: RecordFile
    stored = 0
    records: PlacedRecords
    last_found, last_slot = 0.0, 0  # of the n-gram that the last row has

    def __init__(self, order: int, folder: Path, memory_bytes: int) -> None:
        self.order, self._folder = order, folder
        self.likelihood = np.zeros(2)  # log p of the places of the text with just so many words; how many these are
        self.ngrams = Sorter(self.path("ngrams"), order + 3, order, memory_bytes)
        self.counts = RecordFile(self.path("counts"), "<i8")

    def path(self, what: str) -> Path:
        """Where a file of the order is."""
        return self._folder / f"{self.order}-{what}"

    def add(self, ngrams: Records) -> None:
        """Adds n-grams in the order of rows, as :func:`wenmai.kernels.ngram_stream.split` writes them."""
        self.ngrams.add(ngrams)
        self.counts.write(np.ascontiguousarray(ngrams[:, -2:]).view("<i8")[:, 0])

    def by_context(self, memory_bytes: int) -> Iterator[Records]:
        """Yields the n-grams in the order of their contexts, those of one context together."""
        waiting = np.empty((0, self.order + 3), np.uint32)
        for block in self.ngrams.merged(memory_bytes):
            waiting = np.concatenate([waiting, block])
            same = (waiting[:, : self.order - 1] == waiting[-1, : self.order - 1]).all(axis=1)
            last = len(waiting) - int(same.sum())  # sorted, so that these are the last
            if last:
                yield waiting[:last]
                waiting = waiting[last:].copy()
        if len(waiting):
            yield waiting


class _Estimate:
    """An estimate under way.

    Args:
        vocabulary: Words, ``<s>`` among them.
        config: The settings.
        folder: Where files are written meanwhile.
        memory_bytes: For what is sorted and read ahead.
        advance: Called with the fraction of the work that is done.
    """

    def __init__(
        self,
        vocabulary: int,
        config: NgramConfig,
        folder: Path,
        memory_bytes: int,
        advance: Callable[[float], None],
    ) -> None:
        self._advance = advance
        self.result = Estimated()
        self._config, self._memory_bytes = config, memory_bytes
        self._vocabulary, self._predictable = vocabulary, vocabulary - 1
        self._added = config.k if config.smoothing == "add-k" else -1.0
        higher = max(1, config.order - 1)
        self._each = memory_bytes // (2 * higher)  # bytes for an order where all are under way
        self._orders = [_Order(order, folder, self._each) for order in range(2, config.order + 1)]
        self._rows = RecordFile(folder / "rows", _ROW)
        self._word_counts = np.zeros(vocabulary, np.int64)
        self._occurs = np.zeros(vocabulary, np.bool_)
        self._found: Floats  # (vocabulary) the probabilities of words

    def count(self, rows: SortedRuns) -> None:
        """Splits rows into n-grams, and estimates the discounts."""
        order, config = self._config.order, self._config
        thresholds = np.array([0, *config.thresholds])
        pending, counts = np.zeros(order + 3, np.int64), np.zeros((order + 1, 3), np.int64)
        frequency, sizes = np.zeros((order + 1, 6), np.int64), np.zeros(order + 1, np.int64)
        piece = max(16, _SPLIT_BYTES // (4 * (order + 1) * (order + 3)))
        ngrams = np.empty((order + 1, piece + 1, order + 3), np.uint32)
        shared, length = (np.empty(piece + 1, np.uint8) for _ in range(2))
        times = np.empty(piece + 1, np.int64)

        def take(some: Records, *, is_last: bool = False) -> None:
            split_off = (self._word_counts, frequency, ngrams, sizes, shared, length, times)
            done = split(some, is_last, config.continues, thresholds, pending, counts, *split_off)
            distinct = np.empty(done, _ROW)
            distinct["shared"], distinct["length"], distinct["times"] = shared[:done], length[:done], times[:done]
            self._rows.write(distinct)
            for one in self._orders:
                one.add(ngrams[one.order, : sizes[one.order], : one.order + 3])

        total, done = rows.size, 0
        for block in rows.merged(self._memory_bytes // 4):
            for start in range(0, len(block), piece):
                take(block[start : start + piece])
            done += len(block)
            self._advance(_SPLIT * done / total)
        take(np.empty((0, order + 1), np.uint32), is_last=True)
        self.result.counted = [self._vocabulary, *(one.ngrams.size for one in self._orders)]
        check_numbers(sum(self.result.counted))
        self._occurs = self._word_counts > 0
        self._word_counts[BEGIN] = 0
        found = self._discounts(1, frequencies(self._word_counts))
        self._found = unigram_probabilities(self._word_counts, found, config)
        self.result.ngrams = [self._vocabulary]
        for one in self._orders:
            one.ngrams.finish()
            one.discounts = self._discounts(one.order, frequency[one.order])

    def _discounts(self, order: int, frequency: _Integers) -> Floats:
        found, is_estimated = discounts_of(frequency, self._config.smoothing)
        self.result.discounts.append(tuple(found[1:].tolist()))
        if not is_estimated:
            self.result.fallback.append(order)
        return found

    def sum_contexts(self) -> None:
        """Sums the n-grams of each order by context, and gives them places in the model."""
        total, done = sum(one.ngrams.size for one in self._orders), 0
        for one in self._orders:
            one.sums = PlacedRecords(one.path("sums"), SUMS, one.ngrams.size, self._memory_bytes // 4, self._each)
            one.words = RecordFile(one.path("words"), "<u4")
            one.contexts = RecordFile(one.path("contexts"), FOLLOWING)
            for ngrams in one.by_context(self._memory_bytes // 4):
                size = len(ngrams)
                placed, words, following = np.empty(size, SUMS), np.empty(size, np.uint32), np.empty(size, FOLLOWING)
                contexts, one.stored = sum_contexts(
                    ngrams, one.discounts, self._added, self._predictable, one.stored, placed, words, following
                )
                one.sums.add(placed)
                one.words.write(words)
                one.contexts.write(following[:contexts])
                done += size
                self._advance(_SPLIT + (_SUMMED - _SPLIT) * done / total)
            one.sums.finish()
            self.result.ngrams.append(one.stored)

    def interpolate(self) -> None:
        """Estimates the probabilities of all n-grams, and of the text."""
        first_ids = np.concatenate([[0], np.cumsum(self.result.ngrams)])  # of each order, from 1
        for one in self._orders:
            place = one.path("records")
            one.records = PlacedRecords(place, RECORD, one.stored, self._each // 2, self._memory_bytes // 2)
            one.counts.rewind()
        words, last_word = np.flatnonzero(self._occurs), np.zeros(1, np.int64)  # in the order of rows
        done = 0
        self._rows.rewind()
        while (rows := self._rows.read(_PIECE)).size:
            shared, length, times = (np.ascontiguousarray(rows[name]) for name in ("shared", "length", "times"))
            sizes = count_nodes(shared, length, self._config.order)
            slots = np.concatenate([last_word, words[: sizes[1]]])
            words, last_word = words[sizes[1] :], slots[-1:]
            found = self._found[slots]
            for one in self._orders:
                sums, counts = one.sums.take(int(sizes[one.order])), one.counts.read(int(sizes[one.order]))
                lower, found = found, np.concatenate([[one.last_found], np.empty(sums.size)])
                records = np.empty(sums.size, RECORD)
                stored = interpolate(
                    shared, length, times, one.order, counts, sums, lower, slots.astype(np.uint32),
                    first_ids[one.order - 2], one.discounts, self._added, self._predictable, found, records,
                    one.likelihood,
                )  # fmt: skip
                one.records.add(records[:stored])
                slots = np.concatenate([[one.last_slot], sums["slot"]])
                one.last_found, one.last_slot = float(found[-1]), int(slots[-1])
            done += rows.size
            self._advance(_SUMMED + (_INTERPOLATED - _SUMMED) * done / self._rows.size)
        for one in self._orders:
            one.records.finish()
            one.sums.close()
            one.counts.close()
            one.contexts.rewind()
            one.words.rewind()
        self._rows.close()
        self.result.loss = self._loss()

    def _loss(self) -> float:
        if self._orders:
            log_prob, places = (sum(float(one.likelihood[item]) for one in self._orders) for item in range(2))
            return -log_prob / places
        words = np.flatnonzero(self._word_counts)
        times, length = self._word_counts[words], np.ones(words.size, np.uint8)
        log_prob, places = log_likelihood(length, times, words, 1, self._found)
        return -float(log_prob) / int(places)

    def write(self, contexts: BinaryIO, leaves: BinaryIO) -> None:
        """Writes the n-grams in the order of the model."""
        keys = hashed_words(self._vocabulary)
        first = self._vocabulary  # where the n-grams begin that go on from the next
        with np.errstate(divide="ignore"):
            log_probs = np.log(self._found)
        records = np.empty(self._vocabulary, CONTEXT)
        records["word"], records["log_prob"], records["suffix"] = keys, log_probs, ROOT
        following = np.zeros(self._vocabulary, FOLLOWING)
        if self._orders:
            following["backoff"] = backoff_weight(0.0, 0.0, self._added, self._predictable)
            followed = self._occurs.copy()
            followed[END] = False
            following[followed] = self._orders[0].contexts.read(int(np.count_nonzero(followed)))
        counts = following["count"].astype(np.int64)
        records["backoff"], records["first"] = following["backoff"], first + np.cumsum(counts) - counts
        contexts.write(records.data)
        first += int(counts.sum())
        for number, one in enumerate(self._orders):
            while (words := one.words.read(_PIECE)).size:
                is_kept = words & PRUNED == 0
                stored = one.records.take(int(np.count_nonzero(is_kept)))
                if one.order == self._config.order:
                    leaf = np.empty(stored.size, LEAF)
                    leaf["word"] = keys[words[is_kept]]
                    leaf["log_prob"], leaf["suffix"] = stored["log_prob"], stored["suffix"]
                    leaves.write(leaf.data)
                    continue
                going_on = self._orders[number + 1].contexts.read(int(np.count_nonzero(words & ~PRUNED != END)))
                records = np.empty(stored.size, CONTEXT)
                first = finish_contexts(words, going_on, self._added, self._predictable, stored, first, records)
                contexts.write(records.data)
            one.words.close()
            one.records.close()
            one.contexts.close()
        end = np.zeros(1, CONTEXT)
        end["first"] = sum(self.result.ngrams) if self._orders else self._vocabulary
        contexts.write(end.data)
