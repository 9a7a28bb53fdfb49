"""Downloads from a server on this machine that behaves well, badly or not at all."""

import hashlib
import os
import resource
import shutil
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import wenmai.data.download
from wenmai.core.errors import DownloadError
from wenmai.data.download import download, unzip

CONTENT = os.urandom(700_001)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
OTHER = os.urandom(700_001)


class Server(ThreadingHTTPServer):
    """Serves ``content`` at every path but a few, and remembers the requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = CONTENT
        self.etag: str | None = '"version 1"'
        self.dies_after: list[int] = []  # one entry is taken by each answer
        self.statuses: list[int] = []  # likewise: an error to answer with
        self.release = threading.Event()  # lets hanging answers end with the test
        self.requests: list[tuple[str, str | None]] = []  # path and Range

    def address(self, name: str = "good") -> str:
        return f"http://127.0.0.1:{self.server_port}/{name}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        asked = self.headers["Range"]
        self.server.requests.append((self.path, asked))
        status = self.server.statuses.pop(0) if self.server.statuses else 404 if "missing" in self.path else 200
        if status != 200:
            self.send_error(status)
            return
        if "hangs" in self.path:
            self.server.release.wait(10)
            return
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and "no-range" not in self.path else 0
        if start and self.headers["If-Range"] not in (None, self.server.etag):
            start = 0
        if start >= len(self.server.content):
            self.send_error(416)
            return
        body = self.server.content[start:]
        self.send_response(206 if start else 200)
        if start:
            first = 0 if "wrong-part" in self.path else start
            self.send_header(
                "Content-Range", f"bytes {first}-{len(self.server.content) - 1}/{len(self.server.content)}"
            )
        if "no-length" not in self.path:
            self.send_header("Content-Length", str(len(body)))
        if self.server.etag:
            self.send_header("ETag", self.server.etag)
        self.end_headers()
        if self.server.dies_after:
            body = body[: self.server.dies_after.pop(0)]
        self.wfile.write(body)
        if "stalls" in self.path:
            self.wfile.flush()
            self.server.release.wait(10)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(wenmai.data.download, "_PAUSE_SECONDS", 0.0)
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.release.set()
        running.shutdown()
        thread.join()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "file.bin"


def only_file(path: Path) -> bool:
    return [file.name for file in path.parent.iterdir() if not file.name.endswith(".lock")] == [path.name]


def test_a_file_comes_whole_and_progress_is_told(server, path):
    told: list[tuple[int, int | None]] = []
    found = download(server.address(), path, sha256=SHA256, progress=lambda done, total: told.append((done, total)))
    assert found == SHA256
    assert path.read_bytes() == CONTENT
    assert only_file(path)
    assert told[-1] == (len(CONTENT), len(CONTENT))
    assert len(told) > 1
    assert [done for done, _ in told] == sorted({done for done, _ in told})


def test_a_server_that_does_not_say_the_length(server, path):
    told: list[tuple[int, int | None]] = []
    download(server.address("no-length"), path, progress=lambda done, total: told.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert told[-1] == (len(CONTENT), None)


def test_a_connection_that_breaks_is_taken_up_again(server, path):
    server.dies_after = [300_000, 100_000]
    download(server.address(), path, sha256=SHA256)
    assert path.read_bytes() == CONTENT
    assert server.requests == [("/good", None), ("/good", "bytes=300000-"), ("/good", "bytes=400000-")]


def test_what_came_before_is_kept_for_the_next_call(server, path):
    server.dies_after = [300_000]
    with pytest.raises(DownloadError, match=r"ended after 300,000 of 700,001 bytes.*300,000 bytes are kept"):
        download(server.address(), path, attempts=1)
    assert not path.exists()
    told: list[int] = []
    download(server.address(), path, attempts=1, progress=lambda done, total: told.append(done))
    assert path.read_bytes() == CONTENT
    assert server.requests[1] == ("/good", "bytes=300000-")
    assert told[0] > 300_000
    assert only_file(path)


def test_a_download_that_was_killed_goes_on(server, path):
    program = (
        "import os, sys; from pathlib import Path; from wenmai.data.download import download\n"
        "die = lambda done, total: done > 200_000 and os._exit(9)\n"
        "download(sys.argv[1], Path(sys.argv[2]), progress=die)"
    )
    folder = Path(wenmai.data.download.__file__).parents[2]
    killed = subprocess.run([sys.executable, "-c", program, server.address(), str(path)], cwd=folder, timeout=30)
    assert killed.returncode == 9
    assert not path.exists()
    download(server.address(), path, sha256=SHA256)
    assert path.read_bytes() == CONTENT


def test_a_server_that_ignores_ranges_starts_again(server, path):
    server.dies_after = [300_000]
    download(server.address("no-range"), path, sha256=SHA256)
    assert path.read_bytes() == CONTENT
    assert server.requests[1] == ("/no-range", "bytes=300000-")


def test_a_server_that_sends_another_part_is_not_believed(server, path):
    server.dies_after = [300_000]
    download(server.address("wrong-part"), path)
    assert path.read_bytes() == CONTENT
    assert [asked for _, asked in server.requests] == [None, "bytes=300000-", None]


def test_a_file_that_changed_in_between_is_fetched_anew(server, path):
    server.dies_after = [300_000]
    with pytest.raises(DownloadError):
        download(server.address(), path, attempts=1)
    server.content, server.etag = OTHER, '"version 2"'
    download(server.address(), path)
    assert path.read_bytes() == OTHER


def test_a_change_that_the_server_does_not_tell_is_found_by_the_checksum(server, path):
    server.etag = None
    server.content = OTHER
    server.dies_after = [300_000]
    with pytest.raises(DownloadError):
        download(server.address(), path, sha256=SHA256, attempts=1)
    server.content = CONTENT
    download(server.address(), path, sha256=SHA256)
    assert path.read_bytes() == CONTENT
    assert [asked for _, asked in server.requests] == [None, "bytes=300000-", None]


def test_without_checksum_and_version_nothing_is_taken_up(server, path):
    server.etag = None
    server.dies_after = [300_000]
    download(server.address(), path)
    assert path.read_bytes() == CONTENT
    assert [asked for _, asked in server.requests] == [None, None]


def test_a_file_that_became_shorter_is_fetched_anew(server, path):
    server.etag = None
    server.dies_after = [300_000]
    short = CONTENT[:1000]
    with pytest.raises(DownloadError):
        download(server.address(), path, sha256=hashlib.sha256(short).hexdigest(), attempts=1)
    server.content = short
    download(server.address(), path, sha256=hashlib.sha256(short).hexdigest())
    assert path.read_bytes() == short


def test_a_wrong_checksum_is_shown_and_the_file_not_kept(server, path):
    with pytest.raises(DownloadError, match=f"expected SHA-256 {'0' * 64}, got {SHA256}"):
        download(server.address(), path, sha256="0" * 64)
    assert [file.name for file in path.parent.iterdir()] == [f".{path.name}.lock"]
    assert len(server.requests) == 1


def test_another_size_is_refused_before_anything_comes(server, path):
    told: list[int] = []
    with pytest.raises(DownloadError, match=r"has 700,001 bytes, expected 5"):
        download(server.address(), path, size_bytes=5, progress=lambda done, total: told.append(done))
    assert told == []


def test_more_bytes_than_expected_are_not_swallowed(server, path):
    with pytest.raises(DownloadError, match="more than the expected 5,000 bytes"):
        download(server.address("no-length"), path, size_bytes=5000)
    assert not path.with_name("file.bin.part").exists()


@pytest.mark.parametrize("name", ["hangs", "stalls"])
def test_silence_ends_in_an_error(server, path, name):
    server.dies_after = [1000, 1000]
    with pytest.raises(DownloadError, match=r"(no answer within|nothing came for) 0\.1 s \(attempt 2\)"):
        download(server.address(name), path, timeout_seconds=0.1, attempts=2)
    assert len(server.requests) == 2
    assert not path.exists()


def test_a_missing_file_is_not_asked_for_again(server, path):
    with pytest.raises(DownloadError, match=r"/missing: the server answered 404"):
        download(server.address("missing"), path)
    assert len(server.requests) == 1


def test_a_busy_server_is_asked_again_but_not_for_ever(server, path):
    server.statuses = [503, 500]
    download(server.address(), path)
    assert path.read_bytes() == CONTENT
    server.statuses = [503] * 10
    with pytest.raises(DownloadError, match=r"answered 503 .*\(attempt 3\)"):
        download(server.address(), path.with_name("other"))
    assert len(server.statuses) == 7


def test_nobody_at_the_address(server, path):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound, but not listening
        with pytest.raises(DownloadError, match=r"cannot be reached \(.*refused\) \(is this machine online\?\)"):
            download(f"http://127.0.0.1:{closed.getsockname()[1]}/x", path)


@pytest.mark.parametrize("address", ["nonsense", "http://", "gopher://127.0.0.1/x", "http://127.0.0.1:no/x"])
def test_an_address_that_is_none(path, address):
    with pytest.raises(DownloadError, match=address):
        download(address, path)


def test_a_file_address_and_a_missing_file(tmp_path, path):
    source = tmp_path / "a source.bin"
    source.write_bytes(CONTENT)
    download(source.as_uri(), path, size_bytes=len(CONTENT), sha256=SHA256)
    assert path.read_bytes() == CONTENT
    with pytest.raises(DownloadError, match=r"nothing-here.*No such file"):
        download((tmp_path / "nothing-here").as_uri(), path)


def test_a_disk_without_room_is_found_out_first(server, path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(10, 0, 10))
    with pytest.raises(DownloadError, match=r"700,001 bytes are needed and 10 are free.*WENMAI_CACHE"):
        download(server.address(), path)


def test_a_disk_that_fills_up_on_the_way(server, path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))  # writing fails as on a full disk
    try:
        with pytest.raises(DownloadError, match=r"cannot be used \(.*File too large.*WENMAI_CACHE"):
            download(server.address(), path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_folder_that_cannot_be(server, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(DownloadError, match=r"cannot be used .*WENMAI_CACHE"):
        download(server.address(), tmp_path / "file" / "x")


@pytest.mark.parametrize("whole", [True, False])
def test_a_file_that_another_is_fetching_is_waited_for_and_taken(server, path, whole, caplog):
    others = []

    def again(done: int, total: int | None) -> None:
        if not others:
            others.append(threading.Thread(target=download, args=(server.address(), path)))
            others[0].start()
            while not caplog.messages:
                time.sleep(0.01)
        if not whole:
            raise KeyboardInterrupt

    with nullcontext() if whole else pytest.raises(KeyboardInterrupt):
        download(server.address(), path, progress=again)
    others[0].join()
    assert caplog.messages == [f"{path}: another process is fetching this file; waiting for it"]
    assert path.read_bytes() == CONTENT
    assert whole == (len(server.requests) == 1)


def zipped(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_one_file_comes_out_of_an_archive(tmp_path):
    archive = zipped(tmp_path / "a.zip", text8=b"words " * 1000, other=b"x")
    unzip(archive, "text8", tmp_path / "out.txt", size_bytes=6000)
    assert (tmp_path / "out.txt").read_bytes() == b"words " * 1000


def test_names_in_an_archive_lead_nowhere(tmp_path):
    archive = zipped(tmp_path / "a.zip", **{"../../evil": b"x", "/evil": b"x"})
    with pytest.raises(DownloadError, match="has no file 'text8'"):
        unzip(archive, "text8", tmp_path / "deep" / "er" / "text8")
    unzip(archive, "../../evil", tmp_path / "deep" / "er" / "text8")
    written = {file.relative_to(tmp_path).as_posix() for file in tmp_path.rglob("*") if file.is_file()}
    assert written == {"a.zip", "deep/er/text8"}
    assert not Path("/evil").exists()


@pytest.mark.parametrize("size_bytes", [None, 999])
def test_an_archive_that_blows_up_is_stopped(tmp_path, size_bytes):
    archive = zipped(tmp_path / "a.zip", text8=b"\0" * 5_000_000)
    with pytest.raises(DownloadError, match="unpacks to more than the expected"):
        unzip(archive, "text8", tmp_path / "text8", size_bytes=size_bytes)
    assert not (tmp_path / "text8").exists()


def test_a_member_of_another_size_is_refused(tmp_path):
    archive = zipped(tmp_path / "a.zip", text8=b"abc")
    with pytest.raises(DownloadError, match="text8 has 3 bytes, expected 4"):
        unzip(archive, "text8", tmp_path / "text8", size_bytes=4)
    assert not (tmp_path / "text8").exists()


def test_every_truncation_and_flip_of_an_archive_is_refused_or_harmless(tmp_path):
    content = b"some words to pack"
    whole = zipped(tmp_path / "a.zip", text8=content).read_bytes()
    damaged = [whole[:size] for size in range(len(whole))]
    damaged += [whole[:i] + bytes([whole[i] ^ 0xFF]) + whole[i + 1 :] for i in range(len(whole))]
    for data in damaged:
        (tmp_path / "bad.zip").write_bytes(data)
        try:
            unzip(tmp_path / "bad.zip", "text8", tmp_path / "out", size_bytes=len(content))
        except DownloadError:
            assert not (tmp_path / "out").exists()
        else:
            assert (tmp_path / "out").read_bytes() == content
            (tmp_path / "out").unlink()
