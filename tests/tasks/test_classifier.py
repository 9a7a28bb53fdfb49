"""The system ``classifier``: training, resuming, predicting, and what it refuses."""

import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest

import wenmai
from wenmai.core.errors import CorpusError, FormatError, RunError, SettingError
from wenmai.runs.train import Callback, resume, train
from wenmai.training.run import Run

METHODS = ("softmax", "logistic", "perceptron", "least-squares")


def texts_of(labels, count, seed):
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        label = draw.choice(labels)
        own = draw.choices([f"{label}{place}" for place in range(15)], k=3)
        found.append((" ".join([*own, *draw.choices(["the", "of", "and", "red"], k=4)]), label))
    return found


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """Labelled files of three topics, to train on and to measure on."""
    folder = tmp_path_factory.mktemp("labelled")
    for name, count, seed in (("train.txt", 300, 1), ("dev.txt", 90, 2)):
        lines = [f"__label__{label} {text}\n" for text, label in texts_of(["sport", "trade", "music"], count, seed)]
        (folder / name).write_text("".join(lines), encoding="utf-8")
    return folder


def accuracy(model, path):
    lines = [line.split(" ", 1) for line in path.read_text(encoding="utf-8").splitlines()]
    named = model.predict([text for _, text in lines])
    return np.mean(
        [found[0][0] == label.removeprefix("__label__") for found, (label, _) in zip(named, lines, strict=True)]
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("labels", [["sport", "trade"], ["sport", "trade", "music"]], ids=["two", "three"])
def test_every_method_learns(tmp_path, method, labels):
    run = train("classifier", texts_of(labels, 300, 1), out=tmp_path / "run", method=method, buckets=4096, epochs=5)
    model = wenmai.load(tmp_path / "run")
    assert model.labels == sorted(labels)
    texts, gold = zip(*texts_of(labels, 60, 2), strict=True)
    found = model.predict(texts, k=-1)
    assert np.mean([named[0][0] == label for named, label in zip(found, gold, strict=True)]) > 0.9
    for named in found:
        numbers = [number for _, number in named]
        assert numbers == sorted(numbers, reverse=True)
        assert len(named) == len(labels)
        assert 0 <= numbers[-1] <= numbers[0] <= 1
        if model.probabilistic:
            assert sum(numbers) == pytest.approx(1)
    assert run.summary["labels"] == len(labels)
    assert model.probabilistic == (method in ("softmax", "logistic"))
    with pytest.raises(SettingError, match="k=0: expected at least 1 label, or -1 for all"):
        model.predict(texts, k=0)
    if not model.probabilistic:
        with pytest.raises(SettingError, match="no probabilities"):
            model.predict(texts, threshold=0.5)
    else:
        assert model.predict(texts[:1], k=3, threshold=1.0) in ([[]], [[(found[0][0][0], 1.0)]])


@pytest.mark.parametrize(("batch_size", "records"), [(0, 6), (1, 120), (32, 60)], ids=["batch", "stochastic", "mini"])
def test_loss_curves_are_in_the_records(three, tmp_path, batch_size, records):
    run = train(
        "classifier", three / "train.txt", out=tmp_path / "run", batch_size=batch_size, epochs=6, buckets=4096,
        valid=str(three / "dev.txt"),
    )  # fmt: skip
    steps = [record for record in run.records if record["kind"] == "step"]
    epochs = [record for record in run.records if record["kind"] == "epoch"]
    assert 6 <= len(steps) <= records
    assert len(epochs) == 6
    assert epochs[-1]["loss"] < epochs[0]["loss"]
    measured = [record["figures"]["accuracy"] for record in run.records if record["kind"] == "evaluation"]
    assert len(measured) == 6
    assert run.summary["valid_accuracy"] == measured[-1]
    assert accuracy(run.model, three / "dev.txt") == pytest.approx(measured[-1])


def test_the_closed_form_is_one_step(three, tmp_path):
    run = train(
        "classifier", three / "train.txt", out=tmp_path / "run", method="least-squares", solver="closed", buckets=4096
    )
    assert [record["kind"] for record in run.records] == ["step", "epoch"]
    assert accuracy(run.model, three / "dev.txt") > 0.9


def test_a_vocabulary_and_ngrams_of_characters(three, tmp_path):
    settings = {"buckets": 0, "min_ngram": 2, "max_ngram": 3, "word_ngrams": 0, "weighting": "binary"}
    run = train("classifier", three / "train.txt", out=tmp_path / "run", epochs=5, **settings)
    assert (run.model_folder / "vocabulary.json").is_file()
    assert accuracy(run.model, three / "dev.txt") > 0.9


class Stopping(Callback):
    """Presses Ctrl-C in the middle of the training."""

    def __init__(self, after):
        self.after = after

    def record(self, record):
        if record.position >= self.after:
            import signal

            signal.raise_signal(signal.SIGINT)


def test_an_interrupted_perceptron_keeps_its_average(three, tmp_path):
    settings = {"method": "perceptron", "epochs": 6, "buckets": 1024, "batch_size": 4}
    whole = train("classifier", three / "train.txt", out=tmp_path / "whole", **settings)
    with pytest.raises(KeyboardInterrupt):
        train("classifier", three / "train.txt", out=tmp_path / "cut", callback=Stopping(30), **settings)
    assert not Run(tmp_path / "cut").finished
    again = resume(tmp_path / "cut")
    files = ("model.safetensors", "config.json")
    assert all((whole.model_folder / f).read_bytes() == (again.model_folder / f).read_bytes() for f in files)
    losses = [[r["loss"] for r in run.records if r["kind"] == "epoch"] for run in (whole, again)]
    assert losses[0] == pytest.approx(losses[1])


def test_averages_of_word_vectors(three, tmp_path, monkeypatch):
    plain = tmp_path / "plain.txt"
    lines = (three / "train.txt").read_text(encoding="utf-8").splitlines()
    plain.write_text("\n".join(line.split(" ", 1)[1] for line in lines * 5), encoding="utf-8")
    vectors = train("word2vec", plain, out=tmp_path / "vectors", vector_size=16, epochs=5, threads=1, min_count=1)
    monkeypatch.chdir(tmp_path)
    run = train("classifier", three / "train.txt", out=tmp_path / "run", features="vectors", epochs=10)
    assert run.recipe.sections["features"].features == str(tmp_path / "vectors")
    assert accuracy(run.model, three / "dev.txt") > 0.9
    shutil.rmtree(vectors.path)  # the classifier has a copy
    assert accuracy(wenmai.load(tmp_path / "run"), three / "dev.txt") > 0.9
    assert wenmai.load(tmp_path / "run").predict([""])[0]


@pytest.mark.parametrize(
    ("labelled", "settings", "error", "message"),
    [
        ([("a b", "x"), ("c d", "x")], {}, CorpusError, "all 2 texts have the label 'x'"),
        ([("a b", ["x", "y"]), ("c d", "x")], {}, CorpusError, "text 1 has the labels x, y; expected one"),
        ([("a b", None), ("c d", "x")], {}, CorpusError, "no label"),
        ([("a", "x"), ("b", "y")], {"solver": "closed"}, SettingError, "solver=closed needs method=least-squares"),
        ([("a", "x"), ("b", "y")], {"method": "perceptron", "l2": 0.1}, SettingError, "no effect"),
        ([("a", "x"), ("b", "y")], {"phrases": 1}, SettingError, "phrases"),
        ([("a", "x"), ("b", "y")], {"features": "missing"}, RunError, "no such run folder"),
        ([("a", "x"), ("b", "y")], {"epocs": 3}, SettingError, "did you mean 'epochs'"),
    ],
)
def test_mistakes_have_messages(tmp_path, labelled, settings, error, message):
    with pytest.raises(error, match=message):
        train("classifier", labelled, out=tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()


def test_damaged_models_are_refused(three, tmp_path):
    run = train("classifier", three / "train.txt", out=tmp_path / "run", epochs=1, buckets=64)
    folder = run.model_folder
    good = {name: (folder / name).read_bytes() for name in ("config.json", "model.safetensors")}
    config = json.loads(good["config.json"])
    for name, content in (
        ("config.json", b"{"),
        ("config.json", b"[" * 100_000),
        ("config.json", json.dumps(config | {"version": 9}).encode()),
        ("config.json", json.dumps(config | {"labels": ["a", "b"]}).encode()),
        ("config.json", json.dumps(config | {"labels": 7}).encode()),
        ("config.json", json.dumps(config | {"features": config["features"] | {"buckets": 65}}).encode()),
        ("config.json", json.dumps(config | {"model": {"method": "magic"}}).encode()),
        ("model.safetensors", good["model.safetensors"][:-3]),
        ("model.safetensors", b"\xff" * 64),
    ):
        (folder / name).write_bytes(content)
        with pytest.raises(FormatError, match=r"run|model"):
            wenmai.load(tmp_path / "run")
        (folder / name).write_bytes(good[name])
    assert wenmai.load(tmp_path / "run").predict([]) == []
    with pytest.raises(SettingError, match="takes a list"):
        wenmai.load(tmp_path / "run").predict("one text")


@pytest.mark.shared_data
def test_a_data_set_by_its_name(shared_data: Path, tmp_path, monkeypatch):
    monkeypatch.setenv("WENMAI_DATA_MIRROR", str(shared_data))
    run = train("classifier", "data:trec", out=tmp_path / "run", valid="data:trec", epochs=5)
    assert run.recipe.corpus == ("data:trec",)
    assert run.recipe.sections["text"].lowercase
    assert run.summary["texts"] == 4924
    assert run.summary["valid_accuracy"] > 0.8
