"""A converter of pinyin, from one count of the characters and the words of a text."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wenmai.config.recipe import Recipe
from wenmai.core.clock import CLOCK
from wenmai.core.errors import CorpusError, SettingError
from wenmai.data.encoded_corpus import EncodedCorpus, encode_corpus
from wenmai.data.ngram_counting import CountedText
from wenmai.inference.pinyin_ngram import PinyinNgramModel
from wenmai.models.ngram import SPECIALS, CountingConfig, Estimated, Ngram, NgramConfig, Words
from wenmai.models.pinyin_ngram import INVENTORY, Lexicon, PinyinNgramConfig, weighed_readings
from wenmai.tasks.ngram import counted_vocabulary, estimate_text
from wenmai.tasks.sources.text import Tokens
from wenmai.tasks.task import Job, ReadProgress, Session, Task
from wenmai.text.pinyin.readings import is_hanzi
from wenmai.text.settings import TextConfig, VocabConfig
from wenmai.text.vocab import WordTable
from wenmai.training.records import EpochRecord, StepRecord
from wenmai.training.strategy import SINGLE, Strategy

__all__ = ["PinyinNgramJob", "PinyinNgramTask"]

_FILES = ".ngrams.tmp"  # where they are made; a resumed training removes leftovers
_SHARES = {"characters": (0.0, 0.5), "words": (0.5, 0.25)}  # of the time, roughly: from where on, and how much
_ENDS = frozenset("。！？；!?;")


class _PinyinTokens(Tokens):
    """Text whose words and characters are counted; of gold files, their Chinese alone."""

    def read(self, recipe: Recipe, source: Any, progress: ReadProgress, base: None) -> EncodedCorpus:  # noqa: ANN401
        """Encodes a text.

        Raises:
            CorpusError: if there is no Chinese character in the text.
            SettingError: for mined phrases, and for settings that leave nothing to score.
        """
        if recipe.sections["text"].phrases:
            raise SettingError("pinyin-ngram takes no phrases, whose words have no readings; leave out phrases")
        found = encode_corpus(source, recipe.sections["text"], progress=progress, gold=True)
        if not any(map(is_hanzi, chain.from_iterable(found.words))):
            names = ", ".join(recipe.corpus[:3]) or "the text"
            raise CorpusError(f"{names}: has no Chinese character; pinyin-ngram is trained on Chinese text")
        return found


class PinyinNgramTask(Task):
    """Converters of pinyin: one step, so there are no checkpoints, and resuming starts over."""

    source = _PinyinTokens()
    sections: Mapping[str, type] = {"text": TextConfig, "model": PinyinNgramConfig, "counting": CountingConfig}
    verbs = ("convert",)

    def load(self, folder: Path) -> PinyinNgramModel:
        """Opens a finished model."""
        return PinyinNgramModel.load(folder)

    def load_base(self, folder: Path) -> Any:  # noqa: ANN401
        """Refuses, as the counts are gone once the probabilities are estimated.

        Raises:
            SettingError: always.
        """
        raise SettingError(
            f"{folder.parent}: a pinyin-ngram model cannot be continued with new text, as discounts need the counts of "
            "both texts together; train anew on both"
        )

    def begin(
        self, recipe: Recipe, corpus: EncodedCorpus, base: None = None, strategy: Strategy = SINGLE
    ) -> "PinyinNgramJob":
        """Starts a training.

        Raises:
            CorpusError: if a word of the text is ``<s>`` or ``</s>``.
        """
        return PinyinNgramJob(recipe, corpus)


class _View(NamedTuple):
    """Sentences as ids of what is counted.

    Attributes:
        tokens: int32.
        starts: int64 (sentences + 1).
    """

    tokens: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int64]

    def read(self, start: int, end: int) -> npt.NDArray[np.int32]:
        """Returns tokens[start:end]."""
        return self.tokens[start:end]

    def __len__(self) -> int:
        return self.tokens.size


class _Text:
    """A text as words and as characters; a sentence ends at ``。！？；`` too, where the input of a converter does.

    Args:
        corpus: The text.
    """

    def __init__(self, corpus: EncodedCorpus) -> None:
        self._types = list(corpus.words)
        tokens = corpus.read(0, len(corpus))
        ends = np.array([word[-1] in _ENDS for word in self._types] + [False])
        starts = np.union1d(corpus.starts, np.flatnonzero(ends[tokens]) + 1)
        self.words = _View(tokens, starts)
        self.counts = dict(zip(self._types, corpus.counts.tolist(), strict=True))

    @cached_property
    def alphabet(self) -> list[str]:
        """The characters, the most frequent first."""
        found: dict[str, int] = {}
        for word, count in self.counts.items():
            for character in word:
                found[character] = found.get(character, 0) + count
        return sorted(found, key=lambda character: (-found[character], character))

    def characters(self) -> _View:
        """The characters of the text by their places in the alphabet; -1 for a word that was pruned."""
        number = {character: place for place, character in enumerate(self.alphabet)}
        spelt = [[number[character] for character in word] for word in self._types] + [[-1]]
        lengths = np.array([len(word) for word in spelt], np.int64)
        begins = np.cumsum(lengths) - lengths
        codes = np.array([code for word in spelt for code in word], np.int32)
        tokens, starts = self.words
        sizes = lengths[tokens]
        ends = np.cumsum(sizes)
        places = np.arange(sizes.sum()) - np.repeat(ends - sizes, sizes) + np.repeat(begins[tokens], sizes)
        return _View(codes[places], np.concatenate([[0], ends])[starts])


class PinyinNgramJob(Job):
    """Counting, estimating and reading the words; :meth:`train` sets ``model``."""

    model: PinyinNgramModel

    def __init__(self, recipe: Recipe, corpus: EncodedCorpus) -> None:
        super().__init__(recipe)
        self.config: PinyinNgramConfig = recipe.sections["model"]
        self._text_config: TextConfig = recipe.sections["text"]
        self._memory_bytes = int(recipe.sections["counting"].memory * 2**30)
        self._corpus = corpus
        self._words, self._word_of_type, self._unknown_is_word = counted_vocabulary(corpus, VocabConfig(min_count=1))
        self._estimated: dict[str, Estimated] = {}
        self._began = self._seconds = 0.0

    def facts(self) -> dict[str, Any]:
        """The sizes of the text."""
        stats = self._corpus.describe()["stats"]
        return {
            "sizes": f"{stats['tokens']:,} words, {stats['types']:,} different words, order {self.config.order}",
            "tokens": stats["tokens"],
            "vocabulary": len(self._words),
            "threads": 1,
            "epochs": 1,
            "stats": stats,
        }

    def train(self, session: Session) -> None:
        """Counts, estimates probabilities, and looks the readings up.

        Raises:
            SettingError: if the dictionary of readings or the word list is not installed.
        """
        self._began = CLOCK.now()
        folder = self._folder = session.checkpoints.folder / _FILES
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            self.model = self._trained(folder, session)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._seconds = CLOCK.now() - self._began
        session.report(self._record(1.0, self._loss))
        session.report(
            EpochRecord(position=1, epoch=1, loss=self._loss, seconds=self._seconds, words=len(self._corpus))
        )

    def _trained(self, folder: Path, session: Session) -> PinyinNgramModel:
        text, config = _Text(self._corpus), self.config
        words = None
        if config.counts_words:
            words = self._counted(
                "words", text.words, self._word_of_type, self._words, config.word_order, folder, session
            )
        alphabet = WordTable([*SPECIALS, *text.alphabet])
        places = np.arange(len(SPECIALS), len(alphabet), dtype=np.int32)
        characters = self._counted("characters", text.characters(), places, alphabet, config.order, folder, session)
        readings = weighed_readings(text.counts, self._listed(), config)
        return PinyinNgramModel(config, self._text_config, characters, words, Lexicon.of(INVENTORY, readings))

    def _listed(self) -> Mapping[str, int]:
        """The word list, if its words are wanted."""
        if not self.config.listed or self.config.longest == 1:
            return {}
        from wenmai.text.pinyin.words import word_list

        return word_list()

    def _counted(
        self,
        name: str,
        text: CountedText,
        word_of_type: npt.NDArray[np.int32],
        vocabulary: WordTable,
        order: int,
        folder: Path,
        session: Session,
    ) -> Ngram:
        """Counts and estimates one of the models."""
        (folder / name).mkdir()
        begin, all_of_it = _SHARES[name]

        def progress(start: float, share: float) -> Callable[[float], None]:
            return lambda done: session.report(self._record(begin + all_of_it * (start + share * done), None))

        config = NgramConfig(order=order)
        estimated = self._estimated[name] = estimate_text(
            text,
            word_of_type,
            len(vocabulary),
            config,
            folder / name,
            memory_bytes=self._memory_bytes,
            progress=progress,
        )
        return Ngram.of_files(
            folder / name,
            config,
            self._text_config if name == "words" else replace(self._text_config, segment="characters"),
            Words.of(vocabulary),
            estimated.ngrams,
            unknown_is_word=self._unknown_is_word and name == "words",
            facts=estimated.as_dict(),
        )

    def _record(self, progress: float, loss: float | None) -> StepRecord:
        seconds = CLOCK.now() - self._began
        return StepRecord(
            progress=progress,
            position=1,
            epoch=1,
            loss=loss,
            learning_rate=0.0,
            words_per_second=len(self._corpus) * progress / max(1e-9, seconds),
            seconds=seconds,
            seconds_left=seconds * (1 - progress) / max(1e-9, progress),
        )

    @property
    def _loss(self) -> float:
        return self._estimated["characters"].loss

    def summary(self) -> dict[str, Any]:
        """Speed, loss and sizes."""
        found = self._estimated["characters"]
        return {
            "words_per_second": len(self._corpus) / self._seconds if self._seconds else 0.0,
            "loss": self._loss,
            "objective": "mean negative log-probability of the characters counted",
            "seconds": self._seconds,
            "epochs": 1,
            "vocabulary": len(self._words),
            "words": len(self._corpus),
            "threads": 1,
            "order": self.config.order,
            "readings": len(self.model.lexicon),
            "ngrams": {name: one.ngrams for name, one in self._estimated.items()},
            "discounts": found.discounts,
            "parts": found.parts,
        }

    def changes(self, base: None) -> tuple[dict[str, Any], list[str]]:
        """Notes the orders whose discounts had to be assumed."""
        orders = {name: one.fallback for name, one in self._estimated.items() if one.fallback}
        if not orders:
            return {}, []
        notes = [
            f"too few n-grams of {name} occur once, twice or three times to estimate the discounts of order "
            f"{', '.join(map(str, numbers))}: 0.5, 1 and 1.5 stand for them. This happens with little text"
            for name, numbers in orders.items()
        ]
        return {"discount_fallback": orders}, notes

    def save(self, folder: Path) -> None:
        """Writes the model."""
        self.model.save(folder)
        for model in (self.model.characters, self.model.words):
            if model is not None:
                model.forget_files()  # the temporary ones, which are removed now
        shutil.rmtree(self._folder, ignore_errors=True)
