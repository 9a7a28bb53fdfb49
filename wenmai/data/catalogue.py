"""The catalogue of corpora and test sets: sources, licences and checksums.

Everything is fetched on request only, into ``$WENMAI_CACHE/data/NAME/``. With ``WENMAI_DATA_MIRROR`` set (a
folder, a ``file://`` or an ``http(s)://`` address) files are taken from there and from nowhere else. A
checksum is registered only where it is known; of a file without one, the checksum of the download is stored.
"""

import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any, Literal
from urllib.parse import quote

from wenmai.core.errors import CorpusError, DownloadError, SettingError, nearest_name
from wenmai.core.folder import cache_folder, file_sha256, writing_json
from wenmai.data import numerals, pydocs
from wenmai.data.download import Progress, disk_errors, download, unzip
from wenmai.data.sources import in_catalogue

__all__ = [
    "Check",
    "Entry",
    "Source",
    "cached",
    "check",
    "entries",
    "find",
    "from_catalogue",
    "get",
    "locate",
    "resolve",
]

MIRROR_VARIABLE = "WENMAI_DATA_MIRROR"

_PACKAGED = "package:"  # a source that is a file of this package
_RECEIPT = "receipt.json"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class _Made:
    """An entry that is made locally: the path of its file in a folder, how it is made, and its SHA-256."""

    path: Callable[[Path], Path]
    make: Callable[[Path], Path]
    sha256: Callable[[], str]


def _numerals(split: numerals.Split) -> _Made:
    return _Made(
        path=partial(numerals.text_path, split=split),
        make=partial(numerals.text_file, split=split),
        sha256=partial(numerals.sha256, split),
    )


_MADE = {
    "builtin:pydocs": _Made(path=pydocs.text_path, make=pydocs.text_file, sha256=pydocs.sha256),
    "builtin:numerals": _numerals("train"),
    "builtin:numerals-valid": _numerals("valid"),
    "builtin:numerals-test": _numerals("test"),
}


@dataclass(frozen=True, kw_only=True)
class Source:
    """One downloadable file of an entry.

    Attributes:
        mirror: Path of the file inside a mirror folder.
        address: Public address, or None if only a mirror has it.
        size_bytes: Size of the downloaded file, or None if not known.
        sha256: SHA-256 of the downloaded file, or None if not known.
        member: For a zip archive, the name of the one file that is extracted.
        member_bytes: Size of that file, or None if not known.
    """

    mirror: str
    address: str | None = None
    size_bytes: int | None = None
    sha256: str | None = None
    member: str | None = None
    member_bytes: int | None = None

    @property
    def download_name(self) -> str:
        """Name of the downloaded file; a user may also put it there by hand."""
        return PurePosixPath(self.mirror).name

    @property
    def file_name(self) -> str:
        """Name of the file that is read."""
        return PurePosixPath(self.member or self.mirror).name


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A corpus or test set that can be asked for by name.

    Attributes:
        name: As in ``wenmai data get NAME`` or, as a corpus, ``data:NAME``.
        title: What it is.
        purpose: What it is for, and its size in words, pairs or questions.
        kind: ``corpus``; ``pairs`` (parallel text); ``dump`` (text still to be extracted); ``similarity``,
            ``analogy`` or ``minimal-pairs`` (test sets); ``classification``, ``tagging``, ``sentence-pairs``,
            ``question-answering`` or ``multiple-choice`` (labelled; those that :mod:`wenmai.data.datasets` reads);
            ``pinyin``; ``relations`` (documents with entities; :mod:`wenmai.data.relation_files`).
        language: Its code, such as ``en`` or ``zh``; of pairs both, as in ``en-zh``.
        licence: Terms of use, as far as they are stated.
        text: Text settings that fit it.
        note: What else to know.
        sources: The available files, the preferred one first.
    """

    name: str
    title: str
    purpose: str
    kind: Literal[
        "corpus",
        "pairs",
        "dump",
        "similarity",
        "analogy",
        "minimal-pairs",
        "pinyin",
        "classification",
        "tagging",
        "sentence-pairs",
        "question-answering",
        "multiple-choice",
        "relations",
    ]
    language: str
    licence: str
    text: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Check:
    """What :func:`check` found.

    Attributes:
        name: The entry.
        status: ``good`` (equal to the registered checksum), ``unregistered`` (equal to the download, as no
            checksum is registered), ``damaged`` or ``absent``.
        path: The file, or None if absent.
        size_bytes: Its size, or None if absent.
        sha256: Its SHA-256, or None if absent.
        expected_sha256: What its SHA-256 should be, or None if absent.
        message: The same in one sentence.
    """

    name: str
    status: Literal["good", "unregistered", "damaged", "absent"]
    path: Path | None = None
    size_bytes: int | None = None
    sha256: str | None = None
    expected_sha256: str | None = None
    message: str


@dataclass(frozen=True, kw_only=True)
class _Receipt:
    """The content of an entry's folder, and its source."""

    file: str
    size_bytes: int
    sha256: str
    address: str
    download_sha256: str


