"""A trained linear classifier of texts, and its files."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
import numpy.typing as npt
from annotated_types import Ge
from typing_extensions import Doc

from wenmai.core.errors import FormatError, SettingError, require_label_count, require_list
from wenmai.core.showing import Shown
from wenmai.core.tensors import require_finite, tensor_file, write_tensors
from wenmai.data.features import NGRAMS, FeaturesConfig, NgramFeatures, VectorFeatures, segmented
from wenmai.models.folder import CONFIG, read_fields, read_settings, write_fields
from wenmai.text.settings import TextConfig
from wenmai.training.run import Run
from wenmai.vectors.pooling import TokenVectors, token_encoder

if TYPE_CHECKING:
    from wenmai.kernels.descent import Objective

__all__ = ["LinearClassifierConfig", "LinearTextClassifier", "load_encoder", "read_tensors"]

Method = Literal["softmax", "logistic", "perceptron", "least-squares"]

TENSORS, ENCODER = "model.safetensors", "encoder"


@dataclass(frozen=True, kw_only=True, slots=True)
class LinearClassifierConfig:
    """The linear model."""

    kind: Annotated[Literal["linear"], Doc("the architecture")] = "linear"
    method: Annotated[
        Method,
        Doc(
            "softmax: softmax regression; logistic: logistic regression, one class against the rest; perceptron: the "
            "averaged perceptron; least-squares: least squares on the numbers -1 and +1"
        ),
    ] = "softmax"
    l2: Annotated[
        float | None, Ge(0), Doc("times the squared length of the weights is added to the loss; none: the method's own")
    ] = None

    @property
    def objective(self) -> "Objective":
        """The name of the loss in the kernels."""
        return "squared" if self.method == "least-squares" else self.method


class LinearTextClassifier(Shown):
    """A trained classifier of texts.

    Attributes:
        labels: The classes.
        probabilistic: Whether the numbers of :meth:`predict` are probabilities. A perceptron and least squares have
            scores only; their numbers are (1 + s / (1 + abs(s))) / 2 of the score s, between 0 and 1 and in the order
            of the scores; no threshold makes sense for them.
        config: The linear model.
        text: How texts become tokens.
    """

    def __init__(
        self,
        labels: Sequence[str],
        config: LinearClassifierConfig,
        text: TextConfig,
        features: NgramFeatures | VectorFeatures,
        weights: npt.NDArray[Any],
        bias: npt.NDArray[Any],
    ) -> None:
        """Makes a model of its parts.

        Args:
            labels: The classes.
            config: The linear model.
            text: How texts become tokens.
            features: Turns tokens into features.
            weights: [D, K], with K = 1 for two classes unless the method is softmax.
            bias: [K].
        """
        self.labels = list(labels)
        self.config = config
        self.text = text
        self.features = features
        self.weights = weights
        self.bias = bias

    def _facts(self) -> dict[str, Any]:
        sizes = {"labels": len(self.labels), "features": len(self.weights)}
        return {"method": self.config.method, **sizes, "segment": self.text.segment}

    @property
    def probabilistic(self) -> bool:
        """Whether the numbers of :meth:`predict` are probabilities."""
        return self.config.method in ("softmax", "logistic")

    def predict(self, texts: Iterable[str], k: int = 1, threshold: float = 0.0) -> list[list[tuple[str, float]]]:
        """Returns the most likely labels of each text, best first.

        Args:
            texts: Texts, segmented here as the training texts were.
            k: Most labels of a text; -1 for all.
            threshold: Labels that are less probable are left out.

        Raises:
            SettingError: if ``k`` is out of range, or for a threshold if the model has no probabilities.
        """
        require_list(texts, "predict")
        require_label_count(k)
        if threshold > 0 and not self.probabilistic:
            raise SettingError(f"{self.config.method} has scores but no probabilities, so no threshold can be set")
        tokens = segmented(list(texts), self.text)
        if not tokens:
            return []
        numbers = self.numbers(tokens)
        best = np.argsort(-numbers, axis=1, kind="stable")[:, : None if k < 0 else k]
        return [
            [(self.labels[place], float(row[place])) for place in places if row[place] >= threshold]
            for row, places in zip(numbers, best, strict=True)
        ]

    def numbers(self, tokens: Sequence[Sequence[str]]) -> npt.NDArray[np.float64]:
        """Returns the numbers of :meth:`predict` for all labels, float64 [N, labels], for texts cut into tokens."""
        from wenmai.kernels.descent import probabilities

        scores = self.features.transform(tokens) @ self.weights + self.bias
        if self.probabilistic:
            return probabilities(self.config.objective, scores)
        if scores.shape[1] == 1:
            scores = np.hstack([-scores, scores])
        squashed: npt.NDArray[np.float64] = (1 + scores / (1 + np.abs(scores))) / 2
        return squashed

    def save(self, folder: Path) -> None:
        """Writes ``config.json``, ``model.safetensors`` and the vocabulary, if there is one."""
        write_fields(
            folder,
            labels=self.labels,
            model=asdict(self.config),
            text=asdict(self.text),
            features=asdict(self.features.config),
        )
        kept = self.features.save(folder) | {"weights": self.weights, "bias": self.bias}
        write_tensors(folder / TENSORS, {name: value.astype(np.float32) for name, value in kept.items()})

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Reads what :meth:`save` wrote.

        Raises:
            FormatError: if it is damaged.
        """
        path, found = folder / CONFIG, read_fields(folder)
        labels = found.get("labels")
        if not isinstance(labels, list) or not all(type(label) is str for label in labels):
            raise FormatError(f"{path}: 'labels' is not a list of strings")
        config = read_settings(path, LinearClassifierConfig, found.get("model"), "classifier")
        text = read_settings(path, TextConfig, found.get("text"), "text")
        wanted = read_settings(path, FeaturesConfig, found.get("features"), "features")
        tensors = read_tensors(folder / TENSORS)
        features: NgramFeatures | VectorFeatures
        if wanted.features == NGRAMS:
            features = NgramFeatures.load(wanted, folder, tensors)
        else:
            features = VectorFeatures.load(wanted, load_encoder(folder / ENCODER), folder, tensors)
        width = 1 if len(labels) == 2 and config.method != "softmax" else len(labels)
        for name, shape in (("weights", (features.size, width)), ("bias", (width,))):
            if name not in tensors or tensors[name].shape != shape:
                raise FormatError(f"{folder / TENSORS}: the tensor {name!r} does not have the shape {shape}")
        return cls(labels, config, text, features, tensors["weights"].astype(np.float64), tensors["bias"])


def load_encoder(folder: Path) -> TokenVectors:
    """Reads the model of a finished run that gives tokens vectors.

    Raises:
        RunError: if there is no finished run, or its model has no vectors.
    """
    run = Run(folder)
    return token_encoder(run.model, run.recipe.system)


def read_tensors(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Reads all tensors of a safetensors file.

    Raises:
        FormatError: if it is missing or damaged, or has numbers that are not finite.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        found = load_file(tensor_file(path))
    except (OSError, SafetensorError) as error:
        raise FormatError(f"{path}: is not a whole safetensors file ({error})") from None
    for name, values in found.items():
        require_finite(path, name, values)
    return found
