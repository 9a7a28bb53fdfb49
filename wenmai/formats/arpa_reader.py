r"""Reading ARPA files as others write them; see :mod:`wenmai.formats.arpa`.

Blank lines may stand anywhere, spaces before a line, and many programs write a few lines of text before ``\data\``.
"""

import logging
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from wenmai.core.compressed import reading
from wenmai.core.errors import FormatError
from wenmai.kernels.arpa import (
    MISPLACED,
    MOST_BACKOFF,
    NOT_A_NUMBER,
    POSITIVE,
    TOO_LARGE,
    UNKNOWN_WORD,
    find_places,
    parse_lines,
)
from wenmai.kernels.ngram_lookup import CONTEXT, LEAF, ROOT
from wenmai.kernels.ngrams import hashed_words
from wenmai.models.ngram import SPECIALS, Ngram, NgramConfig, Words
from wenmai.models.ngram.config import MAX_ORDER
from wenmai.text.settings import TextConfig

__all__ = ["WORD_OF_TEXT", "read_arpa"]

_log = logging.getLogger(__name__)
_BLOCK = 1 << 22
_LONGEST_LINE = 1 << 20
_LONGEST_PREAMBLE = 1 << 16  # bytes before \data\, blank lines aside
_FEWEST_BYTES = 4  # of a line of n-grams
_NO_UNKNOWN = -100.0 * math.log(10)  # what KenLM gives an unknown word where the file has none
_PROBLEMS = {
    NOT_A_NUMBER: "expected a logarithm to base 10 where there is none",
    MISPLACED: "expected a logarithm, {order} words and perhaps a back-off weight",
    UNKNOWN_WORD: "has a word that is not among the 1-grams",
    POSITIVE: "has a positive logarithm, which no probability has",
    TOO_LARGE: f"has a back-off weight above 1e{MOST_BACKOFF:.0f}",
}
_NUMBER = re.compile(rb"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf)", re.IGNORECASE)
_COUNT = re.compile(rb"ngram\s+(\d{1,4})\s*=\s*(\d{1,18})")
_BLANK = re.compile(rb"[ \t\r\n]*")
_BOM = "\ufeff".encode()
WORD_OF_TEXT = b"# <unk> is a word of the text"
"""A remark of ours before the counts, as the format has no field for it. Other readers skip it."""
_Words = npt.NDArray[np.int32]
_Floats = npt.NDArray[np.float32]
_Section = tuple[_Words, _Floats, _Floats]


