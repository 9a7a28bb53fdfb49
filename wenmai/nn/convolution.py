"""Convolutions over text: each layer sees a window of the layer below, all positions at once.

Paper: Gehring, Auli, Grangier, Yarats, Dauphin 2017, "Convolutional Sequence to Sequence Learning", arXiv:1705.03122,
sec. 3.2; gated linear units: Dauphin et al. 2017, arXiv:1612.08083, eq. 1.

Differs from the paper: no weight normalisation, and so no scaling of gradients by the number of attention layers; the
caller adds positions to the inputs.
"""

import math

import torch.nn.functional as F
from torch import Tensor, nn

from wenmai.nn.dropout import Dropout
from wenmai.nn.linear import Linear

__all__ = ["ConvolutionEncoder", "LocalConvolution"]

_HALF = math.sqrt(0.5)  # keeps the variance of a sum of two (Gehring et al. 2017, sec. 3.5)


class ConvolutionEncoder(nn.Module):
    """A stack of gated convolutions with residual connections over padded sequences.

    Each layer is x' = (x + GLU(W * x))·√0.5, with GLU([a; b]) = a∘σ(b) and W a kernel around each place. Padding is
    set to zero before every layer, so neither its content nor its amount matters.

    Args:
        input_size: Width of the inputs.
        hidden_size: Width of the outputs.
        num_layers: Layers.
        kernel_size: Tokens that a window spans; if even, one more to the right than to the left.
        dropout: Probability of dropping a layer's input.
    """

    def __init__(
        self, *, input_size: int, hidden_size: int, num_layers: int, kernel_size: int = 3, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.output_size = hidden_size
        self.dropout = Dropout(dropout)
        self.enter = Linear(input_size, hidden_size)
        self.window = ((kernel_size - 1) // 2, kernel_size // 2)
        layers = [nn.Conv1d(hidden_size, 2 * hidden_size, kernel_size) for _ in range(num_layers)]
        for layer in layers:
            # A gated unit lets through a quarter of the variance, hence the 4 (Gehring et al. 2017, appendix A).
            nn.init.normal_(layer.weight, std=math.sqrt(4 * (1 - dropout) / (kernel_size * hidden_size)))
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        self.layers = nn.ModuleList(layers)

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        """Encodes sequences.

        Args:
            inputs: (B, T, input_size), positions included.
            mask: (B, T) bool, True for real tokens.

        Returns:
            (B, T, hidden_size), zero at padding.
        """
        padding = ~mask[:, None, :]  # (B, 1, T)
        hidden: Tensor = (
            self.enter(inputs).transpose(1, 2).masked_fill(padding, 0.0)
        )  # (B, M, T), as convolutions read it
        for layer in self.layers:
            update = F.glu(layer(F.pad(self.dropout(hidden), self.window)), dim=1)
            hidden = ((hidden + update) * _HALF).masked_fill(padding, 0.0)
        return hidden.transpose(1, 2)


class LocalConvolution(nn.Conv1d):
    """One convolution that keeps width and length: y_t = b + Σ_i W_i x_{t+i} over the places around t.

    Args:
        size: M.
        width: Places that are read, an odd number: t in the middle.
    """

    def __init__(self, size: int, width: int) -> None:
        super().__init__(size, size, width, padding=width // 2)

    def forward(self, inputs: Tensor, real: Tensor | None = None) -> Tensor:
        """Returns (B, T, M) of inputs (B, T, M); ``real`` (B, T) is False at padding, which is read as zero."""
        read = inputs if real is None else inputs * real[..., None]
        outputs: Tensor = super().forward(read.mT).mT
        return outputs
