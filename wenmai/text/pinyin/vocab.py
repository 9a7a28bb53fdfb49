"""The ids of what is typed, and of the characters that come out."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import VocabError
from wenmai.core.folder import read_json_object, writing_json
from wenmai.text.pinyin.syllables import TONED, TONELESS, without_tone

__all__ = ["FIRST_OTHER", "PAD_ID", "UNKNOWN_ID", "PinyinVocab"]

PAD_ID: Final = 0
UNKNOWN_ID: Final = 1
FIRST_OTHER: Final = 2 + len(TONELESS) + len(TONED)
"""The first id behind the syllables, of characters that pass through."""

_MOST: Final = 1 << 21  # more characters than Unicode has


class PinyinVocab:
    """Ids of symbols (syllables and characters that pass through) and of characters.

    Both count from 0, the padding, and 1, what is unknown. Symbols are all syllables without tones, then all with, each
    sorted, and then other characters; characters and others are in the order that is given, the most frequent first.

    Attributes:
        characters: The characters, from id 2 on.
        others: The characters that pass through, from id :data:`FIRST_OTHER` of the symbols on.
    """

    def __init__(self, characters: Sequence[str], others: Sequence[str]) -> None:
        """Takes the characters.

        Raises:
            VocabError: if one is there twice, or is not one character.
        """
        self.characters, self.others = tuple(characters), tuple(others)
        for given in (self.characters, self.others):
            if any(len(one) != 1 for one in given) or len(set(given)) != len(given):
                raise VocabError("a vocabulary of pinyin has single characters, each once")

    @cached_property
    def symbol_ids(self) -> Mapping[str, int]:
        """The id of each syllable and each other character."""
        return {one: place for place, one in enumerate((*TONELESS, *TONED, *self.others), 2)}

    @cached_property
    def character_ids(self) -> Mapping[str, int]:
        """The id of each character."""
        return {one: place for place, one in enumerate(self.characters, 2)}

    @property
    def num_symbols(self) -> int:
        """Symbols, with padding and unknown."""
        return FIRST_OTHER + len(self.others)

    @property
    def num_characters(self) -> int:
        """Characters, with padding and unknown."""
        return 2 + len(self.characters)

    @cached_property
    def toneless(self) -> npt.NDArray[np.int32]:
        """(symbols,) int32: of each syllable with a tone the id of the syllable without, of all others their own id."""
        ids = np.arange(self.num_symbols, dtype=np.int32)
        known = self.symbol_ids
        for syllable in TONED:
            ids[known[syllable]] = known[without_tone(syllable)]
        return ids

    def symbol_id(self, item: str) -> int:
        """Returns the id of an item of a reading; a syllable with a tone that no word has counts without it."""
        found = self.symbol_ids.get(item)
        if found is None:
            found = self.symbol_ids.get(without_tone(item))
        return UNKNOWN_ID if found is None else found

    def encode_reading(self, reading: Sequence[str]) -> list[int]:
        """Returns the ids of a reading."""
        return [self.symbol_id(item) for item in reading]

    def encode_characters(self, text: Sequence[str]) -> list[int]:
        """Returns the ids of characters."""
        known = self.character_ids
        return [known.get(character, UNKNOWN_ID) for character in text]

    def character(self, number: int) -> str:
        """Returns the character of an id; an empty string of padding and of what is unknown."""
        return self.characters[number - 2] if number >= 2 else ""

    @property
    def fingerprint(self) -> str:
        """A hexadecimal hash."""
        content = [TONELESS, TONED, self.characters, self.others]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    def save(self, path: str | Path) -> None:
        """Writes the vocabulary as JSON."""
        syllables = {"toneless": TONELESS, "toned": TONED}
        writing_json(path, {**syllables, "characters": "".join(self.characters), "others": "".join(self.others)})

    @classmethod
    def load(cls, path: str | Path) -> "PinyinVocab":
        """Reads what :meth:`save` wrote.

        Raises:
            FormatError: if the file is missing or is no JSON.
            VocabError: if it is no such vocabulary, or has other syllables than this version of wenmai.
        """
        found = read_json_object(Path(path))
        characters, others = found.get("characters"), found.get("others")
        if not isinstance(characters, str) or not isinstance(others, str) or max(len(characters), len(others)) > _MOST:
            raise VocabError(f"{path}: is no vocabulary of pinyin; expected the strings 'characters' and 'others'")
        if found.get("toneless") != list(TONELESS) or found.get("toned") != list(TONED):
            raise VocabError(f"{path}: has other syllables than this version of wenmai; train the model again")
        try:
            return cls(characters, others)
        except VocabError as error:
            raise VocabError(f"{path}: {error}") from None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PinyinVocab):
            return NotImplemented
        return (self.characters, self.others) == (other.characters, other.others)

    def __hash__(self) -> int:
        return hash((self.characters, self.others))
