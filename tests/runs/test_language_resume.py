"""Language models that are continued on more text, and with more words."""

import random

import pytest

import wenmai
from tests.contract.examples import EXAMPLES
from wenmai.core.errors import SettingError
from wenmai.core.registry import find_system
from wenmai.tasks.language import LanguageTask

SYSTEMS = [name for name in EXAMPLES if isinstance(find_system(name).load(), LanguageTask)]
TRAINING = {"epochs": 4, "learning_rate": 0.02, "schedule": "constant", "batch_tokens": 24, "threads": 1}


def lines(number=80):
    draw = random.Random(1)
    return [" ".join(draw.choices("abcdefgh", k=draw.randint(1, 6))) for _ in range(number)]


def test_a_run_is_continued_on_more_text_and_scores_it_better(tmp_path):
    settings = EXAMPLES["rnnlm"].settings | {"schedule": "constant"}
    first = wenmai.train("rnnlm", lines(), out=tmp_path / "first", **settings)
    more = ["a b c d"] * 100
    second = wenmai.train("rnnlm", iter(more), out=tmp_path / "second", start=first.path, **TRAINING)
    scores = [next(wenmai.load(run.path).score(["a b c d"])).log_prob for run in (first, second)]
    assert scores[1] > scores[0] + 1


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_vocabulary_grows_with_a_run_that_is_continued(system, tmp_path):
    settings = EXAMPLES[system].settings | {"learning_rate": 1e-9}
    first = wenmai.train(system, lines(), out=tmp_path / "first", **settings)
    more = ["x y a b"] * 40 + lines()
    second = wenmai.train(
        system,
        iter(more),
        out=tmp_path / "second",
        start=first.path,
        grow=5,
        **TRAINING | {"learning_rate": 1e-9},
    )
    old, new = wenmai.load(first.path), wenmai.load(second.path)
    assert new.tokenizer.vocab_size == old.tokenizer.vocab_size + 2
    assert next(new.score(["x y"])).oov == 0
    before, after = old.module.state_dict(), new.module.state_dict()
    for name, rows in before.items():
        assert after[name][: len(rows)].allclose(rows, atol=1e-5)
    with pytest.raises(SettingError, match="has no effect with a new model"):
        wenmai.train(system, lines(), out=tmp_path / "third", grow=5, **settings)
