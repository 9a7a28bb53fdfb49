"""How well a language model predicts a text: perplexity, and metrics that do not depend on its tokens.

Perplexity by token compares models with one vocabulary only. The probability of the *characters* of a text does not
depend on the tokens of a model: bits per character and per byte compare n-grams, words and pieces.

A masked language model gives no probability of a text, but a pseudo-log-likelihood: each token is predicted from all
others, those behind it too, and ends of lines are not predicted. Metrics of it are called pseudo, as in Salazar et al.
2020, "Masked Language Model Scoring", section 2; they do not compare with those of a probability.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from wenmai.core.quantities import plural
from wenmai.text.unspaced import find_unspaced

__all__ = ["SentenceScore", "TextScore", "add_up"]

_SAMPLE = 4096  # characters of a text in which white space is looked for


@dataclass(kw_only=True, slots=True)  # not frozen, which would take most of the time that n-grams need to score a line
class SentenceScore:
    """The probability of one line of text.

    Attributes:
        text: The line, without its end.
        log_prob: Natural logarithm of the probability of all its tokens and of its end.
        tokens: Predictions that were made: the tokens, and the end.
        oov: Tokens that the vocabulary lacks.
        known_log_prob: The part of ``log_prob`` that the other tokens contribute.
        oov_bytes: Bytes that spell them in UTF-8, and one for the end of each.
        token_log_probs: Natural log-probability of each token, the end last.
        pseudo: Whether each token was predicted from all others; then there is no end, and ``log_prob`` is a
            pseudo-log-likelihood.
    """

    text: str
    log_prob: float
    tokens: int
    oov: int = 0
    known_log_prob: float = 0.0
    oov_bytes: int = 0
    token_log_probs: tuple[float, ...] = ()
    pseudo: bool = False

    @property
    def log10(self) -> float:
        """The same to base 10, as ARPA files and KenLM have it."""
        return self.log_prob / math.log(10)

    @property
    def words(self) -> int:
        """What white space separates, and the end of the line."""
        return len(self.text.split()) + (not self.pseudo)

    @property
    def characters(self) -> int:
        """Unicode characters, and the end of the line."""
        return len(self.text) + (not self.pseudo)

    @property
    def bytes(self) -> int:
        """Bytes in UTF-8, and the end of the line."""
        return len(self.text.encode("utf-8", "surrogatepass")) + (not self.pseudo)


@dataclass(frozen=True, kw_only=True, slots=True)
class TextScore:
    """The probability of a whole text; every line counts with its end.

    Attributes:
        sentences: Lines with at least one token.
        tokens: Predictions that were made.
        oov: Tokens that the vocabulary lacks.
        words: What white space separates, and the ends of lines.
        characters: Unicode characters, and the ends of lines.
        bytes: Bytes in UTF-8, and the ends of lines.
        log_prob: Natural logarithm of the probability of the text.
        known_log_prob: The part of it that known tokens and ends of lines contribute.
        oov_bytes: Bytes that spell unknown tokens, and one for the end of each.
        has_words: Whether white space separates words; in Chinese text it does only once that is segmented.
        pseudo: Whether each token was predicted from all others; then no end of a line counts, and all metrics are
            pseudo.
    """

    sentences: int
    tokens: int
    oov: int
    words: int
    characters: int
    bytes: int
    log_prob: float
    known_log_prob: float
    oov_bytes: int = 0
    has_words: bool = True
    pseudo: bool = False

    @property
    def log10(self) -> float:
        """Logarithm of the probability to base 10."""
        return self.log_prob / math.log(10)

    @property
    def perplexity(self) -> float:
        """By token, unknown ones and ends of lines counted: exp(-log p / tokens)."""
        return _perplexity(self.log_prob, self.tokens)

    @property
    def perplexity_without_oov(self) -> float:
        """By token, unknown ones left out of the sum and of the count."""
        return _perplexity(self.known_log_prob, self.tokens - self.oov)

    @property
    def word_perplexity(self) -> float:
        """By word and end of line, whatever the tokens are; NaN where white space does not separate words."""
        return _perplexity(self.log_prob, self.words) if self.has_words else math.nan

    @property
    def bits_per_character(self) -> float:
        """-log2 p / characters."""
        return self._bits(by=self.characters)

    @property
    def spelled_bits_per_character(self) -> float:
        """The same, with 8 bits more for each byte of an unknown token: the cost of spelling it.

        A model with an unknown token has not predicted which word it is; this makes it comparable to one that spells.
        """
        return self._bits(8 * self.oov_bytes, by=self.characters)

    @property
    def bits_per_byte(self) -> float:
        """-log2 p / bytes."""
        return self._bits(by=self.bytes)

    def _bits(self, more: int = 0, *, by: int) -> float:
        return (-self.log_prob / math.log(2) + more) / by if by else math.nan

    def as_dict(self) -> dict[str, float | int]:
        """All metrics, for JSON; those that are not finite become null there. ``pseudo`` is there where it is true."""
        return {
            **({"pseudo": True} if self.pseudo else {}),
            "sentences": self.sentences,
            "tokens": self.tokens,
            "oov": self.oov,
            "words": self.words,
            "characters": self.characters,
            "bytes": self.bytes,
            "log_prob": self.log_prob,
            "perplexity": self.perplexity,
            "perplexity_without_oov": self.perplexity_without_oov,
            "word_perplexity": self.word_perplexity,
            "bits_per_character": self.bits_per_character,
            "spelled_bits_per_character": self.spelled_bits_per_character,
            "bits_per_byte": self.bits_per_byte,
        }

    def __str__(self) -> str:
        by_word = f" and {self.word_perplexity:.2f} by word" if self.has_words else ""
        if self.pseudo:
            found = (
                f"{self.bits_per_character:.4f} pseudo bits per character, pseudo-perplexity {self.perplexity:.2f} by "
                f"token{by_word}, each token predicted from all others ({plural(self.sentences, 'line')}, "
                f"{plural(self.tokens, 'token')})"
            )
        else:
            found = (
                f"{self.bits_per_character:.4f} bits per character, perplexity {self.perplexity:.2f} by token"
                f"{by_word}, ends of lines counted ({plural(self.sentences, 'line')}, {plural(self.tokens, 'token')})"
            )
        if not self.oov:
            return found
        return (
            f"{found}; {plural(self.oov, 'token')} unknown: perplexity {self.perplexity_without_oov:.2f} without them, "
            f"{self.spelled_bits_per_character:.4f} bits per character with them spelled out"
        )


def add_up(scores: Iterable[SentenceScore]) -> TextScore:
    """Returns the metrics of a text from those of its lines, read once."""
    sentences = tokens = oov = words = characters = size = 0
    oov_bytes = 0
    sample = ""
    pseudo = False
    log_prob = known_log_prob = 0.0
    for score in scores:
        sentences += 1
        tokens += score.tokens
        oov += score.oov
        words += score.words
        characters += score.characters
        size += score.bytes
        log_prob += score.log_prob
        known_log_prob += score.known_log_prob
        oov_bytes += score.oov_bytes
        pseudo = pseudo or score.pseudo
        if len(sample) < _SAMPLE:
            sample += score.text[:_SAMPLE] + "\n"
    return TextScore(
        sentences=sentences,
        tokens=tokens,
        oov=oov,
        words=words,
        characters=characters,
        bytes=size,
        log_prob=log_prob,
        known_log_prob=known_log_prob,
        oov_bytes=oov_bytes,
        has_words=find_unspaced(sample, fewest_letters=2) is None,
        pseudo=pseudo,
    )


def _perplexity(log_prob: float, count: int) -> float:
    if count == 0:
        return math.nan
    exponent = -log_prob / count
    return math.exp(exponent) if exponent < 700 else math.inf
