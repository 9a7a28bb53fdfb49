"""Linear maps, x Wᵀ + b, by the faster of PyTorch's two CPU libraries.

PyTorch multiplies float32 matrices with MKL, which leaves the widest vectors (AVX-512) of AMD processors unused;
oneDNN, which PyTorch ships as well and uses for its compiled models, is two to four times as fast there. The results
differ by rounding alone. Anything else (Intel's processors, those without AVX-512, small products, other types and
devices, autocast, a PyTorch without oneDNN) takes PyTorch's default.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

__all__ = ["Linear", "linear", "transposed_product"]

_SMALL = 1 << 20  # multiplications; below, oneDNN's call costs more than its kernel saves
_INTEL = hasattr(torch.cpu, "get_capabilities") and "Intel" in str(torch.cpu.get_capabilities().get("cpu_name"))
_WIDE = "AVX512" in torch.backends.cpu.get_cpu_capability() and not _INTEL
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
    if not _chosen(hidden, weight, hidden.numel() * weight.shape[0]):
        return F.linear(hidden, weight, bias)
    needing = hidden.requires_grad or weight.requires_grad or (bias is not None and bias.requires_grad)
    if torch.is_grad_enabled() and needing:
        output: Tensor = _Product.apply(hidden, weight, bias)  # type: ignore[no-untyped-call]
        return output
    return _product(hidden, weight, bias)


def transposed_product(left: Tensor, right: Tensor) -> Tensor:
    """Returns LᵀR, (l, r) of (N, l) and (N, r): the gradient of a weight, without a gradient of its own."""
    if not _chosen(left, right, left.numel() * right.shape[1]):
        return left.t() @ right
    if left.shape[1] <= right.shape[1]:
        return _product(left.t(), right.t())
    return _product(right.t(), left.t()).t().contiguous()  # oneDNN copies what it gets transposed: the narrower one


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


def _chosen(one: Tensor, other: Tensor, multiplications: int) -> bool:
    """Whether oneDNN shall multiply two tensors."""
    return (
        _ONEDNN is not None
        and multiplications >= _SMALL
        and one.dtype is torch.float32
        and other.dtype is torch.float32
        and one.device.type == "cpu"
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


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
            transposed_product(rows, hidden.reshape(-1, weight.shape[1])) if for_weight else None,
            rows.sum(0) if for_bias else None,
        )
