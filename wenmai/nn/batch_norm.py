"""Batch normalisation of padded sequences: padding counts for nothing.

Ioffe, Szegedy 2015, "Batch Normalization", https://arxiv.org/abs/1502.03167, algorithms 1 and 2. A layer for models of
one's own. The systems here do without: what it makes of a token depends on the tokens of the batch, so that a loss
would depend on how a batch is divided among accumulated parts and processes.
"""

import torch
from torch import Tensor, nn

__all__ = ["BatchNorm"]


class BatchNorm(nn.Module):
    """γ·(x - μ)/√(σ² + ε) + β for each feature, μ and σ² over the real tokens of the batch.

    While training, the biased variance normalises, and running means of μ and of the unbiased variance are kept; in
    evaluation they take the place of the batch's.

    Args:
        size: Features, M.
        epsilon: ε.
        momentum: Share of each batch in the running means.
    """

    running_mean: Tensor
    running_variance: Tensor

    def __init__(self, size: int, *, epsilon: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.epsilon, self.momentum = epsilon, momentum
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.register_buffer("running_mean", torch.zeros(size))
        self.register_buffer("running_variance", torch.ones(size))

    def forward(self, hidden: Tensor, valid: Tensor) -> Tensor:
        """Normalises.

        Args:
            hidden: (B, T, M).
            valid: (B, T) bool, True for real tokens.

        Returns:
            (B, T, M), zero at padding.

        Raises:
            ValueError: while training, if there are fewer than two real tokens, which have no variance.
        """
        present = valid[..., None]
        mean, variance = self.running_mean, self.running_variance
        if self.training:
            count = int(valid.sum())
            if count < 2:
                raise ValueError(f"a batch norm is trained on two tokens or more, found {count}")
            mean = hidden.masked_fill(~present, 0.0).sum((0, 1)) / count
            variance = (hidden - mean).masked_fill(~present, 0.0).square().sum((0, 1)) / count
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_variance.lerp_(variance * (count / (count - 1)), self.momentum)
        normed = (hidden - mean) * (variance + self.epsilon).rsqrt() * self.weight + self.bias
        return normed.masked_fill(~present, 0.0)
