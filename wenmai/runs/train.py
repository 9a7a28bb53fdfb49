"""Train, resume and continue."""

import math
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from wenmai.config.recipe import Recipe, read_recipe
from wenmai.core.errors import CorpusError, RunError, SettingError
from wenmai.core.folder import cache_folder, check_sealed, sealed_folder, writing_json
from wenmai.core.registry import find_system
from wenmai.data.corpus import Corpus
from wenmai.data.numbered import NumberedCorpus, number_corpus
from wenmai.runs.environment import describe_environment, peak_memory_bytes
from wenmai.runs.run import CORPUS, ENVIRONMENT, METRICS, MODEL, RECIPE, SUMMARY, Run
from wenmai.training.records import Record, RecordFile
from wenmai.training.sweep import SweepConfig, Totals, sweep

__all__ = ["Watcher", "resume", "train", "train_recipe"]



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
    described = find_system(system)
    task = described.load()
    chosen = {**described.settings, **settings}
    if start is not None:
        start = Path(start).absolute()
        _inherit(Run(start).recipe, described.name, task.sections, chosen)
    opened, hints = _opened(corpus)
    named = {name.partition(".")[2] or name for name in chosen}
    chosen |= {f"text.{name}": value for name, value in hints.items() if name not in named}
    recipe = Recipe.build(
        system, task.sections, chosen, corpus=opened.sources, start=None if start is None else str(start)
    )
    return _begin(recipe, opened, _new_folder(out, system), watcher or Watcher())


def train_recipe(
    path: str | Path, *, out: str | Path | None = None, watcher: Watcher | None = None, **settings: Any  # noqa: ANN401
) -> Run:
    """Trains as a recipe file says; ``settings`` overrule it. See :func:`train`."""
    found = read_recipe(path)
    if not found["corpus"]:
        raise SettingError(f"{path}: names no corpus; add `corpus: [PATH]`, or give the text to `wenmai train SYSTEM`")
    return train(
        found["system"],
        found["corpus"],
        out=out,
        start=found["start"],
        watcher=watcher,
        **_overruled(found["settings"], settings),
    )


def resume(path: str | Path, *, watcher: Watcher | None = None) -> Run:
    """Goes on with a training that was interrupted, from its newest good checkpoint.

    With one thread, or in deterministic mode, the result is the same to the bit as without the interruption.

    Raises:
        RunError: if it has finished already, or if its corpus is gone.
    """
    run, watcher = Run(path), watcher or Watcher()
    if run.finished:
        raise RunError(f"{run.path}: the training has finished already; `wenmai train --from` continues it on new text")
    found = read_numbered(run, watcher)
    return _go_on(run, found, watcher)


def _begin(recipe: Recipe, corpus: Corpus, folder: Path, watcher: Watcher) -> Run:
    numbered = number_corpus(corpus, recipe.sections["text"], progress=watcher.numbering)
    if recipe.start is not None:
        Run(recipe.start).task.load_model(Run(recipe.start).model_folder)  # fails before a folder is made
    _prepare(recipe, numbered)
    folder.mkdir(parents=True)
    writing_json(folder / ENVIRONMENT, describe_environment())
    writing_json(folder / CORPUS, _describe_corpus(recipe, numbered))
    recipe.write(folder / RECIPE)
    return _go_on(Run(folder), numbered, watcher)


def _prepare(recipe: Recipe, numbered: NumberedCorpus) -> None:
    """Finds mistakes in the settings that only the corpus shows, before a run folder is made."""
    if recipe.start is None:
        find_system(recipe.system).load().begin(recipe, numbered)


