"""Forked copies of this process that work on a run folder, and are killed, interrupted, raced or limited."""

import json
import os
import resource
import select
import signal
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any, NoReturn

from benchmarks.faults.outcomes import place_of
from wenmai.core.errors import WenmaiError

__all__ = ["Area", "Ended", "Victim", "changing"]

_CHANGES = {"os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate"}
_WRITING = os.O_WRONLY | os.O_RDWR


class Area(StrEnum):
    """A part of a run folder, by when it is written."""

    BEGINNING = "beginning"
    CHECKPOINTS = "checkpoints"
    MODEL = "model"


class Ended(Exception):
    """A victim was not killed, but ended by an error.

    Attributes:
        refused: Whether it was one that wenmai explains.
    """

    def __init__(self, message: str, *, refused: bool) -> None:
        super().__init__(message)
        self.refused = refused


class Victim:
    """A forked copy of this process.

    Args:
        work: What it does, given this object; what it returns must be a JSON value.
    """

    def __init__(self, work: Callable[["Victim"], object]) -> None:
        self._results, inside = os.pipe()
        self._marks, self._mark = os.pipe()
        self.number = os.fork()
        if self.number == 0:
            self._live(work, inside)
        os.close(inside)
        os.close(self._mark)
        self._code: int | None = None

    def mark(self) -> None:
        """In the victim: tells the parent that it has come so far."""
        os.write(self._mark, b"!")

    def marked(self, seconds: float = 60) -> bool:
        """Waits until the victim calls :meth:`mark`; returns False if it ends before."""
        readable, _, _ = select.select([self._marks], [], [], seconds)
        return bool(readable) and os.read(self._marks, 1) == b"!"

    def send(self, number: signal.Signals) -> None:
        """Sends a signal; one that has ended already takes no notice."""
        if self._code is None:
            with suppress(ProcessLookupError):
                os.kill(self.number, number)

    def kill(self) -> bool:
        """Sends SIGKILL; returns whether that is what ended it."""
        self.send(signal.SIGKILL)
        return self._end() == -signal.SIGKILL

    def wait(self) -> Any:
        """Waits for its end and returns what it returned.

        Raises:
            Ended: if it ended by an error or a signal.
        """
        with os.fdopen(os.dup(self._results), "rb") as file:
            told = file.read()
        code = self._end()
        if not told:
            raise Ended(f"it died: {signal.Signals(-code).name if code < 0 else code}", refused=False)
        found = json.loads(told)
        if "error" in found:
            raise Ended(found["error"], refused=found["refused"])
        return found["value"]

    def _end(self) -> int:
        if self._code is None:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self.number, 0)[1])
            os.close(self._results)
            os.close(self._marks)
        return self._code

    def _live(self, work: Callable[["Victim"], object], results: int) -> NoReturn:
        """What the copy does: nothing of its parent goes on in it."""
        found: dict[str, object]
        for inherited in range(3, 256):  # connections of its parent, whose other end must see when the parent dies
            with suppress(OSError):
                if stat.S_ISSOCK(os.fstat(inherited).st_mode):
                    os.close(inherited)
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))  # that of its parent is for its parent
        try:
            found = {"value": work(self)}
        except BaseException as error:
            text = (
                str(error)
                if isinstance(error, WenmaiError)
                else f"{type(error).__name__}: {error} at {place_of(error)}"
            )
            found = {"error": text, "refused": isinstance(error, WenmaiError) and "\n" not in text}
        with suppress(OSError):
            os.write(results, json.dumps(found).encode())
        os._exit(0)


def changing(folder: Path, seen: Callable[[Area], None]) -> None:
    """In a victim: calls ``seen`` before each change of a file in a folder, with the area; for as long as it lives.

    What a library writes without Python, such as the numbers of a tensor, goes unnoticed.
    """
    inside = f"{folder}{os.sep}"

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _CHANGES:
            path, handle = arguments[0], arguments[-1]
            if event != "os.rename" and isinstance(handle, int) and handle >= 0:
                with suppress(OSError):
                    path = os.path.join(os.readlink(f"/proc/self/fd/{handle}"), os.fsdecode(path))
        elif event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITING:
            path = arguments[0]
        else:
            return
        if isinstance(path, str | bytes | os.PathLike) and os.fsdecode(path).startswith(inside):
            seen(_area(os.fsdecode(path)[len(inside) :]))

    sys.addaudithook(hook)


def _area(name: str) -> Area:
    top = name.split(os.sep)[0].lstrip(".")
    if top.startswith("checkpoints"):
        return Area.CHECKPOINTS
    return Area.MODEL if top.startswith(("model", "summary")) else Area.BEGINNING
