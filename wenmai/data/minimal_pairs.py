"""Minimal pairs for language models: where they are, and how their sentences may be spelled.

Source: Warstadt et al. 2020, "BLiMP: The Benchmark of Linguistic Minimal Pairs for English".
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from wenmai.core.errors import CorpusError, SettingError
from wenmai.data import readers
from wenmai.data.catalogue import entries, find, get
from wenmai.data.readers import MinimalPair
from wenmai.data.sources import in_catalogue

__all__ = ["SPELLINGS", "MinimalPair", "read_minimal_pairs", "require_minimal_pairs"]

_KIND = "minimal-pairs"  # of entries of the catalogue
_FILES = ("*.jsonl", "*.jsonl.gz", "*.jsonl.bz2", "*.jsonl.xz", "*.jsonl.zst")  # of a folder


def read_minimal_pairs(source: str | Path) -> list[MinimalPair]:
    """Reads minimal pairs in the order of their files.

    Args:
        source: A file, see :func:`wenmai.data.readers.minimal_pairs`; a folder of ``.jsonl`` files, such as ``data`` of
            BLiMP; or a name of the catalogue, with or without ``data:``. A file of such a name is given as ``./NAME``.

    Raises:
        SettingError: if the catalogue has no such name, or it has no minimal pairs.
        CorpusError: if nothing is there, or a line is malformed.
        DownloadError: if it cannot be fetched.
    """
    return [pair for path in require_minimal_pairs(source) for pair in readers.minimal_pairs(path)]


def require_minimal_pairs(source: str | Path) -> list[Path]:
    """Returns the files of minimal pairs, which are downloaded if need be, without reading them.

    Raises:
        WenmaiError: as :func:`read_minimal_pairs`.
    """
    if in_catalogue(source) or source in [entry.name for entry in entries() if entry.kind == _KIND]:
        entry = find(str(source))
        if entry.kind != _KIND:
            raise SettingError(f"{source}: has no minimal pairs; it is of the kind {entry.kind}")
        return [get(entry.name)]
    path = Path(source).expanduser()
    if path.is_dir():
        found = sorted(file for pattern in _FILES for file in path.glob(pattern))
        if not found:
            raise CorpusError(f"{path}: has no .jsonl file; expected a folder of minimal pairs such as data of BLiMP")
        return found
    if not path.is_file():
        known = ", ".join(entry.name for entry in entries() if entry.kind == _KIND)
        raise CorpusError(f"{path}: no such file; expected minimal pairs, or a name of the catalogue ({known})")
    return [path]


def _apart(text: str) -> str:
    return re.sub(r"(?<=\w)([.,;:?!])(?=\s|$)", r" \1", text)


def _wikitext(text: str) -> str:
    return re.sub(r"(?<=\w)('\w*)(?=\s|$)", r" \1", re.sub(r"(?<=\w)-(?=\w)", " @-@ ", _apart(text)))


def _penn(text: str) -> str:
    return re.sub(r"(?<=\w)(n't|'\w*)(?=\s|$)", r" \1", _apart(text))


def _letters(text: str) -> str:
    return " ".join(re.findall("[a-z]+", text.lower()))


SPELLINGS: Mapping[str, Callable[[str], str]] = {
    "written": str,
    "wikitext": _wikitext,
    "penn": _penn,
    "lower": str.lower,
    "wikitext-lower": lambda text: _wikitext(text).lower(),
    "penn-lower": lambda text: _penn(text).lower(),
    "letters": _letters,
}
"""How a sentence may be spelled: as it is written; with spaces before punctuation and the clitics of English as in
WikiText (``doesn't`` is ``doesn 't``) or the Penn Treebank (``does n't``); these in lower case; letters alone, as in
text8."""
