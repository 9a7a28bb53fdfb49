"""The functions and the object of the official ``fasttext`` module, so that a script moves by changing one import.

>>> import wenmai.fasttext as fasttext
>>> model = fasttext.train_supervised("train.txt", epoch=25, lr=1.0)      # doctest: +SKIP
>>> model.predict("Which baking dish is best?", k=2)                      # doctest: +SKIP

Names, arguments, types and the modules ``FastText`` and ``util`` are the official ones. A model file gives the answers
that it gives there, rounding and ties included; a training is wenmai's own of the systems ``fasttext`` and
``fasttext-supervised``. Every :class:`~wenmai.core.errors.WenmaiError` of this package is a ``ValueError`` too.
"""

from wenmai.fasttext.FastText import (
    BOW,
    EOS,
    EOW,
    cbow,
    load_model,
    skipgram,
    supervised,
    tokenize,
    train_supervised,
    train_unsupervised,
)

__all__ = [
    "BOW",
    "EOS",
    "EOW",
    "cbow",
    "load_model",
    "skipgram",
    "supervised",
    "tokenize",
    "train_supervised",
    "train_unsupervised",
]
