"""Classifiers are trained, resumed, continued and begun from vectors, through the doors of a run."""

import json
import random
import re

import numpy as np
import pytest

import wenmai
from wenmai.core.errors import CorpusError, SettingError, TrainingError, VocabError
from wenmai.formats.fasttext.quantised import quantise_fasttext
from wenmai.kernels import classify
from wenmai.models.fasttext import FastText
from wenmai.runs.autotune import autotune
from wenmai.runs.formats import FinishedRun
from wenmai.runs.train import Callback

SMALL = {"vector_size": 8, "epochs": 3, "learning_rate": 0.5, "threads": 1}


def lines(number, topics=("colour", "number"), *, seed=1):
    draw = random.Random(seed)
    for _ in range(number):
        topic = draw.choice(topics)
        yield f"__label__{topic} " + " ".join(f"{topic}{draw.randrange(20)}" for _ in range(6)) + "\n"


@pytest.fixture
def texts(tmp_path):
    for name, number, seed in (("train", 300, 1), ("valid", 60, 2)):
        (tmp_path / f"{name}.txt").write_text("".join(lines(number, seed=seed)))
    return tmp_path


def input_rows(run):
    return FastText.load(run.model_folder).dense("input").copy()


class Notes(Callback):
    """Remembers what is told."""

    def __init__(self):
        self.notes = []

    def note(self, message):
        self.notes.append(message)


def test_learns_measures_and_classifies(texts):
    run = wenmai.train(
        "fasttext-supervised", texts / "train.txt", out=texts / "run", valid=texts / "valid.txt", **SMALL
    )
    assert run.summary["validation"]["accuracy"] == 1.0
    assert [r["figures"]["accuracy"] for r in run.records if r["kind"] == "evaluation"][-1] == 1.0
    model = wenmai.load(texts / "run")
    assert sorted(model.labels) == ["colour", "number"]
    ((best, second), nothing) = model.predict(["colour1 colour2", "number3"], k=2, threshold=0.0)
    assert best[0] == "colour"
    assert best[1] > 0.9
    assert best[1] + second[1] == pytest.approx(1)
    assert nothing[0][0] == "number"
    found = wenmai.evaluate(run, on=texts / "valid.txt", k=1, curves=True)
    assert found.result.accuracy == 1.0
    assert all(curve.average_precision == pytest.approx(1) for curve in found.curves)
    json.dumps(found.as_dict(), allow_nan=False)


@pytest.mark.parametrize("loss", ["hs", "ns", "ova"])
def test_other_losses_learn_too(texts, loss):
    run = wenmai.train(
        "fasttext-supervised", texts / "train.txt", out=texts / "run", loss=loss, word_ngrams=2, buckets=100, **SMALL
    )
    assert wenmai.evaluate(run, on=texts / "valid.txt").result.accuracy > 0.95


def test_one_thread_gives_the_same_bytes_and_so_does_deterministic_mode(texts):
    def rows(name, **settings):
        return input_rows(
            wenmai.train("fasttext-supervised", texts / "train.txt", out=texts / name, **SMALL | settings)
        )

    first = rows("a")
    assert np.array_equal(first, rows("b"))
    assert np.array_equal(first, rows("c", threads=2, deterministic=True))
    assert not np.array_equal(first, rows("d", seed=2))
    assert not np.array_equal(first, rows("e", shuffle=False))


def test_a_run_is_continued_with_new_words_and_labels(texts):
    first = wenmai.train("fasttext-supervised", texts / "train.txt", out=texts / "a", **SMALL)
    (texts / "more.txt").write_text("".join(lines(200, ("colour", "place"), seed=3)))
    notes = Notes()
    second = wenmai.train(
        "fasttext-supervised", texts / "more.txt", out=texts / "b", start=first.path, callback=notes, **SMALL
    )
    assert any("20 words and 1 label are new" in note for note in notes.notes)
    model = wenmai.load(second.path)
    assert sorted(model.labels) == ["colour", "number", "place"]
    assert [found[0][0] for found in model.predict(["colour1 colour2", "place1 place2"])] == ["colour", "place"]
    frozen = wenmai.train(
        "fasttext-supervised", texts / "more.txt", out=texts / "c", start=first.path, old_rate=0.0, **SMALL
    )
    old = len(FastText.load(first.model_folder).vocab)
    assert np.array_equal(input_rows(frozen)[:old], input_rows(first)[:old])


