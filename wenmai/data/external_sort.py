"""Files of more records than memory holds: sorted in runs that are merged, or brought to the places they name."""

from collections.abc import Iterator
from io import BufferedRandom
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wenmai.kernels.external_sort import deal, merge_runs, place_records, sort_records, start_merge

__all__ = ["PlacedRecords", "RecordFile", "Records", "SortedRuns", "Sorter"]

_FEWEST = 1 << 12  # records of a part, however little memory there is
_MOST = 1 << 22  # beyond, a part only costs memory
_PIECE = 1 << 16  # records that are handed on at once

Records = npt.NDArray[np.uint32]


class RecordFile:
    """A file of records that are written and then read in the same order.

    Args:
        path: The file; it is new.
        dtype: Of a record.
    """

    def __init__(self, path: Path, dtype: npt.DTypeLike) -> None:
        self.dtype = np.dtype(dtype)
        self.size = 0
        self._path = path
        self._file: BufferedRandom = open(path, "w+b")  # noqa: SIM115  closed by close()

    def write(self, records: npt.NDArray[Any]) -> None:
        """Adds records at the end."""
        self._file.write(np.ascontiguousarray(records, self.dtype).data)
        self.size += len(records)

    def rewind(self) -> None:
        """Goes back to the first record."""
        self._file.seek(0)

    def read(self, size: int) -> npt.NDArray[Any]:
        """Returns the next records, fewer than ``size`` at the end of the file."""
        records = np.empty(size, self.dtype)
        found = _read(self._file, records)
        return records[: found // self.dtype.itemsize]

    def close(self) -> None:
        """Closes and removes the file."""
        self._file.close()
        self._path.unlink()


class SortedRuns:
    """Runs of sorted records in one file, and their merger.

    Args:
        path: The file; it is new.
        width: Columns of a record, all uint32.
        columns: Those of the key, from the first on.
    """

    def __init__(self, path: Path, width: int, columns: int) -> None:
        self._path = path
        self._width, self._columns = width, columns
        self._file: BufferedRandom = open(path, "w+b")  # noqa: SIM115  closed by merged()
        self._bounds = [0]  # of the runs, in records
        self._written = 0

    @property
    def size(self) -> int:
        """Number of records."""
        return self._written

    @property
    def runs(self) -> int:
        """Number of runs that are complete."""
        return len(self._bounds) - 1

    def write(self, records: Records) -> None:
        """Adds records to the run under way; they are sorted."""
        self._file.write(np.ascontiguousarray(records, "<u4").data)
        self._written += len(records)

    def end_run(self) -> None:
        """Ends a run."""
        self._bounds.append(self._written)

    def merged(self, memory_bytes: int) -> Iterator[Records]:
        """Yields all records in order, some at a time, and removes the file.

        Args:
            memory_bytes: For the records that are read ahead of each run.
        """
        starts, ends = np.array(self._bounds[:-1]), np.array(self._bounds[1:])
        ahead = min(max(_FEWEST // 16, memory_bytes // (4 * self._width * max(1, self.runs))), _MOST)
        ahead = max(1, min(ahead, int((ends - starts).max(initial=1))))
        buffers = np.empty((self.runs, ahead, self._width), np.uint32)
        at, filled = np.zeros(self.runs, np.int64), np.zeros(self.runs, np.int64)
        ended, tree = np.zeros(self.runs, np.uint8), np.zeros(self.runs, np.int64)

        def refill(run: int) -> None:
            size = min(ahead, int(ends[run] - starts[run]))
            self._file.seek(int(starts[run]) * 4 * self._width)
            _read(self._file, buffers[run, :size])
            starts[run] += size
            at[run], filled[run], ended[run] = 0, size, not size

        self._file.flush()
        for run in range(self.runs):
            refill(run)
        if self.runs:
            start_merge(buffers, at, ended, self._columns, tree)
        merged, count, refilled = np.empty((_PIECE, self._width), np.uint32), 0, False
        while self.runs:
            found, run = merge_runs(buffers, at, filled, ended, self._columns, tree, refilled, merged[count:])
            count += found
            refilled = run >= 0
            if refilled:
                refill(run)
                continue
            if count:
                yield merged[:count]
            if count < len(merged):
                break
            count = 0
        self._file.close()
        self._path.unlink()


class Sorter:
    """Sorts records by their first columns.

    Args:
        path: Where they are kept meanwhile.
        width: Columns of a record, all uint32.
        columns: Those of the key, from the first on.
        memory_bytes: For the records that are sorted at once.
    """

    def __init__(self, path: Path, width: int, columns: int, memory_bytes: int) -> None:
        self.size = 0
        self._columns = columns
        capacity = min(max(_FEWEST, memory_bytes // (4 * width + 8)), _MOST)
        self._waiting = np.empty((capacity, width), np.uint32)
        self._order, self._spare = np.empty(capacity, np.uint32), np.empty(capacity, np.uint32)
        self._count = 0
        self._runs = SortedRuns(path, width, columns)

    def add(self, records: Records) -> None:
        """Adds records."""
        self.size += len(records)
        while len(records):
            some = records[: len(self._waiting) - self._count]
            self._waiting[self._count : self._count + len(some)] = some
            self._count += len(some)
            records = records[len(some) :]
            if self._count == len(self._waiting):
                self._write()

    def finish(self) -> None:
        """Sorts what is left, and frees the memory."""
        self._write()
        del self._waiting, self._order, self._spare

    def merged(self, memory_bytes: int) -> Iterator[Records]:
        """Yields all records in order, once; see :meth:`SortedRuns.merged`."""
        return self._runs.merged(memory_bytes)

    def _write(self) -> None:
        if not self._count:
            return
        records, count = self._waiting[: self._count], self._count
        order = sort_records(records, self._columns, self._order[:count], self._spare[:count])
        for start in range(0, count, _PIECE):
            self._runs.write(records[order[start : start + _PIECE]])
        self._runs.end_run()
        self._count = 0


class PlacedRecords:
    """Brings records to the places that they name: every place from 0 to before ``size`` is named once.

    Places are divided into shares that fit the memory, and a record goes to the share of its place. The share is put
    in order when it is read.

    Args:
        path: Where they are kept meanwhile.
        dtype: Of a record, with a field ``place``, a uint32.
        size: Number of records.
        writing_bytes: Memory while records are added.
        reading_bytes: Memory while they are read.
    """

    def __init__(self, path: Path, dtype: np.dtype[np.void], size: int, writing_bytes: int, reading_bytes: int) -> None:
        self._path, self._dtype, self._size = path, dtype, size
        self._file: BufferedRandom = open(path, "w+b")  # noqa: SIM115  closed by close()
        share = min(max(_FEWEST, reading_bytes // dtype.itemsize), _MOST)
        self._shift = share.bit_length() - 1
        shares = -(-size // (1 << self._shift))
        capacity = min(max(16, writing_bytes // (dtype.itemsize * max(1, shares))), 1 << self._shift)
        self._waiting = np.empty((shares, capacity), dtype)
        self._filled, self._written = np.zeros(shares, np.int64), np.zeros(shares, np.int64)
        self._placed = np.empty(0, dtype)  # of the share that is read, those not taken yet
        self._next = 0

    def add(self, records: npt.NDArray[np.void]) -> None:
        """Adds records."""
        done = 0
        while (done := deal(records, done, self._shift, self._waiting, self._filled)) < len(records):
            self._write(int(records["place"][done]) >> self._shift)

    def finish(self) -> None:
        """Writes what is left, and frees the memory."""
        for share in range(len(self._filled)):
            self._write(share)
        del self._waiting

    def take(self, size: int) -> npt.NDArray[np.void]:
        """Returns the next records in order of their places."""
        taken = []
        while size > self._placed.size:
            taken.append(self._placed.copy())  # not a part of a share, which would stay in memory
            size -= self._placed.size
            self._load()
        taken.append(self._placed[:size])
        self._placed = self._placed[size:]
        return np.concatenate(taken)

    def close(self) -> None:
        """Closes and removes the file."""
        self._placed = np.empty(0, self._dtype)
        self._file.close()
        self._path.unlink()

    def _write(self, share: int) -> None:
        begin = (share << self._shift) + int(self._written[share])
        self._file.seek(begin * self._dtype.itemsize)
        self._file.write(self._waiting[share, : self._filled[share]].data)
        self._written[share] += self._filled[share]
        self._filled[share] = 0

    def _load(self) -> None:
        begin, end = self._next << self._shift, min(self._size, (self._next + 1) << self._shift)
        self._placed = np.empty(0, self._dtype)  # frees the share before
        self._placed = np.empty(end - begin, self._dtype)
        self._file.seek(begin * self._dtype.itemsize)
        for start in range(begin, end, _PIECE):
            records = np.empty(min(_PIECE, end - start), self._dtype)
            _read(self._file, records)
            place_records(records, begin, self._placed)
        self._next += 1


def _read(file: BufferedRandom, records: npt.NDArray[Any]) -> int:
    """Fills an array from a file; returns how many bytes were there."""
    return file.readinto(records.view(np.uint8).data) if records.size else 0
