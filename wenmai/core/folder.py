"""Files and folders that are either complete or absent.

A file is written beside its place, synced and renamed. A *sealed* folder also has ``manifest.json`` with the
size and SHA-256 of every file, written last; :func:`check_sealed` finds any truncation, flipped bit, missing or
extra file.
"""

import errno
import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from wenmai.core.errors import FormatError, RunError
from wenmai.core.wording import say

__all__ = [
    "cache_folder",
    "check_listed",
    "check_sealed",
    "file_sha256",
    "make_folder",
    "obstacle_to",
    "obstacle_to_file",
    "plain_file",
    "read_json_object",
    "seal_files",
    "sealed_folder",
    "umask",
    "writing",
    "writing_json",
]

MANIFEST = "manifest.json"
VERSION = 1
_BLOCK_BYTES = 1 << 22
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_unsealed: set[Path] = set()  # folders whose files are synced when they are sealed, and need not be one by one


def obstacle_to(folder: Path) -> str:
    """Returns why nothing could be written into a folder, which may have to be made first; empty if it could."""
    nearest = next(place for place in (folder, *folder.parents) if place.exists())
    if not nearest.is_dir():
        return say("{path} is a file", path=nearest)
    return "" if os.access(nearest, os.W_OK | os.X_OK) else say("you may not write into {path}", path=nearest)


def obstacle_to_file(path: Path) -> str:
    """Returns why no file could be written there, perhaps in place of another; empty if one could."""
    return say("{path} is a folder", path=path) if path.is_dir() else obstacle_to(path.parent)


def cache_folder() -> Path:
    """Returns where downloads and encoded corpora are kept.

    It is ``$WENMAI_CACHE``, or ``wenmai`` in ``$XDG_CACHE_HOME``, by default ``~/.cache``. As the XDG base directory
    specification says, a relative ``$XDG_CACHE_HOME`` is ignored.
    """
    if own := os.environ.get("WENMAI_CACHE"):
        return Path(own).expanduser()
    shared = Path(os.environ.get("XDG_CACHE_HOME") or "").expanduser()
    return (shared if shared.is_absolute() else Path("~/.cache").expanduser()) / "wenmai"


