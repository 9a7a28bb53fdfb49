"""A disk that is full: one clear line, and when there is room, the same bytes.

The disk is real where this process may mount one: a file system in memory of some size, seen by the forked worker
alone. Elsewhere the size of files is limited, which a training cannot tell from a full disk of its user.
"""

import ctypes
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from benchmarks.faults.lab import Lab
from benchmarks.faults.outcomes import Probe
from benchmarks.faults.trainings import Trainings
from benchmarks.faults.victims import Ended, Victim

__all__ = ["Disks"]

MOUNTED, LIMITED = "full disks", "limits of file sizes"
_NEW_MOUNTS = 0x20000  # CLONE_NEWNS of unshare(2)
_PAGE = 4096


class Disks:
    """Trains on a disk that is too small, makes room, and goes on.

    Args:
        lab: How often.
        trainings: What is trained.
    """

    parts = (MOUNTED, LIMITED)

    def __init__(self, lab: Lab, trainings: Trainings) -> None:
        self._lab, self._trainings = lab, trainings

    def probes(self, system: str) -> Iterator[Probe]:
        """On disks if any can be mounted, and with limits."""
        for part in self.parts if can_mount() else (LIMITED,):
            yield from (Probe(part, system, number) for number in range(self._lab.repeats))

    def make(self, probe: Probe, folder: Path) -> None:
        """Nothing: all begins with an empty folder."""

    def check(self, probe: Probe, folder: Path) -> str | None:
        """Trains until it is full; returns what is wrong with what is said then, or with the model in the end."""
        training, draw, disk = self._trainings[probe.group], self._lab.draw(probe), folder / "disk"
        if probe.part == MOUNTED:
            needed = _blocks(training.run) + 2 * _blocks(training.interrupted)
            _mount(disk, size=draw.randint(1, needed) * _PAGE)
            limit = None
        else:
            disk.mkdir()
            largest = max(path.stat().st_size for path in training.interrupted.rglob("*") if path.is_file())
            limit = draw.randint(1, 2 * largest)
        os.environ["WENMAI_CACHE"] = str(disk / "cache" if draw.random() < 0.5 else folder / "cache")
        run = disk / "run"

        def train(_: Victim) -> None:
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            training.go_on(run)

        try:
            Victim(train).wait()
        except Ended as ended:
            if not ended.refused:
                return f"not refused in one line: {ended}"
            if not any(reason in str(ended) for reason in ("No space left on device", "File too large")):
                return f"it does not say why: {ended}"
        if probe.part == MOUNTED:
            _mount(disk, size=1 << 28, options="remount,")
        try:
            Victim(lambda _: training.go_on(run)).wait()
        except Ended as ended:
            return f"it cannot go on when there is room: {ended}"
        return training.defects(run)


@cache
def can_mount() -> bool:
    """Whether this process may mount a file system that only it sees; tried in a copy of it."""

    def attempt(_: Victim) -> None:
        _see_alone()
        subprocess.run(["mount", "-t", "tmpfs", "none", "/mnt"], check=True, stderr=subprocess.DEVNULL)

    if sys.platform != "linux":
        return False
    try:
        Victim(attempt).wait()
    except Ended:
        return False
    return True


def _mount(folder: Path, *, size: int, options: str = "") -> None:
    """Mounts a file system in memory, which ends with this process; or gives one another size."""
    if not options:
        folder.mkdir()
        _see_alone()
    command = ["mount", "-t", "tmpfs", "-o", f"{options}size={size}", "none", str(folder)]
    subprocess.run(command, check=True)


def _see_alone() -> None:
    """Lets nobody else see what this process mounts from now on."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_MOUNTS) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    subprocess.run(["mount", "--make-rprivate", "/"], check=True, stderr=subprocess.DEVNULL)


def _blocks(folder: Path) -> int:
    """How many pages of memory a folder takes on such a disk."""
    return sum(1 + -(-path.stat().st_size // _PAGE) for path in folder.rglob("*"))
