"""The equations of the classic linear models, against worked values and naive loops."""

import math

import numpy as np
import pytest
from scipy import sparse

from wenmai.core.errors import SettingError, TrainingError
from wenmai.kernels.descent import Descent, coded_targets, losses_and_deltas, probabilities, solve_least_squares

OBJECTIVES = ("squared", "logistic", "softmax", "perceptron")


def naive_epoch(objective, features, targets, *, batch_size, rate, l2, epochs):
    """Loops over batches, examples, scores and features, as the equations have it; order as given."""
    count, size = features.shape
    width = targets.shape[1]
    weights, bias = np.zeros((size, width)), np.zeros(width)
    losses = []
    for _ in range(epochs):
        for first in range(0, count, batch_size):
            rows = range(first, min(first + batch_size, count))
            weight_gradient, bias_gradient, loss = np.zeros_like(weights), np.zeros(width), 0.0
            for row in rows:
                scores = [sum(features[row, j] * weights[j, k] for j in range(size)) + bias[k] for k in range(width)]
                for k in range(width):
                    z, t = scores[k], targets[row, k]
                    if objective == "squared":
                        loss, delta = loss + (z - t) ** 2, 2 * (z - t)
                    elif objective == "logistic":
                        p = 1 / (1 + math.exp(-z))
                        loss, delta = loss - (t * math.log(p) + (1 - t) * math.log(1 - p)), p - t
                    elif objective == "softmax":
                        p = math.exp(z) / sum(math.exp(s) for s in scores)
                        loss, delta = loss - t * math.log(p), p - t
                    else:
                        loss, delta = loss + max(0.0, -t * z), -t if t * z <= 0 else 0.0
                    bias_gradient[k] += delta / len(rows)
                    for j in range(size):
                        weight_gradient[j, k] += delta * features[row, j] / len(rows)
            losses.append(loss)
            weights -= rate * (weight_gradient + 2 * l2 * weights)
            bias -= rate * bias_gradient
    return weights, bias, losses


