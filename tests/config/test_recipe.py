"""Settings and recipes."""

import math
import os
import time
from dataclasses import dataclass, fields
from typing import Annotated, Literal, get_args, get_type_hints

import pytest
import yaml
from annotated_types import Ge, Gt
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import Doc

from wenmai.config.recipe import Recipe, changed_settings, parse_assignments, read_recipe, settings_of
from wenmai.core.errors import SettingError
from wenmai.core.registry import systems
from wenmai.text.pieces import TokenizerConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig:
    kind: Annotated[Literal["small", "large"], Doc("which one")] = "small"
    size: Annotated[int, Ge(1), Doc("numbers in a vector")] = 100
    bias: Annotated[bool, Doc("whether there is a bias; a colon: and a # in it")] = True
    name: Annotated[str, Doc("anything")] = "utf-8"
    seed: Annotated[int, Ge(0), Doc("of the model")] = 1

    def __post_init__(self) -> None:
        if self.kind == "large" and self.size < 10:
            raise SettingError("kind=large needs size=10 or more")


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig:
    epochs: Annotated[int, Ge(1), Doc("times")] = 5
    rate: Annotated[float | None, Gt(0), Doc("at the start")] = None
    sample: Annotated[float, Ge(0), Doc("threshold")] = 1e-3
    seed: Annotated[int, Ge(0), Doc("of the training")] = 1


SECTIONS = {"model": ModelConfig, "train": TrainConfig}


def build(**given: object) -> Recipe:
    return Recipe.build("example", SECTIONS, {name.replace("__", "."): value for name, value in given.items()})


# --- values -------------------------------------------------------------------------------------------------------


def test_defaults_and_values():
    recipe = build(epochs=3, model__size=20, train__seed=7)
    assert recipe.sections["model"] == ModelConfig(size=20)
    assert recipe.sections["train"] == TrainConfig(epochs=3, seed=7)
    assert recipe.flat_settings()["train.epochs"] == 3
    assert changed_settings(recipe) == {"size": 20, "epochs": 3, "seed": 7}
    assert (recipe.system, recipe.corpus, recipe.start) == ("example", (), None)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("epochs", "3", 3),
        ("sample", "1e-3", 1e-3),
        ("sample", "3e-4", 3e-4),
        ("sample", "0", 0.0),
        ("rate", "none", None),
        ("rate", "None", None),
        ("rate", "null", None),
        ("rate", "0.05", 0.05),
        ("bias", "false", False),
        ("bias", "no", False),
        ("bias", "True", True),
        ("bias", "1", True),
        ("kind", "large", "large"),
        ("name", "gb18030", "gb18030"),
        ("name", 7, "7"),
    ],
)
def test_text_is_read_as_the_type_asks(name, text, value):
    [found] = [found for full, found in build(**{name: text}).flat_settings().items() if full.endswith(f".{name}")]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("epochs", 0, "epochs=0: expected greater than or equal to 1"),
        ("epochs", "many", "epochs='many': expected a valid integer"),
        ("epochs", 2.5, "epochs=2.5: expected a valid integer"),
        ("epochs", "none", "epochs='none': expected a valid integer"),
        ("rate", 0, "rate=0: expected greater than 0"),
        ("rate", "fast", "rate='fast': expected a valid number"),
        ("sample", -1, "sample=-1: expected greater than or equal to 0"),
        ("sample", math.nan, "sample=nan: expected "),
        ("sample", "nan", "sample='nan': expected "),
        ("name", "a\ud800", r"name='a\\ud800': has a lone surrogate, which is no character"),
        ("sample", math.inf, "sample=inf: expected a finite number"),
        ("rate", "inf", "rate='inf': expected a finite number"),
        ("bias", "perhaps", "bias='perhaps': expected a valid boolean"),
        ("bias", 2, "bias=2: expected a valid boolean"),
        ("epochs", True, "epochs=True: expected a number"),
        ("rate", False, "rate=False: expected a number"),
        ("name", 7.5, "name=7.5: expected a valid string"),
        ("kind", "smal", "kind='smal': expected one of small, large; did you mean 'small'"),
        ("kind", 7, "kind=7: expected one of small, large"),
        ("kind", None, "kind=None: expected one of small, large"),
        ("size", [1], r"size=\[1\]: expected a valid integer"),
        ("size", [7] * 1000, r"size=\[7, [7, ]{96}…: expected a valid integer"),
    ],
)
def test_values_that_make_no_sense(name, value, message):
    with pytest.raises(SettingError, match=f"^{message}"):
        build(**{name: value})


