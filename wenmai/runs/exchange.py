"""Models out into the world, and in from it."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wenmai.config.recipe import Recipe, settings_of
from wenmai.core.errors import RunError, SettingError, nearest_name
from wenmai.core.folder import sealed_folder, writing_json
from wenmai.core.registry import find_system
from wenmai.formats.arpa import read_arpa, write_arpa
from wenmai.formats.ctranslate2 import write_ctranslate2, write_generator
from wenmai.formats.fasttext import read_fasttext, write_fasttext
from wenmai.formats.ftz import QuantisationConfig, quantised_by
from wenmai.formats.glove import write_glove_binary, write_glove_parameters
from wenmai.formats.huggingface import read_huggingface, write_huggingface
from wenmai.formats.onnx import write_onnx
from wenmai.formats.projector import write_projector
from wenmai.formats.word2vec import read_word2vec, write_word2vec
from wenmai.models.fasttext import FastText, FastTextClassifierConfig, FastTextConfig
from wenmai.models.glove import GloVeConfig
from wenmai.models.ngram import Ngram, NgramConfig
from wenmai.models.word2vec import Word2Vec
from wenmai.runs.classification import retrainer_of
from wenmai.runs.environment import describe_environment
from wenmai.runs.owner import claimed, require_room
from wenmai.text.vocab import Vocab
from wenmai.training.run import ENVIRONMENT, MODEL, RECIPE, SUMMARY, Run, folder_bytes, remove

if TYPE_CHECKING:
    from wenmai.inference.language_model import LanguageModel
    from wenmai.inference.translator import Translator

__all__ = ["EXPORTS", "IMPORTS", "export_run", "import_run"]


@dataclass(frozen=True, kw_only=True)
class Export:
    """A format that a run can be written in.

    Attributes:
        summary: One line for people.
        verb: What a model must be able to do to be written so; None: only those of ``kinds`` are.
        write: Takes the path and what is written.
        whole: Configurations of the models that are written whole; none if what has the verbs is enough.
        kinds: Kinds of neural language models that are written too.
        settings: The dataclass of what can be chosen, or None.
        model: Takes the run, the path and the settings that were given, and returns what is written.
    """

    summary: str
    verb: str | None
    write: Callable[[Path, Any], None]
    whole: tuple[type, ...] = ()
    kinds: tuple[str, ...] = ()
    settings: type | None = None
    model: Callable[[Run, Path, Mapping[str, Any]], Any] = lambda run, path, settings: run.model

    def fits(self, task: Any) -> bool:  # noqa: ANN401  the task class of a system
        """Whether runs of a system can be written so."""
        if getattr(task.model, "kind", None) in self.kinds:
            return True
        return self.verb in task.verbs and (not self.whole or task.sections.get("model") in self.whole)


@dataclass(frozen=True, kw_only=True)
class Import:
    """A format that is read as a run.

    Attributes:
        summary: One line for people.
        read: Takes the path; returns the system of the run, the settings that differ from its own, and the model as
            the recipe's configuration wants it.
        tokens: How many tokens the vocabulary of a model has.
    """

    summary: str
    read: Callable[[Path], tuple[str, dict[str, Any], Callable[[Recipe], Any]]]
    tokens: Callable[[Any], int] = lambda model: len(model.vocab)


def _write_ctranslate2(path: Path, model: "Translator | LanguageModel") -> None:
    from wenmai.inference.language_model import LanguageModel  # torch takes time to import

    if isinstance(model, LanguageModel):
        write_generator(path, model.module, model.tokenizer)
    else:
        write_ctranslate2(path, model.module, source=model.source, target=model.target)


def _fasttext_model(run: Run, path: Path, settings: Mapping[str, Any]) -> FastText:
    """The model, quantised if the name of the file says so and it is not yet."""
    model: FastText = run.task.load_base(run.model_folder)
    if path.suffix.lower() != ".ftz":
        if settings:
            raise SettingError(
                f"{path}: {next(iter(settings))} is for quantised models; give the file a name that ends in .ftz"
            )
        return model
    if not isinstance(model.input, np.ndarray) and not settings:
        return model
    config = Recipe.build("fasttext", {"export": QuantisationConfig}, settings).sections["export"]
    try:
        return quantised_by(config, model, retrainer_of(run) if config.retrain else None)
    except SettingError as error:
        raise SettingError(f"{run.path}: {error}") from None


EXPORTS = {
    "word2vec": Export(
        summary="word2vec text: `V d`, then a word and its numbers a line", verb="nearest", write=write_word2vec
    ),
    "word2vec-binary": Export(
        summary="word2vec binary: the same with float32 numbers",
        verb="nearest",
        write=lambda path, vectors: write_word2vec(path, vectors, binary=True),
    ),
    "glove": Export(
        summary="GloVe text: a word and its numbers a line, no heading",
        verb="nearest",
        write=lambda path, vectors: write_word2vec(path, vectors, header=False),
    ),
    "glove-words": Export(
        summary="GloVe text of the word vectors alone, without those of contexts",
        verb="nearest",
        write=lambda path, vectors: write_word2vec(path, vectors.in_form("words"), header=False),
        whole=(GloVeConfig,),
    ),
    "glove-both": Export(
        summary="GloVe text with word vector and context vector side by side",
        verb="nearest",
        write=lambda path, vectors: write_word2vec(path, vectors.in_form("both"), header=False),
        whole=(GloVeConfig,),
    ),
    "glove-parameters": Export(
        summary="GloVe text of everything: word vector, its bias, context vector, its bias",
        verb="nearest",
        write=write_glove_parameters,
        whole=(GloVeConfig,),
    ),
    "glove-binary": Export(
        summary="GloVe's vectors.bin: the same as float64 numbers, words first, then contexts",
        verb="nearest",
        write=write_glove_binary,
        whole=(GloVeConfig,),
    ),
    "projector": Export(
        summary="a folder with vectors.tsv and metadata.tsv for the TensorBoard projector",
        verb="nearest",
        write=write_projector,
    ),
    "ctranslate2": Export(
        summary="a folder for CTranslate2, which translates with Transformers, or writes with GPTs, fast, in int8 too",
        verb="translate",
        kinds=("gpt",),
        write=_write_ctranslate2,
    ),
    "huggingface": Export(
        summary="a folder for Hugging Face transformers: a gpt as GPT-2, or GPT-1, with its tokenizer",
        verb=None,
        kinds=("gpt",),
        write=lambda path, model: write_huggingface(path, model.module, model.tokenizer),
    ),
    "onnx": Export(
        summary="the encoder of a translator as one ONNX file, for ONNX Runtime and other engines",
        verb="translate",
        write=lambda path, translator: write_onnx(path, translator.module),
    ),
    "arpa": Export(
        summary="ARPA text of an n-gram model, for KenLM, SRILM and speech recognisers",
        verb="score",
        write=lambda path, model: write_arpa(path, model.model),
        whole=(NgramConfig,),
    ),
    "fasttext": Export(
        summary="fastText's model file: .bin as it is, .ftz quantised, which classifiers can be",
        verb="export",
        write=write_fasttext,
        whole=(FastTextConfig, FastTextClassifierConfig),
        settings=QuantisationConfig,
        model=_fasttext_model,
    ),
}


def _read_word2vec(path: Path) -> tuple[str, dict[str, Any], Callable[[Recipe], Word2Vec]]:
    vectors = read_word2vec(path)

    def model(recipe: Recipe) -> Word2Vec:
        counts = vectors.counts if vectors.counts is not None else np.zeros(len(vectors), np.int64)
        made = Word2Vec(recipe.sections["model"], Vocab(vectors.index_to_key, counts))
        made.input[:, : vectors.vector_size] = vectors.vectors
        return made

    return "word2vec", {"vector_size": vectors.vector_size}, model


def _read_fasttext(path: Path) -> tuple[str, dict[str, Any], Callable[[Recipe], FastText]]:
    model = read_fasttext(path)
    settings = {f"model.{name}": value for name, value in asdict(model.config).items()}
    return ("fasttext-supervised" if model.kind == "supervised" else "fasttext"), settings, lambda recipe: model


def _read_arpa(path: Path) -> tuple[str, dict[str, Any], Callable[[Recipe], Ngram]]:
    model = read_arpa(path)
    settings = {"order": model.config.order, "smoothing": model.config.smoothing, "min_count": 1}
    return "ngram", settings, lambda recipe: model


def _read_huggingface(path: Path) -> tuple[str, dict[str, Any], Callable[[Recipe], "LanguageModel"]]:
    found = read_huggingface(path)
    settings = {f"model.{name}": value for name, value in asdict(found.module.config).items()}

    def model(recipe: Recipe) -> "LanguageModel":
        from wenmai.inference.language_model import LanguageModel  # torch takes time to import

        # GPT-2's end is that of a document, of which the next one knows nothing; others' ends are those of lines
        documents = found.tokenizer.token(found.tokenizer.eos_id) == "<|endoftext|>"
        return LanguageModel(
            found.module,
            found.tokenizer,
            context="fresh" if documents else "carried",
        )

    return "gpt", settings | {"tokenizer.file": str(path.absolute())}, model


IMPORTS = {
    "word2vec": Import(
        summary="word2vec or GloVe vectors, text or binary (told apart by content), plain or compressed",
        read=_read_word2vec,
    ),
    "huggingface": Import(
        summary="a folder of Hugging Face transformers with a GPT-2 or GPT-1 and its tokenizer",
        read=_read_huggingface,
        tokens=lambda model: int(model.tokenizer.vocab_size),
    ),
    "arpa": Import(summary="an n-gram model as ARPA text, plain or compressed", read=_read_arpa),
    "fasttext": Import(
        summary="fastText's model file, .bin or .ftz: word vectors with subwords, or a classifier", read=_read_fasttext
    ),
}


def export_run(
    run: str | Path | Run,
    name: str,
    path: str | Path,
    /,
    **settings: Any,  # noqa: ANN401  checked against the format's settings
) -> Path:
    """Writes the model of a finished run in a format that other programs read.

    Args:
        run: A run or its folder.
        name: One of ``EXPORTS``.
        path: The file to write; a folder for ``projector``, and for ``ctranslate2`` and ``huggingface`` one that is
            new or empty.
            For ``fasttext`` a name that ends in ``.ftz`` asks for a quantised model.
        **settings: What the format lets one choose: of ``fasttext``, with a name that ends in ``.ftz``, the fields of
            ``QuantisationConfig`` in ``wenmai.formats.ftz``.

    Raises:
        SettingError: for an unknown format or setting, or a format that has no such model or needs a package that is
            missing; or if the model cannot be quantised.
        RunError: if the run is not finished, is of a system that has nothing for this format, or the path cannot be
            written.
    """
    if name not in EXPORTS:
        raise SettingError(f"cannot export {name!r}{nearest_name(name, EXPORTS)} (formats: {', '.join(EXPORTS)})")
    opened = run if isinstance(run, Run) else Run(run)
    task, export = opened.task, EXPORTS[name]
    if not export.fits(task):
        possible = ", ".join(other for other, one in EXPORTS.items() if one.fits(task)) or "nothing yet"
        raise RunError(
            f"{opened.path}: is a {opened.recipe.system} run, which cannot be exported as {name}; it can as {possible}"
        )
    known = [setting.name for setting in settings_of({"export": export.settings})] if export.settings else []
    for setting in settings:
        if setting not in known:
            listed = f"its settings: {', '.join(known)}" if known else "it has none"
            raise SettingError(f"{name} has no setting {setting!r}{nearest_name(setting, known)} ({listed})")
    target = Path(path)
    try:
        export.write(target, export.model(opened, target, settings))
    except OSError as error:
        raise RunError(f"{target}: cannot be written ({error.strerror})") from None
    return target


def import_run(name: str, path: str | Path, out: str | Path) -> Run:
    """Makes a run of a model from elsewhere; it can do what a trained one of its system can.

    Args:
        name: One of ``IMPORTS``.
        path: The file, of ``huggingface`` the folder.
        out: The run folder to make.

    Raises:
        SettingError: for an unknown format.
        FormatError: if the file is damaged or of another format.
        RunError: if ``out`` exists already.
    """
    if name not in IMPORTS:
        raise SettingError(f"cannot import {name!r}{nearest_name(name, IMPORTS)} (formats: {', '.join(IMPORTS)})")
    folder = Path(out)
    require_room(folder)
    system, settings, made_for = IMPORTS[name].read(Path(path))
    recipe = Recipe.build(system, find_system(system).load().sections, settings)
    model = made_for(recipe)
    summary = {"run": str(folder), "system": system, "imported": str(Path(path).absolute())}
    with claimed(folder):
        try:
            writing_json(folder / ENVIRONMENT, describe_environment())
            with sealed_folder(folder / MODEL) as temporary:
                model.save(temporary)
            size = folder_bytes(folder / MODEL)
            writing_json(folder / SUMMARY, summary | {"vocabulary": IMPORTS[name].tokens(model), "size_bytes": size})
            recipe.write(folder / RECIPE)  # it makes the folder a run
            run = Run(folder)
            run.seal()
        except BaseException as error:
            for file in (RECIPE, ENVIRONMENT, SUMMARY, MODEL):
                remove(folder / file)
            if isinstance(error, OSError):
                raise RunError(f"{folder}: cannot be written ({error.strerror})") from None
            raise
    return run