@pytest.fixture(scope="module")
def numbers():
    draws = np.random.default_rng(3)
    features = draws.normal(size=(23, 5)) * (draws.random((23, 5)) < 0.6)
    return features, draws.integers(0, 3, 23)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("batch_size", [1, 7, None], ids=["stochastic", "mini-batch", "batch"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_descent_is_the_naive_loop(numbers, objective, batch_size, kind):
    features, labels = numbers
    targets = coded_targets(objective, labels, 3)
    given = features if kind == "dense" else sparse.csr_matrix(features)
    descent = Descent(objective, given, targets, batch_size=batch_size, l2=0.03, shuffle=False)
    losses = np.concatenate([descent.train(epoch, 0, 23, 0.1) for epoch in range(4)])
    weights, bias = descent.settle()
    expected = naive_epoch(objective, features, targets, batch_size=batch_size or 23, rate=0.1, l2=0.03, epochs=4)
    np.testing.assert_allclose(weights, expected[0], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(bias, expected[1], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(losses, expected[2], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("objective", OBJECTIVES[:3])
def test_gradients_are_differences_of_the_loss(numbers, objective):
    draws = np.random.default_rng(1)
    targets = coded_targets(objective, numbers[1], 3)
    scores = draws.normal(size=targets.shape) * 3
    deltas = losses_and_deltas(objective, scores, targets)[1]
    step = 1e-5
    for k in range(targets.shape[1]):
        moved = np.zeros_like(scores)
        moved[:, k] = step
        above, below = (losses_and_deltas(objective, scores + sign * moved, targets)[0] for sign in (1, -1))
        np.testing.assert_allclose((above - below) / (2 * step), deltas[:, k], rtol=1e-6, atol=1e-9)


def test_the_penalty_shrinks_even_beyond_the_smallest_scale():
    features = np.array([[1.0, 0.0], [0.0, 1.0]])
    targets = np.array([[1.0], [-1.0]])
    found = []
    for given in (features, sparse.csr_matrix(features)):
        descent = Descent("squared", given, targets, batch_size=None, l2=0.45, shuffle=False)
        for epoch in range(200):
            descent.train(epoch, 0, 2, 0.5)
        found.append(descent.settle()[0])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)
    np.testing.assert_allclose(found[0][:, 0], [0.5 / 0.95, -0.5 / 0.95], rtol=1e-9)  # (X'X/2 + 0.45 I) w = X'y/2


# --- worked values ------------------------------------------------------------------------------------------------

POINTS, VALUES = np.array([[1.0], [2.0], [3.0]]), np.array([[1.0], [2.0], [2.0]])


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_least_squares_on_three_points(kind):
    given = POINTS if kind == "dense" else sparse.csr_matrix(POINTS)
    weights, bias = solve_least_squares(given, VALUES, l2=0.0, fit_intercept=True)
    assert weights[0, 0] == pytest.approx(1 / 2)
    assert bias[0] == pytest.approx(2 / 3)
    assert ((POINTS @ weights + bias - VALUES) ** 2).mean() == pytest.approx(1 / 18)


def test_one_step_of_least_squares():
    descent = Descent("squared", POINTS, VALUES, batch_size=None, shuffle=False)
    descent.train(0, 0, 3, 0.1)
    weights, bias = descent.settle()
    assert (bias[0], weights[0, 0]) == (pytest.approx(0.333333, abs=1e-6), pytest.approx(0.733333, abs=1e-6))


@pytest.mark.parametrize("shape", [(40, 6), (6, 40)], ids=["tall", "wide"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_ridge_solves_its_normal_equations(shape, kind):
    draws = np.random.default_rng(2)
    features, targets = draws.normal(size=shape) + 1, draws.normal(size=(shape[0], 2))
    given = features if kind == "dense" else sparse.csr_matrix(features)
    weights, bias = solve_least_squares(given, targets, l2=0.2, fit_intercept=True)
    residual = features @ weights + bias - targets
    np.testing.assert_allclose(features.T @ residual + 0.2 * shape[0] * weights, 0, atol=1e-7)
    np.testing.assert_allclose(residual.sum(axis=0), 0, atol=1e-8)


def test_the_logistic_example():
    score = np.array([[0.5 * 2 - 0.25 * 4 + 0.1]])
    loss, delta = losses_and_deltas("logistic", score, np.array([[1.0]]))
    assert probabilities("logistic", score)[0, 1] == pytest.approx(0.524979, abs=1e-6)
    assert loss[0] == pytest.approx(0.644397, abs=1e-6)
    np.testing.assert_allclose(delta[0, 0] * np.array([2, 4, 1]), [-0.950042, -1.900083, -0.475021], atol=1e-6)


def test_the_softmax_example():
    scores = np.array([[1.0, 2.0, 3.0]])
    loss, delta = losses_and_deltas("softmax", scores, np.array([[1.0, 0.0, 0.0]]))
    np.testing.assert_allclose(probabilities("softmax", scores)[0], [0.090031, 0.244728, 0.665241], atol=1e-6)
    assert loss[0] == pytest.approx(2.407606, abs=1e-6)
    np.testing.assert_allclose(delta[0], [-0.909969, 0.244728, 0.665241], atol=1e-6)
    np.testing.assert_allclose(probabilities("softmax", scores + 1e3), probabilities("softmax", scores))


def test_softmax_of_two_is_logistic_of_the_difference():
    scores = np.random.default_rng(4).normal(size=(9, 2)) * 4
    difference = scores[:, 1:] - scores[:, :1]
    np.testing.assert_allclose(probabilities("softmax", scores), probabilities("logistic", difference))


@pytest.mark.parametrize("score", [-800.0, 800.0])
def test_losses_of_extreme_scores_are_numbers(score):
    with np.errstate(all="raise", under="ignore"):
        loss, delta = losses_and_deltas("logistic", np.array([[score]]), np.array([[1.0]]))
        assert loss[0] == pytest.approx(max(0.0, -score))
        assert delta[0, 0] == pytest.approx(0.0 if score > 0 else -1.0)
        loss, _ = losses_and_deltas("softmax", np.array([[score, 0.0]]), np.array([[1.0, 0.0]]))
        assert loss[0] == pytest.approx(max(0.0, -score))


AND = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_perceptron_on_and(kind):
    targets = np.array([[-1.0], [-1.0], [-1.0], [1.0]])
    given = AND if kind == "dense" else sparse.csr_matrix(AND)
    descent = Descent("perceptron", given, targets, batch_size=1, shuffle=False)
    mistakes = [0]
    for epoch in range(9):
        descent.train(epoch, 0, 4, 1.0)
        mistakes.append(descent.mistakes)
    weights, bias = descent.settle()
    assert weights[:, 0].tolist() == [3, 2]
    assert bias.tolist() == [-4]
    per_epoch = np.diff(mistakes)
    assert descent.mistakes == 18
    assert per_epoch[8] == 0
    assert (per_epoch[:8] > 0).all()


def test_novikoff_bounds_the_updates():
    draws = np.random.default_rng(7)
    direction = np.array([0.6, -0.5, 0.4])
    points = draws.normal(size=(200, 2))
    margins = np.c_[points, np.ones(200)] @ direction / np.linalg.norm(direction)
    points, margins = points[abs(margins) > 0.1], margins[abs(margins) > 0.1]
    radius = np.linalg.norm(np.c_[points, np.ones(len(points))], axis=1).max()
    bound = (radius / abs(margins).min()) ** 2
    descent = Descent("perceptron", points, np.sign(margins)[:, None], batch_size=1)
    for epoch in range(400):
        before = descent.mistakes
        descent.train(epoch, 0, len(points), 1.0)
        if descent.mistakes == before:
            break
    assert descent.mistakes == before
    assert 0 < descent.mistakes <= bound


@pytest.mark.parametrize("batch_size", [1, 8])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_averaged_perceptron_is_the_mean_over_all_steps(numbers, kind, batch_size):
    features, labels = numbers
    targets = coded_targets("perceptron", labels, 3)
    given = features if kind == "dense" else sparse.csr_matrix(features)
    plain, averaged = (
        Descent("perceptron", given, targets, batch_size=batch_size, averaged=flag, shuffle=False)
        for flag in (False, True)
    )
    seen = []
    for epoch in range(3):
        for first in range(0, 23, batch_size):
            plain.train(epoch, first, min(first + batch_size, 23), 1.0)
            seen.append(np.vstack([plain.weights, plain.bias]))
        averaged.train(epoch, 0, 23, 1.0)
    np.testing.assert_allclose(np.vstack(averaged.settle()), np.mean(seen, axis=0), atol=1e-12)


def test_an_average_has_no_penalty():
    with pytest.raises(SettingError, match="l2=0"):
        Descent("perceptron", AND, np.ones((4, 1)), averaged=True, l2=0.1)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_loss_that_is_no_number_is_an_error(kind):
    given = AND if kind == "dense" else sparse.csr_matrix(AND)
    descent = Descent("squared", given, np.ones((4, 1)), batch_size=None)

    def train() -> None:
        for epoch in range(1000):
            descent.train(epoch, 0, 4, 100.0)

    with pytest.raises(TrainingError, match="lower learning_rate"):
        train()


def test_parts_of_an_epoch_are_the_epoch(numbers):
    features, labels = numbers
    whole, parts = (Descent("softmax", features, coded_targets("softmax", labels, 3), batch_size=5) for _ in range(2))
    for epoch in range(2):
        together = whole.train(epoch, 0, 23, 0.5)
        apart = np.concatenate([parts.train(epoch, 0, 10, 0.5), parts.train(epoch, 10, 23, 0.5)])
        assert together.tolist() == apart.tolist()
    assert whole.weights.tobytes() == parts.weights.tobytes()
