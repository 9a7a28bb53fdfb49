"""Linear maps, x Wᵀ + b, by the faster of PyTorch's two CPU libraries.

PyTorch multiplies float32 matrices with MKL, which leaves the widest vectors (AVX-512) of AMD processors unused;
oneDNN, which PyTorch ships as well and uses for its compiled models, is two to four times as fast there. The results
differ by rounding alone. Anything else (processors without AVX-512, small products, other types and devices, autocast,
a PyTorch without oneDNN) takes PyTorch's default.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

__all__ = ["Linear", "linear"]

_SMALL = 1 << 20  # multiplications; below, oneDNN's call costs more than its kernel saves
_WIDE = "AVX512" in torch.backends.cpu.get_cpu_capability()
_ONEDNN = getattr(torch.ops.mkldnn, "_linear_pointwise", None) if _WIDE else None


def linear(hidden: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Returns x Wᵀ + b.

    Args:
        hidden: (..., in).
        weight: (out, in).
        bias: (out,).

    Returns:
        (..., out).
    """
    if (
        _ONEDNN is None
        or hidden.numel() * weight.shape[0] < _SMALL
        or hidden.dtype is not torch.float32
        or weight.dtype is not torch.float32
        or hidden.device.type != "cpu"
        or torch.is_autocast_enabled("cpu")
        or torch.compiler.is_compiling()
    ):
        return F.linear(hidden, weight, bias)
    if torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad):
        output: Tensor = _Product.apply(hidden, weight, bias)  # type: ignore[no-untyped-call]
        return output
    return _product(hidden, weight, bias)


class Linear(nn.Linear):
    """``torch.nn.Linear``, computed by :func:`linear`."""

    def forward(self, hidden: Tensor) -> Tensor:
        """Returns (..., out) of (..., in)."""
        return linear(hidden, self.weight, self.bias)

    def rows(self, hidden: Tensor, rows: slice) -> Tensor:
        """Returns the outputs of some rows of the weight, (..., rows), of (..., in)."""
        if self.bias is None:
            return linear(hidden, self.weight[rows])
        return linear(hidden, self.weight[rows], self.bias[rows])


def _product(hidden: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    assert _ONEDNN is not None
    product: Tensor = _ONEDNN(hidden, weight, bias, "none", [], "")
    return product


class _Product(torch.autograd.Function):
    """The product and its gradients: dx = dy W, dW = dyᵀ x, db = Σ dy."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # noqa: ANN401
        ctx.save_for_backward(hidden, weight)
        return _product(hidden, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:  # noqa: ANN401
        hidden, weight = ctx.saved_tensors
        rows = gradient.reshape(-1, weight.shape[0])
        for_hidden, for_weight, for_bias = ctx.needs_input_grad
        return (
            _product(rows, weight.t()).view(hidden.shape) if for_hidden else None,
            _product(rows.t(), hidden.reshape(-1, weight.shape[1]).t()) if for_weight else None,
            rows.sum(0) if for_bias else None,
        )
