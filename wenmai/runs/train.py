"""Train, resume and continue."""

import math
import shlex
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import datetime
from itertools import chain, count
from pathlib import Path
from typing import Any

from wenmai.config.recipe import Recipe, read_recipe
from wenmai.core.errors import CorpusError, RunError, SettingError
from wenmai.core.folder import MANIFEST, cache_folder, check_sealed, file_sha256, sealed_folder, writing_json
from wenmai.core.registry import find_system
from wenmai.data.corpus import Corpus
from wenmai.data.numbered import NumberedCorpus, number_corpus
from wenmai.runs.environment import describe_environment, peak_memory_bytes
from wenmai.runs.run import (
    CHECKPOINTS,
    CORPUS,
    ENVIRONMENT,
    METRICS,
    MODEL,
    RECIPE,
    SUMMARY,
    Run,
    folder_bytes,
    remove,
    require_room,
)
from wenmai.training.records import Record, RecordFile
from wenmai.training.sweep import SweepConfig, Totals, sweep

__all__ = ["Watcher", "in_catalogue", "named_texts", "plan", "read_numbered", "resume", "train", "train_recipe"]

BASE = "continues"  # what corpus.json notes of the run that is continued


class Watcher:
    """Follows a training; the shell shows progress with one. Every method may be left as it is."""

    def numbering(self, done_bytes: int, total_bytes: int | None) -> None:
        """The corpus is being read."""

    def begin(self, run: Run, facts: dict[str, Any]) -> None:
        """Training begins; ``facts`` has system, tokens, types, vocabulary, blocks, threads."""

    def record(self, record: Record) -> None:
        """A record of the training."""

    def note(self, message: str) -> None:
        """Something worth telling: a damaged checkpoint passed over, skipped lines, drift of old vectors."""


def train(
    system: str,
    corpus: Any,  # noqa: ANN401  whatever Corpus.of takes
    *,
    out: str | Path | None = None,
    start: str | Path | None = None,
    watcher: Watcher | None = None,
    **settings: Any,  # noqa: ANN401  checked against the system's settings
) -> Run:
    """Trains a system on a corpus.

    Args:
        system: A name that ``wenmai systems`` lists, such as ``"word2vec"``.
        corpus: A path, folder, glob, ``"builtin:pydocs"``, ``"data:NAME"``, ``"-"`` for stdin, several of them, or an
            iterable of sentences (strings or lists of tokens).
        out: The run folder to make; by default ``runs/SYSTEM-DATE-TIME``.
        start: A finished run to continue: its vocabulary grows, its vectors are the starting point.
        watcher: Follows the training.
        **settings: Any setting of the system, for example ``vector_size=200, epochs=3``.

    Returns:
        The finished run.

    Raises:
        SettingError: for an unknown system or setting.
        CorpusError: if the text cannot be read.
        RunError: if ``out`` exists already.
    """
    recipe, opened = plan(system, corpus, start=start, **settings)
    folder = Path(out) if out is not None else _new_name(system)
    require_room(folder)
    return _begin(recipe, opened, folder, watcher or Watcher())


def _new_name(system: str) -> Path:
    """A folder that is not there yet: ``runs/SYSTEM-DATE-TIME``, numbered if several begin in a second."""
    first = Path("runs") / f"{system}-{datetime.now():%Y%m%d-%H%M%S}"
    names = chain([first], (first.with_name(f"{first.name}-{number}") for number in count(2)))
    return next(name for name in names if not name.exists())


def plan(
    system: str,
    corpus: Any,  # noqa: ANN401
    *,
    start: str | Path | None = None,
    **settings: Any,  # noqa: ANN401
) -> tuple[Recipe, Corpus]:
    """Returns what :func:`train` would do with the same arguments, and on which text; raises as it does."""
    described = find_system(system)
    task = described.load()
    chosen = {**described.settings, **settings}
    if start is not None:
        start = Path(start).absolute()
        _inherit(Run(start).recipe, described.name, task.sections, chosen)
    opened, hints, names = _opened(corpus)
    named = {name.partition(".")[2] or name for name in chosen}
    chosen |= {f"text.{name}": value for name, value in hints.items() if name not in named}
    recipe = Recipe.build(system, task.sections, chosen, corpus=names, start=None if start is None else str(start))
    return recipe, opened


