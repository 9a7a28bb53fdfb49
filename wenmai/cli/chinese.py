"""The help of the command line in Chinese, whose words have no spaces to wrap at, and Click's own messages."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from wenmai.core.columns import text_width
from wenmai.core.wording import say

__all__ = ["run_in_chinese"]

_ANY_WIDTH = 10_000  # so that Click shortens no sentence before it is translated
_WIDTH, _NAMES = 98, 30
_NEVER_FIRST, _NEVER_LAST = "，。；：、）”？！%", "（“[《"


def run_in_chinese(command: Any, arguments: Sequence[str] | None) -> int:  # noqa: ANN401  Click's command
    """Runs a command whose help and messages of wrong usage are in Chinese; returns the exit code."""
    _speak(command)
    try:
        ended = command(args=None if arguments is None else list(arguments), prog_name="wenmai", standalone_mode=False)
    except Exception as error:
        message = getattr(error, "format_message", None)  # Click's errors of usage, whose class Typer does not name
        if message is None:
            raise
        import sys

        context = getattr(error, "ctx", None)
        if message().startswith("用法"):  # a verb without arguments shows its help
            print(message(), file=sys.stderr)
            return int(getattr(error, "exit_code", 1))
        if context is not None:
            print(f"{context.get_usage()}\n试试“{context.command_path} --help”。\n", file=sys.stderr)
        print(f"错误：{say(message())}", file=sys.stderr)
        return int(getattr(error, "exit_code", 1))
    return ended if isinstance(ended, int) else 0


def _speak(command: Any) -> None:  # noqa: ANN401
    """Has a command and those below it write their help in Chinese."""

    def help_of(context: Any) -> str:  # noqa: ANN401
        page = _Page()
        command.format_help(context, page)
        return page.getvalue().rstrip("\n")

    def usage_of(context: Any) -> str:  # noqa: ANN401
        page = _Page()
        command.format_usage(context, page)
        return page.getvalue().rstrip("\n")

    vars(command).update(get_help=help_of, get_usage=usage_of)
    for below in getattr(command, "commands", {}).values():
        _speak(below)


class _Page:
    """Stands in for Click's formatter: what it writes is translated, and wrapped at any character."""

    def __init__(self) -> None:
        self.width = _ANY_WIDTH
        self._indent = 0
        self._lines: list[str] = []

    def write_usage(self, program: str, arguments: str = "", prefix: str | None = None) -> None:
        """Writes how a command is called."""
        self._lines.append(f"用法：{program} {arguments}")

    def write_paragraph(self) -> None:
        """Writes an empty line."""
        if self._lines:
            self._lines.append("")

    def write_text(self, text: str) -> None:
        """Writes paragraphs."""
        paragraphs = [say(" ".join(paragraph.split())) for paragraph in text.split("\n\n")]
        for place, paragraph in enumerate(paragraphs):
            if place:
                self._lines.append("")
            self._lines += [" " * self._indent + line for line in _wrapped(paragraph, _WIDTH - self._indent)]

    def write_dl(self, rows: Sequence[tuple[str, str]]) -> None:
        """Writes names with their meanings in two columns."""
        longest = max((text_width(name) for name, _ in rows if text_width(name) <= _NAMES), default=0)
        left = " " * self._indent
        for name, meaning in rows:
            first, *rest = _wrapped(_meaning(meaning), _WIDTH - self._indent - longest - 2) or [""]
            if text_width(name) <= longest:
                self._lines.append(f"{left}{name}{' ' * (longest - text_width(name) + 2)}{first}".rstrip())
            else:
                self._lines.append(left + name)
                rest = [first, *rest]
            self._lines += [f"{left}{' ' * (longest + 2)}{line}" for line in rest]

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Begins a section with a heading."""
        self.write_paragraph()
        self._lines.append(f"{' ' * self._indent}{say(name)}：")
        with self.indentation():
            yield

    @contextmanager
    def indentation(self) -> Iterator[None]:
        """Indents what is written meanwhile."""
        self._indent += 2
        try:
            yield
        finally:
            self._indent -= 2

    def getvalue(self) -> str:
        """Returns the page."""
        return "\n".join(self._lines) + "\n"


def _meaning(text: str) -> str:
    """Translates what an option means, apart from its default and its choices in brackets."""
    text = text.strip()
    extra = re.search(r"(  \[[^\]]*\]| \([^()]*\) \[[^\]]*\]| \[[^\]]*\])$", text)
    whole = say(text)
    if whole != text or extra is None:
        return whole
    shown = re.sub(r"default: ", "默认：", extra[1]).replace("required", "必填")
    return say(text[: extra.start()]) + shown


def _wrapped(text: str, width: int) -> list[str]:
    """Breaks a text into lines: between Chinese characters, and between words of others."""
    lines, line, opening = list[str](), "", ""
    for found in re.findall(r"[ -~\u00a0-\u1fff]+?(?: +|(?=[^ -~])|$)|.", text):
        opening += found
        if found[-1] in _NEVER_LAST:
            continue
        piece, opening = opening, ""
        if line and text_width(line) + text_width(piece.rstrip()) > width and piece[0] not in _NEVER_FIRST:
            lines.append(line.rstrip())
            line, piece = "", piece.lstrip()
        line += piece
    line += opening
    return [*lines, line.rstrip()] if line.strip() else lines
