"""What a model is asked in its training, before or after it: examples as the model reads them.

The page is plain HTML (``page/preview.html``) and needs neither a script nor a network.
"""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from itertools import count
from pathlib import Path
from typing import Any, get_args

from wenmai.config.recipe import Recipe, read_recipe
from wenmai.core.errors import RunError, SettingError
from wenmai.core.folder import writing
from wenmai.core.registry import find_system
from wenmai.core.wording import say
from wenmai.data.pretraining import TASKS
from wenmai.data.sources import named_texts
from wenmai.runs.page import filled, require_page
from wenmai.runs.planning import plan
from wenmai.runs.train import training_of
from wenmai.tasks.asked import Asked, AskedToken, Fate
from wenmai.tasks.task import Job
from wenmai.training.callback import Callback
from wenmai.training.progress import following
from wenmai.training.run import Run

__all__ = ["Asked", "AskedToken", "asked_in_words", "preview", "visible", "write_preview_page"]

_SEGMENTS = 4  # that are told apart by colours


def preview(
    training: str | Path | Run, *, examples: int = 3, callback: Callback | None = None, quiet: bool = False
) -> list[list[Asked]]:
    """Returns what a model is asked in some examples of its training; nothing is trained.

    Args:
        training: A run, or the file of a recipe.
        examples: How many of each kind.
        callback: Follows the reading of the text; by default its progress is printed on standard error.
        quiet: Print only warnings.

    Returns:
        Groups of examples that ask about the same text, such as what three kinds of masking make of it.

    Raises:
        CorpusError: if the text of a recipe cannot be read.
        RunError: if there is no run, or its text is gone or has changed.
        SettingError: if the training has no examples that can be put in words, or the recipe has a mistake.
    """
    if examples < 1:
        raise SettingError(f"examples={examples}: expected at least 1")
    if not isinstance(training, Run) and not os.path.isfile(training):
        if not os.path.exists(training):
            raise RunError(f"{training}: no such run folder or recipe")
        training = Run(training)
    if isinstance(training, Run):
        _require_examples(training.recipe.system)
        if "imported" in training.summary:
            raise RunError(f"{training.path}: was imported without its training text; there is nothing to show")
        run = Run(training.path)
        run.recipe = _on_cpu(run.recipe)
        return training_of(run).asked(examples)
    with following(callback, quiet=quiet) as follower:
        return _begun(Path(training), follower).asked(examples)


def _begun(path: Path, callback: Callback) -> Job:
    """Begins a training by a recipe, without a folder."""
    found = read_recipe(path)
    _require_examples(found["system"])
    if not found["corpus"]:
        raise SettingError(f"{path}: names no corpus; add `corpus: [PATH]`")
    recipe, opened = plan(found["system"], named_texts(found["corpus"]), start=found["start"], **found["settings"])
    recipe = _on_cpu(recipe)
    for note in opened.notes:
        callback.note(note)
    task = find_system(recipe.system).load()
    base = None if recipe.start is None else Run(recipe.start).read_base()
    job: Job = task.begin(recipe, task.source.read(recipe, opened.source, callback.encoding_corpus, base), base)
    return job


def _require_examples(system: str) -> None:
    """Makes sure, before a text is read, that a training can have examples in words."""
    if not find_system(system).load().previewed:
        raise SettingError(f"{system}: its training has no examples that can be put in words")


def _on_cpu(recipe: Recipe) -> Recipe:
    """Returns a recipe for this machine, whatever it was made for."""
    train: Any = recipe.sections["train"]
    return replace(recipe, sections={**recipe.sections, "train": replace(train, device="cpu")})


def asked_in_words(asked: Asked) -> str:
    """Returns in one line what is asked in an example."""
    fates = Counter(token.fate for token in asked.tokens if token.fate is not None)
    counts = ", ".join(say(f"{fates[fate]} {fate}") for fate in get_args(Fate) if fates[fate])
    task = asked.task if asked.task in TASKS else say(asked.task)  # the names of tasks are settings
    line = say("{task}: {tokens} tokens", task=task, tokens=len(asked.tokens))
    if counts:
        line += f" ({counts})"
    return f"{line} -> {asked.label}" if asked.label else line


def visible(token: str) -> str:
    """Returns a token as it can be seen: white space as ␣."""
    return "␣" if token.isspace() else token


# --- the page -------------------------------------------------------------------------------------------------------


def write_preview_page(path: str | Path, groups: Sequence[Sequence[Asked]], *, training: str, system: str) -> None:
    """Writes a page of examples, whole or not at all.

    Args:
        path: The page.
        groups: The examples.
        training: The run or the recipe.
        system: Its system.

    Raises:
        SettingError: see :func:`wenmai.runs.page.require_page`.
    """
    require_page(path, "preview.html")
    tokens = [token for group in groups for one in group for token in one.tokens]
    fates = [fate for fate in get_args(Fate) if any(token.fate == fate for token in tokens)]
    legend = [f'<span class="fate {fate}">{escape(say(fate))}</span>' for fate in fates]
    legend += [
        f'<span class="s{number}">{escape(say("segment {number}", number=number))}</span>'
        for number in range(1, _SEGMENTS)
        if any(token.segment == number for token in tokens)
    ]
    page = filled(
        "preview",
        title=escape(say("What the model is asked")),
        byline="".join(f"<span>{escape(one)}</span>" for one in (training, system)),
        legend="".join(legend),
        examples="\n".join(_section(number, group) for number, group in zip(count(1), groups, strict=False)),
    )
    with writing(path) as file:
        file.write(page.encode("utf-8", "replace"))  # a lone surrogate becomes "?"


def _section(number: int, group: Sequence[Asked]) -> str:
    columns = "".join(
        f"<article><h3>{escape(asked_in_words(one))}</h3><p>{''.join(map(_token, one.tokens))}</p></article>"
        for one in group
    )
    title = escape(say("text {number}", number=number))
    return f'<section><h2>{title}</h2><div class="examples">{columns}</div></section>'


def _token(token: AskedToken) -> str:
    """Returns a token, with its answer above it."""
    shown, space = escape(visible(token.shown)), "" if token.shown.startswith("##") else " "
    segment = f"s{token.segment % _SEGMENTS}" if token.segment % _SEGMENTS else ""
    if token.fate is None:
        return f'{space}<span class="{segment}">{shown}</span>' if segment else f"{space}{shown}"
    ruby = f'<ruby class="fate {token.fate}">{shown}<rt>{escape(visible(token.answer))}</rt></ruby>'
    return f'{space}<span class="{f"{segment} token".strip()}">{ruby}</span>'
