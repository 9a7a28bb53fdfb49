"""Train, resume and continue."""

from contextlib import ExitStack
from datetime import datetime
from functools import cached_property
from itertools import chain, count
from pathlib import Path
from typing import Any

from wenmai.config.recipe import Recipe, named_settings, read_recipe
from wenmai.core.errors import CorpusError, RunError, SettingError, shell_path
from wenmai.core.folder import MANIFEST, cache_folder, file_sha256, sealed_folder, writing_json
from wenmai.core.registry import find_system
from wenmai.data.sources import named_texts
from wenmai.runs.environment import describe_environment, peak_memory_bytes
from wenmai.runs.explaining import explaining, how_to_continue, writable
from wenmai.runs.owner import claimed, owned
from wenmai.runs.planning import overruled, plan
from wenmai.tasks.task import Data, Job, Opened, Resumed, Session
from wenmai.training.callback import Callback
from wenmai.training.progress import following
from wenmai.training.records import Record, RecordFile
from wenmai.training.run import (
    CORPUS,
    ENVIRONMENT,
    METRICS,
    MODEL,
    RECIPE,
    SUMMARY,
    Run,
    folder_bytes,
    remove,
)
from wenmai.training.strategy import Strategy, launched_strategy, several_processes

__all__ = ["Callback", "read_again", "resume", "train", "train_recipe", "training_of"]

BASE = "continues"  # the field of corpus.json for the base run


def train(
    system: str,
    corpus: Any,  # noqa: ANN401  what Corpus.of takes
    *,
    out: str | Path | None = None,
    start: str | Path | Run | None = None,
    callback: Callback | None = None,
    quiet: bool = False,
    **settings: Any,  # noqa: ANN401  checked against the system's settings
) -> Run:
    """Trains a system on a corpus.

    Args:
        system: A name that ``wenmai systems`` lists, such as ``"word2vec"``.
        corpus: A path, folder, glob, ``"builtin:pydocs"``, ``"data:NAME"``, ``"-"`` for stdin, several of them, or an
            iterable of sentences (strings or lists of tokens).
        out: The run folder to make; by default ``runs/SYSTEM-DATE-TIME``.
        start: A finished run to continue; its vocabulary grows.
        callback: Follows the training; by default its progress is printed on standard error.
        quiet: Print only warnings; a callback decides for itself.
        **settings: Any setting of the system, for example ``vector_size=200, epochs=3``; names as in other tools, such
            as ``size``, are understood too.

    Returns:
        The finished run.

    Raises:
        SettingError: for an unknown system or setting.
        CorpusError: if the text cannot be read.
        RunError: if ``out`` exists already.
    """
    recipe, opened = plan(system, corpus, start=start, **settings)
    if out is None and several_processes():
        raise SettingError("several processes train one model together; name its folder with --out")
    folder = Path(out) if out is not None else _new_name(system)
    strategy = _strategy(recipe.system)
    if not strategy.first:
        return _join(folder, strategy)
    with following(callback, quiet=quiet) as follower:
        return _begin(recipe, opened, folder, follower, strategy)


def _strategy(system: str) -> Strategy:
    """Returns the strategy of the processes of this training.

    Raises:
        SettingError: if there are several, but the system supports only one.
    """
    if several_processes() and not find_system(system).load().replicated:
        raise SettingError(f"{system} is trained by one process with threads; start it without torchrun")
    return launched_strategy()


def _new_name(system: str) -> Path:
    """A new folder ``runs/SYSTEM-DATE-TIME``, with a number if several begin in a second."""
    first = Path("runs") / f"{system}-{datetime.now():%Y%m%d-%H%M%S}"
    names = chain([first], (first.with_name(f"{first.name}-{number}") for number in count(2)))
    return next(name for name in names if not name.exists())


