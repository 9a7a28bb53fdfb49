"""Pinyin to characters by counts: Viterbi through a lattice of words, scored by n-grams of characters and of words."""

from wenmai.models.pinyin_ngram.config import PinyinNgramConfig
from wenmai.models.pinyin_ngram.lexicon import LEXICON, Lexicon, Reading

__all__ = ["LEXICON", "Lexicon", "PinyinNgramConfig", "Reading"]