def test_settings_that_contradict_each_other():
    with pytest.raises(SettingError, match=r"^kind=large needs size=10 or more$"):
        build(kind="large", size=5)


def test_an_unknown_setting_names_the_nearest():
    with pytest.raises(SettingError, match="example has no setting 'epoch'; did you mean 'epochs'"):
        build(epoch=3)
    with pytest.raises(SettingError, match=r"no setting 'train.epoch'; did you mean 'train.epochs'"):
        build(train__epoch=3)
    with pytest.raises(SettingError, match=r"no setting 'model.epochs'; did you mean '.*epochs'"):
        build(model__epochs=3)
    with pytest.raises(SettingError, match=r"no setting 'xyzzy' \(`wenmai systems example` lists them\)"):
        build(xyzzy=3)
    with pytest.raises(SettingError, match="has no setting ''"):
        build(**{"": 3})


def test_a_name_in_two_sections_asks_which():
    with pytest.raises(SettingError, match=r"'seed' is in several sections; write model.seed or train.seed"):
        build(seed=3)


def test_assignments_of_the_command_line():
    assert parse_assignments(["epochs=3", " name = a=b ", "rate="]) == {"epochs": "3", "name": "a=b", "rate": ""}
    for wrong in ("epochs", "=3", " = 3"):
        with pytest.raises(SettingError, match="expected name=value, for example --set epochs=3"):
            parse_assignments([wrong])
    with pytest.raises(SettingError, match=r"^epochs was given twice; give it once"):
        parse_assignments(["epochs=3", "epochs = 4"])


# --- real settings ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", systems())
def test_every_setting_of_every_system_has_a_meaning_and_a_default_in_range(name):
    sections = systems()[name].load().sections
    found = settings_of(sections)
    assert [(setting.section, setting.name) for setting in found] == [
        (section, field.name) for section, kind in sections.items() for field in fields(kind)
    ]
    for setting in found:
        assert len(setting.meaning) > 5, setting
        hint = get_args(get_type_hints(sections[setting.section], include_extras=True)[setting.name])[0]
        if "Literal" in str(hint):
            chosen = setting.default if isinstance(setting.default, tuple) else [setting.default]
            assert set(chosen) <= set(setting.choices)
    defaults = {f"{setting.section}.{setting.name}": setting.default for setting in found}
    assert Recipe.build(name, sections, defaults).flat_settings() == defaults
    assert changed_settings(Recipe.build(name, sections, {})) == {}


@pytest.mark.parametrize("name", systems())
def test_every_setting_of_every_system_can_be_named_without_its_section(name):
    sections = systems()[name].load().sections
    names = [setting.name for setting in settings_of(sections)]
    assert len(names) == len(set(names))


# --- files --------------------------------------------------------------------------------------------------------

TEXT = st.text(max_size=12).filter(lambda text: text.lower() not in ("none", "null"))
PATH = st.binary(max_size=12).map(os.fsdecode) | TEXT  # names of files may be any bytes
RECIPES = st.builds(
    lambda corpus, start, **values: Recipe.build("example", SECTIONS, values, corpus=tuple(corpus), start=start),
    corpus=st.lists(PATH, max_size=3),
    start=st.none() | PATH,
    size=st.integers(10, 10**12),
    kind=st.sampled_from(["small", "large"]),
    bias=st.booleans(),
    name=TEXT,
    epochs=st.integers(1, 10**6),
    rate=st.none() | st.floats(min_value=0, exclude_min=True, allow_infinity=False),
    sample=st.floats(min_value=0, allow_infinity=False),
)


