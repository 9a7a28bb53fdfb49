"""Encoded running text, for models that predict the next token: encoded once, memory-mapped by every training.

``<cache>/texts/<fingerprint>/`` holds ``tokens.bin`` (int32 ids, little endian; EOS closes every line),
``lines.bin`` (two int64 for each line: how many tokens and characters there are up to its end), ``documents.bin``
(int64: the token with which each document begins) and ``text.json``; a text that was encoded with marks has
``marks.bin`` too (uint8, of each token; see :mod:`wenmai.data.token_marks`).
"""

import hashlib
import json
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from annotated_types import Ge
from typing_extensions import Doc

from wenmai.config.recipe import Located
from wenmai.core.errors import CorpusError
from wenmai.core.folder import cache_folder, check_sealed, make_folder, writing_json
from wenmai.data.cached import made, mapped, opened, stored_head
from wenmai.data.corpus import Corpus, CorpusStats, Line, Progress
from wenmai.data.sources import absolute_name
from wenmai.data.token_marks import Marker, MarkStats
from wenmai.text import sentences
from wenmai.text.ranges import HAN
from wenmai.text.settings import BadLines, TextConfig, TextFormat, check_choices
from wenmai.text.tokenizer import Tokenizer

__all__ = ["EncodedText", "EncodedTextStats", "LinesConfig", "encode_text", "readable_twice"]

VERSION = 3  # of the files
_CONTENT = 2  # of the ids that a text and a tokenizer give
_BATCH_CHARACTERS = 1 << 20
_NO_MARK = np.zeros(1, np.uint8)  # of the end of a line
_CHINESE, _CHINESE_OR_WORD = re.compile(f"[{HAN}]"), re.compile(rf"[{HAN}]|[^{HAN}\s]+")
_MOST_HELD = 1 << 20  # characters of a sentence that does not end

