"""Large arrays that are needed for a while: in memory, or else in a file that ends with them."""

import errno
import os
import shutil
import tempfile
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from wenmai.core.folder import cache_folder, make_folder

__all__ = ["scratch_array"]


def scratch_array(shape: Sequence[int], *, in_memory: int, share: float = 1.0) -> npt.NDArray[np.float32]:
    """Returns an array to fill.

    Args:
        shape: Its shape.
        in_memory: Most bytes that are taken of the memory; larger arrays are in a file of the folder of caches, which
            has no name and is gone with them.
        share: Of the room on the disk that may be taken, from 0 to 1.

    Raises:
        OSError: if the disk has too little room.
    """
    size = 4 * int(np.prod(shape))
    if size <= in_memory:
        return np.empty(shape, np.float32)
    folder = cache_folder()
    make_folder(folder)
    if size > share * shutil.disk_usage(folder).free:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with tempfile.TemporaryFile(dir=folder) as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        found: npt.NDArray[np.float32] = np.memmap(file, np.float32, "w+", shape=tuple(shape))
        return found
