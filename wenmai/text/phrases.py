"""Phrases: pairs of words that occur together far more often than chance (Mikolov et al. 2013b, section 4).

As word2phrase.c has it: ``score(a, b) = (count(ab) - min_count) / (count(a) count(b)) * tokens``, and reading
from left to right a pair is joined if its score exceeds the threshold and its first word is not already the
end of a phrase. Works on encoded text, where id 0 is the most frequent word.
"""

import numpy as np
import numpy.typing as npt

__all__ = ["PairCounter", "joined_pairs"]

Ids = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class PairCounter:
    """Counts pairs of neighbours that can become phrases, in bounded memory.

    Args:
        counts: Of every word, descending.
        total: Running words of the text.
        threshold: Score above which a pair becomes a phrase.
        min_count: Both words must occur this often; the discount of the score.
        max_pairs: When more different pairs are known than this, the rarest are forgotten, as in
            word2phrase.c.

    Attributes:
        pruned: Pairs forgotten so far.
    """

    def __init__(
        self, counts: Longs, *, total: int, threshold: float, min_count: int, max_pairs: int = 1 << 25
    ) -> None:
        self.pruned = 0
        self._counts = counts
        self._total = total
        self._threshold = threshold
        self._min_count = min_count
        self._max_pairs = max_pairs
        self._min_reduce = 1
        # As count(ab) <= min(count(a), count(b)), the score is below total / max(count(a), count(b)); so
        # words too frequent for the threshold are in no phrase. This spares most of the pairs.
        self._first_id = int(np.searchsorted(-counts, -total / threshold, side="right"))
        self._end_id = int(np.searchsorted(-counts, -min_count, side="right"))
        self._runs: list[tuple[Longs, Longs]] = []  # sorted keys and their counts, each run half the one before

    def add(self, tokens: Ids, neighbours: Flags) -> None:
        """Counts the pairs ``(tokens[i], tokens[i + 1])`` for which ``neighbours[i]`` holds."""
        possible = (tokens >= self._first_id) & (tokens < self._end_id)
        pairs = _keys(tokens, np.flatnonzero(neighbours & possible[:-1] & possible[1:]), self._counts.size)
        keys, counts = np.unique(pairs, return_counts=True)
        self._runs.append((keys, counts.astype(np.int64)))
        while len(self._runs) > 1 and 2 * self._runs[-1][0].size > self._runs[-2][0].size:
            self._merge_last()
        while sum(keys.size for keys, _ in self._runs) > self._max_pairs:
            self._merge_all()
            keys, counts = self._runs[0]
            frequent = counts > self._min_reduce
            self.pruned += int(keys.size - np.count_nonzero(frequent))
            self._runs = [(keys[frequent], counts[frequent])]
            self._min_reduce += 1

    def phrases(self) -> Longs:
        """Returns the pairs that become phrases as sorted keys ``a * V + b``, with V the number of words."""
        if not self._runs:
            return np.empty(0, np.int64)
        self._merge_all()
        keys, together = self._runs[0]
        first, second = np.divmod(keys, self._counts.size)
        expected = self._counts[first].astype(np.float64) * self._counts[second]
        return keys[(together - self._min_count) / expected * self._total > self._threshold]

    def _merge_all(self) -> None:
        while len(self._runs) > 1:
            self._merge_last()

    def _merge_last(self) -> None:
        (keys, counts), (more_keys, more_counts) = self._runs[-2:]
        keys, counts = np.concatenate([keys, more_keys]), np.concatenate([counts, more_counts])
        order = np.argsort(keys, kind="stable")  # finds the two sorted runs and merges them
        keys = keys[order]
        first = np.flatnonzero(np.diff(keys, prepend=-1))
        self._runs[-2:] = [(keys[first], np.add.reduceat(counts[order], first) if first.size else counts)]


def joined_pairs(tokens: Ids, neighbours: Flags, phrases: Longs, words: int, *, first_is_taken: bool) -> Flags:
    """Decides, reading from left to right, which pairs of neighbours are joined.

    Args:
        tokens: (n + 1) ids; the last one belongs to the next block.
        neighbours: (n) whether tokens ``i`` and ``i + 1`` are in the same sentence.
        phrases: What :meth:`PairCounter.phrases` returned.
        words: Number of words, the V of its keys.
        first_is_taken: Whether ``tokens[0]`` already ends a phrase.

    Returns:
        (n) whether tokens ``i`` and ``i + 1`` become one.
    """
    if not phrases.size:
        return np.zeros(neighbours.size, np.bool_)
    begins, ends = np.zeros((2, words + 1), np.bool_)  # one more, for tokens whose id is -1
    begins[phrases // words] = True
    ends[phrases % words] = True
    possible = np.flatnonzero(neighbours & begins[tokens[:-1]] & ends[tokens[1:]])
    keys = _keys(tokens, possible, words)
    place = np.minimum(np.searchsorted(phrases, keys), phrases.size - 1)
    wanted = np.zeros(neighbours.size, np.bool_)
    wanted[possible[phrases[place] == keys]] = True
    if first_is_taken:
        wanted[0] = False
    # In a run of overlapping pairs (ab, bc, cd, ...) every second one is joined, beginning with the first.
    at = np.arange(wanted.size)
    run_start = np.maximum.accumulate(np.where(wanted, 0, at + 1))
    joined: Flags = wanted & ((at - run_start) % 2 == 0)
    return joined


def _keys(tokens: Ids, places: npt.NDArray[np.intp], words: int) -> Longs:
    return tokens[places].astype(np.int64) * words + tokens[places + 1]
