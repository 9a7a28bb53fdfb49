"""What hostile inputs are given to: a subject is a reader of files, or a family of systems, with good samples of its.

``subjects`` collects them where they are registered, so that a new format, data set or system is among them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import wenmai
from benchmarks.faults.damage import Damage, Sample
from tests.contract.examples import ANSWERS, EXAMPLES, TEXTS
from wenmai.core.registry import find_system
from wenmai.training.run import Run

__all__ = ["Subject", "Trained", "answers", "not_a_number", "sample_of", "subjects"]


@dataclass(frozen=True, kw_only=True)
class Subject:
    """Something that reads files.

    Attributes:
        name: The group of its probes.
        make: Makes its samples, with all ways to damage them, when they are needed.
        check: Reads what is in a folder; returns what is wrong with what came out, or None.
        seal: Makes checksums of a damaged sample match.
        share: How many inputs it gets, relative to others.
    """

    name: str
    make: Callable[[], Damage]
    check: Callable[[Path], str | None]
    seal: Callable[[Path], None] | None = None
    share: float = 1.0

    @cached_property
    def damage(self) -> Damage:
        """Its samples, and all ways to damage them."""
        return self.make()


@dataclass(frozen=True)
class Trained:
    """Runs of the tiny examples, each trained once, when it is asked for.

    Attributes:
        folder: Where they go.
    """

    folder: Path
    _runs: dict[str, Run] = field(default_factory=dict)

    def __call__(self, system: str) -> Run:
        """Returns the run of a system."""
        if system not in self._runs:
            example = EXAMPLES[system]
            corpus = self.folder / example.data
            corpus.parent.mkdir(parents=True, exist_ok=True)
            corpus.write_text(TEXTS[example.data]["enough"])
            start = None if example.start is None else self(example.start).path
            given = {**example.settings} | ({} if start is None else {"start": start})
            self._runs[system] = wenmai.train(system, corpus, out=self.folder / system, **given)
        return self._runs[system]


def sample_of(folder: Path) -> Sample:
    """Returns the files of a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def answers(run: Run, verbs: Sequence[str] | None = None) -> Mapping[str, object]:
    """Lets a model say something with each of its verbs, or with some of them."""
    task = find_system(run.recipe.system).load()
    return {verb: ANSWERS[verb](run.model) for verb in verbs or task.verbs if verb in ANSWERS}


def not_a_number(said: object) -> bool:
    """Whether a number in what was said is NaN."""
    if isinstance(said, float):
        return said != said
    if isinstance(said, Mapping):
        return any(map(not_a_number, said.values()))
    if isinstance(said, list | tuple):
        return any(map(not_a_number, said))
    return is_dataclass(said) and any(map(not_a_number, vars_of(said)))


def vars_of(said: Any) -> Iterator[object]:
    """Yields the values of the fields of a dataclass."""
    return (getattr(said, one.name) for one in fields(said))


@cache
def subjects(folder: Path) -> Sequence[Subject]:
    """Returns all subjects; their samples are made in a folder."""
    from benchmarks.faults import encoders, families, indexes, pinyin, readers, relations

    trained = Trained(folder)
    others = (*encoders.subjects(), *indexes.subjects(), *pinyin.subjects(), *relations.subjects(trained))
    return (*readers.subjects(trained), *others, *families.subjects(trained))
