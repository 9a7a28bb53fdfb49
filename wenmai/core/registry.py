"""What can be trained, by name. Nothing is imported until a name is used.

A system is a class in ``wenmai.tasks``, or in another package that announces it under the entry point group
``wenmai.systems``. Several names may share a class and differ in settings, such as the four classic forms of word2vec.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from wenmai.core.errors import SettingError, nearest_name

__all__ = ["System", "find_system", "needing_neural", "systems"]


@dataclass(frozen=True, kw_only=True)
class System:
    """One line of ``wenmai systems``.

    Attributes:
        name: What users type.
        target: ``module:Class`` of the task.
        summary: One line for people.
        settings: Settings that the name implies.
    """

    name: str
    target: str
    summary: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def load(self) -> Any:  # noqa: ANN401  the task class; its protocol lives in a higher layer
        """Imports and returns the task class."""
        module, _, name = self.target.partition(":")
        with needing_neural(self.name):
            return getattr(import_module(module), name)


@contextmanager
def needing_neural(what: str) -> Iterator[None]:
    """Tells, where a package of the extra ``neural`` is missing, that ``what`` needs it.

    Raises:
        SettingError: if one is.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in _NEURAL:
            raise
        raise SettingError(f"{what} needs {error.name}, which is not installed; pip install 'wenmai[neural]'") from None


_NEURAL = ("torch", "tokenizers", "sacrebleu")  # what the extra `neural` brings
_WORD2VEC = "wenmai.tasks.vectors:Word2VecTask"
_FASTTEXT = "wenmai.tasks.fasttext:FastTextTask"
_TRANSFORMER = "wenmai.tasks.translation:TransformerTask"
_RECURRENT = {
    "schedule": "constant",
    "warmup": 0,
    "learning_rate": 1e-3,
    "beta2": 0.999,
    "clip": 1.0,
    "label_smoothing": 0.0,
}
_GPT_FORM: dict[str, dict[str, Any]] = {
    "gpt-1": {"norm": "post", "max_length": 512, "attention_dropout": 0.1},
    "gpt-2": {"max_length": 1024, "attention_dropout": 0.1},
    "gpt-3": {"max_length": 2048, "window": 256, "dropout": 0.0},
}
# Layers, hidden size, heads, learning rate; of GPT-3 those sizes that the paper states without contradiction, or the
# nearest to them. The rates of GPT-2 were not published.
_GPT_SIZES = (
    ("gpt-1", 12, 768, 12, 2.5e-4),
    ("gpt-2", 12, 768, 12, 6e-4),
    ("gpt-2-medium", 24, 1024, 16, 6e-4),
    ("gpt-2-large", 36, 1280, 20, 6e-4),
    ("gpt-2-xl", 48, 1600, 25, 6e-4),
    ("gpt-3-125m", 12, 768, 12, 6e-4),
    ("gpt-3-350m", 24, 1024, 16, 3e-4),
    ("gpt-3-760m", 24, 1536, 16, 2.5e-4),
    ("gpt-3-1.3b", 24, 2048, 16, 2e-4),
    ("gpt-3-2.7b", 32, 2560, 32, 1.6e-4),
    ("gpt-3-6.7b", 32, 4096, 32, 1.2e-4),
    ("gpt-3-13b", 40, 5120, 40, 1e-4),
    ("gpt-3-175b", 96, 12288, 96, 6e-5),
)
_LANGUAGE = {"epochs": 10, "schedule": "cosine", "learning_rate": 1e-3, "clip": 1.0}
_PAPER = {"warmup": 4000, "batch_tokens": 25_000}

