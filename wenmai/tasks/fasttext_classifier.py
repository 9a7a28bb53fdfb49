"""Classifiers of texts: fastText's, trained by passes over labelled text (Joulin et al. 2017, arXiv:1607.01759).

Differs from the reference implementation: every epoch shuffles the texts (``shuffle=false``: the file's order), the
learning rate falls from block to block and ends at a ten-thousandth, sigmoids are exact.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from annotated_types import Ge
from typing_extensions import Doc

from wenmai.config.recipe import Located, Recipe
from wenmai.core.errors import CorpusError, SettingError, VocabError
from wenmai.core.quantities import counted, plural
from wenmai.core.seeding import mixed_seed
from wenmai.data.datasets import open_labelled
from wenmai.data.encoded_labelled import EncodedLabelled
from wenmai.data.labelled import Example, LabelledConfig, LabelledStats
from wenmai.data.sources import absolute_name
from wenmai.inference.text_classifier import TextClassifier
from wenmai.measures.classification import measure_classification
from wenmai.models.fasttext import FastText, FastTextClassifierConfig, used_buckets
from wenmai.tasks.passes import PassesTask
from wenmai.tasks.pretrained import insert_vectors, numbers_of, pretrained_vectors
from wenmai.tasks.sources.labelled import LabelledTokens, left_out
from wenmai.tasks.task import Job, Notes, Session, noted_words
from wenmai.text.settings import TextConfig
from wenmai.text.utf8 import encode
from wenmai.text.vocab import Vocab
from wenmai.training.checkpoint import NoCheckpoints
from wenmai.training.passes import PassesConfig, Tally, Totals, run_passes
from wenmai.training.records import EpochRecord, EvaluationRecord, Record
from wenmai.training.strategy import SINGLE, Strategy

__all__ = ["ClassifierPassesConfig", "FastTextClassifierJob", "FastTextClassifierTask", "LabelVocabConfig"]

_RATE = 0.1  # the reference implementation's
_BLOCK_TOKENS = 10_000
_FEWEST_BLOCKS = 40  # of few examples, so that threads share them evenly
_NEVER = 1 << 62


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelVocabConfig:
    """Which words and labels of labelled text are used, and the initial vectors."""

    min_count: Annotated[int, Ge(1), Doc("words that occur fewer times than this are left out")] = 1
    min_label_count: Annotated[int, Ge(1), Doc("labels of fewer texts than this are left out")] = 1
    pretrained: Annotated[
        str | None,
        Doc("word vectors to begin with: a file (word2vec, GloVe or .vec), or a run with vectors; its words are added"),
        Located(absolute_name),
    ] = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassifierPassesConfig(PassesConfig):
    """Passes over labelled text."""

    shuffle: Annotated[
        bool, Doc("shuffle the texts in every epoch; off: the file's order, which must not be sorted by label")
    ] = True


class FastTextClassifierTask(PassesTask):
    """fastText's classifier on labelled text."""

    source = LabelledTokens()
    sections: Mapping[str, type] = {
        "text": TextConfig,
        "data": LabelledConfig,
        "vocab": LabelVocabConfig,
        "model": FastTextClassifierConfig,
        "train": ClassifierPassesConfig,
    }
    inherited = ("text", "model")
    verbs = ("classify", "embed")

    def load(self, folder: Path) -> TextClassifier:
        """Reads a finished model as a classifier."""
        return TextClassifier.load(folder)

    def load_base(self, folder: Path) -> FastText:
        """Reads the whole model."""
        return FastText.load(folder)

    def adopt(self, imported: FastText, recipe: Recipe) -> TextClassifier:
        """A classifier that cuts texts into words as the recipe says, which the model's file does not."""
        return TextClassifier(imported, recipe.sections["text"])

    def begin(
        self, recipe: Recipe, data: EncodedLabelled, base: FastText | None = None, strategy: Strategy = SINGLE
    ) -> "FastTextClassifierJob":
        """Starts a training: a new model, or one that continues ``base`` with new words and labels.

        Raises:
            WenmaiError: if there are not two labels, no word reaches ``min_count``, or ``base`` does not fit.
        """
        config: FastTextClassifierConfig = recipe.sections["model"]
        wanted: LabelVocabConfig = recipe.sections["vocab"]
        if base is not None and base.labels is None:
            raise SettingError("the run that is continued has word vectors and no labels; give it as pretrained=RUN")
        seed = recipe.sections["train"].seed
        counted = (data.label_names, data.label_counts.tolist())
        vectors = None if wanted.pretrained is None else pretrained_vectors(wanted.pretrained, config.vector_size)
        if base is None:
            if (most := max(data.label_counts.tolist(), default=0)) < wanted.min_label_count:
                raise VocabError(
                    f"no label has min_label_count={wanted.min_label_count} texts: the most frequent has {most}. "
                    "Use more texts, or a lower min_label_count"
                )
            vocab = Vocab.from_counts(data.words, data.counts, min_count=wanted.min_count)
            labels = Vocab.from_counts(*counted, min_count=wanted.min_label_count)
        else:
            vocab = base.vocab.grow(data.words, data.counts, min_count=wanted.min_count)
            labels = base.labels.grow(*counted, min_count=wanted.min_label_count)  # type: ignore[union-attr]
        if len(labels) < 2:
            raise CorpusError(
                f"every text has the label {labels.tokens[0]!r}; a classifier needs at least two labels"
                + (f" with min_label_count={wanted.min_label_count}" if wanted.min_label_count > 1 else "")
            )
        if vectors is not None:
            vocab = vocab.grow(vectors.index_to_key, [1] * len(vectors))
        _warm_up()
        tokens, prefix = len(data.tokens) + len(data.labels), recipe.sections["data"].label_prefix
        if base is None:
            model = FastText(config, vocab, labels, tokens=tokens, label_prefix=prefix)
            model.initialise(seed)
        else:
            model = base.grown(vocab, config, seed, labels)
            model.tokens = base.tokens + tokens
        if vectors is not None:
            insert_vectors(model, vectors, first=0 if base is None else len(base.vocab))
        return FastTextClassifierJob(recipe, data, model, old_words=0 if base is None else len(base.vocab))

    def restore(
        self,
        recipe: Recipe,
        data: EncodedLabelled,
        checkpoint: Path,
        noted: Notes,
        strategy: Strategy = SINGLE,
    ) -> "FastTextClassifierJob":
        """Resumes a training from the model of a checkpoint."""
        _warm_up()
        return FastTextClassifierJob(recipe, data, FastText.load(checkpoint), old_words=noted_words(noted))

    def retrain(self, recipe: Recipe, data: EncodedLabelled, model: FastText) -> None:
        """Trains a model in place, such as a pruned one before it is quantised; evaluates and writes nothing."""
        sections = dict(recipe.sections) | {"data": replace(recipe.sections["data"], valid=None)}
        job = FastTextClassifierJob(replace(recipe, sections=sections), data, model)
        job.train(Session(NoCheckpoints(), lambda record: None))


