"""Downloads: a file is there whole and verified, or not at all.

A partial download is kept beside the file as ``NAME.part``, so that it can be resumed. Only the standard
library is used, for ``http``, ``https`` and ``file`` addresses.
"""

import http.client
import json
import logging
import os
import shutil
import socket
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import wenmai
from wenmai.core.errors import DownloadError
from wenmai.core.folder import file_sha256, make_folder, writing, writing_json

__all__ = ["Progress", "disk_errors", "download", "unzip"]

_log = logging.getLogger(__name__)

Progress = Callable[[int, int | None], None]  # bytes done, bytes in all or None if unknown

_BLOCK_BYTES = 1 << 18
_PAUSE_SECONDS = 0.5  # before the second attempt; doubled before each further one
_WORTH_RETRYING = {408, 429, 500, 502, 503, 504}
_MOST_UNPACKED = 200  # times the archive's own size, where the unpacked size is not registered


class _ConnectionTrouble(Exception):
    """A failed connection that is worth a retry."""


def download(
    address: str,
    path: Path,
    *,
    size_bytes: int | None = None,
    sha256: str | None = None,
    progress: Progress | None = None,
    timeout_seconds: float = 30.0,
    attempts: int = 3,
) -> str:
    """Fetches ``address`` into ``path`` and returns the SHA-256 of the file.

    Args:
        address: An ``http``, ``https`` or ``file`` address.
        path: Where the file goes; its folder is created.
        size_bytes: The registered size, or None; anything else is refused before it is fetched.
        sha256: The registered checksum, or None; a file with another one is not kept.
        progress: Called with the bytes done and the bytes in all (None if unknown) after each block.
        timeout_seconds: Longest wait for data.
        attempts: How often the connection is tried; a partial download is kept for the next call.

    Raises:
        DownloadError: if the address cannot be fetched, the file is not the registered one, or the folder cannot be
            written.
    """
    transfer = _Transfer(
        address=address,
        part=path.with_name(path.name + ".part"),
        size_bytes=size_bytes,
        sha256=sha256,
        progress=progress,
        timeout_seconds=timeout_seconds,
    )
    with disk_errors(path.parent), _alone(path) as waited:
        if waited and path.exists() and (found := file_sha256(path)) == (sha256 or found):
            return found
        older_bytes = transfer.patiently(attempts)
        found = file_sha256(transfer.part)
        if sha256 is not None and found != sha256 and older_bytes:
            transfer.part.unlink()  # they may be the cause: once more, all of it
            transfer.patiently(attempts)
            found = file_sha256(transfer.part)
        transfer.note.unlink(missing_ok=True)
        if sha256 is not None and found != sha256:
            transfer.part.unlink()
            raise DownloadError(
                f"{address}: wrong checksum, the file was not kept: expected SHA-256 {sha256}, got {found}"
            )
        os.replace(transfer.part, path)
    return found


