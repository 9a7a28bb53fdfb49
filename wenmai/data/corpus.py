"""A corpus: text from files, folders, globs, standard input or Python, read once as a stream of tokens.

Files may be compressed (gzip, bzip2, xz, zstandard; told by content, not by name). They are read in blocks,
so memory does not grow with the corpus even if all of it is one line. What is left out is counted in
:class:`CorpusStats`; what makes no sense is a :class:`~wenmai.core.errors.CorpusError` that names file, line
and byte.
"""

import bz2
import codecs
import glob
import hashlib
import itertools
import lzma
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn, Protocol

from wenmai.core.errors import CorpusError, SettingError
from wenmai.text.normalise import normaliser
from wenmai.text.segment import LINE_END, segmenter
from wenmai.text.settings import TextConfig

__all__ = ["Corpus", "CorpusStats", "FileHash", "Progress"]

Progress = Callable[[int, int | None], None]
"""Called with the bytes read so far and, where it is known, their number in all."""

BLOCK_BYTES = 1 << 20
MAX_WORD = 1 << 20
"""Characters of the longest word that is read: more than any has, less than a file without separators."""


@dataclass(slots=True, kw_only=True)
class CorpusStats:
    """What was found in a corpus, and what was left out of it.

    Attributes:
        files: Files read; standard input and Python iterables count as one.
        empty_files: Files found in folders or by a glob that hold nothing.
        skipped_files: Hidden or special (not regular) files in folders, not read.
        documents: ``<doc ...>`` lines.
        lines: Lines, blank and skipped ones included; one for each list of tokens from Python.
        blank_lines: Lines without any token, ``<doc>`` and ``</doc>`` not among them.
        skipped_lines: Lines left out because of ``bad_lines=skip``; of a line longer than a megabyte the part
            before the fault was kept.
        sentences: Lines with at least one token.
        tokens: Running words.
        types: Different words.
        pruned_types: Types dropped to keep their number bounded; their tokens have the id -1.
        pruned_tokens: Tokens of the dropped types.
        pruned_pairs: Different pairs of words that were dropped while phrases were counted.
    """

    files: int = 0
    empty_files: int = 0
    skipped_files: int = 0
    documents: int = 0
    lines: int = 0
    blank_lines: int = 0
    skipped_lines: int = 0
    sentences: int = 0
    tokens: int = 0
    types: int = 0
    pruned_types: int = 0
    pruned_tokens: int = 0
    pruned_pairs: int = 0


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    named: bool  # by the user, not found in a folder or by a glob
    size: int
    regular: bool


