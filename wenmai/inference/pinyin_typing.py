"""What was typed, cut into syllables and marks."""

import heapq
import math
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import NamedTuple

from wenmai.core.errors import PinyinError
from wenmai.inference.pinyin_numbers import Numbers
from wenmai.text.encodable import require_text
from wenmai.text.pinyin.letters import (
    INITIALS,
    Edge,
    completions,
    edges_of,
    is_break,
    normal_letters,
    typed_places,
    without_breaks,
)
from wenmai.text.pinyin.syllables import normal_syllable, without_tone

__all__ = ["Cutter", "Piece", "Reading", "score_of_letters", "typed_edges"]

_ERHUA = "er5"  # also where tones are left out: an r behind a syllable is 儿 alone
_INCOMPLETE, _INITIAL, _FUZZY = -4.0, -7.0, -1.0  # log-probabilities beside those of whole syllables
_NO_CHARACTER = -25.0  # of a syllable of which the model knows no character
_LETTERS, _LETTER = -11.0, -2.2  # letters that stay, and each: the letters of a likely character cost less than it


class Piece(NamedTuple):
    """A part of what was typed.

    Attributes:
        text: As it was typed.
        syllables: The syllables that it may be: one, or several that begin with these letters; none: it is no pinyin.
    """

    text: str
    syllables: tuple[str, ...]


class Reading(NamedTuple):
    """A way to cut what was typed.

    Attributes:
        score: Its log-probability, by the frequencies of the syllables.
        pieces: The parts, in order.
        begins: The place in the text (of ``normal_letters``) where each part begins; left out of simple texts.
    """

    score: float
    pieces: tuple[Piece, ...]
    begins: tuple[int, ...] = ()


class _Way(NamedTuple):
    score: float
    before: "_Way | None"
    edge: Edge | None


class Cutter:
    """Cuts texts into syllables.

    Args:
        numbers: Its symbols have the frequencies of syllables without tones.
    """

    def __init__(self, numbers: Numbers) -> None:
        tokens, counts = numbers.symbols.tokens, numbers.symbols.counts.tolist()
        frequent = {token: count for token, count in zip(tokens, counts, strict=True) if count}
        total = sum(frequent.values()) + 1
        self._scores = {token: math.log(count / total) for token, count in frequent.items()}
        self._least = -math.log(2 * total)
        self._known = numbers.candidates.keys()

    def read(
        self,
        text: str,
        *,
        toned: bool | None = None,
        most: int = 1,
        fuzzy: Collection[str] = frozenset(),
        placed: bool = False,
    ) -> list[Reading]:
        """Cuts a text.

        In a text with spaces, letters between them that are one syllable are that syllable. Others are cut where they
        can be; letters that form no syllable stay as they were typed. Spaces and apostrophes are left out.

        Args:
            text: What was typed.
            toned: False: tones are left out; otherwise they count where there are some.
            most: How many ways to cut it, the most likely first.
            fuzzy: Pairs of sounds that may be meant by each other, of ``FUZZY_PAIRS``.
            placed: Whether it is wanted where the parts begin.

        Raises:
            CorpusError: if it is no text.
        """
        require_text(text)
        plain = None if fuzzy or placed else _plain(text)
        if plain is not None:
            ways = [Reading(0.0, plain)]
        else:
            letters = normal_letters(text)
            edges = typed_edges(letters, fuzzy=fuzzy)
            places = typed_places(text, letters)
            ways = [_traced(way, letters, text, places) for way in self._ways(edges, len(letters), most)]
        if toned is False:
            ways = [way._replace(pieces=tuple(map(_bare, way.pieces))) for way in ways]
        return ways

    def _ways(self, edges: list[Edge], length: int, most: int) -> list[_Way]:
        best: list[list[_Way]] = [[] for _ in range(length + 1)]
        best[0] = [_Way(0.0, None, None)]
        place = 0
        for edge in edges:  # by where they begin
            while place < edge.begin:
                place += 1
                best[place] = heapq.nlargest(most, best[place], key=_score)
            score = self._score(edge)
            best[edge.end] += [_Way(way.score + score, way, edge) for way in best[edge.begin]]
        return heapq.nlargest(most, best[-1] if edges else best[0], key=_score)

    def _score(self, edge: Edge) -> float:
        match edge.kind:
            case "full" | "erhua":
                return self._frequency(without_tone(edge.syllable))
            case "fuzzy":
                return self._frequency(without_tone(edge.syllable)) + _FUZZY
            case "incomplete":
                return _INCOMPLETE
            case "initial":
                return _INITIAL
            case "letters":
                return score_of_letters(edge.syllable)
        return 2 * self._least

    def _frequency(self, syllable: str) -> float:
        return self._scores.get(syllable, self._least if syllable in self._known else _NO_CHARACTER)


