"""GPT-2 and GPT-1 as ``transformers`` has them.

| of ours | GPT-2 (``norm=pre``) | GPT-1 (``norm=post``) |
|---|---|---|
| ``embedding.weight`` | ``wte.weight`` | ``tokens_embed.weight`` |
| ``positions.weight`` | ``wpe.weight`` | ``positions_embed.weight`` |
| ``decoder.layers.I.attention.qkv`` | ``h.I.attn.c_attn`` | the same |
| ``decoder.layers.I.attention.output`` | ``h.I.attn.c_proj`` | the same |
| ``decoder.layers.I.attention_residual.norm`` | ``h.I.ln_1`` | the same |
| ``decoder.layers.I.ffn.inner``, ``ffn.outer`` | ``h.I.mlp.c_fc``, ``mlp.c_proj`` | the same |
| ``decoder.layers.I.ffn_residual.norm`` | ``h.I.ln_2`` | the same |
| ``decoder.norm`` | ``ln_f`` | – |

Theirs begin with ``transformer.``, or not; matrices are (in, out), ours (out, in). ``lm_head.weight`` is the table of
embeddings, which is stored once, or with ``tie_word_embeddings=false`` our ``output.matrix``. The table may have more
rows than there are tokens.

Attention scores that are divided by the number of their layer too (``scale_attn_by_inverse_layer_idx``), or not by the
root of the head size (``scale_attn_weights=false``), are had by queries that are smaller or larger by that factor.

Source: ``transformers`` 5.23, whose classes ``GPT2LMHeadModel`` and ``OpenAIGPTLMHeadModel`` read what is written.
"""

