"""The classic linear models: perceptron, least squares, logistic regression and softmax regression.

Each is a scikit-learn estimator on dense arrays and sparse matrices. All can be trained by batch, stochastic or
mini-batch gradient descent, and taken further by ``partial_fit``; by default logistic and softmax regression are
trained by L-BFGS, and least squares in closed form. They differ in the loss alone: :mod:`wenmai.kernels.descent` has
the equations.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data

from wenmai.kernels.descent import Descent, Objective, coded_targets, probabilities

__all__ = [
    "LeastSquaresClassifier",
    "LinearRegression",
    "LogisticRegression",
    "Perceptron",
    "SoftmaxRegression",
]

Array = npt.NDArray[np.float64]
Solver = Literal["closed", "lbfgs", "gradient"]


@dataclass(kw_only=True, eq=False, repr=False)
class _LinearEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """The common base: parameters, training, scores.

    Attributes:
        coef_: float64 [K, D].
        intercept_: float64 [K].
        loss_curve_: The mean loss of each epoch, measured before each step, without the penalty; of L-BFGS that after
            each iteration.
        step_loss_curve_: float64 [steps], the mean loss of each mini-batch before its step; of L-BFGS as above.
        n_features_in_: D.
    """

    _objective: ClassVar[Objective]
    _solvers: ClassVar[tuple[Solver, ...]] = ("gradient",)
    _learnt_until_right: ClassVar[bool] = False  # whether an epoch without a mistake ends the training
    _l2_of_one: ClassVar[float] = 0.0  # the usual penalty if there were one example; it is shared out over all

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

    def _checked(self, features: Any, targets: Any, *, first: bool = True) -> tuple[Any, Any]:  # noqa: ANN401
        multi = isinstance(self, RegressorMixin)
        features, targets = validate_data(
            self,
            features,
            targets,
            accept_sparse="csr",
            dtype=np.float64,
            multi_output=multi,
            y_numeric=multi,
            reset=first,
        )
        if self.epochs < 1 or (self.batch_size is not None and self.batch_size < 1):
            raise ValueError("epochs and batch_size are at least 1 (batch_size=None takes all examples at once)")
        if self.learning_rate <= 0 or (getattr(self, "l2", None) or 0.0) < 0 or getattr(self, "tol", 1.0) <= 0:
            raise ValueError("learning_rate and tol are above 0, l2 not below")
        for name, known in (("decay", ("constant", "linear")), ("solver", self._solvers)):
            if getattr(self, name, known[0]) not in known:
                raise ValueError(f"{name}={getattr(self, name)!r}: expected {' or '.join(map(repr, known))}")
        return features, targets

    def _descent(self, features: Any, targets: Array, sample_weight: Any) -> Descent:  # noqa: ANN401
        weights = _check_sample_weight(sample_weight, features, dtype=np.float64, ensure_non_negative=True)
        total = float(weights.sum())
        if not total > 0:
            raise ValueError("sample_weight is 0 for all examples")
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31)
        penalty = getattr(self, "l2", 0.0)
        return Descent(
            self._objective,
            features,
            targets,
            batch_size=self.batch_size,
            l2=self._l2_of_one / total if penalty is None else penalty,
            fit_intercept=self.fit_intercept,
            averaged=getattr(self, "averaged", False),
            shuffle=self.shuffle,
            seed=int(seed),
            importances=weights * (len(targets) / total),
        )

    def _train(self, features: Any, targets: Array, sample_weight: Any) -> Self:  # noqa: ANN401
        descent = self._descent(features, targets, sample_weight)
        solver = getattr(self, "solver", "gradient")
        if solver == "gradient":
            self._descend(descent)
        else:
            if solver == "closed":
                self.loss_curve_ = [descent.solve()]
            else:
                self.loss_curve_ = descent.minimise(self.epochs, self.tol)
            self.step_loss_curve_ = np.array(self.loss_curve_)
        return self._keep(descent)

    def _descend(self, descent: Descent) -> None:
        curve, steps = [], []
        for epoch in range(self.epochs):
            mistakes = descent.mistakes
            rate = self.learning_rate * ((1 - epoch / self.epochs) if self.decay == "linear" else 1.0)
            steps.append(self._epoch(descent, epoch, rate))
            curve.append(float(steps[-1][1]))
            if self._learnt_until_right and descent.mistakes == mistakes:
                break
        self.loss_curve_ = curve
        self.step_loss_curve_ = np.concatenate([losses for losses, _ in steps])
        self.n_updates_ = descent.mistakes

    def _epoch(self, descent: Descent, epoch: int, rate: float) -> tuple[Array, float]:
        """Makes a pass; returns the mean loss of each mini-batch, and of all examples."""
        count = len(descent.targets)
        sums = descent.train(epoch, 0, count, rate)
        sizes = np.full(sums.size, descent.batch_size)
        sizes[-1] = count - descent.batch_size * (sums.size - 1)
        return sums / sizes, float(sums.sum() / count)

    def _train_further(self, features: Any, targets: Array, sample_weight: Any) -> Self:  # noqa: ANN401
        """Makes one pass of gradient descent from where the last training ended, or from zeros."""
        descent = self._descent(features, targets, sample_weight)
        if hasattr(self, "coef_"):
            descent.weights, descent.bias, descent.state, descent.drag, descent.mistakes = self._ended()
        passes = getattr(self, "_passes", 0)
        losses, mean = self._epoch(descent, passes, self.learning_rate)
        self.loss_curve_ = [*(self.loss_curve_ if passes else ()), mean]
        self.step_loss_curve_ = np.concatenate([self.step_loss_curve_, losses]) if passes else losses
        self.n_updates_ = descent.mistakes
        self._keep(descent)
        self._passes = passes + 1
        return self

    def _keep(self, descent: Descent) -> Self:
        weights, self.intercept_ = descent.settle()
        self.coef_ = np.ascontiguousarray(weights.T)
        self._passes = 0  # of partial_fit
        self._steps: tuple[Array, Array, int] = descent.state, descent.drag, descent.mistakes
        self._last: tuple[Array, Array] | None = (descent.weights, descent.bias) if descent.drag.size else None
        return self

    def _ended(self) -> tuple[Array, Array, Array, Array, int]:
        """What a descent goes on from; where ``coef_`` is an average, that of the last step."""
        last = (np.atleast_2d(self.coef_).T, np.atleast_1d(self.intercept_)) if self._last is None else self._last
        state, drag, mistakes = self._steps
        weights, bias, state, drag = (np.array(part, order="C") for part in (*last, state, drag))
        return weights, bias, state, drag, mistakes

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
    _solvers: ClassVar[tuple[Solver, ...]] = ("closed", "gradient")

    solver: Literal["closed", "gradient"] = "closed"
    l2: float = 0.0

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: ANN401  scikit-learn's names
        """Fits the model to X [N, D], dense or sparse, and numbers y [N] or [N, K]; the errors may have weights [N]."""
        X, y = self._checked(X, y)
        return self._fit_columns(self._train, X, y, sample_weight)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: ANN401
        """Makes one pass of gradient descent over X [N, D] and y, from where the last call ended; parameters of fit."""
        X, y = self._checked(X, y, first=not hasattr(self, "coef_"))
        return self._fit_columns(self._train_further, X, y, sample_weight)

    def _fit_columns(self, train: Callable[..., Self], X: Any, y: Any, sample_weight: Any) -> Self:  # noqa: ANN401
        y = np.asarray(y, np.float64)
        train(X, y[:, None] if y.ndim == 1 else y, sample_weight)
        if y.ndim == 1:
            self.coef_, self.intercept_ = self.coef_[0], self.intercept_[0]
        return self

    def predict(self, X: Any) -> Array:  # noqa: ANN401
        """Returns the numbers [N] or [N, K] predicted for X [N, D]."""
        scores = self._scores(X)
        return scores[:, 0] if np.ndim(self.intercept_) == 0 else scores


@dataclass(kw_only=True, eq=False, repr=False)
class _LinearClassifier(ClassifierMixin, _LinearEstimator):  # type: ignore[misc]
    """The base of the classifiers: classes as numbers, one score a class (of two classes one score)."""

    _at_zero: ClassVar[int] = 0  # the class of two at the score zero

    class_weight: Mapping[Any, float] | Literal["balanced"] | None = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: ANN401
        """Fits the model to X [N, D], dense or sparse, and labels y [N].

        Args:
            X: The features.
            y: The labels.
            sample_weight: [N], by which the losses are multiplied; none: all count the same.

        Raises:
            ValueError: if X has something else than finite numbers, labels are missing, or all are of one class.
            TrainingError: if the loss is no longer a number.
        """
        X, y = self._checked(X, y)
        check_classification_targets(y)
        self.classes_, numbers = np.unique(column_or_1d(y), return_inverse=True)
        if self.classes_.size < 2:
            raise ValueError(
                f"all {len(numbers)} examples are of one class, {self.classes_.tolist()[0]!r}; expected at least 2"
            )
        return self._train(X, self._coded(numbers), self._weighted(X, y, sample_weight))

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:  # noqa: ANN401
        """Makes one pass of gradient descent over X [N, D] and y [N], from where the last call ended.

        ``class_weight="balanced"`` needs all labels at once, and is refused.

        Args:
            X: The features.
            y: Labels, not necessarily all of them.
            classes: All labels there will ever be; needed in the first call.
            sample_weight: [N], by which the losses are multiplied; none: all count the same.

        Raises:
            ValueError: if classes are missing, or there are others than in the first call.
            TrainingError: if the loss is no longer a number.
        """
        if self.class_weight == "balanced":
            raise ValueError("class_weight='balanced' needs all labels at once: partial_fit takes a dict of weights")
        first = not hasattr(self, "classes_")
        X, y = self._checked(X, y, first=first)
        check_classification_targets(y)
        if first and classes is None:
            raise ValueError("the first call of partial_fit needs classes: all labels there will ever be")
        known = np.unique(column_or_1d(classes)) if classes is not None else self.classes_
        if known.size < 2:
            raise ValueError(f"classes={known.tolist()}: expected at least 2 classes")
        if not first and not np.array_equal(known, self.classes_):
            raise ValueError(f"classes={known!r}: expected those of the first call, {self.classes_!r}")
        if strange := sorted(set(column_or_1d(y).tolist()) - set(known.tolist())):
            raise ValueError(f"y has labels that are not in classes: {strange}")
        self.classes_ = known
        numbers = np.searchsorted(known, column_or_1d(y))
        return self._train_further(X, self._coded(numbers), self._weighted(X, y, sample_weight))

    def _coded(self, numbers: npt.NDArray[np.int64]) -> Array:
        return coded_targets(self._objective, numbers, self.classes_.size)

    def _weighted(self, features: Any, labels: Any, sample_weight: Any) -> Any:  # noqa: ANN401
        """The weights of examples, times those of their classes."""
        if self.class_weight is None:
            return sample_weight
        weights = _check_sample_weight(sample_weight, features, dtype=np.float64)
        labels = column_or_1d(labels)
        of_class = compute_class_weight(self.class_weight, classes=self.classes_, y=labels, sample_weight=weights)
        return weights * of_class[np.searchsorted(self.classes_, labels)]

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

    _solvers: ClassVar[tuple[Solver, ...]] = ("lbfgs", "gradient")
    _l2_of_one: ClassVar[float] = 0.5  # as scikit-learn's C = 1

    solver: Literal["lbfgs", "gradient"] = "lbfgs"
    l2: float | None = None
    tol: float = 1e-4

    def predict_proba(self, X: Any) -> Array:  # noqa: ANN401
        """Returns the probability of each class, float64 [N, classes]."""
        scores = self._scores(X)
        return probabilities(self._objective, scores)

    def predict_log_proba(self, X: Any) -> Array:  # noqa: ANN401
        """Returns the logarithm of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


