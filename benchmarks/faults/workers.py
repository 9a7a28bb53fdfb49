"""Forked workers that try probes: one that dies, or takes too much time or memory, costs only its probe.

Each worker is a copy of the process that starts them, with all that was imported, compiled and prepared there. Time is
limited by the kernel, and generously, because the machine may be busy: the processor time of a probe by SIGPROF, the
time on the clock (of something that waits) by SIGALRM. Memory is limited by the address space, and by the largest
resident size of the worker, which is looked at after each probe.
"""

import faulthandler
import json
import logging
import os
import resource
import shutil
import signal
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from benchmarks.faults.outcomes import Failures, Finding, Outcome, Probe, place_of
from wenmai.core.errors import WenmaiError

__all__ = ["Check", "Limits", "Make", "attempt", "run_probes"]

Make = Callable[[Probe, Path], None]
"""Writes the input of a probe into an empty folder."""
Check = Callable[[Probe, Path], str | None]
"""Tries an input; returns what is wrong with what came out, or None if it is harmless."""

CHUNK = 16  # probes that a worker gets at once
_TIMERS = {signal.SIGPROF: "processor time", signal.SIGALRM: "time on the clock"}


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a probe may take.

    Attributes:
        processor_seconds: Of all threads.
        clock_seconds: Waiting included.
        memory_bytes: Beyond what the worker began with.
    """

    processor_seconds: float = 10
    clock_seconds: float = 90
    memory_bytes: int = 1 << 30


def run_probes(
    probes: Iterable[Probe],
    make: Make,
    check: Check,
    *,
    work: Path,
    failures: Failures,
    workers: int = 2,
    limits: Limits | None = None,
) -> Iterator[Finding]:
    """Tries probes in forked workers, and yields how each ended, in the order in which they end.

    The inputs of those that end badly are kept, and the message of the finding ends with the command that tries one
    again.

    Args:
        probes: What to try.
        make: Writes an input, in the worker.
        check: Tries it.
        work: An empty folder, best in memory.
        failures: Where inputs are kept.
        workers: How many processes.
        limits: Of a probe.

    Raises:
        RuntimeError: if an input cannot be made, which is a defect of the lab.
    """
    waiting, retried = iter(probes), deque[Probe]()
    pool = [_Worker(make, check, work / f"worker-{number}", limits or Limits()) for number in range(workers)]
    try:
        while True:
            for worker in pool:
                if not worker.given:
                    worker.give(_chunk(waiting, retried))
            busy = {worker.connection: worker for worker in pool if worker.given}
            if not busy:
                return
            for connection in wait(list(busy)):
                worker = busy[connection]  # type: ignore[index]
                finding, folder = worker.receive()
                if not worker.alive:
                    retried += worker.given
                    worker.start()
                if finding.outcome.bad:
                    worker.drop_answers(folder)
                    command = failures.keep(finding, folder)
                    finding = Finding(finding.probe, finding.outcome, f"{finding.message}\n    {command}")
                if folder.exists():
                    shutil.rmtree(folder)
                yield finding
    finally:
        for worker in pool:
            worker.stop()


_GIVEN = "given.json"  # the names of the files of an input


def _chunk(waiting: Iterator[Probe], retried: deque[Probe]) -> list[Probe]:
    taken = [retried.popleft() for _ in range(min(CHUNK, len(retried)))]
    return taken or [probe for _, probe in zip(range(CHUNK), waiting, strict=False)]


class _Worker:
    """A forked process that tries the probes it is given, one after the other."""

    def __init__(self, make: Make, check: Check, folder: Path, limits: Limits) -> None:
        self._make, self._check, self._folder, self._limits = make, check, folder, limits
        self.start()

    def start(self) -> None:
        """Forks the process."""
        self.given: deque[Probe] = deque()
        self.alive = True
        self.connection, inside = get_context("fork").Pipe()
        self._process: BaseProcess = get_context("fork").Process(target=self._work, args=(inside,))
        self._process.start()
        inside.close()

    def give(self, probes: list[Probe]) -> None:
        """Sends probes."""
        if probes:
            self.given = deque(probes)
            self.connection.send(probes)

    def receive(self) -> tuple[Finding, Path]:
        """Returns how the next probe ended, and the folder of its input."""
        probe = self.given.popleft()
        folder = self._folder / probe.name
        try:
            outcome, message, seconds, self.alive = self.connection.recv()
        except (EOFError, ConnectionResetError):
            self.alive, seconds = False, 0.0
            outcome, message = _death(self._end())
        if outcome is None:
            raise RuntimeError(f"the input {probe} cannot be made: {message}")
        if not self.alive:
            self._end()
        return Finding(probe, outcome, message, seconds), folder

    def drop_answers(self, folder: Path) -> None:
        """Removes what the last check wrote beside its input."""
        with suppress(OSError, ValueError):
            given = json.loads((self._folder / _GIVEN).read_bytes())
            for path in [path for path in folder.iterdir() if path.name not in given]:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    def stop(self) -> None:
        """Ends the process."""
        self._end(signal.SIGKILL)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _end(self, number: signal.Signals | None = None) -> int:
        """Waits for the process (killing it, if a signal is given), and kills what it left behind."""
        group = self._process.pid
        assert group is not None
        if number is not None and self._process.is_alive():
            os.kill(group, number)
        self._process.join()
        self.connection.close()
        with suppress(ProcessLookupError, PermissionError):  # nothing is left of it
            os.killpg(group, signal.SIGKILL)
        return self._process.exitcode or 0

    def _work(self, connection: Connection) -> None:
        """What the process does."""
        os.setpgrp()
        logging.disable()
        faulthandler.disable()
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        for number in _TIMERS:
            signal.signal(number, signal.SIG_DFL)
        with open(os.devnull, "rb+", buffering=0) as nothing:
            for stream in (0, 1, 2):
                os.dup2(nothing.fileno(), stream)
        begun, parent = _limit_memory(self._limits.memory_bytes), os.getppid()
        while True:
            while not connection.poll(30):
                if os.getppid() != parent:  # which was killed
                    return
            try:
                probes: list[Probe] = connection.recv()
            except EOFError:
                return
            for probe in probes:
                folder = self._folder / probe.name
                folder.mkdir(parents=True)
                try:
                    self._make(probe, folder)
                except BaseException as error:
                    connection.send((None, repr(error), 0.0, False))
                    return
                (self._folder / _GIVEN).write_text(json.dumps(os.listdir(folder)))
                begin = time.perf_counter()
                outcome, message = self._limited(probe, folder)
                grown = resident_bytes() - begun
                alive = grown <= self._limits.memory_bytes
                if not alive:
                    outcome, message = Outcome.CRASH, f"{grown >> 20} MiB of memory: {message}"
                connection.send((outcome, message, time.perf_counter() - begin, alive))
                if not alive:
                    return

    def _limited(self, probe: Probe, folder: Path) -> tuple[Outcome, str]:
        signal.setitimer(signal.ITIMER_PROF, self._limits.processor_seconds)
        signal.setitimer(signal.ITIMER_REAL, self._limits.clock_seconds)
        try:
            return attempt(self._check, probe, folder)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)


def attempt(check: Check, probe: Probe, folder: Path) -> tuple[Outcome, str]:
    """Tries an input in this process, without limits.

    Returns:
        How it ended, and why.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # what a user would see beside the answer
            warnings.simplefilter("ignore", RuntimeWarning)  # of numbers that are too large; answers are looked at
            wrong = check(probe, folder)
    except WenmaiError as error:
        text = str(error)
        if not text or "\n" in text:
            return Outcome.TRACEBACK, f"not one line: {text!r:.500}"
        return Outcome.REFUSED, text
    except MemoryError as error:
        return Outcome.CRASH, f"not enough memory: {error} at {place_of(error)}"
    except BaseException as error:
        return Outcome.TRACEBACK, f"{type(error).__name__}: {error!s:.300} at {place_of(error)}"
    return (Outcome.BENIGN, "") if wrong is None else (Outcome.SILENT, wrong)


def _death(code: int) -> tuple[Outcome, str]:
    """How a probe ended in which its worker died."""
    if code < 0 and signal.Signals(-code) in _TIMERS:
        return Outcome.HANG, f"more {_TIMERS[signal.Signals(-code)]} than the limit"
    return Outcome.CRASH, signal.Signals(-code).name if code < 0 else f"exit code {code}"


def _limit_memory(grown: int) -> int:
    """Limits the address space to what there is now and as much again as may be grown; returns the resident size."""
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        soft = pages * resource.getpagesize() + grown
        resource.setrlimit(resource.RLIMIT_AS, (soft, resource.getrlimit(resource.RLIMIT_AS)[1]))
    return resident_bytes()


def resident_bytes() -> int:
    """The largest resident size of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
