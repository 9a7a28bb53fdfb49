"""Sentences with their pinyin, encoded once and memory-mapped by every training.

``<cache>/transliteration/<fingerprint>/`` holds ``symbols.bin`` and ``characters.bin`` (int32, one id a character),
``starts.bin`` (int64: where each example begins, and the end), ``sentences.bin`` (uint32: the CRC-32 of the sentence of
each example), all little endian, ``vocab.json`` and ``transliteration.json``.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import CorpusError, VocabError
from wenmai.core.folder import cache_folder, check_sealed, writing_json
from wenmai.data.cached import kept, made, mapped, opened, reopened, reopened_part, stored_head
from wenmai.data.corpus import Corpus, CorpusStats, Progress
from wenmai.data.file_hash import FileHash
from wenmai.data.sources import open_texts
from wenmai.data.transliteration import (
    TransliterationConfig,
    TransliterationExample,
    TransliterationStats,
    examples_of,
)
from wenmai.text import sentences
from wenmai.text.pinyin.readings import dictionary_version
from wenmai.text.pinyin.syllables import TONED, TONELESS
from wenmai.text.pinyin.vocab import UNKNOWN_ID, PinyinVocab

__all__ = ["EncodedTransliteration", "TransliterationData", "encode_transliteration", "read_transliteration_data"]

_ROOM: Final = "transliteration"
_DATA_ROOM: Final = "transliteration-data"
_VERSION: Final = 1
_READINGS: Final = 2  # grows with every change by which a text has other examples or readings
_AT_ONCE: Final = 4096
_ASIDE, _MOST_ASIDE = 50, 2_000  # one sentence of 50 is held out, 2,000 at most
_HASHES: Final = 1 << 32
_MIX: Final = np.uint64(0x9E3779B1)  # so that the sentences of a share are not those that are held out

Ids = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False, kw_only=True)
class EncodedTransliteration:
    """Encoded sentences on disk.

    Attributes:
        folder: Where they are.
        fingerprint: Of the text and all settings of its encoding.
        stats: What was read and what was left out.
        symbols: (characters) int32, memory-mapped: what is typed for each character, with its tone if that is known.
        characters: (characters) int32, memory-mapped.
        starts: (examples + 1) int64, memory-mapped: example i is ``symbols[starts[i]:starts[i + 1]]``.
        sentences: (examples) uint32, memory-mapped: CRC-32 of the sentence of each example.
        vocab: What the ids mean.
        sources: What the text is called.
        files: Its files; none if it can be read only once, or was opened from the cache alone.
    """

    folder: Path
    fingerprint: str
    stats: TransliterationStats
    symbols: Ids
    characters: Ids
    starts: npt.NDArray[np.int64]
    sentences: npt.NDArray[np.uint32]
    vocab: PinyinVocab
    sources: tuple[str, ...]
    files: tuple[FileHash, ...] = ()

    @classmethod
    def open(cls, folder: str | Path) -> "EncodedTransliteration":
        """Opens encoded sentences; checks the sizes of the files but not every byte (see :meth:`verify`).

        Raises:
            RunError: if the folder is missing, unfinished or damaged.
        """
        folder = Path(folder)
        with stored_head(folder, "transliteration.json", _VERSION, "encoded text") as head:
            stats = TransliterationStats(**head["stats"])
            starts = mapped(folder / "starts.bin", "<i8", stats.examples + 1)
            if starts[0] != 0 or starts[-1] != stats.characters or np.any(starts[1:] <= starts[:-1]):
                raise ValueError(f"starts.bin does not rise from 0 to {stats.characters}")
            return cls(
                folder=folder,
                fingerprint=str(head["fingerprint"]),
                stats=stats,
                symbols=mapped(folder / "symbols.bin", "<i4", stats.characters),
                characters=mapped(folder / "characters.bin", "<i4", stats.characters),
                starts=starts,
                sentences=mapped(folder / "sentences.bin", "<u4", stats.examples),
                vocab=PinyinVocab.load(folder / "vocab.json"),
                sources=tuple(head["sources"]),
            )

    def __len__(self) -> int:
        return self.stats.examples

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64]:
        """(examples,) int64: the characters of each example."""
        return np.diff(self.starts)

    def example(self, number: int) -> tuple[Ids, Ids]:
        """Returns the symbols and the characters of an example.

        Raises:
            IndexError: if there is no such example.
        """
        if not 0 <= number < len(self):
            raise IndexError(f"there is no example {number} among {len(self)}")
        part = slice(int(self.starts[number]), int(self.starts[number + 1]))
        return np.asarray(self.symbols[part]), np.asarray(self.characters[part])

    def verify(self) -> list[str]:
        """Reads every byte and returns what is damaged, one sentence each; empty if nothing is."""
        return check_sealed(self.folder)


def encode_transliteration(
    corpus: Corpus, config: TransliterationConfig, *, vocab: PinyinVocab | None = None, progress: Progress | None = None
) -> EncodedTransliteration:
    """Returns text with its pinyin encoded, reading it only if that was not done before.

    Args:
        corpus: Gold files and Chinese text (:mod:`wenmai.data.transliteration`).
        config: How it is read; ``valid`` and ``share`` have no effect here.
        vocab: The ids; None: the characters of the text that are seen ``config.min_count`` times.
        progress: Called with the bytes read so far.

    Raises:
        CorpusError: if the text cannot be read, changes meanwhile, or has no Chinese sentence.
        RunError: if the result cannot be written.
    """
    hashes = corpus.hashes()
    plain = replace(config, valid=None, share=1.0)
    tables = [replace(config.text, script=config.script).identity(), dictionary_version()]
    key = [_VERSION, _READINGS, sentences.VERSION, asdict(plain), tables, vocab.fingerprint if vocab else None]
    folder = cache_folder() / _ROOM
    known = None if hashes is None else _hash([*key, [file.sha256 for file in hashes]])
    if known and (found := opened(folder / known, EncodedTransliteration.open)):
        return replace(found, sources=corpus.sources, files=tuple(hashes or ()))

    def fill(entry: Path) -> str:
        stats, read = TransliterationStats(), CorpusStats()
        lines = (line.text for line in corpus.lines(config.text, stats=read, hashes=hashes, progress=progress))
        encoder = _Encoder(entry, vocab)
        encoder.write(examples_of(lines, config, stats))
        stats.skipped_lines = read.skipped_lines
        if stats.examples == 0:
            raise CorpusError(
                f"{corpus.describe()}: has no Chinese sentence ({stats.not_chinese:,} others, {stats.malformed:,} bad"
                " lines of gold files); expected Chinese text, or lines such as 'id<tab>ni3 hao3<tab>你好'"
            )
        content = encoder.finish(config.min_count)
        fingerprint = known or _hash([*key, content])
        head = {"version": _VERSION, "fingerprint": fingerprint, "sources": corpus.sources, "stats": asdict(stats)}
        writing_json(entry / "transliteration.json", head)
        return fingerprint

    return replace(made(folder, fill, EncodedTransliteration.open, "encoded text"), files=tuple(hashes or ()))


def _hash(key: list[Any]) -> str:
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()


class _Numbers(dict[str, int]):
    """Gives every new string the next id."""

    def __missing__(self, one: str) -> int:
        self[one] = number = len(self)
        return number


class _Encoder:
    """Writes examples under ids in the order of appearance, and then under those of the vocabulary."""

    def __init__(self, folder: Path, vocab: PinyinVocab | None) -> None:
        self._folder, self._vocab = folder, vocab
        self._symbols, self._characters = _Numbers(), _Numbers()

    def write(self, examples: Iterator[TransliterationExample]) -> None:
        number, character_number = self._symbols.__getitem__, self._characters.__getitem__
        done = 0
        with (
            (self._folder / "symbols.bin").open("wb") as symbols,
            (self._folder / "characters.bin").open("wb") as characters,
            (self._folder / "starts.bin").open("wb") as starts,
            (self._folder / "sentences.bin").open("wb") as hashes,
        ):
            starts.write(np.zeros(1, "<i8").data)
            for batch in _batches(examples):
                items = chain.from_iterable(example.syllables for example in batch)
                symbols.write(np.fromiter(map(number, items), "<i4").data)
                text = "".join(example.characters for example in batch)
                characters.write(np.fromiter(map(character_number, text), "<i4").data)
                ends = done + np.cumsum([len(example.characters) for example in batch], dtype="<i8")
                starts.write(ends.data)
                hashes.write(np.array([example.sentence for example in batch], "<u4").data)
                done = int(ends[-1])

    def finish(self, min_count: int) -> str:
        """Renumbers what was written, writes the vocabulary, and returns a hash of all."""
        vocab = self._vocab
        if vocab is None:
            characters = _frequent(self._folder / "characters.bin", self._characters, min_count)
            symbols = _frequent(self._folder / "symbols.bin", self._symbols, min_count)
            syllables = {*TONELESS, *TONED}
            others = [one for one in symbols if len(one) == 1 and one not in syllables]
            vocab = PinyinVocab(characters, others)
        ids = vocab.character_ids
        _renumber(self._folder / "characters.bin", [ids.get(one, UNKNOWN_ID) for one in self._characters])
        _renumber(self._folder / "symbols.bin", [vocab.symbol_id(one) for one in self._symbols])
        vocab.save(self._folder / "vocab.json")
        digest = hashlib.sha256(vocab.fingerprint.encode())
        for name in ("symbols.bin", "characters.bin", "starts.bin", "sentences.bin"):
            with (self._folder / name).open("rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
        return digest.hexdigest()


def _batches(examples: Iterator[TransliterationExample]) -> Iterator[list[TransliterationExample]]:
    batch: list[TransliterationExample] = []
    for example in examples:
        batch.append(example)
        if len(batch) == _AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def _frequent(path: Path, numbers: Mapping[str, int], min_count: int) -> list[str]:
    """Returns what a file of ids has often enough, the most frequent first; equals in the order of appearance."""
    counts: Counter[str] = Counter()
    found = np.bincount(np.fromfile(path, "<i4"), minlength=len(numbers)).tolist()
    counts.update(dict(zip(numbers, found, strict=True)))
    return [one for one, count in counts.most_common() if count >= min_count]


def _renumber(path: Path, table: list[int]) -> None:
    numbers = np.memmap(path, "<i4", "r+")
    new = np.array(table, "<i4")
    for begin in range(0, numbers.size, 1 << 22):
        numbers[begin : begin + (1 << 22)] = new[numbers[begin : begin + (1 << 22)]]
    numbers.flush()


@dataclass(frozen=True, eq=False, kw_only=True)
class TransliterationData:
    """Encoded sentences to train on and to validate on.

    Attributes:
        train: The sentences to train on, and those held out.
        valid: The sentences to validate on; None: some of ``train``.
        share: The part of the sentences to train on.
        names: What the text is called.
        files: The files to train on; none if they can be read only once.
    """

    train: EncodedTransliteration
    valid: EncodedTransliteration | None
    share: float
    names: tuple[str, ...]
    files: tuple[FileHash, ...] = ()

    @property
    def vocab(self) -> PinyinVocab:
        """What the ids mean."""
        return self.train.vocab

    @cached_property
    def train_numbers(self) -> npt.NDArray[np.int64]:
        """Which examples of ``train`` to train on."""
        mixed = (self.train.sentences.astype(np.uint64) * _MIX) % np.uint64(_HASHES)
        chosen = mixed < self.share * _HASHES
        if self.valid is None:
            chosen &= ~self._aside
        return np.flatnonzero(chosen)

    @cached_property
    def validated(self) -> tuple[EncodedTransliteration, npt.NDArray[np.int64]]:
        """The sentences to validate on, and which of their examples."""
        if self.valid is not None:
            return self.valid, np.arange(len(self.valid))
        return self.train, np.flatnonzero(self._aside)

    @cached_property
    def _aside(self) -> npt.NDArray[np.bool_]:
        """(examples,) whether each is held out: all pieces of a sentence are, or none."""
        different = np.unique(self.train.sentences)
        every = max(_ASIDE, -(-different.size // _MOST_ASIDE))
        few = max(1, different.size // every)  # so that there always is one
        order = np.argsort((different.astype(np.uint64) * _MIX) % np.uint64(_HASHES), kind="stable")
        return np.isin(self.train.sentences, different[order[-few:]])

    @property
    def fingerprint(self) -> str:
        """Of both sets and the share."""
        return _hash([self.train.fingerprint, self.valid.fingerprint if self.valid else None, self.share])

    def describe(self) -> dict[str, Any]:
        """Sources and statistics, as JSON values."""
        return {
            "sources": [file.as_json() for file in self.files] or [{"path": name} for name in self.names],
            "text": {},
            "stats": asdict(self.train.stats),
            "valid": None if self.valid is None else asdict(self.valid.stats),
        }

    def keep(self) -> None:
        """Stores in the cache what :meth:`reopen` needs."""
        kept(_DATA_ROOM, self.fingerprint, self._save)

    def _save(self, folder: Path) -> None:
        head = {"version": _VERSION, "train": self.train.fingerprint, "names": self.names, "share": self.share}
        head["valid"] = None if self.valid is None else self.valid.fingerprint
        head["files"] = [file._asdict() for file in self.files]
        writing_json(folder / "data.json", head)

    @classmethod
    def reopen(cls, fingerprint: str) -> "TransliterationData | None":
        """Opens what was read before, from the cache alone; None if it is missing or damaged."""
        return reopened(_DATA_ROOM, fingerprint, cls._open)

    @classmethod
    def _open(cls, folder: Path) -> "TransliterationData":
        with stored_head(folder, "data.json", _VERSION, "text with its pinyin") as head:
            valid = head["valid"]
            return cls(
                train=reopened_part(_ROOM, head["train"], EncodedTransliteration.open),
                valid=None if valid is None else reopened_part(_ROOM, valid, EncodedTransliteration.open),
                share=float(head["share"]),
                names=tuple(head["names"]),
                files=tuple(FileHash(**file) for file in head.get("files", ())),
            )


def read_transliteration_data(
    corpus: Corpus,
    config: TransliterationConfig,
    *,
    inherited: PinyinVocab | None = None,
    progress: Progress | None = None,
) -> TransliterationData:
    """Reads and encodes text with its pinyin.

    Args:
        corpus: Gold files and Chinese text.
        config: How to read it, and what is held out.
        inherited: The vocabulary of a continued model.
        progress: Called with the bytes read so far.

    Raises:
        CorpusError: if the text cannot be read, or is too little.
        VocabError: if no character is frequent enough.
    """
    train = encode_transliteration(corpus, config, vocab=inherited, progress=progress)
    valid = None
    if config.valid is not None:
        given, _, _ = open_texts(config.valid)
        valid = encode_transliteration(given, config, vocab=train.vocab, progress=progress)
    data = TransliterationData(train=train, valid=valid, share=config.share, names=corpus.sources, files=train.files)
    if data.train_numbers.size == 0:
        raise CorpusError(
            f"{corpus.describe()}: no sentence is left to train on, of {len(train):,}; give more text, or share=1"
        )
    if not train.vocab.characters:
        raise VocabError(
            f"{corpus.describe()}: no character occurs min_count={config.min_count} times; use more text, or a lower "
            "min_count"
        )
    data.keep()
    return data