class SoftmaxRegression(_ProbabilisticClassifier):
    """Softmax (multinomial logistic) regression.

    Args:
        solver: ``"lbfgs"``, a quasi-Newton method that takes all examples at once, or ``"gradient"`` descent.
        l2: This times the squared length of the weights is added to the mean cross-entropy. None: 1 / (2 N), which is
            scikit-learn's ``C=1``; N is the number of examples, or the sum of their weights.
        tol: Of L-BFGS: it ends when no number of the gradient is larger.
        class_weight: The weight of the examples of each class; ``"balanced"``: all classes weigh the same.
        batch_size: Of gradient descent: examples in a step; 1 is stochastic, None takes all of them.
        epochs: Passes over the examples; iterations of L-BFGS, at most.
        learning_rate: Of gradient descent, for the mean loss of a mini-batch.
        decay: Of the learning rate: ``"constant"``, or ``"linear"`` towards zero.
        fit_intercept: Learn a bias.
        shuffle: Another order in each epoch of gradient descent.
        random_state: Decides the order.

    Attributes:
        classes_: The labels, sorted.
        coef_: float64 [classes, D].
        intercept_: float64 [classes].
        loss_curve_: The mean loss of each epoch, measured before each step, without the penalty; of L-BFGS that after
            each iteration.
        step_loss_curve_: float64 [steps], the mean loss of each mini-batch before its step; of L-BFGS as above.

    Example:
        >>> model = SoftmaxRegression().fit([[0.0], [1.0], [2.0]], ["low", "low", "high"])
        >>> model.predict([[3.0]]).tolist()
        ['high']
    """

    _objective: ClassVar[Objective] = "softmax"


