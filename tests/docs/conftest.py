"""Pages share one cache, in which builtin:pydocs is already."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory, pydocs_text: Path) -> Path:
    """A cache for all tests of this folder."""
    cache = tmp_path_factory.mktemp("cache")
    folder = cache / "data" / "builtin-pydocs"
    folder.mkdir(parents=True)
    shutil.copy(pydocs_text, folder)
    return cache


@pytest.fixture(autouse=True)
def cache_folder(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Takes the place of the fixture that gives every test a cache of its own."""
    monkeypatch.setenv("WENMAI_CACHE", str(shared_cache))
    return shared_cache
