"""Vectors of texts, and of words in context, from the states of any contextual encoder.

An encoder has the states of its layers 0 to L for each token of a text (layer 0 is what the first layer reads). From
some of the layers a state of each token is made, their mean or all of them side by side; the vector of a text is
*pooled* from those of its tokens. Pooling by the mean is that of Reimers, Gurevych, "Sentence-BERT", EMNLP 2019,
section 3; four layers side by side are the features of Devlin et al. 2019, section 5.3.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple, Protocol, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wenmai.core.errors import SettingError, require_list
from wenmai.core.tensors import require_numbers
from wenmai.inference.layers import Layers
from wenmai.text.segment import word_spans
from wenmai.vectors.lengths import unit_rows

__all__ = [
    "ContextualEncoder",
    "InContext",
    "Pooling",
    "StateBatch",
    "Unit",
    "chosen_layers",
    "embed_texts",
    "embed_tokens",
    "embed_words",
    "state_batches_of",
]

Rows = npt.NDArray[np.float32]
Pooling = Literal["mean", "max", "cls", "pooler", "last"]
Unit = Literal["words", "pieces"]


class StateBatch(NamedTuple):
    """The states of some texts.

    Attributes:
        rows: (B,) which of the texts.
        states: (B, T, M) of each layer that was asked for.
        lengths: (B,) tokens of each text; states behind them are none of a text.
    """

    rows: npt.NDArray[np.int64]
    states: list[Tensor]
    lengths: npt.NDArray[np.int64]


class ContextualEncoder(Protocol):
    """What vectors are made of here."""

    @property
    def num_layers(self) -> int:
        """L; there are states of the layers 0 to L."""

    @property
    def vector_size(self) -> int:
        """M."""

    @property
    def poolings(self) -> Sequence[Pooling]:
        """Which of the poolings make sense."""

    def state_batches(self, texts: Sequence[str], layers: Sequence[int]) -> Iterator[StateBatch]:
        """Yields the states of texts in some layers, in any order; without those that have no token."""

    def pooled(self, states: Tensor) -> Tensor:
        """Returns what the pooler makes of the states (B, T, M) of the last layer, (B, M); of ``pooler`` only."""

    def layers(self, texts: Iterable[str]) -> Iterator[Layers]:
        """Yields the states of all tokens of each text in all layers."""


def state_batches_of(model: ContextualEncoder, texts: Sequence[str], layers: Sequence[int]) -> Iterator[StateBatch]:
    """Yields states as ``state_batches`` does, from ``layers`` of an encoder that has no faster way."""
    for row, found in enumerate(model.layers(texts)):
        if found.tokens:
            states = [torch.from_numpy(found.vectors[number])[None] for number in layers]
            yield StateBatch(np.array([row]), states, np.array([len(found.tokens)]))


class InContext(NamedTuple):
    """The words or pieces of a text with their vectors.

    Attributes:
        words: The words, or pieces.
        offsets: Where each begins and ends in the text, in characters.
        vectors: (T, d) float32; zeros of a word that the tokenizer has nothing for.
    """

    words: list[str]
    offsets: list[tuple[int, int]]
    vectors: Rows


def chosen_layers(layer: int | str, num_layers: int) -> list[int]:
    """Returns the numbers of layers.

    Args:
        layer: A number, from 0 for what the first layer reads to L, or from -1 for the last one down; several with
            commas between them; ``last``; or ``last4``.
        num_layers: L.

    Raises:
        SettingError: if there is no such layer.
    """
    if layer == "last4" and num_layers < 4:
        every = ",".join(map(str, range(1, num_layers + 1)))
        raise SettingError(f"layer=last4: the model has only {num_layers} of 4 layers; layer={every} means them all")
    text = {"last": "-1", "last4": "-4,-3,-2,-1"}.get(str(layer), str(layer))
    try:
        found = [int(one) for one in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(-num_layers - 1 <= one <= num_layers for one in found):
        raise SettingError(
            f"layer={layer}: expected last, last4, or numbers such as -1 or 3,4 of the layers 0 to {num_layers}"
        )
    return [one % (num_layers + 1) for one in found]


def embed_texts(
    model: ContextualEncoder,
    texts: Iterable[str],
    *,
    layer: int | str = "last",
    pooling: Pooling = "mean",
    concat: bool = False,
    normalise: bool = False,
) -> Rows:
    """Returns the vectors of texts.

    Args:
        model: The encoder.
        texts: N texts.
        layer: See :func:`chosen_layers`; of several, their mean.
        pooling: ``mean`` or ``max`` of all tokens, special ones included; ``cls``: the first one; ``pooler``: what the
            model has learnt to make of that; ``last``: the last one, of models that read from left to right.
        concat: Whether several layers are put side by side instead.
        normalise: Whether vectors have the length 1.

    Returns:
        (N, d) float32; a text without a token has zeros.

    Raises:
        SettingError: if ``texts`` is one string, or for another layer or pooling than the model has.
    """
    require_list(texts, "embed")
    numbers = chosen_layers(layer, model.num_layers)
    if pooling not in model.poolings:
        raise SettingError(f"pooling={pooling}: the model has {', '.join(model.poolings)}")
    if pooling == "pooler" and numbers != [model.num_layers]:
        raise SettingError(f"layer={layer} has no effect with pooling=pooler, which takes the last layer; leave it out")
    given = list(texts)
    found = np.zeros((len(given), model.vector_size * (len(numbers) if concat else 1)), np.float32)
    with torch.inference_mode():
        for batch in model.state_batches(given, numbers):
            found[batch.rows] = _pooled(model, _joined(batch.states, concat), batch.lengths, pooling).cpu().numpy()
    require_numbers(not np.isnan(found).any())
    return unit_rows(found) if normalise else found


def embed_words(
    model: ContextualEncoder,
    texts: Iterable[str],
    *,
    unit: Unit = "words",
    layer: int | str = "last",
    concat: bool = False,
    normalise: bool = False,
) -> Iterator[InContext]:
    """Yields the vectors of the words of each text, which depend on all of the text.

    Args:
        model: The encoder.
        texts: Texts, read as they are needed.
        unit: ``words``: what white space separates, the mean of its pieces, and Chinese words by a dictionary in texts
            without spaces; ``pieces``: those of the tokenizer.
        layer: See :func:`chosen_layers`; of several, their mean.
        concat: Whether several layers are put side by side instead.
        normalise: Whether vectors have the length 1.

    Raises:
        SettingError: if ``texts`` is one string, or there is no such layer or unit.
    """
    require_list(texts, "embed")
    if unit not in get_args(Unit):
        raise SettingError(f"unit={unit!r}: expected words or pieces")
    numbers = chosen_layers(layer, model.num_layers)
    return _in_context(model, texts, unit, numbers, concat, normalise)


def _in_context(
    model: ContextualEncoder, texts: Iterable[str], unit: Unit, numbers: list[int], concat: bool, normalise: bool
) -> Iterator[InContext]:
    for text, found in _beside(texts, model):
        vectors = _merged(found.vectors[numbers], concat)
        words, offsets = found.tokens, found.offsets
        if unit == "words":
            offsets = word_spans(text)
            words = [text[low:high] for low, high in offsets]
            vectors = _means(vectors, found.offsets, offsets)
        require_numbers(not np.isnan(vectors).any())
        yield InContext(words, offsets, unit_rows(vectors) if normalise else vectors)


def embed_tokens(model: ContextualEncoder, sentences: Iterable[Sequence[str]]) -> Iterator[Rows]:
    """Yields the vectors of the given tokens of each sentence, (T, M), from the last layer.

    Sentences are read with a space between their tokens; the vector of a token is the mean of its pieces.
    """
    kept: list[list[str]] = []

    def texts() -> Iterator[str]:
        for sentence in sentences:
            kept.append(list(sentence))
            yield " ".join(sentence)

    for found in model.layers(texts()):
        sizes = [len(token) for token in kept.pop(0)]
        ends = accumulate(size + 1 for size in sizes)
        offsets = [(end - size - 1, end - 1) for size, end in zip(sizes, ends, strict=True)]
        vectors = _means(found.vectors[-1], found.offsets, offsets)
        require_numbers(not np.isnan(vectors).any())
        yield vectors


def _beside(texts: Iterable[str], model: ContextualEncoder) -> Iterator[tuple[str, Layers]]:
    """Yields each text with its states; texts are read no farther than the model reads them."""
    kept: list[str] = []

    def read() -> Iterator[str]:
        for text in texts:
            kept.append(text)
            yield text

    for found in model.layers(read()):
        yield kept.pop(0), found


def _joined(states: list[Tensor], concat: bool) -> Tensor:
    """Returns one state of each token, (B, T, M) or (B, T, K·M), of those of K layers."""
    if len(states) == 1:
        return states[0]
    return torch.cat(states, -1) if concat else torch.stack(states).mean(0)


def _merged(states: Rows, concat: bool) -> Rows:
    """The same of (K, T, M)."""
    merged: Rows = np.concatenate(list(states), -1) if concat else states.mean(0)
    return merged


def _pooled(model: ContextualEncoder, states: Tensor, lengths: npt.NDArray[np.int64], pooling: Pooling) -> Tensor:
    """Returns (B, d) of states (B, T, d)."""
    if pooling == "cls":
        return states[:, 0].float()
    if pooling == "pooler":
        return model.pooled(states).float()
    if pooling == "last":
        ends = torch.from_numpy(lengths).to(states.device) - 1
        return states[torch.arange(len(ends), device=ends.device), ends].float()
    states = states.float()
    if (lengths == states.shape[1]).all():
        return states.mean(1) if pooling == "mean" else states.amax(1)
    sizes = torch.from_numpy(lengths).to(states.device)
    real = (torch.arange(states.shape[1], device=states.device) < sizes[:, None])[..., None]
    if pooling == "max":
        return states.masked_fill(~real, -torch.inf).amax(1)
    return (states * real).sum(1) / sizes[:, None]


def _means(vectors: Rows, pieces: Sequence[tuple[int, int]], words: Sequence[tuple[int, int]]) -> Rows:
    """Returns the mean of the pieces (T, M) of each word, (W, M); a piece belongs to the word of its last character."""
    found = np.zeros((len(words), vectors.shape[1]), np.float32)
    if not words or not pieces:
        return found
    lasts = np.array([high for _, high in pieces]) - 1
    word = np.searchsorted(np.array([low for low, _ in words]), lasts, side="right") - 1
    known = (word >= 0) & (lasts < np.array([high for _, high in words])[word])
    np.add.at(found, word[known], vectors[known])
    counts = np.bincount(word[known], minlength=len(words)).astype(np.float32)
    found /= np.maximum(counts, 1)[:, None]
    return found
