"""Layer 3: compiled CPU loops."""

import atexit
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from numba import config
from numba.core import event

from wenmai.core.clock import CLOCK
from wenmai.core.folder import cache_folder, make_folder

__all__: list[str] = []


def _kept() -> Path:
    """Where kernels are kept that cannot stay beside their source: in the cache, or else until this process ends."""
    kept = cache_folder() / "kernels"
    with suppress(OSError):
        make_folder(kept)
        with tempfile.TemporaryFile(dir=kept):
            return kept
    kept = Path(tempfile.mkdtemp(prefix="wenmai-"))
    atexit.register(shutil.rmtree, kept, ignore_errors=True)
    return kept


# Compiled kernels are kept beside their source. Where that cannot be written, as in a container, the cache takes them;
# left to itself, numba refuses to compile if the home folder cannot be written either.
if not config.CACHE_DIR and not os.access(Path(__file__).parent, os.W_OK):
    config.CACHE_DIR = str(_kept())


class _Compiler(event.Listener):
    """Stops the clock while numba compiles kernels or reads compiled ones, and says so if it compiles."""

    def on_start(self, begun: event.Event) -> None:
        """Begins."""
        if begun.kind == "numba:compile":
            CLOCK.announce("compiling kernels (once)")
        else:
            CLOCK.stop()

    def on_end(self, ended: event.Event) -> None:
        """Ends."""
        if ended.kind != "numba:compile":
            CLOCK.go_on()


# The lock is held to compile a kernel, to read it from the cache, and to write it there.
for _kind in ("numba:compiler_lock", "numba:compile"):
    event.register(_kind, _Compiler())