def make_folder(path: Path) -> None:
    """Makes a folder, and those that it is to be in, unless they are there.

    Raises:
        OSError: if that cannot be; NotADirectoryError if a file has its name.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from None


@contextmanager
def writing(path: str | Path) -> Iterator[BinaryIO]:
    """Opens a temporary file that takes the place of ``path`` only when the block ends without an error.

    Raises:
        OSError: if it cannot be written, or ``path`` is a folder, a pipe or a device, which no file may replace.
    """
    path = Path(path)
    make_folder(path.parent)
    if path.exists():
        plain_file(path)
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    except OSError as error:
        error.filename = str(path)  # what the user named
        raise
    try:
        os.fchmod(handle, 0o666 & ~umask())  # mkstemp gives 0600; results are ordinary files
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            if synced := _unsealed.isdisjoint(path.parents):
                os.fsync(file.fileno())
        os.replace(temporary, path)
        if synced:
            _sync_folder(path.parent)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in _NO_ROOM and error.filename is None:
            error.filename = str(path)  # which a failed write does not know
        raise


def writing_json(path: str | Path, value: Any) -> None:  # noqa: ANN401  any JSON value
    """Writes ``value`` as indented UTF-8 JSON, completely or not at all."""
    with writing(path) as file:
        text = json.dumps(value, ensure_ascii=False, indent=2)
        file.write(text.encode(errors="backslashreplace") + b"\n")  # names of files may be any bytes


def plain_file(path: str | Path) -> Path:
    """Makes sure that a path, or what it links to, is a file: a pipe or a device may never come to an end.

    Raises:
        OSError: if it is missing, or anything else.
    """
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(number, "Is a directory" if stat.S_ISDIR(mode) else "Not a file", str(path))
    return Path(path)


def read_json_object(path: Path) -> dict[str, Any]:
    """Reads a JSON object.

    Raises:
        FormatError: if the file is missing or is none.
    """
    try:
        found = json.loads(plain_file(path).read_bytes())
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise FormatError(f"{path}: expected a JSON object")
    return found


@contextmanager
def sealed_folder(path: str | Path, *, replace: bool = True) -> Iterator[Path]:
    """Yields a temporary folder that becomes ``path``, with a manifest, when the block ends well.

    Args:
        path: The folder.
        replace: Whether it may be there already, and is replaced; else nothing that has come meanwhile is touched.

    Raises:
        RunError: if something is there that is not to be replaced.
    """
    path = Path(path)
    make_folder(path.parent)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent))
    os.chmod(temporary, 0o777 & ~umask())
    _unsealed.add(temporary)
    try:
        yield temporary
        files = {}
        for file in sorted(temporary.rglob("*")):
            if file.is_dir():
                _sync_folder(file)
            elif file.is_file():
                with open(file, "rb+") as opened:
                    os.fsync(opened.fileno())
                entry = {"bytes": file.stat().st_size, "sha256": file_sha256(file)}
                files[file.relative_to(temporary).as_posix()] = entry
        _unsealed.discard(temporary)
        writing_json(temporary / MANIFEST, {"version": VERSION, "files": files})
        if replace and path.exists():
            shutil.rmtree(path)
        try:
            os.rename(temporary, path)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
            raise RunError(f"{path}: exists already; choose another folder to write") from None
        _sync_folder(path.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    finally:
        _unsealed.discard(temporary)


def seal_files(folder: Path, names: Iterable[str]) -> None:
    """Writes a manifest of some files of a folder, for :func:`check_listed`."""
    files = {name: {"bytes": (folder / name).stat().st_size, "sha256": file_sha256(folder / name)} for name in names}
    writing_json(folder / MANIFEST, {"version": VERSION, "files": files})


def check_sealed(path: str | Path) -> list[str]:
    """Returns what is wrong with a sealed folder, one sentence each; an empty list means it is intact.

    Raises:
        RunError: if the folder does not exist.
    """
    path = Path(path)
    if not path.is_dir():
        raise RunError(f"{path}: no such folder")
    try:
        present = {file.relative_to(path).as_posix() for file in path.rglob("*") if _is_own_file(file)}
    except OSError as error:  # such as a folder that a training removes at this moment
        return [f"{path} cannot be read ({error.strerror})"]
    return _check(path, present - {MANIFEST})


def check_listed(folder: Path) -> list[str]:
    """Returns what is wrong with the files that the manifest of a folder lists; others may be there."""
    return _check(folder, None)


def _check(path: Path, present: set[str] | None) -> list[str]:
    """Compares files with the manifest.

    Args:
        path: The folder.
        present: The files that are there, none of which may be missing in the manifest; None to check those of
            the manifest only, which must be plain names.
    """
    try:
        manifest = json.loads(plain_file(path / MANIFEST).read_bytes())
        if manifest["version"] != VERSION:
            raise ValueError(f"version {manifest['version']!r}, expected {VERSION}")
        listed = {str(name): (int(entry["bytes"]), str(entry["sha256"])) for name, entry in manifest["files"].items()}
        if present is None:
            if strange := [name for name in listed if Path(name).name != name]:
                raise ValueError(f"{strange[0]!r} is not the name of a file")
            present = {name for name in listed if _is_own_file(path / name)}
    except FileNotFoundError:
        return [f"{path / MANIFEST} is missing: the folder was never finished"]
    except (OSError, ValueError, ArithmeticError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return [f"{path / MANIFEST} is damaged ({error})"]
    problems = [f"{path / name} is missing" for name in sorted(set(listed) - present)]
    problems += [f"{path / name} is not in the manifest" for name in sorted(present - set(listed))]
    for name in sorted(present & set(listed)):
        size, sha256 = listed[name]
        try:
            actual = (path / name).stat().st_size
            if actual != size:
                problems.append(f"{path / name} has {actual} bytes, expected {size}")
            elif file_sha256(path / name) != sha256:
                problems.append(f"{path / name} has changed: its SHA-256 is not the one in the manifest")
        except OSError as error:
            problems.append(f"{path / name} cannot be read ({error.strerror})")
    return problems


def _is_own_file(path: Path) -> bool:
    """Whether it is a plain file, and not a link, which may lead anywhere."""
    return path.is_file() and not path.is_symlink()


def file_sha256(path: str | Path) -> str:
    """Returns the SHA-256 of a file as hexadecimal text, reading it in blocks.

    They are large, so that a thread that does this beside others seldom waits for the interpreter.
    """
    digest, block = hashlib.sha256(), memoryview(bytearray(_BLOCK_BYTES))
    with open(path, "rb", buffering=0) as file:
        while size := file.readinto(block):
            digest.update(block[:size])
    return digest.hexdigest()


def umask() -> int:
    """Returns which permissions new files of this process do not get."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync_folder(path: Path) -> None:
    if os.name == "nt":  # folders cannot be opened for syncing there
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
