"""GloVe against its equations, written out naively in float64, in the order in which the kernel visits the counts."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wenmai.data.cooccurrence import CountsConfig
from wenmai.data.cooccurrence_counting import count_cooccurrences
from wenmai.data.corpus import Corpus
from wenmai.data.encoded_corpus import encode_corpus
from wenmai.kernels.factorise import ROW_FLOATS, Counts, Settings, Visited, parameter_rows, train_visits
from wenmai.models.glove import GloVe, GloVeConfig
from wenmai.tasks.factorising import CountsPasses, FactoriseConfig
from wenmai.text.settings import TextConfig, VocabConfig

# --- the equations ------------------------------------------------------------------------------------------------


class Twin:
    """The parameters in float64, and the steps of the authors' program (spec of AdaGrad: sums before they grow)."""

    def __init__(self, words, contexts, size):
        padded = -(-size // ROW_FLOATS) * ROW_FLOATS
        self.vector = [rows[:, :size].astype(np.float64) for rows in (words, contexts)]
        self.sums = [rows[:, padded : padded + size].astype(np.float64) for rows in (words, contexts)]
        self.bias = [rows[:, 2 * padded].astype(np.float64) for rows in (words, contexts)]
        self.bias_sums = [rows[:, 2 * padded + 1].astype(np.float64) for rows in (words, contexts)]

    def step(self, i, j, x, *, rate, x_max, alpha, clip, bias_rate):
        """Descends ½ f(x) (w·w̃ + b + b̃ - log x)²; returns it."""
        w, c = self.vector[0][i].copy(), self.vector[1][j].copy()
        diff = w @ c + self.bias[0][i] + self.bias[1][j] - np.log(x)
        slope = min(1, x / x_max) ** alpha * diff
        for side, row, other in ((0, i, c), (1, j, w)):
            change = rate * np.clip(slope * other, -clip, clip)
            self.vector[side][row] -= change / np.sqrt(self.sums[side][row])
            self.sums[side][row] += change**2
            step = bias_rate * slope
            self.bias[side][row] -= step / np.sqrt(self.bias_sums[side][row])
            self.bias_sums[side][row] += step**2
        return 0.5 * slope * diff

    def assert_near(self, words, contexts, size, **tolerance):
        other = Twin(words, contexts, size)
        for name in ("vector", "sums", "bias", "bias_sums"):
            for ours, theirs in zip(getattr(self, name), getattr(other, name), strict=True):
                np.testing.assert_allclose(theirs, ours, **tolerance, err_msg=name)


def one_tile(matrix):
    """The counts of a small matrix, as the kernel takes them."""
    rows, columns = np.nonzero(matrix)
    weights = matrix[rows, columns].astype(np.float32)
    places = (rows << 16 | columns).astype(np.uint32)
    for part in (places, weights):
        part.flags.writeable = False  # as in the file: another type would be compiled for
    return Counts(np.array([0, len(rows)]), places, weights, 1, 256)


def drawn(words, size, generator, scale=0.5):
    rows = parameter_rows(words, size)
    padded = -(-size // ROW_FLOATS) * ROW_FLOATS
    rows[:, :size] = generator.normal(size=(words, size), scale=scale)
    rows[:, 2 * padded] = generator.normal(size=words, scale=scale)
    return rows, padded


def float32s(*values):
    return Settings(*map(np.float32, values))


# --- values -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bias_rate", "bias", "bias_sum"), [(1.0, 0.923877, 1.835171), (0.05, 0.055694, 1.002088)], ids=["own", "scaled"]
)
def test_a_worked_step(bias_rate, bias, bias_sum):
    words, contexts = parameter_rows(1, 2), parameter_rows(1, 2)
    words[0, :2], words[0, 16] = (0.1, -0.2), 0.01
    contexts[0, :2], contexts[0, 16] = (0.3, 0.4), -0.02
    counts, tally = one_tile(np.array([[20.0]])), np.zeros(2)
    chosen = float32s(0.05, 100, 0.75, 100, bias_rate)
    train_visits(np.array([0]), counts, words, contexts, 8, chosen, Visited.allocate(counts), np.uint64(1), tally)
    assert tally == pytest.approx([1.396282, 1], abs=1e-6)
    assert words[0, :2] == pytest.approx([0.113708, -0.181722], abs=1e-6)
    assert contexts[0, :2] == pytest.approx([0.304569, 0.390861], abs=1e-6)
    assert words[0, 8:10] == pytest.approx([1.000188, 1.000334], abs=1e-6)
    assert words[0, 16:18] == pytest.approx([bias, bias_sum], abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    size=st.sampled_from([1, 7, 8, 16, 20, 50, 100]),
    seed=st.integers(0, 1000),
    clip=st.sampled_from([100.0, 0.05]),
    alpha=st.sampled_from([0.75, 0.0, 1.0]),
    bias_rate=st.sampled_from([0.05, 1.0]),
    mirrored=st.booleans(),
)
def test_every_step_is_that_of_the_equations(size, seed, clip, alpha, bias_rate, mirrored):
    generator = np.random.default_rng(seed)
    matrix = generator.gamma(0.3, 60, (6, 6)) * (generator.random((6, 6)) < 0.7)
    matrix[0, 0] = 2.5
    matrix = np.tril(matrix) if mirrored else matrix
    counts, tally = one_tile(matrix), np.zeros(2)
    (words, padded), (contexts, _) = (drawn(6, size, generator) for _ in range(2))
    twin, visited = Twin(words, contexts, size), Visited.allocate(counts)
    chosen = {"rate": 0.05, "x_max": 10.0, "alpha": alpha, "clip": clip, "bias_rate": bias_rate}
    for epoch in range(2):
        visits = np.array([1 if mirrored else 0])
        train_visits(
            visits, counts, words, contexts, padded, float32s(*chosen.values()), visited, np.uint64(epoch), tally
        )
        places = visited.places[: int(tally[1])].tolist()
        expected = matrix.T - np.diag(np.diag(matrix)) if mirrored else matrix
        assert sorted(divmod(place, 1 << 16) for place in places) == [tuple(p) for p in np.argwhere(expected).tolist()]
        pairs = [divmod(place, 1 << 16) for place in places]
        loss = sum(twin.step(i, j, float(np.float32(expected[i, j])), **chosen) for i, j in pairs)
        assert tally[0] == pytest.approx(loss, rel=1e-4, abs=1e-6)
    twin.assert_near(words, contexts, size, rtol=2e-4, atol=2e-5)
    unused = np.r_[size:padded, 2 * padded + 2 : words.shape[1]]
    assert not words[:, unused].any(), "padding is no longer zero"


def test_three_epochs_over_three_hundred_counts_stay_with_the_equations():
    generator = np.random.default_rng(5)
    matrix = np.exp(generator.normal(size=(20, 20), scale=2)) * (generator.random((20, 20)) < 0.75)
    counts, tally, size = one_tile(matrix), np.zeros(2), 50
    rows = [parameter_rows(20, size) for _ in range(2)]
    for part in rows:
        part[:, :size] = (generator.random((20, size)) - 0.5) / size
    twin, visited = Twin(*rows, size), Visited.allocate(counts)
    chosen = {"rate": 0.05, "x_max": 100.0, "alpha": 0.75, "clip": 100.0, "bias_rate": 0.05}
    for epoch in range(3):
        train_visits(np.array([0]), counts, *rows, 56, float32s(*chosen.values()), visited, np.uint64(epoch), tally)
        order = [divmod(place, 1 << 16) for place in visited.places[: int(tally[1])].tolist()]
        loss = sum(twin.step(i, j, float(np.float32(matrix[i, j])), **chosen) for i, j in order)
        assert tally == pytest.approx([loss, np.count_nonzero(matrix)], rel=1e-4)
    twin.assert_near(*rows, size, rtol=1e-3, atol=1e-5)


# --- a whole sweep ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def counts(tmp_path_factory):
    """Counts of a vocabulary that takes three tiles side by side."""
    generator = np.random.default_rng(1)
    shares = 1 / np.arange(1, 601)
    drawn_words = generator.choice(600, (400, 20), p=shares / shares.sum())
    folder = tmp_path_factory.mktemp("counts")
    corpus = encode_corpus(
        Corpus.of([[f"w{word}" for word in line] for line in drawn_words]), TextConfig(), cache=folder
    )
    return count_cooccurrences(corpus, VocabConfig(min_count=1), CountsConfig(window=3), cache=folder)


def sweep_of(counts, **chosen):
    model = GloVe(GloVeConfig(vector_size=8), counts.vocab)
    model.initialise(1)
    return CountsPasses(model, counts, FactoriseConfig(**chosen), words=8000)


def visits_of(sweep, epoch):
    order, cuts = sweep._order(epoch)
    return [order[begin:end].tolist() for begin, end in pairwise(cuts)]


def test_an_epoch_visits_every_count_of_both_triangles_once(counts):
    sweep = sweep_of(counts)
    worker, seen = sweep.worker(), []
    blocks = visits_of(sweep, 0)
    tallies = [sweep.train_block(worker, 0, block, 0.05) for block in range(sweep.blocks)]
    assert sum(tally.examples for tally in tallies) == counts.non_zeros
    assert sum(tally.words for tally in tallies) == 8000
    for visit in np.concatenate(blocks).astype(int):
        seen.append(visit)
    sizes = np.diff(counts.bounds)
    assert sorted(seen) == sorted([2 * t for t in np.flatnonzero(sizes)] + [2 * t + 1 for t in np.flatnonzero(sizes)])


def test_the_order_is_a_function_of_seed_and_epoch(counts):
    first = sweep_of(counts)
    orders = [visits_of(first, epoch) for epoch in range(3)]
    assert orders[0] != orders[1] != orders[2]
    assert visits_of(first, 0) == orders[0]
    assert visits_of(sweep_of(counts), 2) == orders[2]
    assert visits_of(sweep_of(counts, seed=2), 0) != orders[0]


def test_the_products_of_vectors_become_the_logarithms_of_counts(counts):
    sweep = sweep_of(counts)
    worker = sweep.worker()
    losses = []
    for epoch in range(40):
        tallies = [sweep.train_block(worker, epoch, block, 0.05) for block in range(sweep.blocks)]
        losses.append(sum(tally.loss for tally in tallies) / counts.non_zeros)
    assert losses[-1] < 0.3 * losses[0]
    tensors = {name: rows.astype(np.float64) for name, rows in sweep._model.tensors().items()}
    scores = tensors["words"] @ tensors["contexts"].T + tensors["word_biases"] + tensors["context_biases"].T
    rows, columns, weights = (np.concatenate(parts) for parts in zip(*counts.entries(), strict=True))
    frequent = weights > 10
    assert np.corrcoef(scores[rows, columns][frequent], np.log(weights[frequent]))[0, 1] > 0.95
