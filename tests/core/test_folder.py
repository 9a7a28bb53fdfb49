"""Files and folders that are either whole or absent."""

import errno
import json
import os
import stat
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wenmai.core.errors import FormatError, RunError
from wenmai.core.folder import (
    cache_folder,
    check_sealed,
    file_sha256,
    plain_file,
    read_json_object,
    sealed_folder,
    writing,
    writing_json,
)


def content_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# --- files --------------------------------------------------------------------------------------------------------


def test_a_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "new" / "folder" / "file.bin"
    with writing(path) as file:
        file.write(b"first")
        assert not path.exists()
    assert path.read_bytes() == b"first"
    with writing(path) as file:
        file.write(b"second")
        assert path.read_bytes() == b"first"
    assert content_of(tmp_path) == {"new/folder/file.bin": b"second"}


def test_only_files_and_links_to_files_are_read(tmp_path):
    (tmp_path / "file").write_bytes(b"{}")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("file", "link"):
        assert read_json_object(plain_file(tmp_path / name)) == {}
    for name in ("pipe", "endless", "loop", "nothing", "."):
        with pytest.raises(FormatError, match="cannot be read"):
            read_json_object(tmp_path / name)


def test_a_pipe_or_a_device_is_not_replaced_by_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "folder").mkdir()
    for name, message in (("pipe", "Not a file"), ("link", "Not a file"), ("folder", "Is a directory")):
        with pytest.raises(OSError, match=message), writing(tmp_path / name):
            pytest.fail("the block ran")
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "link").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "link", "pipe"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_the_file_that_was_there(tmp_path, error):
    path = tmp_path / "file.bin"
    path.write_bytes(b"first")

    def fail(target: Path) -> None:
        with writing(target) as file:
            file.write(b"half")
            raise error

    for target in (path, tmp_path / "other.bin"):
        with pytest.raises(error):
            fail(target)
    assert content_of(tmp_path) == {"file.bin": b"first"}


def test_what_cannot_be_written_is_named_as_it_was_asked_for(tmp_path, monkeypatch):
    def refuse(*, prefix, suffix, dir):
        raise PermissionError(errno.EACCES, "Permission denied", f"{dir}/{prefix}x{suffix}")

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    with pytest.raises(PermissionError) as found, writing(tmp_path / "a.txt"):
        pass
    assert found.value.filename == str(tmp_path / "a.txt")


def test_a_file_has_ordinary_permissions(tmp_path):
    before = os.umask(0o027)
    try:
        with writing(tmp_path / "file"):
            pass
        with sealed_folder(tmp_path / "folder"):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o750


def test_json_is_whole_or_absent(tmp_path):
    path = tmp_path / "value.json"
    writing_json(path, {"name": "文脉", "none": None})
    assert path.read_text(encoding="utf-8") == '{\n  "name": "文脉",\n  "none": null\n}\n'
    with pytest.raises(TypeError):
        writing_json(path, {"name": object()})
    assert list(content_of(tmp_path)) == ["value.json"]
    assert "文脉" in path.read_text(encoding="utf-8")


def test_json_holds_the_name_of_any_file(tmp_path):
    name = os.fsdecode(b"\xd6\xd0.txt")  # GB 18030, on a system of UTF-8
    writing_json(tmp_path / "value.json", [name, "\U0001f600", "\x7f"])
    assert json.loads((tmp_path / "value.json").read_bytes()) == [name, "\U0001f600", "\x7f"]