class LogisticRegression(_ProbabilisticClassifier):
    """Logistic regression (binary cross-entropy); of more than two classes softmax regression, as in scikit-learn.

    Parameters and attributes are those of :class:`SoftmaxRegression`; of two classes ``coef_`` is [1, D]. For a model
    of each class against the rest there is ``sklearn.multiclass.OneVsRestClassifier(LogisticRegression())``.
    """

    @property
    def _objective(self) -> Objective:  # type: ignore[override]
        return "logistic" if self.classes_.size == 2 else "softmax"


@dataclass(kw_only=True, eq=False, repr=False)
class LeastSquaresClassifier(_LinearClassifier):
    """Classes by least squares: the numbers -1 and +1 are fitted, one class against the rest.

    Has scores but no probabilities. Parameters are those of :class:`LinearRegression`, but for ``l2``: none is 1 / N,
    which is the penalty of scikit-learn's ``RidgeClassifier``; and ``class_weight`` of :class:`SoftmaxRegression`,
    which has the attributes too. Of two classes ``coef_`` is [1, D].
    """

    _objective: ClassVar[Objective] = "squared"
    _solvers: ClassVar[tuple[Solver, ...]] = ("closed", "gradient")
    _l2_of_one: ClassVar[float] = 1.0

    solver: Literal["closed", "gradient"] = "closed"
    l2: float | None = None
    learning_rate: float = 0.01


@dataclass(kw_only=True, eq=False, repr=False)
class Perceptron(_LinearClassifier):
    """The perceptron (Rosenblatt 1958); of more than two classes one against the rest.

    It changes its weights only for examples on the wrong side, or on the border, and stops after an epoch without
    such. On classes that no plane separates it never would: ``epochs`` ends it, and the average of its weights over
    all steps (Freund and Schapire 1999) is the better classifier. It has scores but no probabilities.

    Args:
        averaged: Predict with the average of the weights over all steps.
        class_weight: The weight of the examples of each class; ``"balanced"``: all classes weigh the same.
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
