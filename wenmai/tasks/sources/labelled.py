"""Texts with labels."""

from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from wenmai.config.recipe import Recipe
from wenmai.core.errors import CorpusError
from wenmai.core.quantities import counted
from wenmai.data.datasets import named_dataset, open_labelled
from wenmai.data.encoded_labelled import EncodedLabelled, encode_labelled
from wenmai.data.features import segmented
from wenmai.data.labelled import Labelled, LabelledConfig, LabelledStats
from wenmai.tasks.task import Opened, ReadProgress, Source
from wenmai.text.settings import TextConfig

__all__ = ["LabelledTexts", "LabelledTokens", "SegmentedTexts", "left_out"]


_SAMPLE_TEXTS = 200


class LabelledSource(Source):
    """Texts with labels: files of one line a text, tables, names of the catalogue, or texts in memory."""

    def open(self, corpus: Any) -> Opened:  # noqa: ANN401
        """Opens labelled text; it is read once the settings are known."""
        source, named = open_labelled(corpus, LabelledConfig(), TextConfig()), named_dataset(corpus)
        hints = {} if named is None else {f"text.{name}": value for name, value in named[0].text_settings.items()}
        kept = corpus if source.repeatable else source  # an iterator has been read
        return Opened(kept, hints, source.sources, source.repeatable)

    def sample(self, recipe: Recipe, source: Any) -> str:  # noqa: ANN401
        """Returns the first texts, without their labels."""
        opened = open_labelled(source, recipe.sections["data"], recipe.sections["text"])
        with suppress(CorpusError):  # whoever reads all of it says so
            return "\n".join(example.text for example in islice(opened, _SAMPLE_TEXTS))
        return ""


class LabelledTokens(LabelledSource):
    """Labelled texts as word ids."""

    def read(self, recipe: Recipe, source: Any, progress: ReadProgress, base: Any) -> EncodedLabelled:  # noqa: ANN401
        """Encodes labelled text, and makes sure that the validation set can be read."""
        config, text = recipe.sections["data"], recipe.sections["text"]
        if config.valid is not None:
            next(iter(open_labelled(config.valid, config, text, split="dev")))
        return encode_labelled(open_labelled(source, config, text), progress=progress)

    def reopen(self, fingerprint: str) -> EncodedLabelled | None:
        """Opens labelled text that was encoded before."""
        return EncodedLabelled.reopen(fingerprint)


@dataclass(frozen=True, eq=False)
class SegmentedTexts:
    """Labelled texts in memory, one label each, cut into tokens.

    Attributes:
        fingerprint: Hash of the files and the settings.
        tokens: The tokens of each text.
        labels: The label of each text.
        stats: What was left out.
        sources: The files, as JSON values.
        valid: Tokens and labels of the validation set, if there is one.
    """

    fingerprint: str
    tokens: list[list[str]]
    labels: list[str]
    stats: LabelledStats
    sources: tuple[dict[str, Any], ...]
    valid: tuple[list[list[str]], list[str]] | None

    def describe(self) -> dict[str, Any]:
        """What ``corpus.json`` holds, as JSON values."""
        counts = dict(Counter(self.labels).most_common())
        return {"sources": list(self.sources), "stats": asdict(self.stats), "labels": counts}


class LabelledTexts(LabelledSource):
    """Labelled texts as tokens, all in memory."""

    def read(self, recipe: Recipe, source: Any, progress: ReadProgress, base: Any) -> SegmentedTexts:  # noqa: ANN401
        """Reads labelled texts and cuts them into tokens.

        Raises:
            CorpusError: if a text has no label, or several.
        """
        text, data = recipe.sections["text"], recipe.sections["data"]
        named = open_labelled(source, data, text)
        stats = LabelledStats()
        texts, labels = _single_labels(named, stats, progress)
        valid = None
        fingerprint = named.fingerprint()
        if data.valid is not None:
            measured = open_labelled(data.valid, data, text, split="dev")
            valid_texts, valid_labels = _single_labels(measured, LabelledStats())
            valid = segmented(valid_texts, text), valid_labels
            fingerprint += measured.fingerprint()
        sources = tuple(file.as_json() for file in named.hashes())
        return SegmentedTexts(fingerprint, segmented(texts, text), labels, stats, sources, valid)

    def reopen(self, fingerprint: str) -> None:
        """None: the files are read again."""


def left_out(stats: LabelledStats) -> list[str]:
    """Returns what was left out of labelled text, a sentence for each reason."""
    return counted(
        (stats.unlabelled, "1 text without a label was left out", "{count} texts without a label were left out"),
        (stats.blank_lines, "1 empty line was left out", "{count} empty lines were left out"),
        (
            stats.skipped_lines,
            "1 line that cannot be read was left out (bad_lines=skip)",
            "{count} lines that cannot be read were left out (bad_lines=skip)",
        ),
    )


def _single_labels(
    source: Labelled, stats: LabelledStats, progress: ReadProgress | None = None
) -> tuple[list[str], list[str]]:
    """Reads texts with one label each."""
    texts, labels = [], []
    for number, example in enumerate(source.read(stats, progress), start=1):
        if len(example.labels) != 1:
            raise CorpusError(
                f"{source.describe()}: text {number} has the labels {', '.join(example.labels)}; expected one, as "
                "only fasttext-supervised with loss=ova takes several"
            )
        texts.append(example.text)
        labels.append(example.labels[0])
    return texts, labels
