"""Trained on, on new text: the vocabulary grows, what is old stays where it is, and how far it drifted is told."""

import hashlib
import json
import shutil

import numpy as np
import pytest

import wenmai
from wenmai.core.errors import RunError, SettingError
from wenmai.models.word2vec import Word2Vec
from wenmai.runs.formats import export_run, import_run
from wenmai.runs.train import Callback

SMALL = {"vector_size": 16, "epochs": 2, "threads": 1}
NEW = ["colour1 fresh colour2 fresh rare colour3"] * 200 + ["scarce colour1 number1"] * 3


def model(run):
    return Word2Vec.load(run.model_folder)


def model_sha256(run):
    return hashlib.sha256((run.path / "model" / "model.safetensors").read_bytes()).hexdigest()


@pytest.fixture
def first(topics, tmp_path):
    return wenmai.train("word2vec", topics, out=tmp_path / "first", min_count=4, **SMALL)


def texts():
    """New text, as an iterable that is not mistaken for names of files."""
    return iter(NEW)


def test_ids_never_move_and_new_words_get_rows(first, tmp_path):
    before = model(first)
    run = wenmai.train("word2vec", texts(), out=tmp_path / "second", start=first.path, epochs=1, threads=1)
    after = model(run)
    assert after.vocab.tokens == [*before.vocab.tokens, "fresh", "rare"]  # min_count=4 is inherited
    assert after.vocab.counts[-2:].tolist() == [400, 200]
    assert after.vocab.counts[before.vocab.index("number1")] == before.vocab.counts[before.vocab.index("number1")] + 3
    assert run.recipe.start == str(first.path)
    assert (after.input[len(before.vocab) :] ** 2).sum(axis=1).all()
    assert np.array_equal(before.input, model(first).input)  # the run that is continued is left alone
    untouched = before.vocab.index("number7")
    assert np.array_equal(before.input[untouched], after.input[untouched])


def test_min_count_applies_to_new_words_only(first, tmp_path):
    run = wenmai.train("word2vec", texts(), out=tmp_path / "second", start=first.path, min_count=300, threads=1)
    assert model(run).vocab.tokens == [*model(first).vocab.tokens, "fresh"]
    run = wenmai.train("word2vec", texts(), out=tmp_path / "third", start=first.path, min_count=3, threads=1)
    assert model(run).vocab.tokens == [*model(first).vocab.tokens, "fresh", "rare", "scarce"]


def test_old_rows_can_be_frozen(first, tmp_path):
    before = model(first)
    rows = len(before.vocab)
    run = wenmai.train("word2vec", texts(), out=tmp_path / "second", start=first.path, old_rate=0, threads=1)
    after = model(run)
    assert np.array_equal(before.input, after.input[:rows])
    assert run.summary["drift"]["largest_cosine_distance"] < 1e-6
    fresh = wenmai.train("word2vec", texts(), out=tmp_path / "third", start=first.path, threads=1)
    assert not np.array_equal(before.input, model(fresh).input[:rows])
    assert fresh.summary["drift"]["largest_cosine_distance"] > 1e-4


@pytest.mark.parametrize(("system", "setting", "value"), [
    ("word2vec", "old_rate", 0.5), ("fasttext", "old_rate", 0), ("fasttext-supervised", "old_rate", 0.1),
    ("gpt", "grow", 3),
])  # fmt: skip
def test_what_is_for_continuing_is_refused_of_a_new_model(system, setting, value, tmp_path):
    texts = [("a b", "x"), ("c", "y")] if system == "fasttext-supervised" else ["a b", "c"]
    told = f"{setting} has no effect with a new model; leave it out, or add --from RUN"
    with pytest.raises(SettingError, match=told):
        wenmai.train(system, texts * 9, out=tmp_path / "new", **{setting: value})


def test_slower_old_rows_drift_less(first, tmp_path):
    drifts = [
        wenmai.train(
            "word2vec", texts(), out=tmp_path / str(rate), start=first.path, old_rate=rate, threads=1, epochs=3
        ).summary["drift"]["mean_cosine_distance"]
        for rate in (1.0, 0.1)
    ]
    assert 0 < drifts[1] < drifts[0] / 2


def test_the_drift_is_what_it_says(first, tmp_path):
    notes = []

    class Listener(Callback):
        def note(self, message):
            notes.append(message)

    run = wenmai.train("word2vec", texts(), out=tmp_path / "run", start=first.path, threads=1, callback=Listener())
    old, new = first.vectors, run.vectors
    distance = {
        word: 1 - float(np.dot(old[word], new[word]) / np.linalg.norm(old[word]) / np.linalg.norm(new[word]))
        for word in ("colour1", "colour2", "colour3", "number1")  # the old words that the new text has
    }
    drift = run.summary["drift"]
    assert (drift["old_words"], drift["seen_words"]) == (80, 4)
    assert drift["mean_cosine_distance"] == pytest.approx(np.mean([*distance.values()]), abs=1e-6)
    assert drift["median_cosine_distance"] == pytest.approx(np.median([*distance.values()]), abs=1e-6)
    assert drift["largest_cosine_distance"] == pytest.approx(max(distance.values()), abs=1e-6)
    assert [word for word, _ in drift["furthest"]] == sorted(distance, key=distance.__getitem__, reverse=True)
    assert notes[0].startswith("4 of 80 old words occur in the new text; they moved by")


