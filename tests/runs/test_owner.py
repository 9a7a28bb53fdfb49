"""Whose a run folder is: one training at a time, and nothing outside it is ever changed, whatever its files say."""

import errno
import json
import os
import subprocess
import sys

import pytest

import wenmai
from wenmai.core.errors import RunError
from wenmai.runs.owner import claimed, require_room
from wenmai.runs.train import train_recipe
from wenmai.training.run import Run, verify

SMALL = {"vector_size": 8, "epochs": 1, "threads": 1, "min_count": 1}
SYSTEMS = ["word2vec", "fasttext-supervised", "glove", "ngram", "gpt", "transformer"]

RACE = """
import os, sys
from pathlib import Path
import wenmai
from wenmai.core.errors import WenmaiError
from wenmai.runs.train import train

folder, text, starts, bad = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "bad"
go = os.pipe()
children = []
for number in range(starts):
    if not (child := os.fork()):
        os.close(go[1])
        os.read(go[0], 1)  # all begin when the parent closes its end
        wrong = {"vector_sise": 3} if bad and number % 2 else {}
        corpus = "/nowhere/at/all" if bad and number % 4 == 0 else text
        try:
            train("word2vec", corpus, out=folder, vector_size=8, epochs=1, threads=1, min_count=1, **wrong)
        except WenmaiError as error:
            os._exit(3 if "exists already" in str(error) else 4)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(5)
        os._exit(0)
    children.append(child)
os.close(go[0])
os.close(go[1])
print(*(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
"""


