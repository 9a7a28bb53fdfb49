"""fastText's word vectors against their equations, written out naively in float64 (Bojanowski et al. 2017).

The twin replays the random draws of the compiled kernel, so that every prediction is known, and then applies the
equations to one prediction after the other.
"""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wenmai.kernels.huffman import huffman_paths
from wenmai.kernels.subword_window import Choices, Rows, Scratch, Subwords, train_block
from wenmai.kernels.window import Tables, aligned_rows, noise_table
from wenmai.models.fasttext import FastTextConfig
from wenmai.tasks.fasttext import keep_probabilities, noise_weights

# --- the equations ------------------------------------------------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def logistic_loss(h, u, signs):
    """Σ -log σ(s_o h·u_o): sec. 3.1, with s = 1 for the true word and -1 for noise, or the codes of a Huffman path."""
    return -np.log(sigmoid(signs * (u @ h))).sum()


def step(h, outputs, rows, signs, rate):
    """Moves ``outputs`` one after the other by the slopes at the old values; returns the loss and the move of h."""
    slopes = rate * signs * sigmoid(-signs * (outputs[rows] @ h))
    loss, move = logistic_loss(h, outputs[rows], signs), np.zeros_like(h)
    for row, slope in zip(rows, slopes, strict=True):
        move += slope * outputs[row]
        outputs[row] += slope * h
    return loss, move


# --- the twin -----------------------------------------------------------------------------------------------------


class Draws:
    """Knuth's MMIX generator, used as the kernels use it."""

    def __init__(self, seed):
        self.state = seed
        self.advance()

    def advance(self):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return self.state

    def uniform(self):
        return (self.advance() >> 40) / 2**24

    def half_width(self, window):
        return 1 + ((self.advance() >> 32) * window >> 32)

    def noise(self, threshold, alias):
        slot, fraction = divmod((self.advance() >> 28) * len(alias), 2**36)
        return slot if np.float32(fraction) * np.float32(2**-36) < threshold[slot] else int(alias[slot])


WORDS, BUCKETS = 7, 9
GROUPS = [[0], [1, 7, 8], [2, 8, 9, 9], [3, 10, 11], [4, 8, 12, 13, 14], [5, 7], [6, 15, 7, 11, 12, 14, 9]]


@dataclass(kw_only=True)
class Case:
    """A text and settings, small enough to follow by hand. Words share rows, and one has a row twice."""

    sentences: list[list[int]]  # -1 is a word outside the vocabulary
    size: int = 16
    rate: float = 0.05
    seed: int = 7
    keep: float = 1.0
    first_new: int = 0
    old_rate: float = 1.0
    window: int = 3
    negative: int = 5
    hierarchical: bool = False
    cbow: bool = False
    padding: tuple[int, int] = (0, 0)  # floats that input and output rows have beyond multiples of 4
    tables: Tables = field(init=False)
    input: np.ndarray = field(init=False)  # (V + B, d)
    output: np.ndarray = field(init=False)  # (V, d)

    def __post_init__(self):
        counts = np.array([30, 20, 9, 5, 5, 2, 1])
        self.tables = Tables(
            np.arange(WORDS, dtype=np.int32),
            np.full(WORDS, self.keep, np.float32),
            *noise_table(np.sqrt(counts)),
            *huffman_paths(counts),
        )
        values = np.random.default_rng(self.seed).normal(0, 1.5 / self.size**0.25, (2 * WORDS + BUCKETS, self.size))
        self.input, self.output = np.split(values.astype(np.float32), [WORDS + BUCKETS])

    def outputs(self, target, draws):
        """Rows of ``output`` and signs: a word and its negatives, or the nodes of its Huffman path."""
        if self.hierarchical:
            path = slice(*self.tables.path_start[target : target + 2])
            return self.tables.path_node[path], self.tables.path_sign[path].astype(np.float64)
        noise = [draws.noise(self.tables.noise_threshold, self.tables.noise_alias) for _ in range(self.negative)]
        rows = [target, *(word for word in noise if word != target)]
        return rows, np.array([1.0] + [-1.0] * (len(rows) - 1))

    def shares(self, rows):
        """By how much of a move each row moves: buckets are old if any word is."""
        last_new = WORDS if self.first_new else WORDS + BUCKETS
        return np.array([1.0 if self.first_new <= row < last_new else self.old_rate for row in rows])


@dataclass
class Outcome:
    loss: float
    examples: int
    words: int
    input: np.ndarray
    output: np.ndarray


def move_rows(case, inputs, word, move):
    for row, share in zip(GROUPS[word], case.shares(GROUPS[word]), strict=True):
        inputs[row] += share * move


