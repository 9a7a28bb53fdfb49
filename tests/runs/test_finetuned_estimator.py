"""Fine-tuning in scikit-learn's shape."""

import pickle
import pickletools
import shutil

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.validation import check_is_fitted, validate_data

import wenmai
from wenmai.core.errors import CorpusError, FormatError, RunError, SettingError
from wenmai.sklearn import FineTunedClassifier, TextEncoder, WenmaiClassifier
from wenmai.training.run import verify

GIVEN = ["a b c", "a c a", "b a a c", "c b", "e f g", "g h", "f f h e", "h g e"] * 2
WANTED = (["early"] * 4 + ["late"] * 4) * 2
PAIRS = [(text, text if label == "early" else text[::-1]) for text, label in zip(GIVEN, WANTED, strict=True)]
QUICK = {"epochs": 15, "learning_rate": 0.01, "threads": 1, "precision": "float32", "device": "cpu"}


@pytest.mark.parametrize("system", ["bert", "elmo", "gpt", "finetuned-tagging"])
def test_texts_are_fitted_and_classes_come_back_as_they_were(system, run):
    model = FineTunedClassifier(run(system), **QUICK).fit(GIVEN, WANTED)
    assert model.classes_.tolist() == ["early", "late"]
    assert model.score(GIVEN, WANTED) == 1
    found = model.predict_proba([*GIVEN, ""])
    assert found.shape == (17, 2)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert model.summary_["loss"] > 0


def test_pairs_are_fitted_and_single_texts_refused_then(run):
    model = FineTunedClassifier(run("bert"), **QUICK).fit(PAIRS, np.array([label == "early" for label in WANTED]))
    assert model.classes_.tolist() == [False, True]
    assert model.score(np.array(PAIRS), [label == "early" for label in WANTED]) > 0.9
    with pytest.raises(SettingError, match="'a': the model takes two texts"):
        model.predict(["a"])
    alone = FineTunedClassifier(run("bert"), **QUICK | {"epochs": 1}).fit(GIVEN, WANTED)
    with pytest.raises(SettingError, match="the model takes single texts"):
        alone.predict(PAIRS)


def test_without_a_run_a_small_bert_learns_from_nothing():
    model = FineTunedClassifier(**QUICK | {"epochs": 2}).fit(GIVEN, WANTED)
    assert model.score(GIVEN, WANTED) >= 0.5
    assert model.model_.backbone.module.config.num_layers == 2
    tokenizer = model.model_.backbone.tokenizer
    assert set("abcefgh") <= {tokenizer.token(one) for one in range(tokenizer.vocab_size)}
    assert FineTunedClassifier().get_params()["run"] is None


def test_parameters_are_those_of_the_training(run):
    model = FineTunedClassifier(run("bert"), mode="lora", lora_rank=2, batch_size=3, seed=5, **QUICK | {"epochs": 1})
    copy = clone(model).set_params(max_length=9, class_weight="balanced", lora_alpha=2.0)
    assert model.get_params()["lora_rank"] == 2
    assert "lora_alpha" not in model.get_params()
    with pytest.raises(SettingError, match="'epoks' is no parameter or setting of FineTunedClassifier"):
        model.set_params(epoks=2)
    settings = copy.fit(GIVEN, WANTED)._recipe.flat_settings()
    wanted = {"mode": "lora", "lora_rank": 2, "lora_alpha": 2.0, "batch_size": 3, "class_weight": "balanced"}
    assert {name: settings[f"tuning.{name}"] for name in wanted} == wanted
    assert (settings["train.seed"], settings["train.epochs"], settings["reading.max_length"]) == (5, 1, 9)
    again = clone(copy).fit(GIVEN, WANTED)
    np.testing.assert_array_equal(again.predict_proba(GIVEN), copy.predict_proba(GIVEN))
    assert repr(model).startswith("FineTunedClassifier(")


