"""Encoded parallel text: encoded once, then memory-mapped by every training.

``<cache>/pairs/<fingerprint>/`` holds ``source.bin`` and ``target.bin`` (int32 ids, little endian, without special
tokens), ``source-starts.bin`` and ``target-starts.bin`` (int64: where each sequence begins, and the end) and
``pairs.json``.
"""

import contextlib
import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import CorpusError
from wenmai.core.folder import cache_folder, check_sealed, writing_json
from wenmai.data.cached import made, mapped, opened, stored_head
from wenmai.data.corpus import Progress
from wenmai.data.pairs import Pairs, PairsStats
from wenmai.text.tokenizer import Tokenizer

__all__ = ["EncodedPairs", "EncodedStats", "encode_pairs"]

VERSION = 1
_BATCH = 4096


@dataclass(slots=True, kw_only=True)
class EncodedStats:
    """What was encoded, and what was left out.

    Attributes:
        pairs: Pairs that were encoded.
        empty: Pairs left out because a side is empty.
        too_long: Pairs left out because a side has more tokens than ``longest``.
        source_tokens: Tokens of all sources.
        target_tokens: Tokens of all targets.
        source_unknown: Those of them that the vocabulary lacks.
        target_unknown: The same of the targets.
    """

    pairs: int = 0
    empty: int = 0
    too_long: int = 0
    source_tokens: int = 0
    target_tokens: int = 0
    source_unknown: int = 0
    target_unknown: int = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class EncodedPairs:
    """Encoded pairs on disk. Sequences have no special tokens: training adds BOS and EOS.

    Attributes:
        folder: Where they are.
        fingerprint: Of the text, the tokenizers and the settings.
        stats: What was encoded and what was left out.
        source_tokens: (tokens) int32 ids of all sources, memory-mapped.
        source_starts: (pairs + 1) int64, memory-mapped: where each source begins, and the end.
        target_tokens: (tokens) int32 ids of all targets, memory-mapped.
        target_starts: (pairs + 1) int64, memory-mapped.
    """

    folder: Path
    fingerprint: str
    stats: EncodedStats
    source_tokens: npt.NDArray[np.int32]
    source_starts: npt.NDArray[np.int64]
    target_tokens: npt.NDArray[np.int32]
    target_starts: npt.NDArray[np.int64]

    @classmethod
    def open(cls, folder: str | Path) -> "EncodedPairs":
        """Opens encoded pairs; checks the sizes of the files but not every byte (see :meth:`verify`).

        Raises:
            RunError: if the folder is missing, unfinished or damaged.
        """
        folder = Path(folder)
        with stored_head(folder, "pairs.json", VERSION, "encoded text") as found:
            stats = EncodedStats(**found["stats"])
            return cls(
                folder=folder,
                fingerprint=str(found["fingerprint"]),
                stats=stats,
                source_tokens=mapped(folder / "source.bin", "<i4", stats.source_tokens),
                source_starts=_starts(folder / "source-starts.bin", stats.pairs, stats.source_tokens),
                target_tokens=mapped(folder / "target.bin", "<i4", stats.target_tokens),
                target_starts=_starts(folder / "target-starts.bin", stats.pairs, stats.target_tokens),
            )

    def __len__(self) -> int:
        return self.stats.pairs

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64]:
        """(pairs, 2): tokens of each source and of each target."""
        return np.stack([np.diff(self.source_starts), np.diff(self.target_starts)], axis=1)

    def source(self, number: int) -> npt.NDArray[np.int32]:
        """Returns the ids of a source (tokens)."""
        return _sequence(self.source_tokens, self.source_starts, number)

    def target(self, number: int) -> npt.NDArray[np.int32]:
        """Returns the ids of a target (tokens)."""
        return _sequence(self.target_tokens, self.target_starts, number)

    def verify(self) -> list[str]:
        """Reads every byte and returns what is damaged, one sentence each; empty if nothing is."""
        return check_sealed(self.folder)


