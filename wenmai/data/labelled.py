"""Labelled text: texts and the classes they belong to, streamed from files, the catalogue or Python.

Files are UTF-8 (or ``encoding``), plain or compressed (gzip, bzip2, xz, zstandard; detected by content):

- lines as the fastText command reads them: words, and labels such as ``__label__sports`` anywhere among them;
- tables: ``.csv`` with quotes as RFC 4180 has them, other files with tabs between columns, and no quotes;
- JSON lines (``.jsonl``, ``.ndjson``).

In tables and JSON lines ``text_column`` and ``label_column`` name text and label; without them, columns with usual
names are taken, such as ``review`` and ``sentiment``. Invalid input raises a
:class:`~wenmai.core.errors.CorpusError` that names file and line; what is left out is counted.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from annotated_types import MinLen
from typing_extensions import Doc

from wenmai.config.recipe import Located
from wenmai.core.errors import CorpusError, SettingError, nearest_name
from wenmai.core.quantities import plural
from wenmai.data.corpus import Progress
from wenmai.data.file_hash import FileHash, file_hashes
from wenmai.data.lines import beginning, delimiter_of, is_json_lines, numbered_lines, plain_name, rows_of
from wenmai.data.records import listed
from wenmai.data.sources import absolute_name, refuse_columns
from wenmai.data.table_columns import guessed_roles
from wenmai.text.settings import TextConfig

__all__ = ["Example", "Labelled", "LabelledConfig", "LabelledStats", "read_labelled", "require_plain_text"]

_SPACE = " \\t\\n\\v\\f\\r\\0"  # what separates words for fastText


class Example(NamedTuple):
    """A text and its labels."""

    text: str
    labels: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelledConfig:
    """Where text and labels are, and what a classifier is evaluated on."""

    valid: Annotated[
        str | None,
        Doc("labelled text for evaluation while training; none: no evaluation"),
        Located(absolute_name),
    ] = None
    text_column: Annotated[
        str | None,
        Doc(
            "tables: name of the column with the text, or its number from 1 (no line of names); a,b joins columns; "
            "none: found"
        ),
    ] = None
    label_column: Annotated[
        str | None, Doc("tables: name of the column with the label, or its number from 1; none: found")
    ] = None
    label_separator: Annotated[
        str | None, MinLen(1), Doc("tables: separator of several labels of a text; none: there is one label")
    ] = None
    label_prefix: Annotated[str, MinLen(1), Doc("lines without columns: prefix of a word that is a label")] = (
        "__label__"
    )
    unlabelled: Annotated[Literal["error", "skip"], Doc("a text without a label: error, or skip and count it")] = (
        "error"
    )

    def __post_init__(self) -> None:
        if (self.text_column is None) != (self.label_column is None):
            missing = "label_column" if self.label_column is None else "text_column"
            raise SettingError(f"text_column and label_column go together; {missing} is missing")
        if self.label_separator is not None and self.label_column is None:
            raise SettingError("label_separator has no effect without text_column and label_column")

    def reading_identity(self) -> dict[str, Any]:
        """The settings that decide what is read from a file."""
        found = asdict(self)
        del found["valid"]
        return found


@dataclass(slots=True, kw_only=True)
class LabelledStats:
    """What was found in labelled text, and what was left out.

    Attributes:
        files: Files read.
        lines: Lines, or items from Python.
        examples: Texts with at least one label.
        blank_lines: Lines with nothing in them, left out.
        skipped_lines: Lines left out because of ``bad_lines=skip``.
        unlabelled: Texts left out because they have no label (``unlabelled=skip``).
        without_text: Examples that have a label but no text; they are kept.
    """

    files: int = 0
    lines: int = 0
    examples: int = 0
    blank_lines: int = 0
    skipped_lines: int = 0
    unlabelled: int = 0
    without_text: int = 0


@dataclass(frozen=True, eq=False)
class Labelled:
    """Labelled text that can be read repeatedly. Make it with :func:`read_labelled`.

    Attributes:
        sources: What the files were called: absolute paths, and names of the catalogue as they are; empty for text
            from Python.
        config: Where text and labels are.
        text: Encoding, and what to do with bad lines.
    """

    sources: tuple[str, ...]
    config: LabelledConfig
    text: TextConfig
    paths: tuple[Path, ...] = ()
    items: Iterable[Any] = field(default=(), repr=False)

    @property
    def repeatable(self) -> bool:
        """Whether the names alone suffice to read the same text again."""
        return bool(self.paths)

    def __iter__(self) -> Iterator[Example]:
        return self.read(LabelledStats())

    def read(self, stats: LabelledStats, progress: Progress | None = None) -> Iterator[Example]:
        """Reads the examples once more, from the first to the last.

        Args:
            stats: Counters to be increased.
            progress: Called with the bytes of the files that have been read, and of all.

        Raises:
            CorpusError: if the text cannot be read, or has no example.
        """
        before = stats.examples
        if not self.paths:
            yield from self._kept(_items(self.items), "text from Python: item", stats)
        total, done = sum(path.stat().st_size for path in self.paths), 0
        for path in self.paths:
            yield from self._kept(self._examples(path, stats), f"{path}: line", stats)
            stats.files += 1
            done += path.stat().st_size
            if progress is not None:
                progress(done, total)
        if stats.examples == before:
            raise CorpusError(f"{self.describe()}: no examples in {stats.lines} lines; expected {self._expected}")

    @property
    def spec(self) -> Any:  # noqa: ANN401  names, or whatever holds the text
        """What to open to read the same text in another way."""
        return list(self.sources) if self.paths else self.items

    def describe(self) -> str:
        """Returns a name of the text for messages."""
        return ", ".join(self.sources) or "text from Python"

    def hashes(self) -> list[FileHash]:
        """Returns what identifies the content of each file; nothing for text from Python.

        Raises:
            CorpusError: if a file cannot be read.
        """
        return file_hashes(self.paths)

    def fingerprint(self) -> str:
        """Returns a hash of the content and of how it is read.

        Raises:
            CorpusError: if the text cannot be read.
        """
        identity = [self.config.reading_identity(), self.text.identity()]
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode())
        digest.update("".join(file.sha256 for file in self.hashes()).encode())
        if not self.paths:
            for example in self:
                digest.update(json.dumps(example).encode())
        return digest.hexdigest()

    @property
    def _expected(self) -> str:
        lines = not all(map(is_json_lines, self.paths))
        if lines and self.config.label_column is None:
            return f"words and {self.config.label_prefix}LABEL in a line, or a table (.csv, .tsv)"
        return "a text and its label"

    def _kept(
        self, found: Iterable[tuple[int, str, tuple[str, ...]]], where: str, stats: LabelledStats
    ) -> Iterator[Example]:
        """Leaves out what is not an example, and counts."""
        for number, text, labels in found:
            if not self.paths:
                stats.lines += 1
            empty = not text or text.isspace()
            if not labels:
                if empty:
                    stats.blank_lines += 1
                    continue
                if self.config.unlabelled == "error":
                    raise CorpusError(
                        f"{where} {number} has no label ({text.strip()[:40]!r}); expected {self._expected}. "
                        "unlabelled=skip leaves out such texts of a training, and counts them; remove those of a test "
                        "set"
                    )
                stats.unlabelled += 1
                continue
            stats.examples += 1
            stats.without_text += empty
            yield Example(text, labels)

    def _examples(self, path: Path, stats: LabelledStats) -> Iterator[tuple[int, str, tuple[str, ...]]]:
        """Yields line number, text and labels."""
        lines = _lines(path, self.text, stats)
        if is_json_lines(path):
            return _records(path, lines, self.config)
        name = plain_name(path)
        if self.config.label_column is None and not name.endswith((".csv", ".tsv")):
            return _marked(lines, self.config.label_prefix)
        comma = name.endswith(".csv")
        delimiter = delimiter_of(beginning(path, self.text.encoding)) if comma else "\t"
        return _rows(path, lines, self.config, delimiter)


def read_labelled(
    spec: Any,  # noqa: ANN401  whatever names or holds labelled text
    config: LabelledConfig | None = None,
    text: TextConfig | None = None,
) -> Labelled:
    """Makes labelled text of whatever names or holds it; nothing is read yet.

    Args:
        spec: A file, a name of the catalogue (``data:NAME``), a list of these, or pairs of a text and its label (or
            labels) from Python; an iterator is kept in memory.
        config: Where text and labels are.
        text: Encoding, and what to do with bad lines.

    Raises:
        CorpusError: if nothing is there.
        SettingError: if the catalogue has no such name, or a setting of ``text`` has no effect.
    """
    config, text = config or LabelledConfig(), text or TextConfig()
    require_plain_text(text)
    if isinstance(spec, Labelled):
        spec = spec.spec
    if isinstance(spec, str | Path):
        spec = [spec]
    if isinstance(spec, list | tuple) and spec and all(isinstance(item, str | Path) for item in spec):
        named = [_located(str(item), config.label_prefix) for item in spec]
        return Labelled(tuple(name for name, _ in named), config, text, paths=tuple(path for _, path in named))
    if not isinstance(spec, Iterable):
        raise CorpusError(f"labelled text from Python is (text, label) pairs, not {type(spec).__name__}")
    refuse_columns(spec, (2,), "text from Python")
    return Labelled((), config, text, items=list(spec) if isinstance(spec, Iterator) else spec)


def require_plain_text(text: TextConfig) -> None:
    """Checks that no setting is set that labelled text does not use.

    Raises:
        SettingError: if there is one.
    """
    if text.phrases:
        raise SettingError("phrases has no effect on labelled text; n-grams of words (word_ngrams) do what it does")
    if text.format == "wikiextractor":
        raise SettingError("format=wikiextractor has no labels; leave format as it is")


def _located(name: str, label_prefix: str) -> tuple[str, Path]:
    """As :func:`locate`; texts with labels are told from file names by the prefix."""
    from wenmai.data.catalogue import locate

    hint = ". Texts in memory are pairs: [(text, label), ...]" if label_prefix in name else ""
    return locate(name, f"a file with a text and its labels in a line{hint}")


def _lines(path: Path, text: TextConfig, stats: LabelledStats) -> Iterator[tuple[int, str]]:
    """Yields number and content of the good lines of a file, without their ends."""
    number = 0
    for number, content in numbered_lines(path, text.encoding):
        stats.lines += 1
        if isinstance(content, str):
            yield number, content
        elif text.bad_lines == "skip":
            stats.skipped_lines += 1
        else:
            raise CorpusError(f"{path}: line {number}: {content}. bad_lines=skip leaves out such lines and counts them")
    if number == 0:
        raise CorpusError(f"{path}: is empty; expected labelled text")


def _marked(lines: Iterable[tuple[int, str]], prefix: str) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """Takes the labels out of lines of words."""
    label = re.compile(f"(?:^|(?<=[{_SPACE}])){re.escape(prefix)}([^{_SPACE}]+)(?:[{_SPACE}]|$)")
    for number, line in lines:
        if prefix in line:
            yield number, label.sub("", line), tuple(dict.fromkeys(label.findall(line)))
        else:
            yield number, line, ()


def _rows(
    path: Path, lines: Iterable[tuple[int, str]], config: LabelledConfig, delimiter: str
) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """Takes text and labels out of the columns of a table."""
    width = 0
    by_number = all(name.strip().isdecimal() for name in f"{config.text_column},{config.label_column}".split(","))
    for begin, row in rows_of(path, lines, delimiter):
        if not row:
            yield begin, "", ()
        elif not width:
            width = len(row)
            header = [str(place) for place in range(1, width + 1)] if by_number else [name.strip() for name in row]
            columns = _columns(header, config)
            if columns is None:
                raise CorpusError(
                    f"{path}: it cannot be told which columns have text and label (line {begin}: {listed(header)}); "
                    "say text_column=NAME label_column=NAME, or their numbers if there is no line of names"
                )
            wanted, label_name = columns
            if any(header.count(name) > 1 for name in (*wanted, label_name)):
                raise CorpusError(
                    f"{path}: line {begin}: two columns have one name ({', '.join(header)[:200]}); rename one"
                )
            texts, label = [_column(name, header, path) for name in wanted], _column(label_name, header, path)
            if by_number:
                yield begin, *_cells(row, texts, label, config)
        elif len(row) != width:
            names = "the first row" if by_number else "the line of names"
            raise CorpusError(
                f"{path}: line {begin} has {plural(len(row), 'column')} ({row[0][:40]!r}...), but {names} has {width}"
            )
        else:
            yield begin, *_cells(row, texts, label, config)


def _columns(header: Sequence[str], config: LabelledConfig) -> tuple[list[str], str] | None:
    """The names of the columns with texts, and of that with the label; None if it cannot be told."""
    if config.text_column is not None and config.label_column is not None:
        return [name.strip() for name in config.text_column.split(",")], config.label_column
    try:
        roles = guessed_roles(header, "classification")
    except ValueError:
        return None
    return list(roles.first), roles.label


def _column(name: str, header: Sequence[str], path: Path) -> int:
    if name not in header:
        raise CorpusError(
            f"{path}: no column is called {name!r}{nearest_name(name, header)} (columns: {', '.join(header)[:200]})"
        )
    return header.index(name)


def _cells(row: Sequence[str], texts: Sequence[int], label: int, config: LabelledConfig) -> tuple[str, tuple[str, ...]]:
    text = " ".join(row[place] for place in texts)
    return text.replace("\n", " ").replace("\r", " "), _labels_of(row[label], config)


def _labels_of(cell: str, config: LabelledConfig) -> tuple[str, ...]:
    """The labels in a cell; white space inside a label becomes ``_``, as a label is one word in fastText's files."""
    parts = cell.split(config.label_separator) if config.label_separator else [cell]
    return tuple(dict.fromkeys("_".join(part.split()) for part in parts if part.strip()))


