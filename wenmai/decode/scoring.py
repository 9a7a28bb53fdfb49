"""How finished sequences of different lengths are compared.

``|Y|`` counts the end token, as in Tensor2Tensor. All penalties are non-decreasing in the length, which the bound of
:meth:`Scoring.bound` relies on. Log-probabilities are negative: dividing by a larger penalty *raises* a score.
"""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from wenmai.decode.protocol import Hypothesis

__all__ = ["LengthPenalty", "Scoring", "coverage_penalty", "gnmt_length_penalty"]

LengthPenalty = Literal["none", "mean", "gnmt", "reward"]


def gnmt_length_penalty(length: float | Tensor, alpha: float) -> float | Tensor:
    """Returns ``lp(Y) = ((5 + |Y|) / 6) ** alpha``, dimensionless (Wu et al. 2016, eq. 14)."""
    penalty: float | Tensor = ((5 + length) / 6) ** alpha
    return penalty


def coverage_penalty(attended: Tensor, mask: Tensor | None = None) -> Tensor:
    """Returns ``sum_j log(min(a_j, 1))``: zero if every source position got attention of 1 or more in total.

    Wu et al. 2016, eq. 14, without its factor beta.

    Args:
        attended: (..., S) attention that each source position has got so far, summed over the target.
        mask: (..., S) bool, True for a real source token; none: all are.
    """
    logs = attended.clamp(torch.finfo(attended.dtype).tiny, 1).log()  # no attention at all is bad, but not forbidden
    return (logs if mask is None else logs.masked_fill(~mask, 0)).sum(-1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Scoring:
    """Turns log-probabilities into the scores that finished sequences are ranked by.

    Attributes:
        length_penalty: ``none``: ``log P``; ``mean``: ``log P / |Y| ** alpha``; ``gnmt``: ``log P / lp(Y)``;
            ``reward``: ``log P + alpha * |Y|``.
        alpha: Exponent, or reward of each token in natural-log units; ``none`` does not use it.
        coverage_beta: Factor of the coverage penalty, which is added.

    Raises:
        ValueError: if a number is negative or the penalty unknown.
    """

    length_penalty: LengthPenalty
    alpha: float
    coverage_beta: float

    def __post_init__(self) -> None:
        if self.length_penalty not in ("none", "mean", "gnmt", "reward"):
            raise ValueError(f"length_penalty must be none, mean, gnmt or reward, found {self.length_penalty!r}")
        if not (self.alpha >= 0 and self.coverage_beta >= 0):
            raise ValueError(f"alpha ({self.alpha}) and coverage_beta ({self.coverage_beta}) cannot be negative")

    @property
    def is_raw(self) -> bool:
        """Whether scores are plain log-probabilities."""
        return self.length_penalty == "none" and not self.coverage_beta

    def scores(self, log_probs: Tensor, length: float | Tensor) -> Tensor:
        """Returns the scores, without coverage, of sequences of a length of 1 or more."""
        if self.length_penalty == "mean":
            return log_probs / length**self.alpha
        if self.length_penalty == "gnmt":
            return log_probs / gnmt_length_penalty(length, self.alpha)
        if self.length_penalty == "reward":
            return log_probs + self.alpha * length
        return log_probs

    def scored(self, hypothesis: Hypothesis) -> Hypothesis:
        """Returns a hypothesis that was found without penalties, with its score, without coverage."""
        length = max(1, len(hypothesis.tokens) + hypothesis.finished)
        log_prob = torch.tensor(hypothesis.log_prob, dtype=torch.float64)
        return replace(hypothesis, score=float(self.scores(log_prob, length)))

    def coverage(self, attended: Tensor, mask: Tensor | None) -> Tensor:
        """Returns what coverage adds to a score, never positive, (N,) for (N, S)."""
        return self.coverage_beta * coverage_penalty(attended, mask)

    def bound(self, log_probs: Tensor, limits: Tensor) -> Tensor:
        """Returns the score that no continuation of a sequence can exceed: its own at the greatest length.

        Valid because every further token can only lower ``log P``, and coverage only lowers the score.
        """
        return self.scores(log_probs, limits.double())
