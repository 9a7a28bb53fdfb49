"""Rows of tokens, some of them masked, as the tensors of a batch.

The vocabulary and other classes are projected to only where something is asked for: the last layer computes those
places alone.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wenmai.data.batches import pad
from wenmai.data.masking import Masker
from wenmai.nn.encoder import apart
from wenmai.text.tokenizer import Tokenizer
from wenmai.text.word_starts import WordStarts

__all__ = ["MaskedRows", "RowMaker"]

Ints = npt.NDArray[np.int64]
Arrays = Sequence[npt.NDArray[Any]]


class MaskedRows(NamedTuple):
    """A batch as tensors; see :meth:`wenmai.nn.encoder.TextEncoder.forward`.

    Attributes:
        tokens: (B, T) int64.
        segments: (B, T) int64; None: all are of the first.
        mask: Which tokens see which; None: all see all.
        positions: (B, T) int64; None: 0 to T - 1.
        places: (B, K) the tokens whose states are needed, and any to fill up.
        masked: (N,) which of these, in one row, are those of the masked tokens.
        targets: (N,) what stood there.
        asked: (A,) which of them are asked for something else.
        read: Tokens of text.
    """

    tokens: Tensor
    segments: Tensor | None
    mask: Tensor | None
    positions: Tensor | None
    places: Tensor
    masked: Tensor
    targets: Tensor
    asked: Tensor
    read: int


class RowMaker:
    """Makes batches of rows.

    Args:
        tokenizer: Of the tokens.
        masker: Chooses what is masked; None: nothing is.
        device: Where the tensors go.
    """

    def __init__(self, tokenizer: Tokenizer, masker: Masker | None, device: torch.device) -> None:
        self._tokenizer, self._masker, self._device = tokenizer, masker, device
        self._words = WordStarts(tokenizer) if masker is not None and masker.needs_words else None

    def __call__(
        self,
        rows: Arrays,
        *,
        keys: npt.NDArray[np.uint64],
        segments: Arrays | None = None,
        sequences: Arrays | None = None,
        positions: Arrays | None = None,
        units: Arrays | None = None,
        asked: Arrays | None = None,
        causal: bool = False,
    ) -> MaskedRows:
        """Makes a batch.

        Args:
            rows: The tokens of each row, special ones included.
            keys: What the masks depend on, one a sequence; of :meth:`wenmai.data.masking.Masker.keys`.
            segments: Of the tokens; None: the model is told of none.
            sequences: Which sequence of the batch each token is of, where rows have several; None: a row is one.
            positions: Of the tokens within their sequences, where rows have several.
            units: Where units begin that are masked together; None: the words that the ids tell of.
            asked: Where something is asked for besides masked tokens.
            causal: Whether no token is masked, and each of a sequence but the first is to be predicted from those
                before it.
        """
        ids, real = pad(rows, self._tokenizer.pad_id)
        number = np.where(real, np.arange(len(rows))[:, None], -1) if sequences is None else pad(sequences, -1)[0]
        wanted = np.zeros(ids.shape, np.bool_) if asked is None else pad(asked, 0)[0] > 0
        also, targets, read = wanted.copy(), np.zeros_like(wanted), int(real.sum())
        seen: npt.NDArray[np.integer] = ids
        if causal:
            targets = real.copy()
            targets[:, 0] = False
            targets[:, 1:] &= number[:, 1:] == number[:, :-1]
            read = int(real.sum()) if self._masker is None else int((self._masker.maskable(ids) & real).sum())
        elif self._masker is not None:
            maskable = self._masker.maskable(ids) & real
            begins: npt.NDArray[Any] | None = None if units is None else pad(units, 0)[0]
            if begins is None and self._words is not None:
                begins = self._words(ids.ravel()).reshape(ids.shape)
            masked = self._masker.mask(ids, maskable=maskable, sequences=number, keys=keys, begins=begins)
            seen, targets, read = masked.tokens, masked.targets, int(maskable.sum())
        wanted |= targets
        places = np.argsort(~wanted, axis=1, kind="stable")[:, : max(1, int(wanted.sum(1).max()))]
        chosen = np.take_along_axis(targets, places, 1)
        mask = None
        if sequences is not None or causal:
            mask = apart(self._tensor(number))
            mask = mask.tril() if causal else mask
        elif not real.all():
            mask = self._tensor(real)[:, None, None]
        return MaskedRows(
            tokens=self._tensor(seen),
            segments=None if segments is None else self._tensor(pad(segments, 0)[0]),
            mask=mask,
            positions=None if positions is None else self._tensor(pad(positions, 0)[0]),
            places=self._tensor(places),
            masked=self._tensor(np.flatnonzero(chosen)),
            targets=self._tensor(np.take_along_axis(ids, places, 1)[chosen]),
            asked=self._tensor(np.flatnonzero(np.take_along_axis(also, places, 1))),
            read=read,
        )

    def _tensor(self, array: npt.NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)
