"""Entities that a fine-tuned tagger finds, and what marks a text needs."""

import numpy as np
import pytest

import wenmai
from tests.data.spans import entity_spans
from wenmai.core.errors import RunError, SettingError
from wenmai.data.corpus import Corpus
from wenmai.data.encoded_text import LinesConfig
from wenmai.data.pretraining import marks_of
from wenmai.data.pretraining.settings import TasksConfig
from wenmai.data.running_text import read_language_data
from wenmai.data.token_marks import CAPITAL, ENTITY, INSIDE, PHRASE
from wenmai.tasks.marking import marking
from wenmai.text.pieces import StreamTokenizerConfig

TINY = {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "intermediate_size": 32, "max_length": 32}


def test_marks_that_tasks_need():
    assert marks_of(["characters", "dialogue"]) == 0
    assert marks_of(["characters", "phrases"]) == PHRASE
    assert marks_of(["entities"]) == PHRASE | ENTITY
    assert not marks_of(["knowledge"]) & (CAPITAL | INSIDE)


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    """A tagger that knows that Ada and Bob are names."""
    folder = tmp_path_factory.mktemp("tagger")
    draw = np.random.default_rng(0)
    words = ["ada", "bob", "now", "lives", "in", "rome", "oslo"]
    lines = [" ".join(draw.choice(words, 5)) for _ in range(60)]
    (folder / "text.txt").write_text("\n".join(lines) + "\n")
    base = wenmai.train("bert", folder / "text.txt", out=folder / "base", quiet=True, epochs=1, vocab_size=80,
                        kind="wordpiece", lowercase=True, **TINY)  # fmt: skip
    rows = []
    for line in lines:
        rows += [f"{word} {'B-PER' if word in ('ada', 'bob') else 'O'}" for word in line.split()] + [""]
    (folder / "tags.conll").write_text("\n".join(rows))
    tags = folder / "tags.conll"
    return wenmai.finetune(
        base, tags, task="tagging", out=folder / "run", valid=str(tags), quiet=True, epochs=20, learning_rate=0.02
    )


def test_a_tagger_finds_entities(tagger, tmp_path, monkeypatch):
    monkeypatch.setenv("WENMAI_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "text.txt"
    path.write_text("ada lives in rome now\n\nnow bob lives in ada\n" * 12)
    config = TasksConfig(entities_run=str(tagger.path), phrases_from="words")
    data = read_language_data(
        Corpus.of_paths([path]), LinesConfig(), StreamTokenizerConfig(kind="wordpiece", vocab_size=100), inherited=None,
        roles=("cls", "sep", "mask"), marking=marking(config, ["entities"]),
    )  # fmt: skip
    marks = np.asarray(data.text.marks)
    found = ["".join(data.tokenizer.token(number).removeprefix("##") for number in data.text.tokens[low:high].tolist())
             for low, high in entity_spans(marks)]  # fmt: skip
    assert set(found) == {"ada", "bob"}
    assert len(found) == 36
    inside = marking(config, ["entities"])(Corpus.of_paths([path]), LinesConfig(), None).identity()
    assert inside[-1]  # of the model


def test_a_run_that_is_no_tagger(tagger, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("ada\n")
    base = tagger.path.parent / "base"
    for run, error, message in (
        (base, RunError, "is a run of bert, which has no tag"),
        (tmp_path / "nothing", RunError, "nothing"),
    ):
        with pytest.raises(error, match=message):
            marking(TasksConfig(entities_run=str(run)), ["entities"])(Corpus.of_paths([path]), LinesConfig(), None)
    with pytest.raises(SettingError, match=r"entities_run=.* has no effect"):
        marking(TasksConfig(entities_run=str(base)), ["phrases"])(Corpus.of_paths([path]), LinesConfig(), None)
