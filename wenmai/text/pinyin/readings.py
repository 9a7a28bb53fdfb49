"""Readings of Chinese text, and the characters that a syllable may stand for.

The dictionaries are those of pypinyin (mozillazg, https://github.com/mozillazg/python-pinyin, MIT): the readings of
42,000 characters and of 47,000 phrases, which settle most heteronyms (银行 yín háng, 行走 xíng zǒu). The text is read
from left to right, the longest phrase first. That gives pypinyin's own readings, several times as fast.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path
from typing import Final

from wenmai.core.compressed import reading
from wenmai.core.errors import FormatError, PinyinError, SettingError, install_hint
from wenmai.core.folder import writing
from wenmai.text.pinyin.syllables import NEUTRAL, normal_syllable, split_tone, without_tone
from wenmai.text.ranges import HANZI

__all__ = ["CandidateTable", "dictionary_version", "is_hanzi", "readings_of", "syllables_of"]

_HANZI: Final = re.compile(f"[{HANZI}]+")
_ROWS: Final = range(0xB0, 0xF8)  # of the characters of GB 2312: 3,755 common ones, and from 0xD8 on 3,008 others
_NO_CHARACTERS: Final = range(0xD7FA, 0xD7FF)
_MOST_BYTES: Final = 1 << 26  # of a table: more than all characters with all their readings take


def is_hanzi(character: str) -> bool:
    """Whether a character is a Chinese character (〇 is one)."""
    return len(character) == 1 and _HANZI.match(character) is not None


def readings_of(text: str, *, toned: bool = True) -> list[str]:
    """Returns the reading of a text, one item a character.

    Args:
        text: Any text.
        toned: Whether syllables have tones, the neutral one as 5.

    Returns:
        For each Chinese character that the dictionary has, its syllable in canonical form; for everything else the
        character itself.

    Raises:
        SettingError: if pypinyin is not installed.
    """
    items = list(text)
    dictionary = _dictionary()
    for run in _HANZI.finditer(text):
        items[run.start() : run.end()] = dictionary.read(run[0])
    return items if toned else [without_tone(item) for item in items]


def syllables_of(character: str) -> tuple[str, ...]:
    """Returns the readings of a character in pypinyin's dictionary, with tones, the usual one first; or none.

    Raises:
        SettingError: if pypinyin is not installed.
    """
    return _dictionary().syllables(character)


def dictionary_version() -> str | None:
    """Returns the version of pypinyin, on which readings depend; None if it is not installed."""
    try:
        return metadata.version("pypinyin")
    except metadata.PackageNotFoundError:
        return None


class _Dictionary:
    """pypinyin's dictionaries, converted as they are used."""

    def __init__(self) -> None:
        try:
            from pypinyin.constants import PHRASES_DICT, PINYIN_DICT
        except ImportError:
            raise SettingError(f"readings of Chinese text need pypinyin; {install_hint('pinyin')}") from None
        self._phrases: Mapping[str, Sequence[Sequence[str]]] = PHRASES_DICT
        self._characters: Mapping[int, str] = PINYIN_DICT
        self._longest: dict[str, int] = {}  # the length of the longest phrase that begins with these two characters
        for phrase in self._phrases:
            if len(phrase) > self._longest.get(phrase[:2], 1):
                self._longest[phrase[:2]] = len(phrase)
        self._of_phrase: dict[str, list[str]] = {}
        self._of_character: dict[str, tuple[str, ...]] = {}

    def read(self, run: str) -> list[str]:
        """Returns the syllables of a run of Chinese characters; the character itself where there is none."""
        items: list[str] = []
        place = 0
        while place < len(run):
            end = self._phrase_end(run, place)
            if end:
                items += self._phrase(run[place:end])
            else:
                end = place + 1
                items.append((self.syllables(run[place]) or (run[place],))[0])
            place = end
        return items

    def _phrase_end(self, run: str, place: int) -> int:
        """Returns where the longest phrase from ``place`` on ends, or 0."""
        last = min(place + self._longest.get(run[place : place + 2], 0), len(run))
        for end in range(last, place + 1, -1):
            if run[place:end] in self._phrases:
                return end
        return 0

    def _phrase(self, phrase: str) -> list[str]:
        known = self._of_phrase.get(phrase)
        if known is None:
            found = [_canonical(readings[0]) for readings in self._phrases[phrase]]
            if len(found) != len(phrase):  # a phrase of the user's own, say
                found = [""] * len(phrase)
            known = [
                syllable or (self.syllables(character) or (character,))[0]
                for syllable, character in zip(found, phrase, strict=True)
            ]
            self._of_phrase[phrase] = known
        return known

    def syllables(self, character: str) -> tuple[str, ...]:
        """Returns the readings of a character, the usual one first."""
        known = self._of_character.get(character)
        if known is None:
            written = self._characters.get(ord(character), "")
            found = (_canonical(one) for one in written.split(",") if one)
            known = self._of_character[character] = tuple(dict.fromkeys(filter(None, found)))
        return known


@cache
def _dictionary() -> _Dictionary:
    return _Dictionary()


@lru_cache(1 << 12)
def _canonical(written: str) -> str:
    """Returns the canonical form of a syllable with a tone mark or none, or ``""`` of one that cannot be typed."""
    try:
        syllable = normal_syllable(written)
    except PinyinError:
        return ""
    return syllable if split_tone(syllable)[1] else f"{syllable}{NEUTRAL}"


