"""Sentences with their pinyin: gold files, and any Chinese text, read by pypinyin's dictionaries.

What a line is shows in the line itself, so that files of all kinds may be mixed:

| a line | is |
|---|---|
| ``id TAB pinyin TAB hanzi`` | gold: syllables with spaces between them, characters joined or with spaces |
| ``NUM,PINYIN,EXPECTED``, and then ``1,letters,text`` | gold of Kyubyong Park's transliterator, without spaces |
| ``text TAB label`` | a labelled text; the text counts |
| anything else | Chinese text, which is split into sentences |

Sentences longer than an example are cut behind punctuation. All pieces have the CRC-32 of their sentence, by which
sentences are held out for validation, or left out to train on a share of the text: no sentence is on both sides.
"""

import re
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, NamedTuple

from annotated_types import Ge, Gt, Le
from typing_extensions import Doc

from wenmai.config.recipe import Located
from wenmai.core.errors import CorpusError, PinyinError
from wenmai.data.catalogue import resolve
from wenmai.data.documents import CorpusStats
from wenmai.data.lines import text_lines
from wenmai.data.sources import absolute_name
from wenmai.text.normalise import normaliser
from wenmai.text.pinyin.letters import normal_letters
from wenmai.text.pinyin.readings import is_hanzi, readings_of, syllables_of
from wenmai.text.pinyin.syllables import NEUTRAL, split_erhua, split_tone, without_tone
from wenmai.text.ranges import HANZI
from wenmai.text.sentences import sentences
from wenmai.text.settings import BadLines, Script, TextConfig, TextFormat

__all__ = [
    "ChineseOfGold",
    "TransliterationConfig",
    "TransliterationExample",
    "TransliterationStats",
    "examples_of",
    "read_gold",
]

_KYUBYONG: Final = "NUM,PINYIN,EXPECTED"
_NUMBERED: Final = re.compile(r"(\d+),([^,\u4e00-\u9fff]*),(.*)")
_CHINESE: Final = re.compile(f"[{HANZI}]")
_SPACE: Final = re.compile(r"\s+")
_MARKS: Final = "。！？；，、：…!?;,:”』」）》"


class TransliterationExample(NamedTuple):
    """Characters and what is typed for them.

    Attributes:
        id: From the file, or a number.
        syllables: One item a character: its syllable in canonical form, or the character itself if it passes through.
        characters: The text.
        sentence: CRC-32 of the sentence of which this is all or a piece.
        typed: What was typed, as the file has it; empty if it does not say.
        erhua: Indices of the characters 儿 that are typed as r.
    """

    id: str
    syllables: tuple[str, ...]
    characters: str
    sentence: int
    typed: str = ""
    erhua: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class TransliterationConfig:
    """How text with its pinyin is read, and what is held out."""

    valid: Annotated[
        str | None,
        Doc("text to validate on, gold or plain; none: one sentence of 50, at most 2,000"),
        Located(absolute_name),
    ] = None
    format: Annotated[TextFormat, Doc("of plain text: lines, documents, or wikiextractor; auto: as it begins")] = "auto"
    encoding: Annotated[str, Doc("character encoding of the files")] = "utf-8"
    bad_lines: Annotated[BadLines, Doc("a line that cannot be decoded: error, or skip it")] = "error"
    script: Script = "keep"
    longest: Annotated[int, Ge(2), Le(1000), Doc("most characters of an example; longer sentences are cut")] = 50
    min_count: Annotated[int, Ge(1), Doc("characters that are seen less often are unknown")] = 2
    share: Annotated[float, Gt(0), Le(1), Doc("part of the sentences to train on, such as 0.01 or 0.1")] = 1.0

    @property
    def text(self) -> TextConfig:
        """The same as settings of a text."""
        return TextConfig(format=self.format, encoding=self.encoding, bad_lines=self.bad_lines)


@dataclass(slots=True, kw_only=True)
class TransliterationStats:
    """What was read, and what was left out.

    Attributes:
        examples: Sentences and pieces of sentences.
        gold: Those whose pinyin the file has.
        characters: Their characters, punctuation included.
        unread: Chinese characters without a reading, which pass through.
        repeated: Sentences of gold files that were there before, left out: many people read the same one.
        not_chinese: Sentences without a Chinese character, left out.
        malformed: Lines of gold files that cannot be read, left out.
        skipped_lines: Lines left out because of ``bad_lines=skip``.
    """

    examples: int = 0
    gold: int = 0
    characters: int = 0
    unread: int = 0
    repeated: int = 0
    not_chinese: int = 0
    malformed: int = 0
    skipped_lines: int = 0


