"""BERT and its relatives as ``transformers`` has them: BERT, ERNIE, RoBERTa, ELECTRA and DistilBERT, with their heads.

What each is called there stands in :mod:`wenmai.formats.huggingface.encoder_forms`. The heads of a folder are told by
its tensors, not by the name of its class alone: published folders of ``BertForMaskedLM`` have the head for pairs too,
and those of ``RobertaForMaskedLM`` at times none.

| written as | the model |
|---|---|
| ERNIE | has vectors of tasks |
| ELECTRA | has the head ``replaced``, embeddings of another size than its layers, or ``pooler=gelu`` |
| DistilBERT | has no segments |
| RoBERTa | has one segment |
| BERT | any other, and those that the family above has no class for: no segments are one segment of zeros |

Positions of RoBERTa begin behind the id of padding. Here they begin at 0, and the vectors before are left out.
"""

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wenmai.core.errors import FormatError, SettingError
from wenmai.core.quantities import plural
from wenmai.formats.huggingface.encoder_config import offset_of, pooler_of, read_config, written_config
from wenmai.formats.huggingface.encoder_forms import FORMS, POOLED, SUFFIXES, Form, unknown_setting
from wenmai.formats.huggingface.folder import (
    CONFIG,
    Family,
    Place,
    Pretrained,
    check_shapes,
    described_tokenizer,
    fitting_tokenizer,
    floats,
    own_names,
    places_of_tensors,
    stored_tensors,
    write_folder,
)
from wenmai.text.encodable import separators_between

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from wenmai.models.bert import Bert, BertConfig
    from wenmai.text.tokenizer import Tokenizer

__all__ = ["FAMILY", "framed_tokenizer"]

_BUFFER = re.compile(r"embeddings\.(?:position_ids|token_type_ids)")
_MLM_MATRIX, _MLM_BIAS = "heads.mlm.output.matrix", "heads.mlm.output.bias"
_POSITIONS, _SEGMENTS, _OF_TASKS = "positions.weight", "segments.weight", "task_types.weight"
_log = logging.getLogger(__name__)


def _modern(name: str) -> str:
    """A name as it is written today; the first versions called weight and bias of a norm gamma and beta."""
    return re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name))


# --- read -----------------------------------------------------------------------------------------------------------


def _read(folder: Path, content: Mapping[str, Any]) -> Pretrained:
    path = folder / CONFIG
    form = next(form for form in FORMS.values() if content["model_type"] in form.types)
    content = own_names(content, form.further_names)
    places = places_of_tensors(folder, form.prefix, _BUFFER, _modern)
    found = read_config(path, content, form, places)
    config, key = found.config, form.sizes["num_layers"][0]
    layer = re.compile(re.escape(form.layers).replace(r"\{\}", r"(\d{1,9})"))
    there = len({match[1] for name in places if (match := layer.match(name))})
    if config.num_layers != there:
        raise FormatError(f"{path}: {key}={config.num_layers}, but the tensors are those of {there} layers")
    module = _planned(path, config, found.vocab_size)
    names = _names(form, module)
    matrix, alias = _shared(form, config)
    expected = dict(_shapes(module, names, found.offset))
    leftover = () if "classification" not in config.heads or form.pooler is None else (form.pooler.name,)
    for name in [name for name in places if name not in expected and name.rpartition(".")[0] in leftover]:
        del places[name]  # a fine-tuned RoBERTa may still have the pooler that its class does not use
    if not config.task_types and places.pop(form.names.get(_OF_TASKS, ""), None) is not None:
        _log.warning("%s: does not say use_task_id=true, so the vectors of tasks are not used, and are left out", path)
    optional = {name for name in (matrix, alias) if name is not None}
    if matrix is not None:
        expected.setdefault(matrix, tuple(module.embedding.weight.shape))
    if alias is not None:
        expected[alias] = (found.vocab_size,)
        if alias in places:
            optional |= set(names[_MLM_BIAS])
    check_shapes(expected, places, folder, optional=optional if config.tied else optional - {matrix})
    tokenizer = _framing_tokenizer(folder, found.vocab_size, masked="mlm" in config.heads)
    read = dict(stored_tensors(places))
    _compare_shared(read, names, folder, matrix=matrix if config.tied else None, alias=alias, tied=config.tied)
    module.load_state_dict(dict(_tensors(names, read, places, found.offset)), assign=True)
    return Pretrained(module=module.eval(), tokenizer=tokenizer)