def test_vectors_from_elsewhere_are_the_beginning(texts):
    file = texts / "vectors.vec"
    file.write_text("2 8\ncolour1 1 1 1 1 1 1 1 1\nunseen 2 2 2 2 2 2 2 2\n")
    settings = SMALL | {"learning_rate": 1e-9}
    run = wenmai.train("fasttext-supervised", texts / "train.txt", out=texts / "a", pretrained=str(file), **settings)
    model = FastText.load(run.model_folder)
    assert model.vector("colour1") == pytest.approx(np.ones(8))
    assert model.vector("unseen") == pytest.approx(2 * np.ones(8))
    with pytest.raises(SettingError, match="vector_size=8"):
        wenmai.train("fasttext-supervised", texts / "train.txt", out=texts / "b", pretrained=str(file), vector_size=9)


def test_words_are_made_as_in_training(tmp_path):
    items = [("上海 很大", "place"), ("红色 很好", "colour")] * 20
    run = wenmai.train(
        "fasttext-supervised", items, out=tmp_path / "run", segment="characters", nfkc=True, **SMALL | {"epochs": 20}
    )
    model = wenmai.load(run.path)
    assert "上" in model.model.vocab
    assert [found[0][0] for found in model.predict(["海上", "色红"])] == ["place", "colour"]
    assert model.predict(["海\0上", "色红", ""]) == model.predict(["海 上", "色红", ""])  # a NUL ends no text
    assert model.embed(["海上"]).shape == (1, 8)
    with pytest.raises(SettingError, match="brackets"):
        model.embed("海上")


def test_a_new_label_in_the_test_set_is_counted_not_lost(texts):
    run = wenmai.train("fasttext-supervised", texts / "train.txt", out=texts / "run", **SMALL)
    evaluation = wenmai.evaluate(run, on=[("colour1", "colour"), ("x", "new")])
    found = evaluation.result
    assert found.unknown_labels == {"new": 1}
    assert evaluation.notes == ["1 label of the test set is unknown to the classifier and counts as missed: new (1)"]
    assert (found.accuracy, found.precision_at_k) == (0.5, 1.0)


def test_a_test_set_of_other_labels_is_refused(texts):
    run = wenmai.train("fasttext-supervised", texts / "train.txt", out=texts / "run", **SMALL)
    (texts / "numbers.txt").write_text("__label__0 a b\n__label__1 c d\n")
    with pytest.raises(
        CorpusError, match=r"has the labels '0', '1', none of which the model knows; it knows '(number|colour)', '"
    ):
        wenmai.evaluate(run, on=texts / "numbers.txt")


def test_rare_labels_are_left_out_and_told(texts):
    with open(texts / "train.txt", "a") as file:
        file.write("__label__rare colour1\n")
    notes = Notes()
    run = wenmai.train(
        "fasttext-supervised", texts / "train.txt", out=texts / "run", min_label_count=2, callback=notes, **SMALL
    )
    assert len(wenmai.load(run.path).labels) == 2
    assert any("1 label that is too rare (min_label_count) was left out" in note for note in notes.notes)


@pytest.mark.parametrize(
    ("items", "settings", "error", "message"),
    [
        ([("a", "x"), ("b", "x")], {}, CorpusError, "at least two labels"),
        ([("a", "x"), ("b", "y")], {"min_count": 9}, VocabError, "min_count"),
        ([("a", "x"), ("b", "y")], {"min_label_count": 9}, VocabError, "^no label has min_label_count=9 texts"),
        ([("a", "x"), ("b", None)], {}, CorpusError, "item 1 has no label .* expected a text and its label"),
        ([("a b", "x"), ("b a", "y")] * 50, {"learning_rate": 1e30}, TrainingError, "no longer a number"),
        ([("a", "x"), ("b", "y")], {"valid": "nothing.txt"}, CorpusError, "no such file"),
        ([("a", "x"), ("b", "y")], {"pretrained": "nothing.vec"}, Exception, "nothing.vec"),
    ],
)
def test_mistakes_are_explained(tmp_path, items, settings, error, message):
    with pytest.raises(error, match=message):
        wenmai.train("fasttext-supervised", items, out=tmp_path / "run", **SMALL | settings)


def test_autotune_finds_settings_that_are_no_worse(texts, capsys):
    trials = []
    run = autotune(
        texts / "train.txt", valid=texts / "valid.txt", out=texts / "run", seconds=1.5, on_trial=trials.append,
        size_bytes=400_000, threads=1, word_ngrams=1, epochs=1,
    )  # fmt: skip
    said = capsys.readouterr().err.splitlines()
    assert re.match(
        r"trial 1: f1 [01]\.\d{4} in .* s, .* s left; epochs=1,", next(line for line in said if "trial" in line)
    )
    noted = json.loads((run.path / "autotune.json").read_text())
    assert noted["best"] == max(trials, key=lambda trial: trial.score or 0).number
    assert noted["failed"] == sum(trial.score is None for trial in trials)
    assert all(trial.settings["epochs"] == 1 and trial.settings["word_ngrams"] == 1 for trial in trials)
    assert run.summary["size_bytes"] < 500_000
    assert run.recipe.sections["model"].vector_size == noted["trials"][noted["best"] - 1]["settings"]["vector_size"]
    assert run.summary["validation"]["accuracy"] >= (trials[0].score or 0)