_BUILT_IN = (
    System(
        name="word2vec",
        target=_WORD2VEC,
        summary="word vectors; by default skip-gram with negative sampling (Mikolov et al. 2013)",
    ),
    System(
        name="word2vec-sgns",
        target=_WORD2VEC,
        summary="word2vec: skip-gram, negative sampling",
        settings={"algorithm": "skipgram", "hierarchical": False},
    ),
    System(
        name="word2vec-sghs",
        target=_WORD2VEC,
        summary="word2vec: skip-gram, hierarchical softmax",
        settings={"algorithm": "skipgram", "negative": 0, "hierarchical": True},
    ),
    System(
        name="word2vec-cbow-ns",
        target=_WORD2VEC,
        summary="word2vec: continuous bag of words, negative sampling",
        settings={"algorithm": "cbow", "hierarchical": False},
    ),
    System(
        name="word2vec-cbow-hs",
        target=_WORD2VEC,
        summary="word2vec: continuous bag of words, hierarchical softmax",
        settings={"algorithm": "cbow", "negative": 0, "hierarchical": True},
    ),
    System(
        name="glove",
        target="wenmai.tasks.cooccurrence:GloveTask",
        summary="word vectors from co-occurrence counts: GloVe (Pennington et al. 2014)",
    ),
    System(
        name="ppmi-svd",
        target="wenmai.tasks.cooccurrence:PpmiTask",
        summary="word vectors from co-occurrence counts: PPMI and truncated SVD (Levy et al. 2015)",
        settings={"window": 5, "weighting": "linear"},
    ),
    System(
        name="fasttext",
        target=_FASTTEXT,
        summary="word vectors with n-grams of characters; by default skip-gram (fastText; Bojanowski et al. 2017)",
    ),
    System(
        name="fasttext-skipgram",
        target=_FASTTEXT,
        summary="fastText word vectors: skip-gram",
        settings={"algorithm": "skipgram"},
    ),
    System(
        name="fasttext-cbow",
        target=_FASTTEXT,
        summary="fastText word vectors: continuous bag of words",
        settings={"algorithm": "cbow"},
    ),
    System(
        name="fasttext-supervised",
        target="wenmai.tasks.classification:FastTextClassifierTask",
        summary="classifier of texts: the mean of words and n-grams (fastText; Joulin et al. 2017)",
    ),
    System(
        name="classifier",
        target="wenmai.tasks.linear:ClassifierTask",
        summary="text classification: softmax or logistic regression, perceptron or least squares",
    ),
    System(
        name="ngram",
        target="wenmai.tasks.ngram:NgramTask",
        summary="language model: n-gram counts, by default 5-grams, modified Kneser-Ney (Chen, Goodman 1999)",
        settings={"min_count": 1},
    ),
    System(
        name="nnlm",
        target="wenmai.tasks.language:NnlmTask",
        summary="language model: a feed-forward network over the last words (Bengio et al. 2003)",
        settings={"kind": "whitespace", "vocab_size": 10_000, "batch_tokens": 2048, **_LANGUAGE},
    ),
    System(
        name="rnnlm",
        target="wenmai.tasks.language:RnnlmTask",
        summary="language model: recurrent layers, by default an LSTM (Mikolov et al. 2010; Zaremba et al. 2014)",
        settings={"kind": "whitespace", "vocab_size": 10_000, "segment_length": 35, "batch_tokens": 700, **_LANGUAGE},
    ),
    System(
        name="gpt",
        target="wenmai.tasks.language:GptTask",
        summary="language model: the decoder-only Transformer (GPT-2; Radford et al. 2019)",
        settings={"kind": "byte-bpe", "vocab_size": 8192, **_LANGUAGE},
    ),
    *(
        System(
            name=name,
            target="wenmai.tasks.language:GptTask",
            summary=f"language model: the sizes of {name.upper()}, {layers} layers of {width}",
            settings={
                "kind": "byte-bpe",
                "vocab_size": 40_478 if name == "gpt-1" else 50_257,
                **_LANGUAGE,
                "optimiser": "adamw",
                "beta2": 0.95,
                "weight_decay": 0.01 if name == "gpt-1" else 0.1,
                "num_layers": layers,
                "hidden_size": width,
                "num_heads": heads,
                "learning_rate": rate,
                **_GPT_FORM[name[:5]],
            },
        )
        for name, layers, width, heads, rate in _GPT_SIZES
    ),
    System(
        name="transformer-xl",
        target="wenmai.tasks.language:TransformerXLTask",
        summary="language model: Transformer-XL, with a memory of earlier segments (Dai et al. 2019)",
        settings={"kind": "whitespace", "vocab_size": 10_000, **_LANGUAGE, "clip": 0.25},
    ),
    System(
        name="seq2seq",
        target="wenmai.tasks.translation:Seq2SeqTask",
        summary="translation: recurrent encoder and decoder with attention (Bahdanau et al. 2015)",
        settings=_RECURRENT,
    ),
    System(
        name="transformer",
        target=_TRANSFORMER,
        summary="translation: the Transformer (Vaswani et al. 2017), 3+3 layers of 256 for small data",
    ),
    System(
        name="transformer-base",
        target=_TRANSFORMER,
        summary="translation: the Transformer of the paper, 6+6 layers of 512",
        settings={"hidden_size": 512, "num_layers": 6, "num_heads": 8, "ffn_size": 2048, **_PAPER},
    ),
    System(
        name="transformer-big",
        target=_TRANSFORMER,
        summary="translation: the big Transformer of the paper, 6+6 layers of 1024",
        settings={
            "hidden_size": 1024,
            "num_layers": 6,
            "num_heads": 16,
            "ffn_size": 4096,
            "dropout": 0.3,
            **_PAPER,
        },
    ),
)


def systems() -> dict[str, System]:
    """Returns every known system by name, the built-in ones first."""
    from importlib.metadata import entry_points

    known = {system.name: system for system in _BUILT_IN}
    for point in entry_points(group="wenmai.systems"):
        known.setdefault(point.name, System(name=point.name, target=point.value, summary=f"from {point.value}"))
    return known


def find_system(name: str) -> System:
    """Returns the system of this name.

    Raises:
        SettingError: if there is none; the message names the nearest.
    """
    for system in _BUILT_IN:  # those of other packages take time to find
        if system.name == name:
            return system
    known = systems()
    if name not in known:
        raise SettingError(f"no system is called {name!r}{nearest_name(name, known)} (`wenmai systems` lists them)")
    return known[name]
