"""A trained encoder of pinyin: characters of syllables, and readings of characters."""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import SettingError
from wenmai.inference.conversion import Candidate
from wenmai.inference.pinyin_labelling import LabellingModel
from wenmai.inference.pinyin_numbers import BLANK, UNKNOWN
from wenmai.inference.pinyin_typing import Piece
from wenmai.text.pinyin.letters import normal_letters
from wenmai.text.pinyin.readings import readings_of
from wenmai.text.pinyin.syllables import split_tone, without_tone

__all__ = ["PinyinModel"]

_CHUNK = 1024  # texts that are sorted by length and read together
_WAYS = 4  # to cut letters without spaces that the network compares
_LEAST = 1e-6  # a probability; others are not less to another model
_CONTEXT = 20  # characters before the input that it reads

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


class _Way(NamedTuple):
    """A way to cut a text, as the network reads it.

    Attributes:
        text: The number of the text.
        score: Of the way.
        pieces: Parts of the text.
        symbols: What the network reads: characters before the input, and one symbol for each part.
    """

    text: int
    score: float
    pieces: tuple[Piece, ...]
    symbols: Ints


class PinyinModel(LabellingModel):
    """Turns pinyin into characters, and characters into pinyin.

    Args:
        module: The network.
        numbers: What it reads and writes.
    """

    # --- characters of syllables --------------------------------------------------------------------------------

    def convert(
        self,
        texts: Iterable[str],
        *,
        n_best: int = 1,
        toned: bool | None = None,
        context: str = "",
        constrained: bool = True,
    ) -> list[list[Candidate]]:
        """Converts inputs, see :class:`wenmai.inference.conversion.Converter`.

        The probability of a candidate is that of its characters, each among those that the syllable can be, times that
        of the way in which the input was cut into syllables.

        Args:
            texts: What was typed: syllables with or without spaces and tones; everything else is kept.
            n_best: Most candidates of each.
            toned: False: tones are left out; otherwise they count where there are some.
            context: The text before the input.
            constrained: Whether a syllable becomes one of its candidates. A syllable without candidates in the
                vocabulary may become any character.

        Raises:
            SettingError: if ``texts`` is one string.
        """
        return [*self.stream(texts, n_best=n_best, toned=toned, context=context, constrained=constrained)]

    def stream(
        self,
        texts: Iterable[str],
        *,
        n_best: int = 1,
        toned: bool | None = None,
        context: str = "",
        constrained: bool = True,
        chunk: int = _CHUNK,
    ) -> Iterator[list[Candidate]]:
        """Yields the candidates of each text, reading ``chunk`` texts at a time; see :meth:`convert`."""
        if isinstance(texts, str):
            raise SettingError("convert takes a list of texts; put a single one in brackets")
        if n_best < 1:
            raise SettingError(f"n_best={n_best}: expected 1 or more")
        lines = iter(texts)
        while portion := list(islice(lines, chunk)):
            yield from self._convert(portion, n_best, toned, context, constrained)

    def _convert(
        self, texts: Sequence[str], n_best: int, toned: bool | None, context: str, constrained: bool
    ) -> list[list[Candidate]]:
        before = [self.numbers.character(one) for one in context[-_CONTEXT:]]
        ways = [
            _Way(number, way.score, way.pieces, np.array([*before, *map(self._symbol, way.pieces)], np.int64))
            for number, text in enumerate(texts)
            for way in self.cutter.read(text, toned=toned, most=_WAYS)
        ]
        found: list[dict[str, float]] = [{} for _ in texts]
        mass: list[list[float]] = [[] for _ in texts]
        for way, lattice in zip(ways, self._lattices(ways, len(before), n_best, constrained), strict=True):
            best = found[way.text]
            mass[way.text].append(way.score)
            for text, score in _likeliest(lattice, n_best):
                best[text] = float(np.logaddexp(best.get(text, -np.inf), way.score + score))
        return [
            [
                Candidate(text, float(np.exp(min(0.0, score - np.logaddexp.reduce(scores)))))
                for text, score in heapq.nlargest(n_best, best.items(), key=lambda item: item[1])
            ]
            for best, scores in zip(found, mass, strict=True)
        ]

    def _symbol(self, piece: Piece) -> int:
        if len(piece.syllables) == 1:
            return self.numbers.symbol(piece.syllables[0])
        return UNKNOWN if piece.syllables else self.numbers.character(piece.text)

    def _lattices(
        self, ways: Sequence[_Way], before: int, most: int, constrained: bool
    ) -> Iterator[list[list[tuple[str, float]]]]:
        """Yields the likeliest characters of each part of each way, with their log-probabilities."""
        spans = [span for way in ways for span in _spans(way, before, self.module.max_length)]
        keys = [
            [(() if not constrained else piece.syllables) if piece.syllables else None for piece in way.pieces]
            for way in ways
        ]
        rows = [keys_of[place] for keys_of in keys for place in range(len(keys_of))]
        labels = self.label(spans, rows, most, "characters", self._candidates)
        token, place = self.numbers.characters.tokens, 0
        for way in ways:
            lattice: list[list[tuple[str, float]]] = []
            for piece in way.pieces:
                ids, scores = labels[0][place], labels[1][place]
                place += 1
                if not piece.syllables:
                    lattice.append([(piece.text, 0.0)])
                    continue
                lattice.append([(token[n], score) for n, score in zip(ids, scores, strict=True) if score > -np.inf])
            yield lattice

    def _candidates(self, syllables: tuple[str, ...]) -> Ints:
        """The characters that one of some syllables can be; if there are none, all."""
        choices = self.numbers.choices
        known = (one if one in choices else without_tone(one) for one in syllables)
        found = [choices[one] for one in known if one in choices]
        if not found:
            return np.arange(BLANK + 1, len(self.numbers.characters))
        return found[0] if len(found) == 1 else np.unique(np.concatenate(found))

    def place_scores(self, texts: Sequence[str], *, toned: bool | None = None, context: str = "") -> list[Floats]:
        """Returns log P(character) of all characters at each place of texts, (places, C) each.

        A row is of the syllable that begins there, in whichever way the text is cut; other rows are zero.

        Args:
            texts: What was typed.
            toned: As of :meth:`convert`.
            context: The text before.
        """
        before = [self.numbers.character(one) for one in context[-_CONTEXT:]]
        cuts = [self.cutter.read(text, toned=toned, most=_WAYS, placed=True) for text in texts]
        ways = [
            _Way(number, one.score, one.pieces, np.array([*before, *map(self._symbol, one.pieces)], np.int64))
            for number, readings in enumerate(cuts)
            for one in readings
        ]
        spans = [span for way in ways for span in _spans(way, len(before), self.module.max_length)]
        rows = self.log_probs(spans, "characters")
        found, place = [], 0
        for text, readings in zip(texts, cuts, strict=True):
            shape = len(normal_letters(text)), len(self.numbers.characters)
            sums, mass = np.zeros(shape, np.float32), np.zeros(shape[0], np.float32)
            best = max(one.score for one in readings)
            for one in readings:
                share = np.float32(np.exp(one.score - best))
                for begin in one.begins:
                    sums[begin] += share * np.exp(rows[place])
                    mass[begin] += share
                    place += 1
            some = mass > 0
            sums[some] = np.log(np.maximum(sums[some] / mass[some, None], _LEAST))
            sums[some, : BLANK + 1] = np.log(_LEAST)
            found.append(sums)
        return found

    # --- readings of characters ---------------------------------------------------------------------------------

    @property
    def annotates(self) -> bool:
        """Whether it has learned readings."""
        return "readings" in self.module.heads

    def annotate(self, texts: Iterable[str]) -> list[list[str]]:
        """Returns the readings of texts: of each a list with one item a character.

        The item of a Chinese character is its toned syllable: where it has several, the likeliest in the text; that of
        a character that the model does not know is pypinyin's. Everything else stands for itself.

        Args:
            texts: Chinese texts.

        Raises:
            SettingError: if the model has not learned readings, or ``texts`` is one string.
        """
        if isinstance(texts, str):
            raise SettingError("annotate takes a list of texts; put a single one in brackets")
        if not self.annotates:
            raise SettingError("this run has not learned readings; train one with reversed_share=0.1")
        lines = list(texts)
        found = [readings_of(text) for text in lines]
        ways = [
            _Way(
                number,
                0.0,
                tuple(Piece(one, self._readings.get(one, ())) for one in text),
                np.array([self.numbers.character(one) for one in text], np.int64),
            )
            for number, text in enumerate(lines)
            if text
        ]
        keys = [piece.syllables or None for way in ways for piece in way.pieces]
        spans = [span for way in ways for span in _spans(way, 0, self.module.max_length)]
        labels, _ = self.label(spans, keys, 1, "readings", self._reading_numbers)
        tokens, place = self.numbers.symbols.tokens, 0
        for way in ways:
            for index, piece in enumerate(way.pieces):
                if piece.syllables:
                    found[way.text][index] = tokens[labels[place][0]]
                place += 1
        return found

    @cached_property
    def _readings(self) -> dict[str, tuple[str, ...]]:
        """The toned syllables of each character that the model knows."""
        found: dict[str, list[str]] = {}
        for syllable, characters in self.numbers.candidates.items():
            if split_tone(syllable)[1] and syllable in self.numbers.symbols:
                for character in characters:
                    found.setdefault(character, []).append(syllable)
        return {character: tuple(syllables) for character, syllables in found.items()}

    def _reading_numbers(self, syllables: tuple[str, ...]) -> Ints:
        return np.array([self.numbers.symbols.index(one) for one in syllables], np.int64)


