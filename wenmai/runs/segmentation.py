"""The segmentation of a training text whose user has not chosen one."""

from collections.abc import Collection

from wenmai.config.recipe import Recipe
from wenmai.tasks.task import Opened, Task
from wenmai.text.unspaced import find_unspaced

__all__ = ["suited_segmentation"]

_SETTINGS = ("text.segment", "tokenizer.kind")
_AT_SPACES = ("whitespace", "words")  # which have no boundary inside 今天天气很好


def suited_segmentation(
    task: Task, recipe: Recipe, opened: Opened, chosen: Collection[str], *, continued: bool = False
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Looks at the beginning of a text: spaces between words cannot be expected of all scripts.

    Args:
        task: The task of the recipe.
        recipe: What the settings are so far.
        opened: The text.
        chosen: The settings that somebody chose, by plain name: they stay, but for a note on ``words``.
        continued: Whether the training continues a run, whose settings stay too.

    Returns:
        The setting to add, if spaces would not separate the words of the text; and what the user should know.
    """
    settings = recipe.flat_settings()
    for name in _SETTINGS:
        before, plain = settings.get(name), name.partition(".")[2]
        is_chosen = plain in chosen
        if before not in _AT_SPACES or (is_chosen and before == "whitespace") or settings.get("tokenizer.file"):
            continue
        found = find_unspaced(task.source.sample(recipe, opened.source))
        if found is None:
            continue
        better = "characters" if name == "tokenizer.kind" else found.segment
        seen = f"the text is written without spaces ({found.language}, {found.share:.0%} of the letters)"
        if is_chosen or continued:
            anew = "a new training with " if continued and name == "tokenizer.kind" else ""  # tokenizers stay
            note = f"{seen}: with {plain}={before} whole clauses are words; {anew}{plain}={better} separates them"
            return {}, (note,)
        note = f"{seen}: {plain}={better} was chosen; {plain}={before} takes what white space separates as words"
        if name == "tokenizer.kind":
            words = (
                "kind=chinese finds words by a dictionary"
                if found.segment == "chinese"
                else "for words, put spaces between them first"
            )
            note = f"{seen}: {plain}={better} was chosen; {words}"
        return {name: better}, (note,)
    if settings.get("tasks.language") == "english" and "language" not in chosen:
        found = find_unspaced(task.source.sample(recipe, opened.source))
        if found is not None and found.segment == "chinese":
            seen = f"the text is written without spaces ({found.language}, {found.share:.0%} of the letters)"
            return {}, (f"{seen}: with language=english its phrases are not found; language=chinese fits",)
    return {}, ()
