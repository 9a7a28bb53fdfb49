"""word2vec against its equations, written out naively in float64 (Mikolov et al. 2013a, 2013b).

The twin replays the random draws of the compiled kernels, so that every prediction is known, and then applies the
equations of the papers to one prediction after the other.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wenmai.kernels.huffman import huffman_paths
from wenmai.kernels.lanes import LaneMemory, train_lanes
from wenmai.kernels.window import Choices, Rows, Scratch, Tables, aligned_rows, noise_table, train_block
from wenmai.models.word2vec import Word2Vec, Word2VecConfig, keep_probabilities
from wenmai.text.vocab import Vocab

# --- the equations ------------------------------------------------------------------------------------------------


def sigmoid(x: np.ndarray) -> np.ndarray:
    """σ(x) = 1 / (1 + e^-x)."""
    return 1 / (1 + np.exp(-x))


def logistic_loss(h: np.ndarray, u: np.ndarray, signs: np.ndarray) -> float:
    """Σ -log σ(s_o u_o·h_c) over all inputs and outputs: 2013b, eq. 4 (s = ±1) and eq. 3 (s = 1 - 2 code)."""
    return float(-np.log(sigmoid(signs * (h @ u.T))).sum())


def logistic_step(h: np.ndarray, u: np.ndarray, signs: np.ndarray, rate: float):
    """Loss of inputs h (m, d) against outputs u (n, d), and what they change by; both from the old values."""
    errors = rate * signs * sigmoid(-signs * (h @ u.T))  # (m, n)
    return logistic_loss(h, u, signs), errors @ u, errors.T @ h


def softmax_loss(h: np.ndarray, u: np.ndarray, target: int) -> float:
    """-log P(target|h), P(o|h) = exp(u_o·h) / Σ_w exp(u_w·h): 2013b, eq. 2."""
    return float(np.log(np.exp(h @ u.T).sum()) - h @ u[target])


def softmax_step(h: np.ndarray, u: np.ndarray, target: int, rate: float):
    """Loss of one input h (d), and what it and the outputs (V, d) change by."""
    p = np.exp(h @ u.T)
    errors = rate * ((np.arange(len(u)) == target) - p / p.sum())
    return softmax_loss(h, u, target), errors @ u, np.outer(errors, h)


# --- the draws ----------------------------------------------------------------------------------------------------


class Draws:
    """Knuth's MMIX generator, used as the kernels use it."""

    def __init__(self, seed: int) -> None:
        self.state = seed
        self.advance()

    def advance(self) -> int:
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return self.state

    def uniform(self) -> float:
        return (self.advance() >> 40) / 2**24

    def half_width(self, window: int) -> int:
        return 1 + ((self.advance() >> 32) * window >> 32)

    def noise(self, tables: Tables) -> int:
        slot, fraction = divmod((self.advance() >> 28) * len(tables.noise_alias), 2**36)
        kept = np.float32(fraction) * np.float32(2**-36) < tables.noise_threshold[slot]
        return slot if kept else int(tables.noise_alias[slot])


# --- the twin -----------------------------------------------------------------------------------------------------


@dataclass
class Case:
    """A text and settings, small enough to follow by hand."""

    sentences: list[list[int]]  # words; -1 is outside the vocabulary
    counts: tuple[int, ...] = (30, 20, 9, 5, 5, 2, 1)
    size: int = 16
    window: int = 3
    negative: int = 5
    rate: float = 0.05
    seed: int = 7
    dynamic: bool = False
    hierarchical: bool = False
    softmax: bool = False
    cbow: bool = False
    mean: bool = True
    true_gradient: bool = False
    shared: bool = True
    keep: float = 1.0
    old_rows: int = 0
    old_rate: float = 1.0
    weights: tuple[float, ...] | None = None
    tables: Tables = field(init=False)
    choices: Choices = field(init=False)
    input: np.ndarray = field(init=False)  # (V, d)
    output: np.ndarray = field(init=False)  # (2 V, d): V rows of words, then V of inner nodes

    def __post_init__(self) -> None:
        counts = np.array(self.counts, np.int64)
        self.tables = Tables(
            np.arange(len(counts), dtype=np.int32),
            np.full(len(counts), self.keep, np.float32),
            *noise_table(np.array(self.weights) if self.weights else counts**0.75),
            *huffman_paths(counts),
        )
        self.choices = Choices(
            **{name: getattr(self, name) for name in Choices._fields},
        )
        values = np.random.default_rng(self.seed).normal(0, 1.5, (3 * len(counts), self.size)) / self.size**0.25
        self.input, self.output = np.split(values.astype(np.float32), [len(counts)])


@dataclass
class Outcome:
    """Parameters after training, without padding, and the tally."""

    input: np.ndarray
    output: np.ndarray
    loss: float
    examples: int
    words: int
    padding: float  # the largest absolute value in the columns that only fill SIMD vectors


def predictions(case: Case, draws: Draws, *, ahead: bool) -> Iterator[tuple[int, list[int], list[list[list[int]]]]]:
    """Yields (centre, context words, [outputs, signs] for each step of this window), replaying the draws.

    The ordinary kernel draws the negatives of a window before the half-width of the window before it (``ahead``).
    """
    tables, size = case.tables, len(case.counts)

    def outputs(centre: int) -> list[list[int]]:
        rows, signs = [], []
        if case.negative:
            noise = [draws.noise(tables) for _ in range(case.negative)]
            rows = [centre] + [word for word in noise if word != centre]
            signs = [1] + [-1] * (len(rows) - 1)
        if case.hierarchical:
            path = slice(*tables.path_start[centre : centre + 2])
            rows += (size + tables.path_node[path]).tolist()
            signs += tables.path_sign[path].tolist()
        return [rows, signs]

    together = case.cbow or case.shared
    texts = [[w for w in sentence if w >= 0 and draws.uniform() < case.keep] for sentence in case.sentences[:1]]
    for s in range(len(case.sentences)):
        if ahead and s > 0:
            texts.append([w for w in case.sentences[s] if w >= 0 and draws.uniform() < case.keep])
        elif not ahead and s == 0:  # in lanes, all sentences are sub-sampled first
            for sentence in case.sentences[1:]:
                texts.append([w for w in sentence if w >= 0 and draws.uniform() < case.keep])
    raise NotImplementedError
