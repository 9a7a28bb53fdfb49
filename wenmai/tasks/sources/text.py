"""Text, as word ids."""

from typing import Any

from wenmai.config.recipe import Recipe
from wenmai.data.cached import reopened
from wenmai.data.corpus import Corpus
from wenmai.data.encoded_corpus import EncodedCorpus, encode_corpus
from wenmai.data.sources import open_texts
from wenmai.tasks.task import Opened, ReadProgress, Source

__all__ = ["TextSource", "Tokens"]


class TextSource(Source):
    """Text of whatever form: paths, folders, globs, standard input, names of the catalogue, or strings in memory."""

    def open(self, corpus: Any) -> Opened:  # noqa: ANN401
        """Opens text."""
        opened, hints, names = open_texts(corpus)
        return Opened(opened, hints, names, opened.repeatable)

    def sample(self, recipe: Recipe, source: Corpus) -> str:
        """Returns the beginning of the text."""
        return source.sample((recipe.sections.get("text") or recipe.sections["data"]).encoding)


class Tokens(TextSource):
    """Text as word ids."""

    def read(self, recipe: Recipe, source: Any, progress: ReadProgress, base: Any) -> EncodedCorpus:  # noqa: ANN401
        """Encodes a text."""
        return encode_corpus(source, recipe.sections["text"], progress=progress)

    def reopen(self, fingerprint: str) -> EncodedCorpus | None:
        """Opens a text that was encoded before."""
        return reopened("corpora", fingerprint, EncodedCorpus.open)
