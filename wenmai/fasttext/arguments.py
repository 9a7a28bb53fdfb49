"""The arguments of the official functions: names, defaults, and the settings of wenmai that they stand for."""

import os
import re
from collections.abc import Mapping, Sequence
from enum import Enum
from itertools import chain
from typing import Any

from wenmai.fasttext.errors import FastTextError
from wenmai.models.fasttext import FastText, FastTextClassifierConfig

__all__ = [
    "SUPERVISED",
    "UNSUPERVISED",
    "loss_name",
    "model_name",
    "of_model",
    "read_args",
    "settings_of_supervised",
    "settings_of_unsupervised",
    "without_effect",
]


class model_name(Enum):
    """Kinds of models, numbered as in model files."""

    cbow = 1
    skipgram = 2
    supervised = 3


class loss_name(Enum):
    """Losses, numbered as in model files."""

    hs = 1
    ns = 2
    softmax = 3
    ova = 4


UNSUPERVISED: dict[str, Any] = {
    "model": "skipgram",
    "lr": 0.05,
    "dim": 100,
    "ws": 5,
    "epoch": 5,
    "minCount": 5,
    "minCountLabel": 0,
    "minn": 3,
    "maxn": 6,
    "neg": 5,
    "wordNgrams": 1,
    "loss": "ns",
    "bucket": 2_000_000,
    "thread": max(1, (os.cpu_count() or 2) - 1),
    "lrUpdateRate": 100,
    "t": 1e-4,
    "label": "__label__",
    "verbose": 2,
    "pretrainedVectors": "",
    "seed": 0,
    "autotuneValidationFile": "",
    "autotuneMetric": "f1",
    "autotunePredictions": 1,
    "autotuneDuration": 300,
    "autotuneModelSize": "",
}
SUPERVISED = UNSUPERVISED | {
    "lr": 0.1,
    "minCount": 1,
    "minn": 0,
    "maxn": 0,
    "loss": "softmax",
    "model": "supervised",
}
_OTHER_NAMES = {
    "min_count": "minCount",
    "word_ngrams": "wordNgrams",
    "lr_update_rate": "lrUpdateRate",
    "label_prefix": "label",
    "pretrained_vectors": "pretrainedVectors",
}
_SHARED = {
    "lr": "train.learning_rate",
    "epoch": "train.epochs",
    "thread": "train.threads",
    "seed": "train.seed",
    "dim": "model.vector_size",
    "neg": "model.negative",
    "minn": "model.min_ngram",
    "maxn": "model.max_ngram",
    "bucket": "model.buckets",
    "minCount": "vocab.min_count",
}
_OF_SUPERVISED = _SHARED | {
    "minCountLabel": "vocab.min_label_count",
    "pretrainedVectors": "vocab.pretrained",
    "wordNgrams": "model.word_ngrams",
    "loss": "model.loss",
    "label": "data.label_prefix",
}
_OF_UNSUPERVISED = _SHARED | {"ws": "model.window", "t": "model.sample", "model": "model.algorithm"}
_ARGUMENT_OF = {path.partition(".")[2]: name for name, path in (_OF_SUPERVISED | _OF_UNSUPERVISED).items()}
_ARGUMENT_OF |= {"seconds": "autotuneDuration", "size_bytes": "autotuneModelSize"}
_TUNING = ("autotuneMetric", "autotunePredictions", "autotuneDuration", "autotuneModelSize")
_ATTRIBUTES = {  # of a model, and what a model file calls them
    "dim": "vector_size",
    "ws": "window",
    "epoch": "epochs",
    "minCount": "min_count",
    "neg": "negative",
    "wordNgrams": "word_ngrams",
    "bucket": "buckets",
    "minn": "min_ngram",
    "maxn": "max_ngram",
    "lrUpdateRate": "rate_updates",
    "t": "sample",
}


