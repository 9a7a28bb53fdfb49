"""What the contract holds for: every example, or every form of the models of one family."""

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

import wenmai
from tests.contract.examples import EXAMPLES, TEXTS, Example
from wenmai.core.registry import find_system
from wenmai.training.run import Run


def examples_of(config: pytest.Config) -> dict[str, Example]:
    """The examples that are tested: ours, or those of a module."""
    module: str | None = config.getoption("examples")
    return EXAMPLES if module is None else import_module(module).EXAMPLES


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Gives ``system`` the name of each example, and ``entry`` each (system, form) of the ``FAMILY`` of a
    module."""
    examples = examples_of(metafunc.config)
    if "system" in metafunc.fixturenames:
        metafunc.parametrize("system", examples)
    if "entry" in metafunc.fixturenames:
        family = metafunc.module.FAMILY
        models = [name for name in examples if is_of(find_system(name).load_model(), family)]
        most = getattr(metafunc.function, "forms", None)  # of each model, if not all
        entries = [(name, form) for name in models for form in [*examples[name].forms][:most]]
        metafunc.parametrize("entry", entries, ids=[f"{name}-{form}" for name, form in entries])


def is_of(model: object, family: type) -> bool:
    return isinstance(model, type) and issubclass(model, family)


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """How fast the disk is does not matter here; what a kill leaves behind is in the memory of the system."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.fixture(scope="session")
def examples(request: pytest.FixtureRequest) -> dict[str, Example]:
    """The examples that are tested."""
    return examples_of(request.config)


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the texts that are enough."""
    folder = tmp_path_factory.mktemp("texts")
    for name, contents in TEXTS.items():
        (folder / name).write_text(contents["enough"])
    return folder


Train = Callable[..., Run]


@pytest.fixture(scope="session")
def train(examples: dict[str, Example], texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Train:
    """Trains the example of a system; without anything else to be said of it, once only."""
    known: dict[str, Run] = {}

    def trained(system: str) -> Run:
        if system not in known:
            known[system] = train_example(system, out=tmp_path_factory.mktemp(system) / "run")
        return known[system]

    def train_example(system: str, **changes: object) -> Run:
        if not changes:
            return trained(system)
        example = examples[system]
        given: dict[str, object] = {"corpus": texts / example.data, "quiet": True, **example.settings, **changes}
        if example.start is not None:
            given.setdefault("start", trained(example.start).path)
        return wenmai.train(system, **given)

    return train_example
