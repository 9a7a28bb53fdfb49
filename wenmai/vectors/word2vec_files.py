"""The files of word2vec.c, gensim, fastText and GloVe, both ways.

Text: a heading line ``words dimensions`` (GloVe leaves it out), then a line per word: the word and its
values, separated by spaces. Binary: the same heading, then per word its bytes, one space, the values as
little-endian float32, and (word2vec.c, not gensim) a newline.

Nothing in a file is trusted unchecked: memory grows with what was read, never with what the heading says, and a file
must end exactly where its heading says. The only damage that goes unnoticed is GloVe text cut between two lines.
"""

import codecs
import logging
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wenmai.core.compressed import compression, reading
from wenmai.core.errors import FormatError, SettingError, TruncatedError, UndecodableError
from wenmai.core.folder import writing
from wenmai.vectors.lengths import Vector

__all__ = ["read_counts", "read_rows", "write_counts", "write_rows"]

logger = logging.getLogger(__name__)

BLOCK_BYTES = 1 << 20
MAX_DIMENSIONS = 1 << 20
MAX_LINE_BYTES = 1 << 24
MAX_WORD_BYTES = 1 << 16
MAX_DIGITS = 18  # of a count
ALL = 1 << 62

HEADING = re.compile(rb"\s*(\d{1,19})[ \t]+(\d{1,19})\s*")
NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
PART_OF_NUMBER = re.compile(rb"(?=[+\-.\d])[+-]?\d*\.?\d*([eE][+-]?\d*)?")
NOT_IN_LINE = re.compile(rb"[\0\v\f\r]")
NOT_TEXT = re.compile(rb"[\0-\x08\x0e-\x1f]")
UNUSUAL_SPACE = (b"\0", b"\t", b"\v", b"\f", b"\r", b"  ")
UNWRITABLE = re.compile("[\0\t-\r ]")
NO_TEXT = re.compile("[\ud800-\udfff]")

Rows = tuple[list[bytes], NDArray[np.float32]]


class _Heading(NamedTuple):
    """What the beginning of a file says."""

    words: int | None  # None: GloVe's text does not say
    size: int
    binary: bool
    sample: bytes  # data that was read already


def read_rows(
    path: str | Path,
    *,
    binary: bool | None = None,
    limit: int | None = None,
    no_header: bool | None = None,
    encoding: str = "utf-8",
    errors: str = "strict",
) -> tuple[list[str], Vector]:
    """Reads words and their vectors; see :meth:`WordVectors.load_word2vec_format`.

    Returns:
        The words, each once, and their vectors (V, d), in the order of the file.

    Raises:
        FormatError: if the file is missing, damaged, truncated, or of another format.
        SettingError: if the arguments are invalid.
    """
    path = Path(path)
    if limit is not None and limit < 1:
        raise SettingError(f"limit must be at least 1 word, got {limit}")
    if binary and no_header:
        raise SettingError("binary files always have a heading line; no_header is for text")
    with reading(path) as file:
        heading = _heading(path, file, binary, no_header)
        rows = _rows_to_allocate(path, heading, limit)
        read = _binary_blocks if heading.binary else _text_blocks
        words, vectors = _collect(read(path, file, heading, limit), np.empty((rows, heading.size), np.float32))
    return _first_of_each(path, _decode(path, words, encoding, errors), vectors)


