"""Segmentation: text to a flat list of tokens, many lines at a time.

A segmenter takes text without NUL and returns its tokens in order, with the token :data:`LINE_END` where
a line ends. One flat list for a megabyte of text, rather than a list for each line, makes encoding fast.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from wenmai.core.errors import SettingError, nearest_name
from wenmai.text.encodable import explaining
from wenmai.text.unspaced import find_unspaced

__all__ = [
    "LINE_END",
    "Segmenter",
    "marks_in_words",
    "places_before_spacing",
    "segmenter",
    "spaced_words",
    "token_spans",
    "treebank_spans",
    "with_marks",
    "word_spans",
]

LINE_END = "\0"
"""The token that ends a line. No text holds it, as NUL characters are refused when text is read."""

_FEWEST_LETTERS = 5  # of a script without spaces: fewer in a sentence may be one word
_JAMO = frozenset(map(chr, range(0x1160, 0x1200)))  # vowels and last consonants of Korean syllables


@dataclass(frozen=True, slots=True)
class Segmenter:
    r"""A way to cut text into tokens.

    Attributes:
        tokens: The tokens of a text, with :data:`LINE_END` for each ``"\n"``; white space is never a token.
        cut: The last position where a text without line ends may be cut in two such that both parts together
            have the tokens of the whole; 0 if there is none.
    """

    tokens: Callable[[str], list[str]]
    cut: Callable[[str], int]


@cache
def segmenter(name: str) -> Segmenter:
    """Returns the segmenter called ``name``.

    - ``whitespace``: tokens are what Unicode white space separates.
    - ``words``: runs of letters, marks, digits and underscores, with apostrophes inside words (``don't``) and
      points and commas inside numbers (``3.14``) kept; every other character is a token of its own. Text that
      is written without spaces, such as Chinese, needs ``chinese`` or ``characters``.
    - ``characters``: every character (code point) other than white space is a token, Latin letters and digits
      too.
    - ``chinese``: words by jieba's dictionary, with its hidden Markov model for words the dictionary lacks;
      Latin words and numbers stay whole, punctuation marks are tokens. A line longer than a megabyte is cut
      after a punctuation mark, or where there is none after a Chinese character.

    Raises:
        SettingError: if no segmenter has that name.
    """
    makers = {"whitespace": _whitespace, "words": _words, "characters": _characters, "chinese": _chinese}
    if name not in makers:
        raise SettingError(f"segment={name!r} is not one of {', '.join(makers)}{nearest_name(name, makers)}")
    return makers[name]()


def spaced_words(text: str, normalised: str) -> str:
    """Returns a text with one space between its words, which are those of ``chinese``.

    Args:
        text: The text.
        normalised: The same as the dictionary should read it, with simplified characters for instance. Where it is not
            as long, its words have no places in the text, and the dictionary reads the text itself.
    """
    read = normalised if len(normalised) == len(text) else text
    return " ".join(segmenter("chinese").tokens(read.replace("\n", " ")))


def token_spans(text: str, segment: str) -> list[tuple[int, int]]:
    """Returns where each token of a text begins and ends, in characters; line ends are white space."""
    plain = text.replace("\n", " ")
    return _spans(plain, segmenter(segment).tokens(plain))


def places_before_spacing(text: str, spaced: str) -> list[int]:
    """Returns the place in a text of each character that :func:`spaced_words` made of it; of a space, the one before.

    Args:
        text: The text; or what the dictionary read of it, which is as long.
        spaced: The words with one space between them.
    """
    return [place for begin, end in _spans(text, spaced.split(" ")) for place in range(begin, end + 1)]


def with_marks(text: str, places: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns where pieces begin and end in a text, with the marks behind a letter that became one with it, or went.

    Of *e* and a combining accent, of which Unicode's form C makes *é*, ``tokenizers`` says the place of *e* alone.
    """
    if text.isascii():
        return places
    begins = {begin for begin, _ in places}
    return [(begin, _behind_marks(text, end, begins)) for begin, end in places]


def _behind_marks(text: str, end: int, begins: set[int]) -> int:
    while 0 < end < len(text) and end not in begins and _joins(text[end]):
        end += 1
    return end


def _joins(character: str) -> bool:
    return character in _JAMO or unicodedata.category(character)[0] == "M"


def _spans(text: str, tokens: Iterable[str]) -> list[tuple[int, int]]:
    found, place = list[tuple[int, int]](), 0
    for token in tokens:
        start = text.index(token, place)
        place = start + len(token)
        found.append((start, place))
    return found


def word_spans(text: str) -> list[tuple[int, int]]:
    """Returns where what white space separates begins and ends; in text without spaces words by :func:`token_spans`."""
    return token_spans(text, _unspaced_segmentation(text) or "whitespace")


def treebank_spans(text: str) -> list[tuple[int, int]]:
    """Returns where the words of a sentence begin and end as corpora of tagged sentences have them.

    As in the Penn Treebank and CoNLL-2003 ``party's`` are two words and ``don't`` are ``do n't``, while ``1,000``,
    ``U.S.``, ``Mr.`` and ``well-known`` are one. In text without spaces words are those of :func:`word_spans`.
    """
    if _unspaced_segmentation(text) is not None:
        return word_spans(text)
    return [found.span() for found in _treebank().finditer(text)]


def _unspaced_segmentation(text: str) -> str | None:
    """Returns the segmentation that a text needs that has no spaces between words."""
    found = find_unspaced(text, fewest_letters=_FEWEST_LETTERS)
    return None if found is None else found.segment


@cache
def _treebank() -> re.Pattern[str]:
    letter = rf"[\w{marks_in_words()}]"
    ending = rf"(?:s|m|d|ll|re|ve)(?!{letter})"
    parts = (
        r"(?:Mr|Mrs|Ms|Dr|St|Prof|Gen|Gov|Sen|Rep|Lt|Col|Capt)\.(?=\s)",
        rf"(?<!{letter})(?:[^\W\d_]\.){{2,}}",
        rf"\d+(?:[.,:/]\d+)+(?!{letter})",
        rf"n['’]t(?!{letter})",
        rf"['’]{ending}",
        rf"{letter}+?(?=n['’]t(?!{letter}))",
        rf"{letter}+(?:(?:[-.&]|['’](?!{ending})){letter}+)*",
        r"\.{2,}|-{2,}|[^\w\s]",
    )
    return re.compile("|".join(parts), re.IGNORECASE)


def _whitespace() -> Segmenter:
    def tokens(text: str) -> list[str]:
        return text.replace("\n", f" {LINE_END} ").split()

    return Segmenter(tokens=tokens, cut=lambda text: _after_last(text, str.isspace))


def _words() -> Segmenter:
    # Possessive quantifiers: a word that has been read is never given back, which makes this three times as
    # fast. Groups have none: Python 3.11.2 matches possessive groups wrongly.
    word = rf"[\w{marks_in_words()}]"
    find = re.compile(rf"\d++(?:[.,]\d++)+|{word}++(?:['’]{word}++)*|[^\w\s]").findall

    def tokens(text: str) -> list[str]:
        return find(text.replace("\n", LINE_END))

    def separates(character: str) -> bool:
        category = unicodedata.category(character)
        return category[0] not in "LMN" and category != "Cf" and character not in "_'’.,"

    return Segmenter(tokens=tokens, cut=lambda text: _after_last(text, separates))


def _characters() -> Segmenter:
    def tokens(text: str) -> list[str]:
        return list("".join(text.replace("\n", LINE_END).split()))

    return Segmenter(tokens=tokens, cut=len)


def _chinese() -> Segmenter:
    import rjieba

    def tokens(text: str) -> list[str]:
        with explaining([text]):
            pieces = rjieba.cut(text.replace("\r", " "))  # before a line feed the two would be one token
        return [LINE_END if piece == "\n" else piece for piece in pieces if piece == "\n" or not piece.isspace()]

    def separates(character: str) -> bool:
        return character.isspace() or character in "。，、；：！？…（）《》「」“”"

    def cut(text: str) -> int:
        return _after_last(text, separates) or _after_last(text, "\u2e80".__le__)

    return Segmenter(tokens=tokens, cut=cut)


def _after_last(text: str, wanted: Callable[[str], bool]) -> int:
    """Returns the index after the last wanted character, or 0."""
    return next((place for place in range(len(text), 0, -1) if wanted(text[place - 1])), 0)


@cache
def marks_in_words() -> str:
    r"""Returns the characters inside words that Python's ``\w`` lacks, as ranges of a regular expression.

    These are the combining marks of the basic plane, soft hyphens and zero-width joiners.
    """
    ranges = [[0xAD, 0xAD], [0x200C, 0x200D]]
    for code in range(0x300, 0x10000):
        if unicodedata.category(chr(code))[0] == "M":
            if ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)
