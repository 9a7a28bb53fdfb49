"""Fine-tuning in scikit-learn's shape: a classifier of texts or of pairs of texts."""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from wenmai.config.recipe import Recipe, is_setting, named_settings
from wenmai.core.aliases import nearest_setting
from wenmai.core.errors import FormatError, RunError, SettingError, is_ordered
from wenmai.core.folder import read_json_object, writing_json
from wenmai.core.registry import find_system
from wenmai.data.typed import WeightedPair, WeightedText
from wenmai.formats.format import require_free
from wenmai.runs.estimators import OfTexts, numbered, texts_of
from wenmai.runs.explaining import passing_folder
from wenmai.runs.finetune import finetune
from wenmai.runs.formats import make_run
from wenmai.training.run import Run

__all__ = ["FineTunedClassifier", "read_classes"]

_CLASSES = "classes.json"
_SYSTEMS = ("finetuned-classification", "finetuned-pair")
_SMALL: dict[str, Any] = {"num_layers": 2, "hidden_size": 128, "num_heads": 2, "max_length": 512, "kind": "wordpiece"}
_PIECES = 8192
_MADE = {"imported": "wenmai.sklearn"}  # as runs say whose text is not known

Inputs = list[str] | list[tuple[str, str]]


class FineTunedClassifier(OfTexts, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """An encoder that learns the classes of texts, or of pairs of texts; see :func:`wenmai.finetune`.

    What is pickled or copied has the files of the model, and no object of torch. But unpickling runs whatever a pickle
    says, as always; :meth:`save` and :meth:`load` keep a classifier in files that hold numbers and texts alone.

    Args:
        run: The folder of a run whose encoder is fine-tuned; None: a small BERT from scratch, 2 layers of 128 units
            with a vocabulary of the texts.
        mode: What is trained: ``"full"``, ``"top"``, ``"frozen"``, ``"mix"`` or ``"lora"``; None: everything, of ELMo
            the mix. None is the default of the training also for the following.
        epochs: Passes over the texts; None: 3, or of few texts as many as make 600 updates, 20 at most.
        learning_rate: The highest one.
        batch_size: Most texts of a batch.
        max_length: Most tokens that are read of a text, special ones included.
        class_weight: ``"balanced"``: rare classes count more; or how much each class counts, a class without a number
            once.
        valid_share: Share of the texts that is set aside to choose the best state by; 0: all are trained on, and the
            last state is taken.
        seed: Decides all random draws.
        device: Where it is trained and computes: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        out: The run folder to make. None: a temporary one, of which the model is kept in memory.
        **settings: Any other setting of fine-tuning, such as ``lora_rank=4``; also parameters for ``set_params`` and
            for searches.

    Attributes:
        classes_: The classes, sorted.
        model_: The model, with the verbs of its run.
        summary_: What the training ended with, such as ``loss`` and ``seconds``.

    Example:
        >>> model = FineTunedClassifier("runs/bert", epochs=2)                       # doctest: +SKIP
        >>> model.fit(["a good film", "a bad film"], [1, 0]).predict(["good"])       # doctest: +SKIP
    """

    def __init__(
        self,
        run: str | Path | None = None,
        *,
        mode: str | None = None,
        epochs: int | None = None,
        learning_rate: float | None = None,
        batch_size: int | None = None,
        max_length: int | None = None,
        class_weight: str | Mapping[Any, float] | None = None,
        valid_share: float = 0.0,
        seed: int = 1,
        device: str = "auto",
        out: str | Path | None = None,
        **settings: Any,  # noqa: ANN401  checked against the settings of the training
    ) -> None:
        self.run = run
        self.mode = mode
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_length = max_length
        self.class_weight = class_weight
        self.valid_share = valid_share
        self.seed = seed
        self.device = device
        self.out = out
        # Others are checked by ``fit``, as in all of scikit-learn; these it would not find, or not be found.
        self._require_known([name for name in settings if name.strip("_") != name or hasattr(type(self), name)], ())
        self.__dict__.update(settings)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Returns all parameters, the other settings among them."""
        own: dict[str, Any] = super().get_params(deep)
        others = (name for name in vars(self) if not name.startswith("_") and not name.endswith("_"))
        return own | {name: getattr(self, name) for name in others if name not in own}

    def set_params(self, **params: Any) -> Self:  # noqa: ANN401
        """Changes parameters, or other settings.

        Raises:
            SettingError: for a name that is neither.
        """
        self._require_known(params, self.get_params())
        self.__dict__.update(params)
        return self

    def _require_known(self, names: Iterable[str], own: Iterable[str]) -> None:
        """Makes sure that names are some of its own, or settings of the training."""
        others = {name: name for name in names if name not in own}
        sections = find_system("finetuned-classification").load().sections
        for name, setting in zip(others, named_settings(sections, others), strict=True):
            if not is_setting(sections, setting):
                hint = nearest_setting(name, [field.name for kind in sections.values() for field in fields(kind)])
                raise SettingError(f"{name!r} is no parameter or setting of {type(self).__name__}{hint}")

    def fit(self, X: Sequence[Any], y: Any, sample_weight: Any = None) -> Self:  # noqa: ANN401  scikit-learn's names
        """Fine-tunes the encoder on texts or pairs of texts X [N], and labels y [N].

        Args:
            X: Texts, or pairs of texts.
            y: Their labels.
            sample_weight: (N,) how much each counts: the loss is the weighted mean; those of weight 0 are left out.
                None: all alike.

        Raises:
            SettingError: for an unknown setting, or a run whose encoder cannot be fine-tuned.
            RunError: if there is no such run, or ``out`` exists already.
            ValueError: if there are not as many labels, or weights, as texts, fewer than two classes, or a weight is
                negative or not finite.
        """
        self._require_known(self.get_params(), self._get_param_names())
        inputs = _inputs(X)
        classes, numbers = numbered(self, inputs, y)
        if classes.dtype.kind not in "OUifub":
            raise ValueError(
                f"y has labels of the type {classes.dtype}, which runs do not keep; expected texts or numbers"
            )
        labels = [str(label) for label in classes.tolist()]
        if len(set(labels)) < len(labels):
            raise ValueError(f"two classes are written alike: {', '.join(labels)}")
        paired = bool(inputs) and isinstance(inputs[0], tuple)
        named = [labels[number] for number in numbers.tolist()]
        settings = {name: value for name, value in self.get_params().items() if value is not None}
        by_class = settings.pop("class_weight") if isinstance(self.class_weight, Mapping) else None
        weights = _weights(sample_weight, by_class, classes, numbers)
        kind: Any = WeightedPair if paired else WeightedText
        rows = zip(inputs, named, weights.tolist(), strict=True)
        examples = [kind(*(given if paired else (given,)), label, weight) for given, label, weight in rows if weight]
        start, out = settings.pop("run", None), settings.pop("out", None)
        with passing_folder() as folder:
            fresh = start is None
            if start is None:
                if out is not None:
                    require_free(out)
                texts = (text for given in inputs for text in (given if isinstance(given, tuple) else (given,)))
                start = _fresh(folder / "fresh", texts)
                settings = {"scratch": True, **settings}
            task = "pair" if paired else "classification"
            target = folder / "run" if fresh or out is None else out
            made = finetune(start, examples, task=task, out=target, quiet=True, **settings)
            self._take(made, classes)
            if fresh and out is not None:
                self.save(out)  # without where it began, which is gone
            elif out is not None:
                _write_classes(made.path, classes)
        return self

    def predict(self, X: Sequence[Any]) -> npt.NDArray[Any]:
        """Returns the most probable class of each text or pair, [N]."""
        best = self.predict_proba(X).argmax(axis=1)
        found: npt.NDArray[Any] = self.classes_[best]
        return found

    def predict_proba(self, X: Sequence[Any]) -> npt.NDArray[np.float64]:
        """Returns the probability of each class for each text or pair, float64 [N, classes].

        Raises:
            NotFittedError: before :meth:`fit`.
            SettingError: if X are not the texts, or pairs of texts, that the model was trained on.
        """
        check_is_fitted(self)
        given = _inputs(X)
        found = np.zeros((len(given), self.classes_.size))
        places = {str(label): place for place, label in enumerate(self.classes_.tolist())}
        found[:, [places[label] for label in self.model_.labels]] = self.model_.probabilities(given)
        return found

    # --- files ------------------------------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> Path:
        """Writes the classifier as a run, which all commands take, such as ``wenmai classify``; :meth:`load` reads it.

        Raises:
            NotFittedError: before :meth:`fit`.
            RunError: if the folder is not new or empty.
        """
        check_is_fitted(self)
        run = make_run(Path(folder), self._recipe, self.model_.save, self.summary_ | _MADE)
        _write_classes(run.path, self.classes_)
        return run.path

    @classmethod
    def load(cls, folder: str | Path, *, device: str = "auto") -> Self:
        """Reads what :meth:`save` wrote, or any run that was fine-tuned for classification or pairs.

        The parameters are those of the training, so that a clone can be fitted anew, but for ``class_weight`` where it
        was a mapping, which a run does not keep.

        Raises:
            RunError: if there is no such run.
            FormatError: if a file is damaged.
        """
        run = Run(folder, device)
        if run.recipe.system not in _SYSTEMS:
            raise RunError(f"{run.path}: is a run of {run.recipe.system}; expected one of {' or '.join(_SYSTEMS)}")
        own: set[str] = set(cls._get_param_names())
        given: dict[str, Any] = {"run": run.recipe.start, "device": device}
        for section in run.recipe.sections.values():
            usual = type(section)()
            given |= {
                field.name: value
                for field in fields(section)
                if field.name not in given
                and ((value := getattr(section, field.name)) != getattr(usual, field.name) or field.name in own)
            }
        found = cls(**given)
        found._take(run, read_classes(run.path / _CLASSES, run.model.labels))
        return found

    def _take(self, run: Run, classes: npt.NDArray[Any]) -> None:
        """Takes the model of a finished run."""
        self.classes_, self.summary_ = classes, run.summary
        start = None if self.run is None else run.recipe.start  # a fresh one is gone
        self._recipe, self.model_ = replace(run.recipe, start=start), Run(run.path, self.device).model

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        if "model_" in state:
            with tempfile.TemporaryDirectory(prefix="wenmai-") as folder:
                state["model_"].save(Path(folder))
                files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
                state["model_"] = {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        files = state.get("model_")
        if files is None:
            return
        with tempfile.TemporaryDirectory(prefix="wenmai-") as folder:
            run = make_run(Path(folder) / "run", self._recipe, lambda inside: _written(files, inside), _MADE)
            self.model_ = Run(run.path, self.device).model


def _written(files: dict[str, bytes], folder: Path) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def _weights(
    given: Any,  # noqa: ANN401  numbers, a column ...
    by_class: Mapping[Any, float] | None,
    classes: npt.NDArray[Any],
    numbers: npt.NDArray[np.int64],
) -> npt.NDArray[np.float64]:
    """Returns the weight of each of N examples: its own, times that of its class.

    Raises:
        ValueError: if there are not N, one is negative or not finite, or a class is unknown or has no example left.
    """
    weights = np.ones(len(numbers)) if given is None else _numbers("sample_weight", given)
    if weights.shape != numbers.shape:
        raise ValueError(f"sample_weight: expected {len(numbers)} numbers, one a text, not the shape {weights.shape}")
    known = classes.tolist()
    if by_class is not None:
        if unknown := [name for name in by_class if name not in known]:
            raise ValueError(f"class_weight: {unknown[0]!r} is none of the classes, {', '.join(map(str, known))[:200]}")
        weights = weights * _numbers("class_weight", [by_class.get(name, 1.0) for name in known])[numbers]
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise ValueError("weights of examples and classes: expected finite numbers from 0 on")
    if len(set(numbers[weights > 0].tolist())) < 2:
        raise ValueError("fewer than two classes have an example with a weight above 0")
    return weights


def _numbers(name: str, given: npt.ArrayLike) -> npt.NDArray[np.float64]:
    try:
        return np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: expected numbers, none missing, not {given!r:.60}") from None


def _inputs(given: Any) -> Inputs:  # noqa: ANN401
    """Returns texts, or pairs of texts: of lists, arrays and columns of data frames.

    Raises:
        SettingError: if they are something else.
    """
    if hasattr(given, "to_numpy"):  # a column, or two, of a data frame
        given = given.to_numpy()
    if getattr(given, "shape", ())[1:] == (1,):
        given = given[:, 0]
    if not is_ordered(given) or getattr(given, "ndim", 1) == 0:
        raise SettingError("expected a sequence of texts (strings), or of pairs of texts")
    items = list(given)
    if items and not isinstance(items[0], str):
        pairs: list[Any] = [tuple(item) if is_ordered(item) else () for item in items]
        for number, pair in enumerate(pairs):
            if len(pair) != 2 or not all(isinstance(text, str) for text in pair):
                raise SettingError(
                    f"expected a sequence of texts (strings), or of pairs of texts; item {number} is "
                    f"{pair or items[number]!r:.60} (give '' where there is none)"
                )
        return pairs
    return texts_of(items)


def _fresh(folder: Path, texts: Iterable[str]) -> Path:
    """Makes the run of a small BERT that has learnt nothing, with the vocabulary of some texts."""
    from wenmai.inference.masked_model import MaskedModel, build
    from wenmai.text.tokenizer import Tokenizer, TokenizerConfig

    system = find_system("bert")
    recipe = Recipe.build("bert", system.load_sections(), {**_SMALL, "vocab_size": _PIECES})
    pieces = TokenizerConfig(kind="wordpiece", vocab_size=_PIECES, min_count=1)
    tokenizer = Tokenizer.train(texts, pieces, roles=("cls", "sep", "mask"))
    model = MaskedModel(build(system.load_model(), recipe.sections["model"], tokenizer), tokenizer)
    return make_run(folder, recipe, model.save, {"vocabulary": tokenizer.vocab_size, **_MADE}).path


def _write_classes(folder: Path, classes: npt.NDArray[Any]) -> None:
    writing_json(folder / _CLASSES, {"version": 1, "classes": classes.tolist()})


def read_classes(path: Path, labels: Sequence[str]) -> npt.NDArray[Any]:
    """Returns the classes of a run: those that were written beside it, else its labels, sorted.

    Raises:
        FormatError: if they are not those of its labels.
    """
    if not path.exists():
        return np.array(sorted(labels))
    content = read_json_object(path).get("classes")
    found = content if isinstance(content, list) else []
    kinds = {type(one) for one in found}
    plain = len(kinds) == 1 and kinds <= {str, int, float, bool}
    if not plain or len(set(map(str, found))) < len(found) or not set(labels) <= set(map(str, found)):
        raise FormatError(f"{path}: is damaged: its classes are not those of the model, {', '.join(labels)[:200]}")
    return np.array(found)
