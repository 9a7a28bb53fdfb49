"""The texts of a verb: arguments, a file, or standard input.

One convention for all verbs: what stands after RUN is text (or words); ``--file FILE`` reads one text a line; ``-``
alone, or nothing at all, is standard input. See ADR 25.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from wenmai.cli.printing import note
from wenmai.core.errors import CorpusError, SettingError, WenmaiError

__all__ = [
    "answered",
    "lines_of",
    "located",
    "named_file",
    "passing_blank",
    "portions",
    "reads_terminal",
    "several",
    "text_of",
    "texts_of",
]

_TEXTS_AT_ONCE = 1024


def texts_of(texts: Sequence[str] | None, file: str | None) -> Iterator[str]:
    """Returns the texts that a verb was given, in order.

    Args:
        texts: The arguments.
        file: The option ``--file``.

    Raises:
        SettingError: if both are given, ``-`` is one of several texts, or a text is the name of a file.
        CorpusError: if the file cannot be read or is not UTF-8; while reading.
    """
    source = named_file(texts, file)
    if source is None:
        return iter(texts or ())
    if source.lower().endswith(".csv"):
        note(f"each line of {source} is a text, with its commas; cut out the column with the texts if it is a table")
    return lines_of(source)


def named_file(texts: Sequence[str] | None, file: str | None) -> str | None:
    """Returns what to read: the file, ``-`` for standard input, or None where texts are given as arguments.

    Raises:
        SettingError: as :func:`texts_of` does.
    """
    from wenmai.data.sources import in_catalogue

    if texts and file is not None:
        raise SettingError("give texts or --file, not both")
    if file is not None or not texts or list(texts) == ["-"]:
        return file or "-"
    if "-" in texts:
        raise SettingError("- stands for standard input and must be the only text")
    for text in texts:
        if in_catalogue(text) or ("\n" not in text and _is_file(text)):
            raise SettingError(
                f"{text!r} names a file, but texts are expected here: --file {text} reads it, one text a line"
            )
    return None


def reads_terminal(texts: Sequence[str] | None, file: str | None) -> bool:
    """Returns whether texts come from somebody who types them, and waits for each answer."""
    return named_file(texts, file) == "-" and sys.stdin.isatty()


def lines_of(file: str) -> Iterator[str]:
    """Yields the lines of a file, or of standard input if it is called ``-``, without their ends.

    Raises:
        CorpusError: if the file cannot be read, is not UTF-8, has a NUL or is empty; standard input may be empty.
    """
    from wenmai.data.sources import in_catalogue

    if in_catalogue(file):
        from wenmai.runs.language import read_lines

        yield from read_lines(file)
        return
    for line in _whole_lines(file):
        yield line.rstrip("\r\n")


def text_of(file: str) -> str:
    """Returns all of a file, or of standard input if it is called ``-``, as it is, but for a byte order mark.

    Raises:
        CorpusError: as :func:`lines_of` does.
    """
    from wenmai.data.sources import in_catalogue

    return "\n".join(lines_of(file)) if in_catalogue(file) else "".join(_whole_lines(file))


def _whole_lines(file: str) -> Iterator[str]:
    from wenmai.core.compressed import reading

    if file == "-" and sys.stdin.isatty():
        note("reading texts from the terminal, one a line; Ctrl-D ends")
    name = "standard input" if file == "-" else file
    try:
        with reading(Path(file), error=CorpusError) if file != "-" else sys.stdin.buffer as stream:
            number = 0
            for number, raw in enumerate(stream, start=1):
                try:
                    line = raw.decode("utf-8")
                except UnicodeDecodeError:
                    raise CorpusError(f"{name}, line {number}: is not UTF-8; convert the text first") from None
                if "\0" in line:
                    raise CorpusError(f"{name}, line {number}: has a NUL, which no text has; check that this is UTF-8")
                yield line.removeprefix("\ufeff") if number == 1 else line
            if not number and file != "-":
                raise CorpusError(f"{file}: is empty; expected text, one a line")
    except OSError as error:
        raise CorpusError(f"{file}: cannot be read ({error.strerror})") from None


def portions(lines: Iterator[str], *, waiting: bool) -> Iterator[list[str]]:
    """Yields lines in lists that are answered at once; of one line where somebody waits for the answer."""
    while portion := list(islice(lines, 1 if waiting else _TEXTS_AT_ONCE)):
        yield portion


def several(lines: Iterator[str]) -> tuple[bool, Iterator[str]]:
    """Returns whether there is more than one line, and the lines."""
    first = list(islice(lines, 2))
    return len(first) > 1, chain(first, lines)


def answered(
    lines: Iterator[str],
    ask: Callable[[list[Any]], Any],
    *,
    source: str | None,
    read: Callable[[str], Any] = str,
    waiting: bool = False,
    mistake: type[WenmaiError] = SettingError,
) -> Iterator[tuple[list[str], Any]]:
    """Yields lines in lists, and what is found for each.

    Args:
        lines: The texts.
        ask: What finds something for each of some lines: a list, or an array with a row for each.
        source: What is read, as :func:`named_file` says.
        read: What makes of a line what ``ask`` takes.
        waiting: Whether somebody waits for the answer to each line.
        mistake: What ``ask`` and ``read`` raise for a line that cannot be answered.

    Raises:
        WenmaiError: the mistake, after what is found for the lines before it; of a file it names the line.
    """
    done = 0
    for portion in portions(lines, waiting=waiting):
        given, wrong = _readable(portion, read, mistake)
        found: Any = ()
        try:
            found = ask(given) if given else ()
        except mistake as error:
            given, wrong = given[: _first_wrong(given, ask, mistake) - 1], error
            found = ask(given) if given else ()
        if given:
            yield portion[: len(given)], found
        if wrong is not None:
            raise wrong if waiting else located(wrong, source, done + len(given) + 1, mistake) from None
        done += len(portion)


def passing_blank(
    ask: Callable[[list[Any]], Sequence[Any]], read: Callable[[str], Any], found: object
) -> tuple[Callable[[list[Any]], Sequence[Any]], Callable[[str], Any]]:
    """Returns ``ask`` and ``read`` of :func:`answered` for which blank lines are no mistakes: they have ``found``."""

    def asked(given: list[Any]) -> Sequence[Any]:
        rest = [one for one in given if one is not None]
        answers = iter(ask(rest) if rest else ())
        return [found if one is None else next(answers) for one in given]

    return asked, lambda line: read(line) if line.strip() else None


def _readable(
    portion: Sequence[str], read: Callable[[str], Any], mistake: type[WenmaiError]
) -> tuple[list[Any], WenmaiError | None]:
    """Returns what is read of lines up to the first that cannot be, and what is wrong with that."""
    given: list[Any] = []
    for line in portion:
        try:
            given.append(read(line))
        except mistake as error:
            return given, error
    return given, None


def located(
    error: WenmaiError, source: str | None, line: int, mistake: type[WenmaiError] = SettingError
) -> WenmaiError:
    """Returns a mistake with its place: of a file or standard input its line, of arguments none."""
    if source is None:
        return error
    return mistake(f"{'standard input' if source == '-' else source}: line {line}: {error}")


def _first_wrong(portion: Sequence[Any], ask: Callable[[list[Any]], object], mistake: type[WenmaiError]) -> int:
    """Returns the number, from 1, of the first line that is refused."""
    low, high = 0, len(portion)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            ask(list(portion[low:middle]))
        except mistake:
            high = middle
        else:
            low = middle
    return high


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long, or with a character that no name has
        return False
