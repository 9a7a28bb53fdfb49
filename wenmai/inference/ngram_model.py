"""A trained n-gram model and its verbs."""

import math
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import SettingError, require_list
from wenmai.core.registry import needing_neural
from wenmai.core.showing import Shown
from wenmai.inference.options import require_one_text, require_positive
from wenmai.kernels.ngram_lookup import BEGIN, END, ROOT, UNKNOWN
from wenmai.measures.language import SentenceScore
from wenmai.models.ngram import Ngram
from wenmai.text.encodable import require_text
from wenmai.text.normalise import normaliser
from wenmai.text.segment import LINE_END, segmenter
from wenmai.training.passes import available_cores

if TYPE_CHECKING:
    from torch import Tensor

    from wenmai.decode.protocol import Step
    from wenmai.inference.generation import Generated

__all__ = ["NgramModel"]

_BATCH_CHARACTERS = 1 << 18  # of lines that are scored together
_LONG = 1 << 20  # words of lines that several threads score


class NgramModel(Shown):
    """Scores text, predicts the next word, and generates text.

    Args:
        model: The n-grams.
    """

    def __init__(self, model: Ngram) -> None:
        self.model = model
        self._normalise = normaliser(model.text)

    def _facts(self) -> dict[str, Any]:
        config, ngrams = self.model.config, sum(self.model.ngrams)
        sizes = {"order": config.order, "words": len(self.model.vocab), "ngrams": ngrams}
        return {**sizes, "smoothing": config.smoothing, "segment": self.model.text.segment}

    # --- scoring --------------------------------------------------------------------------------------------------

    def score(
        self, texts: Iterable[str], *, context: Literal["fresh", "carried"] | None = None, threads: int | None = None
    ) -> Iterator[SentenceScore]:
        """Scores lines, in order.

        Args:
            texts: Lines, read as they are needed.
            context: ``fresh`` or None; an n-gram model does not see the lines before.
            threads: Most threads; None: one for each processor core.

        Yields:
            The score of each line; that of an empty line has no predictions.

        Raises:
            SettingError: if ``context`` is ``carried``, or ``texts`` is one string.
            FormatError: if the model is damaged.
        """
        require_list(texts, "score")
        if context not in (None, "fresh"):
            raise SettingError(f"context={context!r}: an n-gram model scores each line by itself; expected fresh")
        workers = threads or available_cores()
        with ThreadPoolExecutor(workers) as pool:
            waiting: deque[tuple[list[str], Future[_Batch]]] = deque()
            for lines in _batches(texts):
                waiting.append((lines, pool.submit(self._log_probs, lines, workers)))
                if len(waiting) > workers:
                    yield from self._scores(*_done(waiting))
            while waiting:
                yield from self._scores(*_done(waiting))

    def score_within(self, passages: Sequence[Sequence[str]], reaches: Sequence[int]) -> list[list[SentenceScore]]:
        """Scores lines when only so many words before each word are known.

        Args:
            passages: Lists of lines, whose last is scored; those before have no effect.
            reaches: Words that are known, 1 or more; BOS is one of them.

        Returns:
            The score of each line, for each reach.

        Raises:
            FormatError: if the model is damaged.
        """
        lines = [passage[-1] for passage in passages]
        words, spelled = self.number(lines)
        whole = self.model.log_probs(words)
        near = [reach < self.model.config.order - 1 for reach in reaches]
        found = [self._within(words, reach) if less else whole for reach, less in zip(reaches, near, strict=True)]
        return [list(self._scores(lines, _Batch(words, spelled, log_probs))) for log_probs in found]

    def _within(self, words: npt.NDArray[np.int32], reach: int) -> npt.NDArray[np.float32]:
        found, start = np.empty(words.size, np.float32), 0
        for place, word in enumerate(words.tolist()):
            state = self.model.begin() if place - start < reach else np.array([ROOT, 0, 0], np.int64)
            self.model.advance(state, words[max(start, place - reach) : place])
            found[place] = self.model.distribution(state)[word]
            start = place + 1 if word == END else start
        return found

    def more_likely(self, first: str, second: str) -> tuple[SentenceScore, SentenceScore]:
        """Returns the scores of two texts; the more likely has the higher ``log_prob``."""
        one, other = self.score([first, second])
        return one, other

    def continuations(self, prompt: str, options: Sequence[str]) -> list[list[float]]:
        r"""Scores options after a prompt.

        Args:
            prompt: The text before, from the beginning of a line on; ``\n`` ends a line, and what precedes it has no
                effect.
            options: The possible continuations, each with its leading space.

        Returns:
            The natural log-probabilities of the words that each option adds to the prompt.

        Raises:
            FormatError: if the model is damaged.
        """
        last = prompt.rpartition("\n")[2]
        words, _ = self.number([last, *[last + option for option in options]])
        ends = np.flatnonzero(words == END)
        rows = [row[row != END].tolist() for row in np.split(words, ends[:-1])]
        shared = len(list(takewhile(lambda column: len(set(column)) == 1, zip(*rows, strict=False))))
        log_probs = np.split(self.model.log_probs(words).astype(np.float64), ends[:-1] + 1)
        return [found[shared:-1].tolist() for found in log_probs[1:]]

    def overlong(self, prompt: str, options: Sequence[str]) -> int:
        """Returns how many words are cut off the beginning of a prompt: none."""
        return 0

    def _log_probs(self, lines: list[str], threads: int) -> "_Batch":
        words, spelled = self.number(lines)
        return _Batch(words, spelled, self.model.log_probs(words, threads=threads if words.size > _LONG else 1))

    def _scores(self, lines: list[str], batch: "_Batch") -> Iterator[SentenceScore]:
        words, spelled, log_probs = batch
        ends = np.flatnonzero(words == END) + 1
        starts = np.concatenate([[0], ends[:-1]])
        exact, unknown = log_probs.astype(np.float64), spelled > 0
        sums = np.add.reduceat(exact, starts).tolist()
        if unknown.any():
            oov = np.add.reduceat(unknown.astype(np.int64), starts).tolist()
            oov_bytes = np.add.reduceat(spelled.astype(np.int64), starts).tolist()
            known_sums = np.add.reduceat(np.where(unknown, 0.0, exact), starts).tolist()
        else:
            oov = oov_bytes = [0] * len(lines)
            known_sums = sums
        values, begin = tuple(exact.tolist()), 0
        for place, end in enumerate(ends.tolist()):
            if end - begin == 1:
                yield SentenceScore(text=lines[place], log_prob=0.0, tokens=0)
            else:
                yield SentenceScore(
                    text=lines[place],
                    log_prob=sums[place],
                    tokens=end - begin,
                    oov=oov[place],
                    known_log_prob=known_sums[place],
                    oov_bytes=oov_bytes[place],
                    token_log_probs=values[begin:end],
                )
            begin = end

    def number(self, lines: Sequence[str]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Cuts lines into words and encodes them.

        Returns:
            Word ids, with ``</s>`` at the end of each line; and for unknown words the bytes of their spelling plus one,
            for others 0.
        """
        joined = "\n".join(lines) + "\n"
        if joined.count("\n") != len(lines):
            joined = "\n".join([line.replace("\n", " ") for line in lines]) + "\n"
        joined = self._normalise(joined)
        if self.model.text.segment != "whitespace":
            tokens = segmenter(self.model.text.segment).tokens(joined.replace(LINE_END, " "))
            joined = " ".join(tokens).replace(LINE_END, "\n")
        return self.model.vocab.number(joined, unknown_is_word=self.model.unknown_is_word)

    # --- prediction and generation -----------------------------------------------------------------------------

    def next(self, text: str, topn: int = 10) -> list[tuple[str, float]]:
        r"""Returns the most likely next words of a text, with their probabilities.

        Args:
            text: The text; empty: the beginning of a line. The end of a line is ``\n``.
            topn: How many at most; impossible words are left out.

        Raises:
            SettingError: if ``text`` is none, or ``topn`` is below 1.
        """
        require_one_text("next", text)
        require_positive("topn", topn)
        state = self.model.begin()
        self.model.advance(state, self.number([text.rpartition("\n")[2]])[0][:-1])
        log_probs = self.model.distribution(state)
        count = min(topn, self.model.predictable)
        top = np.argpartition(-log_probs, count - 1)[:count]
        top = top[np.isfinite(log_probs[top])]
        top = top[np.lexsort((top, -log_probs[top]))]
        return [
            ("\n" if word == END else self.model.vocab[word], math.exp(log_prob))
            for word, log_prob in zip(top.tolist(), log_probs[top].tolist(), strict=True)
        ]

    def generate(self, prompt: str = "", **options: Any) -> "list[Generated]":  # noqa: ANN401
        """Generates texts; ``options`` as of :class:`~wenmai.inference.generation.GenerationConfig`."""
        with needing_neural("generation"):
            from wenmai.inference.generation import GenerationConfig, generate
        return generate(_Generator(self.model), _Vocabulary(self), prompt, GenerationConfig.of(options))

    def stream(self, prompt: str = "", **options: Any) -> Iterator[str]:  # noqa: ANN401
        """Yields one text in pieces as it is generated; ``options`` as of :meth:`generate`."""
        with needing_neural("generation"):
            from wenmai.inference.generation import GenerationConfig, stream
        return stream(_Generator(self.model), _Vocabulary(self), prompt, GenerationConfig.of(options))


class _State:
    """Contexts, one for each row."""

    def __init__(self, contexts: npt.NDArray[np.int64]) -> None:
        self.contexts = contexts  # (N, 3), see Ngram.begin

    @property
    def batch_size(self) -> int:
        return len(self.contexts)

    def select(self, rows: "Tensor") -> None:
        self.contexts = self.contexts[rows.cpu().numpy()]


class _Generator:
    """N-grams, for generation; ``</s>`` is read before a text begins."""

    max_length: int | None = None
    device = "cpu"

    def __init__(self, model: Ngram) -> None:
        self._model = model

    def read(self, tokens: Sequence[int], *, rows: int, capacity: int) -> _State:
        """Returns the contexts after some words."""
        state = _State(np.tile(self._model.begin(), (rows, 1)))
        for token in tokens:
            self._advance(state, [token] * rows)
        return state

    def step(self, tokens: "Tensor", state: _State) -> "Step":
        """Reads one word for each row."""
        import torch

        from wenmai.decode.protocol import Step

        self._advance(state, tokens.tolist())
        found = np.empty((state.batch_size, len(self._model.vocab)), np.float32)
        for row, context in enumerate(state.contexts):
            self._model.distribution(context, found[row])
        return Step(torch.from_numpy(found))

    def _advance(self, state: _State, tokens: Sequence[int]) -> None:
        for row, token in enumerate(tokens):
            if token == END:
                state.contexts[row] = self._model.begin()
            else:
                self._model.advance(state.contexts[row], np.array([token]))


class _Vocabulary:
    """The words, for generation."""

    continues_words = False

    def __init__(self, model: NgramModel) -> None:
        self._model = model
        self._between = " " if model.model.text.segment in ("whitespace", "words") else ""

    @property
    def eos_id(self) -> int:
        return END

    @property
    def suppressed(self) -> Collection[int]:
        return (UNKNOWN, BEGIN)

    def encode(self, text: str) -> list[int]:
        found: list[int] = self._model.number(text.split("\n"))[0][:-1].tolist()
        return found

    def decode(self, tokens: Sequence[int]) -> str:
        words = self._model.model.vocab
        text = self._between.join(["\n" if token == END else words[token] for token in tokens])
        return text.replace(f"\n{self._between}", "\n").replace(f"{self._between}\n", "\n")


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        require_text(text)
        batch.append(text)
        size += len(text) + 1
        if size >= _BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class _Batch(NamedTuple):
    """Some lines as words."""

    words: npt.NDArray[np.int32]
    spelled: npt.NDArray[np.int32]
    log_probs: npt.NDArray[np.float32]


def _done(waiting: "deque[tuple[list[str], Future[_Batch]]]") -> tuple[list[str], _Batch]:
    lines, batch = waiting.popleft()
    return lines, batch.result()
