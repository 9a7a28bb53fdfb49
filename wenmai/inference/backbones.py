"""Encoders of every family behind one door, so that a head can be trained on any of them.

A backbone turns texts into rows, and rows into states:

| family | a text, two texts | the state of the text |
|---|---|---|
| BERT and its relatives | ``[CLS] A [SEP]``, ``[CLS] A [SEP] B [SEP]`` (Devlin et al. 2019, figure 4) | of ``[CLS]`` |
| GPT | ``start A extract``, ``start A delimiter B extract`` (Radford et al. 2018, section 3.3) | of ``extract`` |
| ELMo | the words of A; two texts are two rows (Peters et al. 2018) | the mean of its words' states |

Shapes: R rows, T tokens of the longest, K places of which states are wanted, J layers, M size of a state.
"""

import logging
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from wenmai.core.errors import SettingError
from wenmai.data.batches import pad
from wenmai.text.encodable import MUCH_UNKNOWN
from wenmai.text.ranges import EAST_ASIAN
from wenmai.text.tokenizer import Tokenizer

__all__ = [
    "TOKENIZER",
    "Backbone",
    "Fed",
    "Known",
    "Pieces",
    "Row",
    "joined_ids",
    "windowed",
]

TOKENIZER = "tokenizer.json"
Known = dict[tuple[str, bool], tuple[list[Any], int]]
"""Words, and whether behind a space: their pieces, and which of them is the first."""
_WORD_BEGINS = "▁"  # the piece that SentencePiece puts before a text
_EAST_ASIAN = re.compile(f"[{EAST_ASIAN}]")
_log = logging.getLogger(__name__)


class Pieces(NamedTuple):
    """A text in pieces.

    Attributes:
        ids: What a row has: numbers, or the words themselves.
        offsets: Where each begins and ends in the text, in characters.
    """

    ids: list[Any]
    offsets: list[tuple[int, int]]


class Row(NamedTuple):
    """What an encoder reads at once.

    Attributes:
        tokens: With special tokens: numbers, or words.
        second: Where the second text begins; the number of tokens if there is none.
        places: Which tokens' states are wanted; the text's own besides.
    """

    tokens: Sequence[Any]
    second: int
    places: Sequence[int] = ()