def test_autotune_takes_texts_that_can_be_read_only_once(texts, tmp_path):
    rows = iter([("a good film", "praise"), ("a bad film", "blame")] * 10)
    given = {"seconds": 0, "threads": 1, "vector_size": 4, "quiet": True}
    run = autotune(rows, valid=texts / "valid.txt", out=tmp_path / "run", **given)
    assert sorted(run.model.labels) == ["blame", "praise"]


def test_rows_of_labels_count_for_the_size_that_autotune_may_make(tmp_path):
    for name in ("train", "valid"):
        (tmp_path / f"{name}.txt").write_text("".join(f"__label__{number} x\n" for number in range(100)))
    run = autotune(
        tmp_path / "train.txt", valid=tmp_path / "valid.txt", out=tmp_path / "run", seconds=0, size_bytes=8000,
        threads=1, epochs=1,
    )  # fmt: skip
    model = FastText.load(run.model_folder)
    assert 4 * (len(model.vocab) + len(model.labels)) * model.config.vector_size <= 8000


def test_autotune_goes_without_ngrams_where_their_buckets_take_too_much(texts):
    class EnoughError(Exception):
        """There are three trials, however long they took."""

    def watch(trial):
        tried.append((trial.settings["word_ngrams"], trial.settings["max_ngram"]))
        if len(tried) == 3:
            raise EnoughError

    tried = []
    with pytest.raises(EnoughError):
        autotune(
            texts / "train.txt", valid=texts / "valid.txt", out=texts / "run", seconds=60, size_bytes=10_000,
            on_trial=watch, threads=1, vector_size=8, epochs=1,
        )  # fmt: skip
    assert set(tried) == {(1, 0)}


def test_autotune_explains_mistakes(texts):
    with pytest.raises(SettingError, match="expected f1"):
        autotune(texts / "train.txt", valid=texts / "valid.txt", out=texts / "run", metric="accuracy")
    for wrong in ({"size_bytes": 0}, {"seconds": float("nan")}, {"seconds": float("inf")}, {"seconds": -1}):
        with pytest.raises(SettingError, match=f"{next(iter(wrong))}=.*: expected"):
            autotune(texts / "train.txt", valid=texts / "valid.txt", out=texts / "run", **wrong)
    with pytest.raises(SettingError, match=r"valid and data\.valid are one setting; give it once"):
        autotune(texts / "train.txt", valid=texts / "valid.txt", out=texts / "run", **{"data.valid": "other.txt"})
    with pytest.raises(SettingError, match="no text has this label"):
        autotune(texts / "train.txt", valid=texts / "valid.txt", out=texts / "run", metric="f1:no")
    with pytest.raises(SettingError, match="expected f1 or f1:LABEL"):
        autotune(texts / "train.txt", valid=texts / "valid.txt", out=texts / "run", metric="f1:")
    first = (texts / "train.txt").read_text("utf-8").split("\n")[0]
    (texts / "one.txt").write_text(first + "\n", "utf-8")
    labels = {line.split()[0] for line in (texts / "train.txt").read_text("utf-8").splitlines()} - set(first.split())
    absent = min(labels).removeprefix("__label__")
    with pytest.raises(SettingError, match=r"no text of .*one\.txt has this label"):
        autotune(texts / "train.txt", valid=texts / "one.txt", out=texts / "run", metric=f"f1:{absent}")
    with pytest.raises(SettingError, match="bytes"):
        autotune(texts / "train.txt", valid=texts / "valid.txt", out=texts / "run", size_bytes=10)
    with pytest.raises(TrainingError, match="none of"):
        autotune(texts / "train.txt", valid=texts / "valid.txt", out=texts / "run", seconds=0, learning_rate=1e30)


def test_a_pruned_model_is_trained_again(texts):
    settings = SMALL | {"word_ngrams": 2, "buckets": 500}
    run = wenmai.train("fasttext-supervised", texts / "train.txt", out=texts / "run", **settings)
    model = FastText.load(run.model_folder)
    small = quantise_fasttext(model, cutoff=300, retrain=FinishedRun(run).retrain)
    found = small.predict(["colour1 colour2", "number3"])
    assert [best[0][0] for best in found] == ["colour", "number"]
    assert len(small.input) == 300


def test_working_memory_has_room_for_all_labels():
    choices = classify.Choices(loss=classify.ONE_VERSUS_ALL, negative=5, labels=300, word_ngrams=1, words=9, buckets=1)
    scratch = classify.Scratch.allocate(choices, features=3, padded=16, longest_path=0)
    assert scratch.slopes.size >= 2 * (300 + 1) + 16  # the products of a second input are written too
