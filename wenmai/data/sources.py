"""What users name as text: paths, folders, globs, standard input, names of the catalogue, or text in memory."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from wenmai.core.errors import CorpusError
from wenmai.data.corpus import Corpus

__all__ = ["absolute_name", "in_catalogue", "named_texts", "open_texts", "refuse_columns"]


def open_texts(corpus: Any) -> tuple[Corpus, dict[str, Any], tuple[str, ...]]:  # noqa: ANN401  whatever holds text
    """Opens whatever names or holds text.

    Returns:
        The corpus, text settings that fit it (the catalogue's), and its name in a recipe: names of the catalogue as
        they are, so that the recipe works elsewhere, and absolute paths.
    """
    from wenmai.data.catalogue import from_catalogue

    if isinstance(corpus, str | Path):
        corpus = [_part(corpus) if isinstance(corpus, str) else corpus]
    if not isinstance(corpus, list | tuple) or not all(isinstance(item, str | Path) for item in corpus):
        return Corpus.of(corpus), {}, ()
    paths, hints = from_catalogue(corpus)
    opened = Corpus.of(paths)
    hints = {f"text.{name}": value for name, value in hints.items()}
    if len(opened.sources) != len(corpus):
        return opened, hints, opened.sources
    names = zip(corpus, opened.sources, strict=True)
    return opened, hints, tuple(str(item) if in_catalogue(item) else source for item, source in names)


def named_texts(names: Sequence[str]) -> list[str | Path]:
    """Turns the names of a command line or a recipe into parts of a corpus: names of the catalogue, and paths."""
    return list(map(_part, names))


def _part(name: str) -> str | Path:
    """Returns a part of a corpus; an empty name, as of an unset variable of a shell, is not the path of this folder."""
    return name if not name or in_catalogue(name) else Path(name)


def absolute_name(name: str) -> str:
    """Returns an absolute name of a text or a run; names of the catalogue stay."""
    return name if not name or in_catalogue(name) else str(Path(name).expanduser().absolute())


def in_catalogue(name: str | Path) -> bool:
    """Whether a part of a corpus is meant as a name of the catalogue; ``data: new oil`` and ``data:石油`` are texts."""
    prefixed = isinstance(name, str) and name.startswith(("builtin:", "data:"))
    return prefixed and str(name).isascii() and len(str(name).split()) == 1


def refuse_columns(spec: object, columns: Collection[int], name: str) -> None:
    """Makes sure that rows from Python are rows: a tuple of as many lists as a row has parts may be its columns.

    Args:
        spec: What is given.
        columns: How many parts a row may have.
        name: What the message calls it.

    Raises:
        CorpusError: if it may be columns.
    """
    if type(spec) is not tuple or len(spec) not in columns or len(spec) == 1:
        return
    if all(type(one) is list or hasattr(one, "tolist") for one in spec):
        raise CorpusError(
            f"{name}: a tuple of {len(spec)} lists may be rows or columns; give a list of rows, such as zip(*columns) "
            "makes of columns"
        )
