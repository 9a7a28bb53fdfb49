"""Text classifiers in scikit-learn's shape."""

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import wenmai
from wenmai.core.errors import SettingError, WenmaiError
from wenmai.runs.estimators import WenmaiClassifier

TEXTS = ["a good and fine film", "good fun for all", "a fine story", "a bad film", "poor and dull", "a dull bad story"]
TEXTS *= 4
LABELS = (["very good"] * 3 + ["bad"] * 3) * 4
SMALL = {
    "fasttext-supervised": {"epochs": 30, "vector_size": 8, "buckets": 1000, "learning_rate": 0.5, "threads": 1},
    "classifier": {"epochs": 20},
}


@pytest.mark.parametrize("system", SMALL)
def test_texts_are_fitted_and_labels_come_back_as_they_were(system, tmp_path):
    model = WenmaiClassifier(system, out=tmp_path / "run", **SMALL[system]).fit(TEXTS, LABELS)
    assert model.classes_.tolist() == ["bad", "very good"]
    assert model.score(TEXTS, LABELS) == 1
    found = model.predict_proba(["good", "dull", ""])
    assert found.shape == (3, 2)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-4)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(["good", "dull", ""]), found)
    assert wenmai.load(tmp_path / "run").predict(["good"])[0][0][0] == "1"
    numbered = clone(model).set_params(out=None).fit(TEXTS, np.array([7 if one == "bad" else 3 for one in LABELS]))
    assert numbered.predict(["dull"]).tolist() == [7]


class Column:
    """A column of pandas, which has to_numpy and no numbers for numpy."""

    def __init__(self, values):
        self.values = values

    def to_numpy(self):
        return self.values


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (np.array(["b", "a"] * 12, np.dtypes.StringDType()), ["a", "b"]),
        (np.array(["b", "a"] * 12, object), ["a", "b"]),
        (np.array([3, 1] * 12, object), [1, 3]),
        (np.array([True, False] * 12, object), [False, True]),
        (Column(np.array([3, 1] * 12)), [1, 3]),
        (Column(np.array([3, 1] * 12, object)), [1, 3]),
    ],
)
def test_labels_are_those_that_were_given(labels, classes):
    model = WenmaiClassifier("classifier", epochs=2).fit(TEXTS, labels)
    assert repr(model.classes_.tolist()) == repr(classes)
    assert set(model.predict(TEXTS).tolist()) <= set(classes)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.array(["a"] * 24, object), "all 24 texts are of one class, 'a'; expected at least 2"),
        (np.array([1, None] * 12, object), "several types, or missing ones; expected all texts, or all whole numbers"),
        (np.array(["a", 1] * 12, object), "several types, or missing ones"),
        (np.array([b"a", b"b"] * 12), "expected all texts, or all whole numbers"),
    ],
)
def test_labels_of_no_class_are_told(labels, message):
    with pytest.raises(ValueError, match=message):
        WenmaiClassifier("classifier", epochs=2).fit(TEXTS, labels)


@pytest.mark.parametrize("name", ["quiet", "callback", "epoks"])
def test_what_is_no_setting_is_told(name):
    with pytest.raises(SettingError, match=f"classifier has no setting '{name}'"):
        WenmaiClassifier("classifier", **{name: 1}).fit(TEXTS, LABELS)


def test_settings_are_searched_in_pipelines():
    shouted = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    model = make_pipeline(shouted, WenmaiClassifier("classifier", epochs=2))
    assert cross_val_score(model, [text.upper() for text in TEXTS], LABELS, cv=2).mean() == 1
    search = GridSearchCV(WenmaiClassifier("classifier", epochs=2), {"word_ngrams": [1, 2]}, cv=2).fit(TEXTS, LABELS)
    assert search.best_params_["word_ngrams"] in (1, 2)
    assert search.best_estimator_.get_params()["epochs"] == 2


def test_what_is_no_classifier_or_no_text_is_refused():
    with pytest.raises(wenmai.WenmaiError, match="word2vec does not classify"):
        WenmaiClassifier("word2vec").fit(TEXTS, LABELS)
    with pytest.raises(wenmai.WenmaiError, match="sequence of texts"):
        WenmaiClassifier("classifier").fit([1, 2], [0, 1])
    with pytest.raises(wenmai.WenmaiError, match="no setting 'colour'"):
        WenmaiClassifier("classifier", colour=1).fit(TEXTS, LABELS)
    model = WenmaiClassifier("classifier", epochs=2).fit(TEXTS, LABELS)
    assert model.predict(text for text in TEXTS).tolist() == model.predict(TEXTS).tolist()
    with pytest.raises(wenmai.WenmaiError, match="sequence of texts"):
        model.predict(csr_array(np.eye(3)))
    with pytest.raises(ValueError, match="several types, or missing ones"):
        WenmaiClassifier("classifier").fit(TEXTS, [*LABELS[1:], None])
    with pytest.raises(ValueError, match="one class"):
        WenmaiClassifier("classifier").fit(TEXTS, ["a"] * len(TEXTS))
    with pytest.raises(AttributeError, match="no probabilities"):
        WenmaiClassifier("classifier", method="perceptron", epochs=2).fit(TEXTS, LABELS).predict_proba(["good"])


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), OSError(28, "No space left on device"), MemoryError()], ids=repr
)
def test_a_training_in_a_folder_that_is_gone_is_not_to_be_resumed(error, monkeypatch):
    def fail(*_):
        raise error

    monkeypatch.setattr("wenmai.training.records.RecordFile.__call__", fail)
    with pytest.raises((KeyboardInterrupt, WenmaiError)) as stopped:
        WenmaiClassifier(**SMALL["fasttext-supervised"]).fit(TEXTS, LABELS)
    assert "resume" not in " ".join([str(stopped.value), *getattr(stopped.value, "__notes__", [])])
