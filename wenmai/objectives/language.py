"""Cross-entropy over a vocabulary: the loss of every model that predicts tokens.

The output layer and the loss are one operation. The logits would be by far the largest tensor of a step, so they exist
for a few rows at a time, stay in the cache, and become their own gradient in place; the usual way writes and reads them
about ten times from main memory.
"""

from typing import Any

import torch
from torch import Tensor

from wenmai.nn.linear import linear
from wenmai.nn.softmax import AdaptiveSoftmax, Softmax
from wenmai.objectives.loss import Loss

__all__ = ["cross_entropy", "most_probable", "next_token_loss"]

_CHUNK_NUMBERS = 1 << 21  # logits alive at once: 8 MB


def cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, *, label_smoothing: float = 0.0
) -> Loss:
    """Returns -Σ_n Σ_v q_n(v) log softmax(W h_n + b)_v with q = (1-ε)·[v = target] + ε/V.

    Args:
        hidden: (N, M) states of the positions that have a target; leave padding out.
        weight: (V, M) output weights.
        bias: (V,) or None.
        targets: (N,) int64.
        label_smoothing: ε of Szegedy et al. 2016, section 7; 0 to 1.

    Source: Szegedy et al., "Rethinking the Inception Architecture", https://arxiv.org/abs/1512.00567. Tensor2Tensor
    gives the true token no part of ε and subtracts a constant; the gradients agree up to a factor V/(V-1).
    """
    total, nll = _LinearCrossEntropy.apply(hidden, weight, bias, targets, label_smoothing)  # type: ignore[no-untyped-call]
    return Loss(total, nll, targets.shape[0])


def next_token_loss(output: Softmax | AdaptiveSoftmax, hidden: Tensor, targets: Tensor) -> Loss:
    """Returns -Σ_n log P(target_n | h_n): of a softmax one cross-entropy, of an adaptive one those of its clusters.

    Args:
        output: The output layer.
        hidden: (N, M) states of the positions that have a target.
        targets: (N,) int64.
    """
    losses = [cross_entropy(*part) for part in output.parts(hidden, targets)]
    first, *others = losses
    total, nll = first.total, first.nll
    for loss in others:
        total, nll = total + loss.total, nll + loss.nll
    return Loss(total, nll, targets.shape[0])


def most_probable(output: Softmax, hidden: Tensor, targets: Tensor) -> int:
    """Returns for how many states (N, M) the target, of (N,), is the most probable token; a few rows at a time."""
    chunk = max(1, _CHUNK_NUMBERS // output.vocab_size)
    right = 0
    for start in range(0, len(targets), chunk):
        logits: Tensor = output(hidden[start : start + chunk])
        right += int((logits.argmax(1) == targets[start : start + chunk]).sum())
    return right


class _LinearCrossEntropy(torch.autograd.Function):
    """Computes the gradients together with the loss, chunk by chunk; ``backward`` only scales them."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401  torch's context
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
    ) -> tuple[Tensor, Tensor]:
        rows, size = hidden.shape[0], weight.shape[0]
        wanted = any(ctx.needs_input_grad[:3])
        compute = torch.get_autocast_dtype(hidden.device.type) if _autocast(hidden) else weight.dtype
        states, matrix = hidden.detach().to(compute), weight.detach().to(compute)
        total = torch.zeros((), dtype=torch.float64, device=hidden.device)
        nll = torch.zeros_like(total)
        grad_hidden = torch.empty_like(states) if wanted else None
        grad_weight = torch.zeros_like(matrix, dtype=weight.dtype) if wanted else None
        grad_bias = torch.zeros_like(bias) if wanted and bias is not None else None
        chunk = max(1, min(rows, _CHUNK_NUMBERS // size))
        for start in range(0, rows, chunk):
            part, expected = states[start : start + chunk], targets[start : start + chunk]
            logits = linear(part, matrix, None if bias is None else bias.to(compute))
            log_probs = torch.log_softmax(logits, dim=1, dtype=torch.promote_types(compute, torch.float32))
            chosen = log_probs.gather(1, expected[:, None])
            own = -chosen.sum(dtype=torch.float64)
            nll += own
            total += (
                own if not smoothing else (1 - smoothing) * own - smoothing / size * log_probs.sum(dtype=torch.float64)
            )
            if grad_hidden is None or grad_weight is None:
                continue
            probs = log_probs.exp_()  # becomes the gradient of the logits, but for the uniform part of the smoothing
            probs.scatter_add_(1, expected[:, None], torch.full_like(chosen, smoothing - 1))
            gradient = probs.to(compute)
            grad_hidden[start : start + chunk] = linear(gradient, matrix.T)
            grad_weight += linear(gradient.T, part.T)
            if grad_bias is not None:
                grad_bias += probs.sum(dim=0)
        if smoothing and grad_hidden is not None and grad_weight is not None:  # -ε/V for every token: of rank one
            grad_hidden -= smoothing / size * matrix.sum(dim=0)
            grad_weight -= (smoothing / size * states.sum(dim=0)).to(weight.dtype)
            if grad_bias is not None:
                grad_bias -= rows * smoothing / size
        ctx.gradients = grad_hidden, grad_weight, grad_bias
        ctx.mark_non_differentiable(nll)
        return total, nll

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        scale = float(outer[0])
        scaled = [
            None if gradient is None else gradient if scale == 1.0 else gradient * scale for gradient in ctx.gradients
        ]
        return (*scaled, None, None)


def _autocast(tensor: Tensor) -> bool:
    return bool(torch.is_autocast_enabled(tensor.device.type))