def read_gold(path: str | Path, *, encoding: str = "utf-8") -> Iterator[TransliterationExample]:
    """Yields the sentences of a gold file, whole and as they are; the lines may be of any kind that the module lists.

    Args:
        path: The file, which may be compressed, or a name of the catalogue such as ``data:kyubyong``.
        encoding: Of the file.

    Raises:
        CorpusError: if the file cannot be read, or a line has not as many syllables as characters, or letters that are
            no syllable; the message names the line.
        DownloadError: if the catalogue's file cannot be fetched.
    """
    file = Path((resolve(path) if isinstance(path, str) else None) or path)
    lines = _Lines(TransliterationConfig(longest=1000))
    found = False
    for number, line in text_lines(file, encoding):
        if not line or line.isspace():
            continue
        try:
            for example in lines.read(line, number):
                found = True
                yield example
        except _Malformed as error:
            raise CorpusError(f"{file}: line {number}: {error}") from None
    if not found:
        raise CorpusError(f"{file}: has no sentence; expected lines such as 'id<tab>ni3 hao3<tab>你好'")


def examples_of(
    lines: Iterable[str], config: TransliterationConfig, stats: TransliterationStats
) -> Iterator[TransliterationExample]:
    """Yields the examples of lines of text and of gold files.

    Bad lines of gold files are left out and counted, and so are sentences of gold files that were there before.

    Raises:
        SettingError: if pypinyin is not installed.
    """
    reader = _Lines(config)
    lines_of: dict[tuple[int, str], int] = {}  # where each piece was first; a sentence may have equal ones
    for number, line in enumerate(lines, 1):
        try:
            for example in reader.read(line, number, stats):
                if example.typed:
                    piece = example.sentence, example.characters
                    if lines_of.setdefault(piece, number) != number:
                        stats.repeated += 1
                        continue
                stats.examples += 1
                stats.characters += len(example.characters)
                stats.gold += bool(example.typed)
                stats.unread += sum(map(is_hanzi, example.syllables))
                yield example
        except _Malformed:
            stats.malformed += 1


class ChineseOfGold:
    """Leaves of lines of gold files their Chinese, and all other lines as they are, but for labels.

    Bad lines of gold files are left out and counted, and so are sentences of gold files that were there before.

    Args:
        stats: Counters of these lines to be increased.
    """

    VERSION: Final = 1  # goes up when the same lines leave other text

    def __init__(self, stats: CorpusStats) -> None:
        self._stats = stats
        self._lines = _Lines(TransliterationConfig())
        self._seen: set[str] = set()

    def __call__(self, text: str) -> str:
        """Returns a text that follows the one before, whole lines with their ends."""
        if "\t" not in text and _KYUBYONG not in text and not self._lines.numbered:
            return text
        *lines, last = text.split("\n")
        return "".join(map(self._line, lines)) + last

    def _line(self, line: str) -> str:
        try:
            found = self._lines.recognise(line)
        except _Malformed:
            self._stats.malformed += 1
            return ""
        if isinstance(found, str):
            return f"{found}\n"
        if found is None:
            return ""
        if found.characters in self._seen:
            self._stats.repeated += 1
            return ""
        self._seen.add(found.characters)
        return f"{found.characters}\n"


class _Malformed(Exception):
    """A line of a gold file that cannot be read."""