def write_rows(
    path: str | Path,
    words: Sequence[str],
    vectors: Vector,
    *,
    binary: bool = False,
    header: bool = True,
    total: int | None = None,
    append: bool = False,
) -> None:
    """Writes words and vectors, whole or not at all; see :meth:`WordVectors.save_word2vec_format`.

    Text values are the shortest that read back as exactly the same float32. Binary files have a newline after each
    word, as those of word2vec.c do.

    Args:
        path: the file, which is not compressed.
        words: V words.
        vectors: (V, d).
        binary: write float32 bytes instead of text.
        header: write the heading line; without it the text is GloVe's.
        total: how many words the heading names; V by default.
        append: add to the end of a file.

    Raises:
        FormatError: if a word is empty, holds whitespace, or is no valid Unicode.
        SettingError: if a binary file is wanted without a heading, or the name ends like a compressed file's.
    """
    if binary and not header and not append:
        raise SettingError("binary files always have a heading line; header=False is for text")
    if Path(path).suffix in (".gz", ".bz2", ".xz", ".zst"):
        raise SettingError(f"{path}: files are written uncompressed; leave {Path(path).suffix} out of the name")
    for word in words:
        if NO_TEXT.search(word):
            raise FormatError(
                f"{path}: cannot write the word {word!r}: this format is UTF-8, and the word has bytes that are not; "
                "the format fasttext keeps them, and projector replaces them"
            )
        if not word or UNWRITABLE.search(word):
            raise FormatError(
                f"{path}: cannot write the word {word!r}: whitespace separates words in this format, so none "
                f"may hold it or be empty; rename it, for example with '_'"
            )
    size = vectors.shape[1]
    step = max(1, BLOCK_BYTES // (4 * size))
    with Path(path).open("ab") if append else writing(path) as file:
        if header:
            file.write(b"%d %d\n" % (len(words) if total is None else total, size))
        for start in range(0, len(words), step):
            rows = vectors[start : start + step]
            if binary:
                values = (row.tobytes() for row in rows.astype("<f4", copy=False))
            else:
                values = (" ".join(map(str, row)).encode() for row in rows)
            named = zip(words[start : start + step], values, strict=True)
            file.writelines(b"%b %b\n" % (word.encode(), value) for word, value in named)


def read_counts(path: str | Path, *, encoding: str = "utf-8", errors: str = "strict") -> dict[str, int]:
    """Reads a vocabulary file of word2vec.c: lines of a word and its count.

    Raises:
        FormatError: if the file is missing or a line is of another form.
    """
    counts: dict[str, int] = {}
    with reading(path) as file:
        for number, line in enumerate(file, 1):
            fields = line.split()
            if len(fields) != 2 or not fields[1].isdigit() or len(fields[1]) > MAX_DIGITS:
                raise FormatError(f"{path}, line {number}: {_excerpt(line)} is not a word and its count")
            counts[_decode(Path(path), fields[:1], encoding, errors)[0]] = int(fields[1])
    return counts


def write_counts(path: str | Path, words: Sequence[str], counts: Sequence[int], *, append: bool = False) -> None:
    """Writes a vocabulary file of word2vec.c."""
    with Path(path).open("ab") if append else writing(path) as file:
        file.writelines(b"%b %d\n" % (word.encode(), count) for word, count in zip(words, counts, strict=True))


def _heading(path: Path, file: BinaryIO, binary: bool | None, no_header: bool | None) -> _Heading:
    line = file.readline(MAX_LINE_BYTES)
    if not line:
        raise FormatError(f"{path}: the file is empty; expected word vectors")
    if line.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise FormatError(f"{path}: this is UTF-16 text; convert the file to UTF-8")
    line = line.removeprefix(b"\xef\xbb\xbf")
    if not no_header and (found := HEADING.fullmatch(line)):
        words, size = int(found[1]), int(found[2])
        if not (words > 0 and 0 < size <= MAX_DIMENSIONS):
            raise FormatError(
                f"{path}, line 1: the heading says {words} words of {size} dimensions; expected at least one "
                f"word and 1 to {MAX_DIMENSIONS} dimensions: the heading is damaged"
            )
        sample = file.read(4 * size + MAX_WORD_BYTES)
        return _Heading(words, size, _is_binary(sample, size) if binary is None else binary, sample)
    fields = line.split(None, MAX_DIMENSIONS + 1)
    size = len(fields) - 1
    numeric = size > (0 if no_header else 1) and all(map(NUMBER.fullmatch, fields[1:]))
    if binary or no_header is False or not numeric:
        raise FormatError(
            f"{path}, line 1: {_excerpt(line)} is no heading 'words dimensions'"
            + ("" if binary or no_header is False else ", nor a word and its values")
            + "; is this a file of word vectors?"
        )
    return _Heading(None, size, False, line)


def _is_binary(sample: bytes, size: int) -> bool:
    """Whether what follows the heading is no line of a word and ``size`` numbers, nor a damaged one.

    A damaged line is text that still has a number after its word; floats whose bytes happen to be characters
    seldom spell one.
    """
    fields = sample.partition(b"\n")[0].split()
    numbers = [NUMBER.fullmatch(field) is not None for field in fields[1:]]
    if len(fields) > size and all(numbers[-size:]):
        return False
    if NOT_TEXT.search(sample) or not any(numbers):
        return True
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return True
    return False


def _rows_to_allocate(path: Path, heading: _Heading, limit: int | None) -> int:
    """How many rows to allocate at once: what the heading says if an uncompressed file is large enough."""
    if heading.words is None or compression(path) is not None:
        return 0
    wanted = min(heading.words, limit or ALL)
    smallest = wanted * ((4 if heading.binary else 2) * heading.size + 2)
    file_size = path.stat().st_size
    if smallest <= file_size:  # the last newline may be missing, but the heading line is longer than that
        return wanted
    if limit is not None:
        return 0
    raise TruncatedError(
        f"{path}, line 1: the heading says {heading.words} words of {heading.size} dimensions, at least "
        f"{smallest} bytes, but the file has {file_size}: it is truncated or damaged"
    )


def _collect(blocks: Iterator[Rows], vectors: NDArray[np.float32]) -> Rows:
    """Puts the blocks together in ``vectors``, which grows with what was read if it is too small."""
    words: list[bytes] = []
    size = vectors.shape[1]
    for block_words, rows in blocks:
        end = len(words) + len(rows)
        if end > len(vectors):
            vectors.resize((max(end, 2 * len(vectors)), size), refcheck=False)
        vectors[len(words) : end] = rows
        words += block_words
    vectors.resize((len(words), size), refcheck=False)
    return words, vectors


def _binary_blocks(path: Path, file: BinaryIO, heading: _Heading, limit: int | None) -> Iterator[Rows]:
    total, row_bytes = heading.words or 0, 4 * heading.size
    wanted = min(total, limit or ALL)
    data, done = heading.sample, 0
    while True:
        words: list[bytes] = []
        offsets: list[int] = []
        begin = 0
        while done + len(words) < wanted:
            space = data.find(b" ", begin)
            if space < 0 or space + row_bytes >= len(data):
                break
            words.append(data[begin:space].removeprefix(b"\n"))
            offsets.append(space + 1)
            begin = space + 1 + row_bytes
        if words:
            windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data, np.uint8), row_bytes)
            rows = windows[offsets].view("<f4")
            good = np.isfinite(rows).all(axis=1)
            good &= [bool(word) and b"\n" not in word and b"\0" not in word for word in words]
            if not good.all():
                bad = int(np.argmin(good))
                raise FormatError(
                    f"{path}, word {done + bad + 1} of {total}: {_excerpt(words[bad])} is no word, or its "
                    f"values are not finite; the heading does not fit the data, or the file is damaged"
                )
            yield words, rows
        done += len(words)
        data = data[begin:]
        if done == wanted:
            break
        if len(data) > MAX_WORD_BYTES and b" " not in data[:MAX_WORD_BYTES]:
            raise FormatError(
                f"{path}, word {done + 1} of {total}: no space ends the word within {MAX_WORD_BYTES} bytes; "
                f"the heading does not fit the data, or the file is damaged"
            )
        more = file.read(max(BLOCK_BYTES, row_bytes + MAX_WORD_BYTES))
        if not more:
            raise TruncatedError(_ends_early(path, done, total))
        data += more
    if done == total and (data + file.read(2)).removeprefix(b"\n"):
        raise FormatError(
            f"{path}: there is more data after the {total} words of the heading, which is wrong or damaged"
        )


