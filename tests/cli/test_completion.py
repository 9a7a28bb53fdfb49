"""What a shell completes."""

import pytest

import wenmai


@pytest.fixture
def complete(shell, monkeypatch):
    """The completions of a command line whose last word is not finished, as bash asks for them."""

    def completed(*words):
        monkeypatch.setenv("_WENMAI_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", " ".join(["wenmai", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        found = shell().out.split()
        monkeypatch.delenv("_WENMAI_COMPLETE")
        return found

    return completed


def test_verbs_systems_options_and_settings(complete):
    assert complete("tr") == ["train", "translate"]
    assert complete("train", "word2vec-s") == ["word2vec-sgns", "word2vec-sghs"]
    assert complete("compare", "--systems", "glove,pp") == ["glove,ppmi-svd"]
    assert complete("train", "word2vec", "--ou") == ["--out"]
    assert complete("train", "word2vec", "--vec") == ["--vector-size"]
    assert complete("train", "gpt", "--num") == ["--num-layers", "--num-heads"]
    assert complete("export", "run", "word2vec-b") == ["word2vec-binary"]
    assert complete("data", "get", "text") == ["text8"]
    assert complete("train", "word2vec", "--epochz", "3", "--vec") == ["--vector-size"]  # no message between


def test_runs(complete, shell):
    for name in ("runs/first", "runs/fine", "elsewhere"):
        folder = shell.folder / name
        wenmai.train("word2vec", [["a", "b"]] * 9, out=folder, vector_size=2, min_count=1, epochs=1, threads=1)
    assert complete("nearest", "runs/fi") == ["runs/fine", "runs/first"]
    assert complete("nearest", "") == ["elsewhere", "runs/fine", "runs/first"]
    assert complete("nearest", "nowhere/x") == []


def test_the_script_for_a_shell_can_be_shown(shell):
    environment = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    assert "_WENMAI_COMPLETE=complete_bash" in shell.process("--show-completion", "bash", environment=environment).out
