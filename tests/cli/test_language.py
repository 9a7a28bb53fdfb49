"""Language models by the shell."""

import json
import math

import pytest

TEXT = "the cat sat on the mat\nthe dog sat on the log\n" * 60
SIZES = {
    "rnnlm": ["hidden_size=16", "num_layers=1"],
    "gpt": ["hidden_size=16", "num_layers=1", "num_heads=2", "max_length=16", "tokenizer.kind=words"],
}


@pytest.fixture
def run(shell, request):
    (shell.folder / "text.txt").write_text(TEXT)
    system = getattr(request, "param", "rnnlm")
    settings = ["min_count=1", "epochs=8", "threads=1", "batch_tokens=64", "segment_length=8", "learning_rate=0.02"]
    options = [part for setting in (*settings, *SIZES[system]) for part in ("--set", setting)]
    shell("train", system, "text.txt", "--out", "run", *options)
    return "run"


@pytest.mark.parametrize("run", SIZES, indirect=True)
def test_a_model_is_trained_asked_and_writes_on(shell, run):
    (shell.folder / "test.txt").write_text("the cat sat\n\nthe zebra sat\n")
    *lines, total = (json.loads(line) for line in shell("score", run, "--file", "test.txt", "--json").out.splitlines())
    assert [line["tokens"] for line in lines] == [4, 0, 4]
    assert [line["oov"] for line in lines] == [0, 0, 1]
    assert total["log_prob"] == pytest.approx(sum(line["log_prob"] for line in lines))
    assert total["perplexity"] == pytest.approx(math.exp(-total["log_prob"] / 8))
    assert total["bits_per_character"] > 0
    assert "bits per character" in shell("score", run, "-", stdin="the cat sat\n").out
    evaluated = json.loads(shell("evaluate", run, "--on", "test.txt", "--json").out)
    assert evaluated["perplexity"] == pytest.approx(total["perplexity"])

    texts = ["mat the on", "", "the cat sat on the mat"]
    rows = [line.split("\t") for line in shell("score", run, *texts).out.splitlines()[:4]]
    assert rows[0] == ["log_prob", "tokens", "oov", "text"]
    assert [line[-1] for line in rows[1:]] == texts
    assert float(rows[3][0]) > float(rows[1][0])
    asked = [part for text in texts for part in ("--text", text)]  # as it was written before
    assert shell("score", run, *asked).out == shell("score", run, *texts).out
    found = json.loads(shell("next", run, "the cat sat", "--topn", "3", "--json").out)
    assert found["next"][0]["token"].strip() == "on"
    written = shell("generate", run, "the cat sat", "--greedy", "--max-tokens", "8").out
    assert written.startswith("the cat sat on the")
    row = json.loads(shell("generate", run, "the", "--count", "2", "--json", "--stop", "sat").out.splitlines()[1])
    assert row["prompt"] == "the"
    assert "sat" not in row["text"]


def test_texts_and_words_have_vectors(shell, run):
    texts = ["the cat sat", "a dog"]
    for options in ([], ["--pooling", "last"], ["--layer", "0,1", "--concat", "--normalise"]):
        rows = [json.loads(line)["vector"] for line in shell("embed", run, *texts, *options, "--json").out.splitlines()]
        assert [len(row) for row in rows] == [32 if "--concat" in options else 16] * 2
    shown = json.loads(shell("embed", run, "the cat sat", "--words", "--json").out)
    assert [one["word"] for one in shown["words"]] == ["the", "cat", "sat"]
    last = json.loads(shell("embed", run, "the cat sat", "--pooling", "last", "--json").out)["vector"]
    assert shown["words"][-1]["vector"] == pytest.approx(last, abs=1e-5)
    assert "the model has mean, max, last" in shell("embed", run, "a", "--pooling", "cls", code=2).err
    assert "rnnlm has no prompts that stand before texts" in shell("embed", run, "a", "--prompt", "query", code=2).err


def test_a_transformer_xl_reads_otherwise_than_it_was_trained(shell, run):
    (shell.folder / "test.txt").write_text("the cat sat on the mat\n" * 20)
    sizes = ["hidden_size=8", "num_layers=1", "num_heads=2", "ffn_size=8", "memory_length=2", "segment_length=8"]
    options = [part for setting in (*sizes, "min_count=1", "epochs=1", "threads=1") for part in ("--set", setting)]
    shell("train", "transformer-xl", "text.txt", "--out", "xl", *options)
    otherwise = ["--memory", "40", "--same-length", "--clamp-length", "20"]
    usual, other = (
        json.loads(shell("score", "xl", "--file", "test.txt", "--json", *options).out.splitlines()[-1])["perplexity"]
        for options in ([], otherwise)
    )
    assert usual != other
    evaluated = json.loads(shell("evaluate", "xl", "--on", "test.txt", "--json", *otherwise).out)
    assert evaluated["perplexity"] == other
    shell("generate", "xl", "the", "--greedy", "--max-tokens", "3", *otherwise)
    shell("compare", run, "xl", "--on", "test.txt", "--out", "both", *otherwise)
    found = json.loads((shell.folder / "both/comparison.json").read_text())
    settings = {system["name"]: system["settings"] for system in found["systems"]}
    assert settings["transformer-xl"]["memory"] == 40
    assert "memory" not in settings["rnnlm"]
    told = shell("evaluate", "xl", "--on", "sst2", "--few-shot", "1", "--same-length", code=2).err
    assert "leave them out of --few-shot" in told


def test_mistakes_are_told_in_a_line(shell, run):
    assert "not both" in shell("score", run, "a", "--file", "text.txt", code=2).err
    (shell.folder / "empty.txt").write_text("")
    assert "is empty" in shell("score", run, "--file", "empty.txt", code=3).err
    (shell.folder / "blank.txt").write_text("\n\n")
    assert "no token to predict" in shell("score", run, "--file", "blank.txt", code=3).err
    assert "no such file" in shell("score", run, "--file", "missing.txt", code=3).err
    for options in (["--memory", "3"], ["--same-length"], ["--clamp-length", "3"]):
        told = shell("score", run, "a", *options, code=2).err
        assert f"rnnlm always reads a text as it was trained; leave out {options[0]}" in told
    assert "leave out --temperature" in shell("generate", run, "--greedy", "--temperature", "0.5", code=2).err
    assert "which has no fill; it has score, next, generate, embed" in shell("fill", run, "a", code=6).err
    assert "expected fresh or carried" in shell("score", run, "--text", "a", "--context", "x", code=2).err
