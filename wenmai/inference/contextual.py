"""The states of words in their sentences, from any encoder: BERT and its relatives, ELMo, GPT, and fine-tuned ones.

The state of a word is the mean of the states of the pieces that overlap it, in one layer or as the mean of several.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wenmai.core.errors import SettingError, require_list
from wenmai.core.quantities import plural
from wenmai.core.tensors import require_numbers
from wenmai.inference.backbones import Row
from wenmai.inference.elmo_model import ElmoModel
from wenmai.inference.embedding import Pooling, StateBatch, chosen_layers, state_batches_of
from wenmai.inference.families import readable_backbone
from wenmai.inference.framing import covering, grouped, portions
from wenmai.inference.layers import Layers
from wenmai.inference.masked_model import MaskedModel
from wenmai.inference.mixing import Mixed

__all__ = ["BackboneReader", "Reader", "has_context", "reader_of", "states_of_spans"]

_log = logging.getLogger(__name__)

Rows = npt.NDArray[np.float32]
Spans = Sequence[tuple[int, int]]

_FEWER = 64  # texts at most of which all layers are kept at once
_BATCH_TOKENS = {"cpu": 2048, "cuda": 32_768}


class Reader(NamedTuple):
    """An encoder, and which of its layers are taken.

    Attributes:
        encoder: What has ``layers`` and ``num_layers``.
        numbers: The layers, from 0.
        layer: Their name: the numbers with commas, or ``mix``.
    """

    encoder: Any
    numbers: list[int]
    layer: str


def has_context(model: Any) -> bool:  # noqa: ANN401  whatever was trained
    """Whether a model gives words vectors that depend on their sentences."""
    try:
        readable_backbone(model)
    except SettingError:
        return False
    return True


def reader_of(model: Any, layer: str | None = None) -> Reader:  # noqa: ANN401  whatever was trained
    """Returns how the states of words in context are read from a model.

    Args:
        model: A trained, imported or fine-tuned encoder.
        layer: See :func:`~wenmai.inference.embedding.chosen_layers`; None: the last, of ELMo the mix of all.

    Raises:
        SettingError: if the model has no words in context, or there is no such layer.
    """
    if isinstance(model, ElmoModel) and layer in (None, "mix"):
        return Reader(Mixed(model, model.mix), [0], "mix")
    encoder: Any = model
    if not isinstance(model, MaskedModel | ElmoModel):
        encoder = BackboneReader(model)
    numbers = chosen_layers("last" if layer is None else layer, encoder.num_layers)
    return Reader(encoder, numbers, ",".join(map(str, numbers)))


def states_of_spans(
    encoder: Any,  # noqa: ANN401  what has `layers`
    items: Iterable[tuple[str, Spans]],
    numbers: Sequence[int],
) -> Iterator[Rows]:
    """Yields for each text the states of its spans in some layers, (K, S, M).

    Args:
        encoder: Of a :class:`Reader`.
        items: Texts with spans: where words begin and end, in characters. They are read as they are needed.
        numbers: The K layers.

    Yields:
        The mean of the pieces that overlap each span; zeros where the tokenizer has nothing for it.
    """
    kept: list[Spans] = []

    def texts() -> Iterator[str]:
        for text, spans in items:
            kept.append(spans)
            yield text

    for found in encoder.layers(texts()):
        yield _means(found, kept.pop(0), numbers)


def _means(found: Layers, spans: Spans, numbers: Sequence[int]) -> Rows:
    lows = np.array([low for low, _ in found.offsets], np.int64)
    highs = np.array([high for _, high in found.offsets], np.int64)
    states = np.zeros((len(numbers), len(spans), found.vectors.shape[2]), np.float32)
    for place, (low, high) in enumerate(spans):
        inside = np.flatnonzero((lows < high) & (highs > low))
        if len(inside):
            states[:, place] = found.vectors[np.asarray(numbers)[:, None], inside].mean(1)
    return states


class BackboneReader:
    """Reads texts through a backbone: language models with states of layers, and the encoders of fine-tuned models.

    Args:
        model: The model; a language model reads the sign for the begin of a text first, as it was trained.

    Attributes:
        num_layers: L; there are states of the layers 0 to L.
        vector_size: M, the size of a state.
        poolings: From tokens to a text; the begin of a text, whose state is the same before all texts, is no token.

    Raises:
        SettingError: if it has no states of layers.
    """

    poolings: Sequence[Pooling] = ("mean", "max", "last")

    def __init__(self, model: Any) -> None:  # noqa: ANN401
        self._backbone = readable_backbone(model)
        self.num_layers, self.vector_size = self._backbone.num_layers, self._backbone.size

    def state_batches(self, texts: Sequence[str], layers: Sequence[int]) -> Iterator[StateBatch]:
        """Yields the states of texts in some layers; see :class:`wenmai.inference.embedding.ContextualEncoder`.

        Texts that are longer than the model reads are cut at their ends, and counted in a note.
        """
        backbone, room = self._backbone, self._backbone.room(pair=False)
        if backbone.module.max_length is None:  # it reads any number, but many at once need much memory
            yield from state_batches_of(self, texts, layers)
            return
        pieces = backbone.ids(texts)
        if longer := sum(len(ids) > room for ids in pieces):
            limit = backbone.max_length
            _log.warning("%s", f"{plural(longer, 'text')} longer than the model reads (max_length={limit}): cut")
        some = np.flatnonzero([len(ids) for ids in pieces])
        rows = [backbone.framed(pieces[number][:room]) for number in some]
        last, begin = list(layers) == [self.num_layers], backbone.leading
        for numbers in self._batches(rows):
            with torch.inference_mode():
                fed = backbone.fed([rows[number] for number in numbers])
                states = backbone.last(fed, None)[None] if last else backbone.every(fed)[list(layers)]
            lengths = np.array([len(rows[number].tokens) for number in numbers], np.int64)
            yield StateBatch(some[numbers], list(states[:, :, begin:]), lengths - begin)

    def pooled(self, states: Tensor) -> Tensor:
        """Not to be called: ``pooler`` is none of the poolings."""
        raise NotImplementedError

    def layers(self, texts: Iterable[str]) -> Iterator[Layers]:
        """Yields the states of all pieces of each text in all layers; long texts are read in windows.

        Raises:
            SettingError: if ``texts`` is one string.
        """
        require_list(texts, "layers")
        return self._layers(iter(texts))

    def _layers(self, given: Iterator[str]) -> Iterator[Layers]:
        backbone = self._backbone
        for chunk in portions(given, _FEWER):
            pieces = [backbone.pieces(text) for text in chunk]
            ids = [number for one in pieces for number in one.ids]
            sizes = np.array([len(one.ids) for one in pieces], np.int64)
            starts = np.cumsum(sizes) - sizes
            states = np.zeros((self.num_layers + 1, len(ids), self.vector_size), np.float32)
            windows = covering(starts, sizes, backbone.room(pair=False))
            rows = [
                backbone.framed(ids[start : start + width])
                for start, width in zip(windows.starts.tolist(), windows.widths.tolist(), strict=True)
            ]
            for batch in self._batches(rows):
                with torch.inference_mode():
                    read = backbone.every(backbone.fed([rows[number] for number in batch])).float().cpu().numpy()
                for place, number in enumerate(batch.tolist()):
                    low, high = windows.own[number].tolist()
                    skipped = backbone.begins(rows[number])[0] + low - int(windows.starts[number])
                    states[:, low:high] = read[:, place, skipped : skipped + high - low]
            require_numbers(not np.isnan(states).any())
            for text, one, start in zip(chunk, pieces, starts.tolist(), strict=True):
                names = [text[low:high] for low, high in one.offsets]
                yield Layers(names, one.offsets, states[:, start : start + len(one.ids)])

    def _batches(self, rows: Sequence[Row]) -> Iterator[npt.NDArray[np.int64]]:
        """Yields the numbers of the rows of each batch."""
        self._backbone.module.eval()
        most = _BATCH_TOKENS.get(self._backbone.module.device.type, _BATCH_TOKENS["cuda"])
        lengths = np.array([len(row.tokens) for row in rows], np.int64)
        return grouped(lengths, max_tokens=most, unpads=self._backbone.unpads) if rows else iter(())
