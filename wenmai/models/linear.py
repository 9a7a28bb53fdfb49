"""The classic linear models: perceptron, least squares, logistic regression and softmax regression.

Each is a scikit-learn estimator on dense arrays and sparse matrices, and is trained by batch, stochastic or mini-batch
gradient descent; least squares also in closed form. They differ in the loss alone: :mod:`wenmai.kernels.descent` has
the equations.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from wenmai.kernels.descent import Descent, Objective, coded_targets, probabilities

__all__ = [
    "LeastSquaresClassifier",
    "LinearRegression",
    "LogisticRegression",
    "Perceptron",
    "SoftmaxRegression",
]

Array = npt.NDArray[np.float64]


@dataclass(kw_only=True, eq=False, repr=False)
class _LinearEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """The common base: parameters, training by gradient descent or in closed form, scores.

    Attributes:
        coef_: float64 [K, D].
        intercept_: float64 [K].
        loss_curve_: The mean loss of each epoch, measured before each step, without the penalty.
        step_loss_curve_: float64 [steps], the mean loss of each mini-batch before its step.
        n_features_in_: D.
    """

    _objective: ClassVar[Objective]
    _learnt_until_right: ClassVar[bool] = False  # whether an epoch without a mistake ends the training

    batch_size: int | None = 32
    epochs: int = 100
    learning_rate: float = 0.1
    decay: Literal["constant", "linear"] = "constant"
    fit_intercept: bool = True
    shuffle: bool = True
    random_state: int | np.random.RandomState | None = 1

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401  scikit-learn's
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _checked(self, features: Any, targets: Any) -> tuple[Any, Any]:  # noqa: ANN401
        multi = self._objective == "squared" and isinstance(self, RegressorMixin)
        features, targets = validate_data(
            self, features, targets, accept_sparse="csr", dtype=np.float64, multi_output=multi, y_numeric=multi
        )
        if self.epochs < 1 or (self.batch_size is not None and self.batch_size < 1):
            raise ValueError("epochs and batch_size are at least 1 (batch_size=None takes all examples at once)")
        if self.learning_rate <= 0 or getattr(self, "l2", 0.0) < 0:
            raise ValueError("learning_rate is above 0, l2 not below")
        return features, targets

    def _train(self, features: Any, targets: Array) -> Self:  # noqa: ANN401
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31)
        descent = Descent(
            self._objective,
            features,
            targets,
            batch_size=self.batch_size,
            l2=getattr(self, "l2", 0.0),
            fit_intercept=self.fit_intercept,
            averaged=getattr(self, "averaged", False),
            shuffle=self.shuffle,
            seed=int(seed),
        )
        solver = getattr(self, "solver", "gradient")
        if solver == "closed":
            self.loss_curve_ = [descent.solve()]
            self.step_loss_curve_ = np.array(self.loss_curve_)
        elif solver == "gradient":
            self._descend(descent)
        else:
            raise ValueError(f"solver={solver!r}: expected 'closed' or 'gradient'")
        weights, self.intercept_ = descent.settle()
        self.coef_ = np.ascontiguousarray(weights.T)
        return self

    def _descend(self, descent: Descent) -> None:
        curve, steps = [], []
        count = len(descent.targets)
        for epoch in range(self.epochs):
            rate = self.learning_rate * ((1 - epoch / self.epochs) if self.decay == "linear" else 1.0)
            mistakes = descent.mistakes
            sums = descent.train(epoch, 0, count, rate)
            sizes = np.full(sums.size, descent.batch_size)
            sizes[-1] = count - descent.batch_size * (sums.size - 1)
            steps.append(sums / sizes)
            curve.append(float(sums.sum() / count))
            if self._learnt_until_right and descent.mistakes == mistakes:
                break
        self.loss_curve_ = curve
        self.step_loss_curve_ = np.concatenate(steps)
        self.n_updates_ = descent.mistakes

    def _scores(self, features: Any) -> Array:  # noqa: ANN401
        check_is_fitted(self)
        features = validate_data(self, features, accept_sparse="csr", dtype=np.float64, reset=False)
        scores: Array = features @ np.atleast_2d(self.coef_).T + self.intercept_
        return scores


@dataclass(kw_only=True, eq=False, repr=False)
class LinearRegression(RegressorMixin, _LinearEstimator):  # type: ignore[misc]
    """Least squares: predicts numbers (Gauss, Legendre).

    Args:
        solver: ``"closed"`` solves the normal equations, ``"gradient"`` descends.
        l2: Ridge penalty: this times the squared length of the weights is added to the mean squared error.
        batch_size: Examples in a step; 1 is stochastic gradient descent, None takes all of them.
        epochs: Passes over the examples.
        learning_rate: Of the mean squared error, so the gradient is ``2/N X'(Xw - y)``.
        decay: ``"constant"``, or ``"linear"``: the rate falls towards zero.
        fit_intercept: Learn a bias.
        shuffle: Another order in each epoch.
        random_state: Decides the order.

    Attributes:
        coef_: float64 [D], or [K, D] for several targets.
        intercept_: A number, or float64 [K].
        loss_curve_: See :class:`SoftmaxRegression`; of the closed form the mean squared error it reaches.

    Example:
        >>> model = LinearRegression().fit([[1], [2], [3]], [1, 2, 2])
        >>> round(float(model.coef_[0]), 6), round(float(model.intercept_), 6)
        (0.5, 0.666667)
    """

    _objective: ClassVar[Objective] = "squared"

    solver: Literal["closed", "gradient"] = "closed"
    l2: float = 0.0

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:  # noqa: ANN401  scikit-learn's names
        """Fits the model to X [N, D], dense or sparse, and numbers y [N] or [N, K]."""
        X, y = self._checked(X, y)
        y = np.asarray(y, np.float64)
        targets = y[:, None] if y.ndim == 1 else y
        self._train(X, targets)
        if y.ndim == 1:
            self.coef_, self.intercept_ = self.coef_[0], self.intercept_[0]
        return self

    def predict(self, X: Any) -> Array:  # noqa: ANN401
        """Returns the numbers [N] or [N, K] predicted for X [N, D]."""
        scores = self._scores(X)
        return scores[:, 0] if np.ndim(self.intercept_) == 0 else scores


class _LinearClassifier(ClassifierMixin, _LinearEstimator):  # type: ignore[misc]
    """The base of the classifiers: classes as numbers, one score a class (of two classes one score)."""

    _at_zero: ClassVar[int] = 0  # the class of two at the score zero

    def fit(self, X: Any, y: Any) -> Self:  # noqa: ANN401
        """Fits the model to X [N, D], dense or sparse, and labels y [N].

        Raises:
            ValueError: if X has something else than finite numbers, labels are missing, or all are of one class.
            TrainingError: if the loss is no longer a number.
        """
        X, y = self._checked(X, y)
        check_classification_targets(y)
        self.classes_, numbers = np.unique(column_or_1d(y), return_inverse=True)
        if self.classes_.size < 2:
            raise ValueError(f"all {len(numbers)} examples are of one class, {self.classes_[0]!r}; expected at least 2")
        return self._train(X, coded_targets(self._objective, numbers, self.classes_.size))

    def decision_function(self, X: Any) -> Array:  # noqa: ANN401
        """Returns the scores of X [N, D]: of two classes that of the second [N], else of each [N, classes]."""
        scores = self._scores(X)
        if self.classes_.size > 2:
            return scores
        return scores[:, 0] if scores.shape[1] == 1 else scores[:, 1] - scores[:, 0]

    def predict(self, X: Any) -> npt.NDArray[Any]:  # noqa: ANN401
        """Returns the label of each row of X [N, D]."""
        scores = self.decision_function(X)
        if scores.ndim == 2:
            found: npt.NDArray[Any] = self.classes_[scores.argmax(axis=1)]
            return found
        above = scores >= 0 if self._at_zero else scores > 0
        return self.classes_[above.astype(np.int64)]


@dataclass(kw_only=True, eq=False, repr=False)
class _ProbabilisticClassifier(_LinearClassifier):
    """A classifier whose scores are logits."""

    l2: float = 0.0

    def predict_proba(self, X: Any) -> Array:  # noqa: ANN401
        """Returns the probability of each class, float64 [N, classes]."""
        return probabilities(self._objective, self._scores(X))

    def predict_log_proba(self, X: Any) -> Array:  # noqa: ANN401
        """Returns the logarithm of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


