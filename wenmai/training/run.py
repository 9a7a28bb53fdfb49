"""A run is a folder: recipe, model, checkpoints, records, environment."""

import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

from wenmai.config.recipe import Recipe, read_recipe
from wenmai.core.errors import FormatError, RunError, SettingError, WenmaiError, require_list, shell_path
from wenmai.core.folder import MANIFEST, check_listed, check_sealed, seal_files
from wenmai.core.registry import find_system
from wenmai.core.showing import Shown, Table
from wenmai.training.checkpoint import Checkpoints
from wenmai.training.records import read_records
from wenmai.vectors.word_vectors import WordVectors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from pandas import DataFrame

    from wenmai.inference.language_model import LanguageModel
    from wenmai.inference.linear_classifier import LinearTextClassifier
    from wenmai.inference.masked_model import MaskedModel
    from wenmai.inference.ngram_model import NgramModel
    from wenmai.inference.text_classifier import TextClassifier
    from wenmai.inference.translator import Translator
    from wenmai.vectors.pooling import Weighting

    Model: TypeAlias = (
        WordVectors | NgramModel | LanguageModel | MaskedModel | Translator | TextClassifier | LinearTextClassifier
    )

__all__ = ["Run", "folder_bytes", "load", "remove", "verify"]

RECIPE, MODEL, CHECKPOINTS, CURVES = "recipe.yaml", "model", "checkpoints", "tensorboard"
METRICS, ENVIRONMENT, SUMMARY, CORPUS = "metrics.jsonl", "environment.json", "summary.json", "corpus.json"
LOCK = ".lock"
_FOLDERS = (MODEL, CHECKPOINTS, CURVES)
_OWN = (*_FOLDERS, RECIPE, METRICS, ENVIRONMENT, SUMMARY, CORPUS, MANIFEST, LOCK)  # only these are ever changed
_AGAIN = "copy or train the model again"
_CHECKED_BYTES = 1 << 28  # of a model, whenever it is read: a quarter of a second, beside the reading
_SEALED = (RECIPE, CORPUS)  # what a resumed training relies on


_Kind = TypeVar("_Kind")


