"""Running text, with its tokenizer."""

from typing import Any

from wenmai.config.recipe import Recipe
from wenmai.data.marking import MakeMarker
from wenmai.data.running_text import LanguageData, read_language_data
from wenmai.tasks.sources.continued import refuse_other_tokenizer
from wenmai.tasks.sources.text import TextSource
from wenmai.tasks.task import Opened, ReadProgress
from wenmai.text.pieces import OptionalRole, suitable

__all__ = ["RunningText"]


class RunningText(TextSource):
    """Running text for a language model, with its tokenizer.

    Args:
        roles: Special tokens that the models need besides the usual ones.
    """

    def __init__(self, *roles: OptionalRole) -> None:
        self._roles = roles

    def open(self, corpus: Any) -> Opened:  # noqa: ANN401
        """Opens text; what the catalogue knows of it becomes settings of the tokenizer too."""
        opened = super().open(corpus)
        known = suitable({name.removeprefix("text."): value for name, value in opened.hints.items()})
        return opened._replace(hints={f"tokenizer.{name}": value for name, value in known.items()})

    def read(self, recipe: Recipe, source: Any, progress: ReadProgress, base: Any) -> LanguageData:  # noqa: ANN401
        """Trains the tokenizer, unless the continued model has one, and encodes the text."""
        if base is not None:
            refuse_other_tokenizer(recipe)
        return read_language_data(
            source,
            recipe.sections["data"],
            recipe.sections["tokenizer"],
            inherited=None if base is None else base.tokenizer,
            roles=self._roles,
            marking=self.marking(recipe),
            progress=progress,
        )

    def marking(self, recipe: Recipe) -> MakeMarker | None:
        """Returns what marks phrases and the like in the text; None, as here, where nothing needs marks."""
        return None

    def reopen(self, fingerprint: str) -> LanguageData | None:
        """Opens a text that was read before."""
        return LanguageData.reopen(fingerprint)
