"""A network that labels letters of pinyin without spaces: the first letter of a syllable has its character.

Park (Kyubyong), "Neural Chinese Transliterator", 2017, https://github.com/Kyubyong/neural_chinese_transliterator, with
the network CBHG of Lee, Cho, Hofmann 2017, https://arxiv.org/abs/1610.03017, and Wang et al. 2017,
https://arxiv.org/abs/1703.10135, section 3.1. ``woaini`` has the labels 我_爱_你_, so that syllables need not be found
before.

| equation | where |
|---|---|
| x = prenet(E[l]): two layers, relu, dropout | ``Cbhg.prenet`` |
| y = maxpool(concat_k relu(BN(conv_k(x)))), k = 1 .. K | ``Cbhg.bank`` |
| z = x + BN(conv_5(relu(BN(conv_5(y))))) | ``Cbhg.projections`` |
| highway layers, then a GRU in both directions | ``Cbhg.highways``, ``Cbhg.recurrent`` |
| P(label of t) = softmax(W h_t) | the head ``characters`` |

That is ``encoder=cbhg``. With ``encoder=transformer``, the default, the equations of :mod:`wenmai.models.pinyin` stand
in its place. Differs from the original: statistics of the norms are those of real letters, not of padding.

Shapes: B rows, T letters, M hidden size, V symbols, C characters with the blank.
"""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wenmai.models.pinyin_settings import PinyinLettersConfig
from wenmai.nn.characters import Highway
from wenmai.nn.convolution import LocalConvolution
from wenmai.nn.dropout import dropout
from wenmai.nn.embeddings import Embeddings, Sinusoidal
from wenmai.nn.labelling import Labeller
from wenmai.nn.linear import Linear
from wenmai.nn.multihead import MultiHead
from wenmai.nn.recurrent import Recurrent
from wenmai.nn.softmax import Softmax
from wenmai.nn.transformer import Encoder, EncoderLayer, FeedForward

__all__ = ["Cbhg", "PinyinLetters", "PinyinLettersConfig"]

_PROJECTION_WIDTH = 5
_HIGHWAY_BIAS = -1.0  # of the gates: layers begin by letting through what they read


class ConvolutionNorm(nn.Module):
    """A convolution that keeps the length, and a batch norm with the statistics of real places.

    Args:
        input_size: Width of the inputs.
        output_size: Filters.
        width: Places that a filter sees; if even, one more to the right than to the left.
    """

    def __init__(self, input_size: int, output_size: int, width: int) -> None:
        super().__init__()
        self.window = ((width - 1) // 2, width // 2)
        self.convolution = nn.Conv1d(input_size, output_size, width, bias=False)
        self.norm = nn.BatchNorm1d(output_size)

    def forward(self, hidden: Tensor, real: Tensor) -> Tensor:
        """Returns (B, output_size, T) of (B, input_size, T), both zero where ``real`` (B, T) is False."""
        found: Tensor = self.convolution(F.pad(hidden, self.window))
        if not self.training:
            normed: Tensor = self.norm(found)
            return normed.masked_fill(~real[:, None], 0.0)
        places = found.transpose(1, 2)[real]  # (N, output_size)
        if len(places) == 1:  # which has no variance
            return found * real[:, None]
        filled = found.new_zeros(found.shape[0], found.shape[2], found.shape[1])
        filled[real] = self.norm(places)
        return filled.transpose(1, 2)


class Cbhg(nn.Module):
    """The bank of convolutions, the highway layers and the recurrent layer.

    Args:
        config: Sizes.
    """

    def __init__(self, config: PinyinLettersConfig) -> None:
        super().__init__()
        size, half = config.hidden_size, config.hidden_size // 2
        self.dropout = config.prenet_dropout
        self.prenet = nn.ModuleList([Linear(size, size), Linear(size, half)])
        self.bank = nn.ModuleList([ConvolutionNorm(half, half, width) for width in range(1, config.widths + 1)])
        self.projections = nn.ModuleList(
            [ConvolutionNorm(inputs, half, _PROJECTION_WIDTH) for inputs in (half * config.widths, half)]
        )
        self.highways = nn.ModuleList([Highway(half, bias=_HIGHWAY_BIAS) for _ in range(config.highway_layers)])
        self.recurrent = Recurrent("gru", input_size=half, hidden_size=half, bidirectional=True)

    def forward(self, embedded: Tensor, real: Tensor | None) -> Tensor:
        """Returns (B, T, M) of (B, T, M); ``real`` (B, T) bool, all real letters before the padding."""
        hidden, real = embedded, embedded.new_ones(embedded.shape[:2], dtype=torch.bool) if real is None else real
        for layer in self.prenet:
            hidden = F.relu(layer(hidden))
            if self.training and self.dropout:
                hidden = dropout(hidden, self.dropout)
        entered = (hidden * real[..., None]).transpose(1, 2)  # (B, M/2, T), as convolutions read it
        banked = torch.cat([F.relu(one(entered, real)) for one in self.bank], 1)
        pooled = torch.maximum(banked, F.pad(banked[..., 1:], (0, 1)))  # of two places; nothing is below 0
        first, second = self.projections
        hidden = entered + second(F.relu(first(pooled, real)), real)
        hidden = hidden.transpose(1, 2)
        for layer in self.highways:
            hidden = layer(hidden)
        found: Tensor = self.recurrent(hidden, real).outputs
        return found


class PinyinLetters(Labeller):
    """The labeller of letters.

    Args:
        config: Sizes and choices.
        vocab_size: V.
        characters: C.
    """

    kind: ClassVar[str] = "pinyin-letters"
    config_class: ClassVar[type] = PinyinLettersConfig

    config: PinyinLettersConfig

    def __init__(self, config: PinyinLettersConfig, *, vocab_size: int, characters: int) -> None:
        super().__init__(vocab_size=vocab_size)
        self.config = config
        self.max_length = config.max_length
        size = config.hidden_size
        self.embedding = nn.Embedding(vocab_size, size)
        self.neighbours: LocalConvolution | None = None
        self.positions: Sinusoidal | None = None
        self.encoder: Cbhg | Encoder = Cbhg(config)
        if config.encoder == "transformer":
            if config.convolution:
                self.neighbours = LocalConvolution(size, config.convolution)
            self.positions = Sinusoidal(size, config.max_length)
            self.embeddings = Embeddings(dropout=config.dropout)
            self.encoder = Encoder((_layer(config) for _ in range(config.num_layers)), hidden_size=size)
        self.heads = nn.ModuleDict({"characters": Softmax(characters, size, bias=config.encoder == "transformer")})

    def forward(self, symbols: Tensor, real: Tensor | None = None) -> Tensor:
        """Returns the states (B, T, M) of the last layer; see :meth:`wenmai.nn.labelling.Labeller.forward`."""
        self.require_length(symbols.shape[1])
        vectors: Tensor = self.embedding(symbols)
        hidden: Tensor
        if self.positions is None:
            hidden = self.encoder(vectors, real)
        else:
            around = None if self.neighbours is None else self.neighbours(vectors, real)
            embedded = self.embeddings(vectors, around=around, position=self.positions(0, symbols.shape[1]))
            hidden = self.encoder(embedded, mask=None if real is None else real[:, None, None])
        return hidden


def _layer(config: PinyinLettersConfig) -> EncoderLayer:
    size = config.hidden_size
    attention, ffn = MultiHead(size, config.num_heads), FeedForward(size, 4 * size)
    return EncoderLayer(attention, ffn, norm="pre", dropout=config.dropout)
