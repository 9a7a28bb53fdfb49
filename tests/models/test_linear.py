"""The classic linear models as scikit-learn estimators."""

from copy import deepcopy

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.linear_model import LogisticRegression as ReferenceLogistic
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from wenmai.models.linear import (
    LeastSquaresClassifier,
    LinearRegression,
    LogisticRegression,
    Perceptron,
    SoftmaxRegression,
)

WEIGHTS_OF_A_PERCEPTRON = {
    "check_sample_weight_equivalence_on_dense_data": "more examples are visited in another order",
    "check_sample_weight_equivalence_on_sparse_data": "more examples are visited in another order",
    "check_class_weight_classifiers": "a step for one mistake, however small, is a step",
}
CLASSIFIERS = [SoftmaxRegression, LogisticRegression, LeastSquaresClassifier, Perceptron]


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [
        LinearRegression(),
        SoftmaxRegression(epochs=10),
        LogisticRegression(epochs=10),
        LeastSquaresClassifier(),
        Perceptron(epochs=10),
    ],
    expected_failed_checks=lambda estimator: WEIGHTS_OF_A_PERCEPTRON if isinstance(estimator, Perceptron) else {},
)
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def flowers():
    features, labels = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(features), np.array(["setosa", "versicolor", "virginica"])[labels]


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.parametrize("batch_size", [1, 16, None], ids=["stochastic", "mini-batch", "batch"])
def test_flowers_are_told_apart(flowers, kind, batch_size):
    options = {} if kind is Perceptron else {"solver": "gradient"}
    if kind is LeastSquaresClassifier:
        options["learning_rate"] = 0.02
    model = kind(batch_size=batch_size, epochs=60, decay="linear", **options).fit(*flowers)
    assert model.score(*flowers) > 0.8
    assert len(model.loss_curve_) == 60 or kind is Perceptron
    steps = 1 if batch_size is None else -(-150 // batch_size)
    assert len(model.step_loss_curve_) == steps * len(model.loss_curve_)
    assert model.loss_curve_[-1] < model.loss_curve_[0] or kind is Perceptron
    np.testing.assert_allclose(model.step_loss_curve_[:steps].mean(), model.loss_curve_[0], rtol=0.05)


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_sparse_features_are_dense_features(flowers, kind):
    features, labels = flowers
    options = {} if kind is Perceptron else {"solver": "gradient"}
    dense = kind(epochs=5, **options).fit(features, labels)
    thin = kind(epochs=5, **options).fit(sparse.csr_matrix(features), labels)
    np.testing.assert_allclose(dense.coef_, thin.coef_, rtol=1e-6, atol=1e-8)
    assert (dense.predict(features) == thin.predict(sparse.csc_matrix(features))).all()


@pytest.mark.parity
def test_descent_reaches_the_penalised_optimum_of_scikit_learn(flowers):
    features, labels = flowers
    l2 = 0.05
    reference = ReferenceLogistic(C=1 / (2 * l2 * 150), tol=1e-10, max_iter=2000).fit(features, labels)
    steps = {"solver": "gradient", "batch_size": None, "epochs": 500, "learning_rate": 1.0}
    model = SoftmaxRegression(l2=l2, **steps).fit(features, labels)
    np.testing.assert_allclose(model.predict_proba(features), reference.predict_proba(features), atol=1e-4)
    two = labels != "setosa"
    reference = ReferenceLogistic(C=1 / (2 * l2 * 100), tol=1e-10, max_iter=2000).fit(features[two], labels[two])
    model = LogisticRegression(l2=l2, **steps).fit(features[two], labels[two])
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=1e-3)


