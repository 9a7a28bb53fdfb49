"""What the encoders of ``transformers`` are called there: BERT and its relatives with the same equations.

| of ours | BERT, ERNIE | RoBERTa | ELECTRA | DistilBERT |
|---|---|---|---|---|
| ``embedding`` | ``embeddings.word_embeddings`` | as BERT | as BERT | as BERT |
| ``positions`` | ``embeddings.position_embeddings`` | from the id of padding + 1 on | as BERT | as BERT |
| ``segments`` | ``embeddings.token_type_embeddings`` | as BERT | as BERT | – |
| ``task_types`` | ERNIE: ``embeddings.task_type_embeddings`` | – | – | – |
| ``projection`` | – | – | ``embeddings_project`` | – |
| ``pooler`` | ``pooler.dense`` | as BERT, or ``classifier.dense`` | ``classifier.dense`` | ``pre_classifier`` |
| its function | tanh | tanh | gelu | relu |
| head ``mlm`` | ``cls.predictions`` | ``lm_head`` | ``generator_*`` | ``vocab_*`` |
| head ``pair`` | ``cls.seq_relationship`` | – | – | – |
| head ``replaced`` | – | – | ``discriminator_predictions`` | – |
| ``question-answering`` | ``qa_outputs`` | as BERT | as BERT | as BERT |
| other heads | ``classifier`` | the same, or ``classifier.out_proj`` | as RoBERTa | as BERT |

Queries, keys and values are three matrices there, one here. Source: ``transformers`` 5.23.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wenmai.models.settings import BertConfig
    from wenmai.nn.names import HeadName

__all__ = ["FORMS", "POOLED", "SUFFIXES", "Form", "Pooler", "unknown_setting"]

POOLED: "tuple[HeadName, ...]" = ("pair", "classification", "multiple-choice")
"""Heads that take the vector of the whole text."""

SUFFIXES: "Mapping[HeadName, str]" = {
    "classification": "ForSequenceClassification",
    "token-classification": "ForTokenClassification",
    "question-answering": "ForQuestionAnswering",
    "multiple-choice": "ForMultipleChoice",
}
"""Head of a task to the end of the name of its class."""


_KNOWN = {
    *("hidden_size", "num_layers", "num_heads", "ffn_size", "embedding_size", "max_length", "segments", "task_types"),
    *("dropout", "attention_dropout", "norm", "epsilon", "activation", "pooler", "heads", "labels", "tied"),
}


def unknown_setting(
    config: "BertConfig", known: Collection[str] = (), *, norms: Collection[str] = ("post", "pre")
) -> str | None:
    """Returns a chosen setting that an export of encoders knows nothing of, as ``name=value``; None: there is none.

    What exports write has the equations of BERT, whatever settings a model may get besides.

    Args:
        config: Settings of a BERT.
        known: What an export knows beyond them.
        norms: Places of layer norms that it knows.
    """
    if config.norm not in norms:
        return f"norm={config.norm}"
    for one in fields(config):
        value = getattr(config, one.name)
        if one.name not in _KNOWN and one.name not in known and value != one.default:
            return f"{one.name}={value}"
    return None


@dataclass(frozen=True, slots=True)
class Pooler:
    """Where a pooler is, and its activation."""

    name: str
    activation: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """One family.

    Attributes:
        types: What ``model_type`` may be, the one that is written first.
        title: What names of classes begin with.
        prefix: Of the encoder's tensors in a class with a head.
        sizes: Our setting to its key and default; ``segments`` and ``embedding_size`` where there are such.
        names: Our module or parameter to theirs, outside of layers and heads.
        layers: What the names of layer ``i`` begin with, with a brace for it.
        in_layers: Our module in a layer to theirs, which follow each other in ours.
        heads: Head to our modules and parameters in it, and theirs.
        pooler: The pooler, if there is one beside all heads.
        poolers: Where it belongs to a head.
        rates: Our rate of dropout to its key.
        activation: The key of the activation.
        epsilon: The key of the epsilon of norms; None: always 1e-12.
        offset: Whether positions begin behind the id of padding.
        free_heads: Whether the head ``mlm`` has the activation of the layers; if not, gelu.
        further_names: Names of settings that are read, too, and the key that each stands for.
        doubled: Whether two separators are between two texts, which are of one segment.
    """

    types: tuple[str, ...]
    title: str
    prefix: str
    sizes: Mapping[str, tuple[str, int]]
    names: Mapping[str, str]
    layers: str
    in_layers: Mapping[str, tuple[str, ...]]
    heads: "Mapping[HeadName, Mapping[str, str]]"
    pooler: Pooler | None = None
    poolers: "Mapping[HeadName, Pooler]" = field(default_factory=dict)
    rates: Mapping[str, str]
    activation: str = "hidden_act"
    epsilon: str | None = "layer_norm_eps"
    offset: bool = False
    free_heads: bool = True
    further_names: Mapping[str, str] = field(default_factory=dict)
    doubled: bool = False

    def translated(self, name: str, pooler: Pooler | None) -> tuple[str, ...]:
        """Returns their parameters, in order, that are one of ours.

        Args:
            name: Of our parameter.
            pooler: Where the pooler is, if there is one.
        """
        whole, _, kind = name.rpartition(".")
        if match := _LAYER.fullmatch(whole):
            return tuple(f"{self.layers.format(match[1])}{theirs}.{kind}" for theirs in self.in_layers[match[2]])
        if match := _HEAD.fullmatch(name):
            found = self.heads[match[1]]  # type: ignore[index]
            inside, _, kind = match[2].rpartition(".")
            return (found[match[2]] if match[2] in found else f"{found[inside]}.{kind}",)
        if whole == "pooler":
            assert pooler is not None
            return (f"{pooler.name}.{kind}",)
        return (self.names[name] if name in self.names else f"{self.names[whole]}.{kind}",)


_LAYER = re.compile(r"encoder\.layers\.(\d+)\.(.+)")
_HEAD = re.compile(r"heads\.([^.]+)\.(.+)")

_SIZES = {
    "vocab_size": ("vocab_size", 30_522),
    "hidden_size": ("hidden_size", 768),
    "num_layers": ("num_hidden_layers", 12),
    "num_heads": ("num_attention_heads", 12),
    "ffn_size": ("intermediate_size", 3072),
    "max_length": ("max_position_embeddings", 512),
    "segments": ("type_vocab_size", 2),
}
_NAMES = {
    "embedding.weight": "embeddings.word_embeddings.weight",
    "positions.weight": "embeddings.position_embeddings.weight",
    "segments.weight": "embeddings.token_type_embeddings.weight",
    "embeddings.norm": "embeddings.LayerNorm",
}
_IN_LAYERS = {
    "attention.qkv": ("attention.self.query", "attention.self.key", "attention.self.value"),
    "attention.output": ("attention.output.dense",),
    "attention_residual.norm": ("attention.output.LayerNorm",),
    "ffn.inner": ("intermediate.dense",),
    "ffn.outer": ("output.dense",),
    "ffn_residual.norm": ("output.LayerNorm",),
}
_RATES = {"dropout": "hidden_dropout_prob", "attention_dropout": "attention_probs_dropout_prob"}
_TASKS: "dict[HeadName, dict[str, str]]" = {
    "token-classification": {"weight": "classifier.weight", "bias": "classifier.bias"},
    "question-answering": {"weight": "qa_outputs.weight", "bias": "qa_outputs.bias"},
    "multiple-choice": {"weight": "classifier.weight", "bias": "classifier.bias"},
}
_CLASSIFIER = {"weight": "classifier.weight", "bias": "classifier.bias"}
_OUT = {"weight": "classifier.out_proj.weight", "bias": "classifier.out_proj.bias"}


def _bert(types: tuple[str, ...], title: str, prefix: str, names: Mapping[str, str]) -> Form:
    return Form(
        types=types,
        title=title,
        prefix=prefix,
        sizes=_SIZES,
        names={**_NAMES, **names},
        layers="encoder.layer.{}.",
        in_layers=_IN_LAYERS,
        heads={
            "mlm": {
                "dense": "cls.predictions.transform.dense",
                "norm": "cls.predictions.transform.LayerNorm",
                "output.bias": "cls.predictions.bias",
                "output.matrix": "cls.predictions.decoder.weight",
            },
            "pair": {"weight": "cls.seq_relationship.weight", "bias": "cls.seq_relationship.bias"},
            "classification": _CLASSIFIER,
            **_TASKS,
        },
        pooler=Pooler("pooler.dense", "tanh"),
        rates=_RATES,
    )


_ELECTRA_GELU = Pooler("sequence_summary.summary", "gelu")
_PRE_CLASSIFIER = Pooler("pre_classifier", "relu")

FORMS = {
    "bert": _bert(("bert",), "Bert", "bert.", {}),
    "ernie": _bert(("ernie",), "Ernie", "ernie.", {"task_types.weight": "embeddings.task_type_embeddings.weight"}),
    "roberta": Form(
        types=("roberta", "xlm-roberta"),
        title="Roberta",
        prefix="roberta.",
        sizes={**_SIZES, "vocab_size": ("vocab_size", 50_265)},
        names=_NAMES,
        layers="encoder.layer.{}.",
        in_layers=_IN_LAYERS,
        heads={
            "mlm": {
                "dense": "lm_head.dense",
                "norm": "lm_head.layer_norm",
                "output.bias": "lm_head.bias",
                "output.matrix": "lm_head.decoder.weight",
            },
            "classification": _OUT,
            **_TASKS,
        },
        pooler=Pooler("pooler.dense", "tanh"),
        poolers={"classification": Pooler("classifier.dense", "tanh")},
        rates=_RATES,
        offset=True,
        free_heads=False,
        doubled=True,
    ),
    "electra": Form(
        types=("electra",),
        title="Electra",
        prefix="electra.",
        sizes={
            **_SIZES,
            "hidden_size": ("hidden_size", 256),
            "num_heads": ("num_attention_heads", 4),
            "ffn_size": ("intermediate_size", 1024),
            "embedding_size": ("embedding_size", 128),
        },
        names={**_NAMES, "projection": "embeddings_project"},
        layers="encoder.layer.{}.",
        in_layers=_IN_LAYERS,
        heads={
            "mlm": {
                "dense": "generator_predictions.dense",
                "norm": "generator_predictions.LayerNorm",
                "output.bias": "generator_lm_head.bias",
                "output.matrix": "generator_lm_head.weight",
            },
            "replaced": {
                "dense": "discriminator_predictions.dense",
                "output": "discriminator_predictions.dense_prediction",
            },
            "classification": _OUT,
            **_TASKS,
        },
        poolers={"classification": Pooler("classifier.dense", "gelu"), "multiple-choice": _ELECTRA_GELU},
        rates=_RATES,
        free_heads=False,
    ),
    "distilbert": Form(
        types=("distilbert",),
        title="DistilBert",
        prefix="distilbert.",
        sizes={
            "vocab_size": ("vocab_size", 30_522),
            "hidden_size": ("dim", 768),
            "num_layers": ("n_layers", 6),
            "num_heads": ("n_heads", 12),
            "ffn_size": ("hidden_dim", 3072),
            "max_length": ("max_position_embeddings", 512),
        },
        names={name: theirs for name, theirs in _NAMES.items() if name != "segments.weight"},
        layers="transformer.layer.{}.",
        in_layers={
            "attention.qkv": ("attention.q_lin", "attention.k_lin", "attention.v_lin"),
            "attention.output": ("attention.out_lin",),
            "attention_residual.norm": ("sa_layer_norm",),
            "ffn.inner": ("ffn.lin1",),
            "ffn.outer": ("ffn.lin2",),
            "ffn_residual.norm": ("output_layer_norm",),
        },
        heads={
            "mlm": {
                "dense": "vocab_transform",
                "norm": "vocab_layer_norm",
                "output.bias": "vocab_projector.bias",
                "output.matrix": "vocab_projector.weight",
            },
            "classification": _CLASSIFIER,
            **_TASKS,
        },
        poolers={"classification": _PRE_CLASSIFIER, "multiple-choice": _PRE_CLASSIFIER},
        rates={"dropout": "dropout", "attention_dropout": "attention_dropout"},
        activation="activation",
        epsilon=None,
        further_names={"hidden_size": "dim", "num_attention_heads": "n_heads", "num_hidden_layers": "n_layers"},
    ),
}
"""Families by name."""