@cache
def entries() -> tuple[Entry, ...]:
    """Returns all entries in the order of the catalogue file."""
    listed = json.loads(resources.files("wenmai.data").joinpath("catalogue.json").read_text(encoding="utf-8"))
    return tuple(Entry(**{**item, "sources": tuple(Source(**source) for source in item["sources"])}) for item in listed)


def find(name: str) -> Entry:
    """Returns the entry of that name; ``data:`` may stand before it.

    Raises:
        SettingError: if there is none.
    """
    known = {entry.name: entry for entry in entries()}
    try:
        return known[name.removeprefix("data:")]
    except KeyError:
        prefix = "data:" if name.startswith("data:") else ""
        spelled = [one if one.startswith("builtin:") else prefix + one for one in known]
        raise SettingError(
            f"no corpus or test set is called {name!r} in the catalogue{nearest_name(name, spelled)}; "
            "see 'wenmai data list'"
        ) from None


def cached(name: str) -> Path | None:
    """Returns the file of an entry if it is here already, complete and unpacked, without reading it.

    Raises:
        SettingError: if there is no such entry.
        CorpusError: if this Python lacks what ``builtin:pydocs`` is made from.
    """
    entry = find(name)
    path, receipt = _present(entry)
    return None if path is None or (receipt and path.stat().st_size != receipt.size_bytes) else path


def get(name: str, *, progress: Progress | None = None, timeout_seconds: float = 30.0, attempts: int = 3) -> Path:
    """Returns the file of an entry, fetching, verifying and unpacking it if needed.

    A file put into the entry's folder by hand, under its download name, is verified and used.

    Args:
        name: The entry's name.
        progress: Called with the bytes done and the bytes in all (None if unknown) while downloading.
        timeout_seconds: Longest wait for data.
        attempts: How often a broken connection is retried.

    Raises:
        SettingError: if there is no such entry.
        DownloadError: if it cannot be fetched, has a wrong checksum, or cannot be written.
        CorpusError: if this Python lacks what ``builtin:pydocs`` is made from.
    """
    entry = find(name)
    folder = _folder(entry)
    with disk_errors(folder):
        if made := _MADE.get(entry.name):
            return made.make(folder)
        if path := cached(name):
            return path
        for source in entry.sources:
            placed = folder / source.download_name
            if placed.is_file():
                return _finish(entry, source, str(placed), _verified(entry, source, placed))
        failures = []
        for source, address in _addresses(entry):
            try:
                found = download(
                    address,
                    folder / source.download_name,
                    size_bytes=source.size_bytes,
                    sha256=source.sha256,
                    progress=progress,
                    timeout_seconds=timeout_seconds,
                    attempts=attempts,
                )
                return _finish(entry, source, address, found)
            except DownloadError as error:
                failures.append(str(error))
    raise DownloadError(_explanation(entry, failures))


def check(name: str) -> Check:
    """Reads the file of an entry in the cache and compares its checksum; fetches nothing.

    Raises:
        SettingError: if there is no such entry.
        CorpusError: if this Python lacks what ``builtin:pydocs`` is made from.
    """
    entry = find(name)
    path, receipt = _present(entry)
    if path is None:
        return Check(name=entry.name, status="absent", message=f"not here; 'wenmai data get {entry.name}' fetches it")
    found = file_sha256(path)
    if receipt is not None:
        expected = receipt.sha256
    elif made := _MADE.get(entry.name):
        expected = made.sha256()
    else:
        expected = entry.sources[0].sha256 or ""
    status: Literal["good", "unregistered", "damaged"]
    if found != expected:
        status = "damaged"
        message = f"has changed: expected SHA-256 {expected}, got {found}; remove it and get it again"
    elif receipt is None:
        status, message = "good", "as this Python and this wenmai have it"
    elif any(receipt.download_sha256 == source.sha256 for source in entry.sources):
        status, message = "good", "equal to the registered checksum"
    else:
        status, message = "unregistered", f"no checksum registered; sha256 of the download is {found}"
    return Check(
        name=entry.name,
        status=status,
        path=path,
        size_bytes=path.stat().st_size,
        sha256=found,
        expected_sha256=expected,
        message=message,
    )


def resolve(source: str, *, progress: Progress | None = None) -> Path | None:
    """Returns the file that a corpus argument such as ``builtin:pydocs`` or ``data:en8`` means.

    It is fetched if needed. None for any other argument.

    Raises:
        SettingError: if there is no such entry, or it is a dump whose text has to be extracted first.
        DownloadError: as :func:`get`.
        CorpusError: as :func:`get`.
    """
    if not in_catalogue(source):
        return None
    entry = find(source)
    if entry.kind == "dump":
        raise SettingError(f"{source}: {entry.note}; 'wenmai data get {entry.name}' fetches it")
    return get(entry.name, progress=progress)


