"""``kill -9`` at any moment, and again while the training is resumed; the result is the same to the byte."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.faults.lab import Lab
from benchmarks.faults.outcomes import Probe
from benchmarks.faults.trainings import Training, Trainings, stop_before
from benchmarks.faults.victims import Ended, Victim

__all__ = ["Kills"]

AT_RANDOM, WRITING, AGAIN, COMMANDS = "kills", "kills while writing", "several kills", "kills of commands"
_TRIES = 12  # until a kill meets a victim that has not finished yet


class Kills:
    """Trains, kills, resumes, and compares.

    Args:
        lab: How often.
        trainings: What is trained.
    """

    parts = (AT_RANDOM, WRITING, AGAIN, COMMANDS)

    def __init__(self, lab: Lab, trainings: Trainings) -> None:
        self._lab, self._trainings = lab, trainings

    def probes(self, system: str) -> Iterator[Probe]:
        """Real commands take a second to start, so there are fewer."""
        for part in self.parts:
            each = -(-self._lab.repeats // 5) if part == COMMANDS else self._lab.repeats
            yield from (Probe(part, system, number) for number in range(each))

    def make(self, probe: Probe, folder: Path) -> None:
        """Nothing: all begins with an empty folder."""

    def check(self, probe: Probe, folder: Path) -> str | None:
        """Trains and kills, then resumes; returns what is wrong with the result."""
        training, run, draw = self._trainings[probe.group], folder / "run", self._lab.draw(probe)
        os.environ["WENMAI_CACHE"] = str(folder / "cache")
        if probe.part == COMMANDS:
            return _kill_commands(training, run, draw)
        for turn in range(draw.randint(2, 4) if probe.part == AGAIN else 1):
            writing = probe.part == WRITING or (probe.part == AGAIN and draw.random() < 0.5)
            if not _killed(training, run, draw, writing=writing):
                if turn == 0:
                    return "it always finished before it was killed"
                break  # too little is left to do
        return _finish(training, run)


def _finish(training: Training, run: Path) -> str | None:
    """Goes on to the end, and compares."""
    try:
        Victim(lambda _: training.go_on(run)).wait()
    except Ended as ended:
        return f"it cannot go on after the kill: {ended}"
    return training.defects(run)


def _killed(training: Training, run: Path, draw: random.Random, *, writing: bool) -> bool:
    """Goes on with a training and kills it; returns False if it always ends before that."""
    before = run.with_name("before")
    if run.exists():
        shutil.copytree(run, before)
    try:
        for turn in range(_TRIES):
            kill = _kill_while_writing if writing else _kill_at_random
            if kill(training, run, draw, 0.8**turn):
                return True
            shutil.rmtree(run, ignore_errors=True)
            if before.exists():
                shutil.copytree(before, run)
        return False
    finally:
        shutil.rmtree(before, ignore_errors=True)


def _kill_at_random(training: Training, run: Path, draw: random.Random, share: float) -> bool:
    """Kills within the time that a training takes; returns False if it was too late."""
    victim = Victim(lambda _: training.go_on(run))
    time.sleep(draw.uniform(0, share * training.seconds))
    return victim.kill()


def _kill_while_writing(training: Training, run: Path, draw: random.Random, share: float) -> bool:
    """Kills before some change of a file, or soon after it; returns False if there are not so many."""
    area = draw.choice([area for area, number in training.changes.items() if number])
    place = 1 + draw.randrange(max(1, int(share * training.changes[area])))
    before = draw.random() < 0.5

    def work(victim: Victim) -> None:
        stop_before(run, area, place, victim, seconds=60 if before else 0)
        training.go_on(run)

    victim = Victim(work)
    if victim.marked() and not before:
        time.sleep(draw.uniform(0, 0.003))
    return victim.kill()


def _kill_commands(training: Training, run: Path, draw: random.Random) -> str | None:
    """The same with processes that users start: ``wenmai train``, killed, ``wenmai resume``, killed, and once more."""
    for moment in (draw.uniform(0, training.seconds), draw.uniform(0, training.seconds)):
        process = _start(training, run)
        while not (run / ".lock").exists() and process.poll() is None:
            time.sleep(0.005)
        time.sleep(moment)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    process = _start(training, run)
    _, told = process.communicate()
    if process.returncode != 0 or "Traceback" in told:
        return f"exit code {process.returncode}: {told[-500:]}"
    return training.defects(run)


def _start(training: Training, run: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "wenmai", *training.command(run)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
