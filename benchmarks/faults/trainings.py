"""A short training of every family of systems: long enough to be killed, and what it gives if it is not."""

import math
import os
import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from benchmarks.faults.lab import Lab
from benchmarks.faults.subjects import answers
from benchmarks.faults.victims import Area, Victim, changing
from tests.contract.examples import EXAMPLES
from wenmai.config.recipe import settings_of
from wenmai.core.registry import find_system

__all__ = ["Training", "Trainings", "files", "stop_before"]

LINES = 150
MOST_EPOCHS = 200
SECONDS = 0.3


@dataclass(frozen=True, kw_only=True)
class Training:
    """A training, and what it gives.

    Attributes:
        system: The system.
        corpus: Its data.
        start: The finished run that it starts from, if it needs one.
        settings: What makes it short, on one thread, with a checkpoint as often as possible.
        run: The finished run.
        expected: The checksum of each file of its model.
        seconds: How long it takes once everything is compiled.
        changes: How often it changes files of each area.
        answers: What its model says.
        interrupted: A folder with ``run``, killed while it wrote a checkpoint, and the ``cache`` of its data.
    """

    system: str
    corpus: Path
    start: Path | None
    settings: Mapping[str, Any]
    run: Path
    expected: Mapping[str, str]
    seconds: float
    changes: Mapping[Area, int]
    answers: Mapping[str, Any]
    interrupted: Path

    def train(self, out: Path, **more: Any) -> None:
        """Trains into a folder."""
        import wenmai

        wenmai.train(self.system, self.corpus, out=out, start=self.start, **self.settings, **more)

    def go_on(self, out: Path) -> None:
        """Does what a user does after a kill: resume, or train again if it was killed before it had a recipe."""
        import wenmai

        if (out / "recipe.yaml").exists():
            wenmai.resume(out)
        else:
            self.train(out)

    def command(self, out: Path) -> list[str]:
        """The arguments of ``wenmai`` that do what :meth:`go_on` does."""
        if (out / "recipe.yaml").exists():
            return ["resume", str(out), "--quiet"]
        given = [f"--set={name}={_written(value)}" for name, value in self.settings.items()]
        start = [] if self.start is None else ["--from", str(self.start)]
        return ["train", self.system, str(self.corpus), *start, "--out", str(out), "--quiet", *given]

    def another_model(self, run: Path) -> str | None:
        """Returns which files of a model are not those of the finished run."""
        found = files(run / "model")
        differing = {name for name, _ in {*found.items()} ^ {*self.expected.items()}}
        return f"another model: {', '.join(sorted(differing))}" if differing else None

    def defects(self, run: Path) -> str | None:
        """Returns what is wrong with a run: another model, a problem that verify finds, or something left over."""
        from wenmai.training.run import verify

        if another := self.another_model(run):
            return another
        if problems := verify(run)[1]:
            return f"verify: {problems[0]}"
        names = {path.name for path in run.iterdir()} ^ {path.name for path in self.run.iterdir()}
        return f"left over, or missing: {', '.join(sorted(names))}" if names else None


class Trainings:
    """The families that were prepared, in this process: all that they compile and import is there for forked copies.

    Args:
        lab: Where.
    """

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._known: dict[str, Training] = {}

    def prepare(self, system: str) -> None:
        """Trains a family, unless that was done before."""
        if system not in self._known:
            self._known[system] = _prepared(system, self._lab.work)

    def __getitem__(self, system: str) -> Training:
        return self._known[system]