def locate(name: str, expected: str) -> tuple[str, Path]:
    """Returns what a recipe calls a file, and where it is: names of the catalogue as they are, and absolute paths.

    Args:
        name: What the user calls it.
        expected: What the file should be, for the message.

    Raises:
        CorpusError: if there is no such file; and as :func:`resolve` does.
        SettingError: as :func:`resolve` does.
    """
    if found := resolve(name):
        return name, found
    if name == "-":
        raise CorpusError(f"standard input can be read only once; save it to a file and name that: expected {expected}")
    path = Path(os.path.abspath(os.path.expanduser(name)))
    if not os.path.isfile(path):  # pathlib's has an error of its own for what is too long for a name
        if os.path.isdir(path):
            raise CorpusError(f"{path}: is a folder; expected {expected}")
        raise CorpusError(f"{path!s:.300}: no such file; expected {expected}")
    return str(path), path


def from_catalogue(sources: Sequence[str | Path]) -> tuple[list[str | Path], dict[str, Any]]:
    """Replaces names of the catalogue among the parts of a corpus by the paths of their files.

    Returns:
        The parts, and the text settings that suit them: those of the catalogue's entries, as far as they agree.
    """
    paths: list[str | Path] = []
    hints: list[Mapping[str, Any]] = []
    for source in sources:
        path = resolve(source) if isinstance(source, str) else None
        paths.append(path or source)
        if path:
            hints.append(find(str(source)).text)
    if not hints or len(hints) < len(sources):
        return paths, {}
    return paths, {name: value for name, value in hints[0].items() if all(hint.get(name) == value for hint in hints)}


def _folder(entry: Entry) -> Path:
    return cache_folder() / "data" / entry.name.replace(":", "-")


def _addresses(entry: Entry) -> list[tuple[Source, str]]:
    mirror = os.environ.get(MIRROR_VARIABLE)
    if not mirror:
        return [(source, source.address) for source in entry.sources if source.address]
    base = mirror if "://" in mirror else Path(mirror).expanduser().resolve().as_uri()
    return [(source, f"{base.rstrip('/')}/{quote(source.mirror)}") for source in entry.sources]


def _explanation(entry: Entry, failures: list[str]) -> str:
    """Returns why the download failed and what the user can do."""
    paths = " or ".join(source.mirror for source in entry.sources)
    by_hand = _folder(entry) / entry.sources[0].download_name
    advice = [f"bring {by_hand.name} yourself as {by_hand} and run this again"]
    if os.environ.get(MIRROR_VARIABLE):
        if any(source.address for source in entry.sources):
            advice.insert(0, f"unset {MIRROR_VARIABLE} to fetch it from its public address")
    else:
        advice.insert(0, f"set {MIRROR_VARIABLE} to a folder or address that has {paths}")
        failures = failures or [f"{entry.name} has no public address; only a mirror folder has it"]
    note = "" if not entry.note or any(source.address for source in entry.sources) else f" ({entry.note})"
    return f"{'; '.join(failures)}. What you can do: {', or '.join(advice)}{note}"


def _verified(entry: Entry, source: Source, placed: Path) -> str:
    """Returns the SHA-256 of a file that was put into the folder by hand, if it is the right one."""
    receipt = _read_receipt(entry)
    remembered = receipt.sha256 if receipt and receipt.file == placed.name else None
    expected = source.sha256 or remembered
    found = file_sha256(placed)
    if expected not in (None, found):
        raise DownloadError(
            f"{placed}: wrong checksum: expected SHA-256 {expected}, got {found}; remove the file and run"
            f" 'wenmai data get {entry.name}' again"
        )
    return found


def _finish(entry: Entry, source: Source, address: str, download_sha256: str) -> Path:
    """Unpacks the download if needed, and writes the receipt."""
    downloaded = _folder(entry) / source.download_name
    path = _folder(entry) / source.file_name
    if source.member is not None:
        unzip(downloaded, source.member, path, size_bytes=source.member_bytes)
    if source.sha256 is None:
        _log.warning("%s: no checksum registered; sha256 of the download is %s", entry.name, download_sha256)
    receipt = _Receipt(
        file=path.name,
        size_bytes=path.stat().st_size,
        sha256=file_sha256(path) if source.member is not None else download_sha256,
        address=address,
        download_sha256=download_sha256,
    )
    writing_json(_folder(entry) / _RECEIPT, asdict(receipt))
    if source.member is not None:
        downloaded.unlink()
    return path


def _present(entry: Entry) -> tuple[Path | None, _Receipt | None]:
    """Returns the entry's file, or None if it is not here, and its receipt; a file made locally has none."""
    receipt = None
    if made := _MADE.get(entry.name):
        path = made.path(_folder(entry))
    elif packaged := _packaged(entry):
        path = packaged
    else:
        receipt = _read_receipt(entry)
        path = _folder(entry) / (receipt.file if receipt else "")
    return (path if path.is_file() else None), receipt


def _packaged(entry: Entry) -> Path | None:
    """Returns the file of an entry that ships with wenmai."""
    mirror = entry.sources[0].mirror if entry.sources else ""
    return Path(__file__).with_name(mirror.removeprefix(_PACKAGED)) if mirror.startswith(_PACKAGED) else None


def _read_receipt(entry: Entry) -> _Receipt | None:
    try:
        receipt = _Receipt(**json.loads((_folder(entry) / _RECEIPT).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
    return receipt if receipt.file in [source.file_name for source in entry.sources] else None