def test_sha256(tmp_path):
    (tmp_path / "abc").write_bytes(b"abc")
    assert file_sha256(tmp_path / "abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_the_cache_can_be_moved(monkeypatch, tmp_path):
    monkeypatch.setenv("WENMAI_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.setenv("WENMAI_CACHE", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == tmp_path / ".cache" / "wenmai"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert cache_folder() == tmp_path / "caches" / "wenmai"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # which the specification says to ignore
    assert cache_folder() == tmp_path / ".cache" / "wenmai"
    monkeypatch.setenv("WENMAI_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path


# --- sealed folders -----------------------------------------------------------------------------------------------


def seal(path: Path, files: dict[str, bytes]) -> Path:
    with sealed_folder(path) as folder:
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        assert folder.parent == path.parent
    return path


NAMES = st.sampled_from(["a", "b.bin", "deep/c", "deep/er/d", "文", "manifest.txt"])


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(NAMES, st.binary(max_size=50)), st.dictionaries(NAMES, st.binary(max_size=50)))
def test_a_sealed_folder_holds_what_was_written_and_replaces_the_old_one(tmp_path_factory, first, second):
    folder = tmp_path_factory.mktemp("parent") / "sealed"
    for files in (first, second):
        seal(folder, files)
        assert check_sealed(folder) == []
        found = content_of(folder)
        del found["manifest.json"]
        assert found == files
    assert os.listdir(folder.parent) == ["sealed"]


def test_what_has_come_meanwhile_is_kept(tmp_path):
    def write_while_another_writes():
        with sealed_folder(tmp_path / "new", replace=False) as folder:
            (folder / "ours").write_text("ours")
            (tmp_path / "new").mkdir()
            (tmp_path / "new" / "theirs").write_text("theirs")

    with pytest.raises(RunError, match="exists already"):
        write_while_another_writes()
    assert [one.name for one in tmp_path.iterdir()] == ["new"]
    assert [one.name for one in (tmp_path / "new").iterdir()] == ["theirs"]


def test_every_file_is_on_the_disk_before_its_folder_is_there(tmp_path, monkeypatch):
    synced, path = [], tmp_path / "sealed"

    def note(handle):
        assert not path.exists() or os.path.samestat(os.fstat(handle), os.stat(tmp_path))
        synced.append(os.fstat(handle).st_ino)

    monkeypatch.setattr("os.fsync", note)
    with sealed_folder(path) as folder:
        writing_json(folder / "one.json", 1)
        writing_json(folder / "inner" / "two.json", 2)
        assert not synced  # once is enough
    for name in ("one.json", "inner", "inner/two.json", "manifest.json"):
        assert synced.count((path / name).stat().st_ino) == 1
    assert {path.stat().st_ino, tmp_path.stat().st_ino} < set(synced)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_the_folder_that_was_there(tmp_path, error):
    old = seal(tmp_path / "old", {"a": b"1"})

    def fail(target: Path) -> None:
        with sealed_folder(target) as folder:
            (folder / "a").write_bytes(b"half")
            raise error

    for target in (old, tmp_path / "new"):
        with pytest.raises(error):
            fail(target)
    assert os.listdir(tmp_path) == ["old"]
    assert check_sealed(old) == []
    assert (old / "a").read_bytes() == b"1"


FILES = {"config.json": b'{"size": 3}', "deep/data.bin": bytes(range(48)), "empty": b""}


@pytest.fixture
def sealed(tmp_path) -> Path:
    return seal(tmp_path / "sealed", FILES)


@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
def test_every_truncation_is_found(sealed, name):
    whole = (sealed / name).read_bytes()
    end = len(whole.rstrip()) if name == "manifest.json" else len(whole)  # without its last line end it is the same
    for length in range(end):
        (sealed / name).write_bytes(whole[:length])
        problems = check_sealed(sealed)
        assert len(problems) == 1
        assert str(sealed / name) in problems[0]
    (sealed / name).write_bytes(whole + b"x")
    assert len(check_sealed(sealed)) == 1


@pytest.mark.parametrize("name", ["config.json", "deep/data.bin", "manifest.json"])
def test_every_flipped_bit_is_found(sealed, name):
    whole = (sealed / name).read_bytes()
    for place in range(len(whole)):
        for bit in range(8) if name == "config.json" else (place % 8, (place + 5) % 8):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << bit
            (sealed / name).write_bytes(damaged)
            problems = check_sealed(sealed)
            assert problems, (place, bit)
            assert all(str(sealed) in problem for problem in problems)


def test_missing_and_extra_files_are_found(sealed):
    (sealed / "deep" / "data.bin").rename(sealed / "deep" / "moved.bin")
    assert check_sealed(sealed) == [
        f"{sealed / 'deep' / 'data.bin'} is missing",
        f"{sealed / 'deep' / 'moved.bin'} is not in the manifest",
    ]


def test_a_folder_without_a_manifest_was_never_finished(sealed):
    (sealed / "manifest.json").unlink()
    assert check_sealed(sealed) == [f"{sealed / 'manifest.json'} is missing: the folder was never finished"]


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"[]",
        b"7",
        b'{"version": 1}',
        b'{"version": 1, "files": [1]}',
        b'{"version": 1, "files": {"a": 1}}',
        b'{"version": 1, "files": {"a": {"bytes": null, "sha256": ""}}}',
        b'{"version": 2, "files": {}}',
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_a_damaged_manifest_is_one_problem(sealed, manifest):
    (sealed / "manifest.json").write_bytes(manifest)
    [problem] = check_sealed(sealed)
    assert problem.startswith(f"{sealed / 'manifest.json'} is damaged (")


def test_a_manifest_that_is_a_folder_is_a_problem(sealed):
    (sealed / "manifest.json").unlink()
    (sealed / "manifest.json").mkdir()
    assert check_sealed(sealed)


def test_a_file_that_cannot_be_read_is_a_problem(sealed, monkeypatch):
    def fail(path):
        raise OSError(5, "Input/output error", str(path))

    monkeypatch.setattr("wenmai.core.folder.file_sha256", fail)
    assert f"{sealed / 'config.json'} cannot be read (Input/output error)" in check_sealed(sealed)


def test_a_folder_that_does_not_exist(tmp_path):
    with pytest.raises(RunError, match="nothing: no such folder"):
        check_sealed(tmp_path / "nothing")