def test_settings_of_fine_tuning_are_searched(run):
    model = FineTunedClassifier(run("bert"), **QUICK)
    search = GridSearchCV(model, {"mode": ["full", "frozen"], "epochs": [1, 15]}, cv=2).fit(GIVEN, WANTED)
    assert search.best_params_["epochs"] == 15
    assert search.score(GIVEN, WANTED) == 1
    assert cross_val_score(make_pipeline(clone(model)), PAIRS, WANTED, cv=2).shape == (2,)


def test_a_pickle_has_the_files_of_the_model_and_nothing_of_torch(run):
    model = FineTunedClassifier(run("bert"), **QUICK | {"epochs": 1}).fit(GIVEN, np.arange(16) % 2)
    content = pickle.dumps(model)
    named = {text for operation, text, _ in pickletools.genops(content) if isinstance(text, str)}
    assert not [one for one in named if "torch" in one]
    found = pickle.loads(content)
    np.testing.assert_array_equal(found.predict_proba(GIVEN), model.predict_proba(GIVEN))
    assert found.predict(GIVEN).dtype == model.classes_.dtype
    assert pickle.loads(pickle.dumps(FineTunedClassifier(run("bert")))).run == run("bert")


@pytest.mark.parametrize("classes", [["bad", "very good"], ["bad ", "-"], [3, -7], [1.0, 2.0], [True, False]])
def test_what_is_saved_is_a_run_and_is_read_again(classes, run, tmp_path):
    labels = np.array(classes)[[int(label == "early") for label in WANTED]]
    model = FineTunedClassifier(run("bert"), **QUICK | {"epochs": 1}).fit(GIVEN, labels)
    path = model.save(tmp_path / "saved")
    found = FineTunedClassifier.load(path, device="cpu")
    assert found.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(found.predict_proba(GIVEN), model.predict_proba(GIVEN))
    assert verify(path)[1] == []
    assert {label for ((label, _),) in wenmai.load(path).predict(GIVEN)} <= set(map(str, labels.tolist()))
    assert wenmai.Run(path).summary["loss"] == model.summary_["loss"]
    with pytest.raises(RunError):
        model.save(path)


def test_any_run_of_a_classifier_can_be_taken(run, tmp_path):
    model = FineTunedClassifier(run("bert"), out=tmp_path / "run", **QUICK | {"epochs": 1})
    wanted = model.fit(GIVEN, np.array([n % 3 for n in range(16)])).predict_proba(GIVEN)
    np.testing.assert_array_equal(FineTunedClassifier.load(tmp_path / "run").predict_proba(GIVEN), wanted)
    found = FineTunedClassifier.load(run("finetuned-classification"))
    assert found.classes_.tolist() == sorted(found.model_.labels)
    assert set(found.predict(GIVEN)) <= set(found.classes_)
    with pytest.raises(RunError, match="is a run of bert; expected one of finetuned-classification"):
        FineTunedClassifier.load(run("bert"))


@pytest.mark.parametrize("start", ["bert", None])
def test_what_was_read_can_be_fitted_anew_with_its_parameters(start, run, tmp_path):
    chosen = QUICK | {"epochs": 2, "batch_size": 5, "seed": 3, "mode": "full", "class_weight": "balanced"}
    model = FineTunedClassifier(None if start is None else str(run(start)), head_dropout=0.3, **chosen)
    path = model.fit(GIVEN, WANTED).save(tmp_path / "saved")
    found = FineTunedClassifier.load(path, device="cpu")
    given = model.get_params()
    assert {name: found.get_params()[name] for name, value in given.items() if value is not None} == {
        name: value for name, value in given.items() if value is not None
    }
    again = clone(found).fit(GIVEN, WANTED)
    np.testing.assert_array_equal(again.predict_proba(GIVEN), model.predict_proba(GIVEN))


def test_a_clone_of_what_was_read_learns_as_often(run, tmp_path):
    chosen = {name: value for name, value in QUICK.items() if name != "epochs"}
    model = FineTunedClassifier(str(run("bert")), **chosen).fit(GIVEN, WANTED)
    assert model.summary_["epochs"] == 20  # few texts, so the usual 3 are too few
    found = FineTunedClassifier.load(model.save(tmp_path / "saved"), device="cpu")
    assert clone(found).fit(GIVEN, WANTED).summary_["epochs"] == 20


