"""GPT-2 and GPT-1 as folders of Hugging Face ``transformers``, in and out.

A folder holds ``config.json``, ``model.safetensors`` (or parts of it, and ``model.safetensors.index.json``), and
``tokenizer.json``, or ``vocab.json`` and ``merges.txt``.

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
embeddings, which is stored once. The table may have more rows than there are tokens.

Source: ``transformers`` 5.23, whose classes ``GPT2LMHeadModel`` and ``OpenAIGPTLMHeadModel`` read what is written.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wenmai.core.errors import FormatError, RunError, SettingError
from wenmai.core.folder import sealed_folder, writing_json
from wenmai.core.tensors import tensor_shapes, write_tensors
from wenmai.text.vocabulary_files import read_tokenizer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from wenmai.models.gpt import Gpt, GptConfig
    from wenmai.text.tokenizer import Tokenizer

__all__ = ["Pretrained", "read_huggingface", "write_huggingface"]

_WEIGHTS, _INDEX, _CONFIG = "model.safetensors", "model.safetensors.index.json", "config.json"
_PREFIX = "transformer."
_HEAD = "lm_head.weight"
_BUFFER = re.compile(r"h\.\d+\.attn\.(?:bias|masked_bias)")  # the causal mask, and what it puts there
_LAYER = re.compile(r"h\.(\d{1,9})\.")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Family:
    """What one generation is called there.

    Attributes:
        norm: As in our settings.
        architecture: The class with the output layer.
        activation: The key of the activation; ``spellings``: how its tanh form of gelu is called, ours first.
        names: Our parameter to theirs, outside of layers.
        sizes: Key to the value that holds if it is left out.
        required: Key to the only value that ours has.
    """

    norm: str
    architecture: str
    activation: str
    spellings: tuple[str, ...]
    names: Mapping[str, str]
    sizes: Mapping[str, int]
    required: Mapping[str, Any]


_COMMON = {"layer_norm_epsilon": 1e-5, "add_cross_attention": False, "tie_word_embeddings": True}
_FAMILIES = {
    "gpt2": _Family(
        norm="pre",
        architecture="GPT2LMHeadModel",
        activation="activation_function",
        spellings=("gelu_new", "gelu_pytorch_tanh"),
        names={
            "embedding.weight": "wte.weight",
            "positions.weight": "wpe.weight",
            "decoder.norm.weight": "ln_f.weight",
            "decoder.norm.bias": "ln_f.bias",
        },
        sizes={"vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12},
        required=_COMMON | {"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False},
    ),
    "openai-gpt": _Family(
        norm="post",
        architecture="OpenAIGPTLMHeadModel",
        activation="afn",
        spellings=("gelu", "gelu_new"),  # there both are the tanh form
        names={"embedding.weight": "tokens_embed.weight", "positions.weight": "positions_embed.weight"},
        sizes={"vocab_size": 40478, "n_positions": 512, "n_embd": 768, "n_layer": 12, "n_head": 12},
        required=_COMMON,
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


@dataclass(frozen=True, kw_only=True)
class Pretrained:
    """A model with its tokenizer.

    Attributes:
        module: The network.
        tokenizer: What cuts text into its tokens.
    """

    module: "Gpt"
    tokenizer: "Tokenizer"


def read_huggingface(folder: str | Path) -> Pretrained:
    """Reads a GPT-2 or GPT-1.

    Sizes are compared with the shapes in the heads of the tensor files before memory is taken.

    Raises:
        FormatError: if a file is missing or damaged, does not fit the others, or the model has what ours have not.
    """
    folder = Path(folder)
    if not folder.is_dir():
        problem = "is a file; name the folder that it is in" if folder.exists() else "no such folder"
        raise FormatError(f"{folder}: {problem}")
    path = folder / _CONFIG
    content = _object(path)
    family = _FAMILIES.get(str(content.get("model_type")))
    if family is None:
        raise FormatError(
            f"{path}: model_type={content.get('model_type')!r} cannot be read; expected {' or '.join(_FAMILIES)}"
        )
    config, vocab_size = _config(path, content, family)
    places = _places(folder)
    there = len({match[1] for name in places if (match := _LAYER.match(name))})
    if config.num_layers != there:
        raise FormatError(f"{path}: n_layer={config.num_layers}, but the tensors are those of {there} layers")
    names = _names(family, config.num_layers)
    _compare(_shapes(config, vocab_size, names), names, places, folder)
    tokenizer = read_tokenizer(folder)
    if tokenizer.vocab_size > vocab_size:
        raise FormatError(f"{path}: vocab_size={vocab_size}, but the tokenizer has {tokenizer.vocab_size} tokens")
    begin = content.get("bos_token_id")
    if isinstance(begin, int) and 0 <= begin < vocab_size and begin != tokenizer.eos_id:
        raise FormatError(
            f"{path}: bos_token_id={begin} stands before every text of this model, and {tokenizer.eos_id} behind it; "
            "expected one token for both, as GPT-2 has"
        )
    import torch

    from wenmai.models.gpt import Gpt

    with torch.device("meta"):  # where nothing takes memory
        module = Gpt(config, vocab_size=vocab_size, bos_id=tokenizer.eos_id)
    module.load_state_dict(_tensors(names, places, folder), assign=True)
    return Pretrained(module=module.eval(), tokenizer=tokenizer)


def write_huggingface(folder: str | Path, model: "nn.Module", tokenizer: "Tokenizer") -> None:
    """Writes a folder that ``transformers.AutoModelForCausalLM`` and ``AutoTokenizer`` read, whole or not at all.

    Args:
        folder: Where; it must not exist, or be empty.
        model: A :class:`wenmai.models.gpt.Gpt` without ``window``.
        tokenizer: What cuts text into its tokens.

    Raises:
        SettingError: if ``transformers`` has no such model.
        RunError: if the folder is taken.
    """
    from wenmai.models.gpt import Gpt

    if not isinstance(model, Gpt):
        raise SettingError(f"a {type(model).__name__} cannot be written as GPT-2; only models of kind gpt can")
    config = model.config
    if config.window is not None:
        raise SettingError(f"GPT-2 cannot restrict attention as window={config.window} does; only window=none can")
    if config.norm == "post" and config.ffn_size not in (None, 4 * config.hidden_size):
        raise SettingError(
            f"GPT-1 with hidden_size={config.hidden_size} has ffn_size={4 * config.hidden_size}, not "
            f"{config.ffn_size}; with norm=pre, which is GPT-2, it is free"
        )
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"{folder}: exists already; choose another folder to write")
    model_type, family = next((name, one) for name, one in _FAMILIES.items() if one.norm == config.norm)
    ids = {"bos_token_id": model.bos_id, "eos_token_id": tokenizer.eos_id, "pad_token_id": tokenizer.pad_id}
    head = {
        "model_type": model_type,
        "architectures": [family.architecture],
        "vocab_size": model.vocab_size,
        "n_positions": config.max_length,
        "n_embd": config.hidden_size,
        "n_layer": config.num_layers,
        "n_head": config.num_heads,
        family.activation: family.spellings[0],
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": config.attention_dropout,
        "initializer_range": 0.02,
        **{key: value for key, value in family.required.items() if key != "add_cross_attention"},
        **ids,
    }
    if config.norm == "pre":
        head["n_inner"] = config.ffn_size
    names = _names(family, config.num_layers)
    parameters = dict(model.named_parameters())
    with sealed_folder(folder) as temporary:
        writing_json(temporary / _CONFIG, head)
        writing_json(temporary / "generation_config.json", ids)
        tensors = {_PREFIX + theirs: _numbers(ours, parameters[ours]) for ours, theirs in names.items()}
        write_tensors(temporary / _WEIGHTS, tensors, library="pt")
        tokenizer.save(temporary / "tokenizer.json")
        writing_json(temporary / "tokenizer_config.json", _described(tokenizer, config.max_length))


def _described(tokenizer: "Tokenizer", longest: int) -> dict[str, Any]:
    """What ``transformers`` wants to know of a ``tokenizer.json``."""
    roles = {"bos": tokenizer.eos_id, "eos": tokenizer.eos_id, "unk": tokenizer.unk_id, "pad": tokenizer.pad_id}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": longest,
        "clean_up_tokenization_spaces": False,
        **{f"{role}_token": tokenizer.token(number) for role, number in roles.items()},
    }


def _numbers(name: str, parameter: "Tensor") -> "NDArray[np.float32]":
    found: NDArray[np.float32] = _turned(name, parameter.detach()).float().cpu().numpy()
    return found


def _turned(name: str, tensor: "Tensor") -> "Tensor":
    """A parameter as it is stored there, or back."""
    return tensor.T if tensor.dim() == 2 and name.startswith("decoder.") else tensor


# --- config.json ----------------------------------------------------------------------------------------------------


def _object(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise FormatError(f"{path}: expected a JSON object")
    return content


def _config(path: Path, content: Mapping[str, Any], family: _Family) -> tuple["GptConfig", int]:
    """Returns the settings of a model like that, and its V."""
    from wenmai.models.gpt import GptConfig

    sizes = {key: content.get(key, default) for key, default in family.sizes.items()}
    inner = content.get("n_inner") if family.norm == "pre" else None
    for key, value in (sizes | ({} if inner is None else {"n_inner": inner})).items():
        if type(value) is not int or value < 1:
            raise FormatError(f"{path}: {key}={value!r}: expected a whole number from 1 on")
    wanted = {family.activation: family.spellings} | {key: (value,) for key, value in family.required.items()}
    for key, values in wanted.items():
        if content.get(key, values[0]) not in values:
            raise FormatError(f"{path}: {key}={content[key]!r}: a gpt here has {values[0]!r}, nothing else")
    if content.get("pruned_heads"):
        raise FormatError(f"{path}: pruned_heads: a gpt here has all heads")
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
            norm=family.norm,  # type: ignore[arg-type]
        )
    except SettingError as error:
        raise FormatError(f"{path}: {error}") from None
    return config, sizes["vocab_size"]


# --- tensors --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a tensor is: the file, its name there, its shape."""

    path: Path
    name: str
    shape: tuple[int, ...]


