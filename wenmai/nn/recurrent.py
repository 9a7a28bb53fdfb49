"""Recurrent layers: whole sequences by torch's kernels, and single cells for steps.

The state of every kind is one tensor whose last axis holds the hidden state; the LSTM's memory cell follows it
(``state_size`` is the hidden size, twice that for the LSTM). So all states are selected, bridged and saved alike.

| kind | one step, of the input x and the state h                             | source                            |
|------|-----------------------------------------------------------------------|-----------------------------------|
| rnn  | h' = tanh(W x + U h)                                                  | Elman 1990                        |
| lstm | c' = σ(f)∘c + σ(i)∘tanh(g), h' = σ(o)∘tanh(c'); i, f, g, o = W x + U h| Hochreiter, Schmidhuber 1997;     |
|      |                                                                       | forget gate: Gers et al. 2000     |
| gru  | h' = (1 - z)∘tanh(W x + r∘(U h)) + z∘h; r, z = σ(W x + U h)           | Cho et al. 2014, eq. 5 to 8       |

Differs from Cho et al.: the GRU's reset gate acts after U, as in cuDNN, so that one matrix product serves all gates.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from wenmai.nn.dropout import dropout
from wenmai.nn.linear import Linear, linear
from wenmai.nn.names import Kind

__all__ = [
    "Bridge",
    "Cell",
    "Maxout",
    "Recurrent",
    "RecurrentOutput",
    "reverse",
]


class RecurrentOutput(NamedTuple):
    """The result of a recurrent network.

    Attributes:
        outputs: (B, T, M), hidden states of the last layer, M = directions·hidden_size; zero at padding.
        state: (L, B, directions·state_size), state of each layer after the last token of each direction: hidden
            states forward and backward, then the LSTM's memory cells in the same order.
    """

    outputs: Tensor
    state: Tensor


class Recurrent(nn.Module):
    """A stack of recurrent layers over whole sequences, in one or both directions (Schuster, Paliwal 1997).

    Args:
        kind: ``rnn`` (tanh), ``lstm`` or ``gru``.
        input_size: Width of the inputs.
        hidden_size: Width of the hidden state of one direction.
        num_layers: Layers.
        bidirectional: Whether a second network reads from the end; padding never reaches it.
        dropout: Probability of dropping an output between layers (Zaremba et al. 2014).
    """

    def __init__(
        self,
        kind: Kind,
        *,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        layers: dict[Kind, type[nn.RNN | nn.LSTM | nn.GRU]] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
        self.layers = layers[kind](
            input_size,
            hidden_size,
            num_layers,
            batch_first=True,
            bidirectional=bidirectional,
            dropout=dropout if num_layers > 1 else 0.0,
        )
        directions = 2 if bidirectional else 1
        self.kind = kind
        self.output_size = directions * hidden_size
        self.cell_size = (2 if kind == "lstm" else 1) * hidden_size
        self.state_size = directions * self.cell_size
        self._advance = _ADVANCE[kind]
        for name, parameter in self.layers.named_parameters():
            if name.startswith("weight_hh"):
                _orthogonal_blocks(parameter)
            elif name.startswith("bias"):
                nn.init.zeros_(parameter)
                if kind == "lstm" and name.startswith("bias_ih"):
                    _open_forget_gate(parameter)

    def forward(self, inputs: Tensor, mask: Tensor | None = None, *, state: Tensor | None = None) -> RecurrentOutput:
        """Reads sequences.

        Args:
            inputs: (B, T, input_size).
            mask: (B, T) bool, True for real tokens, all before the padding; none: no padding. A sequence without
                any real token is read as if it had one.
            state: (L, B, state_size) to begin with, of a network of one direction; none: zeros.

        Returns:
            Outputs and the last state. Without ``mask`` the state is that after the T-th step.

        Raises:
            ValueError: if padding comes before real tokens, or a state is given to a bidirectional network.
        """
        if state is not None and self.layers.bidirectional:
            raise ValueError("a bidirectional network begins with zeros, because its directions begin at both ends")
        lengths = None if mask is None else _lengths(mask)
        if lengths is not None and int(lengths.min()) == inputs.shape[1]:
            lengths = None
        # PyTorch's own kernels are best on other devices, and where they use oneDNN: LSTMs without padding. In bfloat16
        # oneDNN knows them on some processors only.
        dense_lstm = self.kind == "lstm" and lengths is None and not torch.is_autocast_enabled("cpu")
        if inputs.device.type == "cpu" and inputs.dtype is torch.float32 and not dense_lstm:
            return self._stepped(inputs, lengths, state)
        begin = None if state is None else self._unpacked(state)
        if lengths is None:
            outputs, last = self.layers(inputs, begin)
        else:
            packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
            ragged, last = self.layers(packed, begin)
            assert isinstance(ragged, PackedSequence)
            outputs, _ = pad_packed_sequence(ragged, batch_first=True, total_length=inputs.shape[1])
        return RecurrentOutput(outputs, self._packed(last))

    def _stepped(self, inputs: Tensor, lengths: Tensor | None, state: Tensor | None) -> RecurrentOutput:
        """The same by :func:`linear`, and without packing: the backward direction reads each sentence reversed."""
        layers, size = self.layers, self.layers.hidden_size
        rows = torch.arange(len(inputs))
        ends = torch.full_like(rows, inputs.shape[1]) if lengths is None else lengths
        mask = torch.arange(inputs.shape[1]) < ends[:, None]  # (B, T)
        hidden, last = inputs, []
        for layer in range(layers.num_layers):
            if layer:
                hidden = dropout(hidden, layers.dropout) if self.training else hidden
            sides, finals = [], []
            for suffix in ("", "_reverse") if layers.bidirectional else ("",):
                first = hidden.new_zeros(len(rows), self.cell_size) if state is None else state[layer]
                steps = self._steps(reverse(hidden, mask) if suffix else hidden, first, f"_l{layer}{suffix}")
                finals.append(steps[rows, ends - 1])
                steps = steps[..., :size]
                sides.append(reverse(steps, mask) if suffix else steps)
            hidden = torch.cat(sides, -1)
            if lengths is not None:
                hidden = hidden.masked_fill(~mask[..., None], 0.0)
            ordered = torch.stack(finals, 1).view(len(rows), len(finals), -1, size)  # (B, directions, h or c, H)
            last.append(ordered.transpose(1, 2).flatten(1))
        return RecurrentOutput(hidden, torch.stack(last))

    def by_layer(self, inputs: Tensor) -> list[Tensor]:
        """Returns the hidden states (B, T, M) of each layer of a network of one direction, from zeros; to be read only.

        Args:
            inputs: (B, T, input_size).
        """
        found = []
        for layer in range(self.layers.num_layers):
            steps = self._steps(inputs, inputs.new_zeros(len(inputs), self.cell_size), f"_l{layer}")
            inputs = steps[..., : self.layers.hidden_size]
            found.append(inputs)
        return found

    def _steps(self, inputs: Tensor, state: Tensor, name: str) -> Tensor:
        """Returns the states (B, T, cell_size) of one layer in one direction."""
        w, u, b, c = (getattr(self.layers, kind + name) for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        states = []
        for gates in linear(inputs, w, b).unbind(1):
            state = self._advance(gates, linear(state[:, : self.layers.hidden_size], u, c), state)
            states.append(state)
        return torch.stack(states, 1)

    def _unpacked(self, state: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        if not isinstance(self.layers, nn.LSTM):
            return state.contiguous()
        hidden, memory = state.chunk(2, -1)
        return hidden.contiguous(), memory.contiguous()

    def _packed(self, last: Tensor | tuple[Tensor, Tensor]) -> Tensor:
        """Concatenates one or two (L·directions, B, H) to (L, B, state_size)."""
        parts = last if isinstance(last, tuple) else (last,)
        directions = 2 if self.layers.bidirectional else 1
        return torch.cat([part[start::directions] for part in parts for start in range(directions)], -1)


class Cell(nn.Module):
    """One step of a recurrent network: the part that depends on the state.

    The caller computes W x + b for all gates beforehand, for as many steps as have known inputs.

    Args:
        kind: ``rnn``, ``lstm`` or ``gru``.
        hidden_size: Width of the hidden state.

    Attributes:
        gates_size: Width of W x: ``hidden_size`` for each gate.
        state_size: Width of the state.
    """

    def __init__(self, kind: Kind, hidden_size: int) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.gates_size = _GATES[kind] * hidden_size
        self.state_size = (2 if kind == "lstm" else 1) * hidden_size
        self.recurrent = Linear(hidden_size, self.gates_size)
        self._advance = _ADVANCE[kind]
        _orthogonal_blocks(self.recurrent.weight)
        nn.init.zeros_(self.recurrent.bias)
        if kind == "lstm":
            _open_forget_gate(self.recurrent.bias)

    def forward(self, gates: Tensor, state: Tensor) -> Tensor:
        """Takes one step.

        Args:
            gates: (B, gates_size), W x + b.
            state: (B, state_size).

        Returns:
            (B, state_size), the next state; its first ``hidden_size`` columns are the hidden state.
        """
        return self._advance(gates, self.recurrent(state[:, : self.hidden_size]), state)


def _rnn(gates: Tensor, recurrent: Tensor, state: Tensor) -> Tensor:
    return torch.tanh(gates + recurrent)


def _lstm(gates: Tensor, recurrent: Tensor, state: Tensor) -> Tensor:
    enter, forget, new, out = (gates + recurrent).chunk(4, 1)
    memory = torch.sigmoid(forget) * state.chunk(2, 1)[1] + torch.sigmoid(enter) * torch.tanh(new)
    return torch.cat((torch.sigmoid(out) * torch.tanh(memory), memory), 1)


def _gru(gates: Tensor, recurrent: Tensor, state: Tensor) -> Tensor:
    size = state.shape[1]
    reset, keep = torch.sigmoid(gates[:, : 2 * size] + recurrent[:, : 2 * size]).chunk(2, 1)
    new = torch.tanh(torch.addcmul(gates[:, 2 * size :], reset, recurrent[:, 2 * size :]))
    return torch.lerp(new, state.to(new.dtype), keep)


_GATES: dict[Kind, int] = {"rnn": 1, "lstm": 4, "gru": 3}
_ADVANCE: dict[Kind, Callable[[Tensor, Tensor, Tensor], Tensor]] = {"rnn": _rnn, "lstm": _lstm, "gru": _gru}


class Bridge(nn.Module):
    """A decoder's first states from an encoder's last: s_0 = tanh(W x + b) (Bahdanau et al. 2015, A.2.2), a layer each.

    Args:
        input_size: Width of the encoder's last states.
        state_size: Width of the decoder's states.
        num_layers: Layers, L.
    """

    def __init__(self, input_size: int, state_size: int, *, num_layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Linear(input_size, state_size) for _ in range(num_layers))

    def forward(self, last: Tensor) -> Tensor:
        """Turns (L, B, input_size) into (B, L, state_size)."""
        return torch.tanh(torch.stack([layer(one) for layer, one in zip(self.layers, last, strict=True)], 1))


class Maxout(nn.Module):
    """The greater of two linear maps, max(W x + b, W' x + b') (Goodfellow et al. 2013, eq. 1).

    Args:
        input_size: Width of all inputs together.
        output_size: Width of the output.
    """

    def __init__(self, input_size: int, output_size: int) -> None:
        super().__init__()
        self.linear = Linear(input_size, 2 * output_size)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Returns (..., output_size) of concatenated inputs."""
        return torch.maximum(*self.linear(torch.cat(inputs, -1)).chunk(2, -1))