def train_recipe(
    path: str | Path,
    *,
    out: str | Path | None = None,
    callback: Callback | None = None,
    quiet: bool = False,
    **settings: Any,  # noqa: ANN401
) -> Run:
    """Trains by a recipe file; ``settings`` override it, and so does what they imply where it has the defaults.

    See :func:`train`.

    Raises:
        SettingError: if it is no recipe, names no corpus, or a setting is its system, corpus or start.
    """
    found = read_recipe(path)
    for name in ("system", "corpus", "start"):
        if name in settings:
            raise SettingError(f"{path}: names its own {name}; leave {name} out, or change the recipe")
    if not found["corpus"]:
        raise SettingError(f"{path}: names no corpus; add `corpus: [PATH]`, or give the text to `wenmai train SYSTEM`")
    described = find_system(found["system"])
    task = described.load()
    given = named_settings(task.sections, settings)
    written = {name.rpartition(".")[2]: value for name, value in found["settings"].items()}
    usual = {name for name, value in described.settings.items() if written.get(name) == value}
    implied = {name: value for name, value in task.implied(given, None).items() if name in usual}
    return train(
        found["system"],
        named_texts(found["corpus"]),
        out=out,
        start=found["start"],
        callback=callback,
        quiet=quiet,
        **overruled(found["settings"], {**implied, **given}),
    )


def resume(
    path: str | Path,
    *,
    corpus: Any = None,  # noqa: ANN401  whatever names or holds a corpus
    callback: Callback | None = None,
    quiet: bool = False,
) -> Run:
    """Continues an interrupted training from its newest good checkpoint.

    With one thread, or in deterministic mode, the result is the same to the bit as without the interruption. A
    finished run is returned as it is, so that a script may call this until it succeeds.

    Args:
        path: The run folder.
        corpus: What it was given to train on, once more; None: it is read where it was, or from its encoded copy.
        callback: As of :func:`train`.
        quiet: As of :func:`train`.

    Raises:
        RunError: if its corpus, or the run that it continues, is gone or has changed.
    """
    run = Run(path)
    if not run.finished:
        _require_unchanged(run)  # before anything in it is used
    strategy = _strategy(run.recipe.system)
    if not strategy.first:
        return _join(run.path, strategy, corpus)
    with following(callback, quiet=quiet) as follower:
        return _resume(run, strategy, follower, corpus)


def _resume(run: Run, strategy: Strategy, callback: Callback, corpus: Any) -> Run:  # noqa: ANN401
    """Continues a training in the first process."""
    with ExitStack() as held:
        with strategy.meeting():
            held.enter_context(owned(run))
            held.enter_context(explaining(run))
            if run.finished:
                run.checkpoints.clear()
                more = f"`wenmai train --from {shell_path(run.path)} CORPUS` continues it on new text"
                if run.recipe.system.startswith("finetuned-"):
                    more = f"`wenmai finetune {shell_path(run.path)} EXAMPLES` continues it on new examples"
                callback.note(f"{run.path}: the training has finished already; {more}")
                return run
            run.clear_leftovers()
            base = _Base(run)
            data = _read_again(run, base, callback, corpus)
            newest, state, passed_over = run.checkpoints.newest_good()
            for problem in passed_over:
                callback.note(f"passed over a damaged checkpoint: {problem}")
            if newest is None and passed_over:
                callback.note("no whole checkpoint is left: the training begins anew")
            if newest is None:
                job, resumed = _first_job(run, data, base, strategy), None
            else:
                job = run.task.restore(run.recipe, data, newest, _beginning(run), strategy)
                resumed = newest, state
        return _go_on(run, job, base, resumed, callback, strategy)


def _join(folder: Path, strategy: Strategy, corpus: Any = None) -> Run:  # noqa: ANN401
    """Trains with the first process, which alone writes the run."""
    strategy.wait()  # until the folder is there and the text is encoded
    run = Run(folder)
    if run.finished:
        return run
    base = _Base(run)
    data = _read_again(run, base, Callback(), corpus)
    newest, state, _ = run.checkpoints.newest_good()
    if newest is None:
        job = run.task.begin(run.recipe, data, base.model, strategy)
    else:
        job = run.task.restore(run.recipe, data, newest, _beginning(run), strategy)
    resumed = None if newest is None else (newest, state)
    job.train(Session(run.checkpoints, lambda record: None, resumed, strategy))
    strategy.wait()  # until the model is written
    return run


