"""The backbones of all families: BERT and its relatives, GPT, ELMo; see :mod:`wenmai.inference.backbones`."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from wenmai.core.errors import FormatError, SettingError
from wenmai.inference.architecture import architecture_of
from wenmai.inference.backbones import TOKENIZER, Backbone, Fed, Pieces, Row
from wenmai.inference.elmo_model import ElmoModel
from wenmai.inference.embedding_config import EmbeddingConfig
from wenmai.inference.language_model import LanguageModel
from wenmai.inference.masked_model import MaskedModel
from wenmai.inference.reading_config import TextVector
from wenmai.models.elmo import Elmo
from wenmai.models.folder import CONFIG
from wenmai.models.gpt import Gpt
from wenmai.nn.blank import blank
from wenmai.nn.characters import BEGIN, END, spelled
from wenmai.nn.encoder import TextEncoder
from wenmai.nn.lora import LoraLinear, merge_lora
from wenmai.nn.masks import real_keys
from wenmai.nn.multihead import rows_at
from wenmai.text.encodable import separators_between
from wenmai.text.tokenizer import Tokenizer

__all__ = ["Stored", "backbone_like", "backbone_of", "readable_backbone", "stored_backbone", "taught_pooling"]

_ANY_LENGTH = 512  # words that are read at once where the network reads any number


class _Bert(Backbone):
    """BERT, imported encoders, and their relatives."""

    def room(self, *, pair: bool) -> int:
        return self.max_length - (2 + self._between if pair else 2)

    def framed(self, first: Sequence[Any], second: Sequence[Any] | None = None) -> Row:
        cls, sep = self._marks
        if second is None:
            tokens = [cls, *first, sep]
            return Row(tokens, len(tokens))
        return Row([cls, *first, *[sep] * self._between, *second, sep], 1 + len(first) + self._between)

    @cached_property
    def _between(self) -> int:
        return separators_between(self.tokenizer.token(self._marks[0]), self.module.config.segments)

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
    def unpads(self) -> bool:
        return bool(self.module.unpads)

    @property
    def has_pooler(self) -> bool:
        return getattr(self.module, "pooler", None) is not None

    def last(self, fed: Fed, places: Tensor | None) -> Tensor:
        found: Tensor = self.module(fed.tokens, segments=fed.segments, mask=real_keys(fed.real), places=places)
        return found

    def every(self, fed: Fed) -> Tensor:
        return torch.stack(self.module.hidden_states(fed.tokens, segments=fed.segments, mask=real_keys(fed.real)))

    def pooled(self, states: Tensor) -> Tensor:
        found: Tensor = self.module.pooled(states)
        return found

    def again(self, *, pooler: bool, dropout: float | None) -> "_Bert":
        config = replace(self.module.config, heads=(), labels=(), shifted=False)
        config = config if pooler else replace(config, pooler="none")
        config = _dropped(config, dropout)
        return _Bert(type(self.module)(config, vocab_size=self.module.vocab_size), self._tokenizer)


def _dropped(config: Any, dropout: float | None) -> Any:  # noqa: ANN401  of a BERT or a GPT
    """A configuration with another dropout; that of the attention weights is at most as high."""
    if dropout is None:
        return config
    return replace(config, dropout=dropout, attention_dropout=min(config.attention_dropout, dropout))


class _Language(Backbone):
    """A language model as it was trained: BOS is before a text, and no token sees those behind it, or padding."""

    leading = 1

    @property
    def size(self) -> int:
        return int(self.module.state_size)

    @property
    def max_length(self) -> int:
        return int(self.module.max_length or _ANY_LENGTH)

    def room(self, *, pair: bool) -> int:
        return self.max_length - 1

    def framed(self, first: Sequence[Any], second: Sequence[Any] | None = None) -> Row:
        assert second is None  # it has no token to put between two texts
        tokens = [self.module.bos_id, *first]
        return Row(tokens, len(tokens))

    def place(self, row: Row) -> int:
        return len(row.tokens) - 1

    def last(self, fed: Fed, places: Tensor | None) -> Tensor:
        found: Tensor = self.module(fed.tokens)
        return found if places is None else rows_at(found, places)

    def every(self, fed: Fed) -> Tensor:
        return torch.stack(self.module.hidden_states(fed.tokens))

    def again(self, *, pooler: bool, dropout: float | None) -> "_Language":
        raise NotImplementedError  # it is read, not trained


class _Gpt(_Language):
    """GPT with three tokens more than it was trained with, start, delimiter and extract."""

    predicts = True
    leading = 0

    def room(self, *, pair: bool) -> int:
        return self.max_length - (3 if pair else 2)

    def framed(self, first: Sequence[Any], second: Sequence[Any] | None = None) -> Row:
        start, delimiter, extract = range(self.module.vocab_size - 3, self.module.vocab_size)
        if second is None:
            tokens = [start, *first, extract]
            return Row(tokens, len(tokens))
        return Row([start, *first, delimiter, *second, extract], len(first) + 2)

    def again(self, *, pooler: bool, dropout: float | None) -> "_Gpt":
        config = _dropped(self.module.config, dropout)
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

    def word(self, word: str, *, spaced: bool = True) -> tuple[list[Any], int]:
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


def readable_backbone(base: Any) -> Backbone:  # noqa: ANN401  whatever was trained before
    """Returns the network of a trained model as a backbone to read texts with, one at a time; nothing is added to it.

    Args:
        base: As of :func:`backbone_like`, or another language model with states of layers.

    Raises:
        SettingError: if its network has no states of layers that can be read.
    """
    if not isinstance(base, LanguageModel):
        return backbone_like(base)
    if not base.module.layered:
        raise SettingError(f"{base.kind} has no states of layers; gpt, transformer-xl and rnnlm have")
    return _Language(base.module, base.tokenizer)


def taught_pooling(base: Any) -> TextVector | None:  # noqa: ANN401  whatever was trained before
    """Returns which vector of a text an encoder learned to give, as those of sentence-transformers did; None: none.

    Such an encoder may have a pooler, too, but that has not been used since it was pre-trained.
    """
    if not isinstance(base, MaskedModel) or base.embedding == EmbeddingConfig():  # what any folder without settings has
        return None
    return "token" if base.embedding.pooling == "cls" else "mean"


def backbone_of(
    base: Any,  # noqa: ANN401  whatever was trained before
    *,
    pooler: bool,
    dropout: float | None,
    fresh: bool,
    learning: bool = True,
) -> Backbone:
    """Returns the encoder of a trained model to be trained on, without what it predicted.

    Args:
        base: As of :func:`backbone_like`, which is not changed.
        pooler: Whether it keeps the layer above the state of the text.
        dropout: Within the network; None: as it was.
        fresh: Whether its parameters are drawn anew.
        learning: Whether its embeddings will learn. Else those of the tokens that a GPT gets are that of its end of
            text, which it knows, and not drawn.
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
            if isinstance(found, _Gpt) and not learning and (added := found.module.vocab_size - module.vocab_size):
                found.module.embedding.weight[-added:] = module.embedding.weight[module.bos_id]
    return found


def _with_three_more(module: Gpt) -> Gpt:
    """The same architecture, on the meta device, with start, delimiter and extract behind its tokens."""
    with blank(on_meta=True):
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
    tokenizer = Tokenizer.load(folder / TOKENIZER) if facts["tokens"] else None
    size, more = facts.get("vocab_size"), {}
    if family is not _Elmo:
        extra = 3 if family is _Gpt else 0
        if tokenizer is None or type(size) is not int or size < tokenizer.vocab_size + extra:
            known = None if tokenizer is None else tokenizer.vocab_size
            raise FormatError(f"{path}: is damaged: {TOKENIZER} has {known} tokens, the model {size!r}")
        more = {"bos_id": tokenizer.eos_id} if family is _Gpt else {}
    elif size is not None:
        raise FormatError(f"{path}: is damaged: its encoder predicts nothing, but has a vocabulary of {size!r}")
    return Stored(found.config, lambda: family(found.model(found.config, vocab_size=size, **more), tokenizer))
