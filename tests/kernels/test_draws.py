"""What the random draws of a block add up to."""

import numpy as np
import pytest

from wenmai.kernels.window import Choices, Rows, Scratch, Tables, aligned_rows, noise_table, train_block

CHOICES = Choices(
    window=1,
    dynamic=False,
    negative=1,
    hierarchical=False,
    softmax=False,
    cbow=False,
    mean=True,
    true_gradient=False,
    shared=True,
)


def train(sentences, vocabulary, *, choices=CHOICES, keep=None, weights=None, rate=0.0, seed=1, frozen=False):
    """Trains vectors of one number from 1 (input) and 0 (output); returns the output column and the tally."""
    tokens = np.concatenate(sentences).astype(np.int32)
    starts = np.cumsum([0, *map(len, sentences)])
    rows = Rows(
        input=aligned_rows(vocabulary, 16),
        negative=aligned_rows(vocabulary, 16),
        hierarchical=aligned_rows(1, 16),
        old_rows=vocabulary if frozen else 0,
        old_rate=np.float32(0),
    )
    rows.input[:, 0] = 1
    tables = Tables(
        np.arange(vocabulary, dtype=np.int32),
        np.ones(vocabulary, np.float32) if keep is None else np.array(keep, np.float32),
        *noise_table(np.ones(vocabulary) if weights is None else np.array(weights)),
        np.zeros(1, np.int64),
        np.zeros(1, np.int32),
        np.zeros(1, np.float32),
    )
    scratch = Scratch.allocate(choices, block=len(tokens), padded=16, longest_path=0, vocabulary=vocabulary)
    tally = np.zeros(3)
    train_block(tokens, starts, rows, tables, choices, scratch, np.float32(rate), np.uint64(seed), tally)
    return rows.negative[:, 0], tally


@pytest.mark.parametrize("keep", [0.0, 0.01, 0.3, 0.9, 1.0])
def test_sub_sampling_keeps_the_right_share(keep):
    tokens = 200_000
    _, (_, examples, known) = train([np.zeros(tokens)], 1, keep=[keep])
    kept = examples / 2 + 1 if examples else 0  # all but the two ends have two neighbours
    assert known == tokens
    assert abs(kept - tokens * keep) <= 4 * np.sqrt(tokens * keep * (1 - keep))


def test_each_word_has_its_own_share():
    """Only word 1 is ever dropped; the pairs that are left tell how often."""
    sentences = [np.array([0, 1])] * 50_000
    _, (_, examples, known) = train(sentences, 2, keep=[1.0, 0.25])
    assert known == 100_000
    assert examples / 2 == pytest.approx(12_500, abs=4 * np.sqrt(50_000 * 0.25 * 0.75))


@pytest.mark.parametrize("window", [1, 2, 5, 8])
def test_every_half_width_is_equally_likely(window):
    """Words at distance D see each other with probability (c - D + 1) / c; longer sentences add longer distances."""
    choices = CHOICES._replace(window=window, dynamic=True)
    sentences = 20_000
    for length in range(2, window + 3):
        _, (_, examples, _) = train([np.zeros(length)] * sentences, 1, choices=choices, seed=length)
        distances = np.arange(1, length)
        expected = 2 * (length - distances) @ (np.maximum(0, window - distances + 1) / window)
        assert examples / sentences == pytest.approx(expected, abs=0.03 * length)


def test_a_fixed_window_reaches_as_far_as_it_says():
    choices = CHOICES._replace(window=3)
    _, (_, examples, _) = train([np.zeros(10)], 1, choices=choices)
    assert examples == sum(min(i, 3) + min(9 - i, 3) for i in range(10))


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("negative", [1, 3])
def test_negatives_follow_the_noise_distribution(negative, shared):
    """With inputs frozen at 1 and a tiny rate, each draw of a word lowers its output by exactly half the rate."""
    weights = np.array([50, 20, 10, 7, 5, 3, 2, 1.5, 1, 0.5])
    windows, rate = 100_000, 2.0**-60
    output, (_, examples, _) = train(
        [np.array([10, 10])] * (windows // 2),  # word 10 is the only true one, and is no noise
        11,
        choices=CHOICES._replace(negative=negative, shared=shared),
        weights=[*weights, 0.0],
        rate=rate,
        frozen=True,
    )
    assert examples == windows
    drawn = -output.astype(np.float64) / (rate / 2)
    assert drawn[10] == -windows
    assert drawn[:10].sum() == windows * negative
    expected = windows * negative * weights / weights.sum()
    chi_square = ((drawn[:10] - expected) ** 2 / expected).sum()
    assert chi_square < 27.9  # 9 degrees of freedom: one in a thousand is larger


def test_a_noise_word_that_is_the_true_one_is_dropped():
    output, (loss, examples, _) = train([np.array([0, 0])], 1, choices=CHOICES._replace(negative=50), rate=1e-3)
    assert examples == 2
    assert loss == pytest.approx(2 * np.log(2), rel=1e-3)  # the true word alone
    assert output[0] > 0


def test_draws_depend_on_the_seed_alone():
    sentences = [np.arange(7)] * 20
    choices = CHOICES._replace(window=5, dynamic=True, negative=3)
    results = [
        train(sentences, 7, choices=choices, keep=[0.7] * 7, rate=0.1, seed=seed)[0].tobytes() for seed in (1, 1, 2)
    ]
    assert results[0] == results[1] != results[2]
