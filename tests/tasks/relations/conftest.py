"""A BERT that was hardly trained, and trainings that start from it."""

import pytest

import wenmai
from tests.contract.examples import EXAMPLES
from tests.tasks.relations.made import PLAIN, records
from wenmai.core.registry import find_system
from wenmai.runs.planning import plan


@pytest.fixture(scope="session")
def base(tmp_path_factory):
    """A BERT that was hardly trained, of texts such as the documents."""
    folder = tmp_path_factory.mktemp("bert")
    lines = ["\n".join(" ".join(sentence) for sentence in one["sents"]) for one in records(200)]
    (folder / "text.txt").write_text("\n\n".join(lines) + "\n")
    settings = {**EXAMPLES["bert"].settings, "max_length": 16, "epochs": 1, "dropout": 0.0, "learning_rate": 0.005}
    return wenmai.train("bert", folder / "text.txt", out=folder / "run", quiet=True, **settings)


@pytest.fixture
def begin(base):
    """Begins a training without running it."""

    def begun(documents, start=base, **settings):
        recipe, opened = plan("ssan", documents, start=start.path, **{**PLAIN, "valid_share": 0, **settings})
        task = find_system("ssan").load()
        read = task.source.read(recipe, opened.source, lambda done, total: None, start.read_base())
        return task.begin(recipe, read, start.read_base())

    return begun
