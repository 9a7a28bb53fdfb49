"""What can be trained, by name."""

import sys
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

from wenmai.config.recipe import Recipe
from wenmai.core.errors import SettingError
from wenmai.core.registry import System, find_system, systems


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
    with pytest.raises(SettingError, match=r"no system is called 'xyzzy' .*wenmai systems"):
        find_system("xyzzy")


def announce(monkeypatch, *points):
    points = [EntryPoint(name, value, "wenmai.systems") for name, value in points]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda *, group: points if group == "wenmai.systems" else [])


def test_other_packages_add_systems_but_do_not_replace_ours(monkeypatch):
    module = ModuleType("other_systems")
    module.SYSTEM = System(name="other", summary="another", task="collections:OrderedDict", model="collections:Counter")
    monkeypatch.setitem(sys.modules, "other_systems", module)
    announce(monkeypatch, ("other", "other_systems:SYSTEM"), ("word2vec", "nowhere:Nothing"))
    assert systems()["other"].summary == "another"
    assert find_system("other") is module.SYSTEM
    assert find_system("word2vec").task.startswith("wenmai.")


def test_what_is_no_system_is_named_with_where_it_comes_from(monkeypatch):
    announce(monkeypatch, ("other", "nowhere:Nothing"))
    with pytest.raises(SettingError, match="the system 'other' of another package cannot be imported"):
        find_system("other")
    announce(monkeypatch, ("other", "collections:OrderedDict"))
    with pytest.raises(SettingError, match=r"the entry point 'other' = 'collections:OrderedDict' names .*; expected a"):
        find_system("other")


def test_systems_that_share_a_task_and_a_model_share_one_object():
    assert find_system("word2vec-sgns").load() is find_system("word2vec").load()
    assert find_system("gpt").load() is not find_system("rnnlm").load()
