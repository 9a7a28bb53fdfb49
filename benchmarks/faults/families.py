"""Runs of strangers: a finished and an unfinished run of every family of systems, with and without true checksums."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path

import wenmai
from benchmarks.faults.damage import Damage, Sample, bombs
from benchmarks.faults.subjects import Subject, Trained, answers, not_a_number, sample_of
from tests.contract.examples import EXAMPLES
from wenmai.core.folder import MANIFEST, seal_files
from wenmai.runs.train import Callback
from wenmai.training.run import CHECKPOINTS, LOCK, MODEL, Run, verify

__all__ = ["subjects"]

_MOST_BUCKETS = 100_000
UNSEALED = ("environment.json", "summary.json", "metrics.jsonl", LOCK)
"""Files without checksums, as nothing depends on them."""


def subjects(trained: Trained) -> Iterator[Subject]:
    """Yields three subjects for each example of a system."""
    for system in EXAMPLES:
        run, checksums, checkpoints = (f"{what} of {system}" for what in ("run", "checksums", "checkpoints"))
        yield Subject(name=run, make=partial(_finished, system, trained), check=_opened, seal=_seal, share=2)
        sealed = _Verified(partial(trained, system))
        yield Subject(name=checksums, make=sealed.damage, check=sealed, share=0.5)
        unfinished = partial(_unfinished, system, trained)
        yield Subject(name=checkpoints, make=unfinished, check=_resumed, seal=_seal, share=0.05)


def _finished(system: str, trained: Trained) -> Damage:
    sample = sample_of(trained(system).path)
    structures = partial(bombs, [sample], compressed=False)
    return Damage([sample], structures, kept=_unchanged(sample), weights=(".safetensors", ".bin"))


def _unchanged(sample: Sample) -> tuple[str, ...]:
    """The files that are made to match the others anyway."""
    return (*(name for name in sample if name.endswith(MANIFEST)), LOCK)


def _seal(folder: Path) -> None:
    """Makes all checksums match."""
    for sealed in (folder / MODEL, *(folder / CHECKPOINTS).glob("*")):
        if sealed.is_dir():
            inside = (path for path in sorted(sealed.rglob("*")) if path.is_file() and path.name != MANIFEST)
            seal_files(sealed, [path.relative_to(sealed).as_posix() for path in inside])
    Run(folder).seal()


def _opened(folder: Path) -> str | None:
    """Opens a run, lets its model speak, and looks at everything else that is in it."""
    problems: list[BaseException] = []
    wrong = None
    for look in (_spoken, _looked_at, lambda run: verify(run.path)):
        try:
            wrong = look(Run(folder)) or wrong
        except wenmai.core.errors.WenmaiError as error:
            problems.append(error)
    if problems:
        raise problems[0]
    return wrong if isinstance(wrong, str) else None


def _spoken(run: Run) -> str | None:
    return "an answer is no number" if not_a_number(answers(run)) else None


def _looked_at(run: Run) -> None:
    for facts in (run.summary, run.corpus, run.environment):
        assert isinstance(facts, dict)
    assert isinstance(run.records, list)


class _Verified:
    """Whether ``verify`` finds that a run is not what it was."""

    def __init__(self, trained: Callable[[], Run]) -> None:
        self._trained = trained

    @cached_property
    def _sample(self) -> Sample:
        return sample_of(self._trained().path)

    def damage(self) -> Damage:
        """Any damage to any file."""
        return Damage([self._sample])

    def __call__(self, folder: Path) -> str | None:
        found = sample_of(folder)
        sealed = {name: content for name, content in self._sample.items() if not name.endswith((*UNSEALED, MANIFEST))}
        changed = [name for name, content in sealed.items() if found.get(name) != content]
        _, problems = verify(folder)
        if any("\n" in problem for problem in problems):
            return f"a problem takes several lines: {problems}"
        if changed and not problems:
            return f"verify does not see that {changed[0]} has changed"
        return None


class _Stopping(Callback):
    """Ends a training in the middle."""

    def __init__(self, records: int) -> None:
        self._left = records

    def record(self, record: object) -> None:
        self._left -= 1
        if self._left == 0:
            raise KeyboardInterrupt


def _unfinished(system: str, trained: Trained) -> Damage:
    """A run that was interrupted, with checkpoints if its system makes any."""
    whole, folder = trained(system), trained.folder / "unfinished" / system
    example = EXAMPLES[system]
    start = None if example.start is None else trained(example.start).path
    with suppress(KeyboardInterrupt):
        wenmai.train(
            system,
            whole.recipe.corpus[0],
            out=folder,
            callback=_Stopping(max(1, len(whole.records) // 2)),
            **example.settings,
            **({} if start is None else {"start": start}),
        )
    sample = sample_of(folder)
    return Damage([sample], kept=_unchanged(sample))


def _resumed(folder: Path) -> str | None:
    """Resumes a training to its end, and lets the model speak."""
    asked = Run(folder).recipe.flat_settings().get("model.buckets", 0)
    if asked > _MOST_BUCKETS:  # of a recipe that was cut where nothing shows it: a large model is what it asks for
        return None
    return _spoken(wenmai.resume(folder))
