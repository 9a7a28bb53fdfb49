"""What happens to trainings: kills, signals, corruption, races, full disks, too little memory."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from benchmarks.faults.corruption import Corruption
from benchmarks.faults.disks import Disks
from benchmarks.faults.kills import Kills
from benchmarks.faults.lab import Lab
from benchmarks.faults.memory import Memory
from benchmarks.faults.outcomes import Finding, Probe
from benchmarks.faults.races import Races
from benchmarks.faults.signals import Signals
from benchmarks.faults.trainings import Trainings
from benchmarks.faults.workers import Limits, attempt, run_probes
from tests.contract.examples import EXAMPLES

__all__ = ["findings", "retry"]

LIMITS = Limits(processor_seconds=60, clock_seconds=180, memory_bytes=4 << 30)


class Experiment(Protocol):
    """One kind of trouble; it is made with a lab and trainings."""

    parts: tuple[str, ...]

    def probes(self, system: str) -> Iterator[Probe]:
        """Yields what to try on a family."""

    def make(self, probe: Probe, folder: Path) -> None:
        """Prepares a probe in an empty folder."""

    def check(self, probe: Probe, folder: Path) -> str | None:
        """Tries it; returns what is wrong with what came out."""


EXPERIMENTS = (Kills, Signals, Corruption, Races, Disks, Memory)


def findings(lab: Lab) -> Iterator[Finding]:
    """Tries everything on one family after the other."""
    trainings = Trainings(lab)
    experiments: list[Experiment] = [kind(lab, trainings) for kind in EXPERIMENTS]
    for system in EXAMPLES:
        for experiment in experiments:
            probes = [probe for probe in experiment.probes(system) if lab.wants(probe.part, system)]
            if not probes:
                continue
            trainings.prepare(system)  # before it is forked
            yield from run_probes(
                probes,
                experiment.make,
                experiment.check,
                work=lab.work / "probes",
                failures=lab.failures,
                workers=lab.workers,
                limits=LIMITS,
            )


def retry(lab: Lab, probe: Probe, folder: Path) -> Finding | None:
    """Tries one again, with the folder that it had if there is one."""
    for kind in EXPERIMENTS:
        if probe.part in kind.parts:
            trainings = Trainings(lab)
            trainings.prepare(probe.group)
            experiment: Experiment = kind(lab, trainings)
            again = lab.work / "anew"
            again.mkdir()
            experiment.make(probe, again)
            return Finding(probe, *attempt(experiment.check, probe, again))
    return None
