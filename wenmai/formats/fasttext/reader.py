"""A file that is read from its beginning to its end, with errors that name the byte."""

import os
import struct
from concurrent.futures import ThreadPoolExecutor
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import FormatError, TruncatedError

__all__ = ["Reader"]

_BLOCK_BYTES = 1 << 22
_MANY_BLOCKS, _MOST_THREADS = 8, 4


class Reader:
    """A file that is read from its beginning to its end; errors name the byte."""

    def __init__(self, path: Path, file: FileIO, size: int) -> None:
        self.path, self.file, self.size, self.at = path, file, size, 0

    def error(self, what: str) -> FormatError:
        """What is wrong at this byte."""
        return FormatError(f"{self.path}, byte {self.at}: {what}; the file is damaged, or not a fastText model")

    def rewind(self) -> None:
        """Goes back to the beginning."""
        self.at = self.file.seek(0)

    def require(self, size: int, what: str) -> None:
        """Checks that so many bytes are left, before memory is allocated for them."""
        if size > self.size - self.at:
            raise TruncatedError(
                f"{self.path}, byte {self.at}: {what} takes {size} bytes, but {self.size - self.at} are left: the file "
                "is truncated or damaged"
            )

    def unpack(self, layout: struct.Struct, what: str) -> tuple[Any, ...]:
        """Reads some values."""
        self.require(layout.size, what)
        values = layout.unpack(self.file.read(layout.size))
        self.at += layout.size
        return values

    def fill(self, array: npt.NDArray[Any], what: str) -> None:
        """Reads an array whose rows may be strided, a block of them at a time; a large one with several threads."""
        self.require(array.size * array.itemsize, what)
        begin, width = self.at, array[:1].size * array.itemsize
        step = max(1, _BLOCK_BYTES // max(1, width))

        def read(start: int) -> None:
            rows = array[start : start + step]
            block = rows if rows.flags.c_contiguous else np.empty(rows.shape, rows.dtype)
            content = block.reshape(-1).view(np.uint8).data
            if not _read_at(self.file, content, begin + start * width):
                raise self.error(f"{what} ends early")
            if block is not rows:
                rows[:] = block
            if block.dtype == np.float32 and not _finite(block):
                raise self.error(f"{what} has a value that is not a finite number")

        starts = range(0, len(array), step)
        if len(starts) < _MANY_BLOCKS or not hasattr(os, "preadv"):
            for start in starts:
                read(start)
        else:
            with ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1)) as pool:
                for _ in pool.map(read, starts):
                    pass
        self.at = begin + len(array) * width
        self.file.seek(self.at)


def _read_at(file: FileIO, content: memoryview, offset: int) -> bool:
    """Fills ``content`` from a place in a file; whether there was enough. Threads may do so at once where they can."""
    at = 0
    while at < len(content):
        if hasattr(os, "preadv"):
            found = os.preadv(file.fileno(), [content[at:]], offset + at)
        else:
            file.seek(offset + at)
            found = file.readinto(content[at:]) or 0
        if not found:
            return False
        at += found
    return True


def _finite(block: npt.NDArray[np.float32]) -> bool:
    """Whether all numbers are finite: they are if their sum is, which is faster to find out."""
    with np.errstate(over="ignore", invalid="ignore"):  # for this thread alone
        return bool(np.isfinite(block.sum()) or np.isfinite(block).all())
