"""Marks of tokens: what the original text tells of a token and its id does not, a byte of bits for each token.

| bit | it is set where |
|---|---|
| :data:`CAPITAL` | the word that the token is of, or begins with, was written with a capital letter first |
| :data:`PHRASE` | a phrase begins; a word that is in no longer phrase is one |
| :data:`ENTITY` | an entity, something with a name, begins |
| :data:`INSIDE` | a phrase or an entity goes on that began before |

A phrase goes on to the next token that has :data:`PHRASE`; an entity goes on while :data:`INSIDE` is set and
:data:`ENTITY` is not. No phrase crosses the end of an entity, though one may be inside it. The ends of lines have no
marks, and nothing goes on behind them.

Entities are marked in the text itself, as in ``[[Ada Lovelace]] was born in [[London]]``, whose brackets are then no
part of it; or stand in a list of names; or whatever else finds them.
"""

import hashlib
import json
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from wenmai.text.names import Codes, NameMatcher, Spans, codes_of, in_words, spaces
from wenmai.text.segment import LINE_END, segmenter
from wenmai.text.sentences import sentences as sentences_of
from wenmai.text.settings import Segmentation

__all__ = [
    "CAPITAL",
    "ENTITY",
    "INSIDE",
    "PHRASE",
    "EntityFinder",
    "MarkStats",
    "Marker",
    "unit_begins",
]

CAPITAL, PHRASE, ENTITY, INSIDE = 1, 2, 4, 8

VERSION = 2  # of the marks that a text has
_INLINE_VERSION = 2  # of what is made of a text with inline marks

Marks = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]
Offsets = npt.NDArray[np.int64]

EntityFinder = Callable[[list[str]], list[list[tuple[int, int]]]]
"""Finds entities: of each of some texts, where they begin and end, in characters."""

_PLANE = 1 << 16  # characters beyond have no case that matters
_INLINE = re.compile(r"\[\[([^\[\]\n]+)\]\]")


@dataclass(slots=True, kw_only=True)
class MarkStats:
    """How many tokens begin something."""

    capitals: int = 0
    phrases: int = 0
    entities: int = 0

    def add(self, marks: Marks) -> None:
        """Counts the marks of some tokens."""
        self.capitals += int(np.count_nonzero(marks & CAPITAL))
        self.phrases += int(np.count_nonzero(marks & PHRASE))
        self.entities += int(np.count_nonzero(marks & ENTITY))


