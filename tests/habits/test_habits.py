"""Habits of the whole code base that no linter knows: names, documentation, what is imported, what is forbidden."""

import ast
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from wenmai.core.registry import systems

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "wenmai").rglob("*.py"))

HEAVY = {"numba", "numpy", "opencc", "pydantic", "rich", "rjieba", "scipy", "sklearn", "torch", "typer", "zstandard"}
UNSAFE_MODULES = {"cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve"}
UNSAFE_CALLS = {
    "__import__",
    "compile",
    "eval",
    "exec",
    "torch.load",
    "yaml.full_load",
    "yaml.load",
    "yaml.unsafe_load",
}
VAGUE_NAMES = {"base", "common", "helpers", "misc", "util", "utils"}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = [module_name(path) for path in SOURCES if path.stem != "__main__"]


def loaded_by(code: str) -> set[str]:
    """The top-level packages that a fresh interpreter has after running some code."""
    code += "\nimport json, sys; sys.stderr.write(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.splitlines()[-1]))


# --- imports ------------------------------------------------------------------------------------------------------


def test_every_module_imports() -> None:
    for name in MODULES:
        importlib.import_module(name)


def test_the_package_imports_nothing_heavy() -> None:
    assert not loaded_by("import wenmai") & HEAVY


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "None")],
    ids=["by default", "a number", "a policy"],
)
def test_waiting_threads_soon_sleep_unless_told_otherwise(given: dict[str, str], expected: str) -> None:
    kept = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    code = "import os, wenmai; print(os.environ.get('GOMP_SPINCOUNT'))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=kept | given, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == expected


def test_help_does_not_load_what_computes() -> None:
    show_help = "import sys\nfrom wenmai.cli.main import main\nsys.argv = ['wenmai', '--help']\n"
    show_help += "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code"
    assert not loaded_by(show_help) & {"numba", "numpy", "opencc", "rjieba", "scipy", "sklearn", "torch"}


NEURAL_ROOMS = ("nn", "decode", "objectives")  # what the extra `neural` is for
MIXED_ROOMS = ("formats", "inference", "models", "tasks", "training")  # some of whose modules are for torch models


def without_torch() -> set[str]:
    """The modules that must work without the extra: whole rooms, and what systems without a network are made of."""
    shared = {name for name in MODULES if name.split(".")[1:2] and name.split(".")[1] in NEURAL_ROOMS + MIXED_ROOMS}
    plain = [system for system in systems().values() if system.sections is None]
    return set(MODULES) - shared | {target.partition(":")[0] for one in plain for target in (one.task, one.model)}


def test_everything_else_imports_without_torch_and_without_a_warning() -> None:
    absent = (
        "import importlib, sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'torch':\n"
        "            raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
    )
    light = sorted(without_torch())
    assert {"wenmai.runs.compare", "wenmai.tasks.word2vec", "wenmai.models.ngram"} <= set(light)
    assert "wenmai" in loaded_by(absent + f"for name in {light}: importlib.import_module(name)")


# --- names and documentation --------------------------------------------------------------------------------------


def is_marker(tree: ast.Module) -> bool:
    """Whether a module only says what its package is for."""
    return all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in tree.body)


def test_every_module_says_what_is_public() -> None:
    for path in SOURCES:
        tree = ast.parse(path.read_bytes())
        assert ast.get_docstring(tree), f"{path} has no docstring"
        if not is_marker(tree) and path.stem != "__main__":
            names = importlib.import_module(module_name(path)).__all__
            assert len(names) == len(set(names)), path


def undocumented(module: object, names: list[str]) -> list[str]:
    """The functions and classes, and public methods of these classes, that have no docstring; overrides need none."""
    missing = []
    for name in names:
        value = getattr(module, name)
        if inspect.isclass(value):
            if not (value.__doc__ or "").strip() or value.__doc__.startswith(f"{name}("):  # made by dataclass
                missing.append(name)
            members = {key: member for key, member in vars(value).items() if not key.startswith("_")}
            missing += [f"{name}.{key}" for key, member in members.items() if is_bare(member)]
        elif is_bare(value):
            missing.append(name)
    return missing


