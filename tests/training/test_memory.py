"""Memory that nothing uses goes back to the operating system."""

import sys
from pathlib import Path

import pytest

from wenmai.training import memory
from wenmai.training.memory import release_free_memory


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what is resident, and glibc is there")
def test_holes_inside_the_heap_are_given_back():
    if memory._malloc_trim() is None:
        pytest.skip("this allocator is not that of glibc")
    blocks = [bytearray(b"x" * 60_000) for _ in range(2_000)]
    kept = blocks[::40]  # so that the heap cannot be shortened
    full = resident_bytes()
    del blocks
    release_free_memory()
    assert full - resident_bytes() > 80_000_000
    assert all(block == b"x" * 60_000 for block in kept)


def test_other_allocators_are_left_alone(monkeypatch):
    monkeypatch.setattr(memory, "_malloc_trim", lambda: None)
    release_free_memory()