def _text_blocks(path: Path, file: BinaryIO, heading: _Heading, limit: int | None) -> Iterator[Rows]:
    wanted = min(heading.words or ALL, limit or ALL)
    first_line = 1 if heading.words is None else 2
    data, done, ended = heading.sample, 0, False
    lines: list[bytes] = []
    while done < wanted and not ended:
        more = file.read(BLOCK_BYTES)
        data += more
        ended = not more
        # the last line waits for the next block: it may be unfinished, or followed by empty lines only
        end = len(data) if ended else data.rstrip().rfind(b"\n") + 1
        if end == 0 and len(data) > MAX_LINE_BYTES:
            raise FormatError(f"{path}, line {first_line + done}: it does not end within {MAX_LINE_BYTES} bytes")
        block, data = data[:end], data[end:]
        if not block:
            continue
        unfinished = ended and not block[-1:].isspace()
        block = block.replace(b"\r\n", b"\n").replace(b" \n", b"\n")  # word2vec.c ends lines with a space
        lines = (block.rstrip() if ended else block[:-1]).split(b"\n")
        taken = lines[: wanted - done]
        if unfinished and len(taken) == len(lines):
            raise TruncatedError(
                f"{path}, line {first_line + done + len(lines) - 1}: it does not end in a newline, so its "
                f"last value may be cut off; if the file is whole, add a newline"
            )
        yield _parse(path, taken, heading.size, first_line + done)
        done += len(taken)
        lines = lines[len(taken) :]
    if heading.words is not None and done < wanted:
        raise TruncatedError(_ends_early(path, done, heading.words))
    if done == heading.words and (lines or (data + file.read(MAX_LINE_BYTES)).strip()):
        raise FormatError(
            f"{path}, line {first_line + done}: there are more lines than the {done} words of the heading, "
            f"which is wrong or damaged"
        )


