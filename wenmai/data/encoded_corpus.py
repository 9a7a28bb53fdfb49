"""An encoded corpus: read as text once, then memory-mapped by every training, whatever its system and settings.

``<cache>/corpora/<fingerprint>/`` holds ``tokens.bin`` (int32, little endian), ``sentences.bin`` (int64:
where each sentence begins, and the end), ``words.txt`` and ``counts.bin`` (int64), the most frequent word
first, and ``corpus.json``. All words are there; training leaves out ids from the size of the vocabulary on.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import CorpusError, RunError
from wenmai.core.folder import cache_folder, check_sealed, writing_json
from wenmai.data.cached import made, mapped, opened, stored_head
from wenmai.data.corpus import Corpus, CorpusStats, Progress
from wenmai.data.file_hash import FileHash
from wenmai.data.transliteration import ChineseOfGold
from wenmai.text.phrases import PairCounter, joined_pairs
from wenmai.text.segment import LINE_END
from wenmai.text.settings import TextConfig
from wenmai.text.vocab import WordTable

__all__ = ["EncodedCorpus", "encode_corpus"]

VERSION = 1
BLOCK_TOKENS = 1 << 21
MAX_TYPES = 20_000_000
_BLOCK_WORDS = 1 << 16


@dataclass(frozen=True, eq=False)
class EncodedCorpus:
    """An encoded corpus on disk.

    Attributes:
        folder: Where it is.
        fingerprint: Of the text and all settings of its tokens.
        tokens: (tokens) int32 ids, memory-mapped; -1 for a word that was pruned.
        starts: (sentences + 1) int64, memory-mapped: sentence ``i`` is ``tokens[starts[i]:starts[i + 1]]``.
        counts: (types) int64, read-only, descending; equal counts in order of first appearance.
        stats: What was read and what was left out.
        sources: Name, size in bytes and SHA-256 of each file, as it was called when it was encoded; empty
            for text that did not come from files.
        text: The settings and library versions that made the tokens.
    """

    folder: Path
    fingerprint: str
    tokens: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    stats: CorpusStats
    sources: list[FileHash]
    text: dict[str, Any]

    def describe(self) -> dict[str, Any]:
        """Returns what a run records of its corpus, as JSON values."""
        return {
            "sources": [file.as_json() for file in self.sources],
            "text": self.text,
            "stats": asdict(self.stats),
        }

    @classmethod
    def open(cls, folder: str | Path) -> "EncodedCorpus":
        """Opens an encoded corpus; checks the sizes of its files but not every byte (see :meth:`verify`).

        Raises:
            RunError: if the folder is missing, unfinished or damaged.
        """
        folder = Path(folder)
        with stored_head(folder, "corpus.json", VERSION, "encoded corpus") as found:
            stats = CorpusStats(**found["stats"])
            return cls(
                folder=folder,
                fingerprint=str(found["fingerprint"]),
                tokens=mapped(folder / "tokens.bin", "<i4", stats.tokens),
                starts=mapped(folder / "sentences.bin", "<i8", stats.sentences + 1),
                counts=_read_only(np.array(mapped(folder / "counts.bin", "<i8", stats.types))),
                stats=stats,
                sources=[FileHash(**file) for file in found["sources"]],
                text=dict(found["text"]),
            )

    @cached_property
    def words(self) -> WordTable:
        """The word of each id, most frequent first.

        Raises:
            RunError: if the file of words is damaged.
        """
        path = self.folder / "words.txt"
        try:
            text = path.read_bytes()
            text.decode()  # a check
        except (OSError, UnicodeError) as error:
            raise RunError(f"{path}: is damaged: {error}") from None
        words = WordTable.of_lines(text)
        if len(words) != self.counts.size:
            raise RunError(f"{path}: has {len(words)} words, expected {self.counts.size}; delete {self.folder}")
        return words

    def read(self, start: int, end: int) -> npt.NDArray[np.int32]:
        """Returns tokens[start:end], read rather than mapped, so that a pass leaves nothing of the corpus in memory.

        Raises:
            RunError: if the file is damaged.
        """
        tokens = np.fromfile(self.folder / "tokens.bin", "<i4", count=end - start, offset=4 * start)
        if tokens.size != end - start or tokens.max(initial=-1) >= self.counts.size:
            raise RunError(f"{self.folder}: the encoded corpus is damaged; delete it, and it is made again")
        return tokens

    def sentences(self) -> Iterator[list[str]]:
        """Yields the sentences as lists of words, without pruned ones."""
        words = list(self.words)
        for start, end in zip(self.starts[:-1], self.starts[1:], strict=True):
            yield [words[token] for token in self.tokens[start:end] if token >= 0]

    def verify(self) -> list[str]:
        """Reads every byte and returns what is damaged, one sentence each; empty if nothing is."""
        return check_sealed(self.folder)

    def __len__(self) -> int:
        return self.stats.tokens


def encode_corpus(
    corpus: Corpus,
    text: TextConfig,
    *,
    cache: Path | None = None,
    max_types: int = MAX_TYPES,
    progress: Progress | None = None,
    gold: bool = False,
) -> EncodedCorpus:
    """Returns the corpus encoded, reading the text only if that was not done before.

    Args:
        corpus: Where the text comes from.
        text: How it becomes tokens.
        cache: Folder for encoded corpora; by default the cache of wenmai (``WENMAI_CACHE``).
        max_types: When more different words are known than this, the rarest are forgotten, as in word2vec.c;
            their tokens become -1 and are counted in the stats.
        progress: Called with bytes read and, if known, bytes in all.
        gold: Lines of gold files (:mod:`wenmai.data.transliteration`) are their Chinese alone.

    Raises:
        CorpusError: if the text cannot be read, or has no words.
        RunError: if the result cannot be written.
    """
    folder = (cache or cache_folder()) / "corpora"
    if text.phrases > 0:
        passes, threshold = text.phrases - 1, 2 * text.phrase_threshold
        fewer = replace(text, phrases=passes, phrase_threshold=threshold) if passes else text.without_phrases
        base = encode_corpus(corpus, fewer, cache=cache, max_types=max_types, progress=progress, gold=gold)
        return _with_phrases(base, text, folder)
    return _encoded(corpus, text, folder, max_types, progress, gold=gold)


def _encoded(
    corpus: Corpus, text: TextConfig, folder: Path, max_types: int, progress: Progress | None, *, gold: bool
) -> EncodedCorpus:
    settings = text.identity() | ({"gold": ChineseOfGold.VERSION} if gold else {})
    hashes = corpus.hashes()
    content = hashlib.sha256(json.dumps([VERSION, settings, max_types], sort_keys=True).encode())
    if hashes is not None:
        content.update("".join(file.sha256 for file in hashes).encode())
        if found := opened(folder / content.hexdigest(), EncodedCorpus.open):
            return replace(found, sources=hashes, stats=replace(found.stats, skipped_files=corpus.skipped_files))

    def fill(entry: Path) -> str:
        stats = CorpusStats()
        with _Numbering(entry, stats, max_types) as numbering:
            read = ChineseOfGold(stats) if gold else None
            for batch in corpus.batches(text, stats=stats, hashes=hashes, progress=progress, rewrite=read):
                ids = numbering.add(batch)
                if hashes is None:
                    content.update(ids.data)
        if stats.tokens == 0:
            raise CorpusError(_no_words(corpus, stats))
        words = numbering.words
        if hashes is None:
            content.update("\n".join(words).encode())
        _finish(entry, words, stats)
        return _describe(entry, content.hexdigest(), stats, hashes or [], settings)

    return made(folder, fill, EncodedCorpus.open, "encoded corpus")


class _Ids(dict[str, int]):
    """Gives every new word the next id; the end of a line is -1."""

    def __init__(self, words: list[str]) -> None:
        super().__init__(zip([LINE_END, *words], range(-1, len(words)), strict=True))

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self) - 1
        return number


class _Numbering:
    """Writes tokens as ids in order of first appearance, and where sentences begin."""

    def __init__(self, entry: Path, stats: CorpusStats, max_types: int) -> None:
        self._path = entry / "tokens.bin"
        self._tokens = open(self._path, "wb")  # noqa: SIM115  closed by __exit__
        self._starts = open(entry / "sentences.bin", "wb")  # noqa: SIM115  closed by __exit__
        self._starts.write(np.zeros(1, "<i8").data)
        self._stats = stats
        self._max_types = max_types
        self._min_reduce = 1
        self._ids = _Ids([])
        self._sentence_end = 0

    def __enter__(self) -> "_Numbering":
        return self

    def __exit__(self, *_: object) -> None:
        self._tokens.close()
        self._starts.close()

    @property
    def words(self) -> list[str]:
        """The word of each id."""
        return list(islice(self._ids, 1, None))

    def add(self, batch: list[str]) -> npt.NDArray[np.int32]:
        """Encodes some tokens; returns their ids, with -1 where a line ends."""
        ids = np.fromiter(map(self._ids.__getitem__, batch), "<i4", len(batch))
        line_ends = np.flatnonzero(ids < 0)
        self._tokens.write((ids[ids >= 0] if line_ends.size else ids).data)
        ends = self._stats.tokens + line_ends - np.arange(line_ends.size)
        sentence_ends = ends[np.diff(ends, prepend=self._sentence_end) > 0]
        self._starts.write(sentence_ends.astype("<i8").data)
        if ends.size:
            self._sentence_end = int(ends[-1])
        self._stats.tokens += ids.size - line_ends.size
        self._stats.sentences += sentence_ends.size
        self._stats.blank_lines += ends.size - sentence_ends.size
        while len(self._ids) - 1 > self._max_types:
            self._prune()
        return ids

    def _prune(self) -> None:
        """Forgets the rarest words, like ReduceVocab of word2vec.c: ids close up, their tokens become -1."""
        self._tokens.flush()
        words = self.words
        keep = _count(self._path, len(words)) > self._min_reduce
        self._min_reduce += 1
        _renumber(self._path, np.where(keep, np.cumsum(keep) - 1, -1))
        self._ids = _Ids([words[number] for number in np.flatnonzero(keep).tolist()])
        self._stats.pruned_types += len(words) - int(np.count_nonzero(keep))


def _finish(entry: Path, words: list[str], stats: CorpusStats) -> None:
    """Renumbers by frequency (stable) and writes words and counts; words that do not occur are dropped."""
    counts = _count(entry / "tokens.bin", len(words))
    order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    table = np.full(len(words), -1, np.int32)
    table[order] = np.arange(order.size)
    _renumber(entry / "tokens.bin", table)
    counts[order].astype("<i8").tofile(entry / "counts.bin")
    with open(entry / "words.txt", "wb") as file:
        for start in range(0, order.size, _BLOCK_WORDS):
            block = order[start : start + _BLOCK_WORDS].tolist()
            file.write("".join(words[number] + "\n" for number in block).encode())
    stats.types = order.size
    stats.pruned_tokens = stats.tokens - int(counts.sum())


def _with_phrases(base: EncodedCorpus, text: TextConfig, folder: Path) -> EncodedCorpus:
    """Returns ``base`` after one pass of phrase mining."""
    key = json.dumps([VERSION, base.fingerprint, text.phrase_threshold, text.phrase_min_count])
    fingerprint = hashlib.sha256(key.encode()).hexdigest()
    if found := opened(folder / fingerprint, EncodedCorpus.open):
        stats = replace(found.stats, skipped_files=base.stats.skipped_files)
        return replace(found, sources=base.sources, stats=stats)
    counter = PairCounter(
        base.counts, total=len(base), threshold=text.phrase_threshold, min_count=text.phrase_min_count
    )
    for tokens, neighbours, _ in _blocks(base):
        counter.add(tokens, neighbours)
    phrases = counter.phrases()
    number_of = {word: number for number, word in enumerate(base.words)}
    targets = np.empty(phrases.size, np.int32)
    for place, (first, second) in enumerate(zip(*np.divmod(phrases, base.counts.size), strict=True)):
        word = f"{base.words[first]}_{base.words[second]}"
        targets[place] = number_of.setdefault(word, len(number_of))
    stats = replace(base.stats, pruned_pairs=base.stats.pruned_pairs + counter.pruned)

    def fill(entry: Path) -> str:
        stats.tokens = _join(base, phrases, targets, entry)
        _finish(entry, list(number_of), stats)
        return _describe(entry, fingerprint, stats, base.sources, text.identity())

    return made(folder, fill, EncodedCorpus.open, "encoded corpus")


def _join(base: EncodedCorpus, phrases: npt.NDArray[np.int64], targets: npt.NDArray[np.int32], entry: Path) -> int:
    """Writes the tokens of ``base`` with phrases joined, and sentence starts; returns how many tokens."""
    done = 0
    carried = False  # whether the last token of the block before takes in the first one of this
    with open(entry / "tokens.bin", "wb") as file, open(entry / "sentences.bin", "wb") as starts_file:
        for tokens, neighbours, starts in _blocks(base):
            joined = joined_pairs(tokens, neighbours, phrases, base.counts.size, first_is_taken=carried)
            taken = np.concatenate([[carried], joined])
            carried = bool(taken[-1])
            places = np.flatnonzero(joined)
            keys = tokens[places].astype(np.int64) * base.counts.size + tokens[places + 1]
            tokens[places] = targets[np.searchsorted(phrases, keys)]
            starts_file.write((done + starts - np.cumsum(taken)[starts]).astype("<i8").data)
            left = tokens[:-1][~taken[:-1]]
            file.write(left.astype("<i4").data)
            done += left.size
        starts_file.write(np.array([done], "<i8").data)
    return done


def _blocks(
    base: EncodedCorpus,
) -> Iterator[tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_], npt.NDArray[np.int64]]]:
    """Yields n + 1 tokens, whether the next of each of n is in its sentence, and where sentences start."""
    for start in range(0, len(base), BLOCK_TOKENS):
        end = min(start + BLOCK_TOKENS, len(base))
        # Read, not mapped, so that memory stays flat.
        tokens = np.fromfile(base.folder / "tokens.bin", "<i4", end - start + 1, offset=4 * start)
        if end == len(base):
            tokens = np.append(tokens, np.int32(-1))
        first, after_first, last, after_last = (
            int(np.searchsorted(base.starts, place, side=side)) for place in (start, end) for side in ("left", "right")
        )
        neighbours = np.ones(end - start, np.bool_)
        neighbours[base.starts[after_first:after_last] - 1 - start] = False
        yield tokens, neighbours, base.starts[first:last] - start


def _count(path: Path, types: int) -> npt.NDArray[np.int64]:
    """Counts the ids in a file of tokens; -1 is none of them."""
    counts = np.zeros(types, np.int64)
    with open(path, "rb") as file:
        while (tokens := np.fromfile(file, "<i4", BLOCK_TOKENS)).size:
            counts += np.bincount(tokens[tokens >= 0], minlength=types)
    return counts


def _renumber(path: Path, table: npt.NDArray[np.integer]) -> None:
    """Replaces each id in a file of tokens by its entry in the table; -1 stays."""
    extended = np.full(table.size + 1, -1, "<i4")
    extended[:-1] = table
    with open(path, "r+b") as file:
        while (tokens := np.fromfile(file, "<i4", BLOCK_TOKENS)).size:
            file.seek(-tokens.nbytes, os.SEEK_CUR)
            extended[tokens].tofile(file)


def _read_only(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    counts.flags.writeable = False
    return counts


def _describe(entry: Path, fingerprint: str, stats: CorpusStats, sources: list[FileHash], text: dict[str, Any]) -> str:
    """Writes the head; returns the fingerprint."""
    content = {
        "version": VERSION,
        "fingerprint": fingerprint,
        "stats": asdict(stats),
        "sources": [file._asdict() for file in sources],
        "text": text,
    }
    writing_json(entry / "corpus.json", content)
    return fingerprint


def _no_words(corpus: Corpus, stats: CorpusStats) -> str:
    skipped = f", {stats.skipped_lines} of them skipped as bad" if stats.skipped_lines else ""
    if stats.malformed:
        skipped += f", {stats.malformed} of them bad lines of gold files"
    return f"{corpus.describe()}: no words in {stats.lines} lines{skipped}; expected text"
