"""The corpus made from CPython's own documentation."""

import platform
import subprocess
import sys
import types
from pathlib import Path

import pytest

from wenmai.core.errors import CorpusError
from wenmai.core.folder import file_sha256
from wenmai.data import pydocs

TOPIC = """The "while" statement
*********************

The "while" statement is used for repeated execution as long as an
expression is true [1]:

   while_stmt ::= "while" assignment_expression ":" suite
                  ["else" ":" suite]

+-----------+-----------------------------------------+
| Operation | Result that should not be in the corpus |
+-----------+-----------------------------------------+

* the first of *two* points is here
* the second **strong** point follows
"""

MODULE = '''"""Read :class:`~os.PathLike` objects with ``open`` and the `file' word.

Usage of this module is shown here::

    this is not prose at all but code

After the example the prose goes on.

>>> print("hidden from the corpus by its prompt")
hidden from the corpus by its prompt

.. note:: Directives lose their marker only.

:param path: the path of the file to read

frobnicate(x, y=None, *args) -> dict[str, int]
"""
raise SystemExit("this module must not be run")

class Thing:
    """A thing that has a method."""

    async def method(self):
        """Return the answer to the question."""
'''


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python whose documentation is one topic and one module."""
    root = tmp_path / "lib"
    for folder in ("test", "pkg/tests", "site-packages", "idlelib/idle_test"):
        (root / folder).mkdir(parents=True)
        (root / folder / "left_out.py").write_text('"""This sentence must be left out."""')
    (root / "zebra.py").write_text('"""The zebra comes last of all."""')
    (root / "pkg" / "__init__.py").write_text(MODULE)
    topics = types.ModuleType("pydoc_data.topics")
    topics.topics = {"while": TOPIC, "a": "Topics come in the order of their names."}
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", topics)
    monkeypatch.setattr(pydocs.sysconfig, "get_path", lambda name: str(root))
    return root


def test_prose_is_kept_and_everything_else_left_out(library):
    assert list(pydocs.lines()) == [
        "Topics come in the order of their names.",
        "The while statement",
        "The while statement is used for repeated execution as long as an expression is true:",
        "the first of two points is here",
        "the second strong point follows",
        "Read os.PathLike objects with open and the file word.",
        "Usage of this module is shown here:",
        "After the example the prose goes on.",
        "Directives lose their marker only.",
        "path the path of the file to read",
        "A thing that has a method.",
        "Return the answer to the question.",
        "The zebra comes last of all.",
    ]


def test_the_file_name_changes_with_the_sources(library, tmp_path):
    first = pydocs.text_file(tmp_path / "cache")
    assert first == pydocs.text_path(tmp_path / "cache")
    assert first.read_text().splitlines() == list(pydocs.lines())
    (library / "zebra.py").write_text('"""The zebra has changed its mind."""')
    second = pydocs.text_file(tmp_path / "cache")
    assert second != first
    assert "changed its mind" in second.read_text()


def test_a_python_without_topics_is_explained(library, monkeypatch):
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(CorpusError, match=r"no pydoc_data\.topics; install"):
        list(pydocs.lines())


def test_a_python_without_sources_is_explained(library, tmp_path, monkeypatch):
    monkeypatch.setattr(pydocs.sysconfig, "get_path", lambda name: str(tmp_path / "nowhere"))
    with pytest.raises(CorpusError, match=r"no sources of the standard library under .*nowhere"):
        pydocs.text_file(tmp_path)


@pytest.mark.parametrize("damage", [b"def (:", b"x = '\xff'", b"x\0y"])
def test_a_source_that_is_not_python_is_named(library, damage):
    (library / "broken.py").write_bytes(damage)
    with pytest.raises(CorpusError, match=r"broken\.py cannot be read as Python"):
        list(pydocs.lines())


def test_this_python_gives_the_promised_amount_of_clean_english(pydocs_text):
    assert pydocs_text.name.startswith(f"pydocs-{platform.python_version()}-")
    text = pydocs_text.read_text(encoding="utf-8")
    lines = text.splitlines()
    words = text.lower().split()
    assert 250_000 < len(words) < 400_000
    assert all(line.strip() == line and len(line.split()) >= 3 for line in lines)
    assert "The while statement is used for repeated execution as long as an expression is true:" in lines
    assert words.count("the") > 10_000
    assert len([word for word in words if "`" in word or word == ">>>"]) < 100
    assert not any(name in sys.modules for name in ("antigravity", "this", "turtledemo"))


def test_the_file_is_not_written_again(pydocs_text):
    before = pydocs_text.stat().st_mtime_ns
    assert pydocs.text_file(pydocs_text.parent) == pydocs_text
    assert pydocs_text.stat().st_mtime_ns == before


def test_the_text_is_the_same_in_every_process(pydocs_text):
    program = "from wenmai.data import pydocs; print(pydocs.sha256())"
    folder = Path(pydocs.__file__).parents[2]
    other = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True)
    assert other.stdout.strip() == file_sha256(pydocs_text)
