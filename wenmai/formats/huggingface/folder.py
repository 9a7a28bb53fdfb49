"""A folder of ``transformers``, whatever the model: settings, tensors in one file or several, and a tokenizer.

``config.json``, ``model.safetensors`` (or parts of it, and ``model.safetensors.index.json``), and ``tokenizer.json``,
or ``vocab.json`` and ``merges.txt``. Tensors may have the prefix of the class that wrote them, or not.

An encoder may have settings of ``sentence-transformers`` beside it, which say how texts become vectors.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from wenmai.core.errors import FormatError
from wenmai.core.folder import read_json_object, sealed_folder, writing_json
from wenmai.core.tensors import tensor_file, tensor_shapes, write_tensors
from wenmai.text.vocabulary_files import read_tokenizer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from wenmai.text.tokenizer import Tokenizer

__all__ = [
    "CONFIG",
    "TANH",
    "Family",
    "Place",
    "Pretrained",
    "check_shapes",
    "described_tokenizer",
    "fitting_tokenizer",
    "floats",
    "own_names",
    "places_of_tensors",
    "stored_tensors",
    "write_folder",
]

CONFIG = "config.json"
TANH = ("gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_accurate")
"""Names of the tanh form of gelu, the one that is written first."""
_CONVERT = (
    "import torch, safetensors.torch as s; s.save_file({k: v.contiguous().clone() for k, v in "
    "torch.load('pytorch_model.bin', weights_only=True).items()}, 'model.safetensors', {'format': 'pt'})"
)  # tensors that share memory are written twice, which every reader takes
_WEIGHTS, _INDEX = "model.safetensors", "model.safetensors.index.json"


@dataclass(frozen=True, kw_only=True)
class Pretrained:
    """A model with its tokenizer.

    Attributes:
        module: The network.
        tokenizer: Its tokenizer.
        embedding: How an encoder's states become vectors of texts, the fields of
            :class:`wenmai.inference.embedding_config.EmbeddingConfig`; None: the folder does not say.
        family: The family of encoders that it is to be written as; None: the one that has its settings.
        max_length: Tokens of a text that are read, special ones included; None: as many as the network can.
    """

    module: Any
    tokenizer: "Tokenizer"
    embedding: Mapping[str, Any] | None = None
    family: str | None = None
    max_length: int | None = None

    @property
    def context(self) -> Literal["fresh", "carried"]:
        """The context that a language model assumes before a line.

        GPT-2's end is that of a document, of which the next one knows nothing; others' ends are those of lines.
        """
        documents = self.tokenizer.token(self.tokenizer.eos_id) == "<|endoftext|>"
        return "fresh" if documents else "carried"


@dataclass(frozen=True, kw_only=True)
class Family:
    """The models of one class of ours.

    Attributes:
        system: The system that trains them.
        model: Their class, ``module:Class``.
        types: What ``model_type`` may be.
        read: Takes the folder and what its ``config.json`` says.
        write: Takes the folder, what is written, and what receives notes about parts that are left out.
    """

    system: str
    model: str
    types: tuple[str, ...]
    read: Callable[[Path, Mapping[str, Any]], Pretrained]
    write: Callable[[Path, Pretrained, Callable[[str], None]], None]


def own_names(content: Mapping[str, Any], others: Mapping[str, str]) -> dict[str, Any]:
    """Returns settings by the names that a family has for them.

    Args:
        content: What ``config.json`` says.
        others: Further names that ``transformers`` reads, each with the one that it stands for; where both are there,
            the further one counts.
    """
    return {**content, **{own: content[other] for other, own in others.items() if other in content}}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor is: the file, its name there, its shape."""

    path: Path
    name: str
    shape: tuple[int, ...]


def places_of_tensors(
    folder: Path, prefix: str, ignored: re.Pattern[str], renamed: Callable[[str], str] = str
) -> dict[str, Place]:
    """Finds the tensors of a folder, by their names without the prefix; allocates no memory for them.

    Args:
        folder: The folder.
        prefix: What all names may begin with.
        ignored: Matches names of what is no parameter.
        renamed: Returns the name of today for a name of earlier versions.
    """
    found: dict[str, Place] = {}
    for path in _files(folder):
        for name, shape in tensor_shapes(path).items():
            plain = renamed(name.removeprefix(prefix))
            if ignored.fullmatch(plain):
                continue
            if plain in found:
                raise FormatError(f"{path}: has {plain} a second time; the first is in {found[plain].path.name}")
            found[plain] = Place(path, name, shape)
    return found


