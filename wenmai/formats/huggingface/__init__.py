"""Folders of Hugging Face ``transformers``, in and out; one module for each class of models.

A folder of ``sentence-transformers`` is one of ``transformers`` with a few settings beside it.

Source: ``transformers`` 5.23, whose classes read what is written.
"""

import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typing_extensions import Doc

from wenmai.core.errors import FormatError, SettingError
from wenmai.core.folder import read_json_object
from wenmai.formats.format import FINE_TUNED, Format, Imported, Trained, is_a, require_free
from wenmai.formats.huggingface import bert, gpt
from wenmai.formats.huggingface.encoder_forms import SUFFIXES
from wenmai.formats.huggingface.folder import CONFIG, Family, Pretrained
from wenmai.formats.huggingface.sentence_transformers import encoder_folder, read_embedding

if TYPE_CHECKING:
    from torch import nn

    from wenmai.inference.embedding_config import EmbeddingConfig
    from wenmai.text.tokenizer import Tokenizer

__all__ = ["FORMATS", "EncoderFamily", "HuggingfaceConfig", "Pretrained", "read_huggingface", "write_huggingface"]

EncoderFamily = Literal["auto", "bert", "ernie", "roberta", "electra", "distilbert"]

_log = logging.getLogger(__name__)

_FAMILIES = (gpt.FAMILY, bert.FAMILY)
_FOREIGN = {
    "pruned_heads": "a model here has all heads",
    "quantization_config": "its numbers are packed; save the model in float32",
    "auto_map": "its equations are those of a program, which is never run",
}  # key to why a folder that has it is not read
_SHORTEST = 8  # tokens that a fine-tuned model reads
_READING = ("keep", "stride", "answer_length", "n_best")  # settings that transformers has no place for


@dataclass(frozen=True, kw_only=True, slots=True)
class HuggingfaceConfig:
    """How an encoder is written."""

    family: Annotated[
        EncoderFamily, Doc("of an encoder: the classes that read it, if they have such a model; auto: by its settings")
    ] = "auto"


def read_huggingface(folder: str | Path) -> Pretrained:
    """Reads a model and its tokenizer.

    Sizes are compared with the shapes in the heads of the tensor files before memory is taken.

    Raises:
        FormatError: if a file is missing or damaged, does not fit the others, or the model has a part that ours lack.
    """
    return _read(Path(folder))[1]


def write_huggingface(
    folder: str | Path,
    model: "nn.Module",
    tokenizer: "Tokenizer",
    *,
    embedding: "EmbeddingConfig | None" = None,
    family: EncoderFamily = "auto",
    max_length: int | None = None,
    on_note: Callable[[str], None] = _log.warning,
) -> None:
    """Writes a folder that the classes of ``transformers`` and ``AutoTokenizer`` read, whole or not at all.

    Args:
        folder: Where; it must not exist, or be empty.
        model: The network.
        tokenizer: Its tokenizer.
        embedding: How an encoder's states become vectors of texts, for ``sentence-transformers``; of the last layer.
        family: See :class:`HuggingfaceConfig`.
        max_length: Tokens of a text that are read; None: as many as the network can.
        on_note: Receives what is left out; by default it is logged.

    Raises:
        SettingError: if ``transformers`` has no such model.
        RunError: if the folder is not empty.
    """
    for found in _FAMILIES:
        if is_a(type(model), found.model):
            if embedding is not None and embedding.layer != -1:
                raise SettingError(
                    f"sentence-transformers takes the states of the last layer, not layer={embedding.layer}"
                )
            settings, wanted = None if embedding is None else asdict(embedding), None if family == "auto" else family
            if wanted is not None and found is not bert.FAMILY:
                raise SettingError(f"family={family} is for encoders; leave it out to write a {found.system}")
            written = Pretrained(
                module=model, tokenizer=tokenizer, embedding=settings, family=wanted, max_length=max_length
            )
            return found.write(require_free(folder), written, on_note)
    possible = ", ".join(found.system for found in _FAMILIES)
    raise SettingError(f"there is no {type(model).__name__} in transformers; these systems can be written: {possible}")


