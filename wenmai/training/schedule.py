"""Learning rates as functions of the step, from 1."""

import math
from collections.abc import Callable
from typing import Literal

__all__ = ["LONGEST_WARMUP", "Schedule", "noam_peak", "rate_schedule"]

LONGEST_WARMUP = 4000  # updates (Vaswani et al. 2017, section 5.3)

Schedule = Literal["noam", "linear", "cosine", "constant"]


def rate_schedule(kind: Schedule, *, peak: float, warmup: int, steps: int) -> Callable[[int], float]:
    """Returns the learning rate as a function of the step.

    All rise linearly to ``peak`` over ``warmup`` steps. Then ``noam`` falls as 1/√step (Vaswani et al. 2017, eq. 3),
    ``linear`` and ``cosine`` fall to zero at the end, ``constant`` stays.

    Args:
        kind: Which.
        peak: The highest rate.
        warmup: Steps of the rise; 0 for none.
        steps: Steps of the whole training, for ``linear`` and ``cosine``.
    """

    def rate(step: int) -> float:
        if step < warmup:
            return peak * step / warmup
        if kind == "noam":
            return peak * math.sqrt(max(1, warmup) / step)
        if kind == "constant":
            return peak
        done = min(1.0, (step - warmup) / max(1, steps - warmup))
        return peak * (1 - done if kind == "linear" else 0.5 * (1 + math.cos(math.pi * done)))

    return rate


def noam_peak(hidden_size: int, warmup: int) -> float:
    """Returns the rate at the end of the warm-up in Vaswani et al. 2017, eq. 3: hidden_size^-½ · warmup^-½."""
    return 1 / math.sqrt(hidden_size * max(1, warmup))
