"""The lattice of an input of pinyin: its syllables and marks, the words that they can be, and the best paths.

Places are those between the characters of the input. Apostrophes and spaces are skipped: a syllable ends after those
that follow it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import FormatError
from wenmai.kernels.ngram_lookup import END, ROOT, UNKNOWN
from wenmai.kernels.pinyin_search import HYPOTHESIS, close_paths, search_lattice, trace_paths
from wenmai.kernels.pinyin_words import (
    EDGE,
    MAX_SYLLABLES,
    SYLLABLE,
    add_scores,
    is_reachable,
    match_words,
    order_by_end,
)
from wenmai.models.ngram import Ngram
from wenmai.models.pinyin_ngram import Lexicon
from wenmai.text.pinyin.letters import without_breaks

__all__ = ["UNREAD", "Beam", "Graph", "Lattice", "Literal", "Scorer", "Words"]

Records = npt.NDArray[np.void]
_NOTHING = np.zeros(0, np.uint32)
_NOTHING.flags.writeable = False
UNREAD = -20.0  # what letters add to a score that no word stands for
_MANY = 32  # syllables that are not complete: of equal ones, the likeliest word
_TOO_MANY = 512  # with more, they are characters by themselves: all words of 10,000 initials would take long
_ENDS = frozenset("。！？；!?;\n")


class Literal(NamedTuple):
    """A part of the input that stands for itself.

    Attributes:
        begin: The place where it begins.
        end: The place where it ends.
        text: What it stands for, one character or more.
        score: What it adds to the score of a path; less than 0 of letters, which are an unknown word for the models.
    """

    begin: int
    end: int
    text: str
    score: float = 0.0


class Graph(NamedTuple):
    """The syllables of an input.

    Attributes:
        steps: Records of ``SYLLABLE``, by the places where they begin.
        bounds: int64 (places + 1), where the steps of each place begin.
        literals: What is no syllable.
        letters: The input.
    """

    steps: Records
    bounds: npt.NDArray[np.int64]
    literals: Sequence[Literal]
    letters: str

    @classmethod
    def of(
        cls,
        letters: str,
        steps: Iterable[tuple[int, int, int, int, int, float]],
        literals: Sequence[Literal],
    ) -> "Graph":
        """Makes a graph of steps: begin, end, first syllable, the one after the last, tone or 0, and score."""
        ordered = sorted(steps)
        records = np.array([one[1:] for one in ordered], SYLLABLE)
        begins = np.array([one[0] for one in ordered], np.int64)
        return cls(records, np.searchsorted(begins, np.arange(len(letters) + 2)), literals, letters)

    def unread(self) -> list[Literal]:
        """The syllables as they were typed, for a model that has no words for them."""
        begins = np.repeat(np.arange(self.bounds.size - 1), np.diff(self.bounds)).tolist()
        found = sorted({*zip(begins, self.steps["end"].tolist(), strict=True)})
        return [Literal(begin, end, without_breaks(self.letters[begin:end]), UNREAD) for begin, end in found]


@dataclass(frozen=True, slots=True)
class Beam:
    """How far the search goes.

    Attributes:
        size: Hypotheses that are kept at a place.
        reach: How far they may fall behind the best, in nats.
        open_words: Words of the same syllables that are tried where a syllable is not complete.
        wrong_tone: What a tone that differs from the word's adds to the score.
    """

    size: int = 20
    reach: float = 10.0
    open_words: int = 12
    wrong_tone: float = -8.0

    def wider(self, best: int) -> "Beam":
        """The beam for so many texts."""
        return replace(self, size=max(self.size, 4 * best), reach=2 * self.reach)


class Words:
    """A lexicon with the numbers of its words in two models.

    Args:
        lexicon: The words.
        characters: The model of characters; None if there is none.
        words: The model of words; None if there is none.
    """

    def __init__(self, lexicon: Lexicon, characters: Ngram | None, words: Ngram | None) -> None:
        self.lexicon = lexicon
        self.tokens = _zeros(lexicon.codes.size)
        if characters is not None:
            vocab = characters.vocab
            self.tokens = lexicon.characters_numbered(lambda character: vocab.get(character) or UNKNOWN)
        self.numbers = _zeros(len(lexicon))
        if words is not None:
            found, _ = words.vocab.number(lexicon.lines())
            self.numbers = found[found != END].astype(np.uint32)
            self.numbers.flags.writeable = False


class Scorer:
    """Two models with their weights.

    Args:
        characters: The model of characters, or None.
        words: The model of words, or None.
        character_weight: μ_c.
        word_weight: μ_w.
    """

    def __init__(
        self, characters: Ngram | None, words: Ngram | None, character_weight: float, word_weight: float
    ) -> None:
        self.characters, self.words = characters, words
        one = characters or words
        if one is None:
            raise ValueError("a model is needed")
        self.tables: list[Any] = []
        for model, weight in ((characters, character_weight), (words, word_weight)):
            held = model or one
            self.tables += [held.contexts, held.leaves, held.config.order, weight if model is not None else 0.0]
        self._known: tuple[dict[str, int], dict[str, int]] = ({}, {})

    def begin(self, context: str = "", cut: Callable[[str], Sequence[str]] = lambda text: [text]) -> tuple[int, int]:
        """The contexts of both models after a text; ``cut`` cuts it into words."""
        sentence = context
        for mark in _ENDS:
            sentence = sentence.rpartition(mark)[2]
        states = []
        for model, tokens in ((self.characters, list(sentence)), (self.words, [*cut(sentence)] if sentence else [])):
            if model is None:
                states.append(ROOT)
                continue
            state = model.begin()
            model.advance(state, np.array([model.vocab.get(token) or UNKNOWN for token in tokens], np.int32))
            states.append(int(state[0]))
        return states[0], states[1]

    def numbers(self, literal: Literal) -> tuple[list[int], int]:
        """The characters of a literal in the model of characters, and its text in that of words.

        The end of a sentence is one for both models.
        """
        if literal.score:
            return [UNKNOWN], UNKNOWN
        tokens = [self._number(0, self.characters, character) for character in literal.text]
        if literal.text[-1:] in _ENDS:
            return [*tokens, END], END
        return tokens, self._number(1, self.words, literal.text)

    def _number(self, which: int, model: Ngram | None, text: str) -> int:
        if model is None:
            return UNKNOWN
        known = self._known[which]
        if text not in known:
            known[text] = model.vocab.get(text) or UNKNOWN
        return known[text]


class Lattice:
    """The search of one input.

    Args:
        scorer: The models.
        words: The words, the first of which are those of the model.
        graph: The syllables.
        beam: How far the search goes.
        best: Texts that are wanted.
        begin: The contexts of both models before the input.
        added: The arguments of :func:`~wenmai.kernels.pinyin_words.add_scores` after the edges, for those of another
            model.
    """

    def __init__(
        self,
        scorer: Scorer,
        words: Sequence[Words],
        graph: Graph,
        beam: Beam,
        *,
        best: int = 1,
        begin: tuple[int, int],
        added: tuple[Any, ...] | None = None,
    ) -> None:
        self._words, self.graph = words, graph
        self.places = graph.bounds.size - 1
        self._fixed = len(words[0].lexicon)
        self._texts: list[str] = []
        more_tokens: list[int] = []
        more_codes: list[int] = []
        more_bounds, more_numbers = [0], []
        edges, count, offset = np.empty(256, EDGE), 0, 0
        incomplete = np.count_nonzero(graph.steps["high"] - graph.steps["low"] > 1)
        most = beam.open_words if incomplete <= _MANY else 1  # so many initials cannot be guessed anyway
        longest = MAX_SYLLABLES if incomplete <= _TOO_MANY else 1
        for one in words:
            lexicon = one.lexicon
            trie = (lexicon.first, lexicon.syllables, lexicon.entries, lexicon.weights, lexicon.tones)
            how = most, longest, beam.wrong_tone
            edges, count = match_words(*trie, graph.steps, graph.bounds, offset, *how, 0, edges, count)
            if offset:
                more_tokens += one.tokens.tolist()
                more_codes += one.lexicon.codes.tolist()
                more_bounds += (len(more_tokens) - one.tokens.size + lexicon.bounds[1:]).tolist()
                more_numbers += one.numbers.tolist()
                self._texts += lexicon.lines().splitlines()
            offset += len(lexicon)
        for literals in (graph.literals, [*graph.literals, *graph.unread()]):
            spelt = [scorer.numbers(literal) for literal in literals]
            marks = [(*one[:2], offset + place, one.score, 1) for place, one in enumerate(literals)]
            found = np.concatenate([edges[:count], np.array(marks, EDGE)])
            if len(words) > 1 or marks:
                found = found[np.argsort(found["begin"], kind="stable")]
            self.edges, self._bounds = np.empty(found.size, EDGE), np.empty(self.places + 1, np.int64)
            order_by_end(found, found.size, self.places, self.edges, self._bounds)
            if is_reachable(self.edges, self._bounds):  # else a syllable has no word
                break
        for literal, (tokens, number) in zip(literals, spelt, strict=True):
            more_tokens += tokens
            more_codes += [*map(ord, literal.text), END][: len(tokens)]
            more_bounds.append(len(more_tokens))
            more_numbers.append(number)
            self._texts.append(literal.text)
        if added is not None:
            add_scores(self.edges, *added)
        self._scorer = scorer
        self.hypotheses = np.empty((self.places, beam.size), HYPOTHESIS)
        self.counts = np.zeros(self.places, np.int64)
        self.hypotheses[0, 0] = (0.0, 0, *begin, 0, 0, 0, 0)
        self.counts[0] = 1
        more = [np.array(values, np.uint32) for values in (more_tokens, more_codes, more_bounds, more_numbers)]
        for array in more:
            array.flags.writeable = False
        first = words[0]
        if not search_lattice(
            *scorer.tables,
            self.edges,
            self._bounds,
            first.tokens,
            first.lexicon.codes,
            first.lexicon.bounds,
            first.numbers,
            *more,
            1,
            beam.reach,
            best,
            self.hypotheses,
            self.counts,
        ):
            raise _damaged()

    def word(self, entry: int) -> str:
        """The text of an edge's word."""
        return self._texts[entry - self._fixed] if entry >= self._fixed else self._words[0].lexicon.word(entry)

    def first_words(self, most: int) -> list[tuple[str, int]]:
        """The words that the input may begin with, and where each ends; long ones first, likely ones before others."""
        first = self.edges[self.edges["begin"] == 0]
        found: list[tuple[str, int]] = []
        for end in sorted({*first["end"].tolist()}, reverse=True):
            kept = self.hypotheses[end, : self.counts[end]]
            likely = kept["entry"][kept["begin"] == 0].tolist()
            others = first[first["end"] == end]
            others = others[(-others["score"]).argsort(kind="stable")][:most]
            found += [(self.word(entry), end) for entry in dict.fromkeys([*likely, *others["entry"].tolist()])]
        return found

    def best(self, most: int, *, close: bool = True) -> list[tuple[str, float, list[tuple[int, int]]]]:
        """The best texts.

        Args:
            most: How many.
            close: Whether the sentence ends after the input.

        Returns:
            The texts, their scores minus the logarithm of the sum over all that were kept, and their words: the place
            where each begins, and its number.
        """
        last = self.places - 1
        kept = self.hypotheses[last, : self.counts[last]]
        scores = kept["score"].copy()
        if close and not close_paths(*self._scorer.tables, kept, scores):
            raise _damaged()
        if not scores.size:  # nothing but spaces
            return [("", 0.0, [])]
        chosen = np.argsort(-scores, kind="stable")
        total = np.logaddexp.reduce(scores)
        chosen = chosen[: 2 * most + 2]
        entries, begins = (np.empty((chosen.size, self.places), np.uint32) for _ in range(2))
        lengths = trace_paths(self.hypotheses, last, chosen, entries, begins)
        found: dict[str, tuple[str, float, list[tuple[int, int]]]] = {}
        for row, one in enumerate(chosen.tolist()):
            length = int(lengths[row])
            path = [*zip(begins[row, :length][::-1].tolist(), entries[row, :length][::-1].tolist(), strict=True)]
            text = "".join([self.word(entry) for _, entry in path])
            if text not in found:
                found[text] = text, float(scores[one] - total), path
            if len(found) == most:
                break
        return list(found.values())


def _zeros(size: int) -> npt.NDArray[np.uint32]:
    found = np.zeros(size, np.uint32)
    found.flags.writeable = False
    return found


def _damaged() -> FormatError:
    return FormatError("the n-grams of the model are damaged; copy or train the model again")
