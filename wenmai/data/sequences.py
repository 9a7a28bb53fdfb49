"""The sequences that masked language models read: made of sentences and documents of an encoded text.

A text is seen as one *stream* of tokens: the ends of lines are left out, but for those that end a document. An
*example* is a part of the stream, or two of a pair. Nothing is copied until a batch is made, so a plan of millions of
examples is small.

Pairs are made as in BERT's ``create_pretraining_data``: sentences of a document are gathered until they fill a
sequence, and cut in two at random.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import CorpusError
from wenmai.data.encoded_text import EncodedText

__all__ = ["Examples", "PairKind", "SentenceStream", "documents", "packed", "pairs", "require_pairs", "windows"]

PairKind = Literal["next", "order"]

Ids = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Marks = npt.NDArray[np.uint8]
_Number = TypeVar("_Number", bound=np.generic)

_TRIES = 10  # to find another document, as in BERT


class Examples(NamedTuple):
    """Examples as parts of a stream.

    Attributes:
        spans: (N, 4) int64: where the first text begins and ends, and the second, empty where there is none.
        labels: (N,) int64, of pairs: 0 if the second follows the first, 1 if it does not.
        numbers: (N,) int64, the place of each among all examples that were made together.
    """

    spans: Ints
    labels: Ints
    numbers: Ints

    @classmethod
    def of(cls, spans: Ints, labels: Ints | None = None) -> "Examples":
        """Numbers examples in their order."""
        count = len(spans)
        return cls(spans, np.zeros(count, np.int64) if labels is None else labels, np.arange(count))

    @property
    def lengths(self) -> Ints:
        """Tokens of each example, (N,), without special tokens."""
        found: Ints = self.spans[:, 1] - self.spans[:, 0] + self.spans[:, 3] - self.spans[:, 2]
        return found

    def take(self, places: Ints) -> "Examples":
        """Returns some of the examples."""
        return Examples(self.spans[places], self.labels[places], self.numbers[places])


class SentenceStream:
    """A part of an encoded text, without the ends of lines within documents.

    Args:
        text: The text.
        begin: Its first token; the beginning of a line.
        end: The token behind its last.
        separator: The token in place of the end of a document.
        held_out: Whether the text is to validate on, so that nothing else that is trained on may go with it.

    Attributes:
        held_out: As it was given.
    """

    def __init__(self, text: EncodedText, begin: int, end: int, *, separator: int, held_out: bool = False) -> None:
        self.held_out = held_out
        self._tokens, self._marks = text.tokens, text.marks
        self._name = ", ".join(text.sources)
        self._begin = begin
        self._separator = separator
        behind = np.asarray(text.ends[:, 0])
        first, last = (int(place) for place in np.searchsorted(behind, (begin, end), side="right"))
        ends = behind[first:last]  # of the lines that end here
        if not len(ends) or ends[-1] != end:
            ends = np.append(ends, end)
        starts = np.asarray(text.documents)
        starts = np.union1d(starts[(starts > begin) & (starts < end)], [begin, end])  # of documents, and the end
        lasts = np.isin(ends, starts[1:])
        self._left_out = ends[~lasts] - 1  # tokens of the text
        self._shifted = self._left_out - np.arange(len(self._left_out)) - begin
        self._ends = ends - begin - np.cumsum(~lasts)  # of sentences in the stream, ends of documents counted
        self._lasts = lasts

    def __len__(self) -> int:
        return int(self._ends[-1])

    @cached_property
    def sentences(self) -> tuple[Ints, Ints]:
        """Where each sentence begins and ends in the stream, without the end of its document."""
        starts = np.concatenate([[0], self._ends[:-1]])
        return starts, self._ends - self._lasts

    @cached_property
    def document_sentences(self) -> list[tuple[int, int]]:
        """The first sentence of each document, and the one behind its last."""
        return list(pairwise([0, *(np.flatnonzero(self._lasts) + 1).tolist()]))

    def read(self, start: int, stop: int) -> Ids:
        """Returns the tokens of the stream from ``start`` to ``stop``, (stop - start) int32."""
        if stop <= start:
            return np.zeros(0, np.int32)
        found: Ids = self._part(self._tokens, start, stop)
        for end in range(bisect_left(self._document_ends, start), bisect_left(self._document_ends, stop)):
            found[self._document_ends[end] - start] = self._separator
        return found

    def read_marks(self, start: int, stop: int) -> Marks:
        """Returns the marks of the tokens of the stream from ``start`` to ``stop``, (stop - start) uint8.

        Raises:
            CorpusError: if the text was encoded without marks (see :mod:`wenmai.data.token_marks`).
        """
        if self._marks is None:
            raise CorpusError(f"{self._name}: was encoded without marks of phrases, entities and capital letters")
        return np.zeros(0, np.uint8) if stop <= start else self._part(self._marks, start, stop)

    def _part(self, values: npt.NDArray[_Number], start: int, stop: int) -> npt.NDArray[_Number]:
        """Returns a copy of what the tokens of the stream have in an array beside those of the text."""
        low, high = np.searchsorted(self._shifted, (start, stop - 1), side="right").tolist()
        first, last = start + low + self._begin, stop - 1 + high + self._begin
        found = np.array(values[first : last + 1])
        return np.delete(found, self._left_out[low:high] - first) if high > low else found

    @cached_property
    def _document_ends(self) -> list[int]:
        """The places of the ends of documents in the stream."""
        found: list[int] = (self._ends[self._lasts] - 1).tolist()
        return found


def windows(stream: SentenceStream, length: int, random: np.random.Generator) -> Examples:
    """Cuts a stream into examples of equal length, across documents, from a random place on.

    Args:
        stream: The text.
        length: Tokens of an example.
        random: Draws where the first begins.
    """
    size = len(stream)
    length = min(length, size)
    starts = np.arange(random.integers(0, min(length, size - length + 1)), size - length + 1, length, dtype=np.int64)
    none = np.zeros_like(starts)
    return Examples.of(np.stack((starts, starts + length, none, none), 1))


def documents(stream: SentenceStream, length: int, random: np.random.Generator) -> Examples:
    """Cuts each document into examples of equal length but the first and the last, at random places.

    Args:
        stream: The text.
        length: Most tokens of an example.
        random: Draws how long the first part of each document is.
    """
    begins, ends = stream.sentences
    bounds = stream.document_sentences
    spans: list[tuple[int, int]] = []
    for (first, behind), cut in zip(bounds, random.integers(1, length + 1, len(bounds)).tolist(), strict=True):
        begin, end = int(begins[first]), int(ends[behind - 1])
        places = [begin, *range(begin + cut, end, length), end] if end - begin > length else [begin, end]
        spans += [(low, high) for low, high in pairwise(places) if high > low]
    table = np.zeros((len(spans), 4), np.int64)
    table[:, :2] = spans
    return Examples.of(table)


def pairs(
    stream: SentenceStream, length: int, random: np.random.Generator, *, kind: PairKind, short: float = 0.1
) -> Examples:
    """Makes pairs of texts (Devlin et al. 2019, section 3.1; Lan et al. 2020, section 3.1).

    Args:
        stream: The text.
        length: Most tokens of both texts.
        random: Draws where pairs are cut, how long they are, and which are not true.
        kind: ``next``: a half of the second texts is from another document; ``order``: a half is swapped.
        short: Probability that a pair is shorter, of 2 to ``length`` tokens.

    Raises:
        CorpusError: as of :func:`require_pairs`.
    """
    require_pairs(stream, kind)
    bounds = stream.document_sentences
    begins, ends = (side.tolist() for side in stream.sentences)
    spans: list[tuple[int, int, int, int]] = []
    labels: list[int] = []
    for number, (first, behind) in enumerate(bounds):
        place = first
        while place < behind:
            target = length if random.random() >= short else int(random.integers(2, length + 1))
            stop = place + 1
            while stop < behind and ends[stop - 1] - begins[place] < target:
                stop += 1
            cut = place + 1 if stop == place + 1 else int(random.integers(place + 1, stop))
            one = (begins[place], ends[cut - 1])
            if kind == "next" and (cut == stop or random.random() < 0.5):
                other = _elsewhere(number, target - (one[1] - one[0]), begins, ends, bounds, random)
                label, place = 1, cut
            elif cut == stop:
                place = stop  # a single sentence has no order
                continue
            else:
                other, label, place = (begins[cut], ends[stop - 1]), 0, stop
            one, other = _shortened(one, other, length, random)
            if kind == "order" and random.random() < 0.5:
                one, other, label = other, one, 1
            spans.append((*one, *other))
            labels.append(label)
    return Examples.of(np.array(spans, np.int64), np.array(labels, np.int64))


def require_pairs(stream: SentenceStream, kind: PairKind, what: str = "the text", *, aside: bool = False) -> None:
    """Makes sure that pairs can be made.

    Args:
        stream: The text.
        kind: The kind of pairs.
        what: What messages call the text.
        aside: Whether it is the end of another text, and could be given instead.

    Raises:
        CorpusError: if the text has no second document, or no document of two sentences.
    """
    bounds = stream.document_sentences
    if kind == "next" and len(bounds) < 2:
        cure = "give one with --valid" if aside else "separate documents by blank lines"
        raise CorpusError(
            f"{what} is one document, but pairs=next takes half of the second texts from another one; {cure}, or set "
            "pairs=order or pairs=none"
        )
    if all(behind - first < 2 for first, behind in bounds):
        cure = "give one with --valid" if aside else "give one sentence a line, set sentences=split"
        raise CorpusError(
            f"{what} has no document of two sentences, but pairs={kind} makes pairs of neighbours; {cure}, or set "
            "pairs=none"
        )


def _elsewhere(
    number: int,
    wanted: int,
    begins: list[int],
    ends: list[int],
    bounds: Sequence[tuple[int, int]],
    random: np.random.Generator,
) -> tuple[int, int]:
    """Returns sentences of another document: from a random one on, until there are enough."""
    other = number
    for _ in range(_TRIES):
        other = int(random.integers(len(bounds)))
        if other != number:
            break
    first, behind = bounds[other]
    start = int(random.integers(first, behind))
    stop = start + 1
    while stop < behind and ends[stop - 1] - begins[start] < wanted:
        stop += 1
    return begins[start], ends[stop - 1]


def _shortened(
    one: tuple[int, int], other: tuple[int, int], length: int, random: np.random.Generator
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Takes tokens away until both fit: each from the longer text (the second of equals), at either end."""
    sizes = [one[1] - one[0], other[1] - other[0]]
    surplus = sum(sizes) - length
    if surplus <= 0:
        return one, other
    longer = int(sizes[0] <= sizes[1])
    first = min(surplus, abs(sizes[0] - sizes[1]))  # all of these from the longer
    rest = surplus - first
    taken = [rest // 2, rest - rest // 2]
    taken[longer] += first
    shortened = []
    for (begin, end), away in zip((one, other), taken, strict=True):
        front = int(random.binomial(away, 0.5)) if away else 0
        shortened.append((begin + front, end - (away - front)))
    return shortened[0], shortened[1]


def packed(lengths: Ints, capacity: int) -> list[Ints]:
    """Puts examples together in rows, so that little room stays empty: the longest first, each where it fits best.

    Args:
        lengths: (N,) tokens of each example, special ones included.
        capacity: Tokens of a row.

    Returns:
        The examples of each row; each is in one.
    """
    rows: list[list[int]] = []
    open_rows: dict[int, list[int]] = {}  # by the room that they have
    rooms: list[int] = []  # which there are, rising
    for place in np.argsort(-lengths, kind="stable").tolist():
        size = int(lengths[place])
        at = bisect_left(rooms, size)
        if at == len(rooms):
            number, room = len(rows), capacity
            rows.append([])
        else:
            room = rooms[at]
            number = open_rows[room].pop()
            if not open_rows[room]:
                del open_rows[room], rooms[at]
        rows[number].append(place)
        if left := room - size:
            if left not in open_rows:
                rooms.insert(bisect_left(rooms, left), left)
            open_rows.setdefault(left, []).append(number)
    return [np.array(row, np.int64) for row in rows]


def texts_of(stream: SentenceStream, examples: Examples) -> Iterator[tuple[Ids, Ids]]:
    """Yields the tokens of each example: of its first text, and of its second, which may be empty."""
    for begin, end, start, stop in examples.spans.tolist():
        yield stream.read(begin, end), stream.read(start, stop)