class Run(Shown):
    """A run folder that exists.

    Args:
        path: The folder.
        device: Where a neural model computes: ``cpu``, ``cuda``, or ``auto`` for a GPU if there is one; None: ``cpu``.

    Raises:
        RunError: if there is no run there, or it cannot be read.
    """

    def __init__(self, path: str | Path, device: str | None = None) -> None:
        self.path = Path(path)
        self.device = device
        try:
            if not self.path.is_dir():
                raise RunError(
                    f"{self.path}: {'is a file, not a run folder' if self.path.exists() else 'no such run folder'}"
                )
            if not (self.path / RECIPE).is_file():
                raise RunError(f"{self.path}: is not a run folder (it has no {RECIPE})")
            for name in _OWN:
                _require_own(self.path / name, folder=name in _FOLDERS)
        except OSError as error:  # such as a name that is too long
            raise RunError(f"{self.path}: cannot be read ({error.strerror})") from None

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"path": str(self.path)}
        try:
            facts |= {"system": self.recipe.system, "finished": self.finished}
            shown = ("vocabulary", "parameters", "loss", "seconds", "words_per_second", "tokens_per_second")
            facts |= {name: self.summary.get(name) for name in shown}
        except WenmaiError as error:
            facts["damaged"] = str(error)
        return facts

    def to_dataframe(self) -> "DataFrame":
        """Returns the records of the training as a data frame, a row each.

        Raises:
            SettingError: if pandas is not installed.
        """
        return Table.of(self.records).to_dataframe()

    @classmethod
    def of(cls, run: "str | Path | Run", device: str | None = None) -> "Run":
        """Returns a run, which is opened if its folder is given; on another device if one is given."""
        if not isinstance(run, Run):
            return cls(run, device)
        return run if device in (None, run.device) else cls(run.path, device)

    @cached_property
    def recipe(self) -> Recipe:
        """The settings, fully expanded."""
        found = read_recipe(self.path / RECIPE)
        sections = find_system(found["system"]).load_sections()
        return Recipe.build(
            found["system"], sections, found["settings"], corpus=tuple(found["corpus"]), start=found["start"]
        )

    @property
    def task(self) -> Any:  # noqa: ANN401  the task class of the system
        """The class that trains and reads this kind of model."""
        return find_system(self.recipe.system).load()

    @property
    def finished(self) -> bool:
        """Whether the model is there."""
        return (self.path / MODEL).is_dir()

    @property
    def model_folder(self) -> Path:
        """The folder of the finished model.

        Raises:
            RunError: if the training has not finished, or a part of the model is a link or a special file.
        """
        if not self.finished:
            raise RunError(
                f"{self.path}: the training has not finished; `wenmai resume {shell_path(self.path)}` continues it"
            )
        for path in sorted((self.path / MODEL).rglob("*")):
            _require_own(path, folder=path.is_dir())
        return self.path / MODEL

    def require(self, verb: str) -> None:
        """Makes sure that this kind of model can do something.

        Raises:
            RunError: if it cannot; the message says what it can do.
        """
        if verb not in self.task.verbs:
            raise self._lacks(verb)

    def _lacks(self, what: str) -> RunError:
        verbs = ", ".join(self.task.verbs)
        return RunError(f"{self.path}: is a run of {self.recipe.system}, which has no {what}; it has {verbs}")

    def embed(
        self,
        texts: Iterable[str | Sequence[str]],
        *,
        weighting: "Weighting" = "mean",
        normalise: bool | None = None,
        **options: Any,  # noqa: ANN401  of the encoder
    ) -> "NDArray[np.float32]":
        """Returns the vectors of texts: averages of the vectors of their tokens, float32 [N, d].

        Tokens without a vector do not count; a text with none of them has zeros.

        Args:
            texts: Texts, which are cut into tokens as the training text was (without its phrases); for word vectors
                also lists of tokens, which are taken as they are.
            weighting: Of word vectors: ``mean``, or ``sif``, by which frequent words count less; see
                :func:`wenmai.vectors.pooling.embedded`.
            normalise: Whether vectors have the length 1; None: no, or as an encoder that was imported is used to.
            **options: Of contextual encoders: ``prompt``, the name of what an imported model puts before texts, and
                ``layer``, ``pooling`` and ``concat`` of :func:`wenmai.inference.embedding.embed_texts`.

        Raises:
            RunError: if the run is not finished, or its model has no vectors of texts.
            SettingError: if a weighting is given to a model that learnt its own, or options of encoders to another.
        """
        from wenmai.vectors.lengths import unit_rows

        model = self.model_for("embed")
        require_list(texts, "embed")
        if not isinstance(model, WordVectors):
            if weighting != "mean":
                raise SettingError(f"weighting={weighting} is for word vectors; a {self.recipe.system} has its own")
            self.require_encoder(options)
            if "prompt" in options and not hasattr(model, "embedding"):
                raise SettingError(f"{self.recipe.system} has no prompts that stand before texts; leave prompt out")
            found: NDArray[np.float32] = model.embed(texts, **options)
            return unit_rows(found) if normalise else found
        self.require_encoder(options)
        from wenmai.data.features import segmented

        given = list(texts)
        tokens = iter(segmented([text for text in given if isinstance(text, str)], self.recipe.sections["text"]))
        found = model.embed([next(tokens) if isinstance(text, str) else text for text in given], weighting=weighting)
        return unit_rows(found) if normalise else found

    def require_encoder(self, options: Iterable[str] = ("words",)) -> None:
        """Makes sure that options of contextual encoders, if there are any, are for one.

        Raises:
            SettingError: if the model gives each word one vector in every context.
        """
        if named := ", ".join(options):
            model = self.model_for("embed")
            if not hasattr(model, "embed_words"):
                raise SettingError(
                    f"{named}: for contextual encoders such as bert, not for {self.recipe.system}; leave it out"
                )

    @property
    def vectors(self) -> WordVectors:
        """The word vectors of the finished model.

        Raises:
            RunError: if it has none.
        """
        if "nearest" not in self.task.verbs:
            raise self._lacks("vectors of words")
        vectors: WordVectors = self.model
        return vectors

    @cached_property
    def model(self) -> Any:  # noqa: ANN401  each task's own
        """The finished model with the verbs of its task, such as word vectors or a translator."""
        return self.read_model()

    def read_model(self) -> Any:  # noqa: ANN401  each task's own
        """Reads the finished model anew; the run does not keep it in memory, as it does :attr:`model`.

        Raises:
            FormatError: if a file of the model is damaged, or (up to 256 MiB) has changed since it was written.
        """
        return _placed(self._read_unchanged(self.task.load), self.device or "cpu", self.recipe.system)

    def read_base(self) -> Any:  # noqa: ANN401  each task's own
        """Reads all of the finished model, for a training that continues it; raises as :meth:`read_model`."""
        return self._read_unchanged(self.task.load_base)

    def _read_unchanged(self, read: Callable[[Path], Any]) -> Any:  # noqa: ANN401
        """Reads the model, and meanwhile compares its files with their checksums if they are not too large for that."""
        folder = self.model_folder
        with ThreadPoolExecutor(1) as pool:
            check = pool.submit(check_sealed, folder) if folder_bytes(folder) <= _CHECKED_BYTES else None
            try:
                found = read(folder)
            except FormatError as error:
                advice = "" if _AGAIN in str(error) else f"; {_AGAIN}"
                raise FormatError(f"{error}{advice}") from None
        if check is not None and (problems := check.result()):
            raise FormatError(f"{problems[0]}; {_AGAIN}")
        return found

    def model_for(self, verb: str) -> Any:  # noqa: ANN401  a protocol of `wenmai.inference.verbs`
        """Returns the finished model, which has a verb.

        Raises:
            RunError: if it has not, or is not finished.
        """
        self.require(verb)
        return self.model

    @property
    def summary(self) -> dict[str, Any]:
        """What the training ended with: words_per_second, loss, seconds, peak_memory_bytes ..."""
        return self._json(SUMMARY)

    @property
    def corpus(self) -> dict[str, Any]:
        """The corpus that was trained on: fingerprint, counts, sources."""
        return self._json(CORPUS)

    @property
    def environment(self) -> dict[str, Any]:
        """Versions and machine."""
        return self._json(ENVIRONMENT)

    @property
    def records(self) -> list[dict[str, Any]]:
        """All records of the training, in order."""
        return read_records(self.path / METRICS)

    @property
    def checkpoints(self) -> Checkpoints:
        """The checkpoints of a training that has not finished."""
        return Checkpoints(self.path / CHECKPOINTS)

    def clear_leftovers(self) -> None:
        """Removes what a killed process left half-written, and links: a training would write through them."""
        checkpoints = self.path / CHECKPOINTS
        for path in (*self.path.glob(".*.tmp"), *checkpoints.glob(".*.tmp")):
            remove(path)
        for path in checkpoints.rglob("*"):
            if path.is_symlink():
                remove(path)

    def seal(self) -> None:
        """Writes the checksums of recipe and corpus, which :meth:`changed_files` compares."""
        seal_files(self.path, [name for name in _SEALED if (self.path / name).exists()])

    def changed_files(self) -> list[str]:
        """Returns how recipe and corpus have changed since the training, one sentence each.

        Runs of earlier versions have no checksums, so nothing is found.
        """
        return check_listed(self.path) if (self.path / MANIFEST).exists() else []

    @property
    def model_bytes(self) -> int:
        """Size of the model on disk."""
        return folder_bytes(self.model_folder)

    def _json(self, name: str) -> dict[str, Any]:
        path = self.path / name
        try:
            content = json.loads(path.read_bytes())
        except FileNotFoundError:
            return {}
        except (ValueError, RecursionError, OSError) as error:
            raise RunError(f"{path}: is damaged ({error})") from None
        if not isinstance(content, dict):
            raise RunError(f"{path}: is damaged (expected a JSON object)")
        return content