def _prepared(system: str, work: Path) -> Training:
    """Trains a family until it takes long enough, and once more to be interrupted."""
    import wenmai

    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)  # a process with more cannot be forked
    place = work / "families" / system
    place.mkdir(parents=True)
    os.environ["WENMAI_CACHE"] = str(place / "cache")
    _write_texts(place)
    example, start = EXAMPLES[system], None
    if example.start is not None:
        base, start = EXAMPLES[example.start], place / "start"
        wenmai.train(example.start, place / base.data, out=start, **base.settings)
    known = {setting.name for setting in settings_of(find_system(system).load().sections)}
    usual = {name: value for name, value in (("checkpoint_seconds", 0), ("epochs", 1)) if name in known}
    settings, run = {**example.settings, **usual}, place / "whole"

    def train(out: Path) -> float:
        began = time.perf_counter()
        wenmai.train(system, place / example.data, out=out, start=start, **settings)
        return time.perf_counter() - began

    train(run)  # and compile
    while True:
        shutil.rmtree(run)
        took = train(run)
        if took >= SECONDS or settings.get("epochs", MOST_EPOCHS) >= MOST_EPOCHS:
            break
        settings["epochs"] = min(MOST_EPOCHS, 1 + math.ceil(1.1 * settings["epochs"] * SECONDS / took))
    changes = _counted(place / "counted", train)
    interrupted = place / "interrupted"
    interrupted.mkdir()
    _stop(interrupted / "run", train, changes[Area.CHECKPOINTS])
    return Training(
        system=system,
        corpus=place / example.data,
        start=start,
        settings=settings,
        run=run,
        expected=files(run / "model"),
        seconds=took,
        changes=changes,
        answers=answers(wenmai.Run(run)),
        interrupted=interrupted,
    )


def _counted(run: Path, train: Callable[[Path], float]) -> dict[Area, int]:
    """Trains, and counts the changes of files."""

    def count(_: Victim) -> Mapping[Area, int]:
        changes = Counter(dict.fromkeys(Area, 0))
        changing(run, lambda area: changes.update([area]))
        train(run)
        return changes

    found = {Area(name): number for name, number in Victim(count).wait().items()}
    shutil.rmtree(run)
    return found


def _stop(run: Path, train: Callable[[Path], float], changes: int) -> None:
    """Trains, and kills in the middle of writing checkpoints, or if there are none before the model is written."""
    place = changes * 2 // 3
    while place and not _stopped(run, train, Area.CHECKPOINTS, place):
        place //= 2  # there were not so many this time, or they were being removed at the end
    if not place and not _stopped(run, train, Area.MODEL, 1):
        raise RuntimeError(f"{run}: nothing can be interrupted")


def _stopped(run: Path, train: Callable[[Path], float], area: Area, place: int) -> bool:
    """Trains, and kills before some change of an area; returns False, and removes the run, if that was too late."""

    def work(victim: Victim) -> None:
        os.environ["WENMAI_CACHE"] = str(run.parent / "cache")
        stop_before(run, area, place, victim)
        train(run)

    victim = Victim(work)
    victim.marked()
    if victim.kill() and not (run / "model").exists():
        return True
    shutil.rmtree(run)
    return False


def stop_before(run: Path, area: Area, place: int, victim: Victim, *, seconds: float = 60) -> None:
    """In a victim: tells the parent before some change of an area, and waits."""
    left = place

    def seen(changed: Area) -> None:
        nonlocal left
        left -= changed == area
        if left == 0 and changed == area:
            victim.mark()
            time.sleep(seconds)

    changing(run, seen)


def files(folder: Path) -> dict[str, str]:
    """Returns the checksum of each file in a folder."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): sha256(path.read_bytes()).hexdigest() for path in found}


def _written(value: object) -> str:
    """A setting as the command line takes it."""
    if isinstance(value, tuple):
        return ",".join(map(_written, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _write_texts(work: Path) -> None:
    """Writes data of the kinds that the examples take, but more of them."""
    draw = random.Random(1)
    lines = [draw.choices("abcdefgh", k=draw.randint(1, 9)) for _ in range(LINES)]
    kinds: Mapping[str, Iterable[str]] = {
        "text.txt": (" ".join(words) for words in lines),
        "documents.txt": (" ".join(words) + "\n" * (place % 2) for place, words in enumerate(lines)),
        "pairs.tsv": (f"{' '.join(words)}\t{' '.join(reversed(words)).upper()}" for words in lines),
        "labels.txt": (f"__label__{'early' if words[0] < 'd' else 'late'} {' '.join(words)}" for words in lines),
    }
    for name, texts in kinds.items():
        (work / name).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
