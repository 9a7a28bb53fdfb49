"""GloVe: word vectors whose products are the logarithms of co-occurrence counts.

Paper: Pennington, Socher, Manning 2014, "GloVe: Global Vectors for Word Representation", EMNLP.

| equation                                                            | where                                       |
|---------------------------------------------------------------------|---------------------------------------------|
| counts X, a pair at distance d adds 1/d (sec. 4.2)                  | data/cooccurrence.py, kernels/counts.py     |
| w_i·w̃_j + b_i + b̃_j = log X_ij (eq. 7)                              | kernels/factorise.py, ``_step``             |
| J = Σ f(X_ij) (w_i·w̃_j + b_i + b̃_j - log X_ij)² (eq. 8)             | kernels/factorise.py, ``_step``             |
| f(x) = min(1, x / x_max)^α (eq. 9)                                  | kernels/factorise.py, ``_step``             |
| the published vectors are w + w̃ (sec. 4.2)                          | ``GloVe.vectors``                           |

The reported loss is that of the authors' program: the mean over the non-zero counts of ½ f diff².

Differs from the paper: ``x_max`` is 10, which suits texts up to some hundred million words (100 in the paper, for
billions); words are those of ``min_count``, not the 400,000 most frequent.
Differs from the authors' program: float32; biases take steps of the learning rate as the vectors do (``scale_biases``
turns to the program's way); sums of squares begin at 1 as there. Counts are visited tile by tile in an order drawn anew
for each epoch, instead of in one shuffled order kept for all. A training that diverges is stopped; nothing is skipped.
With one side of context, a row is the word and a column its neighbour: the program's records have them the other way
round, so its ``-symmetric 0`` is ``sides=right``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt, Le
from typing_extensions import Doc

from wenmai.core.errors import FormatError
from wenmai.core.tensors import read_tensor_into, tensor_shapes, write_tensors
from wenmai.models.folder import read_config, read_vocab, write_config
from wenmai.text.vocab import Vocab
from wenmai.vectors.word_vectors import WordVectors

__all__ = ["GloVe", "GloVeConfig", "GloVeVectors", "Output"]

Output = Literal["sum", "words", "contexts", "both"]
Rows = npt.NDArray[np.float32]
_MODEL, _SUMS = "model.safetensors", "adagrad.safetensors"


@dataclass(frozen=True, kw_only=True, slots=True)
class GloVeConfig:
    """Sizes, and how counts are weighted."""

    kind: Annotated[Literal["glove"], Doc("the architecture")] = "glove"
    vector_size: Annotated[int, Ge(1), Le(10_000), Doc("dimensions of a vector")] = 100
    x_max: Annotated[
        float, Gt(0), Doc("counts from here on have the full weight; 10 for small texts, 100 for billions of words")
    ] = 10.0
    alpha: Annotated[float, Ge(0), Le(10), Doc("lower counts weigh (count / x_max) to this power")] = 0.75
    output: Annotated[
        Output,
        Doc("published vectors: the sum of word and context vectors, words or contexts alone, or both side by side"),
    ] = "sum"

    @property
    def objective(self) -> str:
        """What the loss is; only losses of the same objective can be compared."""
        return f"weighted least squares of log counts, x_max {self.x_max:g}, α {self.alpha:g}"


class GloVe:
    """The parameters of GloVe, the state of AdaGrad beside them, and the vocabulary.

    Attributes:
        config: The architecture.
        vocab: Tokens and counts; row i of every matrix belongs to token i.
        words: Rows of words as the kernel has them, see :func:`wenmai.kernels.factorise.parameter_rows`.
        contexts: Rows of contexts.
        padded: Floats of a vector in these rows.
    """

    def __init__(self, config: GloVeConfig, vocab: Vocab) -> None:
        from wenmai.kernels.factorise import ROW_FLOATS, parameter_rows

        self.config = config
        self.vocab = vocab
        self.padded = -(-config.vector_size // ROW_FLOATS) * ROW_FLOATS
        self.words = parameter_rows(len(vocab), config.vector_size)
        self.contexts = parameter_rows(len(vocab), config.vector_size)

    def initialise(self, seed: int) -> None:
        """Draws vectors and biases uniformly from ±0.5/d; the sums of squares are 1 (as the authors' program)."""
        generator = np.random.default_rng([seed, 0])
        width = self.config.vector_size
        for rows in (self.words, self.contexts):
            for start in range(0, len(rows), 4096):
                block = rows[start : start + 4096]
                drawn = (generator.random((len(block), width + 1), np.float32) - np.float32(0.5)) / np.float32(width)
                block[:, :width] = drawn[:, :width]
                block[:, 2 * self.padded] = drawn[:, width]

    def tensors(self) -> dict[str, Rows]:
        """The parameters: ``words``, ``contexts`` (V, d) and ``word_biases``, ``context_biases`` (V, 1), as views."""
        vector, bias = slice(0, self.config.vector_size), slice(2 * self.padded, 2 * self.padded + 1)
        return {
            "words": self.words[:, vector],
            "contexts": self.contexts[:, vector],
            "word_biases": self.words[:, bias],
            "context_biases": self.contexts[:, bias],
        }

    def sums(self) -> dict[str, Rows]:
        """AdaGrad's sums of squares, of the same names and shapes."""
        vector = slice(self.padded, self.padded + self.config.vector_size)
        bias = slice(2 * self.padded + 1, 2 * self.padded + 2)
        return {
            "words": self.words[:, vector],
            "contexts": self.contexts[:, vector],
            "word_biases": self.words[:, bias],
            "context_biases": self.contexts[:, bias],
        }

    def vectors(self, output: Output | None = None) -> WordVectors:
        """The published vectors, in the form of the configuration or another; they share no memory with the rows."""
        vectors = _published(self.tensors(), output or self.config.output)
        return WordVectors(self.vocab.tokens, vectors, self.vocab.counts if self.vocab.counts.any() else None)

    def save(self, folder: Path) -> None:
        """Writes ``config.json``, ``vocab.json`` and ``model.safetensors`` into an existing folder."""
        write_config(folder, self.config, vocab_size=len(self.vocab))
        self.vocab.save(folder / "vocab.json")
        write_tensors(folder / _MODEL, self.tensors())

    def save_sums(self, folder: Path) -> None:
        """Writes the state of AdaGrad, which a checkpoint needs beside the model."""
        write_tensors(folder / _SUMS, self.sums())

    @classmethod
    def load(cls, folder: str | Path, *, sums: bool = False) -> "GloVe":
        """Reads what :meth:`save` wrote, and with ``sums`` what :meth:`save_sums` did.

        Raises:
            FormatError: if a file is missing, damaged, or does not fit the others.
        """
        folder = Path(folder)
        config, vocab = _read_head(folder)
        model = cls(config, vocab)
        for name, rows in model.tensors().items():
            read_tensor_into(folder / _MODEL, name, rows)
        for name, rows in model.sums().items() if sums else ():
            read_tensor_into(folder / _SUMS, name, rows)
        return model

    @classmethod
    def load_vectors(cls, folder: str | Path, output: Output | None = None) -> "GloVeVectors":
        """Reads the published vectors alone, in the form of the configuration or another.

        Raises:
            FormatError: as :meth:`load`.
        """
        folder = Path(folder)
        config, vocab = _read_head(folder)
        chosen = output or config.output
        found: dict[str, Rows] = {}
        for name in ("words", "contexts"):
            if chosen in ("sum", "both", name):
                found[name] = np.empty((len(vocab), config.vector_size), np.float32)
                read_tensor_into(folder / _MODEL, name, found[name])
        return GloVeVectors(vocab, _published(found, chosen), folder)


class GloVeVectors(WordVectors):
    """The vectors of a finished model, which can be read in other forms too.

    Args:
        vocab: Tokens and counts.
        vectors: Their vectors.
        folder: The model's folder.
    """

    def __init__(self, vocab: Vocab, vectors: Rows, folder: Path) -> None:
        super().__init__(vocab.tokens, vectors, vocab.counts if vocab.counts.any() else None)
        self._folder = folder

    def in_form(self, output: Output) -> "GloVeVectors":
        """Reads the vectors in another form: the sum, words or contexts alone, or both side by side."""
        return GloVe.load_vectors(self._folder, output)

    def parameters(self) -> npt.NDArray[np.float64]:
        """Reads everything that was trained, as GloVe's ``vectors.bin`` has it.

        Returns:
            (2V, d + 1): a row of each word, then one of each context, the bias last.
        """
        found = GloVe.load(self._folder).tensors()
        words = np.concatenate([found["words"], found["word_biases"]], axis=1)
        contexts = np.concatenate([found["contexts"], found["context_biases"]], axis=1)
        return np.concatenate([words, contexts]).astype(np.float64)


def _published(tensors: Mapping[str, Rows], output: Output) -> Rows:
    if output == "both":
        return np.concatenate([tensors["words"], tensors["contexts"]], axis=1)
    if output == "sum":
        return tensors["words"] + tensors["contexts"]
    return np.ascontiguousarray(tensors[output])


def _read_head(folder: Path) -> tuple[GloVeConfig, Vocab]:
    """Reads config and vocabulary and checks that the tensors have the shapes these ask for, before allocating."""
    config, facts = read_config(folder, GloVeConfig, "GloVe", {"vocab_size": int})
    size = facts["vocab_size"]
    vocab = read_vocab(folder / "vocab.json", size)
    shapes = tensor_shapes(folder / _MODEL)
    width = config.vector_size
    wanted = {"words": width, "contexts": width, "word_biases": 1, "context_biases": 1}
    if shapes != (expected := {name: (size, columns) for name, columns in wanted.items()}):
        raise FormatError(f"{folder / _MODEL}: has the tensors {shapes}, expected {expected}")
    return config, vocab
