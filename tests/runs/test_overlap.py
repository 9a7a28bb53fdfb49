"""Test texts that lie inside the training text are named."""

import errno
import json
import os
import random

import pytest

import wenmai
from wenmai.runs.compare import compare
from wenmai.runs.overlap import seen_in_training


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    draw = random.Random(1)
    lines = [" ".join(draw.choices(["alpha", "beta", "gamma", "delta", "epsilon"], k=8)) for _ in range(300)]
    (folder / "train.txt").write_text("".join(f"{line}\n" for line in lines[:200]))
    (folder / "inside.txt").write_text("".join(f"{line}\n" for line in lines[100:150]))
    (folder / "new.txt").write_text("".join(f"{line}\n" for line in lines[200:]))
    (folder / "short.txt").write_text("alpha\nbeta\n")
    wenmai.train("ngram", folder / "train.txt", out=folder / "run", order=2, quiet=True)
    return folder


def test_a_test_set_inside_the_training_text_is_named(texts):
    run = wenmai.Run(texts / "run")
    found = list(seen_in_training(run, [texts / name for name in ("inside.txt", "new.txt", "short.txt")]))
    assert len(found) == 1
    assert found[0].startswith(f"{texts / 'inside.txt'}: 50 of 50 sampled lines are in the text that")
    assert list(seen_in_training(run, ["data:sst2", texts / "nowhere.txt"])) == []
    assert list(seen_in_training(run, [f"{texts / 'inside.txt'},{texts / 'new.txt'}"]))  # both sides of pairs


def test_a_training_text_that_cannot_be_read_any_more_is_passed_over(texts, monkeypatch):
    def refuse(path, mode):
        if path.name == "train.txt":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return path.open(mode)

    monkeypatch.setattr("wenmai.runs.overlap.open", refuse, raising=False)
    assert list(seen_in_training(wenmai.Run(texts / "run"), [texts / "inside.txt"])) == []


def test_evaluate_and_compare_say_so(texts, tmp_path, capsys):
    wenmai.evaluate(texts / "run", on=texts / "inside.txt", quiet=True)
    assert "50 of 50 sampled lines" in capsys.readouterr().err
    wenmai.evaluate(texts / "run", on=texts / "new.txt", quiet=True)
    assert "sampled" not in capsys.readouterr().err
    found = compare([texts / "run"], out=tmp_path, on=[str(texts / "inside.txt")], quiet=True)
    assert "50 of 50" in found.corpus.facts["tested on training text"]
    assert "tested on training text" in (tmp_path / "report.html").read_text()
    assert json.loads((tmp_path / "comparison.json").read_text())["corpus"]["facts"] == found.corpus.facts


def test_each_of_several_is_said_in_chinese(texts, tmp_path, monkeypatch):
    monkeypatch.setenv("WENMAI_LANG", "zh")
    wenmai.train("ngram", texts / "train.txt", out=texts / "other", order=3, quiet=True)
    compare([texts / "run", texts / "other"], out=tmp_path, on=[str(texts / "inside.txt")], quiet=True)
    page = (tmp_path / "report.html").read_text("utf-8")
    assert f"50 行出现在 {texts / 'run'} 的训练文本中" in page
    assert f"50 行出现在 {texts / 'other'} 的训练文本中" in page


def test_nothing_is_said_by_word_of_text_without_spaces(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("今天天气很好我们一起去公园散步然后回家吃饭\n昨天下了一整天的雨所以大家都留在家里看书聊天\n" * 30)
    wenmai.train("ngram", text, out=tmp_path / "run", order=2, segment="characters", quiet=True)
    shown = str(wenmai.evaluate(tmp_path / "run", on=text, quiet=True))
    assert "perplexity" in shown
    assert "by word" not in shown
    (system,) = compare([tmp_path / "run"], out=tmp_path / "both", on=[str(text)], quiet=True).systems
    assert "perplexity" not in {measure.kind for measure in system.measures}