def _records(
    path: Path, lines: Iterable[tuple[int, str]], config: LabelledConfig
) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """Takes text and labels out of JSON objects."""
    columns = None
    for number, line in lines:
        if not line.strip():
            yield number, "", ()
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise CorpusError(f"{path}: line {number} is not JSON ({error})") from None
        columns = columns or _columns(list(record) if isinstance(record, dict) else [], config)
        texts, label = columns or (["text"], "label")
        needed = {*texts, label} if config.unlabelled == "error" else {*texts}
        if not isinstance(record, dict) or not needed <= set(record):
            found = ", ".join(map(str, record)) if isinstance(record, dict) else type(record).__name__
            raise CorpusError(
                f"{path}: line {number} has {found[:200] or 'nothing'}; expected an object with {', '.join(texts)} and "
                f"{label} (text_column and label_column name others)"
            )
        for name in texts:
            if isinstance(record[name], list | dict):
                raise CorpusError(f"{path}: line {number}: {name} is {str(record[name])[:60]!r}; expected a text")
        given = record.get(label)
        given = given if isinstance(given, list) else [given]
        labels = [name for item in given if item is not None for name in _labels_of(str(item), config)]
        text = " ".join("" if record[name] is None else str(record[name]) for name in texts)
        _require_characters(f"{path}: line {number}", text, *labels)
        yield number, text.replace("\n", " ").replace("\r", " "), tuple(dict.fromkeys(labels))


def _items(items: Iterable[Any]) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    for number, item in enumerate(items):
        if not isinstance(item, tuple | list) or len(item) != 2 or not isinstance(item[0], str):
            raise CorpusError(f"text from Python: item {number} is {item!r:.60}; expected (text, label)")
        given = item[1] if isinstance(item[1], list | tuple) else [item[1]]
        labels = ["_".join(str(label).split()) for label in given if label is not None]
        _require_characters(f"text from Python: item {number}", item[0], *labels)
        yield number, item[0].replace("\n", " ").replace("\r", " "), tuple(dict.fromkeys(filter(None, labels)))


def _require_characters(where: str, *texts: str) -> None:
    """Makes sure that texts from JSON, or from Python, have nothing but characters."""
    for text in texts:
        if "\0" in text:
            raise CorpusError(f"{where} has a NUL, which no text has")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            found = text[error.start]
            raise CorpusError(f"{where} has the lone surrogate {found!r}, which is no character") from None
