"""The states of all layers at once, of texts and of words in sentences: what probes are trained on.

Every text is read once, in batches of like lengths. A text longer than the model is cut; a sentence of words is read in
windows, and a word has the state of its first piece (Devlin et al. 2019, section 5.3) in the window where it has most
context.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wenmai.core.errors import SettingError
from wenmai.core.tensors import require_numbers
from wenmai.inference.backbones import Fed, Known, Row, joined_ids, windowed
from wenmai.inference.families import readable_backbone
from wenmai.inference.framing import grouped

__all__ = ["LayerStates", "TextState"]

Rows = npt.NDArray[np.float32]
TextState = Literal["mean", "text"]

_BATCH_TOKENS = {"cpu": 2048, "cuda": 32_768}
_TEXTS_AT_ONCE = 4096


class LayerStates:
    """Reads the states of all layers of a contextual encoder.

    Args:
        model: A masked language model, an imported encoder, a GPT, an ELMo, or one that was fine-tuned.
        pooling: The state of a text: the ``mean`` of those of its tokens, special ones included, or that of the
            ``text``, which is [CLS] of BERT, the last token of GPT, and of ELMo the mean of its words.

    Attributes:
        cut: Texts so far that were longer than the model reads.

    Raises:
        SettingError: if the model has no states of layers.
    """

    def __init__(self, model: Any, *, pooling: TextState = "mean") -> None:  # noqa: ANN401  whatever was trained
        if pooling not in get_args(TextState):
            raise SettingError(f"pooling={pooling!r}: expected mean or text")
        self._backbone = readable_backbone(model)
        self._pooling = pooling if self._backbone.paired else "mean"
        self.cut = 0

    @property
    def num_layers(self) -> int:
        """L; there are states of the layers 0 to L."""
        return self._backbone.num_layers

    @property
    def size(self) -> int:
        """M."""
        return self._backbone.size

    def of_texts(self, texts: Sequence[str], found: Rows) -> None:
        """Writes the states of texts.

        Args:
            texts: N texts.
            found: (L + 1, N, M), to be filled.

        Raises:
            FormatError: if a state is not a number: the model is damaged.
        """
        backbone, room = self._backbone, self._backbone.room(pair=False)
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            pieces = backbone.ids(texts[start : start + _TEXTS_AT_ONCE])
            self.cut += sum(len(ids) > room for ids in pieces)
            rows = [backbone.framed(ids[:room]) for ids in pieces]
            for numbers, fed, states in self._read(rows):
                if self._pooling == "mean":
                    real = fed.real[..., None].clone()
                    real[:, : backbone.leading] = False
                    pooled = (states * real).sum(2) / real.sum(1).clamp(min=1)
                else:
                    pooled = torch.stack([_at(layer, fed.places[:, :1])[:, 0] for layer in states])
                _write(found, start + numbers, pooled)

    def of_words(self, sentences: Sequence[Sequence[str]], found: Rows) -> None:
        """Writes the states of words in their sentences.

        Args:
            sentences: Words.
            found: (L + 1, N, M), to be filled, of the N words of all sentences, one after the other.

        Raises:
            FormatError: if a state is not a number: the model is damaged.
        """
        backbone, room = self._backbone, self._backbone.room(pair=False)
        known: Known = {}
        rows: list[Row] = []
        firsts: list[int] = []  # the number of the first word whose state is of each row
        done = 0
        for words in sentences:
            pieces = joined_ids(words, backbone, known)
            self.cut += len(pieces.ids) > room
            for row in windowed(backbone, pieces, room, max(1, room // 3)):
                rows.append(row)
                firsts.append(done)
                done += len(row.places)
        starts = np.array(firsts, np.int64)
        for numbers, fed, states in self._read(rows):
            places, filled = fed.places[:, 1:], fed.filled[:, 1:]
            if not places.shape[1]:
                continue
            chosen = torch.stack([_at(layer, places)[filled] for layer in states])
            counts = [len(rows[number].places) for number in numbers]
            words_of = [np.arange(first, first + count) for first, count in zip(starts[numbers], counts, strict=True)]
            _write(found, np.concatenate(words_of), chosen)

    def _read(self, rows: Sequence[Row]) -> Iterator[tuple[npt.NDArray[np.int64], Fed, Tensor]]:
        """Yields the numbers of rows, the rows, and their states (L + 1, R, T, M)."""
        backbone = self._backbone
        backbone.module.eval()
        most = _BATCH_TOKENS.get(backbone.module.device.type, _BATCH_TOKENS["cuda"])
        lengths = np.array([len(row.tokens) for row in rows], np.int64)
        with torch.inference_mode():
            for numbers in grouped(lengths, max_tokens=most, unpads=backbone.unpads) if rows else ():
                fed = backbone.fed([rows[number] for number in numbers])
                yield numbers, fed, backbone.every(fed).float()


def _at(states: Tensor, places: Tensor) -> Tensor:
    """(R, K, M) of (R, T, M)."""
    return states.gather(1, places[..., None].expand(-1, -1, states.shape[2]))


def _write(found: Rows, numbers: npt.NDArray[np.int64], states: Tensor) -> None:
    values = states.cpu().numpy()
    require_numbers(not np.isnan(values).any())
    found[:, numbers] = values
