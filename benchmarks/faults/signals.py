"""SIGTERM and SIGINT at any moment: exit code 130, one line, and a run that can be resumed."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.faults.lab import Lab
from benchmarks.faults.outcomes import Probe
from benchmarks.faults.trainings import Training, Trainings, stop_before
from benchmarks.faults.victims import Area, Ended, Victim

__all__ = ["Signals"]

TRAININGS, STARTING = "signals", "signals while starting"
_STOPPING = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """Interrupts commands, and resumes.

    Args:
        lab: How often.
        trainings: What is trained.
    """

    parts = (TRAININGS, STARTING)

    def __init__(self, lab: Lab, trainings: Trainings) -> None:
        self._lab, self._trainings = lab, trainings

    def probes(self, system: str) -> Iterator[Probe]:
        """Real commands take a second to start, so there are fewer."""
        for part, each in ((TRAININGS, self._lab.repeats), (STARTING, -(-self._lab.repeats // 10))):
            yield from (Probe(part, system, number) for number in range(each))

    def make(self, probe: Probe, folder: Path) -> None:
        """Nothing: all begins with an empty folder."""

    def check(self, probe: Probe, folder: Path) -> str | None:
        """Interrupts, resumes, and returns what is wrong."""
        training, run, draw = self._trainings[probe.group], folder / "run", self._lab.draw(probe)
        os.environ["WENMAI_CACHE"] = str(folder / "cache")
        number = draw.choice(_STOPPING)
        if probe.part == STARTING:
            wrong = _interrupt_command(training, run, draw, number)
        else:
            wrong = _interrupt_copy(training, run, draw, number)
        if wrong is not None:
            return f"{number.name}: {wrong}"
        try:
            Victim(lambda _: training.go_on(run)).wait()
        except Ended as ended:
            return f"it cannot go on after {number.name}: {ended}"
        return training.defects(run)


def _interrupt_copy(training: Training, run: Path, draw: random.Random, number: signal.Signals) -> str | None:
    """Interrupts the command line in a forked copy: at a moment, or when a file is changed."""
    told = run.with_name("told.txt")
    at_random = draw.random() < 0.3
    area = draw.choice([area for area, changes in training.changes.items() if changes])
    place = draw.randint(1, training.changes[area])
    if at_random:
        area, place = Area.BEGINNING, 1

    def work(victim: Victim) -> int:
        from wenmai.__main__ import run as run_command

        os.dup2(os.open(told, os.O_WRONLY | os.O_CREAT), 2)
        sys.stderr = open(2, "w", closefd=False, buffering=1)  # noqa: SIM115  for as long as it lives
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # from the first line of the command on
        sys.argv = ["wenmai", *training.command(run)]
        stop_before(run, area, place, victim, seconds=0 if at_random else 0.002)
        return run_command()

    victim = Victim(work)
    victim.marked()
    if at_random:
        time.sleep(draw.uniform(0, training.seconds))
    victim.send(number)
    try:
        code = victim.wait()
    except Ended as ended:
        return str(ended)
    return _judged(code, told.read_text(encoding="utf-8"))


def _interrupt_command(training: Training, run: Path, draw: random.Random, number: signal.Signals) -> str | None:
    """Interrupts a process that has just begun, from its first line on: when it catches SIGTERM."""
    command = [sys.executable, "-m", "wenmai", *training.command(run)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while process.poll() is None and not _catches(process.pid, signal.SIGTERM):
        time.sleep(0.001)
    time.sleep(draw.choice([0, draw.uniform(0, 0.2), draw.uniform(0, 2)]))
    process.send_signal(number)
    _, told = process.communicate()
    return _judged(process.returncode, told)


def _catches(process: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for a signal, as Linux tells."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return True
    caught = next((int(line.split()[1], 16) for line in lines if line.startswith("SigCgt")), -1)
    return bool(caught >> (number - 1) & 1)


def _judged(code: int, told: str) -> str | None:
    """What is wrong with how a command ended; it may have been done already."""
    lines = told.splitlines()
    if "Traceback" in told:
        return f"a traceback: {told[-600:]}"
    if code == 0:
        return None
    if code not in (130, -signal.SIGINT):  # Python may end itself by SIGINT, which a shell shows as 130 too
        return f"exit code {code}: {told[-300:]!r}"
    return None if lines and lines[-1].startswith("wenmai: ") else f"no message: {told[-300:]!r}"
