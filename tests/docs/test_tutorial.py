"""The tutorials are run from top to bottom: shell and Python blocks in one folder, and what they print is compared.

A block ``output`` shows what the block before it prints, in order, with lines left out; numbers may differ, and so may
what an ellipsis at the end of a line stands for. Blocks ``text`` and ``console`` are for reading only. Chinese
pages are run in Chinese.
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
TUTORIALS = [
    ROOT / "docs" / name
    for name in (
        "tutorial.md",
        "attention.md",
        "lineage.md",
        "one-word-many-meanings.md",
        "one-word-many-meanings.zh.md",
        "your-own-classifier.md",
        "your-own-classifier.zh.md",
    )
]
KINDS = {"bash", "python", "output", "text", "console"}
NUMBER = re.compile(r"\d[\d,.]*")


class Block(NamedTuple):
    kind: str
    line: int  # of the first line of the code, from 1
    code: str


def blocks(page: str) -> Iterator[Block]:
    """Yields the fenced blocks of a page."""
    lines = page.splitlines()
    opened: int | None = None
    for number, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if opened is None:
            opened = number
        else:
            yield Block(lines[opened][3:].strip(), opened + 2, "\n".join(lines[opened + 1 : number]) + "\n")
            opened = None
    assert opened is None, f"the block in line {opened} is never closed"


def parts(code: str) -> Iterator[list[str] | str]:
    """Yields the words of each line that is a ``wenmai`` command and no more, and what stands between such lines."""
    between = ""
    for line in re.findall(r"(?:.*\\\n)*.*\n", code):
        if re.match(r"wenmai [^|&;<>$`]*$", line):
            yield between
            between = ""
            yield shlex.split(line.replace("\\\n", " "))[1:]
        else:
            between += line
    yield between


def run_shell(page: Path, block: Block, shell: Any) -> str:
    printed = ""
    for part in parts(block.code):
        if isinstance(part, list):
            printed += shell(*part, together=True).out
            continue
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", part],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{page}:{block.line}: exit code {done.returncode}\n{done.stdout}"
        printed += done.stdout
    return printed


def run_python(page: Path, block: Block, names: dict[str, object]) -> str:
    code = compile("\n" * (block.line - 1) + block.code, str(page), "exec")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, names)
    return printed.getvalue()


def not_printed(expected: str, printed: str) -> list[str]:
    """Returns the first expected line that was not printed in its turn, if any; numbers and spaces may differ."""

    def shape(line: str) -> str:
        return " ".join(NUMBER.sub("0", line).replace("0 threads", "0 thread").split())  # as many as there are cores

    def fits(line: str, wanted: str) -> bool:
        return line.startswith(wanted[:-1]) if wanted.endswith("…") else line == wanted

    left = iter([shape(line) for line in printed.splitlines()])
    return [line for line in expected.splitlines() if not any(fits(found, shape(line)) for found in left)][:1]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.name)
def test_a_tutorial_does_what_it_says(page: Path, shell: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "bin" / "wenmai"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m wenmai "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("WENMAI_LANG", "zh" if page.suffixes[0] == ".zh" else "en")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    printed = ""
    ran = set()
    for block in blocks(page.read_text(encoding="utf-8")):
        assert block.kind in KINDS, f"{page}:{block.line}: no idea what to do with a block of {block.kind!r}"
        if block.kind == "bash":
            printed = run_shell(page, block, shell)
        elif block.kind == "python":
            printed = run_python(page, block, names)
        elif block.kind == "output":
            missing = not_printed(block.code, printed)
            assert not missing, f"{page}:{block.line}: not printed: {missing[0]!r}; printed was\n{printed}"
        ran.add(block.kind)
    assert {"bash", "python", "output"} <= ran


def test_commands_are_told_from_what_stands_between_them() -> None:
    code = "cat <<END\nwords\nEND\nwenmai a \\\n  'b c'\nwenmai d > e\nwenmai f\n"
    assert list(parts(code)) == ["cat <<END\nwords\nEND\n", ["a", "b c"], "wenmai d > e\n", ["f"], ""]


def test_output_is_compared_line_by_line_in_order() -> None:
    printed = "loss 2.41, 1,000 words\nnote: all is  well\n"
    assert not not_printed("loss 7.0, 3 words\nnote: all is well", printed)
    assert not_printed("note: all is well\nloss 7.0, 3 words", printed) == ["loss 7.0, 3 words"]
    assert not_printed("loss is low", printed) == ["loss is low"]
    assert not not_printed("loss 5, …", printed)
    assert not_printed("los …", printed) == ["los …"]