def _go_on(run: Run, numbered: NumberedCorpus, watcher: Watcher) -> Run:
    """Trains a run from wherever it is to the end."""
    recipe, task = run.recipe, run.task
    config: SweepConfig = recipe.sections["train"]
    checkpoint, state, passed_over = run.checkpoints.newest_good()
    for problem in passed_over:
        watcher.note(f"passed over a damaged checkpoint: {problem}")
    base = Run(recipe.start) if recipe.start is not None else None
    base_model = task.load_model(base.model_folder) if base is not None else None
    old_rows = len(base_model.vocab) if base_model is not None else 0
    if checkpoint is None:
        job, totals = task.begin(recipe, numbered, base_model), Totals()
    else:
        job = task.restore(recipe, numbered, checkpoint, old_rows=old_rows)
        state["last_epoch_loss"] = math.nan if state["last_epoch_loss"] is None else state["last_epoch_loss"]
        totals = Totals(**state)
    del base_model
    watcher.begin(
        run,
        {
            "system": recipe.system,
            "tokens": len(numbered),
            "types": len(numbered.counts),
            "vocabulary": len(job.model.vocab),
            "new_words": len(job.model.vocab) - old_rows if base is not None else None,
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
    with sealed_folder(run.path / MODEL) as folder:
        job.save(folder)
    drift = job.drift(base.vectors) if base is not None else None
    writing_json(run.path / SUMMARY, _summary(run, job, totals, config, peak) | ({"drift": drift} if drift else {}))
    if drift:
        watcher.note(
            f"{drift['words']} old words moved by {drift['mean_cosine_distance']:.3f} on average (cosine distance), "
            f"most {', '.join(repr(word) for word, _ in drift['furthest'][:3])}"
        )
    run.checkpoints.clear()
    return run


def read_numbered(run: Run, watcher: Watcher) -> NumberedCorpus:
    """Opens the numbered corpus of a run, numbering the text again if it is no longer in the cache.

    Raises:
        RunError: if neither is there any more, or the text has changed.
    """
    fingerprint = str(run.corpus.get("fingerprint", ""))
    folder = cache_folder() / "corpora" / fingerprint
    if fingerprint and folder.is_dir() and not check_sealed(folder):
        return NumberedCorpus.open(folder)
    sources = run.recipe.corpus
    if not sources or "-" in sources:
        raise RunError(
            f"{run.path}: its corpus came from memory or standard input, and the numbered copy {folder} is gone or "
            "damaged; train again"
        )
    try:
        numbered = number_corpus(Corpus.of_paths(sources), run.recipe.sections["text"], progress=watcher.numbering)
    except CorpusError as error:
        raise RunError(f"{run.path}: its corpus cannot be read any more: {error}") from None
    if numbered.fingerprint != fingerprint:
        raise RunError(f"{run.path}: its corpus {', '.join(sources)} has changed since the training began; train again")
    return numbered


def _summary(run: Run, job: Any, totals: Totals, config: SweepConfig, peak: int | None) -> dict[str, Any]:  # noqa: ANN401
    return {
        "run": str(run.path),
        "system": run.recipe.system,
        "words_per_second": totals.words / totals.seconds if totals.seconds else 0.0,
        "loss": None if math.isnan(totals.last_epoch_loss) else totals.last_epoch_loss,
        "objective": job.objective,
        "seconds": totals.seconds,
        "peak_memory_bytes": peak,
        "size_bytes": run.model_bytes,
        "vocabulary": len(job.model.vocab),
        "words": totals.words,
        "epochs": config.epochs,
        "threads": config.worker_count,
    }


def _describe_corpus(recipe: Recipe, numbered: NumberedCorpus) -> dict[str, Any]:
    return {
        "fingerprint": numbered.fingerprint,
        "sources": [{"path": str(path), "bytes": size, "sha256": sha256} for path, size, sha256 in numbered.sources],
        "text": numbered.text,
        "stats": asdict(numbered.stats),
    }


def _opened(corpus: Any) -> tuple[Corpus, dict[str, Any]]:  # noqa: ANN401
    """Opens whatever names or holds text, ``builtin:NAME`` and ``data:NAME`` included; returns fitting text settings."""
    from wenmai.data.catalogue import from_catalogue

    if isinstance(corpus, str | Path):
        corpus = [corpus]
    if not isinstance(corpus, list | tuple) or not all(isinstance(item, str | Path) for item in corpus):
        return Corpus.of(corpus), {}
    paths, hints = from_catalogue(corpus)
    return (Corpus.of(paths) if len(paths) > 1 else Corpus.of_paths(paths)), hints


def _new_folder(out: str | Path | None, system: str) -> Path:
    folder = Path(out) if out is not None else Path("runs") / f"{system}-{datetime.now():%Y%m%d-%H%M%S}"
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        hint = f"; `wenmai resume {folder}` goes on with it" if (folder / RECIPE).exists() else ""
        raise RunError(f"{folder}: exists already; choose another --out{hint}")
    if folder.is_dir():
        folder.rmdir()
    return folder


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
    """Returns a recipe's settings (``section.name``) with those that a user names (with or without section) replaced."""
    named = {name.partition(".")[2] or name for name in chosen}
    kept = {full: value for full, value in settings.items() if full.partition(".")[2] not in named}
    return kept | chosen
