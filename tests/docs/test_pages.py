"""Pages say what is true: their Python runs, their commands exist, their tables of settings are those of the code."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import typer

from wenmai.cli.main import app
from wenmai.cli.settings import setting_value as shown
from wenmai.config.recipe import parse_assignments, settings_of
from wenmai.core.registry import systems
from wenmai.data.datasets import datasets
from wenmai.data.occurrences import OccurrenceConfig
from wenmai.formats.format import formats
from wenmai.runs.occurrences import INDEX_SETTINGS, occurrence_settings

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "README.zh.md", *sorted((ROOT / "docs").glob("*.md"))]
OURS = [page for page in PAGES if page.name != "benchmarks.md"]  # which is generated
# Those that run as wholes, in test_tutorial.py.
TUTORIALS = (
    "tutorial.md",
    "attention.md",
    "lineage.md",
    "one-word-many-meanings.md",
    "one-word-many-meanings.zh.md",
    "your-own-classifier.md",
    "your-own-classifier.zh.md",
)
SETTINGS = {name: settings_of(system.load().sections) for name, system in systems().items()}

FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def anchors(page: str) -> set[str]:
    """The names that headings can be linked by, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands(page: str) -> Iterator[str]:
    """The wenmai commands of a page: lines of blocks, and code within text."""
    for kind, block in FENCED.findall(page):
        for line in re.sub(r"\\\n\s*", "", block).splitlines() if kind != "python" else []:
            if found := re.match(r"(?:\$ )?(wenmai .+)", line):
                yield re.split(r"\s+# |   +", found[1])[0].strip()
    yield from re.findall(r"`(wenmai [^`]+)`", FENCED.sub("", page))


# --- code -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [page for page in OURS if page.name not in TUTORIALS], ids=lambda page: page.name)
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = "".join(block for kind, block in FENCED.findall(read(page)) if kind == "python")
    exec(compile(code, str(page), "exec"), {})


@pytest.fixture(scope="module")
def every_verb() -> Any:
    return typer.main.get_command(app)


@pytest.mark.parametrize("page", OURS, ids=lambda page: page.name)
def test_commands_can_be_parsed(page: Path, every_verb: Any) -> None:
    for line in commands(read(page)):
        if "VERB" in line:
            continue
        words = shlex.split(line)[1:]
        command = every_verb
        context = command.make_context("wenmai", [], resilient_parsing=True)
        while hasattr(command, "commands") and words and not words[0].startswith("-"):
            verb = command.get_command(context, words[0])
            assert verb is not None, f"{page.name}: no verb {words[0]!r} in {line!r}"
            command, words = verb, words[1:]
        if words and not {"--help", "--version", "--install-completion", "--show-completion"} & set(words):
            context = command.make_context(command.name, words)  # fails for unknown options and missing arguments
            chosen = parse_assignments(context.params.get("settings") or [])
            export = formats().get(context.params.get("name")) if command.name == "export" else None
            every = (
                settings_of({"export": export.settings})
                if export and export.settings
                else chain.from_iterable(SETTINGS.values())
            )
            known = SETTINGS.get(context.params.get("system"), list(every))
            assert not chosen.keys() - {"name"} - {setting.name for setting in known}, line


def test_commands_are_found() -> None:
    page = "```\n$ wenmai train a --set x=1   # why\n```\nUse `wenmai data list`.\n```python\nwenmai is = 1\n```\n"
    assert list(commands(page)) == ["wenmai train a --set x=1", "wenmai data list"]


# --- settings -------------------------------------------------------------------------------------------------------


def test_every_setting_is_in_the_glossary() -> None:
    listed = re.findall(
        r"^\| `(\w+)` \((\w+)\) \| [^|]*[\u4e00-\u9fff][^|]* \| ", read(ROOT / "docs/glossary.md"), re.M
    )
    known = {(setting.name, setting.section) for setting in chain.from_iterable(SETTINGS.values())}
    assert sorted(listed) == sorted(known)


def tables(page: str, heading: str) -> Iterator[list[str]]:
    """The cells of each row, without code marks, of the tables of a page that begin with a heading."""
    for table in re.split(r"\n\n", page):
        if table.startswith(heading):
            for row in table.splitlines()[2:]:
                yield [re.sub("^`([^`]*)`$", r"\1", cell.strip()) for cell in row.strip("|").split(" | ")]


def test_every_setting_of_word2vec_is_explained_with_its_default() -> None:
    rows = [row for page in ("word2vec.md", "corpora.md") for row in tables(read(ROOT / "docs" / page), "| setting |")]
    defaults = {setting.name: shown(setting.default) for setting in SETTINGS["word2vec"]}
    assert sorted(row[0] for row in rows) == sorted(defaults)
    assert {row[0]: row[1] for row in rows} == defaults


