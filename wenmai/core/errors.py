"""The errors a user can meet.

Every message says what is wrong, where, what was expected, and what to do. The command line prints the message
alone and exits with the class's ``exit_code``; Python callers catch :class:`WenmaiError` or one of its subclasses.
Where Python and other libraries have an exception for the same fault, an error is that one too, so that code written
for them catches it.
"""

import errno
import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

__all__ = [
    "CorpusError",
    "DownloadError",
    "FormatError",
    "PinyinError",
    "RunError",
    "SettingError",
    "TrainingError",
    "TruncatedError",
    "UndecodableError",
    "VocabError",
    "WenmaiError",
    "install_hint",
    "is_ordered",
    "is_out_of_memory",
    "is_table",
    "nearest_name",
    "require_label_count",
    "require_list",
    "shell_path",
]

_NO_MEMORY = re.compile("alloc|out of memory|can't start new thread", re.IGNORECASE)


class WenmaiError(Exception):
    """Any error of a user or bad file that wenmai explains in one message."""

    exit_code = 1


class SettingError(WenmaiError, ValueError):
    """A setting, system or option that does not exist, or has a value that makes no sense."""

    exit_code = 2


class CorpusError(WenmaiError):
    """Text that cannot be read: missing, empty, wrongly encoded, not text at all."""

    exit_code = 3


class PinyinError(CorpusError, ValueError):
    """Pinyin that cannot be read: letters that form no syllable, a tone that does not exist."""


class VocabError(WenmaiError, ValueError):
    """A vocabulary that is empty, inconsistent, or lacks the word that was asked for."""

    exit_code = 4


class FormatError(WenmaiError, ValueError):
    """A file of vectors or a model that is truncated, damaged, or of another format."""

    exit_code = 5


class TruncatedError(FormatError, EOFError):
    """A file that ends before what its beginning announces."""


class UndecodableError(FormatError, UnicodeDecodeError):
    """Text in a file that is not of the expected encoding."""

    def __init__(self, message: str, problem: UnicodeDecodeError) -> None:
        super().__init__(problem.encoding, problem.object, problem.start, problem.end, problem.reason)
        self.message = message

    def __str__(self) -> str:
        return self.message


class RunError(WenmaiError):
    """A run folder that is missing, unfinished, damaged, or cannot do what was asked."""

    exit_code = 6


class TrainingError(WenmaiError):
    """A training that had to be stopped, for example because the loss is NaN or infinite."""

    exit_code = 7


class DownloadError(WenmaiError):
    """A corpus that could not be downloaded, or whose checksum is not the registered one."""

    exit_code = 8


def nearest_name(name: str, known: Iterable[str], *, prefix: str = "") -> str:
    """Returns ``"; did you mean 'x'?"`` for the closest known name, or ``""`` when nothing is close.

    Args:
        name: What was meant as one of them.
        known: The names.
        prefix: What all of them begin with where they are shown; it would make any two look alike.
    """
    from difflib import get_close_matches

    close = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {prefix + close[0]!r}?" if close else ""


def install_hint(extra: str) -> str:
    """Returns how to install what an extra brings: from a clone, which is how wenmai is installed today."""
    return f"in the folder of wenmai: pip install -e '.[{extra}]'"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether there was not enough memory: libraries, the interpreter's threads and files have errors of their own."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and _NO_MEMORY.search(str(error)) is not None
    )


def shell_path(path: Path) -> str:
    """Returns a path as a command that a message proposes names it: quoted, and not to be taken for an option."""
    return shlex.quote(f"./{path}" if str(path).startswith("-") else str(path))


def require_label_count(k: int) -> None:
    """Raises SettingError for a number of labels below 1, but for -1, which means all."""
    if k < 1 and k != -1:
        raise SettingError(f"k={k}: expected at least 1 label, or -1 for all")


def is_ordered(given: object) -> bool:
    """Whether something has items in an order that the user gave, such as a list: no text, mapping or set."""
    return isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping | set | frozenset)


def is_table(given: object) -> bool:
    """Whether something is a table of pandas, whose items are the names of its columns."""
    return hasattr(given, "columns") and hasattr(given, "iloc")


def require_list(given: object, method: str) -> None:
    """Raises SettingError for a single one, a table, or what has no order, where a method takes several."""
    if is_table(given):
        raise SettingError(f"{method} takes a list, not a table; give one of its columns, or a list of its rows")
    if not is_ordered(given):
        raise SettingError(f"{method} takes a list; put a single one in brackets")
