"""An n-gram language model, from one count of an encoded corpus."""

import math
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wenmai.config.recipe import Recipe
from wenmai.core.clock import CLOCK
from wenmai.core.errors import CorpusError, SettingError
from wenmai.data.encoded_corpus import EncodedCorpus
from wenmai.data.ngram_counting import CountedText, count_in_parts, count_rows, places_of
from wenmai.inference.ngram_model import NgramModel
from wenmai.models.ngram import (
    SPECIALS,
    CountingConfig,
    Estimated,
    Ngram,
    NgramConfig,
    Words,
    estimate,
    estimate_in_parts,
)
from wenmai.tasks.sources.text import Tokens
from wenmai.tasks.task import Job, ReadProgress, Session, Task
from wenmai.text.settings import TextConfig, VocabConfig
from wenmai.text.vocab import Vocab, WordTable
from wenmai.training.records import EpochRecord, StepRecord
from wenmai.training.strategy import SINGLE, Strategy

__all__ = ["NgramJob", "NgramTask", "counted_vocabulary", "estimate_text"]

_FILES = ".ngrams.tmp"  # where they are made; a resumed training removes leftovers
_COUNTING, _COUNTING_PARTS = 0.5, 0.15  # fraction of the time, roughly; on disk less
_LEAST_PROGRESS = 0.01  # that is reported
_PLACE_BYTES = 88  # at most, of a place of the text whose n-grams are estimated in memory: if all are different
_WORD_BYTES = 100  # of a word of the vocabulary
_ROLES = dict(zip(("unknown", "begin", "end"), SPECIALS, strict=True))


class _NgramTokens(Tokens):
    """Text as an n-gram model counts it."""

    def read(self, recipe: Recipe, source: Any, progress: ReadProgress, base: None) -> EncodedCorpus:  # noqa: ANN401
        """Encodes a text.

        Raises:
            SettingError: for mined phrases, which later texts would not have, and for the smoothing of imported
                models.
        """
        if recipe.sections["model"].smoothing == "arpa":
            raise SettingError(
                "smoothing=arpa stands for the unknown smoothing of an imported file; choose a smoothing "
                "to train with, such as modified-kneser-ney"
            )
        if recipe.sections["text"].phrases:
            raise SettingError(
                "an n-gram model takes no phrases, as it counts words that follow each other anyway; leave out phrases"
            )
        _ = recipe.sections["model"].thresholds  # a mistake shows before the text is read
        return super().read(recipe, source, progress, base)


class NgramTask(Task):
    """N-gram language models: one step, so there are no checkpoints, and resuming starts over."""

    source = _NgramTokens()
    sections: Mapping[str, type] = {
        "text": TextConfig,
        "vocab": VocabConfig,
        "model": NgramConfig,
        "counting": CountingConfig,
    }
    verbs = ("score", "next", "generate")

    def load(self, folder: Path) -> NgramModel:
        """Opens a finished model."""
        return NgramModel(Ngram.load(folder))

    def load_base(self, folder: Path) -> Any:  # noqa: ANN401
        """Refuses, as the counts are gone once the probabilities are estimated.

        Raises:
            SettingError: always.
        """
        raise SettingError(
            f"{folder.parent}: an n-gram model cannot be continued with new text, as discounts need the counts of both "
            "texts together; train anew on both"
        )

    def begin(
        self, recipe: Recipe, corpus: EncodedCorpus, base: None = None, strategy: Strategy = SINGLE
    ) -> "NgramJob":
        """Starts a training.

        Raises:
            CorpusError: if a word of the text is ``<s>`` or ``</s>``.
            VocabError: if no word is frequent enough.
        """
        return NgramJob(recipe, corpus)


def estimate_text(
    corpus: CountedText,
    word_of_type: npt.NDArray[np.int32],
    vocabulary: int,
    config: NgramConfig,
    folder: Path,
    *,
    memory_bytes: int,
    progress: Callable[[float, float], Callable[[float], None]],
) -> Estimated:
    """Counts a text and estimates probabilities, in memory if that is enough, else on disk; the files are the same.

    Args:
        corpus: The text.
        word_of_type: The word of each of its types.
        vocabulary: Words, the specials among them.
        config: The settings.
        folder: Where the files are written.
        memory_bytes: How much may be used.
        progress: Returns what is called with the tokens that are counted, from a fraction of the time on, of which each
            takes so much.
    """
    text = (corpus, word_of_type, vocabulary, config.order)
    left = max(0, memory_bytes - _WORD_BYTES * vocabulary)
    if _PLACE_BYTES * places_of(corpus) <= left:
        return estimate(count_rows(*text, advance=progress(0, _COUNTING / len(corpus))), vocabulary, config, folder)
    with tempfile.TemporaryDirectory(prefix=".parts-", suffix=".tmp", dir=folder) as parts:
        advance = progress(0, _COUNTING_PARTS / len(corpus))
        rows = count_in_parts(*text, memory_bytes=left, path=Path(parts) / "runs", advance=advance)
        advance = progress(_COUNTING_PARTS, 1 - _COUNTING_PARTS)
        return estimate_in_parts(rows, vocabulary, config, folder, Path(parts), memory_bytes=left, advance=advance)


