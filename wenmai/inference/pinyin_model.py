"""A trained encoder of pinyin: characters of syllables, and readings of characters."""

import heapq
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from wenmai.core.errors import SettingError, require_list
from wenmai.inference.conversion import Candidate
from wenmai.inference.pinyin_labelling import LabellingModel
from wenmai.inference.pinyin_numbers import BLANK, UNKNOWN, Numbers
from wenmai.inference.pinyin_typing import Piece
from wenmai.inference.pinyin_ways import Options, Way, likeliest, likeliest_with_words, spans
from wenmai.inference.user_words import UserWord, word_reading
from wenmai.nn.attention import watch_attention
from wenmai.nn.labelling import Labeller
from wenmai.text.encodable import require_text
from wenmai.text.pinyin.letters import fuzzy_pairs, normal_letters, typed_places
from wenmai.text.pinyin.readings import readings_of
from wenmai.text.pinyin.syllables import split_tone, without_tone

if TYPE_CHECKING:
    from wenmai.inference.input_session import InputSession, Offer

__all__ = ["PinyinModel", "SyllableAttention"]

_CHUNK = 1024  # texts that are sorted by length and read together
_WAYS = 4  # to cut letters without spaces that the network compares
_MORE_WAYS = 16  # where sounds are taken for each other, or there are words of the user
_FOR_WORDS = 64  # characters of a syllable among which those of the user's words are looked for
_LEAST = 1e-6  # a probability; others are not less to another model
_CONTEXT = 20  # characters before the input that it reads

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


class SyllableAttention(NamedTuple):
    """The attention of an encoder to an input.

    Attributes:
        tokens: What it read: characters before the input, syllables and marks.
        text: The likeliest characters.
        weights: (H, T, T) by name, such as ``encoder.layers.0.self``.
    """

    tokens: list[str]
    text: str
    weights: dict[str, Floats]


