"""Sentence reordering: a paragraph is cut into parts, which are shuffled; in which order were they?

Sun et al. 2020 (ERNIE 2.0), section 4.2.2. Of a paragraph, as many sentences as fit into a row and two at least, 1 to m
parts are made, each number as often. A single sentence has but one order, and is no example. There are Σ n!
classes, n = 1 to m: those of n parts come after those of fewer, in lexicographic order of π, where π_p is the number of
the part that is shown at place p.
"""

from bisect import bisect_right
from itertools import permutations
from math import factorial

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import CorpusError, SettingError
from wenmai.data.pretraining.task import Context, Drawn, PretrainingTask, Row
from wenmai.data.sequences import SentenceStream

__all__ = ["Reordering", "orders"]

Ints = npt.NDArray[np.int64]


def orders(most: int) -> list[tuple[int, ...]]:
    """Returns the orders of 1 to ``most`` parts, each at the place that is its class."""
    return [order for count in range(1, most + 1) for order in permutations(range(count))]


class Reordering(PretrainingTask):
    """Parts of paragraphs in order."""

    name = "reordering"
    level = "sequence"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._most = context.settings.reordering_parts
        if context.room(self._most) < self._most:
            raise SettingError(
                f"reordering_parts={self._most} do not fit into max_length={context.max_length}; set fewer"
            )
        self._orders = orders(self._most)
        self.classes = tuple("".join(str(part + 1) for part in order) for order in self._orders)

    def require(self, stream: SentenceStream, what: str = "the text") -> None:
        """Makes sure that there are paragraphs of several sentences."""
        if all(behind - first < 2 for first, behind in stream.document_sentences):
            raise CorpusError(
                f"{what} has no document of two sentences, which the task reordering needs; give one sentence a line, "
                "set sentences=split, or leave reordering out of tasks"
            )
        if not len(self._paragraphs(stream)):
            raise CorpusError(
                f"{what} has no two sentences that fit into max_length={self.context.max_length} together, which the "
                "task reordering needs; raise max_length, or leave reordering out of tasks"
            )

    def _paragraphs(self, stream: SentenceStream) -> Ints:
        """Returns the sentences of paragraphs, (N, 2): the first, and the one behind the last."""
        room = self.context.room(self._most)
        begins, ends = (side.tolist() for side in stream.sentences)
        found: list[tuple[int, int]] = []
        for first, behind in stream.document_sentences:
            place = first
            while place < behind:
                stop = max(place + 1, bisect_right(ends, begins[place] + room, place, behind))
                if stop - place > 1:
                    found.append((place, stop))
                place = stop
        return np.array(found, np.int64).reshape(-1, 2)

    def examples(self, stream: SentenceStream, random: np.random.Generator) -> Drawn:
        """Makes paragraphs; the table has the class, and where each part begins and the last one ends."""
        starts, ends = stream.sentences
        bounds = self._paragraphs(stream)
        counts = 1 + (random.random(len(bounds)) * np.minimum(self._most, bounds[:, 1] - bounds[:, 0])).astype(np.int64)
        offsets = np.cumsum([0, *(factorial(count) for count in range(1, self._most + 1))])
        ranks = (random.random(len(bounds)) * np.diff(offsets)[counts - 1]).astype(np.int64)
        keys = random.random((len(bounds), self._most - 1))
        table = np.zeros((len(bounds), self._most + 2), np.int64)
        table[:, 0] = offsets[counts - 1] + ranks
        table[:, 1:] = ends[bounds[:, 1] - 1, None]
        table[:, 1] = starts[bounds[:, 0]]
        for count in range(2, self._most + 1):  # cuts are different sentences but the first
            rows = np.flatnonzero(counts == count)
            table[rows, 2 : count + 1] = starts[_cuts(bounds[rows], keys[rows, : count - 1])]
        lengths = table[:, -1] - table[:, 1] + 1 + counts
        return Drawn(lengths, table)

    def row(self, stream: SentenceStream, examples: Drawn, place: int) -> Row:
        """Makes a row: the parts in their new order."""
        label, *edges = examples.table[place].tolist()
        order = self._orders[label]
        tokens, segments = self.context.frame(*(stream.read(edges[part], edges[part + 1]) for part in order))
        return Row(tokens, segments, label)


def _cuts(bounds: Ints, keys: npt.NDArray[np.float64]) -> Ints:
    """Draws different sentences behind the first one of each paragraph, rising, from numbers between 0 and 1."""
    count = keys.shape[1]
    free = bounds[:, 1] - bounds[:, 0] - count  # places for the first cut, if the others follow at once
    drawn: Ints = np.sort((keys * free[:, None]).astype(np.int64), axis=1)
    return bounds[:, :1] + 1 + drawn + np.arange(count)