class FastTextClassifierJob(Job):
    """A training of fastText's classifier; ``model`` has the parameters, changed in place."""

    def __init__(self, recipe: Recipe, data: EncodedLabelled, model: FastText, *, old_words: int = 0) -> None:
        super().__init__(recipe)
        self.config: FastTextClassifierConfig = recipe.sections["model"]
        self.train_config: ClassifierPassesConfig = recipe.sections["train"]
        self.model = model
        self.old_words = old_words
        self.totals = Totals()
        self.measured: dict[str, float] = {}
        self._text: TextConfig = recipe.sections["text"]
        self._labelled: LabelledConfig = recipe.sections["data"]
        self._data = data
        self._order: tuple[int, npt.NDArray[np.int64]] = (-1, np.empty(0, np.int64))
        mean_tokens = len(data.tokens) / len(data)
        self._block = max(1, int(min(_BLOCK_TOKENS / mean_tokens, len(data) / _FEWEST_BLOCKS)))

    @property
    def learning_rate(self) -> float:
        """α at the start."""
        return self.train_config.learning_rate or _RATE

    # --- what a pass calls -----------------------------------------------------------------------------------

    @property
    def blocks(self) -> int:
        """Blocks of examples."""
        return -(-len(self._data) // self._block)

    def share_before(self, block: int) -> float:
        """The fraction of the examples before a block."""
        return min(1.0, block * self._block / len(self._data))

    def worker(self) -> Any:  # noqa: ANN401  a named tuple of the kernel
        """Working memory of one thread."""
        from wenmai.kernels.classify import Scratch

        rows, tables = self._rows, self._tables
        return Scratch.allocate(
            self._choices,
            features=self._most_features,
            padded=max(rows.input.shape[1], rows.output.shape[1]),
            longest_path=int(np.diff(tables.path_start).max(initial=0)),
        )

    def train_block(self, worker: Any, epoch: int, block: int, rate: float) -> Tally:  # noqa: ANN401
        """Trains on a block of examples."""
        from wenmai.kernels.classify import train_block

        order = self._ordered(epoch)[block * self._block : (block + 1) * self._block]
        seed = np.uint64(mixed_seed(self.train_config.seed, epoch, block))
        tally = np.zeros(3)
        rows, tables, choices = self._rows, self._tables, self._choices
        train_block(self._examples, order, rows, tables, choices, worker, np.float32(rate), seed, tally)
        return Tally(float(tally[0]), int(tally[1]), int(tally[2]))

    def lanes(self) -> int:
        """Deterministic mode: one block after the other."""
        return 1

    def train_in_step(self, epoch: int, first: int, rates: Sequence[float], threads: int) -> list[Tally]:
        """Trains blocks one after the other, whatever the number of threads."""
        return [self.train_block(self._only_worker, epoch, first + place, rate) for place, rate in enumerate(rates)]

    # --- what a run calls ---------------------------------------------------------------------------------------

    def notes(self) -> dict[str, Any]:
        """How many words the continued model had."""
        return {"words": self.old_words}

    def facts(self) -> dict[str, Any]:
        """The sizes of text, vocabulary and labels, and the effort."""
        size, new = len(self.model.vocab), len(self.model.vocab) - self.old_words
        grown = f", {new:,} of them new" if self.old_words else ""
        texts = f"{len(self._data):,} texts, {len(self._data.tokens):,} tokens"
        sizes = f"{texts}, vocabulary {size:,}{grown}, {self._labels:,} labels"
        return {
            "sizes": sizes,
            "tokens": len(self._data.tokens),
            "vocabulary": size,
            "labels": self._labels,
            "epochs": self.train_config.epochs,
            "threads": self.train_config.worker_count,
            "stats": asdict(self._data.stats),
        }

    def train(self, session: Session) -> None:
        """Makes the passes over the examples; evaluates on the validation set, if any, after every epoch."""
        if session.resumed is not None:
            self.totals = Totals.of_checkpoint(*session.resumed)

        def measuring(record: Record) -> None:
            session.report(record)
            if isinstance(record, EpochRecord) and self._labelled.valid is not None:
                self.measured = self._measure()
                rate = self.learning_rate * (1 - record.epoch / self.train_config.epochs)
                place: dict[str, Any] = {"position": record.position, "epoch": record.epoch, "seconds": record.seconds}
                session.report(EvaluationRecord(**place, learning_rate=rate, figures=self.measured))

        run_passes(
            self,
            self.train_config,
            learning_rate=self.learning_rate,
            totals=self.totals,
            checkpoints=session.checkpoints,
            report=measuring,
        )

    def summary(self) -> dict[str, Any]:
        """Speed, loss, sizes, and the metrics on the validation set."""
        return {
            **self.totals.metrics(),
            "objective": f"{self.config.loss} over labels",
            "vocabulary": len(self.model.vocab),
            "labels": self._labels,
            "words": self.totals.words,
            "epochs": self.train_config.epochs,
            "threads": self.train_config.worker_count,
        } | ({"validation": self.measured} if self.measured else {})

    def changes(self, base: FastText | None) -> tuple[dict[str, Any], list[str]]:
        """What was left out of the text, and what a continued training added."""
        stats = self._data.stats
        notes = left_out(stats) + counted(
            (
                stats.without_text,
                "1 text is empty but for its label; it was kept",
                "{count} texts are empty but for their label; they were kept",
            ),
            (
                int((self._examples.labels < 0).sum()),
                "1 label that is too rare (min_label_count) was left out",
                "{count} labels that are too rare (min_label_count) were left out",
            ),
        )
        if base is not None and base.labels is not None:
            words = plural(len(self.model.vocab) - len(base.vocab), "word")
            labels = plural(self._labels - len(base.labels), "label")
            notes.append(f"{words} and {labels} are new")
        return {}, notes

    def save(self, folder: Path) -> None:
        """Writes the model."""
        self.classifier().save(folder)

    def classifier(self) -> TextClassifier:
        """The classifier as it is now."""
        return TextClassifier(self.model, self._text)

    def _measure(self) -> dict[str, float]:
        classifier = self.classifier()
        predicted = classifier.predict([example.text for example in self._valid])
        gold = [example.labels for example in self._valid]
        found = measure_classification(gold, predicted, classifier.labels, resamples=1)
        return {"accuracy": found.accuracy, "macro_f1": found.macro_f1}

    @cached_property
    def _valid(self) -> list[Example]:
        named = open_labelled(self._labelled.valid, self._labelled, self._text, split="dev")
        return list(named.read(LabelledStats()))

    # --- tables of the kernel -----------------------------------------------------------------------------------

    @property
    def _labels(self) -> int:
        return len(self.model.labels or ())

    def _ordered(self, epoch: int) -> npt.NDArray[np.int64]:
        """The examples in the order of an epoch."""
        known, order = self._order
        if known != epoch:
            order = np.arange(len(self._data), dtype=np.int64)
            if self.train_config.shuffle:
                np.random.default_rng([self.train_config.seed, epoch]).shuffle(order)
            self._order = (epoch, order)
        return order

    @cached_property
    def _only_worker(self) -> Any:  # noqa: ANN401  a named tuple of the kernel
        return self.worker()

    @cached_property
    def _most_features(self) -> int:
        """The most features that a text may have."""
        from wenmai.kernels.classify import most_features

        examples, start, ngrams = self._examples, self._tables.start, int(self._choices.word_ngrams)
        if np.diff(start).max(initial=0) <= 1:  # no need to check every token
            return int(np.diff(examples.starts).max()) * ngrams
        return int(most_features(examples.tokens, examples.starts, start, ngrams))

    @cached_property
    def _choices(self) -> Any:  # noqa: ANN401  a named tuple of the kernel
        from wenmai.kernels.classify import HIERARCHICAL, NEGATIVE, ONE_VERSUS_ALL, SOFTMAX, Choices

        kinds = {"softmax": SOFTMAX, "hs": HIERARCHICAL, "ns": NEGATIVE, "ova": ONE_VERSUS_ALL}
        buckets = used_buckets(self.config)
        return Choices(
            loss=kinds[self.config.loss],
            negative=self.config.negative,
            labels=self._labels,
            word_ngrams=self.config.word_ngrams if buckets else 1,
            words=len(self.model.vocab),
            buckets=max(buckets, 1),
        )

    @cached_property
    def _rows(self) -> Any:  # noqa: ANN401  a named tuple of the kernel
        from wenmai.kernels.classify import Rows

        return Rows(
            input=self.model.dense("input"),
            output=self.model.dense("output"),
            old_words=self.old_words,
            old_bucket=len(self.model.vocab) if self.old_words else _NEVER,
            old_rate=np.float32(self.train_config.old_rate),
        )

    @cached_property
    def _examples(self) -> Any:  # noqa: ANN401  a named tuple of the kernel
        from wenmai.kernels.classify import Examples

        data = self._data
        labels = numbers_of(data.label_names, self.model.labels or ())[data.labels]
        labels.flags.writeable = False
        tokens, starts, label_starts = (np.asarray(mapped) for mapped in (data.tokens, data.starts, data.label_starts))
        return Examples(tokens=tokens, starts=starts, labels=labels, label_starts=label_starts)

    @cached_property
    def _tables(self) -> Any:  # noqa: ANN401  a named tuple of the kernel
        from wenmai.kernels.classify import Tables, noise_table, word_hashes
        from wenmai.kernels.huffman import huffman_paths

        counts = self.model.labels.counts if self.model.labels is not None else np.zeros(0, np.int64)
        threshold, alias = np.ones(1, np.float32), np.zeros(1, np.int32)
        path_start, node, sign = np.zeros(2, np.int64), np.zeros(1, np.int32), np.zeros(1, np.float32)
        if self.config.loss == "ns":
            threshold, alias = noise_table(np.sqrt(np.maximum(counts, 1.0)))
        elif self.config.loss == "hs":
            path_start, node, sign = huffman_paths(counts)
        start, rows = self._features_of_types()
        ngrams = self._choices.word_ngrams > 1
        return Tables(
            start=start,
            rows=rows,
            hashes=word_hashes(*encode(self._data.words)) if ngrams else np.zeros(1, np.int64),
            noise_threshold=threshold,
            noise_alias=alias,
            path_start=path_start,
            path_node=node,
            path_sign=-sign,  # bit 1 is the side of σ(node · h) here
            kept=self.model.kept_table,
        )

    def _features_of_types(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """The rows of each word of the text: ``start`` int64 [types + 1] and ``rows`` int32.

        A word outside the vocabulary has those of its character n-grams alone.
        """
        from wenmai.kernels.subwords import word_subwords

        start, rows = self.model.subword_table
        words = self._data.words
        numbers = numbers_of(words, self.model.vocab).astype(np.int64)
        unknown = np.flatnonzero(numbers < 0) if self.config.max_ngram else np.empty(0, np.int64)
        composed = [
            word_subwords(words[place].encode("utf-8", "surrogatepass"), self.model.features)[0]
            for place in unknown.tolist()
        ]
        sources = np.concatenate([rows, *composed])
        lengths = np.where(numbers >= 0, np.diff(start, append=start[-1:])[numbers], 0)
        begins = np.where(numbers >= 0, start[numbers], 0)
        lengths[unknown] = [len(found) for found in composed]
        begins[unknown] = len(rows) + np.concatenate([[0], np.cumsum(lengths[unknown])[:-1]]) if len(unknown) else 0
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(bounds[-1]) + np.repeat(begins - bounds[:-1], lengths)
        return bounds, sources[places]


def _warm_up() -> None:
    """Compiles the kernels first, so that the clock measures training alone and memory peaks once."""
    from wenmai.kernels import classify

    classify.warm_up()
