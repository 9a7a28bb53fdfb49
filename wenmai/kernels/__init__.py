"""Layer 3: compiled CPU loops."""

import os
from pathlib import Path

from numba import config
from numba.core import event

from wenmai.core.clock import CLOCK
from wenmai.core.folder import cache_folder

__all__: list[str] = []

# Compiled kernels are kept beside their source. Where that cannot be written, as in a container, the cache takes them;
# left to itself, numba refuses to compile if the home folder cannot be written either.
if not config.CACHE_DIR and not os.access(Path(__file__).parent, os.W_OK):
    config.CACHE_DIR = str(cache_folder() / "kernels")


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
