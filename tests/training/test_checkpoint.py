"""Checkpoints that survive whatever happens to their files."""

import json
import resource
import signal
from pathlib import Path

import pytest
import torch

from wenmai.core.errors import RunError
from wenmai.training.checkpoint import Checkpoints, require_good
from wenmai.training.tensors import save_model


def save(checkpoints: Checkpoints, step: int) -> Path:
    def write(folder: Path) -> None:
        (folder / "weights.bin").write_bytes(bytes([step]) * 100)

    return checkpoints.save(step, {"position": step}, write)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_newest_of_several_is_found(tmp_path):
    checkpoints = Checkpoints(tmp_path / "run" / "checkpoints", keep=20)
    assert checkpoints.newest_good() == (None, {}, [])
    for step in (9, 10, 11):  # as numbers, not as text
        path = save(checkpoints, step)
        assert checkpoints.newest_good() == (path, {"position": step}, [])
    assert path.joinpath("weights.bin").read_bytes() == bytes([11]) * 100
    require_good(path)


def test_two_stay(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    for step in (2, 10, 100):
        save(checkpoints, step)
    assert names(tmp_path) == ["step-10", "step-100"]
    checkpoints.clear()
    assert not tmp_path.exists()


def truncate(path: Path) -> None:
    file = path / "weights.bin"
    file.write_bytes(file.read_bytes()[:-1])


def flip(path: Path) -> None:
    file = path / "weights.bin"
    content = bytearray(file.read_bytes())
    content[50] ^= 1
    file.write_bytes(content)


def remove(path: Path) -> None:
    (path / "weights.bin").unlink()


def remove_manifest(path: Path) -> None:
    (path / "manifest.json").unlink()


def spoil_state(path: Path) -> None:
    (path / "state.json").write_text('{"position": 7777}')


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (truncate, "weights.bin has 99 bytes, expected 100"),
        (flip, "weights.bin has changed: its SHA-256"),
        (remove, "weights.bin is missing"),
        (remove_manifest, "manifest.json is missing: the folder was never finished"),
        (spoil_state, "state.json has"),
    ],
)
def test_a_damaged_checkpoint_is_passed_over_and_named(tmp_path, damage, message):
    checkpoints = Checkpoints(tmp_path)
    good, bad = save(checkpoints, 5), save(checkpoints, 6)
    damage(bad)
    path, state, problems = checkpoints.newest_good()
    assert (path, state) == (good, {"position": 5})
    assert len(problems) == 1
    assert str(bad) in problems[0]
    assert message in problems[0]
    with pytest.raises(RunError, match=r"step-6 is damaged: .*step-6"):
        require_good(bad)


def test_half_written_folders_and_foreign_files_are_no_checkpoints(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    good = save(checkpoints, 5)
    half = tmp_path / ".step-6.x1y2.tmp"  # what a kill leaves behind
    half.mkdir()
    (half / "weights.bin").write_bytes(b"half")
    (tmp_path / "step-seven").mkdir()
    (tmp_path / "8").mkdir()
    (tmp_path / "step-9").write_text("a file")
    assert checkpoints.newest_good() == (good, {"position": 5}, [])


def test_an_error_while_saving_leaves_the_earlier_ones(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    save(checkpoints, 5)

    def fail(folder: Path) -> None:
        (folder / "weights.bin").write_bytes(b"half")
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        checkpoints.save(6, {}, fail)
    assert names(tmp_path) == ["step-5"]


@pytest.mark.parametrize("damaged", [1, 2])
def test_new_checkpoints_take_the_place_of_damaged_ones_that_are_further_on(tmp_path, damaged):
    """After damage a training resumes further back, and must not lose what it saves from there on."""
    checkpoints = Checkpoints(tmp_path)
    for path in [save(checkpoints, 10), save(checkpoints, 20)][-damaged:]:
        flip(path)
    resumed = checkpoints.newest_good()[1].get("position", 0)
    assert resumed == (0 if damaged == 2 else 10)
    for step in (resumed + 2, resumed + 4):
        path = save(checkpoints, step)
        assert checkpoints.newest_good() == (path, {"position": step}, [])


def test_a_place_can_be_saved_again(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    flip(save(checkpoints, 5))
    path = save(checkpoints, 5)
    assert checkpoints.newest_good() == (path, {"position": 5}, [])


def test_state_is_plain_json(tmp_path):
    path = Checkpoints(tmp_path).save(3, {"position": 3, "loss": None, "note": "文脉"}, lambda folder: None)
    assert json.loads((path / "state.json").read_text(encoding="utf-8")) == {
        "position": 3,
        "loss": None,
        "note": "文脉",
    }


@pytest.mark.parametrize("limit", [10, 5000])
def test_a_full_disk_is_an_error_of_the_system(limit, tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            save_model(torch.nn.Linear(100, 100), tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