def _spans(way: _Way, before: int, longest: int) -> Iterator[tuple[Ints, int]]:
    """Yields what the network reads at once, and how many symbols at the beginning of it are not labelled.

    A text that is too long is cut behind a mark, if there is one in the second half of what can be read.
    """
    before = min(before, longest // 2)
    symbols = way.symbols[len(way.symbols) - len(way.pieces) - before :]
    if len(symbols) <= longest:
        yield symbols, before
        return
    context, rest = symbols[:before], symbols[before:]
    start = 0
    while start < len(rest):
        room = longest - (before if start == 0 else 0)
        end = min(len(rest), start + room)
        if end < len(rest):
            marks = [place for place in range(start + room // 2, end) if not way.pieces[place].syllables]
            end = marks[-1] + 1 if marks else end
        yield (np.concatenate([context, rest[:end]]), before) if start == 0 else (rest[start:end], 0)
        start = end


def _likeliest(lattice: Sequence[Sequence[tuple[str, float]]], most: int) -> list[tuple[str, float]]:
    """Returns the likeliest texts of independent characters, with their log-probabilities, the best first."""
    if most == 1:
        return [("".join([options[0][0] for options in lattice]), sum([options[0][1] for options in lattice]))]
    best = [("", 0.0)]
    for options in lattice:
        longer = [(text + one, total + score) for text, total in best for one, score in options]
        best = heapq.nlargest(most, longer, key=lambda item: item[1]) if len(longer) > most else longer
    return heapq.nlargest(most, best, key=lambda item: item[1])
