"""The module ``fasttext.FastText``: what it is called there, it is called here."""

from pathlib import Path
from typing import Any, NoReturn

from wenmai.fasttext.arguments import SUPERVISED, loss_name, model_name, read_args
from wenmai.fasttext.arguments import UNSUPERVISED as unsupervised_default
from wenmai.fasttext.lines import tokens_of
from wenmai.fasttext.meter import Meter as _Meter
from wenmai.fasttext.model import FastTextModel as _FastText

__all__ = [
    "BOW",
    "EOS",
    "EOW",
    "_FastText",
    "_Meter",
    "cbow",
    "load_model",
    "loss_name",
    "model_name",
    "read_args",
    "skipgram",
    "supervised",
    "tokenize",
    "train_supervised",
    "train_unsupervised",
    "unsupervised_default",
]

EOS, BOW, EOW = "</s>", "<", ">"
_OF_SUPERVISED = ("input", *(name for name in SUPERVISED if name != "model"))
_OF_UNSUPERVISED = ("input", *(name for name in unsupervised_default if not name.startswith("autotune")))


def load_model(path: str | Path) -> _FastText:
    """Reads a ``.bin`` or ``.ftz`` file.

    Raises:
        FastTextError: if it cannot be read.
    """
    return _FastText(model_path=path)


def tokenize(text: str) -> list[str]:
    """Returns what white space separates; a line feed is the token ``</s>``."""
    return tokens_of(text)


def train_supervised(*kargs: Any, **kwargs: Any) -> _FastText:  # noqa: ANN401  the official signature
    """Trains a classifier.

    Arguments, in this order or by name: ``input`` (a file with labels such as ``__label__x`` in each line), ``lr``
    (0.1), ``dim`` (100), ``ws``, ``epoch`` (5), ``minCount`` (1), ``minCountLabel`` (0), ``minn`` (0), ``maxn`` (0),
    ``neg`` (5), ``wordNgrams`` (1), ``loss`` (softmax), ``bucket`` (2000000), ``thread``, ``lrUpdateRate``, ``t``,
    ``label`` (__label__), ``verbose`` (2), ``pretrainedVectors``, ``seed`` (0), ``autotuneValidationFile``,
    ``autotuneMetric`` (f1), ``autotunePredictions`` (1), ``autotuneDuration`` (300), ``autotuneModelSize``.

    Raises:
        TypeError: for an argument that does not exist.
        FastTextError: if the text cannot be read, or an argument makes no sense.
    """
    from wenmai.fasttext.training import classifier

    return classifier(*read_args(kargs, kwargs, _OF_SUPERVISED, SUPERVISED))


def train_unsupervised(*kargs: Any, **kwargs: Any) -> _FastText:  # noqa: ANN401  the official signature
    """Trains word vectors.

    Arguments, in this order or by name: ``input`` (a file), ``model`` (skipgram or cbow), ``lr`` (0.05), ``dim`` (100),
    ``ws`` (5), ``epoch`` (5), ``minCount`` (5), ``minCountLabel``, ``minn`` (3), ``maxn`` (6), ``neg`` (5),
    ``wordNgrams``, ``loss`` (ns or hs), ``bucket`` (2000000), ``thread``, ``lrUpdateRate``, ``t`` (0.0001), ``label``
    (__label__; such words are left out), ``verbose`` (2), ``pretrainedVectors`` (refused), ``seed`` (0).

    Raises:
        TypeError: for an argument that does not exist.
        FastTextError: if the text cannot be read, or an argument makes no sense.
    """
    from wenmai.fasttext.training import word_vectors

    return word_vectors(*read_args(kargs, kwargs, _OF_UNSUPERVISED, unsupervised_default))


def cbow(*kargs: Any, **kwargs: Any) -> NoReturn:  # noqa: ANN401
    """Not supported any more, as in the official module."""
    raise _replaced("cbow", "train_unsupervised with model='cbow'")


def skipgram(*kargs: Any, **kwargs: Any) -> NoReturn:  # noqa: ANN401
    """Not supported any more, as in the official module."""
    raise _replaced("skipgram", "train_unsupervised with model='skipgram'")


def supervised(*kargs: Any, **kwargs: Any) -> NoReturn:  # noqa: ANN401
    """Not supported any more, as in the official module."""
    raise _replaced("supervised", "train_supervised")


def _replaced(name: str, other: str) -> Exception:
    return Exception(f"`{name}` is not supported any more. Please use {other}.")