def twin_of_skipgram(case, text, inputs, outputs, draws):
    """A word predicts each word of its window; its mean moves along, its rows at the end."""
    losses = []
    for i, word in enumerate(text):
        half = draws.half_width(case.window)
        context = text[max(0, i - half) : i] + text[i + 1 : i + 1 + half]
        h, total = inputs[GROUPS[word]].mean(axis=0), np.zeros(case.size)
        for target in context:
            loss, move = step(h, outputs, *case.outputs(target, draws), case.rate)
            h += case.shares(GROUPS[word]).mean() * move
            total += move
            losses.append(loss)
        move_rows(case, inputs, word, total)
    return losses


def twin_of_cbow(case, text, inputs, outputs, draws):
    """A word is predicted from the mean of all rows of its window; a word's rows move when it is out of reach."""
    losses, sums, moves, drawn = [], {}, {}, {}
    for i in range(-case.window - 1, len(text) + case.window + 1):
        if (leaving := i - case.window - 1) in moves:
            move_rows(case, inputs, text[leaving], moves[leaving])
        if 0 <= (coming := i + case.window) < len(text):
            sums[coming], moves[coming] = inputs[GROUPS[text[coming]]].sum(axis=0), np.zeros(case.size)
        if 0 <= i + 1 < len(text):
            drawn[i + 1] = case.outputs(text[i + 1], draws)
        if not 0 <= i < len(text):
            continue
        half = draws.half_width(case.window)
        places = [p for p in range(max(0, i - half), min(len(text), i + half + 1)) if p != i]
        if not places:
            continue
        h = sum(sums[p] for p in places) / sum(len(GROUPS[text[p]]) for p in places)
        loss, move = step(h, outputs, *drawn[i], case.rate)
        for p in places:
            sums[p] += case.shares(GROUPS[text[p]]).sum() * move
            moves[p] += move
        losses.append(loss)
    return losses


def twin(case: Case) -> Outcome:
    draws = Draws(case.seed)
    inputs, outputs = case.input.astype(np.float64), case.output.astype(np.float64)
    losses, words = [], 0
    for sentence in case.sentences:
        words += sum(word >= 0 for word in sentence)
        text = [word for word in sentence if word >= 0 and draws.uniform() < np.float32(case.keep)]
        losses += (twin_of_cbow if case.cbow else twin_of_skipgram)(case, text, inputs, outputs, draws)
    return Outcome(sum(losses), len(losses), words, inputs, outputs)


