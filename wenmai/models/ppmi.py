"""PPMI + SVD: word vectors from the associations of words, which co-occur more often than by chance.

Papers: Levy, Goldberg 2014, "Neural Word Embedding as Implicit Matrix Factorization", NIPS; Levy, Goldberg, Dagan 2015,
"Improving Distributional Similarity with Lessons Learned from Word Embeddings", TACL 3.

| equation                                                                 | where                                  |
|--------------------------------------------------------------------------|----------------------------------------|
| PMI(w, c) = log( #(w,c) D / (#(w) #(c)) ) (2014, eq. 8)                  | ``positive_information``               |
| SPPMI_k = max(PMI - log k, 0) (2014, eq. 11; k = 1 is PPMI)              | ``positive_information``, ``negative`` |
| context distribution #(c)^0.75 / Σ #(c)^0.75 (2015, sec. 3.2)            | ``positive_information``, ``smoothing``|
| M ≈ U Σ Vᵀ, W = U Σ^p, C = V Σ^p (2015, sec. 2.2 and 3.3)                | ``PpmiSvd.fit``                        |
| w + c (2015, sec. 3.3)                                                   | ``add_contexts``                       |

Differs from the papers: rows are of unit length only where ``normalise`` asks for it (similarity is the cosine anyway);
with p other than 1/2, context vectors are weighted as word vectors are.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt, Le
from typing_extensions import Doc

from wenmai.core.errors import FormatError, SettingError, TrainingError
from wenmai.core.tensors import read_tensor_into, tensor_shapes, write_tensors
from wenmai.models.folder import read_config, read_vocab, write_config
from wenmai.text.vocab import Vocab
from wenmai.vectors.word_vectors import WordVectors

if TYPE_CHECKING:
    from scipy import sparse

__all__ = ["PpmiConfig", "PpmiSvd", "positive_information"]

_MODEL = "model.safetensors"
_NOISE = 1e-6  # of the largest singular value: what is smaller is 0, and its direction arbitrary
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, slots=True)
class PpmiConfig:
    """How counts become associations, and these vectors."""

    kind: Annotated[Literal["ppmi-svd"], Doc("the architecture")] = "ppmi-svd"
    vector_size: Annotated[int, Ge(1), Le(10_000), Doc("dimensions of a vector: singular values that are kept")] = 100
    negative: Annotated[
        float, Ge(1), Doc("associations are lowered by the logarithm of this, as negative samples do; 1 is plain PPMI")
    ] = 1.0
    smoothing: Annotated[float, Gt(0), Le(1), Doc("smooths context counts by this power; 1 is unsmoothed")] = 0.75
    eigenvalue_weight: Annotated[
        float, Ge(0), Le(1), Doc("vectors are weighted by the singular values to this power")
    ] = 0.5
    add_contexts: Annotated[bool, Doc("add each word's context vector to its word vector")] = False
    normalise: Annotated[bool, Doc("make published vectors of unit length")] = False

    @property
    def objective(self) -> str:
        """What the loss is; only losses of the same objective can be compared."""
        return f"share of the squared PPMI matrix left out, {self.vector_size} values"


class PpmiSvd:
    """The factors of a PPMI matrix and the vocabulary they belong to.

    Attributes:
        config: The architecture.
        vocab: Tokens and counts; row i belongs to token i.
        words: (V, d) float32, U Σ^p.
        contexts: (V, d) float32, V Σ^p.
        singular_values: (d,) float32, descending.
        left_out: The fraction of the squared matrix that the factors leave out, 0 to 1; NaN of a loaded model.
    """

    def __init__(
        self, config: PpmiConfig, vocab: Vocab, words: Floats, contexts: Floats, singular_values: Floats
    ) -> None:
        self.config = config
        self.vocab = vocab
        self.words, self.contexts, self.singular_values = words, contexts, singular_values
        self.left_out = float("nan")

    @classmethod
    def fit(cls, config: PpmiConfig, vocab: Vocab, counts: "sparse.csr_array", seed: int) -> "PpmiSvd":
        """Factorises the associations of co-occurrence counts.

        Args:
            config: The settings.
            vocab: The word of each row and column.
            counts: (V, V), rows are words, columns contexts.
            seed: Of the initial vector of the search for singular values (ARPACK).

        Raises:
            SettingError: if there are fewer words than singular values asked for.
            TrainingError: if no pair of words occurs more often than by chance.
        """
        from scipy.sparse.linalg import svds

        size = config.vector_size
        if len(vocab) <= size:
            raise SettingError(
                f"vector_size={size} needs a vocabulary of more than {size} words, but it has {len(vocab)}; lower "
                "vector_size or min_count"
            )
        matrix = positive_information(counts, smoothing=config.smoothing, negative=config.negative)
        if matrix.nnz == 0:
            raise TrainingError("no pair of words occurs more often than by chance; lower `negative`")
        start = np.random.default_rng(seed).normal(size=len(vocab)).astype(np.float32)
        left, values, right = svds(matrix, size, v0=start, solver="arpack")
        order = np.argsort(-values, kind="stable")
        values = np.maximum(values[order], 0)
        weights = np.where(values > _NOISE * values[0], values**config.eigenvalue_weight, 0)
        model = cls(
            config,
            vocab,
            np.ascontiguousarray(left[:, order] * weights, np.float32),
            np.ascontiguousarray(right[order].T * weights, np.float32),
            values.astype(np.float32),
        )
        squares = float(np.square(matrix.data, dtype=np.float64).sum())
        model.left_out = max(0.0, 1 - float(np.square(values, dtype=np.float64).sum()) / squares)
        return model

    def vectors(self) -> WordVectors:
        """The published vectors."""
        vectors = self.words + self.contexts if self.config.add_contexts else self.words
        if self.config.normalise:
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            vectors = vectors / np.where(lengths > 0, lengths, 1)
        return WordVectors(self.vocab.tokens, vectors, self.vocab.counts if self.vocab.counts.any() else None)

    def save(self, folder: Path) -> None:
        """Writes ``config.json``, ``vocab.json`` and ``model.safetensors`` into an existing folder."""
        write_config(folder, self.config, vocab_size=len(self.vocab))
        self.vocab.save(folder / "vocab.json")
        values = self.singular_values[None, :]
        write_tensors(folder / _MODEL, {"words": self.words, "contexts": self.contexts, "singular_values": values})

    @classmethod
    def load(cls, folder: str | Path) -> "PpmiSvd":
        """Reads what :meth:`save` wrote.

        Raises:
            FormatError: if a file is missing, damaged, or does not fit the others.
        """
        folder = Path(folder)
        config, vocab = _read_head(folder)
        words, contexts = (np.empty((len(vocab), config.vector_size), np.float32) for _ in range(2))
        values = np.empty((1, config.vector_size), np.float32)
        for name, target in (("words", words), ("contexts", contexts), ("singular_values", values)):
            read_tensor_into(folder / _MODEL, name, target)
        return cls(config, vocab, words, contexts, values[0])


def positive_information(
    counts: "sparse.csr_array", *, smoothing: float = 1.0, negative: float = 1.0
) -> "sparse.csr_array":
    """Shifted positive pointwise mutual information, ``max(PMI - log k, 0)``.

    Args:
        counts: (V, V) co-occurrence counts, rows are words, columns contexts.
        smoothing: The power of context counts, see :class:`PpmiConfig`.
        negative: k.

    Returns:
        (V, V) float32 with the positive values alone.
    """
    from scipy import sparse

    of_word = np.asarray(counts.sum(axis=1, dtype=np.float64)).ravel()
    of_context = np.asarray(counts.sum(axis=0, dtype=np.float64)).ravel() ** smoothing
    with np.errstate(divide="ignore"):
        log_word, log_context = np.log(of_word), np.log(of_context)
    log_total = np.log(of_context.sum()) - np.log(negative)
    bounds, columns = counts.indptr, counts.indices
    values = np.empty(counts.nnz, np.float32)
    for start in range(0, counts.shape[0], 4096):
        end = min(start + 4096, counts.shape[0])
        begin, stop = bounds[start], bounds[end]
        of_row = np.repeat(log_word[start:end], np.diff(bounds[start : end + 1]))
        found = np.log(counts.data[begin:stop], dtype=np.float64) + log_total - of_row
        values[begin:stop] = np.maximum(found - log_context[columns[begin:stop]], 0)
    matrix = sparse.csr_array((values, columns.copy(), bounds.copy()), shape=counts.shape)
    matrix.eliminate_zeros()
    return matrix


def _read_head(folder: Path) -> tuple[PpmiConfig, Vocab]:
    """Reads config and vocabulary and checks that the tensors have the shapes these ask for, before allocating."""
    config, facts = read_config(folder, PpmiConfig, "PPMI-SVD", {"vocab_size": int})
    size = facts["vocab_size"]
    vocab = read_vocab(folder / "vocab.json", size)
    shapes, width = tensor_shapes(folder / _MODEL), config.vector_size
    expected = {"words": (size, width), "contexts": (size, width), "singular_values": (1, width)}
    if shapes != expected:
        raise FormatError(f"{folder / _MODEL}: has the tensors {shapes}, expected {expected}")
    return config, vocab
