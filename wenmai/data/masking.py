"""Masking: which tokens a masked language model has to guess, and what it sees in their place.

Devlin et al. 2019 (BERT), section 3.1, and its later release with whole words; spans: Joshi et al. 2020 (SpanBERT),
section 3.1; new masks in each epoch: Liu et al. 2019 (RoBERTa), section 4.1; units, such as phrases and entities: Sun
et al. 2019 (ERNIE), section 3.2, and the reader that was released with it.

A sequence of n tokens, special ones counted, has max(1, round(rate · n)) targets at most, halves rounded to even; by
that reader it has as many as are drawn. A policy chooses them; then the mask stands in the place of 80 % of them, a
random token in that of 10 %, and 10 % stay.

What is drawn depends on the key of the sequence alone, never on the batch that it is in: an epoch is masked alike
whatever the batches and the processes, and a training that was killed goes on without any state.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple, Protocol, get_args

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt, Le, Lt
from typing_extensions import Doc

from wenmai.core.errors import SettingError
from wenmai.core.seeding import mixed_seed
from wenmai.text.settings import check_choices
from wenmai.text.tokenizer import Tokenizer

__all__ = ["POLICIES", "Candidates", "Masked", "Masker", "MaskingConfig", "Policy"]

PolicyName = Literal["token", "whole-word", "span", "unit", "released"]
CHOICES: dict[str, tuple[str, ...]] = {"masking": get_args(PolicyName)}

Ints = npt.NDArray[np.integer]
Longs = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]

_MASKS = 0x6D61736B  # sets the draws of masks apart from others with the same seed and epoch
_ORDER, _PLACE, _LENGTH, _FATE, _TOKEN = range(5)  # what is drawn
_LONGEST_SPAN, _STOP = 10, 0.2  # words; the probability that a span ends after a word: 3.8 words on average
_ATTEMPTS = 16  # to begin a span, besides one for each target


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskingConfig:
    """Which tokens are masked, and how.

    Raises:
        SettingError: if the fractions of masks and random tokens are more than 1 together.
    """

    masking: Annotated[
        PolicyName,
        Doc(
            "what is masked together: token: nothing, each token is drawn by itself; whole-word: all pieces of a word; "
            "span: some words in a row (SpanBERT); unit: a word, or a phrase or entity where a task knows them, which "
            "is masked, replaced or left as a whole (ERNIE); released: the same, but each token of it by itself, and "
            "each unit with mask_probability, however many that makes (the reader of ERNIE 1.0)"
        ),
    ] = "token"
    mask_probability: Annotated[float, Gt(0), Lt(1), Doc("fraction of the tokens that are to be guessed")] = 0.15
    mask_replace: Annotated[float, Ge(0), Le(1), Doc("fraction of these in whose place the mask stands")] = 0.8
    random_replace: Annotated[
        float, Ge(0), Le(1), Doc("fraction of these in whose place a random token stands; the others stay")
    ] = 0.1
    max_masked: Annotated[int | None, Ge(1), Doc("most tokens of a sequence that are to be guessed")] = None
    dupe_factor: Annotated[
        int | None,
        Ge(1),
        Doc("masks that each sequence has, used in turn, as in BERT; none: new ones in each epoch, as in RoBERTa"),
    ] = None

    def __post_init__(self) -> None:
        check_choices(self, CHOICES)
        if self.masking == "released" and self.max_masked is not None:
            raise SettingError(
                f"max_masked={self.max_masked} has no effect with masking=released, which draws each unit by itself; "
                "leave it out, or set masking=unit"
            )
        if self.mask_replace + self.random_replace > 1 + 1e-9:
            raise SettingError(
                f"mask_replace={self.mask_replace} and random_replace={self.random_replace} are more than 1 together"
            )

    def budgets(self, lengths: Ints) -> Longs:
        """Returns the most targets of sequences with so many tokens, special ones included; none of an empty one."""
        wanted = np.maximum(1, np.round(self.mask_probability * lengths).astype(np.int64))  # halves to even
        capped = wanted if self.max_masked is None else np.minimum(wanted, self.max_masked)
        return np.minimum(capped, lengths)


@dataclass(frozen=True, eq=False)
class Candidates:
    """The C positions of a batch that may be targets, of its S sequences one after another.

    Attributes:
        sequences: (C,) int64, the number of the sequence of each, rising.
        begins: (C,) whether a word begins, or the sequence, or its part behind a position that cannot be a target.
        preferred: (C,) of those that begin a word, whether it is to be a target before others are.
        runs: (C,) int64, equal for neighbours with no other position between them, rising.
        budgets: (S,) int64, the most targets of each sequence.
        keys: (S,) uint64, what the draws for each sequence depend on.
        rate: The fraction of tokens that are to be targets.
    """

    sequences: Longs
    begins: Bools
    preferred: Bools
    runs: Longs
    budgets: Longs
    keys: Keys
    rate: float

    def draw(self, what: int, sequences: Longs, counters: Longs) -> Keys:
        """Returns 64 random bits for each of some sequences, and for a counter of what is drawn in it."""
        states = self.keys[sequences] + ((np.uint64(what) << np.uint64(32)) + counters.astype(np.uint64)) * _GOLDEN
        return _mixed(states)


class Policy(Protocol):
    """A way to choose targets."""

    needs_words: bool
    """Whether it has to know where words begin."""

    def choose(self, candidates: Candidates) -> Longs:
        """Chooses the targets among the candidates, within the budgets of their sequences if it heeds these.

        Returns:
            (C,) -1 where there is no target; else the number of the candidate whose draw decides what becomes of it.
        """


class Masked(NamedTuple):
    """A masked batch.

    Attributes:
        tokens: The ids that the model sees, in the shape and type of those that were given.
        targets: In the same shape, where the model has to guess what was given.
    """

    tokens: Ints
    targets: Bools


class Masker:
    """Masks batches of sequences.

    Args:
        config: The settings.
        tokenizer: Its mask stands in the place of targets, and its tokens but the special ones in that of others.

    Attributes:
        needs_words: Whether :meth:`mask` has to be told where words begin.

    Raises:
        SettingError: if the tokenizer has no mask, or nothing but special tokens.
    """

    def __init__(self, config: MaskingConfig, tokenizer: Tokenizer) -> None:
        if tokenizer.mask_id is None:
            raise SettingError(
                "the tokenizer has no token for the mask, such as [MASK]; use one that has, or train one for this model"
            )
        self.config, self._policy, self._mask_id = config, POLICIES[config.masking], tokenizer.mask_id
        self.needs_words = self._policy.needs_words
        ordinary = np.ones(tokenizer.vocab_size, np.bool_)
        ordinary[[*tokenizer.special_ids, *tokenizer.nameless]] = False
        self._replacements = np.flatnonzero(ordinary)
        if not len(self._replacements):
            raise SettingError("the tokenizer has no tokens but special ones; nothing could be masked")
        ordinary[tokenizer.unk_id] = True  # part of a text, and to be guessed like any other
        self._maskable = ordinary

    def maskable(self, tokens: Ints) -> Bools:
        """Returns where tokens, of any shape, are those of texts: no padding, and no special token but the unknown."""
        found: Bools = self._maskable[tokens]
        return found

    def keys(self, numbers: Ints, *, seed: int, epoch: int) -> Keys:
        """Returns what the masks of sequences depend on.

        Args:
            numbers: (S,) the number of each sequence in the training data, so that it has the same mask in any batch.
            seed: Of the training.
            epoch: From 0; with ``dupe_factor`` masks return after so many epochs.
        """
        turn = epoch if self.config.dupe_factor is None else epoch % self.config.dupe_factor
        base = np.full(1, mixed_seed(seed, _MASKS, turn), np.uint64)
        return _mixed(base + np.asarray(numbers).astype(np.uint64) * _GOLDEN)

    def mask(
        self, tokens: Ints, *, maskable: Bools, sequences: Ints, keys: Keys, begins: Bools | Ints | None = None
    ) -> Masked:
        """Masks a batch.

        Sequences may be padded rows, several in a row, or all in one: what counts is ``sequences``.

        Args:
            tokens: Ids, (B, T) or any other shape.
            maskable: In the same shape, where a target may be.
            sequences: In the same shape, 0 to S - 1, which sequence a token belongs to, in rising order row by row; -1
                for padding.
            keys: (S,) of :meth:`keys`.
            begins: In the same shape, where words or other units begin; for policies that need it. If it has
                numbers, ``masking=unit`` takes units of 2 before those of 1.

        Raises:
            ValueError: if shapes differ, sequences are out of order, or ``begins`` is missing.
        """
        tokens, sequences = np.asarray(tokens), np.asarray(sequences)
        shapes = {tokens.shape, maskable.shape, sequences.shape} | (set() if begins is None else {begins.shape})
        if len(shapes) > 1:
            raise ValueError(f"tokens, maskable, sequences and begins have different shapes: {shapes}")
        if begins is None and self.needs_words:
            raise ValueError(f"masking={self.config.masking} has to know where words begin")
        real = sequences.ravel() >= 0
        lengths = np.bincount(sequences.ravel()[real], minlength=len(keys))
        places = np.flatnonzero(maskable.ravel() & real)
        found, targets = tokens.flatten(), np.zeros(tokens.size, np.bool_)
        if len(places):
            candidates = self._candidates(places, sequences.ravel()[places].astype(np.int64), begins, lengths, keys)
            decides = self._policy.choose(candidates)
            chosen = np.flatnonzero(decides >= 0)
            targets[places[chosen]] = True
            self._corrupt(found, places, chosen, decides[chosen], candidates)
        return Masked(found.reshape(tokens.shape), targets.reshape(tokens.shape))

    def _candidates(
        self, places: Longs, sequences: Longs, begins: Bools | Ints | None, lengths: Longs, keys: Keys
    ) -> Candidates:
        if len(lengths) > len(keys) or (np.diff(sequences) < 0).any():
            raise ValueError(f"sequences are not numbers from 0 to {len(keys) - 1} in rising order")
        apart = np.ones(len(places), np.bool_)
        apart[1:] = (np.diff(places) > 1) | (np.diff(sequences) > 0)
        given = np.zeros(len(places), np.uint8) if begins is None else begins.ravel()[places]
        return Candidates(
            sequences=sequences,
            begins=apart | (given > 0),
            preferred=given > 1,
            runs=apart.cumsum(),
            budgets=self.config.budgets(lengths),
            keys=keys,
            rate=self.config.mask_probability,
        )

    def _corrupt(self, tokens: Ints, places: Longs, chosen: Longs, decides: Longs, candidates: Candidates) -> None:
        """Puts masks and random tokens in the place of targets."""
        sequences = candidates.sequences[chosen]
        first = _starts(candidates.sequences, len(candidates.keys))[sequences]
        masked, other = self.fates(_uniform(candidates.draw(_FATE, sequences, decides - first)))
        tokens[places[chosen[masked]]] = self._mask_id
        drawn = _uniform(candidates.draw(_TOKEN, sequences[other], (chosen - first)[other]))
        tokens[places[chosen[other]]] = self._replacements[(drawn * len(self._replacements)).astype(np.int64)]

    def fates(self, drawn: npt.NDArray[np.float64]) -> tuple[Bools, Bools]:
        """Returns which targets the mask replaces, and which a random token, by numbers drawn from 0 to below 1."""
        masked = drawn < self.config.mask_replace
        return masked, ~masked & (drawn < self.config.mask_replace + self.config.random_replace)


class _Tokens:
    """BERT: each position by itself, as many as the budget."""

    needs_words = False

    def choose(self, candidates: Candidates) -> Longs:
        sequences = candidates.sequences
        order, ranks = _shuffled(candidates, sequences)
        chosen = order[ranks < candidates.budgets[sequences]]
        found = np.full(len(sequences), -1, np.int64)
        found[chosen] = chosen
        return found


class _Words:
    """BERT with whole words: in random order, all pieces of each, but for words that would exceed the budget."""

    needs_words = True

    def choose(self, candidates: Candidates) -> Longs:
        chosen = self.words(candidates)
        return np.where(chosen, np.arange(len(chosen)), -1)

    def words(self, candidates: Candidates) -> Bools:
        """Returns which candidates are of words that are chosen."""
        first = np.flatnonzero(candidates.begins)
        sizes, sequences = np.diff(first, append=len(candidates.begins)), candidates.sequences[first]
        order, _ = _shuffled(candidates, sequences)
        order = order[np.argsort(2 * sequences[order] - candidates.preferred[first][order], kind="stable")]
        sizes = sizes[order]
        starts = _starts(sequences, len(candidates.keys))
        ends = np.append(starts[1:], len(first))
        taken = np.zeros(len(first), np.bool_)
        left = candidates.budgets.copy()
        rank = 0
        active = np.flatnonzero((left > 0) & (starts < ends))
        while len(active):  # one word of each sequence at a time
            place = starts[active] + rank
            fits = sizes[place] <= left[active]
            taken[place] = fits
            left[active] -= sizes[place] * fits
            rank += 1
            active = active[(left[active] > 0) & (starts[active] + rank < ends[active])]
        whole = np.zeros(len(first), np.bool_)
        whole[order] = taken
        return np.repeat(whole, np.diff(first, append=len(candidates.begins)))


class _Units(_Words):
    """ERNIE, the paper: in random order, the preferred first, all of each unit, with one fate."""

    def choose(self, candidates: Candidates) -> Longs:
        return np.where(self.words(candidates), _beginnings(candidates), -1)


class _Released:
    """ERNIE 1.0, the released reader: each unit with the same probability, each of its tokens with a fate of its own.

    The reader draws one number r for the first token: the unit is chosen if r is at most 0.15, and r / 0.15 is then its
    fate, above 0.2 the mask and above 0.1 a random token. That is the same as a draw of its own. It replaces tokens by
    any but padding, special ones too; here these are left out.
    """

    needs_words = True

    def choose(self, candidates: Candidates) -> Longs:
        first = np.flatnonzero(candidates.begins)
        sequences = candidates.sequences[first]
        counters = first - _starts(candidates.sequences, len(candidates.keys))[sequences]
        taken = np.zeros(len(candidates.begins), np.bool_)
        taken[first] = _uniform(candidates.draw(_ORDER, sequences, counters)) < candidates.rate
        return np.where(taken[_beginnings(candidates)], np.arange(len(taken)), -1)


class _Spans:
    """SpanBERT: words in a row, as many as a geometric distribution says, from a random token's word on.

    A span ends earlier at a word that is a target already, behind the last word of its part, and where the budget would
    be exceeded. All of a span is masked, replaced, or left.
    """

    needs_words = True

    def choose(self, candidates: Candidates) -> Longs:
        first = np.flatnonzero(candidates.begins)
        words = candidates.begins.cumsum() - 1  # (C,)
        ends = np.append(first[1:], len(words))  # where the word ends
        runs = candidates.runs[first]
        decides = np.full(len(words), -1, np.int64)
        free = np.ones(len(first), np.bool_)
        starts = _starts(candidates.sequences, len(candidates.keys))
        counts = np.diff(starts, append=len(words))
        left = candidates.budgets.copy()
        steps = np.arange(_LONGEST_SPAN)
        active = np.flatnonzero((left > 0) & (counts > 0))
        for attempt in range(_ATTEMPTS + int(left.max())):  # more than enough, as nearly all find a span
            if not len(active):
                break
            counter = np.full(len(active), attempt, np.int64)
            lengths = _span_lengths(_uniform(candidates.draw(_LENGTH, active, counter)))
            at = _uniform(candidates.draw(_PLACE, active, counter)) * counts[active]
            begin = words[starts[active] + at.astype(np.int64)]  # (O,) the word of a random token
            span = np.minimum(begin[:, None] + steps, len(first) - 1)  # (O, 10)
            inside = (steps < lengths[:, None]) & (begin[:, None] + steps < len(first))
            inside &= free[span] & (runs[span] == runs[begin, None])
            inside &= ends[span] - first[begin, None] <= left[active, None]
            inside = np.logical_and.accumulate(inside, axis=1)
            row, step = inside.nonzero()
            chosen = span[row, step]
            free[chosen] = False
            size = np.where(inside, ends[span] - first[span], 0).sum(1)
            for offset in range(int((ends[chosen] - first[chosen]).max(initial=0))):
                some = first[chosen] + offset < ends[chosen]
                decides[first[chosen[some]] + offset] = first[begin[row[some]]]
            left[active] -= size
            active = active[left[active] > 0]
        return decides


POLICIES: Mapping[str, Policy] = {
    "token": _Tokens(),
    "whole-word": _Words(),
    "span": _Spans(),
    "unit": _Units(),
    "released": _Released(),
}
"""The policies by their names; another is a class with a line here and its name among :data:`PolicyName`."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mixed(states: Keys) -> Keys:
    """The last steps of SplitMix64: nearby numbers become unlike (see :mod:`wenmai.core.seeding`)."""
    states = (states ^ states >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    states = (states ^ states >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return states ^ states >> np.uint64(31)


def _uniform(bits: Keys) -> npt.NDArray[np.float64]:
    """Returns numbers from 0 to below 1."""
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _beginnings(candidates: Candidates) -> Longs:
    """Returns the first candidate of the word that each is of."""
    found: Longs = np.maximum.accumulate(np.where(candidates.begins, np.arange(len(candidates.begins)), 0))
    return found


def _starts(sequences: Longs, count: int) -> Longs:
    """Returns where each of so many sequences begins among rising numbers; a missing one where the next does."""
    return np.searchsorted(sequences, np.arange(count))


def _shuffled(candidates: Candidates, sequences: Longs) -> tuple[Longs, Longs]:
    """Orders things of rising sequences at random within their sequences; also returns the rank of each place."""
    ranks = np.arange(len(sequences)) - _starts(sequences, len(candidates.keys))[sequences]
    drawn = candidates.draw(_ORDER, sequences, ranks) >> np.uint64(24)
    return np.argsort(drawn | sequences.astype(np.uint64) << np.uint64(40), kind="stable"), ranks


def _span_lengths(uniform: npt.NDArray[np.float64]) -> Longs:
    """Returns lengths l from 1 to 10 with probability 0.2 · 0.8^(l - 1) over their sum, by the inverse of their sum."""
    inside = 1 - (1 - _STOP) ** _LONGEST_SPAN
    lengths = np.log1p(-uniform * inside) / np.log1p(-_STOP)
    whole: Longs = np.minimum(lengths, _LONGEST_SPAN - 1).astype(np.int64) + 1
    return whole