@pytest.mark.parametrize("system", ["word2vec-sghs", "word2vec-cbow-ns"])
def test_another_objective_may_go_on(system, first, tmp_path):
    run = wenmai.train(system, texts(), out=tmp_path / "second", start=first.path, epochs=3, threads=1)
    assert run.recipe.system == system
    assert "fresh" in run.vectors


def test_another_size_is_refused(first, topics, tmp_path):
    with pytest.raises(SettingError, match="vector_size=20, but the run that is continued has 16"):
        wenmai.train("word2vec", topics, out=tmp_path / "second", start=first.path, vector_size=20)
    assert not (tmp_path / "second").exists()


def test_only_finished_runs_are_continued(first, topics, tmp_path):
    (first.path / "model").rename(tmp_path / "model")
    with pytest.raises(RunError, match="has not finished; `wenmai resume"):
        wenmai.train("word2vec", topics, out=tmp_path / "second", start=first.path)
    with pytest.raises(RunError, match="no such run folder"):
        wenmai.train("word2vec", topics, out=tmp_path / "second", start=tmp_path / "nowhere")
    assert not (tmp_path / "second").exists()


def test_imported_vectors_are_continued(first, topics, tmp_path):
    export_run(first, "word2vec", tmp_path / "vectors.txt")
    imported = import_run("word2vec", tmp_path / "vectors.txt", tmp_path / "imported")
    run = wenmai.train("word2vec", texts(), out=tmp_path / "second", start=imported.path, threads=1, min_count=1)
    assert run.recipe.flat_settings()["model.vector_size"] == 16
    assert run.vectors.index_to_key[:80] == first.vectors.index_to_key
    assert "scarce" in run.vectors


class Stop(Callback):
    """Ends a training as a power failure would, as far as the run folder shows."""

    def record(self, record):
        if record.position > 20:
            raise SystemExit


def stopped(topics, first, path, **settings):
    with pytest.raises(SystemExit):
        wenmai.train(
            "word2vec",
            topics,
            out=path,
            start=first.path,
            callback=Stop(),
            epochs=2,
            threads=1,
            min_count=1,
            **settings,
        )
    return path


@pytest.mark.parametrize("settings", [{"old_rate": 0.5}, {"hierarchical": True, "deterministic": True}])
def test_a_killed_continued_training_resumes_to_the_bit(settings, first, tmp_path):
    text = tmp_path / "new.txt"
    text.write_text("".join(line + "\n" for line in NEW * 30))
    whole = wenmai.train(
        "word2vec", text, out=tmp_path / "whole", start=first.path, epochs=2, threads=1, min_count=1, **settings
    )
    for seconds in (0, 600):  # resumed from a checkpoint, and from the start
        path = stopped(text, first, tmp_path / str(seconds), checkpoint_seconds=seconds, **settings)
        assert bool(wenmai.Run(path).checkpoints.newest_good()[0]) is (seconds == 0)
        recipe = (path / "recipe.yaml").read_text()
        (path / "recipe.yaml").write_text(recipe.replace("checkpoint_seconds: 0", "checkpoint_seconds: 600"))
        wenmai.Run(path).seal()
        run = wenmai.resume(path)
        assert model_sha256(run) == model_sha256(whole)
        assert run.summary["drift"] == whole.summary["drift"]


def test_a_killed_training_does_not_resume_over_another_base(first, topics, tmp_path):
    path = stopped(topics, first, tmp_path / "second")
    kept = tmp_path / "kept"
    shutil.move(first.path, kept)
    with pytest.raises(RunError, match=r"the run that it continues cannot be read: .*first: no such run folder"):
        wenmai.resume(path)
    wenmai.train("word2vec", topics, out=first.path, **SMALL, seed=9)
    with pytest.raises(RunError, match=r"the run that it continues, .*first, has changed since; train again"):
        wenmai.resume(path)
    shutil.rmtree(first.path)
    shutil.move(kept, first.path)
    assert wenmai.resume(path).finished


def test_the_shell_continues_a_run_named_alone(first, topics, shell, tmp_path):
    finished = shell("train", "--from", "first", topics, "--out", "second", "--set", "threads=1", "--json")
    assert json.loads(finished.out)["drift"]["old_words"] == 80
    assert "vocabulary 80, 0 of them new" in finished.err
    assert wenmai.Run(tmp_path / "second").recipe.system == "word2vec"