@dataclass(frozen=True, eq=False, kw_only=True)
class Marker:
    """Makes the marks of texts.

    Attributes:
        bits: Which marks are made, :data:`INSIDE` with phrases and entities.
        segment: How texts become words, which phrases are made of.
        phrases: Phrases of several words, or None.
        names: Names of entities, or None.
        inline: Whether entities are marked in the texts.
        finder: What else finds entities, or None.
        found_by: Of the finder, for the fingerprint; all that the entities depend on.
        source: What finds entities, for people.
    """

    bits: int
    segment: Segmentation = "words"
    phrases: NameMatcher | None = None
    names: NameMatcher | None = None
    inline: bool = False
    finder: EntityFinder | None = None
    found_by: str = ""
    source: str = "the names"

    def identity(self) -> list[Any]:
        """Returns all that the marks depend on besides text and tokens, as JSON values."""
        from importlib.metadata import version

        found: list[Any] = ["marks", VERSION, self.bits, unicodedata.unidata_version]
        if self.bits & PHRASE:
            found += [self.segment, _fingerprint(self.phrases)]
            found += [version("rjieba")] if self.segment == "chinese" else []
        if self.bits & ENTITY:
            found += [_fingerprint(self.names), self.inline and _INLINE_VERSION, self.found_by]
        return found

    def plain(self, text: str) -> str:
        """Returns a text without the brackets of inline marks."""
        return _INLINE.sub(r"\1", text) if self.inline and "[[" in text else text

    def sentences(self, text: str) -> list[str]:
        """Returns the sentences of a line as it was given; none ends inside of an inline mark."""
        found = sentences_of(text)
        inside = [match.span() for match in _INLINE.finditer(text)] if self.inline and len(found) > 1 else []
        if not inside:
            return found
        whole: list[str] = []
        begin = end = 0  # of the last one
        for sentence in found:
            start = text.index(sentence, end)
            end = start + len(sentence)
            before = bisect_left(inside, (start,))  # marks that begin in front of it
            if before and inside[before - 1][1] > start:
                whole[-1] = text[begin:end]
            else:
                whole.append(sentence)
                begin = start
        return whole

    def marks(self, texts: list[str], offsets: Sequence[Offsets]) -> list[Marks]:
        """Returns the marks of the tokens of some texts, which were lines or parts of lines.

        Args:
            texts: The texts as they were given, inline marks and all.
            offsets: Of each text (tokens, 2), where they begin and end in :meth:`plain` of it, in characters.
        """
        plain, inline = zip(*map(self._taken_out, texts), strict=True) if self.inline else (texts, ())
        text = "\n".join(plain) + "\n"
        codes = codes_of(text)
        lines = np.cumsum([0, *(len(one) + 1 for one in plain)])
        tokens = _Tokens(codes, lines, offsets)
        found = np.zeros(len(tokens), np.uint8)
        begins = np.zeros(len(tokens), np.bool_)
        if self.bits & CAPITAL:
            found[_capital(codes)[tokens.starts]] |= CAPITAL
        if self.bits & PHRASE:
            begins[tokens.holding(np.flatnonzero(self._phrase_begins(text, codes)))[0]] = True
            begins[tokens.firsts] = True
        if self.bits & ENTITY:
            first, last = tokens.spans(self._entities(text, codes, list(plain), lines, inline))
            found[first] |= ENTITY
            found[_covered(first + 1, last + 1, len(found))] |= INSIDE
            begins[first] = True
            begins[last[last + 1 < len(begins)] + 1] = True
        if self.bits & PHRASE:
            found[begins] |= PHRASE
            found[~begins] |= INSIDE
        return np.split(found, tokens.ends_of_texts[:-1])

    def _taken_out(self, text: str) -> tuple[str, list[tuple[int, int]]]:
        """Returns a text without brackets, and what stood in them."""
        spans, parts, behind, size = [], [], 0, 0
        for match in _INLINE.finditer(text):
            before = text[behind : match.start()]
            size += len(before)
            if inside := len(match[1].lstrip()):  # no entity begins with a space, or is one
                spans.append((size + len(match[1]) - inside, size + len(match[1])))
            size += len(match[1])
            parts += [before, match[1]]
            behind = match.end()
        return "".join([*parts, text[behind:]]), spans

    def _phrase_begins(self, text: str, codes: Codes) -> Bools:
        """Returns which characters begin a phrase."""
        begins = np.zeros(len(codes) + 1, np.bool_)
        visible = np.flatnonzero(~spaces(codes))
        words = [word for word in segmenter(self.segment).tokens(text) if word != LINE_END]
        sizes = np.fromiter(map(len, words), np.int64, len(words))
        if int(sizes.sum()) != len(visible):  # words with white space inside
            sizes = np.fromiter((len("".join(word.split())) for word in words), np.int64, len(words))
        begins[visible[np.cumsum(sizes) - sizes]] = True
        if self.phrases is not None:
            low, high = self.phrases.spans(text, codes).T
            behind = np.append(visible, len(codes))[np.searchsorted(visible, high)]
            whole = begins[low] & (begins[behind] | (behind > high))
            begins[_covered(low[whole] + 1, high[whole], len(begins))] = False
        return begins[:-1]

    def _entities(
        self,
        text: str,
        codes: Codes,
        plain: list[str],
        lines: npt.NDArray[np.int64],
        inline: Sequence[list[tuple[int, int]]],
    ) -> Spans:
        """Returns the places of entities: those that are marked, those that are found, and those of the list."""
        kinds = []
        for spans in (inline, [] if self.finder is None else self.finder(plain)):
            kinds += [[(base + low, base + high) for base, one in zip(lines.tolist(), spans, strict=False)
                       for low, high in one]]  # fmt: skip
        if self.names is not None:
            kinds.append([(low, high) for low, high in self.names.spans(text, codes).tolist()])
        taken = np.zeros(len(codes), np.bool_)
        kept = []
        for low, high in chain.from_iterable(kinds):
            if not taken[low:high].any():
                taken[low:high] = True
                kept.append((low, high))
        return np.array(sorted(kept), np.int64).reshape(-1, 2)