class SoftmaxRegression(_ProbabilisticClassifier):
    """Softmax (multinomial logistic) regression by gradient descent.

    Args:
        l2: This times the squared length of the weights is added to the mean cross-entropy.
        batch_size: Examples in a step; 1 is stochastic gradient descent, None takes all of them.
        epochs: Passes over the examples.
        learning_rate: Of the mean loss of a mini-batch.
        decay: ``"constant"``, or ``"linear"``: the rate falls towards zero.
        fit_intercept: Learn a bias.
        shuffle: Another order in each epoch.
        random_state: Decides the order.

    Attributes:
        classes_: The labels, sorted.
        coef_: float64 [classes, D].
        intercept_: float64 [classes].
        loss_curve_: The mean loss of each epoch, measured before each step, without the penalty.
        step_loss_curve_: float64 [steps], the mean loss of each mini-batch before its step.

    Example:
        >>> model = SoftmaxRegression().fit([[0.0], [1.0], [2.0]], ["low", "low", "high"])
        >>> model.predict([[3.0]]).tolist()
        ['high']
    """

    _objective: ClassVar[Objective] = "softmax"


class LogisticRegression(_ProbabilisticClassifier):
    """Logistic regression (binary cross-entropy) by gradient descent; of more than two classes one against the rest.

    Parameters and attributes are those of :class:`SoftmaxRegression`; of two classes ``coef_`` is [1, D]. With more,
    every class has a model of its own, and the probabilities are scaled to sum to 1.
    """

    _objective: ClassVar[Objective] = "logistic"


