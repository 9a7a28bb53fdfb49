"""The language in which people are spoken to: English, or Chinese from one catalogue of messages.

Code writes English. Where a text is shown, :func:`say` puts it into the chosen language: ``zh.json`` gives, for each
English text, the Chinese one. Both may have holes in braces, which are numbers and names::

    "{path}: no such file": "{path}：没有这个文件"

A text that is made elsewhere, such as the message of an error, is recognised by what is between its holes, and what
fills them is looked up in turn. What the catalogue lacks stays English. JSON is the same in every language.
"""

import json
import os
import re
from collections.abc import Mapping
from functools import cached_property, lru_cache
from importlib.resources import files

__all__ = ["LANGUAGES", "Catalogue", "environment_language", "language", "phrase", "say", "speak"]

LANGUAGES = ("en", "zh")
_CHINESE = re.compile("[\u4e00-\u9fff]")
_HOLE = re.compile(r"\{(\w*)\}")
_HINT = r"(?:[;,] | [(\[]).*?|"  # what fills a hole right after another: a hint, or nothing
_NUMBER = r" *-?\d[\w., %+-]*?"
_NUMBERS = {"number", "count"}  # holes for nothing else
_AS_THEY_ARE = {"name", "value", "other"}  # holes for what the user writes: a setting called loss stays loss
_FEWEST_LETTERS, _FEWEST_BESIDE_ONE = 6, 4  # of a text that is recognised: fewer would be found in any other
_FEW_WORDS = 3
_PLACED = re.compile(  # FILE: line 3: this
    r"(?P<place>standard input|examples from Python|\S+?|[^:]*[./][^:]*)"
    r"(?:: (?P<unit>line|item|document) (?P<number>[\d,]+)(?P<title> \(.+?\))?)?: (?P<said>.+)",
    re.DOTALL,
)
_UNITS = {
    "line": "line {number}: {what}",
    "item": "item {number}: {what}",
    "document": "document {number}{title}: {what}",
}
_chosen: list[str] = []  # the last one


def speak(name: str | None) -> None:
    """Chooses the language of this process; None: as ``WENMAI_LANG`` says, else English.

    Raises:
        ValueError: if there is no such language.
    """
    if name is not None and name not in LANGUAGES:
        raise ValueError(name)
    _chosen[:] = [] if name is None else [name]


def language() -> str:
    """Returns the chosen language, ``en`` or ``zh``."""
    return _chosen[-1] if _chosen else _named(os.environ.get("WENMAI_LANG", "")) or "en"