@settings(max_examples=200, deadline=None)
@given(RECIPES)
def test_a_recipe_is_read_as_it_was_written(tmp_path_factory, recipe):
    path = tmp_path_factory.getbasetemp() / "recipe.yaml"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda handle: None)  # 200 times would take seconds
        recipe.write(path)
    found = read_recipe(path)
    again = Recipe.build(
        found["system"], SECTIONS, found["settings"], corpus=tuple(found["corpus"]), start=found["start"]
    )
    assert again == recipe
    assert again.as_dict() == recipe.as_dict()


@pytest.mark.parametrize("name", systems())
def test_recipes_of_real_systems_come_back(tmp_path, name):
    system = systems()[name]
    sections = system.load().sections
    wanted = {"learning_rate": 3e-4, "checkpoint_seconds": 1e-05, "seed": 10**7}
    known = {setting.name for setting in settings_of(sections)}
    chosen = {setting: value for setting, value in wanted.items() if setting in known}
    recipe = Recipe.build(name, sections, {**system.settings, **chosen})
    recipe.write(tmp_path / "recipe.yaml")
    found = read_recipe(tmp_path / "recipe.yaml")
    assert Recipe.build(name, sections, found["settings"]) == recipe
    assert found["settings"].get("train.learning_rate", 3e-4) == 3e-4  # a number for any reader of YAML


def test_every_setting_of_a_file_has_its_meaning_beside_it(tmp_path):
    recipe = build(sample=1e-05, bias=False, name="是: #1")
    recipe.write(tmp_path / "recipe.yaml")
    lines = (tmp_path / "recipe.yaml").read_text(encoding="utf-8").splitlines()
    assert lines[:4] == ["version: 1", 'system: "example"', "corpus: []", "start: null"]
    for setting in settings_of(SECTIONS):
        assert any(line.startswith(f"  {setting.name}: ") and line.endswith(f"# {setting.meaning}") for line in lines)
    assert "  sample: 1.0e-05  # threshold" in lines
    assert yaml.safe_load("\n".join(lines))["model"]["name"] == "是: #1"


def test_yaml_traps(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("version: 1\nsystem: example\ntrain: {sample: 3e-4, rate: 1e3, epochs: 0x10}\nmodel: {bias: no}\n")
    found = read_recipe(path)
    recipe = Recipe.build("example", SECTIONS, found["settings"])
    assert recipe.sections["train"] == TrainConfig(sample=3e-4, rate=1000.0, epochs=16)
    assert recipe.sections["model"].bias is False
    path.write_text("version: 1\nsystem: example\nmodel: {kind: no}\n")
    with pytest.raises(SettingError, match="kind=False: expected one of small, large"):
        Recipe.build("example", SECTIONS, read_recipe(path)["settings"])
    path.write_text("version: 1\nsystem: example\ntrain: {epochs: yes}\n")
    with pytest.raises(SettingError, match="epochs=True: expected a number"):
        Recipe.build("example", SECTIONS, read_recipe(path)["settings"])


def test_a_corpus_may_be_one_path(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("version: 1\nsystem: example\ncorpus: text.txt\nstart: runs/old\n")
    assert read_recipe(path) == {"system": "example", "corpus": ["text.txt"], "start": "runs/old", "settings": {}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is not a recipe; expected at least"),
        ("just text", "is not a recipe"),
        ("- a\n- b", "is not a recipe"),
        ("version: 1", "is not a recipe"),
        ("system: example", "reads recipes of `version: 1`"),
        ("version: 2\nsystem: example", "reads recipes of `version: 1`"),
        ("version: 1\nsystem: [a]", "`system` must be a name and `corpus` a list of paths"),
        ("version: 1\nsystem: a\ncorpus: 7", "`corpus` a list of paths"),
        ("version: 1\nsystem: a\ncorpus: [7]", "`corpus` a list of paths"),
        ("version: 1\nsystem: a\nstart: 7", "`start` must be the path of a run"),
        ("version: 1\nsystem: a\nepochs: 3", "`epochs` must be a section with settings in it, not 3"),
        ("version: 1\nsystem: a\ntrain:", "`train` must be a section"),
        ("version: 1\nsystem: a\ntrain: [", "is not YAML"),
        ("version: 1\nsystem: !!python/object/apply:os.system [ls]", "is not YAML"),
        ("version: 1\nsystem: a\n7: {a: 2001-02-30}", "is not YAML"),
        ("version: 1\nsystem: a\ntrain: {[a]: 1}", "is not YAML"),
        ("\0", "is not YAML"),
    ],
)
def test_files_that_are_no_recipes(tmp_path, content, message):
    path = tmp_path / "recipe.yaml"
    path.write_text(content)
    with pytest.raises(SettingError, match=r"recipe.yaml: ") as error:
        read_recipe(path)
    assert message in str(error.value)


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "latin").write_bytes(b"version: 1\nsystem: caf\xe9")
    with pytest.raises(SettingError, match="latin: is not YAML"):
        read_recipe(tmp_path / "latin")
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(SettingError, match="cannot be read"):
            read_recipe(path)