@pytest.mark.parity
@pytest.mark.parametrize("thin", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_defaults_are_those_of_scikit_learn(flowers, thin, class_weight):
    features, labels = flowers
    features = sparse.csr_matrix(features) if thin else features
    importance = np.random.default_rng(1).integers(0, 3, len(labels))
    for chosen in (labels != "", labels != "setosa"):
        given = features[chosen], labels[chosen], importance[chosen]
        reference = ReferenceLogistic(class_weight=class_weight, tol=1e-8, max_iter=1000).fit(*given)
        for kind in (SoftmaxRegression, LogisticRegression):
            model = kind(class_weight=class_weight, tol=1e-8, epochs=1000).fit(*given)
            if kind is LogisticRegression or chosen.all():  # of two classes softmax has twice the weights
                np.testing.assert_allclose(model.predict_proba(given[0]), reference.predict_proba(given[0]), atol=1e-5)
        given = given[: 2 if class_weight else 3]  # scikit-learn's balance leaves out the other weights here
        reference = RidgeClassifier(class_weight=class_weight).fit(*given)
        model = LeastSquaresClassifier(class_weight=class_weight).fit(*given)
        np.testing.assert_allclose(model.coef_, np.atleast_2d(reference.coef_), atol=1e-6)
    raw, named = load_iris(return_X_y=True)
    for kind in (SoftmaxRegression, LogisticRegression):
        accuracy = cross_val_score(kind(), raw, named, cv=5).mean()
        assert abs(accuracy - cross_val_score(ReferenceLogistic(max_iter=1000), raw, named, cv=5).mean()) < 0.005


@pytest.mark.parametrize("kind", [*CLASSIFIERS, LinearRegression])
def test_partial_fit_goes_on_where_it_ended(flowers, kind):
    features, labels = flowers
    options = {} if kind is Perceptron else {"solver": "gradient"}
    given = {} if kind is LinearRegression else {"classes": np.unique(labels)}
    wanted = features[:, 0] if kind is LinearRegression else labels
    whole = kind(epochs=3, learning_rate=0.01, **options).fit(features, wanted)
    parts = kind(learning_rate=0.01, **options)
    for _ in range(3):
        parts.partial_fit(features, wanted, **given)
    np.testing.assert_allclose(parts.coef_, whole.coef_, rtol=1e-9)
    np.testing.assert_allclose(parts.loss_curve_, whole.loss_curve_)
    assert clone(parts).partial_fit(features, wanted, **given).coef_.shape == whole.coef_.shape
    again = deepcopy(parts).partial_fit(features[:10], wanted[:10])
    np.testing.assert_array_equal(again.coef_, parts.partial_fit(features[:10], wanted[:10]).coef_)


@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize("kind", [*CLASSIFIERS, LinearRegression])
def test_partial_fit_takes_a_fitted_model_further(flowers, kind, averaged):
    features, labels = flowers
    options = {"averaged": averaged} if kind is Perceptron else {"solver": "gradient"}
    wanted = features[:, 0] if kind is LinearRegression else labels
    settings = {"epochs": 1, "learning_rate": 0.01, "shuffle": False, **options}
    parts = kind(**settings).fit(features, wanted)
    after_one = parts.coef_.copy()
    again = deepcopy(parts).partial_fit(features, wanted)
    whole = kind(**settings | {"epochs": 2}).fit(features, wanted)
    np.testing.assert_allclose(parts.partial_fit(features, wanted).coef_, whole.coef_, rtol=1e-9)
    np.testing.assert_array_equal(again.coef_, parts.coef_)
    assert not np.array_equal(parts.coef_, after_one)


@pytest.mark.parametrize("kind", [LinearRegression, LeastSquaresClassifier, LogisticRegression, SoftmaxRegression])
def test_partial_fit_goes_on_from_the_best_weights(flowers, kind):
    features, labels = flowers
    wanted = features[:, 0] if kind is LinearRegression else labels
    model = kind().fit(features, wanted)
    before, score = model.coef_.copy(), model.score(features, wanted)
    model.set_params(learning_rate=1e-6).partial_fit(features[:10], wanted[:10])
    np.testing.assert_allclose(model.coef_, before, atol=1e-3)
    assert abs(model.score(features, wanted) - score) < 0.01


def test_classes_that_come_later_are_named_first(flowers):
    features, labels = flowers
    first = labels == "setosa"
    model = SoftmaxRegression()
    with pytest.raises(ValueError, match="at least 2 classes"):
        Perceptron().partial_fit(features[first], labels[first], classes=["setosa"])
    with pytest.raises(ValueError, match="needs classes"):
        model.partial_fit(features[first], labels[first])
    model.partial_fit(features[first], labels[first], classes=np.unique(labels))
    model.partial_fit(features[~first], labels[~first])
    assert set(model.predict(features)) > {"virginica"}
    with pytest.raises(ValueError, match=r"not in classes: \['rose'\]"):
        model.partial_fit(features[:1], ["rose"])
    with pytest.raises(ValueError, match="first call"):
        model.partial_fit(features[:1], labels[:1], classes=["rose", "setosa"])
    with pytest.raises(ValueError, match="balanced"):
        SoftmaxRegression(class_weight="balanced").partial_fit(features, labels, classes=np.unique(labels))


@pytest.mark.parity
def test_the_closed_form_is_ridge_regression():
    draws = np.random.default_rng(1)
    features, values = draws.normal(size=(50, 8)), draws.normal(size=(50, 2))
    model, reference = LinearRegression(l2=0.1).fit(features, values), Ridge(alpha=0.1 * 50).fit(features, values)
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=1e-9)
    np.testing.assert_allclose(model.predict(features), reference.predict(features), atol=1e-9)
    by_steps = LinearRegression(solver="gradient", l2=0.1, batch_size=None, epochs=500).fit(features, values)
    np.testing.assert_allclose(by_steps.coef_, model.coef_, atol=1e-6)


