"""Too little memory for a training: one clear line, and with enough of it the same bytes."""

import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.faults.lab import Lab
from benchmarks.faults.outcomes import Probe
from benchmarks.faults.trainings import Trainings
from benchmarks.faults.victims import Ended, Victim

__all__ = ["Memory"]

SCARCE = "too little memory"
LEAST_BYTES, MOST_BYTES = 1 << 20, 1 << 26  # with still less, Python itself may wait for a thread that never began


class Memory:
    """Limits the address space of a copy of this process, which has everything that it needs already imported.

    Args:
        lab: How often.
        trainings: What is trained.
    """

    parts = (SCARCE,)

    def __init__(self, lab: Lab, trainings: Trainings) -> None:
        self._lab, self._trainings = lab, trainings

    def probes(self, system: str) -> Iterator[Probe]:
        """Only Linux keeps to such a limit."""
        if sys.platform == "linux":
            yield from (Probe(SCARCE, system, number) for number in range(self._lab.repeats))

    def make(self, probe: Probe, folder: Path) -> None:
        """Nothing: all begins with an empty folder."""

    def check(self, probe: Probe, folder: Path) -> str | None:
        """Trains with a limit, then without; returns what is wrong."""
        training, run = self._trainings[probe.group], folder / "run"
        more = int(LEAST_BYTES * (MOST_BYTES / LEAST_BYTES) ** self._lab.draw(probe).random())
        os.environ["WENMAI_CACHE"] = str(folder / "cache")
        told = folder / "told.txt"

        def train(_: Victim) -> int:
            from wenmai.cli.main import main

            os.dup2(os.open(told, os.O_WRONLY | os.O_CREAT), 2)
            sys.stderr = open(2, "w", closefd=False, buffering=1)  # noqa: SIM115  for as long as it lives
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            limit = pages * resource.getpagesize() + more
            resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
            return main(training.command(run))

        try:
            code = Victim(train).wait()
        except Ended as ended:
            return f"{more:,} more bytes: {ended}: {told.read_text()[-300:]!r}"
        said = told.read_text(encoding="utf-8")
        if code != 0 and ("Traceback" in said or not said.splitlines()[-1].startswith("wenmai: ")):
            return f"{more:,} more bytes: exit code {code}: {said[-600:]!r}"
        try:
            Victim(lambda _: training.go_on(run)).wait()
        except Ended as ended:
            return f"it cannot go on with more memory: {ended}"
        return training.defects(run)
