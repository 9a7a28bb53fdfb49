"""The sections of ``page.template``: each theme's sentences, tables and targets, filled with what was measured.

A section is a heading, ``<!-- theme NAME -->``, and blocks with empty lines between them:

- Paragraphs, in which ``{NAME}`` is a fact; see ``Facts`` for which there are, and ``Numbers`` for their formats.
- Tables, as two lines: the headings, and the cells of a row. ``<!-- by A B -->`` before them makes a row for each value
  of A and B, ``<!-- each row -->`` one for each measurement.
- ``<!-- where A=VALUE -->`` and ``<!-- has A -->`` before a paragraph or a table: of these measurements alone. Without
  any, the block is left out. They stand before ``by``.
- ``<!-- plot -->`` and ``<!-- tables -->``: what the functions of these names in the module of the theme return.
- ``<!-- targets -->``: lines of a name, a value, the target for it, and ``by A B`` for a target of each group, or
  ``worst by A B`` for the worst group alone. A Chinese name after it puts the line into the READMEs; of several
  groups the one whose values stand before it. Last comes the value of the whole call, if the first is of a part.

A module may also have ``facts(rows, result)``, ``SPEED`` (what ``over_BASELINE`` compares) and ``TURN`` (the value
that identifies a round).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from operator import ge, le, lt
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.result import Facts, Result, Rows

__all__ = ["Checked", "Section", "introduction", "sections", "table"]

TEMPLATE = Path(__file__).with_name("page.template")
COMPARISONS = {"≥": ge, "≤": le, "<": lt}


class Checked(NamedTuple):
    """A value beside its target, both in words, and where it comes from.

    Attributes:
        name: What was measured.
        value: What came out.
        target: What it is held to.
        met: Whether that is so.
        chinese: The name in Chinese, if the value stands in the READMEs.
        whole: The same of the whole call or process, if the value is of a part of it.
        repeats: How often it was measured.
        processors: Where.
        commits: Of which code.
    """

    name: str
    value: str
    target: str
    met: bool
    chinese: str
    whole: str = ""
    repeats: int = 1
    processors: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()


@dataclass(frozen=True)
class Section:
    """A section of the template: its heading, its theme, and each block as a directive and lines."""

    title: str
    theme: str
    blocks: tuple[tuple[str, list[str]], ...]

    @property
    def module(self) -> Any:
        """The module that measures the theme."""
        return import_module(f"benchmarks.{self.theme}")

    def about(self, rows: Rows, result: Result, **given: object) -> Facts:
        """Returns what templates can name about some rows."""
        found = getattr(self.module, "facts", lambda _rows, _result: {})(rows, result)
        constants = {name: value for name, value in vars(self.module).items() if name.isupper()}
        speed, turn = constants.get("SPEED", "tokens_per_second"), constants.get("TURN", "repeat")
        return Facts(rows, speed=speed, turn=turn, given={**constants, **result.settings, **given, **found})

    def groups(self, result: Result, by: str, rows: Rows | None = None) -> Iterator[tuple[str, Facts]]:
        """Yields the key and the facts of each group; of each row if ``by`` is empty."""
        rows = result.rows if rows is None else rows
        for group in rows.by(by).values() if by else (Rows([row]) for row in rows):
            names = by.split() or group[0]
            key = " ".join(str(group[0].get(name)) for name in by.split())
            yield key, self.about(group, result, **{name: getattr(group, name) for name in names})

    def body(self, result: Result, *, plots: str = "") -> Iterator[str]:
        """Yields the blocks as Markdown; ``plots`` is the folder of the plots, seen from the page."""
        for directive, lines in self.blocks:
            rows = _chosen(result.rows, directive)
            if directive == "plot":
                yield f"![{self.title}]({plots}{self.theme}.svg)\n"
            elif directive == "tables":
                yield from self.module.tables(self, result)
            elif directive == "targets" or not rows:
                continue
            elif lines[0].startswith("|"):
                heading, cells = map(_cells, lines)
                groups = self.groups(result, directive.partition("by ")[2], rows)
                filled = ([facts.fill(cell) for cell in cells] for _, facts in groups)
                yield table([dict(zip(heading, row, strict=True)) for row in filled])
            else:
                yield self.about(rows, result).fill(" ".join(lines)) + "\n"

    def checked(self, result: Result) -> Iterator[Checked]:
        """Yields the values that are held to a target."""
        for line in (line for directive, lines in self.blocks if directive == "targets" for line in lines):
            name, value, target, which, chinese, whole = [*_cells(line), "", "", ""][:6]
            by = which.removeprefix("worst ").removeprefix("by ")
            groups = self.groups(result, by) if by else [("", self.about(result.rows, result))]
            known = [(key, facts) for key, facts in groups if facts.numbers(value)]
            if which.startswith("worst"):
                known.sort(key=lambda group: group[1].numbers(value), reverse=target[0] != "≥")
                known = [("", facts) for _, facts in known[:1]]
            named = {only: name for only, _, name in (one.rpartition(": ") for one in chinese.split("; "))}
            for key, facts in known:
                value_of_call = facts.fill(whole) if whole and facts.numbers(whole) else ""
                found = _check(facts, name, value, target)._replace(chinese=named.get(key, named.get("", "")))
                yield found._replace(whole=value_of_call, **facts.origin(value, result.content["machine"]))


def _check(facts: Facts, name: str, value: str, target: str) -> Checked:
    """Compares a value with its target; further numbers of the value should be no larger than those of the target."""
    values, aim = facts.numbers(value), facts.fill(target)
    bound, *most = (float(number) for number in re.findall(r"-?\d[\d.]*(?:e-?\d+)?", aim))
    met = bool(COMPARISONS[aim[0]](values[0], bound)) and all(map(le, values[1:], most))
    return Checked(facts.fill(name), facts.fill(value), aim, met, "")


def _chosen(rows: Rows, directive: str) -> Rows:
    """The rows with all values of ``where NAME=VALUE`` and with what ``has NAME`` names."""
    wanted = dict(re.findall(r"where (\w+)=(\S+)", directive))
    needed = re.findall(r"has (\w+)", directive)
    fitting = (row for row in rows if all(str(row.get(name)) == value for name, value in wanted.items()))
    return Rows(row for row in fitting if all(name in row for name in needed))


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().split("|")[1:-1]]


def _blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    for block in filter(None, text.strip().split("\n\n")):
        first, *lines = block.splitlines()
        found = re.fullmatch("<!-- (.*) -->", first)
        yield (found[1], lines) if found else ("", [first, *lines])


@cache
def sections() -> Mapping[str, Section]:
    """Returns the sections of the template by theme, in the order of the page."""
    _, *parts = TEMPLATE.read_text(encoding="utf-8").split("\n## ")
    found = {}
    for part in parts:
        title, _, text = part.partition("\n")
        (directive, _), *blocks = _blocks(text)
        theme = directive.removeprefix("theme ")
        found[theme] = Section(title, theme, tuple(blocks))
    return found


def introduction() -> str:
    """Returns what stands before the first section."""
    return TEMPLATE.read_text(encoding="utf-8").partition("\n## ")[0]


def table(rows: Sequence[Mapping[str, object]]) -> str:
    """Returns a Markdown table of rows that map headings to cells; all columns but the first are aligned right."""
    heading, *cells = [list(row) for row in rows[:1]] + [list(row.values()) for row in rows]
    lines = [heading, ["---"] + ["--:"] * (len(heading) - 1), *cells]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines) + "\n"
