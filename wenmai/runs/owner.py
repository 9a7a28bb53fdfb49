"""One owner for a run folder: two trainings never write into the same one.

The owner holds ``.lock``, a file that is made exclusively and never replaced. Its lock ends with the process, so that
a training that was killed can be resumed at once. One that was killed before it had a recipe left nothing to resume:
its folder is as good as empty, and the next training takes it over.
"""

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from wenmai.core.errors import RunError, shell_path
from wenmai.core.folder import make_folder, obstacle_to
from wenmai.training.run import ENVIRONMENT, LOCK, MODEL, RECIPE, SUMMARY, Run, remove

__all__ = ["claimed", "owned", "require_room"]

_BEFORE_RECIPE = (LOCK, ENVIRONMENT, SUMMARY)


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Makes a run folder and owns it; the folder is removed if the block fails before it holds a recipe.

    Args:
        folder: It must not exist, or be empty but for what was left by a process that was killed here.

    Raises:
        RunError: if something is there, another process is faster, or it cannot be written.
    """
    with ExitStack() as held:
        try:
            made = _make(folder)
            held.enter_context(_first_lock(folder))
            for path in folder.iterdir():
                if path.name != LOCK:
                    remove(path)  # left by a killed process
        except OSError as error:
            raise RunError(f"{folder}: cannot be written ({error.strerror}); choose another --out") from None
        try:
            yield
        finally:
            if not (folder / RECIPE).exists():
                with suppress(OSError):
                    for path in [path for path in folder.iterdir() if _is_before_recipe(path) and path.name != LOCK]:
                        remove(path)
                    (folder / LOCK).unlink()
                    if made:
                        folder.rmdir()  # not if anything is in it, whoever put it there


@contextmanager
def owned(run: Run) -> Iterator[None]:
    """Owns a run folder that exists.

    Raises:
        RunError: if another process trains this run now, or it cannot be written.
    """
    with ExitStack() as held:
        try:
            lock = held.enter_context(open(run.path / LOCK, "ab"))
        except OSError as error:
            problem = f"cannot be written ({error.strerror})"
            raise RunError(
                f"{run.path}: {problem}; copy the run to a folder of your own, and resume it there"
            ) from None
        if _lock(lock) is False:
            raise RunError(f"{run.path}: another process is training this run now; wait, or stop it first")
        yield


def require_room(folder: Path) -> None:
    """Makes sure, before any work is done, that a new run can have this folder, as :func:`claimed` does.

    Raises:
        RunError: if something is there, or nothing can be made there.
    """
    try:
        taken = folder.exists() and not (folder.is_dir() and _as_good_as_empty(folder))
        obstacle = "" if taken else obstacle_to(folder)
    except OSError as error:
        raise RunError(f"{folder}: cannot be read ({error.strerror}); choose another --out") from None
    if taken:
        raise _taken(folder)
    if obstacle:
        raise RunError(f"{folder}: {obstacle}; choose another --out")


def _make(folder: Path) -> bool:
    """Makes a folder; returns whether it was not there before.

    Raises:
        RunError: if there is a file of that name.
    """
    make_folder(folder.parent)
    try:
        folder.mkdir()
    except FileExistsError:
        if not folder.is_dir():
            raise _taken(folder) from None
        return False
    return True


@contextmanager
def _first_lock(folder: Path) -> Iterator[None]:
    """Makes the lock file, or takes over that of a killed process, and holds it.

    Raises:
        RunError: if it belongs to another, or anything else is in the folder.
    """
    path = folder / LOCK
    try:
        path.touch(exist_ok=False)
        made = True
    except FileExistsError:
        if not _as_good_as_empty(folder):
            raise _taken(folder) from None
        made = False
    with open(path, "ab") as lock:
        locked = _lock(lock)
        if locked is False or not (made or (locked and _is_still(lock, path))):
            raise _taken(folder)
        if made and any(other.name != LOCK for other in folder.iterdir()):
            path.unlink()
            raise _taken(folder)
        if not _as_good_as_empty(folder):  # any more: another was here in the meantime
            raise _taken(folder)
        yield


def _lock(file: BinaryIO) -> bool | None:
    """Locks a file until it is closed; returns whether nobody else has it, None if that cannot be known."""
    try:
        import fcntl
    except ImportError:  # Windows: the exclusive creation has to do
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network file systems have no locks
        return None
    return True


def _is_still(file: BinaryIO, path: Path) -> bool:
    """Whether an open file is still the one of this name: whoever made it may have removed it."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.lstat(path))
    except OSError:
        return False


def _as_good_as_empty(folder: Path) -> bool:
    """Whether a folder is empty, or has the lock file and only what is written before a recipe, complete or not."""
    names = [path.name for path in folder.iterdir()]
    lock = folder / LOCK
    ours = lock.is_file() and not lock.is_symlink()
    return not names or (ours and all(_is_before_recipe(path) for path in folder.iterdir()))


def _is_before_recipe(path: Path) -> bool:
    """Whether this is what a training writes before its recipe."""
    return path.name in _BEFORE_RECIPE or re.fullmatch(r"\..+\.tmp", path.name) is not None


def _taken(folder: Path) -> RunError:
    unfinished = (folder / RECIPE).exists() and not (folder / MODEL).is_dir()
    hint = f", remove it, or continue that run: `wenmai resume {shell_path(folder)}`" if unfinished else ""
    return RunError(f"{folder}: exists already; choose another --out{hint}")
