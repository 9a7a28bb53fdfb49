"""Encoders of every family behind one door, so that a head can be trained on any of them.

A backbone turns texts into rows, and rows into states:

| family | a text, two texts | the state of the text |
|---|---|---|
| BERT and its relatives | ``[CLS] A [SEP]``, ``[CLS] A [SEP] B [SEP]`` (Devlin et al. 2019, figure 4) | of ``[CLS]`` |
| GPT | ``start A extract``, ``start A delimiter B extract`` (Radford et al. 2018, section 3.3) | of ``extract`` |
| ELMo | the words of A; two texts are two rows (Peters et al. 2018) | the mean of its words' states |

Shapes: R rows, T tokens of the longest, K places of which states are wanted, J layers, M size of a state.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from wenmai.core.errors import FormatError, SettingError
from wenmai.data.batches import pad
from wenmai.inference.architecture import architecture_of
from wenmai.inference.elmo_model import ElmoModel
from wenmai.inference.language_model import LanguageModel
from wenmai.inference.masked_model import MaskedModel
from wenmai.models.elmo import Elmo
from wenmai.models.folder import CONFIG
from wenmai.models.gpt import Gpt
from wenmai.nn.characters import BEGIN, END, spelled
from wenmai.nn.encoder import TextEncoder
from wenmai.nn.lora import LoraLinear, merge_lora
from wenmai.nn.masks import causal
from wenmai.nn.multihead import rows_at
from wenmai.text.tokenizer import Tokenizer

__all__ = [
    "Backbone",
    "Fed",
    "Pieces",
    "Row",
    "Stored",
    "backbone_like",
    "backbone_of",
    "joined_ids",
    "stored_backbone",
]

_ANY_LENGTH = 512  # words that are read at once where the network reads any number
_TOKENIZER = "tokenizer.json"


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
        characters: (U, C) int64 of networks that read characters: the different words, of which ``tokens`` are numbers.
        places: (R, K) int64; any place to fill up.
        filled: (R, K) bool, False for what fills up.
    """

    tokens: Tensor
    real: Tensor
    segments: Tensor | None
    characters: Tensor | None
    places: Tensor
    filled: Tensor


class Backbone(ABC):
    """An encoder with its tokenizer.

    Args:
        module: The network, without what it predicted before.
        tokenizer: Its tokenizer; None if it reads any word.

    Attributes:
        paired: Whether two texts are one row.
        predicts: Whether it also predicts the next token, from the states of its last layer.
    """

    paired: ClassVar[bool] = True
    predicts: ClassVar[bool] = False

    def __init__(self, module: Any, tokenizer: Tokenizer | None) -> None:  # noqa: ANN401  each family has its own
        self.module = module
        self._tokenizer = tokenizer

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

    def word(self, word: str) -> tuple[list[Any], int]:
        """Returns the pieces of a word within a text, and which of them is its first, where spaces are pieces."""
        found = self.tokenizer.encode(f" {word}")
        if not found.ids:  # nothing but what the tokenizer leaves out
            return [self.tokenizer.unk_id], 0
        return found.ids, next((place for place, (_, high) in enumerate(found.offsets) if high > 1), 0)

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
            self._tokenizer.save(folder / _TOKENIZER)

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


class _Bert(Backbone):
    """BERT, imported encoders, and their relatives."""

    def room(self, *, pair: bool) -> int:
        return self.max_length - (3 if pair else 2)

    def framed(self, first: Sequence[Any], second: Sequence[Any] | None = None) -> Row:
        cls, sep = self._marks
        if second is None:
            tokens = [cls, *first, sep]
            return Row(tokens, len(tokens))
        return Row([cls, *first, sep, *second, sep], len(first) + 2)

    @cached_property
    def _marks(self) -> tuple[int, int]:
        cls, sep = self.tokenizer.cls_id, self.tokenizer.sep_id
        if cls is None or sep is None:
            raise FormatError("the tokenizer has no tokens for the beginning and the end of a text, [CLS] and [SEP]")
        return cls, sep

    @property
    def _has_segments(self) -> bool:
        return int(self.module.config.segments) > 1

    @property
    def has_pooler(self) -> bool:
        return getattr(self.module, "pooler", None) is not None

    def _mask(self, fed: Fed) -> Tensor | None:
        return None if bool(fed.real.all()) else fed.real[:, None, None]

    def last(self, fed: Fed, places: Tensor | None) -> Tensor:
        found: Tensor = self.module(fed.tokens, segments=fed.segments, mask=self._mask(fed), places=places)
        return found

    def every(self, fed: Fed) -> Tensor:
        return torch.stack(self.module.hidden_states(fed.tokens, segments=fed.segments, mask=self._mask(fed)))

    def pooled(self, states: Tensor) -> Tensor:
        found: Tensor = self.module.pooled(states)
        return found

    def again(self, *, pooler: bool, dropout: float | None) -> "_Bert":
        config = replace(self.module.config, heads=(), labels=())
        config = config if pooler else replace(config, pooler="none")
        config = config if dropout is None else replace(config, dropout=dropout)
        return _Bert(type(self.module)(config, vocab_size=self.module.vocab_size), self._tokenizer)


