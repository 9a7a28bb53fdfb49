"""The object of the official module, over a model of ``wenmai.models.fasttext``."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from wenmai.fasttext.arguments import of_model
from wenmai.fasttext.errors import FastTextError, value_errors
from wenmai.fasttext.lines import decoded, lines_of_tokens, one_line, tokens_of
from wenmai.fasttext.meter import Meter
from wenmai.formats.fasttext import read_fasttext, write_fasttext
from wenmai.formats.fasttext.quantised import quantise_fasttext
from wenmai.models.fasttext import (
    END_OF_LINE,
    LABEL_PREFIX,
    FastText,
    FastTextClassifierConfig,
    rows_to_fill,
)
from wenmai.models.fasttext.reference import reference_length, reference_nearest, reference_units
from wenmai.text.vocab import Vocab

__all__ = ["FastTextModel"]

_AT_ONCE = 1024  # texts
Floats = npt.NDArray[np.float32]
Prediction = tuple[tuple[str, ...], npt.NDArray[np.float64]]
Predictions = tuple[list[list[str]], list[Floats]]


class FastTextModel:
    """A model with the methods of the official ``fasttext.FastText._FastText``.

    The arguments of the training (``lr``, ``dim``, ``ws``, ``epoch`` ...) are attributes.

    Args:
        model_path: The file to read.
        args: Arguments by their official names, as attributes; by default those of the model.
        model: The model, if there is no file.

    Raises:
        FastTextError: if the file cannot be read.
    """

    def __init__(
        self,
        model_path: str | Path | None = None,
        args: Mapping[str, Any] | None = None,
        *,
        model: FastText | None = None,
    ) -> None:
        if model is None:
            if model_path is None:
                raise FastTextError("name a file to read, or use load_model, train_supervised or train_unsupervised")
            if not Path(model_path).is_file():
                raise FastTextError(f"{model_path} cannot be opened for loading!")
            with value_errors():
                model = read_fasttext(model_path)
        self._model = model
        self.set_args(args)

    def set_args(self, args: Mapping[str, Any] | None = None) -> None:
        """Sets the arguments of the training as attributes."""
        for name, value in {**of_model(self._model), **(args or {})}.items():
            setattr(self, name, value)

    # --- facts ------------------------------------------------------------------------------------------------------

    def is_quantized(self) -> bool:
        """Whether the input matrix is quantised."""
        return not isinstance(self._model.input, np.ndarray)

    def get_dimension(self) -> int:
        """The numbers in a vector."""
        return self._model.config.vector_size

    @property
    def words(self) -> list[str]:
        """The words of the dictionary, the most frequent first."""
        return decoded(list(self._model.vocab.tokens), "strict")

    @property
    def labels(self) -> list[str]:
        """The labels of a classifier, with their prefix; of word vectors the words."""
        return self.words if self._model.kind != "supervised" else decoded(self._labels, "strict")

    def get_words(self, include_freq: bool = False, on_unicode_error: str = "strict") -> Any:  # noqa: ANN401
        """The words of the dictionary; with ``include_freq`` a pair of them and their counts."""
        words = decoded(list(self._model.vocab.tokens), on_unicode_error)
        return (words, self._model.vocab.counts.copy()) if include_freq else words

    def get_labels(self, include_freq: bool = False, on_unicode_error: str = "strict") -> Any:  # noqa: ANN401
        """The labels of the dictionary, or of word vectors the words; with ``include_freq`` also their counts."""
        if self._model.kind != "supervised":
            return self.get_words(include_freq, on_unicode_error)
        labels = decoded(self._labels, on_unicode_error)
        return (labels, self._vocab_of_labels.counts.copy()) if include_freq else labels

    def get_word_id(self, word: str) -> int:
        """The number of a word, or of a label behind those of all words; -1 if it is in the dictionary as neither."""
        number = self._model.vocab.get(word, -1)
        return number if number >= 0 or word not in self._label_ids else self._label_ids[word] + len(self._model.vocab)

    def get_label_id(self, label: str) -> int:
        """The number of a label; -1 if the dictionary does not have it."""
        return self._label_ids.get(label, -1)

    def __contains__(self, word: str) -> bool:
        return word in self._model.vocab

    # --- vectors ----------------------------------------------------------------------------------------------------

    def get_word_vector(self, word: str) -> Floats:
        """The vector (d,) of any word."""
        return self._model.vector(word)

    def __getitem__(self, word: str) -> Floats:
        return self.get_word_vector(word)

    def get_sentence_vector(self, text: str) -> Floats:
        """The vector (d,) of a line of text."""
        return self._model.sentence_vector(one_line(text, "predict"))

    def get_subword_id(self, subword: str) -> int:
        """The row of the input matrix that a subword is hashed to."""
        from wenmai.kernels.subwords import fnv1a

        if not (buckets := self._model.config.buckets):
            raise FastTextError("the model has no subwords: it has no buckets")
        return len(self._model.vocab) + fnv1a(subword.encode("utf-8", "surrogateescape")) % buckets

    def get_subwords(self, word: str, on_unicode_error: str = "strict") -> tuple[list[str], npt.NDArray[np.int64]]:
        """The word itself, if it is known, then its n-grams; and the row of each in the input matrix."""
        names, rows = self._model.subwords(word)
        return decoded(names, on_unicode_error), rows.astype(np.int64)

    def get_input_vector(self, ind: int) -> Floats:
        """A row (d,) of the input matrix."""
        if not 0 <= ind < len(self._model.input):
            raise IndexError(f"the input matrix has the rows 0 to {len(self._model.input) - 1}, not {ind}")
        row: Floats = self._model.means(np.array([0, 1]), np.array([ind], np.int32))[0]
        return row

    def get_input_matrix(self) -> Floats:
        """A copy of the input matrix (words and buckets, d).

        Raises:
            FastTextError: if it is quantised.
        """
        return self._matrix("input")

    def get_output_matrix(self) -> Floats:
        """A copy of the output matrix (labels or words, d).

        Raises:
            FastTextError: if the model is quantised.
        """
        return self._matrix("output")

    def set_matrices(self, input_matrix: npt.NDArray[Any], output_matrix: npt.NDArray[Any]) -> None:
        """Replaces both matrices; their vectors may have another size.

        Raises:
            FastTextError: if they have not the rows of the model, or vectors of two sizes.
        """
        model, shapes = self._model, (np.shape(input_matrix), np.shape(output_matrix))
        width = shapes[0][-1] if shapes[0] else 0
        if width == 0 or shapes != ((len(model.input), width), (len(model.output), width)):
            expected = f"({len(model.input)}, d) and ({len(model.output)}, d)"
            raise FastTextError(f"matrices of {shapes[0]} and {shapes[1]}; expected {expected}")
        padded = []
        for matrix in (input_matrix, output_matrix):
            rows = rows_to_fill(len(matrix), width)
            rows[:, :width] = matrix
            padded.append(rows)
        self._replace(
            FastText(
                replace(model.config, vector_size=width),
                model.vocab,
                model.labels,
                tokens=model.tokens,
                input=padded[0],
                output=padded[1],
                kept_buckets=model.kept_buckets,
                arguments={**(model.arguments or {}), "vector_size": width},
                label_prefix=model.label_prefix,
            )
        )

    def get_nearest_neighbors(
        self, word: str, k: int = 10, on_unicode_error: str = "strict"
    ) -> list[tuple[float, str]]:
        """The ``k`` words of the dictionary nearest to a word, each after its cosine."""
        return self._nearest(self.get_word_vector(word), [word], k, on_unicode_error)

    def get_analogies(
        self, wordA: str, wordB: str, wordC: str, k: int = 10, on_unicode_error: str = "strict"
    ) -> list[tuple[float, str]]:
        """The words nearest to A - B + C, of vectors of length 1, each after its cosine."""
        query = np.zeros(self.get_dimension(), np.float32)
        for word, sign in ((wordA, 1.0), (wordB, -1.0), (wordC, 1.0)):
            vector = self.get_word_vector(word)
            query += np.float32(sign / (reference_length(vector) + 1e-8)) * vector
        return self._nearest(query, [wordA, wordB, wordC], k, on_unicode_error)

    # --- labels -----------------------------------------------------------------------------------------------------

    @overload
    def predict(
        self, text: str, k: int = 1, threshold: float = 0.0, on_unicode_error: str = "strict"
    ) -> Prediction: ...
    @overload
    def predict(
        self, text: list[str], k: int = 1, threshold: float = 0.0, on_unicode_error: str = "strict"
    ) -> Predictions: ...
    def predict(
        self, text: str | list[str], k: int = 1, threshold: float = 0.0, on_unicode_error: str = "strict"
    ) -> Prediction | Predictions:
        """The ``k`` most probable labels (-1: all) of a line of text and their probabilities, or of each of a list.

        Raises:
            FastTextError: if a text has several lines, ``k`` is no number of labels, or the model is no classifier.
        """
        texts = [one_line(entry, "predict") for entry in (text if isinstance(text, list) else [text])]
        names, found = decoded(self._labels, on_unicode_error), list(self._predict(texts, k, threshold))
        labels = [[names[number] for number in ids or ()] for ids, _ in found]
        if isinstance(text, list):
            return labels, [chances for _, chances in found]
        return tuple(labels[0]), found[0][1].astype(np.float64)

    def get_line(self, text: str | list[str], on_unicode_error: str = "strict") -> tuple[list[Any], list[Any]]:
        """The words and the known labels of a line of text, which ends with ``</s>``; or of each of a list."""
        if isinstance(text, list):
            pairs = [self.get_line(entry, on_unicode_error) for entry in text]
            return [words for words, _ in pairs], [labels for _, labels in pairs]
        words: list[str] = []
        labels: list[str] = []
        for token in tokens_of(one_line(text, "get_line") + "\n"):
            if token in self._label_ids:
                labels.append(token)
            elif token in self._model.vocab or not token.startswith(LABEL_PREFIX):
                words.append(token)
            if token == END_OF_LINE:
                break
        return decoded(words, on_unicode_error), decoded(labels, on_unicode_error)

    def test(self, path: str | Path, k: int = 1, threshold: float = 0.0) -> tuple[int, float, float]:
        """How many lines of a file have a known label and a feature, and precision and recall at ``k`` on them."""
        meter = self._measured(path, k, threshold)
        return meter.examples, meter.total.precision, meter.total.recall

    def test_label(self, path: str | Path, k: int = 1, threshold: float = 0.0) -> dict[str, dict[str, float]]:
        """``precision``, ``recall`` and ``f1score`` of each label on the lines of a file."""
        meter = self._measured(path, k, threshold)
        tallies = {label: meter.of(number) for number, label in enumerate(self._labels)}
        return {
            label: {"precision": tally.precision, "recall": tally.recall, "f1score": tally.f1score}
            for label, tally in tallies.items()
        }

    def get_meter(self, path: str | Path, k: int = -1) -> Meter:
        """The probabilities of ``k`` labels (-1: all) of each line of a file, for curves of precision and recall."""
        return self._measured(path, k, 0.0)

    # --- files and sizes --------------------------------------------------------------------------------------------

    def save_model(self, path: str | Path) -> None:
        """Writes a file that the official programs read.

        Raises:
            FastTextError: if it cannot be written.
        """
        with value_errors():
            try:
                write_fasttext(path, self._model)
            except OSError as error:
                raise FastTextError(f"{path} cannot be opened for saving! ({error.strerror})") from None

    def quantize(
        self,
        input: str | Path | None = None,
        qout: bool = False,
        cutoff: int = 0,
        retrain: bool = False,
        epoch: int | None = None,
        lr: float | None = None,
        thread: int | None = None,
        verbose: int | None = None,
        dsub: int = 2,
        qnorm: bool = False,
    ) -> None:
        """Makes a classifier small, in place: keeps ``cutoff`` rows, trains them on ``input``, quantises.

        Raises:
            FastTextError: if the model is no classifier, quantised already or has fewer than 256 rows, or ``retrain``
                has no ``input``.
        """
        from wenmai.fasttext.training import train_again

        if retrain and not input:
            raise FastTextError("Need input file path if retraining")
        again = None
        if retrain and input:
            given = {"epoch": epoch, "lr": lr, "thread": thread, "verbose": verbose}
            args = {name: value or getattr(self, name, None) for name, value in given.items()}
            again = train_again(input, {name: value for name, value in args.items() if value is not None})
        with value_errors():
            self._replace(
                quantise_fasttext(self._model, cutoff=cutoff, norms=qnorm, output=qout, part=dsub, retrain=again)
            )

    # --- what they are made of --------------------------------------------------------------------------------------

    def _replace(self, model: FastText) -> None:
        self._model = model
        self.set_args()
        self.__dict__.pop("_units", None)

    @cached_property
    def _units(self) -> Floats:
        return reference_units(self._model.means(*self._model.subword_table))

    @property
    def _vocab_of_labels(self) -> Vocab:
        return self._model.labels if self._model.labels is not None else Vocab([], [])

    @cached_property
    def _labels(self) -> list[str]:
        return [self._model.label_prefix + label for label in self._vocab_of_labels.tokens]

    @cached_property
    def _label_ids(self) -> dict[str, int]:
        return {label: number for number, label in enumerate(self._labels)}

    def _matrix(self, name: str) -> Floats:
        matrix = getattr(self._model, name)
        if self.is_quantized() or not isinstance(matrix, np.ndarray):
            raise FastTextError("Can't get quantized Matrix")
        copied: Floats = matrix[:, : self.get_dimension()].copy()
        return copied

    def _nearest(self, query: Floats, banned: Sequence[str], k: int, on_unicode_error: str) -> list[tuple[float, str]]:
        known = [number for word in banned if (number := self._model.vocab.get(word)) is not None]
        found = reference_nearest(self._units, query, k, known) if k > 0 else []
        words = decoded([self._model.vocab.tokens[number] for _, number in found], on_unicode_error)
        return [(score, word) for (score, _), word in zip(found, words, strict=True)]

    def _predict(self, texts: Sequence[str], k: int, threshold: float) -> Iterator[tuple[list[int] | None, Floats]]:
        """Yields the ids of the labels of each text and their probabilities, best first; None if it has no features."""
        config = self._model.config
        if not isinstance(config, FastTextClassifierConfig):
            raise FastTextError("Model needs to be supervised for prediction!")
        if k < 1 and k != -1:
            raise FastTextError("k needs to be 1 or higher!")
        k = len(self._labels) if k == -1 else k
        for start in range(0, len(texts), _AT_ONCE):
            hidden, known = self._model.hidden(texts[start : start + _AT_ONCE])
            found = self._model.reference_labels(hidden, config.loss, k, threshold)
            chances = np.exp(found.scores)
            for text, count in enumerate((found.counts * known).tolist()):
                yield (found.ids[text, :count].tolist() if known[text] else None), chances[text, :count].copy()

    def _measured(self, path: str | Path, k: int, threshold: float) -> Meter:
        meter = Meter(self.get_label_id)
        texts: list[str] = []
        gold: list[list[int]] = []

        def count() -> None:
            found = self._predict(texts, k, threshold)
            for true, (ids, chances) in zip(gold, found, strict=True):
                if ids is not None:
                    meter.log(true, list(zip(ids, chances.tolist(), strict=True)))
            texts.clear()
            gold.clear()

        for tokens in lines_of_tokens(path):
            if true := [self._label_ids[token] for token in tokens if token in self._label_ids]:
                texts.append(" ".join(tokens))
                gold.append(true)
            if len(texts) == _AT_ONCE:
                count()
        count()
        return meter
