"""Chinese text with its pinyin."""

from typing import Any

from wenmai.config.recipe import Recipe
from wenmai.data.encoded_transliteration import TransliterationData, read_transliteration_data
from wenmai.tasks.sources.text import TextSource
from wenmai.tasks.task import Opened, ReadProgress

__all__ = ["TransliterationSource"]


class TransliterationSource(TextSource):
    """Chinese text and gold files with pinyin, for models that convert pinyin to characters."""

    def open(self, corpus: Any) -> Opened:  # noqa: ANN401
        """Opens text; what the catalogue knows of its segmentation does not matter."""
        return super().open(corpus)._replace(hints={})

    def read(self, recipe: Recipe, source: Any, progress: ReadProgress, base: Any) -> TransliterationData:  # noqa: ANN401
        """Reads the text with pypinyin's dictionaries, and encodes it; a continued model keeps its vocabulary."""
        vocab = None if base is None else base.vocab
        return read_transliteration_data(source, recipe.sections["data"], inherited=vocab, progress=progress)

    def reopen(self, fingerprint: str) -> TransliterationData | None:
        """Opens text that was read before."""
        return TransliterationData.reopen(fingerprint)
