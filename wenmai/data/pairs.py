"""Parallel text: pairs of a source and a target, streamed from files, the catalogue or Python.

Files are UTF-8, plain or compressed (gzip, bzip2, xz, zstandard; detected by content). Invalid input raises a
:class:`~wenmai.core.errors.CorpusError` that names file and line; pairs with an empty side are left out and counted.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from annotated_types import Ge
from typing_extensions import Doc

from wenmai.config.recipe import Located
from wenmai.core.compressed import reading
from wenmai.core.errors import CorpusError
from wenmai.core.quantities import counted
from wenmai.data.corpus import Progress
from wenmai.data.file_hash import FileHash, file_hashes
from wenmai.data.lines import is_json_lines, require_line_feeds
from wenmai.data.sources import in_catalogue, refuse_columns

__all__ = ["Pairs", "PairsConfig", "PairsStats", "read_pairs"]

_MAX_LINE = 1 << 20
_KEYS = (("source", "target"), ("src", "tgt"))
_EXPECTED = (
    "a file of SOURCE<TAB>TARGET lines, a .jsonl file, two files as SOURCE_FILE,TARGET_FILE, or a name such as "
    "builtin:numerals"
)

_Form = Literal["tsv", "files", "json"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PairsConfig:
    """Which pairs are trained and validated on."""

    valid: Annotated[
        str | None,
        Doc("pairs to validate on, named like the training pairs; none: some of these are held out"),
        Located(lambda name: ",".join(read_pairs(name).sources)),
    ] = None
    swap: Annotated[bool, Doc("train the other direction: from the second side to the first")] = False
    longest: Annotated[int, Ge(1), Doc("pairs with more tokens on a side are left out and counted")] = 256


@dataclass(slots=True, kw_only=True)
class PairsStats:
    """What was found in parallel text.

    Attributes:
        lines: Lines of each side, or items.
        empty: Pairs left out because a side is empty.
    """

    lines: int = 0
    empty: int = 0

    def left_out(self) -> list[str]:
        """Returns what was left out, one sentence for each reason."""
        return counted(
            (
                self.empty,
                "1 example was left out because a text is empty",
                "{count} examples were left out because a text is empty",
            )
        )


class _Languages(NamedTuple):
    """Where the two sides of a JSON record are: inside ``translation``, or beside each other."""

    inside: bool
    source: str
    target: str


class Pairs:
    """Parallel text that can be read repeatedly. Make it with :func:`read_pairs`.

    Attributes:
        sources: Names of the pairs: absolute paths, and names of the catalogue as they are; empty for pairs
            from Python.
        swap: Whether the second side is the source.
    """

    def __init__(
        self,
        *,
        form: _Form = "tsv",
        paths: tuple[Path, ...] = (),
        sources: tuple[str, ...] = (),
        items: Iterable[Any] = (),
        swap: bool = False,
    ) -> None:
        self.sources = sources
        self.swap = swap
        self._form = form
        self._paths = paths
        self._items = items

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return self.read(PairsStats())

    def read(self, stats: PairsStats, *, progress: Progress | None = None) -> Iterator[tuple[str, str]]:
        """Reads the pairs once more, from the first to the last.

        Args:
            stats: Counters to be increased.
            progress: Called after each block of a file, with the bytes read so far.

        Yields:
            Source and target, neither empty, without white space around them.

        Raises:
            CorpusError: if the text cannot be read, or holds no pair.
        """
        kept = 0
        for first, second in self._sides(progress):
            stats.lines += 1
            first, second = first.strip(), second.strip()
            if first and second:
                kept += 1
                yield (second, first) if self.swap else (first, second)
            else:
                stats.empty += 1
        if kept == 0:
            raise CorpusError(f"{self.describe()}: no pairs in {stats.lines} lines; expected a source and a target")

    def describe(self) -> str:
        """Returns a name of the pairs for messages."""
        return ",".join(self.sources) or "pairs from Python"

    def swapped(self) -> "Pairs":
        """Returns the same pairs with their sides exchanged."""
        return Pairs(form=self._form, paths=self._paths, sources=self.sources, items=self._items, swap=not self.swap)

    def hashes(self) -> list[FileHash]:
        """Returns what identifies the content of each file; nothing for pairs from Python.

        Raises:
            CorpusError: if a file cannot be read.
        """
        return file_hashes(self._paths)

    def fingerprint(self) -> str:
        """Returns a hash of the content and of how it is read.

        Raises:
            CorpusError: if the text cannot be read.
        """
        digest = hashlib.sha256(json.dumps([self._form, self.swap]).encode())
        digest.update("".join(file.sha256 for file in self.hashes()).encode())
        if not self._paths:
            for pair in self:
                digest.update(json.dumps(pair).encode())
        return digest.hexdigest()

    def _sides(self, progress: Progress | None) -> Iterator[tuple[str, str]]:
        """Yields the first and the second side as the source has them."""
        if not self._paths:
            return _items(self._items)
        lines = [_lines(path, advance) for path, advance in zip(self._paths, self._advances(progress), strict=True)]
        if self._form == "files":
            return _aligned(self._paths, lines)
        return (_tabbed if self._form == "tsv" else _records)(self._paths[0], lines[0])

    def _advances(self, progress: Progress | None) -> list[Callable[[int], None] | None]:
        """Called with the size of each block of each file."""
        if progress is None:
            return [None] * len(self._paths)
        try:
            done, total = 0, sum(path.stat().st_size for path in self._paths)
        except OSError as error:
            raise CorpusError(f"{error.filename}: cannot be read ({error.strerror})") from None

        def advance(size: int) -> None:
            nonlocal done
            done += size
            progress(done, total)

        return [advance] * len(self._paths)


def read_pairs(spec: str | Path | Iterable[tuple[str, str]], *, swap: bool = False) -> Pairs:
    """Makes parallel text of whatever names or holds it; nothing is read yet.

    Args:
        spec: One of

            - a file with ``SOURCE<TAB>TARGET`` lines; further columns are ignored, as in the files of Tatoeba;
            - ``SOURCE_FILE,TARGET_FILE``: two files of which line i belongs to line i; each may be a name of the
              catalogue;
            - a file of JSON lines (named ``.jsonl`` or ``.ndjson``) with ``source`` and ``target``, ``src`` and
              ``tgt``, or ``translation`` with two languages, of which the first line names the source first;
            - a name of the catalogue such as ``builtin:numerals``;
            - pairs of strings from Python; an iterator is kept in memory.
        swap: Use the second side as the source.

    Raises:
        CorpusError: if nothing is there.
        SettingError: if the catalogue has no such name.
    """
    if not isinstance(spec, str | Path):
        if not isinstance(spec, Iterable):
            raise CorpusError(f"pairs from Python are (source, target) tuples, not {type(spec).__name__}")
        refuse_columns(spec, (2,), "pairs from Python")
        return Pairs(items=list(spec) if isinstance(spec, Iterator) else spec, swap=swap)
    from wenmai.data.catalogue import locate

    parts = _parts(str(spec)) if isinstance(spec, str) else [str(spec)]
    named = [locate(part, _EXPECTED) for part in parts]
    paths = tuple(path for _, path in named)
    form: _Form = "files" if len(parts) == 2 else "json" if is_json_lines(paths[0]) else "tsv"
    return Pairs(form=form, paths=paths, sources=tuple(name for name, _ in named), swap=swap)


def _parts(spec: str) -> list[str]:
    """Splits ``SRC,TGT`` in two, unless the whole is a file; a name may have commas itself."""
    if "," not in spec or _exists(spec):
        return [spec]
    places = [place for place, character in enumerate(spec) if character == ","]
    cuts = [[spec[:place].strip(), spec[place + 1 :].strip()] for place in places]
    return next((cut for cut in cuts if all(map(_exists, cut))), cuts[0] if len(cuts) == 1 else [spec])


def _exists(name: str) -> bool:
    return (in_catalogue(name) and "," not in name) or os.path.exists(os.path.expanduser(name))


def _lines(path: Path, advance: Callable[[int], None] | None) -> Iterator[str]:
    """Yields the lines of a file without their ends."""
    number = 0
    with reading(path, error=CorpusError, advance=advance) as file:
        while line := file.readline(_MAX_LINE):
            number += 1
            if len(line) == _MAX_LINE and not line.endswith(b"\n"):
                raise CorpusError(f"{path}: line {number} is longer than a megabyte; expected a sentence a line")
            if number == 1:
                require_line_feeds(line, path)
            yield _decoded(line, path, number)
    if number == 0:
        raise CorpusError(f"{path}: is empty; expected text")


def _decoded(line: bytes, path: Path, number: int) -> str:
    if number == 1:
        line = line.removeprefix(b"\xef\xbb\xbf")
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        hint = "UTF-16" if number == 1 and line.startswith((b"\xff\xfe", b"\xfe\xff")) else "another encoding"
        raise CorpusError(
            f"{path}: line {number}: 0x{line[error.start]:02x} is not UTF-8 ({error.reason}); the file may have {hint}:"
            " convert it to UTF-8"
        ) from None
    if "\0" in text:
        raise CorpusError(f"{path}: line {number} has a NUL, which no text has; check that this is a text file")
    return text.removesuffix("\n").removesuffix("\r")


def _tabbed(path: Path, lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines, start=1):
        columns = line.split("\t", 2)
        if len(columns) > 1:
            yield columns[0], columns[1]
        elif line.strip():
            raise CorpusError(
                f"{path}: line {number} has no tab ({line[:40]!r}); expected SOURCE<TAB>TARGET. Two files are given as"
                " SOURCE_FILE,TARGET_FILE"
            )
        else:
            yield "", ""


def _aligned(paths: tuple[Path, ...], lines: list[Iterator[str]]) -> Iterator[tuple[str, str]]:
    counts = [0, 0]
    for sides in zip_longest(lines[0], lines[1]):
        for place, side in enumerate(sides):
            counts[place] += side is not None
        if counts[0] == counts[1]:
            yield sides
    if counts[0] != counts[1]:
        raise CorpusError(
            f"{paths[0]} has {counts[0]} lines, {paths[1]} has {counts[1]}; expected line i of one to belong to line i"
            " of the other"
        )


def _records(path: Path, lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    languages: _Languages | None = None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            yield "", ""
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise CorpusError(f"{path}: line {number} is not JSON ({error})") from None
        where = f"{path}: line {number}"
        languages = languages or _languages(record, where)
        sides = record.get("translation") if languages.inside and isinstance(record, dict) else record
        if not isinstance(sides, dict) or not {languages.source, languages.target} <= set(sides):
            raise CorpusError(f"{where} lacks {languages.source!r} or {languages.target!r}, which line 1 has")
        yield _text(sides[languages.source], where), _text(sides[languages.target], where)


def _languages(record: object, where: str) -> _Languages:
    if isinstance(record, dict):
        for source, target in _KEYS:
            if source in record and target in record:
                return _Languages(False, source, target)
        inside = record.get("translation")
        if isinstance(inside, dict) and len(inside) == 2:
            return _Languages(True, *inside)
    found = ", ".join(map(repr, record)) if isinstance(record, dict) else type(record).__name__
    raise CorpusError(
        f"{where} has {found or 'nothing'}; expected an object with 'source' and 'target', 'src' and 'tgt', or"
        " 'translation' with two languages"
    )


def _items(items: Iterable[Any]) -> Iterator[tuple[str, str]]:
    for number, item in enumerate(items):
        where = f"pair {number} from Python"
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise CorpusError(f"{where} is {item!r:.60}; expected (source, target)")
        yield _text(item[0], where), _text(item[1], where)


def _text(side: object, where: str) -> str:
    """Returns a side that does not come from a file, after the same checks."""
    if not isinstance(side, str):
        raise CorpusError(f"{where} has a side that is {type(side).__name__}; expected text")
    if "\0" in side:
        raise CorpusError(f"{where} has a NUL, which no text has")
    try:
        side.encode()
    except UnicodeEncodeError as error:
        raise CorpusError(f"{where} has the lone surrogate {side[error.start]!r}, which is no character") from None
    return side
