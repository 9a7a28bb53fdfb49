"""What a run that continues another has from it."""

import logging
from dataclasses import asdict

from wenmai.config.recipe import Recipe, read_recipe
from wenmai.core.errors import SettingError
from wenmai.training.run import RECIPE

__all__ = ["note_other_direction", "refuse_other_tokenizer"]

_log = logging.getLogger(__name__)


def note_other_direction(recipe: Recipe) -> None:
    """Notes that pairs are not read in the order of the continued run: theirs may be another, or it was forgotten."""
    swap = recipe.sections["data"].swap
    if read_recipe(f"{recipe.start}/{RECIPE}")["settings"].get("data.swap", swap) != swap:
        _log.warning(
            f"{recipe.start} was trained with swap={str(not swap).lower()}, and this training has swap="
            f"{str(swap).lower()}: of pairs in the same order it learns the other direction"
        )


def refuse_other_tokenizer(recipe: Recipe) -> None:
    """Makes sure that the tokenizer's settings are those of the continued run.

    Raises:
        SettingError: if one differs, as it would have no effect.
    """
    inherited = read_recipe(f"{recipe.start}/{RECIPE}")["settings"]
    for name, value in asdict(recipe.sections["tokenizer"]).items():
        if (old := inherited.get(f"tokenizer.{name}", value)) != value:
            raise SettingError(
                f"{name}={value} has no effect on a run that continues another: {recipe.start} has {name}={old}, and "
                "its tokenizers stay as they are; leave it out, or train a new model"
            )
