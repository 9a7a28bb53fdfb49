"""Whole trainings of fastText word vectors on a small text, from the command's own functions to single bytes."""

import math
from pathlib import Path

import numpy as np
import pytest

from wenmai.config.recipe import Recipe
from wenmai.core.errors import SettingError, TrainingError
from wenmai.core.registry import find_system
from wenmai.data.corpus import Corpus
from wenmai.data.encoded_corpus import EncodedCorpus, encode_corpus
from wenmai.models.fasttext import FastText
from wenmai.runs.train import train as train_run
from wenmai.tasks.fasttext import FastTextJob
from wenmai.text.settings import TextConfig
from wenmai.training.checkpoint import Checkpoints
from wenmai.training.passes import Totals, run_passes
from wenmai.training.records import Record

TASK = find_system("fasttext").load()

MODELS = {
    "skip-gram": {},
    "skip-gram, hierarchical": {"hierarchical": True},
    "cbow": {"algorithm": "cbow"},
    "cbow, hierarchical": {"algorithm": "cbow", "hierarchical": True},
}
SMALL = {"vector_size": 20, "buckets": 200, "min_count": 2, "epochs": 2, "sample": 1e-2, "threads": 1}


@pytest.fixture(autouse=True)
def fewer_and_faster_checkpoints(monkeypatch):
    monkeypatch.setattr("wenmai.training.passes._ROUNDS", 20)
    monkeypatch.setattr("wenmai.training.passes._SHORTEST_ROUND_SECONDS", 0)
    monkeypatch.setattr("os.fsync", lambda handle: None)


@pytest.fixture(scope="module")
def text() -> list[list[str]]:
    """6,000 words of 150; sentences stay with one of three subjects, whose words begin alike."""
    random = np.random.default_rng(3)
    shares = 1 / np.arange(1, 51)
    sentences = []
    for _ in range(500):
        words = random.choice(50, 12, p=shares / shares.sum())
        subject = ("aqua", "fire", "wind")[random.integers(3)]
        sentences.append([f"{subject}{chr(97 + word % 26)}{chr(97 + word // 26)}" for word in words])
    return sentences


@pytest.fixture(scope="module")
def corpus(text: list[list[str]], tmp_path_factory: pytest.TempPathFactory) -> EncodedCorpus:
    return encode_corpus(Corpus.of(text), TextConfig(), cache=tmp_path_factory.mktemp("corpus"))


def recipe_of(**settings) -> Recipe:
    return Recipe.build("fasttext", TASK.sections, SMALL | settings)


def train(job: FastTextJob, folder: Path, *, totals: Totals | None = None) -> tuple[FastTextJob, Totals, list[Record]]:
    records: list[Record] = []
    totals = totals or Totals()
    run_passes(
        job,
        job.train_config,
        learning_rate=job.learning_rate,
        totals=totals,
        checkpoints=Checkpoints(folder / "checkpoints", keep=1000),
        report=records.append,
    )
    return job, totals, records


def parameters(job: FastTextJob) -> bytes:
    width = job.config.vector_size
    return job.model.dense("input")[:, :width].tobytes() + job.model.dense("output")[:, :width].tobytes()


@pytest.mark.parametrize("model", MODELS)
def test_resuming_from_any_checkpoint_ends_with_the_same_bytes(corpus, tmp_path, model):
    recipe = recipe_of(checkpoint_seconds=0, **MODELS[model])
    job, totals, records = train(TASK.begin(recipe, corpus), tmp_path)
    expected = parameters(job)
    plain, _, _ = train(TASK.begin(recipe_of(**MODELS[model]), corpus), tmp_path / "never saved")
    assert parameters(plain) == expected
    steps = sorted((tmp_path / "checkpoints").iterdir(), key=lambda path: int(path.name.removeprefix("step-")))
    for path in steps[:: max(1, len(steps) // 3)]:
        alone = tmp_path / path.name / "checkpoints" / path.name
        alone.parent.mkdir(parents=True)
        path.rename(alone)
        found, state, _ = Checkpoints(alone.parent).newest_good()
        state["last_epoch_loss"] = math.nan if state["last_epoch_loss"] is None else state["last_epoch_loss"]
        again = TASK.restore(recipe, corpus, found, {"words": 0})
        again, resumed, more = train(again, alone.parent.parent, totals=Totals(**state))
        assert parameters(again) == expected, path.name
        assert resumed.words == totals.words
        assert more[-1].loss == pytest.approx(records[-1].loss, rel=1e-12)


@pytest.mark.parametrize("model", MODELS)
def test_it_learns_with_one_thread_and_with_several(corpus, tmp_path, model):
    losses = []
    for threads in (1, 3):
        recipe = recipe_of(epochs=4, threads=threads, **MODELS[model])
        _, totals, records = train(TASK.begin(recipe, corpus), tmp_path)
        losses.append(totals.last_epoch_loss)
        epochs = [record.loss for record in records if record.kind == "epoch"]
        assert epochs[-1] < epochs[0]
    assert losses[1] == pytest.approx(losses[0], rel=0.05)


@pytest.mark.parametrize("model", MODELS)
def test_words_of_a_subject_come_together_and_unseen_words_follow_their_parts(corpus, tmp_path, model):
    recipe = recipe_of(epochs=10, sample=0, buckets=20_000, **MODELS[model])
    job, _, _ = train(TASK.begin(recipe, corpus), tmp_path)
    seen = job.model.vectors()
    subjects = ("aqua", "fire", "wind")
    rows = np.array([seen[f"{subject}{chr(97 + rank)}a"] for subject in subjects for rank in range(10)])
    rows = np.concatenate([rows, [job.model.vector(f"{subject}zzz") for subject in subjects]])
    rows -= rows[:30].mean(axis=0)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = rows @ rows[:30].T
    same = np.concatenate([np.kron(np.eye(3), np.ones((10, 10))), np.kron(np.eye(3), np.ones((1, 10)))]).astype(bool)
    assert cosines[:30][same[:30]].mean() > cosines[:30][~same[:30]].mean() + 0.5
    assert cosines[30:][same[30:]].min() > cosines[30:][~same[30:]].max()


def test_the_seed_decides(corpus, tmp_path):
    results = [parameters(train(TASK.begin(recipe_of(seed=seed), corpus), tmp_path)[0]) for seed in (1, 2, 2)]
    assert results[0] != results[1] == results[2]


def test_a_rate_that_is_far_too_high_is_noticed(corpus, tmp_path):
    with pytest.raises(TrainingError, match=r"no longer a number .*lower learning_rate"):
        train(TASK.begin(recipe_of(learning_rate=1e20), corpus), tmp_path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"deterministic": True}, "threads=1 gives the same bytes"),
        ({"negative": 0}, "nothing to learn from"),
        ({"window": 0}, "window=0 cannot be trained with; expected 1 to 1000"),
        ({"window": 10**9}, "expected 1 to 1000"),
    ],
)
def test_settings_that_cannot_be_served_are_refused(corpus, settings, message):
    with pytest.raises(SettingError, match=message):
        TASK.begin(recipe_of(**settings), corpus)