def reverse(sequence: Tensor, mask: Tensor) -> Tensor:
    """Reverses the real tokens of each sequence and leaves the padding in place.

    Args:
        sequence: (B, T) or (B, T, M).
        mask: (B, T) bool, True for real tokens, all before the padding.

    Returns:
        The same shape.
    """
    places = torch.arange(sequence.shape[1], device=sequence.device)
    places = torch.where(mask, mask.sum(1, keepdim=True) - 1 - places, places)  # (B, T)
    if sequence.ndim == 3:
        return sequence.gather(1, places[:, :, None].expand_as(sequence))
    return sequence.gather(1, places)


def _lengths(mask: Tensor) -> Tensor:
    lengths = mask.sum(1)
    if mask.shape[1] and bool((mask[:, 1:] & ~mask[:, :-1]).any()):
        raise ValueError("padding must follow the real tokens of a sequence: right-pad the batch")
    return lengths.clamp(min=1).cpu()


@torch.no_grad()
def _orthogonal_blocks(weight: Tensor) -> None:
    """Makes the square recurrent matrix of each gate orthogonal (Bahdanau et al. 2015, appendix B.1)."""
    for block in weight.chunk(weight.shape[0] // weight.shape[1]):
        nn.init.orthogonal_(block)


@torch.no_grad()
def _open_forget_gate(bias: Tensor) -> None:
    """Begins with open forget gates: their bias is 1 (Jozefowicz et al. 2015)."""
    bias.chunk(4)[1].fill_(1.0)