def test_the_perceptron_on_and_stops_after_its_first_epoch_without_a_mistake():
    model = Perceptron(shuffle=False).fit([[0, 0], [0, 1], [1, 0], [1, 1]], [0, 0, 0, 1])
    assert model.coef_.tolist() == [[3, 2]]
    assert model.intercept_.tolist() == [-4]
    assert (model.n_updates_, len(model.loss_curve_)) == (18, 9)
    assert model.predict([[1, 1], [2, -1]]).tolist() == [1, 1]  # the score zero is positive


def test_learning_rates_change_no_perceptron(flowers):
    features, labels = flowers
    models = [Perceptron(epochs=20, learning_rate=rate).fit(features, labels) for rate in (0.5, 4.0)]
    np.testing.assert_allclose(models[0].coef_ * 8, models[1].coef_)


def test_it_works_in_pipelines_and_can_be_cloned():
    features, labels = make_classification(n_samples=200, n_features=10, random_state=1)
    model = make_pipeline(StandardScaler(), SoftmaxRegression(epochs=20))
    assert cross_val_score(model, features, labels, cv=3).mean() > 0.75
    changed = clone(SoftmaxRegression(l2=0.5)).set_params(l2=0.25, batch_size=None, solver="gradient")
    assert changed.get_params()["l2"] == 0.25
    assert changed.fit(features, labels).step_loss_curve_.size == 100


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.parametrize(
    ("features", "labels", "message"),
    [
        ([[1.0], [np.nan]], [0, 1], "NaN"),
        ([[1.0], [np.inf]], [0, 1], "infinity"),
        ([[1.0], [2.0]], ["a", "a"], "one class"),
        ([[1.0], [2.0]], None, "y"),
        ([[1.0], [2.0]], [0], "inconsistent"),
    ],
)
def test_mistakes_have_messages(kind, features, labels, message):
    with pytest.raises(ValueError, match=message):
        kind().fit(features, labels)


@pytest.mark.parametrize(
    "options",
    [{"epochs": 0}, {"batch_size": 0}, {"learning_rate": 0.0}, {"l2": -1.0}, {"decay": "quadratic"}],
    ids=lambda o: next(iter(o)),
)
def test_settings_that_make_no_sense_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        SoftmaxRegression(**options).fit([[1.0], [2.0]], [0, 1])


@pytest.mark.parametrize("kind", [LinearRegression, LeastSquaresClassifier])
def test_an_unknown_solver_is_refused(kind):
    with pytest.raises(ValueError, match="'closed' or 'gradient'"):
        kind(solver="magic").fit([[1.0], [2.0]], [0, 1])
