"""Ways to read typed pinyin, the likeliest characters of each, and words of the user among them."""

import heapq
import math
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wenmai.inference.pinyin_typing import Piece
from wenmai.inference.user_words import UserWord
from wenmai.text.pinyin.syllables import split_tone

__all__ = ["Options", "Way", "likeliest", "likeliest_with_words", "spans"]

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


def likeliest_with_words(
    words: Collection[UserWord], pieces: Sequence[Piece], lattice: Options, most: int
) -> tuple[list[tuple[str, float]], float]:
    """Returns the likeliest texts of a way in which words of the user may stand, the best first.

    Args:
        words: The words.
        pieces: The parts of the way.
        lattice: The characters of each.
        most: Texts that are wanted.

    Returns:
        The texts with the logarithms of their weights, and the logarithm of the sum of the weights of all.
    """
    best: list[dict[str, float]] = [{"": 0.0}, *({} for _ in pieces)]
    mass = [0.0, *[-math.inf] * len(pieces)]
    for place, options in enumerate(lattice):
        kept = heapq.nlargest(most, best[place].items(), key=lambda item: item[1])
        steps = [(1, character, score) for character, score in options[:most]]
        mass[place + 1] = float(np.logaddexp(mass[place + 1], mass[place]))  # those of all characters sum to 1
        for one in words:
            size = len(one.word)
            if _spells(one, pieces[place : place + size]):
                score = one.weight + sum(map(_score_in, lattice[place:], one.word))
                steps.append((size, one.word, score))
                mass[place + size] = float(np.logaddexp(mass[place + size], mass[place] + score))
        for text, total in kept:
            for size, more, score in steps:
                longer, ending = text + more, best[place + size]
                ending[longer] = max(total + score, ending.get(longer, -math.inf))
    return heapq.nlargest(most, best[-1].items(), key=lambda item: item[1]), mass[-1]


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
