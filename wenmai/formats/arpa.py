r"""ARPA files: n-gram models as text, which KenLM, SRILM and speech recognisers read.

``\data\``, a line ``ngram N=COUNT`` for each order, then for each order ``\N-grams:`` and lines of a logarithm to base
10, the words, and (but for the highest order) the logarithm of the back-off weight; ``\end\`` closes the file. Only
tabs, spaces and line ends separate words.
"""

import math
import re
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from wenmai.core.compressed import reading
from wenmai.core.errors import FormatError, SettingError
from wenmai.core.folder import writing
from wenmai.formats.format import Format, Imported
from wenmai.kernels.arpa import (
    MISPLACED,
    MOST_BACKOFF,
    NOT_A_NUMBER,
    POSITIVE,
    TOO_LARGE,
    UNKNOWN_WORD,
    find_places,
    format_lines,
    parse_lines,
)
from wenmai.kernels.ngram_lookup import BEGIN, CONTEXT, INVERSE, LEAF, ROOT
from wenmai.kernels.ngrams import hashed_words
from wenmai.models.ngram import SPECIALS, Ngram, NgramConfig, Words
from wenmai.models.ngram.config import MAX_ORDER
from wenmai.text.settings import TextConfig

__all__ = ["FORMATS", "read_arpa", "write_arpa"]

_BLOCK = 1 << 22
_LONGEST_LINE = 1 << 20
_MOST_REMARKS = 10_000
_FEWEST_BYTES = 4  # of a line of n-grams
_NO_UNKNOWN = -100.0 * math.log(10)  # what KenLM gives an unknown word where the file has none
_PROBLEMS = {
    NOT_A_NUMBER: "expected a logarithm to base 10 where there is none",
    MISPLACED: "expected a logarithm, {order} words and perhaps a back-off weight",
    UNKNOWN_WORD: "has a word that is not among the 1-grams",
    POSITIVE: "has a positive logarithm, which no probability has",
    TOO_LARGE: f"has a back-off weight above 1e{MOST_BACKOFF:.0f}",
}
_NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf)", re.ASCII | re.IGNORECASE)
_WORD_OF_TEXT = "# <unk> is a word of the text"
"""A remark of ours before the counts, as the format has no field for it. Other readers skip it."""
_BLANK = re.compile(rb"[ \t\r\n]*\n")
_CAPITALS = re.compile(rb"(?<=[ \t])<UNK>(?=[ \t\r\n]|\Z)")
_Words = npt.NDArray[np.int32]
_Floats = npt.NDArray[np.float32]
_Section = tuple[_Words, _Floats, _Floats]


def write_arpa(path: str | Path, model: Ngram) -> None:
    """Writes a model as an ARPA file, whole or not at all; zero probabilities as -99, as SRILM does.

    A remark on the first line keeps ``unknown_is_word``, if it is true.

    Raises:
        SettingError: for an add-k model, whose unseen words have no back-off weights.
        FormatError: if the model is damaged.
    """
    if model.config.smoothing == "add-k" and model.config.order > 1:
        raise SettingError(
            "add-k gives all unseen words the same probability, which an ARPA file, where shorter n-grams decide, "
            "cannot store; train with another smoothing, or order=1"
        )
    vocab, order = model.vocab, model.config.order
    longest = int(np.diff(vocab.bounds).max())
    out = np.empty(max(_BLOCK, 4 * order * (longest + 32)), np.uint8)
    with writing(path) as file:
        if model.unknown_is_word:
            file.write(f"{_WORD_OF_TEXT}\n".encode())
        file.write(b"\\data\\\n")
        for number, count in enumerate(model.ngrams, 1):
            file.write(f"ngram {number}={count}\n".encode())
        words = np.arange(len(vocab), dtype=np.int32)[:, None]
        first_id = 0
        for number in range(1, order + 1):
            file.write(f"\n\\{number}-grams:\n".encode())
            if number > 1:
                bounds = model.contexts["first"][first_id - len(words) : first_id + 1].astype(np.int64)
                records, sizes = _records(model, number, first_id), np.diff(bounds)
                last = records["word"] * INVERSE
                if (sizes < 0).any() or sizes.sum() != len(records) or (last >= len(vocab)).any():
                    raise FormatError(f"{path}: is not written: the model's n-grams are damaged; train it again")
                words = np.column_stack([np.repeat(words, sizes, axis=0), last.astype(np.int32)])
            records = _records(model, number, first_id)
            log_probs = np.array(records["log_prob"])
            if number == 1:
                log_probs[BEGIN] = 0  # as lmplz does: it is never predicted
            backoffs = np.array(records["backoff"]) if number < order else np.zeros(0, np.float32)
            begin = 0
            while begin < len(words):
                begin, size = format_lines(
                    words, log_probs, backoffs, vocab.text, vocab.bounds, begin, order * (longest + 1) + 64, out
                )
                file.write(out[:size].data)
            first_id += len(words)
        file.write(b"\n\\end\\\n")


