"""Many processes that want the same folder, or the same cache, at the same moment: one wins, nothing is lost."""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.faults.lab import Lab
from benchmarks.faults.outcomes import Probe
from benchmarks.faults.trainings import Training, Trainings
from benchmarks.faults.victims import Ended, Victim

__all__ = ["Races"]

STARTS, RESUMES, MIXED, CACHES = "races of starts", "races of resumes", "races with readers", "races for the cache"
RUNNERS = 6


class Races:
    """Forks several copies that wait for one signal.

    Args:
        lab: How often.
        trainings: What is trained.
    """

    parts = (STARTS, RESUMES, MIXED, CACHES)

    def __init__(self, lab: Lab, trainings: Trainings) -> None:
        self._lab, self._trainings = lab, trainings

    def probes(self, system: str) -> Iterator[Probe]:
        """A race is several processes, so there are fewer."""
        for part in self.parts:
            yield from (Probe(part, system, number) for number in range(-(-self._lab.repeats // 4)))

    def make(self, probe: Probe, folder: Path) -> None:
        """An empty folder, or an interrupted run."""
        if probe.part in (RESUMES, MIXED):
            shutil.copytree(self._trainings[probe.group].interrupted, folder, dirs_exist_ok=True)

    def check(self, probe: Probe, folder: Path) -> str | None:
        """Lets them race; returns what is wrong."""
        training, run = self._trainings[probe.group], folder / "run"
        os.environ["WENMAI_CACHE"] = str(folder / "cache")
        if probe.part == CACHES:
            return _race_for_cache(training, folder)
        if probe.part == STARTS:
            told = _raced([lambda: training.train(run)] * RUNNERS)
            if [one for one in told if one is not None and "exists already" not in one]:
                return f"a loser said: {[one for one in told if one is not None]}"
            if told.count(None) != 1:
                return f"{told.count(None)} of {RUNNERS} trained"
        else:
            works = [lambda: training.go_on(run)] * RUNNERS
            if probe.part == MIXED:
                works += [lambda: _read(run), lambda: training.train(run)]
            told = _raced(works)
            if wrong := [one for one in told if one is not None and not _fair(one)]:
                return f"one said: {wrong[0]}"
            if None not in told[:RUNNERS]:
                return "nobody resumed"
        return training.defects(run)


def _race_for_cache(training: Training, folder: Path) -> str | None:
    """Trains into several folders, all of which need the same data encoded."""
    runs = [folder / f"run-{number}" for number in range(RUNNERS)]
    told = _raced([lambda run=run: training.train(run) for run in runs])  # type: ignore[misc]
    if wrong := [one for one in told if one is not None]:
        return f"one said: {wrong[0]}"
    return next((defect for run in runs if (defect := training.defects(run))), None)


def _fair(said: str) -> bool:
    """Whether a loser's message is what it should be."""
    return any(words in said for words in ("another process is training", "exists already", "has not finished"))


def _read(run: Path) -> None:
    """Looks at a run again and again while others work on it."""
    import wenmai
    from wenmai.core.errors import RunError
    from wenmai.training.run import verify

    for _ in range(20):
        verify(run)
        try:
            wenmai.load(run)
        except RunError as error:
            if "has not finished" not in str(error):
                raise
        time.sleep(0.01)


def _raced(works: list) -> list[str | None]:
    """Lets copies of this process begin together; returns the message of each, None if it succeeded."""
    gate, go = os.pipe()

    def begin(work, victim: Victim) -> None:  # type: ignore[no-untyped-def]
        os.close(go)
        victim.mark()
        os.read(gate, 1)
        work()

    victims = [Victim(lambda victim, work=work: begin(work, victim)) for work in works]  # type: ignore[misc]
    os.close(gate)
    for victim in victims:
        victim.marked()
    os.close(go)
    return [_said(victim) for victim in victims]


def _said(victim: Victim) -> str | None:
    try:
        victim.wait()
    except Ended as ended:
        return str(ended) if ended.refused else f"not refused in one line: {ended}"
    return None
