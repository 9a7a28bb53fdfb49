"""Files from outside, read as plain bytes however they are compressed."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from wenmai.core.errors import FormatError, WenmaiError

__all__ = ["compression", "reading"]


def compression(path: str | Path) -> str | None:
    """Tells ``"gzip"``, ``"bzip2"``, ``"xz"`` and ``"zstd"`` by the first bytes; ``None`` is plain."""
    with open(path, "rb") as file:
        head = file.read(10)
    if head.startswith(b"\x1f\x8b\x08"):
        return "gzip"
    if head.startswith(b"BZh") and head[4:] in (b"1AY&SY", b"\x17rE8P\x90"):
        return "bzip2"
    if head.startswith(b"\xfd7zXZ\x00"):
        return "xz"
    return "zstd" if head.startswith(b"\x28\xb5\x2f\xfd") else None


@contextmanager
def reading(path: str | Path, *, error: type[WenmaiError] = FormatError) -> Iterator[BinaryIO]:
    """Opens a file for reading, decompressing gzip, bzip2, xz and zstd as told by its first bytes.

    Args:
        path: the file.
        error: the class to raise.

    Raises:
        WenmaiError: of class ``error``, if the path is no file or cannot be opened, or, inside the block, if
            the compressed data is truncated or damaged.
    """
    path = Path(path)
    if not path.is_file():
        raise error(f"{path}: {'this is a folder, not a file' if path.is_dir() else 'no such file'}")
    try:
        kind = compression(path)
    except OSError as problem:
        raise error(f"{path}: cannot be read ({problem.strerror})") from None
    if kind is None:
        with open(path, "rb") as file:
            yield file
        return
    import lzma
    import zlib

    try:
        with _decompressing(path, kind) as file:
            yield file
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as problem:
        if isinstance(problem, OSError) and problem.errno is not None:
            raise  # the operating system's, not about the data
        raise error(f"{path}: the {kind} data is damaged ({problem}); copy or download it again") from None


def _decompressing(path: Path, kind: str) -> BinaryIO:
    if kind == "gzip":
        import gzip

        return cast(BinaryIO, gzip.open(path, "rb"))
    if kind == "bzip2":
        import bz2

        return cast(BinaryIO, bz2.open(path, "rb"))
    if kind == "xz":
        import lzma

        return cast(BinaryIO, lzma.open(path, "rb"))
    return io.BufferedReader(_ZstdFile(path), 1 << 20)


class _ZstdFile(io.RawIOBase):
    """Reads zstd frames one after another and, unlike the library's own reader, notices a truncated one."""

    def __init__(self, path: Path) -> None:
        import zstandard

        self._library = zstandard
        self._file = path.open("rb")
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._inside_frame = False
        self._input = b""
        self._output = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401  any writable buffer
        while not self._output:
            # only a little at a time: a few bytes can stand for hundreds of thousands
            data = self._input or self._file.read(4096)
            if not data:
                if self._inside_frame:
                    raise EOFError("it ends before its end mark")
                return 0
            try:
                self._output = memoryview(self._frame.decompress(data))
            except self._library.ZstdError as error:
                raise EOFError(str(error)) from None
            self._input, self._inside_frame = b"", True
            if self._frame.eof:
                self._input, self._inside_frame = self._frame.unused_data, False
                self._frame = self._library.ZstdDecompressor().decompressobj()
        count = min(len(buffer), len(self._output))
        buffer[:count] = self._output[:count]
        self._output = self._output[count:]
        return count

    def close(self) -> None:
        self._file.close()
        super().close()
