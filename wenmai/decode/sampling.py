"""Drawing sequences at random: temperature, the k most likely tokens, the nucleus; applied in this order."""

import math
from typing import TypeVar, Unpack

import torch
from torch import Tensor

from wenmai.decode.constraints import Constraints, Rules
from wenmai.decode.protocol import Decodable, Hypothesis, State
from wenmai.decode.rollout import Watch, roll_out

__all__ = ["draw", "nucleus_filter", "sample", "top_k_filter"]

_StateT = TypeVar("_StateT", bound=State)

_COLDEST = 1e-30  # below it, its reciprocal would be no float32; equally likely tokens alone are drawn here already
_HEAD = 256  # a nucleus is searched among this many tokens before all are sorted


def sample(
    model: Decodable[_StateT],
    state: _StateT,
    *,
    generator: torch.Generator,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    watch: Watch | None = None,
    **rules: Unpack[Rules],
) -> list[Hypothesis]:
    """Draws one sequence for each row of the state.

    The draws depend on the generator and the whole batch: the same seed gives other sequences in another batch.

    Args:
        model: Any decodable model, not in training mode.
        state: Fresh from the model; used up.
        generator: Source of the random draws, on ``device``.
        temperature: Divides the logits; 0 takes the most likely token.
        top_k: Only the k most likely tokens are drawn.
        top_p: Only the smallest set of tokens with at least this mass is drawn.
        watch: Follows the growth, and may end sequences.
        rules: What sequences may be, and where the model works: see :class:`~wenmai.decode.constraints.Constraints`.

    Returns:
        One hypothesis for each row. Its log-probability is the model's own, at temperature 1 and unfiltered, but for
        a repetition penalty.

    Raises:
        ValueError: if a setting makes no sense.

    Source:
        Top-k: Fan, Lewis, Dauphin 2018, sec. 5. Nucleus: Holtzman et al. 2020, eq. 2-3.
    """
    if not 0 <= temperature < math.inf:
        raise ValueError(f"temperature must be a number of 0 or more, found {temperature}")
    if temperature == 0 and (top_k is not None or top_p is not None):
        raise ValueError("top_k and top_p have no effect at temperature 0")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be at least 1, found {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p must lie above 0 and not above 1, found {top_p}")

    def choose(log_probs: Tensor) -> Tensor:
        if temperature == 0:
            return log_probs.argmax(1)
        logits = log_probs if temperature == 1 else _cooled(log_probs, temperature)
        if top_k is not None:
            logits = top_k_filter(logits, top_k)
        if top_p is not None:
            logits = nucleus_filter(logits, top_p)
        return draw(logits, generator)

    constraints = Constraints(state.batch_size, **rules)
    return roll_out(model, state, choose, constraints, watch)


def draw(logits: Tensor, generator: torch.Generator) -> Tensor:
    """Draws one token for each row in proportion to ``exp(logits)``.

    The token with the largest sum of its logit and Gumbel noise is such a draw (Gumbel 1954; Maddison, Tarlow, Minka
    2014, sec. 2); unlike a draw from normalised probabilities it needs no sum and no care for rows of ``-inf``.

    Args:
        logits: (N, V), not necessarily normalised.
        generator: Source of the noise, on the same device.

    Returns:
        (N,) int64.
    """
    noise = torch.empty_like(logits).exponential_(generator=generator)
    return (logits - noise.log()).argmax(1)


def _cooled(log_probs: Tensor, temperature: float) -> Tensor:
    """Divides by the temperature what is below the largest of each row, which stays a number, however cold it gets."""
    return (log_probs - log_probs.amax(1, keepdim=True)) / max(temperature, _COLDEST)


def top_k_filter(logits: Tensor, k: int) -> Tensor:
    """Sets all logits below the k-th largest of their row to ``-inf``; ties with it are kept.

    Args:
        logits: (N, V).
        k: 1 or more; above V nothing happens.
    """
    if k >= logits.size(1):
        return logits
    return logits.masked_fill(logits < logits.topk(k, 1).values[:, -1:], -torch.inf)


def nucleus_filter(logits: Tensor, p: float) -> Tensor:
    """Keeps the smallest set of most likely tokens with a mass of at least p; the others become ``-inf``.

    The token that crosses p is kept, as in the paper (the code of GPT-2 drops it). Of equally likely tokens the ones
    with lower numbers are kept.

    Args:
        logits: (N, V), not necessarily normalised.
        p: Mass, above 0 and not above 1; 1 keeps all.
    """
    if p == 1:
        return logits
    probabilities = logits.softmax(1, dtype=torch.float64)
    head, ids = probabilities.topk(min(_HEAD, logits.size(1)), 1)
    inside = _mass_before(head) < p
    kept = torch.zeros_like(logits, dtype=torch.bool).scatter(1, ids, inside)
    split = ((head[:, 1:] == head[:, :-1]) & inside[:, :-1] & ~inside[:, 1:]).any(1)  # topk orders equal ones anyhow
    if head.size(1) < logits.size(1):
        split |= inside[:, -1]  # an equal one, or the mass that lacks, may lie behind the head
    rows = split.nonzero()[:, 0]
    if len(rows):
        ordered, ids = probabilities[rows].sort(dim=1, descending=True, stable=True)
        kept[rows] = torch.zeros_like(kept[rows]).scatter(1, ids, _mass_before(ordered) < p)
    return logits.masked_fill(~kept, -torch.inf)


def _mass_before(probabilities: Tensor) -> Tensor:
    """Returns the sum of the probabilities to the left of each one, (N, V)."""
    return torch.nn.functional.pad(probabilities.cumsum(1)[:, :-1], (1, 0))