@pytest.mark.parametrize(
    ("former", "now"),
    [
        ("normalise: nfc, case: keep", (True, False, False)),
        ("normalise: nfkc, case: lower", (True, True, True)),
        ("normalise: none", (False, False, False)),
    ],
)
def test_a_recipe_may_have_the_former_names_of_settings(tmp_path, former, now):
    path = tmp_path / "recipe.yaml"
    path.write_text(f"version: 1\nsystem: example\ntokenizer: {{{former}, kind: words}}\n")
    sections = {"tokenizer": TokenizerConfig}
    found = Recipe.build("example", sections, read_recipe(path)["settings"]).sections["tokenizer"]
    assert (found.nfc, found.nfkc, found.lowercase) == now
    assert found.kind == "words"
    path.write_text("version: 1\nsystem: example\ntokenizer: {case: upper}\n")
    with pytest.raises(SettingError, match=r"no setting 'tokenizer\.case'"):
        Recipe.build("example", sections, read_recipe(path)["settings"])


# each list has the one before ten times: 10^30 words
_LISTS = ", ".join(["&a0 [x]", *(f"&a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 31))])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "brackets within brackets"),
        ("version: 1\nsystem: " + "{a: " * 5000, "brackets within brackets"),
        ("version: 1\ncorpus: [" + "a, " * 500_000, "larger than a recipe can be, 1 MiB; to train on many files"),
        ("- " * 20_000, "is not YAML"),
        (f"version: 1\nsystem: word2vec\nmodel: [{_LISTS}]\n", "in several places"),
        (f"version: 1\nsystem: word2vec\nmodel:\n  window: [{_LISTS}]\n", "in several places"),
    ],
)
def test_what_yaml_would_take_long_to_read_is_refused(text, message, tmp_path):
    (tmp_path / "recipe.yaml").write_text(text)
    started = time.process_time()
    with pytest.raises(SettingError, match=message):
        read_recipe(tmp_path / "recipe.yaml")
    assert time.process_time() - started < 2


def test_brackets_one_after_the_other_are_fine(tmp_path):
    path = tmp_path / "recipe.yaml"
    names = ", ".join(['"a[0-9].txt"'] * 200)
    path.write_text(f"version: 1\nsystem: word2vec\ncorpus: [{names}]\n")
    assert len(read_recipe(path)["corpus"]) == 200


def test_what_is_not_yaml_is_refused_in_one_line(tmp_path):
    path = tmp_path / "recipe.yaml"
    for content in (b"system: a\x7fb", b"system: [", b"a: b: c", b"system: \xff", b"\t- a"):
        path.write_bytes(content)
        with pytest.raises(SettingError, match="is not YAML") as refused:
            read_recipe(path)
        assert "\n" not in str(refused.value)
