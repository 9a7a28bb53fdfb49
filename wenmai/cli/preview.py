"""``wenmai preview``: what a model is asked in its training."""

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wenmai.cli.completion import complete_run
from wenmai.cli.options import JsonLines, Quiet
from wenmai.core.columns import text_width

if TYPE_CHECKING:
    from wenmai.tasks.asked import Asked

__all__ = ["preview"]


def preview(
    training: Annotated[
        Path,
        typer.Argument(metavar="RUN_OR_RECIPE", help="A run folder, or a recipe.", autocompletion=complete_run),
    ],
    examples: Annotated[int, typer.Option("--examples", "-n", min=1, help="How many of each kind.")] = 1,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write them as a page.")] = None,
    as_json: JsonLines = False,
    quiet: Quiet = False,
) -> None:
    """Show what a training asks of its model, without training.

    Under each token stands the answer, where one is asked for. What several tasks make of the same text comes one
    after the other.

    Example: wenmai preview runs/bert

    Example: wenmai preview recipe.yaml -n 3 --html preview.html
    """
    from wenmai.config.recipe import read_recipe
    from wenmai.runs.page import require_page
    from wenmai.runs.preview import asked_in_words, write_preview_page
    from wenmai.runs.preview import preview as previewed
    from wenmai.training.run import RECIPE

    require_page(html, "preview.html")
    groups = previewed(training, examples=examples, quiet=quiet)
    if html is not None:  # before anything is printed, which a closed pipe would end
        recipe = training / RECIPE if training.is_dir() else training
        write_preview_page(html, groups, training=str(training), system=read_recipe(recipe)["system"])
    for number, group in enumerate(groups, start=1):
        for one in group:
            if as_json:
                tokens = [token._asdict() for token in one.tokens]
                print(json.dumps({"text": number, **one._asdict(), "tokens": tokens}, ensure_ascii=False))
            else:
                print(asked_in_words(one))
                print(_interlinear(one, shutil.get_terminal_size((100, 24)).columns))
                print()


def _interlinear(asked: "Asked", width: int) -> str:
    """Returns the tokens in lines, each followed by a line of the answers if there are any."""
    from wenmai.runs.preview import visible

    lines: list[str] = []
    shown = answers = ""
    for token in asked.tokens:
        token_shown, answer = visible(token.shown), visible(token.answer)
        size = max(text_width(token_shown), text_width(answer))
        if shown and text_width(shown) + size > width:
            lines += [shown.rstrip(), answers.rstrip()]
            shown = answers = ""
        shown += token_shown + " " * (size - text_width(token_shown) + 1)
        answers += answer + " " * (size - text_width(answer) + 1)
    return "\n".join(line for line in [*lines, shown.rstrip(), answers.rstrip()] if line)