def _places(folder: Path) -> dict[str, _Place]:
    """Finds the tensors of a folder, by their names without the prefix; no memory is taken for them."""
    found: dict[str, _Place] = {}
    for path in _files(folder):
        for name, shape in tensor_shapes(path).items():
            plain = name.removeprefix(_PREFIX)
            if _BUFFER.fullmatch(plain):
                continue
            if plain in found:
                raise FormatError(f"{path}: has {plain} a second time; the first is in {found[plain].path.name}")
            found[plain] = _Place(path, name, shape)
    return found


def _files(folder: Path) -> list[Path]:
    """The tensor files: one, or those that the index names."""
    if (folder / _WEIGHTS).exists():
        return [folder / _WEIGHTS]
    index = folder / _INDEX
    if not index.exists():
        pickled = " (pytorch_model.bin is a pickle, which is never opened: save it as safetensors)"
        raise FormatError(f"{folder}: has no {_WEIGHTS}{pickled if any(folder.glob('pytorch_model*')) else ''}")
    named = _object(index).get("weight_map")
    if not isinstance(named, dict) or not named:
        raise FormatError(f"{index}: has no weight_map, the file of each tensor")
    for name in (files := sorted(set(map(str, named.values())))):
        if Path(name).name != name or not (folder / name).is_file():
            raise FormatError(f"{index}: names {name!r}, which is no file of the folder")
    return [folder / name for name in files]