def _placed(model: Any, device: str, system: str) -> Any:  # noqa: ANN401  each task's own
    """Returns a model on a device.

    Raises:
        SettingError: for an unknown device, one that is not there, or a model that cannot be moved to it.
    """
    if device == "cpu":
        return model
    if device not in ("auto", "cuda"):
        raise SettingError(f"device={device!r}: expected auto, cpu or cuda")
    if not hasattr(model, "module"):
        if device != "auto":
            raise SettingError(f"device={device}: a model of {system} computes on the processor; leave the device out")
        return model
    from wenmai.training.strategy import SINGLE

    model.module.to(SINGLE.device("cuda" if device == "cuda" else "auto"))
    return model


def _require_own(path: Path, *, folder: bool) -> None:
    """Raises RunError if the path is neither a plain folder nor a plain file, such as a link or a pipe."""
    if path.is_symlink() or (path.exists() and not (path.is_dir() if folder else path.is_file())):
        kind = "folder" if folder else "file"
        raise RunError(f"{path}: must be a {kind} of the run itself, not a link or anything else")


@overload
def load(path: str | Path, *, device: str | None = None) -> "Model": ...


@overload
def load(path: str | Path, kind: type[_Kind], *, device: str | None = None) -> _Kind: ...


def load(path: str | Path, kind: type | None = None, *, device: str | None = None) -> Any:
    """Loads the model of a finished run, such as :class:`WordVectors` or a translator.

    Args:
        path: A run folder.
        kind: The class that the model has, for editors and type checkers, as in ``load(path, WordVectors)``.
        device: Where a neural model computes; see :class:`Run`.

    Raises:
        RunError: if it is not a finished run, or its model is of another class.
        FormatError: if the model is damaged.
    """
    model = Run(path, device).model
    if kind is not None and not isinstance(model, kind):
        raise RunError(f"{path}: its model is a {type(model).__name__}, not a {kind.__name__}")
    return model


