"""Texts as the rows of an encoder: special tokens around them, batches of like lengths, windows of long ones."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wenmai.core.errors import FormatError
from wenmai.nn.encoder import TextEncoder
from wenmai.text.encodable import require_text
from wenmai.text.tokenizer import Tokenizer

__all__ = ["FramedBatch", "Framer", "Windows", "centred", "covering", "grouped", "joined", "portions", "tokens_at_once"]

Ints = npt.NDArray[np.int64]

_BATCH_TOKENS = {"cpu": 4096, "cuda": 32_768}
_CHARACTERS = 1 << 16  # of texts whose states in all layers are in memory at once
_ENOUGH = 256  # tokens of a batch that need not be joined by others of clearly unlike length
_ALIKE = 7 / 8
_LEFT_OUT = 1 / 4  # of a token in the budget: one of padding where texts are read without it, but are put into it again


def tokens_at_once(device: torch.device) -> int:
    """Returns how many tokens an encoder reads at once: more need memory and save no time."""
    return _BATCH_TOKENS.get(device.type, _BATCH_TOKENS["cuda"])


def portions(texts: Iterable[str], most: int, *, characters: int = _CHARACTERS) -> Iterator[list[str]]:
    """Yields texts in groups of so many at most, of long ones fewer, so that what is computed of them has room.

    Args:
        texts: The texts.
        most: Texts of a group.
        characters: With so many a group ends; by default the states of their tokens in all layers have room in memory.
    """
    found: list[str] = []
    room = characters
    for text in texts:
        require_text(text)
        found.append(text)
        room -= len(text)
        if len(found) == most or room <= 0:
            yield found
            found, room = [], characters
    if found:
        yield found


def grouped(lengths: Ints, *, max_tokens: int, unpads: bool = False) -> Iterator[Ints]:
    """Yields batches of like lengths, the longest first, so that there is little padding and memory is claimed once.

    Args:
        lengths: (N,) tokens of each row, at least 1.
        max_tokens: Most tokens of a batch, padding included; a longer row is a batch of its own.
        unpads: Whether texts are read without padding, see :attr:`wenmai.nn.encoder.TextEncoder.unpads`: batches are
            then as large as they may be, whatever the lengths, and four tokens of padding count as one.

    Yields:
        The rows of each batch, the longest first; each row is in one.
    """
    order = np.argsort(-lengths, kind="stable")
    cuts = [0]
    longest = real = 0
    for place, length in enumerate(lengths[order].tolist()):
        rows = place - cuts[-1]
        padded = (rows + 1) * longest
        used = (1 - _LEFT_OUT) * (real + length) + _LEFT_OUT * padded if unpads else padded
        unlike = not unpads and length < _ALIKE * longest and rows * longest >= _ENOUGH
        if rows and (used > max_tokens or unlike):
            cuts.append(place)
            rows = 0
        longest, real = (longest, real + length) if rows else (length, length)
    for low, high in pairwise([*cuts, len(order)]):
        if high > low:
            yield order[low:high]


def centred(places: Ints, sizes: Ints, width: int) -> tuple[Ints, Ints]:
    """Returns windows with a token in the middle, or as near to it as the ends of the text allow.

    Args:
        places: (N,) the tokens.
        sizes: (N,) the tokens of their texts.
        width: Most tokens of a window.

    Returns:
        Where each window begins (N,), and how many tokens it has (N,): all of a text that fits.
    """
    widths = np.minimum(sizes, width)
    return np.clip(places - widths // 2, 0, sizes - widths), widths


class Windows(NamedTuple):
    """Parts of texts that are joined, see :func:`covering`.

    Attributes:
        starts: (N,) where each begins.
        widths: (N,) how many tokens it has.
        own: (N, 2) where the tokens begin and end whose states are taken from it.
    """

    starts: Ints
    widths: Ints
    own: Ints


def covering(starts: Ints, sizes: Ints, width: int) -> Windows:
    """Cuts texts that are too long into windows, each from the middle of the one before on.

    Each token belongs to the window whose middle is nearest to it.

    Args:
        starts: (N,) where each text begins.
        sizes: (N,) how many tokens it has; a text of none has no window.
        width: Most tokens of a window.
    """
    found: list[tuple[int, int, int, int]] = []
    step = max(1, width // 2)
    for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
        if size <= width:
            found += [(start, size, start, start + size)] if size else []
            continue
        begins = [*range(0, size - width, step), size - width]
        cuts = [0, *((one + other + width) // 2 for one, other in pairwise(begins)), size]
        found += [
            (start + begin, width, start + low, start + high)
            for begin, (low, high) in zip(begins, pairwise(cuts), strict=True)
        ]
    table = np.array(found, np.int64).reshape(-1, 4)
    return Windows(table[:, 0], table[:, 1], table[:, 2:])


class FramedBatch(NamedTuple):
    """A batch of rows.

    Attributes:
        rows: (B,) which of the rows that were asked for.
        ids: (B, T) int64, special tokens included; the text begins at 1.
        lengths: (B,) tokens of each row, special ones included.
    """

    rows: Ints
    ids: Ints
    lengths: Ints

    def fed(self, device: torch.device) -> tuple[Tensor, Tensor | None]:
        """Returns the tokens (B, T), and a mask (B, 1, 1, T) of those that are real, or None if all are."""
        tokens = torch.from_numpy(self.ids).to(device)
        if (self.lengths == self.ids.shape[1]).all():
            return tokens, None
        real = np.arange(self.ids.shape[1]) < self.lengths[:, None]
        return tokens, torch.from_numpy(real).to(device)[:, None, None]


class Framer:
    """Puts special tokens around texts, and texts together in batches.

    Args:
        module: The network that reads them.
        tokenizer: Its tokenizer.

    Attributes:
        room: Most tokens of a text, without special ones.

    Raises:
        FormatError: if the tokenizer lacks the special tokens, or the network has no room for a token beside them.
    """

    def __init__(self, module: TextEncoder, tokenizer: Tokenizer) -> None:
        if tokenizer.cls_id is None or tokenizer.sep_id is None:
            raise FormatError("the tokenizer has no tokens for the beginning and the end of a text, [CLS] and [SEP]")
        if module.max_length < 3:
            raise FormatError(f"the model reads {module.max_length} tokens, which leaves no room between two others")
        self._begin, self._end, self._pad = tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id
        self._unpads = module.unpads
        self._max_tokens = tokens_at_once(module.device)
        self.room = module.max_length - 2

    def batches(self, tokens: npt.NDArray[np.integer], starts: Ints, widths: Ints) -> Iterator[FramedBatch]:
        """Yields rows that are parts of a sequence of tokens.

        Args:
            tokens: (K,) those of all texts, one after the other.
            starts: (N,) where each row begins.
            widths: (N,) how many tokens it has, at least 1 and at most ``room``.
        """
        for rows in grouped(widths + 2, max_tokens=self._max_tokens, unpads=self._unpads):
            lengths = widths[rows] + 2
            columns = np.arange(int(lengths[0]))  # the longest is the first
            places = starts[rows, None] + columns - 1
            ids = tokens[np.clip(places, 0, len(tokens) - 1)].astype(np.int64)
            ids[:, 0] = self._begin
            ids[columns >= lengths[:, None]] = self._pad
            ids[np.arange(len(rows)), lengths - 1] = self._end
            yield FramedBatch(rows, ids, lengths)


def joined(rows: Sequence[Sequence[int]]) -> tuple[npt.NDArray[np.int32], Ints, Ints]:
    """Returns texts as one sequence of tokens, where each begins, and how many tokens it has."""
    sizes = np.fromiter(map(len, rows), np.int64, len(rows))
    tokens = np.fromiter((token for row in rows for token in row), np.int32, int(sizes.sum()))
    return tokens, np.cumsum(sizes) - sizes, sizes
