"""Files of labelled data, as lines, rows of a table or JSON; nothing is trusted that they say of themselves."""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

from wenmai.core.compressed import reading
from wenmai.core.errors import CorpusError

__all__ = [
    "beginning",
    "is_json_lines",
    "numbered_lines",
    "plain_name",
    "read_json",
    "require_line_feeds",
    "rows_of",
    "text_lines",
]

_COMPRESSED_ENDINGS = (".gz", ".bz2", ".xz", ".zst")
_JSON_ENDINGS = (".jsonl", ".jsonlines", ".json-lines", ".ndjson")
MAX_LINE = 1 << 24  # bytes: more than any text has, less than a file that is not text
MAX_JSON = 1 << 27  # bytes of a file that is one JSON value; Python's objects take several times as much
_NAME_IT = "if the file has another encoding, name it (encoding=gb18030, latin-1, ...)"
_NAME_UTF8 = "if the file has another encoding, name it (encoding=utf-8, ...)"
_NOT_IT = "; this is not the file it should be"
_HEAD = 1 << 16  # bytes that show what a file is


def plain_name(path: Path) -> str:
    """Returns the name of a file in lower case, without the ending of its compression."""
    name = path.name.lower()
    for ending in _COMPRESSED_ENDINGS:
        name = name.removesuffix(ending)
    return name


def is_json_lines(path: Path) -> bool:
    """Whether a file has JSON lines, by its name."""
    return plain_name(path).endswith(_JSON_ENDINGS)


def numbered_lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str | ValueError]]:
    """Yields number and content of the lines of a file, without their ends; of a bad line what is wrong with it.

    Raises:
        CorpusError: if the file cannot be read, a line is longer than 16 MB, or lines end with carriage returns alone.
    """
    number = 0
    plain = "\n".encode(encoding) == b"\n"
    with reading(path, error=CorpusError) as raw:
        if plain:
            file: Any = io.BufferedReader(cast(io.RawIOBase, raw), 1 << 20)  # decompressors are slow with lines
        else:  # such as UTF-16, whose line ends are more than a byte
            file = _recoded(raw, path, encoding)
        used = encoding if plain else "utf-8"
        while line := file.readline(MAX_LINE):
            number += 1
            if len(line) == MAX_LINE and not line.endswith(b"\n"):
                raise CorpusError(f"{path}: line {number} is longer than {MAX_LINE >> 20} MB; expected a text a line")
            if number == 1:
                require_line_feeds(line, path)
            try:
                content = line.decode(used)
                if "\0" in content:
                    raise ValueError("it has a NUL, which no text has")
            except ValueError as error:
                yield number, _fault(error, line, encoding)
                continue
            yield number, (content.removeprefix("\ufeff") if number == 1 else content).rstrip("\r\n")


def text_lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Yields number and content of the lines of a file, without their ends.

    Raises:
        CorpusError: if the file cannot be read, or at the first line that is no text.
    """
    for number, line in numbered_lines(path, encoding):
        if isinstance(line, ValueError):
            fault = str(line).replace(_NAME_IT, "convert the file to UTF-8") if encoding == "utf-8" else line
            raise CorpusError(f"{path}: line {number}: {fault}")
        yield number, line


def require_line_feeds(first: bytes, path: Path) -> None:
    """Makes sure that a file is no single line with carriage returns inside, which some spreadsheets end lines with.

    Raises:
        CorpusError: if it is.
    """
    if not first.endswith(b"\n") and b"\r" in first.rstrip(b"\r"):
        raise _without_line_feed(path, 1)


def _without_line_feed(path: Path, number: int) -> CorpusError:
    return CorpusError(
        f"{path}: line {number}: has a carriage return without a line feed; save the file with the line ends of Unix "
        "or Windows"
    )


def _fault(error: ValueError, line: bytes, encoding: str) -> ValueError:
    if not isinstance(error, UnicodeDecodeError):
        return error
    advice = _NAME_IT if encoding == "utf-8" else _NAME_UTF8
    return ValueError(f"0x{line[error.start]:02x} is not {encoding} ({error.reason}); {advice}")


def _recoded(file: Any, path: Path, encoding: str) -> io.BytesIO:  # noqa: ANN401  any binary file
    try:
        return io.BytesIO(file.read().decode(encoding).encode())
    except UnicodeError as error:
        raise CorpusError(f"{path}: is not {encoding} ({error})") from None


def delimiter_of(head: str) -> str:
    """Returns what is between the columns of CSV, by the first line with text: a comma, or a semicolon where none is.

    Spreadsheets write semicolons where the comma is a decimal sign.
    """
    first = head.strip().partition("\n")[0].partition("\r")[0]
    commas, semicolons = (next(csv.reader([first], delimiter=one), []) for one in ",;")
    return ";" if len(commas) == 1 and len(semicolons) > 1 else ","


def rows_of(path: Path, lines: Iterable[tuple[int, str]], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yields the first line and the cells of each row of a table; of a blank line, or empty cells alone, no cells.

    Args:
        path: The file, for messages.
        lines: Numbers and contents of its lines.
        delimiter: What is between columns: a tab, and there are no quotes; or another character, as in
            :func:`delimiter_of`, with quotes as RFC 4180 has them.

    Raises:
        CorpusError: if it is no CSV.
    """
    begin = 0  # the first line of a row; 0: none was read

    def content() -> Iterator[str]:
        nonlocal begin
        for number, line in lines:
            begin = begin or number
            yield line + "\n"

    csv.field_size_limit(MAX_LINE)
    quotes = delimiter != "\t"
    rows = csv.reader(content(), delimiter=delimiter, strict=quotes,
                      quoting=csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE)  # fmt: skip
    try:
        for row in rows:
            yield begin, row if any(map(str.strip, row)) else []
            begin = 0
    except csv.Error as error:
        if "new-line character" in str(error):
            raise _without_line_feed(path, begin) from None
        raise CorpusError(f"{path}: line {begin}: is not CSV ({error}); check the quotes") from None


def beginning(path: Path, encoding: str = "utf-8") -> str:
    """Returns the first 64 KB of a file as text, whatever they are.

    Raises:
        CorpusError: if it cannot be read.
    """
    with reading(path, error=CorpusError) as raw:
        return raw.read(_HEAD).decode(encoding, "replace").removeprefix("\ufeff")


def read_json(path: Path, encoding: str = "utf-8", *, advice: str = "") -> Any:  # noqa: ANN401  any JSON
    """Reads a file that is one JSON value.

    Raises:
        CorpusError: if it is not, is nested too deeply, or is larger than 128 MiB.
    """
    with reading(path, error=CorpusError) as raw:
        content = raw.read(MAX_JSON + 1)
    if len(content) > MAX_JSON:
        raise CorpusError(f"{path}: is larger than {MAX_JSON >> 20} MiB{advice or _NOT_IT}")
    try:
        return json.loads(content.decode(encoding).removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise CorpusError(f"{path}: is not JSON ({error}){advice}") from None
