"""Cross-entropy over a vocabulary: the loss of every model that predicts tokens.

The output layer and the loss are one operation. The logits would be by far the largest tensor of a step, so they exist
for some rows at a time, are made and used while they are in the cache, and become their own gradient in place; the
usual way writes and reads them about ten times from main memory.
"""

import math
from itertools import pairwise, starmap
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from wenmai.nn.linear import linear, transposed_product
from wenmai.nn.softmax import AdaptiveSoftmax, Softmax
from wenmai.objectives.loss import Loss

__all__ = ["cross_entropy", "most_probable", "next_token_loss"]

_CHUNK_NUMBERS = 1 << 21  # logits of predictions alive at once: 8 MB
_GROUP_NUMBERS = 1 << 24  # logits kept for the gradients at once: 64 MB
_GROUP_ROWS = 1 << 10
_BLOCK_NUMBERS = 1 << 21  # logits computed at once on a CPU: 8 MB, which stay in the cache
_ROWS = 128  # oneDNN, which multiplies in bfloat16, compiles code for each new size, for milliseconds


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
    total, nll = _LinearCrossEntropy.apply(hidden, weight, bias, targets, label_smoothing, torch.is_grad_enabled())  # type: ignore[no-untyped-call]
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
    """Computes the gradients together with the loss, block by block; ``backward`` only scales them.

    The rows of a group pass over blocks of the vocabulary twice: for the sums of the softmax, and then for the
    gradients, so that each block of the gradient of W is written once for all of them.
    """

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401  torch's context
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
        recorded: bool,
    ) -> tuple[Tensor, Tensor]:
        rows, size = hidden.shape[0], weight.shape[0]
        wanted = recorded and any(ctx.needs_input_grad[:3])
        compute = torch.get_autocast_dtype(hidden.device.type) if _autocast(hidden) else weight.dtype
        wide = torch.promote_types(compute, torch.float32)
        states, matrix = hidden.detach().to(compute), weight.detach().to(compute)
        shift = None if bias is None else bias.detach().to(compute)
        norms, of_targets = torch.zeros((2,), dtype=torch.float64, device=hidden.device).unbind()
        if hidden.is_cpu and compute is not wide:
            missing = -rows % _ROWS
            states, targets = F.pad(states, (0, 0, 0, missing)), F.pad(targets, (0, missing), value=-1)
        grad_hidden = torch.empty_like(states) if wanted else None
        grad_weight = torch.empty_like(matrix, dtype=weight.dtype) if wanted else None
        grad_bias = torch.empty_like(bias) if wanted and bias is not None else None
        padded, unit = states.shape[0], 1 if states.shape[0] == rows else _ROWS
        number = math.ceil(max(padded * size / _GROUP_NUMBERS, padded / _GROUP_ROWS))
        for group in _cut(padded, number, unit):
            part, expected = states[group], targets[group]
            blocks = _cut(size, math.ceil(len(part) * size / _BLOCK_NUMBERS) if hidden.is_cpu else 1)
            kept: list[Tensor] = []
            highest: list[Tensor] = []
            sums: list[Tensor] = []
            for block in blocks:
                logits = linear(part, matrix[block], None if shift is None else shift[block])
                column, inside = _column(expected, block)
                of_targets += logits.gather(1, column).masked_fill_(~inside, 0.0).sum(dtype=torch.float64)
                highest.append(logits.amax(1, keepdim=True).to(wide))
                exps = logits.to(wide).sub_(highest[-1]).exp_()
                sums.append(exps.sum(1, keepdim=True))
                if wanted:
                    kept.append(exps)
            norm = (torch.cat(highest, 1) + torch.cat(sums, 1).log_()).logsumexp(1, keepdim=True)
            norm[max(0, rows - group.start) :] = math.inf  # of padding, whose probabilities and gradients are then 0
            norms += norm[: max(0, rows - group.start)].sum(dtype=torch.float64)
            if grad_hidden is None or grad_weight is None:
                continue
            back = torch.zeros_like(part, dtype=wide)
            add = Tensor.add_ if group.start else Tensor.copy_
            for block in reversed(blocks):
                probs = kept.pop().mul_((highest.pop() - norm).exp_())
                column, inside = _column(expected, block)
                probs.scatter_add_(1, column, inside.to(wide).mul_(smoothing - 1))
                gradient = probs.to(compute)  # of the logits, but for the uniform part of the smoothing
                back += linear(gradient, matrix[block].T)
                add(grad_weight[block], transposed_product(gradient, part))
                if grad_bias is not None:
                    add(grad_bias[block], probs.sum(dim=0))
            grad_hidden[group] = back
        nll = norms - of_targets
        total = nll.clone()
        if smoothing:  # every token has ε/V of the target: of rank one
            state, row = states.sum(dim=0, dtype=wide), matrix.sum(dim=0, dtype=wide)
            of_all = state.double() @ row.double() + (0.0 if shift is None else rows * shift.double().sum())
            total += smoothing * (of_targets - of_all / size)
            if grad_hidden is not None and grad_weight is not None:
                grad_hidden -= smoothing / size * row
                grad_weight -= smoothing / size * state
                if grad_bias is not None:
                    grad_bias -= rows * smoothing / size
        grad_hidden = None if grad_hidden is None else grad_hidden[:rows]
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)  # which lets go of them: others are added in place
        ctx.mark_non_differentiable(nll)
        return total, nll

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        scale = float(outer[0])
        scaled = [
            None if gradient is None else gradient if scale == 1.0 else gradient * scale
            for gradient in ctx.saved_tensors
        ]
        return (*scaled, None, None, None)


def _autocast(tensor: Tensor) -> bool:
    return bool(torch.is_autocast_enabled(tensor.device.type))


def _cut(size: int, number: int, unit: int = 1) -> list[slice]:
    """Cuts a dimension into so many parts of whole units, whose sizes differ by one unit at most."""
    units = size // unit
    number = max(1, min(units, number))
    return list(starmap(slice, pairwise(units * part // number * unit for part in range(number + 1))))


def _column(targets: Tensor, block: slice) -> tuple[Tensor, Tensor]:
    """Returns the columns (N, 1) of targets in a block of the vocabulary, and whether they are in it, (N, 1)."""
    column = (targets - block.start)[:, None]
    inside = (column >= 0) & (column < block.stop - block.start)
    return column.clamp_(0, block.stop - block.start - 1), inside
