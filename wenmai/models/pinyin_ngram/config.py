"""The settings of converters of pinyin that are made of counts."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le
from typing_extensions import Doc

__all__ = ["PinyinNgramConfig"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PinyinNgramConfig:
    """What is counted, and how much each model says."""

    kind: Annotated[Literal["pinyin-ngram"], Doc("the architecture")] = "pinyin-ngram"
    order: Annotated[
        int, Ge(1), Le(5), Doc("characters of the longest n-gram; with word_order=1 and words=false alone")
    ] = 5
    word_order: Annotated[int, Ge(1), Le(3), Doc("words of the longest n-gram of words")] = 2
    words: Annotated[bool, Doc("words of a list and of the text are parts of sentences; off: characters alone")] = True
    character_weight: Annotated[float, Ge(0), Doc("weight of the log-probabilities of characters after others")] = 0.4
    word_weight: Annotated[float, Ge(0), Doc("weight of the log-probabilities of words after others")] = 0.3
    list_weight: Annotated[float, Ge(0), Doc("weight of the log-probabilities of words by themselves")] = 0.7
    reading_weight: Annotated[float, Ge(0), Doc("weight of how often a character has its reading")] = 1.0
    list_share: Annotated[
        float, Ge(0), Le(1), Doc("part of a word's frequency that the word list says; the text, the rest")
    ] = 0.5
    min_count: Annotated[int, Ge(1), Doc("words that occur fewer times in the text are only characters")] = 2
