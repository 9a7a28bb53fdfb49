"""Fine-tune an encoder for a task, once or from several seeds."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wenmai.config.recipe import Recipe, named_settings
from wenmai.core.errors import RunError, SettingError, nearest_name
from wenmai.core.folder import writing_json
from wenmai.core.registry import find_system, systems
from wenmai.core.showing import Table, Tabled
from wenmai.data.datasets import named_dataset
from wenmai.data.examples import open_train_and_valid
from wenmai.data.records import without_empty_end
from wenmai.runs.planning import plan, require_same
from wenmai.runs.train import resume, train
from wenmai.runs.tuning_presets import preset_of
from wenmai.tasks.task import Opened
from wenmai.training.callback import Callback
from wenmai.training.run import RECIPE, Run

__all__ = ["SeedRuns", "choice_of", "finetune", "question_of", "task_names"]

_PREFIX = "finetuned-"
_OTHER_NAMES: Mapping[str, str] = {
    **dict.fromkeys(("ner", "pos", "token-classification", "tag"), "tagging"),
    **dict.fromkeys(("qa", "question-answering", "squad", "extractive-qa"), "span"),
    **dict.fromkeys(("text-classification", "sentiment-analysis", "sentiment", "classify"), "classification"),
    **dict.fromkeys(("nli", "entailment", "paraphrase", "sentence-pair", "pairs"), "pair"),
    **dict.fromkeys(("sts", "similarity", "score"), "regression"),
    **dict.fromkeys(("multiple-choice", "swag", "race"), "choice"),
}
_SEEDS = "seeds.json"


def task_names() -> list[str]:
    """Returns the tasks that an encoder can be fine-tuned for."""
    return [name.removeprefix(_PREFIX) for name in systems() if name.startswith(_PREFIX)]


@dataclass(frozen=True, kw_only=True, repr=False)
class SeedRuns(Tabled):
    """Trainings that differ in their seeds alone.

    Attributes:
        runs: The run of each.
        metric: What was measured on the validation data.
        values: That metric of each run.
        untold: The metric that the loss stands for, as it cannot be told of all runs; usually empty.
    """

    runs: tuple[Run, ...]
    metric: str
    values: tuple[float, ...]
    untold: str = ""

    @property
    def mean(self) -> float:
        """The mean over the seeds."""
        return sum(self.values) / len(self.values)

    @property
    def margin(self) -> float:
        """Half of the 95 % interval of the mean, by Student's t."""
        from scipy.special import stdtrit  # the quantile of Student's t

        count = len(self.values)
        spread = math.sqrt(sum((value - self.mean) ** 2 for value in self.values) / (count - 1))
        return float(stdtrit(count - 1, 0.975)) * spread / math.sqrt(count)

    @property
    def best(self) -> Run:
        """The run that was best on the validation data."""
        sign = -1 if self.metric == "loss" else 1
        return max(zip(self.values, self.runs, strict=True), key=lambda one: sign * one[0])[1]

    def as_dict(self) -> dict[str, Any]:
        """Returns plain JSON values."""
        return {
            "runs": [str(run.path) for run in self.runs],
            "metric": self.metric,
            "values": list(self.values),
            "mean": self.mean,
            "low": self.mean - self.margin,
            "high": self.mean + self.margin,
            "best": str(self.best.path),
            **({"untold": self.untold} if self.untold else {}),
        }

    def __str__(self) -> str:
        rows = [f"{run.path}: {self.metric} {value:.4f}" for run, value in zip(self.runs, self.values, strict=True)]
        told = f"{self.metric} {self.mean:.4f} ± {self.margin:.4f} (mean of {len(self.runs)} seeds, 95 % interval)"
        why = "all numbers of the validation data, or all that a run predicts, are the same"
        note = [f"{self.untold} cannot be told: {why}"] if self.untold else []
        return "\n".join([*rows, told, f"best: {self.best.path}", *note])

    def _facts(self) -> dict[str, Any]:
        return {"metric": self.metric, "mean": self.mean, "margin": self.margin, "best": str(self.best.path)}

    def table(self) -> Table:
        """Returns a row for each seed."""
        return Table(
            ["run", self.metric], [(str(run.path), value) for run, value in zip(self.runs, self.values, strict=True)]
        )


