"""Trainings that are killed, interrupted or run out of disk end as if nothing had happened."""

import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import wenmai
from wenmai.core.errors import RunError
from wenmai.runs.train import Callback

EPOCHS = 30
SETTINGS = {"vector_size": 200, "window": 3, "epochs": EPOCHS, "threads": 1, "checkpoint_seconds": 0.02}


def flags(**settings):
    return [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]


def model_sha256(path):
    return hashlib.sha256((path / "model" / "model.safetensors").read_bytes()).hexdigest()


def records(run):
    path = run / "metrics.jsonl"
    return path.read_text().count("\n") if path.exists() else 0


def progress(run):
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True) if records(run) else []
    return max((json.loads(line).get("progress", 0) for line in lines if line.endswith("\n")), default=0)


def checkpoints(run):
    return sorted((run / "checkpoints").glob("step-*"), key=lambda path: int(path.name.removeprefix("step-")))


def wait_for(process, condition):
    """Waits for a condition while a command runs."""
    for _ in range(30_000):
        if condition():
            return
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.001)
    pytest.fail("what the test waits for does not happen")


def kill(process):
    process.kill()
    process.communicate()


def assert_whole(run):
    """A finished run has all of its records once and in order, and nothing half-written."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    positions = [line["position"] for line in lines if line["kind"] == "step"]
    assert positions == sorted(set(positions))
    assert [line["epoch"] for line in lines if line["kind"] == "epoch"] == list(range(1, EPOCHS + 1))
    assert lines[-1]["position"] == positions[-1]
    assert lines[-2]["progress"] == 1
    seconds = [line["seconds"] for line in lines]
    assert seconds == sorted(seconds)
    assert not list(run.rglob(".*.tmp"))
    assert not (run / "checkpoints").exists()
    assert wenmai.Run(run).summary["words"] == EPOCHS * 30_000


class Listener(Callback):
    def __init__(self):
        self.notes, self.facts = [], []

    def note(self, message):
        self.notes.append(message)

    def begin(self, run, facts):
        self.facts.append(facts)


@pytest.fixture(scope="module")
def expected(topics, tmp_path_factory):
    """The summary and the model's checksum of a training that nothing disturbs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WENMAI_CACHE", str(tmp_path_factory.mktemp("cache")))
        settings = SETTINGS | {"checkpoint_seconds": 600}
        run = wenmai.train("word2vec", topics, out=tmp_path_factory.mktemp("expected") / "run", **settings)
    return run.summary, model_sha256(run.path)


@pytest.fixture(scope="module")
def killed_once(topics, tmp_path_factory):
    """A run and a cache as ``kill -9`` leaves them after a few checkpoints."""
    folder = tmp_path_factory.mktemp("killed")
    text = folder / "text.txt"
    shutil.copy(topics, text)
    command = [sys.executable, "-m", "wenmai", "train", "word2vec", str(text), "--out", str(folder / "run")]
    environment = {**os.environ, "WENMAI_CACHE": str(folder / "cache")}
    environment["PYTHONPATH"] = str(Path(wenmai.__file__).parents[1])
    process = subprocess.Popen(
        command + flags(**SETTINGS), env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    wait_for(process, lambda: progress(folder / "run") > 0.5 and len(checkpoints(folder / "run")) == 2)
    kill(process)
    return folder


@pytest.fixture
def killed(killed_once, tmp_path, monkeypatch):
    """A copy of it, to be spoilt further."""
    shutil.copytree(killed_once / "run", tmp_path / "run")
    recipe = tmp_path / "run" / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("checkpoint_seconds: 0.02", "checkpoint_seconds: 600"))
    wenmai.Run(tmp_path / "run").seal()
    shutil.copytree(killed_once / "cache", tmp_path / "cache")
    monkeypatch.setenv("WENMAI_CACHE", str(tmp_path / "cache"))
    return tmp_path / "run"


# --- real kills -------------------------------------------------------------------------------------------------


