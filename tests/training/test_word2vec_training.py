"""Whole trainings of word2vec on a small text: the same bytes whenever they are promised."""

import math
from pathlib import Path

import numpy as np
import pytest

from wenmai.config.recipe import Recipe
from wenmai.core.errors import SettingError, TrainingError
from wenmai.core.registry import find_system
from wenmai.data.corpus import Corpus
from wenmai.data.encoded_corpus import EncodedCorpus, encode_corpus
from wenmai.tasks.word2vec import Word2VecJob
from wenmai.text.settings import TextConfig
from wenmai.training.checkpoint import Checkpoints
from wenmai.training.passes import Totals, run_passes
from wenmai.training.records import Record

TASK = find_system("word2vec").load()

MODELS = {
    "skip-gram": {},
    "classic": {"shared_negatives": False},
    "skip-gram, hierarchical": {"negative": 0, "hierarchical": True},
    "cbow": {"algorithm": "cbow"},
    "cbow, hierarchical": {"algorithm": "cbow", "negative": 0, "hierarchical": True},
}
SMALL = {"vector_size": 20, "min_count": 2, "epochs": 2, "sample": 1e-2, "threads": 1}


@pytest.fixture(autouse=True)
def fewer_and_faster_checkpoints(monkeypatch):
    monkeypatch.setattr("wenmai.training.passes._ROUNDS", 40)
    monkeypatch.setattr("wenmai.training.passes._SHORTEST_ROUND_SECONDS", 0)
    monkeypatch.setattr("os.fsync", lambda handle: None)


@pytest.fixture(scope="module")
def text() -> list[list[str]]:
    """6,000 words of 150; sentences stay with one of three subjects, so that there is something to learn."""
    random = np.random.default_rng(3)
    shares = 1 / np.arange(1, 51)
    sentences = []
    for _ in range(500):
        words = random.choice(50, 12, p=shares / shares.sum()) + 50 * random.integers(3)
        sentences.append([f"w{word}" for word in words])
    return sentences


@pytest.fixture(scope="module")
def corpus(text: list[list[str]], tmp_path_factory: pytest.TempPathFactory) -> EncodedCorpus:
    return encode_corpus(Corpus.of(text), TextConfig(), cache=tmp_path_factory.mktemp("corpus"))


def recipe_of(**settings) -> Recipe:
    return Recipe.build("word2vec", TASK.sections, SMALL | settings)


def train(
    job: Word2VecJob, folder: Path, *, totals: Totals | None = None, keep: int = 1000
) -> tuple[Word2VecJob, Totals, list[Record]]:
    records: list[Record] = []
    totals = totals or Totals()
    checkpoints = Checkpoints(folder / "checkpoints", keep=keep)
    run_passes(
        job,
        job.train_config,
        learning_rate=job.learning_rate,
        totals=totals,
        checkpoints=checkpoints,
        report=records.append,
    )
    return job, totals, records


def parameters(job: Word2VecJob) -> bytes:
    model = job.model
    return model.input.tobytes() + model.negative.tobytes() + model.hierarchical.tobytes()


@pytest.mark.parametrize("threads", ["1 thread", "deterministic, 1 thread", "deterministic, 2 threads"])
@pytest.mark.parametrize("model", MODELS)
def test_resuming_from_any_checkpoint_ends_with_the_same_bytes(corpus, tmp_path, model, threads, monkeypatch):
    monkeypatch.setattr("wenmai.training.passes._SHORTEST_ROUND_SECONDS", 0)  # the same rounds on every machine
    settings = MODELS[model] | {"deterministic": "deterministic" in threads, "threads": 2 if "2" in threads else 1}
    recipe = recipe_of(checkpoint_seconds=0, **settings)
    job, totals, records = train(TASK.begin(recipe, corpus), tmp_path)
    expected = parameters(job)
    assert totals.position == 2 * job.blocks == 120
    plain, _, _ = train(TASK.begin(recipe_of(**settings), corpus), tmp_path / "never saved")
    assert parameters(plain) == expected

    steps = sorted((tmp_path / "checkpoints").iterdir(), key=lambda path: int(path.name.removeprefix("step-")))
    assert len(steps) >= 7
    for path in steps[:: math.ceil(len(steps) / 7)]:
        alone = tmp_path / path.name / "checkpoints" / path.name
        alone.parent.mkdir(parents=True)
        path.rename(alone)
        found, state, _ = Checkpoints(alone.parent).newest_good()
        state["last_epoch_loss"] = math.nan if state["last_epoch_loss"] is None else state["last_epoch_loss"]
        again = TASK.restore(recipe, corpus, found, {"words": 0})
        again, resumed, more = train(again, alone.parent.parent, totals=Totals(**state))
        assert parameters(again) == expected, path.name
        assert resumed.words == totals.words
        assert resumed.last_epoch_loss == pytest.approx(totals.last_epoch_loss, rel=1e-12)
        assert more[-1].loss == pytest.approx(records[-1].loss, rel=1e-12)


