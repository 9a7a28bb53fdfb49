"""Typed letters: what syllables they may be, as a lattice.

``fangan`` is 方案 (fang an) or 反感 (fan gan). :func:`edges_of` gives all syllables of a text of letters, as edges
between places in it; a decoder finds the best path. Its rules:

- An apostrophe and white space are hard breaks: ``xi'an`` is 西安 and never 先. They belong to the edge before them.
- A digit from 1 to 5, or 0, after a syllable is its tone, unless another digit follows (``wo3``, but ``wo30``).
- ``r`` after a syllable may be erhua (``nar``, 哪儿); the tone of the syllable is before it or behind (``nar3``,
  ``na3r``).
- The last syllable may be incomplete, as it is while somebody types (``zho``).
- Where syllables do not cover a run of letters, initials alone may stand for syllables (``zgrm``, 中国人民); where
  these do not cover it either, there are none, and stretches of letters stay as they are: from a place where no
  syllable begins to one where one does, or to the end (``wifi``, ``woaiiphone``). So there always is a path.
- Everything else, such as Chinese characters, punctuation and digits, is an edge of its own.
- *Fuzzy pairs* make syllables equal that many speakers do not tell apart: with ``zh/z``, ``zan`` may be 站 too.

Capital letters are read as small ones, full-width letters and digits as usual ones; ``ü`` and ``lu:`` as ``v``, and
after j, q, x and y as ``u`` (behind others ``:`` is one); ``r5`` by itself, as dictionaries write erhua, as ``er5``.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Collection, Sequence
from functools import cache, lru_cache
from itertools import pairwise, product
from typing import Final, Literal, NamedTuple

from wenmai.core.errors import SettingError, nearest_name
from wenmai.text.pinyin.syllables import NEUTRAL, TONELESS, split_tone, without_tone

__all__ = [
    "FUZZY_PAIRS",
    "INITIALS",
    "Edge",
    "EdgeKind",
    "completions",
    "edges_of",
    "fuzzy_pairs",
    "is_break",
    "normal_letters",
    "typed_letters",
    "typed_places",
    "without_breaks",
]

EdgeKind = Literal["full", "erhua", "fuzzy", "incomplete", "initial", "letters", "other"]

INITIALS: Final = (*"bpmfdtnlgkhjqx", "zh", "ch", "sh", *"rzcsyw")
"""The consonants with which syllables begin, y and w among them."""

FUZZY_PAIRS: Final = ("zh/z", "ch/c", "sh/s", "n/l", "an/ang", "en/eng", "in/ing", "v/u")
"""The pairs of initials and of finals that may be taken for each other; v/u is lu for lü and nu for nü."""

_BREAKS: Final = re.compile(r"^[\s']+|[\s']+$|(?<=\w)’$")  # a ’ by itself is no break
_CURLED: Final = re.compile("(?<=[a-z0-5])’(?=[a-z])")  # an apostrophe; elsewhere it closes a quotation
_LONGEST: Final = max(map(len, TONELESS)) + 1  # a fuzzy pair may add a letter
_LONGEST_STRETCH: Final = 20  # letters that stay as they are, if syllables begin or end within them
_FORMS: Final = {ord("ü"): "v", ord("Ü"): "v"} | {
    code: chr(code - 0xFEE0).lower()
    for code in (*range(0xFF10, 0xFF1A), *range(0xFF21, 0xFF3B), *range(0xFF41, 0xFF5B))
}
_MARKED: Final = {
    mark: f"{vowel}{tone}"
    for vowel, marks in {"a": "āáǎà", "e": "ēéěè", "i": "īíǐì", "o": "ōóǒò", "u": "ūúǔù", "v": "ǖǘǚǜ"}.items()
    for tone, mark in enumerate(marks, 1)
}
_WRITTEN: Final = {"lue": "lve", "nue": "nve"}  # without the dots, as there is no other syllable
_NO_DIGITS: Final = dict.fromkeys(map(ord, "1234"))
_ONLY_DIGITS: Final = dict.fromkeys(range(ord("a"), ord("z") + 1))
_DOTTED: Final = re.compile("(?<=[lnjqxy])u:")  # behind other letters there is no ü, but a colon
_AS_U: Final = re.compile("(?<=[jqxy])[vǖǘǚǜ]")
_WITHOUT_DOTS: Final = dict(zip("vǖǘǚǜ", "uūúǔù", strict=True))
_ERHUA_ALONE: Final = re.compile("(?<![a-z])r(?=[05](?![0-9]))")
_OF_RUNS: Final = f"[a-z{''.join(_MARKED)}]"
_MARKED_RUN: Final = re.compile(f"(?<!{_OF_RUNS}){_OF_RUNS}*[{''.join(_MARKED)}]{_OF_RUNS}*")


class Edge(NamedTuple):
    """A syllable, or another character, in a text of letters.

    Attributes:
        begin: Index of its first letter in the text.
        end: Index behind it and the breaks that follow it.
        syllable: The syllable in canonical form, with a tone if one is typed; of an incomplete one or an initial its
            letters (:func:`completions` has the syllables); of others the letters or the character.
        kind: ``full``: the syllable is typed as it is. ``erhua``: an r that stands for 儿. ``fuzzy``: a syllable that
            the typed one may be taken for. ``incomplete``, ``initial``: the first letters of a syllable. ``letters``:
            one letter or more that are no syllables. ``other``: another character.
    """

    begin: int
    end: int
    syllable: str
    kind: EdgeKind


def is_break(character: str) -> bool:
    """Whether a character separates syllables and is no part of the text: an apostrophe, or white space."""
    return character == "'" or character.isspace()


def without_breaks(text: str) -> str:
    """Returns a text without the breaks at both ends."""
    return _BREAKS.sub("", text)


def normal_letters(text: str) -> str:
    """Returns typed text with letters in one form: small, of usual width, ü as v, tones as digits (``lǜ`` is ``lv4``).

    Digits stand behind the syllables that have the marks: ``zhōngguó`` is ``zhong1guo2``. In letters that are not all
    syllables with one mark at most, the marks are lost. A text in this form stays as it is.
    """
    text = _DOTTED.sub("v", _small(text))
    text = _AS_U.sub(lambda found: _WITHOUT_DOTS[found[0]], text)
    return _CURLED.sub("'", _MARKED_RUN.sub(lambda found: _with_digits(found[0]), _ERHUA_ALONE.sub("er", text)))


def _small(text: str) -> str:
    """Letters in small form and of usual width, each one character; ``İ``, whose small form has two, stays."""
    return "İ".join(part.lower() for part in unicodedata.normalize("NFC", text).translate(_FORMS).split("İ"))


def typed_places(text: str, letters: str) -> Sequence[int]:
    """Returns where each letter of ``normal_letters(text)`` begins in the text, and behind them the text's length.

    A tone that is a mark there begins where the next letter does.
    """
    if len(text) == len(letters) and text.lower() == letters:
        return range(len(text) + 1)
    places: list[int] = []
    for begin, end in pairwise([*_begins_of_letters(text), len(text)]):
        typed = _small(text[begin:end])
        while len(places) < len(letters) and letters[len(places)] in "1234" and typed[0] not in "01234":
            places.append(begin)
        size = 2 if typed == "r" and letters[len(places) : len(places) + 2] == "er" else len(typed.replace("u:", "v"))
        places += [begin] * size
    return [*places[: len(letters)], *[len(text)] * (len(letters) + 1 - min(len(letters), len(places)))]


def _begins_of_letters(text: str) -> list[int]:
    """Where letters begin: not at a mark that belongs to the one before, nor at the colon of ``lu:``."""
    return [
        place
        for place, one in enumerate(text)
        if place == 0 or not (unicodedata.combining(one) or _DOTTED.search(_small(text[max(0, place - 2) : place + 1])))
    ]


def _with_digits(marked: str) -> str:
    """Returns letters with digits for marks; as in correct spelling, syllables within a word begin with a consonant."""
    letters = [_MARKED.get(letter, letter) for letter in marked]
    # The least cost of the letters up to each place, where their last syllable begins, and how it is spelt.
    best: list[tuple[tuple[int, int], int, str] | None] = [((0, 0), 0, ""), *[None] * len(letters)]
    for begin in range(len(letters)):
        before = best[begin]
        for end in range(begin + 1, min(begin + _LONGEST, len(letters)) + 1) if before else ():
            part = "".join(letters[begin:end])
            syllable, tone = part.translate(_NO_DIGITS), part.translate(_ONLY_DIGITS)
            stem = syllable if syllable in _syllables() else syllable.removesuffix("r")
            if before is None or stem not in _syllables() or len(tone) > 1:
                continue
            vowels, plain = before[0]
            cost = vowels + (begin > 0 and syllable[0] in "aoe"), plain + (not tone)
            found = best[end]
            if found is None or cost < found[0]:
                best[end] = cost, begin, f"{syllable}{tone}"
    if best[-1] is None:
        return "".join(letters).translate(_NO_DIGITS)
    spelt, place = [], len(letters)
    while place and (found := best[place]) is not None:
        place = found[1]
        spelt.append(found[2])
    return "".join(reversed(spelt))


def fuzzy_pairs(names: Collection[str]) -> frozenset[str]:
    """Returns the fuzzy pairs of some names: those of :data:`FUZZY_PAIRS`, and ``all``.

    Args:
        names: The names, or one text with commas between them; spaces around them do not matter.

    Raises:
        SettingError: if there is no such pair.
    """
    given = names.split(",") if isinstance(names, str) else names
    found = frozenset(one for name in given if (one := name.strip()))
    if "all" in found:
        found = (found - {"all"}) | {*FUZZY_PAIRS}
    for name in sorted(found - {*FUZZY_PAIRS}):
        raise SettingError(
            f"{name!r} is not one of the fuzzy pairs {', '.join(FUZZY_PAIRS)}{nearest_name(name, FUZZY_PAIRS)}"
        )
    return found


def edges_of(
    letters: str,
    *,
    fuzzy: Collection[str] = frozenset(),
    incomplete: bool = True,
    abbreviated: bool = True,
    spaced: bool = False,
) -> list[Edge]:
    """Returns the edges of the lattice of a text of letters, by where they begin.

    Every place at which an edge ends is the beginning of another or the end of the text, and a path leads from 0 to the
    end, unless the text has nothing but breaks; then there are no edges.

    Args:
        letters: The text in the form of :func:`normal_letters`.
        fuzzy: Some of :data:`FUZZY_PAIRS`.
        incomplete: Whether the last syllable may be incomplete.
        abbreviated: Whether initials may stand for syllables where full syllables do not cover the letters.
        spaced: Whether what stands between breaks is one syllable wherever it can be.

    Raises:
        SettingError: if there is no such fuzzy pair.
    """
    spellings = _spellings(fuzzy_pairs(fuzzy))
    edges: list[Edge] = []
    opening = begin = _skip(letters, 0)  # breaks before the first edge
    while begin < len(letters):
        if _is_letter(letters[begin]):
            end = begin
            while end < len(letters) and (_is_letter(letters[end]) or _is_tone(letters, end)):
                end += 1
            last = _skip(letters, end) == len(letters)
            run = _Run(letters, begin, end, spellings, spaced=spaced)
            edges += run.edges(incomplete=incomplete and last, abbreviated=abbreviated)
        else:
            end = begin + 1
            edges.append(Edge(begin, _skip(letters, end), letters[begin], "other"))
        begin = _skip(letters, end)
    return [Edge(0, *edge[1:]) if edge.begin == opening else edge for edge in edges] if opening else edges


class _Run:
    """Letters and tones without anything between them."""

    def __init__(
        self,
        letters: str,
        begin: int,
        end: int,
        spellings: dict[str, tuple[tuple[str, EdgeKind], ...]],
        *,
        spaced: bool,
    ) -> None:
        self.letters, self.begin, self.end, self.spellings = letters, begin, end, spellings
        self.stop = _skip(letters, end)
        self.spaced = spaced

    def edges(self, *, incomplete: bool, abbreviated: bool) -> list[Edge]:
        edges = (self._whole() if self.spaced else []) or self._full()
        if incomplete:
            edges += self._incomplete()
        if self._covered(edges):
            return self._useful(edges)
        if abbreviated:
            with_initials = edges + self._initials()
            if self._covered(with_initials):
                return self._useful(with_initials)
        ends = {self.begin} | {edge.end for edge in edges}
        return self._stretches([edge for edge in edges if edge.kind != "incomplete" or edge.begin in ends])

    def _stretches(self, edges: Sequence[Edge]) -> list[Edge]:
        """Returns edges, and between them stretches of letters that are no syllables."""
        after: dict[int, list[Edge]] = {}
        for edge in edges:
            after.setdefault(edge.begin, []).append(edge)
        begins = {edge.begin for edge in edges if edge.kind != "erhua"}
        stops = sorted(begins | {self.end})
        reached, found = {self.begin}, set[Edge]()
        for begin in range(self.begin, self.end):
            if begin not in reached:
                continue
            found.update(after.get(begin, ()))
            reached.update(edge.end for edge in after.get(begin, ()))
            if begin not in begins:
                first = bisect_right(stops, begin)
                last = max(first + 1, bisect_right(stops, begin + _LONGEST_STRETCH))
                found.update(self._edge(begin, end, self.letters[begin:end], "letters") for end in stops[first:last])
                reached.update(stops[first:last])
        return sorted(found, key=lambda edge: edge[:2])

    def _edge(self, begin: int, end: int, syllable: str, kind: EdgeKind) -> Edge:
        return Edge(begin, self.stop if end == self.end else end, syllable, kind)

    def _whole(self) -> list[Edge]:
        """Returns the run as one syllable, or one with erhua; nothing if it is neither."""
        found = [edge for edge in self._full() if edge.begin == self.begin]
        whole = [edge for edge in found if edge.end == self.stop]
        if whole:
            return whole
        erhua = [edge for edge in self._full() if edge.kind == "erhua" and edge.end == self.stop]
        return [edge for edge in found if erhua and edge.end == erhua[0].begin] + erhua

    def _full(self) -> list[Edge]:
        edges = []
        erhua: dict[Edge, None] = {}
        for begin in range(self.begin, self.end):
            for end in range(begin + 1, min(begin + _LONGEST, self.end) + 1):
                typed = self.letters[begin:end]
                if not typed[-1].isalpha():
                    break
                known = self.spellings.get(typed)
                if known is None:
                    continue
                tone, after = self._tone(end)
                edges += [self._edge(begin, after, syllable + tone, kind) for syllable, kind in known]
                if typed != "er" and after < self.end and self.letters[after] == "r":
                    of_both, behind = self._tone(after + 1)  # in hua1r the r has no tone, in huar1 both have one
                    said = f"er{NEUTRAL}" if tone or of_both else "er"
                    erhua[self._edge(after, behind, said, "erhua")] = None
                    if of_both and not tone:
                        edges += [self._edge(begin, end, syllable + of_both, kind) for syllable, kind in known]
        return [*edges, *erhua]

    def _tone(self, place: int) -> tuple[str, int]:
        """Returns the tone that is typed at a place, or ``""``, and the place behind it."""
        if place < self.end and self.letters[place] in "012345":
            return str(int(self.letters[place]) or NEUTRAL), place + 1
        return "", place

    def _incomplete(self) -> list[Edge]:
        tails = (self.letters[begin : self.end] for begin in range(max(self.begin, self.end - _LONGEST), self.end))
        return [
            self._edge(self.end - len(tail), self.end, tail, "incomplete")
            for tail in tails
            if tail not in self.spellings and completions(tail)
        ]

    def _initials(self) -> list[Edge]:
        return [
            self._edge(begin, begin + len(initial), initial, "initial")
            for begin in range(self.begin, self.end)
            for initial in (self.letters[begin], self.letters[begin : begin + 2])
            if initial in INITIALS
        ]

    def _covered(self, edges: Sequence[Edge]) -> bool:
        return self.stop in _reached(edges, self.begin)

    def _useful(self, edges: Sequence[Edge]) -> list[Edge]:
        """Returns the edges on a path from the beginning of the run to its end."""
        reached = _reached(edges, self.begin)
        useful = {self.stop}
        kept = set()
        for edge in sorted(set(edges), key=lambda edge: -edge.begin):
            if edge.end in useful and edge.begin in reached:
                useful.add(edge.begin)
                kept.add(edge)
        return sorted(kept, key=lambda edge: (edge.begin, edge.end, edge.kind != "full", edge.kind, edge.syllable))


def _reached(edges: Sequence[Edge], begin: int) -> set[int]:
    reached = {begin}
    for edge in sorted(edges):
        if edge.begin in reached:
            reached.add(edge.end)
    return reached


def _is_letter(character: str) -> bool:
    return "a" <= character <= "z"


def _is_tone(letters: str, place: int) -> bool:
    """Whether there is one digit that is a tone, with no other beside it."""
    return (
        letters[place] in "012345"
        and _is_letter(letters[place - 1])
        and not letters[place + 1 : place + 2].isdigit()
        and _ends_syllable(letters, place)
    )


def _ends_syllable(letters: str, end: int) -> bool:
    found = (letters[begin:end] for begin in range(max(0, end - _LONGEST - 1), end))
    return any(part in _syllables() or (part[-1] == "r" and part[:-1] in _syllables()) for part in found)


def _skip(letters: str, place: int) -> int:
    """Returns the place behind the breaks."""
    while place < len(letters) and is_break(letters[place]):
        place += 1
    return place


@lru_cache(1 << 12)
def completions(letters: str) -> tuple[str, ...]:
    """Returns the syllables without tones that begin with some letters, sorted: ``zho`` is of zhong and zhou."""
    return tuple(syllable for syllable in TONELESS if syllable.startswith(letters))


@cache
def _syllables() -> frozenset[str]:
    return frozenset(TONELESS)


@cache
def _spellings(fuzzy: frozenset[str]) -> dict[str, tuple[tuple[str, EdgeKind], ...]]:
    """Returns the syllables, with the kinds of their edges, that may be meant by letters."""
    spellings: dict[str, dict[str, EdgeKind]] = {typed: {syllable: "full"} for typed, syllable in _WRITTEN.items()}
    for syllable in TONELESS:
        initial = next((one for one in sorted(INITIALS, key=len, reverse=True) if syllable.startswith(one)), "")
        final = syllable[len(initial) :]
        for typed in map("".join, product(_taken_for(initial, fuzzy), _finals(final, fuzzy))):
            spellings.setdefault(typed, {})[syllable] = "full" if typed == syllable else "fuzzy"
    return {
        typed: tuple(sorted(found.items(), key=lambda item: (item[1] != "full", item[0])))
        for typed, found in spellings.items()
    }


def _taken_for(sound: str, fuzzy: frozenset[str]) -> list[str]:
    """Returns a sound and those of which it is in a pair."""
    pairs = [name.split("/") for name in FUZZY_PAIRS if name in fuzzy]
    return [sound, *(one for pair in pairs if sound in pair for one in pair if one != sound)]


def _finals(final: str, fuzzy: frozenset[str]) -> list[str]:
    """Returns a final and what it may be taken for: uan and uang are as an and ang."""
    if final == "v":
        return _taken_for(final, fuzzy)
    ending = next((one for one in ("ang", "eng", "ing", "an", "en", "in") if final.endswith(one)), "")
    return [final[: len(final) - len(ending)] + one for one in _taken_for(ending, fuzzy)] if ending else [final]


def typed_letters(reading: Sequence[str], *, toned: bool = False, erhua: Collection[int] | None = None) -> list[str]:
    """Returns what is typed for each item of a reading: letters without spaces, r for 儿 of erhua.

    Args:
        reading: One item a character, as of :func:`~wenmai.text.pinyin.readings.readings_of`.
        toned: Whether tones are typed, as digits.
        erhua: Indices of the items that are r; None: all that are ``er5`` behind a syllable.
    """
    typed: list[str] = []
    for place, item in enumerate(reading):
        letters, tone = split_tone(item)
        before = without_tone(reading[place - 1]) if place else ""
        joined = item == "er5" if erhua is None else place in erhua
        if joined and before in _syllables() and before != "er":
            moved = typed[-1][len(before) :] if toned else ""  # the tone is written behind the r
            typed[-1] = before
            typed.append(f"r{moved}")
        else:
            typed.append(item if toned or not tone else letters)
    return typed