def _parse(path: Path, lines: list[bytes], size: int, first_line: int) -> Rows:
    """Parses regular lines in one go; anything unusual is parsed, or refused, line by line."""
    block = b"\n".join(lines)
    if not any(space in block for space in UNUSUAL_SPACE):
        parts = [line.partition(b" ") for line in lines]
        if all(word and values.count(b" ") == size - 1 for word, _, values in parts):
            rows = _numbers(b" ".join([values for _, _, values in parts]))
            if rows is not None and len(rows) == size * len(lines) and np.isfinite(rows).all():
                return [word for word, _, _ in parts], rows.reshape(-1, size)
    words, vectors = [], np.empty((len(lines), size), np.float32)
    for number, line in enumerate(lines):
        fields = line.rsplit(None, size)
        word = fields[0] if fields else b""
        with np.errstate(over="ignore"):
            good = len(fields) == size + 1 and all(map(NUMBER.fullmatch, fields[1:]))
            good = good and not line[:1].isspace() and not NOT_IN_LINE.search(line) and not _has_numbers(word)
            if good:
                vectors[number] = [float(value) for value in fields[1:]]
        if not good or not np.isfinite(vectors[number]).all():
            raise FormatError(
                f"{path}, line {first_line + number}: {_excerpt(line)} is not a word and {size} finite "
                f"numbers; the file is damaged, or not of this format"
            )
        words.append(word)
    return words, vectors


def _has_numbers(word: bytes) -> bool:
    """Whether a word with spaces ends in part of a number, or has one in it: a line too long, or run into another."""
    first, *parts = word.split()
    if not parts or {first, *parts} == {b"."}:  # GloVe's file of 840 G words has ". . ."
        return False
    return PART_OF_NUMBER.fullmatch(parts[-1]) is not None or any(map(NUMBER.fullmatch, parts))


def _numbers(text: bytes) -> NDArray[np.float32] | None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # how older numpy reports what is not a number
        try:
            return np.fromstring(text, dtype=np.float32, sep=" ")
        except (ValueError, DeprecationWarning):
            return None


def _decode(path: Path, words: list[bytes], encoding: str, errors: str) -> list[str]:
    try:
        name = codecs.lookup(encoding).name
        if name == "utf-8":
            return b"\n".join(words).decode("utf-8", errors).split("\n") if words else []
        return [word.decode(encoding, errors) for word in words]
    except UnicodeDecodeError as problem:
        whole = problem.object  # a word, or all of them
        number = words.index(whole) if whole in words else whole.count(b"\n", 0, problem.start)
        raise UndecodableError(
            f"{path}, word {number + 1}: {_excerpt(words[number])} is not {name.upper()}; if the whole file is in "
            f"another encoding, convert it first (iconv -f ENCODING -t utf-8); to take such words as far as they go, "
            f"read the file in Python by WordVectors.load_word2vec_format with unicode_errors='replace' "
            f"or 'ignore'",
            problem,
        ) from None
    except LookupError:
        raise SettingError(f"there is no encoding {encoding!r}, or no way {errors!r} to treat what is not") from None


def _first_of_each(path: Path, words: list[str], vectors: Vector) -> tuple[list[str], Vector]:
    rows = {word: row for row, word in zip(range(len(words) - 1, -1, -1), reversed(words), strict=True)}
    if len(rows) == len(words):
        return words, vectors
    again = next(row for row, word in enumerate(words) if rows[word] != row)
    logger.warning(
        "%s: left out %d of %d vectors, whose words occurred before; the first is %r (word %d)",
        path,
        len(words) - len(rows),
        len(words),
        words[again],
        again + 1,
    )
    kept = sorted(rows.values())
    return [words[row] for row in kept], vectors[kept]


def _ends_early(path: Path, done: int, total: int) -> str:
    return f"{path}: the file ends after {done} of {total} words; it is truncated, or its heading is wrong"


def _excerpt(data: bytes) -> str:
    text = data[:40].decode("utf-8", "backslashreplace").strip()
    return repr(text + "…" if len(data) > 40 else text)
