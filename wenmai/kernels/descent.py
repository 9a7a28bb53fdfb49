"""Losses of linear models, gradient descent on them, and least squares in closed form.

| objective | targets | loss of an example | gradient on its scores |
|---|---|---|---|
| perceptron | -1, +1 | max(0, -tz) | -t where tz <= 0, else 0 |
| squared | numbers | (z - t)^2 | 2 (z - t) |
| logistic | 0, 1 | max(z, 0) - zt + log(1 + exp(-abs(z))) | sigmoid(z) - t |
| softmax | one-hot | log sum exp z - z_t | softmax(z) - t |

One step on a mini-batch of B examples is ``W -= rate * (X' dZ / B + 2 l2 W)`` with the scores ``Z = X W + b``. With
mean losses the size of a gradient does not depend on B; the penalty leaves the bias alone. Examples of different
importance have their loss multiplied by it; importances are scaled to a mean of 1 before.
"""

from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import linalg, optimize, sparse
from scipy.sparse.linalg import LinearOperator, lsqr

from wenmai.core.errors import SettingError, TrainingError
from wenmai.core.seeding import mixed_seed
from wenmai.kernels.linear import LOGISTIC, PERCEPTRON, SOFTMAX, SQUARED, sparse_steps

__all__ = [
    "Descent",
    "Objective",
    "coded_targets",
    "losses_and_deltas",
    "probabilities",
    "solve_least_squares",
]

Array = npt.NDArray[np.float64]
Objective = Literal["squared", "logistic", "softmax", "perceptron"]

_CODES = {"squared": SQUARED, "logistic": LOGISTIC, "softmax": SOFTMAX, "perceptron": PERCEPTRON}
_FEW_EXAMPLES = 4


def losses_and_deltas(objective: Objective, scores: Array, targets: Array) -> tuple[Array, Array]:
    """Returns the loss of each example and the gradient of the summed loss on the scores.

    Args:
        objective: The loss.
        scores: float64 [B, K].
        targets: float64 [B, K]; see :func:`coded_targets`.

    Returns:
        float64 [B] in nats (squared: in squared units of the target) and float64 [B, K].
    """
    if objective == "squared":
        return ((scores - targets) ** 2).sum(axis=1), 2 * (scores - targets)
    if objective == "logistic":
        losses = np.maximum(scores, 0) - scores * targets + np.log1p(np.exp(-np.abs(scores)))
        return losses.sum(axis=1), _sigmoid(scores) - targets
    if objective == "softmax":
        shifted = scores - scores.max(axis=1, keepdims=True)
        log_total = np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        return ((log_total - shifted) * targets).sum(axis=1), np.exp(shifted - log_total) - targets
    margins = targets * scores
    return np.maximum(0, -margins).sum(axis=1), np.where(margins <= 0, -targets, 0.0)


