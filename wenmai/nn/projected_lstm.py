"""LSTM layers whose state is projected and clipped (Sak, Senior, Beaufays 2014, arXiv:1402.1128), as in ELMo.

i, j, f, o = x W + h U + b; c' = σ(f + 1)∘c + σ(i)∘tanh(j); h' = (σ(o)∘tanh(c')) P; c' and h' are clipped. No peepholes.
The forget gate is open by the constant 1, which is in no parameter. The state of every layer is one tensor: h, then c.
"""

import torch
from torch import Tensor, nn

from wenmai.nn.dropout import Dropout
from wenmai.nn.linear import linear

__all__ = ["ProjectedLstm", "ProjectedStack"]

_FORGET = 1.0


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
        hidden, cell = state.split((self.output_size, self.state_size - self.output_size), -1)
        outputs = []
        for known in linear(inputs, self.input_weight, self.bias).unbind(1):
            i, j, f, o = (known + linear(hidden, self.recurrent_weight)).chunk(4, -1)
            cell = torch.sigmoid(f + _FORGET) * cell + torch.sigmoid(i) * torch.tanh(j)
            cell = _clipped(cell, self.cell_clip)
            hidden = _clipped(linear(torch.sigmoid(o) * torch.tanh(cell), self.projection), self.output_clip)
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
