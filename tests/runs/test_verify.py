"""Every byte of a run is checked, whichever is changed."""

import json
import random
import re
import shutil
from contextlib import suppress

import pytest

import wenmai
from wenmai.core.errors import FormatError, WenmaiError
from wenmai.training import run as run_module
from wenmai.training.run import verify


@pytest.fixture(scope="module")
def run(topics, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WENMAI_CACHE", str(tmp_path_factory.mktemp("cache")))
        settings = {"vector_size": 16, "epochs": 1, "threads": 1}
        return wenmai.train("word2vec", topics, out=tmp_path_factory.mktemp("run") / "run", **settings)


@pytest.fixture
def copy(run, tmp_path):
    return shutil.copytree(run.path, tmp_path / "run")


def test_a_whole_run_is_good(run):
    assert verify(run.path) == (["recipe: word2vec", "model: good"], [])


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocab.json", "manifest.json"])
def test_a_flipped_bit_is_found_and_never_crashes_a_reader(name, copy):
    draw = random.Random(name)
    whole = (copy / "model" / name).read_bytes()
    for _ in range(20):
        spoilt = bytearray(whole)
        spoilt[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
        (copy / "model" / name).write_bytes(spoilt)
        _, problems = verify(copy)
        if name != "manifest.json":  # of which spaces and the version could change without harm
            assert len(problems) == 1
            assert name in problems[0]
        with suppress(WenmaiError):  # nothing else is ever raised
            wenmai.load(copy)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocab.json", "manifest.json"])
@pytest.mark.parametrize("share", [0, 0.5, 0.99])
def test_a_truncated_file_is_found(name, share, copy):
    path = copy / "model" / name
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    _, problems = verify(copy)
    assert len(problems) == 1
    assert name in problems[0]


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocab.json", "manifest.json"])
def test_a_model_that_has_changed_is_not_loaded(name, copy):
    path = copy / "model" / name
    content = bytearray(path.read_bytes())
    digit = {"config.json": rb'"window": \d', "vocab.json": rb"\d", "manifest.json": rb'sha256": "(\w)'}.get(
        name, rb"\w"
    )
    last = [*re.finditer(digit, content)][-1].end() - 1
    content[last] ^= 1
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"SHA-256 is not the one in the manifest|is not JSON"):
        wenmai.load(copy)
    with pytest.raises(FormatError, match=r"SHA-256 is not the one in the manifest|is not JSON"):
        wenmai.Run(copy).read_base()


def test_a_large_model_is_only_compared_by_verify(copy, monkeypatch):
    monkeypatch.setattr(run_module, "_CHECKED_BYTES", 1000)
    path = copy / "model" / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    wenmai.load(copy)
    assert len(verify(copy)[1]) == 1


def test_a_checkpoint_that_is_removed_meanwhile_is_no_problem(copy, monkeypatch):
    checkpoint = copy / "checkpoints" / "step-1"
    checkpoint.mkdir(parents=True)
    check = run_module.check_sealed

    def remove_and_check(folder):
        if folder == checkpoint:
            checkpoint.rmdir()
        return check(folder) if folder.exists() else ["it is gone"]

    monkeypatch.setattr(run_module, "check_sealed", remove_and_check)
    assert verify(copy) == (["recipe: word2vec", "model: good"], [])


def test_files_that_are_missing_or_too_many_are_found(copy):
    (copy / "model" / "vocab.json").unlink()
    (copy / "model" / "extra").write_text("")
    _, problems = verify(copy)
    assert [problem.rpartition("/")[2] for problem in problems] == [
        "vocab.json is missing",
        "extra is not in the manifest",
    ]


def test_damage_outside_the_model_is_found(copy):
    (copy / "summary.json").write_text('{"loss": ')
    (copy / "recipe.yaml").write_text("version: 1\nsystem: word2vec\nmodel: {vector_sise: 16}\n")
    _, problems = verify(copy)
    assert len(problems) == 3
    assert "did you mean 'model.vector_size'" in problems[0]
    assert "recipe.yaml has" in problems[1]
    assert "summary.json: is damaged" in problems[2]


def test_the_shell_lists_problems_and_exits_with_6(copy, shell):
    assert shell("verify", copy).out.splitlines() == ["recipe: word2vec", "model: good"]
    path = copy / "model" / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    finished = shell("verify", copy, "--json", code=6)
    problems = json.loads(finished.out)["problems"]
    assert len(problems) == 1
    assert "its SHA-256 is not the one in the manifest" in problems[0]
    assert problems[0] in finished.err