def race(folder, text, starts, *, bad=False):
    """Starts many trainings of one folder at once and returns their exit codes."""
    command = [sys.executable, "-c", RACE, str(folder), str(text), str(starts), "bad" if bad else "good"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    codes = [int(code) for code in done.stdout.split()]
    assert 5 not in codes, done.stderr
    return codes


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("a b c d e\n" * 50, encoding="utf-8")
    return path


@pytest.fixture
def interrupted(text, tmp_path):
    """A run that was killed before its first checkpoint, as a function of its system and settings."""

    def make(system="word2vec", **settings):
        run = wenmai.train(system, text, out=tmp_path / "interrupted", **(SMALL | settings))
        (run.path / "model").rename(tmp_path / "model")
        return run.path

    return make


# --- one owner --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("starts", "there"), [(20, False), (10, True)])
def test_of_many_starts_with_one_folder_one_trains_and_no_other_touches_it(text, tmp_path, starts, there):
    folder = tmp_path / "run"
    if there:
        folder.mkdir()
    codes = race(folder, text, starts)
    assert sorted(codes) == [0] + [3] * (starts - 1)
    assert verify(folder)[1] == []
    assert wenmai.load(folder).vectors.shape[1] == 8


def test_a_start_that_fails_never_removes_the_run_of_another(text, tmp_path):
    codes = race(tmp_path / "run", text, 12, bad=True)
    assert codes.count(0) == 1
    assert verify(tmp_path / "run")[1] == []


def test_a_mistake_leaves_nothing_behind(text, tmp_path):
    text.write_text("", encoding="utf-8")
    with pytest.raises(wenmai.WenmaiError):
        wenmai.train("word2vec", text, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    (tmp_path / "run").mkdir()
    with pytest.raises(wenmai.WenmaiError):
        wenmai.train("word2vec", text, out=tmp_path / "run")
    assert list((tmp_path / "run").iterdir()) == []


def test_an_interrupt_before_there_is_a_recipe_leaves_nothing_behind(text, tmp_path, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("wenmai.config.recipe.Recipe.write", stopped)
    with pytest.raises(KeyboardInterrupt) as interrupt:
        wenmai.train("word2vec", text, out=tmp_path / "run", quiet=True, **SMALL)
    assert not getattr(interrupt.value, "__notes__", [])
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "left", [(), ("environment.json",), ("environment.json", ".recipe.yaml.x.tmp", ".model.x.tmp/")]
)
def test_a_beginning_that_was_killed_is_taken_over(left, text, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    for name in (".lock", *left):
        (folder / name).mkdir() if name.endswith("/") else (folder / name).touch()
    require_room(folder)
    assert sorted(race(folder, text, 8)) == [0] + [3] * 7
    assert verify(folder)[1] == []
    assert not list(folder.glob(".*.tmp"))


@pytest.mark.parametrize("names", [("environment.json",), (".lock", "notes.txt"), (".lock", "model"), (".x.tmp",)])
def test_what_may_be_of_somebody_is_not_taken_over(names, text, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    for name in names:
        (folder / name).touch()
    for attempt in (require_room, lambda out: wenmai.train("word2vec", text, out=out, **SMALL)):
        with pytest.raises(RunError, match="exists already"):
            attempt(folder)
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)


def test_a_folder_that_cannot_be_made_is_noticed_before_any_work(text):
    with pytest.raises(RunError, match=f"{text} is a file; choose another --out"):
        require_room(text / "run")


def test_a_beginning_that_another_process_holds_is_not_taken_over(text, tmp_path):
    with claimed(tmp_path / "run"), pytest.raises(RunError, match="exists already"):
        wenmai.train("word2vec", text, out=tmp_path / "run", **SMALL)


# --- a stranger's folder ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("relative", [False, True])
def test_no_fingerprint_names_a_folder_outside_the_cache(system, relative, tmp_path, monkeypatch):
    monkeypatch.setenv("WENMAI_CACHE", str(tmp_path / "cache"))
    victim, run = tmp_path / "victim", tmp_path / "run"
    victim.mkdir()
    (victim / "precious").touch()
    run.mkdir()
    (run / "recipe.yaml").write_text(f'version: 1\nsystem: {system}\ncorpus: ["/nope"]\n')
    name = "../../victim" if relative else str(victim)
    (run / "corpus.json").write_text(json.dumps({"fingerprint": name, "continues": {}}))
    with pytest.raises(RunError, match=r"corpus\.json: is damaged .*64 hexadecimal digits"):
        wenmai.resume(run)
    assert (victim / "precious").exists()


@pytest.mark.parametrize(
    "name", ["checkpoints", "model", "tensorboard", "metrics.jsonl", "recipe.yaml", "corpus.json", ".lock"]
)
def test_no_part_of_a_run_is_a_link_to_something_else(name, interrupted, tmp_path):
    run = interrupted()
    outside = tmp_path / "outside"
    if name in ("checkpoints", "model", "tensorboard"):
        (outside / "step-7").mkdir(parents=True)
        (outside / "step-7" / "precious").touch()
    else:
        outside.write_text("precious")
    before = sorted(outside.rglob("*")), outside.is_file() and outside.read_text()
    (run / name).unlink(missing_ok=True) if (run / name).is_file() else None
    (run / name).symlink_to(outside)
    with pytest.raises(RunError, match=f"{name}: must be a .* of the run itself"):
        wenmai.resume(run)
    assert (sorted(outside.rglob("*")), outside.is_file() and outside.read_text()) == before


def test_a_run_of_another_user_is_copied_to_be_resumed(interrupted, monkeypatch):
    def refuse(path, mode):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    run = interrupted()
    with monkeypatch.context() as patch:
        patch.setattr("wenmai.runs.owner.open", refuse, raising=False)  # as root could write all the same
        with pytest.raises(
            RunError, match=f"{run}: cannot be written .Permission denied.; copy the run to a folder of"
        ):
            wenmai.resume(run)
    assert wenmai.resume(run).finished


def test_a_checkpoint_that_is_a_link_is_none(interrupted, tmp_path):
    run = interrupted()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").touch()
    (run / "checkpoints").mkdir(exist_ok=True)
    (run / "checkpoints" / "step-999999").symlink_to(outside)
    assert wenmai.resume(run).finished
    assert (outside / "precious").exists()


@pytest.mark.parametrize("what", ["link", "pipe"])
@pytest.mark.parametrize("name", ["config.json", "vocab.json"])
def test_a_model_with_a_link_or_a_pipe_is_refused_at_once(what, name, interrupted, tmp_path):
    run = interrupted()
    (tmp_path / "model").rename(run / "model")
    assert wenmai.load(run).vector_size == 8
    (run / "model" / name).unlink()
    if what == "pipe":
        os.mkfifo(run / "model" / name)
    else:
        (run / "model" / name).symlink_to("/dev/zero")
    with pytest.raises(RunError, match=f"{name}: must be a file of the run itself"):
        wenmai.load(run)


@pytest.mark.parametrize("name", ["recipe.yaml", ".lock"])
def test_a_part_of_a_run_that_is_a_pipe_is_refused_instead_of_waited_for(name, interrupted):
    run = interrupted()
    (run / name).unlink()
    os.mkfifo(run / name)
    for verb in (Run, wenmai.resume, verify):
        with pytest.raises(RunError, match=name):
            verb(run)


# --- what a training that is resumed trusts ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("recipe.yaml", "truncated"),
        ("recipe.yaml", "flipped"),
        ("corpus.json", "truncated"),
        ("corpus.json", "flipped"),
        ("corpus.json", "gone"),
    ],
)
def test_a_changed_recipe_or_corpus_is_found_by_resume_and_verify(name, damage, interrupted):
    run = interrupted()
    content = (run / name).read_bytes()
    if damage == "truncated":
        (run / name).write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        (run / name).write_bytes(content.replace(b"1", b"3"))
    else:
        (run / name).unlink()
    assert any(name in problem for problem in verify(run)[1])
    with pytest.raises(RunError, match=f"{name}.*is resumed only as it began"):
        wenmai.resume(run)


@pytest.mark.parametrize("cut", range(1, 20))
def test_no_truncated_recipe_resumes_as_another_model(cut, interrupted):
    run = interrupted()
    content = (run / "recipe.yaml").read_bytes()
    (run / "recipe.yaml").write_bytes(content[: -cut * len(content) // 20])
    with pytest.raises(wenmai.WenmaiError):
        wenmai.resume(run)


def test_an_edited_recipe_trains_anew(interrupted, tmp_path):
    run = interrupted()
    recipe = (run / "recipe.yaml").read_text(encoding="utf-8")
    (run / "recipe.yaml").write_text(recipe.replace("vector_size: 8", "vector_size: 12"), encoding="utf-8")
    assert train_recipe(run / "recipe.yaml", out=tmp_path / "new").vectors.vector_size == 12


def test_a_run_of_an_earlier_version_has_no_checksums_and_resumes(interrupted):
    run = interrupted()
    (run / "manifest.json").unlink()
    assert wenmai.resume(run).finished


def test_names_in_a_manifest_stay_in_the_folder(interrupted, tmp_path):
    run = interrupted()
    manifest = json.loads((run / "manifest.json").read_bytes())
    manifest["files"]["../model/config.json"] = {"bytes": 1, "sha256": "0" * 64}
    (run / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(RunError, match="is not the name of a file"):
        wenmai.resume(run)
