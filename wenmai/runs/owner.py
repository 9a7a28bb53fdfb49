"""One owner for a run folder: two trainings never write into the same one.

The owner holds ``.lock``, a file that is made exclusively and never replaced. Its lock ends with the process, so that
a training that was killed can be resumed at once.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from wenmai.core.errors import RunError
from wenmai.training.run import MODEL, RECIPE, Run

__all__ = ["claimed", "owned", "require_room"]

LOCK = ".lock"


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Makes a run folder and owns it; the folder is removed if the block fails before it holds a recipe.

    Args:
        folder: It must not exist, or be empty.

    Raises:
        RunError: if something is there, another process is faster, or it cannot be written.
    """
    with ExitStack() as held:
        try:
            made = _make(folder)
            held.enter_context(_create_lock(folder))
            _require_nothing_else(folder)
        except OSError as error:
            raise RunError(f"{folder}: cannot be written ({error.strerror}); choose another --out") from None
        try:
            yield
        finally:
            if not (folder / RECIPE).exists():
                with suppress(OSError):
                    (folder / LOCK).unlink()
                    if made:
                        folder.rmdir()  # not if anything is in it, whoever put it there


@contextmanager
def owned(run: Run) -> Iterator[None]:
    """Owns a run folder that exists.

    Raises:
        RunError: if another process trains this run now.
    """
    with open(run.path / LOCK, "ab") as lock:
        if not _lock(lock):
            raise RunError(f"{run.path}: another process is training this run now; wait, or stop it first")
        yield


def require_room(folder: Path) -> None:
    """Makes sure, before any work is done, that a new run can have this folder: it does not exist, or is empty.

    Raises:
        RunError: if something is there.
    """
    try:
        taken = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    except OSError as error:
        raise RunError(f"{folder}: cannot be read ({error.strerror}); choose another --out") from None
    if taken:
        raise _taken(folder)


def _make(folder: Path) -> bool:
    """Makes a folder; returns whether it was not there before.

    Raises:
        RunError: if there is a file of that name.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir()
    except FileExistsError:
        if not folder.is_dir():
            raise _taken(folder) from None
        return False
    return True


@contextmanager
def _create_lock(folder: Path) -> Iterator[None]:
    """Makes the lock file and holds it.

    Raises:
        RunError: if it is there already.
    """
    try:
        (folder / LOCK).touch(exist_ok=False)
    except FileExistsError:
        raise _taken(folder) from None
    with open(folder / LOCK, "ab") as lock:
        if not _lock(lock):
            raise _taken(folder)
        yield


def _lock(file: BinaryIO) -> bool:
    """Locks a file until it is closed; returns whether nobody else has it."""
    try:
        import fcntl
    except ImportError:  # Windows: the exclusive creation has to do
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network file systems have no locks
        pass
    return True


def _require_nothing_else(folder: Path) -> None:
    if any(path.name != LOCK for path in folder.iterdir()):
        (folder / LOCK).unlink()
        raise _taken(folder)


def _taken(folder: Path) -> RunError:
    unfinished = (folder / RECIPE).exists() and not (folder / MODEL).is_dir()
    hint = f", or continue that run: `wenmai resume {folder}`" if unfinished else ""
    return RunError(f"{folder}: exists already; choose another --out{hint}")
