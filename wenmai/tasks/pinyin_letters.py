"""Pinyin to characters: a network that labels letters without spaces, trained on text and its readings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wenmai.config.recipe import Recipe
from wenmai.data.encoded_transliteration import TransliterationData
from wenmai.inference.pinyin_labelling import build
from wenmai.inference.pinyin_letters_model import PinyinLettersModel
from wenmai.inference.pinyin_numbers import BLANK, PAD, Numbers
from wenmai.tasks.pinyin import SYLLABLES, Made, PinyinJob, PinyinTask, Sentences, numbers_of
from wenmai.tasks.settings import PINYIN_LETTERS
from wenmai.text.pinyin.syllables import split_tone

__all__ = ["PinyinLettersJob", "PinyinLettersTask"]

_LETTERS = "abcdefghijklmnopqrstuvwxyz12345"

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class PinyinLettersTask(PinyinTask):
    """Labellers of letters."""

    replicated = False  # batch norms have statistics of their own
    sections: Mapping[str, type] = PINYIN_LETTERS
    verbs: tuple[str, ...] = ("convert",)

    def load(self, folder: Path) -> PinyinLettersModel:  # type: ignore[override]  # another model
        """Reads a finished model."""
        return PinyinLettersModel.load(folder)

    def make(self, recipe: Recipe, data: TransliterationData, base: Any) -> PinyinLettersModel:  # noqa: ANN401
        """Makes a model for the characters of the text."""
        numbers = numbers_of(data, _LETTERS) if base is None else base.numbers
        return PinyinLettersModel(build(self.model, recipe.sections["model"], numbers), numbers)

    def job(self, recipe: Recipe, data: TransliterationData, model: Any) -> "PinyinLettersJob":  # noqa: ANN401
        """Returns a training."""
        return PinyinLettersJob(recipe, data, model)


class PinyinLettersJob(PinyinJob):
    """Training a labeller of letters: the first letter of a syllable has its character, the others are blank."""

    objective_name = "cross-entropy of the labels of letters"
    length_step = 16

    def _symbol(self, token: str) -> int:
        """A place in the table of spellings: of all syllables and marks of the text."""
        return self._places.setdefault(token, len(self._places))

    def _prepare(self, numbers: Numbers) -> None:
        """Makes the table of spellings: (S, L) letters, the tone in the last column, 0 where there is none."""
        spelt = [self._spelt(token, numbers) for token in self._places]
        self._syllable = np.array([one is not None for one in spelt])
        rows = [
            ([numbers.character(token)], 0) if one is None else one
            for one, token in zip(spelt, self._places, strict=True)
        ]
        longest = max(len(letters) for letters, _ in rows)
        self._spellings = np.zeros((len(rows), longest + 1), np.int64)
        for place, (letters, tone) in enumerate(rows):
            self._spellings[place, : len(letters)] = letters
            self._spellings[place, -1] = tone
        self._letters = (self._spellings > 0).sum(1)

    def _spelt(self, token: str, numbers: Numbers) -> tuple[list[int], int] | None:
        letters, tone = split_tone(token)
        if letters not in SYLLABLES:
            return None
        return [numbers.symbol(one) for one in letters], numbers.symbol(str(tone)) if tone else 0

    def _sizes(self, sentences: Sentences) -> Ints:
        every = np.arange(len(sentences.lengths))
        sizes = np.concatenate(
            [self._letters_of(sentences, part) for part in np.array_split(every, len(every) // 65536 + 1)]
        )
        return self._rounded(sizes)

    def _letters_of(self, sentences: Sentences, numbers: Ints) -> Ints:
        symbols, _, sizes = sentences.take(numbers)
        sums = np.concatenate([[0], np.cumsum(self._letters[symbols])])
        ends = np.cumsum(sizes)
        found: Ints = sums[ends] - sums[ends - sizes]
        return found

    def _arrays(
        self,
        symbols: Ints,
        characters: Ints,
        sizes: Ints,
        dropped: Bools,
        random: np.random.Generator | None,
        *,
        backwards: bool = False,
    ) -> Made:
        """Makes a batch of letters; see the base."""
        letters = self._spellings[symbols]  # (N, L)
        letters[dropped, -1] = PAD
        labels = np.full(letters.shape, BLANK)
        labels[:, 0] = characters
        known = self._syllable[symbols] & (characters > BLANK)
        there = letters > PAD
        row = np.repeat(np.arange(len(sizes)), sizes)
        spelt = np.bincount(row, weights=there.sum(1), minlength=len(sizes)).astype(np.int64)
        wanted = (there & known[:, None])[there]
        return self._filled(letters[there], spelt, {"characters": wanted}, {"characters": labels[there]})