import json
import logging
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from wenmai.core.errors import FormatError, SettingError
from wenmai.formats.huggingface.folder import (
    CONFIG,
    TANH,
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

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from wenmai.models.gpt import Gpt, GptConfig
    from wenmai.nn.names import ActivationName

__all__ = ["FAMILY"]

_log = logging.getLogger(__name__)

_PREFIX = "transformer."
_HEAD = "lm_head.weight"
_BUFFER = re.compile(r"h\.\d+\.attn\.(?:bias|masked_bias)")  # the causal mask, and what it puts there
_LAYER = re.compile(r"h\.(\d{1,9})\.")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Form:
    """What one generation is called there.

    Attributes:
        norm: As in our settings.
        architecture: The class with the output layer.
        activation: The key of the activation.
        spellings: Our activation to its names there, the one that is written first.
        names: Our parameter to theirs, outside of layers.
        sizes: Key to its default.
        required: Key to the only value that ours has.
    """

    norm: Literal["post", "pre"]
    architecture: str
    activation: str
    spellings: Mapping["ActivationName", tuple[str, ...]]
    names: Mapping[str, str]
    sizes: Mapping[str, int]
    required: Mapping[str, Any]


_FURTHER_NAMES = {
    "hidden_size": "n_embd",
    "max_position_embeddings": "n_positions",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
}  # that transformers reads, too
_OTHERS: "dict[ActivationName, tuple[str, ...]]" = {"relu": ("relu",), "silu": ("silu", "swish")}
_FORMS = {
    "gpt2": _Form(
        norm="pre",
        architecture="GPT2LMHeadModel",
        activation="activation_function",
        spellings={"gelu_tanh": TANH, "gelu": ("gelu", "gelu_python"), **_OTHERS},
        names={
            "embedding.weight": "wte.weight",
            "positions.weight": "wpe.weight",
            "decoder.norm.weight": "ln_f.weight",
            "decoder.norm.bias": "ln_f.bias",
        },
        sizes={"vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12},
        required={"add_cross_attention": False},
    ),
    "openai-gpt": _Form(
        norm="post",
        architecture="OpenAIGPTLMHeadModel",
        activation="afn",
        spellings={"gelu_tanh": ("gelu", *TANH), **_OTHERS},  # there gelu is the tanh form
        names={"embedding.weight": "tokens_embed.weight", "positions.weight": "positions_embed.weight"},
        sizes={"vocab_size": 40478, "n_positions": 512, "n_embd": 768, "n_layer": 12, "n_head": 12},
        required={},
    ),
}
_IN_LAYERS = {
    "attention.qkv": "attn.c_attn",
    "attention.output": "attn.c_proj",
    "attention_residual.norm": "ln_1",
    "ffn.inner": "mlp.c_fc",
    "ffn.outer": "mlp.c_proj",
    "ffn_residual.norm": "ln_2",
}


def _read(folder: Path, content: Mapping[str, Any]) -> Pretrained:
    path, form = folder / CONFIG, _FORMS[content["model_type"]]
    content = own_names(content, _FURTHER_NAMES)
    config, vocab_size = _config(path, content, form)
    places = places_of_tensors(folder, _PREFIX, _BUFFER)
    there = len({match[1] for name in places if (match := _LAYER.match(name))})
    if config.num_layers != there:
        raise FormatError(f"{path}: n_layer={config.num_layers}, but the tensors are those of {there} layers")
    names = _names(form, config)
    check_shapes(_shapes(config, vocab_size, names), places, folder, optional={_HEAD})
    tokenizer = fitting_tokenizer(folder, vocab_size)
    begin = content.get("bos_token_id")
    if isinstance(begin, int) and 0 <= begin < vocab_size and begin != tokenizer.eos_id:
        raise FormatError(
            f"{path}: bos_token_id={begin} stands before every text of this model, and {tokenizer.eos_id} behind it; "
            "expected one token for both, as GPT-2 has"
        )
    if begin != tokenizer.eos_id and tokenizer.cls_id not in (None, tokenizer.eos_id):
        first, last = tokenizer.token(tokenizer.cls_id), tokenizer.token(tokenizer.eos_id)
        _log.warning(
            "%s: its tokenizer puts %s before a text and %s behind it; here %s stands on both sides, so scores differ",
            *(folder, first, last, last),
        )
    from wenmai.models.gpt import Gpt
    from wenmai.nn.blank import blank

    with blank(on_meta=True):
        module = Gpt(config, vocab_size=vocab_size, bos_id=tokenizer.eos_id)
    module.load_state_dict(_tensors(names, places, folder), assign=True)
    _scale_queries(module, content)
    return Pretrained(module=module.eval(), tokenizer=tokenizer)


def _write(folder: Path, written: Pretrained, note: Callable[[str], None]) -> None:
    from wenmai.models.gpt import Gpt

    model, tokenizer = written.module, written.tokenizer
    assert isinstance(model, Gpt)
    config = model.config
    if config.window is not None:
        raise SettingError(f"GPT-2 cannot restrict attention as window={config.window} does; only window=none can")
    if config.norm == "post" and config.ffn_size not in (None, 4 * config.hidden_size):
        raise SettingError(
            f"GPT-1 with hidden_size={config.hidden_size} has ffn_size={4 * config.hidden_size}, not "
            f"{config.ffn_size}; with norm=pre, which is GPT-2, it is free"
        )
    model_type, form = next((name, one) for name, one in _FORMS.items() if one.norm == config.norm)
    if config.activation not in form.spellings:
        raise SettingError(
            f"{form.architecture} has no activation={config.activation}; it has {', '.join(form.spellings)}"
        )
    head = {
        "model_type": model_type,
        "architectures": [form.architecture],
        "vocab_size": model.vocab_size,
        "n_positions": config.max_length,
        "n_embd": config.hidden_size,
        "n_layer": config.num_layers,
        "n_head": config.num_heads,
        form.activation: form.spellings[config.activation][0],
        "layer_norm_epsilon": config.epsilon,
        "tie_word_embeddings": config.tied,
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": config.attention_dropout,
        "initializer_range": 0.02,
        "bos_token_id": model.bos_id,
        "eos_token_id": tokenizer.eos_id,
        "pad_token_id": tokenizer.pad_id,
    }
    if config.norm == "pre":
        head["n_inner"] = config.ffn_size
    parameters = dict(model.named_parameters())
    tensors = {
        theirs if theirs == _HEAD else _PREFIX + theirs: _numbers(ours, parameters[ours])
        for ours, theirs in _names(form, config).items()
    }
    ids = {"bos": tokenizer.eos_id, "eos": tokenizer.eos_id, "unk": tokenizer.unk_id, "pad": tokenizer.pad_id}
    described = described_tokenizer(tokenizer, ids, config.max_length)
    files = {
        "generation_config.json": {f"{role}_token_id": head[f"{role}_token_id"] for role in ("bos", "eos", "pad")},
        "tokenizer.json": json.loads(tokenizer.to_json()),
        "tokenizer_config.json": {**described, "split_special_tokens": True},  # "</s>" in a text is text, as here
    }
    write_folder(folder, head, tensors, files)


def _numbers(name: str, parameter: "Tensor") -> "NDArray[np.float32]":
    found: NDArray[np.float32] = _turned(name, parameter.detach()).float().cpu().numpy()
    return found


def _turned(name: str, tensor: "Tensor") -> "Tensor":
    """A parameter as it is stored there, or back."""
    return tensor.T if tensor.dim() == 2 and name.startswith("decoder.") else tensor


# --- config.json ----------------------------------------------------------------------------------------------------


def _config(path: Path, content: Mapping[str, Any], form: _Form) -> tuple["GptConfig", int]:
    """Returns the settings of such a model, and its V."""
    from wenmai.models.gpt import GptConfig

    sizes = {key: content.get(key, default) for key, default in form.sizes.items()}
    inner = content.get("n_inner") if form.norm == "pre" else None
    for key, value in (sizes | ({} if inner is None else {"n_inner": inner})).items():
        if type(value) is not int or value < 1:
            raise FormatError(f"{path}: {key}={value!r}: expected a whole number from 1 on")
    activations = {theirs: ours for ours, named in form.spellings.items() for theirs in named}
    named = content.get(form.activation, form.spellings["gelu_tanh"][0])
    if not isinstance(named, str) or named not in activations:
        raise FormatError(f"{path}: {form.activation}={named!r}: a gpt here has one of {', '.join(activations)}")
    for key, value in form.required.items():
        if content.get(key, value) != value:
            raise FormatError(f"{path}: {key}={content[key]!r}: a gpt here has {value!r}, nothing else")
    flags = {"tie_word_embeddings": True, "scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False}
    for key, usual in flags.items():
        if type(content.get(key, usual)) is not bool:
            raise FormatError(f"{path}: {key}={content[key]!r}: expected true or false")
    epsilon = content.get("layer_norm_epsilon", 1e-5)
    if type(epsilon) not in (int, float) or not 0 < epsilon < 1:
        raise FormatError(f"{path}: layer_norm_epsilon={epsilon!r}: expected a number between 0 and 1")
    rates = {key: content.get(key, 0.1) for key in ("resid_pdrop", "attn_pdrop")}
    for key, value in rates.items():
        if type(value) not in (int, float) or not 0 <= value < 1:
            raise FormatError(f"{path}: {key}={value!r}: expected a number from 0 to below 1")
    try:
        config = GptConfig(
            hidden_size=sizes["n_embd"],
            num_layers=sizes["n_layer"],
            num_heads=sizes["n_head"],
            ffn_size=inner,
            max_length=sizes["n_positions"],
            dropout=float(rates["resid_pdrop"]),
            attention_dropout=float(rates["attn_pdrop"]),
            norm=form.norm,
            epsilon=float(epsilon),
            activation=activations[named],
            tied=content.get("tie_word_embeddings", True),
        )
    except SettingError as error:
        raise FormatError(f"{path}: {error}") from None
    return config, sizes["vocab_size"]


# --- tensors --------------------------------------------------------------------------------------------------------


def _names(form: _Form, config: "GptConfig") -> dict[str, str]:
    """Returns our parameters and theirs."""
    inside = {
        f"decoder.layers.{number}.{ours}.{kind}": f"h.{number}.{theirs}.{kind}"
        for number in range(config.num_layers)
        for ours, theirs in _IN_LAYERS.items()
        for kind in ("weight", "bias")
    }
    return {**form.names, **inside, **({} if config.tied else {"output.matrix": _HEAD})}


def _shapes(config: "GptConfig", vocab_size: int, names: Mapping[str, str]) -> dict[str, tuple[int, ...]]:
    """Returns their tensors and the shapes that they have there, the output layer among them."""
    hidden, inner = config.hidden_size, config.ffn_size or 4 * config.hidden_size
    tables = {
        "embedding.weight": (vocab_size, hidden),
        "positions.weight": (config.max_length, hidden),
        "output.matrix": (vocab_size, hidden),
    }
    linear = {
        "attention.qkv": (hidden, 3 * hidden),
        "attention.output": (hidden, hidden),
        "ffn.inner": (hidden, inner),
        "ffn.outer": (inner, hidden),
    }
    found: dict[str, tuple[int, ...]] = {}
    for ours, theirs in names.items():
        whole, _, kind = ours.rpartition(".")
        shape: tuple[int, ...] = tables.get(ours) or linear.get(re.sub(r".*layers\.\d+\.", "", whole)) or (hidden,)
        found[theirs] = shape[-1:] if kind == "bias" else shape
    return found | {_HEAD: found[names["embedding.weight"]]}


def _tensors(names: Mapping[str, str], places: Mapping[str, Place], folder: Path) -> dict[str, "Tensor"]:
    """Reads our parameters, in float32 and our layout.

    Raises:
        FormatError: if one is not of numbers, or the output layer is not the table of embeddings.
    """
    import torch

    read = dict(stored_tensors(places))
    table = read[names["embedding.weight"]]
    if _HEAD in read and _HEAD not in names.values() and not torch.equal(read[_HEAD], table):
        raise FormatError(
            f"{folder}: {_HEAD} is not {places[names['embedding.weight']].name}, but {CONFIG} says that the model "
            "predicts with its table of embeddings; tie_word_embeddings=false is for models with a head of their own"
        )
    if "output.matrix" in names and _HEAD not in read:
        raise FormatError(f"{folder}: {_HEAD} is missing, and {CONFIG} says tie_word_embeddings=false")
    return {ours: floats(_turned(ours, read.pop(theirs)), theirs, places[theirs]) for ours, theirs in names.items()}


def _scale_queries(module: "Gpt", content: Mapping[str, Any]) -> None:
    """Makes queries larger or smaller where attention scores are scaled in another way than by the root of the size."""
    if content["model_type"] == "openai-gpt":  # which has no such settings
        return
    heads, size = module.config.num_heads, module.config.hidden_size
    for number, layer in enumerate(module.decoder.layers, start=1):
        factor = 1.0 if content.get("scale_attn_weights", True) else math.sqrt(size / heads)
        if content.get("scale_attn_by_inverse_layer_idx", False):
            factor /= number
        if factor != 1.0:
            for parameter in layer.get_submodule("attention.qkv").parameters():
                parameter.data[:size] *= factor


FAMILY = Family(system="gpt", model="wenmai.models.gpt:Gpt", types=tuple(_FORMS), read=_read, write=_write)
