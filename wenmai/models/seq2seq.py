"""Sequence to sequence with recurrent networks: an encoder reads the source, a decoder generates the target.

| setting              | paper                                                             | where                |
|----------------------|-------------------------------------------------------------------|----------------------|
| context=first_state  | Sutskever, Vinyals, Le 2014, arXiv:1409.3215, sec. 2              | ``FirstStateDecoder``|
| reverse_source       | the same, sec. 3.3                                                | ``_RecurrentEncoder``|
| context=every_step   | Cho et al. 2014, arXiv:1406.1078, sec. 2.2, A.1                   | ``EveryStepDecoder`` |
| attention=bahdanau   | Bahdanau, Cho, Bengio 2015, arXiv:1409.0473, sec. 3, A.2          | ``BahdanauDecoder``  |
| attention=luong      | Luong, Pham, Manning 2015, arXiv:1508.04025, sec. 3.1, 3.3        | ``LuongDecoder``     |
| selection            | hard: Xu et al. 2015, arXiv:1502.03044, sec. 4; local: Luong 3.2  | nn/stepwise_attention|
| encoder=cnn          | Gehring et al. 2017, arXiv:1705.03122, sec. 3.1, 3.2              | nn/convolution.py    |
| ``teacher_share``    | scheduled sampling: Bengio et al. 2015, arXiv:1506.03099, sec. 2.4| ``Seq2Seq.forward``  |

The decoders, and how they differ from the papers, are in ``wenmai/nn/recurrent_decoder.py``. Each works with any kind
of layer.

Shapes: B sentences, N hypotheses, S source and T target tokens, E embedding, M hidden size, F memory, R readout.
"""

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor, nn

from wenmai.decode.protocol import State, Step
from wenmai.models.settings import Seq2SeqConfig
from wenmai.nn.convolution import ConvolutionEncoder
from wenmai.nn.dropout import Dropout
from wenmai.nn.encoder_decoder import EncoderDecoder
from wenmai.nn.linear import Linear
from wenmai.nn.recurrent import Recurrent, reverse
from wenmai.nn.recurrent_decoder import (
    BahdanauDecoder,
    Decoded,
    DecoderSizes,
    EveryStepDecoder,
    FirstStateDecoder,
    LuongDecoder,
    Memory,
    RecurrentDecoder,
    Tensors,
)
from wenmai.nn.stepwise_attention import Choice

__all__ = ["Memory", "Seq2Seq", "Seq2SeqConfig", "Seq2SeqState"]

_EMBEDDING_RANGE = 0.1  # Luong et al. 2015, sec. 4.1
_DECODERS: dict[str, Callable[[DecoderSizes], RecurrentDecoder]] = {
    "first_state": FirstStateDecoder,
    "every_step": EveryStepDecoder,
    "bahdanau": BahdanauDecoder,
    "luong": LuongDecoder,
}


class _RecurrentEncoder(nn.Module):
    """h_j = f(E x_j, h_{j-1}), in both directions side by side where the settings say so."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.layers = Recurrent(
            config.cell,
            input_size=config.embedding_size,
            hidden_size=config.hidden_size,
            num_layers=config.num_layers,
            bidirectional=config.bidirectional,
            dropout=config.dropout,
        )
        self.reverse_source = config.reverse_source
        self.memory_size, self.last_size = self.layers.output_size, self.layers.state_size

    def forward(self, words: Tensor, mask: Tensor) -> Memory:
        if self.reverse_source:
            outputs, last = self.layers(reverse(words, mask), mask)
            return Memory(reverse(outputs, mask), mask, last)  # attention still counts from the first word
        outputs, last = self.layers(words, mask)
        return Memory(outputs, mask, last)


class _ConvolutionEncoder(nn.Module):
    """Gehring et al. 2017: convolutions over words and learned positions."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        size = config.hidden_size
        self.positions = _embedding(config.max_length, config)
        self.layers = ConvolutionEncoder(
            input_size=config.embedding_size,
            hidden_size=size,
            num_layers=config.num_layers,
            kernel_size=config.kernel_size,
            dropout=config.dropout,
        )
        self.num_layers = config.num_layers
        self.memory_size, self.last_size = size, size

    def forward(self, words: Tensor, mask: Tensor) -> Memory:
        outputs = self.layers(words + self.positions.weight[: words.shape[1]], mask)
        mean = outputs.sum(1) / mask.sum(1, keepdim=True).clamp(min=1)  # (B, M)
        return Memory(outputs, mask, mean.expand(self.num_layers, -1, -1))


class Seq2SeqState:
    """The state of decoding a batch: sources, and the decoder's state of each hypothesis."""

    def __init__(self, source: Tensors, state: Tensors, *, need_attention: bool) -> None:
        self.source = source
        self.state = state
        self.need_attention = need_attention
        self.places = torch.arange(self.batch_size, device=state[0].device)  # the source that each row reads

    @property
    def batch_size(self) -> int:
        """Hypotheses, N."""
        return len(self.state[0])

    def select(self, rows: Tensor) -> None:
        """Keeps these hypotheses in this order, in place.

        Args:
            rows: (K,) int64; may repeat and leave out rows.
        """
        self.state = _select(self.state, rows)
        places = self.places.index_select(0, rows)
        if not torch.equal(places, self.places):  # beams mostly change places within their own source
            self.source, self.places = _select(self.source, rows), places


