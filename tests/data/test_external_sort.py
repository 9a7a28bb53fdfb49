"""Sorting and placing records in files, against numpy."""

import numpy as np
import pytest

from wenmai.data.external_sort import PlacedRecords, RecordFile, Sorter

PAIR = np.dtype([("place", "<u4"), ("value", "<f8")])


@pytest.mark.parametrize("size", [0, 1, 4096, 30_000])
@pytest.mark.parametrize("columns", [1, 2, 3])
def test_records_are_sorted_by_their_first_columns(columns, size, tmp_path):
    records = np.random.default_rng(size).integers(0, 1 << 32, (size, 4)).astype(np.uint32)
    records[:, :2] %= 7
    sorter = Sorter(tmp_path / "file", 4, columns, memory_bytes=1)
    for start in range(0, size, 999):
        sorter.add(records[start : start + 999])
    sorter.finish()
    found = [block.copy() for block in sorter.merged(1)]
    expected = records[np.lexsort(records[:, columns - 1 :: -1].T)] if size else records
    assert sorter.size == size
    assert np.array_equal(np.concatenate([records[:0], *found]), expected)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("size", [0, 1, 4096, 30_001])
def test_records_come_back_in_the_order_of_their_places(size, tmp_path):
    records = np.empty(size, PAIR)
    records["place"] = np.random.default_rng(size).permutation(size)
    records["value"] = records["place"] / 2
    placed = PlacedRecords(tmp_path / "file", PAIR, size, writing_bytes=1, reading_bytes=1)
    for start in range(0, size, 777):
        placed.add(records[start : start + 777])
    placed.finish()
    taken = [placed.take(min(5000, size - start)) for start in range(0, size, 5000)]
    assert np.array_equal(np.concatenate([records[:0], *taken]), np.sort(records, order="place"))
    placed.close()
    assert not list(tmp_path.iterdir())


def test_a_file_of_records_is_read_as_it_was_written(tmp_path):
    file = RecordFile(tmp_path / "file", "<u4")
    file.write(np.arange(10)[::2])
    file.rewind()
    assert file.size == 5
    assert [file.read(3).tolist() for _ in range(3)] == [[0, 2, 4], [6, 8], []]
    file.close()
    assert not list(tmp_path.iterdir())
