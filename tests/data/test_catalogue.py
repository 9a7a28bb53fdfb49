"""The catalogue of corpora and test sets, and how its files come into the cache."""

import gzip
import hashlib
import json
import logging
import re
import shutil
import socket
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from typing import get_args, get_type_hints

import pytest

from wenmai.core.errors import DownloadError, SettingError
from wenmai.data import catalogue, pydocs
from wenmai.data.catalogue import Entry, Source
from wenmai.text.settings import TextConfig

PAIRS = b"tiger\tcat\t7.35\n"
TEXT = b"anarchism originated as a term of abuse " * 100


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    """A mirror folder with a test set, a zip archive and a file nobody registered a checksum for."""
    folder = tmp_path / "a mirror"
    (folder / "sets").mkdir(parents=True)
    (folder / "sets" / "pairs.txt").write_bytes(PAIRS)
    (folder / "sets" / "pairs.txt.gz").write_bytes(gzip.compress(PAIRS, mtime=0))
    (folder / "sets" / "free.txt").write_bytes(TEXT)
    with zipfile.ZipFile(folder / "text.zip", "w") as archive:
        archive.writestr("folder/text", TEXT)
    return folder


@pytest.fixture
def address(mirror: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The same folder behind a server on this machine."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(mirror))) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def real_catalogue() -> None:
    """For tests of the catalogue as it is published."""


@pytest.fixture(autouse=True)
def listed(mirror: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small catalogue of what the mirror has, for all tests but those of the real one."""
    monkeypatch.delenv("WENMAI_DATA_MIRROR", raising=False)
    if "real_catalogue" in request.fixturenames:
        return
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{closed.getsockname()[1]}"
    base = request.getfixturevalue("address") if "address" in request.fixturenames else nobody
    archive = (mirror / "text.zip").read_bytes()
    common = {"title": "a title", "purpose": "tests", "language": "en", "licence": "CC0"}
    pairs = Source(mirror="sets/pairs.txt", address=f"{base}/sets/pairs.txt", size_bytes=15, sha256=sha256(PAIRS))
    packed = Source(mirror="sets/pairs.txt.gz", sha256=sha256(gzip.compress(PAIRS, mtime=0)))
    text = Source(
        mirror="text.zip",
        address=f"{base}/text.zip",
        size_bytes=len(archive),
        sha256=sha256(archive),
        member="folder/text",
        member_bytes=len(TEXT),
    )
    free = Source(mirror="sets/free.txt", address=f"{base}/sets/free.txt")
    found = (
        Entry(name="builtin:pydocs", kind="corpus", **common),
        Entry(name="pairs", kind="similarity", sources=(packed, pairs), **common),
        Entry(name="text", kind="corpus", sources=(text,), **common),
        Entry(name="free", kind="corpus", sources=(free,), **common),
        Entry(name="latest", kind="dump", note="take the text out first", sources=(free,), **common),
        Entry(name="private", kind="corpus", note="the whole is elsewhere", sources=(packed,), **common),
    )
    monkeypatch.setattr(catalogue, "entries", lambda: found)


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(SettingError, match=r"'data:pears'.*did you mean 'data:pairs'\?; see 'wenmai data list'"):
        catalogue.find("data:pears")


@pytest.mark.parametrize("name", ["../pairs", "data:../../etc/passwd", "/etc/passwd", ""])
@pytest.mark.parametrize("function", [catalogue.get, catalogue.check, catalogue.cached])
def test_a_name_is_never_a_path(name, function):
    with pytest.raises(SettingError, match="no corpus or test set is called"):
        function(name)


def test_a_file_comes_from_its_public_address_once(address, cache_folder, mirror):
    told: list[tuple[int, int | None]] = []
    assert catalogue.cached("pairs") is None
    assert catalogue.check("pairs").status == "absent"
    path = catalogue.get("data:pairs", progress=lambda done, total: told.append((done, total)))
    assert path == cache_folder / "data" / "pairs" / "pairs.txt"
    assert path.read_bytes() == PAIRS
    assert told == [(15, 15)]
    shutil.rmtree(mirror)
    assert catalogue.get("pairs") == catalogue.cached("pairs") == path

    check = catalogue.check("pairs")
    assert (check.status, check.path, check.size_bytes) == ("good", path, 15)
    assert check.sha256 == check.expected_sha256 == sha256(PAIRS)


def test_a_zip_archive_is_unpacked_and_removed(address, cache_folder):
    path = catalogue.get("text")
    assert path.name == "text"
    assert path.read_bytes() == TEXT
    assert not path.with_name("text.zip").exists()
    assert catalogue.check("text").status == "good"


def test_without_a_registered_checksum_the_one_that_came_is_said_and_remembered(address, caplog):
    with caplog.at_level(logging.WARNING, logger="wenmai"):
        path = catalogue.get("free")
    assert f"no checksum registered; sha256 of the download is {sha256(TEXT)}" in caplog.text
    assert catalogue.check("free").status == "unregistered"
    path.write_bytes(TEXT[:-1] + b"!")
    assert catalogue.check("free").status == "damaged"
    path.write_bytes(TEXT[:-1])
    check = catalogue.check("free")
    assert check.status == "damaged"
    assert sha256(TEXT) in check.message
    assert sha256(TEXT[:-1]) in check.message
    with pytest.raises(DownloadError, match=r"free\.txt: wrong checksum.*remove the file"):
        catalogue.get("free")


@pytest.mark.parametrize("form", ["path", "file", "http"])
def test_a_mirror_takes_the_place_of_the_public_addresses(form, mirror, address, monkeypatch):
    where = {"path": str(mirror), "file": mirror.as_uri(), "http": f"{address}/"}[form]
    monkeypatch.setenv("WENMAI_DATA_MIRROR", where)
    path = catalogue.get("pairs")
    assert path.name == "pairs.txt.gz"  # the mirror's packing is the preferred one
    assert gzip.decompress(path.read_bytes()) == PAIRS
    assert catalogue.get("text").read_bytes() == TEXT
    assert catalogue.check("pairs").status == "good"


def test_a_mirror_with_another_file_is_found_out(mirror, monkeypatch):
    monkeypatch.setenv("WENMAI_DATA_MIRROR", str(mirror))
    (mirror / "text.zip").write_bytes((mirror / "text.zip").read_bytes()[:-1] + b"!")
    with pytest.raises(DownloadError, match=r"expected SHA-256 [0-9a-f]{64}, got [0-9a-f]{64}"):
        catalogue.get("text")
    assert catalogue.check("text").status == "absent"


def test_a_mirror_that_lacks_the_file_says_all_that_was_tried(mirror, monkeypatch):
    monkeypatch.setenv("WENMAI_DATA_MIRROR", str(mirror))
    shutil.rmtree(mirror / "sets")
    with pytest.raises(DownloadError) as error:
        catalogue.get("pairs")
    message = str(error.value)
    assert "sets/pairs.txt.gz: cannot be reached" in message
    assert "sets/pairs.txt: cannot be reached" in message
    assert "unset WENMAI_DATA_MIRROR" in message


def test_offline_the_message_says_what_to_do(cache_folder):
    with pytest.raises(DownloadError) as error:
        catalogue.get("text")
    message = str(error.value)
    assert "/text.zip: cannot be reached" in message
    assert "set WENMAI_DATA_MIRROR to a folder or address that has text.zip" in message
    assert f"bring text.zip yourself as {cache_folder / 'data' / 'text' / 'text.zip'}" in message


def test_an_entry_without_public_address_says_so():
    with pytest.raises(
        DownloadError, match=r"private has no public address; only a mirror.* \(the whole is elsewhere\)$"
    ):
        catalogue.get("private")


def test_a_file_brought_by_hand_is_verified_and_taken(cache_folder, mirror):
    folder = cache_folder / "data" / "text"
    folder.mkdir(parents=True)
    (folder / "text.zip").write_bytes(b"something else")
    with pytest.raises(DownloadError, match=r"text\.zip: wrong checksum.*remove the file"):
        catalogue.get("text")
    assert (folder / "text.zip").exists()  # it is not ours to remove
    shutil.copy(mirror / "text.zip", folder)
    assert catalogue.get("text").read_bytes() == TEXT


def test_a_damaged_file_is_reported_and_not_handed_out(address):
    path = catalogue.get("pairs")
    path.write_bytes(PAIRS[:-1])
    assert catalogue.check("pairs").status == "damaged"
    assert catalogue.cached("pairs") is None
    with pytest.raises(DownloadError, match="wrong checksum"):
        catalogue.get("pairs")
    path.unlink()
    assert catalogue.get("pairs").read_bytes() == PAIRS


@pytest.mark.parametrize("receipt", [b"", b"[]", b"{", b'{"file": "../x"}', b"\xff"])
def test_a_damaged_receipt_is_no_receipt(address, receipt):
    path = catalogue.get("pairs")
    path.with_name("receipt.json").write_bytes(receipt)
    assert catalogue.check("pairs").status == "absent"
    assert catalogue.get("pairs") == path
    assert catalogue.check("pairs").status == "good"


def test_a_receipt_cannot_point_out_of_its_folder(address, tmp_path):
    path = catalogue.get("pairs")
    (tmp_path / "secret").write_bytes(PAIRS)
    receipt = json.loads(path.with_name("receipt.json").read_bytes())
    receipt["file"] = f"../../../{tmp_path.name}/secret"
    path.with_name("receipt.json").write_text(json.dumps(receipt))
    assert catalogue.cached("pairs") is None


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("WENMAI_CACHE", str(tmp_path / "file"))
    for name in ("pairs", "builtin:pydocs"):
        with pytest.raises(DownloadError, match=r"cannot be used .*WENMAI_CACHE"):
            catalogue.get(name)


def test_corpus_arguments_become_paths(address, monkeypatch):
    assert catalogue.resolve("some/file.txt") is None
    assert catalogue.resolve("pairs") is None
    path = catalogue.resolve("data:text")
    assert path is not None
    assert path.read_bytes() == TEXT
    with pytest.raises(SettingError, match=r"data:latest: take the text out first; 'wenmai data get latest'"):
        catalogue.resolve("data:latest")
    with pytest.raises(SettingError, match="did you mean 'builtin:pydocs'"):
        catalogue.resolve("builtin:pydoc")


def test_the_builtin_corpus_is_made_on_demand_and_checked(cache_folder, monkeypatch):
    monkeypatch.setattr(pydocs, "lines", lambda: iter(["one line of text", "and another one"]))
    assert catalogue.check("builtin:pydocs").status == "absent"
    path = catalogue.resolve("builtin:pydocs")
    assert path == catalogue.cached("builtin:pydocs")
    assert path.parent == cache_folder / "data" / "builtin-pydocs"
    assert path.read_text() == "one line of text\nand another one\n"
    assert catalogue.check("builtin:pydocs").status == "good"
    path.write_text("another text")
    assert catalogue.check("builtin:pydocs").status == "damaged"


def test_the_catalogue_is_complete_and_consistent(real_catalogue):
    entries = catalogue.entries()
    names = [entry.name for entry in entries]
    assert len(set(names)) == len(names)
    assert {
        "builtin:pydocs",
        "text8",
        "en8",
        "ws353-all",
        "simlex-999",
        "google-analogies",
        "ca8-semantic",
    } <= set(names)
    for entry in entries:
        assert re.fullmatch(r"[a-z0-9:-]+", entry.name)
        assert entry.title
        assert entry.purpose
        assert entry.licence
        assert entry.kind in get_args(get_type_hints(Entry)["kind"])
        assert re.fullmatch("[a-z]{2}(-[a-z]{2})?", entry.language)
        assert bool(entry.text) == (entry.kind == "corpus")
        TextConfig(**entry.text)
        assert entry.note or entry.kind != "dump"
        assert entry.sources or entry.name.startswith("builtin:")
        for source in entry.sources:
            assert source.sha256 is None or re.fullmatch("[0-9a-f]{64}", source.sha256)
            assert source.address is None or re.match(r"https?://[a-z.]+/", source.address)
            assert ".." not in PurePosixPath(source.mirror).parts
            assert not PurePosixPath(source.mirror).is_absolute()
            assert source.file_name not in ("", "receipt.json")
            assert (source.member is None) != source.mirror.endswith(".zip")
    mirrors = {(s.mirror, s.sha256, s.size_bytes) for entry in entries for s in entry.sources}
    assert len({mirror for mirror, _, _ in mirrors}) == len(mirrors)  # one file, one checksum


@pytest.mark.shared_data
def test_a_test_set_comes_from_the_data_pack(real_catalogue, shared_data, monkeypatch):
    monkeypatch.setenv("WENMAI_DATA_MIRROR", str(shared_data))
    path = catalogue.get("ws353-all")
    assert path.read_bytes() == (shared_data / "wordsim" / "EN-WS-353-ALL.txt").read_bytes()
    assert catalogue.check("ws353-all").status == "good"


@pytest.mark.shared_data
def test_the_registered_checksums_are_those_of_the_data_pack(real_catalogue, shared_data):
    checked = 0
    for entry in catalogue.entries():
        for source in entry.sources:
            packed = shared_data / source.mirror
            if packed.is_file():
                content = packed.read_bytes()
                assert (sha256(content), len(content)) == (source.sha256, source.size_bytes), source.mirror
                checked += 1
    assert checked >= 25
