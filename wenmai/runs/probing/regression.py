"""The probe: logistic regression on standardised features."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["ROUGHLY", "STRENGTHS", "FittedProbe", "fit_probe", "fit_probes", "scaling_of", "standardised"]

Floats = npt.NDArray[np.floating[Any]]
Ints = npt.NDArray[np.int64]

STRENGTHS = (0.001, 0.01, 0.1, 1.0)
"""scikit-learn's C, from the strongest penalty to the weakest; the loss is a sum over examples."""

ROUGHLY = 1e-3
"""A gradient at which predictions no longer change: ten times scikit-learn's, reached in a third of the iterations."""

_ITERATIONS = 1000


@dataclass(frozen=True)
class FittedProbe:
    """A linear classifier.

    Attributes:
        weights: (C, D), of two classes (1, D).
        bias: (C,) or (1,).
        strength: scikit-learn's C.
    """

    weights: Floats
    bias: Floats
    strength: float

    def predict(self, features: Floats) -> Ints:
        """Returns the number of the most probable class of each row, (N,)."""
        scores = features @ self.weights.T + self.bias
        if scores.shape[1] == 1:
            return (scores[:, 0] > 0).astype(np.int64)
        best: Ints = scores.argmax(axis=1)
        return best


def scaling_of(features: Floats) -> tuple[Floats, Floats]:
    """Returns mean and deviation (D,) of the rows that are not zero; the deviation is 1 where all are equal."""
    known = features[features.any(axis=1)]
    if not len(known):
        return np.zeros(features.shape[1], features.dtype), np.ones(features.shape[1], features.dtype)
    mean, deviation = known.mean(axis=0, dtype=np.float64), known.std(axis=0, dtype=np.float64)
    deviation = np.where(deviation > 1e-7 * np.abs(mean), deviation, 1)  # float32 has no more digits
    return mean.astype(features.dtype), deviation.astype(features.dtype)


def standardised(features: Floats, scaling: tuple[Floats, Floats]) -> Floats:
    """Returns features with mean 0 and deviation 1; rows of zeros, which have no vector, stay zero."""
    found = (features - scaling[0]) / scaling[1]
    found[~features.any(axis=1)] = 0
    return found


def fit_probe(
    features: Floats, labels: Sequence[Any] | Ints, *, strength: float = 1.0, tolerance: float = 1e-4
) -> FittedProbe:
    """Fits logistic regression with one penalty; see :func:`fit_probes`."""
    return fit_probes(features, labels, (strength,), tolerance=tolerance)[0]


def fit_probes(
    features: Floats,
    labels: Sequence[Any] | Ints,
    strengths: Sequence[float] = STRENGTHS,
    *,
    tolerance: float = ROUGHLY,
) -> list[FittedProbe]:
    """Fits logistic regression with each penalty, from the weights of the one before on.

    Args:
        features: (N, D), standardised.
        labels: (N,) numbers of at least two classes, from 0 without a gap.
        strengths: scikit-learn's C.
        tolerance: It ends when no number of the gradient of the mean loss is larger.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    model, given = LogisticRegression(max_iter=_ITERATIONS, tol=tolerance, warm_start=True), np.asarray(labels)
    found = []
    for strength in strengths:
        with warnings.catch_warnings():  # a probe that is not quite at its minimum is as good
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.set_params(C=strength).fit(features, given)
        found.append(FittedProbe(model.coef_.copy(), model.intercept_.copy(), strength))
    return found
