"""The training data of a language model: text encoded, split, and reopened when a training is resumed."""

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wenmai.config.effects import require_usual
from wenmai.core.errors import CorpusError, SettingError
from wenmai.core.folder import writing_json
from wenmai.data.cached import kept, reopened, reopened_part, stored_head
from wenmai.data.corpus import Corpus, CorpusStats, Progress
from wenmai.data.encoded_text import EncodedText, LinesConfig, encode_text, readable_twice
from wenmai.data.marking import MakeMarker, require_found
from wenmai.data.sequences import SentenceStream
from wenmai.data.sources import open_texts
from wenmai.data.token_marks import Marker
from wenmai.text.encodable import MUCH_UNKNOWN
from wenmai.text.growth import grow
from wenmai.text.pieces import OPTIONAL_SPECIALS, OptionalRole, StreamTokenizerConfig
from wenmai.text.tokenizer import Tokenizer
from wenmai.text.vocabulary_files import read_tokenizer

__all__ = ["LanguageData", "Stream", "read_language_data"]

_ASIDE, _MOST_ASIDE = (
    0.05,
    250_000,
)  # fraction of the tokens to validate on where no text is given, and how many at most
_FEWEST = 40  # tokens of a text, so that there is something to validate on
_ROOM, _VERSION = "languages", 1

Ids = npt.NDArray[np.int32]


@dataclass(frozen=True, kw_only=True)
class Stream:
    """A stream of tokens, each line closed by EOS.

    Attributes:
        tokens: (N,) int32.
        end: EOS.
        characters: Their characters, ends of lines counted; none if unknown.
    """

    tokens: Ids
    end: int
    characters: int | None = None

    def __len__(self) -> int:
        return len(self.tokens)

    def read(self, start: int, length: int, *, before: int = 1) -> Ids:
        """Returns ``length`` targets from ``start`` on, after ``before`` tokens of context.

        Args:
            start: The first target.
            length: How many targets.
            before: Tokens of context before the first target; EOS stands for those before the stream.

        Returns:
            (before + length) int32.
        """
        first = start - before
        missing = max(0, -first)
        found = np.asarray(self.tokens[max(0, first) : start + length])
        return np.concatenate([np.full(missing, self.end, np.int32), found]) if missing else found