def test_the_result_of_a_training_killed_again_and_again_is_the_same_to_the_bit(topics, shell, tmp_path, expected):
    draw = random.Random(11)
    run = tmp_path / "run"
    process = shell.start("train", "word2vec", topics, "--out", run, *flags(**SETTINGS))
    for _ in range(3):
        aim = records(run) + draw.randrange(2, 15)
        wait_for(process, lambda aim=aim: records(run) >= aim)
        time.sleep(draw.uniform(0, 0.02))
        kill(process)
        assert wenmai.Run(run).finished is False
        process = shell.start("resume", run, "--json")
    finished = shell.end(process)
    assert finished.code == 0
    assert "resumed from a checkpoint" in finished.err
    assert model_sha256(run) == expected[1]
    summary = json.loads(finished.out)
    assert summary["loss"] == pytest.approx(expected[0]["loss"], rel=1e-12)
    assert summary["words"] == expected[0]["words"]
    assert_whole(run)


def test_deterministic_mode_survives_kills_with_two_threads(topics, shell, tmp_path):
    settings = SETTINGS | {"deterministic": "true", "threads": 2, "vector_size": 16, "epochs": 2}
    one = wenmai.train("word2vec", topics, out=tmp_path / "one", **settings | {"threads": 1, "checkpoint_seconds": 600})
    run = tmp_path / "run"
    process = shell.start("train", "word2vec", topics, "--out", run, *flags(**settings))
    wait_for(process, lambda: records(run) >= 3)
    kill(process)
    wenmai.resume(run)
    assert model_sha256(run) == model_sha256(one.path)


def test_a_kill_while_a_checkpoint_is_written_costs_only_that_checkpoint(topics, shell, tmp_path, expected):
    run = tmp_path / "run"
    process = shell.start("train", "word2vec", topics, "--out", run, *flags(**SETTINGS))
    wait_for(process, lambda: checkpoints(run) and list((run / "checkpoints").glob(".step-*.tmp/model.safetensors")))
    kill(process)
    (run / "checkpoints" / ".step-9999.left.tmp").mkdir()  # if the kill came just too late
    wenmai.resume(run)
    assert model_sha256(run) == expected[1]
    assert_whole(run)


def test_a_kill_before_the_first_checkpoint_starts_over(topics, shell, tmp_path, expected):
    run = tmp_path / "run"
    process = shell.start("train", "word2vec", topics, "--out", run, *flags(**SETTINGS | {"checkpoint_seconds": 600}))
    wait_for(process, lambda: records(run) > 5)
    kill(process)
    listener = Listener()
    wenmai.resume(run, callback=listener)
    assert listener.facts[0]["position"] == 0
    assert model_sha256(run) == expected[1]
    assert_whole(run)


# --- Ctrl-C -----------------------------------------------------------------------------------------------------


def start_interruptible(shell, *arguments):
    """Starts a command that hears Ctrl-C even if the tests run in the background, where it is ignored."""
    return shell.start(*arguments, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))


@pytest.mark.parametrize("deterministic", [False, True])
def test_an_interrupt_saves_and_says_how_to_go_on(deterministic, topics, shell, tmp_path):
    settings = SETTINGS | {"epochs": 2000, "checkpoint_seconds": 600, "deterministic": str(deterministic).lower()}
    run = tmp_path / "my run"
    process = start_interruptible(shell, "train", "word2vec", topics, "--out", run, *flags(**settings))
    wait_for(process, lambda: records(run) >= 2)
    with pytest.raises(RunError, match="another process is training this run now"):
        wenmai.resume(run)
    process.send_signal(signal.SIGINT)
    finished = shell.end(process)
    assert finished.code == 130
    assert finished.out == ""
    assert finished.err.splitlines()[-1] == f"wenmai: stopped; `wenmai resume '{run}'` continues it"
    saved = int(checkpoints(run)[-1].name.removeprefix("step-"))
    assert saved == wenmai.Run(run).records[-1]["position"]