def _begin(
    recipe: Recipe,
    opened: Opened,
    folder: Path,
    callback: Callback,
    strategy: Strategy,
) -> Run:
    """Makes the run folder before the text is read, so that a training killed meanwhile can be resumed."""
    with ExitStack() as held:
        with strategy.meeting():
            run, job, base = _prepare(recipe, opened, folder, callback, strategy, held)
        return _go_on(run, job, base, None, callback, strategy)


def _prepare(
    recipe: Recipe,
    opened: Opened,
    folder: Path,
    callback: Callback,
    strategy: Strategy,
    held: ExitStack,
) -> tuple[Run, Job, "_Base"]:
    """Makes the folder, owned while ``held``, reads the text and begins; an error leaves nothing behind."""
    held.enter_context(claimed(folder))
    for note in opened.notes:
        callback.note(note)
    try:
        with writable(folder):
            writing_json(folder / ENVIRONMENT, describe_environment())
            recipe.write(folder / RECIPE)
            run = Run(folder)
            run.seal()
        base = _Base(run)
        data = run.task.source.read(recipe, opened.source, callback.encoding_corpus, base.model)
        with writable(folder):
            job = _first_job(run, data, base, strategy)
    except BaseException as error:
        again = how_to_continue(folder) if opened.repeatable and (folder / RECIPE).exists() else ""
        if isinstance(error, KeyboardInterrupt) and again:
            error.add_note(again)
        else:  # an error in the settings or the text
            for name in (ENVIRONMENT, MANIFEST, CORPUS, RECIPE):
                remove(folder / name)
        raise
    held.enter_context(explaining(run))
    return run, job, base


def _first_job(run: Run, data: Data, base: "_Base", strategy: Strategy) -> Job:
    """Begins a training, which finds errors in the settings that depend on the data; notes its data."""
    job: Job = run.task.begin(run.recipe, data, base.model, strategy)
    noted = {**job.notes(), "manifest_sha256": base.manifest_sha256}
    writing_json(run.path / CORPUS, {"fingerprint": data.fingerprint, **data.describe(), BASE: noted})
    run.seal()
    return job


def _go_on(run: Run, job: Job, base: "_Base", resumed: Resumed | None, callback: Callback, strategy: Strategy) -> Run:
    """Trains a run from wherever it is to the end."""
    position = int(resumed[0].name.removeprefix("step-")) if resumed is not None else 0
    callback.begin(run, {"system": run.recipe.system, "position": position, **job.facts()})
    for note in job.warnings():
        callback.note(note)
    records = RecordFile(run.path / METRICS, position=position)

    def report(record: Record) -> None:
        records(record)
        callback.record(record)

    try:
        job.train(Session(run.checkpoints, report, resumed, strategy, callback.evaluating))
    finally:
        records.close()
    with strategy.meeting():
        peak = peak_memory_bytes()
        more, notes = job.changes(base.model)
        with sealed_folder(run.path / MODEL) as folder:
            job.save(folder)
            summary = {"run": str(run.path), "system": run.recipe.system, **job.summary(), "peak_memory_bytes": peak}
            summary |= {"size_bytes": folder_bytes(folder), **more}
            writing_json(run.path / SUMMARY, summary)  # before the run counts as done
    run.checkpoints.clear()
    for note in notes:
        callback.note(note)
    return run


def training_of(run: Run) -> Job:
    """Returns the training of a run as far as it has got, without going on with it.

    Raises:
        RunError: if its data are gone or have changed, or a file is damaged.
    """
    base = _Base(run)
    data = _read_again(run, base, Callback())
    newest = run.model_folder if run.finished else run.checkpoints.newest_good()[0]
    if newest is None:
        begun: Job = run.task.begin(run.recipe, data, base.model)
        return begun
    restored: Job = run.task.restore(run.recipe, data, newest, _beginning(run))
    return restored


