"""Sequence to sequence with recurrent networks: an encoder reads the source, a decoder writes the target.

| setting              | paper                                                             | where                |
|----------------------|-------------------------------------------------------------------|----------------------|
| context=first_state  | Sutskever, Vinyals, Le 2014, arXiv:1409.3215, sec. 2              | ``FirstStateDecoder``|
| reverse_source       | the same, sec. 3.3                                                | ``_RecurrentEncoder``|
| context=every_step   | Cho et al. 2014, arXiv:1406.1078, sec. 2.2, A.1                   | ``EveryStepDecoder`` |
| attention=bahdanau   | Bahdanau, Cho, Bengio 2015, arXiv:1409.0473, sec. 3, A.2          | ``BahdanauDecoder``  |
| attention=luong      | Luong, Pham, Manning 2015, arXiv:1508.04025, sec. 3.1, 3.3        | ``LuongDecoder``     |
| encoder=cnn          | Gehring et al. 2017, arXiv:1705.03122, sec. 3.1, 3.2              | nn/convolution.py    |
| ``teacher_share``    | scheduled sampling: Bengio et al. 2015, arXiv:1506.03099, sec. 2.4| ``Seq2Seq.forward``  |

As in the papers: Bahdanau's query is the state *before* a step, Luong's the state *after* it, with input feeding.

Differs from the papers:

- Every decoder begins with tanh(W x + b) of the encoder's last states, layer by layer (a convolutional encoder gives
  the mean of its outputs). Sutskever and Luong copy the states; Bahdanau takes the backward one only.
- Bahdanau's and Cho's deep output reads the state after the step, which has seen y_{t-1} and c_t; Bahdanau's formula
  has the state before. The maxout layer is half as wide as the state, as Bahdanau's was (500 of 1000).
- In a stack, Bahdanau's attention drives the lowest layer and the others run over all steps at once, as in GNMT
  (Wu et al. 2016, arXiv:1609.08144, sec. 3); the paper has one layer.
- The GRU's reset gate acts after U (nn/recurrent.py). Any kind of layer goes with any decoder.

Fast, because what does not depend on the recurrence is computed for all steps at once: the words' and the context's
part of the gates (C h_j is weighted instead of h_j, since C Σ α_j h_j = Σ α_j C h_j), context vectors and readouts.

Shapes: B sentences, N hypotheses, S source and T target tokens, E embedding, M hidden size, F memory, R readout.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import torch
from annotated_types import Ge, Lt
from torch import Tensor, nn
from typing_extensions import Doc

from wenmai.core.errors import SettingError
from wenmai.decode.protocol import Step
from wenmai.nn.convolution import ConvolutionEncoder
from wenmai.nn.dropout import Dropout
from wenmai.nn.linear import Linear
from wenmai.nn.recurrent import Bridge, Cell, Kind, Maxout, Recurrent, StepwiseAttention, reverse
from wenmai.nn.scorers import ScorerName

__all__ = ["Memory", "Seq2Seq", "Seq2SeqConfig", "Seq2SeqState"]

_EMBEDDING_RANGE = 0.1  # Luong et al. 2015, sec. 4.1


@dataclass(frozen=True, kw_only=True, slots=True)
class Seq2SeqConfig:
    """The encoder, the decoder, and what connects them."""

    encoder: Annotated[
        Literal["rnn", "lstm", "gru", "cnn"], Doc("layers of encoder and decoder; cnn: its decoder is a gru")
    ] = "gru"
    bidirectional: Annotated[bool, Doc("the encoder reads in both directions, each of hidden_size")] = True
    embedding_size: Annotated[int, Ge(1), Doc("numbers in a token's vector")] = 256
    hidden_size: Annotated[int, Ge(2), Doc("width of a layer")] = 512
    num_layers: Annotated[int, Ge(1), Doc("layers of the encoder, and of the decoder")] = 1
    dropout: Annotated[float, Ge(0), Lt(1), Doc("of embeddings, between layers, and before the output")] = 0.2
    context: Annotated[
        Literal["attention", "every_step", "first_state"],
        Doc("how the decoder sees the source: by attention, one vector at every step, or only its first state"),
    ] = "attention"
    attention: Annotated[
        Literal["bahdanau", "luong"],
        Doc("the query: the state before a step; or the one after it, with input feeding"),
    ] = "bahdanau"
    scorer: Annotated[ScorerName, Doc("how attention compares the query with a source token")] = "additive"
    kernel_size: Annotated[int, Ge(1), Doc("cnn: tokens that a window spans")] = 3
    reverse_source: Annotated[bool, Doc("a one-directional encoder reads the source from its end")] = False
    max_length: Annotated[int, Ge(1), Doc("tokens of a source sentence, at most")] = 512

    def __post_init__(self) -> None:
        if self.encoder == "cnn" and not self.bidirectional:
            raise SettingError("encoder=cnn sees both sides of a token; leave bidirectional on")
        if self.encoder != "cnn" and self.kernel_size != 3:
            raise SettingError(f"kernel_size belongs to encoder=cnn, not to encoder={self.encoder}; leave it out")
        if self.reverse_source and self.bidirectional:
            raise SettingError("both directions together read the source reversed anyway; add bidirectional=false")
        if self.context != "attention" and (self.attention != "bahdanau" or self.scorer != "additive"):
            raise SettingError(f"context={self.context} has no attention; leave out attention and scorer")

    @property
    def cell(self) -> Kind:
        """The decoder's kind of layer."""
        return "gru" if self.encoder == "cnn" else self.encoder


