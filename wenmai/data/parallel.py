"""The training data of a translator: pairs encoded, split, and reopened when a training is resumed."""

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import CorpusError
from wenmai.core.folder import writing_json
from wenmai.data.cached import kept, reopened, reopened_part, stored_head
from wenmai.data.corpus import Progress
from wenmai.data.encoded_pairs import EncodedPairs, encode_pairs
from wenmai.data.file_hash import FileHash
from wenmai.data.pairs import Pairs, PairsConfig, PairsStats, read_pairs
from wenmai.text.pieces import JointTokenizerConfig
from wenmai.text.tokenizer import Tokenizer

__all__ = ["TranslationData", "read_translation_data"]

_SET_ASIDE, _MOST_ASIDE = 0.02, 1000  # fraction of the pairs to validate on where none are given, and how many at most
_ROOM, _VERSION = "translations", 2


@dataclass(frozen=True, kw_only=True)
class TranslationData:
    """Encoded pairs and their tokenizers.

    Attributes:
        train: The pairs to train on, and those held out.
        valid: The pairs to validate on; None: some of ``train``.
        source: Tokenizer of the source.
        target: Tokenizer of the target; the same object where they are joint.
        files: The files of the training pairs, as they were read; none for pairs from Python.
    """

    train: EncodedPairs
    valid: EncodedPairs | None
    source: Tokenizer
    target: Tokenizer
    files: tuple[FileHash, ...] = ()

    @property
    def train_numbers(self) -> npt.NDArray[np.int64]:
        """Which pairs of ``train`` to train on."""
        numbers = np.arange(len(self.train))
        return numbers if self.valid is not None else np.delete(numbers, self._aside)

    @property
    def validated(self) -> tuple[EncodedPairs, npt.NDArray[np.int64]]:
        """The pairs to validate on, and which of them."""
        return (self.train, self._aside) if self.valid is None else (self.valid, np.arange(len(self.valid)))

    @property
    def _aside(self) -> npt.NDArray[np.int64]:
        every = _aside_every(len(self.train))
        return np.arange(every - 1, len(self.train), every)

    @property
    def fingerprint(self) -> str:
        """Of both sets and the tokenizers."""
        valid = None if self.valid is None else self.valid.fingerprint
        return hashlib.sha256(f"{self.train.fingerprint} {valid}".encode()).hexdigest()

    def describe(self) -> dict[str, Any]:
        """Sources and statistics."""
        return {
            "sources": [file.as_json() for file in self.files],
            "text": {},
            "stats": asdict(self.train.stats),
            "valid": None if self.valid is None else asdict(self.valid.stats),
        }

    def keep(self) -> None:
        """Stores in the cache what :meth:`reopen` needs."""
        kept(_ROOM, self.fingerprint, self._save)

    def _save(self, folder: Path) -> None:
        head = {"version": _VERSION, "train": self.train.fingerprint, "files": [file._asdict() for file in self.files]}
        head["valid"] = None if self.valid is None else self.valid.fingerprint
        writing_json(folder / "data.json", head | {"joint": self.source is self.target})
        self.source.save(folder / "source-tokenizer.json")
        self.target.save(folder / "target-tokenizer.json")

    @classmethod
    def reopen(cls, fingerprint: str) -> "TranslationData | None":
        """Opens what was read before, from the cache alone; None if it is missing or damaged."""
        return reopened(_ROOM, fingerprint, cls._open)

    @classmethod
    def _open(cls, folder: Path) -> "TranslationData":
        with stored_head(folder, "data.json", _VERSION, "parallel text") as head:
            source = Tokenizer.load(folder / "source-tokenizer.json")
            return cls(
                train=reopened_part("pairs", head["train"], EncodedPairs.open),
                valid=None if head["valid"] is None else reopened_part("pairs", head["valid"], EncodedPairs.open),
                source=source,
                target=source if head["joint"] else Tokenizer.load(folder / "target-tokenizer.json"),
                files=tuple(FileHash(**file) for file in head["files"]),
            )


def read_translation_data(
    pairs: Pairs,
    config: PairsConfig,
    tokenizer: JointTokenizerConfig,
    *,
    longest: int,
    inherited: tuple[Tokenizer, Tokenizer] | None,
    progress: Progress | None = None,
) -> TranslationData:
    """Reads, tokenizes and encodes pairs.

    Args:
        pairs: The pairs; files, or pairs that can be read again.
        config: Which side is the source, and the validation pairs.
        tokenizer: How to make the tokenizers.
        longest: Most tokens of a side that the model takes; pairs with more are left out, as with ``config.longest``.
        inherited: Existing tokenizers of source and target.
        progress: Called after each block of a file, with the bytes read so far; training a tokenizer, encoding and the
            validation pairs begin at zero each.

    Raises:
        CorpusError: if the text cannot be read, or has too few pairs.
    """
    pairs = pairs.swapped() if config.swap else pairs
    files = tuple(pairs.hashes())

    def read() -> Iterator[tuple[str, str]]:
        return pairs.read(PairsStats(), progress=progress)

    if inherited is not None:
        source, target = inherited
    elif tokenizer.joint:
        source = target = Tokenizer.train(chain.from_iterable(read()), tokenizer)
    else:
        source = Tokenizer.train((one for one, _ in read()), tokenizer)
        target = Tokenizer.train((other for _, other in read()), tokenizer)
    longest = min(longest, config.longest)
    train, valid = encode_pairs(pairs, source, target, longest=longest, progress=progress), None
    if config.valid is not None:
        given = read_pairs(config.valid, swap=config.swap)
        valid = encode_pairs(given, source, target, longest=longest, progress=progress)
    elif len(train) < _aside_every(len(train)):
        raise CorpusError(
            f"{pairs.describe()}: {len(train)} pairs are too few to hold some out for validation (left out: "
            f"{train.stats.too_long} of more than {longest} tokens on a side, {train.stats.empty} with an empty side); "
            f"name a validation set (--valid), or give at least {_aside_every(len(train))} pairs"
        )
    if tuple(pairs.hashes()) != files:
        raise CorpusError(f"{pairs.describe()}: changed while it was read; run again when nothing writes to it")
    data = TranslationData(train=train, valid=valid, source=source, target=target, files=files)
    data.keep()
    return data


def _aside_every(pairs: int) -> int:
    """One of how many pairs is held out."""
    return max(round(1 / _SET_ASIDE), -(-pairs // _MOST_ASIDE))
