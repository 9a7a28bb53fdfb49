"""Running text with the marks of pre-training tasks."""

from wenmai.config.recipe import Recipe
from wenmai.data.marking import MakeMarker
from wenmai.tasks.marking import marking
from wenmai.tasks.sources.running_text import RunningText

__all__ = ["MarkedText"]


class MarkedText(RunningText):
    """Running text with the marks that pre-training tasks need."""

    def marking(self, recipe: Recipe) -> MakeMarker:
        """Returns what marks phrases and the like in the text."""
        return marking(recipe.sections["tasks"], recipe.sections["stages"].tasks)
