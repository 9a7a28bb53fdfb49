"""Hostile inputs: damaged files of every reader, and damaged runs of every family of systems."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.faults.lab import Lab
from benchmarks.faults.outcomes import Finding, Probe

__all__ = ["findings", "retry"]


def findings(lab: Lab) -> Iterator[Finding]:
    """Tries them."""
    yield from ()


def retry(lab: Lab, probe: Probe, folder: Path) -> Finding | None:
    """Tries one again."""
    return None
