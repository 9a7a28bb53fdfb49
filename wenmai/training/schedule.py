"""Learning rates as functions of the step, from 1."""

import math
from collections.abc import Callable
from typing import Literal

__all__ = ["LONGEST_WARMUP", "Schedule", "noam_peak", "rate_schedule"]

LONGEST_WARMUP = 4000  # updates (Vaswani et al. 2017, section 5.3)
_RISE = 0.1  # of the time

Schedule = Literal["noam", "linear", "cosine", "constant"]


def rate_schedule(
    kind: Schedule, *, peak: float, warmup: int | None, steps: int, floor: float = 0.0
) -> Callable[[int, float], float]:
    """Returns the learning rate as a function of the step and of the fraction of its time that the training has spent.

    All rise linearly to ``peak`` over ``warmup`` steps. Then ``noam`` falls as 1/√step (Vaswani et al. 2017, eq. 3),
    ``linear`` and ``cosine`` fall to ``floor · peak`` at the end, ``constant`` stays. The end is the last step or the
    end of the time, whichever is nearer; the fraction is 0 without a time limit. The rate is the smaller of the rise
    and the fall, so it never jumps.

    Args:
        kind: Which.
        peak: The highest rate.
        warmup: Steps of the rise; 0 for none. None: a tenth of the steps, 4000 at most, or of the time.
        steps: Steps of the whole training, for ``linear`` and ``cosine``.
        floor: Fraction of the highest rate at which these two end.
    """
    rise = min(LONGEST_WARMUP, steps // 10) if warmup is None else warmup
    end = max(2, steps)  # a training of one step would end at the rate 0, and learn nothing

    def rate(step: int, spent: float = 0.0) -> float:
        risen = 1.0 if step >= rise else step / rise
        if warmup is None:
            risen, spent = min(1.0, max(risen, spent / _RISE)), (spent - _RISE) / (1 - _RISE)
        done = min(1.0, max(0.0, (step - rise) / max(1, end - rise), spent))
        fallen = {
            "noam": math.sqrt(max(1, rise) / max(step, rise, 1)),
            "linear": floor + (1 - floor) * (1 - done),
            "cosine": floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * done)),
            "constant": 1.0,
        }
        return peak * min(risen, fallen[kind])

    return rate


def noam_peak(hidden_size: int, warmup: int) -> float:
    """Returns the rate at the end of the warm-up in Vaswani et al. 2017, eq. 3: hidden_size^-½ · warmup^-½."""
    return 1 / math.sqrt(hidden_size * max(1, warmup))