def probabilities(objective: Objective, scores: Array) -> Array:
    """Returns the probability of each class.

    Args:
        objective: ``"softmax"``, or ``"logistic"``: with one column it has two classes, with more each column is a
            model of its own and the probabilities are scaled to sum to 1.
        scores: float64 [B, K].

    Returns:
        float64 [B, classes]; rows sum to 1.
    """
    if objective == "softmax":
        exponentials: Array = np.exp(scores - scores.max(axis=1, keepdims=True))
        exponentials /= exponentials.sum(axis=1, keepdims=True)
        return exponentials
    positive = _sigmoid(scores)
    if scores.shape[1] == 1:
        return np.hstack([_sigmoid(-scores), positive])
    positive /= np.maximum(positive.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    return positive


def coded_targets(objective: Objective, labels: npt.NDArray[np.int64], classes: int) -> Array:
    """Writes class numbers as the targets of the scores.

    Args:
        objective: ``"squared"`` and ``"perceptron"`` have -1 and +1, the others 0 and 1.
        labels: int64 [N], from 0.
        classes: How many there are.

    Returns:
        float64 [N, K]; of two classes K is 1, the score of the second, but for the softmax.
    """
    ones = np.eye(classes)[labels]
    if classes == 2 and objective != "softmax":
        ones = ones[:, 1:]
    return ones if objective in ("softmax", "logistic") else 2 * ones - 1


class Descent:
    """Gradient descent from zero weights, a part of an epoch at a time.

    The order of the examples in an epoch depends on the seed and the number of the epoch alone, so a training can be
    taken up again from its parameters and its place.

    Attributes:
        weights: float64 [D, K]; true weights are ``scale`` times these until :meth:`settle`.
        bias: float64 [K].
        state: float64 [2]: scale and number of steps made.
        drag: What the average of the weights over all steps needs; float64 [D + 1, K], or [0, 0].
        mistakes: Of the perceptron: scores of the wrong sign or zero, counted over all that was trained.
    """

    def __init__(
        self,
        objective: Objective,
        features: Any,
        targets: Array,
        *,
        batch_size: int | None = 32,
        l2: float = 0.0,
        fit_intercept: bool = True,
        averaged: bool = False,
        shuffle: bool = True,
        seed: int = 1,
        importances: Array | None = None,
    ) -> None:
        """Begins a training.

        Args:
            objective: The loss.
            features: float64 [N, D], dense or CSR.
            targets: float64 [N, K]; see :func:`coded_targets`.
            batch_size: Examples in a step; 1 is stochastic gradient descent, None takes all of them.
            l2: Times the squared length of the weights is added to the mean loss.
            fit_intercept: Learn a bias.
            averaged: Keep the average of the weights over all steps; goes without ``l2``.
            shuffle: Another order in each epoch.
            seed: Decides the order.
            importances: float64 [N] with a mean of 1, by which the losses are multiplied; none: all are 1.

        Raises:
            SettingError: for an average with a penalty.
        """
        if averaged and l2:
            raise SettingError("the average of the weights has no L2 penalty; set l2=0")
        self.objective = objective
        self.targets: Array = np.ascontiguousarray(targets)
        self.features = features
        self.importances: Array = np.ones(len(targets)) if importances is None else importances
        self.batch_size = min(batch_size or len(targets), len(targets))
        self.l2 = l2
        self.fit_intercept = fit_intercept
        self.shuffle = shuffle
        self.seed = seed
        width = targets.shape[1]
        self.weights: Array = np.zeros((features.shape[1], width))
        self.bias: Array = np.zeros(width)
        self.state: Array = np.array([1.0, 0.0])
        self.drag: Array = np.zeros((features.shape[1] + 1, width) if averaged else (0, 0))
        self.mistakes = 0
        self._order = (-1, np.arange(len(targets)))

    def train(self, epoch: int, first: int, last: int, rate: float) -> Array:
        """Trains on the examples from place ``first`` up to ``last`` of an epoch.

        Args:
            epoch: From 0.
            first: A multiple of the size of mini-batches.
            last: The place behind the last example.
            rate: The learning rate.

        Returns:
            float64 [mini-batches], the summed loss of each before its step, without the penalty.

        Raises:
            TrainingError: if the loss is no longer a number.
        """
        order = self._order_of(epoch)[first:last]
        losses = np.empty(-(-order.size // self.batch_size))
        with np.errstate(over="ignore", invalid="ignore"):
            (self._dense_steps if self._sparse is None else self._sparse_steps)(order, rate, losses)
        if not np.isfinite(losses).all() or not np.isfinite(self.bias).all():
            raise TrainingError(
                f"the loss is no longer a number in epoch {epoch + 1} (learning rate {rate:g}); lower learning_rate, "
                "or scale the features"
            )
        return losses

    def solve(self) -> float:
        """Takes the weights of least squares, in closed form; returns their mean squared error."""
        self.weights[...], self.bias[...] = solve_least_squares(
            self.features, self.targets, l2=self.l2, fit_intercept=self.fit_intercept, importances=self.importances
        )
        errors = self.features @ self.weights + self.bias - self.targets
        return float((errors**2).sum(axis=1) @ self.importances / len(self.targets))

    def minimise(self, iterations: int, tolerance: float) -> list[float]:
        """Minimises the loss with its penalty by L-BFGS (Liu and Nocedal 1989), for losses with a derivative.

        Args:
            iterations: At most.
            tolerance: It ends when no number of the gradient is larger.

        Returns:
            The mean loss after each iteration, without the penalty; where none was needed, that of the start.

        Raises:
            TrainingError: if the loss is no longer a number.
        """
        shape, split, count = self.weights.shape, self.weights.size, len(self.targets)
        curve: list[float] = []
        latest = [0.0]

        def loss(parameters: Array) -> tuple[float, Array]:
            weights, bias = parameters[:split].reshape(shape), parameters[split:]
            losses, deltas = losses_and_deltas(self.objective, self.features @ weights + bias, self.targets)
            deltas *= self.importances[:, None] / count
            mean = float(losses @ self.importances / count)
            latest[0] = mean
            slope = self.features.T @ deltas + 2 * self.l2 * weights
            of_bias = deltas.sum(axis=0) if self.fit_intercept else np.zeros_like(bias)
            return mean + self.l2 * float((weights**2).sum()), np.concatenate([slope.ravel(), of_bias])

        with np.errstate(over="ignore", invalid="ignore"):
            found = optimize.minimize(
                loss,
                np.concatenate([self.weights.ravel(), self.bias]),
                jac=True,
                method="L-BFGS-B",
                callback=lambda _: curve.append(latest[0]),
                options={"maxiter": iterations, "gtol": tolerance, "ftol": 64 * np.finfo(np.float64).eps, "maxls": 50},
            )
        if not np.isfinite(found.fun):
            raise TrainingError("the loss is no longer a number; scale the features")
        self.weights[...], self.bias[...] = found.x[:split].reshape(shape), found.x[split:]
        return curve or latest

    def settle(self) -> tuple[Array, Array]:
        """Returns the true weights [D, K] and the bias [K], averaged over all steps if that was asked for."""
        self.weights *= self.state[0]
        self.state[0] = 1.0
        if not self.drag.size or not self.state[1]:
            return self.weights.copy(), self.bias.copy()
        return self.weights - self.drag[:-1] / self.state[1], self.bias - self.drag[-1] / self.state[1]

    def _order_of(self, epoch: int) -> npt.NDArray[np.int64]:
        if self.shuffle and self._order[0] != epoch:
            draws = np.random.default_rng(mixed_seed(self.seed, epoch))
            self._order = epoch, draws.permutation(len(self.targets))
        return self._order[1]

    @cached_property
    def _sparse(self) -> Any:
        """The features if they are sparse, or if a step has so few that numpy's time would go into calls; or None."""
        few = self.batch_size <= _FEW_EXAMPLES
        return sparse.csr_matrix(self.features) if few or sparse.issparse(self.features) else None

    def _sparse_steps(self, order: npt.NDArray[np.int64], rate: float, losses: Array) -> None:
        rows = self._sparse
        self.mistakes += sparse_steps(
            _CODES[self.objective],
            rows.data,
            rows.indices.astype(np.int32, copy=False),
            rows.indptr.astype(np.int64, copy=False),
            order,
            self.batch_size,
            self.targets,
            self.importances,
            self.weights,
            self.bias,
            self.state,
            rate,
            self.l2,
            self.fit_intercept,
            self.drag,
            losses,
        )

    def _dense_steps(self, order: npt.NDArray[np.int64], rate: float, losses: Array) -> None:
        for number in range(losses.size):
            rows = order[number * self.batch_size : (number + 1) * self.batch_size]
            features, targets = self.features[rows], self.targets[rows]
            found, deltas = losses_and_deltas(self.objective, features @ self.weights + self.bias, targets)
            if self.objective == "perceptron":
                self.mistakes += int(np.count_nonzero(deltas))
            losses[number] = (found * self.importances[rows]).sum()
            deltas *= self.importances[rows, None]
            if self.l2:
                self.weights *= 1 - 2 * rate * self.l2
            changes = features.T @ deltas * (-rate / len(rows))
            self.weights += changes
            if self.fit_intercept:
                self.bias -= deltas.mean(axis=0) * rate
            if self.drag.size:
                self.drag[:-1] += self.state[1] * changes
                self.drag[-1] -= self.state[1] * rate * self.fit_intercept * deltas.mean(axis=0)
            self.state[1] += 1


def solve_least_squares(
    features: Any, targets: Array, *, l2: float, fit_intercept: bool, importances: Array | None = None
) -> tuple[Array, Array]:
    """Minimises the mean squared error plus ``l2`` times the squared length of the weights.

    Dense features: the normal equations ``(X'X + l2 N I) W = X'Y`` of centred data, by Cholesky's decomposition, of
    their dual if there are fewer examples than features; without penalty the shortest solution, by singular values.
    Sparse ones: the same solution by LSQR (Paige and Saunders 1982), to a relative 1e-10.

    Args:
        features: float64 [N, D], dense or CSR.
        targets: float64 [N, K].
        l2: The penalty.
        fit_intercept: Learn a bias, which the penalty leaves alone.
        importances: float64 [N] with a mean of 1: the squared errors are multiplied by these; none: all are 1.

    Returns:
        Weights [D, K] and bias [K].
    """
    count, size = features.shape
    shares = np.full(count, 1 / count) if importances is None else importances / count
    roots = np.sqrt(shares * count)[:, None]
    centre = np.asarray(features.T @ shares).ravel() if fit_intercept else np.zeros(size)
    middle = shares @ targets if fit_intercept else np.zeros(targets.shape[1])
    wanted = roots * (targets - middle)
    if sparse.issparse(features):
        weights = _solve_sparse(sparse.csr_matrix(features.multiply(roots)), roots[:, 0], centre, wanted, l2)
    else:
        centred = roots * (features - centre)
        if l2 == 0:
            weights = linalg.lstsq(centred, wanted, cond=max(centred.shape) * np.finfo(np.float64).eps)[0]
        elif size <= count:
            gram = centred.T @ centred
            gram[np.diag_indices(size)] += l2 * count
            weights = linalg.solve(gram, centred.T @ wanted, assume_a="pos")
        else:
            gram = centred @ centred.T
            gram[np.diag_indices(count)] += l2 * count
            weights = centred.T @ linalg.solve(gram, wanted, assume_a="pos")
    return weights, middle - centre @ weights


def _solve_sparse(features: Any, roots: Array, centre: Array, wanted: Array, l2: float) -> Array:
    """Solves for features [N, D] whose rows were multiplied by ``roots`` [N], but not yet lost the centre [D]."""
    count = features.shape[0]
    transposed = features.T.tocsr()
    centred = LinearOperator(
        features.shape,
        matvec=lambda v: features @ v.ravel() - roots * (centre @ v.ravel()),
        rmatvec=lambda u: transposed @ u.ravel() - centre * (roots @ u.ravel()),
        dtype=np.float64,
    )
    damp = float(np.sqrt(l2 * count))
    found = [lsqr(centred, column, damp=damp, atol=1e-10, btol=1e-10, iter_lim=10_000)[0] for column in wanted.T]
    return np.stack(found, axis=1)


def _sigmoid(scores: Array) -> Array:
    small = np.exp(-np.abs(scores))
    return np.where(scores >= 0, 1 / (1 + small), small / (1 + small))
