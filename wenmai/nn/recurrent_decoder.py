"""The recurrent decoders of sequence to sequence: four ways in which the target depends on the source.

| decoder | source | a step sees |
|---|---|---|
| ``FirstStateDecoder`` | Sutskever, Vinyals, Le 2014, arXiv:1409.3215, sec. 2 | the first state alone |
| ``EveryStepDecoder`` | Cho et al. 2014, arXiv:1406.1078, sec. 2.2, A.1 | one vector at every step |
| ``BahdanauDecoder`` | Bahdanau, Cho, Bengio 2015, arXiv:1409.0473, sec. 3, A.2 | attention of the state before it |
| ``LuongDecoder`` | Luong, Pham, Manning 2015, arXiv:1508.04025, sec. 3.1, 3.3 | attention of the state after it |

As in the papers: Bahdanau's query is the state *before* a step, Luong's the state *after* it, with input feeding.

Differs from the papers:

- Every decoder begins with tanh(W x + b) of the encoder's last states, layer by layer (a convolutional encoder gives
  the mean of its outputs). Sutskever and Luong copy the states; Bahdanau takes the backward one only.
- Bahdanau's and Cho's deep output reads the state after the step, which has seen y_{t-1} and c_t; Bahdanau's formula
  has the state before. The maxout layer is half as wide as the state, as Bahdanau's was (500 of 1000).
- In a stack, Bahdanau's attention drives the lowest layer and the others run over all steps at once, as in GNMT
  (Wu et al. 2016, arXiv:1609.08144, sec. 3); the paper has one layer.
- The GRU's reset gate acts after U (nn/recurrent.py).

Fast, because what does not depend on the recurrence is computed for all steps at once: the words' and the context's
part of the gates (C h_j is weighted instead of h_j, since C Σ α_j h_j = Σ α_j C h_j), context vectors and readouts.

Shapes: B sentences, N hypotheses, S source and T target tokens, E embedding, M hidden size, F memory, R readout.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from typing_extensions import override

from wenmai.nn.dropout import Dropout
from wenmai.nn.linear import Linear
from wenmai.nn.names import Kind, ScorerName, Selection
from wenmai.nn.recurrent import Bridge, Cell, Maxout, Recurrent
from wenmai.nn.stepwise_attention import Choice, StepwiseAttention, make_stepwise_attention, side_by_side

__all__ = [
    "BahdanauDecoder",
    "Decoded",
    "DecoderSizes",
    "EveryStepDecoder",
    "FirstStateDecoder",
    "LuongDecoder",
    "Memory",
    "RecurrentDecoder",
    "Tensors",
]

Tensors = tuple[Tensor, ...]  # each with the sentences or hypotheses first, so that beams can be reordered


class Memory(NamedTuple):
    """The encoded sources of a batch.

    Attributes:
        outputs: (B, S, F), one vector a token.
        mask: (B, S) bool, True for real tokens.
        last: (L, B, ·), the last states of each layer; of a convolutional encoder the mean output, L times.
    """

    outputs: Tensor
    mask: Tensor
    last: Tensor


class Decoded(NamedTuple):
    """The result of a decoder for T tokens.

    Attributes:
        hidden: (N, T, R), the readouts.
        state: The state after the last token.
        weights: (N, T, S) of attention, if any.
        choice: The draws of sampled attention, while training.
    """

    hidden: Tensor
    state: Tensors
    weights: Tensor | None = None
    choice: Choice | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DecoderSizes:
    """The parts of a decoder.

    Attributes:
        kind: Of its layers.
        embedding_size: E.
        hidden_size: M.
        num_layers: L.
        dropout: Between layers, while training.
        scorer: How attention compares, if any.
        selection: Which source tokens it takes.
        window: Tokens on each side that local attention sees.
        memory_size: F.
        last_size: Numbers in each of the encoder's last states.
    """

    kind: Kind
    embedding_size: int
    hidden_size: int
    num_layers: int
    dropout: float
    scorer: ScorerName
    selection: Selection
    window: int
    memory_size: int
    last_size: int


class RecurrentDecoder(nn.Module, ABC):
    """The base of every decoder.

    Attributes:
        readout_size: R.
    """

    readout_size: int

    @abstractmethod
    def read(self, memory: Memory) -> tuple[Tensors, Tensors]:
        """Returns the source tensors that every step reads, and the state before the first step."""

    @abstractmethod
    def forward(self, words: Tensor, source: Tensors, state: Tensors) -> Decoded:
        """Reads T words (N, T, E) from a state on.

        Args:
            words: Embedded.
            source: Of :meth:`read`, a row for each of the words'.
            state: Of :meth:`read`, or after the words before.
        """


class FirstStateDecoder(RecurrentDecoder):
    """Sutskever et al. 2014: s_t = f(s_{t-1}, E y_{t-1}), p = softmax(W s_t); it sees of the source only s_0."""

    def __init__(self, sizes: DecoderSizes) -> None:
        super().__init__()
        self.layers = _layers(sizes, sizes.embedding_size)
        self.bridge = Bridge(sizes.last_size, self.layers.state_size, num_layers=sizes.num_layers)
        self.readout_size = sizes.hidden_size

    @override
    def read(self, memory: Memory) -> tuple[Tensors, Tensors]:
        return (), (self.bridge(memory.last),)

    @override
    def forward(self, words: Tensor, source: Tensors, state: Tensors) -> Decoded:
        hidden, last = self.layers(words, state=state[0].transpose(0, 1))
        return Decoded(hidden, (last.transpose(0, 1),))


class EveryStepDecoder(RecurrentDecoder):
    """Cho et al. 2014: c = tanh(V h_S), s_0 = tanh(V' c), s_t = f(s_{t-1}, [E y_{t-1}; c]), deep output by maxout."""

    def __init__(self, sizes: DecoderSizes) -> None:
        super().__init__()
        size = sizes.hidden_size
        self.summary = Linear(sizes.last_size, size)
        self.layers = _layers(sizes, sizes.embedding_size + size)
        self.bridge = Bridge(size, self.layers.state_size, num_layers=sizes.num_layers)
        self.readout_size = size // 2
        self.readout = Maxout(2 * size + sizes.embedding_size, self.readout_size)

    @override
    def read(self, memory: Memory) -> tuple[Tensors, Tensors]:
        summary = torch.tanh(self.summary(memory.last[-1]))
        return (summary,), (self.bridge(summary.expand(len(memory.last), -1, -1)),)

    @override
    def forward(self, words: Tensor, source: Tensors, state: Tensors) -> Decoded:
        summary = source[0][:, None].expand(-1, words.shape[1], -1)  # (N, T, M)
        hidden, last = self.layers(torch.cat((words, summary), -1), state=state[0].transpose(0, 1))
        return Decoded(self.readout(hidden, words, summary), (last.transpose(0, 1),))


class BahdanauDecoder(RecurrentDecoder):
    """Bahdanau et al. 2015: α_t = softmax(a(s_{t-1}, h)), c_t = Σ_j α_tj h_j, s_t = f(s_{t-1}, [E y_{t-1}; c_t])."""

    def __init__(self, sizes: DecoderSizes) -> None:
        super().__init__()
        self.attention = _attention(sizes)
        self.cell = Cell(sizes.kind, sizes.hidden_size)
        self.words = Linear(sizes.embedding_size, self.cell.gates_size)
        self.context = Linear(sizes.memory_size, self.cell.gates_size, bias=False)
        self.upper = _layers(sizes, sizes.hidden_size, below=1) if sizes.num_layers > 1 else None
        self.bridge = Bridge(sizes.last_size, self.cell.state_size, num_layers=sizes.num_layers)
        self.dropout = Dropout(sizes.dropout)
        self.readout_size = sizes.hidden_size // 2
        self.readout = Maxout(sizes.hidden_size + sizes.embedding_size + sizes.memory_size, self.readout_size)

    @override
    def read(self, memory: Memory) -> tuple[Tensors, Tensors]:
        outputs, mask, last = memory
        source = (self.attention.prepare(outputs), self.context(outputs), mask, outputs)
        return source, (self.bridge(last), _no_steps(mask))

    @override
    def forward(self, words: Tensor, source: Tensors, state: Tensors) -> Decoded:
        keys, mixed, mask, outputs = source
        size = self.cell.hidden_size
        s, upper, steps = state[0][:, 0], state[0][:, 1:], state[1]
        states, attended = [], []
        for gates in self.words(words).unbind(1):  # (N, gates)
            attended.append(self.attention(s[:, :size], keys, mixed, mask, steps))
            s = self.cell(gates + attended[-1].context[:, 0], s)
            states.append(s[:, :size])
            steps = steps + 1
        hidden, (alpha, choice) = torch.stack(states, 1), side_by_side(attended)  # (N, T, M), (N, T, S)
        self.attention.show(alpha)
        last = s[:, None]
        if self.upper is not None:
            hidden, above = self.upper(self.dropout(hidden), state=upper.transpose(0, 1))
            last = torch.cat((last, above.transpose(0, 1)), 1)
        return Decoded(self.readout(hidden, words, alpha @ outputs), (last, steps), alpha, choice)


class LuongDecoder(RecurrentDecoder):
    """Luong et al. 2015: s_t = f(s_{t-1}, [E y; h̃_{t-1}]), α_t = softmax(a(s_t, h)), h̃_t = tanh(W_c [c_t; s_t])."""

    def __init__(self, sizes: DecoderSizes) -> None:
        super().__init__()
        self.attention = _attention(sizes)
        size = self.readout_size = sizes.hidden_size
        cells = [Cell(sizes.kind, size) for _ in range(sizes.num_layers)]
        self.cells, gates_size = nn.ModuleList(cells), cells[0].gates_size
        self.words = Linear(sizes.embedding_size, gates_size)
        self.feed = Linear(size, gates_size, bias=False)
        self.between = nn.ModuleList(Linear(size, gates_size) for _ in range(sizes.num_layers - 1))
        self.bridge = Bridge(sizes.last_size, cells[0].state_size, num_layers=sizes.num_layers)
        self.dropout = Dropout(sizes.dropout)
        self.context = Linear(sizes.memory_size, size, bias=False)  # W_c = [context, top]
        self.top = Linear(size, size, bias=False)

    @override
    def read(self, memory: Memory) -> tuple[Tensors, Tensors]:
        first = self.bridge(memory.last)
        source = (self.attention.prepare(memory.outputs), self.context(memory.outputs), memory.mask)
        return source, (first, first.new_zeros(len(first), self.readout_size), _no_steps(memory.mask))  # h̃_0 = 0

    @override
    def forward(self, words: Tensor, source: Tensors, state: Tensors) -> Decoded:
        keys, mixed, mask = source
        size = self.readout_size
        states, fed, steps = list(state[0].unbind(1)), state[1], state[2]
        outputs, attended = [], []
        for gates in self.words(words).unbind(1):  # (N, gates)
            entering = gates + self.feed(fed)
            for layer, cell in enumerate(self.cells):
                if layer:
                    entering = self.between[layer - 1](self.dropout(states[layer - 1][:, :size]))
                states[layer] = cell(entering, states[layer])
            query = states[-1][:, :size]
            attended.append(self.attention(query, keys, mixed, mask, steps))
            fed = torch.tanh(attended[-1].context[:, 0] + self.top(query))
            outputs.append(fed)
            steps = steps + 1
        alpha, choice = side_by_side(attended)
        self.attention.show(alpha)
        return Decoded(torch.stack(outputs, 1), (torch.stack(states, 1), fed, steps), alpha, choice)


def _attention(sizes: DecoderSizes) -> StepwiseAttention:
    return make_stepwise_attention(
        sizes.selection,
        sizes.scorer,
        query_size=sizes.hidden_size,
        memory_size=sizes.memory_size,
        window=sizes.window,
    )


def _no_steps(mask: Tensor) -> Tensor:
    """Of each sentence (B,), the steps before the first."""
    return mask.new_zeros(len(mask), dtype=torch.int64)


def _layers(sizes: DecoderSizes, input_size: int, *, below: int = 0) -> Recurrent:
    """The layers of a decoder, without the lowest ``below``."""
    return Recurrent(
        sizes.kind,
        input_size=input_size,
        hidden_size=sizes.hidden_size,
        num_layers=sizes.num_layers - below,
        dropout=sizes.dropout,
    )