class FileHash(NamedTuple):
    """What identifies the content of a file (as it is on disk)."""

    path: str
    size_bytes: int
    sha256: str


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
    def of(cls, source: Any) -> "Corpus":  # noqa: ANN401  tells apart all that users pass
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
            return cls.of_paths([source])
        if isinstance(source, (list, tuple)) and source and all(isinstance(item, (str, Path)) for item in source):
            spaces = any(isinstance(item, str) and len(item.split(None, 1)) > 1 for item in source)
            if not spaces or any(isinstance(item, Path) or os.path.exists(item) for item in source):
                return cls.of_paths(source)
        return cls.of_texts(source)

    @classmethod
    def of_paths(cls, paths: Iterable[str | Path]) -> "Corpus":
        """Makes a corpus of files, folders (all that is in them, sorted), globs, or ``-`` for standard input.

        Raises:
            CorpusError: if one of them is missing, matches nothing, or is a folder without files.
        """
        names = [str(path) if str(path) == "-" else os.path.abspath(os.path.expanduser(path)) for path in paths]
        if not names:
            raise CorpusError("no corpus was named; expected at least one file, folder, glob, or - for standard input")
        if names.count("-") > 1:
            raise CorpusError("standard input (-) was named twice, but can be read only once")
        files: list[_File] = []
        skipped_files = 0
        for name in names:
            found, skipped = _files_of(name)
            files += found
            skipped_files += skipped
        return cls(sources=tuple(names), files=tuple(files), skipped_files=skipped_files)

    @classmethod
    def of_texts(cls, texts: Iterable[str] | Iterable[Sequence[str]]) -> "Corpus":
        """Makes a corpus of strings (a sentence or document each) or of lists of tokens, taken as they are.

        The corpus is read once, so an iterator that cannot start again will do.
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
        """Returns one line for people: what the corpus consists of."""
        if self._texts is not None:
            return "text from Python"
        names = ", ".join("standard input" if name == "-" else name for name in self.sources[:3])
        if len(self.sources) > 3:
            names += f" and {len(self.sources) - 3} more"
        return names if len(self._files) == len(self.sources) else f"{names} ({len(self._files)} files)"

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
    ) -> Iterator[list[str]]:
        r"""Reads the corpus once, as lists of about a megabyte of tokens.

        Args:
            text: How text becomes tokens.
            stats: Counters of files, documents and lines to be increased. The caller counts what follows from
                the tokens: sentences, blank lines, tokens, types.
            hashes: What :meth:`hashes` returned; a file that has changed since is an error.
            progress: Called after each block.

        Yields:
            Tokens in order, with :data:`~wenmai.text.segment.LINE_END` at the end of each line; a line may go
            on in the next batch.

        Raises:
            CorpusError: if the text cannot be read.
        """
        stats.skipped_files += self._skipped_files
        if self._texts is not None:
            yield from self._batches_of_texts(text, stats, progress)
            return
        done, total = 0, self.size_bytes

        def advance(size: int) -> None:
            nonlocal done
            done += size
            if progress is not None:
                progress(done, total)

        for place, file in enumerate(self._files):
            digest = hashlib.sha256()
            reader = _Reader(str(file.path), text, stats)
            yield from reader.batches(_plain(_observed(_read(file.path), digest, advance), str(file.path)))
            stats.files += 1
            if reader.empty:
                if file.named:
                    raise CorpusError(f"{file.path}: is empty; expected text")
                stats.empty_files += 1
            if hashes is not None and hashes[place].sha256 != digest.hexdigest():
                raise CorpusError(f"{file.path}: changed while it was read; run again when nothing writes to it")

    def _batches_of_texts(self, text: TextConfig, stats: CorpusStats, progress: Progress | None) -> Iterator[list[str]]:
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
            yield from _token_lists(items, stats, progress)
            return
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

        yield from _Reader("text from Python", text, stats).batches(encoded())


def _token_lists(items: Iterable[Any], stats: CorpusStats, progress: Progress | None) -> Iterator[list[str]]:
    """Yields the tokens of many lists as flat batches."""
    batch: list[str] = []
    size = done = 0
    for number, item in enumerate(items):
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
        size += sum(map(len, tokens))
        stats.lines += 1
        batch += tokens
        batch.append(LINE_END)
        if size >= BLOCK_BYTES:
            yield batch
            batch = []
            done += size
            size = 0
            if progress is not None:
                progress(done, None)
    yield batch


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
        hint = " (it is a link to nothing)" if os.path.islink(name) else ""
        raise CorpusError(
            f"{name}: no such file or folder{hint}. Expected a path, a glob, - for standard input, or a name of the "
            "catalogue such as builtin:pydocs"
        )
    matches = sorted(glob.glob(name, recursive=True))
    files: list[_File] = []
    skipped = 0
    for match in matches:
        if os.path.isdir(match) and "**" in name:
            continue  # what is in it matches too
        found, left_out = _files_at(match, named=False)
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
        if real in seen:  # by a link, perhaps back up
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
    while chunk := file.read(BLOCK_BYTES):
        yield chunk


def _observed(chunks: Iterable[bytes], digest: "hashlib._Hash", advance: Callable[[int], None]) -> Iterator[bytes]:
    for chunk in chunks:
        digest.update(chunk)
        yield chunk
        advance(len(chunk))


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


def _zstandard() -> _Decompressor:
    import zstandard

    found: _Decompressor = zstandard.ZstdDecompressor().decompressobj()
    return found


_COMPRESSIONS: list[tuple[str, "re.Pattern[bytes]", Callable[[], _Decompressor]]] = [
    ("gzip", re.compile(rb"\x1f\x8b"), lambda: zlib.decompressobj(wbits=31)),
    ("bzip2", re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"), bz2.BZ2Decompressor),
    ("xz", re.compile(rb"\xfd7zXZ\0"), lzma.LZMADecompressor),
    ("zstandard", re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"), _zstandard),
]

_NOT_TEXT = {
    "a ZIP archive": re.compile(rb"PK\x03\x04"),
    "a tar archive": re.compile(rb".{257}ustar", re.DOTALL),
    "a 7z archive": re.compile(rb"7z\xbc\xaf'\x1c"),
    "a RAR archive": re.compile(rb"Rar!\x1a\x07"),
    "a PDF document": re.compile(rb"%PDF-\d"),
    "a Parquet table": re.compile(rb"PAR1\x15"),
    "an SQLite database": re.compile(rb"SQLite format 3\0"),
    "a picture": re.compile(rb"\x89PNG|\xff\xd8\xff"),
    "a program": re.compile(rb"\x7fELF|MZ\x90\0"),
}


def _plain(chunks: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Decompresses a file if its content says that it is compressed."""
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= 512:
            break
    chunks = itertools.chain([head], chunks)
    for compression, magic, new in _COMPRESSIONS:
        if magic.match(head):
            inside = _blocks(_decompressed(chunks, new, compression, name))
            head = next(inside, b"")
            chunks = itertools.chain([head], inside)
            break
    for what, magic in _NOT_TEXT.items():
        if magic.match(head):
            raise CorpusError(f"{name}: is {what}, not text; extract the text first, or leave the file out")
    yield from chunks


