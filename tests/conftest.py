"""Fixtures shared by all tests."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of public corpora and test sets that some tests read."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("WENMAI_SHARED_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"no data pack at {folder} (set WENMAI_SHARED_DATA)")
    return folder


@pytest.fixture(autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test numbers its corpora in a cache of its own."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("WENMAI_CACHE", str(folder))
    return folder
