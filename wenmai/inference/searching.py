"""How translations are searched for: the options of a call, checked together."""

import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar, get_args

from wenmai.core.errors import SettingError
from wenmai.decode.scoring import LengthPenalty
from wenmai.decode.search import StopRule
from wenmai.inference.options import Options, require_positive, require_repetition_penalty, require_sampling

__all__ = ["DrawConfig", "SearchConfig"]

_EXTRA_LENGTH = 50  # tokens by which a translation may be longer than its source (Vaswani et al. 2017, section 6.1)
_ANY = 2.0**31  # tokens: more than any model writes
_STRONGEST = 20  # penalty: a length to a higher power may be no number any more


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchConfig(Options):
    """How to search.

    Attributes:
        beam_size: Hypotheses kept; 1 is greedy.
        n_best: Most translations of each text; fewer if fewer hypotheses finish.
        length_penalty: See :class:`wenmai.decode.scoring.Scoring`.
        alpha: Its exponent.
        coverage_beta: Factor of the coverage penalty.
        stop: When a search ends, see :func:`wenmai.decode.search.beam_search`; ``bound`` loses nothing.
        min_length: Fewest tokens.
        max_length: Most tokens, the end counted; none: 50 more than the source has, or as ``min_length`` needs.
        max_ratio: Most tokens for each token of the source, but as many as ``min_length`` needs; with ``max_length``
            the lesser counts.
        no_repeat_ngram: No translation holds an n-gram of so many tokens twice; 0: it may.
        repetition_penalty: Above 1 makes tokens less likely to be repeated.
        exhaustive: Score every sequence there is instead of a beam: for toy vocabularies and a small ``max_length``.

    Raises:
        SettingError: if a value makes no sense.
    """

    work: ClassVar[str] = "translation"

    beam_size: int = 5
    n_best: int = 1
    length_penalty: LengthPenalty = "mean"
    alpha: float = 1.0
    coverage_beta: float = 0.0
    stop: StopRule = "bound"
    min_length: int = 0
    max_length: int | None = None
    max_ratio: float | None = None
    no_repeat_ngram: int = 0
    repetition_penalty: float = 1.0
    exhaustive: bool = False

    def __post_init__(self) -> None:
        if self.beam_size < 1:
            raise SettingError(f"beam_size={self.beam_size}: expected 1 (greedy) or more")
        require_positive("n_best", self.n_best)
        for name, known in (("length_penalty", LengthPenalty), ("stop", StopRule)):
            if getattr(self, name) not in get_args(known):
                raise SettingError(f"{name}={getattr(self, name)}: expected {', '.join(get_args(known))}")
        for name in ("alpha", "coverage_beta"):
            if not 0 <= getattr(self, name) <= _STRONGEST:
                raise SettingError(f"{name}={getattr(self, name)}: expected 0 to {_STRONGEST}")
        for name in ("min_length", "no_repeat_ngram"):
            if getattr(self, name) < 0:
                raise SettingError(f"{name}={getattr(self, name)}: expected 0 or more tokens")
        require_repetition_penalty(self.repetition_penalty)
        if self.max_length is not None and self.max_length <= self.min_length:
            raise SettingError(
                f"max_length={self.max_length}: expected more than min_length={self.min_length}, as the end counts too"
            )
        if self.max_ratio is not None and not 0 < self.max_ratio < math.inf:
            raise SettingError(f"max_ratio={self.max_ratio}: expected more than 0")
        if self.stop == "best" and (self.length_penalty != "none" or self.coverage_beta):
            raise SettingError("stop=best needs raw log-probabilities: add length_penalty=none, or take stop=bound")

    def longest(self, source: int) -> int:
        """Returns how many tokens the translation of a source of so many tokens, EOS included, has at most."""
        ratio = (
            None if self.max_ratio is None else max(self.min_length + 1, math.floor(min(self.max_ratio * source, _ANY)))
        )
        given = [limit for limit in (self.max_length, ratio) if limit is not None]
        return min(given) if given else max(self.min_length + 1, source + _EXTRA_LENGTH)

    @property
    def penalties(self) -> dict[str, Any]:
        """The options of :class:`wenmai.decode.scoring.Scoring`."""
        return {"length_penalty": self.length_penalty, "alpha": self.alpha, "coverage_beta": self.coverage_beta}

    def require_drawing(self) -> None:
        """Makes sure that nothing was set that concerns a search alone.

        Raises:
            SettingError: if something was.
        """
        if self.n_best != 1:
            raise SettingError(f"n_best={self.n_best}: sampling gives one translation of a text; give it several times")
        usual = {one.name: one.default for one in fields(self)}
        searching = ("beam_size", *self.penalties, "stop", "exhaustive")
        if changed := [f"{name}={getattr(self, name)}" for name in searching if getattr(self, name) != usual[name]]:
            raise SettingError(f"{', '.join(changed)}: sampling does not search; leave it out")

    @property
    def rules(self) -> dict[str, Any]:
        """The options of :class:`wenmai.decode.constraints.Constraints` that hold for sampling too."""
        names = ("min_length", "no_repeat_ngram", "repetition_penalty")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, kw_only=True, slots=True)
class DrawConfig(Options):
    """How to sample translations.

    Attributes:
        seed: Of the draws, of 64 bits.
        temperature: 1000 at most; 0 takes the most likely token.
        top_k: Sample from this many of the most likely tokens.
        top_p: Sample from the most likely tokens with this total probability.

    Raises:
        SettingError: if a value makes no sense or would have no effect.
    """

    work: ClassVar[str] = "sampling"

    seed: int = 1
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        require_sampling(self.seed, self.temperature, self.top_k, self.top_p)
