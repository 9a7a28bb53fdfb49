"""GPT: a left-to-right Transformer, in its three generations.

| generation | what | source |
|---|---|---|
| GPT-1, ``norm=post`` | LN(x + f(x)); no final norm | Radford et al. 2018, "Improving Language Understanding by Generative Pre-Training" |
| GPT-2, ``norm=pre`` | x + f(LN(x)), a final LN, residual projections begin smaller | Radford et al. 2019, "Language Models are Unsupervised Multitask Learners" |
| GPT-3, ``window`` | every second layer attends to a local band only | Brown et al. 2020, https://arxiv.org/abs/2005.14165; Child et al. 2019, https://arxiv.org/abs/1904.10509 |

| equation | where |
|---|---|
| h_0 = W_e[x] + W_p (GPT-1, eq. 2) | ``Gpt._embed`` |
| h_l = block(h_{l-1}) | ``wenmai.nn.transformer.EncoderLayer`` with a causal mask |
| P = softmax(h_L W_eᵀ); with ``tied=False`` W_e has a counterpart of its own | ``Gpt.output`` |

Which layers of GPT-3 are banded, and how wide, was not published: here those with odd numbers (the second, the fourth,
...), ``window`` positions back. Weights are (out, in), not transposed as in OpenAI's code.

Documents that are kept apart each begin at position 0, so that each gives the same result as alone.

Shapes: B rows, T tokens, M hidden size, V vocabulary.
"""  # noqa: E501  a table

import math
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wenmai.decode.protocol import Step
from wenmai.models.settings import GptConfig
from wenmai.nn import plain
from wenmai.nn.cache import KeyValue
from wenmai.nn.embeddings import Embeddings, Learned
from wenmai.nn.language import CachedState, LanguageState, NextToken
from wenmai.nn.masks import Mask, causal
from wenmai.nn.multihead import MultiHead
from wenmai.nn.softmax import Softmax
from wenmai.nn.transformer import Encoder, EncoderLayer, FeedForward

__all__ = ["Gpt", "GptConfig"]

_CAUSAL = causal()
_STD = 0.02  # of every weight; of GPT-2's positions half of it


