"""Gradient descent on linear models of sparse examples: a mini-batch costs as much as it has numbers that are not zero.

The weights are kept as ``scale * weights``, so that the decay of the L2 penalty is one multiplication (Bottou 2012,
"Stochastic Gradient Descent Tricks", section 5.1).
"""

import numpy as np
from numba import njit

__all__ = ["LOGISTIC", "PERCEPTRON", "SOFTMAX", "SQUARED", "sparse_steps"]

SQUARED, LOGISTIC, SOFTMAX, PERCEPTRON = 0, 1, 2, 3

_SMALLEST_SCALE = 1e-6  # below it the scale is multiplied in


@njit(cache=True, nogil=True)
def _delta(objective, scores, targets, delta):
    """Replaces ``delta`` [K] by the gradient on the scores of one example; returns its loss and its mistakes."""
    loss, mistakes = 0.0, 0
    if objective == SOFTMAX:
        highest = scores[0]
        for k in range(1, scores.size):
            highest = max(highest, scores[k])
        total = 0.0
        for k in range(scores.size):
            delta[k] = np.exp(scores[k] - highest)
            total += delta[k]
        for k in range(scores.size):
            if targets[k] > 0:
                loss += targets[k] * (highest + np.log(total) - scores[k])
            delta[k] = delta[k] / total - targets[k]
        return loss, mistakes
    for k in range(scores.size):
        z, t = scores[k], targets[k]
        if objective == SQUARED:
            loss += (z - t) ** 2
            delta[k] = 2 * (z - t)
        elif objective == LOGISTIC:
            small = np.exp(-abs(z))
            loss += max(z, 0.0) - z * t + np.log1p(small)
            delta[k] = (1.0 / (1.0 + small) if z >= 0 else small / (1.0 + small)) - t
        else:
            wrong = t * z <= 0
            loss += max(0.0, -t * z)
            delta[k] = -t if wrong else 0.0
            mistakes += wrong
    return loss, mistakes


@njit(cache=True, nogil=True)
def sparse_steps(
    objective,
    data,
    indices,
    starts,
    order,
    batch_size,
    targets,
    importances,
    weights,
    bias,
    state,
    rate,
    l2,
    intercept,
    drag,
    sums,
):
    """Makes one step for each mini-batch of ``order``.

    Args:
        objective: ``SQUARED``, ``LOGISTIC``, ``SOFTMAX`` or ``PERCEPTRON``.
        data: float64, the numbers of a CSR matrix, row after row.
        indices: int32, their columns.
        starts: int64 [N + 1], where rows begin.
        order: int64 [n], the rows to visit.
        batch_size: Rows in a mini-batch; the last may have fewer.
        targets: float64 [N, K].
        importances: float64 [N], what the loss of each row is multiplied by.
        weights: float64 [D, K], changed; the true weights are ``state[0]`` times these.
        bias: float64 [K], changed.
        state: float64 [2]: the scale, and the number of steps made, both changed.
        rate: The learning rate.
        l2: The weight of the squared length of the weights in what is minimised.
        intercept: Whether the bias is learnt.
        drag: float64 [D + 1, K] (the last row for the bias) or [0, 0]: the sum of each update times the number of
            steps before it, from which the average over all steps follows; needs ``l2 = 0``.
        sums: float64 [mini-batches], gets the summed loss of each before its step.

    Returns:
        The mistakes: scores on the wrong side of zero, or on it (of the perceptron only).
    """
    width = targets.shape[1]
    averaged = drag.shape[0] > 0
    scores = np.empty(width)
    deltas = np.empty((min(batch_size, order.size), width))
    mistakes = 0
    for batch in range(sums.size):
        first = batch * batch_size
        size = min(batch_size, order.size - first)
        total = 0.0
        for place in range(size):
            row = order[first + place]
            scores[:] = 0.0
            for at in range(starts[row], starts[row + 1]):
                for k in range(width):
                    scores[k] += data[at] * weights[indices[at], k]
            for k in range(width):
                scores[k] = state[0] * scores[k] + bias[k]
            loss, wrong = _delta(objective, scores, targets[row], deltas[place])
            for k in range(width):
                deltas[place, k] *= importances[row]
            total += importances[row] * loss
            mistakes += wrong
        sums[batch] = total
        if l2 > 0:
            state[0] *= 1.0 - 2.0 * rate * l2
            if abs(state[0]) < _SMALLEST_SCALE:
                weights *= state[0]
                state[0] = 1.0
        step = rate / size
        for place in range(size):
            row = order[first + place]
            for at in range(starts[row], starts[row + 1]):
                factor = step / state[0] * data[at]
                column = indices[at]
                for k in range(width):
                    change = factor * deltas[place, k]
                    weights[column, k] -= change
                    if averaged:
                        drag[column, k] -= state[1] * change
            if intercept:
                for k in range(width):
                    bias[k] -= step * deltas[place, k]
                    if averaged:
                        drag[-1, k] -= state[1] * step * deltas[place, k]
        state[1] += 1
    return mistakes
