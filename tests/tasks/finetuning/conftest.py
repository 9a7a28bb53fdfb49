"""Encoders to start from, and the examples of each task."""

from functools import cache

import pytest

import wenmai
from tests.contract.examples import EXAMPLES, TEXTS
from tests.tasks.finetuning.trained import PLAIN
from wenmai.core.registry import find_system
from wenmai.runs.planning import plan


@pytest.fixture(scope="session")
def base(tmp_path_factory):
    """Trains the example of a system that others start from."""

    @cache
    def trained(name):
        folder = tmp_path_factory.mktemp(name)
        example = EXAMPLES[name]
        (folder / example.data).write_text(TEXTS[example.data]["enough"])
        return wenmai.train(name, folder / example.data, out=folder / "run", quiet=True, **example.settings)

    return trained


@pytest.fixture
def data(tmp_path):
    """Writes the examples of a task."""

    def written(task, content=None):
        name = EXAMPLES[f"finetuned-{task}"].data
        (tmp_path / name).write_text(TEXTS[name]["enough"] if content is None else content)
        return tmp_path / name

    return written


@pytest.fixture
def begin(base, data):
    """Begins a training without running it."""

    def begun(task, start, content=None, **settings):
        run = base(start)
        chosen = {name: value for name, value in {**PLAIN, **settings}.items() if value is not None}
        recipe, opened = plan(f"finetuned-{task}", data(task, content), start=run.path, **chosen)
        known = find_system(recipe.system).load()
        read = known.source.read(recipe, opened.source, lambda done, total: None, run.read_base())
        return known.begin(recipe, read, run.read_base())

    return begun