class Gpt(NextToken):
    """The generative pre-trained Transformer.

    Args:
        config: Sizes and choices.
        vocab_size: V.
        bos_id: BOS, before every text.
    """

    kind: ClassVar[str] = "gpt"
    config_class: ClassVar[type] = GptConfig
    stateful: ClassVar[bool] = False
    masks_documents: ClassVar[bool] = True
    layered: ClassVar[bool] = True

    output: Softmax

    def __init__(self, config: GptConfig, *, vocab_size: int, bos_id: int) -> None:
        super().__init__(vocab_size=vocab_size, bos_id=bos_id)
        self.config = config
        self.max_length = config.max_length
        self.embedding = nn.Embedding(vocab_size, config.hidden_size)
        self.positions = Learned(config.hidden_size, config.max_length)
        self.embeddings = Embeddings(dropout=config.dropout)
        layers = (_layer(config, number) for number in range(config.num_layers))
        self.decoder = Encoder(layers, hidden_size=config.hidden_size, epsilon=config.epsilon)
        self.output = Softmax(vocab_size, config.hidden_size, tied_to=self.embedding if config.tied else None)
        self._shortcut = plain.Shortcut()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """N(0, 0.02²) and zero biases; from GPT-2 on less for positions, and 1/√(2L) of it where residuals add up."""
        pre = self.config.norm == "pre"
        residual_std = _STD / math.sqrt(2 * self.config.num_layers) if pre else _STD
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                residual = name.endswith(("attention.output.weight", "ffn.outer.weight"))
                nn.init.normal_(parameter, std=residual_std if residual else _STD)
        if pre:
            nn.init.normal_(self.positions.weight, std=_STD / 2)

    def start(self, batch_size: int, *, capacity: int | None = None) -> CachedState:
        """Returns empty caches for ``capacity`` tokens, or for ``max_length``."""
        config = self.config
        if capacity is not None and capacity > config.max_length:
            raise ValueError(f"{capacity} tokens were asked for; positions are learned up to {config.max_length}")
        shape = (batch_size, config.num_heads, capacity or config.max_length, config.hidden_size // config.num_heads)
        weight = self.embedding.weight
        caches = [KeyValue.empty(*shape, like=weight.detach()) for _ in range(config.num_layers)]
        if config.window is not None or config.activation == "silu":  # not the same for all layers; not compiled
            return CachedState(caches)
        compiled = self._shortcut.begin(
            batch_size,
            self.decoder,
            weight,
            self.positions,
            output=self.output.weight,
            capacity=shape[2],
            num_heads=config.num_heads,
            activation=config.activation,
        )
        return CachedState(caches, compiled=compiled)

    def forward(self, tokens: Tensor, state: LanguageState | None = None, *, documents: Tensor | None = None) -> Tensor:
        """Returns the states (B, T, M) of the last layer.

        Raises:
            ValueError: if positions do not reach that far, or a state is to be continued with several documents.
        """
        mask: Mask | Tensor | None = _CAUSAL
        if documents is not None:
            if state is not None:
                raise ValueError("the documents of a segment are kept apart in whole segments; leave out the state")
            begins, mask = _apart(documents)
            places = torch.arange(tokens.shape[1], device=tokens.device) - begins
            return self._decoded(self._embed(tokens, self.positions.at(places)), mask)
        if state is None:
            return self._decoded(self._embed(tokens, self.positions(0, tokens.shape[1])), mask)
        assert isinstance(state, CachedState)
        state.detach()
        hidden = self._embed(tokens, self.positions(state.length, tokens.shape[1]))
        return self._decoded(hidden, mask if tokens.shape[1] > 1 else None, state.caches)

    def hidden_states(self, tokens: Tensor) -> list[Tensor]:
        """Returns h_0 to h_L, (B, T, M) each; the last as :meth:`forward` does, after the norm at the end."""
        states = [self._embed(tokens, self.positions(0, tokens.shape[1]))]
        for layer in self.decoder.layers:
            states.append(layer(states[-1], mask=_CAUSAL))
        states[-1] = self.decoder.norm(states[-1])
        return states

    def step(self, tokens: Tensor, state: LanguageState) -> Step:
        """Reads one token for each row, and returns the logits (N, V) of the next; advances the state."""
        assert isinstance(state, CachedState)
        logits = self._shortcut.step(tokens, state)
        return super().step(tokens, state) if logits is None else Step(logits)

    def _embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        embedded: Tensor = self.embeddings(self.embedding(tokens), position=positions)  # (B, T, M)
        return embedded

    def _decoded(self, hidden: Tensor, mask: Mask | Tensor | None, caches: list[KeyValue] | None = None) -> Tensor:
        decoded: Tensor = self.decoder(hidden, mask=mask, caches=caches)
        return decoded


def _apart(documents: Tensor) -> tuple[Tensor, Tensor]:
    """Returns where each token's document begins, (B, T), and which earlier tokens are of it, (B, 1, T, T)."""
    length = documents.shape[1]
    places = torch.arange(length, device=documents.device)
    first = F.pad(documents[:, 1:] != documents[:, :-1], (1, 0), value=True)
    begins = torch.where(first, places, 0).cummax(1).values
    return begins, ((places >= begins[..., None]) & (places <= places[:, None]))[:, None]


def _layer(config: GptConfig, number: int) -> EncoderLayer:
    attention = MultiHead(
        config.hidden_size,
        config.num_heads,
        dropout=config.attention_dropout,
        window=config.window if number % 2 else None,
    )
    ffn = FeedForward(config.hidden_size, config.ffn_size or 4 * config.hidden_size, activation=config.activation)
    return EncoderLayer(attention, ffn, norm=config.norm, dropout=config.dropout, epsilon=config.epsilon)
