"""How texts become words, beside a classifier's file: ``model.ftz.json`` beside ``model.ftz``.

fastText's files have no place for it, and a classifier of characters that is given words is wrong without a sign of it.
The note names the file by its checksum, so that it is never taken for that of another file of the same name.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from wenmai.core.errors import FormatError
from wenmai.core.folder import file_sha256, read_json_object, writing_json
from wenmai.models.folder import read_settings
from wenmai.text.settings import TextConfig

__all__ = ["read_text_settings", "settings_beside", "write_text_settings"]


def settings_beside(path: Path) -> Path:
    """Where the settings for a file are."""
    return path.with_name(f"{path.name}.json")


def write_text_settings(path: Path, text: TextConfig) -> None:
    """Writes the settings beside a file, which exists."""
    writing_json(settings_beside(path), {"sha256": file_sha256(path), "text": asdict(text)})


def read_text_settings(path: Path) -> dict[str, Any]:
    """Returns the settings beside a file; none if there are none, or they are those of another file.

    Raises:
        FormatError: if they are damaged.
    """
    beside = settings_beside(path)
    if not beside.is_file():
        return {}
    try:
        found = read_json_object(beside)
    except FormatError:
        return {}  # not ours: any JSON may lie there
    if found.get("sha256") != file_sha256(path):
        return {}
    return asdict(read_settings(beside, TextConfig, found.get("text"), "text"))
