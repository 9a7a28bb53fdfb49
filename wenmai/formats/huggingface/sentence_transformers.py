"""What ``sentence-transformers`` keeps beside an encoder: how its states become vectors of texts.

| file | content |
|---|---|
| ``modules.json`` | the steps: a Transformer, a Pooling, perhaps a Normalize, each with its folder |
| ``sentence_bert_config.json`` | ``max_seq_length``; since version 6 in ``tokenizer_config.json`` |
| ``1_Pooling/config.json`` | mean, first token or maximum |
| ``config_sentence_transformers.json`` | prompts, which stand before texts |

A folder without ``modules.json`` is taken as the library takes it: the mean of the states, not normalised.

Source: https://sbert.net, versions 2 to 6, which read what is written.
"""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wenmai.core.errors import FormatError
from wenmai.core.folder import plain_file, read_json_object

__all__ = ["encoder_folder", "read_embedding", "settings_files"]

_log = logging.getLogger(__name__)

_MODULES, _SETTINGS, _PROMPTS = "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"
_TOKENIZER = "tokenizer_config.json"
_PACKAGE = "sentence_transformers.models."
_STEPS = ("Transformer", "Pooling", "Normalize")
_POOLINGS = {"mean": "mean_tokens", "cls": "cls_token", "max": "max_tokens"}  # of ours to theirs
_OTHER_POOLINGS = ("mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")


def encoder_folder(folder: Path) -> Path:
    """Returns where the encoder is: the folder, or one in it.

    Raises:
        FormatError: if ``modules.json`` is damaged.
    """
    return folder if not (folder / _MODULES).is_file() else _steps(folder)["Transformer"]


def read_embedding(folder: Path) -> dict[str, Any] | None:
    """Reads how states become vectors of texts, as fields of an ``EmbeddingConfig``; None: nothing is said.

    Raises:
        FormatError: if a file is missing or damaged, or says something that is not possible here.
    """
    if not (folder / _MODULES).is_file():
        return None
    said = read_json_object(folder / _PROMPTS) if (folder / _PROMPTS).is_file() else {}
    if said.get("model_type") == "CrossEncoder":  # a classifier of pairs
        if kept := said.get("activation_fn"):
            _log.warning("%s: activation_fn=%s is not kept: numbers are those before it", folder / _PROMPTS, kept)
        return None
    if kept := said.get("truncate_dim"):
        _log.warning(
            "%s: truncate_dim=%s is not kept: vectors have all their numbers, not these first ones alone",
            folder / _PROMPTS,
            kept,
        )
    steps = _steps(folder)
    found: dict[str, Any] = {"normalise": "Normalize" in steps}
    if "Pooling" not in steps:
        raise FormatError(f"{folder / _MODULES}: has no Pooling; expected one, which makes a vector of a text")
    found["pooling"] = _pooling(steps["Pooling"] / "config.json")
    longest = _longest(steps["Transformer"])
    if longest is not None:
        found["max_length"] = longest
    if (path := folder / _PROMPTS).is_file():
        content = read_json_object(path)
        prompts, usual = content.get("prompts") or {}, content.get("default_prompt_name")
        if not isinstance(prompts, dict) or not all(isinstance(text, str) for text in prompts.values()):
            raise FormatError(f"{path}: prompts: expected texts by their names")
        if usual is not None and (not isinstance(usual, str) or usual not in prompts):
            raise FormatError(f"{path}: default_prompt_name={usual!r} is none of the prompts")
        found |= {"prompts": prompts, "default_prompt": usual}
    return found


