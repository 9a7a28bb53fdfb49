"""Pinyin to characters by counts: Viterbi through a lattice of words, scored by n-grams of characters and of words.

Papers: Viterbi 1967, "Error Bounds for Convolutional Codes and an Asymptotically Optimum Decoding Algorithm", IEEE
Transactions on Information Theory 13; Chen, Lee 2000, "A New Statistical Approach to Chinese Pinyin Input", ACL
(https://aclanthology.org/P00-1031). n-grams are those of the system ``ngram``.

Of a path through the lattice, whose words w have readings r and characters c, the score is

    Σ_w [λ log P(w) + ρ log P(r | w) + μ_w log P(w | words before)] + μ_c Σ_c log P(c | characters before)

with the weights ``list_weight``, ``reading_weight``, ``word_weight`` and ``character_weight``; both n-grams predict the
end of the sentence too.

| what                                                        | where                                                |
|-------------------------------------------------------------|------------------------------------------------------|
| words of the input, by a trie of syllables                  | ``kernels/pinyin_words.py``                          |
| Viterbi with a beam, k best (recombination by both contexts)| ``kernels/pinyin_search.py``                         |
| probabilities of many words after many contexts             | ``kernels/ngram_rows.py``                            |
| P(w), P(r | w)                                              | ``words.py``                                         |

Differs from the paper: there is no model of typing errors beyond a fixed cost of fuzzy syllables.
"""

from wenmai.models.pinyin_ngram.config import PinyinNgramConfig
from wenmai.models.pinyin_ngram.lexicon import LEXICON, Lexicon, Reading
from wenmai.models.pinyin_ngram.words import ERHUA, INVENTORY, weighed_readings

__all__ = ["ERHUA", "INVENTORY", "LEXICON", "Lexicon", "PinyinNgramConfig", "Reading", "weighed_readings"]
