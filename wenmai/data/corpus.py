"""A corpus: text from files, folders, globs, standard input or Python, read once as a stream of tokens.

Files may be compressed (gzip, bzip2, xz, zstandard; detected by content, not by name). They are read in blocks,
so memory does not grow with the corpus even if all of it is one line. What is left out is counted in
:class:`CorpusStats`; invalid input raises a :class:`~wenmai.core.errors.CorpusError` that names file, line
and byte.
"""

import codecs
import glob
import hashlib
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from wenmai.core.errors import CorpusError, SettingError
from wenmai.data import documents
from wenmai.data.documents import CorpusStats, DocumentReader, Line, beginning, plain
from wenmai.data.file_hash import FileHash
from wenmai.text.segment import LINE_END
from wenmai.text.settings import TextConfig

__all__ = ["Corpus", "CorpusStats", "Line", "Progress"]

Progress = Callable[[int, int | None], None]
"""Called with the bytes read so far and, where it is known, their number in all."""

_SAMPLE_BYTES, _SAMPLE_FILES, _SAMPLE_ITEMS = 1 << 16, 8, 200


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    named: bool  # by the user, not found in a folder or by a glob
    size: int
    regular: bool

    @property
    def name(self) -> str:
        """What messages call it."""
        return "standard input" if str(self.path) == "-" else str(self.path)


