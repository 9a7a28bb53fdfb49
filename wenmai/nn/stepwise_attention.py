"""Attention of recurrent decoders, whose next query depends on what they saw before: which source tokens a step takes.

| selection | of S source tokens a step takes | source |
|---|---|---|
| soft | all, each by its weight α_j | Bahdanau et al. 2015, eq. 5 |
| hard | the token of the highest score; its gradient is that of soft attention (straight-through) | Xu et al. 2015, 4 |
| sampled | in training a token drawn by α, or half of the time the expectation; else as hard | Xu et al. 2015, 4.1 |
| local-m | those within D tokens of p = t | Luong et al. 2015, sec. 3.2 |
| local-p | those within D of p = S·σ(vᵀ tanh(W q)), α_j·exp(-(j-p)²/2σ²), σ = D/2, not renormalised | eq. 9, 10 |

Tokens and steps are counted from 0. A window beyond the source holds no token: the context is zero then.
The choices of sampled attention learn by the score-function gradient (:mod:`wenmai.objectives.score_function`).

Differs from Xu et al.: whether a sample is replaced by its expectation is drawn for each step, not for each sentence.

Shapes: B sentences, S source tokens, T steps.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from typing_extensions import override

from wenmai.nn.attention import Attention, attend
from wenmai.nn.linear import Linear
from wenmai.nn.names import ScorerName, Selection
from wenmai.nn.scorers import make_scorer

__all__ = [
    "Choice",
    "HardAttention",
    "LocalAttention",
    "Look",
    "PredictiveAttention",
    "SampledAttention",
    "StepwiseAttention",
    "make_stepwise_attention",
    "side_by_side",
]


_EXPECTED = 0.5  # proportion of samples that are replaced by their expectation (Xu et al. 2015, section 4.1)
_LEAST = 1e-12  # weights below this add nothing to an entropy


class Choice(NamedTuple):
    """The draws of sampled attention.

    Attributes:
        log_probs: (B, T) log-probability of each draw, with a gradient; 0 where the expectation was taken.
        entropies: (B, T) of the distribution, in nats, with a gradient.
    """

    log_probs: Tensor
    entropies: Tensor


class Look(NamedTuple):
    """The result of one or more steps of attention.

    Attributes:
        context: (B, T, D), the weighted values.
        weights: (B, T, S).
        choice: Of sampled attention while training.
    """

    context: Tensor
    weights: Tensor
    choice: Choice | None = None


class StepwiseAttention(Attention):
    """One head of soft attention, one query at a time.

    The dot, scaled_dot and cosine scorers need keys as wide as the query: where the memory is not, a matrix without
    bias maps it to keys, which turns dot into Luong's general.

    Args:
        scorer: How a query is compared with a key.
        query_size: Width of a query, and of the hidden layer of the additive and concat scorers.
        memory_size: Width of the memory.
    """

    def __init__(self, scorer: ScorerName, *, query_size: int, memory_size: int) -> None:
        super().__init__()
        resized = scorer in ("dot", "scaled_dot", "cosine") and memory_size != query_size
        self.key = Linear(memory_size, query_size, bias=False) if resized else nn.Identity()
        key_size = query_size if resized else memory_size
        self.scorer = make_scorer(scorer, query_size=query_size, key_size=key_size, attention_size=query_size)

    def prepare(self, memory: Tensor) -> Tensor:
        """Returns the keys (B, S, ·) of a memory (B, S, memory_size), to be computed once."""
        return self.scorer.prepare(self.key(memory))

    def forward(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor, steps: Tensor) -> Look:
        """Attends for one step.

        Args:
            query: (B, query_size).
            keys: (B, S, ·), of :meth:`prepare`.
            values: (B, S, D).
            mask: (B, S) bool, True for real tokens.
            steps: (B,) int64, earlier steps.
        """
        allowed, factors = self.focus(query, mask, steps)
        context, weights = attend(
            query[:, None],
            keys,
            values,
            scorer=self.scorer,
            mask=allowed[:, None],
            reweight=None if factors is None else factors[:, None, None].mul,
            need_weights=True,
        )
        assert weights is not None
        return Look(context, weights)

    def focus(self, query: Tensor, mask: Tensor, steps: Tensor) -> tuple[Tensor, Tensor | None]:
        """Returns which tokens may be seen, (B, S) bool, and what their weights are multiplied by, (B, S) or None."""
        return mask, None


class HardAttention(StepwiseAttention):
    """Takes the value of the best token alone; the gradient is that of soft attention."""

    @override
    def forward(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor, steps: Tensor) -> Look:
        soft = super().forward(query, keys, values, mask, steps).weights
        weights = _one_hot(soft, soft) + (soft - soft.detach())
        return Look(weights @ values, weights)


class SampledAttention(HardAttention):
    """Takes the value of a token drawn by the weights while training, and that of the best token afterwards."""

    @override
    def forward(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor, steps: Tensor) -> Look:
        if not self.training:
            return super().forward(query, keys, values, mask, steps)
        soft = StepwiseAttention.forward(self, query, keys, values, mask, steps).weights
        drawn, expected = self.draw(soft.detach())
        weights = torch.where(expected[:, None], soft, drawn)
        log_probs = (soft * drawn).sum(-1).clamp(min=_LEAST).log().masked_fill(expected, 0.0)
        kept = soft.clamp(min=_LEAST)
        return Look(weights @ values, weights, Choice(log_probs, -(kept * kept.log()).sum(-1)))

    def draw(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Draws a token of each row of weights (B, 1, S).

        Returns:
            The draws, one-hot (B, 1, S), and whether the expectation replaces them, (B, 1) bool.
        """
        race = weights / torch.empty_like(weights).exponential_()  # exponential clocks with the weights as rates
        return _one_hot(race, weights), torch.rand(weights.shape[:2], device=weights.device) < _EXPECTED


