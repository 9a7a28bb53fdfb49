"""The classic linear models: perceptron, least squares, logistic regression and softmax regression.

Each is a scikit-learn estimator on dense arrays and sparse matrices, and is trained by batch, stochastic or mini-batch
gradient descent; least squares also in closed form. They differ in the loss alone: :mod:`wenmai.kernels.descent` has
the equations.
"""

from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from wenmai.kernels.descent import Descent, Objective, coded_targets, probabilities, solve_least_squares

__all__ = [
    "LeastSquaresClassifier",
    "LinearRegression",
    "LogisticRegression",
    "Perceptron",
    "SoftmaxRegression",
]

Array = npt.NDArray[np.float64]


class _LinearEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What all have in common: parameters, training by gradient descent, scores.

    Attributes:
        coef_: float64 [K, D].
        intercept_: float64 [K].
        loss_curve_: The mean loss of each epoch, measured before each step, without the penalty.
        step_loss_curve_: float64 [steps], the mean loss of each mini-batch before its step.
        n_features_in_: D.
    """

    _objective: ClassVar[Objective]
    _learnt_until_right: ClassVar[bool] = False  # whether an epoch without a mistake ends the training

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

    def _descend(self, features: Any, targets: Array) -> Self:  # noqa: ANN401
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
        curve, steps = [], []
        for epoch in range(self.epochs):
            rate = self.learning_rate * ((1 - epoch / self.epochs) if self.decay == "linear" else 1.0)
            mistakes = descent.mistakes
            sums = descent.train(epoch, 0, len(targets), rate)
            sizes = np.full(sums.size, descent.batch_size)
            sizes[-1] = len(targets) - descent.batch_size * (sums.size - 1)
            steps.append(sums / sizes)
            curve.append(float(sums.sum() / len(targets)))
            if self._learnt_until_right and descent.mistakes == mistakes:
                break
        self.loss_curve_ = curve
        self.step_loss_curve_ = np.concatenate(steps)
        self.n_updates_ = descent.mistakes
        return self._keep(*descent.settle())

    def _keep(self, weights: Array, bias: Array) -> Self:
        self.coef_ = np.ascontiguousarray(weights.T)
        self.intercept_ = bias
        return self

    def _scores(self, features: Any) -> Array:  # noqa: ANN401
        check_is_fitted(self)
        features = validate_data(self, features, accept_sparse="csr", dtype=np.float64, reset=False)
        scores: Array = features @ np.atleast_2d(self.coef_).T + self.intercept_
        return scores


class LinearRegression(RegressorMixin, _LinearEstimator):  # type: ignore[misc]
    """Least squares: predicts numbers (Gauss, Legendre).

    Args:
        solver: ``"closed"`` solves the normal equations, ``"gradient"`` descends.
        l2: Ridge penalty: this times the squared length of the weights is added to the mean squared error.
        batch_size: Examples in a step; 1 is stochastic gradient descent, None takes all of them.
        epochs: Times the examples are seen.
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

    def __init__(
        self,
        *,
        solver: Literal["closed", "gradient"] = "closed",
        l2: float = 0.0,
        batch_size: int | None = 32,
        epochs: int = 100,
        learning_rate: float = 0.1,
        decay: Literal["constant", "linear"] = "constant",
        fit_intercept: bool = True,
        shuffle: bool = True,
        random_state: int | np.random.RandomState | None = 1,
    ) -> None:
        self.solver = solver
        self.l2 = l2
        self.batch_size = batch_size
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.decay = decay
        self.fit_intercept = fit_intercept
        self.shuffle = shuffle
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:  # noqa: ANN401  scikit-learn's names
        """Fits the model to X [N, D], dense or sparse, and numbers y [N] or [N, K]."""
        X, y = self._checked(X, y)
        y = np.asarray(y, np.float64)
        targets = y[:, None] if y.ndim == 1 else y
        if self.solver == "closed":
            weights, bias = solve_least_squares(X, targets, l2=self.l2, fit_intercept=self.fit_intercept)
            self._keep(weights, bias)
            error = float(((X @ weights + bias - targets) ** 2).sum() / len(targets))
            self.loss_curve_, self.step_loss_curve_ = [error], np.array([error])
        elif self.solver == "gradient":
            self._descend(X, targets)
        else:
            raise ValueError(f"solver={self.solver!r}: expected 'closed' or 'gradient'")
        if y.ndim == 1:
            self.coef_, self.intercept_ = self.coef_[0], self.intercept_[0]
        return self

    def predict(self, X: Any) -> Array:  # noqa: ANN401
        """Returns the numbers [N] or [N, K] predicted for X [N, D]."""
        scores = self._scores(X)
        return scores[:, 0] if np.ndim(self.intercept_) == 0 else scores