class _Gpt(Backbone):
    """GPT: three tokens more than it was trained with, start, delimiter and extract."""

    predicts = True

    def room(self, *, pair: bool) -> int:
        return self.max_length - (3 if pair else 2)

    def framed(self, first: Sequence[Any], second: Sequence[Any] | None = None) -> Row:
        start, delimiter, extract = range(self.module.vocab_size - 3, self.module.vocab_size)
        if second is None:
            tokens = [start, *first, extract]
            return Row(tokens, len(tokens))
        return Row([start, *first, delimiter, *second, extract], len(first) + 2)

    def place(self, row: Row) -> int:
        return len(row.tokens) - 1

    def last(self, fed: Fed, places: Tensor | None) -> Tensor:
        found: Tensor = self.module(fed.tokens)  # no token sees the padding behind it
        return found if places is None else rows_at(found, places)

    def every(self, fed: Fed) -> Tensor:
        module = self.module
        states = [module._embed(fed.tokens, module.positions(0, fed.tokens.shape[1]))]
        for layer in module.decoder.layers:
            states.append(layer(states[-1], mask=causal()))
        states[-1] = module.decoder.norm(states[-1])
        return torch.stack(states)

    def again(self, *, pooler: bool, dropout: float | None) -> "_Gpt":
        config = self.module.config if dropout is None else replace(self.module.config, dropout=dropout)
        module = type(self.module)(config, vocab_size=self.module.vocab_size, bos_id=self.module.bos_id)
        return _Gpt(module, self._tokenizer)


class _Elmo(Backbone):
    """ELMo: rows are words."""

    paired = False

    @property
    def size(self) -> int:
        return 2 * int(self.module.config.hidden_size)

    @property
    def max_length(self) -> int:
        return _ANY_LENGTH

    @cached_property
    def _reader(self) -> ElmoModel:
        return ElmoModel(self.module, self._tokenizer)

    def room(self, *, pair: bool) -> int:
        return self.max_length

    def framed(self, first: Sequence[Any], second: Sequence[Any] | None = None) -> Row:
        tokens = [*first, *(second or ())] or [""]  # there is at least the begin of a text
        return Row(tokens, len(first) if second is not None else len(tokens))

    def begins(self, row: Row) -> tuple[int, int]:
        return 0, row.second

    def ids(self, texts: Sequence[str]) -> list[list[Any]]:
        return [self.pieces(text).ids for text in texts]

    def pieces(self, text: str) -> Pieces:
        words, offsets = self._reader.words(text)
        return Pieces(words, offsets)

    def word(self, word: str) -> tuple[list[Any], int]:
        return [word], 0

    def fed(self, rows: Sequence[Row]) -> Fed:
        numbers: dict[str, int] = {}
        for row in rows:
            for word in row.tokens:
                numbers.setdefault(word, 2 + len(numbers))
        characters = spelled([BEGIN, END, *numbers], self.module.config.max_characters).astype(np.int64)
        found = super().fed([row._replace(tokens=[numbers[word] for word in row.tokens]) for row in rows])
        return found._replace(characters=self._tensor(characters))

    @property
    def _padding(self) -> int:
        return 0

    def last(self, fed: Fed, places: Tensor | None) -> Tensor:
        found = self.every(fed)[-1]
        return found if places is None else rows_at(found, places)

    def every(self, fed: Fed) -> Tensor:
        found: Tensor = self.module.layers(fed.characters, fed.tokens, fed.real)
        return found

    def again(self, *, pooler: bool, dropout: float | None) -> "_Elmo":
        config = replace(self.module.config, cutoffs=(), predicted=None)
        config = config if dropout is None else replace(config, dropout=dropout)
        return _Elmo(type(self.module)(config, vocab_size=None), self._tokenizer)