def train_recipe(
    path: str | Path,
    *,
    out: str | Path | None = None,
    watcher: Watcher | None = None,
    **settings: Any,  # noqa: ANN401
) -> Run:
    """Trains as a recipe file says; ``settings`` overrule it. See :func:`train`."""
    found = read_recipe(path)
    if not found["corpus"]:
        raise SettingError(f"{path}: names no corpus; add `corpus: [PATH]`, or give the text to `wenmai train SYSTEM`")
    return train(
        found["system"],
        named_texts(found["corpus"]),
        out=out,
        start=found["start"],
        watcher=watcher,
        **_overruled(found["settings"], settings),
    )


def resume(path: str | Path, *, watcher: Watcher | None = None) -> Run:
    """Goes on with a training that was interrupted, from its newest good checkpoint.

    With one thread, or in deterministic mode, the result is the same to the bit as without the interruption. A run
    that has finished is returned as it is, so that a script may call this until it succeeds.

    Raises:
        RunError: if its corpus, or the run that it continues, is gone or has changed.
    """
    run, watcher = Run(path), watcher or Watcher()
    with _alone(run), _explaining(run):
        if run.finished:
            run.checkpoints.clear()
            more = f"`wenmai train --from {shlex.quote(str(run.path))} CORPUS` continues it on new text"
            watcher.note(f"{run.path}: the training has finished already; {more}")
            return run
        for leftover in (*run.path.glob(".*.tmp"), *(run.path / CHECKPOINTS).glob(".*.tmp")):
            remove(leftover)  # half-written by a process that was killed
        numbered = read_numbered(run, watcher)
        checkpoint, state, passed_over = run.checkpoints.newest_good()
        for problem in passed_over:
            watcher.note(f"passed over a damaged checkpoint: {problem}")
        if checkpoint is None:
            job, totals = _first_job(run, numbered), Totals()
        else:
            job = run.task.restore(run.recipe, numbered, checkpoint, old_rows=run.corpus[BASE]["words"])
            state["last_epoch_loss"] = math.nan if state["last_epoch_loss"] is None else state["last_epoch_loss"]
            totals = Totals(**state)
        return _go_on(run, numbered, job, totals, watcher)


def _begin(recipe: Recipe, corpus: Corpus, folder: Path, watcher: Watcher) -> Run:
    """Makes the run folder before the text is read, so that a training killed meanwhile can be resumed too."""
    made = not folder.exists()
    with ExitStack() as held:
        try:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                writing_json(folder / ENVIRONMENT, describe_environment())
                recipe.write(folder / RECIPE)
            except OSError as error:
                raise RunError(f"{folder}: cannot be written ({error.strerror}); choose another --out") from None
            run = Run(folder)
            held.enter_context(_alone(run))
            numbered = number_corpus(corpus, recipe.sections["text"], progress=watcher.numbering)
            job = _first_job(run, numbered)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and corpus.repeatable:
                error.add_note(_how_to_go_on(folder))
            else:  # a mistake in the settings or the text leaves nothing behind
                for name in (ENVIRONMENT, RECIPE, CORPUS):
                    remove(folder / name)
                if made:
                    remove(folder)
            raise
        held.enter_context(_explaining(run))
        return _go_on(run, numbered, job, Totals(), watcher)


def _first_job(run: Run, numbered: NumberedCorpus) -> Any:  # noqa: ANN401  what the task trains
    """Begins a training, which shows mistakes in the settings that only the corpus shows; notes what it is of."""
    base = _base(run)
    job = run.task.begin(run.recipe, numbered, None if base is None else run.task.load_model(base.model_folder))
    writing_json(
        run.path / CORPUS,
        {
            "fingerprint": numbered.fingerprint,
            "sources": [{"path": str(path), "bytes": size, "sha256": sha} for path, size, sha in numbered.sources],
            "text": numbered.text,
            "stats": asdict(numbered.stats),
            BASE: {"words": job.old_rows, "manifest_sha256": _manifest_sha256(base)},
        },
    )
    return job