def is_network(system: str) -> bool:
    """Whether its settings but those of the model are explained for all networks together."""
    return hasattr(systems()[system].load_model(), "config_class")


@pytest.mark.parametrize("system", [name for name in systems() if f"\n## {name}\n" in read(ROOT / "docs/language.md")])
def test_every_setting_of_a_language_model_is_explained_with_its_default(system: str) -> None:
    page = read(ROOT / "docs" / "language.md")
    (found,) = (part for part in page.split("\n## ") if part.startswith(f"{system}\n"))
    implied = systems()[system].settings
    defaults = {
        setting.name: shown(implied.get(setting.name, setting.default))
        for setting in SETTINGS[system]
        if setting.section == "model" or not is_network(system)
    }
    assert {row[0]: row[1] for row in tables(found, "| setting |")} == defaults


def test_every_setting_of_translation_is_explained_with_its_default() -> None:
    rows = list(tables(read(ROOT / "docs/translation.md"), "| setting |"))
    assert len({row[0] for row in rows}) == len(rows)
    for column, name in enumerate(("transformer", "seq2seq"), start=1):
        implied = systems()[name].settings
        defaults = {setting.name: shown(implied.get(setting.name, setting.default)) for setting in SETTINGS[name]}
        defaults = {setting: default for setting, default in defaults.items() if not is_fixed(name, setting)}
        assert {row[0]: row[column] for row in rows if row[column] != "–"} == defaults


@pytest.mark.parametrize(
    ("page", "place", "system"),
    [
        ("static.md", 0, "fasttext"),
        ("static.md", 1, "glove"),
        ("static.md", 2, "ppmi-svd"),
        ("classification.md", 0, "fasttext-supervised"),
        ("classification.md", 1, "classifier"),
    ],
)
def test_every_setting_of_a_static_system_is_explained_with_its_default(page: str, place: int, system: str) -> None:
    text = read(ROOT / "docs" / page)
    table = [part for part in text.split("\n\n") if part.startswith("| setting |")][place]
    implied = systems()[system].settings
    defaults = {
        setting.name: shown(implied.get(setting.name, setting.default))
        for setting in SETTINGS[system]
        if setting.section not in (("text", "vocab") if page == "static.md" else ("text",))
    }
    assert {row[0]: row[1] for row in tables(table, "| setting |")} == defaults


def test_every_setting_of_fine_tuning_is_explained_with_its_default() -> None:
    implied = systems()["finetuned-classification"].settings
    defaults = {
        setting.name: shown(implied.get(setting.name, setting.default))
        for setting in SETTINGS["finetuned-classification"]
        if setting.section != "train"
    }
    assert {row[0]: row[1] for row in tables(read(ROOT / "docs/finetuning.md"), "| setting |")} == defaults
    assert all(SETTINGS[name] == SETTINGS["finetuned-pair"] for name in SETTINGS if name.startswith("finetuned-"))


def test_every_setting_of_occurrences_is_explained_with_its_defaults() -> None:
    rows = [*tables(read(ROOT / "docs/one-word-many-meanings.md"), "| setting | index |")]
    for column, chosen in ((1, INDEX_SETTINGS), (2, {})):
        found = occurrence_settings(dict(chosen))
        assert {row[0]: row[column] for row in rows} == {
            field.name: shown(getattr(found, field.name)) for field in fields(OccurrenceConfig)
        }


def is_fixed(system: str, name: str) -> bool:
    """Whether there is nothing to choose: the kind of a model, unlike the kind of a tokenizer."""
    return name == "kind" and all(setting.section == "model" for setting in SETTINGS[system] if setting.name == name)


@pytest.mark.parametrize("name", ["transformer-base", "transformer-big"])
def test_sizes_of_larger_models_are_those_of_the_page(name: str) -> None:
    (row,) = [row for row in tables(read(ROOT / "docs/translation.md"), "| system |") if row[0] == name]
    implied = systems()[name].settings
    told = {setting: str(implied[setting]) for setting in ("ffn_size", "batch_tokens", "dropout") if setting in implied}
    assert dict(re.findall(r"`(\w+)=([\d.]+)`", row[1])) == told
    assert all(str(implied[setting]) in row[1] for setting in ("hidden_size", "num_layers", "num_heads"))


def test_every_system_is_explained() -> None:
    pages = "".join(map(read, OURS))
    assert not [name for name in systems() if f"| `{name}` |" not in pages]


def test_every_labelled_set_is_named() -> None:
    assert [row[0] for row in tables(read(ROOT / "docs/corpora.md"), "| name | language |")] == list(datasets())