class _Lines:
    """Reads lines one by one.

    Attributes:
        numbered: Whether the lines are those of a file of Kyubyong Park.
    """

    def __init__(self, config: TransliterationConfig) -> None:
        self._longest = config.longest
        self._normalise: Callable[[str], str] = normaliser(TextConfig(script=config.script))
        self.numbered = False

    def recognise(self, line: str) -> TransliterationExample | str | None:
        """Returns the example of a line of a gold file, or the text of another line; None for a heading.

        Raises:
            _Malformed: for a line of a gold file that cannot be read.
        """
        if line.strip() == _KYUBYONG:
            self.numbered = True
            return None
        if self.numbered and (row := _NUMBERED.fullmatch(line.strip())):
            return _numbered(row[1], row[2], row[3], self._normalise)
        self.numbered = self.numbered and _CHINESE.search(line) is None
        fields = line.split("\t")
        if len(fields) == 3 and fields[1].strip():
            return _gold(fields[0], fields[1], fields[2], self._normalise)
        return fields[0] if len(fields) == 2 and not any(map(is_hanzi, fields[1])) else line

    def read(
        self, line: str, number: int, stats: TransliterationStats | None = None
    ) -> Iterator[TransliterationExample]:
        if _CHINESE.search(line) is None and line.strip() != _KYUBYONG and line.count("\t") != 2:
            if stats is not None:
                stats.not_chinese += not line.isspace() and bool(line)
            return
        found = self.recognise(line)
        if found is None:
            return
        if isinstance(found, TransliterationExample):
            yield from self._cut(found)
            return
        for place, sentence in enumerate(sentences(self._normalise(found))):
            characters = _SPACE.sub("", sentence)
            if any(map(is_hanzi, characters)):
                yield from self._cut(_plain(f"{number}.{place}", characters))
            elif stats is not None:
                stats.not_chinese += 1

    def _cut(self, example: TransliterationExample) -> Iterator[TransliterationExample]:
        """Cuts an example behind punctuation marks where it is too long."""
        text, begin = example.characters, 0
        if len(text) <= self._longest:
            yield example
            return
        while begin < len(text):
            end = min(begin + self._longest, len(text))
            if end < len(text):
                places = (place for place in range(end, begin + self._longest // 4, -1) if text[place - 1] in _MARKS)
                end = next(places, end)
            yield TransliterationExample(
                f"{example.id}/{begin}",
                example.syllables[begin:end],
                text[begin:end],
                example.sentence,
                " ".join(example.syllables[begin:end]) if example.typed else "",
                tuple(place - begin for place in example.erhua if begin <= place < end),
            )
            begin = end


def _crc(characters: str) -> int:
    return zlib.crc32(characters.encode("utf-8", "surrogatepass"))


def _plain(name: str, characters: str) -> TransliterationExample:
    reading = readings_of(characters)
    erhua = tuple(place for place, item in enumerate(reading) if item == f"er{NEUTRAL}")
    return TransliterationExample(name, tuple(reading), characters, _crc(characters), "", erhua)


def _gold(name: str, pinyin: str, hanzi: str, normalise: Callable[[str], str]) -> TransliterationExample:
    """Returns the example of a line ``id TAB pinyin TAB hanzi``."""
    characters = normalise(_SPACE.sub("", hanzi))
    syllables: list[str] = []
    erhua = []
    for token in pinyin.split():
        place = len(syllables)
        if characters[place : place + 1] and _same(token, characters[place]):
            syllables.append(characters[place])  # a letter or a mark that passes through
            continue
        try:
            parts = split_erhua(token)
        except PinyinError as error:
            raise _Malformed(str(error)) from None
        if len(parts) == 2:
            erhua.append(place + 1)
        syllables += parts
    if len(syllables) != len(characters):
        raise _Malformed(
            f"has {len(syllables)} syllables for {len(characters)} characters; expected one each, such as"
            " 'id<tab>ni3 hao3<tab>你好'"
        )
    if any(split_tone(one)[1] for one in syllables):
        # Where tones are written, a syllable without one has the neutral tone.
        syllables = [
            one if one == character or split_tone(one)[1] else f"{one}{NEUTRAL}"
            for one, character in zip(syllables, characters, strict=True)
        ]
    return TransliterationExample(
        name.strip(), tuple(syllables), characters, _crc(characters), pinyin.strip(), tuple(erhua)
    )


def _same(token: str, character: str) -> bool:
    """Whether a character is written for itself, in whatever width and case."""
    folded = (unicodedata.normalize("NFKC", one).casefold() for one in (token, character))
    return not is_hanzi(character) and len(set(folded)) == 1


def _numbered(name: str, letters: str, text: str, normalise: Callable[[str], str]) -> TransliterationExample:
    """Returns the example of a line ``1,letters,text``: the readings of its characters that are the letters."""
    characters = normalise(_SPACE.sub("", text))
    typed = normal_letters(letters.strip())
    usual = readings_of(characters, toned=False)
    aligned = _aligned(typed, characters, usual) or (usual, ())
    return TransliterationExample(name, tuple(aligned[0]), characters, _crc(characters), letters.strip(), aligned[1])


def _aligned(letters: str, characters: str, usual: list[str]) -> tuple[list[str], tuple[int, ...]] | None:
    """Returns a reading of characters that is spelt as letters without spaces, and where r is 儿; None if none is."""
    ways: dict[int, tuple[list[str], tuple[int, ...]]] = {0: ([], ())}
    for place, (character, first) in enumerate(zip(characters, usual, strict=True)):
        others = [without_tone(one) for one in syllables_of(character)]
        found: dict[int, tuple[list[str], tuple[int, ...]]] = {}
        for begin, (reading, erhua) in ways.items():
            for item in dict.fromkeys([first, *others]):
                if letters.startswith((item, item.replace("v", "u")), begin):  # lü is written lu too
                    found.setdefault(begin + len(item), ([*reading, item], erhua))
            if character == "儿" and letters.startswith("r", begin):
                found.setdefault(begin + 1, ([*reading, "er"], (*erhua, place)))
        ways = found
    return ways.get(len(letters))