def _decompressed(
    chunks: Iterable[bytes], new: Callable[[], _Decompressor], compression: str, name: str
) -> Iterator[bytes]:
    """Yields what one or more compressed streams, one behind the other, hold."""
    stream: _Decompressor | None = None
    done = 0
    for chunk in chunks:
        for start in range(0, len(chunk), 4096):  # small steps, so that a bomb goes off in small steps too
            data = chunk[start : start + 4096]
            while data:
                if stream is None:
                    data = data.lstrip(b"\0")  # padding between streams
                    if not data:
                        break
                    stream = new()
                try:
                    yield stream.decompress(data)
                except Exception as error:  # each of the four libraries has an exception of its own
                    raise CorpusError(
                        f"{name}: is damaged: near byte {done + start} {compression} says: {error}"
                    ) from None
                data = stream.unused_data if stream.eof else b""
                if stream.eof:
                    stream = None
        done += len(chunk)
    if stream is not None:
        raise CorpusError(f"{name}: is truncated: the {compression} data ends after {done} bytes but goes on")


def _blocks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Cuts and joins chunks into blocks of one size."""
    parts: list[bytes] = []
    size = 0
    for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        if size >= BLOCK_BYTES:
            joined = b"".join(parts)
            end = size - size % BLOCK_BYTES
            for start in range(0, end, BLOCK_BYTES):
                yield joined[start : start + BLOCK_BYTES]
            parts, size = [joined[end:]], size - end
    if size:
        yield b"".join(parts)


_NUL = "a NUL, which no text has (but UTF-16, for which use encoding=utf-16)"
_OPENING_TAG = re.compile(r"^[ \t]*<doc(?:[ \t][^\n]*)?>[ \t\r]*\n", re.MULTILINE)
_CLOSING_TAG = re.compile(r"^[ \t]*</doc>[ \t\r]*\n", re.MULTILINE)


class _Reader:
    """Turns the bytes of one source into batches of tokens.

    Bytes are gathered until they end with a line. A line longer than a block is decoded part by part, and
    each part is cut where the segmenter says that this changes no token.
    """

    def __init__(self, name: str, text: TextConfig, stats: CorpusStats) -> None:
        self.empty = True
        self._name = name
        self._stats = stats
        self._bad_lines = text.bad_lines
        self._format: str = text.format
        self._encoding = codecs.lookup(text.encoding).name.removesuffix("-sig")
        self._segmenter = segmenter(text.segment)
        self._normalise = normaliser(text)
        self._lines = 0  # lines before the next byte
        self._offset = 0  # of the next byte
        # Only while a line longer than a block is read:
        self._decoder: codecs.IncrementalDecoder | None = None
        self._head = ""  # decoded, but kept back because it may end within a token
        self._dropping = False  # the rest of the line, because it is bad

    def batches(self, chunks: Iterable[bytes]) -> Iterator[list[str]]:
        """Yields the tokens of the source."""
        documents = self._stats.documents
        blocks = _blocks(chunks)
        if not _has_plain_line_ends(self._encoding):
            blocks = self._transcoded(blocks)
        for piece in self._pieces(blocks):
            self.empty = False
            if text := self._without_tags(piece):
                yield self._segmenter.tokens(self._normalise(text))
        if self._format == "wikiextractor" and self._stats.documents == documents and not self.empty:
            raise CorpusError(
                f'{self._name}: has no line such as <doc id="1">, which format=wikiextractor expects; use format=lines'
            )

    def _transcoded(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Spells text as UTF-8 where the byte of a line end may also be part of a character, as in UTF-16."""
        decoder = codecs.getincrementaldecoder(self._encoding)()
        encoding, self._encoding = self._encoding, "utf-8"
        done = lines = 0
        for block in itertools.chain(blocks, [b""]):
            try:
                string = decoder.decode(block, final=not block)
            except UnicodeError as error:
                raise CorpusError(
                    f"{self._name}: is not {encoding} somewhere behind line {lines + 1}, byte {done} "
                    f"({error}); name the right encoding (encoding=...). No line of {encoding} can be skipped"
                ) from None
            done += len(block)
            lines += string.count("\n")
            yield string.encode("utf-8", "surrogatepass")

    def _pieces(self, blocks: Iterable[bytes]) -> Iterator[str]:
        """Yields decoded text: whole lines, or parts of a line longer than a block."""
        pending = b""
        for block in blocks:
            raw = pending + block
            if self._decoder is not None:
                end = raw.find(b"\n") + 1 or len(raw)
                yield self._part_of_line(self._decoder, raw[:end])
                raw = raw[end:]
            end = raw.rfind(b"\n") + 1
            if end:
                yield self._whole_lines(raw[:end])
            pending = raw[end:]
            if len(pending) >= BLOCK_BYTES:
                self._decoder = codecs.getincrementaldecoder(self._encoding)()
                yield self._part_of_line(self._decoder, pending)
                pending = b""
        if self._decoder is not None:
            yield self._part_of_line(self._decoder, pending + b"\n")
        elif pending:
            yield self._whole_lines(pending + b"\n")

    def _whole_lines(self, raw: bytes) -> str:
        try:
            string = self._good_lines(raw) if b"\0" in raw else raw.decode(self._encoding)
        except UnicodeError:
            string = self._good_lines(raw)
        return self._counted(raw, string)

    def _good_lines(self, raw: bytes) -> str:
        """Decodes lines of which at least one is bad, which is an error or is left out."""
        good = []
        offset = self._offset
        for number, line in enumerate(raw.split(b"\n")[:-1], start=self._lines + 1):
            try:
                string = line.decode(self._encoding)
            except UnicodeDecodeError as error:
                self._bad_line(number, offset + error.start, self._undecodable(error))
            else:
                if "\0" in string:
                    self._bad_line(number, offset + line.find(b"\0"), _NUL)
                else:
                    good.append(string + "\n")
            offset += len(line) + 1
        return "".join(good)

    def _part_of_line(self, decoder: codecs.IncrementalDecoder, raw: bytes) -> str:
        """Decodes part of a long line, the last if it has a line end; returns what ends with a token."""
        last = raw.endswith(b"\n")
        string = "\n" if last else ""
        fault: tuple[int, str] | None = None
        if not self._dropping:
            try:
                string = decoder.decode(raw, final=last)
            except UnicodeDecodeError as error:
                fault = (len(raw) - len(error.object) + error.start, self._undecodable(error))
            if (place := raw.find(b"\0")) >= 0:
                fault = (place, _NUL)
        if fault:
            self._bad_line(self._lines + 1, self._offset + fault[0], fault[1])
            string = "\n" if last else ""
            self._head, self._dropping = "", True
        string = self._head + self._counted(raw, string)
        if last:
            self._decoder, self._head, self._dropping = None, "", False
            return string
        end = self._segmenter.cut(string)
        self._head = string[end:]
        if len(self._head) > MAX_WORD:
            byte = self._offset - len(self._head.encode(self._encoding))
            raise CorpusError(
                f"{self._name}: line {self._lines + 1}, byte {byte}: a word of more than {MAX_WORD:,} "
                f"characters begins here ({self._head[:20]!r}...); expected words with something between "
                "them. Use segment=chinese or characters for text written without spaces, or check the file"
            )
        return string[:end]

    def _counted(self, raw: bytes, string: str) -> str:
        """Counts what was decoded, and drops a byte order mark before it."""
        if self._offset == 0:
            string = string.removeprefix("\ufeff")
        lines = raw.count(b"\n")
        self._lines += lines
        self._stats.lines += lines
        self._offset += len(raw)
        return string

    def _bad_line(self, line: int, byte: int, fault: str) -> None:
        if self._bad_lines == "error":
            raise CorpusError(
                f"{self._name}: line {line}, byte {byte}: {fault}. Check that this is a text file; "
                "bad_lines=skip leaves out such lines and counts them"
            )
        self._stats.skipped_lines += 1

    def _undecodable(self, error: UnicodeDecodeError) -> str:
        found = f"0x{error.object[error.start]:02x} is not {self._encoding} here ({error.reason})"
        if self._offset == 0 and error.object.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return f"{found}; the file begins like UTF-16, so use encoding=utf-16"
        return f"{found}; if the file has another encoding, name it (encoding=gb18030, big5, latin-1, ...)"

    def _without_tags(self, piece: str) -> str:
        """Drops and counts the lines that open and close documents."""
        if self._format == "auto" and not piece.isspace():
            self._format = "wikiextractor" if _OPENING_TAG.match(piece.lstrip()) else "lines"
        if self._format != "wikiextractor" or "doc" not in piece:
            return piece
        piece, opened = _OPENING_TAG.subn("", piece)
        self._stats.documents += opened
        return _CLOSING_TAG.sub("", piece)


def _has_plain_line_ends(encoding: str) -> bool:
    """Whether the byte 10 always is a line end, behind which decoding may begin afresh."""
    return not encoding.startswith(("iso2022", "hz", "utf-7")) and "\n".encode(encoding) == b"\n"
