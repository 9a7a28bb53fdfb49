"""One corpus, several systems, one table and one report."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from wenmai.config.recipe import changed_settings
from wenmai.core.errors import RunError, WenmaiError
from wenmai.core.folder import obstacle_to, writing_json
from wenmai.core.registry import find_system
from wenmai.data.sources import in_catalogue
from wenmai.runs.by_task import metrics_by_task, stage_starts
from wenmai.runs.comparison import ComparedCorpus, ComparedSystem, Comparison, CurvePoint, Facts, Kind
from wenmai.runs.environment import describe_environment
from wenmai.runs.measuring.measurer import choose_measurer, watched
from wenmai.runs.overlap import seen_in_training
from wenmai.runs.report import write_report
from wenmai.training.callback import Callback
from wenmai.training.progress import following
from wenmai.training.run import CORPUS, METRICS, RECIPE, SUMMARY, Run

__all__ = ["compare", "described", "distinct_names", "require_no_run", "written"]

COMPARISON, REPORT = "comparison.json", "report.html"
_UNKNOWN = "unknown:"  # prefix for the unknown text of an imported run


def compare(
    runs: str | Path | Run | Sequence[str | Path | Run],
    *,
    out: str | Path,
    command: str = "",
    device: str | None = None,
    callback: Callback | None = None,
    quiet: bool = False,
    **options: Any,  # noqa: ANN401  each verb has its own
) -> Comparison:
    """Compares finished runs: writes ``comparison.json`` and ``report.html`` into a folder.

    Word vectors take ``similarity``, ``analogy``, ``probe``, ``restrict_vocab`` and ``words``, whose neighbours the
    report shows; classifiers, language models and translators take ``on``, test sets named as for training. The
    ``compare`` of each module of :mod:`wenmai.runs.measuring` lists further options.

    Args:
        runs: A run or its folder, or several.
        out: The folder; made if need be.
        command: The user's command, for the report.
        device: Where neural models compute; see :class:`~wenmai.training.run.Run`.
        callback: Follows the evaluations; by default their progress is printed on standard error.
        quiet: Print no progress; a callback decides for itself.
        **options: What to evaluate on, and how.

    Raises:
        RunError: if a run is not finished or is named twice, they share no verb that can be measured,
            or ``out`` is a run folder or cannot be written.
        SettingError: if an option is not for such runs, or there is no test set of a name.
    """
    require_no_run(Path(out))
    opened = [Run.of(run, device) for run in ([runs] if isinstance(runs, str | Path | Run) else runs)]
    if not opened:
        raise RunError("there is nothing to compare; name at least one run")
    measurer = choose_measurer({run.recipe.system: run.task for run in opened}, "compare", options)
    options = measurer.listed("compare", options)
    measurer.check(**options)
    start = described(opened, command, kinds=measurer.kinds, own_tokens=measurer.own_tokens)
    with following(callback, quiet=quiet) as follower:
        seen = [note for run in opened for note in seen_in_training(run, options.get("on") or [])]
        for note in seen:
            follower.note(note)
        comparison: Comparison = watched(measurer.compare, follower.evaluating)(opened, start, **options)
    if seen:
        corpus = replace(
            comparison.corpus, facts=comparison.corpus.facts | {"tested on training text": "; ".join(seen)}
        )
        comparison = replace(comparison, corpus=corpus)
    written(comparison, Path(out))
    return comparison


def described(runs: Sequence[Run], command: str, *, kinds: Mapping[str, Kind], own_tokens: bool) -> Comparison:
    """Returns a comparison of runs that nothing was measured of.

    Args:
        runs: The runs.
        command: The user's command.
        kinds: How what will be measured is shown.
        own_tokens: Whether each run has its own tokens, so that only their files are compared.
    """
    return Comparison(
        systems=[_describe(name, run) for name, run in zip(distinct_names(runs), runs, strict=True)],
        corpus=_describe_corpus(runs, own_tokens=own_tokens),
        command=command,
        created=f"{datetime.now():%Y-%m-%d %H:%M}",
        machine=_facts(runs[0].environment or describe_environment()),
        kinds=dict(kinds),
    )


def written(comparison: Comparison, folder: Path) -> Path:
    """Writes ``comparison.json`` and ``report.html`` into a folder; returns the report.

    Raises:
        RunError: if they cannot be written.
    """
    try:
        writing_json(folder / COMPARISON, comparison.to_json())
        write_report(comparison, folder / REPORT)
    except OSError as error:
        raise RunError(f"{folder}: cannot be written ({error.strerror})") from None
    return folder / REPORT


def require_no_run(folder: Path) -> None:
    """Raises RunError if a comparison would be written into a run, or where it cannot be."""
    if obstacle := obstacle_to(folder):
        raise RunError(f"{folder}: {obstacle}; name a folder, choose another --out")
    if (folder / RECIPE).exists():
        raise RunError(f"{folder}: is a run; a comparison needs a folder of its own, choose another --out")


def _describe(name: str, run: Run) -> ComparedSystem:
    summary = run.summary
    try:
        return ComparedSystem(
            name=name,
            label=find_system(run.recipe.system).summary,
            run=str(run.path),
            settings=_facts(changed_settings(run.recipe)),
            loss_kind=str(summary.get("objective", "")),
            curve=_curve(run.records),
            words_per_second=summary.get("words_per_second"),
            seconds=summary.get("seconds"),
            peak_memory_bytes=summary.get("peak_memory_bytes"),
            size_bytes=run.model_bytes,
            corpus_bytes=sum(source.get("bytes", 0) for source in run.corpus.get("sources", ())) or None,
            vocabulary=summary.get("vocabulary"),
            parameters=summary.get("parameters"),
            by_task=metrics_by_task(run.records),
            stages=stage_starts(summary.get("stages") or {}, max((one["position"] for one in run.records), default=0)),
        )
    except WenmaiError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        files = ", ".join((SUMMARY, CORPUS, METRICS))
        raise RunError(
            f"{run.path}: {files}: one of them is damaged ({error}); copy the run again, or train again"
        ) from None


def _curve(records: Sequence[Mapping[str, Any]]) -> list[CurvePoint]:
    steps = [record for record in records if record.get("kind") == "step"]
    names = ("loss", "epoch", "seconds", "learning_rate", "words_per_second")
    return [CurvePoint(progress=record["progress"], **{name: record.get(name) for name in names}) for record in steps]


def distinct_names(runs: Sequence[Run]) -> list[str]:
    """Returns the names of the systems, or where two are alike those of the folders.

    Raises:
        RunError: if a run is there twice.
    """
    folders = [run.path.resolve() for run in runs]  # the same by another path too
    if twice := next((run.path for run, one in zip(runs, folders, strict=True) if folders.count(one) > 1), None):
        raise RunError(f"{twice}: is named twice; expected each run once")
    systems = [run.recipe.system for run in runs]
    if len(set(systems)) == len(systems):
        return systems
    names = [run.path.name or str(run.path) for run in runs]
    if len(set(names)) == len(names):
        return names
    return [str(run.path) for run in runs]


def _describe_corpus(runs: Sequence[Run], *, own_tokens: bool) -> ComparedCorpus:
    """Describes the training text; ``own_tokens``: each run has its own tokens, so only the files are compared."""
    found = next((run.corpus for run in runs if run.corpus), {})
    stats = {} if own_tokens else found.get("stats", {})
    texts = {_text(run, own_tokens=own_tokens) for run in runs}
    sources = [name if in_catalogue(name) else Path(name).name for name in runs[0].recipe.corpus]
    name = ", ".join(sources[:3]) + (f" and {len(sources) - 3} more" if len(sources) > 3 else "")
    skipped = {k: v for k, v in stats.items() if (k.startswith(("skipped", "pruned")) or k == "documents") and v}
    if len(texts) > 1:
        known = not any(text.startswith(_UNKNOWN) for text in texts)
        name = f"{len(texts)} different corpora" if known else "different or unknown corpora"
        return ComparedCorpus(name=name, facts={"note": "the runs were not trained on the same text"})
    return ComparedCorpus(
        name=name or "text from memory",
        tokens=stats.get("tokens"),
        sentences=stats.get("sentences"),
        types=stats.get("types"),
        segment="" if own_tokens else str(found.get("text", {}).get("segment", "")),
        fingerprint=str(found.get("fingerprint", "")),
        facts=_facts(skipped),
    )


def _text(run: Run, *, own_tokens: bool) -> str:
    """What identifies a text; fingerprints also depend on what systems made of it, such as counts."""
    corpus = run.corpus
    if not corpus.get("fingerprint"):
        return f"{_UNKNOWN} {run.path}"
    files = [source["sha256"] for source in corpus.get("sources", ()) if "sha256" in source]
    return json.dumps([files, None if own_tokens else corpus.get("text")]) if files else str(corpus["fingerprint"])


def _facts(values: Mapping[str, Any]) -> Facts:
    return {
        name: value if isinstance(value, str | int | float | bool | None) else json.dumps(value)
        for name, value in values.items()
    }
