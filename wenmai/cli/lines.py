"""Input of verbs, line by line."""

import sys
from collections.abc import Iterator
from pathlib import Path

from wenmai.core.errors import CorpusError

__all__ = ["lines_of"]


def lines_of(file: Path | None) -> Iterator[str]:
    """Yields the lines of a file, or of standard input if there is none or it is called ``-``, without their ends.

    Raises:
        CorpusError: if the file cannot be read or is not UTF-8.
    """
    from wenmai.core.compressed import reading

    standard = file is None or str(file) == "-"
    try:
        with reading(file, error=CorpusError) if file is not None and not standard else sys.stdin.buffer as stream:
            for number, line in enumerate(stream, start=1):
                try:
                    yield line.decode("utf-8").rstrip("\r\n")
                except UnicodeDecodeError:
                    name = "standard input" if standard else file
                    raise CorpusError(f"{name}, line {number}: is not UTF-8; convert the text first") from None
    except OSError as error:
        raise CorpusError(f"{file}: cannot be read ({error.strerror})") from None
