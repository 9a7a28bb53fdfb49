"""One source for each kind of training data."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from wenmai.config.recipe import Recipe, read_recipe
from wenmai.core.errors import CorpusError, SettingError
from wenmai.data.cached import reopened
from wenmai.data.cooccurrence import Cooccurrences
from wenmai.data.corpus import Corpus
from wenmai.data.datasets import named_dataset, open_labelled
from wenmai.data.encoded_corpus import EncodedCorpus, encode_corpus
from wenmai.data.encoded_labelled import EncodedLabelled, encode_labelled
from wenmai.data.encoded_transliteration import TransliterationData, read_transliteration_data
from wenmai.data.features import segmented
from wenmai.data.labelled import Labelled, LabelledConfig, LabelledStats
from wenmai.data.marking import MakeMarker
from wenmai.data.numerals import SUGGESTED_SETTINGS
from wenmai.data.pairs import read_pairs
from wenmai.data.parallel import TranslationData, read_translation_data
from wenmai.data.running_text import LanguageData, read_language_data
from wenmai.data.sources import open_texts
from wenmai.tasks.marking import marking
from wenmai.tasks.task import Opened, ReadProgress, Source
from wenmai.text.pieces import OptionalRole, suitable
from wenmai.text.settings import TextConfig
from wenmai.training.run import RECIPE

__all__ = [
    "Counts",
    "LabelledTexts",
    "LabelledTokens",
    "MarkedText",
    "Pairs",
    "RunningText",
    "SegmentedTexts",
    "Tokens",
    "TransliterationSource",
    "left_out",
]


_SAMPLE_TEXTS = 200


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


class MarkedText(RunningText):
    """Running text with the marks that pre-training tasks need."""

    def marking(self, recipe: Recipe) -> MakeMarker:
        """Returns what marks phrases and the like in the text."""
        return marking(recipe.sections["tasks"], recipe.sections["stages"].tasks)


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
        sources = read_pairs(spec).sources
        hints = SUGGESTED_SETTINGS if spec == "builtin:numerals" else {}
        return Opened(spec, hints, (",".join(sources),) if sources else (), bool(sources))

    def read(self, recipe: Recipe, source: Any, progress: ReadProgress, base: Any) -> TranslationData:  # noqa: ANN401
        """Trains the tokenizers, unless the continued model has them, and encodes the pairs."""
        if base is not None:
            refuse_other_tokenizer(recipe)
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
        sources = tuple({"path": file.path, "bytes": file.size_bytes, "sha256": file.sha256} for file in named.hashes())
        return SegmentedTexts(fingerprint, segmented(texts, text), labels, stats, sources, valid)

    def reopen(self, fingerprint: str) -> None:
        """None: the files are read again."""


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


def left_out(stats: LabelledStats) -> list[str]:
    """Returns what was left out of labelled text, a sentence for each reason."""
    counted = (
        (stats.unlabelled, "texts without a label were left out"),
        (stats.blank_lines, "empty lines were left out"),
        (stats.skipped_lines, "lines that cannot be read were left out (bad_lines=skip)"),
    )
    return [f"{count:,} {what}" for count, what in counted if count]


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