def is_bare(value: object) -> bool:
    function = getattr(value, "__func__", value)  # class and static methods
    is_type_alias = typing.get_origin(function) is not None
    has_text = (callable(function) and not is_type_alias) or isinstance(function, property)
    is_override = getattr(function, "__override__", False)
    return has_text and not is_override and not (getattr(function, "__doc__", None) or "").strip()


def test_every_public_name_is_documented() -> None:
    modules = {name: importlib.import_module(name) for name in MODULES}
    missing = {name: undocumented(module, getattr(module, "__all__", [])) for name, module in modules.items()}
    assert not {name: names for name, names in missing.items() if names}


def test_a_missing_docstring_is_noticed() -> None:
    class Example:
        """An example."""

        def described(self) -> None:
            """Has a docstring."""

        def bare(self) -> None:
            pass

    module = type("module", (), {"Example": Example, "bare": lambda: None, "NUMBER": 1, "Kind": Literal["a"]})
    assert undocumented(module, ["Example", "bare", "NUMBER", "Kind"]) == ["Example.bare", "bare"]


def test_no_module_has_a_name_that_says_nothing() -> None:
    vague = {name for name in MODULES if name.split(".")[-1].strip("_") in VAGUE_NAMES}
    assert vague == {"wenmai.fasttext.util"}  # an official name


# --- safety -------------------------------------------------------------------------------------------------------


def unsafe(code: str | bytes) -> Iterator[str]:
    """Yields what can run code from a file: ``line: what``."""
    for node in ast.walk(ast.parse(code)):
        found = set()
        if isinstance(node, ast.Import):
            found = {alias.name.split(".")[0] for alias in node.names} & UNSAFE_MODULES
        elif isinstance(node, ast.ImportFrom):
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            found = whole & UNSAFE_CALLS | {str(node.module).split(".")[0]} & UNSAFE_MODULES
        elif isinstance(node, ast.Call):
            found = {ast.unparse(node.func)} & UNSAFE_CALLS
            for keyword in node.keywords:
                refused = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
                if keyword.arg == "allow_pickle" and not refused:
                    found.add("allow_pickle")
        for name in sorted(found):
            yield f"{getattr(node, 'lineno', 0)}: {name}"


def test_nothing_can_run_code_from_a_file() -> None:
    assert not {path: found for path in SOURCES if (found := [*unsafe(path.read_bytes())])}


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from pickle import loads",
        "import os, joblib.numpy_pickle",
        "x = eval('1')",
        "exec(text)",
        "yaml.load(file)",
        "from yaml import unsafe_load",
        "torch.load(path, weights_only=True)",
        "np.load(path, allow_pickle=True)",
        "np.load(path, allow_pickle=flag)",
    ],
)
def test_unsafe_code_is_noticed(code: str) -> None:
    assert len(list(unsafe(code))) == 1


@pytest.mark.parametrize(
    "code", ["re.compile('a')", "yaml.safe_load(file)", "np.load(path, allow_pickle=False)", "model.eval()"]
)
def test_safe_code_is_let_through(code: str) -> None:
    assert not list(unsafe(code))


# --- pages --------------------------------------------------------------------------------------------------------


PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    local = [target for target in targets if not re.match(r"[a-z]+:", target)]
    assert not [target for target in local if not (page.parent / target).exists()]


def test_decisions_are_numbered_without_gaps_and_have_one_form() -> None:
    records = sorted((ROOT / "docs" / "adr").glob("*.md"))
    assert [int(record.name[:4]) for record in records] == list(range(1, len(records) + 1))
    for record in records:
        headings = re.findall(r"^## (.*)$", record.read_text(), re.MULTILINE)
        assert headings == ["Context", "Options", "Decision", "Consequences"], record.name


# --- time ---------------------------------------------------------------------------------------------------------


def test_only_the_clock_that_leaves_compiling_out_times_work() -> None:
    free = {"wenmai.core.clock", "wenmai.training.progress"}  # the clock itself, and what a person waits
    timing = re.compile(r"\b(?:monotonic|perf_counter|process_time)\b")
    assert not [
        module_name(path) for path in SOURCES if timing.search(path.read_text()) and module_name(path) not in free
    ]
