"""Runs in scikit-learn's shape: ``fit``, ``predict``, ``transform``, pipelines, searches over settings.

The door for users is :mod:`wenmai.sklearn`.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from wenmai.config.recipe import Recipe
from wenmai.core.errors import SettingError
from wenmai.core.registry import find_system
from wenmai.runs.explaining import passing_folder
from wenmai.runs.train import train
from wenmai.training.run import Run

__all__ = ["OfTexts", "TextEncoder", "WenmaiClassifier", "numbered", "texts_of"]


class OfTexts:
    """What estimators share that take texts: scikit-learn is told so."""

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401  scikit-learn's
        tags = super().__sklearn_tags__()  # type: ignore[misc]  # of the estimator
        tags.input_tags.string = tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        return tags


class TextEncoder(OfTexts, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Makes vectors of texts by a finished run, as :meth:`wenmai.Run.embed` does; nothing is learnt.

    A copy, and what is pickled, has the settings alone and reads the run again.

    Args:
        run: The folder of a run that has the verb ``embed``: word vectors, BERT and its relatives, ELMo, an imported
            encoder, a language model with layers such as GPT, or one that was fine-tuned.
        layer: Contextual encoders: whose states are taken, such as ``"last"``, ``-2`` or ``"last4"``; None: as the
            run does without being told, also for the next two.
        pooling: Contextual encoders: ``"mean"``, ``"max"``, ``"cls"`` or ``"pooler"``; of language models ``"last"``.
        normalise: Whether vectors have the length 1.
        concat: Contextual encoders: whether several layers are put side by side.
        weighting: Word vectors: ``"mean"`` or ``"sif"``.
        device: Where a neural model computes: ``"auto"``, ``"cpu"`` or ``"cuda"``.

    Attributes:
        vector_size_: Numbers of a vector, M.

    Example:
        >>> words = TextEncoder("runs/words").fit_transform(["a film", "a play"])    # doctest: +SKIP
    """

    def __init__(
        self,
        run: str | Path,
        *,
        layer: int | str | None = None,
        pooling: str | None = None,
        normalise: bool | None = None,
        concat: bool = False,
        weighting: str = "mean",
        device: str = "auto",
    ) -> None:
        self.run = run
        self.layer = layer
        self.pooling = pooling
        self.normalise = normalise
        self.concat = concat
        self.weighting = weighting
        self.device = device

    def fit(self, X: Sequence[str], y: Any = None) -> Self:  # noqa: ANN401  scikit-learn's names
        """Checks texts X [N], the run and the settings; learns nothing.

        Raises:
            SettingError: if X are no texts, or the run has no such layer, pooling or setting.
            RunError: if there is no such run, or it has no vectors of texts.
        """
        texts = texts_of(X)
        self.__dict__.pop("_opened", None)  # it may have been trained anew
        self.vector_size_ = int(self._vectors(texts[:1] or ["a"]).shape[1])
        return self

    def transform(self, X: Sequence[str]) -> npt.NDArray[np.float32]:
        """Returns the vectors of texts X, float32 [N, M].

        Raises:
            SettingError, RunError: as :meth:`fit`.
        """
        return self._vectors(texts_of(X))

    @property
    def _n_features_out(self) -> int:
        return self.vector_size_

    def _vectors(self, texts: list[str]) -> npt.NDArray[np.float32]:
        for name in ("normalise", "concat"):
            if not isinstance(value := getattr(self, name), bool | np.bool_ | None):
                raise SettingError(f"{name}={value!r}: expected True or False")
        given = {"layer": self.layer, "pooling": self.pooling, "concat": self.concat or None}
        options = {name: value for name, value in given.items() if value is not None}
        found = self._run().embed(texts, weighting=self.weighting, normalise=self.normalise, **options)  # type: ignore[arg-type]
        return np.asarray(found, np.float32)

    def _run(self) -> Run:
        """Returns the run, which keeps its model in memory."""
        if not isinstance(self.run, str | Path):
            kind = type(self.run).__name__
            raise SettingError(f"run: expected the folder of a run, not a {kind}; of a Run give its path")
        kept: Run | None = vars(self).get("_opened")
        if kept is None or (kept.path, kept.device) != (Path(self.run), self.device):
            kept = self._opened = Run(self.run, self.device)
        return kept

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.transformer_tags.preserves_dtype = []  # texts become numbers
        return tags

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_opened"}


