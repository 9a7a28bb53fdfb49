"""The numbers of what networks of pinyin read and write: syllables or letters, and characters."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import FormatError
from wenmai.core.folder import read_json_object, writing_json
from wenmai.text.pinyin.syllables import split_tone, without_tone
from wenmai.text.vocab import Vocab

__all__ = ["BLANK", "CHARACTERS", "PAD", "UNKNOWN", "Numbers", "number_characters", "number_symbols"]

PAD, UNKNOWN, BLANK = 0, 1, 2
CHARACTERS, SYMBOLS, CANDIDATES = "vocab.json", "symbols.json", "candidates.json"
_SPECIAL = {"pad": "<pad>", "unknown": "<unk>", "blank": "<blank>"}

Ints = npt.NDArray[np.int64]


def number_characters(tokens: Sequence[str], counts: Sequence[int], *, min_count: int = 1) -> Vocab:
    """Returns the vocabulary of characters, the most frequent first, after padding, unknown and blank."""
    return Vocab.from_counts(tokens, counts, min_count=min_count, specials=_SPECIAL)


def number_symbols(tokens: Iterable[str], counts: Mapping[str, int]) -> Vocab:
    """Returns the vocabulary of syllables or letters, after padding, unknown and blank."""
    found = [*_SPECIAL.values(), *tokens]
    return Vocab(found, [counts.get(token, 0) for token in found], _SPECIAL)


class Numbers:
    """What a network reads and writes.

    A network reads the symbols of ``symbols``, and after them the characters: marks and digits between syllables, and
    whole texts whose readings are wanted. It writes characters, as numbered by ``characters``.

    Args:
        symbols: Syllables with and without tones, or letters.
        characters: What is written.
        candidates: The characters of each syllable, with and without tone; other characters are left out.
    """

    def __init__(self, symbols: Vocab, characters: Vocab, candidates: Mapping[str, str]) -> None:
        self.symbols, self.characters = symbols, characters
        self.candidates = {
            syllable: found
            for syllable, written in candidates.items()
            if (found := "".join(dict.fromkeys(one for one in written if one in characters)))
        }

    @property
    def vocab_size(self) -> int:
        """V: symbols and characters together."""
        return len(self.symbols) + len(self.characters)

    def symbol(self, token: str) -> int:
        """Returns the number of a symbol, or of a character that stands for itself.

        A syllable with a tone that no character has is one without.
        """
        found = self.symbols.get(token)
        if found is None and split_tone(token)[1]:
            found = self.symbols.get(without_tone(token))
        return self.character(token) if found is None else found

    def character(self, token: str) -> int:
        """Returns the number by which a network reads a character."""
        found = self.characters.get(token)
        return UNKNOWN if found is None or found <= BLANK else len(self.symbols) + found

    @cached_property
    def choices(self) -> dict[str, Ints]:
        """The numbers of the candidates of each syllable."""
        get = self.characters.index
        return {
            syllable: np.array([get(one) for one in written], np.int64) for syllable, written in self.candidates.items()
        }

    # --- files --------------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Writes the vocabularies and the candidates into the folder of a model."""
        self.symbols.save(folder / SYMBOLS)
        self.characters.save(folder / CHARACTERS)
        writing_json(folder / CANDIDATES, {"version": 1, "candidates": self.candidates})

    @classmethod
    def load(cls, folder: Path) -> "Numbers":
        """Reads what :meth:`save` wrote.

        Raises:
            FormatError: if a file is missing or damaged.
        """
        symbols, characters = (Vocab.load(folder / name) for name in (SYMBOLS, CHARACTERS))
        for name, vocab in ((SYMBOLS, symbols), (CHARACTERS, characters)):
            if vocab.specials != _SPECIAL:
                raise FormatError(f"{folder / name}: is not a vocabulary of a model of pinyin")
        path = folder / CANDIDATES
        found = read_json_object(path)
        candidates = found.get("candidates")
        if (
            found.get("version") != 1
            or not isinstance(candidates, dict)
            or not all(isinstance(written, str) for written in candidates.values())
        ):
            raise FormatError(f"{path}: is damaged: expected the characters of each syllable, version 1")
        return cls(symbols, characters, candidates)