# --- pages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", OURS, ids=lambda page: page.name)
def test_links_lead_to_headings(page: Path) -> None:
    for target, heading in re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", read(page)):
        linked = page.parent / target if target else page
        assert heading in anchors(read(linked)), f"{target}#{heading}"


CHINESE = sorted((ROOT / "docs").glob("*.zh.md"))


def english_of(page: Path) -> Path:
    """The page that a Chinese one is the twin of."""
    return page.with_name(page.name.replace(".zh.md", ".md"))


def shape(page: str) -> list[str]:
    """How its lines begin, of headings, lists, tables and blocks of code."""
    outside = re.sub(r"^(```\w*\n)(.*?)^```$", r"\1", page, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"^(?:#+ |- |\d+\. |\| |!|<!--|```\w*)", outside, re.MULTILINE)


@pytest.mark.parametrize("page", CHINESE, ids=lambda page: page.name)
def test_twins_name_each_other(page: Path) -> None:
    other = english_of(page)
    assert f"\n[English]({other.name})\n" in read(page)
    assert f"\n[中文]({page.name})\n" in read(other)


@pytest.mark.parametrize("page", [page for page in CHINESE if page.name != "ernie.zh.md"], ids=lambda page: page.name)
def test_twins_have_the_same_parts(page: Path) -> None:
    """The data and the commands of a tutorial are its own; its headings and settings are not."""
    wanted = "^#+ " if page.name in TUTORIALS else "^.*"

    def parts(text: str) -> list[str]:
        return [line for line in shape(text) if re.match(wanted, line)]

    def settings(text: str) -> list[tuple[str, ...]]:
        return re.findall(r"^\| (`\w+`) \| (`[^|]+`) \|", text, re.MULTILINE)

    assert parts(read(page)) == parts(read(english_of(page)))
    assert settings(read(page)) == settings(read(english_of(page)))


@pytest.mark.parametrize("page", ["pinyin.zh.md", "ssan.zh.md"])
def test_twins_have_the_same_commands(page: str) -> None:
    def code(text: str) -> list[str]:
        return [re.sub(r"\s*#.*", "", line) for _, block in FENCED.findall(text) for line in block.splitlines()]

    assert code(read(ROOT / "docs" / page)) == code(read(english_of(ROOT / "docs" / page)))


def test_the_chinese_page_on_ernie_has_what_the_english_one_explains() -> None:
    """It is shorter, but its tables have the same rows."""

    def rows(name: str) -> list[list[str]]:
        first = [row.split(" | ")[0] for row in re.findall(r"^\| (`.*)", read(ROOT / "docs" / name), re.MULTILINE)]
        return sorted(re.findall(r"`([\w-]+)`", row) for row in first)

    assert rows("ernie.zh.md") == rows("ernie.md")


def test_every_page_is_linked_from_the_index() -> None:
    linked = set(re.findall(r"\]\(([\w.-]+)\)", read(ROOT / "docs/index.md")))
    assert not {page.name for page in (ROOT / "docs").glob("*.md")} - linked - {"index.md"}


FIRST = {(system.task, system.model): name for name, system in reversed(systems().items())}.values()  # without sizes


def test_the_lineage_names_every_system() -> None:
    named = read(ROOT / "docs/lineage.md").split("## The whole line")[1]
    assert not [system for system in FIRST if f"`{re.sub('^finetuned-.*', 'finetuned-…', system)}`" not in named]


def test_the_readmes_name_every_system_and_verb() -> None:
    verbs = typer.main.get_command(app).commands.keys() - {"help"}
    for name in ("README.md", "README.zh.md"):
        page = read(ROOT / name)
        assert not [system for system in FIRST if f"`{system}`" not in page]
        assert not [verb for verb in verbs if f"`{verb}`" not in page and not re.search(rf"\bwenmai {verb}\b", page)]


def test_the_two_readmes_are_twins() -> None:
    english, chinese = read(ROOT / "README.md"), read(ROOT / "README.zh.md")

    def code(page: str) -> list[list[str]]:
        """The first words of each command; texts and files are in the language of the page."""
        lines = "".join(block for _, block in FENCED.findall(page)).splitlines()
        return [line.split()[:2] for line in lines if line.startswith(("make ", "wenmai "))]

    def links(page: str) -> set[str]:
        targets = re.findall(r"\]\(([^)#][^)]*)\)", page)
        return {target.replace(".zh.md", ".md") for target in targets if not target.startswith("README")}

    assert code(english) == code(chinese)
    assert shape(english) == shape(chinese)
    assert links(english) == links(chinese)
