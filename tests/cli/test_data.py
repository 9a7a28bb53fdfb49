"""``wenmai data`` against a mirror folder."""

import gzip
import json
import shutil

import pytest

from wenmai.cli.main import main


@pytest.fixture
def data(capsys):
    """Runs ``wenmai data ...``; returns exit code, output and messages."""

    def call(*arguments):
        code = main(["data", *arguments])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return call


def test_the_list_says_what_there_is_and_what_is_here(data):
    code, out, _ = data("list", "--json")
    assert code == 0
    rows = {row["name"]: row for row in json.loads(out)}
    assert rows["text8"]["licence"]
    assert rows["text8"]["here"] is None
    assert rows["builtin:pydocs-analogies"]["here"].endswith(".txt")
    code, out, _ = data("list")
    assert len(out.splitlines()) == len(rows)
    assert any(line.split()[:3] == ["builtin:pydocs-analogies", "analogy", "here"] for line in out.splitlines())


def test_a_wrong_file_in_a_mirror_is_refused(data, tmp_path, monkeypatch, cache_folder):
    (tmp_path / "mirror" / "wordsim").mkdir(parents=True)
    (tmp_path / "mirror" / "wordsim" / "EN-RG-65.txt").write_text("cord\tsmile\t0.02\n" * 50)
    monkeypatch.setenv("WENMAI_DATA_MIRROR", str(tmp_path / "mirror"))
    code, out, err = data("get", "rg-65")
    assert (code, out) == (8, "")
    assert err.startswith("wenmai: ")
    assert "EN-RG-65.txt" in err
    assert "unset WENMAI_DATA_MIRROR to fetch it from its public address" in err
    assert data("check")[0] == 0  # nothing of it is kept
    assert not [path for path in cache_folder.rglob("*") if path.is_file() and not path.name.endswith(".lock")]


def test_a_mirror_without_the_file_says_what_to_do(data, tmp_path, monkeypatch):
    monkeypatch.setenv("WENMAI_DATA_MIRROR", str(tmp_path))
    code, _, err = data("get", "en8")
    assert code == 8
    assert "bring en8.txt.xz yourself" in err


@pytest.mark.shared_data
def test_get_check_and_use(data, shared_data, monkeypatch, cache_folder, shell, tmp_path):
    mirror = tmp_path / "mirror"
    (mirror / "wordsim").mkdir(parents=True)
    for name in ("EN-RG-65.txt", "questions-words.txt.gz"):
        shutil.copy(shared_data / "wordsim" / name, mirror / "wordsim" / name)
    monkeypatch.setenv("WENMAI_DATA_MIRROR", mirror.as_uri())
    code, out, err = data("get", "rg-65")
    assert (code, err) == (0, "")
    assert out.strip() == str(cache_folder / "data" / "rg-65" / "EN-RG-65.txt")
    shutil.rmtree(mirror / "wordsim")  # from now on it is here
    assert data("get", "rg-65", "--json")[1] == json.dumps({"name": "rg-65", "path": out.strip()}) + "\n"
    code, listed, _ = data("check", "--json")
    assert {row["name"]: row["status"] for row in json.loads(listed)}["rg-65"] == "good"
    finished = shell("train", "word2vec", "data:rg-65", "--out", "run", "--set", "min_count=1", "--set", "epochs=1")
    assert finished.out.startswith("run: ")
    with open(out.strip(), "a") as file:
        file.write("one more\n")
    code, out, err = data("check", "rg-65")
    assert code == 8
    assert "damaged" in out
    assert err == "wenmai: not good: rg-65\n"


def test_packed_sets_are_read_as_they_are(tmp_path, capsys, topics):
    with gzip.open(tmp_path / "questions.txt.gz", "wt") as file:
        file.write(": one\ncolour1 colour2 number1 number2\n")
    code = main(["train", "word2vec", str(topics), "--out", str(tmp_path / "run"), "--set", "epochs=1", "--quiet"])
    assert code == 0
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path / "run"), "--analogy", str(tmp_path / "questions.txt.gz"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["analogy"][0]["total"] == 1
