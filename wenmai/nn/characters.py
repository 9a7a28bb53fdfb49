"""Words as bytes, and vectors of words from their bytes: convolutions, a maximum over time, and highway layers.

A word is 258, its UTF-8 bytes, 259, and 260 up to a fixed length. Everything is one higher than that, so that 0 is
free for what is no word. Longer words lose their end. The first and the last token of a text are 256 and 257, spelled
like words of one byte.

| what | source |
|---|---|
| convolutions over characters, maximum over time, highway layers | Kim, Jernite, Sontag, Rush 2016, arXiv:1508.06615 |
| g = σ(x W_c + b_c), y = g∘relu(x W_t + b_t) + (1 - g)∘x | Srivastava, Greff, Schmidhuber 2015, arXiv:1505.00387 |
| without a bias in the embedding, bytes, relu after the maximum | Peters et al. 2018, arXiv:1802.05365 |

The padding of a word takes part in the convolutions, as in the published models.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wenmai.nn.linear import Linear
from wenmai.nn.names import CharacterActivation

__all__ = ["BEGIN", "CHARACTERS", "END", "CharacterEncoder", "spelled"]

BEGIN, END = 256, 257
_WORD_BEGIN, _WORD_END, _PADDING = 258, 259, 260
CHARACTERS = 262  # rows of the table: bytes, the five above, and 0 for what is no word
_CARRY_BIAS = -2.0  # highways begin by passing on most of their input
_RANGE = 0.05  # of the weights of convolutions


def spelled(words: Iterable[str | int], length: int) -> npt.NDArray[np.int16]:
    """Returns the characters of words, (N, length).

    Args:
        words: Words, or ``BEGIN`` and ``END``.
        length: Numbers of a word; its first ``length - 2`` bytes are kept.
    """
    rows = [(word,) if isinstance(word, int) else word.encode("utf-8", "surrogatepass")[: length - 2] for word in words]
    found = np.full((len(rows), length), _PADDING, np.int16)
    for row, characters in zip(found, rows, strict=True):
        row[0] = _WORD_BEGIN
        row[1 : len(characters) + 1] = tuple(characters)
        row[len(characters) + 1] = _WORD_END
    return found + np.int16(1)


class CharacterEncoder(nn.Module):
    """Vectors of words from their characters.

    Args:
        character_size: Columns of the table of characters.
        filters: How many convolutions of width 1, 2, 3 and so on; 0: none of that width.
        highway_layers: Highway layers.
        output_size: Dimensions of a word.
        activation: After the maximum.
    """

    def __init__(
        self,
        *,
        character_size: int,
        filters: Sequence[int],
        highway_layers: int,
        output_size: int,
        activation: CharacterActivation = "relu",
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(CHARACTERS, character_size, padding_idx=0)
        self.widths = [width for width, number in enumerate(filters, start=1) if number]
        self.convolutions = nn.ModuleList(
            nn.Conv1d(character_size, number, width) for width, number in enumerate(filters, start=1) if number
        )
        size = sum(filters)
        self.highways = nn.ModuleList(Highway(size) for _ in range(highway_layers))
        self.projection = Linear(size, output_size)
        self._activation = torch.relu if activation == "relu" else torch.tanh
        nn.init.uniform_(self.embedding.weight, -1.0, 1.0)
        with torch.no_grad():
            self.embedding.weight[0] = 0.0
        for convolution in self.convolutions:
            assert isinstance(convolution, nn.Conv1d)
            nn.init.uniform_(convolution.weight, -_RANGE, _RANGE)
            assert convolution.bias is not None
            nn.init.zeros_(convolution.bias)
        nn.init.normal_(self.projection.weight, std=size**-0.5)
        nn.init.zeros_(self.projection.bias)

    def forward(self, characters: Tensor) -> Tensor:
        """Returns the vectors (N, output_size) of words (N, length) int64.

        Behind the longest word and a window of padding all windows are alike, so they are left out.
        """
        longest = int((characters != _PADDING + 1).sum(1).max()) if len(characters) else 0
        kept = characters[:, : longest + max(self.widths)]
        embedded = F.embedding(kept, self.embedding.weight, 0).transpose(1, 2)  # (N, character_size, length)
        hidden = torch.cat([self._activation(one(embedded).amax(2)) for one in self.convolutions], 1)
        for highway in self.highways:
            hidden = highway(hidden)
        projected: Tensor = self.projection(hidden)
        return projected


class Highway(nn.Module):
    """g = σ(x W_c + b_c), y = g∘relu(x W_t + b_t) + (1 - g)∘x.

    Args:
        size: Dimensions.
        bias: b_c at the start.
    """

    def __init__(self, size: int, *, bias: float = _CARRY_BIAS) -> None:
        super().__init__()
        self.carry = Linear(size, size)
        self.transform = Linear(size, size)
        for one in (self.carry, self.transform):
            nn.init.normal_(one.weight, std=size**-0.5)
            nn.init.zeros_(one.bias)
        nn.init.constant_(self.carry.bias, bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """Returns a tensor of the shape of ``hidden``."""
        gate = torch.sigmoid(self.carry(hidden))
        mixed: Tensor = torch.lerp(hidden, torch.relu(self.transform(hidden)), gate)
        return mixed
