"""The bytes of one source as tokens or lines: decoded, without document tags, block by block.

Memory does not grow with the source even if all of it is one line. Invalid input raises a
:class:`~wenmai.core.errors.CorpusError` that names source, line and byte; what is left out is counted.
"""

import codecs
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from wenmai.core.compressed import DamagedStream, decompressed
from wenmai.core.errors import CorpusError
from wenmai.text.normalise import normaliser
from wenmai.text.segment import segmenter
from wenmai.text.settings import TextConfig

__all__ = ["BLOCK_BYTES", "CorpusStats", "DocumentReader", "Line", "plain"]

BLOCK_BYTES = 1 << 20
MAX_WORD = 1 << 20
"""Characters of the longest word that is read: more than any word has, less than a file without separators."""


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
        repeated: Sentences of gold files (:mod:`wenmai.data.transliteration`) that were there before, left out.
        malformed: Lines of gold files that cannot be read, left out.
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
    repeated: int = 0
    malformed: int = 0


class Line(NamedTuple):
    """A line as it is written, or part of a line longer than a megabyte.

    Attributes:
        text: Its text, without the line end.
        ends: Whether the line ends here.
        begins_document: Whether a document begins here: at the beginning of a file, behind a blank line, in files of
            WikiExtractor behind a tag instead, and with ``format=documents`` behind every line. No blank line does.
    """

    text: str
    ends: bool
    begins_document: bool


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


