"""What numba compiles, and reads from its cache, is on no clock."""

import subprocess
import sys
from pathlib import Path

import wenmai

PROGRAM = """
import time
from numba import njit
import wenmai.kernels
from wenmai.core.clock import CLOCK

heard = []
with CLOCK.announcing(heard.append):
    began, clock = time.monotonic(), CLOCK.now()
    njit(cache=True)(lambda x: x + 1)(1)
    passed, worked = time.monotonic() - began, CLOCK.now() - clock
print(worked < passed / 2, heard)
"""


def test_compiling_and_reading_compiled_kernels_take_no_time_on_the_clock(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = {"PYTHONPATH": str(Path(wenmai.__file__).parents[1]), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    said = [
        subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert said == ["True ['compiling kernels (once)']\n", "True []\n"]