def environment_language(environ: Mapping[str, str]) -> str:
    """Returns the language that ``WENMAI_LANG`` or else the locale asks for."""
    for name in ("WENMAI_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        if environ.get(name):
            return _named(environ[name]) or "en"
    return "en"


def say(text: str, /, **holes: object) -> str:
    """Returns a text in the chosen language.

    Args:
        text: English; a whole text, or with ``holes`` one with names in braces.
        **holes: What fills them.
    """
    if language() == "en":
        return text.format(**holes) if holes else text
    return _catalogue().fill(text, holes) if holes else _catalogue().say(text)


def phrase(text: str) -> str:
    """Returns a text with holes in the chosen language, the holes left open."""
    return text if language() == "en" else _catalogue().texts.get(text, text)


class Catalogue:
    """The texts of one language.

    Args:
        texts: Each English text and what it is in the language.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts

    def fill(self, text: str, holes: Mapping[str, object]) -> str:
        """Returns a text with its holes filled."""
        return self.texts.get(text, text).format(**holes)

    def say(self, text: str) -> str:
        """Returns a whole text in the language; English where the catalogue lacks it."""
        placed = _PLACED.fullmatch(text)
        in_line = placed is not None and placed["unit"] is not None  # a message of its own may begin with a hole
        if not in_line and (found := self._known(text)) is not None:
            return found
        if placed is not None and (found := self._known(placed["said"])) is not None:
            holes = {"number": placed["number"], "title": placed["title"] or "", "what": found}
            what = self.fill(_UNITS[placed["unit"]], holes) if in_line else found
            return f"{self.texts.get(placed['place'], placed['place'])}：{what}"
        return (self._known(text) or text) if in_line else text

    def _known(self, text: str) -> str | None:
        if text in self.texts:
            return self.texts[text]
        for pieces, english in self._recognised:
            if all(piece in text for piece in pieces) and (found := _pattern(english).fullmatch(text)):
                chinese, holes = self.texts[english], found.groupdict()
                for name, value in holes.items():
                    as_it_is = name in _AS_THEY_ARE or f"={{{name}}}" in english  # the value of a setting
                    if not as_it_is and (part := self._part(value)) != value:
                        chinese, holes[name] = _closed_up(chinese, name, part), part
                return chinese.format(**holes)
        return None

    def _part(self, text: str) -> str:
        """What fills a hole: all of it is known, or what follows a name, such as hints after semicolons."""
        if found := self._known(text):
            return found
        places = (found.start() for found in re.finditer(r"; | \(", text))
        known = ((place, self._hint(text[place:])) for place in places)
        place, rest = next((one for one in known if one[1] is not None), (len(text), ""))
        before = text[:place]
        return (self._part(before) if rest and before.startswith(("; ", " (")) else before) + (rest or "")

    def _hint(self, text: str) -> str | None:
        """A known hint, or a known sentence after a semicolon."""
        found = self._known(text)
        if found is None and text.startswith("; ") and (sentence := self._known(text[2:])) is not None:
            return f"；{sentence}"
        return found

    @cached_property
    def _recognised(self) -> list[tuple[list[str], str]]:
        """The texts with holes and what is between these, the most specific first."""
        open_texts = (text for text in self.texts if "{" in text and "{0}" not in text)  # numbers: of scripts
        found = [([piece for piece in _HOLE.split(text)[::2] if piece], text) for text in open_texts]
        sizes = {text: sum(map(len, pieces)) for pieces, text in found}
        letters = {text: sum(map(str.isalpha, "".join(pieces))) for pieces, text in found}
        fewest = {text: _FEWEST_LETTERS if text.count("{") > 1 else _FEWEST_BESIDE_ONE for _, text in found}
        specific = [one for one in found if letters[one[1]] >= fewest[one[1]]]
        return sorted(specific, key=lambda one: -sizes[one[1]])


def _closed_up(text: str, name: str, value: str) -> str:
    """Returns a text without the spaces around a hole, which are for Latin letters, where a Chinese character stands.

    Example:
        >>> _closed_up("应为 {expected} 或无", "expected", "文本 A")
        '应为{expected} 或无'
    """
    if _CHINESE.match(value):
        text = re.sub(rf"(?<=[\u4e00-\u9fff]) {{{name}}}", f"{{{name}}}", text)
    if _CHINESE.match(value[-1:]):
        text = re.sub(rf"{{{name}}} (?=[\u4e00-\u9fff])", f"{{{name}}}", text)
    return text


@lru_cache
def _pattern(english: str) -> re.Pattern[str]:
    parts = _HOLE.split(english)
    written = re.escape(parts[0])
    for place in range(1, len(parts), 2):
        after_another = place > 1 and not parts[place - 1]
        filled = _HINT if after_another else ".+?" if place + 2 < len(parts) and not parts[place + 1] else ".*?"
        if len(parts) == 3 and not parts[0] and parts[2].startswith(" ") and parts[2].count(" ") <= _FEW_WORDS:
            filled = _NUMBER  # such as "{number} tokens": a name may end so too
        elif parts[place] in _NUMBERS:
            filled = _NUMBER
        written += f"(?P<{parts[place]}>{filled}){re.escape(parts[place + 1])}"
    return re.compile(written, re.DOTALL)


@lru_cache(maxsize=1)
def _catalogue() -> Catalogue:
    return Catalogue(json.loads((files("wenmai.core") / "zh.json").read_text("utf-8")))


def _named(name: str) -> str | None:
    """The language that the name of a locale begins with, such as ``zh_CN.UTF-8``; None if it is no language here."""
    begun = name.lower().replace("-", "_").partition(".")[0].partition("_")[0]
    return begun if begun in LANGUAGES else None
