"""Vectors of texts in scikit-learn's shape."""

import pickle
import shutil

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import wenmai
from wenmai.core.errors import RunError, SettingError
from wenmai.core.folder import umask
from wenmai.sklearn import TextEncoder

GIVEN = ["a b c", "a c a", "b a a c", "c b", "e f g", "g h", "f f h e", "h g e"] * 2
WANTED = (["early"] * 4 + ["late"] * 4) * 2


@pytest.mark.parametrize(
    ("system", "options"),
    [
        ("word2vec", {"weighting": "sif"}),
        ("fasttext-supervised", {"normalise": True}),
        ("bert", {"layer": -2, "pooling": "max", "normalise": True}),
        ("elmo", {"layer": "0,1", "concat": True}),
        ("finetuned-classification", {"normalise": True}),
        ("finetuned-pair", {}),
        ("finetuned-tagging", {}),
    ],
)
def test_vectors_are_those_of_the_run(system, options, run):
    encoder = TextEncoder(run(system), **options)
    wanted = wenmai.Run(run(system)).embed(GIVEN, **options)
    unfitted = encoder.transform(np.array(GIVEN))
    np.testing.assert_array_equal(unfitted, wanted)
    with pytest.raises(NotFittedError):
        encoder.get_feature_names_out()
    found = encoder.fit_transform(GIVEN)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, wanted)
    names = encoder.get_feature_names_out().tolist()
    assert names == [f"textencoder{place}" for place in range(found.shape[1])]
    assert encoder.transform([]).shape == (0, found.shape[1])


def test_vectors_go_into_a_pipeline_whose_settings_are_searched(run):
    model = make_pipeline(TextEncoder(run("bert"), normalise=True), LogisticRegression(C=100))
    search = GridSearchCV(model, {"textencoder__layer": [0, -1], "textencoder__pooling": ["mean", "max"]}, cv=2)
    search.fit(GIVEN, WANTED)
    assert search.best_params_["textencoder__layer"] in (0, -1)
    assert search.score(GIVEN, WANTED) == 1
    assert cross_val_score(model, GIVEN, WANTED, cv=2).mean() > 0.5


def test_a_pickled_encoder_has_its_settings_alone(run):
    encoder = TextEncoder(f"{run('bert')}/", layer=0).fit(GIVEN)
    assert encoder._run() is encoder._run()
    content = pickle.dumps(encoder)
    assert len(content) < 1000
    assert b"torch" not in content
    np.testing.assert_array_equal(pickle.loads(content).transform(GIVEN), encoder.transform(GIVEN))


def test_a_run_that_was_trained_anew_is_read_again(run, tmp_path):
    shutil.copytree(run("bert"), tmp_path / "run")
    encoder = TextEncoder(tmp_path / "run").fit(GIVEN)
    before = encoder.transform(GIVEN)
    shutil.rmtree(tmp_path / "run")
    shutil.copytree(run("elmo"), tmp_path / "run")
    assert not np.array_equal(encoder.fit_transform(GIVEN), before)


def test_another_setting_counts_at_once(run):
    encoder = TextEncoder(run("bert")).fit(GIVEN)
    first = encoder.transform(GIVEN)
    assert not np.array_equal(encoder.set_params(pooling="max").transform(GIVEN), first)


@pytest.mark.parametrize(
    ("system", "options", "texts", "message"),
    [
        ("bert", {"layer": 9}, GIVEN, "layer=9: expected last, last4, or numbers"),
        ("bert", {"pooling": "least"}, GIVEN, "pooling=least: the model has"),
        ("bert", {"weighting": "sif"}, GIVEN, "weighting=sif is for word vectors"),
        ("bert", {"normalise": "x"}, GIVEN, "normalise='x': expected True or False"),
        ("bert", {"concat": "yes"}, GIVEN, "concat='yes': expected True or False"),
        ("word2vec", {"layer": 1}, GIVEN, "layer: for contextual encoders such as bert, not for word2vec"),
        ("word2vec", {}, "a b", "expected a sequence of texts"),
        ("word2vec", {}, [["a b"]], r"expected a sequence of texts \(strings\); item 0 is \['a b'\]"),
        ("word2vec", {}, ["a b", float("nan")], "item 1 is nan .give '' where there is none."),
        ("word2vec", {}, np.array("a b"), "expected a sequence of texts"),
        ("word2vec", {}, 7, "expected a sequence of texts"),
        ("nnlm", {}, GIVEN, "a run of nnlm, which has no embed"),
    ],
)
def test_what_gives_no_vectors_is_refused_when_fitted(system, options, texts, message, run):
    with pytest.raises((SettingError, RunError), match=message):
        TextEncoder(run(system), **options).fit(texts)


def test_a_run_is_named_by_its_folder(run, tmp_path):
    with pytest.raises(SettingError, match="expected the folder of a run, not a Run; of a Run give its path"):
        TextEncoder(wenmai.Run(run("bert"))).fit(GIVEN)
    with pytest.raises(RunError, match="no such run folder"):
        TextEncoder(tmp_path / "none").fit(GIVEN)


@pytest.mark.parametrize("system", ["bert", "gpt", "elmo", "word2vec", "fasttext-supervised"])
def test_others_may_read_a_run(system, run):
    files = [path for path in run(system).rglob("*") if path.is_file()]
    assert {oct(path.stat().st_mode & 0o666) for path in files} == {oct(0o666 & ~umask())}
