"""Layer 3: compiled CPU loops."""

import os
from pathlib import Path

from numba import config

from wenmai.core.folder import cache_folder

__all__: list[str] = []

# Compiled kernels are kept beside their source. Where that cannot be written, as in a container, the cache takes them;
# left to itself, numba refuses to compile if the home folder cannot be written either.
if not config.CACHE_DIR and not os.access(Path(__file__).parent, os.W_OK):
    config.CACHE_DIR = str(cache_folder() / "kernels")