class PinyinModel(LabellingModel):
    """Turns pinyin into characters, and characters into pinyin.

    Args:
        module: The network.
        numbers: What it reads and writes.
    """

    def __init__(self, module: Labeller, numbers: Numbers) -> None:
        super().__init__(module, numbers)
        self._user: dict[tuple[str, tuple[str, ...]], UserWord] = {}

    # --- characters of syllables --------------------------------------------------------------------------------

    def convert(
        self,
        texts: Iterable[str],
        *,
        n_best: int = 1,
        toned: bool | None = None,
        context: str = "",
        constrained: bool = True,
        fuzzy: Collection[str] = (),
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
            fuzzy: Pairs of sounds that are taken for each other, of
                :data:`~wenmai.text.pinyin.letters.FUZZY_PAIRS`; the network compares the likeliest sixteen ways.

        Raises:
            SettingError: if ``texts`` is one string, or there is no such pair.
        """
        options: dict[str, Any] = {"n_best": n_best, "toned": toned, "context": context, "fuzzy": fuzzy}
        return [*self.stream(texts, constrained=constrained, **options)]

    def stream(
        self,
        texts: Iterable[str],
        *,
        n_best: int = 1,
        toned: bool | None = None,
        context: str = "",
        constrained: bool = True,
        fuzzy: Collection[str] = (),
        chunk: int = _CHUNK,
    ) -> Iterator[list[Candidate]]:
        """Yields the candidates of each text, reading ``chunk`` texts at a time; see :meth:`convert`."""
        require_list(texts, "convert")
        if n_best < 1:
            raise SettingError(f"n_best={n_best}: expected 1 or more")
        lines, pairs = iter(texts), fuzzy_pairs(fuzzy)
        while portion := list(islice(lines, chunk)):
            yield from self._convert(portion, n_best, toned, context, constrained, pairs)

    def _convert(
        self,
        texts: Sequence[str],
        n_best: int,
        toned: bool | None,
        context: str,
        constrained: bool,
        fuzzy: frozenset[str],
    ) -> list[list[Candidate]]:
        ways, before = self._ways_of(texts, toned, context, fuzzy)
        lattices: Iterable[Options | None]
        if n_best == 1 and not self._user and len(ways) > len(texts):
            lattices = self._lattices_for_best(ways, before, constrained)
        else:
            lattices = self._lattices(ways, before, self._labels(n_best), constrained)
        return self._chosen(ways, lattices, len(texts), n_best)

    def _lattices_for_best(self, ways: Sequence[Way], before: int, constrained: bool) -> list[Options | None]:
        """The likeliest characters of each way from which the best text can come; None for the others.

        Characters only lower the score of a way. So the network first reads the best way of each text, and then those
        others that begin above what that came to, less log K of K ways: all the rest together cannot reach it.
        """
        firsts = [number for number, way in enumerate(ways) if not number or way.text != ways[number - 1].text]
        found: list[Options | None] = [None] * len(ways)
        least: dict[int, float] = {}
        for number, lattice in zip(
            firsts, self._lattices([ways[number] for number in firsts], before, 1, constrained), strict=True
        ):
            found[number] = lattice
            least[ways[number].text] = ways[number].score + sum([options[0][1] for options in lattice])
        margin = float(np.log(_MORE_WAYS))
        more = [
            number for number, way in enumerate(ways) if found[number] is None and way.score > least[way.text] - margin
        ]
        for number, lattice in zip(
            more, self._lattices([ways[number] for number in more], before, 1, constrained), strict=True
        ):
            found[number] = lattice
        return found

    def _chosen(
        self, ways: Sequence[Way], lattices: Iterable[Options | None], texts: int, n_best: int
    ) -> list[list[Candidate]]:
        """The likeliest texts of the ways of each text."""
        found: list[dict[str, float]] = [{} for _ in range(texts)]
        mass: list[list[float]] = [[] for _ in range(texts)]
        for way, lattice in zip(ways, lattices, strict=True):
            best = found[way.text]
            if lattice is None:
                mass[way.text].append(way.score)
                continue
            texts_of_way, total = self._texts_of(way, lattice, n_best)
            mass[way.text].append(way.score + total)
            for text, score in texts_of_way:
                best[text] = float(np.logaddexp(best.get(text, -np.inf), way.score + score))
        return [
            [
                Candidate(text, float(np.exp(min(0.0, score - np.logaddexp.reduce(scores)))))
                for text, score in heapq.nlargest(n_best, best.items(), key=lambda item: item[1])
            ]
            for best, scores in zip(found, mass, strict=True)
        ]

    def _texts_of(self, way: Way, lattice: Options, most: int) -> tuple[list[tuple[str, float]], float]:
        """The likeliest texts of a way, and the logarithm of the sum of the weights of all."""
        if self._user:
            return likeliest_with_words(self._user.values(), way.pieces, lattice, most)
        return likeliest(lattice, most), 0.0

    def _ways_of(
        self, texts: Sequence[str], toned: bool | None, context: str, fuzzy: Collection[str], *, placed: bool = False
    ) -> tuple[list[Way], int]:
        """The likeliest ways to cut texts, and how many symbols of each are of the text before."""
        before = [self.numbers.character(one) for one in context[-_CONTEXT:]]
        most = _MORE_WAYS if fuzzy or self._user else _WAYS
        return [
            Way(
                number, one.score, one.pieces, np.array([*before, *map(self._symbol, one.pieces)], np.int64), one.begins
            )
            for number, text in enumerate(texts)
            for one in self.cutter.read(text, toned=toned, most=most, fuzzy=fuzzy, placed=placed)
        ], len(before)

    def _labels(self, n_best: int) -> int:
        """How many characters of a syllable are wanted: more where words of the user may be among them."""
        return max(n_best, _FOR_WORDS) if self._user else n_best

    def _symbol(self, piece: Piece) -> int:
        if len(piece.syllables) == 1:
            return self.numbers.symbol(piece.syllables[0])
        return UNKNOWN if piece.syllables else self.numbers.character(piece.text)

    def _lattices(self, ways: Sequence[Way], before: int, most: int, constrained: bool) -> Iterator[Options]:
        """Yields the likeliest characters of each part of each way, with their log-probabilities."""
        parts = [part for way in ways for part in spans(way, before, self.module.max_length)]
        keys = [
            (piece.syllables if constrained else ()) if piece.syllables else None
            for way in ways
            for piece in way.pieces
        ]
        found = self.label(parts, keys, most, "characters", self._candidates)
        labels, probabilities = (one.tolist() for one in found)
        token, place = self.numbers.characters.tokens, 0
        for way in ways:
            lattice: Options = []
            for piece in way.pieces:
                ids, scores = labels[place], probabilities[place]
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

    def place_scores(
        self, texts: Sequence[str], *, toned: bool | None = None, context: str = "", fuzzy: Collection[str] = ()
    ) -> list[Floats]:
        """Returns log P(character) of all characters at each place of texts, (places, C) each.

        A row is of the syllable that begins there, in whichever way the text is cut; the probabilities are among the
        characters that it can be, as those of :meth:`convert`. Every other character is as unlikely as can be, and so
        are all where none begins in the ways that the encoder reads.

        Args:
            texts: What was typed.
            toned: As of :meth:`convert`.
            context: The text before.
            fuzzy: As of :meth:`convert`.
        """
        ways, before = self._ways_of(texts, toned, context, fuzzy, placed=True)
        parts = [part for way in ways for part in spans(way, before, self.module.max_length)]
        keys = [piece.syllables or None for way in ways for piece in way.pieces]
        most = max((len(self._candidates(key)) for key in {*keys} if key is not None), default=1)
        ids, scores = self.label(parts, keys, most, "characters", self._candidates)
        best = [-np.inf] * len(texts)
        for way in ways:
            best[way.text] = max(best[way.text], way.score)
        sizes = [len(normal_letters(text)) for text in texts]
        firsts, width = np.cumsum([0, *sizes]), len(self.numbers.characters)
        found = np.full((firsts[-1], width), np.log(_LEAST), np.float32)
        lengths = [len(way.pieces) for way in ways]
        rows = np.array([firsts[way.text] + begin for way in ways for begin in way.begins], np.int64)
        shares = np.repeat(np.exp([way.score - best[way.text] for way in ways]), lengths)
        shares[[key is None for key in keys]] = 0.0
        mass = np.bincount(rows, shares, len(found))
        labelled, column = np.nonzero((scores > -np.inf) & (shares > 0)[:, None])
        places, inverse = np.unique(rows[labelled] * width + ids[labelled, column], return_inverse=True)
        sums = np.bincount(inverse, shares[labelled] * np.exp(scores[labelled, column])) / mass[places // width]
        found.reshape(-1)[places] = np.log(np.maximum(sums, _LEAST))
        return [found[begin:end] for begin, end in pairwise(firsts)]

    # --- key by key ---------------------------------------------------------------------------------------------

    def session(self, *, context: str = "", fuzzy: Collection[str] = ()) -> "InputSession":
        """Begins an input, key by key."""
        from wenmai.inference.input_session import InputSession

        pairs = fuzzy_pairs(fuzzy)
        return InputSession(lambda letters, before: self.offers(letters, context=before, fuzzy=pairs), context=context)

    def offers(self, letters: str, *, context: str = "", fuzzy: Collection[str] = ()) -> "list[Offer]":
        """Returns the candidates of an input that is not finished: for all of it, and for its first syllable.

        Args:
            letters: What is typed.
            context: The text before.
            fuzzy: As of :meth:`convert`.
        """
        from wenmai.inference.input_session import MOST, SENTENCES, Offer, first_offers

        ways, before = self._ways_of([letters], None, context, fuzzy, placed=True)
        lattices = [*self._lattices(ways, before, self._labels(MOST), True)]
        likely = [[options[:SENTENCES] for options in lattice] for lattice in lattices]
        firsts: dict[tuple[str, int], float] = {}
        places = typed_places(letters, normal_letters(letters))
        for way, lattice in zip(ways, lattices, strict=True):
            if len(way.pieces) > 1 and way.pieces[0].syllables:
                for text, score in lattice[0]:
                    key = text, places[way.begins[1]]
                    firsts[key] = float(np.logaddexp(firsts.get(key, -np.inf), way.score + score))
        (found,) = self._chosen(ways, lattices if self._user else likely, 1, SENTENCES)
        whole = [Offer(one.text, one.probability, len(letters)) for one in found if one.text]
        order = heapq.nlargest(MOST, firsts, key=lambda key: firsts[key])
        return first_offers(whole, [Offer(text, None, end) for text, end in order])

    # --- words of the user --------------------------------------------------------------------------------------

    def add_word(self, word: str, reading: str | None = None, *, weight: float | None = None) -> None:
        """Adds a word of the user, which wins from then on wherever its syllables are typed.

        Args:
            word: Its characters.
            reading: Its syllables with spaces between them, with tones or without; None: those of the dictionary.
            weight: What it adds to the log-probability of a sentence; None: more than any other word can gain.

        Raises:
            PinyinError: if the reading has not one syllable a character.
        """
        added = word_reading(word, reading, weight)
        self._user[added.word, added.syllables] = added

    def forget_word(self, word: str) -> None:
        """Takes a word of the user away again; one that is not there is none."""
        self._user = {key: one for key, one in self._user.items() if key[0] != word}

    # --- attention ----------------------------------------------------------------------------------------------

    def attention(
        self, text: str, *, toned: bool | None = None, context: str = "", fuzzy: Collection[str] = ()
    ) -> SyllableAttention:
        """Returns every attention map of the likeliest way to cut an input, of its first ``max_length`` symbols.

        Args:
            text: What was typed.
            toned: As of :meth:`convert`.
            context: The text before, which the network reads too.
            fuzzy: As of :meth:`convert`.

        Raises:
            SettingError: if there is nothing in the text.
        """
        pairs = fuzzy_pairs(fuzzy)
        ways, before = self._ways_of([text], toned, context, pairs)
        lattices = self._lattices(ways, before, self._labels(1), True)
        likely = [self._texts_of(way, lattice, 1)[0][0] for way, lattice in zip(ways, lattices, strict=True)]
        best = int(np.argmax([way.score + score for way, (_, score) in zip(ways, likely, strict=True)]))
        way, characters = ways[best], likely[best][0]
        symbols, skipped = next(spans(way, before, self.module.max_length))
        if not len(symbols) - skipped:
            raise SettingError("there is no input whose attention could be shown")
        self.module.eval()
        with torch.inference_mode(), watch_attention(self.module) as seen:
            self.module(torch.from_numpy(symbols[None]).to(self.device))
        shown = context[-_CONTEXT:][-skipped:] if skipped else ""
        return SyllableAttention(
            tokens=[*shown, *[piece.text.strip("'’") or piece.text for piece in way.pieces[: len(symbols) - skipped]]],
            text=characters,
            weights={
                f"{name.rpartition('.')[0]}.self": maps[0][0].float().cpu().numpy() for name, maps in seen.items()
            },
        )

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
        require_list(texts, "annotate")
        if not self.annotates:
            raise SettingError("this run has not learned readings; train one with reversed_share=0.1")
        lines = list(texts)
        for text in lines:
            require_text(text)
        found = [readings_of(text) for text in lines]
        ways = [
            Way(
                number,
                0.0,
                tuple(Piece(one, self._readings.get(one, ())) for one in text),
                np.array([self.numbers.character(one) for one in text], np.int64),
            )
            for number, text in enumerate(lines)
            if text
        ]
        keys = [piece.syllables or None for way in ways for piece in way.pieces]
        parts = [part for way in ways for part in spans(way, 0, self.module.max_length)]
        labels, _ = self.label(parts, keys, 1, "readings", self._reading_numbers)
        tokens, place = self.numbers.symbols.tokens, 0
        for way in ways:
            for index, piece in enumerate(way.pieces):
                if piece.syllables:
                    found[way.text][index] = tokens[labels[place, 0]]
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