def test_continued_training_keeps_words_and_buckets_and_can_be_resumed(corpus, text, tmp_path):
    old, _, _ = train(TASK.begin(recipe_of(), corpus), tmp_path / "old")
    renamed = [[word.replace("aqua", "new") for word in sentence] for sentence in text[:300]]
    more = encode_corpus(Corpus.of(renamed), TextConfig(), cache=tmp_path)
    recipe = recipe_of(checkpoint_seconds=0, old_rate=0.0)
    job, _, _ = train(TASK.begin(recipe, more, old.model), tmp_path / "new")
    size, grown = len(old.model.vocab), len(job.model.vocab)
    assert job.model.vocab.tokens[:size] == old.model.vocab.tokens
    assert job.model.vocab.get("newaa", -1) >= size
    assert job.model.tokens == len(corpus) + len(more)
    before, after = old.model.dense("input"), job.model.dense("input")
    np.testing.assert_array_equal(after[:size], before[:size])  # frozen, ...
    np.testing.assert_array_equal(after[grown:], before[size:])  # ... buckets too
    untrained = TASK.begin(recipe, more, old.model).model.dense("input")
    assert (after[size:grown] != untrained[size:grown]).any(axis=1).all()
    assert (job.model.dense("output")[:size] != old.model.dense("output")).any()
    drift = job.drift(old.model.vectors())
    assert drift["old_words"] == size
    assert drift["largest_cosine_distance"] == pytest.approx(0, abs=1e-6)

    found, state, _ = Checkpoints(tmp_path / "new" / "checkpoints").newest_good()
    state["last_epoch_loss"] = math.nan if state["last_epoch_loss"] is None else state["last_epoch_loss"]
    again = TASK.restore(recipe, more, found, {"words": size})
    train(again, tmp_path / "resumed", totals=Totals(**state))
    assert parameters(again) == parameters(job)

    moving, _, _ = train(TASK.begin(recipe_of(), more, old.model), tmp_path / "moving")
    assert moving.drift(old.model.vectors())["median_cosine_distance"] > 0


def test_a_classifier_is_not_continued_as_word_vectors(corpus):
    from wenmai.models.fasttext import FastTextClassifierConfig
    from wenmai.text.vocab import Vocab

    config = FastTextClassifierConfig(vector_size=20, buckets=10)
    classifier = FastText(config, Vocab(["a"], [1]), Vocab(["yes", "no"], [1, 1]))
    with pytest.raises(SettingError, match="classifier cannot be continued"):
        TASK.begin(recipe_of(), corpus, classifier)


@pytest.mark.parametrize("segment", ["chinese", "characters"])
def test_a_run_on_chinese_from_text_to_vectors(tmp_path, segment):
    lines = [
        "北京大学的学生在图书馆读书",
        "清华大学的学生在实验室工作",
        "北京的图书馆有很多书",
        "上海的学生喜欢读书",
    ] * 50
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    run = train_run(
        "fasttext",
        tmp_path / "text.txt",
        out=tmp_path / "run",
        segment=segment,
        min_ngram=1,
        max_ngram=2,
        **{name: value for name, value in SMALL.items() if name != "min_count"},
    )
    vectors = run.vectors
    word = {"chinese": "学生", "characters": "学"}[segment]
    assert word in vectors
    assert np.isfinite(vectors[word]).all()
    assert np.isfinite(vectors["大学生们"]).all()  # unseen
    assert vectors["大学生们"].any()
    assert run.summary["objective"] == "negative sampling, skipgram with subwords"
