"""Pairs of texts, with their tokenizers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wenmai.config.recipe import Recipe
from wenmai.data.numerals import SUGGESTED_SETTINGS
from wenmai.data.pairs import read_pairs
from wenmai.data.parallel import TranslationData, read_translation_data
from wenmai.tasks.sources.continued import note_other_direction, refuse_other_tokenizer
from wenmai.tasks.task import Opened, ReadProgress, Source

__all__ = ["Pairs"]


class Pairs(Source):
    """Pairs of texts: a TSV file, ``SOURCE,TARGET`` files, JSON lines, a name of the catalogue, or pairs in memory."""

    def open(self, corpus: Any) -> Opened:  # noqa: ANN401
        """Opens pairs."""
        if isinstance(corpus, str | Path):
            corpus = [corpus]
        if isinstance(corpus, Iterator):
            corpus = list(corpus)  # it can be read only once
        named = isinstance(corpus, list | tuple) and all(isinstance(part, str | Path) for part in corpus)
        spec = ",".join(str(part) for part in corpus) if named and corpus else corpus
        pairs = read_pairs(spec)
        hints = SUGGESTED_SETTINGS if spec == "builtin:numerals" else {}
        return Opened(pairs, hints, (",".join(pairs.sources),) if pairs.sources else (), bool(pairs.sources))

    def read(self, recipe: Recipe, source: Any, progress: ReadProgress, base: Any) -> TranslationData:  # noqa: ANN401
        """Trains the tokenizers, unless the continued model has them, and encodes the pairs."""
        if base is not None:
            refuse_other_tokenizer(recipe)
            note_other_direction(recipe)
        return read_translation_data(
            source,
            recipe.sections["data"],
            recipe.sections["tokenizer"],
            longest=recipe.sections["model"].max_length - 1,  # the end token
            inherited=None if base is None else (base.source, base.target),
            progress=progress,
        )

    def reopen(self, fingerprint: str) -> TranslationData | None:
        """Opens pairs that were read before."""
        return TranslationData.reopen(fingerprint)
