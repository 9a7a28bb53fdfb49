"""What all parts of the lab get."""

import os
import random
from dataclasses import dataclass
from pathlib import Path

from benchmarks.faults.outcomes import Failures, Probe

__all__ = ["Lab"]


@dataclass(frozen=True, kw_only=True)
class Lab:
    """What is tried, and where.

    Attributes:
        work: An empty folder, in memory if there is room.
        failures: Where probes that end badly are kept.
        inputs: About how many hostile inputs to try in all.
        repeats: How often each thing is done to each family of systems.
        only: Names of parts and groups; empty: all.
        seed: Of all that is random.
        workers: How many processes try probes at once.
    """

    work: Path
    failures: Failures
    inputs: int = 300_000
    repeats: int = 10
    only: tuple[str, ...] = ()
    seed: int = 1
    workers: int = os.cpu_count() or 1

    def wants(self, part: str, group: str) -> bool:
        """Whether a part is to be tried on a group: ``only`` may name parts, groups, or some of both."""
        return not self.only or part in self.only or group in self.only

    def draw(self, probe: Probe) -> random.Random:
        """Random numbers of a probe alone, the same in every process."""
        return random.Random(f"{self.seed} {probe.part} {probe.group} {probe.number}")
