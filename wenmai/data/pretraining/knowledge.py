"""Knowledge masking: characters, phrases or entities are masked, and the model guesses them (ERNIE 1.0, section 3.2).

Nothing but what is masked together distinguishes these tasks; the text is the same, in rows as long as the model reads,
across sentences and documents. Of each row 15 % of the tokens are asked for, or what ``mask_probability`` says:

| task | units | where a row has too few of them |
|---|---|---|
| ``characters`` | tokens of Chinese, words of English | |
| ``phrases`` | phrases and words | |
| ``entities`` | entities, each before any other unit | phrases and words |
| ``knowledge`` | entities, phrases and words alike: the first task of ERNIE 2.0 | |

As in the paper a unit is masked, replaced or left as a whole. With ``masking=released`` it is drawn and masked as the
released reader does, which has one kind of units: no entity comes before a phrase.
"""

from dataclasses import replace
from typing import ClassVar

import numpy as np

from wenmai.data.masking import MaskingConfig
from wenmai.data.pretraining.task import Context, Drawn, Level, Row
from wenmai.data.pretraining.windows import WindowTask
from wenmai.data.sequences import SentenceStream
from wenmai.data.token_marks import ENTITY, PHRASE, Marks, unit_begins

__all__ = ["MASKING_TASKS", "Characters", "Entities", "Knowledge", "Phrases", "as_units"]

MASKING_TASKS = ("characters", "phrases", "entities", "knowledge")
"""The tasks that nothing but masking is of."""


def as_units(masking: MaskingConfig) -> MaskingConfig:
    """Returns how units are masked: as the paper says, unless it is to be as in the released reader."""
    return masking if masking.masking == "released" else replace(masking, masking="unit")


class _MaskingTask(WindowTask):
    """Text of which some units are masked."""

    level: ClassVar[Level] = "none"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.masking = as_units(context.masking)

    def row(self, stream: SentenceStream, examples: Drawn, place: int) -> Row:
        """Makes a row, and says where its units begin."""
        begin, end = examples.table[place].tolist()
        tokens, segments = self.context.frame(stream.read(begin, end))
        units = self._units(stream.read_marks(begin, end)) if self.marks else None
        return Row(tokens, segments, units=None if units is None else np.pad(units, 1, constant_values=1))

    def _units(self, marks: Marks) -> Marks:
        """Returns where units begin, (N,) uint8: 1, or 2 where they come before the others."""
        raise NotImplementedError


class Characters(_MaskingTask):
    """Basic masking, as in BERT: characters of Chinese, words of English."""

    name = "characters"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._chinese = context.settings.language == "chinese"
        if context.masking.masking != "released":
            self.masking = replace(context.masking, masking="token" if self._chinese else "whole-word")

    def row(self, stream: SentenceStream, examples: Drawn, place: int) -> Row:
        """Makes a row; each token of Chinese is a unit."""
        found = super().row(stream, examples, place)
        return found._replace(units=np.ones(len(found.tokens), np.uint8)) if self._chinese else found


class Phrases(_MaskingTask):
    """Phrase masking."""

    name = "phrases"
    marks = PHRASE

    def _units(self, marks: Marks) -> Marks:
        return unit_begins(marks, entities=False).astype(np.uint8)


class Entities(_MaskingTask):
    """Entity masking: entities first, then phrases."""

    name = "entities"
    marks = PHRASE | ENTITY

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        context.settings.require_marks(self.marks)

    def _units(self, marks: Marks) -> Marks:
        return unit_begins(marks, entities=True).astype(np.uint8) + ((marks & ENTITY) > 0).astype(np.uint8)


class Knowledge(Entities):
    """Phrases and entities alike."""

    name = "knowledge"

    def _units(self, marks: Marks) -> Marks:
        return unit_begins(marks, entities=True).astype(np.uint8)
