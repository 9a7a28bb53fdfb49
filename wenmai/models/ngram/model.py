"""An n-gram model: its files, and the probabilities of words after others."""

import os
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import FormatError
from wenmai.kernels.ngram_lookup import (
    BEGIN,
    CONTEXT,
    LEAF,
    ROOT,
    advance_state,
    fill_log_probs,
    score_text,
)
from wenmai.models.folder import CONFIG, read_config, read_settings, write_config
from wenmai.models.ngram.config import NgramConfig
from wenmai.models.ngram.estimate import CONTEXTS, LEAVES
from wenmai.models.ngram.words import Words, mapped_file, read_only
from wenmai.text.settings import TextConfig

__all__ = ["Ngram"]

_FACTS: Mapping[str, type] = {"text": dict, "vocab_size": int, "ngrams": list, "unknown_is_word": bool, "facts": dict}
_WORDS_PER_THREAD = 1 << 14  # below, a thread costs more than it saves
Integers = npt.NDArray[np.integer]

_IMPOSSIBLE = 50.0  # a log-probability; back-off weights of others' files may give a little more than 0


class Ngram:
    """An n-gram model.

    Attributes:
        config: The settings of counting and smoothing.
        text: How text becomes words.
        vocab: The words; those that can be predicted are all but ``<s>``.
        contexts: (n-grams below the highest order, + 1) records of :data:`wenmai.kernels.ngram_lookup.CONTEXT`.
        leaves: (n-grams of the highest order) records of :data:`wenmai.kernels.ngram_lookup.LEAF`.
        ngrams: Number of n-grams of each order.
        unknown_is_word: Whether ``<unk>`` was a word of the text, so that it is not counted as unknown.
        facts: What the estimate reported, as JSON values.
    """

    def __init__(
        self,
        config: NgramConfig,
        text: TextConfig,
        vocab: Words,
        contexts: npt.NDArray[np.void],
        leaves: npt.NDArray[np.void],
        ngrams: Sequence[int],
        *,
        unknown_is_word: bool = False,
        facts: Mapping[str, Any] | None = None,
        folder: Path | None = None,
    ) -> None:
        self.config, self.text, self.vocab = config, text, vocab
        self.contexts, self.leaves, self.ngrams = read_only(contexts), read_only(leaves), tuple(ngrams)
        self.unknown_is_word = unknown_is_word
        self.facts = dict(facts or {})
        self._folder = folder  # that has the records already

    @property
    def predictable(self) -> int:
        """V: words that can be predicted, ``</s>`` and ``<unk>`` among them."""
        return len(self.vocab) - 1

    def log_probs(self, words: Integers, *, threads: int = 1) -> npt.NDArray[np.float32]:
        """Scores a text.

        Args:
            words: (N) ids of words; ``</s>`` ends each sentence, and the next begins after ``<s>``.
            threads: Number of threads.

        Returns:
            (N) natural log-probabilities.

        Raises:
            FormatError: if the model is damaged.
        """
        text = np.ascontiguousarray(words, np.int32)
        found = np.empty(text.size, np.float32)
        parts = max(1, min(threads, text.size // _WORDS_PER_THREAD))
        bounds = [text.size * number // parts for number in range(parts + 1)]

        def score(begin: int, end: int) -> None:
            arguments = (text, begin, end, self.config.order, self.predictable, self._uniform, found)
            if not score_text(self.contexts, self.leaves, *arguments):
                raise self._damaged()

        if parts == 1:
            score(0, text.size)
        else:
            with ThreadPoolExecutor(parts) as pool:
                list(pool.map(score, bounds[:-1], bounds[1:]))
        return self._probable(found)

    def begin(self) -> npt.NDArray[np.int64]:
        """The state at the beginning of a sentence: id of the context, its length, words before (at most N - 1)."""
        return np.array([BEGIN, 1, 1] if self.config.order > 1 else [ROOT, 0, 0], np.int64)

    def advance(self, state: npt.NDArray[np.int64], words: Integers) -> None:
        """Advances a state by words, in place.

        Raises:
            FormatError: if the model is damaged.
        """
        text = np.ascontiguousarray(words, np.int32)
        if not advance_state(self.contexts, self.leaves, text, self.config.order, state):
            raise self._damaged()

    def distribution(
        self, state: npt.NDArray[np.int64], out: npt.NDArray[np.float32] | None = None
    ) -> npt.NDArray[np.float32]:
        """The natural log-probability of every word after a state: (vocabulary), ``-inf`` for ``<s>``.

        Raises:
            FormatError: if the model is damaged.
        """
        found = np.empty(len(self.vocab), np.float32) if out is None else out
        arguments = (state, self.config.order, self.predictable, self._uniform, found)
        if not fill_log_probs(self.contexts, self.leaves, *arguments):
            raise self._damaged()
        return self._probable(found)

    def save(self, folder: Path) -> None:
        """Writes ``config.json``, the words and the records into an existing folder."""
        write_config(
            folder,
            self.config,
            text=asdict(self.text),
            vocab_size=len(self.vocab),
            ngrams=list(self.ngrams),
            unknown_is_word=self.unknown_is_word,
            facts=self.facts,
        )
        self.vocab.save(folder)
        for name, records in ((CONTEXTS, self.contexts), (LEAVES, self.leaves)):
            if self._folder is None:
                records.tofile(folder / name)
            else:
                _link(self._folder / name, folder / name)

    def forget_files(self) -> None:
        """Forgets the folder of the records; :meth:`save` then writes them from memory instead of linking them."""
        self._folder = None

    @classmethod
    def of_files(
        cls,
        folder: Path,
        config: NgramConfig,
        text: TextConfig,
        vocab: Words,
        ngrams: Sequence[int],
        *,
        unknown_is_word: bool = False,
        facts: Mapping[str, Any] | None = None,
    ) -> Self:
        """Maps the records of a folder; see the class.

        Raises:
            FormatError: if a file is missing or has another size.
        """
        inner = sum(ngrams[: max(1, config.order - 1)])
        return cls(
            config,
            text,
            vocab,
            mapped_file(folder / CONTEXTS, CONTEXT, inner + 1),
            mapped_file(folder / LEAVES, LEAF, ngrams[-1] if config.order > 1 else 0),
            ngrams,
            unknown_is_word=unknown_is_word,
            facts=facts,
            folder=folder,
        )

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Maps what :meth:`save` wrote; nothing large is read.

        Raises:
            FormatError: if a file is missing, damaged, or does not fit the others.
        """
        folder = Path(folder)
        config, facts = read_config(folder, NgramConfig, "n-gram", _FACTS)
        text = read_settings(folder / CONFIG, TextConfig, facts["text"], "text")
        ngrams = facts["ngrams"]
        if (
            len(ngrams) != config.order
            or not all(type(count) is int and 0 <= count < ROOT for count in ngrams)
            or ngrams[0] != facts["vocab_size"]
        ):
            raise FormatError(f"{folder / CONFIG}: its sizes are not those of an n-gram model")
        return cls.of_files(
            folder,
            config,
            text,
            Words.load(folder, facts["vocab_size"]),
            ngrams,
            unknown_is_word=facts["unknown_is_word"],
            facts=facts["facts"],
        )

    @property
    def _uniform(self) -> bool:
        return self.config.smoothing == "add-k"

    def _probable(self, log_probs: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Returns log-probabilities that can be some: NaN, infinity and the like come from damaged files."""
        if not np.max(log_probs, initial=-np.inf) < _IMPOSSIBLE:
            raise self._damaged()
        return log_probs

    def _damaged(self) -> FormatError:
        where = "the model" if self._folder is None else str(self._folder)
        return FormatError(f"{where}: the n-grams are damaged; train or import the model again")


def _link(source: Path, target: Path) -> None:
    """Links a file, or copies it where that is impossible; nobody writes to it again."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
