"""Cached folders: made once, then opened by every training, also by several at a time."""

import contextlib
import errno
import json
import logging
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from wenmai.core.errors import FormatError, RunError, WenmaiError
from wenmai.core.folder import MANIFEST, cache_folder, check_sealed, sealed_folder

__all__ = ["cache_entry", "kept", "made", "mapped", "new_folder", "opened", "reopened", "reopened_part", "stored_head"]

_LEFTOVERS = (".new-*", "new-*", "damaged-*", ".copy-*")
_DAY_SECONDS = 86_400
_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR}
_DAMAGE = (ValueError, KeyError, TypeError, AttributeError, IndexError, ZeroDivisionError, RecursionError, FormatError)
_log = logging.getLogger(__name__)
_T = TypeVar("_T")


def new_folder(cache: Path) -> Path:
    """Returns an unused name in ``cache``; a folder left there is removed after a day."""
    return cache / f"new-{uuid.uuid4().hex}"


def cache_entry(namespace: str, fingerprint: str) -> Path:
    """Returns ``<cache>/<namespace>/<fingerprint>``.

    Raises:
        RunError: if it is not a fingerprint, such as a path from a damaged or hostile file.
    """
    if not re.fullmatch("[0-9a-f]{64}", fingerprint):
        raise RunError(f"{fingerprint!r:.100} is not a fingerprint of data: expected 64 hexadecimal digits")
    return cache_folder() / namespace / fingerprint


def opened(folder: Path, open_folder: Callable[[Path], _T]) -> _T | None:
    """Returns what the cache has, or None if it is missing or damaged."""
    if not folder.exists():
        return None
    try:
        return open_folder(folder)
    except RunError as error:
        _log.warning("%s; it is made again", error)
        return None


def reopened(namespace: str, fingerprint: str, open_folder: Callable[[Path], _T]) -> _T | None:
    """Opens ``<cache>/<namespace>/<fingerprint>`` once every byte is checked.

    Returns:
        What ``open_folder`` returns; None if the folder is missing, or damaged: then it is removed.

    Raises:
        RunError: if ``fingerprint`` is not one.
    """
    folder = cache_entry(namespace, fingerprint)
    if folder.is_dir() and not check_sealed(folder):
        with contextlib.suppress(WenmaiError, OSError, ValueError, KeyError, TypeError):
            return open_folder(folder)
    shutil.rmtree(folder, ignore_errors=True)
    return None


def reopened_part(namespace: str, fingerprint: str, open_folder: Callable[[Path], _T]) -> _T:
    """Opens a folder of the cache that another one names, as :func:`reopened` does.

    Raises:
        RunError: if it is missing, or damaged: then it is removed.
    """
    found = reopened(namespace, fingerprint, open_folder)
    if found is None:
        raise RunError(f"{cache_entry(namespace, fingerprint)}: is missing or damaged")
    return found


def kept(namespace: str, fingerprint: str, fill: Callable[[Path], None]) -> None:
    """Makes ``<cache>/<namespace>/<fingerprint>`` for :func:`reopened`, unless it is there and undamaged.

    Args:
        namespace: Folder of the cache.
        fingerprint: Of what ``fill`` writes.
        fill: Writes files into a folder.

    Raises:
        RunError: if there is no room for them.
    """
    folder = cache_entry(namespace, fingerprint)
    if not folder.is_dir() or check_sealed(folder):
        try:
            with sealed_folder(folder) as entry:
                fill(entry)
        except OSError as error:
            raise RunError(
                f"{folder}: cannot be written ({error.strerror}); set WENMAI_CACHE to a folder with space"
            ) from None


@contextlib.contextmanager
def stored_head(folder: Path, name: str, version: int, what: str) -> Iterator[dict[str, Any]]:
    """Reads the JSON head of a sealed folder; the block builds an object from it and the other files.

    The sizes of all files are checked, but not every byte.

    Args:
        folder: The folder.
        name: The file of the head.
        version: The expected ``version`` of the head.
        what: What the folder holds, for messages.

    Raises:
        RunError: if the folder is missing, unfinished, damaged or of another version, or if the block fails on it.
    """
    try:
        head = json.loads((folder / name).read_bytes())
        if head["version"] != version:
            raise ValueError(f"its version is {head['version']}, expected {version}")
        for file, entry in json.loads((folder / MANIFEST).read_bytes())["files"].items():
            if (size := (folder / file).stat().st_size) != entry["bytes"]:
                raise ValueError(f"{file} has {size} bytes, expected {entry['bytes']}")
        yield head
    except OSError as error:
        raise RunError(f"{folder}: has no {what} ({error.filename}: {error.strerror})") from None
    except _DAMAGE as error:
        raise RunError(f"{folder}: the {what} is damaged: {error}") from None


def made(folder: Path, fill: Callable[[Path], str], open_folder: Callable[[Path], _T], what: str) -> _T:
    """Makes a folder of the cache and opens it.

    Args:
        folder: Where it goes.
        fill: Writes files into a folder and returns their fingerprint, which becomes its name.
        open_folder: Opens the result.
        what: What the folder holds, for messages.

    Raises:
        RunError: if there is no space or no permission to write it.
    """
    _remove_leftovers(folder)
    new = new_folder(folder)
    try:
        with sealed_folder(new) as entry:
            fingerprint = fill(entry)
        return _installed(new, folder / fingerprint, open_folder)
    except OSError as error:
        if error.errno not in _DISK_ERRORS:
            raise
        raise RunError(
            f"{folder}: the {what} cannot be written ({error.strerror}); set WENMAI_CACHE to a folder with space, at "
            "least 4 bytes a token"
        ) from None


def _installed(made: Path, folder: Path, open_folder: Callable[[Path], _T]) -> _T:
    """Moves a finished folder to its place and opens it, unless another process was first and its folder is good."""
    while True:
        try:
            os.rename(made, folder)
            return open_folder(folder)
        except OSError:
            if not folder.exists():
                raise
        if found := opened(folder, open_folder):
            shutil.rmtree(made)
            return found
        damaged = folder.with_name(f"damaged-{uuid.uuid4().hex}")
        with contextlib.suppress(FileNotFoundError):  # another process may do the same
            os.rename(folder, damaged)
            shutil.rmtree(damaged)


def _remove_leftovers(cache: Path) -> None:
    """Removes what killed processes left behind, once it is a day old."""
    for leftover in (found for name in _LEFTOVERS for found in cache.glob(name)):
        with contextlib.suppress(OSError):  # another process may have been faster
            if time.time() - leftover.stat().st_mtime > _DAY_SECONDS:
                shutil.rmtree(leftover)


def mapped(path: Path, dtype: str, size: int) -> Any:  # noqa: ANN401  an array of the dtype asked for
    """Maps a file of numbers into memory.

    Raises:
        ValueError: if its size is not the expected one.
        OSError: if it cannot be read.
    """
    if path.stat().st_size != size * np.dtype(dtype).itemsize or size == 0:
        raise ValueError(f"{path.name} has {path.stat().st_size} bytes, expected {size} of {dtype}")
    return np.memmap(path, dtype, "r")