def _traced(way: _Way, letters: str, text: str, places: Sequence[int]) -> Reading:
    pieces, begins = [], []
    step: _Way | None = way
    while step is not None and step.edge is not None:
        begin, end, syllable, kind = step.edge
        if kind in ("letters", "other"):
            pieces.append(Piece(without_breaks(text[places[begin] : places[end]]) or syllable, ()))
        else:
            pieces.append(_piece(letters[begin:end], _ERHUA if kind == "erhua" else syllable, kind))
        begins.append(begin)
        step = step.before
    return Reading(way.score, tuple(reversed(pieces)), tuple(reversed(begins)))


def score_of_letters(letters: str) -> float:
    """Returns what letters that are no syllables add to a log-probability."""
    return _LETTERS + _LETTER * len(letters)


def typed_edges(
    letters: str, *, fuzzy: Collection[str] = frozenset(), abbreviated: bool = True, spaced: bool | None = None
) -> list[Edge]:
    """Returns the edges of what was typed; incomplete syllables and initials only where whole syllables do not do.

    Args:
        letters: In the form of ``normal_letters``.
        fuzzy: Pairs of sounds that may be meant by each other.
        abbreviated: Whether initials may stand for syllables.
        spaced: As of ``edges_of``; None: whether it has spaces or apostrophes inside.
    """
    spaced = _has_breaks(letters) if spaced is None else spaced
    edges = edges_of(letters, fuzzy=fuzzy, incomplete=False, abbreviated=False, spaced=spaced)
    if any(edge.kind == "letters" for edge in edges):
        edges = edges_of(letters, fuzzy=fuzzy, incomplete=True, abbreviated=abbreviated, spaced=spaced)
    return edges


def _has_breaks(text: str) -> bool:
    """Whether a text has spaces or apostrophes inside."""
    return any(map(is_break, text.strip()))


def _score(way: _Way) -> float:
    return way.score


@lru_cache(1 << 13)
def _piece(text: str, syllable: str, kind: str) -> Piece:
    return Piece(text.strip(), completions(syllable) if kind in ("incomplete", "initial") else (syllable,))


@lru_cache(1 << 13)
def _syllable(text: str) -> Piece | None:
    try:
        return Piece(text, (normal_syllable(text),))
    except PinyinError:
        return None


def _plain(text: str) -> tuple[Piece, ...] | None:
    """Returns the syllables of a text that has nothing but syllables with spaces between; None: it has more."""
    pieces = []
    parts = text.split()
    for part in parts if len(parts) > 1 else ():
        piece = None if part in INITIALS else _syllable(part)  # n may be en, but begins other syllables too
        if piece is None:
            return None
        pieces.append(piece)
    return tuple(pieces) or None


@lru_cache(1 << 13)
def _bare(piece: Piece) -> Piece:
    if piece.syllables == (_ERHUA,) and piece.text.startswith("r"):
        return piece
    return piece._replace(syllables=tuple(dict.fromkeys(map(without_tone, piece.syllables))))
