"""Other ways to read the same files, short and slow, that say whether what was accepted is what a file holds."""

import math
import re
import tempfile
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path

import numpy as np

from wenmai.core.compressed import reading
from wenmai.data.readers import MinimalPair
from wenmai.formats.fasttext import write_fasttext
from wenmai.training.run import Run

__all__ = ["FAITHFUL", "decompressed_by_others", "lines_of", "naive_minimal_pairs", "naive_pairs"]

_HEADINGS = (("good", "bad"), ("sentence_good", "sentence_bad"))  # of minimal pairs
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def _content(path: Path) -> bytes:
    with reading(path) as file:
        return file.read()


def decompressed_by_others(path: Path) -> bytes:
    """Decompresses a file with one call of a library."""
    import bz2
    import gzip
    import io
    import lzma

    import zstandard

    data = path.read_bytes()
    if data.startswith(b"\x1f\x8b\x08"):
        return gzip.decompress(data)
    if re.match(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)", data):
        return bz2.decompress(data)
    if data.startswith(b"\xfd7zXZ\0"):
        return lzma.decompress(data)
    if re.match(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18", data):
        with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True) as stream:
            return stream.read()
    return data


def lines_of(path: Path, found: str) -> str | None:
    """Compares the lines that were found with those of the file."""
    text = _content(path).decode("utf-8-sig")
    one, other = (side.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n") for side in (found, text))
    return None if one == other else f"{len(found)} characters, not those of the file"


def naive_pairs(path: Path, found: list[tuple[str, str]]) -> str | None:
    """Compares pairs with the first two columns of the lines."""
    lines = _content(path).decode("utf-8-sig").split("\n")
    expected = [tuple(cell.strip() for cell in line.split("\t")[:2]) for line in lines if "\t" in line]
    wrong = [pair for pair in expected if all(pair)] != found
    return f"{len(found)} pairs, not those of the {len(lines)} lines" if wrong else None


def naive_minimal_pairs(path: Path, found: list[MinimalPair]) -> str | None:
    """Each line but blank ones and a heading must be a pair of two sentences that stand in it."""
    lines = [line for line in _content(path).decode("utf-8-sig").split("\n") if line.strip()]
    if path.suffix == ".tsv":
        expected = [tuple(cell.strip() for cell in line.split("\t")[:2]) for line in lines]
        expected = [pair for pair in expected if tuple(map(str.lower, pair)) not in _HEADINGS]
        wrong = expected != [(pair.good, pair.bad) for pair in found]
    else:
        wrong = len(lines) != len(found)
    if wrong or any(not pair.good or pair.good == pair.bad for pair in found):
        return f"{len(found)} pairs, not those of the {len(lines)} lines"
    return None


def _vectors(path: Path, run: Run) -> str | None:
    """The words and numbers of vectors must be all those of the file, in their places."""
    content, vectors = _content(path).removeprefix(b"\xef\xbb\xbf"), run.model
    rows = _binary_rows(content, vectors.vector_size)
    if rows is None or [*rows] != vectors.index_to_key:
        first, _, rest = content.partition(b"\n")
        body = rest if len(first.split()) == 2 and vectors.vector_size > 1 else content
        lines = [line.split() for line in re.split(rb"[\n\v\f\r]", body) if line.strip()]
        numbers = sum(_NUMBER.fullmatch(field) is not None for fields in lines for field in fields[1:])
        repeated = len(lines) - len({b" ".join(fields[: -vectors.vector_size]) for fields in lines})
        if numbers != (len(vectors) + repeated) * vectors.vector_size:
            return f"{len(vectors)} words of {vectors.vector_size} numbers, but {numbers} numbers stand in the file"
        if any(re.search("[\t-\r\x1c-\x1f]", word) for word in vectors.index_to_key):
            return "a word has white space of lines in it"
        rows = {}
        for fields in lines:
            word = b" ".join(fields[: -vectors.vector_size]).decode()
            rows.setdefault(word, np.array([float(field) for field in fields[-vectors.vector_size :]], np.float32))
        if [*rows] != vectors.index_to_key:
            return f"the words are {vectors.index_to_key[:5]}, in the file {[*rows][:5]}"
    expected = np.array(list(rows.values()), np.float32)
    return None if np.array_equal(expected, vectors.vectors) else "a number is not that of the file"


def _binary_rows(content: bytes, size: int) -> Mapping[str, np.ndarray] | None:
    head, _, data = content.partition(b"\n")
    try:
        words, width = (int(field) for field in head.split())
    except ValueError:
        return None
    rows: dict[str, np.ndarray] = {}
    if width != size:
        return None
    for _ in range(words):
        word, space, data = data.removeprefix(b"\n").partition(b" ")
        if not space or len(data) < 4 * width:
            return None
        try:
            rows.setdefault(word.decode(), np.frombuffer(data[: 4 * width], "<f4"))
        except UnicodeDecodeError:
            return None
        data = data[4 * width :]
    return rows


def _ngrams(path: Path, run: Run) -> str | None:
    """Each n-gram of the file must be in the model, with its numbers."""
    from wenmai.runs.formats import export_run

    target = run.path.parent / "again.arpa"
    export_run(run, "arpa", target)
    given, kept = _arpa_lines(_content(path)), _arpa_lines(target.read_bytes())
    for words, (log_prob, backoff) in given.items():
        if words == (b"<s>",):
            continue
        if words not in kept:
            return f"the n-gram {b' '.join(words)!r} is lost"
        for one, other in zip((log_prob, backoff), kept[words], strict=True):
            if not math.isclose(max(one, -99), max(other, -99), rel_tol=1e-4, abs_tol=1e-5):
                return f"{b' '.join(words)!r} has {other}, in the file {one}"
    return None


def _arpa_lines(content: bytes) -> dict[tuple[bytes, ...], tuple[float, float]]:
    found: dict[tuple[bytes, ...], tuple[float, float]] = {}
    order = 0
    for line in (raw.strip(b" \t\r\n") for raw in BytesIO(content)):
        if title := re.fullmatch(rb"\\(\d+)-grams:", line):
            order = int(title[1])
        elif line == b"\\end\\":
            break
        elif order and line:
            fields = [_spelling(field) for field in re.split(rb"[ \t]+", line)]
            backoff = float(fields[order + 1]) if len(fields) > order + 1 else 0.0
            found.setdefault(tuple(fields[1 : order + 1]), (float(fields[0]), backoff))  # the first of two counts
    return found


def _spelling(field: bytes) -> bytes:
    """A word of a file as it is written again: in UTF-8, read as Latin-1 if it is not."""
    try:
        return field.decode().replace("<UNK>", "<unk>").encode()
    except UnicodeDecodeError:
        return field.decode("latin-1").encode()


def _fasttext(path: Path, run: Run) -> str | None:
    """What is written again must be what was read."""
    given = path.read_bytes()
    with tempfile.TemporaryDirectory(dir=run.path.parent) as folder:
        again = Path(folder) / path.name
        write_fasttext(again, run.task.load_base(run.model_folder))
        written = again.read_bytes()
    if written == given:
        return None
    place = next((at for at, (one, other) in enumerate(zip(given, written, strict=False)) if one != other), -1)
    return f"{len(given)} bytes were read, {len(written)} are written again; the first other one is {place}"


FAITHFUL: dict[str, Callable[[Path, Run], str | None]] = {
    "word2vec": _vectors,
    "arpa": _ngrams,
    "fasttext": _fasttext,
}
"""By the name of a format: what is wrong with a run that was imported from a file, or None."""
