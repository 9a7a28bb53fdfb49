"""From counts to the files of a model: discounts, probabilities, back-off weights.

| equation (Chen, Goodman 1999, and Heafield et al. 2013)                 | where                                    |
|-------------------------------------------------------------------------|------------------------------------------|
| a(g): counts, or left neighbours below the highest order (1999, sec. 3) | ``_Estimate._counts``                    |
| Y = t1 / (t1 + 2 t2), D_j = j - (j + 1) Y t_{j+1} / t_j (1999, eq. 26)  | ``discounts_of``                         |
| γ(h) = [Σ kept D(a) + Σ pruned a] / A(h) (2013, sec. 3.3)               | ``kernels.ngram_estimate.accumulate``    |
| p(w|h) = (a(hw) - D(a(hw))) / A(h) + γ(h) p(w|h') (1999, eq. 21)        | ``kernels.ngram_estimate.probability``   |
| p(w) = (a(w) - D(a(w))) / A + γ / V (2013, sec. 3.4)                    | ``unigram_probabilities``                |
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import TrainingError
from wenmai.data.ngram_counting import Rows
from wenmai.kernels.ngram_estimate import (
    accumulate,
    adjusted_counts,
    arrange,
    backoff_weights,
    count_nodes,
    frequencies,
    join_nodes,
    log_likelihood,
    number_nodes,
    probabilities,
    raw_counts,
)
from wenmai.kernels.ngram_lookup import BEGIN, CONTEXT, LEAF, ROOT, UNKNOWN
from wenmai.kernels.ngrams import hashed_words
from wenmai.models.ngram.config import NgramConfig

__all__ = ["CONTEXTS", "LEAVES", "Estimated", "check_numbers", "discounts_of", "estimate", "unigram_probabilities"]

CONTEXTS, LEAVES = "contexts.bin", "leaves.bin"
_FALLBACK = (0.5, 1.0, 1.5)  # as lmplz has them
_MOST_NODES = 2**32 - 2
_BLOCK = 1 << 20
Floats = npt.NDArray[np.float64]
_Counts = npt.NDArray[np.integer]


@dataclass
class Estimated:
    """The results of an estimate, apart from the files.

    Attributes:
        discounts: Of each order, D(1), D(2) and D(3 and more).
        fallback: Orders whose counts determine no discounts, so that 0.5, 1 and 1.5 are used.
        ngrams: Number of n-grams of each order.
        counted: The same before pruning.
        parts: Number of parts the text was counted in.
        loss: Mean negative log-probability of the words of the text, ends of sentences counted, in nats.
    """

    discounts: list[tuple[float, ...]] = field(default_factory=list)
    fallback: list[int] = field(default_factory=list)
    ngrams: list[int] = field(default_factory=list)
    counted: list[int] = field(default_factory=list)
    parts: int = 1
    loss: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """The part that is stored in the configuration of the model."""
        return {"discounts": [list(ones) for ones in self.discounts], "fallback": self.fallback}


def discounts_of(frequencies: Mapping[int, int] | npt.NDArray[np.int64], smoothing: str) -> tuple[Floats, bool]:
    """Returns D(0) to D(3 and more) of one order, and whether they follow from the counts.

    Args:
        frequencies: How many n-grams have the count 1, 2, 3 and 4, at these places.
        smoothing: See :class:`~wenmai.models.ngram.config.NgramConfig`.
    """
    if smoothing in ("mle", "add-k"):
        return np.zeros(4), True
    one, two, three, four = (float(frequencies[count]) for count in range(1, 5))
    fallback = np.array([0.0, *_FALLBACK]) if smoothing == "modified-kneser-ney" else np.array([0.0, 0.5, 0.5, 0.5])
    if not one or not two or (smoothing == "modified-kneser-ney" and not three):
        return fallback, False
    y = one / (one + 2 * two)
    if smoothing != "modified-kneser-ney":
        return np.array([0.0, y, y, y]), True
    found = np.array([0.0, 1 - 2 * y * two / one, 2 - 3 * y * three / two, 3 - 4 * y * four / three])
    if (found < 0).any() or (found > np.arange(4)).any():
        return fallback, False
    return found, True


def unigram_probabilities(counts: _Counts, discounts: Floats, config: NgramConfig) -> Floats:
    """Returns the probabilities of words, 0 for ``<s>``.

    Args:
        counts: (vocabulary) a(w), 0 for ``<s>``.
        discounts: (4) D(0) to D(3 and more).
        config: The settings.
    """
    predictable = counts.size - 1
    total, left = float(counts.sum()), float(discounts[np.minimum(counts, 3)].sum())
    if config.smoothing == "add-k":
        found: Floats = (counts.astype(np.float64) + config.k) / (total + config.k * predictable)
    else:
        found = (counts - discounts[np.minimum(counts, 3)]) / total
        if config.interpolate_unigrams:
            found += left / total / predictable
        else:
            found[UNKNOWN] += left / total
    found[BEGIN] = 0
    return found


def check_numbers(ngrams: int) -> None:
    """Checks that n-grams can be numbered.

    Raises:
        TrainingError: if there are more than 32 bits can number.
    """
    if ngrams > _MOST_NODES:
        raise TrainingError(f"the text has {ngrams:,} different n-grams, more than {_MOST_NODES:,}; lower `order`")


def estimate(rows: Rows, vocabulary: int, config: NgramConfig, folder: Path) -> Estimated:
    """Writes ``contexts.bin`` and ``leaves.bin``; see :mod:`wenmai.kernels.ngram_lookup`.

    Raises:
        TrainingError: if there are more n-grams than 32 bits can number.
    """
    counted = count_nodes(rows.shared, rows.length, config.order)
    check_numbers(int(counted[2:].sum()) + vocabulary)
    with open(folder / CONTEXTS, "wb") as contexts, open(folder / LEAVES, "wb") as leaves:
        job = _Estimate(rows, vocabulary, config, contexts)
        del rows  # so that the job can free them in the end
        job.unigrams()
        for order in range(2, config.order + 1):
            job.ngrams(order, int(counted[order]))
        job.finish(leaves)
    job.result.counted = [vocabulary, *counted[2:].tolist()]
    return job.result


class _Estimate:
    """An estimate under way: one order after the other, each of which completes the records of the one before.

    Args:
        rows: The counts.
        vocabulary: Words, ``<s>`` among them.
        config: The settings.
        contexts: Where the n-grams below the highest order are written.
    """

    def __init__(self, rows: Rows, vocabulary: int, config: NgramConfig, contexts: BinaryIO) -> None:
        self.result = Estimated()
        self._rows = rows
        self._config = config
        self._contexts = contexts
        self._vocabulary = vocabulary
        self._predictable = vocabulary - 1
        self._added = config.k if config.smoothing == "add-k" else -1.0
        keys = hashed_words(vocabulary)
        self._spread = np.argsort(keys).astype(np.uint32)
        self._log_likelihood, self._places = 0.0, 0
        # Of the order that was estimated last:
        self._first_id = 0  # of its n-grams
        self._of_row = rows.last_words  # (rows) its nodes
        self._found: Floats  # (nodes) probabilities
        self._slots = np.arange(vocabulary, dtype=np.uint32)  # (nodes) places in the file
        self._records = np.zeros(vocabulary, LEAF)  # in the order of the file
        self._records["word"], self._records["suffix"] = keys, ROOT

    def unigrams(self) -> None:
        """Estimates the probabilities of words."""
        counts = self._counts(1, self._of_row, self._vocabulary)
        counts[BEGIN] = 0
        discounts = self._discounts(1, counts)
        found = unigram_probabilities(counts, discounts, self._config)
        with np.errstate(divide="ignore"):
            self._records["log_prob"] = np.log(found)
        self._found = found
        self.result.ngrams.append(self._vocabulary)
        if self._config.order == 1:
            predicted = found.copy()
            predicted[BEGIN] = 1  # it is not predicted
            self._add_likelihood(1, predicted)
            self._places -= int(self._rows.times[self._rows.last_words == BEGIN].sum())

    def ngrams(self, order: int, nodes: int) -> None:
        """Estimates the n-grams of an order from 2 on, and writes those of the order before."""
        rows = self._rows
        of_row = np.empty(rows.shared.size, np.uint32)
        number_nodes(rows.shared, rows.length, order, of_row)
        word, context, parent = (np.empty(nodes, np.uint32) for _ in range(3))
        join_nodes(rows.shared, rows.length, rows.last_words, rows.before, self._of_row, order, word, context, parent)
        self._of_row = of_row
        counts = self._counts(order, of_row, nodes)
        discounts = self._discounts(order, counts)
        kept = self._kept(order, of_row, nodes)
        sums = np.zeros((self._found.size, 2))
        accumulate(counts, kept, context, discounts, sums)
        found = np.empty(nodes)
        probabilities(
            counts, kept, context, parent, sums, self._found, discounts, self._added, self._predictable, found
        )
        del counts
        self._add_likelihood(order, found)
        backoffs = np.empty(self._records.size, np.float32)
        backoff_weights(sums, self._slots, self._added, self._predictable, backoffs)
        del sums, self._found
        if order == self._config.order:
            del self._rows, self._of_row  # a gigabyte of a long text
        first = np.zeros(self._records.size + 1, np.uint32)
        slots = np.empty(nodes, np.uint32)
        records = np.zeros(int(np.count_nonzero(kept)) if kept.size else nodes, LEAF)
        arrange(word, context, parent, kept, self._slots, self._first_id, self._spread, found, first, slots, records)
        self._write_contexts(backoffs, first[:-1])
        self._found, self._slots, self._records = found, slots, records
        self.result.ngrams.append(records.size)

    def finish(self, leaves: BinaryIO) -> None:
        """Writes the n-grams of the highest order."""
        if self._config.order == 1:
            self._write_contexts(np.zeros(self._vocabulary, np.float32), np.zeros(self._vocabulary, np.uint32))
            self._records = self._records[:0]
        end = np.zeros(1, CONTEXT)
        end["first"] = self._first_id + self._records.size
        self._contexts.write(end.data)
        leaves.write(self._records.data)
        self.result.loss = -self._log_likelihood / self._places

    def _counts(self, order: int, of_row: npt.NDArray[np.uint32], nodes: int) -> _Counts:
        rows = self._rows
        counts: _Counts = np.zeros(nodes, np.uint32)
        if order == self._config.order or not self._config.continues:
            raw_counts(rows.times, rows.length, of_row, order, counts)
        else:
            adjusted_counts(rows.shared, rows.length, rows.times, of_row, order, counts)
        return counts

    def _discounts(self, order: int, counts: _Counts) -> Floats:
        found, is_estimated = discounts_of(frequencies(counts), self._config.smoothing)
        self.result.discounts.append(tuple(found[1:].tolist()))
        if not is_estimated:
            self.result.fallback.append(order)
        return found

    def _kept(self, order: int, of_row: npt.NDArray[np.uint32], nodes: int) -> npt.NDArray[np.uint8]:
        """Returns which n-grams occur often enough; empty if all do."""
        threshold = self._config.thresholds[order - 1]
        if not threshold:
            return np.zeros(0, np.uint8)
        counts: _Counts = np.zeros(nodes, np.uint32)
        raw_counts(self._rows.times, self._rows.length, of_row, order, counts)
        found: npt.NDArray[np.uint8] = (counts > threshold).astype(np.uint8)
        return found

    def _write_contexts(self, backoffs: npt.NDArray[np.float32], first: npt.NDArray[np.uint32]) -> None:
        """Writes the n-grams of the order before, now that their continuations are known."""
        following = self._first_id + self._records.size
        for start in range(0, self._records.size, _BLOCK):
            block = self._records[start : start + _BLOCK]
            whole = np.empty(block.size, CONTEXT)
            for name in ("word", "log_prob", "suffix"):
                whole[name] = block[name]
            whole["backoff"] = backoffs[start : start + _BLOCK]
            whole["first"] = np.uint32(following) + first[start : start + _BLOCK]
            self._contexts.write(whole.data)
        self._first_id = following

    def _add_likelihood(self, order: int, found: Floats) -> None:
        log_prob, places = log_likelihood(self._rows.length, self._rows.times, self._of_row, order, found)
        self._log_likelihood += float(log_prob)
        self._places += int(places)