@dataclass(kw_only=True, eq=False, repr=False)
class LeastSquaresClassifier(_LinearClassifier):
    """Classes by least squares: the numbers -1 and +1 are fitted, one class against the rest.

    Has scores but no probabilities. Parameters are those of :class:`LinearRegression`, attributes those of
    :class:`SoftmaxRegression`; of two classes ``coef_`` is [1, D].
    """

    _objective: ClassVar[Objective] = "squared"

    solver: Literal["closed", "gradient"] = "closed"
    l2: float = 0.0
    learning_rate: float = 0.01


@dataclass(kw_only=True, eq=False, repr=False)
class Perceptron(_LinearClassifier):
    """The perceptron (Rosenblatt 1958); of more than two classes one against the rest.

    It changes its weights only for examples on the wrong side, or on the border, and stops after an epoch without
    such. On classes that no plane separates it never would: ``epochs`` ends it, and the average of its weights over
    all steps (Freund and Schapire 1999) is the better classifier. It has scores but no probabilities.

    Args:
        averaged: Predict with the average of the weights over all steps.
        batch_size: Examples in a step; 1, the default, is Rosenblatt's rule.
        epochs: Most passes over the examples.
        learning_rate: Scales all weights, and so changes no prediction.
        decay: ``"constant"``, or ``"linear"``: the rate falls towards zero.
        fit_intercept: Learn a bias.
        shuffle: Another order in each epoch; False visits the examples in their order.
        random_state: Decides the order.

    Attributes:
        classes_: The labels, sorted; the second of two is the positive one, also at the score zero.
        coef_: float64 [K, D], K = 1 for two classes.
        intercept_: float64 [K].
        n_updates_: Examples that changed the weights, summed over classes.
        loss_curve_: The mean of max(0, -score times target) in each epoch; as many as epochs were needed.
        step_loss_curve_: The same for each step.
    """

    _objective: ClassVar[Objective] = "perceptron"
    _learnt_until_right: ClassVar[bool] = True
    _at_zero: ClassVar[int] = 1

    averaged: bool = False
    batch_size: int | None = 1
    learning_rate: float = 1.0