def folder_bytes(folder: Path) -> int:
    """Returns the size of all files in a folder but the manifest, which is written last."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and file.name != MANIFEST)


def remove(path: Path) -> None:
    """Removes a file, a folder, or a link alone, if it can."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def verify(path: str | Path) -> tuple[list[str], list[str]]:
    """Reads every byte of a run and compares it with the checksums written when it was made.

    Returns:
        What was checked, and what is wrong (one sentence each; empty if all is well).
    """
    run = Run(path)
    checked, problems = [], []
    try:
        recipe = run.recipe
        checked.append(f"recipe: {recipe.system}")
    except WenmaiError as error:
        problems.append(str(error))
    problems += run.changed_files()
    folders = [run.path / MODEL] if run.finished else []
    folders += sorted((run.path / CHECKPOINTS).glob("step-*"))
    for folder in folders:
        if folder.is_symlink():
            problems.append(f"{folder} is a link, and none of the run's checkpoints")
            continue
        found = []
        with suppress(RunError):  # it may be gone at any moment, as below
            found = check_sealed(folder)
        if not folder.is_dir():  # any more: a training has removed this checkpoint
            continue
        problems += found
        checked.append(f"{folder.relative_to(run.path)}: {'damaged' if found else 'good'}")
    if not run.finished:
        good, _, _ = run.checkpoints.newest_good()
        state = f"resume would continue from {good.name}" if good else "resume would start over"
        checked.append(f"not finished: {state}")
    begun = run.finished or any((run.path / CHECKPOINTS).glob("step-*"))
    with suppress(RunError):  # which is told below
        begun = begun and "imported" not in run.summary  # that had no corpus
    for name in (ENVIRONMENT, *((CORPUS, METRICS) if begun else ()), *((SUMMARY,) if run.finished else ())):
        missing = f"{run.path / name} is missing"
        if not (run.path / name).exists() and missing not in problems:
            problems.append(missing)
    for name in (SUMMARY, CORPUS, ENVIRONMENT):
        try:
            run._json(name)
        except RunError as error:
            problems.append(str(error))
    return checked, problems