_FAMILIES: dict[type, type[Backbone]] = {TextEncoder: _Bert, Gpt: _Gpt, Elmo: _Elmo}


def backbone_like(base: Any) -> Backbone:  # noqa: ANN401  whatever was trained before
    """Returns the network of a trained model as a backbone, as it is.

    Args:
        base: A masked language model, an imported encoder, a GPT, an ELMo, or a model that was fine-tuned itself.

    Raises:
        SettingError: if its network cannot be fine-tuned.
    """
    if isinstance(backbone := getattr(base, "backbone", None), Backbone):
        return backbone
    if isinstance(base, MaskedModel):
        return _Bert(base.module, base.tokenizer)
    if isinstance(base, ElmoModel):
        return _Elmo(base.module, base.tokenizer)
    if isinstance(base, LanguageModel) and isinstance(base.module, Gpt):
        return _Gpt(base.module, base.tokenizer)
    raise SettingError(f"a {type(base).__name__} has no encoder that can be fine-tuned; start from bert, gpt or elmo")


def backbone_of(base: Any, *, pooler: bool, dropout: float | None, fresh: bool) -> Backbone:  # noqa: ANN401
    """Returns the encoder of a trained model to be trained on, without what it predicted.

    Args:
        base: As of :func:`backbone_like`, which is not changed.
        pooler: Whether it keeps the layer above the state of the text.
        dropout: Within the network; None: as it was.
        fresh: Whether its parameters are drawn anew.
    """
    known = backbone_like(base)
    if isinstance(known, _Gpt) and isinstance(base, LanguageModel):
        bare = known.module
        known = _Gpt(_with_three_more(bare), known.tokenizer)
    found = known.again(pooler=pooler, dropout=dropout)
    if not fresh:
        module = backbone_like(base).module
        if any(isinstance(one, LoraLinear) for one in module.modules()):
            merge_lora(module := deepcopy(module))
        with torch.no_grad():
            found.take(module)
    return found


def _with_three_more(module: Gpt) -> Gpt:
    """The same architecture, on the meta device, with start, delimiter and extract behind its tokens."""
    with torch.device("meta"):
        return type(module)(module.config, vocab_size=module.vocab_size + 3, bos_id=module.bos_id)


class Stored(NamedTuple):
    """A backbone in files.

    Attributes:
        config: The settings of its network.
        make: Makes it with fresh parameters.
    """

    config: Any
    make: Callable[[], Backbone]


def stored_backbone(folder: Path, facts: Any) -> Stored:  # noqa: ANN401  a JSON value
    """Reads what :meth:`Backbone.facts` said, and the tokenizer beside it.

    Raises:
        FormatError: if the facts or the tokenizer are damaged, or do not fit each other.
    """
    path = folder / CONFIG
    if not isinstance(facts, dict) or not isinstance(facts.get("tokens"), bool):
        raise FormatError(f"{path}: is damaged: it does not say what its encoder is")
    found = architecture_of(path, facts.get("kind"), facts.get("model"), tuple(_FAMILIES))
    family = next(kind for of, kind in _FAMILIES.items() if issubclass(found.model, of))
    tokenizer = Tokenizer.load(folder / _TOKENIZER) if facts["tokens"] else None
    size, more = facts.get("vocab_size"), {}
    if family is not _Elmo:
        extra = 3 if family is _Gpt else 0
        if tokenizer is None or type(size) is not int or size < tokenizer.vocab_size + extra:
            known = None if tokenizer is None else tokenizer.vocab_size
            raise FormatError(f"{path}: is damaged: {_TOKENIZER} has {known} tokens, the model {size!r}")
        more = {"bos_id": tokenizer.eos_id} if family is _Gpt else {}
    elif size is not None:
        raise FormatError(f"{path}: is damaged: its encoder predicts nothing, but has a vocabulary of {size!r}")
    return Stored(found.config, lambda: family(found.model(found.config, vocab_size=size, **more), tokenizer))


def joined_ids(words: Iterable[str], backbone: Backbone, known: dict[str, tuple[list[Any], int]]) -> Pieces:
    """Returns the pieces of given words, and as ``offsets`` where each word's first piece and its end are.

    Args:
        words: The words.
        backbone: Which cuts them.
        known: Words that were cut before; grows.
    """
    ids: list[Any] = []
    spans = []
    for word in words:
        if word not in known:
            known[word] = backbone.word(word)
        pieces, first = known[word]
        spans.append((len(ids) + first, len(ids) + len(pieces)))
        ids += pieces
    return Pieces(ids, spans)