class Fed(NamedTuple):
    """Rows as tensors.

    Attributes:
        tokens: (R, T) int64.
        real: (R, T) bool, False for padding.
        segments: (R, T) int64, or None where there are no second texts.
        characters: (U, C) int64 of networks that read characters: the different words, of which ``tokens`` are numbers;
            the first two stand for the beginning and the end of a text.
        places: (R, K) int64; any place to fill up.
        filled: (R, K) bool, False for what fills up.
    """

    tokens: Tensor
    real: Tensor
    segments: Tensor | None
    characters: Tensor | None
    places: Tensor
    filled: Tensor

    def parts(self, most: int) -> "Iterator[Fed]":
        """Yields some rows at a time, with at most so many tokens, but one row at least."""
        rows, width = self.tokens.shape
        size = max(1, most // max(1, width))
        if size >= rows:
            yield self
            return
        for begin in range(0, rows, size):
            some = slice(begin, begin + size)
            segments = None if self.segments is None else self.segments[some]
            tokens, characters = self.tokens[some], self.characters
            if characters is not None:  # the words of these rows alone
                marks = torch.arange(2, device=tokens.device)
                used, numbers = torch.unique(torch.cat((marks, tokens.flatten())), return_inverse=True)
                characters, tokens = characters[used], numbers[2:].view(tokens.shape)
            yield Fed(tokens, self.real[some], segments, characters, self.places[some], self.filled[some])


class Backbone(ABC):
    """An encoder with its tokenizer.

    Args:
        module: The network, without what it predicted before.
        tokenizer: Its tokenizer; None if it reads any word.

    Attributes:
        paired: Whether two texts are one row.
        predicts: Whether it also predicts the next token, from the states of its last layer.
        leading: Tokens before the text whose states are the same before every text.
    """

    paired: ClassVar[bool] = True
    predicts: ClassVar[bool] = False
    leading: ClassVar[int] = 0

    def __init__(self, module: Any, tokenizer: Tokenizer | None) -> None:  # noqa: ANN401  each family has its own
        self.module = module
        self._tokenizer = tokenizer
        self._warned = False

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer."""
        assert self._tokenizer is not None
        return self._tokenizer

    @property
    def num_layers(self) -> int:
        """L: there are states of the layers 0 to L."""
        return int(self.module.config.num_layers)

    @property
    def size(self) -> int:
        """M."""
        return int(self.module.config.hidden_size)

    @property
    def max_length(self) -> int:
        """Most tokens of a row, special ones included."""
        return int(self.module.max_length)

    @property
    def unpads(self) -> bool:
        """Whether texts are read without padding, see :attr:`wenmai.nn.encoder.TextEncoder.unpads`."""
        return False

    @property
    def has_pooler(self) -> bool:
        """Whether it has a layer of its own above the state of the text."""
        return False

    @abstractmethod
    def room(self, *, pair: bool) -> int:
        """Most pieces of a row without special tokens."""

    @abstractmethod
    def framed(self, first: Sequence[Any], second: Sequence[Any] | None = None) -> Row:
        """Puts special tokens around the pieces of a text, or of two."""

    def begins(self, row: Row) -> tuple[int, int]:
        """Where the pieces of the two texts begin in a row of :meth:`framed`."""
        return 1, row.second

    def place(self, row: Row) -> int:
        """Which token's state is that of the text."""
        return 0

    def ids(self, texts: Sequence[str]) -> list[list[Any]]:
        """Returns the pieces of texts."""
        found: list[list[Any]] = list(self.tokenizer.encode_batch(list(texts)))
        return found

    def pieces(self, text: str) -> Pieces:
        """Returns the pieces of a text, and where they are."""
        found = self.tokenizer.encode(text)
        return Pieces(found.ids, found.offsets)

    def word(self, word: str, *, spaced: bool = True) -> tuple[list[Any], int]:
        """Returns the pieces of a word within a text, and which of them is its first, where spaces are pieces.

        Args:
            word: The word.
            spaced: Whether a space is before it.
        """
        found = self.tokenizer.encode(f" {word}" if spaced else word)
        if not found.ids:  # nothing but what the tokenizer leaves out
            return [self.tokenizer.unk_id], 0
        if spaced:
            return found.ids, next((place for place, (_, high) in enumerate(found.offsets) if high > 1), 0)
        marked = len(found.ids) > 1 and found.tokens[0] == _WORD_BEGINS
        return found.ids[marked:], 0

    def fed(self, rows: Sequence[Row]) -> Fed:
        """Makes tensors of rows."""
        tokens, real = pad([row.tokens for row in rows], self._padding)
        places, filled = pad([[self.place(row), *row.places] for row in rows], 0)
        segments = None
        if self._has_segments and any(row.second < len(row.tokens) for row in rows):
            seconds = np.array([row.second for row in rows])[:, None]
            segments = self._tensor(((np.arange(tokens.shape[1]) >= seconds) & real).astype(np.int64))
        return Fed(self._tensor(tokens), self._tensor(real), segments, None, self._tensor(places), self._tensor(filled))

    @property
    def _padding(self) -> int:
        return self.tokenizer.pad_id

    @property
    def _has_segments(self) -> bool:
        return False

    def _tensor(self, array: Any) -> Tensor:  # noqa: ANN401  of numpy
        return torch.from_numpy(array).to(self.module.device)

    @abstractmethod
    def last(self, fed: Fed, places: Tensor | None) -> Tensor:
        """Returns the states of the last layer, (R, T, M), or (R, K, M) of ``places``."""

    @abstractmethod
    def every(self, fed: Fed) -> Tensor:
        """Returns the states of all layers, (L + 1, R, T, M)."""

    def pooled(self, states: Tensor) -> Tensor:
        """Returns what the encoder's own layer makes of (R, 1, M), the states of texts; if :attr:`has_pooler`."""
        raise NotImplementedError

    # --- files --------------------------------------------------------------------------------------------------

    def warn_of_unknown(self, rows: Iterable[Sequence[Any]], system: str) -> None:
        """Logs a warning, once, if the vocabulary lacks much of what is read by a model of this system."""
        if not self._warned and (share := self.unknown(rows)) > MUCH_UNKNOWN:
            self._warned = True
            lacking = f"{system}: the vocabulary of the encoder lacks {share:.0%} of the pieces of the text"
            _log.warning("%s", f"{lacking}; a model whose encoder was trained on such text knows more")

    def unknown(self, rows: Iterable[Sequence[Any]]) -> float:
        """Returns which share of the pieces of rows, as :class:`Row` has them, the vocabulary lacks."""
        if self._tokenizer is None:
            return 0.0
        around = {self._tokenizer.cls_id, self._tokenizer.sep_id, self._tokenizer.pad_id}
        size, unknown = self._tokenizer.vocab_size, self._tokenizer.unk_id
        counted = Counter(chain.from_iterable(rows))
        pieces = sum(
            count for one, count in counted.items() if one not in around and not (type(one) is int and one >= size)
        )
        return 0.0 if unknown in around else counted[unknown] / max(1, pieces)

    def facts(self) -> dict[str, Any]:
        """What ``config.json`` says of it."""
        return {
            "kind": self.module.kind,
            "model": asdict(self.module.config),
            "vocab_size": self.module.vocab_size,
            "tokens": self._tokenizer is not None,
        }

    def save(self, folder: Path) -> None:
        """Writes the tokenizer."""
        if self._tokenizer is not None:
            self._tokenizer.save(folder / TOKENIZER)

    @abstractmethod
    def again(self, *, pooler: bool, dropout: float | None) -> "Backbone":
        """Returns the same architecture with fresh parameters.

        Args:
            pooler: Whether it keeps the layer above the state of the text.
            dropout: Within the network; None: as it is.
        """

    def take(self, other: nn.Module) -> None:
        """Copies the parameters of a network of the same architecture; rows of tokens that it lacks stay.

        Raises:
            SettingError: if it lacks a parameter, or has another size.
        """
        old = other.state_dict()
        for name, parameter in self.module.state_dict().items():
            rows = old.get(name)
            if rows is None or rows.shape[1:] != parameter.shape[1:] or len(rows.shape) != len(parameter.shape):
                raise SettingError(f"the encoder has no {name} of shape {tuple(parameter.shape)}, and cannot be used")
            if not rows.dim():
                parameter.copy_(rows)
                continue
            parameter[: len(rows)].copy_(rows[: len(parameter)])


def joined_ids(words: Iterable[str], backbone: Backbone, known: Known) -> Pieces:
    """Returns the pieces of given words, and as ``offsets`` where each word's first piece and its end are.

    Args:
        words: The words.
        backbone: Which cuts them.
        known: Words that were cut before, and whether behind a space; grows.
    """
    ids: list[Any] = []
    spans = []
    given = [*words]
    for word, spaced in zip(given, _after_spaces(given), strict=True):
        if (word, spaced) not in known:
            known[word, spaced] = backbone.word(word, spaced=spaced)
        pieces, first = known[word, spaced]
        spans.append((len(ids) + first, len(ids) + len(pieces)))
        ids += pieces
    return Pieces(ids, spans)


def _after_spaces(words: Sequence[str]) -> Iterator[bool]:
    """Yields whether running text has a space before each word.

    None is beside a Chinese or Japanese character, nor within a text of which every character stands alone.
    """
    alone = all(len(word) == 1 for word in words) and any(map(_EAST_ASIAN.match, words))
    before = ""
    for word in words:
        yield not (alone or _EAST_ASIAN.match(word) or _EAST_ASIAN.match(before[-1:]))
        before = word


def windowed(backbone: Backbone, pieces: Pieces, room: int, stride: int) -> Iterator[Row]:
    """Yields a sentence as one row, or as several windows, whose places are the first pieces of their words.

    A word belongs to the window in which its first piece has most context. The words of the windows are those of the
    sentence in order.

    Args:
        backbone: Which reads them.
        pieces: Of :func:`joined_ids`.
        room: Most pieces of a window.
        stride: Pieces from the beginning of a window to that of the next; at most ``room``.
    """
    ids, size = pieces.ids, len(pieces.ids)
    starts = np.array([start for start, _ in pieces.offsets], np.int64)
    begins = [0] if size <= room else [*range(0, size - room, min(stride, room)), size - room]
    # Most context has the window whose middle is nearest; of two the first.
    middles = np.array(begins, np.float64) + min(size, room) / 2
    nearest = np.abs(starts[:, None] + 0.5 - middles).argmin(1) if len(starts) else starts
    for number, begin in enumerate(begins):
        row = backbone.framed(ids[begin : begin + room])
        first, _ = backbone.begins(row)
        yield row._replace(places=(first + starts[nearest == number] - begin).tolist())
