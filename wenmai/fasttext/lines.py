"""Lines and tokens as the official module reads them."""

import re
from collections.abc import Iterator
from pathlib import Path

from wenmai.core.folder import plain_file
from wenmai.fasttext.errors import FastTextError
from wenmai.models.fasttext import END_OF_LINE

__all__ = ["decoded", "lines_of_tokens", "one_line", "tokens_of"]

_TOKEN = re.compile(r"\n|[^ \n\r\t\v\f\0]+")
_BLOCK = 1 << 22  # characters


def tokens_of(text: str) -> list[str]:
    """Returns what white space and zero characters separate; a line feed is the token ``</s>``."""
    return [END_OF_LINE if token == "\n" else token for token in _TOKEN.findall(text)]


def one_line(text: str, name: str) -> str:
    """Returns the text.

    Raises:
        FastTextError: if it has several lines.
        TypeError: if it is no text.
    """
    if not isinstance(text, str):
        kind = type(text).__name__
        raise TypeError(f"expected a text (str), not {kind}; predict and get_line take a list of texts too")
    if "\n" in text:
        raise FastTextError(f"{name} processes one line at a time (remove '\\n')")
    return text


def lines_of_tokens(path: str | Path) -> Iterator[list[str]]:
    """Yields the tokens of each line of a file without its end; the token ``</s>`` ends a line, too.

    Raises:
        FastTextError: if it cannot be opened.
    """
    try:
        file = plain_file(path).open(encoding="utf-8", errors="surrogateescape", newline="\n")
    except OSError:
        raise FastTextError("Test file cannot be opened!") from None
    line: list[str] = []
    with file:
        while found := file.readlines(_BLOCK):
            for token in tokens_of("".join(found)):
                if token == END_OF_LINE:
                    yield line
                    line = []
                else:
                    line.append(token)
    if line:
        yield line


def decoded(words: list[str], on_unicode_error: str) -> list[str]:
    """Returns words whose bytes are not UTF-8 as ``on_unicode_error`` wants them: strict, replace, ignore ...

    Raises:
        UnicodeDecodeError: for such a word, if it is strict.
    """
    try:
        "".join(words).encode()
    except UnicodeEncodeError:
        return [word.encode("utf-8", "surrogateescape").decode("utf-8", on_unicode_error) for word in words]
    return words
