"""The states of words in their sentences, from any encoder: BERT and its relatives, ELMo, GPT, and fine-tuned ones.

The state of a word is the mean of the states of the pieces that overlap it, in one layer or as the mean of several.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from wenmai.core.errors import SettingError
from wenmai.core.tensors import require_numbers
from wenmai.data.batches import pad
from wenmai.inference.backbones import Backbone, Fed, Row
from wenmai.inference.elmo_model import ElmoModel
from wenmai.inference.embedding import chosen_layers
from wenmai.inference.families import backbone_like
from wenmai.inference.framing import covering, grouped
from wenmai.inference.language_model import LanguageModel
from wenmai.inference.layers import Layers
from wenmai.inference.masked_model import MaskedModel
from wenmai.inference.mixing import Mixed

__all__ = ["Reader", "has_context", "reader_of", "states_of_spans"]

Rows = npt.NDArray[np.float32]
Spans = Sequence[tuple[int, int]]

_FEWER = 64  # texts of which all layers are kept at once
_BATCH_TOKENS = 2048


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
        backbone_like(model)
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
        encoder = _BackboneReader(model)
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


class _BackboneReader:
    """Reads texts through a backbone: GPT, and the encoders of fine-tuned models.

    Args:
        model: The model; a language model reads the sign for the begin of a text first, as it was trained.

    Raises:
        SettingError: if it has no encoder.
    """

    def __init__(self, model: Any) -> None:  # noqa: ANN401
        self._backbone: Backbone = backbone_like(model)
        self._bos = model.module.bos_id if isinstance(model, LanguageModel) else None
        self.num_layers, self.vector_size = self._backbone.num_layers, self._backbone.size

    def layers(self, texts: Iterable[str]) -> Iterator[Layers]:
        """Yields the states of all pieces of each text in all layers; long texts are read in windows."""
        given, backbone = iter(texts), self._backbone
        backbone.module.eval()
        room = backbone.max_length - 1 if self._bos is not None else backbone.room(pair=False)
        while chunk := list(islice(given, _FEWER)):
            pieces = [backbone.pieces(text) for text in chunk]
            ids = [number for one in pieces for number in one.ids]
            sizes = np.array([len(one.ids) for one in pieces], np.int64)
            starts = np.cumsum(sizes) - sizes
            states = np.zeros((self.num_layers + 1, len(ids), self.vector_size), np.float32)
            windows = covering(starts, sizes, room)
            rows = [
                self._framed(ids[start : start + width])
                for start, width in zip(windows.starts.tolist(), windows.widths.tolist(), strict=True)
            ]
            lengths = np.array([len(row.tokens) for row in rows], np.int64)
            for batch in grouped(lengths, max_tokens=_BATCH_TOKENS, unpads=backbone.unpads) if rows else []:
                with torch.inference_mode():
                    read = backbone.every(self._fed([rows[number] for number in batch])).float().cpu().numpy()
                for place, number in enumerate(batch.tolist()):
                    low, high = windows.own[number].tolist()
                    skipped = self._begin(rows[number]) + low - int(windows.starts[number])
                    states[:, low:high] = read[:, place, skipped : skipped + high - low]
            require_numbers(not np.isnan(states).any())
            for text, one, start in zip(chunk, pieces, starts.tolist(), strict=True):
                names = [text[low:high] for low, high in one.offsets]
                yield Layers(names, one.offsets, states[:, start : start + len(one.ids)])

    def _framed(self, ids: Sequence[Any]) -> Row:
        if self._bos is None:
            return self._backbone.framed(ids)
        return Row([self._bos, *ids], 1 + len(ids))

    def _begin(self, row: Row) -> int:
        return 1 if self._bos is not None else self._backbone.begins(row)[0]

    def _fed(self, rows: Sequence[Row]) -> Fed:
        if self._bos is None:
            return self._backbone.fed(rows)
        tokens, real = (
            torch.from_numpy(one).to(self._backbone.module.device) for one in pad([r.tokens for r in rows], 0)
        )
        places = torch.zeros((len(rows), 0), dtype=torch.int64, device=tokens.device)
        return Fed(tokens, real, None, None, places, places.bool())