def _go_on(run: Run, numbered: NumberedCorpus, job: Any, totals: Totals, watcher: Watcher) -> Run:  # noqa: ANN401
    """Trains a run from wherever it is to the end."""
    config: SweepConfig = run.recipe.sections["train"]
    base = _base(run)
    watcher.begin(
        run,
        {
            "system": run.recipe.system,
            "tokens": len(numbered),
            "types": len(numbered.counts),
            "vocabulary": len(job.model.vocab),
            "new_words": len(job.model.vocab) - job.old_rows if base is not None else None,
            "epochs": config.epochs,
            "threads": config.worker_count,
            "position": totals.position,
            "stats": asdict(numbered.stats),
        },
    )
    records = RecordFile(run.path / METRICS, position=totals.position)

    def report(record: Record) -> None:
        records(record)
        watcher.record(record)

    try:
        sweep(
            job,
            config,
            learning_rate=job.learning_rate,
            totals=totals,
            checkpoints=run.checkpoints,
            report=report,
        )
    finally:
        records.close()
    peak = peak_memory_bytes()
    drift = job.drift(base.vectors) if base is not None else None
    with sealed_folder(run.path / MODEL) as folder:
        job.save(folder)
        summary = _summary(run, job, totals, config, peak) | {"size_bytes": folder_bytes(folder)}
        writing_json(run.path / SUMMARY, summary | ({"drift": drift} if drift else {}))  # before the run counts as done
    run.checkpoints.clear()
    if math.isnan(totals.last_epoch_loss):
        watcher.note(
            "nothing was learnt: no word stood beside another. One word a line has no neighbours; of a very small "
            "text sub-sampling may leave too little (sample=0 keeps all)"
        )
    if drift:
        furthest = ", ".join(repr(word) for word, _ in drift["furthest"][:3])
        watcher.note(
            f"{drift['seen_words']:,} of {drift['old_words']:,} old words occur in the new text; they moved by "
            f"{drift['mean_cosine_distance']:.3f} on average (cosine distance), most {furthest or 'none'}"
        )
    return run


def read_numbered(run: Run, watcher: Watcher) -> NumberedCorpus:
    """Opens the numbered corpus of a run, numbering the text again if it is no longer in the cache.

    Raises:
        RunError: if neither is there any more, or the text has changed.
    """
    fingerprint = str(run.corpus.get("fingerprint", ""))  # none if the text was still being read when it was killed
    folder = cache_folder() / "corpora" / fingerprint
    kept = bool(fingerprint) and folder.is_dir()
    if kept and not check_sealed(folder):
        return NumberedCorpus.open(folder)
    sources = run.recipe.corpus
    if not sources or "-" in sources:
        raise RunError(
            f"{run.path}: its corpus came from memory or standard input, and the numbered copy of it in "
            f"{folder.parent} is gone, damaged or was never finished; train again"
        )
    if kept:
        remove(folder)  # damaged, perhaps where only a checksum shows it
    try:
        corpus, _, _ = _opened(named_texts(sources))
        numbered = number_corpus(corpus, run.recipe.sections["text"], progress=watcher.numbering)
    except CorpusError as error:
        raise RunError(f"{run.path}: its corpus cannot be read any more: {error}") from None
    if fingerprint and numbered.fingerprint != fingerprint:
        raise RunError(f"{run.path}: its corpus {', '.join(sources)} has changed since the training began; train again")
    return numbered


def _base(run: Run) -> Run | None:
    """Returns the run that this one continues, if any.

    Raises:
        RunError: if it is gone, or is no longer the same.
    """
    if run.recipe.start is None:
        return None
    noted = run.corpus.get(BASE, {}).get("manifest_sha256")
    try:
        base = Run(run.recipe.start)
        now = _manifest_sha256(base)
    except (RunError, OSError) as error:
        raise RunError(f"{run.path}: the run that it continues cannot be read: {error}") from None
    if noted not in (None, now):
        raise RunError(f"{run.path}: the run that it continues, {base.path}, has changed since; train again")
    return base


