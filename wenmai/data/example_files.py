"""Files of labelled examples as people have them, read for one of the six fine-tuning tasks.

- lines with one ``__label__NAME`` in them, as fastText has them;
- tables with or without a line of names: ``.csv`` with quotes as RFC 4180 has them, others with tabs and no quotes;
- JSON lines, and files that are one JSON list of objects (also ``{"data": [...]}``);
- tagging: columns with a token and its tags a line, blank lines between sentences; tables of ERNIE, with U+0002
  between tokens and between tags; JSON with tokens and tags, or CLUENER's; documents with entities as DocRED or
  PubTator have them;
- span: SQuAD's JSON and its relatives (:mod:`wenmai.data.span_files`); choice: also the lists of DREAM and C3.

What is wrong is a :class:`~wenmai.core.errors.CorpusError` that names file and line.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

from wenmai.core.errors import CorpusError, SettingError
from wenmai.core.quantities import plural
from wenmai.core.task_names import TaskName
from wenmai.data.example_settings import ExamplesConfig, ExamplesStats, Placed
from wenmai.data.lines import beginning, delimiter_of, is_json_lines, numbered_lines, plain_name, read_json, rows_of
from wenmai.data.readers import questions_of_text
from wenmai.data.records import Roles, Undecided, Unlabelled, choice_of, is_empty, marked, unmarked
from wenmai.data.relation_files import holds_documents, open_documents, read_documents
from wenmai.data.relations import tagged_sentences
from wenmai.data.span_files import SpanReader
from wenmai.data.table_columns import (
    LOOKED_AT,
    are_usual_names,
    common_roles,
    is_heading,
    looks_like_names,
    unnamed_roles,
)
from wenmai.data.tagged_records import tagged_of

__all__ = ["Reading", "count_unlabelled"]

_MOST_BLANK = 1_000_000  # lines in a row: a small compressed file can have any number
_BETWEEN = "\x02"  # tokens, and tags, in the tables of ERNIE
_COMMENT = re.compile(r"#\s*(\S+ = |newdoc|newpar|id \S+\tdomain=)")  # of CoNLL-U and MultiCoNER
_MULTIWORD = re.compile(r"\d+[-.]\d+(\t[^\t]*){9}")  # of CoNLL-U: a token of several words, or an empty one


Sentence = tuple[str, tuple[str, ...], tuple[str, ...]]  # where, tokens, tags


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How one file is read.

    Attributes:
        path: The file.
        task: What for.
        config: Where texts and labels are.
        labelled: Whether it has labels.
        stats: Is increased.
    """

    path: Path
    task: TaskName
    config: ExamplesConfig
    labelled: bool = True
    stats: ExamplesStats = field(default_factory=ExamplesStats)

    def examples(self) -> Iterator[Placed]:
        """Yields the examples of any task but tagging."""
        if self.task == "span":
            return self._spans()
        if self.task == "choice":
            return self._choices()
        return self._texts()

    def sentences(self) -> Iterator[Sentence]:
        """Yields places, tokens and tags, as they are written."""
        if holds_documents(self.path):
            return self._documents()
        if self._json() is not None:
            return self._tagged_objects()
        return self._joined() if _BETWEEN in beginning(self.path, self.config.encoding) else self._columns()

    def names(self) -> list[str]:
        """Returns the names of the columns of a table, or of the parts of an object; none if the table has none."""
        if self._json() is not None:
            return [*next(self._records(), ("", {}))[1]]
        cells = [cell.strip() for cell in next(self._rows(), (0, [""]))[1]]
        return cells if is_heading(cells) else []

    # --- forms ------------------------------------------------------------------------------------------------------

    def _lines(self) -> Iterator[tuple[int, str]]:
        number = text = 0
        for number, content in numbered_lines(self.path, self.config.encoding):
            if isinstance(content, ValueError):
                raise CorpusError(f"{self.path}: line {number}: {content}")
            if content:
                text = number
            elif number - text > _MOST_BLANK:
                raise CorpusError(
                    f"{self.path}: {_MOST_BLANK:,} lines before line {number} are blank; expected examples"
                )
            yield number, content
        if number == 0:
            raise CorpusError(f"{self.path}: is empty; expected examples for {self.task}")

    def _json(self) -> Literal["lines", "whole"] | None:
        """Whether the file is JSON lines, one JSON value, or neither."""
        if is_json_lines(self.path):
            return "lines"
        name = plain_name(self.path)
        if name.endswith((".csv", ".tsv")):
            return None
        head = beginning(self.path, self.config.encoding).lstrip()
        first, _, behind = head.partition("\n")
        try:
            record = json.loads(first)
        except (ValueError, RecursionError):
            return "whole" if name.endswith(".json") or (self.task in ("span", "choice") and head[:1] in "[{") else None
        follows = behind.lstrip()[:1]
        if not self.labelled and not name.endswith(".json") and follows not in ("", "{" if first[0] == "{" else ""):
            return None  # lines of text, the first of which happens to be JSON
        if isinstance(record, dict):
            return "whole" if isinstance(record.get("data"), list) else "lines"
        return "whole" if isinstance(record, list) or name.endswith(".json") else None

    def _objects(self) -> Iterator[tuple[str, Any]]:
        """Yields places and JSON values."""
        if self._json() == "lines":
            for number, line in self._lines():
                if line.strip():
                    try:
                        yield f"{self.path}: line {number}", json.loads(line)
                    except (ValueError, RecursionError) as error:
                        raise CorpusError(f"{self.path}: line {number} is not JSON ({error})") from None
            return
        content = read_json(self.path, self.config.encoding, advice="; JSON lines have the ending .jsonl")
        if isinstance(content, dict):
            content = content.get("data")
        if not isinstance(content, list):
            raise CorpusError(f"{self.path}: expected a list of objects, or JSON lines (.jsonl)")
        for number, one in enumerate(content, start=1):
            yield f"{self.path}: item {number}", one

    def _records(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for where, one in self._objects():
            if not isinstance(one, dict):
                raise CorpusError(f"{where} is {str(one)[:60]!r}; expected an object")
            yield where, one

    def _delimiter(self) -> str:
        if not plain_name(self.path).endswith(".csv"):
            return "\t"
        head = beginning(self.path, self.config.encoding)
        first = head.lstrip().partition("\n")[0]
        return delimiter_of(head) if self.labelled or is_heading(first.split(";")) else ","

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yields line and cells of the rows of a table, all equally many."""
        width, delimiter = 0, self._delimiter()
        blank: list[int] = []  # lines before the first row, which has as many cells as they
        for number, row in rows_of(self.path, self._lines(), delimiter):
            self.stats.quoted += sum(map(_looks_quoted, row)) if delimiter == "\t" else 0
            if not row:
                if not self.labelled:  # a line without text is one all the same
                    blank.append(number)
                continue
            if width or not self._is_heading(row):  # lines before the names of columns are none
                yield from ((one, [""] * (width or len(row))) for one in blank)
            blank.clear()
            if width and len(row) != width:
                raise CorpusError(
                    f"{self.path}: line {number} has {plural(len(row), 'column')} ({row[0][:40]!r}...), but the first "
                    f"row has {width}"
                )
            width = width or len(row)
            yield number, row
        yield from ((one, [""] * max(width, 1)) for one in blank)

    # --- tasks ------------------------------------------------------------------------------------------------------

    def _kept(self, where: str, make: Callable[..., Any], *given: Any) -> Iterator[Placed]:  # noqa: ANN401
        """Yields the example that is made, unless it is to be left out."""
        try:
            example = make(*given)
        except Unlabelled as error:
            count_unlabelled(error, where, self.config, self.stats)
            return
        except ValueError as error:
            raise CorpusError(f"{where}: {error}") from None
        if self.labelled and is_empty(example):
            self.stats.blank += 1
            return
        self.stats.examples += 1
        yield Placed(example, where)

    def _roles(self, headers: Iterable[Sequence[str]], where: str) -> Roles:
        try:
            return common_roles(headers, self.task, self.config.columns, labelled=self.labelled)
        except ValueError as error:
            if isinstance(error, SettingError):
                raise
            raise CorpusError(f"{where}: {error}") from None

    def _texts(self) -> Iterator[Placed]:
        if self._json() is not None:
            records = self._records()
            if looked_at := [*islice(records, LOOKED_AT)]:
                roles = self._roles(([*record] for _, record in looked_at), looked_at[0][0])
                for where, record in chain(looked_at, records):
                    yield from self._kept(where, roles.example, record, self.task)
            return
        if self.task == "classification" and self._has_marks():
            for number, line in self._lines():
                if line.strip() or not self.labelled:
                    yield from self._kept(f"{self.path}: line {number}", marked if self.labelled else unmarked, line)
            return
        rows = self._rows()
        first = list(islice(rows, LOOKED_AT))
        header, roles = self._columns_of_table(first)
        if header is not None and len(first) == 1:
            names = ", ".join(header)[:100]
            raise CorpusError(f"{self.path}: has a line of column names ({names}) and nothing below it")
        for number, row in chain(first, rows) if header is None else chain(first[1:], rows):
            record = dict(zip(header or map(str, range(1, len(row) + 1)), row, strict=True))
            yield from self._kept(f"{self.path}: line {number}", roles.example, record, self.task)

    @property
    def _named(self) -> str:
        """The columns that the settings give, by their names or numbers."""
        return ",".join(name for name in self.config.columns.values() if name is not None)

    def _is_heading(self, cells: list[str]) -> bool:
        """Whether the first row of a table has the names of its columns."""
        named = self._named.replace(",", "").replace(" ", "")
        return not named.isdecimal() and (bool(named) or is_heading([cell.strip() for cell in cells]))

    def _heading(self, number: int, cells: list[str]) -> list[str]:
        """Returns the names of the columns of a table."""
        header = [cell.strip() for cell in cells]
        if len(set(header)) < len(header):
            raise CorpusError(
                f"{self.path}: line {number}: two columns have one name ({', '.join(header)[:200]}); rename one"
            )
        return header

    def _has_marks(self) -> bool:
        """Whether a file has lines of words with ``__label__NAME``."""
        lines = beginning(self.path, self.config.encoding).splitlines()
        words = next((line.split() for line in lines if line.strip()), [])
        return not plain_name(self.path).endswith(".csv") and any(word.startswith("__label__") for word in words)

    def _columns_of_table(self, first: list[tuple[int, list[str]]]) -> tuple[list[str] | None, Roles]:
        """Returns the names of the columns, None if the table has none, and which has what."""
        if not first:
            raise CorpusError(f"{self.path}: is empty; expected examples for {self.task}")
        number, cells = first[0]
        if len(cells) == 1 and self.labelled:
            raise CorpusError(
                f"{self.path}: line {number} is {cells[0][:60]!r}; expected columns with tabs between them, CSV in a "
                ".csv file, or JSON lines in a .jsonl file"
            )
        if self._named.replace(",", "").replace(" ", "").isdecimal():
            roles = self._roles([[str(place) for place in range(1, len(cells) + 1)]], str(self.path))
            chosen = [cells[int(place) - 1] for place in (*roles.first, *roles.second, roles.label) if place]
            if roles.label and are_usual_names(chosen):
                raise CorpusError(
                    f"{self.path}: line {number} ({', '.join(chosen)[:100]}) has names of columns; give these instead "
                    "of their numbers, or remove the line"
                )
            return None, roles
        header = [cell.strip() for cell in cells]
        if self._is_heading(cells):
            return header, self._roles([self._heading(number, cells)], str(self.path))
        try:
            rows = [row for _, row in first]
            roles = unnamed_roles(rows, self.task, labelled=self.labelled)
        except ValueError as error:
            raise CorpusError(f"{self.path}: {error}") from None
        if looks_like_names(rows, roles):
            shown, columns = ", ".join(header)[:100], [*roles.first, *roles.second, roles.label]
            settings = ["text_column", *["second_column"] * len(roles.second), "label_column"]
            numbers = " ".join(f"{name}={place}" for name, place in zip(settings, columns, strict=True))
            names = " ".join(f"{name}={header[int(at) - 1]}" for name, at in zip(settings, columns, strict=True))
            raise CorpusError(
                f"{self.path}: line {number} ({shown}) looks like names of columns: its label stands in no other line; "
                f"give {names}, or if it is an example {numbers}"
            )
        return None, roles

    def _choices(self) -> Iterator[Placed]:
        choice = partial(choice_of, labelled=self.labelled)
        if self._json() is None:
            rows = self._rows()
            header = self._heading(*next(rows, (0, [""])))
            for number, row in rows:
                record = dict(zip(header, row, strict=True))
                where = f"{self.path}: line {number}"
                yield from self._kept(where, choice, record)
            return
        for where, one in self._objects():
            if isinstance(one, dict):
                yield from self._kept(where, choice, one)
                continue
            try:
                found = questions_of_text(one)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                expected = 'expected [turns, [{"question", "choice", "answer"}, ...], id], or an object'
                raise CorpusError(f"{where}: {error}; {expected}") from None
            for place, example in enumerate(found, start=1):
                self.stats.examples += 1
                yield Placed(example, f"{where}, question {place}")

    def _spans(self) -> Iterator[Placed]:
        reader = SpanReader(answers=self.config.bad_answers, labelled=self.labelled, counts=self.stats.spans)
        try:
            if self._json() == "lines":
                for where, record in self._records():
                    if (example := reader.record(record, where.removeprefix(f"{self.path}: "))) is not None:
                        self.stats.examples += 1
                        yield Placed(example, f"{where}, question {example.id}")
                return
            advice = "; expected questions as SQuAD has them"
            for example in reader.articles(read_json(self.path, self.config.encoding, advice=advice)):
                self.stats.examples += 1
                yield Placed(example, f"{self.path}: question {example.id}")
        except ValueError as error:
            if isinstance(error, SettingError):
                raise
            raise CorpusError(f"{self.path}: {error}") from None

    def _columns(self) -> Iterator[Sentence]:
        """Yields the sentences of a file with a token and its tags a line."""
        tokens: list[str] = []
        tags: list[str] = []
        begin = width = 0
        comment: tuple[int, str] | None = None  # the first line, if no line without a # has as many columns
        lines = beginning(self.path, self.config.encoding).splitlines()
        tabs = "\t" in next((line for line in lines if line.strip() and not line.startswith(("#", "-DOCSTART-"))), "")
        for number, line in self._lines():
            if _MULTIWORD.fullmatch(line) or _COMMENT.match(line) or (tabs and line[:1] == "#" and "\t" not in line):
                continue
            if not line.strip(" \t") or line.startswith("-DOCSTART-"):
                if tokens:
                    yield f"{self.path}: line {begin}", tuple(tokens), tuple(tags)
                tokens, tags = [], []
                continue
            cells = line.split("\t") if "\t" in line else re.split(" +", line.strip(" "))
            if len(cells) != width:
                if width:
                    found = len(cells)
                    if comment is not None and line[:1] != "#":  # so that it is the first line that is unlike the rest
                        (number, line), found, width = comment, width, found
                    raise CorpusError(
                        f"{self.path}: line {number} ({line[:40]!r}) has {plural(found, 'column')}, others {width}"
                    )
                width, comment = len(cells), (number, line)
                if max(self.config.token_column, self.config.tag_column) > width or (self.labelled and width < 2):
                    raise CorpusError(
                        f"{self.path}: line {number} ({line[:40]!r}) has {plural(width, 'column')}; expected a token "
                        "and its tag (token_column, tag_column), separated by a tab or a space"
                    )
            comment = comment if line[:1] == "#" else None
            token, tag = (
                cells[self.config.token_column - 1],
                cells[self.config.tag_column - (self.config.tag_column > 0)].strip(" "),
            )
            if not token or (self.labelled and not tag):
                raise CorpusError(f"{self.path}: line {number} ({line[:40]!r}) has an empty token or tag")
            begin = begin if tokens else number
            tokens.append(token)
            tags.append(tag if self.labelled else "O")
        if tokens:
            yield f"{self.path}: line {begin}", tuple(tokens), tuple(tags)

    def _joined(self) -> Iterator[Sentence]:
        """Yields the sentences of a table, each of which is a cell, as its tags are."""
        names: list[str] = []
        for number, row in self._rows():
            if not names:
                names = self._heading(number, row)
                if "text_a" not in names or (self.labelled and "label" not in names):
                    raise CorpusError(
                        f"{self.path}: line {number} has the columns {', '.join(names)[:60]!r}; expected text_a and "
                        "label, with U+0002 between tokens and between tags"
                    )
                continue
            if not any(row):
                continue
            cells = dict(zip(names, row, strict=True))
            tokens = tuple(cells["text_a"].split(_BETWEEN))
            written = cells["label"].split(_BETWEEN) if self.labelled else ("O",) * len(tokens)
            tags = tuple(tag.strip(" ") for tag in written)
            if len(tokens) != len(tags):
                raise CorpusError(
                    f"{self.path}: line {number} has {len(tokens)} tokens and {len(tags)} tags; expected as many"
                )
            if not all((*tokens, *tags)):
                raise CorpusError(f"{self.path}: line {number} ({row[0][:40]!r}) has an empty token or tag")
            yield f"{self.path}: line {number}", tokens, tags

    def _documents(self) -> Iterator[Sentence]:
        """Yields the sentences of documents with entities."""
        documents = read_documents(open_documents(self.path))
        for number, document in enumerate(documents, start=1):
            for place, (words, tags) in enumerate(tagged_sentences(document), start=1):
                if words:
                    known = tags if self.labelled else ("O",) * len(words)
                    yield f"{self.path}: document {number}, sentence {place}", words, known

    def _tagged_objects(self) -> Iterator[Sentence]:
        for where, record in self._records():
            try:
                yield where, *tagged_of(record, self.stats, labelled=self.labelled)
            except (ValueError, TypeError, AttributeError) as error:
                why = error if type(error) is ValueError else "has no tokens with tags, nor a text with entities"
                raise CorpusError(f"{where}: {why}") from None


def count_unlabelled(error: Unlabelled, where: str, config: ExamplesConfig, stats: ExamplesStats) -> None:
    """Counts an example without a label as left out.

    Raises:
        CorpusError: if it must not be.
    """
    if isinstance(error, Undecided):
        stats.undecided += 1
    elif config.unlabelled == "skip":
        stats.without_label += 1
    else:
        advice = "unlabelled=skip leaves out such examples of a training, and counts them; remove those of a test set"
        raise CorpusError(f"{where}: {error}. {advice}") from None


def _looks_quoted(cell: str) -> bool:
    """Whether a cell has quotes around it, and within it doubled ones alone, as in CSV."""
    inner = cell[1:-1]
    return cell[:1] == cell[-1:] == '"' and '""' in inner and '"' not in inner.replace('""', "")
