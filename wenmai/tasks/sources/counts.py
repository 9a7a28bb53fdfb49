"""Which words of a text stand near each other."""

from typing import Any

from wenmai.config.recipe import Recipe
from wenmai.data.cached import reopened
from wenmai.data.cooccurrence import Cooccurrences
from wenmai.data.encoded_corpus import encode_corpus
from wenmai.tasks.sources.text import TextSource
from wenmai.tasks.task import ReadProgress

__all__ = ["Counts"]


class Counts(TextSource):
    """Which words of a text stand near each other."""

    def read(self, recipe: Recipe, source: Any, progress: ReadProgress, base: Any) -> Cooccurrences:  # noqa: ANN401
        """Encodes a text and counts which words stand near each other."""
        from wenmai.data.cooccurrence_counting import count_cooccurrences  # compiled code takes time to import

        train = recipe.sections["train"]
        return count_cooccurrences(
            encode_corpus(source, recipe.sections["text"], progress=progress),
            recipe.sections["vocab"],
            recipe.sections["counts"],
            threads=train.worker_count,
            seed=train.seed,
            progress=progress,
        )

    def reopen(self, fingerprint: str) -> Cooccurrences | None:
        """Opens counts that were made before."""
        return reopened("cooccurrences", fingerprint, Cooccurrences.open)
