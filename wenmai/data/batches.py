"""Batches of sequences of like lengths within a budget of tokens, planned from the lengths alone.

The plan is a function of lengths, seed and epoch, so every process of a training makes the same one, and a training is
resumed by making it again.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

__all__ = ["pad", "padding_waste", "plan_batches"]

# Tokens by which the order may be wrong: enough that half of a batch meets others in the next epoch, and no more, as
# padding grows with it (4 to 5 % on the pairs of Multi30k).
_LENGTH_NOISE = 1.25
_SIDE_NOISE = 1.5

Ints = npt.NDArray[np.integer]


def plan_batches(
    lengths: Ints, *, max_tokens: int, max_rows: int | None = None, seed: int, epoch: int
) -> list[npt.NDArray[np.int64]]:
    """Groups the examples of an epoch into batches.

    Examples are ordered by length with some noise and cut greedily; then the batches are shuffled. Which examples are
    together changes with the epoch.

    Args:
        lengths: (N,) tokens of each example, or (N, 2) of its source and its target, BOS and EOS included where the
            model sees them.
        max_tokens: A batch has at most this many tokens on its longer side, padding included: rows times the longest
            side of any row. An example longer than that is a batch of its own.
        max_rows: Most examples of a batch.
        seed: Decides the order, together with the epoch.
        epoch: How many epochs came before.

    Returns:
        The indices of the examples of each batch; every example is in exactly one.

    Raises:
        ValueError: if an argument is invalid.
    """
    sides = _sides(lengths)
    if max_tokens < 1 or (max_rows is not None and max_rows < 1):
        raise ValueError(f"max_tokens={max_tokens} and max_rows={max_rows} must be at least 1")
    if seed < 0 or epoch < 0:
        raise ValueError(f"seed={seed} and epoch={epoch} must not be negative")
    draw = np.random.default_rng([seed, epoch])
    longest = sides.max(axis=1)
    order = _order(sides, longest, draw)
    cuts = _cuts(longest[order].tolist(), max_tokens, max_rows or len(order))
    batches = [order[start:end] for start, end in pairwise([*cuts, len(order)])]
    return [batches[place] for place in draw.permutation(len(batches)).tolist()]


def padding_waste(lengths: Ints, batches: Sequence[Ints]) -> float:
    """Returns the fraction of the tokens of all batches that is padding, both sides together.

    Args:
        lengths: (N,) or (N, 2), as for :func:`plan_batches`.
        batches: What it returned.
    """
    sides = _sides(lengths)
    padded = sum(len(batch) * int(sides[batch].max(axis=0).sum()) for batch in batches)
    real = sum(int(sides[batch].sum()) for batch in batches)
    return 1.0 - real / padded if padded else 0.0


def pad(rows: Sequence[Ints | Sequence[int]], pad_id: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Makes one array of sequences of different lengths.

    Args:
        rows: B sequences of ids.
        pad_id: What fills up the shorter ones, at their ends.

    Returns:
        The ids (B, T) and where they are real tokens (B, T), True; T is the greatest length.
    """
    sizes = np.fromiter(map(len, rows), np.int64, len(rows))  # (B,)
    mask = np.arange(sizes.max(initial=0)) < sizes[:, None]  # (B, T)
    ids = np.full(mask.shape, pad_id, np.int64)
    if ids.size:
        ids[mask] = np.concatenate([np.asarray(row, np.int64) for row in rows])
    return ids, mask


def _sides(lengths: Ints) -> npt.NDArray[np.int64]:
    """Returns (N, 1) or (N, 2) lengths after a check."""
    found = np.asarray(lengths)
    if found.ndim not in (1, 2) or (found.ndim == 2 and found.shape[1] != 2):
        raise ValueError(f"lengths have the shape {found.shape}; expected (N,) or (N, 2)")
    if found.size and not np.issubdtype(found.dtype, np.integer):
        raise ValueError(f"lengths are {found.dtype}; expected whole numbers")
    if found.size and found.min() < 0:
        raise ValueError(f"the length {found.min()} is negative")
    return found.astype(np.int64).reshape(len(found), -1 if found.size else 1)


def _order(
    sides: npt.NDArray[np.int64], longest: npt.NDArray[np.int64], draw: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Orders examples by their longest side, and among equals from a long source to a long target, with noise."""
    first = np.floor(longest + _LENGTH_NOISE * draw.random(len(longest)))
    second = sides[:, -1] - sides[:, 0] + _SIDE_NOISE * draw.random(len(longest))
    # Alternately up and down, so that the second side changes little where the first side does.
    return np.lexsort((np.where(first % 2 == 0, second, -second), first))


def _cuts(longest: list[int], max_tokens: int, max_rows: int) -> list[int]:
    """Returns where batches begin when examples are taken in order as long as the budget allows."""
    cuts = []
    rows = width = 0
    for place, length in enumerate(longest):
        wider = max(width, length, 1)  # empty sequences count too: a batch stays finite
        if rows == 0 or rows == max_rows or (rows + 1) * wider > max_tokens:
            cuts.append(place)
            rows, wider = 0, max(length, 1)
        rows, width = rows + 1, wider
    return cuts
