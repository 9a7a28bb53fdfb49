"""Pages share one cache, because making builtin:pydocs takes seconds."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache for all tests of this folder."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def cache_folder(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Takes the place of the fixture that gives every test a cache of its own."""
    monkeypatch.setenv("WENMAI_CACHE", str(shared_cache))
    return shared_cache
