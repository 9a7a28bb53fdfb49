"""word2vec: two vectors of each word, trained to predict words from their contexts.

Papers: Mikolov, Chen, Corrado, Dean 2013a, "Efficient Estimation of Word Representations in Vector Space",
arXiv:1301.3781; Mikolov, Sutskever, Chen, Corrado, Dean 2013b, "Distributed Representations of Words and Phrases and
their Compositionality", arXiv:1310.4546.

| equation                                                        | where                                    |
|-----------------------------------------------------------------|------------------------------------------|
| CBOW, skip-gram (2013a, sec. 3.1, 3.2)                          | kernels/window.py, ``_train_sentence``   |
| softmax P(o|h) (2013b, eq. 2)                                   | kernels/window.py, ``_softmax_step``     |
| hierarchical softmax (2013b, eq. 3)                             | kernels/huffman.py; window.py, ``step`` |
| negative sampling (2013b, eq. 4), noise ∝ count^0.75            | ``noise``; window.py, ``step``          |
| sub-sampling, P(discard) = 1 - √(t/f) (2013b, eq. 5)            | ``keep_probabilities``                   |

Differs from the papers, as word2vec.c does: the centre word is predicted from each context word; sub-sampling keeps
``√(t/f) + t/f`` (setting ``subsampling``), with t = 1e-3; CBOW adds its update to every context row without dividing
by their number (``true_gradient`` divides).
Differs from word2vec.c: one set of negatives for all words of a window (``shared_negatives``; off is the classic
update); the exact sigmoid instead of a table cut at ±6; draws from a better generator; no ``</s>``; equal counts are
ordered by first appearance; the noise distribution is an alias table, exact at any size.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Le
from typing_extensions import Doc

from wenmai.config.effects import require_usual
from wenmai.core.errors import FormatError, SettingError
from wenmai.core.tensors import read_tensor_into, tensor_shapes, write_tensors
from wenmai.models.folder import read_config, read_vocab, write_config
from wenmai.text.vocab import Vocab
from wenmai.vectors.padding import padded_size
from wenmai.vectors.word_vectors import WordVectors

__all__ = ["Word2Vec", "Word2VecConfig", "keep_probabilities"]

_BLOCK = 1 << 14  # words of which temporary arrays are made at once
_LONGEST_SOFTMAX = 50_000
_TENSORS = {"input", "negative", "hierarchical"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Word2VecConfig:
    """Sizes and objective."""

    kind: Annotated[Literal["word2vec"], Doc("the architecture")] = "word2vec"
    algorithm: Annotated[
        Literal["skipgram", "cbow"], Doc("skipgram: each word of a window predicts the centre; cbow: all of them do")
    ] = "skipgram"
    vector_size: Annotated[int, Ge(1), Le(10_000), Doc("dimensions of a vector")] = 100
    window: Annotated[int, Ge(1), Le(1_000), Doc("most words on each side of the centre")] = 5
    dynamic_window: Annotated[
        bool, Doc("draw the half-width of each window from 1..window, so that near words count more")
    ] = True
    negative: Annotated[int, Ge(0), Le(1_000), Doc("noise words per prediction; 0 turns negative sampling off")] = 5
    hierarchical: Annotated[bool, Doc("hierarchical softmax over a Huffman tree, also beside negatives")] = False
    softmax: Annotated[
        bool, Doc("the exact softmax over the vocabulary, for teaching and small vocabularies; needs negative=0")
    ] = False
    shared_negatives: Annotated[
        bool, Doc("skip-gram: one set of negatives for a whole window (fast); off: new ones for each pair (classic)")
    ] = True
    noise_exponent: Annotated[
        float, Ge(-10), Le(10), Doc("noise words are drawn by count to this power; 0 is uniform")
    ] = 0.75
    sample: Annotated[float, Ge(0), Doc("words with a larger fraction of the text are subsampled; 0 keeps all")] = 1e-3
    subsampling: Annotated[
        Literal["word2vec.c", "paper"],
        Doc("kept fraction at frequency f: √(t/f) + t/f as in word2vec.c, or √(t/f)"),
    ] = "word2vec.c"
    cbow_mean: Annotated[bool, Doc("cbow: average the window's vectors; off: sum them")] = True
    true_gradient: Annotated[
        bool, Doc("cbow: divide the update by the number of context words, the exact gradient; off: as word2vec.c")
    ] = False

    def __post_init__(self) -> None:
        if self.softmax and (self.negative or self.hierarchical):
            raise SettingError("softmax=true is an objective of its own; add negative=0 and leave hierarchical off")
        if not (self.softmax or self.negative or self.hierarchical):
            raise SettingError("there is nothing to learn from: set negative=5, hierarchical=true or softmax=true")
        if self.algorithm == "skipgram":
            require_usual(self, ("cbow_mean", "true_gradient"), "algorithm=skipgram", needed="algorithm=cbow")
        else:
            require_usual(self, ("shared_negatives",), "algorithm=cbow", needed="algorithm=skipgram")
        if not self.cbow_mean:
            require_usual(self, ("true_gradient",), "cbow_mean=false", needed="cbow_mean=true")
        if not self.negative:
            require_usual(self, ("shared_negatives", "noise_exponent"), "negative=0", needed="negative=5")
        if not self.sample:
            require_usual(self, ("subsampling",), "sample=0", needed="sample=0.001")

    @property
    def objective(self) -> str:
        """What the loss is; only losses of the same objective can be compared."""
        parts = [name for name, on in (("negative sampling", self.negative), ("softmax", self.softmax)) if on]
        return " + ".join(parts + ["hierarchical softmax"] * self.hierarchical) + f", {self.algorithm}"


class Word2Vec:
    """The parameters of word2vec and the vocabulary they belong to.

    Attributes:
        config: The architecture.
        vocab: Tokens and counts; row i of ``input`` belongs to token i.
        input: (V, P) float32, the published vectors; P is ``vector_size`` or a little more, and columns from
            ``vector_size`` on are zero.
        negative: (V, P), output vectors of negative sampling or softmax; (1, P) if unused.
        hierarchical: (V, P), vectors of the V - 1 inner nodes; (1, P) if unused.
    """

    def __init__(self, config: Word2VecConfig, vocab: Vocab) -> None:
        from wenmai.kernels.window import aligned_rows

        if config.softmax and len(vocab) > _LONGEST_SOFTMAX:
            raise SettingError(
                f"softmax=true compares every word with all {len(vocab)} others; it is for vocabularies up to "
                f"{_LONGEST_SOFTMAX}: raise min_count, set max_size, or use negative sampling"
            )
        self.config = config
        self.vocab = vocab
        size = len(vocab)
        padded = padded_size(size, config.vector_size)
        self.input = aligned_rows(size, padded)
        self.negative = aligned_rows(size if config.negative or config.softmax else 1, padded)
        self.hierarchical = aligned_rows(size if config.hierarchical else 1, padded)

    def initialise(self, seed: int, *, first: int = 0) -> None:
        """Draws the input rows from ``first`` on uniformly from ±0.5/d; output rows stay zero (word2vec.c)."""
        generator = np.random.default_rng([seed, first])
        width = self.config.vector_size
        for start in range(first, len(self.vocab), 4096):
            rows = self.input[start : start + 4096, :width]
            rows[:] = (generator.random(rows.shape, np.float32) - np.float32(0.5)) / np.float32(width)

    def grown(self, vocab: Vocab, config: Word2VecConfig, seed: int) -> "Word2Vec":
        """Returns a model of a vocabulary that continues this one's: known rows kept, new rows drawn.

        The inner nodes of hierarchical softmax start anew if any count changed, because the tree does.

        Raises:
            SettingError: if the vectors would have another size.
        """
        if config.vector_size != self.config.vector_size:
            raise SettingError(
                f"vector_size={config.vector_size}, but the run that is continued has {self.config.vector_size}"
            )
        size, width = len(self.vocab), config.vector_size
        grown = Word2Vec(config, vocab)
        grown.input[:size, :width] = self.input[:, :width]
        grown.initialise(seed, first=size)
        if len(grown.negative) > 1 and len(self.negative) == size:
            grown.negative[:size, :width] = self.negative[:, :width]
        if config.hierarchical and np.array_equal(vocab.counts, self.vocab.counts):
            grown.hierarchical[:, :width] = self.hierarchical[:, :width]
        return grown

    def noise(self) -> npt.NDArray[np.float64]:
        """Weights (V,) of the noise distribution, count^noise_exponent."""
        weights = np.empty(len(self.vocab))
        for start in range(0, len(weights), _BLOCK):
            block = self.vocab.counts[start : start + _BLOCK]
            weights[start : start + _BLOCK] = np.maximum(block, 1) ** self.config.noise_exponent
        return weights

    def vectors(self) -> WordVectors:
        """The published vectors, sharing no memory with the padded rows."""
        dense = np.ascontiguousarray(self.input[:, : self.config.vector_size])
        return WordVectors(self.vocab.tokens, dense, self.vocab.counts if self.vocab.counts.any() else None)

    def save(self, folder: Path) -> None:
        """Writes ``config.json``, ``vocab.json`` and ``model.safetensors`` into an existing folder."""
        width = self.config.vector_size
        tensors = {"input": self.input[:, :width]}
        if len(self.negative) == len(self.vocab) and (self.config.negative or self.config.softmax):
            tensors["negative"] = self.negative[:, :width]
        if self.config.hierarchical:
            tensors["hierarchical"] = self.hierarchical[:, :width]
        write_config(folder, self.config, vocab_size=len(self.vocab))
        self.vocab.save(folder / "vocab.json")
        write_tensors(folder / "model.safetensors", tensors)

    @classmethod
    def load(cls, folder: str | Path) -> "Word2Vec":
        """Reads what :meth:`save` wrote. Output vectors that the file lacks (imported vectors have none) are zero.

        Raises:
            FormatError: if a file is missing, damaged, or does not fit the others.
        """
        folder = Path(folder)
        config, vocab = _read_head(folder)
        model = cls(config, vocab)
        wanted = {"input": model.input}
        stored = tensor_shapes(folder / "model.safetensors")
        if (config.negative or config.softmax) and "negative" in stored:
            wanted["negative"] = model.negative
        if config.hierarchical and "hierarchical" in stored:
            wanted["hierarchical"] = model.hierarchical
        for name, rows in wanted.items():
            read_tensor_into(folder / "model.safetensors", name, rows[:, : config.vector_size])
        return model

    @classmethod
    def load_vectors(cls, folder: str | Path) -> WordVectors:
        """Reads the published vectors alone, at half the memory of :meth:`load`.

        Raises:
            FormatError: as :meth:`load`.
        """
        folder = Path(folder)
        config, vocab = _read_head(folder)
        vectors = np.empty((len(vocab), config.vector_size), np.float32)
        read_tensor_into(folder / "model.safetensors", "input", vectors)
        return WordVectors(vocab.tokens, vectors, vocab.counts if vocab.counts.any() else None)


def keep_probabilities(counts: npt.NDArray[np.int64], config: Word2VecConfig) -> npt.NDArray[np.float32]:
    """The fraction of each word's occurrences that sub-sampling keeps, (V,) float32, at most 1.

    With f = count / all counts and t = ``sample``: ``√(t/f) + t/f`` (word2vec.c), or ``√(t/f)`` (2013b, eq. 5).
    """
    if config.sample == 0:
        return np.ones(len(counts), np.float32)
    kept = np.empty(len(counts), np.float32)
    total = config.sample * counts.sum()
    for start in range(0, len(counts), _BLOCK):
        ratio = total / np.maximum(counts[start : start + _BLOCK], 1)
        keep = np.sqrt(ratio) + (ratio if config.subsampling == "word2vec.c" else 0)
        kept[start : start + _BLOCK] = np.minimum(keep, 1)
    return kept


def _read_head(folder: Path) -> tuple[Word2VecConfig, Vocab]:
    """Reads config and vocabulary and checks that the tensors have the shapes these ask for, before allocating."""
    config, facts = read_config(folder, Word2VecConfig, "word2vec", {"vocab_size": int})
    size = facts["vocab_size"]
    vocab = read_vocab(folder / "vocab.json", size)
    shapes = tensor_shapes(folder / "model.safetensors")
    if shapes.get("input") != (size, config.vector_size):
        raise FormatError(
            f"{folder / 'model.safetensors'}: the tensor 'input' has the shape {shapes.get('input')}, expected "
            f"{(size, config.vector_size)}"
        )
    if unknown := sorted(set(shapes) - _TENSORS):
        raise FormatError(f"{folder / 'model.safetensors'}: the tensor {unknown[0]!r} is none of word2vec's")
    return config, vocab