def unzip(archive: Path, member: str, path: Path, *, size_bytes: int | None = None) -> None:
    """Unpacks one file of a zip archive into ``path``, whatever its name inside the archive.

    Args:
        archive: The zip archive.
        member: The file's name inside it.
        path: Where its content goes.
        size_bytes: Its registered size, or None; more is never written.

    Raises:
        DownloadError: if the archive is damaged, lacks the member, or the member is too large.
    """
    most = size_bytes if size_bytes is not None else _MOST_UNPACKED * archive.stat().st_size
    written = 0
    with disk_errors(path.parent):
        try:
            with zipfile.ZipFile(archive) as opened, opened.open(member) as content, writing(path) as file:
                while block := content.read(_BLOCK_BYTES):
                    written += len(block)
                    if written > most:
                        raise DownloadError(f"{archive}: {member} unpacks to more than the expected {most:,} bytes")
                    file.write(block)
                if size_bytes is not None and written != size_bytes:
                    raise DownloadError(f"{archive}: {member} has {written:,} bytes, expected {size_bytes:,}")
        except KeyError:
            raise DownloadError(f"{archive}: the archive has no file {member!r}") from None
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
            raise DownloadError(f"{archive}: not a zip archive that can be unpacked ({error}); remove it") from None


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Explains an unusable cache folder or a full disk.

    Raises:
        DownloadError: in place of any OSError.
    """
    try:
        yield
    except OSError as error:
        raise DownloadError(
            f"{folder}: cannot be used ({error}); set WENMAI_CACHE to a folder that can be written and has space"
        ) from None


@dataclass(frozen=True, kw_only=True)
class _Transfer:
    """One download from an address into a partial file."""

    address: str
    part: Path
    size_bytes: int | None
    sha256: str | None
    progress: Progress | None
    timeout_seconds: float

    @property
    def note(self) -> Path:
        """The file beside the partial file that records its address and version."""
        return self.part.with_name(self.part.name + ".json")

    def patiently(self, attempts: int) -> int:
        """Completes the partial file; returns as :meth:`once`."""
        attempt = 1
        while True:
            try:
                return self.once()
            except _ConnectionTrouble as error:
                if attempt >= attempts:
                    kept = self.part.stat().st_size if self.part.exists() else 0
                    resume = f"; {kept:,} bytes are kept and the next try continues from there" if kept else ""
                    raise DownloadError(f"{self.address}: {error} (attempt {attempt}){resume}") from None
                time.sleep(_PAUSE_SECONDS * 2 ** (attempt - 1))
                attempt += 1

    def once(self) -> int:
        """Completes the partial file and returns how many of its bytes came before this connection."""
        offset, validator = self.resumable()
        if offset and offset == self.size_bytes:
            return offset
        headers = {"User-Agent": f"wenmai/{wenmai.__version__}", "Accept-Encoding": "identity"}
        if offset:
            headers["Range"] = f"bytes={offset}-"
        if validator:
            headers["If-Range"] = validator
        with self.open(headers) as response:
            if response.status != 206:
                offset = 0
            elif not str(response.headers["Content-Range"]).startswith(f"bytes {offset}-"):
                self.part.unlink(missing_ok=True)
                raise _ConnectionTrouble("the server sent another part of the file than requested")
            length = response.headers["Content-Length"]
            total = offset + int(length) if length and length.isdigit() else self.size_bytes
            if total is not None and self.size_bytes not in (None, total):
                raise DownloadError(
                    f"{self.address}: what is there has {total:,} bytes, expected {self.size_bytes:,}: it is"
                    " another file"
                )
            free = shutil.disk_usage(self.part.parent).free
            if total is not None and total - offset > free:
                raise DownloadError(
                    f"{self.part.parent}: {total - offset:,} bytes are needed and {free:,} are free; free"
                    " some, or set WENMAI_CACHE to a folder on another disk"
                )
            if not offset:
                self.part.unlink(missing_ok=True)  # before the note, which must never describe older bytes
            etag = response.headers["ETag"] or ""
            validator = etag if etag.startswith('"') else response.headers["Last-Modified"]
            writing_json(self.note, {"address": self.address, "validator": validator})
            done = self.receive(response, offset, total)
        if total is not None and done < total:
            raise _ConnectionTrouble(f"the connection ended after {done:,} of {total:,} bytes")
        return offset

    def receive(self, response: http.client.HTTPResponse, done: int, total: int | None) -> int:
        """Appends the data to the partial file of ``done`` bytes, and returns its new size."""
        with open(self.part, "ab") as file:
            while block := self.read(response):
                done += len(block)
                if total is not None and done > total:
                    self.part.unlink()
                    raise DownloadError(f"{self.address}: more than the expected {total:,} bytes came")
                file.write(block)
                if self.progress is not None:
                    self.progress(done, total)
            file.flush()
            os.fsync(file.fileno())
        return done

    def resumable(self) -> tuple[int, str | None]:
        """Returns how many bytes of the partial file can be kept, and the server's name of that version.

        None are kept from another address, nor where neither a checksum nor the server can tell that they are stale.
        """
        try:
            size = self.part.stat().st_size
            note = json.loads(self.note.read_bytes())
            address, validator = note["address"], note["validator"]
        except (OSError, ValueError, KeyError, TypeError):
            return 0, None
        disowned_if_wrong = self.sha256 is not None or isinstance(validator, str)
        too_long = self.size_bytes is not None and size > self.size_bytes
        if not size or address != self.address or not disowned_if_wrong or too_long:
            return 0, None
        return size, validator

    def open(self, headers: dict[str, str]) -> http.client.HTTPResponse:
        """Opens the connection; a file address gives an object with the same methods, without a status."""
        try:
            request = urllib.request.Request(self.address, headers=headers)
            response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=self.timeout_seconds)
            return response
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 416:
                self.part.unlink(missing_ok=True)  # the file there is shorter than what we have
                raise _ConnectionTrouble("the file has changed since the download began") from None
            if error.code in _WORTH_RETRYING:
                raise _ConnectionTrouble(f"the server answered {error.code} {error.reason}") from None
            raise DownloadError(f"{self.address}: the server answered {error.code} {error.reason}") from None
        except (ValueError, http.client.InvalidURL) as error:
            raise DownloadError(f"{self.address}: not an address that can be fetched ({error})") from None
        except (OSError, http.client.HTTPException) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            if isinstance(reason, TimeoutError):
                raise _ConnectionTrouble(f"no answer within {self.timeout_seconds:g} s") from None
            if isinstance(reason, ConnectionResetError | http.client.HTTPException):
                raise _ConnectionTrouble(f"the connection broke ({reason})") from None
            offline = isinstance(reason, socket.gaierror | ConnectionError)
            hint = " (is this machine online?)" if offline else ""
            raise DownloadError(f"{self.address}: cannot be reached ({reason}){hint}") from None

    def read(self, response: http.client.HTTPResponse) -> bytes:
        """Returns the data received so far, so that a timeout loses nothing; empty at the end."""
        try:
            return response.read1(_BLOCK_BYTES)
        except TimeoutError:
            raise _ConnectionTrouble(f"nothing came for {self.timeout_seconds:g} s") from None
        except (OSError, http.client.HTTPException) as error:
            raise _ConnectionTrouble(f"the connection broke ({error})") from None


@contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """Keeps two processes from writing the same partial file; gives whether another one had to be waited for.

    The lock ends with its process.
    """
    make_folder(path.parent)
    with open(path.with_name(f".{path.name}.lock"), "wb") as lock:
        try:
            import fcntl
        except ImportError:  # Windows: the checksum is the only guard
            yield False
            return
        waited = False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waited = True
            _log.warning("%s: another process is fetching this file; waiting for it", path)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield waited