def _steps(folder: Path) -> dict[str, Path]:
    """The folder of each step by the name of its class."""
    path = folder / _MODULES
    try:
        content = json.loads(plain_file(path).read_bytes())
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: is not JSON: {error}") from None
    if not isinstance(content, list) or not all(isinstance(step, dict) for step in content):
        raise FormatError(f"{path}: expected a list of modules")
    names = [str(step.get("type")).rpartition(".")[2] for step in content]
    for name, step in zip(names, content, strict=True):
        place = step.get("path")
        if name not in _STEPS:
            raise FormatError(f"{path}: the module {name} cannot be read; an encoder here has {', '.join(_STEPS)}")
        if not isinstance(place, str) or (place and Path(place).name != place) or place == "..":
            raise FormatError(f"{path}: names {place!r}, which is not a folder in this one")
    if names != [name for name in _STEPS if name in names] or "Transformer" not in names:
        raise FormatError(f"{path}: the modules are {', '.join(names) or 'none'}; expected {', '.join(_STEPS)}")
    return {name: folder / step["path"] for name, step in zip(names, content, strict=True)}


def _pooling(path: Path) -> str:
    content = read_json_object(path)
    by_name = content.get("pooling_mode")
    chosen = [by_name] if isinstance(by_name, str) else []
    theirs = {f"pooling_mode_{name}": ours for ours, name in _POOLINGS.items()}
    theirs |= {f"pooling_mode_{name}": name for name in _OTHER_POOLINGS}
    chosen += [name for key, name in theirs.items() if content.get(key) and not chosen]
    if len(chosen) != 1 or chosen[0] not in _POOLINGS:
        raise FormatError(
            f"{path}: pools by {' and '.join(map(str, chosen)) or 'nothing'}; expected one of {', '.join(_POOLINGS)}"
        )
    if content.get("include_prompt", True) is not True:
        raise FormatError(f"{path}: include_prompt=false: here the tokens of a prompt are pooled too")
    return str(chosen[0])


def _longest(folder: Path) -> int | None:
    """The longest text in tokens: a setting of its own, since version 6 that of the tokenizer."""
    path = next(iter(sorted(folder.glob("sentence_*_config.json"))), None)  # early names have that of the model
    content = {} if path is None else read_json_object(path)
    if content.get("do_lower_case"):
        raise FormatError(f"{path}: do_lower_case: here the tokenizer alone says what becomes of capitals")
    key = "max_seq_length"
    if key not in content and (folder / _TOKENIZER).is_file():
        path, key = folder / _TOKENIZER, "model_max_length"
        content = read_json_object(path)
    longest = content.get(key)
    if longest is not None and (type(longest) is not int or longest < 3):
        raise FormatError(f"{path}: {key}={longest!r}: expected a whole number from 3 on, or null")
    return longest


def settings_files(embedding: Mapping[str, Any] | None, size: int, longest: int) -> dict[str, Any]:
    """Returns the JSON files, by their names, of what :func:`read_embedding` returns; none for none.

    Args:
        embedding: The fields of an ``EmbeddingConfig``.
        size: Of a vector.
        longest: Tokens of a text that the model can read.
    """
    if embedding is None:
        return {}
    steps = [("Transformer", ""), ("Pooling", "1_Pooling")]
    if embedding.get("normalise"):
        steps.append(("Normalize", "2_Normalize"))
    modes = {f"pooling_mode_{name}": embedding.get("pooling") == ours for ours, name in _POOLINGS.items()}
    files: dict[str, Any] = {
        _MODULES: [
            {"idx": number, "name": str(number), "path": place, "type": _PACKAGE + name}
            for number, (name, place) in enumerate(steps)
        ],
        _SETTINGS: {"max_seq_length": embedding.get("max_length") or longest, "do_lower_case": False},
        "1_Pooling/config.json": {
            "word_embedding_dimension": size,
            **modes,
            **{f"pooling_mode_{name}": False for name in _OTHER_POOLINGS},
            "include_prompt": True,
        },
        _PROMPTS: {
            "prompts": dict(embedding.get("prompts") or {}),
            "default_prompt_name": embedding.get("default_prompt"),
            "similarity_fn_name": "cosine",
        },
    }
    if embedding.get("normalise"):
        files["2_Normalize/config.json"] = {}
    return files