_Sentences = Literal["lines", "split"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LinesConfig:
    """How running text is read, and the validation text."""

    valid: Annotated[
        str | None,
        Doc("text to validate on: files, or a name of the catalogue; none: the end of the text, 5 %"),
        Located(absolute_name),
    ] = None
    format: Annotated[
        TextFormat,
        Doc("lines: a sentence a line, blank lines between documents; documents: a document a line; wikiextractor"),
    ] = "auto"
    sentences: Annotated[
        _Sentences,
        Doc("lines: the lines are taken for sentences; split: they are split into sentences, English or Chinese"),
    ] = "lines"
    encoding: Annotated[str, Doc("character encoding of the files")] = "utf-8"
    bad_lines: Annotated[BadLines, Doc("a line that cannot be decoded: error, or skip it")] = "error"
    grow: Annotated[int, Ge(0), Doc("continuing a run: most tokens added to its vocabulary for the new text")] = 0

    def __post_init__(self) -> None:
        check_choices(self, {"sentences": get_args(_Sentences)})

    @property
    def text(self) -> TextConfig:
        """The same as settings of a text."""
        return TextConfig(format=self.format, encoding=self.encoding, bad_lines=self.bad_lines)


@dataclass(slots=True, kw_only=True)
class EncodedTextStats:
    """What was encoded, and what was left out.

    Attributes:
        documents: Documents with tokens; see :attr:`EncodedText.documents`.
        lines: Lines with tokens.
        blank_lines: Lines without any token, left out.
        skipped_lines: Lines left out because of ``bad_lines=skip``.
        tokens: Their tokens, the end of each line among them.
        unknown: Tokens that the vocabulary lacks.
        words: What white space separates, each Chinese character by itself, and the ends of lines.
        characters: Unicode characters, and the ends of lines.
    """

    documents: int = 0
    lines: int = 0
    blank_lines: int = 0
    skipped_lines: int = 0
    tokens: int = 0
    unknown: int = 0
    words: int = 0
    characters: int = 0

    @property
    def words_per_token(self) -> float:
        """Words of a token, on average."""
        return self.words / max(1, self.tokens)


@dataclass(frozen=True, eq=False, kw_only=True)
class EncodedText:
    """An encoded text on disk.

    Attributes:
        folder: Where it is.
        fingerprint: Of the text, the tokenizer and the settings.
        stats: What was encoded and what was left out.
        tokens: (tokens) int32 ids, memory-mapped, each line with its end.
        ends: (lines, 2) int64, memory-mapped: tokens and characters up to the end of each line, which is counted. Lines
            are sentences where the text has one a line, or is split into them.
        documents: (documents,) int64, memory-mapped, rising from 0: the token with which each document begins, which is
            the first of a line. A document ends at a tag of WikiExtractor, in other files at a blank line, and with its
            file; one without tokens is not here.
        sources: What the text is called.
        files: Of each file its path, ``bytes`` and ``sha256``.
        marks: (tokens) uint8, memory-mapped, the marks of each token; None if it was encoded without.
        marked: How many tokens begin something, if there are marks.
    """

    folder: Path
    fingerprint: str
    stats: EncodedTextStats
    tokens: npt.NDArray[np.int32]
    ends: npt.NDArray[np.int64]
    documents: npt.NDArray[np.int64]
    sources: tuple[str, ...]
    files: tuple[dict[str, Any], ...]
    marks: npt.NDArray[np.uint8] | None = None
    marked: MarkStats | None = None

    @classmethod
    def open(cls, folder: str | Path) -> "EncodedText":
        """Opens an encoded text; checks the sizes of the files but not every byte (see :meth:`verify`).

        Raises:
            RunError: if the folder is missing, unfinished or damaged.
        """
        folder = Path(folder)
        with stored_head(folder, "text.json", VERSION, "encoded text") as found:
            stats = EncodedTextStats(**found["stats"])
            ends = mapped(folder / "lines.bin", "<i8", 2 * stats.lines).reshape(-1, 2)
            if ends[-1].tolist() != [stats.tokens, stats.characters]:
                raise ValueError(f"lines.bin ends at {ends[-1].tolist()}")
            documents = mapped(folder / "documents.bin", "<i8", stats.documents)
            if documents[0] != 0 or documents[-1] >= stats.tokens:
                raise ValueError(f"documents.bin goes from {documents[0]} to {documents[-1]}")
            return cls(
                folder=folder,
                fingerprint=str(found["fingerprint"]),
                stats=stats,
                tokens=mapped(folder / "tokens.bin", "<i4", stats.tokens),
                ends=ends,
                documents=documents,
                sources=tuple(found["sources"]),
                files=tuple(found["files"]),
                marks=mapped(folder / "marks.bin", "u1", stats.tokens) if "marks" in found else None,
                marked=MarkStats(**found["marks"]) if "marks" in found else None,
            )

    def __len__(self) -> int:
        return self.stats.tokens

    def verify(self) -> list[str]:
        """Reads every byte and returns what is damaged, one sentence each; empty if nothing is."""
        return check_sealed(self.folder)


def encode_text(
    corpus: Corpus,
    tokenizer: Tokenizer,
    config: LinesConfig,
    *,
    marker: Marker | None = None,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> EncodedText:
    """Returns a text encoded, reading it only if that was not done before.

    Memory does not grow with the text.

    Args:
        corpus: The text; files, so that it can be found again (see :func:`readable_twice`).
        tokenizer: Its tokenizer.
        config: How it is read.
        marker: Makes the marks of its tokens; None: it has none.
        cache: Folder for encoded texts; by default the cache of wenmai (``WENMAI_CACHE``).
        progress: Called with the bytes read so far.

    Raises:
        CorpusError: if the text cannot be read, changes meanwhile, or has no token.
        RunError: if the result cannot be written.
    """
    hashes = corpus.hashes()
    if hashes is None:
        raise ValueError("a text that can be read once only is not encoded; see readable_twice")
    key = [_CONTENT, [file.sha256 for file in hashes], tokenizer.fingerprint, config.text.identity()]
    key += [sentences.VERSION] if config.sentences == "split" else []
    key += [] if marker is None else marker.identity()
    fingerprint = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
    folder = (cache or cache_folder()) / "texts"
    files = tuple(file.as_json() for file in hashes)
    if found := opened(folder / fingerprint, EncodedText.open):
        return replace(found, sources=corpus.sources, files=files)

    def fill(entry: Path) -> str:
        stats, read, marked = EncodedTextStats(), CorpusStats(), MarkStats()
        lines = corpus.lines(config.text, stats=read, hashes=hashes, progress=progress)
        if config.sentences == "split":
            lines = _split(lines, sentences.sentences if marker is None else marker.sentences)
        with (
            (entry / "tokens.bin").open("wb") as tokens,
            (entry / "lines.bin").open("wb") as line_ends,
            (entry / "documents.bin").open("wb") as documents,
            nullcontext() if marker is None else (entry / "marks.bin").open("wb") as marks,
        ):
            for ids, ends, begins, facts in _encoded(lines, tokenizer, stats, marker):
                tokens.write(ids.data)
                line_ends.write(ends.data)
                documents.write(begins.data)
                if marks is not None:
                    marks.write(facts.data)
                    marked.add(facts)
        stats.skipped_lines = read.skipped_lines
        if stats.lines == 0:
            raise CorpusError(f"{corpus.describe()}: has no text: all {read.lines:,} lines are blank or left out")
        head = {"version": VERSION, "fingerprint": fingerprint, "sources": corpus.sources, "stats": asdict(stats)}
        head |= {} if marker is None else {"marks": asdict(marked)}
        writing_json(entry / "text.json", head | {"files": files})
        return fingerprint

    return made(folder, fill, EncodedText.open, "encoded text")


@contextmanager
def readable_twice(
    corpus: Corpus, config: LinesConfig, *, stats: CorpusStats | None = None
) -> Iterator[tuple[Corpus, LinesConfig]]:
    """Gives a corpus that can be read repeatedly, and how: the same, or a copy while the context lasts.

    The copy is a file in UTF-8 with the same lines; where these had tags, blank lines alone divide the documents.

    Args:
        corpus: The text.
        config: How it is read.
        stats: Counters to be increased by what a copy leaves out.
    """
    if corpus.repeatable:
        yield corpus, config
        return
    folder = cache_folder() / "texts"
    make_folder(folder)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".copy-") as place:
        path = Path(place) / "text.txt"
        with path.open("w", encoding="utf-8", newline="\n") as file:
            read, inside = CorpusStats() if stats is None else stats, False
            for line in corpus.lines(config.text, stats=read):
                if read.documents and not inside:
                    if line.ends and not line.text.strip():
                        continue
                    file.write("\n" if line.begins_document else "")
                file.write(line.text + "\n" if line.ends else line.text)
                inside = not line.ends
        if path.stat().st_size == 0:
            raise CorpusError(f"{corpus.describe()}: is empty; expected text")
        tags_are_gone = "lines" if config.format == "wikiextractor" else config.format
        yield Corpus.of_paths([path]), replace(config, encoding="utf-8", format=tags_are_gone)


def _split(lines: Iterator[Line], cut: Callable[[str], list[str]]) -> Iterator[Line]:
    """Yields each sentence that some lines are ``cut`` into as a line, one of megabytes in parts; blank lines stay."""
    held, begins = "", False  # what may go on with the next part of a line, and whether it begins a document
    goes_on = False  # a sentence of which a part was yielded
    for line in lines:
        begins = begins or line.begins_document
        text = held + line.text
        found = cut(text)
        if goes_on and found:
            found[0] = text[: len(text) - len(text.lstrip())] + found[0]  # the space between its parts
        held = found.pop() if found and not line.ends else ""
        for sentence in found or ([text] if line.ends else []):
            yield Line(sentence, ends=True, begins_document=begins)
            begins = goes_on = False
        if len(held) > _MOST_HELD:
            yield Line(held, ends=False, begins_document=begins)
            held, begins, goes_on = "", False, True


def _batches(lines: Iterator[Line]) -> Iterator[list[Line]]:
    """Gathers lines and parts of lines of about a megabyte, which are encoded together."""
    batch: list[Line] = []
    size = 0
    for line in lines:
        batch.append(line)
        size += len(line.text) + 1
        if size >= _BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _words(text: str) -> int:
    """Words of a text in a unit that does not depend on the tokenizer."""
    return len(_CHINESE_OR_WORD.findall(text)) if _CHINESE.search(text) else len(text.split())


def _encoded(
    lines: Iterator[Line], tokenizer: Tokenizer, stats: EncodedTextStats, marker: Marker | None
) -> Iterator[tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.uint8]]]:
    """Yields the tokens of lines, EOS after each line that has any, where lines end, where documents begin, and marks.

    Counts what it meets.
    """
    inside = False  # a line that has tokens
    begins = True  # a document, with the next token
    named = tokenizer.token(tokenizer.unk_id)
    for batch in _batches(lines):
        ids: list[int] = []
        line_ends: list[tuple[int, int]] = []
        documents: list[int] = []
        marks: list[npt.NDArray[np.uint8]] = []
        texts, rows, facts = _rows([one.text for one in batch], tokenizer, marker)
        for place, (text, row, (_, ends, first)) in enumerate(zip(texts, rows, batch, strict=True)):
            begins = begins or first
            if begins and row:
                documents.append(stats.tokens + len(ids))
                begins = False
            inside = inside or bool(row)
            ids += row
            marks += facts[place : place + 1]
            stats.unknown += row.count(tokenizer.unk_id) - (text.split().count(named) if tokenizer.takes_unknown else 0)
            if inside:
                stats.words += _words(text) + ends
                stats.characters += len(text) + ends
            if ends:
                if inside:
                    ids.append(tokenizer.eos_id)
                    marks += [_NO_MARK] if marker is not None else []
                    line_ends.append((stats.tokens + len(ids), stats.characters))
                stats.lines += inside
                stats.blank_lines += not inside
                inside = False
        stats.tokens += len(ids)
        stats.documents += len(documents)
        yield (
            np.array(ids, "<i4"),
            np.array(line_ends, "<i8"),
            np.array(documents, "<i8"),
            np.concatenate(marks) if marks else _NO_MARK[:0],
        )


def _rows(
    texts: list[str], tokenizer: Tokenizer, marker: Marker | None
) -> tuple[list[str], list[list[int]], list[npt.NDArray[np.uint8]]]:
    """Encodes texts; returns them as they were encoded, their tokens, and the marks of these, if there are some."""
    if marker is None:
        return texts, tokenizer.encode_batch(texts), []
    plain = list(map(marker.plain, texts))
    rows, offsets = zip(*tokenizer.encode_batch_placed(plain), strict=True)
    return plain, list(rows), marker.marks(texts, offsets)
