"""Fine-tuned models as networks with the head of a task, as they are published, and back.

| task | head of a BERT (:class:`wenmai.models.bert.Bert`) |
|---|---|
| classification, pair | ``classification``, above the pooler |
| regression | the same with one output, w' = σw and b' = σb + μ |
| tagging | ``token-classification`` |
| span | ``question-answering`` |
| choice | ``multiple-choice``, above the pooler |

A new tanh layer above the state of ``[CLS]`` (``dense_head``) is a pooler.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from wenmai.core.errors import SettingError
from wenmai.core.task_names import TaskName
from wenmai.inference.families import backbone_of
from wenmai.inference.finetuned import FineTuned
from wenmai.inference.finetuned_network import HeadShape
from wenmai.inference.finetuned_texts import OfTexts
from wenmai.inference.masked_model import MaskedModel
from wenmai.inference.reading_config import TuneReadingConfig
from wenmai.models.bert import Bert
from wenmai.nn.lora import merge_lora

if TYPE_CHECKING:
    from wenmai.nn.names import HeadName
    from wenmai.text.tokenizer import Tokenizer

__all__ = ["adopted", "published"]

_HEADS: "Mapping[TaskName, HeadName]" = {
    "classification": "classification",
    "pair": "classification",
    "regression": "classification",
    "tagging": "token-classification",
    "span": "question-answering",
    "choice": "multiple-choice",
}
_OUTPUTS: "Mapping[HeadName, str]" = {
    "classification": "output",
    "token-classification": "tokens.output",
    "question-answering": "output",
    "multiple-choice": "score.output",
}
"""Where the outputs of a head are in the heads of fine-tuned models."""
_CHINESE = 0.2  # share of single Chinese characters in a vocabulary by which texts are cut into characters


def published(model: FineTuned) -> Bert:
    """Returns the same model as one network, a copy; products of LoRA are added to its matrices.

    Raises:
        SettingError: if a BERT of transformers with a head of its own computes something else.
    """
    encoder, shape = model.backbone.module, model.shape
    if not isinstance(encoder, Bert):
        raise SettingError(f"the {model.task} head of {encoder.kind} cannot be exported; that of a bert can")
    for name, reason in {
        "crf=true": "scores sequences of tags" if shape.crf else "",
        "mode=mix": "takes a sum of all layers" if shape.mix else "",
        f"layer={shape.layer}": "takes another layer than the last" if shape.layer != -1 else "",
        "both_orders=true": "reads two texts twice" if model.reading.both_orders else "",
    }.items():
        if reason:
            raise SettingError(f"a model that {reason} ({name}) cannot be exported; fine-tune without it")
    head, pooling = _HEADS[model.task], model.reading.pooling
    layer: Any = None
    pooler = "none"
    if isinstance(model, OfTexts):
        layer = model.module.head.get_submodule("score" if model.task == "choice" else "").dense
        if (pooling, shape.dense) not in (("pooler", False), ("token", True)):
            raise SettingError(
                f"a head that takes pooling={pooling}, dense_head={str(shape.dense).lower()} cannot be exported; "
                "fine-tune with pooling=pooler, or where the encoder has none with pooling=token and dense_head=true"
            )
        pooler = "tanh" if shape.dense else encoder.config.pooler
    labels = ("LABEL_0",) if model.task == "regression" else tuple(model.labels)
    found = Bert(
        replace(encoder.config, heads=(head,), labels=labels, pooler=pooler),  # type: ignore[arg-type]
        vocab_size=encoder.vocab_size,
    )
    merged = deepcopy(encoder)
    merge_lora(merged)
    output: Any = model.module.head.get_submodule(_OUTPUTS[head])
    tensors = {name: tensor for name, tensor in merged.state_dict().items() if not name.startswith("pooler.")}
    if pooler != "none":
        above: Any = layer if shape.dense else merged.pooler
        tensors |= {f"pooler.{name}": tensor for name, tensor in above.state_dict().items()}
    scale, shift = model.numbers.get("deviation", 1.0), model.numbers.get("mean", 0.0)
    tensors[f"heads.{head}.weight"] = scale * output.weight.detach()
    tensors[f"heads.{head}.bias"] = scale * output.bias.detach() + shift
    found.load_state_dict(tensors)
    return found.eval()


def adopted(
    kind: type[FineTuned], network: Bert, tokenizer: "Tokenizer", *, max_length: int | None = None
) -> FineTuned:
    """Returns a network with the head of a task as a fine-tuned model.

    Args:
        kind: The task.
        network: Has its head.
        tokenizer: Its tokenizer.
        max_length: Tokens of a text that are read; None, or more than it can: as many as it can.
    """
    head, config = _HEADS[kind.task], network.config
    over = not kind.over_tokens
    base = MaskedModel(network, tokenizer)
    backbone = backbone_of(base, pooler=over, dropout=None, fresh=False)
    shape = HeadShape(dropout=config.dropout)
    fewer = max_length if max_length is not None and max_length < config.max_length else None
    reading = TuneReadingConfig(pooling="pooler" if over else "mean", max_length=fewer)
    labels = config.labels if kind.labelled else ()
    module = kind.network(backbone, shape, reading, labels)
    with torch.no_grad():
        output = module.head.get_submodule(_OUTPUTS[head])
        output.load_state_dict(network.heads[head].state_dict())
    numbers: dict[str, float] = {}
    if kind.task in ("classification", "regression"):
        numbers["either"] = 1.0  # nothing says whether it takes two texts
    if kind.task == "regression":
        numbers |= {"mean": 0.0, "deviation": 1.0, "two": 0.0}
    if kind.task == "tagging":
        tokens = [tokenizer.token(number) for number in range(tokenizer.vocab_size)]
        chinese = sum(len(token) == 1 and "\u4e00" <= token <= "\u9fff" for token in tokens)
        numbers["characters"] = float(chinese > _CHINESE * len(tokens))
    return kind(module.eval(), shape, reading, labels, numbers)
