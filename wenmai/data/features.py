"""From tokens to features: bags of n-grams, hashed or with a vocabulary, and averages of word vectors."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Le
from typing_extensions import Doc

from wenmai.config.recipe import Located
from wenmai.core.errors import FormatError, SettingError, VocabError
from wenmai.core.folder import read_json_object, writing_json
from wenmai.data.sources import absolute_name
from wenmai.text.normalise import normaliser
from wenmai.text.segment import LINE_END, segmenter
from wenmai.text.settings import TextConfig
from wenmai.vectors.pooling import SIF, TokenVectors, pooled

__all__ = ["NGRAMS", "FeaturesConfig", "NgramFeatures", "VectorFeatures", "make_features", "segmented"]

Tokens = Sequence[str]
Tensors = Mapping[str, npt.NDArray[Any]]

NGRAMS = "ngrams"
VOCABULARY = "vocabulary.json"
_TEXTS_AT_ONCE = 1000
_MOST_WORDS, _MOST_CHARACTERS = 64, 1000  # of an n-gram; a text has about as many features as these are long


@dataclass(frozen=True, kw_only=True, slots=True)
class FeaturesConfig:
    """The features of a text for a linear classifier."""

    features: Annotated[
        str,
        Doc("ngrams: bags of n-grams; or the folder of a finished run: the average of its word vectors"),
        Located(lambda name: name if name == NGRAMS else absolute_name(name)),
    ] = NGRAMS
    word_ngrams: Annotated[int, Ge(0), Le(_MOST_WORDS), Doc("words of the longest n-gram; 0: none")] = 2
    min_ngram: Annotated[
        int, Ge(0), Le(_MOST_CHARACTERS), Doc("the shortest n-grams of characters inside words, with < and > around")
    ] = 0
    max_ngram: Annotated[
        int, Ge(0), Le(_MOST_CHARACTERS), Doc("the longest n-grams of characters inside words; 0: none")
    ] = 0
    buckets: Annotated[
        int, Ge(0), Doc("features that n-grams share by hashing; 0: each has its own, in a vocabulary")
    ] = 1 << 18
    min_texts: Annotated[int, Ge(1), Doc("n-grams in fewer texts than this are left out; with buckets=0")] = 1
    weighting: Annotated[
        Literal["counts", "binary", "tfidf", "mean", "sif"],
        Doc("of n-grams: counts, binary or tfidf; of word vectors in an average: mean, tfidf or sif"),
    ] = "tfidf"

    def __post_init__(self) -> None:
        if self.features != NGRAMS:
            given = [item.name for item in fields(self)[1:-1] if getattr(self, item.name) != item.default]
            if given:
                raise SettingError(
                    f"{given[0]} has no effect on averages of word vectors; it belongs to features=ngrams"
                )
            if self.weighting in ("counts", "binary"):
                raise SettingError(f"weighting={self.weighting} is for n-grams; word vectors have mean, tfidf or sif")
            return
        if self.weighting in ("mean", "sif"):
            raise SettingError(f"weighting={self.weighting} is for word vectors; n-grams have counts, binary or tfidf")
        if self.min_texts > 1 and self.buckets:
            raise SettingError("min_texts needs a vocabulary; set buckets=0")
        if bool(self.min_ngram) != bool(self.max_ngram) or self.min_ngram > self.max_ngram:
            raise SettingError(
                f"min_ngram={self.min_ngram} and max_ngram={self.max_ngram}: expected both 0, or both at least 1 and "
                "in order"
            )
        if not (self.word_ngrams or self.max_ngram):
            raise SettingError("word_ngrams=0 and max_ngram=0 leave no features; set one of them")


class NgramFeatures:
    """Bags of n-grams of words, and of characters inside words; rows have length 1.

    Args:
        config: Which n-grams, how they are counted, and how they get a column.
    """

    def __init__(self, config: FeaturesConfig) -> None:
        self.config = config
        self._vectoriser: Any = None
        self._weights: Any = None

    @property
    def size(self) -> int:
        """The number of features."""
        return int(self._weights.n_features_in_)

    def fit_transform(self, texts: Sequence[Tokens]) -> Any:  # noqa: ANN401  a sparse matrix
        """Learns vocabulary and weights from texts and returns their features, CSR float64 [N, D].

        Raises:
            VocabError: if there is no n-gram to count.
        """
        from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

        if self.config.buckets:
            self._vectoriser = self._hashing()
        else:
            self._vectoriser = CountVectorizer(
                analyzer=self._ngrams, binary=self._binary, min_df=self.config.min_texts, dtype=np.float64
            )
        try:
            counts = self._vectoriser.fit_transform(texts)
        except ValueError as error:  # scikit-learn's, of an empty vocabulary
            raise VocabError(f"no n-gram is in {self.config.min_texts} texts or more ({error})") from None
        if not counts.nnz:
            raise VocabError("the texts have no words; nothing can be learnt from them")
        self._weights = TfidfTransformer(use_idf=self.config.weighting == "tfidf")
        return self._weights.fit_transform(counts)

    def transform(self, texts: Sequence[Tokens]) -> Any:  # noqa: ANN401
        """Returns the features of texts, CSR float64 [N, D]."""
        return self._weights.transform(self._vectoriser.transform(texts))

    def save(self, folder: Path) -> dict[str, npt.NDArray[Any]]:
        """Writes the vocabulary, if there is one, and returns what else to store."""
        if not self.config.buckets:
            writing_json(folder / VOCABULARY, {"version": 1, "tokens": list(self._vectoriser.get_feature_names_out())})
        return {"features.idf": self._weights.idf_} if self.config.weighting == "tfidf" else {}

    @classmethod
    def load(cls, config: FeaturesConfig, folder: Path, tensors: Tensors) -> "NgramFeatures":
        """Restores what :meth:`save` wrote and returned.

        Raises:
            FormatError: if the files do not fit each other.
        """
        from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

        features = cls(config)
        if config.buckets:
            features._vectoriser, size = features._hashing(), config.buckets
        else:
            tokens = read_words(folder / VOCABULARY)
            features._vectoriser = CountVectorizer(
                analyzer=features._ngrams, binary=features._binary, dtype=np.float64, vocabulary=tokens
            )
            size = len(tokens)
        weighted = config.weighting == "tfidf"
        features._weights = TfidfTransformer(use_idf=weighted)
        idf = tensors.get("features.idf") if weighted else np.ones(size)
        if idf is None or idf.shape != (size,):
            raise FormatError(f"{folder}: the weights of the features do not fit their number, {size}")
        if weighted:
            features._weights.idf_ = idf.astype(np.float64)
        features._weights.n_features_in_ = size
        return features

    @property
    def _binary(self) -> bool:
        return self.config.weighting == "binary"

    def _hashing(self) -> Any:  # noqa: ANN401  scikit-learn's
        from sklearn.feature_extraction.text import HashingVectorizer

        return HashingVectorizer(
            analyzer=self._ngrams,
            n_features=self.config.buckets,
            alternate_sign=False,
            norm=None,
            binary=self._binary,
            dtype=np.float64,
        )

    def _ngrams(self, tokens: Tokens) -> Iterator[str]:
        """Yields the n-grams of a text; of words with spaces between, of characters after a tab."""
        for order in range(1, self.config.word_ngrams + 1):
            if order == 1:
                yield from tokens
            else:
                yield from map(" ".join, zip(*(tokens[start:] for start in range(order)), strict=False))
        if self.config.max_ngram:
            for token in tokens:
                word = f"<{token}>"
                for order in range(self.config.min_ngram, min(self.config.max_ngram, len(word)) + 1):
                    for start in range(len(word) - order + 1):
                        yield "\t" + word[start : start + order]


class VectorFeatures:
    """Weighted averages of the vectors of a text's words, each dimension scaled to mean 0 and deviation 1.

    ``tfidf`` weighs a word by its inverse document frequency, ``sif`` by a / (a + p) with its relative frequency p;
    then the first principal component of the training texts is taken out of every average (Arora, Liang and Ma
    2017, "A Simple but Tough-to-Beat Baseline for Sentence Embeddings", algorithm 1).

    Args:
        config: The weighting.
        encoder: Gives words their vectors.
    """

    def __init__(self, config: FeaturesConfig, encoder: TokenVectors) -> None:
        self.config = config
        self._encoder = encoder
        self._words: dict[str, float] = {}
        self._unseen = 1.0
        self._scaling: dict[str, npt.NDArray[np.float32]] = {}

    @property
    def size(self) -> int:
        """The number of features."""
        return self._encoder.vector_size

    def fit_transform(self, texts: Sequence[Tokens]) -> npt.NDArray[np.float64]:
        """Learns weights and scaling from texts and returns their features, float64 [N, d].

        Raises:
            VocabError: if no word of the texts has a vector.
        """
        if self.config.weighting == "tfidf":
            counts = Counter(word for text in texts for word in set(text))
            self._words = {word: float(np.log((1 + len(texts)) / (1 + n)) + 1) for word, n in counts.items()}
            self._unseen = float(np.log(1 + len(texts)) + 1)
        elif self.config.weighting == "sif":
            counts = Counter(word for text in texts for word in text)
            total = counts.total()
            self._words = {word: SIF / (SIF + n / total) for word, n in counts.items()}
        averages = self._averages(texts)
        if not averages.any():
            raise VocabError("no word of the texts has a vector; is the segmentation that of the vectors' text?")
        component = np.zeros(self.size, np.float32)
        if self.config.weighting == "sif":
            component = np.linalg.svd(averages, full_matrices=False)[2][0]
            averages = averages - np.outer(averages @ component, component)
        deviation = averages.std(axis=0)
        self._scaling = {
            "component": component,
            "mean": averages.mean(axis=0),
            "deviation": np.where(deviation > 0, deviation, 1).astype(np.float32),
        }
        return self._scaled(averages)

    def transform(self, texts: Sequence[Tokens]) -> npt.NDArray[np.float64]:
        """Returns the features of texts, float64 [N, d]."""
        averages = self._averages(texts)
        component = self._scaling["component"]
        return self._scaled(averages - np.outer(averages @ component, component))

    def save(self, folder: Path) -> dict[str, npt.NDArray[Any]]:
        """Writes the words that have weights, and returns what else to store."""
        writing_json(folder / VOCABULARY, {"version": 1, "tokens": list(self._words)})
        weights = np.array([*self._words.values(), self._unseen])
        return {"features.weights": weights} | {f"features.{name}": value for name, value in self._scaling.items()}

    @classmethod
    def load(cls, config: FeaturesConfig, encoder: TokenVectors, folder: Path, tensors: Tensors) -> "VectorFeatures":
        """Restores what :meth:`save` wrote and returned.

        Raises:
            FormatError: if the files do not fit each other.
        """
        features = cls(config, encoder)
        words = read_words(folder / VOCABULARY)
        expected = {"weights": (len(words) + 1,)} | dict.fromkeys(("component", "mean", "deviation"), (features.size,))
        for name, shape in expected.items():
            found = tensors.get(f"features.{name}")
            if found is None or found.shape != shape:
                raise FormatError(f"{folder}: the tensor features.{name} does not have the shape {shape}")
            if name != "weights":
                features._scaling[name] = found.astype(np.float32)
        weights = tensors["features.weights"].tolist()
        features._words, features._unseen = dict(zip(words, weights[:-1], strict=True)), weights[-1]
        return features

    def _averages(self, texts: Sequence[Tokens]) -> npt.NDArray[np.float32]:
        weight = None if self.config.weighting == "mean" else (lambda word: self._words.get(word, self._unseen))
        return pooled(self._encoder, texts, weight)

    def _scaled(self, averages: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        return ((averages - self._scaling["mean"]) / self._scaling["deviation"]).astype(np.float64)


def segmented(texts: Sequence[str], config: TextConfig) -> list[list[str]]:
    """Normalises and tokenizes texts, many at a time; a line end inside a text counts as a space."""
    normalise, cut = normaliser(config), segmenter(config.segment)
    found: list[list[str]] = []
    for start in range(0, len(texts), _TEXTS_AT_ONCE):
        lines = [" ".join(text.replace("\0", " ").splitlines()) for text in texts[start : start + _TEXTS_AT_ONCE]]
        tokens: list[str] = []
        for token in cut.tokens(normalise("\n".join(lines) + "\n")):
            if token == LINE_END:
                found.append(tokens)
                tokens = []
            else:
                tokens.append(token)
    return found


def make_features(config: FeaturesConfig, encoder: TokenVectors | None) -> NgramFeatures | VectorFeatures:
    """Returns untrained features; ``encoder`` is that of the run that ``config.features`` names."""
    return NgramFeatures(config) if encoder is None else VectorFeatures(config, encoder)


def read_words(path: Path) -> list[str]:
    """Reads a file of words.

    Raises:
        FormatError: if it is missing or damaged.
    """
    content = read_json_object(path)
    try:
        tokens = content["tokens"]
        if content["version"] != 1 or not isinstance(tokens, list) or not all(type(token) is str for token in tokens):
            raise ValueError("it has no list of words")
        if len(set(tokens)) != len(tokens):
            raise ValueError("a word occurs twice")
    except (ValueError, KeyError) as error:
        raise FormatError(f"{path}: is not a vocabulary of a classifier ({error})") from None
    return tokens