def test_a_run_of_what_began_with_nothing_can_be_fitted_anew(tmp_path):
    model = FineTunedClassifier(out=tmp_path / "run", **QUICK).fit(GIVEN, WANTED)
    found = FineTunedClassifier.load(tmp_path / "run")
    assert found.run is None
    np.testing.assert_array_equal(
        clone(found).set_params(out=None).fit(GIVEN, WANTED).predict_proba(GIVEN), model.predict_proba(GIVEN)
    )
    with pytest.raises(RunError, match="run"):
        FineTunedClassifier(out=tmp_path / "run", **QUICK).fit(GIVEN, WANTED)


def test_a_table_of_one_column_is_its_texts(run):
    class Frame:
        """What pandas would have: its elements are the names of its columns."""

        def __iter__(self):
            return iter(["text"])

        def to_numpy(self):
            return np.array([[text] for text in GIVEN], dtype=object)

    encoder = TextEncoder(str(run("bert")))
    wanted = encoder.fit_transform(GIVEN)
    np.testing.assert_array_equal(encoder.fit_transform(Frame()), wanted)
    np.testing.assert_array_equal(encoder.transform(Frame().to_numpy()), wanted)
    with pytest.raises(SettingError, match="expected a sequence of texts"):
        encoder.transform(np.array([["a", "b"]], dtype=object))


@pytest.mark.parametrize("content", ["[]", '{"classes": 1}', '{"classes": [1, "a"]}', '{"classes": ["a", "a"]}', "{"])
def test_classes_that_are_not_those_of_the_model_are_noticed(content, run, tmp_path):
    shutil.copytree(run("finetuned-classification"), tmp_path / "run")
    (tmp_path / "run" / "classes.json").write_text(content)
    with pytest.raises(FormatError, match=r"classes.json: (is damaged|expected a JSON object|is not JSON)"):
        FineTunedClassifier.load(tmp_path / "run")


@pytest.mark.parametrize(
    ("settings", "texts", "labels", "message"),
    [
        ({}, GIVEN, ["a"] * 16, "all 16 texts are of one class, 'a'; expected at least 2"),
        ({}, GIVEN, WANTED[:3], "inconsistent numbers of samples"),
        ({}, GIVEN, None, "requires y to be passed"),
        ({}, GIVEN, ["a", None] * 8, "y has labels of several types, or missing ones"),
        ({}, GIVEN, ["a", 1] * 8, "y has labels of several types, or missing ones"),
        ({}, GIVEN, np.arange(16) / 3, "Unknown label type: continuous"),
        (
            {},
            GIVEN,
            np.array(["2026-01-01", "2026-01-02"] * 8, "datetime64[D]"),
            "of the type datetime64.D., which runs",
        ),
        ({}, "a b", WANTED, "expected a sequence of texts"),
        (
            {},
            [*GIVEN[:15], None],
            WANTED,
            "expected a sequence of texts .strings.; item 15 is None .give '' where there is none",
        ),
        ({}, [None, *GIVEN[1:]], WANTED, "of pairs of texts; item 0 is None .give '' where there is none."),
        ({}, [*PAIRS[:15], ("a", None)], WANTED, r"of pairs of texts; item 15 is \('a', None\)"),
        ({}, [*PAIRS[:15], ("a", "b", "c")], WANTED, r"of pairs of texts; item 15 is \('a', 'b', 'c'\)"),
        ({}, [*PAIRS[:15], "a"], WANTED, "of pairs of texts; item 15 is 'a'"),
        ({}, np.array("a b"), WANTED, "expected a sequence of texts"),
        *[
            ({name: 1}, GIVEN, WANTED, f"'{name}' is no parameter or setting of FineTunedClassifier")
            for name in ("colour", "quiet", "task", "start", "fit", "predict_proba", "model_", "_recipe")
        ],
        ({"epoks": 1}, GIVEN, WANTED, "FineTunedClassifier; did you mean 'epochs'"),
        ({"mode": "half"}, GIVEN, WANTED, "mode='half': expected"),
        ({"class_weight": "even"}, GIVEN, WANTED, "class_weight='even': expected"),
        ({"max_length": 99}, GIVEN, WANTED, "more than the 12 tokens"),
        ({}, [" "] * 16, WANTED, "no examples"),
    ],
)
def test_what_cannot_be_fitted_is_refused(settings, texts, labels, message, run, capsys):
    with pytest.raises((ValueError, SettingError, CorpusError), match=message):
        FineTunedClassifier(run("bert"), **QUICK | {"epochs": 1} | settings).fit(texts, labels)