@pytest.mark.parametrize("model", MODELS)
def test_the_deterministic_mode_does_not_depend_on_threads(corpus, tmp_path, model):
    results, losses = set(), set()
    for threads in (1, 2, 3):
        recipe = recipe_of(deterministic=True, threads=threads, **MODELS[model])
        job, totals, _ = train(TASK.begin(recipe, corpus), tmp_path)
        results.add(parameters(job))
        losses.add(totals.last_epoch_loss)
    assert len(results) == len(losses) == 1


@pytest.mark.parametrize("model", MODELS)
def test_the_loss_is_about_the_same_in_every_mode(corpus, tmp_path, model):
    losses = []
    for mode in ({"threads": 1}, {"threads": 3}, {"deterministic": True}):
        recipe = recipe_of(epochs=4, **MODELS[model], **mode)
        _, totals, records = train(TASK.begin(recipe, corpus), tmp_path)
        losses.append(totals.last_epoch_loss)
        epochs = [record.loss for record in records if record.kind == "epoch"]
        assert epochs == sorted(epochs, reverse=True)  # it learns
    assert losses[1] == pytest.approx(losses[0], rel=0.01)
    assert losses[2] == pytest.approx(losses[0], rel=0.05)


@pytest.mark.parametrize("model", [*MODELS, "softmax"])
def test_words_of_a_subject_come_together(corpus, tmp_path, model):
    settings = MODELS.get(model, {"negative": 0, "softmax": True})
    recipe = recipe_of(epochs=20, sample=0, learning_rate=0.05, **settings)
    job, _, _ = train(TASK.begin(recipe, corpus), tmp_path)
    vectors = job.model.vectors()
    frequent = [[f"w{50 * subject + rank}" for rank in range(10)] for subject in range(3)]
    rows = np.array([vectors[word] for words in frequent for word in words])
    rows -= rows.mean(axis=0)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = rows @ rows.T
    same = np.kron(np.eye(3), np.ones((10, 10))).astype(bool)
    assert cosines[same].mean() > cosines[~same].mean() + 0.5


@pytest.mark.parametrize("seed", [2, 2**64 + 1])
def test_the_seed_decides(corpus, tmp_path, seed):
    results = []
    for chosen in (1, seed, seed):
        job, _, _ = train(TASK.begin(recipe_of(seed=chosen), corpus), tmp_path)
        results.append(parameters(job))
    assert results[0] != results[1] == results[2]


def test_a_rate_that_is_far_too_high_is_noticed(corpus, tmp_path):
    recipe = recipe_of(algorithm="cbow", cbow_mean=False, learning_rate=1e20)
    with pytest.raises(TrainingError, match=r"no longer a number .*lower learning_rate"):
        train(TASK.begin(recipe, corpus), tmp_path)


def test_the_whole_softmax_has_no_deterministic_mode(corpus):
    recipe = recipe_of(negative=0, softmax=True, deterministic=True)
    with pytest.raises(SettingError, match="threads=1 gives the same bytes"):
        TASK.begin(recipe, corpus)


@pytest.mark.parametrize("mode", [{}, {"deterministic": True, "threads": 2}])
def test_continued_training_keeps_ids_and_can_be_resumed(corpus, text, tmp_path, mode):
    old, _, _ = train(TASK.begin(recipe_of(), corpus), tmp_path / "old")
    renamed = [[word.replace("w1", "new") for word in sentence] for sentence in text[:300]]
    more = encode_corpus(Corpus.of(renamed), TextConfig(), cache=tmp_path)
    recipe = recipe_of(checkpoint_seconds=0, old_rate=0.0, **mode)
    job, _, _ = train(TASK.begin(recipe, more, old.model), tmp_path / "new")
    size = len(old.model.vocab)
    assert job.model.vocab.tokens[:size] == old.model.vocab.tokens
    assert job.model.vocab.get("new0", -1) >= size
    np.testing.assert_array_equal(job.model.input[:size], old.model.input)  # frozen
    untrained = TASK.begin(recipe, more, old.model).model
    assert (job.model.input[size:] != untrained.input[size:]).any(axis=1).all()
    assert (job.model.negative[:size] != old.model.negative).any()

    found, state, _ = Checkpoints(tmp_path / "new" / "checkpoints").newest_good()
    state["last_epoch_loss"] = math.nan if state["last_epoch_loss"] is None else state["last_epoch_loss"]
    again = TASK.restore(recipe, more, found, {"words": size})
    train(again, tmp_path / "resumed", totals=Totals(**state))
    assert parameters(again) == parameters(job)

    drift = job.drift(old.model.vectors())
    assert drift["old_words"] == size
    assert drift["largest_cosine_distance"] == pytest.approx(0, abs=1e-6)
    moving = recipe_of(old_rate=1.0, **mode)
    job, _, _ = train(TASK.begin(moving, more, old.model), tmp_path / "moving")
    drift = job.drift(old.model.vectors())
    assert 0 < drift["median_cosine_distance"] <= drift["largest_cosine_distance"] < 2
    word, distance = drift["furthest"][0]
    assert distance == drift["largest_cosine_distance"]
    cosine = np.dot(*(v / np.linalg.norm(v) for v in (old.model.vectors()[word], job.model.vectors()[word])))
    assert distance == pytest.approx(1 - cosine, abs=1e-5)