def test_a_termination_while_the_text_is_read_says_how_to_go_on(topics, shell, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text(topics.read_text() * 400)
    run = tmp_path / "run"
    process = shell.start("train", "word2vec", text, "--out", run, *flags(**SETTINGS))
    wait_for(process, lambda: (run / "recipe.yaml").exists())
    process.send_signal(signal.SIGTERM)
    finished = shell.end(process)
    assert finished.code == 130
    assert finished.err.splitlines()[-1] == f"wenmai: stopped; `wenmai resume {run}` continues it"


def test_a_termination_while_standard_input_is_read_leaves_nothing(shell, tmp_path):
    run = tmp_path / "run"
    process = shell.start("train", "word2vec", "-", "--out", run)
    process.stdin.write("the beginning of a text, which is looked at before a folder is made\n")
    process.stdin.flush()
    wait_for(process, lambda: (run / "recipe.yaml").exists())
    process.send_signal(signal.SIGTERM)
    finished = shell.end(process)
    assert finished.code == 130
    assert finished.err.splitlines()[-1] == "wenmai: stopped"
    assert not run.exists()


def test_an_interrupted_training_goes_on_to_the_same_result(topics, shell, tmp_path, expected):
    run = tmp_path / "run"
    settings = SETTINGS | {"checkpoint_seconds": 600}

    class Impatient(Callback):
        def record(self, record):
            if record.position > 300:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as raised:
        wenmai.train("word2vec", topics, out=run, callback=Impatient(), **settings)
    assert raised.value.__notes__ == [f"`wenmai resume {run}` continues it"]
    wenmai.resume(run)
    assert model_sha256(run) == expected[1]
    assert_whole(run)


def test_an_interrupt_while_the_text_is_read_can_be_resumed(topics, tmp_path, expected):
    class Impatient(Callback):
        def encoding_corpus(self, done_bytes, total_bytes):
            raise KeyboardInterrupt

    run = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        wenmai.train("word2vec", topics, out=run, callback=Impatient(), **SETTINGS)
    with pytest.raises(RunError, match="has not finished"):
        _ = wenmai.Run(run).vectors
    wenmai.resume(run)
    assert model_sha256(run) == expected[1]
    assert_whole(run)


def test_an_interrupt_while_text_from_memory_is_read_leaves_nothing(tmp_path):
    def texts():
        yield "a b c"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        wenmai.train("word2vec", texts(), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


# --- damage -----------------------------------------------------------------------------------------------------


def flip_a_byte(checkpoint):
    path = checkpoint / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncate(checkpoint):
    path = checkpoint / "model.safetensors"
    os.truncate(path, path.stat().st_size // 2)


def lose_the_manifest(checkpoint):
    (checkpoint / "manifest.json").unlink()


@pytest.mark.parametrize("damage", [flip_a_byte, truncate, lose_the_manifest])
def test_a_damaged_checkpoint_is_passed_over(damage, killed, expected):
    damage(checkpoints(killed)[-1])
    listener = Listener()
    wenmai.resume(killed, callback=listener)
    assert "passed over a damaged checkpoint" in listener.notes[0]
    assert checkpoints(killed) == []
    assert listener.facts[0]["position"] > 0
    assert model_sha256(killed) == expected[1]
    assert_whole(killed)


def test_the_shell_tells_of_damaged_checkpoints(killed, shell, expected):
    for checkpoint in checkpoints(killed):
        flip_a_byte(checkpoint)
    finished = shell("verify", killed, code=6)
    assert finished.out.splitlines()[-1] == "not finished: resume would start over"
    finished = shell("resume", killed, "--quiet")
    assert finished.err.count("note: passed over a damaged checkpoint") == 2
    assert finished.err.endswith("note: no whole checkpoint is left: the training begins anew\n")
    assert model_sha256(killed) == expected[1]
    assert_whole(killed)


def test_cut_and_foreign_records_do_no_harm(killed, expected):
    with open(killed / "metrics.jsonl", "a") as file:
        file.write('{"kind": "step", "posi')
    wenmai.resume(killed)
    assert model_sha256(killed) == expected[1]
    assert_whole(killed)


# --- where the text went ----------------------------------------------------------------------------------------


def test_text_that_left_the_cache_is_read_again(killed, expected):
    shutil.rmtree(killed.parent / "cache")
    wenmai.resume(killed)
    assert model_sha256(killed) == expected[1]


def test_a_damaged_cache_is_made_again(killed, expected):
    tokens = next((killed.parent / "cache").rglob("tokens.bin"))
    content = bytearray(tokens.read_bytes())
    content[100] ^= 1
    tokens.write_bytes(content)
    wenmai.resume(killed)
    assert model_sha256(killed) == expected[1]


def test_text_that_has_changed_is_an_error(killed, killed_once):
    shutil.rmtree(killed.parent / "cache")
    text = killed.parent / "text.txt"
    shutil.copy(killed_once / "text.txt", text)
    recipe = killed / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace(str(killed_once / "text.txt"), str(text)))
    wenmai.Run(killed).seal()
    with open(text, "a") as file:
        file.write("one more line\n")
    with pytest.raises(RunError, match=r"its corpus .*text\.txt has changed since the training began; train again"):
        wenmai.resume(killed)
    text.unlink()
    with pytest.raises(RunError, match=r"its corpus cannot be read any more: .*text\.txt: no such file"):
        wenmai.resume(killed)
    assert not wenmai.Run(killed).finished


def test_text_from_standard_input_is_resumed_from_the_cache_only(topics, shell, tmp_path, cache_folder, expected):
    process = shell.start("train", "word2vec", "-", "--out", "run", *flags(**SETTINGS))
    process.stdin.write(topics.read_text())
    process.stdin.close()
    process.stdin = None
    wait_for(process, lambda: records(tmp_path / "run") > 5)
    kill(process)
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    wenmai.resume(tmp_path / "run")
    assert model_sha256(tmp_path / "run") == expected[1]
    shutil.rmtree(cache_folder)
    with pytest.raises(RunError, match="its corpus came from memory or standard input, and its encoded copy in"):
        wenmai.resume(tmp_path / "copy")


def test_a_run_killed_while_its_text_was_read_starts_over(killed, expected):
    shutil.rmtree(killed / "checkpoints")
    (killed / "metrics.jsonl").unlink()
    (killed / "corpus.json").unlink()
    wenmai.Run(killed).seal()
    wenmai.resume(killed)
    assert model_sha256(killed) == expected[1]
    assert wenmai.Run(killed).corpus["stats"]["tokens"] == 30_000


# --- ends -------------------------------------------------------------------------------------------------------


def test_a_kill_before_the_summary_is_written_does_not_finish_the_run(killed, expected):
    """The model folder appears last, so a run with one has all the rest."""
    (killed / ".model.left.tmp").mkdir()
    (killed / "summary.json").write_text("{}")
    wenmai.resume(killed)
    assert wenmai.Run(killed).summary["loss"] == pytest.approx(expected[0]["loss"], rel=1e-12)
    assert_whole(killed)


def test_resuming_a_finished_run_changes_nothing_and_clears_up(killed, shell, expected):
    wenmai.resume(killed)
    before = {path: path.stat().st_mtime_ns for path in killed.rglob("*")}
    (killed / "checkpoints" / "step-1").mkdir(parents=True)  # killed while they were removed
    finished = shell("resume", killed, "--json")
    assert json.loads(finished.out) == wenmai.Run(killed).summary
    assert "finished already" in finished.err
    assert {path: path.stat().st_mtime_ns for path in killed.rglob("*")} == before
    assert model_sha256(killed) == expected[1]


def test_a_full_disk_is_explained_and_resumed_from(topics, shell, tmp_path, expected):
    """No file may grow beyond 120 KB, which the model does."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (125_000, 125_000))

    run = tmp_path / "run"
    arguments = ["train", "word2vec", topics, "--out", run, *flags(**SETTINGS)]
    finished = shell.process(*arguments, code=6, preexec_fn=limit)
    assert finished.err.splitlines()[-1] == (
        f"wenmai: {run}: cannot be written (File too large); when that is solved, `wenmai resume {run}` continues it"
    )
    assert checkpoints(run) == []
    assert not list(run.rglob(".*.tmp"))
    wenmai.resume(run)
    assert model_sha256(run) == expected[1]
    assert_whole(run)


def test_a_full_cache_disk_is_explained_and_leaves_nothing(topics, shell, tmp_path, cache_folder):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))

    finished = shell.process("train", "word2vec", topics, "--out", "run", code=6, preexec_fn=limit)
    assert "the encoded corpus cannot be written (File too large); set WENMAI_CACHE" in finished.err
    assert not (tmp_path / "run").exists()
    assert [path for path in cache_folder.rglob("*") if path.is_file()] == []


LONG = "x" * 300  # more letters than a name can have


@pytest.mark.parametrize("what", ["nowhere", "a file", "not a run", LONG])
def test_what_is_no_run_cannot_be_resumed(what, tmp_path):
    (tmp_path / "a file").write_text("")
    (tmp_path / "not a run").mkdir()
    messages = {"nowhere": "no such run folder", "a file": "is a file, not", "not a run": "has no recipe.yaml"}
    message = (messages | {LONG: r"cannot be read \(File name too long\)"})[what]
    with pytest.raises(RunError, match=message):
        wenmai.resume(tmp_path / what)