def _manifest_sha256(base: Run | None) -> str | None:
    """Returns what identifies the model of a run."""
    return None if base is None else file_sha256(base.model_folder / MANIFEST)


@contextmanager
def _alone(run: Run) -> Iterator[None]:
    """Keeps two processes from training one run; the lock ends with its process.

    Raises:
        RunError: if another process trains it.
    """
    try:
        import fcntl
    except ImportError:  # Windows: nothing guards there
        yield
        return
    with open(run.path / RECIPE, "rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(f"{run.path}: another process is training this run now; wait, or stop it first") from None
        except OSError:  # some network file systems have no locks
            pass
        yield


@contextmanager
def _explaining(run: Run) -> Iterator[None]:
    """Says how to go on after an interrupt or when the disk is full."""
    try:
        yield
    except KeyboardInterrupt as error:
        error.add_note(_how_to_go_on(run.path))
        raise
    except OSError as error:
        problem = f"{run.path}: cannot be written ({error.strerror or error})"
        raise RunError(f"{problem}; when that is solved, {_how_to_go_on(run.path)}") from None


def _how_to_go_on(folder: Path) -> str:
    return f"`wenmai resume {shlex.quote(str(folder))}` goes on"


def _summary(run: Run, job: Any, totals: Totals, config: SweepConfig, peak: int | None) -> dict[str, Any]:  # noqa: ANN401
    return {
        "run": str(run.path),
        "system": run.recipe.system,
        "words_per_second": totals.words / totals.seconds if totals.seconds else 0.0,
        "loss": None if math.isnan(totals.last_epoch_loss) else totals.last_epoch_loss,
        "objective": job.objective,
        "seconds": totals.seconds,
        "peak_memory_bytes": peak,
        "vocabulary": len(job.model.vocab),
        "words": totals.words,
        "epochs": config.epochs,
        "threads": config.worker_count,
    }


def _opened(corpus: Any) -> tuple[Corpus, dict[str, Any], tuple[str, ...]]:  # noqa: ANN401
    """Opens whatever names or holds text.

    Returns:
        The corpus, text settings that fit it (the catalogue's), and what a recipe calls it: names of the catalogue as
        they are, so that the recipe works elsewhere, and absolute paths.
    """
    from wenmai.data.catalogue import from_catalogue

    if isinstance(corpus, str | Path):
        corpus = [Path(corpus) if isinstance(corpus, str) and not in_catalogue(corpus) else corpus]
    if not isinstance(corpus, list | tuple) or not all(isinstance(item, str | Path) for item in corpus):
        return Corpus.of(corpus), {}, ()
    paths, hints = from_catalogue(corpus)
    opened = Corpus.of(paths)
    if len(opened.sources) != len(corpus):
        return opened, hints, opened.sources
    names = zip(corpus, opened.sources, strict=True)
    return opened, hints, tuple(str(item) if in_catalogue(item) else source for item, source in names)


def named_texts(names: Sequence[str]) -> list[str | Path]:
    """Turns what a shell or a recipe names into parts of a corpus: names of the catalogue, and paths."""
    return [name if in_catalogue(name) else Path(name) for name in names]


def in_catalogue(name: str | Path) -> bool:
    """Whether a part of a corpus is meant as a name of the catalogue."""
    return isinstance(name, str) and name.startswith(("builtin:", "data:"))


def _inherit(base: Recipe, system: str, sections: dict[str, type], chosen: dict[str, Any]) -> None:
    """Takes the text and model settings of the run that is continued, where the user gave none."""
    own = find_system(base.system).load().sections
    if own != sections:
        raise SettingError(f"a {base.system} run cannot be continued as {system}")
    named = {name.partition(".")[2] or name for name in chosen}
    for full, value in base.flat_settings().items():
        section, _, name = full.partition(".")
        if section in ("text", "model") and name not in named:
            chosen[full] = value


def _overruled(settings: dict[str, Any], chosen: dict[str, Any]) -> dict[str, Any]:
    """Returns a recipe's settings (``section.name``) with those replaced that a user names, with section or without."""
    named = {name.partition(".")[2] or name for name in chosen}
    kept = {full: value for full, value in settings.items() if full.partition(".")[2] not in named}
    return kept | chosen