def read_arpa(path: str | Path) -> Ngram:
    r"""Reads an ARPA file, plain or compressed, as KenLM does.

    Contexts and suffixes that the file leaves out are added, with the probabilities that follow from back-off. A file
    without ``<unk>`` gives unknown words 10 to the power of -100. Of n-grams that stand twice the first counts. No file
    names its smoothing. Only our files say whether ``<unk>`` in a text is an unknown word; in others it is.

    Unlike in KenLM, any text may stand before ``\data\``, and words that are not UTF-8 are read as Latin-1.

    Raises:
        FormatError: if the file is not an ARPA file, or is truncated or damaged, or its counts are wrong; the message
            names the line.
    """
    with reading(path) as file:
        source = _Source(file, str(path))
        counts, unknown_is_word = _head(source)
        table, unigrams = _unigrams(source, counts[0], highest=len(counts) == 1)
        sections = [unigrams]
        for order in range(2, len(counts) + 1):
            sections.append(_ngrams(source, order, counts[order - 1], table, highest=order == len(counts)))
        _expect(source, b"\\end\\")
    try:
        model = _assembled(table.vocab, sections)
    except _MissingError:
        sections = _completed(sections)
        model = _assembled(table.vocab, sections)
    model.unknown_is_word = unknown_is_word
    if twice := table.twice + sum(len(section[0]) for section in sections) - sum(model.ngrams):
        _log.warning("%s: %s n-grams stand twice; the first of each counts", path, f"{twice:,}")
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
        self.line = self.taken = 1  # the next line, and the one that next_line took
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

    def next_line(self) -> bytes | None:
        """Takes a line, without its end and white space around; None at the end of the file."""
        while (end := self._bytes.find(b"\n", self._at)) < 0 and not self._ended:
            self._more()
        if end < 0 and self._at == len(self._bytes):
            return None
        line, self.taken = self._bytes[self._at : end if end >= 0 else None], self.line
        self.take(len(line) + (end >= 0))
        return line.strip(b" \t\r")

    def skip_blank(self) -> None:
        """Takes blank lines, and the white space before the next word."""
        while True:
            found = _BLANK.match(self._bytes, self._at)
            self.take(found.end() - self._at if found else 0)
            if self._at < len(self._bytes) or self._ended:
                return
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
    r"""Reads what stands before ``\data\``, the counts, and the blank line behind.

    Returns:
        The counts, and whether ``<unk>`` was a word of the text.
    """
    unknown_is_word, size = False, 0
    source.skip_blank()
    while (line := source.next_line()) is not None and line.removeprefix(_BOM) != b"\\data\\":
        unknown_is_word |= line == WORD_OF_TEXT
        size += len(line)
        if size > _LONGEST_PREAMBLE:
            break
        source.skip_blank()
    if line is None or size > _LONGEST_PREAMBLE:
        raise FormatError(f"{source.name}: is not an ARPA file: expected a line \\data\\ at its beginning")
    counts: list[int] = []
    while line := source.next_line():
        found = _COUNT.fullmatch(line)
        if not found or int(found[1]) != len(counts) + 1:
            raise source.problem(f"should be `ngram {len(counts) + 1}=COUNT`, but is {_shown(line)}", source.taken)
        counts.append(int(found[2]))
    if not counts or counts[0] == 0:
        raise source.problem("should give the number of 1-grams", source.taken)
    if len(counts) > MAX_ORDER:
        raise FormatError(f"{source.name}: has {len(counts)}-grams; at most {MAX_ORDER}-grams can be read")
    if sum(counts) >= ROOT:
        raise FormatError(f"{source.name}: announces {sum(counts):,} n-grams; at most {ROOT - 1:,} can be read")
    return counts, unknown_is_word


def _expect(source: _Source, title: bytes) -> None:
    """Takes the title of a section, and blank lines before."""
    source.skip_blank()
    line = source.next_line()
    if line is None:
        where = f"{source.name}: ends at line {source.line}"
        raise FormatError(f"{where}, where {title.decode()} was expected; it was cut short")
    if line != title:
        raise source.problem(f"should be {title.decode()}, but is {_shown(line)}", source.taken)


def _shown(text: bytes) -> str:
    return repr(text[:80].decode("utf-8", "replace"))


@dataclass(frozen=True)
class _Table:
    """The words of a file.

    Attributes:
        vocab: The words.
        spelled: The words as the file spells them: not UTF-8, perhaps, and ``<UNK>``.
        words: (spelled) int32, the word that each is.
        twice: How many words stand twice.
    """

    vocab: Words
    spelled: Words
    words: npt.NDArray[np.int32]
    twice: int