def plain(chunks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Decompresses a file if its content says that it is compressed.

    Args:
        chunks: Its bytes.
        name: What to call it.

    Raises:
        CorpusError: if the compressed data cannot be decompressed, or the content is not text.
    """
    inside = _blocks(_undamaged(chunks, name))
    head = next(inside, b"")
    for what, magic in _NOT_TEXT.items():
        if magic.match(head):
            raise CorpusError(f"{name}: is {what}, not text; extract the text first, or leave the file out")
    yield from itertools.chain([head], inside)


def _undamaged(chunks: Iterable[bytes], name: str) -> Iterator[bytes]:
    try:
        yield from decompressed(chunks)
    except DamagedStream as damage:
        raise CorpusError(f"{name}: {damage}") from None


def beginning(chunks: Iterable[bytes], name: str, size: int) -> bytes:
    """Returns the first bytes of a source, decompressed; of one that cannot be read what comes before the damage."""
    found = b""
    with suppress(CorpusError):  # whoever reads all of it says so
        for chunk in plain(chunks, name):
            found += chunk
            if len(found) >= size:
                break
    return found[:size]


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
_TAG = re.compile(r"^[ \t]*(?:(<doc)(?:[ \t][^\n]*)?|</doc)>[ \t\r]*\n", re.MULTILINE)
_BOUNDARY = "\0"  # in place of a tag; no text holds a NUL


class DocumentReader:
    """Turns the bytes of one source into batches of tokens, or into lines.

    Bytes are gathered until they end with a line. A line longer than a block is decoded part by part, and
    each part is cut where this changes no token.

    Args:
        name: What to call the source.
        chunks: Its bytes.
        text: How text becomes tokens.
        stats: Counters of documents and lines to be increased.

    Attributes:
        empty: Whether nothing was read so far.
    """

    def __init__(self, name: str, chunks: Iterable[bytes], text: TextConfig, stats: CorpusStats) -> None:
        self.empty = True
        self._name = name
        self._chunks = chunks
        self._text = text
        self._stats = stats
        self._bad_lines = text.bad_lines
        self._format: str = text.format
        self._encoding = codecs.lookup(text.encoding).name.removesuffix("-sig")
        self._lines = 0  # lines before the next byte
        self._offset = 0  # of the next byte
        # Only while a line longer than a block is read:
        self._decoder: codecs.IncrementalDecoder | None = None
        self._head = ""  # decoded, but kept back because it may end within a token
        self._dropping = False  # the rest of the line, because it is bad

    def batches(self, rewrite: Callable[[str], str] | None = None) -> Iterator[list[str]]:
        """Yields the tokens of the source, normalised, with ``LINE_END`` at the end of each line.

        Args:
            rewrite: Changes decoded text before it is normalised, many lines at a time.

        Raises:
            CorpusError: if a line cannot be decoded, has a NUL or a word that never ends, or the layout differs.
        """
        cutter, normalise = segmenter(self._text.segment), normaliser(self._text)
        for piece in self._texts(cutter.cut):
            text = piece.replace(_BOUNDARY, "")
            if rewrite is not None:
                text = rewrite(text)
            if text:
                yield cutter.tokens(normalise(text))

    def lines(self) -> Iterator[Line]:
        """Yields the lines of the source as they are written, a long one in parts.

        Raises:
            CorpusError: as :meth:`batches` does.
        """
        begins, inside = True, False  # a document; a line whose first part was yielded
        for piece in self._texts(_before_space):
            parts = piece.replace("\r\n", "\n").split("\n")
            for behind, text in enumerate(parts, start=1 - len(parts)):
                if text.startswith(_BOUNDARY):
                    text, begins = text.lstrip(_BOUNDARY), True
                ends = behind < 0  # the last part has no line end
                if ends or text:
                    blank = ends and not inside and (not text or text.isspace())
                    yield Line(text, ends, begins and not blank)
                    begins = (blank and (begins or self._format == "lines")) or (ends and self._format == "documents")
                    inside = not ends

    def _texts(self, cut: Callable[[str], int]) -> Iterator[str]:
        """Yields decoded text with a boundary in place of each tag; ``cut`` says where a long line may be cut."""
        documents = self._stats.documents
        blocks = _blocks(self._chunks)
        if not _has_plain_line_ends(self._encoding):
            blocks = self._transcoded(blocks)
        for piece in self._pieces(blocks, cut):
            self.empty = False
            yield self._without_tags(piece)
        if self._format == "wikiextractor" and self._stats.documents == documents and not self.empty:
            raise CorpusError(
                f'{self._name}: has no line such as <doc id="1">, which format=wikiextractor expects; use format=lines'
            )

    def _transcoded(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Recodes text as UTF-8 where the byte of a line end may also be part of a character, as in UTF-16."""
        decoder = codecs.getincrementaldecoder(self._encoding)()
        encoding, self._encoding = self._encoding, "utf-8"
        done = lines = 0
        for block in itertools.chain(blocks, [b""]):
            try:
                string = decoder.decode(block, final=not block)
            except UnicodeError as error:
                raise CorpusError(
                    f"{self._name}: is not {encoding} somewhere after line {lines + 1}, byte {done} "
                    f"({error}); name the right encoding (encoding=...). No line of {encoding} can be skipped"
                ) from None
            done += len(block)
            lines += string.count("\n")
            yield string.encode("utf-8", "surrogatepass")

    def _pieces(self, blocks: Iterable[bytes], cut: Callable[[str], int]) -> Iterator[str]:
        """Yields decoded text: whole lines, or parts of a line longer than a block."""
        pending = b""
        for block in blocks:
            raw = pending + block
            if self._decoder is not None:
                end = raw.find(b"\n") + 1 or len(raw)
                yield self._part_of_line(self._decoder, raw[:end], cut)
                raw = raw[end:]
            end = raw.rfind(b"\n") + 1
            if end:
                yield self._whole_lines(raw[:end])
            pending = raw[end:]
            if len(pending) >= BLOCK_BYTES:
                self._decoder = codecs.getincrementaldecoder(self._encoding)()
                yield self._part_of_line(self._decoder, pending, cut)
                pending = b""
        if self._decoder is not None:
            yield self._part_of_line(self._decoder, pending + b"\n", cut)
        elif pending:
            yield self._whole_lines(pending + b"\n")

    def _whole_lines(self, raw: bytes) -> str:
        try:
            string = self._good_lines(raw) if b"\0" in raw else raw.decode(self._encoding)
        except UnicodeError:
            string = self._good_lines(raw)
        return self._counted(raw, string)

    def _good_lines(self, raw: bytes) -> str:
        """Decodes lines of which at least one is bad: an error, or left out."""
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

    def _part_of_line(self, decoder: codecs.IncrementalDecoder, raw: bytes, cut: Callable[[str], int]) -> str:
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
        end = cut(string)
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
        """Puts a boundary in place of the lines that open and close documents; counts the former."""
        if self._format == "auto" and piece.strip():
            tag = _TAG.match(piece.lstrip())
            self._format = "wikiextractor" if tag and tag[1] else "lines"
        if self._format != "wikiextractor" or "doc" not in piece:
            return piece
        self._stats.documents += _TAG.findall(piece).count("<doc")
        return _TAG.sub(_BOUNDARY, piece)


def _before_space(text: str) -> int:
    """Returns the index of the last white space, or 0: pieces of words begin with the space before them."""
    return next((place for place in range(len(text) - 1, 0, -1) if text[place].isspace()), 0)


def _has_plain_line_ends(encoding: str) -> bool:
    """Whether the byte 10 is always a line end, after which decoding may start anew."""
    return not encoding.startswith(("iso2022", "hz", "utf-7")) and "\n".encode(encoding) == b"\n"
