"""Errors of words and of attributes that are not there."""

import unicodedata
from collections.abc import Mapping
from itertools import islice

from wenmai.core.errors import SettingError, VocabError, nearest_name

__all__ = ["UnknownAttributeError", "UnknownWordError"]


class UnknownWordError(VocabError, KeyError):
    """A word that has no vector, or a row number beyond the last row.

    The nearest known spelling is looked up only when the message is read, so that catching is cheap.
    """

    def __init__(self, word: object, key_to_index: Mapping[str, int]) -> None:
        super().__init__(word)
        self.word = word
        self._key_to_index = key_to_index

    def __str__(self) -> str:
        if isinstance(self.word, str):
            return f"no vector for {self.word!r}{_hint(self.word, self._key_to_index)}"
        return f"no vector for {self.word!r}; expected a word, or the number of one of {len(self._key_to_index)} rows"


class UnknownAttributeError(SettingError, KeyError):
    """An attribute of words that was never set."""

    def __str__(self) -> str:
        return str(self.args[0])


def _hint(word: str, key_to_index: Mapping[str, int]) -> str:
    """The nearest spelling; of several words together, of which most have vectors, that each is given by itself."""
    hint, words = _nearest_spelling(word, key_to_index), word.split()
    if not hint and len(words) > 1 and 2 * sum(one in key_to_index for one in words) >= len(words):
        return f"; it is taken as one word; give {', '.join(map(repr, words))} separately"
    return hint


def _nearest_spelling(word: str, key_to_index: Mapping[str, int]) -> str:
    """Other case and width first, then a few thousand frequent words of about the same length."""
    plain = unicodedata.normalize("NFKC", word).strip()
    for spelling in (plain, plain.lower(), plain.capitalize(), plain.upper(), plain.replace(" ", "_")):
        if spelling in key_to_index:
            return f"; did you mean {spelling!r}?"
    alike = (
        key
        for key in islice(key_to_index, 200_000)
        if abs(len(key) - len(plain)) <= 2 and (key[:1] == plain[:1] or key[-1:] == plain[-1:])
    )
    return nearest_name(plain, islice(alike, 5_000))
