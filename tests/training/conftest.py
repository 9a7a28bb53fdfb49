"""What the tests of training share."""

import os

import pytest


@pytest.fixture
def unsynced(monkeypatch):
    """Syncing tiny files takes most of the time."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)
