"""The weighted sum of the layers of an encoder: γ Σ_j s_j h_j with s = softmax(w) (Peters et al. 2018, eq. 1)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

__all__ = ["ScalarMix"]

_EPSILON = 1e-12


class ScalarMix(nn.Module):
    """γ Σ_j s_j h_j; in the beginning the mean of the layers.

    Args:
        num_layers: J.
        layer_norm: Whether each layer is normalised before, by one mean and one variance of all numbers of all real
            tokens of the batch.
    """

    def __init__(self, num_layers: int, *, layer_norm: bool = False) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(num_layers))
        self.scale = nn.Parameter(torch.ones(()))
        self.layer_norm = layer_norm

    @property
    def shares(self) -> Tensor:
        """s, (J,)."""
        return self.weights.softmax(0)

    def forward(self, layers: Tensor | Sequence[Tensor], mask: Tensor | None = None) -> Tensor:
        """Mixes layers.

        Args:
            layers: (J, B, T, M), or J tensors (B, T, M) such as those of
                :meth:`wenmai.nn.encoder.TextEncoder.hidden_states`.
            mask: (B, T) bool, True for real tokens; none: all are. Only normalisation needs it.

        Returns:
            (B, T, M).
        """
        if not isinstance(layers, Tensor):
            layers = torch.stack([*layers])
        if self.layer_norm:
            layers = torch.stack([_normalised(layer, mask) for layer in layers])
        mixed: Tensor = self.scale * torch.einsum("j,jbtm->btm", self.shares.to(layers.dtype), layers)
        return mixed


def _normalised(layer: Tensor, mask: Tensor | None) -> Tensor:
    real = layer if mask is None else layer[mask]
    variance, mean = torch.var_mean(real, correction=0)
    return (layer - mean) * torch.rsqrt(variance + _EPSILON)