def read_args(
    arg_list: Sequence[Any], arg_dict: Mapping[str, Any], arg_names: Sequence[str], default_values: Mapping[str, Any]
) -> tuple[dict[str, Any], set[str]]:
    """Returns the arguments of a call by their names, completed by defaults, and the names of those that were given.

    Raises:
        TypeError: for an argument that does not exist, or comes twice.
    """
    found: dict[str, Any] = {}
    for given, value in chain(zip(arg_names, arg_list, strict=False), arg_dict.items()):
        name = _OTHER_NAMES.get(given, given)
        if name not in arg_names:
            raise TypeError(f"unexpected keyword argument '{name}'")
        if name in found:
            raise TypeError(f"multiple values for argument '{name}'")
        found[name] = value
    return {**default_values, **found}, set(found)


def settings_of_supervised(args: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of ``fasttext-supervised`` for these arguments.

    Raises:
        FastTextError: for an unknown loss.
    """
    if args["loss"] not in loss_name.__members__:
        raise FastTextError("Unrecognized loss name")
    settings = {_OF_SUPERVISED[name]: value for name, value in args.items() if name in _OF_SUPERVISED}
    for setting, least in (("vocab.min_count", 1), ("vocab.min_label_count", 1), ("model.word_ngrams", 1)):
        if setting in settings:
            settings[setting] = max(least, settings[setting])
    if "vocab.pretrained" in settings:
        settings["vocab.pretrained"] = settings["vocab.pretrained"] or None
    if "wordNgrams" in args and "maxn" in args and args["wordNgrams"] <= 1 and args["maxn"] == 0:
        settings["model.buckets"] = 0
    return settings | {"data.unlabelled": "skip"}


def settings_of_unsupervised(args: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of ``fasttext`` for these arguments.

    Raises:
        FastTextError: for an unknown model, or a loss or vectors that word vectors cannot be trained with.
    """
    if args["model"] not in ("cbow", "skipgram"):
        raise FastTextError("Unrecognized model name")
    if args["loss"] not in loss_name.__members__:
        raise FastTextError("Unrecognized loss name")
    if args["loss"] not in ("ns", "hs"):
        raise FastTextError(f"loss={args['loss']!r}: word vectors are trained with ns or hs")
    if args["pretrainedVectors"]:
        raise FastTextError("pretrainedVectors: word vectors cannot begin with others; classifiers can")
    settings = {setting: args[name] for name, setting in _OF_UNSUPERVISED.items()}
    settings["vocab.min_count"] = max(1, settings["vocab.min_count"])
    if args["maxn"] == 0:
        settings["model.buckets"] = 0
    return settings | {"model.hierarchical": args["loss"] == "hs"}


def in_arguments(message: str) -> str:
    """Returns a message on settings with the names of the arguments that they were made from."""
    message = message.replace("hierarchical=true", "loss=hs")
    return re.sub(r"\b(\w+(?==)|\w+_\w+)", lambda name: _ARGUMENT_OF.get(name[0], name[0]), message)


def without_effect(args: Mapping[str, Any], given: set[str]) -> list[str]:
    """Returns what was given and changes nothing, a sentence each."""
    silent = {"lrUpdateRate": "the learning rate falls with every block of 10,000 words"}
    if args["model"] == "supervised":
        silent |= dict.fromkeys(("ws", "t"), "it is for word vectors")
    else:
        silent |= dict.fromkeys(("wordNgrams", "minCountLabel"), "it is for classifiers")
    if not args["autotuneValidationFile"]:
        silent |= dict.fromkeys(_TUNING, "there is no autotuneValidationFile")
    changed = [name for name in silent if name in given and args[name] != UNSUPERVISED[name]]
    return [f"{name} has no effect: {silent[name]}" for name in changed]


def of_model(model: FastText) -> dict[str, Any]:
    """Returns the arguments that a model was trained with, by their official names, as far as it knows them."""
    known = dict(model.arguments or {})
    config = model.config
    found = {name: known.get(key, getattr(config, key, None)) for name, key in _ATTRIBUTES.items()}
    loss = config.loss if isinstance(config, FastTextClassifierConfig) else "hs" if config.hierarchical else "ns"
    found |= {"loss": loss_name[loss], "model": model_name[model.kind], "label": model.label_prefix or "__label__"}
    return {name: value for name, value in found.items() if value is not None}