def _read(folder: Path) -> tuple[Family, Pretrained]:
    if not folder.is_dir():
        problem = "is a file; name the folder that it is in" if folder.exists() else "no such folder"
        raise FormatError(f"{folder}: {problem}")
    whole, folder = folder, encoder_folder(folder)
    content = read_json_object(folder / CONFIG)
    for family in _FAMILIES:
        if content.get("model_type") in family.types:
            for key in filter(content.get, _FOREIGN):
                raise FormatError(f"{folder / CONFIG}: {key}: {_FOREIGN[key]}")
            found, embedding = family.read(folder, content), read_embedding(whole)
            if embedding is not None and (embedding.get("max_length") or 0) >= found.module.config.max_length:
                del embedding["max_length"]
            return family, replace(found, embedding=embedding)
    known = ", ".join(name for family in _FAMILIES for name in family.types)
    raise FormatError(
        f"{folder / CONFIG}: model_type={content.get('model_type')!r} cannot be read; expected one of {known}"
    )


def _imported(folder: Path) -> Imported:
    family, found = _read(folder)
    if (system := _task_system(folder, found)) is not None:
        found = replace(found, max_length=_longest_text(folder))
        return Imported(system=system, model=found, vocabulary=found.tokenizer.vocab_size)
    settings = {f"model.{name}": value for name, value in asdict(found.module.config).items()}
    settings["tokenizer.file"] = str(encoder_folder(folder).absolute())
    return Imported(system=family.system, model=found, vocabulary=found.tokenizer.vocab_size, settings=settings)


def _longest_text(folder: Path) -> int | None:
    """Tokens of a text that are read, by the tokenizer; None: it does not say, or they are too few."""
    path = encoder_folder(folder) / "tokenizer_config.json"
    longest = read_json_object(path).get("model_max_length") if path.is_file() else None
    return longest if isinstance(longest, int) and longest >= _SHORTEST else None


def _task_system(folder: Path, found: Pretrained) -> str | None:
    """Returns the system of a model that was fine-tuned for a task; None: it was not.

    Raises:
        FormatError: if it was for one that there is not here.
    """
    config = found.module.config
    head = next((name for name in getattr(config, "heads", ()) if name in SUFFIXES), None)
    if head is None or config.max_length < _SHORTEST:
        return None
    if head != "classification":
        return {"token-classification": "finetuned-tagging", "question-answering": "finetuned-span"}.get(
            head, "finetuned-choice"
        )
    outputs, path = len(config.labels), encoder_folder(folder) / CONFIG
    problem = read_json_object(path).get("problem_type")
    if problem not in (None, "regression" if outputs == 1 else "single_label_classification"):
        raise FormatError(
            f"{path}: problem_type={problem!r} with {outputs} labels: tasks here are one label of several, or one "
            "number of a text. To read the encoder alone, save it without its head in transformers: "
            "AutoModel.from_pretrained(FOLDER).save_pretrained(NEW)"
        )
    return "finetuned-regression" if len(config.labels) == 1 else "finetuned-classification"


def _export(path: Path, run: Trained) -> None:
    model, family = run.model, (run.settings or HuggingfaceConfig()).family
    if is_a(type(model), FINE_TUNED):
        published = model.published()
        if model.numbers.keys() & {"null_threshold"}:
            run.note(
                f"{path}: transformers has no place for the threshold of no answer, which is left out: what reads the "
                "folder always answers"
            )
        usual = type(model.reading)()
        given = {name: getattr(model.reading, name) for name in _READING}
        if settings := ", ".join(f"{name}={one}" for name, one in given.items() if one != getattr(usual, name)):
            run.note(
                f"{path}: transformers has no place for how texts are read and answers are chosen, which is left out: "
                f"{settings}"
            )
        tokenizer = model.backbone.tokenizer
        write_huggingface(path, published, tokenizer, family=family, max_length=model.length, on_note=run.note)
        return
    embedding = getattr(model, "embedding", None)  # of encoders
    usual = embedding is None or embedding == type(embedding)()  # what sentence-transformers does with any folder
    embedding = None if usual else embedding
    write_huggingface(path, model.module, model.tokenizer, embedding=embedding, family=family, on_note=run.note)


FORMATS = (
    Format(
        name="huggingface",
        summary=(
            "a folder of Hugging Face transformers, with its tokenizer: a gpt as GPT-2 or GPT-1, a bert as BERT, "
            "RoBERTa, ELECTRA, DistilBERT or ERNIE, with the head of what it was fine-tuned for"
        ),
        models=(*(family.model for family in _FAMILIES), FINE_TUNED),
        write=_export,
        settings=HuggingfaceConfig,
        read=_imported,
    ),
)
