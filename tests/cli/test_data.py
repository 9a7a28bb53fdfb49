"""``wenmai data`` against a mirror folder."""

import gzip
import json
import shutil

import pytest


def test_the_list_says_what_there_is_and_what_is_here(shell):
    rows = {row["name"]: row for row in json.loads(shell("data", "list", "--json").out)}
    assert rows["text8"]["licence"]
    assert rows["text8"]["here"] is None
    assert rows["builtin:pydocs-analogies"]["here"].endswith(".txt")
    lines = shell("data", "list").out.splitlines()
    assert len(lines) == len(rows)
    assert any(line.split()[:3] == ["builtin:pydocs-analogies", "analogy", "here"] for line in lines)


def test_a_wrong_file_in_a_mirror_is_refused(shell, tmp_path, monkeypatch, cache_folder):
    (tmp_path / "mirror" / "wordsim").mkdir(parents=True)
    (tmp_path / "mirror" / "wordsim" / "EN-RG-65.txt").write_text("cord\tsmile\t0.02\n" * 50)
    monkeypatch.setenv("WENMAI_DATA_MIRROR", str(tmp_path / "mirror"))
    finished = shell("data", "get", "rg-65", code=8)
    assert finished.out == ""
    assert finished.err.startswith("wenmai: ")
    assert "EN-RG-65.txt" in finished.err
    assert "unset WENMAI_DATA_MIRROR to fetch it from its public address" in finished.err
    shell("data", "check")  # nothing of it is kept
    assert not [path for path in cache_folder.rglob("*") if path.is_file() and not path.name.endswith(".lock")]


def test_a_mirror_without_the_file_says_what_to_do(shell, tmp_path, monkeypatch):
    monkeypatch.setenv("WENMAI_DATA_MIRROR", str(tmp_path))
    assert "bring en8.txt.xz yourself" in shell("data", "get", "en8", code=8).err


@pytest.mark.shared_data
def test_get_check_and_use(shell, shared_data, monkeypatch, cache_folder, tmp_path):
    mirror = tmp_path / "mirror"
    (mirror / "wordsim").mkdir(parents=True)
    for name in ("EN-RG-65.txt", "questions-words.txt.gz"):
        shutil.copy(shared_data / "wordsim" / name, mirror / "wordsim" / name)
    monkeypatch.setenv("WENMAI_DATA_MIRROR", mirror.as_uri())
    got = shell("data", "get", "rg-65")
    assert got.err == ""
    path = got.out.strip()
    assert path == str(cache_folder / "data" / "rg-65" / "EN-RG-65.txt")
    shutil.rmtree(mirror / "wordsim")  # from now on it is here
    assert shell("data", "get", "rg-65", "--json").out == json.dumps({"name": "rg-65", "path": path}) + "\n"
    listed = json.loads(shell("data", "check", "--json").out)
    assert {row["name"]: row["status"] for row in listed}["rg-65"] == "good"
    finished = shell("train", "word2vec", "data:rg-65", "--out", "run", "--set", "min_count=1", "--set", "epochs=1")
    assert finished.out.startswith("run: ")
    with open(path, "a") as file:
        file.write("one more\n")
    finished = shell("data", "check", "rg-65", code=8)
    assert "damaged" in finished.out
    assert finished.err == "wenmai: not good: rg-65\n"


def test_packed_sets_are_read_as_they_are(shell, tmp_path, topics):
    with gzip.open(tmp_path / "questions.txt.gz", "wt") as file:
        file.write(": one\ncolour1 colour2 number1 number2\n")
    shell("train", "word2vec", topics, "--out", "run", "--set", "epochs=1", "--quiet")
    found = json.loads(shell("evaluate", "run", "--analogy", "questions.txt.gz", "--json").out)
    assert found["analogy"][0]["total"] == 1