def _records(model: Ngram, number: int, first_id: int) -> npt.NDArray[np.void]:
    count = model.ngrams[number - 1]
    if number == model.config.order and number > 1:
        return model.leaves
    return model.contexts[first_id : first_id + count]


def read_arpa(path: str | Path) -> Ngram:
    """Reads an ARPA file, plain or compressed.

    Contexts and suffixes that the file leaves out are added, with the probabilities that follow from back-off. A file
    without ``<unk>`` gives unknown words 10 to the power of -100, as KenLM does. No file names its smoothing. Only our
    files say whether ``<unk>`` in a text is an unknown word; in others it is, as in KenLM.

    Raises:
        FormatError: if the file is not an ARPA file, or is truncated or damaged, or its counts are wrong; the message
            names the line.
    """
    with reading(path) as file:
        source = _Source(file, str(path))
        counts, unknown_is_word = _head(source)
        vocab, unigrams = _unigrams(source, counts[0], highest=len(counts) == 1)
        sections = [unigrams]
        for order in range(2, len(counts) + 1):
            sections.append(_ngrams(source, order, counts[order - 1], vocab, highest=order == len(counts)))
        _expect(source, "\\end\\")
    try:
        model = _assembled(vocab, sections, str(path))
    except _MissingError:
        model = _assembled(vocab, _completed(sections), str(path))
    model.unknown_is_word = unknown_is_word
    return model


class _MissingError(Exception):
    """A context or suffix is not in the file."""