class _LinearClassifier(ClassifierMixin, _LinearEstimator):  # type: ignore[misc]
    """What the classifiers have in common: classes as numbers, one score a class (of two classes one score)."""

    _at_zero: ClassVar[int] = 0  # the class of two at the score zero

    def __init__(
        self,
        *,
        l2: float = 0.0,
        batch_size: int | None = 32,
        epochs: int = 100,
        learning_rate: float = 0.1,
        decay: Literal["constant", "linear"] = "constant",
        fit_intercept: bool = True,
        shuffle: bool = True,
        random_state: int | np.random.RandomState | None = 1,
    ) -> None:
        self.l2 = l2
        self.batch_size = batch_size
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.decay = decay
        self.fit_intercept = fit_intercept
        self.shuffle = shuffle
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:  # noqa: ANN401
        """Fits the model to X [N, D], dense or sparse, and labels y [N].

        Raises:
            ValueError: if X has something else than finite numbers, labels are missing, or all are of one class.
            TrainingError: if the loss is no longer a number.
        """
        X, targets = self._coded(X, y)
        return self._descend(X, targets)

    def _coded(self, features: Any, labels: Any) -> tuple[Any, Array]:  # noqa: ANN401
        features, labels = self._checked(features, labels)
        check_classification_targets(labels)
        self.classes_, numbers = np.unique(column_or_1d(labels), return_inverse=True)
        if self.classes_.size < 2:
            raise ValueError(f"all {len(numbers)} examples are of one class, {self.classes_[0]!r}; expected at least 2")
        return features, coded_targets(self._objective, numbers, self.classes_.size)

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


class _ProbabilisticClassifier(_LinearClassifier):
    """A classifier whose scores are logits."""

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
        epochs: Times the examples are seen.
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


class LeastSquaresClassifier(_LinearClassifier):
    """Classes by least squares: the numbers -1 and +1 are fitted, one class against the rest.

    Has scores but no probabilities. Parameters are those of :class:`LinearRegression`, attributes those of
    :class:`SoftmaxRegression`; of two classes ``coef_`` is [1, D].
    """

    _objective: ClassVar[Objective] = "squared"

    def __init__(
        self,
        *,
        solver: Literal["closed", "gradient"] = "closed",
        l2: float = 0.0,
        batch_size: int | None = 32,
        epochs: int = 100,
        learning_rate: float = 0.01,
        decay: Literal["constant", "linear"] = "constant",
        fit_intercept: bool = True,
        shuffle: bool = True,
        random_state: int | np.random.RandomState | None = 1,
    ) -> None:
        super().__init__(
            l2=l2,
            batch_size=batch_size,
            epochs=epochs,
            learning_rate=learning_rate,
            decay=decay,
            fit_intercept=fit_intercept,
            shuffle=shuffle,
            random_state=random_state,
        )
        self.solver = solver

    def fit(self, X: Any, y: Any) -> Self:  # noqa: ANN401
        """Fits the model to X [N, D], dense or sparse, and labels y [N]; raises as the others do."""
        X, targets = self._coded(X, y)
        if self.solver == "gradient":
            return self._descend(X, targets)
        if self.solver != "closed":
            raise ValueError(f"solver={self.solver!r}: expected 'closed' or 'gradient'")
        weights, bias = solve_least_squares(X, targets, l2=self.l2, fit_intercept=self.fit_intercept)
        error = float(((X @ weights + bias - targets) ** 2).sum() / len(targets))
        self.loss_curve_, self.step_loss_curve_ = [error], np.array([error])
        return self._keep(weights, bias)


class Perceptron(_LinearClassifier):
    """The perceptron (Rosenblatt 1958); of more than two classes one against the rest.

    It changes its weights only for examples on the wrong side, or on the border, and stops after an epoch without
    such. On classes that no plane separates it never would: ``epochs`` ends it, and the average of its weights over
    all steps (Freund and Schapire 1999) is the better classifier. It has scores but no probabilities.

    Args:
        averaged: Predict with the average of the weights over all steps.
        batch_size: Examples in a step; 1, the default, is Rosenblatt's rule.
        epochs: Times the examples are seen at most.
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

    def __init__(
        self,
        *,
        averaged: bool = False,
        batch_size: int | None = 1,
        epochs: int = 100,
        learning_rate: float = 1.0,
        decay: Literal["constant", "linear"] = "constant",
        fit_intercept: bool = True,
        shuffle: bool = True,
        random_state: int | np.random.RandomState | None = 1,
    ) -> None:
        self.averaged = averaged
        self.batch_size = batch_size
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.decay = decay
        self.fit_intercept = fit_intercept
        self.shuffle = shuffle
        self.random_state = random_state
