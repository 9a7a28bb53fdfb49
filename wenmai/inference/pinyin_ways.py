"""Ways to read typed pinyin, the likeliest characters of each, and words of the user among them."""

import heapq
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wenmai.inference.pinyin_typing import Piece
from wenmai.inference.user_words import UserWord
from wenmai.text.pinyin.syllables import split_tone

__all__ = ["Options", "Way", "likeliest", "put_words", "spans"]

_LEAST_OF_USER = -5.0  # a log-probability; characters of the user's words are not less

Ints = npt.NDArray[np.int64]
Options = list[list[tuple[str, float]]]  # the likeliest characters of each part, with their log-probabilities


class Way(NamedTuple):
    """A way to cut a text, as the network reads it.

    Attributes:
        text: The number of the text.
        score: Of the way.
        pieces: Parts of the text.
        symbols: What the network reads: characters before the input, and one symbol for each part.
        begins: Where each part begins; left out where nobody asked.
    """

    text: int
    score: float
    pieces: tuple[Piece, ...]
    symbols: Ints
    begins: tuple[int, ...] = ()


def put_words(words: Collection[UserWord], pieces: Sequence[Piece], lattice: Options) -> float:
    """Puts words of the user where they make a way likelier, the most valuable first; returns what is gained."""
    offers = []
    for place in range(len(pieces)):
        for one in words:
            if _spells(one, pieces[place : place + len(one.word)]):
                gain = one.weight
                for options, character in zip(lattice[place:], one.word, strict=False):
                    gain += _score_in(options, character) - (options[0][1] if options else 0.0)
                if gain > 0:
                    offers.append((gain, place, one))
    total, taken = 0.0, set[int]()
    for _, place, one in sorted(offers, key=lambda offer: -offer[0]):
        places = range(place, place + len(one.word))
        if taken.isdisjoint(places):
            taken.update(places)
            total += one.weight
            for character, there in zip(one.word, places, strict=True):
                lattice[there] = [(character, _score_in(lattice[there], character))]
    return total


def _score_in(options: Sequence[tuple[str, float]], character: str) -> float:
    return max(dict(options).get(character, _LEAST_OF_USER), _LEAST_OF_USER)


def _spells(word: UserWord, pieces: Sequence[Piece]) -> bool:
    """Whether parts of an input may be the syllables of a word."""
    return len(pieces) == len(word.word) and all(
        any(split_tone(one)[0] == syllable and (not tone or split_tone(one)[1] in (0, tone)) for one in piece.syllables)
        for piece, syllable, tone in zip(pieces, word.syllables, word.tones, strict=True)
    )


def spans(way: Way, before: int, longest: int) -> Iterator[tuple[Ints, int]]:
    """Yields what the network reads at once, and how many symbols at the beginning of it are not labelled.

    A text that is too long is cut behind a mark, if there is one in the second half of what can be read.
    """
    before = min(before, longest // 2)
    symbols = way.symbols[len(way.symbols) - len(way.pieces) - before :]
    if len(symbols) <= longest:
        yield symbols, before
        return
    context, rest = symbols[:before], symbols[before:]
    start = 0
    while start < len(rest):
        room = longest - (before if start == 0 else 0)
        end = min(len(rest), start + room)
        if end < len(rest):
            marks = [place for place in range(start + room // 2, end) if not way.pieces[place].syllables]
            end = marks[-1] + 1 if marks else end
        yield (np.concatenate([context, rest[:end]]), before) if start == 0 else (rest[start:end], 0)
        start = end


def likeliest(lattice: Sequence[Sequence[tuple[str, float]]], most: int) -> list[tuple[str, float]]:
    """Returns the likeliest texts of independent characters, with their log-probabilities, the best first."""
    if most == 1:
        return [("".join([options[0][0] for options in lattice]), sum([options[0][1] for options in lattice]))]
    best = [("", 0.0)]
    for options in lattice:
        longer = [(text + one, total + score) for text, total in best for one, score in options]
        best = heapq.nlargest(most, longer, key=lambda item: item[1]) if len(longer) > most else longer
    return heapq.nlargest(most, best, key=lambda item: item[1])
