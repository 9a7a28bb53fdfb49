"""The corpus that needs no download: the English that ships with every CPython.

It is made of the language reference topics (``pydoc_data.topics``) and of the docstrings of the standard
library, which are read with :mod:`ast`, so that no module is imported. Markup is taken off, code, tables and
doctests are left out, and each paragraph becomes one line. Some 300,000 words; the exact text depends on the
Python version.
"""

import ast
import hashlib
import os
import platform
import re
import sysconfig
import warnings
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from wenmai.core.errors import CorpusError
from wenmai.core.folder import writing

__all__ = ["lines", "sha256", "text_file", "text_path"]

# Folders whose sources are tests or are not part of the standard library.
_LEFT_OUT = {"test", "tests", "idle_test", "site-packages", "dist-packages", "_bundled", "pydoc_data"}

_BLOCKS = {"body", "handlers", "orelse", "finalbody", "cases"}  # of statements: lists of statements

_PLAIN_SHARE = 0.6  # below this share of plain words a paragraph is a signature, a grammar rule or code
_MIN_WORDS = 3

_RULE = re.compile(r"[\W_]+")
_TABLE = re.compile(r"\||\+[-=+]+")
_BULLET = re.compile(r"^(?:[-*•]|\d{1,2}\.|\(?(?:\d{1,2}|[a-z])\)|\[\d+\])\s+")
_FIELD = re.compile(r":(?:param|arg|type|raises?|returns?|rtype)\b([^:]*):")
_DIRECTIVE = re.compile(r"\.\. [\w-]+::")
_MARKUP = [
    (re.compile(r":[\w:+.-]+:`[~!]?([^`]+)`"), r"\1"),  # :class:`dict`
    (re.compile(r"`(\w[\w.]*)'"), r"\1"),  # `name' as in older docstrings
    (re.compile(r"`+([^`]+)`+_?"), r"\1"),  # ``code`` and `name`
    (re.compile(r"(?<![\w*])(\*{1,2})(\w(?:[^*]*\w)?)\1(?![\w*])"), r"\2"),  # *emphasis* and **emphasis**
    (re.compile(r'"([^"\s]+)"'), r"\1"),  # the topics write code as "code"
    (re.compile(r"\s+\[\d+\]"), ""),  # footnote marks
]
_WORD = re.compile(r"[A-Za-z]+(?:['’/-][A-Za-z]+)*")


def lines() -> Iterator[str]:
    """Yields the corpus, one paragraph a line without the line end: topics by name, then modules by path.

    Raises:
        CorpusError: if this Python was installed without its topics or without the sources of its library.
    """
    for topic in _topics():
        yield from _paragraphs(topic)
    for path in _sources():
        for docstring in _docstrings(path):
            yield from _paragraphs(docstring)


def text_path(folder: str | Path) -> Path:
    """Returns where :func:`text_file` puts the corpus in ``folder``, without writing it.

    The name carries the Python version and a hash of all that the text is made from (topics, sources and the
    rules in this module), so a file of that name never has to be renewed.

    Raises:
        CorpusError: if this Python was installed without its topics or without the sources of its library.
    """
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for topic in _topics():
        digest.update(topic.encode())
    for source in _sources():
        digest.update(source.read_bytes())
    return Path(folder) / f"pydocs-{platform.python_version()}-{digest.hexdigest()[:12]}.txt"


def text_file(folder: str | Path) -> Path:
    """Returns the corpus as a UTF-8 text file in ``folder``, writing it unless it is there already.

    Raises:
        CorpusError: if this Python was installed without its topics or without the sources of its library.
    """
    path = text_path(folder)
    if not path.is_file():
        with writing(path) as file:
            file.writelines(_encoded_lines())
    return path


def sha256() -> str:
    """Returns the SHA-256 that the text file should have, made afresh.

    Raises:
        CorpusError: if this Python was installed without its topics or without the sources of its library.
    """
    digest = hashlib.sha256()
    for line in _encoded_lines():
        digest.update(line)
    return digest.hexdigest()


def _encoded_lines() -> Iterator[bytes]:
    return (f"{line}\n".encode() for line in lines())


def _topics() -> list[str]:
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise CorpusError(
            "builtin:pydocs: this Python has no pydoc_data.topics; install the complete standard library"
            " (for example the python3 package beside python3-minimal), or train on a corpus of your own"
        ) from None
    return [topics[name] for name in sorted(topics)]


def _sources() -> list[Path]:
    root = Path(sysconfig.get_path("stdlib"))
    found: list[Path] = []
    for folder, subfolders, files in os.walk(root):
        subfolders[:] = [name for name in subfolders if name not in _LEFT_OUT]
        found += [Path(folder, name) for name in files if name.endswith(".py")]
    if not found:
        raise CorpusError(
            f"builtin:pydocs: no sources of the standard library under {root} (a frozen or zipped Python has"
            " none); use an ordinary CPython, or train on a corpus of your own"
        )
    return sorted(found)


def _docstrings(path: Path) -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in sources that are not ours
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError) as error:
            raise CorpusError(
                f"builtin:pydocs: {path} cannot be read as Python {platform.python_version()}: {error}"
            ) from None
    for node in _statements(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring:
                yield docstring


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Yields a module and its statements in the order of ``ast.walk``, which also visits every expression."""
    waiting: deque[ast.AST] = deque((tree,))
    while waiting:
        node = waiting.popleft()
        yield node
        for name in node._fields:
            if name in _BLOCKS and isinstance(block := getattr(node, name), list):
                waiting.extend(block)


def _paragraphs(text: str) -> Iterator[str]:
    """Yields the prose of a reST-like text, one cleaned paragraph at a time."""
    collected: list[str] = []
    last_indent = 0
    literal_indent: int | None = None  # of the line whose "::" opened a literal block
    doctest = False
    for raw in [*text.expandtabs().splitlines(), ""]:
        line = raw.strip()
        indent = len(raw) - len(raw.lstrip())
        if not line or _RULE.fullmatch(line) or _TABLE.match(line):
            yield from _prose(collected)
            collected, doctest = [], False
            continue
        if literal_indent is not None and indent <= literal_indent:
            literal_indent = None
        doctest = doctest or line.startswith(">>>")
        if doctest or literal_indent is not None:
            yield from _prose(collected)
            collected = []
            continue
        opens_block = bool(collected) and collected[-1].endswith(":") and indent > last_indent
        if opens_block or indent < last_indent or _BULLET.match(line) or line.startswith((":", "..")):
            yield from _prose(collected)
            collected = []
        if line.endswith("::"):
            literal_indent = indent
        collected.append(line)
        last_indent = indent


def _prose(collected: list[str]) -> Iterator[str]:
    text = " ".join(collected)
    text = _DIRECTIVE.sub("", _FIELD.sub(r"\1", _BULLET.sub("", text, count=1)))
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    text = " ".join(text.replace("::", ":").split())
    pieces = text.split()
    plain = sum(_WORD.fullmatch(piece.strip(".,;:!?()[]'\"")) is not None for piece in pieces)
    if plain >= _MIN_WORDS and plain >= _PLAIN_SHARE * len(pieces):
        yield text