def finetune(
    run: str | Path | Run,
    data: Any,  # noqa: ANN401  whatever names or holds labelled examples
    *,
    task: str | None = None,
    out: str | Path | None = None,
    seeds: int = 1,
    preset: str | None = None,
    callback: Callback | None = None,
    quiet: bool = False,
    **settings: Any,  # noqa: ANN401  checked against the system's settings
) -> Any:  # noqa: ANN401  a Run, or SeedRuns
    """Fine-tunes the encoder of a run on labelled examples; the same as ``train("finetuned-TASK", start=run)``.

    Args:
        run: A run of BERT, GPT or ELMo, of an imported encoder, or one that was fine-tuned before.
        data: A file, ``"data:NAME"``, or examples; see :func:`wenmai.data.examples.open_examples`.
        task: ``classification``, ``pair``, ``regression``, ``tagging``, ``span`` or ``choice``; None: that of the
            preset, of the data set, or of a run which was fine-tuned before.
        out: The run folder to make; with several seeds, the folder of their runs ``seed-1`` and so on.
        seeds: How many trainings, with seeds from ``seed`` on (1, unless it is set). Those that are there already are
            not repeated, and go on where they were interrupted.
        preset: Published settings by their name in :data:`wenmai.runs.tuning_presets.PRESETS`, but for those that
            ``settings`` has.
        callback: Follows each training; by default its progress is printed on standard error.
        quiet: Print only warnings.
        **settings: Any setting of the system, for example ``mode="frozen"``; ``valid`` may be examples too.

    Returns:
        The finished run; of several seeds :class:`SeedRuns`.

    Raises:
        SettingError: for an unknown task or setting, or a run whose encoder cannot be fine-tuned; of several seeds, if
            there are no validation data.
        CorpusError: if the examples cannot be read.
        RunError: if there is no such run, or ``out`` exists already; of several seeds, if one that is there was trained
            otherwise.
    """
    if not isinstance(settings.get("valid", ""), str | Path | None):
        data = {"train": data, "validation": settings.pop("valid")}
    start = Run.of(run)
    usual = None if preset is None else preset_of(preset)
    if task is None and usual is not None:
        task = usual.task
    system = _PREFIX + _task(task, data, start)
    if not find_system(system).load().starts_from(start.task):
        raise SettingError(
            f"{start.path}: a run of {start.recipe.system} has no encoder that can be fine-tuned; start from a run of "
            "bert, gpt or elmo, or import an encoder"
        )
    if usual is not None:
        if system != _PREFIX + usual.task:
            raise SettingError(f"preset={preset} is for {usual.task}, not for {task}; leave it out, or set --task")
        settings = named_settings(find_system(system).load().sections, settings)
        own = {name.rpartition(".")[2] for name in settings}
        settings = {name: value for name, value in usual.settings.items() if name not in own} | settings
    if seeds == 1:
        return train(system, data, out=out, start=start.path, callback=callback, quiet=quiet, **settings)
    if seeds < 1:
        raise SettingError(f"seeds={seeds}: expected at least 1")
    if out is None:
        raise SettingError("several seeds make several runs; name the folder for them with --out")
    if (Path(out) / RECIPE).exists():
        raise RunError(f"{out}: is a run; several seeds need a folder of their own, choose another --out")
    data = _kept(data)  # which is read for each seed
    settings = named_settings(find_system(system).load().sections, settings)
    given = settings.pop("train.seed", settings.pop("seed", 1))
    first = plan(system, data, start=start, seed=given, **settings)[0].sections["train"].seed
    folders = {seed: Path(out) / f"seed-{seed}" for seed in range(first, first + seeds)}
    there = [seed for seed, folder in folders.items() if (folder / RECIPE).exists()]
    _require_measured(system, data, start, {**settings, "seed": first})  # mistakes are found before the first training
    for seed in there:
        _require_same(folders[seed], start, *plan(system, data, start=start, seed=seed, **settings))
    given = {"callback": callback, "quiet": quiet}
    found = []
    for seed, folder in folders.items():
        try:
            if seed in there:
                found.append(resume(folder, corpus=data, **given))
            else:
                found.append(train(system, data, out=folder, start=start.path, seed=seed, **given, **settings))
        except KeyboardInterrupt as interrupt:
            interrupt.__notes__ = ["the same command continues it, and goes on with the other seeds"]
            raise
    told = _measured(found)
    writing_json(Path(out) / _SEEDS, told.as_dict())
    return told