class _Tokens:
    """Where the tokens of several texts are, which stand one behind another, each with the end of a line.

    Args:
        codes: The characters of all texts.
        lines: (texts + 1,) where each text begins.
        offsets: Of each text those of its tokens.
    """

    def __init__(self, codes: Codes, lines: npt.NDArray[np.int64], offsets: Sequence[Offsets]) -> None:
        sizes = np.fromiter(map(len, offsets), np.int64, len(offsets))
        self.ends_of_texts = np.cumsum(sizes)
        flat = np.concatenate(offsets).reshape(-1, 2) + np.repeat(lines[:-1], sizes)[:, None]
        visible = np.flatnonzero(~spaces(codes))
        behind = np.append(visible, len(codes))[np.searchsorted(visible, flat[:, 0])]
        behind = np.minimum(behind, np.repeat(lines[1:] - 1, sizes))  # not in the next text
        self.starts = np.maximum.accumulate(behind) if len(behind) else behind  # behind the space before the token
        self._ends = flat[:, 1]
        firsts = np.concatenate([[0], self.ends_of_texts[:-1]])
        self.firsts = firsts[sizes > 0]

    def __len__(self) -> int:
        return len(self.starts)

    def holding(self, places: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], Bools]:
        """Returns the token that each of some characters is in, the first if there are several, and of which one is."""
        token = np.searchsorted(self.starts, places, side="right") - 1
        held = token >= 0
        held[held] = self._ends[token[held]] > places[held]
        return np.searchsorted(self.starts, self.starts[token[held]]), held

    def spans(self, places: Spans) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Returns the first and the last token of each part of the texts whose beginning has a token of its own."""
        first, held = self.holding(places[:, 0])
        last = np.searchsorted(self.starts, places[held, 1] - 1, side="right") - 1
        free = np.ones(len(first), np.bool_)
        free[1:] = first[1:] > np.maximum.accumulate(last)[:-1]
        return first[free], last[free]


def unit_begins(marks: Marks, *, entities: bool) -> Bools:
    """Returns which tokens begin a unit: a phrase, or an entity if these are units too, or are in neither."""
    begins: Bools = ((marks & PHRASE) > 0) | ((marks & INSIDE) == 0)
    if entities:
        begins &= ~_inside_entities(marks)
        begins |= (marks & ENTITY) > 0
    return begins


def _inside_entities(marks: Marks) -> Bools:
    """Returns which tokens are in an entity that began before."""
    ends = ((marks & ENTITY) > 0) | ((marks & INSIDE) == 0)
    last = np.maximum.accumulate(np.where(ends, np.arange(len(marks)), -1))
    found: Bools = ~ends & (last >= 0) & ((marks[last] & ENTITY) > 0)
    return found


def _capital(codes: Codes) -> Bools:
    """Returns which characters are of words, runs of letters and digits, that begin with a capital letter."""
    inner = in_words(codes)
    first = inner.copy()
    first[1:] &= ~inner[:-1]
    last = np.maximum.accumulate(np.where(first, np.arange(len(codes)), 0))
    found: Bools = inner & _capitals()[np.minimum(codes[last], _PLANE - 1)]
    return found


def _covered(low: npt.NDArray[np.int64], high: npt.NDArray[np.int64], size: int) -> Bools:
    """Returns which of so many places are in one of some spans that are apart."""
    change = np.zeros(size + 1, np.int64)
    change[low] += 1
    np.subtract.at(change, high, 1)
    found: Bools = change.cumsum()[:-1] > 0
    return found


@cache
def _capitals() -> Bools:
    return np.array([chr(code).isupper() or chr(code).istitle() for code in range(_PLANE)])


def _fingerprint(matcher: NameMatcher | None) -> str:
    if matcher is None:
        return ""
    return hashlib.sha256(json.dumps(sorted(matcher.names)).encode()).hexdigest()