class LocalAttention(StepwiseAttention):
    """Sees the tokens within a window around the position of the step: local-m.

    Args:
        scorer: As of :class:`StepwiseAttention`.
        query_size: As there.
        memory_size: As there.
        window: D, tokens on each side of the centre.
    """

    def __init__(self, scorer: ScorerName, *, query_size: int, memory_size: int, window: int) -> None:
        super().__init__(scorer, query_size=query_size, memory_size=memory_size)
        self.window = window

    @override
    def focus(self, query: Tensor, mask: Tensor, steps: Tensor) -> tuple[Tensor, Tensor | None]:
        return mask & (self.distances(steps, mask).abs() <= self.window), None

    def distances(self, centres: Tensor, mask: Tensor) -> Tensor:
        """Returns how far each token is after a centre (B,): (B, S)."""
        return torch.arange(mask.shape[1], device=mask.device) - centres[:, None]


class PredictiveAttention(LocalAttention):
    """Predicts the centre of its window from the query, and prefers tokens near it: local-p.

    Arguments as of :class:`LocalAttention`.
    """

    def __init__(self, scorer: ScorerName, *, query_size: int, memory_size: int, window: int) -> None:
        super().__init__(scorer, query_size=query_size, memory_size=memory_size, window=window)
        self.centre = nn.Sequential(
            Linear(query_size, query_size, bias=False), nn.Tanh(), Linear(query_size, 1, bias=False)
        )

    @override
    def focus(self, query: Tensor, mask: Tensor, steps: Tensor) -> tuple[Tensor, Tensor | None]:
        distances = self.distances(mask.sum(1) * torch.sigmoid(self.centre(query)[:, 0]), mask)
        return mask & (distances.abs() <= self.window), torch.exp(-2 * (distances / self.window).square())


def make_stepwise_attention(
    selection: Selection, scorer: ScorerName, *, query_size: int, memory_size: int, window: int
) -> StepwiseAttention:
    """Builds the attention of a setting.

    Args:
        selection: Which tokens a step takes, see the table above.
        scorer: How a query is compared with a key.
        query_size: Width of a query.
        memory_size: Width of the memory.
        window: Tokens on each side that local attention sees.
    """
    if selection in ("local-m", "local-p"):
        local = LocalAttention if selection == "local-m" else PredictiveAttention
        return local(scorer, query_size=query_size, memory_size=memory_size, window=window)
    kinds = {"soft": StepwiseAttention, "hard": HardAttention, "sampled": SampledAttention}
    return kinds[selection](scorer, query_size=query_size, memory_size=memory_size)


def side_by_side(steps: Sequence[Look]) -> tuple[Tensor, Choice | None]:
    """Returns the weights (B, T, S) and the choices of T steps, in order."""
    choices = [step.choice for step in steps if step.choice is not None]
    choice = Choice(*(torch.cat(parts, 1) for parts in zip(*choices, strict=True))) if choices else None
    return torch.cat([step.weights for step in steps], 1), choice


def _one_hot(scores: Tensor, weights: Tensor) -> Tensor:
    """1 for the best score of each row, 0 elsewhere, and where no weight is."""
    best = torch.zeros_like(weights).scatter(-1, scores.argmax(-1, keepdim=True), 1.0)
    return best.masked_fill(weights == 0, 0.0)
