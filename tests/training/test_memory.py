"""Memory that nothing uses goes back to the operating system."""

import subprocess
import sys
from pathlib import Path

import pytest

from wenmai.training import memory
from wenmai.training.memory import keep_free_memory, release_free_memory


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what is resident, and glibc is there")
def test_holes_inside_the_heap_are_given_back():
    if memory._function("malloc_trim") is None:
        pytest.skip("this allocator is not that of glibc")
    blocks = [bytearray(b"x" * 60_000) for _ in range(2_000)]
    kept = blocks[::40]  # so that the heap cannot be shortened
    full = resident_bytes()
    del blocks
    release_free_memory()
    assert full - resident_bytes() > 80_000_000
    assert all(block == b"x" * 60_000 for block in kept)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how often pages were missing")
def test_memory_of_one_step_serves_the_next():
    """In a process of its own, because it cannot be undone."""
    program = """
import resource, torch
from wenmai.training.memory import keep_free_memory
keep_free_memory()
def step():
    return [torch.zeros(4 << 20, dtype=torch.uint8) for _ in range(20)]
step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    missing = int(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout)
    assert missing < 20 * 1024  # the pages of one step; 200 tensors have ten times as many


def test_other_allocators_are_left_alone(monkeypatch):
    monkeypatch.setattr(memory, "_function", lambda name: None)
    keep_free_memory()
    release_free_memory()