@dataclass(frozen=True, kw_only=True)
class LanguageData:
    """An encoded text and its tokenizer.

    Attributes:
        text: The text to train on, and the part held out.
        valid: The text to validate on; None: the end of ``text``.
        tokenizer: The tokenizer.
        grown: Of each token that the continued run does not have, the tokens that it is made of.
    """

    text: EncodedText
    valid: EncodedText | None
    tokenizer: Tokenizer
    grown: tuple[tuple[int, ...], ...] = ()

    @cached_property
    def train_stream(self) -> Stream:
        """The tokens to train on."""
        return Stream(tokens=self.text.tokens[: self._split[0]], end=self.tokenizer.eos_id)

    @cached_property
    def valid_stream(self) -> Stream:
        """The tokens to validate on."""
        if self.valid is None:
            begin, before = self._split
            return Stream(
                tokens=self.text.tokens[begin:],
                end=self.tokenizer.eos_id,
                characters=None if before is None else self.text.stats.characters - before,
            )
        return Stream(tokens=self.valid.tokens, end=self.tokenizer.eos_id, characters=self.valid.stats.characters)

    def sentences(self, *, separator: int) -> tuple[SentenceStream, SentenceStream]:
        """Returns the text to train on and that to validate on, for models that read sentences and documents.

        Args:
            separator: The token between documents.
        """
        begin, _ = self._split
        valid = self.text if self.valid is None else self.valid
        return (
            SentenceStream(self.text, 0, begin, separator=separator),
            SentenceStream(valid, begin if self.valid is None else 0, len(valid), separator=separator, held_out=True),
        )

    @cached_property
    def _split(self) -> tuple[int, int | None]:
        """Where the part held out begins, after the end of a line if one is near; and the characters before it."""
        size, ends = len(self.text), self.text.ends
        if self.valid is not None:
            return size, self.text.stats.characters
        aside = min(_MOST_ASIDE, max(_FEWEST // 4, int(size * _ASIDE)))
        behind: Any = ends[:, 0]
        near = ends[bisect_left(behind, size - 2 * aside + 1) : bisect_right(behind, size - aside // 2)]
        if not len(near):
            return size - aside, None
        tokens, characters = near[np.abs(near[:, 0] - (size - aside)).argmin()].tolist()
        return tokens, characters

    def warnings(self) -> list[str]:
        """That the vocabulary lacks much of the text, if it does: a model would learn to say that nothing is known."""
        stats = self.text.stats
        share = stats.unknown / max(1, stats.tokens - stats.lines)
        if share <= MUCH_UNKNOWN:
            return []
        return [f"the vocabulary lacks {share:.0%} of the pieces of the text; take one that was made of such text"]

    @property
    def fingerprint(self) -> str:
        """Of both texts and the tokenizer."""
        valid = None if self.valid is None else self.valid.fingerprint
        return hashlib.sha256(f"{self.text.fingerprint} {valid}".encode()).hexdigest()

    def describe(self) -> dict[str, Any]:
        """Sources and statistics."""
        return {
            "sources": list(self.text.files),
            "text": {},
            "stats": asdict(self.text.stats),
            "valid": None if self.valid is None else asdict(self.valid.stats),
            **({} if self.text.marked is None else {"marks": asdict(self.text.marked)}),
        }

    def keep(self) -> None:
        """Stores in the cache what :meth:`reopen` needs."""
        kept(_ROOM, self.fingerprint, self._save)

    def _save(self, folder: Path) -> None:
        head: dict[str, Any] = {"version": _VERSION, "text": self.text.fingerprint}
        head["valid"] = None if self.valid is None else self.valid.fingerprint
        writing_json(folder / "data.json", head | {"grown": self.grown})
        self.tokenizer.save(folder / "tokenizer.json")

    @classmethod
    def reopen(cls, fingerprint: str) -> "LanguageData | None":
        """Opens what was read before, from the cache alone; None if it is missing or damaged."""
        return reopened(_ROOM, fingerprint, cls._open)

    @classmethod
    def _open(cls, folder: Path) -> "LanguageData":
        with stored_head(folder, "data.json", _VERSION, "running text") as head:
            return cls(
                text=reopened_part("texts", head["text"], EncodedText.open),
                valid=None if head["valid"] is None else reopened_part("texts", head["valid"], EncodedText.open),
                tokenizer=Tokenizer.load(folder / "tokenizer.json"),
                grown=tuple(tuple(parts) for parts in head["grown"]),
            )


def read_language_data(
    corpus: Corpus,
    config: LinesConfig,
    tokenizer: StreamTokenizerConfig,
    *,
    inherited: Tokenizer | None,
    roles: Sequence[OptionalRole] = (),
    marking: MakeMarker | None = None,
    progress: Progress | None = None,
) -> LanguageData:
    """Reads, tokenizes and encodes a text.

    Args:
        corpus: The text.
        config: How to read it, and the validation text.
        tokenizer: How to make the tokenizer, or where it is.
        inherited: An existing tokenizer.
        roles: Special tokens that the model needs besides the usual ones.
        marking: Makes what marks phrases and the like in both texts (see :mod:`wenmai.data.token_marks`).
        progress: Called with the bytes read so far; training a tokenizer, encoding and the validation text begin at
            zero each.

    Raises:
        CorpusError: if the text cannot be read, or is too short.
        FormatError: if the file of the tokenizer is missing or damaged.
        SettingError: if the vocabulary is to grow but is new, or cannot grow.
    """
    grown: list[list[int]] = []
    copied = CorpusStats()
    with readable_twice(corpus, config, stats=copied) as (text, reading):
        marker = None if marking is None else marking(text, reading, progress)
        if inherited is None:
            require_usual(config, ("grow",), "a new model", needed="--from RUN")
            if tokenizer.file is not None:
                inherited = read_tokenizer(tokenizer.file)
            else:
                inherited = Tokenizer.train(_lines(text, reading, marker, progress), tokenizer, roles=roles)
        elif config.grow:
            inherited, grown = grow(inherited, _lines(text, reading, marker, progress), config.grow)
        _require_roles(inherited, roles, tokenizer.file)
        train = encode_text(text, inherited, reading, marker=marker, progress=progress)
        skipped_lines = train.stats.skipped_lines + copied.skipped_lines
        train = replace(train, stats=replace(train.stats, skipped_lines=skipped_lines))
        if marker is not None:
            require_found(train, marker, corpus.describe())
    valid = None
    if config.valid is not None:
        given, _, _ = open_texts(config.valid)
        valid = encode_text(given, inherited, config, marker=marker, progress=progress)
    elif len(train) < _FEWEST:
        raise CorpusError(
            f"{corpus.describe()}: {len(train)} tokens are too few to hold some out for validation; name a text to "
            f"validate on (--valid), or give at least {_FEWEST} tokens"
        )
    data = LanguageData(text=train, valid=valid, tokenizer=inherited, grown=tuple(map(tuple, grown)))
    data.keep()
    return data


def _require_roles(tokenizer: Tokenizer, roles: Sequence[OptionalRole], file: str | None) -> None:
    missing = [f"{OPTIONAL_SPECIALS[role]} ({role})" for role in roles if getattr(tokenizer, f"{role}_id") is None]
    if roles and file is not None and tokenizer.pad_id == tokenizer.eos_id:
        missing.append("[PAD] (pad)")
    if missing:
        names = ", ".join(missing)
        raise SettingError(
            f"{file or 'the tokenizer of the continued run'}: has no token for {names}, which this system needs; use a "
            "tokenizer that has them, or leave out file, and one is trained"
        )


def _lines(corpus: Corpus, config: LinesConfig, marker: Marker | None, progress: Progress | None) -> Iterator[str]:
    for line in corpus.lines(config.text, stats=CorpusStats(), progress=progress):
        yield line.text if marker is None else marker.plain(line.text)
