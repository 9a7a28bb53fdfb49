"""Regular expressions from strangers: which are safe to match with an engine that tries all ways, such as Oniguruma.

Such an engine can take time that doubles with each character. An expression is *tame* if from any one place of a text
a match takes time proportional to what is left of it, so that a text takes at most the square of its length:

- what repeats is one character or class, never a group;
- no two repetitions of any length stand one behind the other, unless all that follows the second may be left out;
- other choices (``?``, ``{1,3}``, groups with ``|``) are few;
- nothing looks around further than a few characters, and nothing refers back.

All patterns of the tokenizers of GPT-2 to GPT-4o, Llama, Qwen, Mistral, DeepSeek, BLOOM, CLIP and XLM-R are tame.
"""

import re
from dataclasses import dataclass

__all__ = ["Wild", "shortest_match"]

_MOST_CHARACTERS = 400_000
_MOST_WAYS = 20_000  # a tokenizer keeps the special tokens apart by a pattern that lists them
_MOST_WAYS_REPEATED = 200  # of the alternatives with repetitions of any length
_MOST_DEPTH = 10
_MANY = 1024  # characters: what may repeat further counts as of any length

_CHARACTER = re.compile(
    r"\\(?:[pP]\{\^?[\w ]+\}|x\{[0-9A-Fa-f]+\}|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|[dDwWsShHntrfvae]|[^0-9A-Za-z])"
    r"|[^\\\[\]()|*+?^$]",
    re.DOTALL,
)
_PLACE = re.compile(r"\\[bBAzZG]|[\^$]")
_GROUP = re.compile(r"\((?:\?(?P<look>=|!|<=|<!)|\?[im]*(?:-[im]+)?:|(?!\?))")
_REPEAT = re.compile(r"(?P<sign>[*+?])[+?]?(?![*+?{])|\{(?P<least>\d*)(?P<comma>,?)(?P<most>\d*)\}(?![*+?{])")


class Wild(Exception):
    """A regular expression that could take forever, or has parts that cannot be judged; the message says which."""


@dataclass
class _Part:
    """A part of an expression.

    Attributes:
        shortest: Characters that it matches, at least.
        endless: Repetitions of any length.
        ways: In which it can match besides.
        sure: Whether it always matches, for it may be left out.
        single: Whether it is one character or class, repeated or not.
    """

    shortest: int = 0
    endless: int = 0
    ways: int = 1
    sure: bool = False
    single: bool = False


def shortest_match(pattern: str) -> int:
    """Returns how many characters a tame expression matches at least.

    Raises:
        Wild: if it is not tame.
    """
    if len(pattern) > _MOST_CHARACTERS:
        raise Wild(f"it has {len(pattern)} characters")
    reader = _Reader(pattern)
    branches = reader.branches(0)
    if reader.place < len(pattern):
        raise Wild(f"there is {pattern[reader.place]!r} at character {reader.place + 1}")
    for parts in branches:
        steps = sum(part.endless for part in parts)
        last = next((place for place in reversed(range(len(parts))) if parts[place].endless), None)
        if last is not None and parts[last].single and all(part.sure for part in parts[last + 1 :]):
            steps -= 1
        if steps > 1:
            raise Wild("repetitions of any length follow one another")
    joined = [_sequence(parts) for parts in branches]
    if _ways(joined) > _MOST_WAYS or sum(one.ways for one in joined if one.endless) > _MOST_WAYS_REPEATED:
        raise Wild("it has too many choices")
    return min(one.shortest for one in joined)


class _Reader:
    """Reads an expression from left to right."""

    def __init__(self, pattern: str) -> None:
        self.pattern, self.place = pattern, 0

    def branches(self, depth: int) -> list[list[_Part]]:
        """Reads what ``|`` separates, up to the end of a group."""
        if depth > _MOST_DEPTH:
            raise Wild("its groups are too deep")
        found: list[list[_Part]] = [[]]
        while self.place < len(self.pattern) and self.pattern[self.place] != ")":
            if self.pattern[self.place] == "|":
                self.place += 1
                found.append([])
            else:
                found[-1].append(self._repeated(self._part(depth)))
        return found

    def _taken(self, what: re.Pattern[str]) -> re.Match[str] | None:
        if found := what.match(self.pattern, self.place):
            self.place = found.end()
        return found

    def _part(self, depth: int) -> _Part:
        start = self.place
        if self._taken(_PLACE):
            return _Part()
        if self.pattern[start] == "[":
            self._class(0)
            return _Part(shortest=1, single=True)
        if self._taken(_CHARACTER):
            return _Part(shortest=1, single=True)
        group = self._taken(_GROUP)
        if group is None:
            raise Wild(f"{self.pattern[start : start + 4]!r} at character {start + 1} is not supported")
        joined = [_sequence(parts) for parts in self.branches(depth + 1)]
        if self.place == len(self.pattern):
            raise Wild("a group does not end")
        self.place += 1
        inside = _Part(min(one.shortest for one in joined), max(one.endless for one in joined), _ways(joined))
        if not group["look"]:
            return inside
        if inside.endless or inside.ways > _MOST_WAYS:
            raise Wild("it looks around by more than a few characters")
        return _Part()

    def _class(self, depth: int) -> None:
        """Passes over a class, which may have classes in it."""
        if depth > _MOST_DEPTH:
            raise Wild("its classes are too deep")
        self.place += 1
        if self.pattern[self.place : self.place + 1] == "^":
            self.place += 1
        first = True
        while (sign := self.pattern[self.place : self.place + 1]) != "]" or first:
            if sign in ("", "]"):
                raise Wild("a class is empty or does not end")
            if sign == "[":
                self._class(depth + 1)
            else:
                self.place += 2 if sign == "\\" else 1
            first = False
        self.place += 1

    def _repeated(self, part: _Part) -> _Part:
        """Reads how often a part may repeat."""
        start = self.place
        found = self._taken(_REPEAT)
        if found is None:
            if self.pattern[start : start + 1] in ("*", "+", "?", "{"):
                raise Wild(f"there are several signs of repetition at character {start + 1}")
            return part
        if found["sign"] == "?":
            return _Part(0, part.endless, part.ways + 1, sure=True)
        if not part.single:
            raise Wild("a group repeats")
        if found["sign"]:
            least, most = int(found["sign"] == "+"), None
        else:
            if not found["least"] and not found["most"]:
                raise Wild(f"{found[0]!r} is not supported")
            least = int(found["least"] or 0)
            most = (int(found["most"]) if found["most"] else None) if found["comma"] else least
        if least > _MANY or (most is not None and most < least):
            raise Wild(f"{found[0]!r} is not supported")
        if most is None or most > _MANY:
            return _Part(least, endless=1, sure=least == 0, single=True)
        return _Part(least, ways=most - least + 1, sure=least == 0)


def _sequence(parts: list[_Part]) -> _Part:
    ways = 1
    for part in parts:
        ways = min(ways * part.ways, _MOST_WAYS + 1)
    return _Part(sum(part.shortest for part in parts), sum(part.endless for part in parts), ways)


def _ways(branches: list[_Part]) -> int:
    return sum(one.ways for one in branches)
