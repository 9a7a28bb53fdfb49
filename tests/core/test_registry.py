"""What can be trained, by name."""

from importlib.metadata import EntryPoint

import pytest

from wenmai.config.recipe import Recipe
from wenmai.core.errors import SettingError
from wenmai.core.registry import find_system, systems


@pytest.mark.parametrize("name", systems())
def test_every_system_loads_and_its_settings_are_settings(name):
    system = find_system(name)
    assert system.name == name
    assert system.summary
    task = system.load()
    recipe = Recipe.build(name, task.sections, system.settings)
    settings = recipe.flat_settings()
    by_name = {full.partition(".")[2]: value for full, value in settings.items()}
    for setting, value in system.settings.items():
        assert by_name[setting] == value


def test_the_four_forms_of_word2vec_differ():
    def model(name: str) -> object:
        return Recipe.build(name, find_system(name).load().sections, find_system(name).settings).sections["model"]

    forms = [model(f"word2vec-{form}") for form in ("sgns", "sghs", "cbow-ns", "cbow-hs")]
    assert len(set(forms)) == 4
    assert model("word2vec") == forms[0]
    assert [(form.algorithm, form.negative > 0, form.hierarchical) for form in forms] == [
        ("skipgram", True, False),
        ("skipgram", False, True),
        ("cbow", True, False),
        ("cbow", False, True),
    ]


def test_an_unknown_system_names_the_nearest():
    with pytest.raises(SettingError, match=r"no system is called 'word2vec-sgn'; did you mean 'word2vec-sg"):
        find_system("word2vec-sgn")
    with pytest.raises(SettingError, match=r"no system is called 'bert' .*wenmai systems"):
        find_system("bert")


def test_other_packages_add_systems_but_do_not_replace_ours(monkeypatch):
    points = [
        EntryPoint("other", "collections:OrderedDict", "wenmai.systems"),
        EntryPoint("word2vec", "nowhere:Nothing", "wenmai.systems"),
    ]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda *, group: points if group == "wenmai.systems" else [])
    assert systems()["other"].summary == "from collections:OrderedDict"
    assert find_system("other").load().__name__ == "OrderedDict"
    assert find_system("word2vec").target.startswith("wenmai.")
