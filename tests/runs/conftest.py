"""Tiny runs of systems."""

from functools import cache

import pytest

import wenmai
from tests.contract.examples import EXAMPLES, TEXTS


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a tiny run of a system, trained once."""

    @cache
    def trained(name):
        folder, example = tmp_path_factory.mktemp(name), EXAMPLES[name]
        (folder / example.data).write_text(TEXTS[example.data]["enough"])
        start = None if example.start is None else trained(example.start)
        settings = {**example.settings, "epochs": 1}
        return wenmai.train(name, folder / example.data, out=folder / "run", start=start, quiet=True, **settings).path

    return trained
