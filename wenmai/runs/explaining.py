"""What a training says when it cannot go on: why, and how to continue it."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wenmai.core.errors import RunError, TrainingError, is_out_of_memory, shell_path
from wenmai.training.run import Run

__all__ = ["explaining", "how_to_continue", "passing_folder", "writable"]

_PASSING = "wenmai-passing-"  # begins the names of folders that will be gone


@contextmanager
def passing_folder() -> Iterator[Path]:
    """Makes a folder for the block alone: a training in it cannot be continued, and says no such thing."""
    with tempfile.TemporaryDirectory(prefix=_PASSING) as name:
        yield Path(name)


@contextmanager
def writable(folder: Path) -> Iterator[None]:
    """Raises RunError if a new run cannot be written, for example because the disk is full."""
    try:
        yield
    except OSError as error:
        if is_out_of_memory(error):
            raise
        raise RunError(f"{folder}: cannot be written ({error.strerror}); choose another --out") from None


@contextmanager
def explaining(run: Run) -> Iterator[None]:
    """Adds how to continue after an interrupt, with a full disk or with too little memory."""
    again = how_to_continue(run.path)
    try:
        yield
    except KeyboardInterrupt as error:
        if again:
            error.add_note(again)
        raise
    except (MemoryError, RuntimeError, OSError) as error:
        if is_out_of_memory(error):
            if not again:
                raise TrainingError(
                    f"{run.path}: not enough memory; train anew with a smaller model, vocabulary or batch"
                ) from None
            raise TrainingError(
                f"{run.path}: not enough memory; when more is free, {again}; otherwise train anew with a smaller "
                "model, vocabulary or batch"
            ) from None
        if not isinstance(error, OSError):
            raise
        problem = f"{run.path}: cannot be written ({error.strerror or error})"
        raise RunError(f"{problem}; when that is solved, {again}" if again else problem) from None


def how_to_continue(folder: Path) -> str:
    """Returns the command, in words; nothing if the folder will be gone."""
    return "" if folder.parent.name.startswith(_PASSING) else f"`wenmai resume {shell_path(folder)}` continues it"
