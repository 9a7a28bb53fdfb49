"""GloVe and PPMI + SVD through the public door: training, repeating, kills and resumes, what goes wrong."""

import hashlib

import numpy as np
import pytest

import wenmai
from wenmai.core.errors import RunError, TrainingError
from wenmai.runs.formats import export_run
from wenmai.runs.train import Callback

SETTINGS = {"vector_size": 16, "window": 4, "threads": 1}
GLOVE = {**SETTINGS, "epochs": 4}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A text of 600 types, so that the counts have several tiles."""
    generator = np.random.default_rng(1)
    shares = 1 / np.arange(1, 601)
    words = generator.choice(600, (3000, 15), p=shares / shares.sum())
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join(" ".join(f"w{word}" for word in line) for line in words) + "\n")
    return path


def model_sha256(path):
    return hashlib.sha256((path / "model" / "model.safetensors").read_bytes()).hexdigest()


def flags(**settings):
    return [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]


def topic_share(vectors):
    """How many of the nearest words are of the same topic."""
    found = [
        near.startswith(topic)
        for topic in ("colour", "number")
        for place in range(20)
        for near, _ in vectors.most_similar(f"{topic}{place}", topn=5)
    ]
    return np.mean(found)


# --- training -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("system", ["glove", "ppmi-svd"])
def test_words_of_a_topic_come_near_each_other(system, topics, tmp_path):
    run = wenmai.train(system, topics, out=tmp_path / "run", vector_size=12, threads=2)
    assert topic_share(run.vectors) > 0.95
    summary = run.summary
    assert summary["vocabulary"] == 80
    assert summary["words"] == 30_000 * summary["epochs"]
    assert summary["non_zeros"] > 3_000
    assert 0 < summary["loss"] < 0.1
    assert [record["kind"] for record in run.records][-2:] == ["step", "epoch"]
    assert run.corpus["stats"]["tokens"] == 30_000
    assert wenmai.resume(run.path).finished


def test_both_systems_share_their_counts(topics, tmp_path, cache_folder):
    chosen = {"window": 3, "weighting": "harmonic", "vector_size": 8}
    wenmai.train("glove", topics, out=tmp_path / "one", epochs=1, **chosen)
    wenmai.train("ppmi-svd", topics, out=tmp_path / "two", **chosen)
    assert len(list((cache_folder / "cooccurrences").iterdir())) == 1


def test_the_loss_falls_and_the_rate_does_not(text, tmp_path):
    run = wenmai.train("glove", text, out=tmp_path / "run", **GLOVE)
    losses = [record["loss"] for record in run.records if record["kind"] == "epoch"]
    assert losses == sorted(losses, reverse=True)
    assert {record["learning_rate"] for record in run.records if record["kind"] == "step"} == {0.05}


def test_one_thread_repeats_to_the_bit_and_a_seed_matters(text, tmp_path):
    runs = [
        wenmai.train("glove", text, out=tmp_path / str(number), **GLOVE | chosen)
        for number, chosen in enumerate([{}, {}, {"seed": 2}, {"scale_biases": False}, {"memory": 1e-9}])
    ]
    one, again, seed, biases, parts = (model_sha256(run.path) for run in runs)
    assert one == again == parts
    assert len({one, seed, biases}) == 3


# --- kills and resumes --------------------------------------------------------------------------------------------


def test_an_interrupted_training_goes_on_to_the_same_result(text, tmp_path, cache_folder):
    expected = wenmai.train("glove", text, out=tmp_path / "expected", **GLOVE)

    class Impatient(Callback):
        def record(self, record):
            if record.position > 20:
                raise KeyboardInterrupt

    run = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        wenmai.train("glove", text, out=run, callback=Impatient(), **GLOVE | {"checkpoint_seconds": 0.01})
    for folder in (cache_folder / "cooccurrences").iterdir():
        (folder / "places.bin").write_bytes(b"damaged")  # they are made again
    wenmai.resume(run)
    assert model_sha256(run) == model_sha256(expected.path)


# --- what goes wrong ----------------------------------------------------------------------------------------------


def test_a_training_that_diverges_is_stopped_and_explained(text, tmp_path):
    with pytest.raises(TrainingError, match=r"diverges: .*lower learning_rate or gradient_clip"):
        wenmai.train("glove", text, out=tmp_path / "run", **GLOVE | {"learning_rate": 1e30, "gradient_clip": 1e30})
    assert not wenmai.Run(tmp_path / "run").finished


def test_an_export_that_needs_context_vectors_is_for_glove_alone(topics, tmp_path):
    run = wenmai.train("ppmi-svd", topics, out=tmp_path / "run", vector_size=4)
    with pytest.raises(RunError, match="cannot be exported as glove-words"):
        export_run(run, "glove-words", tmp_path / "words.txt")