def _names(family: _Family, layers: int) -> dict[str, str]:
    """Returns our parameters and theirs."""
    inside = {
        f"decoder.layers.{number}.{ours}.{kind}": f"h.{number}.{theirs}.{kind}"
        for number in range(layers)
        for ours, theirs in _IN_LAYERS.items()
        for kind in ("weight", "bias")
    }
    return {**family.names, **inside}


def _shapes(config: "GptConfig", vocab_size: int, names: Mapping[str, str]) -> dict[str, tuple[int, ...]]:
    """Returns their tensors and the shapes that they have there."""
    hidden, inner = config.hidden_size, config.ffn_size or 4 * config.hidden_size
    tables = {"embedding.weight": (vocab_size, hidden), "positions.weight": (config.max_length, hidden)}
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
        found[theirs] = shape if kind == "weight" else shape[-1:]
    return found


def _compare(
    shapes: Mapping[str, tuple[int, ...]], names: Mapping[str, str], places: Mapping[str, _Place], folder: Path
) -> None:
    """Makes sure that all tensors are there, in the shapes that the settings ask for, and no others."""
    expected = dict(shapes)
    wrong = [f"{name} is missing" for name in expected if name not in places]
    wrong += [f"{name} is more than a language model has" for name in places if name not in expected and name != _HEAD]
    if _HEAD in places:
        expected[_HEAD] = expected[names["embedding.weight"]]
    wrong += [
        f"{name} has the shape {places[name].shape}, expected {shape}"
        for name, shape in expected.items()
        if name in places and places[name].shape != shape
    ]
    if wrong:
        more = f"; and {len(wrong) - 8} more" if len(wrong) > 8 else ""
        raise FormatError(f"{folder}: the tensors do not fit {_CONFIG}: {'; '.join(wrong[:8])}{more}")


def _tensors(names: Mapping[str, str], places: Mapping[str, _Place], folder: Path) -> dict[str, "Tensor"]:
    """Reads our parameters, in float32 and our layout.

    Raises:
        FormatError: if one is not of numbers, or the output layer is not the table of embeddings.
    """
    import torch

    read = dict(_read(places))
    table = read[names["embedding.weight"]]
    if _HEAD in read and not torch.equal(read[_HEAD], table):
        raise FormatError(
            f"{folder}: {_HEAD} is not {places[names['embedding.weight']].name}; a gpt here predicts with its table of "
            "embeddings (tied), nothing else"
        )
    found = {}
    for ours, theirs in names.items():
        tensor = read.pop(theirs)
        if tensor.dtype not in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
            raise FormatError(f"{places[theirs].path}: {theirs} is of {tensor.dtype}; expected floating-point numbers")
        found[ours] = _turned(ours, tensor).float().contiguous()
        if not bool(found[ours].isfinite().all()):
            raise FormatError(f"{places[theirs].path}: {theirs} has numbers that are not finite")
    return found


def _read(places: Mapping[str, _Place]) -> Iterator[tuple[str, "Tensor"]]:
    from safetensors import SafetensorError, safe_open

    for path in sorted({place.path for place in places.values()}):
        try:
            with safe_open(str(path), framework="pt") as file:
                for plain, place in places.items():
                    if place.path == path:
                        yield plain, file.get_tensor(place.name)
        except (OSError, SafetensorError) as error:
            raise FormatError(f"{path}: cannot be read ({error})") from None
