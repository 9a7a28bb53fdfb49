"""Plain text as a document with entities: words and sentences with their places, and mentions that are one entity.

Mentions are of one entity if their types are equal and

- their names are, but for capital letters, spaces and the dots of abbreviations;
- of people one is the other's first or last words, as *Curie* of *Marie Curie*; of all else the other one has *the* or
  the like besides;
- one is the first characters of the other, at least two, as 清华 of 清华大学;
- one is made of the first letters of the other's words, as *WHO* of *World Health Organization*.

A name has to fit the longest name of an entity, so that *Curie* joins no two people; of several that it fits, it is of
the one that was mentioned last before it.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

from wenmai.data.relations import Entity, Mention, RelationDocument
from wenmai.text.ranges import HAN
from wenmai.text.segment import marks_in_words
from wenmai.text.sentences import sentences as sentences_of

__all__ = ["Found", "Word", "aliased", "cut_words", "entities_of"]

_OF = r"['’]s\b"  # a word of its own, as in Kenya's
_IS_CHINESE = re.compile(f"[{HAN}]+")
_PEOPLE = frozenset(("per", "person", "people", "name", "nr", "人名", "人物"))  # as taggers call them
_LONGEST = 200  # characters of a name of which parts are looked for
_SMALL = frozenset(
    (
        "of",
        "the",
        "and",
        "for",
        "in",
        "on",
        "at",
        "de",
        "la",
        "le",
        "du",
        "des",
        "von",
        "van",
        "der",
        "den",
        "und",
        "et",
    )
)


class Word(NamedTuple):
    """A word, and the characters of the text that it is made of, ``end`` being behind it."""

    text: str
    start: int
    end: int


class Found(NamedTuple):
    """A mention that a tagger found: the characters from ``start`` to before ``end``, and its type."""

    start: int
    end: int
    type: str


def cut_words(
    text: str, *, inside: str = "", borders: Iterable[int] = (), apart: Iterable[int] = ()
) -> list[list[Word]]:
    """Cuts a text into sentences of words; a Chinese character is a word.

    Args:
        text: Any text; each line has sentences of its own.
        inside: Characters that separate words, and are words themselves.
        borders: Where words end too, characters of the text.
        apart: Where sentences end too.
    """
    cuts, ends = sorted(set(borders)), sorted({0, *apart, len(text)})
    found = []
    for low, high in pairwise(ends):
        place = low
        for line in text[low:high].splitlines(keepends=True):
            begin = place
            for sentence in sentences_of(line):
                begin = text.index(sentence, begin, high)
                if words := list(_words(text, begin, begin + len(sentence), inside, cuts)):
                    found.append(words)
                begin += len(sentence)
            place += len(line)
    return found


@cache
def _word() -> re.Pattern[str]:
    letters = rf"(?:(?![{HAN}])\w[{marks_in_words()}]*)+"  # accents and vowels may be characters of their own
    return re.compile(rf"[{HAN}]|\d+(?:[.,]\d+)+|{letters}(?:(?!{_OF})['’.-]{letters})*|{_OF}|[^\w\s]")


@cache
def _in_names() -> re.Pattern[str]:
    letter = rf"[\w{marks_in_words()}]"
    return re.compile(rf"{letter}+(?:['’-]{letter}+)*")


def _words(text: str, low: int, high: int, inside: str, cuts: Sequence[int]) -> Iterable[Word]:
    for match in _word().finditer(text, low, high):
        first, behind = match.span()
        places = {first, behind, *cuts[bisect_right(cuts, first) : bisect_left(cuts, behind)]}
        if inside:
            for place in range(first, behind):
                if text[place] in inside:
                    places |= {place, place + 1}
        edges = sorted(places)
        for start, end in pairwise(edges):
            yield Word(text[start:end], start, end)


def entities_of(title: str, sentences: Sequence[Sequence[Word]], found: Iterable[Found]) -> RelationDocument:
    """Puts the mentions of a text together as entities, and returns the document.

    Args:
        title: Of the document.
        sentences: Of :func:`cut_words`.
        found: The mentions, in any order; of those that overlap the longest stays.
    """
    flat = [(number, place, word) for number, words in enumerate(sentences) for place, word in enumerate(words)]
    mentions: list[Mention] = []
    taken = set[int]()
    for one in sorted(found, key=lambda one: (one.start - one.end, one.start)):
        covered = [at for at in _covered(flat, one) if at not in taken]
        if not covered or len({flat[at][0] for at in covered}) > 1 or len(covered) != len(_covered(flat, one)):
            continue
        taken.update(covered)
        sentence, start, _ = flat[covered[0]]
        name = _between([flat[at][2] for at in covered])
        mentions.append(Mention(name, sentence, start, flat[covered[-1]][1] + 1, one.type))
    mentions.sort(key=lambda one: (one.sentence, one.start))
    groups = _joined([(one.name, one.type) for one in mentions])
    entities = tuple(Entity(tuple(mentions[at] for at in group), mentions[group[0]].type) for group in groups)
    words = tuple(tuple(word.text for word in sentence) for sentence in sentences)
    return RelationDocument(title, words, entities)


def _covered(flat: Sequence[tuple[int, int, Word]], one: Found) -> list[int]:
    """The words that a mention is made of."""
    first = bisect_right(flat, one.start, key=lambda place: place[2].end)
    behind = bisect_left(flat, one.end, first, key=lambda place: place[2].start)
    return list(range(first, behind))


def _between(words: Sequence[Word]) -> str:
    """The text of some words, with a space where they are apart."""
    parts = [words[0].text]
    for before, word in pairwise(words):
        parts += [" "] * (word.start > before.end) + [word.text]
    return "".join(parts)


def _joined(names: Sequence[tuple[str, str]]) -> list[list[int]]:
    """Groups mentions by their names and types, in the order in which they are first mentioned."""
    groups: list[list[int]] = []
    longest: list[str] = []  # of each group
    keys: list[set[str]] = []  # of each group, by which names that may fit find it
    exact: dict[tuple[str, str], int] = {}  # the group that has a name
    index: dict[tuple[str, str], dict[int, None]] = {}  # the groups that have a key, the last mentioned one last
    for at, (name, kind) in enumerate(names):
        plain = _plain(name)
        known = exact.get((plain, kind))
        if known is None or _plain(longest[known]) != plain:
            sought, given = _keys(name, kind)
            having = (reversed(index.get((kind, key), {})) for key in sought)
            found = (next((one for one in ones if aliased(name, longest[one], kind)), None) for ones in having)
            fitting = {one for one in (*found, known) if one is not None}
            if fitting:
                known = max(fitting, key=lambda one: groups[one][-1])
            else:
                known = len(groups)
                groups.append([])
                longest.append("")
                keys.append(set())
            if len(name) > len(longest[known]):
                longest[known] = name
                keys[known].update(given)
        exact[plain, kind] = known
        groups[known].append(at)
        for key in keys[known]:
            of_key = index.setdefault((kind, key), {})
            of_key.pop(known, None)  # so that it comes last
            of_key[known] = None
    return groups


def _keys(name: str, kind: str) -> tuple[set[str], set[str]]:
    """What a name has of which every name that it may be an alias of, or the other way round, has the other."""
    known = _parts(name)
    whole, short = " ".join(known.words), known.short.lower()
    is_short = len(name) <= _LONGEST  # the parts of others would take memory
    inner = [name[:end] for end in range(2, len(name))] if known.chinese and is_short else []
    if _is_person(kind) and is_short:
        inner += [" ".join(known.words[:place]) for place in range(1, len(known.words))]
        inner += [" ".join(known.words[place:]) for place in range(1, len(known.words))]
    parts, wholes = {f"part {one}" for one in inner}, {f"whole {one}" for one in inner}
    both = f"core {known.core}"
    sought = {both, f"part {whole}", *wholes, f"letters {short}", f"short {known.letters}"}
    return sought, {both, f"whole {whole}", *parts, f"letters {known.letters}", f"short {short}"}


def _is_person(kind: str) -> bool:
    return kind.casefold() in _PEOPLE


def aliased(one: str, other: str, kind: str) -> bool:
    """Whether two names of a type may be of one entity, by the rules of this module."""
    if _plain(one) == _plain(other):
        return True
    few, many = map(_parts, sorted((one, other), key=len))
    if few.chinese and many.chinese:
        return len(few.name) >= 2 and many.name.startswith(few.name)
    count = len(few.words)
    if not count or count > len(many.words):
        return False
    if not _is_person(kind):
        if few.core and few.core == many.core:
            return True
    elif count < len(many.words) and few.words in (many.words[:count], many.words[-count:]):
        return any(len(word) > 2 and word not in _SMALL for word in few.words)
    known = few.short
    return len(known) > 1 and known.isupper() and len(many.words) > 1 and known.lower() == many.letters


class _Parts(NamedTuple):
    """A name.

    Attributes:
        name: All of it.
        chinese: Whether it has Chinese characters alone.
        words: Its words, in small letters.
        core: These without small words such as *the* at the ends.
        letters: The first letters of those that are not small.
        short: The name without spaces and dots.
    """

    name: str
    chinese: bool
    words: list[str]
    core: str
    letters: str
    short: str


@lru_cache(1 << 16)
def _parts(name: str) -> _Parts:
    words = _in_names().findall(name.lower())
    large = [place for place, word in enumerate(words) if word not in _SMALL]
    core = " ".join(words[large[0] : large[-1] + 1]) if large else ""
    letters = "".join(words[place][0] for place in large)
    chinese = _IS_CHINESE.fullmatch(name) is not None
    return _Parts(name, chinese, words, core, letters, re.sub(r"[\s.]", "", name))


def _plain(name: str) -> str:
    return re.sub(r"[\s.]+", "", name).casefold()