def test_a_classifier_must_be_fitted_first(run, tmp_path):
    model = FineTunedClassifier(run("bert"))
    for call in (lambda: model.predict(GIVEN), lambda: model.save(tmp_path / "no")):
        with pytest.raises(NotFittedError):
            call()
    assert not (tmp_path / "no").exists()
    with pytest.raises(SettingError, match="a run of word2vec has no encoder"):
        FineTunedClassifier(run("word2vec"), **QUICK).fit(GIVEN, WANTED)


def test_a_class_of_empty_texts_alone_is_never_predicted(run, capsys):
    texts, labels = [*GIVEN, "", " "], [*WANTED, "none", "none"]
    model = FineTunedClassifier(run("bert"), **QUICK | {"epochs": 1}).fit(texts, labels)
    assert "2 examples were left out because a text is empty" in capsys.readouterr().err
    assert model.classes_.tolist() == ["early", "late", "none"]
    assert not model.predict_proba(texts)[:, 2].any()


# --- scikit-learn's own checks ----------------------------------------------------------------------------------------
# Their data are numbers, and they leave out estimators of texts; here each number is written as one of eight letters.


def written(rows):
    """Rows of numbers as texts."""
    places = np.clip(np.nan_to_num(rows[:, :8] * 2 + 4), 0, 7).astype(int)
    return [" ".join("abcdefgh"[place] for place in row) for row in places]


class OfNumbers:
    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.one_d_array = False
        tags.input_tags.two_d_array = True
        return tags


class Encoder(OfNumbers, TextEncoder):
    def fit(self, X, y=None):
        return super().fit(written(validate_data(self, X)))

    def transform(self, X):
        return super().transform(written(validate_data(self, X, reset=not hasattr(self, "n_features_in_"))))


class Classifier(OfNumbers, FineTunedClassifier):
    def fit(self, X, y):
        return super().fit(written(validate_data(self, X)), y)

    def predict_proba(self, X):
        check_is_fitted(self)
        return super().predict_proba(written(validate_data(self, X, reset=False)))


CHECKS = {  # those that say something of texts, too
    "check_classifiers_classes",
    "check_classifiers_one_label",
    "check_dict_unchanged",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_dont_overwrite_parameters",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_estimators_fit_returns_self",
    "check_estimators_overwrite_params",
    "check_estimators_pickle",
    "check_estimators_unfitted",
    "check_fit_check_is_fitted",
    "check_fit_idempotent",
    "check_fit_score_takes_y",
    "check_get_params_invariance",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_pipeline_consistency",
    "check_requires_y_none",
    "check_set_params",
    "check_supervised_y_2d",
    "check_transformer_general",
    "check_transformer_preserve_dtypes",
    "check_transformers_unfitted_stateless",
    "check_valid_tag_types",
}


def failed(estimator, names):
    """Which of scikit-learn's checks an estimator does not pass."""
    found, left = [], set(names)
    for one, check in estimator_checks_generator(estimator, legacy=True):
        name = getattr(check, "func", check).__name__
        if name in left:
            left.discard(name)
            try:
                check(one)
            except Exception as error:
                found.append(f"{name}: {error!r}")
    return found, left


def test_the_checks_of_scikit_learn_pass(run, tmp_path):
    found, _ = failed(Encoder(run("bert")), CHECKS)
    assert found == []
    quick = Classifier(run("bert"), epochs=1, device="cpu")
    found, left = failed(quick, CHECKS)
    assert found == []
    assert {name for name in left if "transformer" not in name} == set()


