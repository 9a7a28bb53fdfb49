"""Search the settings of a classifier."""

import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from wenmai.config.recipe import Recipe, named_settings, with_absolute_paths
from wenmai.core.clock import CLOCK
from wenmai.core.errors import RunError, SettingError, TrainingError, VocabError
from wenmai.core.folder import writing_json
from wenmai.core.quantities import duration
from wenmai.core.registry import find_system
from wenmai.data.datasets import open_labelled
from wenmai.data.labelled import Example, LabelledStats
from wenmai.inference.verbs import Classifier
from wenmai.measures.classification import measure_classification
from wenmai.runs.owner import require_room
from wenmai.runs.planning import plan
from wenmai.runs.train import train
from wenmai.tasks.task import Session
from wenmai.training.callback import Callback
from wenmai.training.checkpoint import NoCheckpoints
from wenmai.training.progress import following
from wenmai.training.records import Record
from wenmai.training.run import Run

__all__ = ["AUTOTUNE", "Trial", "autotune"]

AUTOTUNE = "autotune.json"
_SYSTEM = "fasttext-supervised"
_MOST_BYTES = 4 << 30  # of a model in a trial
_FEWEST_BUCKETS = 10_000
_CHANCE = 0.5  # that a trial changes a setting
_USUAL = {"learning_rate": 0.5, "epochs": 25, "word_ngrams": 2, "vector_size": 50, "buckets": 200_000}


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A trial of autotune.

    Attributes:
        number: From 1.
        settings: Its settings.
        score: The metric on the validation set; None if the trial failed.
        seconds: Its time.
        failure: Why it failed, or None.
    """

    number: int
    settings: dict[str, Any]
    score: float | None
    seconds: float
    failure: str | None = None


class _TimeOver(Exception):
    """The time for trials is over."""


@dataclass(frozen=True, slots=True)
class _Factor:
    """A setting that is multiplied by 2^N(0, σ)."""

    low: float
    high: float
    first: float  # σ in the first quarter of the time
    last: float  # σ in the last quarter
    whole: bool = True

    def draw(self, best: Any, sigma: float, generator: random.Random) -> Any:  # noqa: ANN401
        """Perturbs the best value."""
        value = min(self.high, max(self.low, float(best) * 2.0 ** generator.gauss(0, sigma)))
        return round(value) if self.whole else value


@dataclass(frozen=True, slots=True)
class _Place:
    """A setting with several values in order; N(0, σ) is added to the index."""

    values: tuple[Any, ...]
    first: float
    last: float

    def draw(self, best: Any, sigma: float, generator: random.Random) -> Any:  # noqa: ANN401
        """Perturbs the best value."""
        place = self.values.index(best) if best in self.values else 0
        return self.values[min(len(self.values) - 1, max(0, round(place + generator.gauss(0, sigma))))]


# The space and its widths are those of the reference implementation's autotune.
_SPACE: dict[str, _Factor | _Place] = {
    "epochs": _Factor(1, 100, 2.8, 2.5),
    "learning_rate": _Factor(0.01, 5.0, 1.9, 1.0, whole=False),
    "vector_size": _Factor(1, 1000, 1.4, 0.3),
    "buckets": _Factor(_FEWEST_BUCKETS, 10_000_000, 2.0, 1.5),
    "word_ngrams": _Place((1, 2, 3, 4, 5), 4.3, 2.4),
    "min_ngram": _Place((0, 2, 3), 4.0, 1.4),
}


def autotune(
    corpus: Any,  # noqa: ANN401  whatever names or holds labelled text
    *,
    valid: str | Path,
    out: str | Path,
    seconds: float = 300.0,
    metric: str = "f1",
    size_bytes: int | None = None,
    callback: Callback | None = None,
    on_trial: Callable[[Trial], None] = lambda trial: None,
    quiet: bool = False,
    **settings: Any,  # noqa: ANN401  checked against the system's settings
) -> Run:
    """Trains fastText's classifier with the best settings on a validation set.

    The first trial has the settings given, the second some that often do well, each further one a random change of the
    best so far; changes become smaller with time. Given settings are not searched. Then a run is trained with the best
    settings; its ``autotune.json`` lists the trials.

    Args:
        corpus: Labelled text to train on.
        valid: Labelled text to evaluate on.
        out: The run folder to make.
        seconds: Time for the trials; the last one is stopped.
        metric: ``f1`` (micro) or ``f1:LABEL``.
        size_bytes: The most bytes that the parameters may take.
        callback: Follows the trials, each of which is a result, and the training of the run; by default their progress
            is printed on standard error.
        on_trial: Called with every trial.
        quiet: Print only warnings; a callback decides for itself.
        **settings: Settings of ``fasttext-supervised`` that are not to be searched.

    Raises:
        SettingError: for an unknown metric or setting, or a number out of its range.
        TrainingError: if no trial succeeded.
    """
    if metric != "f1" and not (metric.startswith("f1:") and metric != "f1:"):
        raise SettingError(f"metric={metric!r}: expected f1 or f1:LABEL")
    if not 0 <= seconds < math.inf:  # NaN neither
        raise SettingError(f"seconds={seconds}: expected a finite number from 0 on")
    if size_bytes is not None and size_bytes < 1:
        raise SettingError(f"size_bytes={size_bytes}: expected at least 1")
    require_room(Path(out))
    corpus = list(corpus) if isinstance(corpus, Iterator) else corpus  # it is read for the trials and for the run
    task = find_system(_SYSTEM).load()
    frozen = {name.rpartition(".")[2] for name in named_settings(task.sections, settings)}
    settings = named_settings(task.sections, {"valid": str(valid), **settings})
    first, opened = plan(_SYSTEM, corpus, **settings)
    segment = {"text.segment": first.sections["text"].segment}  # chosen by looking at the text, perhaps
    hints = {name: value for name, value in opened.hints.items() if name.rpartition(".")[2] not in frozen}
    given = with_absolute_paths(task.sections, {**segment, **hints, **settings})
    with following(callback, quiet=quiet) as follower:
        begun = CLOCK.now()
        for note in opened.notes:
            follower.note(note)
        data = task.source.read(first, opened.source, follower.encoding_corpus, None)
        measured = open_labelled(
            first.sections["data"].valid, first.sections["data"], first.sections["text"], split="dev"
        )
        examples = list(measured.read(LabelledStats()))
        label = metric.partition(":")[2]
        if label and label not in set(data.label_names):
            raise SettingError(f"metric={metric!r}: no text has this label")
        if label and not any(label in example.labels for example in examples):
            raise SettingError(f"metric={metric!r}: no text of {valid} has this label, so nothing could be measured")
        generator = random.Random(first.sections["train"].seed)
        current = _searched(first)
        trials: list[Trial] = []
        best: Trial | None = None
        while (elapsed := CLOCK.now() - begun) < seconds or not trials:
            if len(trials) == 1:
                tried = current | {name: value for name, value in _USUAL.items() if name not in frozen}
            elif trials:
                tried = _changed(best.settings if best else current, frozen, elapsed / seconds, generator)
            else:
                tried = current
            tried = _fitting(tried, frozen, len(data.counts) + len(data.label_counts), size_bytes or _MOST_BYTES)
            chosen = _renamed(given, tried) | _named(tried)
            trial = _try(len(trials) + 1, chosen, tried, data, examples, label, begun + seconds if trials else math.inf)
            trials.append(trial)
            on_trial(trial)
            if trial.score is not None and (best is None or best.score is None or trial.score > best.score):
                best = trial
            follower.result(_described(trial, best, metric, begun + seconds - CLOCK.now()))
        if best is None:
            raise TrainingError(f"none of {len(trials)} trials succeeded; the first: {trials[0].failure}")
        found = _renamed(given, best.settings) | _named(best.settings)
        run = train(_SYSTEM, corpus, out=out, callback=follower, **found)
    writing_json(
        run.path / AUTOTUNE,
        {
            "metric": metric,
            "seconds": seconds,
            "size_bytes": size_bytes,
            "frozen": sorted(frozen),
            "best": best.number,
            "failed": sum(trial.score is None for trial in trials),
            "trials": [asdict(trial) for trial in trials],
        },
    )
    return run


def _described(trial: Trial, best: Trial | None, metric: str, left: float) -> str:
    """Describes a trial in a line, with the best so far and the time left."""
    score = f"failed ({trial.failure})" if trial.score is None else f"{metric} {trial.score:.4f}"
    values = ", ".join(f"{name}={value:.4g}" for name, value in trial.settings.items())
    standing = [] if best is None or best is trial else [f"best {best.score:.4f} in trial {best.number}"]
    standing.append(f"{duration(max(0.0, left))} left")
    return f"trial {trial.number}: {score} in {duration(trial.seconds)}, {', '.join(standing)}; {values}"


def _searched(recipe: Recipe) -> dict[str, Any]:
    """The settings that are searched."""
    flat = {name.rpartition(".")[2]: value for name, value in recipe.flat_settings().items()}
    found = {name: flat[name] for name in (*_SPACE, "max_ngram")}
    found["learning_rate"] = found["learning_rate"] or 0.1
    return found


def _changed(best: Mapping[str, Any], frozen: set[str], fraction: float, generator: random.Random) -> dict[str, Any]:
    """Samples settings near the best ones, of which about half stay, after a ``fraction`` of the time."""
    late = min(1.0, max(0.0, (fraction - 0.25) / 0.5))
    tried = dict(best)
    for name, setting in _SPACE.items():
        kept = name in frozen or (name == "min_ngram" and "max_ngram" in frozen)
        if not kept and generator.random() < _CHANCE:
            sigma = setting.first + (setting.last - setting.first) * late
            tried[name] = setting.draw(best[name], sigma, generator)
    if not {"min_ngram", "max_ngram"} & frozen:
        tried["max_ngram"] = tried["min_ngram"] + 3 if tried["min_ngram"] else 0
    return tried


def _fitting(tried: Mapping[str, Any], frozen: set[str], names: int, most: int) -> dict[str, Any]:
    """Returns settings whose parameters take no more than ``most`` bytes.

    There are fewer buckets, then smaller vectors, and if these are given, no n-grams.

    Args:
        tried: The settings.
        frozen: Those that are not changed.
        names: Words and labels, each of which has a row.
        most: Bytes.

    Raises:
        SettingError: if there are none.
    """
    fitting = dict(tried)
    while True:
        hashed = fitting["word_ngrams"] > 1 or fitting["max_ngram"]
        needed = 4 * (names + (fitting["buckets"] if hashed else 0)) * fitting["vector_size"]
        if needed <= most:
            return fitting
        if hashed and "buckets" not in frozen and fitting["buckets"] > _FEWEST_BUCKETS:
            fitting["buckets"] = max(_FEWEST_BUCKETS, int(0.9 * fitting["buckets"] * most / needed))
        elif "vector_size" not in frozen and fitting["vector_size"] > 1:
            fitting["vector_size"] //= 2
        elif fitting["word_ngrams"] > 1 and "word_ngrams" not in frozen:
            fitting["word_ngrams"] = 1
        elif fitting["max_ngram"] and not {"min_ngram", "max_ngram"} & frozen:
            fitting["min_ngram"] = fitting["max_ngram"] = 0
        else:
            raise SettingError(f"the parameters take {needed:,} bytes and may take {most:,}; allow more, or set less")


def _named(tried: Mapping[str, Any]) -> dict[str, Any]:
    sections = {"epochs": "train", "learning_rate": "train"}
    return {f"{sections.get(name, 'model')}.{name}": value for name, value in tried.items()}


def _renamed(given: Mapping[str, Any], tried: Mapping[str, Any]) -> dict[str, Any]:
    """The given settings without those of the trial."""
    return {name: value for name, value in given.items() if name.rpartition(".")[2] not in tried}


def _try(
    number: int,
    chosen: Mapping[str, Any],
    settings: dict[str, Any],
    data: Any,  # noqa: ANN401  what the task read
    examples: list[Example],
    label: str,
    end: float,
) -> Trial:
    """Trains and evaluates once; notes an error."""
    begun = CLOCK.now()

    def report(record: Record) -> None:
        if CLOCK.now() > end:
            raise _TimeOver

    score, failure = None, None
    try:
        task = find_system(_SYSTEM).load()
        recipe = Recipe.build(_SYSTEM, task.sections, chosen)
        sections = dict(recipe.sections) | {"data": replace(recipe.sections["data"], valid=None)}
        job = task.begin(replace(recipe, sections=sections), data)
        job.train(Session(NoCheckpoints(), report))
        classifier: Classifier = job.classifier()
        predicted = classifier.predict([example.text for example in examples])
        gold = [example.labels for example in examples]
        found = measure_classification(gold, predicted, classifier.labels, resamples=1)
        score = found.f1_of(label) if label else found.micro_f1
    except _TimeOver:
        failure = "the time was over"
    except (SettingError, TrainingError, VocabError, MemoryError) as error:
        failure = str(error) or "not enough memory"
    except RunError as error:  # the disk
        raise TrainingError(str(error)) from None
    return Trial(number=number, settings=settings, score=score, seconds=CLOCK.now() - begun, failure=failure)