class Corpus:
    """Where text comes from. Make one with :meth:`of`, :meth:`of_paths` or :meth:`of_texts`.

    Attributes:
        sources: What to give to :meth:`of_paths` to get the same corpus again, with absolute paths.
            ``("-",)`` for standard input, empty for a Python iterable: these cannot be read again (see
            ``repeatable``).
    """

    def __init__(
        self,
        *,
        sources: tuple[str, ...],
        files: tuple[_File, ...] = (),
        texts: Iterable[Any] | None = None,
        skipped_files: int = 0,
    ) -> None:
        self.sources = sources
        self._files = files
        self._texts = texts
        self._skipped_files = skipped_files

    @classmethod
    def of(cls, source: Any) -> "Corpus":  # noqa: ANN401  distinguishes all that users pass
        """Makes a corpus of whatever names or holds text.

        - A string or ``Path`` is a file, folder, glob, or ``-`` for standard input.
        - A list or tuple of ``Path`` objects is several of these; so is one of strings if none of them has
          white space or one of them names a file or folder.
        - Any other iterable holds the text itself: strings (a sentence or document each) or lists of tokens.

        :meth:`of_paths` and :meth:`of_texts` say which is meant.

        Raises:
            CorpusError: if nothing is there.
        """
        if isinstance(source, Corpus):
            return source
        if isinstance(source, (str, Path)):
            return cls.of_paths(source)
        if isinstance(source, (list, tuple)) and source and all(isinstance(item, (str, Path)) for item in source):
            spaces = any(isinstance(item, str) and len(item.split(None, 1)) > 1 for item in source)
            if not spaces or any(isinstance(item, Path) or os.path.exists(item) for item in source):
                return cls.of_paths(source)
        return cls.of_texts(source)

    @classmethod
    def of_paths(cls, paths: str | Path | Iterable[str | Path]) -> "Corpus":
        """Makes a corpus of files, folders (all that is in them, sorted), globs, or ``-`` for standard input; or one.

        Raises:
            CorpusError: if one of them is missing, matches nothing, or is a folder without files.
        """
        names = list(map(str, [paths] if isinstance(paths, str | Path) else paths))
        if not names or not all(names):
            raise CorpusError("no corpus was named; expected at least one file, folder, glob, or - for standard input")
        names = [name if name == "-" else os.path.abspath(os.path.expanduser(name)) for name in names]
        if names.count("-") > 1:
            raise CorpusError("standard input (-) was named twice, but can be read only once")
        files, skipped_files = list[_File](), 0
        for name in names:
            found, skipped = _files_of(name)
            files += found
            skipped_files += skipped
        return cls(sources=tuple(names), files=tuple(files), skipped_files=skipped_files)

    @classmethod
    def of_texts(cls, texts: Iterable[str] | Iterable[Sequence[str]]) -> "Corpus":
        """Makes a corpus of strings (a sentence or document each) or of lists of tokens, taken as they are.

        The corpus is read once, so an iterator is enough.
        """
        if isinstance(texts, (str, bytes)) or not isinstance(texts, Iterable):
            raise CorpusError(
                f"text from Python is an iterable of strings or lists of tokens, not {type(texts).__name__}"
            )
        return cls(sources=(), texts=texts)

    @property
    def repeatable(self) -> bool:
        """Whether ``of_paths(sources)`` reads the same text again."""
        return self._texts is None and all(file.regular for file in self._files)

    @property
    def size_bytes(self) -> int | None:
        """Bytes on disk (compressed where files are), or None where that is not known in advance."""
        return sum(file.size for file in self._files) if self.repeatable else None

    @property
    def skipped_files(self) -> int:
        """Hidden and special files that folders hold and that are not read."""
        return self._skipped_files

    def describe(self) -> str:
        """Returns one line that describes the corpus."""
        if self._texts is not None:
            return "text from Python"
        names = ", ".join("standard input" if name == "-" else name for name in self.sources[:3])
        if len(self.sources) > 3:
            names += f" and {len(self.sources) - 3} more"
        return names if len(self._files) == len(self.sources) else f"{names} ({len(self._files)} files)"

    def sample(self, encoding: str) -> str:
        """Returns some text from where the files begin; empty if it cannot be had without reading all of it.

        Lists of tokens have none; what cannot be decoded is left out.
        """
        if self._texts is not None:
            items = iter(self._texts)
            first = list(itertools.islice(items, _SAMPLE_ITEMS))
            if items is self._texts:  # it can be read only once
                self._texts = itertools.chain(first, items)
            return "\n".join(item[:_SAMPLE_BYTES] for item in first if isinstance(item, str))
        chosen = self._files[:: -(-len(self._files) // _SAMPLE_FILES)]
        each = _SAMPLE_BYTES // len(chosen)
        return "\n".join(beginning(_peeked(file), file.name, each).decode(encoding, "ignore") for file in chosen)

    def hashes(self) -> list[FileHash] | None:
        """Returns what identifies each file's content, or None where the text can be read only once."""
        if not self.repeatable:
            return None
        found = []
        for file in self._files:
            digest = hashlib.sha256()
            for chunk in _read(file.path):
                digest.update(chunk)
            found.append(FileHash(path=str(file.path), size_bytes=file.size, sha256=digest.hexdigest()))
        return found

    def batches(
        self,
        text: TextConfig,
        *,
        stats: CorpusStats,
        hashes: list[FileHash] | None = None,
        progress: Progress | None = None,
        rewrite: Callable[[str], str] | None = None,
    ) -> Iterator[list[str]]:
        r"""Reads the corpus once, as lists of about a megabyte of tokens.

        Args:
            text: How text becomes tokens.
            stats: Counters of files, documents and lines to be increased. The caller counts what follows from
                the tokens: sentences, blank lines, tokens, types.
            hashes: What :meth:`hashes` returned; a file that has changed since is an error.
            progress: Called after each block.
            rewrite: Changes decoded text before it is normalised, many lines at a time.

        Yields:
            Tokens in order, with :data:`~wenmai.text.segment.LINE_END` at the end of each line; a line may continue
            in the next batch.

        Raises:
            CorpusError: if the text cannot be read.
        """
        for source in self._opened(text, stats, hashes, progress):
            yield from source.batches(rewrite)

    def lines(
        self,
        text: TextConfig,
        *,
        stats: CorpusStats,
        hashes: list[FileHash] | None = None,
        progress: Progress | None = None,
    ) -> Iterator[Line]:
        """Reads the corpus once, line by line as it is written, for tokenizers that segment it themselves.

        Args:
            text: How bytes become text; its normalisation and segmentation have no effect.
            stats: As of :meth:`batches`.
            hashes: Likewise.
            progress: Likewise.

        Yields:
            Lines; of a line longer than a megabyte each part. A list of tokens from Python is a line, with a space
            between two tokens.

        Raises:
            CorpusError: if the text cannot be read.
        """
        for source in self._opened(text, stats, hashes, progress):
            yield from source.lines()

    def _opened(
        self, text: TextConfig, stats: CorpusStats, hashes: list[FileHash] | None, progress: Progress | None
    ) -> Iterator["DocumentReader | _TokenLists"]:
        """Yields a reader of each source, one by one; checks each source once it is read."""
        stats.skipped_files += self._skipped_files
        if self._texts is not None:
            yield self._opened_texts(text, stats, progress)
            return
        done, total = 0, self.size_bytes

        def advance(size: int) -> None:
            nonlocal done
            done += size
            if progress is not None:
                progress(done, total)

        for place, file in enumerate(self._files):
            digest = hashlib.sha256()
            chunks = plain(_observed(_read(file.path), digest, advance), file.name)
            yield (reader := DocumentReader(file.name, chunks, text, stats))
            stats.files += 1
            if reader.empty:
                if file.named:
                    raise CorpusError(f"{file.name}: is empty; expected text")
                stats.empty_files += 1
            if hashes is not None and hashes[place].sha256 != digest.hexdigest():
                raise CorpusError(f"{file.name}: changed while it was read; run again when nothing writes to it")

    def _opened_texts(
        self, text: TextConfig, stats: CorpusStats, progress: Progress | None
    ) -> "DocumentReader | _TokenLists":
        items = iter(self._texts or ())
        first = next(items, None)
        if first is None:
            raise CorpusError("the corpus from Python gave no items: it is empty, or an iterator that was used before")
        items = itertools.chain([first], items)
        stats.files += 1
        if not isinstance(first, str):
            phrases_only = TextConfig(
                phrases=text.phrases,
                phrase_threshold=text.phrase_threshold,
                phrase_min_count=text.phrase_min_count,
            )
            if text != phrases_only:
                raise SettingError(
                    "lists of tokens are taken as they are: normalisation and segmentation have no effect on "
                    "them; leave these settings out, or give strings"
                )
            return _TokenLists(items, stats, progress)
        if codecs.lookup(text.encoding).name != "utf-8":
            raise SettingError(f"encoding={text.encoding} has no effect on strings from Python; leave it out")

        def encoded() -> Iterator[bytes]:
            done = 0
            for number, item in enumerate(items):
                if not isinstance(item, str):
                    raise CorpusError(f"item {number} of the corpus is {type(item).__name__}, but item 0 was a string")
                # A lone surrogate makes this a line that cannot be decoded, to be reported or skipped.
                yield (line := item.encode("utf-8", "surrogatepass") + b"\n")
                done += len(line)
                if progress is not None:
                    progress(done, None)

        return DocumentReader("text from Python", encoded(), text, stats)


@dataclass(frozen=True, slots=True)
class _TokenLists:
    """Reads lists of tokens, a line each."""

    items: Iterable[Any]
    stats: CorpusStats
    progress: Progress | None

    def batches(self, _: object = None) -> Iterator[list[str]]:
        """Yields the tokens of many lists as flat batches."""
        batch: list[str] = []
        size = 0
        for tokens in self._checked():
            batch += tokens
            batch.append(LINE_END)
            size += sum(map(len, tokens))
            if size >= documents.BLOCK_BYTES:
                yield batch
                batch, size = [], 0
        yield batch

    def lines(self) -> Iterator[Line]:
        """Yields each list as a line."""
        begins = True
        for tokens in self._checked():
            yield Line(" ".join(tokens), ends=True, begins_document=begins and bool(tokens))
            begins = not tokens

    def _checked(self) -> Iterator[list[str]]:
        done = reported = 0
        for number, item in enumerate(self.items):
            if isinstance(item, (str, bytes)) or not isinstance(item, Iterable):
                raise CorpusError(
                    f"item {number} of the corpus is {type(item).__name__}; expected strings throughout, or "
                    "lists of tokens throughout"
                )
            tokens = list(item)
            if not _are_tokens(tokens):
                bad = next(token for token in tokens if not _are_tokens([token]))
                raise CorpusError(
                    f"item {number} of the corpus has the token {bad!r}; expected strings that are not empty, "
                    "can be written as UTF-8, and have no line end or NUL"
                )
            self.stats.lines += 1
            yield tokens
            done += sum(map(len, tokens))
            if self.progress is not None and done - reported >= documents.BLOCK_BYTES:
                self.progress(done, None)
                reported = done


def _are_tokens(items: list[Any]) -> bool:
    try:
        joined = "\0".join(items)
        joined.encode()
    except (TypeError, UnicodeEncodeError):
        return False
    return all(items) and "\n" not in joined and joined.count("\0") == max(len(items) - 1, 0)


def _files_of(name: str) -> tuple[list[_File], int]:
    """Returns the files that a path or glob stands for, and how many hidden or special ones were left out."""
    if name == "-":
        return [_File(Path("-"), named=True, size=0, regular=False)], 0
    if os.path.exists(name):
        return _files_at(name, named=True)
    if not glob.has_magic(name):
        hint = " (it is a broken link)" if os.path.islink(name) else ""
        hint = " (a web address: download it first)" if re.search(r"(?:^|/)(?:https?|ftp):/", name) else hint
        raise CorpusError(
            f"{name}: no such file or folder{hint}. Expected a path, a glob, - for standard input, or a name of the "
            "catalogue such as builtin:pydocs"
        )
    everything = name.endswith((f"{os.sep}**", f"{os.sep}**{os.sep}*"))  # what is in a folder matches too
    files, skipped, read = list[_File](), 0, set[Path]()
    for match in sorted(glob.glob(name, recursive=True)):
        if (everything and os.path.isdir(match)) or not read.isdisjoint(Path(match).parents):
            continue
        read.add(Path(match))
        found, left_out = _files_at(match, named=False) if os.path.exists(match) else ([], 1)  # a broken link
        files += found
        skipped += left_out
    if not files:
        raise CorpusError(f"{name}: no file matches this pattern")
    return files, skipped


def _files_at(path: str, *, named: bool) -> tuple[list[_File], int]:
    if not os.path.isdir(path):
        regular = os.path.isfile(path)
        size = os.path.getsize(path) if regular else 0
        return [_File(Path(path), named=named, size=size, regular=regular)], 0
    files: list[_File] = []
    skipped = 0
    seen = set()

    def unreadable(error: OSError) -> NoReturn:
        raise CorpusError(f"{error.filename}: cannot be read ({error.strerror})")

    for folder, subfolders, names in os.walk(path, followlinks=True, onerror=unreadable):
        real = os.path.realpath(folder)
        if real in seen:  # by a link, perhaps to a parent
            subfolders.clear()
            continue
        seen.add(real)
        hidden = [name for name in subfolders if name.startswith(".")]
        skipped += sum(len(inside) for name in hidden for _, _, inside in os.walk(os.path.join(folder, name)))
        subfolders[:] = sorted(set(subfolders) - set(hidden))
        for name in sorted(names):
            file = os.path.join(folder, name)
            if name.startswith(".") or not os.path.isfile(file):
                skipped += 1
            else:
                files.append(_File(Path(file), named=False, size=os.path.getsize(file), regular=True))
    if not files and named:
        more = f" but {skipped} hidden or special ones, which are not read" if skipped else ""
        raise CorpusError(f"{path}: the folder has no files{more}; expected text files")
    return files, skipped


def _peeked(file: _File) -> Iterator[bytes]:
    """Yields the first bytes of a file at least, if they can be read again afterwards."""
    if str(file.path) == "-":
        peek = getattr(sys.stdin.buffer, "peek", None)
        return iter([peek()] if peek else [])
    return _read(file.path) if file.regular else iter(())


def _read(path: Path) -> Iterator[bytes]:
    """Yields the bytes of a file or of standard input, as they are."""
    try:
        if str(path) == "-":
            yield from _chunks(sys.stdin.buffer)
        else:
            with open(path, "rb", buffering=0) as file:
                yield from _chunks(file)
    except OSError as error:
        raise CorpusError(f"{path}: cannot be read ({error.strerror})") from None


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(documents.BLOCK_BYTES):
        yield chunk


def _observed(chunks: Iterable[bytes], digest: "hashlib._Hash", advance: Callable[[int], None]) -> Iterator[bytes]:
    for chunk in chunks:
        digest.update(chunk)
        yield chunk
        advance(len(chunk))
