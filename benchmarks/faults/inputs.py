"""Hostile inputs: damaged files of every reader, and damaged runs of every family of systems."""

import os
import shutil
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from benchmarks.faults.damage import PARTS
from benchmarks.faults.lab import Lab
from benchmarks.faults.outcomes import Finding, Probe
from benchmarks.faults.subjects import Subject, subjects
from benchmarks.faults.workers import attempt, run_probes

__all__ = ["findings", "known_subjects", "planned", "retry", "warm"]


def findings(lab: Lab, *, leaving_out: tuple[str, ...] = ()) -> Iterator[Finding]:
    """Tries as many inputs as the lab is to try, of all subjects in turn.

    Args:
        lab: What is tried, and where.
        leaving_out: Beginnings of the names of subjects that are not tried.
    """
    known = known_subjects(lab)
    chosen = [
        one
        for one in known.values()
        if not one.name.startswith(leaving_out) and any(lab.wants(part, one.name) for part in PARTS)
    ]
    if not chosen:
        return
    for subject in chosen:
        warm(subject, lab)

    def make(probe: Probe, folder: Path) -> None:
        subject = known[probe.group]
        subject.damage.write(probe.part, probe.number, lab.draw(probe), folder)
        if subject.seal is not None and probe.part != "links and pipes":
            subject.seal(folder)

    def check(probe: Probe, folder: Path) -> str | None:
        return known[probe.group].check(folder)

    probes = (probe for subject in chosen for probe in planned(subject, lab, _budget(lab, subject, [*known.values()])))
    work = lab.work / "inputs"
    work.mkdir(parents=True, exist_ok=True)
    yield from run_probes(probes, make, check, work=work, failures=lab.failures, workers=lab.workers)


def retry(lab: Lab, probe: Probe, folder: Path) -> Finding | None:
    """Tries one again."""
    subject = known_subjects(lab).get(probe.group)
    if subject is None or probe.part not in PARTS:
        return None
    outcome, message = attempt(lambda _, given: subject.check(given), probe, folder)
    return Finding(probe, outcome, message)


def planned(subject: Subject, lab: Lab, inputs: int) -> Iterator[Probe]:
    """Yields the inputs of a subject: of each part as many as fit, spread over all, and drawn ones for the rest."""
    left = inputs
    for part, share in PARTS.items():
        total = subject.damage.count(part, left)
        number = min(total, left, max(1, int(inputs * share)))
        left -= number
        if lab.wants(part, subject.name):
            yield from (Probe(part, subject.name, place * total // number) for place in range(number))


def _budget(lab: Lab, subject: Subject, known: Sequence[Subject]) -> int:
    return round(lab.inputs * subject.share / sum(one.share for one in known))


@cache
def known_subjects(lab: Lab) -> dict[str, Subject]:
    """Returns all subjects by their names."""
    _quiet()
    return {subject.name: subject for subject in subjects(lab.work / "trained")}


def _quiet() -> None:
    """One thread, and no waiting for the disk: what is tried is whether damage is noticed."""
    import torch

    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    os.fsync = lambda handle: None


def warm(subject: Subject, lab: Lab) -> None:
    """Reads the good samples, which compiles what they need, once for all workers; they must be fine."""
    for number, sample in enumerate(subject.damage.samples):
        folder = lab.work / "warm" / f"{subject.name}-{number}"
        shutil.rmtree(folder, ignore_errors=True)
        for name, content in sample.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        probe = Probe("good", subject.name, number)
        outcome, message = attempt(lambda _, given: subject.check(given), probe, folder)
        if outcome != "benign":
            raise RuntimeError(f"the good sample {folder} of {subject.name} is {outcome}: {message}")
