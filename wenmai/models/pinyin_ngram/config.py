"""The settings of converters of pinyin that are made of counts."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le
from typing_extensions import Doc

from wenmai.core.errors import SettingError

__all__ = ["PinyinNgramConfig"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PinyinNgramConfig:
    """What is counted, and how much each model says."""

    kind: Annotated[Literal["pinyin-ngram"], Doc("the architecture")] = "pinyin-ngram"
    order: Annotated[int, Ge(1), Le(5), Doc("characters of the longest n-gram of characters")] = 5
    word_order: Annotated[int, Ge(1), Le(3), Doc("words of the longest n-gram of words")] = 2
    longest: Annotated[
        int, Ge(1), Le(8), Doc("characters of the longest word; 1: there are no words, only characters")
    ] = 8
    listed: Annotated[bool, Doc("the words of jieba's list are words; off: only those of the text")] = True
    least: Annotated[
        int, Ge(1), Doc("words of the text that occur fewer times, and are not in the list, are no words")
    ] = 2
    character_weight: Annotated[float, Ge(0), Doc("weight of the log-probabilities of characters after others")] = 0.5
    word_weight: Annotated[
        float, Ge(0), Doc("weight of the log-probabilities of words after others; 0: they are not counted")
    ] = 0.5
    list_weight: Annotated[float, Ge(0), Doc("weight of the log-probabilities of words by themselves")] = 0.1
    reading_weight: Annotated[float, Ge(0), Doc("weight of how often a character has a reading, a log-probability")] = (
        1.0
    )
    list_share: Annotated[
        float,
        Ge(0),
        Le(1),
        Doc("how much of a word's probability by itself comes from the word list; the rest, from the text"),
    ] = 0.5

    def __post_init__(self) -> None:
        if not (self.character_weight or self.counts_words or self.list_weight):
            raise SettingError("character_weight, word_weight and list_weight are all 0, so that nothing is scored")

    @property
    def counts_words(self) -> bool:
        """Whether there is a model of words."""
        return self.longest > 1 and self.word_weight > 0
