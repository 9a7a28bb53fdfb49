"""Some of the labelled examples, drawn by chance, so that the order of a file does not matter."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from wenmai.core.errors import SettingError
from wenmai.core.seeding import mixed_seed

__all__ = ["drawn"]

_DRAW = 0x11417  # tells these draws from others with the same seed


def drawn(labels: Sequence[str | None], limit: int, seed: int) -> frozenset[int]:
    """Returns which examples are drawn, without replacement.

    Labels keep their shares of all examples, rounded by the largest remainder, but each has one example at least.

    Args:
        labels: The label of each example; None: of no class.
        limit: How many are drawn; all, if there are not more.
        seed: Decides which.

    Raises:
        SettingError: if there are more labels than ``limit``.
    """
    counted = Counter(labels)
    if len(labels) <= limit:
        return frozenset(range(len(labels)))
    if len(counted) > limit:
        raise SettingError(f"limit={limit}: there are {len(counted)} labels, of which each needs an example")
    wanted = {label: limit * count / len(labels) for label, count in counted.items()}
    quotas = {label: max(1, int(share)) for label, share in wanted.items()}
    while (left := limit - sum(quotas.values())) != 0:
        lacking = {label: wanted[label] - quotas[label] for label in quotas if left > 0 or quotas[label] > 1}
        chosen = (max if left > 0 else min)(lacking, key=lambda label: lacking[label])
        quotas[chosen] += 1 if left > 0 else -1
    found = set()
    for place in np.random.default_rng(mixed_seed(seed, _DRAW)).permutation(len(labels)).tolist():
        if quotas[labels[place]]:
            quotas[labels[place]] -= 1
            found.add(place)
    return frozenset(found)
