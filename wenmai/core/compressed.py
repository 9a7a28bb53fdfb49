"""Files as plain bytes, however they are compressed: the format is recognised by content, not by name."""

import io
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from wenmai.core.errors import FormatError, WenmaiError

__all__ = ["DamagedStream", "compression", "decompressed", "reading"]

_HEAD_BYTES = 10  # that identify a compression
_STEP_BYTES = 4096  # decompressed at a time: a few bytes can stand for hundreds of thousands
_BLOCK_BYTES = 1 << 20
_MOST_MEMORY = 1 << 27  # of a decompressor; xz -9 and zstd -19 take half of it, gzip and bzip2 4 MB at most


class DamagedStream(Exception):
    """Compressed data that cannot be decompressed; the message says why, and what to do."""


def compression(path: str | Path) -> str | None:
    """Recognises ``"gzip"``, ``"bzip2"``, ``"xz"`` and ``"zstd"`` by the first bytes; ``None`` is plain."""
    with open(path, "rb") as file:
        return _kind(file.read(_HEAD_BYTES))


@contextmanager
def reading(
    path: str | Path, *, error: type[WenmaiError] = FormatError, advance: Callable[[int], None] | None = None
) -> Iterator[BinaryIO]:
    """Opens a file for reading, decompressing gzip, bzip2, xz and zstd, recognised by its first bytes.

    Args:
        path: the file.
        error: the class to raise.
        advance: Called with the size of each piece that was read, as it is on disk.

    Raises:
        WenmaiError: of class ``error``, if the path is no file or cannot be opened, or, inside the block, if
            the compressed data is truncated or damaged, or takes too much memory to decompress.
    """
    path = Path(path)
    if not path.is_file():
        if path.is_dir():
            raise error(f"{path}: this is a folder, not a file")
        if path.exists():
            raise error(f"{path}: this is a pipe or a device, not a file")
        raise error(f"{path}: no such file")
    try:
        kind = compression(path)
    except OSError as problem:
        raise error(f"{path}: cannot be read ({problem.strerror})") from None
    with open(path, "rb") as file:
        if kind is None and advance is None:
            yield file
            return
        try:
            with io.BufferedReader(_Stream(decompressed(_pieces(file, advance))), _BLOCK_BYTES) as stream:
                yield cast(BinaryIO, stream)
        except DamagedStream as damage:
            raise error(f"{path}: {damage}") from None


def decompressed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the content of one or more concatenated compressed streams, or the pieces as they are if plain.

    Raises:
        DamagedStream: if the compressed data is truncated or damaged, or takes too much memory to decompress.
    """
    pieces, head = iter(pieces), b""
    for piece in pieces:
        head += piece
        if len(head) >= _HEAD_BYTES:
            break
    whole = chain([head], pieces)
    kind = _kind(head)
    return whole if kind is None else _decompressed(whole, kind)


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


_KINDS = {
    "gzip": re.compile(rb"\x1f\x8b\x08"),
    "bzip2": re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"),
    "xz": re.compile(rb"\xfd7zXZ\0"),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"),  # a frame, or one that is skipped
}
_TOO_MUCH_MEMORY = ("Memory usage limit exceeded", "requires too much memory")  # as xz and zstd say it


def _kind(head: bytes) -> str | None:
    return next((kind for kind, magic in _KINDS.items() if magic.match(head)), None)


def _decompressor(kind: str) -> _Decompressor:
    if kind == "gzip":
        import zlib

        return zlib.decompressobj(wbits=31)
    if kind == "bzip2":
        import bz2

        return bz2.BZ2Decompressor()
    if kind == "xz":
        import lzma

        return lzma.LZMADecompressor(memlimit=_MOST_MEMORY)
    import zstandard

    found: _Decompressor = zstandard.ZstdDecompressor(max_window_size=_MOST_MEMORY).decompressobj()
    return found


def _decompressed(pieces: Iterable[bytes], kind: str) -> Iterator[bytes]:
    stream: _Decompressor | None = None
    done = 0
    for piece in pieces:
        for start in range(0, len(piece), _STEP_BYTES):
            data = piece[start : start + _STEP_BYTES]
            while data:
                if stream is None:
                    data = data.lstrip(b"\0")  # padding between streams
                    if not data:
                        break
                    stream = _decompressor(kind)
                try:
                    yield stream.decompress(data)
                except Exception as error:  # each of the four libraries has an exception of its own
                    if any(complaint in str(error) for complaint in _TOO_MUCH_MEMORY):
                        problem = f"needs more than {_MOST_MEMORY >> 20} MiB of memory to decompress; compress it anew"
                        raise DamagedStream(f"the {kind} data {problem}") from None
                    raise _damaged(kind, f"near byte {done + start}: {error}") from None
                data = stream.unused_data if stream.eof else b""
                if stream.eof:
                    stream = None
        done += len(piece)
    if stream is not None:
        raise _damaged(kind, f"it ends too early, after {done} bytes")


def _damaged(kind: str, problem: str) -> DamagedStream:
    return DamagedStream(f"the {kind} data is damaged ({problem}); copy or download it again")


def _pieces(file: BinaryIO, advance: Callable[[int], None] | None) -> Iterator[bytes]:
    while piece := file.read(_BLOCK_BYTES):
        yield piece
        if advance is not None:
            advance(len(piece))


class _Stream(io.RawIOBase):
    """What an iterator of bytes yields, as a file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401  any writable buffer
        while not self._left:
            if (piece := next(self._pieces, None)) is None:
                return 0
            self._left = memoryview(piece)
        count = min(len(buffer), len(self._left))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        return count