def encode_pairs(
    pairs: Pairs,
    source: Tokenizer,
    target: Tokenizer,
    *,
    longest: int,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> EncodedPairs:
    """Returns pairs encoded, reading the text only if that was not done before.

    Memory does not grow with the text.

    Args:
        pairs: The text.
        source: Tokenizer of the sources.
        target: Tokenizer of the targets; the same object where they share a vocabulary.
        longest: Pairs with more tokens on a side are left out and counted.
        cache: Folder for encoded pairs; by default the cache of wenmai (``WENMAI_CACHE``).
        progress: Called after each block of a file, with the bytes read so far.

    Raises:
        CorpusError: if the text cannot be read, changes meanwhile, or no pair is left.
        RunError: if the result cannot be written.
    """
    content = pairs.fingerprint()
    key = [VERSION, content, source.fingerprint, target.fingerprint, longest]
    fingerprint = hashlib.sha256(json.dumps(key).encode()).hexdigest()
    folder = (cache or cache_folder()) / "pairs"
    if found := opened(folder / fingerprint, EncodedPairs.open):
        return found

    def fill(entry: Path) -> str:
        stats = _encode(pairs, source, target, longest, entry, progress)
        if pairs.fingerprint() != content:
            raise CorpusError(f"{pairs.describe()}: changed while it was read; run again when nothing writes to it")
        head = {"version": VERSION, "fingerprint": fingerprint, "sources": pairs.sources, "longest": longest}
        writing_json(entry / "pairs.json", head | {"stats": asdict(stats)})
        return fingerprint

    return made(folder, fill, EncodedPairs.open, "encoded text")


class _Side:
    """Writes the sequences of one side."""

    def __init__(self, entry: Path, name: str, stack: contextlib.ExitStack) -> None:
        self.tokens = self.unknown = 0
        self._ids = stack.enter_context((entry / f"{name}.bin").open("wb"))
        self._starts = stack.enter_context((entry / f"{name}-starts.bin").open("wb"))
        self._starts.write(np.zeros(1, "<i8").data)

    def add(self, rows: list[list[int]], unknown_id: int) -> None:
        """Appends sequences."""
        sizes = np.fromiter(map(len, rows), np.int64, len(rows))
        ids = np.fromiter((number for row in rows for number in row), "<i4", int(sizes.sum()))
        self._ids.write(ids.data)
        self._starts.write((self.tokens + np.cumsum(sizes)).astype("<i8").data)
        self.tokens += ids.size
        self.unknown += int(np.count_nonzero(ids == unknown_id))


def _encode(
    pairs: Pairs,
    source: Tokenizer,
    target: Tokenizer,
    longest: int,
    entry: Path,
    progress: Progress | None,
) -> EncodedStats:
    read = PairsStats()
    stats = EncodedStats()
    stream = pairs.read(read, progress=progress)
    with contextlib.ExitStack() as stack:
        sides = _Side(entry, "source", stack), _Side(entry, "target", stack)
        while batch := list(islice(stream, _BATCH)):
            first = source.encode_batch([pair[0] for pair in batch])
            second = target.encode_batch([pair[1] for pair in batch])
            kept = []
            for place, sizes in enumerate(zip(map(len, first), map(len, second), strict=True)):
                if max(sizes) > longest:
                    stats.too_long += 1
                elif min(sizes) == 0:  # normalisation removes all of it
                    stats.empty += 1
                else:
                    kept.append(place)
            sides[0].add([first[place] for place in kept], source.unk_id)
            sides[1].add([second[place] for place in kept], target.unk_id)
            stats.pairs += len(kept)
    stats.empty += read.empty
    stats.source_tokens, stats.target_tokens = (side.tokens for side in sides)
    stats.source_unknown, stats.target_unknown = (side.unknown for side in sides)
    if stats.pairs == 0:
        raise CorpusError(
            f"{pairs.describe()}: all {read.lines} pairs were left out: {stats.too_long} have a side of more than"
            f" {longest} tokens, {stats.empty} have an empty side"
        )
    return stats


def _starts(path: Path, pairs: int, tokens: int) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = mapped(path, "<i8", pairs + 1)
    if found[0] != 0 or found[-1] != tokens or np.any(found[1:] < found[:-1]):
        raise ValueError(f"{path.name} does not rise from 0 to {tokens}")
    return found


def _sequence(tokens: npt.NDArray[np.int32], starts: npt.NDArray[np.int64], number: int) -> npt.NDArray[np.int32]:
    if not 0 <= number < len(starts) - 1:
        raise IndexError(f"there is no pair {number} among {len(starts) - 1}")
    return np.asarray(tokens[starts[number] : starts[number + 1]])