class WenmaiClassifier(OfTexts, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
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
        task = find_system(self.system).load()
        if "classify" not in task.verbs:
            raise SettingError(f"{self.system} does not classify texts; expected fasttext-supervised or classifier")
        Recipe.build(self.system, task.sections, self.settings)  # other arguments of a training are none of its own
        texts = texts_of(X)
        self.classes_, numbers = numbered(self, texts, y)
        labelled = [(text, str(number)) for text, number in zip(texts, numbers.tolist(), strict=True)]
        with passing_folder() as folder:
            run = train(self.system, labelled, out=self.out or folder / "run", quiet=True, **self.settings)
            self.model_ = run.model
        return self

    def predict(self, X: Sequence[str]) -> npt.NDArray[Any]:
        """Returns the most likely label of each text."""
        best = self._numbers(X).argmax(axis=1)
        found: npt.NDArray[Any] = self.classes_[best]
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
        given = texts_of(texts)
        found = np.zeros((len(given), self.classes_.size))
        for row, labels in zip(found, self.model_.predict(given, k=-1), strict=True):
            for label, number in labels:
                row[int(label)] = number
        return found


def numbered(estimator: BaseEstimator, texts: Sequence[Any], y: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:  # noqa: ANN401
    """Returns the classes, sorted, and the number of the class of each text.

    Raises:
        ValueError: if there are no labels, not as many as texts, labels of several types, or not at least two classes.
    """
    name = type(estimator).__name__
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None")
    mixed = ValueError(
        f"{name}: y has labels of several types, or missing ones; expected all texts, or all whole numbers"
    )
    given = list(y) if isinstance(y, Iterator) else y
    if hasattr(given, "to_numpy"):  # whole numbers of a data frame, where some may be missing, would become fractions
        given = given.to_numpy()
    if isinstance(given, list | tuple) and len({isinstance(label, str) for label in given}) > 1:
        raise mixed  # numpy would write all of them as text
    labels = column_or_1d(given, warn=True)
    check_consistent_length(texts, labels)
    if labels.dtype.kind in "OT":  # of any objects, or of texts
        found = labels.tolist()
        written = {isinstance(label, str) for label in found}
        labels = np.array(found, object if True in written else None)
        if len(written) > 1 or labels.ndim > 1 or (labels.dtype == object and True not in written):
            raise mixed
    try:
        check_classification_targets(labels)
        classes, numbers = np.unique(labels, return_inverse=True)
    except TypeError:
        raise mixed from None
    if classes.size < 2:
        one = repr(classes.tolist()[0]) if classes.size else "none"
        raise ValueError(f"{name}: all {len(texts)} texts are of one class, {one}; expected at least 2")
    return classes, numbers


def texts_of(given: Any) -> list[str]:  # noqa: ANN401
    """Returns texts as a list; a table may have one column.

    Raises:
        SettingError: if they are none.
    """
    if hasattr(given, "to_numpy"):  # whose elements are the names of its columns
        given = given.to_numpy()
    if getattr(given, "ndim", 1) == 2 and given.shape[1] == 1:
        given = given[:, 0]
    if isinstance(given, str) or not isinstance(given, Iterable) or getattr(given, "ndim", 1) == 0:
        raise SettingError("expected a sequence of texts (strings)")
    texts = list(given)
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise SettingError(
                f"expected a sequence of texts (strings); item {number} is {text!r:.60} (give '' where there is none)"
            )
    return texts
