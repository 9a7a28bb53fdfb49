"""fastText classifiers: texts in, labels and probabilities out."""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import SettingError, require_list
from wenmai.core.folder import read_json_object, writing_json
from wenmai.core.showing import Shown
from wenmai.data.encoded_labelled import words_of
from wenmai.models.fasttext import FastText
from wenmai.models.folder import read_settings
from wenmai.text.settings import TextConfig
from wenmai.vectors.word_vectors import WordVectors

__all__ = ["TextClassifier"]


class TextClassifier(Shown):
    """A trained classifier, which cuts texts into words as in training.

    Attributes:
        model: The parameters.
        text: How a text becomes words; the default for imported models.
    """

    def __init__(self, model: FastText, text: TextConfig | None = None) -> None:
        if model.labels is None:
            raise SettingError("these are fastText word vectors, which have no labels")
        self.model = model
        self.text = text or TextConfig()
        self.labels: list[str] = list(model.labels.tokens)
        self._plain = not self.text.lossy
        self._words = words_of(self.text)

    def __reduce__(self) -> tuple[type["TextClassifier"], tuple[FastText, TextConfig]]:
        return TextClassifier, (self.model, self.text)  # what cuts texts is made anew

    def _facts(self) -> dict[str, Any]:
        sizes = {"words": len(self.model.vocab), "dimensions": self.model.config.vector_size}
        return {"labels": len(self.labels), **sizes, "segment": self.text.segment}

    def predict(self, texts: Iterable[str], k: int = 1, threshold: float = 0.0) -> list[list[tuple[str, float]]]:
        """The most probable labels of each text with their probabilities, best first.

        Args:
            texts: Any number of them.
            k: Most labels of a text; -1 for all.
            threshold: Less probable labels are left out.
        """
        require_list(texts, "predict")
        if not self._plain:
            texts = [b" ".join(words).decode("utf-8", "surrogatepass") for words in self._words(list(texts))]
        return self.model.predict(texts, k, threshold)

    def embed(self, texts: Iterable[str]) -> npt.NDArray[np.float32]:
        """The hidden vectors of texts, (B, d)."""
        require_list(texts, "embed")
        prepared = [b" ".join(words).decode("utf-8", "surrogatepass") for words in self._words(list(texts))]
        vectors = [self.model.sentence_vector(text) for text in prepared]
        return np.stack(vectors) if vectors else np.empty((0, self.model.config.vector_size), np.float32)

    def vectors(self) -> WordVectors:
        """The vectors of the words."""
        return self.model.vectors()

    @classmethod
    def load(cls, folder: str | Path) -> "TextClassifier":
        """Reads a finished model folder.

        Raises:
            FormatError: if a file is missing, damaged, or does not fit the others.
        """
        path = Path(folder) / "text.json"
        if not path.exists():  # an imported model
            return cls(FastText.load(folder))
        text = read_settings(path, TextConfig, read_json_object(path), "text")
        return cls(FastText.load(folder), text)

    def save(self, folder: Path) -> None:
        """Writes the model and ``text.json``."""
        self.model.save(folder)
        writing_json(folder / "text.json", asdict(self.text))