def _unigrams(source: _Source, count: int, *, highest: bool) -> tuple[_Table, _Section]:
    """Reads the words: the marks first, then all others in the order of the file."""
    _expect(source, b"\\1-grams:")
    found: dict[str, tuple[float, float]] = {}
    spelled: dict[bytes, str] = {}
    lines = 0
    while True:
        source.skip_blank()
        if source.at_title() or not (line := source.next_line()):
            break
        fields = re.split(b"[ \t]+", line)
        if len(fields) not in (2, 3):
            raise source.problem(_PROBLEMS[MISPLACED].format(order=1), source.taken)
        if not all(_NUMBER.fullmatch(field) for field in fields[::2]):
            raise source.problem(_PROBLEMS[NOT_A_NUMBER], source.taken)
        log_prob, backoff = float(fields[0]), float(fields[2]) if len(fields) == 3 else 0.0
        if backoff > MOST_BACKOFF:
            raise source.problem(_PROBLEMS[TOO_LARGE], source.taken)
        word = spelled.setdefault(fields[1], _word(fields[1]))
        if log_prob > 0 and word != "<s>":
            raise source.problem(_PROBLEMS[POSITIVE], source.taken)
        if highest and backoff != 0:
            raise source.problem("has a back-off weight, which the highest order cannot have", source.taken)
        lines += 1
        if word not in found or word == "<unk>":  # of which the last counts in KenLM
            found[word] = (log_prob * math.log(10), backoff * math.log(10))
    if lines != count:
        raise FormatError(f"{source.name}: has {lines:,} 1-grams up to line {source.line}, but announces {count:,}")
    twice = lines - len(found)
    found.setdefault("<unk>", (_NO_UNKNOWN, 0.0))
    for mark in SPECIALS[1:]:
        if mark not in found:
            raise FormatError(f"{source.name}: lacks {mark} among its 1-grams; without it no sentence can be scored")
    found["<s>"] = (-math.inf, found["<s>"][1])
    names = [*SPECIALS, *(word for word in found if word not in SPECIALS)]
    values = np.array([found[name] for name in names], np.float32)
    number = {name: place for place, name in enumerate(names)}
    of_spelled = np.array([number[name] for name in spelled.values()], np.int32)
    if other := sum(spelling != word.encode() for spelling, word in spelled.items() if word != "<unk>"):
        what = f"{other:,} words are not UTF-8, and are taken for Latin-1"
        _log.warning("%s: %s; if they are in another encoding, convert the file first", source.name, what)
    table = _Table(Words.of(names), Words.of_bytes(list(spelled)), of_spelled, twice)
    return table, (np.arange(len(names), dtype=np.int32)[:, None], values[:, 0].copy(), values[:, 1].copy())


def _word(spelling: bytes) -> str:
    """The word that is spelled so."""
    if spelling == b"<UNK>":
        return "<unk>"
    try:
        return spelling.decode()
    except UnicodeDecodeError:
        return spelling.decode("latin-1")


def _ngrams(source: _Source, order: int, count: int, table: _Table, *, highest: bool) -> _Section:
    """Reads the n-grams of an order from 2 on."""
    _expect(source, f"\\{order}-grams:".encode())
    spelled = table.spelled
    parts: list[_Section] = [(np.zeros((0, order), np.int32), np.zeros(0, np.float32), np.zeros(0, np.float32))]
    done = 0
    while True:
        block = source.block()
        if not block:
            break
        raw = np.frombuffer(block, np.uint8)
        most = min(count - done + 1, raw.size // _FEWEST_BYTES + 1)
        words, log_probs, backoffs = np.empty((most, order), np.int32), *(np.empty(most, np.float32) for _ in range(2))
        read, place, problem = parse_lines(
            raw, order, spelled.text, spelled.bounds, spelled.slots, words, log_probs, backoffs
        )
        source.take(place)
        if problem:
            raise source.problem(_PROBLEMS[problem].format(order=order))
        parts.append((table.words[words[:read]], log_probs[:read].copy(), backoffs[:read].copy()))
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


def _assembled(vocab: Words, sections: list[_Section]) -> Ngram:
    """Arranges n-grams for the look-up of a model; of those that stand twice the first.

    Raises:
        _MissingError: if a context or suffix is not there.
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
        again = (context[1:] == context[:-1]) & (last[1:] == last[:-1])
        if again.any():
            arranged, context, last = (each[np.concatenate([[True], ~again])] for each in (arranged, context, last))
            counts[number - 1] = len(arranged)
        middle, end = begin + counts[number - 2], begin + counts[number - 2] + counts[number - 1]
        records = leaves[: end - middle] if number == order else contexts[middle:end]
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
    contexts, leaves = contexts[: sum(counts[: max(1, order - 1)]) + 1], leaves[: counts[-1]]
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
