"""LSTM layers whose state is projected and clipped (Sak, Senior, Beaufays 2014, arXiv:1402.1128), as in ELMo.

i, j, f, o = x W + h U + b; c' = σ(f + 1)∘c + σ(i)∘tanh(j); h' = (σ(o)∘tanh(c')) P; c' and h' are clipped. No peepholes.
The forget gate is open by the constant 1, which is in no parameter. The state of every layer is one tensor: h, then c.
"""

from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from wenmai.nn.dropout import Dropout
from wenmai.nn.linear import linear

__all__ = ["ProjectedLstm", "ProjectedStack"]

_FORGET = 1.0
_PARTS = 6  # of a step, which its gradient needs


class ProjectedLstm(nn.Module):
    """One layer.

    Args:
        input_size: Width of the input.
        cell_size: Width of the memory cell.
        output_size: Width of the hidden state.
        cell_clip: Largest number of the memory cell; none: any.
        output_clip: Largest number of the hidden state; none: any.

    Attributes:
        state_size: Width of the state.
    """

    def __init__(
        self,
        input_size: int,
        cell_size: int,
        output_size: int,
        *,
        cell_clip: float | None = None,
        output_clip: float | None = None,
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.state_size = output_size + cell_size
        self.cell_clip, self.output_clip = cell_clip, output_clip
        self.input_weight = nn.Parameter(torch.empty(4 * cell_size, input_size))
        self.recurrent_weight = nn.Parameter(torch.empty(4 * cell_size, output_size))
        self.bias = nn.Parameter(torch.zeros(4 * cell_size))
        self.projection = nn.Parameter(torch.empty(output_size, cell_size))
        together = (6.0 / (input_size + output_size + 4 * cell_size)) ** 0.5  # Glorot's, of W and U as one matrix
        nn.init.uniform_(self.input_weight, -together, together)
        nn.init.uniform_(self.recurrent_weight, -together, together)
        nn.init.xavier_uniform_(self.projection)

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Reads sequences.

        Args:
            inputs: (B, T, input_size).
            state: (B, state_size).

        Returns:
            Hidden states (B, T, output_size), and the state after the last step.
        """
        hidden, cell = state[:, : self.output_size], state[:, self.output_size :]
        gates = linear(inputs, self.input_weight, self.bias)
        clips = self.cell_clip, self.output_clip
        on_cpu = gates.device.type == "cpu" and not torch.is_autocast_enabled("cpu")
        if on_cpu and torch.is_grad_enabled() and not torch.compiler.is_compiling():
            found = _Segment.apply(gates, hidden, cell, self.recurrent_weight, self.projection, *clips)  # type: ignore[no-untyped-call]
            outputs, last = found
            return outputs, torch.cat((outputs[:, -1], last), -1)
        outputs = []
        for known in gates.unbind(1):
            hidden, cell, _ = _step(known, hidden, cell, self.recurrent_weight, self.projection, *clips)
            outputs.append(hidden)
        return torch.stack(outputs, 1), torch.cat((hidden, cell), -1)


class ProjectedStack(nn.Module):
    """Layers on top of each other. From the second on their input is added to the output, not to the state.

    Args:
        size: Width of input and output of every layer.
        cell_size: Width of the memory cells.
        num_layers: Layers.
        residual: Whether inputs are added.
        dropout: Of the input of every layer; what is added is the input after dropout.
        cell_clip: See :class:`ProjectedLstm`.
        output_clip: Likewise.
    """

    def __init__(
        self,
        size: int,
        cell_size: int,
        *,
        num_layers: int,
        residual: bool,
        dropout: float,
        cell_clip: float | None,
        output_clip: float | None,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            ProjectedLstm(size, cell_size, size, cell_clip=cell_clip, output_clip=output_clip)
            for _ in range(num_layers)
        )
        self.state_size = size + cell_size
        self.residual = residual
        self.dropout = Dropout(dropout)

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[list[Tensor], Tensor]:
        """Reads sequences.

        Args:
            inputs: (B, T, size).
            state: (L, B, state_size).

        Returns:
            The outputs (B, T, size) of each layer, and the state after the last step.
        """
        outputs, states, hidden = list[Tensor](), list[Tensor](), inputs
        for number, layer in enumerate(self.layers):
            fed = self.dropout(hidden)
            hidden, last = layer(fed, state[number])
            if self.residual and number:
                hidden = hidden + fed
            outputs.append(hidden)
            states.append(last)
        return outputs, torch.stack(states)


def _clipped(tensor: Tensor, most: float | None) -> Tensor:
    return tensor if most is None else tensor.clamp(-most, most)


def _step(
    known: Tensor,
    hidden: Tensor,
    cell: Tensor,
    recurrent: Tensor,
    projection: Tensor,
    cell_clip: float | None,
    output_clip: float | None,
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Returns the next hidden state and memory cell, and what their gradients need."""
    i, j, f, o = (known + linear(hidden, recurrent)).chunk(4, -1)
    i, j, f, o = torch.sigmoid(i), torch.tanh(j), torch.sigmoid(f + _FORGET), torch.sigmoid(o)
    after = _clipped(f * cell + i * j, cell_clip)
    squashed = torch.tanh(after)
    inner = o * squashed
    return _clipped(linear(inner, projection), output_clip), after, (i, j, f, o, squashed, inner)


class _Segment(torch.autograd.Function):
    """All steps of a segment.

    By torch's own rules the gradient of a matrix is a sum of T products of a few rows each; here it is one product.
    """

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401  torch's context
        gates: Tensor,
        hidden: Tensor,
        cell: Tensor,
        recurrent: Tensor,
        projection: Tensor,
        cell_clip: float | None,
        output_clip: float | None,
    ) -> tuple[Tensor, Tensor]:
        hiddens, cells, kept = [hidden], [cell], list[tuple[Tensor, ...]]()
        for known in gates.unbind(1):
            hidden, cell, parts = _step(known, hidden, cell, recurrent, projection, cell_clip, output_clip)
            hiddens.append(hidden)
            cells.append(cell)
            kept.append(parts)
        ctx.save_for_backward(recurrent, projection, *hiddens, *cells, *chain.from_iterable(kept))
        ctx.clips = cell_clip, output_clip
        return torch.stack(hiddens[1:], 1), cell.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        (recurrent, projection, *saved), (cell_clip, output_clip) = ctx.saved_tensors, ctx.clips
        states = (len(saved) - 2) // (2 + _PARTS) + 1  # one more than there are steps
        hiddens, cells, parts_of_steps = saved[:states], saved[states : 2 * states], saved[2 * states :]
        kept = [parts_of_steps[place : place + _PARTS] for place in range(0, len(parts_of_steps), _PARTS)]
        to_outputs, to_cell = outer
        to_hidden = torch.zeros_like(hiddens[0])
        all_gates, all_projected = list[Tensor](), list[Tensor]()
        for step in range(len(kept) - 1, -1, -1):
            i, j, f, o, squashed, _ = kept[step]
            to_projected = _unclipped(to_hidden + to_outputs[:, step], hiddens[step + 1], output_clip)
            to_inner = linear(to_projected, projection.T)
            to_cell = to_cell + to_inner * o * (1 - squashed * squashed)
            to_cell = _unclipped(to_cell, cells[step + 1], cell_clip)
            to_gates = torch.cat(
                (
                    to_cell * j * i * (1 - i),
                    to_cell * i * (1 - j * j),
                    to_cell * cells[step] * f * (1 - f),
                    to_inner * squashed * o * (1 - o),
                ),
                -1,
            )
            to_cell = to_cell * f
            to_hidden = linear(to_gates, recurrent.T)
            all_gates.append(to_gates)
            all_projected.append(to_projected)
        gates, projected = torch.stack(all_gates[::-1], 1), torch.stack(all_projected[::-1], 1)
        before, inner = torch.stack(hiddens[:-1], 1), torch.stack([parts[-1] for parts in kept], 1)
        return (
            gates,
            to_hidden,
            to_cell,
            linear(gates.flatten(0, 1).T, before.flatten(0, 1).T),
            linear(projected.flatten(0, 1).T, inner.flatten(0, 1).T),
            None,
            None,
        )


def _unclipped(gradient: Tensor, clipped: Tensor, most: float | None) -> Tensor:
    """Returns the gradient before clipping: none where a number was cut, as torch has it."""
    return gradient if most is None else gradient.masked_fill(clipped.abs() >= most, 0.0)