class Memory(NamedTuple):
    """What the encoder knows of a batch of sources.

    Attributes:
        outputs: (B, S, F), one vector a token.
        valid: (B, S) bool, True for real tokens.
        last: (L, B, ·), the last states of each layer; of a convolutional encoder the mean output, L times.
    """

    outputs: Tensor
    valid: Tensor
    last: Tensor


_Tensors = tuple[Tensor, ...]  # each with the hypotheses first, so that beams can change places


class _Decoded(NamedTuple):
    hidden: Tensor  # (N, T, R)
    state: _Tensors
    weights: Tensor | None = None  # (N, T, S)


class _RecurrentEncoder(nn.Module):
    """h_j = f(E x_j, h_{j-1}), in both directions side by side where the settings say so."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.layers = _layers(config, config.embedding_size, bidirectional=config.bidirectional)
        self.reverse_source = config.reverse_source
        self.memory_size, self.last_size = self.layers.output_size, self.layers.state_size

    def forward(self, words: Tensor, valid: Tensor) -> Memory:
        if self.reverse_source:
            outputs, last = self.layers(reverse(words, valid), valid)
            return Memory(reverse(outputs, valid), valid, last)  # attention still counts from the first word
        outputs, last = self.layers(words, valid)
        return Memory(outputs, valid, last)


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

    def forward(self, words: Tensor, valid: Tensor) -> Memory:
        outputs = self.layers(words + self.positions.weight[: words.shape[1]], valid)
        mean = outputs.sum(1) / valid.sum(1, keepdim=True).clamp(min=1)  # (B, M)
        return Memory(outputs, valid, mean.expand(self.num_layers, -1, -1))


class FirstStateDecoder(nn.Module):
    """Sutskever et al. 2014: s_t = f(s_{t-1}, E y_{t-1}), p = softmax(W s_t); all it knows of the source is s_0."""

    def __init__(self, config: Seq2SeqConfig, *, memory_size: int, last_size: int) -> None:
        super().__init__()
        self.layers = _layers(config, config.embedding_size)
        self.bridge = Bridge(last_size, self.layers.state_size, num_layers=config.num_layers)
        self.readout_size = config.hidden_size

    def read(self, memory: Memory) -> tuple[_Tensors, _Tensors]:
        return (), (self.bridge(memory.last),)

    def forward(self, words: Tensor, source: _Tensors, state: _Tensors) -> _Decoded:
        hidden, last = self.layers(words, state=state[0].transpose(0, 1))
        return _Decoded(hidden, (last.transpose(0, 1),))


class EveryStepDecoder(nn.Module):
    """Cho et al. 2014: c = tanh(V h_S), s_0 = tanh(V' c), s_t = f(s_{t-1}, [E y_{t-1}; c]), deep output by maxout."""

    def __init__(self, config: Seq2SeqConfig, *, memory_size: int, last_size: int) -> None:
        super().__init__()
        size = config.hidden_size
        self.summary = Linear(last_size, size)
        self.layers = _layers(config, config.embedding_size + size)
        self.bridge = Bridge(size, self.layers.state_size, num_layers=config.num_layers)
        self.readout_size = size // 2
        self.readout = Maxout(2 * size + config.embedding_size, self.readout_size)

    def read(self, memory: Memory) -> tuple[_Tensors, _Tensors]:
        summary = torch.tanh(self.summary(memory.last[-1]))
        return (summary,), (self.bridge(summary.expand(len(memory.last), -1, -1)),)

    def forward(self, words: Tensor, source: _Tensors, state: _Tensors) -> _Decoded:
        summary = source[0][:, None].expand(-1, words.shape[1], -1)  # (N, T, M)
        hidden, last = self.layers(torch.cat((words, summary), -1), state=state[0].transpose(0, 1))
        return _Decoded(self.readout(hidden, words, summary), (last.transpose(0, 1),))


class BahdanauDecoder(nn.Module):
    """Bahdanau et al. 2015: α_t = softmax(a(s_{t-1}, h)), c_t = Σ_j α_tj h_j, s_t = f(s_{t-1}, [E y_{t-1}; c_t])."""

    def __init__(self, config: Seq2SeqConfig, *, memory_size: int, last_size: int) -> None:
        super().__init__()
        self.attention = StepwiseAttention(config.scorer, query_size=config.hidden_size, memory_size=memory_size)
        self.cell = Cell(config.cell, config.hidden_size)
        self.words = Linear(config.embedding_size, self.cell.gates_size)
        self.context = Linear(memory_size, self.cell.gates_size, bias=False)
        self.upper = _layers(config, config.hidden_size, below=1) if config.num_layers > 1 else None
        self.bridge = Bridge(last_size, self.cell.state_size, num_layers=config.num_layers)
        self.dropout = Dropout(config.dropout)
        self.readout_size = config.hidden_size // 2
        self.readout = Maxout(config.hidden_size + config.embedding_size + memory_size, self.readout_size)

    def read(self, memory: Memory) -> tuple[_Tensors, _Tensors]:
        outputs, valid, last = memory
        return (self.attention.prepare(outputs), self.context(outputs), valid, outputs), (self.bridge(last),)

    def forward(self, words: Tensor, source: _Tensors, state: _Tensors) -> _Decoded:
        keys, mixed, valid, outputs = source
        size = self.cell.hidden_size
        s, upper = state[0][:, 0], state[0][:, 1:]
        queries, states, weights = [], [], []
        for gates in self.words(words).unbind(1):  # (N, gates)
            queries.append(s[:, :size])
            context, weight = self.attention(queries[-1], keys, mixed, valid)
            s = self.cell(gates + context, s)
            states.append(s[:, :size])
            weights.append(weight)
        self.attention.show(queries, keys, mixed, valid)
        hidden, alpha = torch.stack(states, 1), torch.cat(weights, 1)  # (N, T, M), (N, T, S)
        last = s[:, None]
        if self.upper is not None:
            hidden, above = self.upper(self.dropout(hidden), state=upper.transpose(0, 1))
            last = torch.cat((last, above.transpose(0, 1)), 1)
        return _Decoded(self.readout(hidden, words, alpha @ outputs), (last,), alpha)


class LuongDecoder(nn.Module):
    """Luong et al. 2015: s_t = f(s_{t-1}, [E y; h̃_{t-1}]), α_t = softmax(a(s_t, h)), h̃_t = tanh(W_c [c_t; s_t])."""

    def __init__(self, config: Seq2SeqConfig, *, memory_size: int, last_size: int) -> None:
        super().__init__()
        self.attention = StepwiseAttention(config.scorer, query_size=config.hidden_size, memory_size=memory_size)
        size = self.readout_size = config.hidden_size
        cells = [Cell(config.cell, size) for _ in range(config.num_layers)]
        self.cells, gates_size = nn.ModuleList(cells), cells[0].gates_size
        self.words = Linear(config.embedding_size, gates_size)
        self.feed = Linear(size, gates_size, bias=False)
        self.between = nn.ModuleList(Linear(size, gates_size) for _ in range(config.num_layers - 1))
        self.bridge = Bridge(last_size, cells[0].state_size, num_layers=config.num_layers)
        self.dropout = Dropout(config.dropout)
        self.context = Linear(memory_size, size, bias=False)  # W_c = [context, top]
        self.top = Linear(size, size, bias=False)

    def read(self, memory: Memory) -> tuple[_Tensors, _Tensors]:
        first = self.bridge(memory.last)
        source = (self.attention.prepare(memory.outputs), self.context(memory.outputs), memory.valid)
        return source, (first, first.new_zeros(len(first), self.readout_size))  # h̃_0 = 0

    def forward(self, words: Tensor, source: _Tensors, state: _Tensors) -> _Decoded:
        keys, mixed, valid = source
        size = self.readout_size
        states, fed = list(state[0].unbind(1)), state[1]
        queries, outputs, weights = [], [], []
        for gates in self.words(words).unbind(1):  # (N, gates)
            entering = gates + self.feed(fed)
            for layer, cell in enumerate(self.cells):
                if layer:
                    entering = self.between[layer - 1](self.dropout(states[layer - 1][:, :size]))
                states[layer] = cell(entering, states[layer])
            queries.append(states[-1][:, :size])
            context, weight = self.attention(queries[-1], keys, mixed, valid)
            fed = torch.tanh(context + self.top(queries[-1]))
            outputs.append(fed)
            weights.append(weight)
        self.attention.show(queries, keys, mixed, valid)
        return _Decoded(torch.stack(outputs, 1), (torch.stack(states, 1), fed), torch.cat(weights, 1))


_Decoder = FirstStateDecoder | EveryStepDecoder | BahdanauDecoder | LuongDecoder
_DECODERS: dict[str, type[_Decoder]] = {
    "first_state": FirstStateDecoder,
    "every_step": EveryStepDecoder,
    "bahdanau": BahdanauDecoder,
    "luong": LuongDecoder,
}


class Seq2SeqState:
    """Where the decoding of a batch stands: sources, and the decoder's state of each hypothesis."""

    def __init__(self, source: _Tensors, state: _Tensors, *, need_attention: bool) -> None:
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


class Seq2Seq(nn.Module):
    """An encoder and a decoder with their embeddings and the output layer.

    Everywhere ``source_ids`` is (B, S) int64 and ``source_valid`` (B, S) bool, True for real tokens, all of them before
    the padding.

    Args:
        config: The settings.
        source_vocab_size: Tokens of the source language.
        target_vocab_size: Tokens of the target language, V.
        tied_sources: Source and target are numbered by one vocabulary, and so share their embedding.

    Raises:
        ValueError: if ``tied_sources`` and the two sizes differ.
    """

    def __init__(
        self, config: Seq2SeqConfig, *, source_vocab_size: int, target_vocab_size: int, tied_sources: bool
    ) -> None:
        super().__init__()
        if tied_sources and source_vocab_size != target_vocab_size:
            raise ValueError(f"a shared embedding of {source_vocab_size} source and {target_vocab_size} target tokens")
        self.config = config
        self.target_embedding = _embedding(target_vocab_size, config)
        self.source_embedding = None if tied_sources else _embedding(source_vocab_size, config)
        self.dropout = Dropout(config.dropout)
        self.encoder = (_ConvolutionEncoder if config.encoder == "cnn" else _RecurrentEncoder)(config)
        decoder = _DECODERS[config.attention if config.context == "attention" else config.context]
        self.decoder = decoder(config, memory_size=self.encoder.memory_size, last_size=self.encoder.last_size)
        self.output = Linear(self.decoder.readout_size, target_vocab_size)
        nn.init.xavier_uniform_(self.output.weight)
        nn.init.zeros_(self.output.bias)

    @property
    def output_weight(self) -> Tensor:
        """(V, R), of the vocabulary projection."""
        return self.output.weight

    @property
    def output_bias(self) -> Tensor:
        """(V,), of the vocabulary projection."""
        return self.output.bias

    def encode(self, source_ids: Tensor, source_valid: Tensor) -> Memory:
        """Reads sources.

        Raises:
            ValueError: if S exceeds ``max_length``.
        """
        if source_ids.shape[1] > self.config.max_length:
            raise ValueError(
                f"{source_ids.shape[1]} tokens in a source, max_length is {self.config.max_length}: cut it"
            )
        words = self.dropout((self.source_embedding or self.target_embedding)(source_ids))
        memory: Memory = self.encoder(words, source_valid)
        return memory

    def forward(
        self, source_ids: Tensor, source_valid: Tensor, target_ids: Tensor, *, teacher_share: float = 1.0
    ) -> Tensor:
        """Returns the decoder's readouts (B, T, R), from which :meth:`logits` predicts the tokens after each.

        Args:
            source_ids: See the class, as for ``source_valid``.
            source_valid: The same.
            target_ids: (B, T) int64, the tokens that are fed: ``<s>`` and the target.
            teacher_share: Probability that a fed token is the one of ``target_ids``; else one drawn from what the
                model predicts there, through which no gradient flows (scheduled sampling). The first is always fed.
        """
        source, state = self.decoder.read(self.encode(source_ids, source_valid))
        if teacher_share >= 1.0:
            return self._decode(target_ids, source, state).hidden
        hidden: list[Tensor] = []
        for place in range(target_ids.shape[1]):
            fed = target_ids[:, place]
            if place:
                with torch.no_grad():
                    drawn = self.logits(hidden[-1][:, 0]).softmax(-1).multinomial(1)[:, 0]
                fed = torch.where(torch.rand(len(fed), device=fed.device) < teacher_share, fed, drawn)
            decoded = self._decode(fed[:, None], source, state)
            state = decoded.state
            hidden.append(decoded.hidden)
        return torch.cat(hidden, 1)

    def logits(self, hidden: Tensor) -> Tensor:
        """Projects readouts (..., R) to the vocabulary (..., V)."""
        logits: Tensor = self.output(hidden)
        return logits

    def begin(
        self, source_ids: Tensor, source_valid: Tensor, *, max_length: int, need_attention: bool = False
    ) -> Seq2SeqState:
        """Reads sources to decode from, one hypothesis each.

        Args:
            source_ids: See the class, as for ``source_valid``.
            source_valid: The same.
            max_length: Steps that will be taken at most; a recurrent state does not grow, so nothing depends on it.
            need_attention: Whether :meth:`step` is to return attention weights.
        """
        source, state = self.decoder.read(self.encode(source_ids, source_valid))
        return Seq2SeqState(source, state, need_attention=need_attention)

    def step(self, tokens: Tensor, state: Seq2SeqState) -> Step:
        """Feeds one token to each hypothesis, advances ``state``, and predicts the next tokens.

        Args:
            tokens: (N,) int64.
            state: Of :meth:`begin`; changed in place.
        """
        decoded = self._decode(tokens[:, None], state.source, state.state)
        state.state = decoded.state
        weights = decoded.weights[:, 0] if state.need_attention and decoded.weights is not None else None
        return Step(self.logits(decoded.hidden[:, 0]), weights)

    def _decode(self, token_ids: Tensor, source: _Tensors, state: _Tensors) -> _Decoded:
        decoded: _Decoded = self.decoder(self.dropout(self.target_embedding(token_ids)), source, state)
        return decoded._replace(hidden=self.dropout(decoded.hidden))


def _layers(config: Seq2SeqConfig, input_size: int, *, below: int = 0, bidirectional: bool = False) -> Recurrent:
    """The layers of an encoder or a decoder, without the lowest ``below``."""
    return Recurrent(
        config.cell,
        input_size=input_size,
        hidden_size=config.hidden_size,
        num_layers=config.num_layers - below,
        bidirectional=bidirectional,
        dropout=config.dropout,
    )


def _select(tensors: _Tensors, rows: Tensor) -> _Tensors:
    return tuple(tensor.index_select(0, rows) for tensor in tensors)


def _embedding(vocab_size: int, config: Seq2SeqConfig) -> nn.Embedding:
    embedding = nn.Embedding(vocab_size, config.embedding_size)
    nn.init.uniform_(embedding.weight, -_EMBEDDING_RANGE, _EMBEDDING_RANGE)
    return embedding