def _files(folder: Path) -> list[Path]:
    """The tensor files: one, or those that the index names."""
    if (folder / _WEIGHTS).exists():
        return [folder / _WEIGHTS]
    index = folder / _INDEX
    if not index.exists():
        pickled = (
            " (pytorch_model.bin is a pickle, which is never opened: save it as safetensors, for example in the folder "
            f'with python -c "{_CONVERT}")'
        )
        why = pickled if any(folder.glob("pytorch_model*")) else ""
        if any(folder.glob("*.pdparams")):
            why = " (parameters of Paddle, *.pdparams, are not read: take the model in the form of Hugging Face)"
        raise FormatError(f"{folder}: has no {_WEIGHTS}{why}")
    named = read_json_object(index).get("weight_map")
    if not isinstance(named, dict) or not named:
        raise FormatError(f"{index}: has no weight_map, the file of each tensor")
    there = {path.name for path in folder.iterdir() if path.is_file()}
    for name in (files := sorted(set(map(str, named.values())))):
        if name not in there:
            raise FormatError(f"{index}: names {name!r}, which is not a file of the folder")
    return [folder / name for name in files]


def check_shapes(
    expected: Mapping[str, tuple[int, ...]], places: Mapping[str, Place], folder: Path, *, optional: Collection[str]
) -> None:
    """Checks that the tensors are those of the settings, in their shapes.

    Args:
        expected: Name to shape.
        places: What is there.
        folder: For messages.
        optional: Tensors that may be missing.
    """
    wrong = [f"{name} is missing" for name in expected if name not in places and name not in optional]
    wrong += [f"{name} is more than such a model has" for name in places if name not in expected]
    wrong += [
        f"{name} has the shape {places[name].shape}, expected {shape}"
        for name, shape in expected.items()
        if name in places and places[name].shape != shape
    ]
    if wrong:
        more = f"; and {len(wrong) - 8} more" if len(wrong) > 8 else ""
        raise FormatError(f"{folder}: the tensors do not fit {CONFIG}: {'; '.join(wrong[:8])}{more}")


def stored_tensors(places: Mapping[str, Place]) -> Iterator[tuple[str, "Tensor"]]:
    """Reads the tensors, file by file.

    Raises:
        FormatError: if a file cannot be read.
    """
    from safetensors import SafetensorError, safe_open

    for path in sorted({place.path for place in places.values()}):
        try:
            with safe_open(str(tensor_file(path)), framework="pt") as file:
                for plain, place in places.items():
                    if place.path == path:
                        yield plain, file.get_tensor(place.name)
        except (OSError, SafetensorError) as error:
            raise FormatError(f"{path}: cannot be read ({error})") from None


def floats(tensor: "Tensor", name: str, place: Place) -> "Tensor":
    """Returns a tensor as contiguous float32.

    Raises:
        FormatError: if it is not of finite numbers.
    """
    import torch

    if tensor.dtype not in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        raise FormatError(f"{place.path}: {name} is of {tensor.dtype}; expected floating-point numbers")
    found = tensor.float().contiguous()
    if not bool(found.isfinite().all()):
        raise FormatError(f"{place.path}: {name} has numbers that are not finite")
    return found


def fitting_tokenizer(folder: Path, vocab_size: int) -> "Tokenizer":
    """Reads the tokenizer.

    Raises:
        FormatError: if it is missing or damaged, or has more tokens than the model.
    """
    tokenizer = read_tokenizer(folder, most=vocab_size)
    if tokenizer.vocab_size > vocab_size:
        raise FormatError(
            f"{folder / CONFIG}: vocab_size={vocab_size}, but the tokenizer has {tokenizer.vocab_size} tokens"
        )
    return tokenizer


def write_folder(
    folder: Path, head: Mapping[str, Any], tensors: Mapping[str, "NDArray[np.float32]"], files: Mapping[str, Any]
) -> None:
    """Writes a folder, whole or not at all.

    Args:
        folder: Where.
        head: The content of ``config.json``.
        tensors: By their names there.
        files: The content of the other JSON files, by their names.
    """
    with sealed_folder(folder, replace=False) as temporary:
        writing_json(temporary / CONFIG, head)
        write_tensors(temporary / _WEIGHTS, tensors, library="pt")
        for name, content in files.items():
            writing_json(temporary / name, content)


def described_tokenizer(tokenizer: "Tokenizer", roles: Mapping[str, int], longest: int) -> dict[str, Any]:
    """Returns the content of ``tokenizer_config.json``.

    Args:
        tokenizer: The tokenizer.
        roles: Ids of the tokens that have a role, by its name there.
        longest: Tokens of a text, at most.

    Raises:
        SettingError: if other programs would segment texts otherwise.
    """
    tokenizer.require_portable()
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": longest,
        "clean_up_tokenization_spaces": False,
        **{f"{role}_token": tokenizer.token(number) for role, number in roles.items()},
    }
