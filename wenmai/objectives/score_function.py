"""The score-function gradient (REINFORCE), which trains sampled choices (Xu et al. 2015, section 4.1).

A draw s_t with probability p(s_t) affects the targets from t on. The gradient of the expected loss is the expectation
of the gradient through the draws, plus

    -Σ_t (Σ_{u ≥ t} (log p(y_u) - b)) ∇ log p(s_t)

for any baseline b that does not depend on the draws: a running mean of log p(y) lowers the variance. An entropy
term keeps the distributions from collapsing too early.

Differs from the paper: a choice is rewarded by the targets from its own on, not by the whole sentence; and b is the
mean of a target, not of a sentence, so that it fits every length.
"""

from torch import Tensor

__all__ = ["BASELINE_DECAY", "ENTROPY_WEIGHT", "score_function"]

BASELINE_DECAY = 0.9  # b ← 0.9 b + 0.1 log p(y)
ENTROPY_WEIGHT = 0.002  # as in the authors' program


def score_function(
    choices: Tensor,
    entropies: Tensor,
    log_probs: Tensor,
    real: Tensor,
    *,
    baseline: float,
    entropy_weight: float = ENTROPY_WEIGHT,
) -> Tensor:
    """Returns a scalar 0 that has the score-function gradient, to be added to the summed loss of the targets.

    Args:
        choices: (B, T) log-probability of what was drawn at each step.
        entropies: (B, T) of the distributions.
        log_probs: (B, T) of the targets; no gradient passes.
        real: (B, T) bool, True where there is a target.
        baseline: b, the expected log-probability of a target.
        entropy_weight: The weight of the entropy, in nats.
    """
    rewards = (log_probs.detach() - baseline).masked_fill(~real, 0.0)
    to_come = rewards.flip(1).cumsum(1).flip(1)
    term = -((to_come * choices + entropy_weight * entropies) * real).sum()
    return term - term.detach()