class CandidateTable:
    """The characters that a syllable may stand for, the most frequent first.

    A table has entries with tones, entries without, or both. Where entries without tones are missing, they are made of
    those with; a syllable with a tone that has no entry has the characters of the syllable without.
    """

    def __init__(self, entries: Mapping[str, Iterable[str]]) -> None:
        """Takes the characters of syllables in canonical form.

        Raises:
            PinyinError: if a key is no syllable.
        """
        self._entries = {normal_syllable(key): tuple(dict.fromkeys(found)) for key, found in entries.items()}
        for letters in {without_tone(key) for key in self._entries}.difference(self._entries):
            toned = (self._entries.get(f"{letters}{tone}", ()) for tone in range(1, NEUTRAL + 1))
            self._entries[letters] = tuple(dict.fromkeys(_in_turn(list(toned))))
        self._syllables: dict[str, list[str]] = {}
        for key, found in self._entries.items():
            for character in found:
                self._syllables.setdefault(character, []).append(key)

    @classmethod
    def from_dictionary(cls, counts: Mapping[tuple[str, str], int] | None = None) -> "CandidateTable":
        """Makes a table of pypinyin's dictionary.

        Args:
            counts: How often a character has a reading in the user's text; its characters are in the table beside those
                of GB 2312, and the order is that of their counts. Ties, and everything
                without counts, are in the order of the dictionary: usual readings first, then common characters.

        Raises:
            SettingError: if pypinyin is not installed.
        """
        counts = counts or {}
        dictionary = _dictionary()
        ranks: dict[str, int] = {character: place for place, character in enumerate(_gb2312())}
        for character, _ in counts:
            ranks.setdefault(character, len(ranks))
        orders: dict[tuple[str, str], tuple[int, int, int]] = {}
        for character, rank in ranks.items():
            for place, syllable in enumerate(dictionary.syllables(character)):
                orders[syllable, character] = (0, place, rank)
        for (character, syllable), count in counts.items():
            _, place, rank = orders.get((syllable, character), (0, 1 << 20, ranks[character]))
            orders[syllable, character] = (-count, place, rank)
        bare: dict[tuple[str, str], tuple[int, int, int]] = {}
        for (syllable, character), (count, place, rank) in orders.items():
            key = without_tone(syllable), character
            before = bare.get(key, (0, place, rank))
            bare[key] = (before[0] + count, min(before[1], place), rank)
        entries: dict[str, list[str]] = {}
        for syllable, character in sorted(orders, key=orders.__getitem__):
            entries.setdefault(syllable, []).append(character)
        for letters, character in sorted(bare, key=bare.__getitem__):
            entries.setdefault(letters, []).append(character)
        return cls(entries)

    @classmethod
    def from_file(cls, path: str | Path) -> "CandidateTable":
        """Reads a table: a line each with a syllable, a tab (or spaces) and its characters; # begins a comment.

        Lines of the same syllable are added to each other. In a file with tones, syllables without one have the neutral
        tone, unless tone 5 is written. The file may be compressed.

        Raises:
            FormatError: if the file is none, or has none.
        """
        path = Path(path)
        entries: dict[str, list[str]] = {}
        for number, line in enumerate(_lines(path), 1):
            if not line.strip() or line.startswith("#"):
                continue
            syllable, *found = line.split()
            if not found:
                raise FormatError(f"{path}: line {number} has no characters; expected 'zhong1<tab>中终钟'")
            try:
                entries.setdefault(normal_syllable(syllable), []).extend("".join(found))
            except PinyinError as error:
                raise FormatError(f"{path}: line {number}: {error}") from None
        if not entries:
            raise FormatError(f"{path}: has no syllables; expected lines such as 'zhong1<tab>中终钟'")
        tones = {split_tone(syllable)[1] for syllable in entries}
        if tones > {0} and NEUTRAL not in tones:
            entries = {key if split_tone(key)[1] else f"{key}{NEUTRAL}": found for key, found in entries.items()}
        return cls(entries)

    def save(self, path: str | Path) -> None:
        """Writes the table, for :meth:`from_file`."""
        with writing(path) as file:
            for syllable in sorted(self._entries):
                if self._entries[syllable]:
                    file.write(f"{syllable}\t{''.join(self._entries[syllable])}\n".encode())

    def characters_of(self, syllable: str) -> tuple[str, ...]:
        """Returns the characters that a syllable with a tone or without may stand for; none if the table has none.

        Raises:
            PinyinError: if it is no syllable.
        """
        found = self._entries.get(syllable)
        if found is None:
            syllable = normal_syllable(syllable)
            found = self._entries.get(syllable) or self._entries.get(without_tone(syllable), ())
        return found

    def syllables_of(self, character: str) -> tuple[str, ...]:
        """Returns the syllables, with tones and without, that may stand for a character."""
        return tuple(self._syllables.get(character, ()))

    @property
    def characters(self) -> frozenset[str]:
        """All characters."""
        return frozenset(self._syllables)

    @property
    def syllables(self) -> tuple[str, ...]:
        """All syllables that have characters, sorted."""
        return tuple(sorted(key for key, found in self._entries.items() if found))

    def __len__(self) -> int:
        return len(self._entries)


def _in_turn(lists: Sequence[Sequence[str]]) -> list[str]:
    """Returns the first of each list, then the second of each, and so on: the tones of a syllable without counts."""
    longest = max(map(len, lists), default=0)
    return [found[place] for place in range(longest) for found in lists if place < len(found)]


def _lines(path: Path) -> list[str]:
    with reading(path) as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise FormatError(f"{path}: has more than {_MOST_BYTES >> 20} MB; expected lines such as 'zhong1<tab>中终钟'")
    try:
        return content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: is not UTF-8 text (byte {error.start})") from None


@cache
def _gb2312() -> tuple[str, ...]:
    """Returns the characters of GB 2312, the common ones first."""
    cells = (row << 8 | cell for row in _ROWS for cell in range(0xA1, 0xFF))
    return tuple(cell.to_bytes(2, "big").decode("gb2312") for cell in cells if cell not in _NO_CHARACTERS)