class _Source:
    """The bytes of a file, in blocks of whole lines, with the number of the line.

    Args:
        file: The file, decompressed.
        name: For messages.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.name = name
        self.line = 1
        self._file = file
        self._bytes = b""
        self._at = 0  # what comes before was taken
        self._ended = False

    def block(self) -> bytes:
        """Returns some whole lines that were not taken yet; nothing at the end of the file."""
        while not self._ended and len(self._bytes) - self._at < _BLOCK:
            self._more()
        while not self._ended and self._bytes.rfind(b"\n", self._at) < 0:
            self._more()
        return self._bytes[self._at : None if self._ended else self._bytes.rfind(b"\n") + 1]

    def take(self, size: int) -> None:
        """Takes bytes of what :meth:`block` returned."""
        self.line += self._bytes.count(b"\n", self._at, self._at + size)
        self._at += size

    def next_line(self) -> str | None:
        """Takes a line, without its end and white space around; None at the end of the file."""
        while (end := self._bytes.find(b"\n", self._at)) < 0 and not self._ended:
            self._more()
        if end < 0 and self._at == len(self._bytes):
            return None
        line = self._bytes[self._at : end if end >= 0 else None]
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise self.problem(f"is not UTF-8 (byte {error.start} of the line)") from None
        self.take(len(line) + (end >= 0))
        return text.strip(" \t\r")

    def skip_blank(self) -> None:
        """Takes the blank lines before the next line that is not."""
        while found := _BLANK.match(self._bytes, self._at):
            self.take(found.end() - self._at)
            if self._at == len(self._bytes) and not self._ended:
                self._more()

    def at_title(self) -> bool:
        """Whether the next line begins with a backslash."""
        while self._at == len(self._bytes) and not self._ended:
            self._more()
        return self._bytes[self._at : self._at + 1] == b"\\"

    def problem(self, what: str, line: int | None = None) -> FormatError:
        """The error of a line, by default of the next."""
        return FormatError(f"{self.name}: line {line or self.line} {what}")

    def _more(self) -> None:
        piece = self._file.read(_BLOCK)
        self._ended = not piece
        if len(self._bytes) - self._at > _BLOCK + _LONGEST_LINE:
            raise self.problem(f"is longer than {_LONGEST_LINE:,} bytes; this is not an ARPA file")
        self._bytes = self._bytes[self._at :] + piece
        self._at = 0


def _head(source: _Source) -> tuple[list[int], bool]:
    r"""Reads remarks, ``\data\``, the counts, and the blank lines behind.

    Returns:
        The counts, and whether ``<unk>`` was a word of the text.
    """
    unknown_is_word, remarks = False, 0
    source.skip_blank()
    while (line := source.next_line()) is not None and (not line or line.startswith("#")):
        unknown_is_word |= line == _WORD_OF_TEXT
        remarks += 1
        if remarks > _MOST_REMARKS:
            raise source.problem(f"follows {_MOST_REMARKS:,} remarks, more than any ARPA file has")
        source.skip_blank()
    if line != "\\data\\":
        raise source.problem("does not begin an ARPA file: expected \\data\\", max(1, source.line - 1))
    counts: list[int] = []
    while line := source.next_line():
        found = re.fullmatch(r"ngram\s+(\d{1,4})\s*=\s*(\d{1,18})", line, re.ASCII)
        if not found or int(found[1]) != len(counts) + 1:
            raise source.problem(f"should be `ngram {len(counts) + 1}=COUNT`, but is {line[:80]!r}", source.line - 1)
        counts.append(int(found[2]))
    if not counts or counts[0] == 0:
        raise source.problem("should give the number of 1-grams", source.line - 1)
    if len(counts) > MAX_ORDER:
        raise FormatError(f"{source.name}: has {len(counts)}-grams; at most {MAX_ORDER}-grams can be read")
    if sum(counts) >= ROOT:
        raise FormatError(f"{source.name}: announces {sum(counts):,} n-grams; at most {ROOT - 1:,} can be read")
    return counts, unknown_is_word


def _expect(source: _Source, title: str) -> None:
    """Takes the title of a section, and blank lines before."""
    line: str | None = ""
    while line == "":
        source.skip_blank()
        line = source.next_line()
    if line is None:
        raise FormatError(f"{source.name}: ends at line {source.line}, where {title} was expected; it was cut short")
    if line != title:
        raise source.problem(f"should be {title}, but is {line[:80]!r}", source.line - 1)


def _unigrams(source: _Source, count: int, *, highest: bool) -> tuple[Words, _Section]:
    """Reads the words: the marks first, then all others in the order of the file."""
    _expect(source, "\\1-grams:")
    found: dict[str, tuple[float, float]] = {}
    while not source.at_title() and (line := source.next_line()):
        fields = re.split("[ \t]+", line)
        if len(fields) not in (2, 3):
            raise source.problem(_PROBLEMS[MISPLACED].format(order=1), source.line - 1)
        if not all(_NUMBER.fullmatch(field) for field in fields[::2]):
            raise source.problem(_PROBLEMS[NOT_A_NUMBER], source.line - 1)
        log_prob, backoff = float(fields[0]), float(fields[2]) if len(fields) == 3 else 0.0
        if backoff > MOST_BACKOFF:
            raise source.problem(_PROBLEMS[TOO_LARGE], source.line - 1)
        word = "<unk>" if fields[1] == "<UNK>" else fields[1]
        if log_prob > 0 and word != "<s>":
            raise source.problem(_PROBLEMS[POSITIVE], source.line - 1)
        if highest and backoff != 0:
            raise source.problem("has a back-off weight, which the highest order cannot have", source.line - 1)
        if word in found:
            raise source.problem(f"repeats the word {word[:80]!r}", source.line - 1)
        found[word] = (log_prob * math.log(10), backoff * math.log(10))
    if len(found) != count:
        raise FormatError(
            f"{source.name}: has {len(found):,} 1-grams up to line {source.line}, but announces {count:,}"
        )
    found.setdefault("<unk>", (_NO_UNKNOWN, 0.0))
    for mark in SPECIALS[1:]:
        if mark not in found:
            raise FormatError(f"{source.name}: lacks {mark} among its 1-grams; without it no sentence can be scored")
    found["<s>"] = (-math.inf, found["<s>"][1])
    names = [*SPECIALS, *(word for word in found if word not in SPECIALS)]
    values = np.array([found[name] for name in names], np.float32)
    words = np.arange(len(names), dtype=np.int32)[:, None]
    return Words.of(names), (words, values[:, 0].copy(), values[:, 1].copy())


def _ngrams(source: _Source, order: int, count: int, vocab: Words, *, highest: bool) -> _Section:
    """Reads the n-grams of an order from 2 on."""
    _expect(source, f"\\{order}-grams:")
    parts: list[_Section] = [(np.zeros((0, order), np.int32), np.zeros(0, np.float32), np.zeros(0, np.float32))]
    done = 0
    while True:
        block = source.block()
        if not block:
            break
        if b"<UNK>" in block:
            block = _CAPITALS.sub(b"<unk>", block)
        raw = np.frombuffer(block, np.uint8)
        most = min(count - done + 1, raw.size // _FEWEST_BYTES + 1)
        words, log_probs, backoffs = np.empty((most, order), np.int32), *(np.empty(most, np.float32) for _ in range(2))
        read, place, problem = parse_lines(
            raw, order, vocab.text, vocab.bounds, vocab.slots, words, log_probs, backoffs
        )
        source.take(place)
        if problem:
            raise source.problem(_PROBLEMS[problem].format(order=order))
        parts.append((words[:read].copy(), log_probs[:read].copy(), backoffs[:read].copy()))
        done += read
        if highest and (backoffs[:read] != 0).any():
            raise FormatError(f"{source.name}: the {order}-grams, the highest order, have back-off weights")
        if done > count or place < raw.size:
            break
    if done != count:
        more = "more than" if done > count else f"{done:,}, not"
        raise FormatError(
            f"{source.name}: up to line {source.line} there are {more} the {count:,} {order}-grams announced"
        )
    words, log_probs, backoffs = (np.concatenate(items) for items in zip(*parts, strict=True))
    return words, log_probs, backoffs


def _assembled(vocab: Words, sections: list[_Section], name: str) -> Ngram:
    """Arranges n-grams for the look-up of a model.

    Raises:
        _MissingError: if a context or suffix is not there.
        FormatError: if an n-gram is there twice.
    """
    order, counts = len(sections), [len(section[0]) for section in sections]
    contexts = np.zeros(sum(counts[: max(1, order - 1)]) + 1, CONTEXT)
    leaves = np.zeros(counts[-1] if order > 1 else 0, LEAF)
    _, log_probs, backoffs = sections[0]
    contexts["word"][: counts[0]] = hashed_words(counts[0])
    contexts["log_prob"][: counts[0]] = log_probs
    contexts["backoff"][: counts[0]] = backoffs
    contexts["suffix"][: counts[0]] = ROOT
    begin = 0  # of the order before
    keys = hashed_words(counts[0])
    for number in range(2, order + 1):
        words, log_probs, backoffs = sections[number - 1]
        context, suffix = (np.empty(len(words), np.int64) for _ in range(2))
        find_places(contexts, leaves[:0], words, log_probs, context, suffix)
        if (context < 0).any() or (suffix < 0).any():
            raise _MissingError
        last = keys[words[:, -1]]
        arranged = np.lexsort((last, context))
        context, last = context[arranged], last[arranged]
        twice = np.flatnonzero((context[1:] == context[:-1]) & (last[1:] == last[:-1]))
        if twice.size:
            ngram = " ".join([vocab[word] for word in words[arranged[twice[0]]].tolist()])
            raise FormatError(f"{name}: has the {number}-gram {ngram[:200]!r} twice")
        middle, end = begin + counts[number - 2], begin + counts[number - 2] + counts[number - 1]
        records = leaves if number == order else contexts[middle:end]
        records["word"], records["log_prob"] = last, log_probs[arranged]
        records["suffix"] = suffix[arranged]
        if number < order:
            records["backoff"] = backoffs[arranged]
        first = np.searchsorted(context, np.arange(begin, middle + 1))
        contexts["first"][begin : middle + 1] = middle + first
        contexts["first"][middle + 1 : end + 1] = end  # nothing follows yet
        begin = middle
    if order == 1:
        contexts["first"] = counts[0]
    return Ngram(NgramConfig(order=order, smoothing="arpa"), TextConfig(), vocab, contexts, leaves, counts)


def _completed(sections: list[_Section]) -> list[_Section]:
    """Adds the contexts and suffixes that n-grams need: their probabilities (NaN) follow from back-off."""
    found = list(sections)
    for order in range(len(sections), 2, -1):
        words, (there, log_probs, backoffs) = found[order - 1][0], found[order - 2]
        wanted = np.unique(np.concatenate([words[:, :-1], words[:, 1:]]), axis=0)
        both, inverse = np.unique(np.concatenate([there, wanted]), axis=0, return_inverse=True)
        known = np.zeros(len(both), bool)
        known[inverse.ravel()[: len(there)]] = True
        added = both[~known]
        nothing = np.zeros(len(added), np.float32)
        found[order - 2] = (
            np.concatenate([there, added]),
            np.concatenate([log_probs, nothing + np.float32(np.nan)]),
            np.concatenate([backoffs, nothing]),
        )
    return found


def _imported(path: Path) -> Imported:
    model = read_arpa(path)
    settings = {"order": model.config.order, "smoothing": model.config.smoothing, "min_count": 1}
    return Imported(system="ngram", model=model, vocabulary=len(model.vocab), settings=settings)


FORMATS = (
    Format(
        name="arpa",
        summary="ARPA text of an n-gram model, for KenLM, SRILM and speech recognisers",
        models=("wenmai.models.ngram:Ngram",),
        write=lambda path, run: write_arpa(path, run.model.model),
        read=_imported,
    ),
)