class NgramJob(Job):
    """Counting and estimating; :meth:`train` sets ``model``."""

    model: Ngram

    def __init__(self, recipe: Recipe, corpus: EncodedCorpus) -> None:
        super().__init__(recipe)
        self.config: NgramConfig = recipe.sections["model"]
        self._text: TextConfig = recipe.sections["text"]
        self._memory_bytes = int(recipe.sections["counting"].memory * 2**30)
        self._corpus = corpus
        self._words, self._word_of_type, self._unknown_is_word = counted_vocabulary(corpus, recipe.sections["vocab"])
        self._estimated = Estimated()
        self._began = self._seconds = 0.0

    def facts(self) -> dict[str, Any]:
        """The sizes of corpus and vocabulary."""
        stats = self._corpus.describe()["stats"]
        sizes = f"{stats['tokens']:,} tokens, {stats['types']:,} types, vocabulary {len(self._words):,}"
        return {
            "sizes": f"{sizes}, order {self.config.order}",
            "tokens": stats["tokens"],
            "vocabulary": len(self._words),
            "threads": 1,
            "epochs": 1,
            "stats": stats,
        }

    def train(self, session: Session) -> None:
        """Counts, and estimates probabilities."""
        self._began, total = CLOCK.now(), len(self._corpus)
        folder = self._folder = session.checkpoints.folder / _FILES
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            self._estimated = self._estimate(folder, session)
            self.model = Ngram.of_files(
                folder,
                self.config,
                self._text,
                Words.of(self._words),
                self._estimated.ngrams,
                unknown_is_word=self._unknown_is_word,
                facts=self._estimated.as_dict(),
            )
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._seconds = CLOCK.now() - self._began
        loss = self._loss
        session.report(self._record(1.0, self._seconds, loss))
        session.report(EpochRecord(position=1, epoch=1, loss=loss, seconds=self._seconds, words=total))

    def _estimate(self, folder: Path, session: Session) -> Estimated:
        return estimate_text(
            self._corpus,
            self._word_of_type,
            len(self._words),
            self.config,
            folder,
            memory_bytes=self._memory_bytes,
            progress=lambda start, share: self._progress(session, start, share),
        )

    def _progress(self, session: Session, start: float, share: float) -> Callable[[float], None]:
        """Returns what reports that so much is done of work of which one takes ``share`` of the time."""
        reported = start

        def advance(done: float) -> None:
            nonlocal reported
            progress = start + share * done
            if progress >= reported + _LEAST_PROGRESS:
                reported = progress
                session.report(self._record(progress, CLOCK.now() - self._began, None))

        return advance

    def _record(self, progress: float, seconds: float, loss: float | None) -> StepRecord:
        words = len(self._corpus) * progress
        return StepRecord(
            progress=progress,
            position=1,
            epoch=1,
            loss=loss,
            learning_rate=0.0,
            words_per_second=words / max(1e-9, seconds),
            seconds=seconds,
            seconds_left=seconds * (1 - progress) / progress,
        )

    @property
    def _loss(self) -> float | None:
        """None where it is infinite: a word of the text has probability 0."""
        return self._estimated.loss if math.isfinite(self._estimated.loss) else None

    def summary(self) -> dict[str, Any]:
        """Speed, loss and sizes."""
        found = self._estimated
        return {
            "words_per_second": len(self._corpus) / self._seconds if self._seconds else 0.0,
            "loss": self._loss,
            "objective": f"mean negative log-probability of the words counted, {self.config.smoothing}",
            "seconds": self._seconds,
            "epochs": 1,
            "vocabulary": len(self._words),
            "words": len(self._corpus),
            "threads": 1,
            "order": self.config.order,
            "ngrams": found.ngrams,
            "ngrams_counted": found.counted,
            "discounts": found.discounts,
            "parts": found.parts,
        }

    def changes(self, base: None) -> tuple[dict[str, Any], list[str]]:
        """Notes the orders whose discounts had to be assumed."""
        if not self._estimated.fallback:
            return {}, []
        orders = ", ".join(map(str, self._estimated.fallback))
        note = (
            f"too few n-grams occur once, twice or three times to estimate the discounts of order {orders}: 0.5, 1 and "
            "1.5 stand for them. This happens with little text, and with few different words, such as characters"
        )
        if self.config.smoothing != "modified-kneser-ney":
            note = note.replace("once, twice or three times", "once or twice").replace(
                "0.5, 1 and 1.5 stand for them", "0.5 stands for them"
            )
        return {"discount_fallback": self._estimated.fallback}, [note]

    def save(self, folder: Path) -> None:
        """Writes the model."""
        self.model.save(folder)
        self.model.forget_files()  # the temporary ones, which are removed now
        shutil.rmtree(self._folder, ignore_errors=True)


def counted_vocabulary(corpus: EncodedCorpus, wanted: VocabConfig) -> tuple[WordTable, npt.NDArray[np.int32], bool]:
    """Returns the words, the word of each type of the corpus, and whether the text itself has ``<unk>``."""
    for mark in SPECIALS[1:]:
        if mark in corpus.words:
            raise CorpusError(
                f"the text has the word {mark!r}, which stands for the beginning or end of a sentence in an n-gram "
                "model: each line is a sentence already; take it out"
            )
    kept = Vocab.from_counts(
        corpus.words, corpus.counts, min_count=wanted.min_count, max_size=wanted.max_size, specials=_ROLES
    ).tokens
    unknown = {place for place, word in enumerate(corpus.words) if word == SPECIALS[0]}
    places = np.setdiff1d(np.arange(len(corpus.words)), list(unknown))[: len(kept) - len(SPECIALS)]
    table = np.zeros(len(corpus.words), np.int32)
    table[places] = np.arange(len(SPECIALS), len(kept))  # both have them in the same order
    return kept, table, bool(unknown)