def _task(task: str | None, data: Any, start: Run) -> str:  # noqa: ANN401
    """Returns the task that is meant.

    Raises:
        SettingError: if it is unknown.
    """
    known = task_names()
    if task is None:
        named = named_dataset(data)
        if named is not None:
            task = named[0].tasks[0]
        elif start.recipe.system.startswith(_PREFIX):
            task = start.recipe.system.removeprefix(_PREFIX)
        else:
            raise SettingError(f"name what the encoder is to learn: --task {', '.join(known)}")
    if task not in known:
        meant = _OTHER_NAMES.get(task.lower())
        near = f"; did you mean {meant!r}?" if meant else nearest_name(task, known)
        raise SettingError(f"no task is called {task!r}{near} (there are {', '.join(known)})")
    return task


def _kept(data: Any) -> Any:  # noqa: ANN401  what users give
    """Data that can be read again: iterators, also those of splits, as lists."""
    if isinstance(data, Mapping):
        return {name: _kept(split) for name, split in data.items()}
    return list(data) if isinstance(data, Iterator) else data


def _require_measured(system: str, data: Any, start: Run, settings: Mapping[str, Any]) -> None:  # noqa: ANN401
    """Makes sure that there will be something to compare seeds by.

    Raises:
        SettingError: if there are no validation data.
    """
    recipe, opened = plan(system, data, start=start, **settings)
    task = find_system(system).load().model.task
    if open_train_and_valid(opened.source, task, recipe.sections["data"])[1] is None:
        raise SettingError("several seeds are compared on validation data: give valid=FILE, or a valid_share above 0")


def _require_same(folder: Path, start: Run, recipe: Recipe, opened: Opened) -> None:
    """Makes sure that the run of a seed is the one that is wanted.

    Raises:
        RunError: if it was trained otherwise, or on other examples.
    """
    require_same(folder, recipe)
    source = find_system(recipe.system).load().source
    data = source.read(recipe, opened.source, lambda *_: None, start)  # examples are the same for every encoder
    if Run(folder).corpus.get("fingerprint", data.fingerprint) != data.fingerprint:
        raise RunError(f"{folder}: was trained on other examples; choose another --out for these")


def _measured(runs: Sequence[Run]) -> SeedRuns:
    """Compares finished runs by the metric that their best states were chosen by; by the loss if one has none.

    Raises:
        RunError: if nothing was measured.
    """
    wanted, measured = str(runs[0].summary.get("best_by")), [run.summary.get("validation", {}) for run in runs]
    metric = wanted if all(wanted in one for one in measured) else "loss"
    values = [one.get(metric) for one in measured]
    if None in values:
        raise RunError(f"{runs[0].path.parent}: nothing was measured while training; add valid, or a valid_share")
    untold = wanted if metric != wanted else ""
    return SeedRuns(runs=tuple(runs), metric=metric, values=tuple(values), untold=untold)


def question_of(line: str, context: str | None) -> tuple[str, str]:
    """Returns a question and its text.

    Args:
        line: The question, or QUESTION<TAB>TEXT.
        context: The text; None: it is in the line.

    Raises:
        SettingError: if there is no text.
    """
    if context is not None:
        return line, context
    question, tab, text = line.partition("\t")
    if not tab:
        raise SettingError(f"{line[:60]!r} has no text to answer from: expected QUESTION<TAB>TEXT, or --context FILE")
    return question, text


def choice_of(line: str) -> tuple[str, str, list[str]]:
    """Returns text, question and options of a line; tabs at its end are no options.

    Raises:
        SettingError: if there are fewer than two options, or one of them is empty.
    """
    text, *rest = line.split("\t")
    options = without_empty_end(rest[1:])
    if len(options) < 2:
        raise SettingError(f"{line[:60]!r}: expected TEXT<TAB>QUESTION<TAB>OPTION<TAB>OPTION..., two options at least")
    if "" in map(str.strip, options):
        raise SettingError(f"{line[:60]!r}: an option is empty")
    return text, rest[0], options
