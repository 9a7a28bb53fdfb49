"""Systems that classify texts, in scikit-learn's shape: ``fit``, ``predict``, pipelines, searches over settings."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from wenmai.core.errors import SettingError
from wenmai.core.registry import find_system
from wenmai.runs.train import train

__all__ = ["WenmaiClassifier"]


class WenmaiClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A classifier of texts in scikit-learn's shape.

    Args:
        system: A system that classifies, such as ``"fasttext-supervised"`` or ``"classifier"``.
        out: The run folder to make. None: a temporary one, of which the model is kept in memory.
        **settings: Any setting of the system; also parameters for ``set_params`` and for searches.

    Attributes:
        classes_: The labels, sorted.
        model_: The trained model.

    Example:
        >>> model = WenmaiClassifier("classifier", epochs=20)
        >>> model.fit(["a good film", "a bad film"], ["praise", "blame"]).predict(["good"]).tolist()
        ['praise']
    """

    def __init__(
        self,
        system: str = "fasttext-supervised",
        *,
        out: str | Path | None = None,
        **settings: Any,  # noqa: ANN401  checked against the system's settings
    ) -> None:
        self.system = system
        self.out = out
        self.settings = settings

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Returns the system, the run folder and the settings."""
        return {"system": self.system, "out": self.out, **self.settings}

    def set_params(self, **params: Any) -> Self:  # noqa: ANN401
        """Changes the system, the run folder or settings."""
        self.system = params.pop("system", self.system)
        self.out = params.pop("out", self.out)
        self.settings = {**self.settings, **params}
        return self

    def fit(self, X: Sequence[str], y: Any) -> Self:  # noqa: ANN401  scikit-learn's names
        """Trains the system on texts X [N] and labels y [N].

        Raises:
            SettingError: for an unknown setting, or a system that does not classify.
            ValueError: if there are not as many labels as texts, or fewer than two classes.
        """
        if "classify" not in find_system(self.system).load().verbs:
            raise SettingError(f"{self.system} does not classify texts; expected fasttext-supervised or classifier")
        texts = _texts(X)
        check_consistent_length(texts, y)
        self.classes_, numbers = np.unique(column_or_1d(y), return_inverse=True)
        if self.classes_.size < 2:
            raise ValueError(f"all {len(texts)} texts are of one class, {self.classes_[0]!r}; expected at least 2")
        labelled = [(text, str(number)) for text, number in zip(texts, numbers.tolist(), strict=True)]
        with tempfile.TemporaryDirectory(prefix="wenmai-") as folder:
            run = train(self.system, labelled, out=self.out or Path(folder) / "run", **self.settings)
            self.model_ = run.model
        return self

    def predict(self, X: Sequence[str]) -> npt.NDArray[Any]:
        """Returns the most likely label of each text."""
        found: npt.NDArray[Any] = self.classes_[self._numbers(X).argmax(axis=1)]
        return found

    def predict_proba(self, X: Sequence[str]) -> npt.NDArray[np.float64]:
        """Returns the probability of each class for each text, float64 [N, classes].

        Raises:
            AttributeError: if the model has scores but no probabilities (a perceptron, or least squares).
        """
        check_is_fitted(self)
        if not getattr(self.model_, "probabilistic", True):
            raise AttributeError(f"{self.model_!r} has scores but no probabilities")
        return self._numbers(X)

    def _numbers(self, texts: Sequence[str]) -> npt.NDArray[np.float64]:
        check_is_fitted(self)
        found = np.zeros((len(texts), self.classes_.size))
        for row, labels in zip(found, self.model_.predict(_texts(texts), k=-1), strict=True):
            for label, number in labels:
                row[int(label)] = number
        return found


def _texts(given: Any) -> list[str]:  # noqa: ANN401
    """Returns texts as a list."""
    texts = list(given)
    if isinstance(given, str) or not all(isinstance(text, str) for text in texts):
        raise SettingError("expected a sequence of texts (strings)")
    return texts