def test_classes_that_texts_tell_apart_are_learnt_as_scikit_learn_asks(run):
    model = Classifier(run("bert"), dropout=0.0, head_dropout=0.0, **QUICK | {"epochs": 25, "learning_rate": 0.004})
    assert failed(model, {"check_classifiers_train"}) == ([], set())


@pytest.mark.parametrize("estimator", [TextEncoder("runs/none"), FineTunedClassifier(), WenmaiClassifier()])
def test_they_say_that_they_take_texts(estimator):
    tags = get_tags(estimator).input_tags
    assert (tags.string, tags.one_d_array, tags.two_d_array) == (True, True, False)


# --- weights ----------------------------------------------------------------------------------------------------------

EXACT = QUICK | {"epochs": 4, "batch_size": 100, "batch_tokens": 10_000, "dropout": 0.0, "head_dropout": 0.0}


def probabilities(run, texts, labels, weights=None, **options):
    model = FineTunedClassifier(run("bert"), **EXACT, **options).fit(texts, labels, sample_weight=weights)
    return model.predict_proba(GIVEN)


def test_examples_of_weight_zero_are_left_out(run):
    weights = [0.0, 1.0] * 8
    found = probabilities(run, GIVEN, WANTED, weights)
    np.testing.assert_allclose(found, probabilities(run, GIVEN[1::2], WANTED[1::2]), atol=1e-6)
    np.testing.assert_array_equal(probabilities(run, GIVEN, WANTED, [2.0] * 16), probabilities(run, GIVEN, WANTED))


@pytest.mark.parametrize("options", [{}, {"class_weight": "balanced"}, {"mode": "frozen"}])
def test_a_whole_weight_is_that_many_examples(run, options):
    weights = [1, 3, 2, 1, 5, 1, 1, 2]
    repeated = [place for place, times in enumerate(weights) for _ in range(times)]
    texts, labels = [GIVEN[place] for place in repeated], [WANTED[place] for place in repeated]
    found = probabilities(run, GIVEN[:8], WANTED[:8], weights, **options)
    np.testing.assert_allclose(found, probabilities(run, texts, labels, **options), atol=2e-5)
    assert np.abs(found - probabilities(run, GIVEN[:8], WANTED[:8], **options)).max() > 1e-4


def test_balanced_weights_are_those_that_are_given_by_class_or_example(run):
    texts, labels = GIVEN[:6], WANTED[:6]  # 4 and 2
    balanced = probabilities(run, texts, labels, class_weight="balanced")
    by_class = probabilities(run, texts, labels, class_weight={"early": 6 / (2 * 4), "late": 6 / (2 * 2)})
    by_example = probabilities(run, texts, labels, [0.75] * 4 + [1.5] * 2)
    np.testing.assert_allclose(balanced, by_class, atol=1e-6)
    np.testing.assert_allclose(by_class, by_example, atol=1e-6)
    pairs = FineTunedClassifier(run("bert"), **EXACT, class_weight={"late": 3}).fit(PAIRS, WANTED)
    assert pairs.predict_proba(PAIRS).shape == (16, 2)


@pytest.mark.parametrize(
    ("weights", "by_class", "message"),
    [
        ([1.0], None, r"sample_weight: expected 16 numbers, one a text, not the shape \(1,\)"),
        (["a"] * 16, None, r"sample_weight: expected numbers, none missing, not \['a', 'a'"),
        (np.array([1, {}] * 8, object), None, "sample_weight: expected numbers, none missing"),
        (None, {"late": "much"}, r"class_weight: expected numbers, none missing, not \[1.0, 'much'\]"),
        ([-1.0] * 16, None, "expected finite numbers from 0 on"),
        ([float("nan")] * 16, None, "expected finite numbers from 0 on"),
        ([0.0] * 16, None, "fewer than two classes have an example"),
        (None, {"lat": 2}, "'lat' is none of the classes, early, late"),
        (None, {"late": 0}, "fewer than two classes have an example"),
    ],
)
def test_wrong_weights_are_refused(weights, by_class, message, run):
    with pytest.raises(ValueError, match=message):
        FineTunedClassifier(run("bert"), class_weight=by_class, **QUICK).fit(GIVEN, WANTED, sample_weight=weights)