def kernel(case: Case) -> Outcome:
    padded = [-(-case.size // 4) * 4 + more for more in case.padding]
    rows = [aligned_rows(len(values), width) for values, width in zip((case.input, case.output), padded, strict=True)]
    for target, values in zip(rows, (case.input, case.output), strict=True):
        target[:, : case.size] = values
    choices = Choices(case.window, 0 if case.hierarchical else case.negative, case.hierarchical, case.cbow)
    subwords = Subwords(
        np.cumsum([0, *map(len, GROUPS)]), np.array([row for group in GROUPS for row in group], np.int32)
    )
    last_new = WORDS if case.first_new else WORDS + BUCKETS
    tokens = np.array([word for sentence in case.sentences for word in sentence], np.int32)
    starts = np.cumsum([0, *map(len, case.sentences)])
    longest = int(np.diff(case.tables.path_start).max())
    scratch = Scratch.allocate(choices, subwords, block=len(tokens), padded=max(padded), longest_path=longest)
    tally = np.zeros(3)
    train_block(
        tokens, starts, Rows(*rows, case.first_new, last_new, np.float32(case.old_rate)), subwords, case.tables,
        choices, scratch, np.float32(case.rate), np.uint64(case.seed), tally,
    )  # fmt: skip
    for values in rows:
        assert not values[:, case.size :].any()  # padding stays zero
    inputs, outputs = (values[:, : case.size] for values in rows)
    return Outcome(tally[0], int(tally[1]), int(tally[2]), inputs, outputs)


def assert_same(found: Outcome, expected: Outcome) -> None:
    assert (found.examples, found.words) == (expected.examples, expected.words)
    assert found.loss == pytest.approx(expected.loss, rel=1e-5, abs=1e-6)
    np.testing.assert_allclose(found.input, expected.input, rtol=1e-5, atol=2e-5)
    np.testing.assert_allclose(found.output, expected.output, rtol=1e-5, atol=2e-5)


# --- kernel = twin ------------------------------------------------------------------------------------------------

TEXT = [[0, 1, 2, 0, 3, 1, 4, 0, 0], [5], [], [1, 0, -1, 6, 2, 1], [0, 0, 0], [2, 6]]
MODELS = {
    "skip-gram": {},
    "skip-gram, hierarchical": {"hierarchical": True},
    "cbow": {"cbow": True},
    "cbow, hierarchical": {"cbow": True, "hierarchical": True},
}


@pytest.mark.parametrize("padding", [(0, 0), (0, 12), (12, 0)])
@pytest.mark.parametrize("size", [1, 16, 33, 64, 100, 130])  # strips of 4, 16, 64 floats and their sums
@pytest.mark.parametrize("model", MODELS)
def test_the_kernel_computes_the_equations(model, size, padding):
    case = Case(sentences=TEXT, size=size, padding=padding, **MODELS[model])
    assert_same(kernel(case), twin(case))


@pytest.mark.parametrize("window", [1, 2, 5])
@pytest.mark.parametrize("negative", [1, 2, 3, 4, 7, 15, 16, 40])
@pytest.mark.parametrize("model", ["skip-gram", "cbow"])
def test_any_number_of_inputs_and_outputs(model, negative, window):
    case = Case(sentences=TEXT, **MODELS[model] | {"negative": negative, "window": window, "size": 40, "rate": 0.01})
    assert_same(kernel(case), twin(case))


CASES = st.builds(
    lambda model, **fields: Case(**MODELS[model] | fields),
    st.sampled_from(sorted(MODELS)),
    sentences=st.lists(st.lists(st.integers(-1, 6), max_size=20), min_size=1, max_size=4),
    size=st.integers(1, 140),
    window=st.integers(1, 6),
    seed=st.integers(0, 2**64 - 1),
    keep=st.sampled_from([0.0, 0.3, 0.8, 1.0]),
    first_new=st.integers(0, 7),
    old_rate=st.sampled_from([0.0, 0.25, 1.0]),
    rate=st.just(0.02),
)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(CASES)
def test_the_kernel_computes_the_equations_whatever_the_text_and_settings(case):
    assert_same(kernel(case), twin(case))


def test_old_rows_can_be_frozen_but_outputs_and_new_rows_move():
    for model in MODELS:
        case = Case(sentences=TEXT, first_new=3, old_rate=0.0, **MODELS[model])
        found = kernel(case)
        old = [*range(3), *range(WORDS, WORDS + BUCKETS)]
        assert found.input[old].tobytes() == case.input[old].tobytes()
        assert (found.input[3:5] != case.input[3:5]).any(axis=1).all()
        assert (found.output != case.output).any()


# --- gradients ----------------------------------------------------------------------------------------------------


def test_a_step_goes_against_the_gradient_of_the_loss():
    generator = np.random.default_rng(5)
    h, u, signs = generator.normal(size=5), generator.normal(size=(4, 5)), np.array([1.0, -1, -1, 1])
    outputs = u.copy()
    _, move = step(h, outputs, range(4), signs, 0.1)
    for place in range(5):
        ahead, behind = (h + delta * np.eye(5)[place] for delta in (1e-5, -1e-5))
        slope = (logistic_loss(ahead, u, signs) - logistic_loss(behind, u, signs)) / 2e-5
        assert move[place] == pytest.approx(-0.1 * slope, abs=1e-9)
    for place in np.ndindex(u.shape):
        both = []
        for delta in (1e-5, -1e-5):
            beside = u.copy()
            beside[place] += delta
            both.append(logistic_loss(h, beside, signs))
        assert (outputs - u)[place] == pytest.approx(-0.1 * (both[0] - both[1]) / 2e-5, abs=1e-9)


# --- worked values ------------------------------------------------------------------------------------------------


def test_worked_sub_sampling():
    """Shares are of all tokens, also those outside the vocabulary."""
    counts = np.array([100_000, 10_000, 1_000])
    kept = keep_probabilities(counts, 1_000_000, FastTextConfig())
    np.testing.assert_allclose(kept, [0.032623, 0.11, 0.416228], atol=5e-7)
    assert keep_probabilities(counts, 1_000_000, FastTextConfig(sample=0)).tolist() == [1, 1, 1]
    assert keep_probabilities(np.array([0, 1]), 10**9, FastTextConfig()).tolist() == [1, 1]


def test_worked_noise_distribution():
    """The square root, unlike word2vec."""
    np.testing.assert_allclose(noise_weights(np.array([100, 9, 1, 0]), FastTextConfig()), [10, 3, 1, 1])


def test_worked_step_of_skipgram_with_one_negative():
    """A word of two rows with the mean (0.1, 0.2) predicts word 0 against word 2: spec values of word2vec's step."""
    case = Case(sentences=[[1, 0]], size=2, negative=1, window=1, rate=0.025)
    case.tables = case.tables._replace(
        noise_threshold=np.array([0, 0, 1, 0, 0, 0, 0], np.float32), noise_alias=np.full(7, 2, np.int32)
    )
    case.input[:] = 0
    case.input[[1, 7, 8]] = [[0.3, 0], [0, 0.3], [0, 0.3]]
    case.output[:3] = [[0.3, -0.1], [0, 0], [-0.2, 0.4]]
    found = kernel(case)
    assert found.loss == pytest.approx(1.411757 + 2 * np.log(2), abs=1e-6)  # word 0 is zero: log 2 an output
    move = np.array([0.00630623, -0.00639371])
    np.testing.assert_allclose(found.input[[1, 7, 8]] - case.input[[1, 7, 8]], [move] * 3, atol=1e-7)
    np.testing.assert_allclose(found.output[0], [0.30124375, -0.0975125], atol=1e-7)