def read_again(run: Run) -> Any:  # noqa: ANN401  the data of its source
    """Opens the data of a run, reading them again if they are no longer in the cache.

    Raises:
        RunError: if they are gone or have changed.
    """
    return _read_again(run, _Base(run), Callback())


def _read_again(run: Run, base: "_Base", callback: Callback, corpus: Any = None) -> Data:  # noqa: ANN401
    """Opens the data of a run, reading them again, of ``corpus`` if it is given, if they are no longer in the cache.

    Raises:
        RunError: if they are gone or have changed.
    """
    fingerprint = str(run.corpus.get("fingerprint", ""))  # none if it was killed while reading the data
    try:
        data: Data | None = run.task.source.reopen(fingerprint) if fingerprint else None
    except RunError as error:
        raise RunError(f"{run.path / CORPUS}: is damaged ({error})") from None
    if data is not None:
        return data
    names = run.recipe.corpus
    if corpus is None and (not names or "-" in names):
        raise RunError(
            f"{run.path}: its corpus came from memory or standard input, and its encoded copy in "
            f"{cache_folder()} is gone, damaged or was never finished; give it to wenmai.resume(RUN, corpus=...), or "
            "train again"
        )
    try:
        opened = run.task.source.open(named_texts(names) if corpus is None else corpus)
        if names and list(opened.names) != list(names):
            raise RunError(f"{run.path}: began with the corpus {', '.join(names)}, not with the one that is given")
        data = run.task.source.read(run.recipe, opened.source, callback.encoding_corpus, base.model)
    except CorpusError as error:
        raise RunError(f"{run.path}: its corpus cannot be read any more: {error}") from None
    if fingerprint and data.fingerprint != fingerprint:
        if corpus is not None:
            raise RunError(
                f"{run.path}: the training began with another corpus than the one that is given; train again"
            )
        raise RunError(f"{run.path}: its corpus {', '.join(names)} has changed since the training began; train again")
    return data


def _require_unchanged(run: Run) -> None:
    """Makes sure that recipe and corpus are those of the training.

    Raises:
        RunError: if they have changed.
    """
    if problems := run.changed_files():
        raise RunError(
            f"{'; '.join(problems)}. A training is resumed only as it began: restore the file, or train anew from the "
            f"recipe: `wenmai train {shell_path(run.path / RECIPE)} --out NEW`"
        )


def _beginning(run: Run) -> dict[str, Any]:
    """Returns what was noted when the training began.

    Raises:
        RunError: if it is missing.
    """
    noted = run.corpus.get(BASE)
    if not isinstance(noted, dict):
        raise RunError(f"{run.path / CORPUS}: is missing or damaged (it has no {BASE!r}); train again")
    return noted


class _Base:
    """The finished run that a training continues, if any; its model is read once, when it is first needed."""

    def __init__(self, run: Run) -> None:
        self._run = run

    @cached_property
    def model(self) -> Any:  # noqa: ANN401  the task's own
        """The whole model, as the task of its own run reads it; None if there is no such run."""
        return None if self.run is None else self.run.read_base()

    @cached_property
    def run(self) -> Run | None:
        """The run that is continued.

        Raises:
            RunError: if it is gone or has changed.
        """
        started, recipe = self._run, self._run.recipe
        if recipe.start is None:
            return None
        noted = _beginning(started).get("manifest_sha256") if started.corpus else None  # none yet: it begins
        try:
            base = Run(recipe.start)
            now = file_sha256(base.model_folder / MANIFEST)
        except (RunError, OSError) as error:
            raise RunError(f"{started.path}: the run that it continues cannot be read: {error}") from None
        if noted not in (None, now):
            raise RunError(f"{started.path}: the run that it continues, {base.path}, has changed since; train again")
        return base

    @property
    def manifest_sha256(self) -> str | None:
        """What identifies the model."""
        return None if self.run is None else file_sha256(self.run.model_folder / MANIFEST)
