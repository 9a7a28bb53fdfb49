"""``wenmai classify``, ``autotune`` and ``evaluate --on`` in the shell."""

import json

import pytest

import wenmai

LINES = ["__label__x a b", "__label__y c d"] * 30


@pytest.fixture
def run(tmp_path):
    (tmp_path / "train.txt").write_text("\n".join(LINES) + "\n")
    wenmai.train("fasttext-supervised", tmp_path / "train.txt", out=tmp_path / "run", vector_size=4, epochs=20,
                 learning_rate=0.5, threads=1)  # fmt: skip
    return tmp_path / "run"


def test_a_line_for_each_line(shell, run):
    assert shell("classify", run, stdin="a\n\nc d\n").out == "x\n\ny\n"
    (shell.folder / "texts.txt").write_text("a b\nc")
    found = shell("classify", run, "--file", "texts.txt", "--k", "-1", "--json").out.splitlines()
    first = json.loads(found[0])
    assert first["text"] == "a b"
    assert [label["label"] for label in first["labels"]] == ["x", "y"]
    assert len(found) == 2
    lines = shell(
        "classify", run, "--file", "texts.txt", "--k", "2", "--threshold", "0.5", "--probabilities"
    ).out.splitlines()
    assert [line.split("\t")[0] for line in lines] == ["x", "y"]
    assert float(lines[0].split("\t")[1]) > 0.5


def test_evaluate_and_mistakes(shell, run):
    (shell.folder / "test.txt").write_text("__label__x a\n__label__z c\n\n")
    found = shell("evaluate", run, "--on", "test.txt")
    assert found.out.startswith("accuracy 50.00%")
    assert "z (1)" in found.err
    assert "1 line without text, label or good characters was left out" in found.err
    (shell.folder / "bad.txt").write_text("__label__x a\nc\n")
    refused = shell("evaluate", run, "--on", "bad.txt", code=3).err  # it has no --unlabelled
    assert "line 2 has no label" in refused
    assert "remove those of a test set" in refused
    assert "--k 0" in shell("classify", run, "--k", "0", code=2, stdin="").err
    assert "--curves: " in shell("evaluate", run, "--on", "test.txt", "--curves", code=2).err
    curves = json.loads(shell("evaluate", run, "--on", "test.txt", "--curves", "--json").out)["curves"]
    assert [curve["label"] for curve in curves] == ["x"]
    assert "no such run" in shell("classify", "nothing", code=6, stdin="").err
    assert "fasttext-supervised, which has no vectors of words" in shell("nearest", run, "a", code=6).err


def test_train_and_tune_in_the_shell(shell):
    (shell.folder / "train.tsv").write_text("text\tkind\n" + "a b\tx\nc d\ty\n" * 30)
    table = ("--set", "text_column=text", "--set", "label_column=kind", "--set", "threads=1", "--set", "vector_size=4")
    shell("autotune", "train.tsv", "--valid", "train.tsv", "--seconds", "1", "--out", "tuned", *table)
    found = shell("evaluate", "tuned", "--on", "train.tsv", "--json").out
    assert json.loads(found)["accuracy"] == 1.0
    for name in ("valid", "data.valid"):
        refused = shell("autotune", "train.tsv", "--valid", "train.tsv", "--out", "b", "--set", f"{name}=b.tsv", code=2)
        assert "valid was given twice; give it once" in refused.err
