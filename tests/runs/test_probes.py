"""Linear probes on the vectors of a run."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from wenmai.cli.main import main
from wenmai.core.errors import RunError, SettingError, VocabError
from wenmai.data.datasets import Dataset, TaggedSentence, TextExample, find_dataset
from wenmai.data.drawing import drawn
from wenmai.runs.probes import probe, probe_encoder
from wenmai.runs.train import train
from wenmai.vectors.pooling import StaticTokens, Windows, pooled, token_encoder
from wenmai.vectors.subword_vectors import SubwordVectors
from wenmai.vectors.word_vectors import WordVectors

WORDS = [f"{kind}{place}" for kind in ("red", "seven") for place in range(20)]


@pytest.fixture(scope="module")
def vectors():
    """Vectors in which the two kinds of words are far apart."""
    draws = np.random.default_rng(1)
    return WordVectors(WORDS, draws.normal(size=(40, 6)) + np.repeat([[1.5], [-1.5]], 20, axis=0))


def made(task, monkeypatch):
    """A data set that is not read from files."""
    draws = np.random.default_rng(2)
    examples: dict[str, list] = {}
    for split, count in (("train", 300), ("dev", 100)):
        found = examples[split] = []
        for _ in range(count):
            kinds = draws.integers(0, 2, 8)
            words = [WORDS[20 * kind + draws.integers(0, 20)].upper() for kind in kinds]
            if task == "classification":
                kind = int(kinds[0])
                words = [WORDS[20 * kind + draws.integers(0, 20)].upper() for _ in range(5)]
                found.append(TextExample(" ".join([*words, "unknown"]), ("colour", "number")[kind]))
            else:
                found.append(TaggedSentence(tuple(words), tuple("OB"[kind] + "-X" * kind for kind in kinds)))
    dataset = replace(find_dataset("sst2"), name="made", task=task)
    monkeypatch.setattr(Dataset, "read", lambda self, split: iter(examples[split]))
    return dataset


def test_texts_are_probed_with_every_weighting(vectors, monkeypatch):
    found = probe_encoder(StaticTokens(vectors), made("classification", monkeypatch))
    assert [result.weighting for result in found] == ["mean", "tfidf", "sif"]
    assert found[0].accuracy > 0.95
    for result in found:
        assert result.covered == pytest.approx(5 / 6)  # lower-cased, as only that has vectors
        assert 0.3 < result.majority < 0.7
        assert result.low <= result.accuracy <= result.high


@pytest.mark.parametrize("task", ["classification", "tagging"])
def test_a_probe_may_learn_from_those_that_fine_tuning_draws(vectors, task, monkeypatch):
    encoder, dataset = StaticTokens(vectors), made(task, monkeypatch)
    train, dev = list(dataset.read("train")), list(dataset.read("dev"))
    assert probe_encoder(encoder, dataset, limit=300, seed=2) == probe_encoder(encoder, dataset, seed=2)
    few = probe_encoder(encoder, dataset, limit=40, seed=2)
    kept = drawn([getattr(example, "label", None) for example in train], 40, seed=2)
    splits = {"train": [train[place] for place in sorted(kept)], "dev": dev}
    monkeypatch.setattr(Dataset, "read", lambda self, split: iter(splits[split]))
    assert probe_encoder(encoder, dataset, seed=2) == few


def test_each_label_needs_an_example(vectors, monkeypatch):
    with pytest.raises(SettingError, match="limit=1: there are 2 labels"):
        probe_encoder(StaticTokens(vectors), made("classification", monkeypatch), limit=1)


def test_unseen_words_are_probed_too(monkeypatch):
    """Half of the vocabulary is unseen; its vectors are composed, of a word in capitals a useless one."""
    full = WordVectors(WORDS, np.random.default_rng(1).normal(size=(40, 6)) + np.repeat([[1.5], [-1.5]], 20, axis=0))

    def compose(word):
        return full[word] if word in full else np.full(6, 1e-3, np.float32)

    half = SubwordVectors(
        WORDS[::2], full.vectors[::2], compose=compose, split=lambda word: ([], np.zeros(0, np.int32))
    )
    for task in ("classification", "tagging"):
        found = probe_encoder(token_encoder(half), made(task, monkeypatch))[0]
        assert found.covered == 1
        assert found.accuracy > 0.9  # words were lower-cased, as the vocabulary is


def test_tags_are_probed_with_windows(vectors, monkeypatch):
    (found,) = probe_encoder(StaticTokens(vectors), made("tagging", monkeypatch))
    assert found.accuracy > 0.9
    assert found.f1 > 0.85
    assert (found.sentences, found.tokens, found.covered) == (100, 800, 1.0)
    (again,) = probe_encoder(StaticTokens(vectors), made("tagging", monkeypatch))
    assert found == again


def test_a_contextual_model_gives_its_own_vectors(monkeypatch):
    class Contextual:
        """Tells a token from its sentence alone, as no static vector can."""

        vector_size = 2

        def token_vectors(self, sentences):
            for sentence in sentences:
                yield np.array([[token.lower() == sentence[0].lower(), 1] for token in sentence], np.float32)

    model = Contextual()
    assert token_encoder(model) is model
    (found,) = probe_encoder(model, made("tagging", monkeypatch))
    assert found.covered == 1.0


def test_sentence_pairs_have_no_probe(vectors):
    with pytest.raises(SettingError, match="sentence pairs"):
        probe_encoder(StaticTokens(vectors), find_dataset("mrpc"))
    with pytest.raises(RunError, match="a run of translation has no vectors of words"):
        token_encoder(object(), "translation")


def test_windows_are_rows_beside_each_other(vectors):
    sentences = [["red0", "seven3"], [], ["red5"], ["red1", "?", "red2"]]
    scaling = (np.full(6, 0.5, np.float32), np.full(6, 2.0, np.float32))
    windows = Windows(StaticTokens(vectors), sentences, 2, scaling)
    assert windows.shape == (6, 30)
    assert windows.covered == pytest.approx(5 / 6)
    row = 0
    for sentence in sentences:
        scaled = [(vectors[word] - 0.5) / 2 if word in vectors else np.zeros(6) for word in sentence]
        for place in range(len(sentence)):
            near = [scaled[n] if 0 <= n < len(sentence) else np.zeros(6) for n in range(place - 2, place + 3)]
            np.testing.assert_allclose(windows[np.array([row])][0], np.concatenate(near), atol=1e-6)
            row += 1
    own = Windows(StaticTokens(vectors), sentences, 0)
    known = own[np.array([0, 1, 2, 3, 5])]
    np.testing.assert_allclose(known.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(known.std(axis=0), 1, atol=1e-5)


def test_averages_leave_unknown_words_out(vectors):
    found = pooled(
        StaticTokens(vectors), [["red0", "?", "seven1"], ["?"], []], lambda word: 3.0 if word == "red0" else 1.0
    )
    np.testing.assert_allclose(found[0], 0.75 * vectors["red0"] + 0.25 * vectors["seven1"], atol=1e-6)
    assert not found[1:].any()


def test_runs_without_fitting_vectors_say_so(topics, tmp_path, vectors, monkeypatch):
    made("classification", monkeypatch)
    run = train("word2vec", topics, out=tmp_path / "run", vector_size=8, epochs=1, threads=1)
    with pytest.raises(VocabError, match="no word of the texts has a vector"):
        probe(run, "sst2")
    with pytest.raises(SettingError, match="did you mean 'sst2'"):
        probe(run, "data:sst")
    run = train("classifier", [("a", "x"), ("b", "y")], out=tmp_path / "labels", buckets=64, epochs=1)
    with pytest.raises(RunError, match="no vectors of words"):
        probe(run, "sst2")


@pytest.mark.shared_data
def test_the_shell_probes_a_run(shared_data: Path, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WENMAI_DATA_MIRROR", str(shared_data))
    lines = [example.text.lower().split() for example in find_dataset("trec").read("train")]
    train("word2vec", lines, out=tmp_path / "run", vector_size=16, threads=1)
    assert main(["evaluate", str(tmp_path / "run"), "--probe", "data:trec", "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert [found["weighting"] for found in done["probes"]] == ["mean", "tfidf", "sif"]
    assert max(found["accuracy"] for found in done["probes"]) > done["probes"][0]["majority"]
    assert main(["evaluate", str(tmp_path / "run"), "--probe", "trec", "--on", "x"]) == 2
    assert "--on: not for word vectors" in capsys.readouterr().err