def _planned(path: Path, config: "BertConfig", vocab_size: int) -> "Bert":
    """Returns the network without memory for its parameters.

    Raises:
        FormatError: if its sizes are more than a tensor can have.
    """
    from wenmai.models.bert import Bert
    from wenmai.nn.blank import blank

    try:
        with blank(on_meta=True):
            return Bert(config, vocab_size=vocab_size)
    except (RuntimeError, TypeError, OverflowError):
        raise FormatError(f"{path}: its sizes are larger than any model; the file is damaged") from None


def _names(form: Form, module: "Bert") -> dict[str, tuple[str, ...]]:
    """Returns our parameters and, for each, theirs in order."""
    pooler = pooler_of(form, module.config.heads)
    return {ours: form.translated(ours, pooler) for ours, _ in module.named_parameters()}


def _shapes(module: "Bert", names: Mapping[str, tuple[str, ...]], offset: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yields their tensors and the shapes that they have there."""
    for ours, parameter in module.named_parameters():
        rows, *others = parameter.shape
        rows = rows // len(names[ours]) + (offset if ours == _POSITIONS else 0)
        for theirs in names[ours]:
            yield theirs, (rows, *others)


def _shared(form: Form, config: "BertConfig") -> tuple[str | None, str | None]:
    """Returns their output matrix of the head for masked tokens, and the second name of its bias, if there are such."""
    if "mlm" not in config.heads:
        return None, None
    head = form.heads["mlm"]
    alias = head["output.matrix"].removesuffix("weight") + "bias"
    return head["output.matrix"], None if alias == head["output.bias"] else alias


def _compare_shared(
    read: "dict[str, Tensor]",
    names: Mapping[str, tuple[str, ...]],
    folder: Path,
    *,
    matrix: str | None,
    alias: str | None,
    tied: bool,
) -> None:
    """Makes one of what is stored twice.

    Raises:
        FormatError: if the two are not equal.
    """
    import torch

    table = names["embedding.weight"][0]
    if matrix is not None and matrix in read and not torch.equal(read.pop(matrix), read[table]):
        raise FormatError(
            f"{folder}: {matrix} is not {table}, but {CONFIG} says that the model predicts with its table of "
            "embeddings; tie_word_embeddings=false is for models with an output matrix of their own"
        )
    if alias is not None and alias in read:
        (bias,) = names[_MLM_BIAS]
        other = read.pop(alias)
        if tied and bias in read and not torch.equal(other, read[bias]):
            raise FormatError(f"{folder}: {alias} is not {bias}, which are two names of one bias")
        read[bias] = other  # with a matrix of its own, the product takes this one


def _tensors(
    names: Mapping[str, tuple[str, ...]], read: "dict[str, Tensor]", places: Mapping[str, Place], offset: int
) -> "Iterator[tuple[str, Tensor]]":
    """Yields our parameters, in float32.

    Raises:
        FormatError: if one is not of numbers.
    """
    import torch

    for ours, theirs in names.items():
        parts = [floats(read.pop(name), name, places.get(name, next(iter(places.values())))) for name in theirs]
        whole = parts[0] if len(parts) == 1 else torch.cat(parts)
        yield ours, whole[offset:].clone() if ours == _POSITIONS and offset else whole


def _framing_tokenizer(folder: Path, vocab_size: int, *, masked: bool) -> "Tokenizer":
    """Reads the tokenizer.

    Raises:
        FormatError: if it does not fit the model, or has no tokens around texts, or none for what is masked.
    """
    tokenizer = fitting_tokenizer(folder, vocab_size)
    if tokenizer.cls_id is None or tokenizer.sep_id is None:
        raise FormatError(
            f"{folder}: the tokenizer has no tokens around texts; expected [CLS] and [SEP], or <s> and </s>"
        )
    if masked and tokenizer.mask_id is None:
        raise FormatError(f"{folder}: the model predicts masked tokens, but the tokenizer has no [MASK] or <mask>")
    return tokenizer


# --- written --------------------------------------------------------------------------------------------------------


def _write(folder: Path, written: Pretrained, note: Callable[[str], None]) -> None:
    from wenmai.formats.huggingface.sentence_transformers import settings_files
    from wenmai.models.bert import Bert

    model, tokenizer = written.module, written.tokenizer
    assert isinstance(model, Bert)
    config, form = model.config, _form(model.config, tokenizer, written.family)
    architecture, kept, pooled = _architecture(form, config)
    left: list[str] = [name for name in config.heads if name not in kept]
    if config.pooler != "none" and not pooled:
        left.append("pooler")
    if left:
        note(f"{folder}: {architecture} has no place for {', '.join(left)}, which is left out")
    roles = {
        "pad": tokenizer.pad_id,
        "unk": tokenizer.unk_id,
        "cls": tokenizer.cls_id,
        "sep": tokenizer.sep_id,
        "mask": tokenizer.mask_id,
    }
    named = {role: number for role, number in roles.items() if number is not None}
    head = written_config(form, config, vocab_size=model.vocab_size, architecture=architecture, roles=named)
    typed = ["token_type_ids"] if config.segments > 1 else []
    described = described_tokenizer(tokenizer, named, written.max_length or config.max_length)
    files = {
        "tokenizer.json": framed_tokenizer(tokenizer, segments=config.segments),
        "tokenizer_config.json": {**described, "model_input_names": ["input_ids", *typed, "attention_mask"]},
        **settings_files(written.embedding, config.hidden_size, config.max_length),
    }
    left_out = (*(f"heads.{name}." for name in left), *(() if pooled else ("pooler.",)))
    tensors = dict(_written_tensors(form, model, left_out, bare=not kept, offset=offset_of(form, tokenizer.pad_id)))
    write_folder(folder, head, tensors, files)


def _written_tensors(
    form: Form, model: "Bert", left_out: tuple[str, ...], *, bare: bool, offset: int
) -> "Iterator[tuple[str, NDArray[np.float32]]]":
    """Yields their tensors, with the prefix of the encoder in a class with a head."""
    import numpy as np

    prefix, pooler = "" if bare else form.prefix, pooler_of(form, model.config.heads)
    for ours, parameter in model.named_parameters():
        if ours.startswith(left_out):
            continue
        array = _array(parameter)
        if ours == _POSITIONS and offset:
            array = np.concatenate((np.zeros((offset, array.shape[1]), np.float32), array))
        names = form.translated(ours, pooler)
        of_head = ours.startswith("heads.") or (ours.startswith("pooler.") and pooler in form.poolers.values())
        for name, part in zip(names, np.split(array, len(names)), strict=True):
            yield name if of_head else prefix + name, part
        if ours == _MLM_BIAS and not model.config.tied and (alias := _shared(form, model.config)[1]):
            yield alias, array  # the name that the product takes where nothing is shared
    if model.segments is None and "segments" in form.sizes:  # one segment, whose vector adds nothing
        yield prefix + form.names[_SEGMENTS], np.zeros((1, model.embedding.embedding_dim), np.float32)


def _array(parameter: "Tensor") -> "NDArray[np.float32]":
    found: NDArray[np.float32] = parameter.detach().float().cpu().numpy()
    return found


def _form(config: "BertConfig", tokenizer: "Tokenizer", family: str | None) -> Form:
    """Returns the family that a model is written as, the one that is asked for if it has such a model.

    Raises:
        SettingError: if none has such a model.
    """
    if (setting := unknown_setting(config)) is not None:
        raise SettingError(f"transformers has no BERT with {setting}; onnx takes more settings")
    if config.norm != "post":
        raise SettingError(f"transformers has no BERT with norm={config.norm}; only norm=post can be written")
    if family is not None:
        names = [family]
    elif config.task_types:
        names = ["ernie"]
    elif (
        "replaced" in config.heads or config.embedding_size not in (None, config.hidden_size) or config.pooler == "gelu"
    ):
        names = ["electra"]
    elif not config.segments:
        names = ["distilbert", "bert"]
    else:
        names = ["roberta", "bert", "electra"] if config.segments == 1 else ["bert", "electra"]
    problems = {name: _misfit(FORMS[name], config, tokenizer) for name in names}
    for name, problem in problems.items():
        if problem is None:
            return FORMS[name]
    raise SettingError(problems.get("bert") or problems[names[0]] or "")


def _misfit(form: Form, config: "BertConfig", tokenizer: "Tokenizer") -> str | None:
    """Returns why a model cannot be written as one of this family."""
    for head in config.heads:
        if head not in form.heads:
            return f"{form.title} of transformers has no head {head}"
    if config.task_types and "task_types.weight" not in form.names:
        return f"{form.title} of transformers has no vectors of tasks"
    if config.embedding_size not in (None, config.hidden_size) and "embedding_size" not in form.sizes:
        return f"{form.title} of transformers has no embeddings of {config.embedding_size} dimensions before its layers"
    most = 0 if "segments" not in form.sizes else 1 if form.doubled else config.segments
    if config.segments > most:
        return f"{form.title} of transformers has {plural(most, 'segment')}, not {config.segments}"
    pooler = pooler_of(form, config.heads)
    pooled = [head for head in config.heads if head in POOLED]
    if pooled and (pooler is None or not _may_be(pooler.name, pooler.activation, config.pooler)):
        wanted = "none" if pooler is None else pooler.activation
        return f"the head {pooled[0]} of {form.title} in transformers has pooler={wanted}, not {config.pooler}"
    if "mlm" in config.heads and not form.free_heads and config.activation != "gelu":
        return f"the head mlm of {form.title} in transformers has activation=gelu, not {config.activation}"
    if form.epsilon is None and config.epsilon != 1e-12:
        return f"{form.title} of transformers has epsilon=1e-12, not {config.epsilon}"
    if not pooled and config.pooler not in ("none", "tanh") and not config.heads:
        return f"{form.title} of transformers has no pooler={config.pooler} without a head"
    if form.offset and (
        tokenizer.pad_id in (tokenizer.cls_id, tokenizer.sep_id) or tokenizer.pad_id >= config.max_length
    ):
        return f"positions of {form.title} in transformers begin behind the id of padding, {tokenizer.pad_id}"
    return None


def _may_be(name: str, usual: str, wanted: str) -> bool:
    return wanted == usual or (name.startswith("sequence_summary") and wanted in ("gelu", "tanh", "relu"))


def _architecture(form: Form, config: "BertConfig") -> tuple[str, tuple[str, ...], bool]:
    """Returns the class, the heads that it has, and whether it has the pooler.

    A model may have more heads than any class: those of a task come first.
    """
    heads = config.heads
    task = next((head for head in heads if head in SUFFIXES), None)
    if task is not None:
        return form.title + SUFFIXES[task], (task,), task in POOLED
    if "replaced" in heads:
        return f"{form.title}ForPreTraining", ("replaced",), False
    if "pair" in heads:
        kept = tuple(head for head in heads if head in ("mlm", "pair"))
        return form.title + ("ForPreTraining" if "mlm" in kept else "ForNextSentencePrediction"), kept, True
    if "mlm" in heads:
        return f"{form.title}ForMaskedLM", ("mlm",), False
    return f"{form.title}Model", (), form.pooler is not None and config.pooler == form.pooler.activation


def framed_tokenizer(tokenizer: "Tokenizer", *, segments: int) -> dict[str, Any]:
    """Returns the content of a ``tokenizer.json`` that puts the special tokens around texts.

    Args:
        tokenizer: Has tokens for the beginning and the end of a text.
        segments: How many segments the encoder tells apart; with fewer than two both texts of a pair are of the first.
    """
    assert tokenizer.cls_id is not None
    assert tokenizer.sep_id is not None
    names = {number: tokenizer.token(number) for number in (tokenizer.cls_id, tokenizer.sep_id)}

    def mark(number: int, segment: int = 0) -> dict[str, Any]:
        return {"SpecialToken": {"id": names[number], "type_id": segment}}

    def text(name: str, segment: int = 0) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": segment}}

    cls, sep, second = tokenizer.cls_id, tokenizer.sep_id, int(segments > 1)
    more = separators_between(names[cls], segments) - 1
    single = [mark(cls), text("A"), mark(sep)]
    content: dict[str, Any] = json.loads(tokenizer.to_json())
    content["post_processor"] = {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, *[mark(sep)] * more, text("B", second), mark(sep, second)],
        "special_tokens": {name: {"id": name, "ids": [number], "tokens": [name]} for number, name in names.items()},
    }
    return content


FAMILY = Family(
    system="bert",
    model="wenmai.models.bert:Bert",
    types=tuple(name for form in FORMS.values() for name in form.types),
    read=_read,
    write=_write,
)