class Seq2Seq(EncoderDecoder):
    """An encoder and a decoder with their embeddings and the output layer.

    Args:
        config: The settings.
        source_vocab_size: Tokens of the source language.
        target_vocab_size: Tokens of the target language, V.
        tied_sources: Source and target have one vocabulary, and so share their embedding.

    Raises:
        ValueError: if ``tied_sources`` and the two sizes differ.
    """

    kind: ClassVar[str] = "seq2seq"
    config_class: ClassVar[type] = Seq2SeqConfig
    samples_targets: ClassVar[bool] = True

    def __init__(
        self, config: Seq2SeqConfig, *, source_vocab_size: int, target_vocab_size: int, tied_sources: bool
    ) -> None:
        super().__init__(
            source_vocab_size=source_vocab_size, target_vocab_size=target_vocab_size, tied_sources=tied_sources
        )
        self.config = config
        self.has_attention = config.context == "attention"
        self.samples_attention = config.selection == "sampled"
        self.target_embedding = _embedding(target_vocab_size, config)
        self.source_embedding = None if tied_sources else _embedding(source_vocab_size, config)
        self.dropout = Dropout(config.dropout)
        self.encoder = (_ConvolutionEncoder if config.encoder == "cnn" else _RecurrentEncoder)(config)
        decoder = _DECODERS[config.attention if config.context == "attention" else config.context]
        self.decoder = decoder(
            DecoderSizes(
                kind=config.cell,
                embedding_size=config.embedding_size,
                hidden_size=config.hidden_size,
                num_layers=config.num_layers,
                dropout=config.dropout,
                scorer=config.scorer,
                selection=config.selection,
                window=config.window,
                memory_size=self.encoder.memory_size,
                last_size=self.encoder.last_size,
            )
        )
        self.output = Linear(self.decoder.readout_size, target_vocab_size)
        nn.init.xavier_uniform_(self.output.weight)
        nn.init.zeros_(self.output.bias)

    @property
    def output_weight(self) -> Tensor:
        """(V, R)."""
        return self.output.weight

    @property
    def output_bias(self) -> Tensor:
        """(V,)."""
        return self.output.bias

    def encode(self, source_ids: Tensor, source_mask: Tensor) -> Memory:
        """Reads sources.

        Raises:
            ValueError: if S exceeds ``max_length``.
        """
        if source_ids.shape[1] > self.config.max_length:
            raise ValueError(
                f"{source_ids.shape[1]} tokens in a source, max_length is {self.config.max_length}: cut it"
            )
        words = self.dropout((self.source_embedding or self.target_embedding)(source_ids))
        memory: Memory = self.encoder(words, source_mask)
        return memory

    def forward(
        self,
        source_ids: Tensor,
        source_mask: Tensor,
        target_ids: Tensor,
        *,
        teacher_share: float = 1.0,
        choices: list[Choice] | None = None,
    ) -> Tensor:
        """Returns the decoder's readouts (B, T, R), from which :meth:`logits` predicts the tokens after each.

        Args:
            source_ids: (B, S) int64.
            source_mask: (B, S) bool, True for real tokens.
            target_ids: (B, T) int64, the tokens that are fed: ``<s>`` and the target.
            teacher_share: Probability that a fed token is the one of ``target_ids``; else one drawn from what the
                model predicts there, through which no gradient flows (scheduled sampling). The first is always fed.
            choices: Receives the draws of sampled attention while training: of all T steps, or of each.
        """
        source, state = self.decoder.read(self.encode(source_ids, source_mask))
        if teacher_share >= 1.0:
            return self._decode(target_ids, source, state, choices).hidden
        hidden: list[Tensor] = []
        for place in range(target_ids.shape[1]):
            fed = target_ids[:, place]
            if place:
                with torch.no_grad():
                    drawn = self.logits(hidden[-1][:, 0]).softmax(-1).multinomial(1)[:, 0]
                fed = torch.where(torch.rand(len(fed), device=fed.device) < teacher_share, fed, drawn)
            decoded = self._decode(fed[:, None], source, state, choices)
            state = decoded.state
            hidden.append(decoded.hidden)
        return torch.cat(hidden, 1)

    def logits(self, hidden: Tensor) -> Tensor:
        """Projects readouts (..., R) to the vocabulary (..., V)."""
        logits: Tensor = self.output(hidden)
        return logits

    def begin(
        self, source_ids: Tensor, source_mask: Tensor, *, max_length: int, need_attention: bool = False
    ) -> Seq2SeqState:
        """Reads sources to decode from, one hypothesis each; ``max_length`` does not matter to a recurrent state."""
        source, state = self.decoder.read(self.encode(source_ids, source_mask))
        return Seq2SeqState(source, state, need_attention=need_attention)

    def step(self, tokens: Tensor, state: State) -> Step:
        """Feeds one token to each hypothesis, advances ``state``, and predicts the next tokens."""
        assert isinstance(state, Seq2SeqState)
        decoded = self._decode(tokens[:, None], state.source, state.state)
        state.state = decoded.state
        weights = decoded.weights[:, 0] if state.need_attention and decoded.weights is not None else None
        return Step(self.logits(decoded.hidden[:, 0]), weights)

    def _decode(
        self, token_ids: Tensor, source: Tensors, state: Tensors, choices: list[Choice] | None = None
    ) -> Decoded:
        decoded: Decoded = self.decoder(self.dropout(self.target_embedding(token_ids)), source, state)
        if choices is not None and decoded.choice is not None:
            choices.append(decoded.choice)
        return decoded._replace(hidden=self.dropout(decoded.hidden))


def _select(tensors: Tensors, rows: Tensor) -> Tensors:
    return tuple(tensor.index_select(0, rows) for tensor in tensors)


def _embedding(vocab_size: int, config: Seq2SeqConfig) -> nn.Embedding:
    embedding = nn.Embedding(vocab_size, config.embedding_size)
    nn.init.uniform_(embedding.weight, -_EMBEDDING_RANGE, _EMBEDDING_RANGE)
    return embedding
