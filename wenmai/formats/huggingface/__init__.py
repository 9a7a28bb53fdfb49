"""Folders of Hugging Face ``transformers``, in and out; one module for each class of models.

Source: ``transformers`` 5.23, whose classes read what is written.
"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from wenmai.core.errors import FormatError, SettingError
from wenmai.core.folder import read_json_object
from wenmai.formats.format import Format, Imported, is_a, require_free
from wenmai.formats.huggingface import gpt
from wenmai.formats.huggingface.folder import CONFIG, Family, Pretrained

if TYPE_CHECKING:
    from torch import nn

    from wenmai.text.tokenizer import Tokenizer

__all__ = ["FORMATS", "Pretrained", "read_huggingface", "write_huggingface"]

_FAMILIES = (gpt.FAMILY,)


def read_huggingface(folder: str | Path) -> Pretrained:
    """Reads a model and its tokenizer.

    Sizes are compared with the shapes in the heads of the tensor files before memory is taken.

    Raises:
        FormatError: if a file is missing or damaged, does not fit the others, or the model has a part that ours lack.
    """
    return _read(Path(folder))[1]


def write_huggingface(folder: str | Path, model: "nn.Module", tokenizer: "Tokenizer") -> None:
    """Writes a folder that the classes of ``transformers`` and ``AutoTokenizer`` read, whole or not at all.

    Args:
        folder: Where; it must not exist, or be empty.
        model: The network.
        tokenizer: Its tokenizer.

    Raises:
        SettingError: if ``transformers`` has no such model.
        RunError: if the folder is not empty.
    """
    for family in _FAMILIES:
        if is_a(type(model), family.model):
            return family.write(require_free(folder), model, tokenizer)
    possible = ", ".join(family.system for family in _FAMILIES)
    raise SettingError(f"there is no {type(model).__name__} in transformers; these systems can be written: {possible}")


def _read(folder: Path) -> tuple[Family, Pretrained]:
    if not folder.is_dir():
        problem = "is a file; name the folder that it is in" if folder.exists() else "no such folder"
        raise FormatError(f"{folder}: {problem}")
    content = read_json_object(folder / CONFIG)
    for family in _FAMILIES:
        if content.get("model_type") in family.types:
            return family, family.read(folder, content)
    known = " or ".join(name for family in _FAMILIES for name in family.types)
    raise FormatError(f"{folder / CONFIG}: model_type={content.get('model_type')!r} cannot be read; expected {known}")


def _imported(folder: Path) -> Imported:
    family, found = _read(folder)
    settings = {f"model.{name}": value for name, value in asdict(found.module.config).items()}
    settings["tokenizer.file"] = str(folder.absolute())
    return Imported(system=family.system, model=found, vocabulary=found.tokenizer.vocab_size, settings=settings)


FORMATS = (
    Format(
        name="huggingface",
        summary="a folder of Hugging Face transformers: a gpt as GPT-2, or GPT-1, with its tokenizer",
        models=tuple(family.model for family in _FAMILIES),
        write=lambda path, run: write_huggingface(path, run.model.module, run.model.tokenizer),
        read=_imported,
    ),
)
