"""word2vec against its equations, written out naively in float64 (Mikolov et al. 2013a, 2013b).

The twin replays the random draws of the compiled kernels, so that every prediction is known, and then applies the
equations of the papers to one prediction after the other.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

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


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def logistic_loss(h, u, signs):
    """Σ -log σ(s_o u_o·h_c), inputs h (m, d), outputs u (n, d): 2013b, eq. 4 (s = ±1) and eq. 3 (s = 1 - 2 code)."""
    return -np.log(sigmoid(signs * (h @ u.T))).sum()


def logistic_step(h, u, signs, rate):
    """The loss, and what the inputs and the outputs change by; both from the old values (pWord2Vec)."""
    errors = rate * signs * sigmoid(-signs * (h @ u.T))  # (m, n)
    return logistic_loss(h, u, signs), errors @ u, errors.T @ h


def softmax_loss(h, u, target):
    """-log P(target|h) of one input h (d), P(o|h) = exp(u_o·h) / Σ_w exp(u_w·h): 2013b, eq. 2."""
    return np.log(np.exp(u @ h).sum()) - u[target] @ h


def softmax_step(h, u, target, rate):
    scores = np.exp(u @ h)
    errors = rate * ((np.arange(len(u)) == target) - scores / scores.sum())
    return softmax_loss(h, u, target), errors @ u, np.outer(errors, h)


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


@dataclass(kw_only=True)
class Case:
    """A text and settings, small enough to follow by hand."""

    sentences: list[list[int]]  # -1 is a word outside the vocabulary
    counts: tuple[int, ...] = (30, 20, 9, 5, 5, 2, 1)
    size: int = 16
    rate: float = 0.05
    seed: int = 7
    keep: float = 1.0
    old_rows: int = 0
    old_rate: float = 1.0
    window: int = 3
    dynamic: bool = False
    negative: int = 5
    hierarchical: bool = False
    softmax: bool = False
    cbow: bool = False
    mean: bool = True
    true_gradient: bool = False
    shared: bool = True
    tables: Tables = field(init=False)
    input: np.ndarray = field(init=False)  # (V, d)
    output: np.ndarray = field(init=False)  # (2 V, d): V rows of words, then V of inner nodes

    def __post_init__(self):
        counts = np.array(self.counts, np.int64)
        self.tables = Tables(
            np.arange(len(counts), dtype=np.int32),
            np.full(len(counts), self.keep, np.float32),
            *noise_table(counts**0.75),
            *huffman_paths(counts),
        )
        values = np.random.default_rng(self.seed).normal(0, 1.5 / self.size**0.25, (3 * len(counts), self.size))
        self.input, self.output = np.split(values.astype(np.float32), [len(counts)])

    @property
    def choices(self):
        return Choices(**{name: getattr(self, name) for name in Choices._fields})

    @property
    def together(self):
        """Whether a window is one step."""
        return self.cbow or self.shared

    def outputs(self, centre, draws):
        """Rows of ``output`` and signs: the centre and its negatives, then the nodes of its Huffman path."""
        rows, signs = [], []
        if self.negative:
            noise = [draws.noise(self.tables.noise_threshold, self.tables.noise_alias) for _ in range(self.negative)]
            rows += [centre, *(word for word in noise if word != centre)]
            signs += [1] + [-1] * (len(rows) - 1)
        if self.hierarchical:
            path = slice(*self.tables.path_start[centre : centre + 2])
            rows += (len(self.counts) + self.tables.path_node[path]).tolist()
            signs += self.tables.path_sign[path].tolist()
        return rows, np.array(signs)

    def kept(self, sentence, draws):
        return [word for word in sentence if word >= 0 and draws.uniform() < self.keep]

    def context(self, text, i, draws):
        half = draws.half_width(self.window) if self.dynamic else self.window
        return text[max(0, i - half) : i] + text[i + 1 : i + 1 + half]


class Window(NamedTuple):
    centre: int
    context: list[int]
    outputs: list  # (rows, signs) of each step


def windows_of_block(case: Case) -> Iterator[Window]:
    """The windows in the order of ``train_block``, which draws the outputs of a window one window early."""
    draws = Draws(case.seed)
    for sentence in case.sentences:
        text = case.kept(sentence, draws)
        following = case.outputs(text[0], draws) if text and case.together else None
        for i, centre in enumerate(text):
            here = following
            if i + 1 < len(text) and case.together:
                following = case.outputs(text[i + 1], draws)
            context = case.context(text, i, draws)
            yield Window(centre, context, [here] if case.together else [case.outputs(centre, draws) for _ in context])


def windows_of_lane(case: Case) -> Iterator[Window]:
    """The windows in the order of ``train_lanes``, which sub-samples all sentences first."""
    draws = Draws(case.seed)
    for text in [case.kept(sentence, draws) for sentence in case.sentences]:
        for i, centre in enumerate(text):
            context = case.context(text, i, draws)
            steps = min(1, len(context)) if case.together else len(context)
            yield Window(centre, context, [case.outputs(centre, draws) for _ in range(steps)])


def steps(case: Case, a: np.ndarray, u: np.ndarray, window: Window):
    """Yields (loss, input rows, their changes, output rows, their changes) of each step of a window."""
    centre, context, outputs = window
    words = np.arange(len(a))
    if not context:
        return
    if case.cbow:
        h = a[context].mean(axis=0) if case.mean else a[context].sum(axis=0)
        if case.softmax:
            loss, e, du = softmax_step(h, u[words], centre, case.rate)
            rows = words
        else:
            [(rows, signs)] = outputs
            loss, [e], du = logistic_step(h[None], u[rows], signs, case.rate)
        if case.true_gradient and case.mean:
            e = e / len(context)  # dh/da_c = 1/m, which word2vec.c leaves out
        yield loss, context, np.tile(e, (len(context), 1)), rows, du
    elif case.softmax:
        for word in context:
            loss, e, du = softmax_step(a[word], u[words], centre, case.rate)
            yield loss, [word], [e], words, du
    elif case.shared:
        [(rows, signs)] = outputs
        loss, da, du = logistic_step(a[context], u[rows], signs, case.rate)
        yield loss, context, da, rows, du
    else:
        for word, (rows, signs) in zip(context, outputs, strict=True):
            loss, da, du = logistic_step(a[[word]], u[rows], signs, case.rate)
            yield loss, [word], da, rows, du


class Outcome(NamedTuple):
    input: np.ndarray
    output: np.ndarray
    loss: float
    examples: int
    words: int


class Twin:
    def __init__(self, case: Case) -> None:
        self.input, self.output = case.input.astype(np.float64), case.output.astype(np.float64)
        self.slowed = np.where(np.arange(len(self.input)) < case.old_rows, case.old_rate, 1.0)[:, None]
        self.cbow = case.cbow
        self.loss, self.examples = 0.0, 0

    def apply(self, step) -> None:
        loss, inputs, da, outputs, du = step
        self.loss += loss
        self.examples += 1 if self.cbow else len(inputs)
        np.add.at(self.input, inputs, self.slowed[inputs] * da)
        np.add.at(self.output, outputs, du)

    def outcome(self, *cases: Case) -> Outcome:
        words = sum(word >= 0 for case in cases for sentence in case.sentences for word in sentence)
        return Outcome(self.input, self.output, self.loss, self.examples, words)


def twin_of_block(case: Case) -> Outcome:
    """One step after the other."""
    twin = Twin(case)
    for window in windows_of_block(case):
        for step in steps(case, twin.input, twin.output, window):
            twin.apply(step)
    return twin.outcome(case)


def twin_of_lanes(cases: list[Case]) -> Outcome:
    """All steps of 16 windows of every lane from the same parameters."""
    twin = Twin(cases[0])
    lanes = [list(windows_of_lane(case)) for case in cases]
    for place in range(0, max(map(len, lanes)), 16):
        together = [
            (case, window) for case, lane in zip(cases, lanes, strict=True) for window in lane[place : place + 16]
        ]
        for step in [step for case, window in together for step in steps(case, twin.input, twin.output, window)]:
            twin.apply(step)
    return twin.outcome(*cases)


# --- the kernels --------------------------------------------------------------------------------------------------


def text_of(case: Case) -> tuple[np.ndarray, np.ndarray]:
    tokens = [word for sentence in case.sentences for word in sentence]
    return np.array(tokens, np.int32), np.cumsum([0, *map(len, case.sentences)])


def rows_of(case: Case) -> Rows:
    size = len(case.counts)
    matrices = []
    for values in (case.input, case.output[:size], case.output[size:]):
        padded = aligned_rows(size, -(-case.size // 16) * 16)
        padded[:, : case.size] = values
        matrices.append(padded)
    return Rows(*matrices, case.old_rows, np.float32(case.old_rate))


def outcome(case: Case, rows: Rows, tally: np.ndarray) -> Outcome:
    assert not any(matrix[:, case.size :].any() for matrix in rows[:3]), "padding is no longer zero"
    dense = [matrix[:, : case.size] for matrix in rows[:3]]
    return Outcome(dense[0], np.concatenate(dense[1:]), float(tally[0]), int(tally[1]), int(tally[2]))


def kernel_block(case: Case) -> Outcome:
    rows, tally = rows_of(case), np.full(3, np.nan)
    scratch = Scratch.allocate(
        case.choices,
        block=sum(map(len, case.sentences)),
        padded=rows.input.shape[1],
        longest_path=int(np.diff(case.tables.path_start).max()),
        vocabulary=len(case.counts),
    )
    rate, seed = np.float32(case.rate), np.uint64(case.seed)
    train_block(*text_of(case), rows, case.tables, case.choices, scratch, rate, seed, tally)
    return outcome(case, rows, tally)


def kernel_lanes(cases: list[Case], threads: int = 2) -> Outcome:
    case, rows = cases[0], rows_of(cases[0])
    memory = LaneMemory.allocate(
        case.choices,
        block=max(sum(map(len, case.sentences)) for case in cases),
        padded=rows.input.shape[1],
        longest_path=int(np.diff(case.tables.path_start).max()),
    )
    rates = np.array([case.rate for case in cases], np.float32)
    seeds = np.array([case.seed for case in cases], np.uint64)
    texts = [text_of(case) for case in cases]
    tally = train_lanes(texts, rows, case.tables, case.choices, memory, rates, seeds, threads)
    assert tally.shape == (len(cases), 3)
    return outcome(case, rows, tally.sum(axis=0))


def assert_same(found: Outcome, expected: Outcome) -> None:
    assert (found.examples, found.words) == (expected.examples, expected.words)
    assert found.loss == pytest.approx(expected.loss, rel=1e-5, abs=1e-6)
    np.testing.assert_allclose(found.input, expected.input, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found.output, expected.output, rtol=1e-5, atol=1e-5)


# --- kernel = twin ------------------------------------------------------------------------------------------------

TEXT = [[0, 1, 2, 0, 3, 1, 4, 0, 0], [5], [], [1, 0, -1, 6, 2, 1], [0, 0, 0], [2, 6]]
MODELS = {
    "skip-gram, shared negatives": {},
    "skip-gram, classic": {"shared": False},
    "skip-gram, hierarchical": {"negative": 0, "hierarchical": True},
    "skip-gram, classic hierarchical": {"negative": 0, "hierarchical": True, "shared": False},
    "skip-gram, both": {"hierarchical": True},
    "skip-gram, classic, both": {"hierarchical": True, "shared": False},
    "skip-gram, softmax": {"negative": 0, "softmax": True},
    "cbow, mean": {"cbow": True},
    "cbow, sum": {"cbow": True, "mean": False, "rate": 0.01},
    "cbow, true gradient": {"cbow": True, "true_gradient": True},
    "cbow, hierarchical": {"cbow": True, "negative": 0, "hierarchical": True},
    "cbow, both": {"cbow": True, "hierarchical": True},
    "cbow, softmax": {"cbow": True, "negative": 0, "softmax": True},
    "cbow, softmax, true gradient": {"cbow": True, "negative": 0, "softmax": True, "true_gradient": True},
}


@pytest.mark.parametrize("size", [1, 16, 33, 64, 100, 130])  # strips of 16; 32 + 16; 64; 64 + 32 + 16; 2 · 64 + 16
@pytest.mark.parametrize("model", MODELS)
def test_the_kernel_computes_the_equations(model, size):
    case = Case(sentences=TEXT, size=size, **MODELS[model])
    assert_same(kernel_block(case), twin_of_block(case))


@pytest.mark.parametrize("window", [1, 2, 3])
@pytest.mark.parametrize("negative", range(1, 8))
@pytest.mark.parametrize("model", ["skip-gram, shared negatives", "skip-gram, classic", "cbow, mean"])
def test_odd_and_even_numbers_of_inputs_and_outputs(model, negative, window):
    case = Case(sentences=TEXT, **MODELS[model] | {"negative": negative, "window": window, "size": 40})
    assert_same(kernel_block(case), twin_of_block(case))


CASES = st.builds(
    lambda model, **fields: Case(**MODELS[model] | fields),
    st.sampled_from(sorted(MODELS)),
    sentences=st.lists(st.lists(st.integers(-1, 6), max_size=20), min_size=1, max_size=4),
    size=st.integers(1, 140),
    window=st.integers(1, 6),
    dynamic=st.booleans(),
    seed=st.integers(0, 2**64 - 1),
    keep=st.sampled_from([0.0, 0.3, 0.8, 1.0]),
    old_rows=st.integers(0, 7),
    old_rate=st.sampled_from([0.0, 0.25, 1.0]),
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(CASES)
def test_the_kernel_computes_the_equations_whatever_the_text_and_settings(case):
    assert_same(kernel_block(case), twin_of_block(case))


@settings(max_examples=50, deadline=None, derandomize=True)
@given(CASES.filter(lambda case: not case.softmax), st.integers(1, 16), st.integers(1, 3))
def test_lanes_compute_the_equations_from_parameters_that_nobody_writes(case, lanes, threads):
    texts = [case.sentences] + [
        [sentence[lane % 3 :] for sentence in case.sentences] * (lane % 3) for lane in range(1, lanes)
    ]
    rate = 0.3 / max(1, sum(len(sentence) for text in texts for sentence in text))  # all may change the same row
    cases = [
        replace(case, sentences=text, seed=case.seed // (lane + 1), rate=rate / (lane + 1))
        for lane, text in enumerate(texts)
    ]
    assert_same(kernel_lanes(cases, threads), twin_of_lanes(cases))


def test_a_vocabulary_of_one_word_learns_from_itself():
    for model in ("skip-gram, shared negatives", "skip-gram, classic", "cbow, mean", "skip-gram, hierarchical"):
        case = Case(sentences=[[0, 0, 0]], counts=(3,), **MODELS[model])
        found = kernel_block(case)
        assert_same(found, twin_of_block(case))  # every noise word equals the true one and is dropped
        assert_same(kernel_lanes([case]), twin_of_lanes([case]))
        assert (found.loss > 0) == (case.negative > 0)


def test_old_rows_can_be_frozen_but_outputs_and_new_rows_move():
    for model in MODELS:
        case = Case(sentences=TEXT, old_rows=3, old_rate=0.0, **MODELS[model])
        found = kernel_block(case)
        assert found.input[:3].tobytes() == case.input[:3].tobytes()
        assert (found.input[3:] != case.input[3:]).all(axis=1).sum() >= 3
        assert (found.output != case.output).any()


# --- gradients ----------------------------------------------------------------------------------------------------


def numeric_gradient(loss, at):
    gradient = np.empty_like(at)
    for place in np.ndindex(at.shape):
        beside = [at.copy(), at.copy()]
        beside[0][place] += 1e-5
        beside[1][place] -= 1e-5
        gradient[place] = (loss(beside[0]) - loss(beside[1])) / 2e-5
    return gradient


def one_window(**fields) -> tuple[Case, Window]:
    case = Case(sentences=[[2, 0, 1, 3]], size=5, **fields)
    return case, list(windows_of_block(case))[2]


@pytest.mark.parametrize("model", ["skip-gram, shared negatives", "skip-gram, hierarchical", "skip-gram, both"])
def test_skipgram_steps_against_the_gradient_of_the_loss(model):
    case, window = one_window(**MODELS[model])
    a, u = case.input.astype(np.float64), case.output.astype(np.float64)
    [(rows, signs)] = window.outputs
    [(_, context, da, _, du)] = steps(case, a, u, window)
    expected = numeric_gradient(lambda h: logistic_loss(h, u[rows], signs), a[context])
    np.testing.assert_allclose(da, -case.rate * expected, atol=1e-9)
    expected = numeric_gradient(lambda v: logistic_loss(a[context], v, signs), u[rows])
    np.testing.assert_allclose(du, -case.rate * expected, atol=1e-9)


def test_the_softmax_step_goes_against_the_gradient_of_the_loss():
    case, window = one_window(negative=0, softmax=True)
    a, u = case.input.astype(np.float64), case.output[:7].astype(np.float64)
    for _, [word], [e], _, du in steps(case, a, u, window):
        expected = numeric_gradient(lambda h: softmax_loss(h, u, window.centre), a[word])
        np.testing.assert_allclose(e, -case.rate * expected, atol=1e-9)
        expected = numeric_gradient(lambda v, h=a[word]: softmax_loss(h, v, window.centre), u)
        np.testing.assert_allclose(du, -case.rate * expected, atol=1e-9)


@pytest.mark.parametrize(
    ("fields", "factor"),
    [
        ({"true_gradient": True}, 1),
        ({}, 3),  # word2vec.c: larger by the number of words in the window
        ({"mean": False}, 1),
        ({"negative": 0, "softmax": True, "true_gradient": True}, 1),
    ],
)
def test_the_cbow_step_goes_against_the_gradient_of_the_loss(fields, factor):
    case, window = one_window(cbow=True, **fields)
    a, u = case.input.astype(np.float64), case.output.astype(np.float64)
    pool = np.mean if case.mean else np.sum

    def loss(inputs):
        h = pool(inputs, axis=0)
        if case.softmax:
            return softmax_loss(h, u[:7], window.centre)
        [(rows, signs)] = window.outputs
        return logistic_loss(h[None], u[rows], signs)

    [(_, context, da, _, _)] = steps(case, a, u, window)
    assert len(context) == 3
    np.testing.assert_allclose(da, -case.rate * factor * numeric_gradient(loss, a[context]), atol=1e-9)


def test_probabilities_of_hierarchical_softmax_sum_to_one():
    case = Case(sentences=[], counts=(40, 30, 7, 7, 7, 3, 2, 2, 1, 1, 1))
    theta, h = case.output[11:].astype(np.float64), case.input[0].astype(np.float64)
    start, node, sign = huffman_paths(np.array(case.counts))
    paths = [slice(start[w], start[w + 1]) for w in range(11)]
    assert sum(np.prod(sigmoid(sign[path] * (theta[node[path]] @ h))) for path in paths) == pytest.approx(1, abs=1e-12)


def test_a_positive_word_alone_is_logistic_regression():
    """Negative sampling whose draws are all dropped has the loss -log σ(u·v)."""
    case = Case(sentences=[[0, 0]], counts=(2,), negative=7)
    loss = logistic_loss(case.input[:1].astype(np.float64), case.output[:1].astype(np.float64), np.ones(1))
    assert kernel_block(case).loss > loss > 0
    assert next(windows_of_block(case)).outputs[0][0] == [0]


# --- worked values ------------------------------------------------------------------------------------------------


def model_with_counts(*counts: int, **settings) -> Word2Vec:
    vocab = Vocab([f"w{i}" for i in range(len(counts))], counts)
    return Word2Vec(Word2VecConfig(vector_size=2, **settings), vocab)


def test_worked_huffman_codes():
    start, node, sign = huffman_paths(np.array([50, 20, 15, 10, 5]))
    paths = [slice(start[w], start[w + 1]) for w in range(5)]
    codes = ["".join("0" if s > 0 else "1" for s in sign[path]) for path in paths]
    assert codes == ["1", "00", "011", "0101", "0100"]
    assert [node[path].tolist() for path in paths] == [[3], [3, 2], [3, 2, 1], [3, 2, 1, 0], [3, 2, 1, 0]]


def test_worked_noise_distribution():
    weights = model_with_counts(100, 10, 1).noise()
    np.testing.assert_allclose(weights / weights.sum(), [0.826822, 0.147032, 0.026146], atol=5e-7)
    uniform = model_with_counts(100, 10, 1, noise_exponent=0).noise()
    np.testing.assert_array_equal(uniform, uniform[0])


def test_worked_sub_sampling():
    """A word that is 1 % of the text, at t = 1e-3: word2vec.c keeps 0.416 of it, the paper 0.316."""
    counts = np.array([9900, 100])
    code = keep_probabilities(counts, Word2VecConfig())
    paper = keep_probabilities(counts, Word2VecConfig(subsampling="paper"))
    assert code[1] == pytest.approx(0.416228, abs=1e-6)
    assert paper[1] == pytest.approx(0.316228, abs=1e-6)
    assert keep_probabilities(counts, Word2VecConfig(sample=0)).tolist() == [1, 1]
    assert keep_probabilities(np.array([1, 10**9]), Word2VecConfig())[0] == 1


def test_worked_step_of_skipgram_with_one_negative():
    """Word 1 predicts word 0 against word 2. The other way round, word 0 is zero and moves nothing but itself."""
    case = Case(sentences=[[0, 1]], counts=(1, 1, 1), size=2, negative=1, rate=0.025)
    case.tables = case.tables._replace(
        noise_threshold=np.array([0, 0, 1], np.float32), noise_alias=np.array([2, 2, 2], np.int32)
    )
    case.input[:] = [[0, 0], [0.1, 0.2], [0, 0]]
    case.output[:3] = [[0.3, -0.1], [0, 0], [-0.2, 0.4]]
    found = kernel_block(case)
    assert found.loss == pytest.approx(1.411757 + 2 * np.log(2), abs=1e-6)
    np.testing.assert_allclose(found.input[1], [0.10630623, 0.19360629], atol=1e-8)
    np.testing.assert_allclose(found.output[0], [0.30124375, -0.0975125], atol=1e-8)
    np.testing.assert_allclose(found.output[2], [-0.20128749, 0.39742502], atol=2e-8)
