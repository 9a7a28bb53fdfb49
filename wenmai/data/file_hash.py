"""What identifies files: the entries of ``corpus.json``, by which a changed file is noticed."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from wenmai.core.errors import CorpusError
from wenmai.core.folder import file_sha256

__all__ = ["FileHash", "file_hashes"]


class FileHash(NamedTuple):
    """What identifies the content of a file (as it is on disk)."""

    path: str
    size_bytes: int
    sha256: str

    def as_json(self) -> dict[str, Any]:
        """What ``corpus.json`` of a run holds of a source."""
        return {"path": str(self.path), "bytes": self.size_bytes, "sha256": self.sha256}


def file_hashes(paths: Iterable[Path]) -> list[FileHash]:
    """Returns what identifies the content of files.

    Raises:
        CorpusError: if one cannot be read.
    """
    try:
        return [FileHash(str(path), path.stat().st_size, file_sha256(path)) for path in paths]
    except OSError as error:
        raise CorpusError(f"{error.filename}: cannot be read ({error.strerror})") from None
