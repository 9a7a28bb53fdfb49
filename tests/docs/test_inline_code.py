"""Python within sentences and tables of the pages: every name exists, and every call has arguments that it takes."""

import ast
import importlib
import inspect
import re
import typing
from pathlib import Path
from typing import Any

import pytest

import wenmai
from wenmai.config.recipe import settings_of
from wenmai.core.registry import systems
from wenmai.training.run import Run
from wenmai.vectors.subword_vectors import SubwordVectors

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / name for name in ("README.md", "README.zh.md", "CONTRIBUTING.md")] + sorted(ROOT.glob("docs/*.md"))
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)

# What the names of the pages stand for: each is a value of one of these classes.
MODELS = [
    SubwordVectors,
    *(
        getattr(importlib.import_module(f"wenmai.inference.{module}"), name)
        for module, name in (
            ("language_model", "LanguageModel"),
            ("masked_model", "MaskedModel"),
            ("linear_classifier", "LinearTextClassifier"),
            ("ngram_model", "NgramModel"),
            ("pinyin_model", "PinyinModel"),
            ("relations", "RelationModel"),
            ("text_classifier", "TextClassifier"),
            ("translator", "Translator"),
        )
    ),
]
VALUES = {"run": [Run], "vectors": [SubwordVectors], "translator": MODELS[-1:]}
FREE = {"Run.model": MODELS, "Run.vectors": [SubwordVectors]}  # what has no plain annotation
RETURNED = {"wenmai.load": MODELS}


def inline(page: str) -> list[str]:
    """The Python expressions of a page that begin with one of ours; other libraries stand in first columns."""
    return [code for code in re.findall(r"`([^`\n]+)`", FENCED.sub("", page)) if is_ours(code)]


def is_ours(code: str) -> bool:
    try:
        names = {node.id for node in ast.walk(ast.parse(code, mode="eval")) if isinstance(node, ast.Name)}
    except SyntaxError:  # a command, or a pattern
        return False
    is_file = re.fullmatch(r"\w+\.(?:bin|json|jsonl|tsv|txt|yaml)", code)
    return bool(names & {"wenmai", *VALUES}) and not is_file


def resolved(node: ast.expr) -> tuple[str, list[Any]]:
    """Returns the path of an expression and what it may be; nothing where this is not known.

    Raises:
        AssertionError: if a name does not exist, or a call has wrong arguments.
    """
    if isinstance(node, ast.Name):
        return node.id, [wenmai] if node.id == "wenmai" else VALUES.get(node.id, [])
    if isinstance(node, ast.Attribute):
        path, owners = resolved(node.value)
        found = [member(owner, node.attr) for owner in owners if has(owner, node.attr)]
        assert found or not owners, f"{path} has no {node.attr}"
        path = f"{owners[0].__name__ if owners and owners != [wenmai] else path}.{node.attr}"
        return path, FREE.get(path, [kind for value in found for kind in kinds(value)])
    if isinstance(node, ast.Call):
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            resolved(argument)
        path, functions = resolved(node.func)
        if path == "next":
            return path, [typing.get_args(kind)[0] for kind in resolved(node.args[0])[1] if typing.get_args(kind)]
        problems = [problem for function in functions if (problem := misfit(path, function, node))]
        assert not functions or len(problems) < len(functions), problems[0]  # a verb differs from model to model
        return path, RETURNED.get(path, [result for function in functions for result in results(function)])
    return ast.unparse(node), []


def has(owner: Any, name: str) -> bool:
    try:
        return hasattr(owner, name) or bool(importlib.import_module(f"{owner.__name__}.{name}"))
    except ImportError:
        bases = owner.__mro__ if inspect.isclass(owner) else (owner,)
        return any(name in vars(base).get("__annotations__", {}) for base in bases)


def member(owner: Any, name: str) -> Any:
    return getattr(owner, name, None)


def kinds(value: Any) -> list[Any]:
    """A property stands for what it returns."""
    return results(value.fget) if isinstance(value, property) else [value]


def results(function: Any) -> list[Any]:
    if inspect.isclass(function):
        return [function]
    try:
        found = typing.get_type_hints(function).get("return")
    except (NameError, TypeError):
        return []
    return [found] if found is not None and found is not Any else []


def misfit(path: str, function: Any, node: ast.Call) -> str:
    """Says what is wrong with the arguments of a call; nothing if all is well."""
    named = {keyword.arg: None for keyword in node.keywords if keyword.arg is not None}
    bound = [None] * len(node.args)
    if (
        not inspect.isclass(function)
        and "." in getattr(function, "__qualname__", "")
        and not inspect.ismethod(function)
    ):
        bound.insert(0, None)  # self
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a function of C
        return ""
    try:
        signature.bind(*bound, **named)
    except TypeError as error:
        return f"{path}: {error}"
    if path == "wenmai.train" and isinstance(node.args[0], ast.Constant):
        known = {setting.name for setting in settings_of(systems()[node.args[0].value].load().sections)}
        return ", ".join(set(named) - set(signature.parameters) - known)
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_inline_python_exists(page: Path) -> None:
    for code in inline(page.read_text(encoding="utf-8")):
        try:
            resolved(ast.parse(code, mode="eval").body)
        except AssertionError as error:
            pytest.fail(f"{page.name}: `{code}`: {error}")


@pytest.mark.parametrize(
    "code",
    [
        'vectors.get_nothing("where")',
        'wenmai.load("runs/lm").scoring("text")',
        'next(wenmai.load("runs/lm").score(["text"])).log11',
        "run.model.scorings(lines)",
        "wenmai.formats.word2vec.read_nothing(path)",
        'wenmai.train("word2vec", sentences, vectorsize=100)',
        "wenmai.evaluate()",
        "wenmai.nothing",
    ],
)
def test_what_does_not_exist_is_noticed(code: str) -> None:
    assert inline(f"| a | `{code}` |") == [code]
    with pytest.raises(AssertionError):
        resolved(ast.parse(code, mode="eval").body)


def test_the_pages_have_inline_python() -> None:
    assert sum(len(inline(page.read_text(encoding="utf-8"))) for page in PAGES) > 25
