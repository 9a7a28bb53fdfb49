"""Where ``wenmai compare`` writes, and what it says of a comparison without a test set."""

import os

import pytest

import wenmai


@pytest.fixture
def runs(shell):
    """Two small runs of word vectors."""
    settings = {"vector_size": 4, "min_count": 1, "epochs": 1, "threads": 1, "sample": 0}
    for name in ("a", "b"):
        wenmai.train("word2vec", [["a", "b", "c"]] * 30, out=shell.folder / name, **settings)
    (shell.folder / "similarity.tsv").write_text("a\tb\t1\na\tc\t2\nb\tc\t3\n")
    return ["a", "b"]


def test_a_comparison_does_not_replace_the_last_one(runs, shell):
    first = shell("compare", *runs)
    assert "note: no test set was given, so quality is not compared; add --on FILE" in first.err
    assert first.out.endswith("report: runs/comparison/report.html\n")
    second = shell("compare", *runs, "--similarity", "similarity.tsv")
    assert "note:" not in second.err
    assert second.out.endswith("report: runs/comparison-2/report.html\n")
    named = shell("compare", *runs, "--similarity", "similarity.tsv", "--out", "runs/comparison")
    assert named.out.endswith("report: runs/comparison/report.html\n")


def test_a_place_in_a_file_is_refused_before_anything_is_measured(runs, shell):
    for out in ("similarity.tsv", "similarity.tsv/both"):
        refused = shell("compare", *runs, "--similarity", "similarity.tsv", "--out", out, code=6).err
        assert refused == f"wenmai: {out}: similarity.tsv is a file; name a folder, choose another --out\n"
        trained = shell("compare", "--systems", "word2vec", "a", "--words", "a", "--out", out, code=6).err
        assert trained == refused
        refused = shell("compare", *runs, "--similarity", "similarity.tsv", "--charts", out, code=2).err
        assert refused == f"wenmai: --charts {out}: similarity.tsv is a file; name a folder\n"


def test_a_folder_that_may_not_be_written_is_refused_before_anything_is_measured(runs, shell, monkeypatch):
    (shell.folder / "locked").mkdir()
    # whoever runs the test may be root, who may write everywhere
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK or "locked" not in str(path))
    refused = shell("compare", *runs, "--similarity", "similarity.tsv", "--out", "locked/both", code=6).err
    assert refused == "wenmai: locked/both: you may not write into locked; name a folder, choose another --out\n"
    refused = shell("compare", *runs, "--similarity", "similarity.tsv", "--charts", "locked", code=2).err
    assert "you may not write into locked" in refused


def test_a_run_is_no_place_for_a_comparison(runs, shell):
    before = sorted(path.name for path in (shell.folder / "a").iterdir())
    assert "a: is a run; a comparison needs a folder" in shell("compare", *runs, "--out", "a", code=6).err
    arguments = ["--systems", "word2vec", "similarity.tsv", "--words", "a", "--out", "a"]
    assert "a: is a run; a comparison needs a folder" in shell("compare", *arguments, code=6).err
    assert sorted(path.name for path in (shell.folder / "a").iterdir()) == before
