"""A Transformer encoder that gives each syllable of pinyin its character.

The network is the teaching example that many pages on speech recognition copy, of 312 dimensions and three layers, as
it was meant: the encoder of Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, as a labeller of sequences.

| equation | where |
|---|---|
| e_t = dropout(x_t + Σ_i W_i x_{t+i} + b + PE_t) with x_t = E[p_t], -2 ≤ i ≤ 2 | ``Pinyin.embed`` |
| a = x + dropout(attention(LN(x))), y = a + dropout(W_2 relu(W_1 LN(a) + b_1) + b_2) | ``EncoderLayer`` |
| attention(Q, K, V) = softmax(QKᵀ/√(M/H) + mask) V, where no query sees a padded key | ``MultiHead`` |
| P(c_t given p) = softmax(W h_t + b) | the head ``characters`` |
| P(p_t given c) = softmax(W' h_t + b'), of the characters instead of the syllables | the head ``readings`` |

The public copies of the example differ from these equations in six places, and none is kept here: their mask is
inverted, and it is laid over the queries, where the softmax cancels it; scores are not divided by √(M/H); there are no
residual connections; the activation stands between a sub-layer and its norm; one layer is used three times; and dropout
stays on in inference.

Two things are not of the example. Characters depend on their neighbours above all, and attention with sinusoids learns
only slowly which positions these are: a convolution W reads five syllables before the layers. Norms stand before
sub-layers, so that a higher rate is stable. ``convolution=0`` and ``norm=post`` are the example's network.

Shapes: B rows, T syllables, M hidden size, V symbols (syllables, characters, marks), C characters.
"""

from typing import ClassVar

from torch import Tensor, nn

from wenmai.models.pinyin_settings import PinyinConfig
from wenmai.nn.convolution import LocalConvolution
from wenmai.nn.embeddings import Embeddings, Sinusoidal
from wenmai.nn.labelling import Labeller
from wenmai.nn.multihead import MultiHead
from wenmai.nn.softmax import Softmax
from wenmai.nn.transformer import Encoder, EncoderLayer, FeedForward

__all__ = ["Pinyin", "PinyinConfig"]


class Pinyin(Labeller):
    """The encoder with its heads.

    Args:
        config: Sizes.
        vocab_size: V.
        characters: C, what the head ``characters`` predicts.
        readings: How many syllables the head ``readings`` predicts; 0: there is no such head.
    """

    kind: ClassVar[str] = "pinyin"
    config_class: ClassVar[type] = PinyinConfig

    config: PinyinConfig

    def __init__(self, config: PinyinConfig, *, vocab_size: int, characters: int, readings: int = 0) -> None:
        super().__init__(vocab_size=vocab_size)
        self.config = config
        self.max_length = config.max_length
        size = config.hidden_size
        self.embedding = nn.Embedding(vocab_size, size)
        self.neighbours = LocalConvolution(size, config.convolution) if config.convolution else None
        self.positions = Sinusoidal(size, config.max_length)
        self.embeddings = Embeddings(dropout=config.embedding_dropout)
        self.encoder = Encoder((_layer(config) for _ in range(config.num_layers)), hidden_size=size)
        sizes = {"characters": characters, "readings": readings}
        self.heads = nn.ModuleDict({name: Softmax(n, size, bias=True) for name, n in sizes.items() if n})

    def embed(self, symbols: Tensor, real: Tensor | None = None) -> Tensor:
        """Returns the input of the first layer, (B, T, M), of symbols (B, T); ``real`` as of :meth:`forward`.

        Raises:
            ValueError: if the text is longer than ``max_length``.
        """
        self.require_length(symbols.shape[1])
        vectors = self.embedding(symbols)
        around = None if self.neighbours is None else self.neighbours(vectors, real)
        embedded: Tensor = self.embeddings(vectors, around=around, position=self.positions(0, symbols.shape[1]))
        return embedded

    def forward(self, symbols: Tensor, real: Tensor | None = None) -> Tensor:
        """Returns the states (B, T, M) of the last layer; see :meth:`wenmai.nn.labelling.Labeller.forward`."""
        mask = None if real is None else real[:, None, None]  # of keys, for all queries
        hidden: Tensor = self.encoder(self.embed(symbols, real), mask=mask)
        return hidden


def _layer(config: PinyinConfig) -> EncoderLayer:
    size = config.hidden_size
    attention = MultiHead(size, config.num_heads)
    ffn = FeedForward(size, config.ffn_size or 4 * size)
    return EncoderLayer(attention, ffn, norm=config.norm, dropout=config.dropout)
