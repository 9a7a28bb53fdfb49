"""What was typed, as a graph of syllables."""

import re
from dataclasses import dataclass

from wenmai.inference.pinyin_lattice import Graph, Literal
from wenmai.inference.pinyin_typing import score_of_letters, typed_edges
from wenmai.models.pinyin_ngram import ERHUA, Lexicon
from wenmai.text.encodable import require_text
from wenmai.text.pinyin.letters import edges_of, normal_letters, typed_places, without_breaks
from wenmai.text.pinyin.syllables import TONELESS, split_tone

__all__ = ["Typing", "read_typed"]

_SYLLABLES = frozenset(TONELESS)
_LETTERS = re.compile("[a-z]+")
_MARK = re.compile(r"[^\sa-z0-9']")
_SINGLE = re.compile("([a-z]+)[0-5]?")


@dataclass(frozen=True, slots=True)
class Typing:
    """How an input is read.

    Attributes:
        toned: Whether tones count.
        fuzzy: Pairs of sounds that are one, such as ``zh/z``.
        incomplete: Whether the last syllable may be incomplete though whole ones fit, as while somebody types.
        fuzzy_score: What a sound that was not typed adds to the score.
        incomplete_score: What an incomplete syllable or an initial adds.
    """

    toned: bool = True
    fuzzy: frozenset[str] = frozenset()
    incomplete: bool = False
    fuzzy_score: float = -2.0
    incomplete_score: float = -2.0


def _is_single_syllables(letters: str) -> bool:
    """Whether white space separates single syllables all through."""
    parts = [part for part in _MARK.sub(" ", letters).split() if _LETTERS.search(part)]
    return len(parts) > 1 and all(
        (found := _SINGLE.fullmatch(part)) and (found[1] in _SYLLABLES or found[1].removesuffix("r") in _SYLLABLES)
        for part in parts
    )


def read_typed(text: str, lexicon: Lexicon, typing: Typing) -> Graph:
    """Returns the syllables and marks of an input.

    Where white space separates single syllables all through, each is one syllable; elsewhere spaces and apostrophes are
    borders between syllables, and letters without any are cut in all ways.

    Args:
        text: The input.
        lexicon: The words, for its inventory.
        typing: How it is read.

    Raises:
        CorpusError: if the input is no text.
    """
    require_text(text)
    letters = normal_letters(text)
    places, spaced = typed_places(text, letters), _is_single_syllables(letters)
    if typing.incomplete:
        edges = edges_of(letters, fuzzy=typing.fuzzy, spaced=spaced)
    else:
        edges = typed_edges(letters, fuzzy=typing.fuzzy, spaced=spaced)
    steps, literals = [], []
    for begin, end, syllable, kind in edges:
        if kind == "letters":
            typed = without_breaks(text[places[begin] : places[end]])
            shown = typed if normal_letters(typed) == syllable else syllable
            literals.append(Literal(begin, end, shown, score_of_letters(syllable)))
            continue
        if kind == "other":
            literals.append(Literal(begin, end, without_breaks(text[places[begin] : places[end]]) or syllable))
            continue
        if kind == "erhua":
            low = lexicon.place_of(ERHUA)
            steps.append((begin, end, low, low + 1, 0, 0.0))
            continue
        plain, tone = split_tone(syllable)
        if kind in ("incomplete", "initial"):
            low, high = lexicon.range_of(plain)
            score = typing.incomplete_score
        else:
            low = lexicon.place_of(plain)
            high, score = low + 1, typing.fuzzy_score if kind == "fuzzy" else 0.0
        steps.append((begin, end, low, high, tone if typing.toned else 0, score))
    return Graph.of(letters, steps, literals)
