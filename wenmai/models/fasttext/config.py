"""The settings of fastText: word vectors with subwords, or a classifier of texts."""

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from annotated_types import Ge, Le
from typing_extensions import Doc

__all__ = [
    "END_OF_LINE",
    "LABEL_PREFIX",
    "LONGEST_WORD_NGRAM",
    "Config",
    "FastTextClassifierConfig",
    "FastTextConfig",
    "is_hierarchical",
    "used_buckets",
]

END_OF_LINE = "</s>"
LABEL_PREFIX = "__label__"
_MOST_BUCKETS = (1 << 31) - 1
_LONGEST_NGRAM = 1_000
LONGEST_WORD_NGRAM = 64  # a text of n words has nearly n times as many features


@dataclass(frozen=True, kw_only=True, slots=True)
class FastTextConfig:
    """Word vectors with subwords: sizes and objective."""

    kind: Annotated[Literal["fasttext"], Doc("the architecture")] = "fasttext"
    algorithm: Annotated[
        Literal["skipgram", "cbow"],
        Doc("skipgram: a word predicts each word of its window; cbow: all of them predict it"),
    ] = "skipgram"
    vector_size: Annotated[int, Ge(1), Le(10_000), Doc("dimensions of a vector")] = 100
    window: Annotated[int, Ge(0), Doc("most words on each side of the centre")] = 5
    negative: Annotated[int, Ge(0), Doc("noise words per prediction")] = 5
    hierarchical: Annotated[bool, Doc("hierarchical softmax over a Huffman tree instead of noise words")] = False
    noise_exponent: Annotated[
        float, Ge(-10), Le(10), Doc("noise words are drawn by count to this power; 0 is uniform")
    ] = 0.5
    sample: Annotated[float, Ge(0), Doc("words with a larger fraction of the text are subsampled; 0 keeps all")] = 1e-4
    min_ngram: Annotated[int, Ge(0), Le(_LONGEST_NGRAM), Doc("characters in the shortest subword")] = 3
    max_ngram: Annotated[
        int, Ge(0), Le(_LONGEST_NGRAM), Doc("characters in the longest subword; 0 has no subwords")
    ] = 6
    buckets: Annotated[int, Ge(0), Le(_MOST_BUCKETS), Doc("rows that all subwords share by hashing")] = 2_000_000

    @property
    def word_ngrams(self) -> int:
        """1: the n-grams of words are features of texts only."""
        return 1


@dataclass(frozen=True, kw_only=True, slots=True)
class FastTextClassifierConfig:
    """A linear classifier of texts over the mean of their features."""

    kind: Annotated[Literal["fasttext-supervised"], Doc("the architecture")] = "fasttext-supervised"
    loss: Annotated[
        Literal["softmax", "hs", "ns", "ova"],
        Doc("softmax; hs: hierarchical softmax; ns: negative sampling; ova: a binary classifier for every label"),
    ] = "softmax"
    vector_size: Annotated[int, Ge(1), Le(10_000), Doc("dimensions of a vector")] = 100
    negative: Annotated[int, Ge(0), Doc("noise labels per example, for loss=ns")] = 5
    word_ngrams: Annotated[
        int, Ge(1), Le(LONGEST_WORD_NGRAM), Doc("words in the longest word n-gram; 1 has single words only")
    ] = 1
    min_ngram: Annotated[int, Ge(0), Le(_LONGEST_NGRAM), Doc("characters in the shortest subword")] = 0
    max_ngram: Annotated[
        int, Ge(0), Le(_LONGEST_NGRAM), Doc("characters in the longest subword; 0 has no subwords")
    ] = 0
    buckets: Annotated[int, Ge(0), Le(_MOST_BUCKETS), Doc("rows that word n-grams and subwords share by hashing")] = (
        2_000_000
    )


Config: TypeAlias = FastTextConfig | FastTextClassifierConfig


def used_buckets(config: Config) -> int:
    """The buckets that a model has rows for: none if it has no n-grams."""
    return config.buckets if config.max_ngram or config.word_ngrams > 1 else 0


def is_hierarchical(config: Config) -> bool:
    """Whether output rows belong to the inner nodes of a tree."""
    return config.hierarchical if isinstance(config, FastTextConfig) else config.loss == "hs"
