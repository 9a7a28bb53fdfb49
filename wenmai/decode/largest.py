"""The largest values of each row, with ties decided: the choice that a search makes at every step."""

import torch
from torch import Tensor

__all__ = ["first_largest", "largest"]

_BLOCK = 64
_WIDE = 16 * _BLOCK  # narrower rows gain nothing from blocks
_MANY = 8  # fewer rows gain nothing from them where one value is sought


def first_largest(values: Tensor) -> Tensor:
    """Finds the largest value of each row; of equal ones the lowest index.

    Many wide rows are searched by blocks, for ``torch.argmax`` compares one value after the other.

    Args:
        values: (N, V).

    Returns:
        (N,) indices.
    """
    size, width = values.shape
    if size < _MANY or width < _WIDE or not values.is_cpu:
        return values.argmax(1)
    within = width // _BLOCK * _BLOCK
    blocks = values[:, :within].view(size, -1, _BLOCK)
    highest, block = blocks.amax(2).max(1)
    found = block * _BLOCK + blocks[torch.arange(size), block].argmax(1)
    if within < width:
        above, place = values[:, within:].max(1)
        found = torch.where(above > highest, within + place, found)
    return found


def largest(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Finds the largest values of each row in descending order; of equal ones the lowest index comes first.

    ``torch.topk`` breaks ties as it likes, which would let the results depend on the machine and the batch.

    Args:
        values: (N, V).
        count: How many, K; V if there are fewer.

    Returns:
        Values and their indices, (N, K). The indices of ``-inf`` are any.
    """
    width = values.size(1)
    if width <= count:
        ordered = values.sort(dim=1, descending=True, stable=True)
        return ordered.values, ordered.indices
    top, ids = _topk(values, count + 1)
    tied = ((top[:, 1:] == top[:, :-1]) & (top[:, 1:] > -torch.inf)).any(1)
    top, ids = top[:, :count], ids[:, :count]
    if bool(tied.any()):
        rows = tied.nonzero()[:, 0]
        top[rows], ids[rows] = _settled(values[rows], top[rows], ids[rows])
    return top, ids


def _topk(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """``torch.topk``, twice as fast on wide rows: searches only the blocks with the largest maxima."""
    size, width = values.shape
    blocks = width // _BLOCK
    if width < _WIDE or blocks <= 2 * count:
        best = values.topk(count, 1)
        return best.values, best.indices
    whole = values[:, : blocks * _BLOCK].view(size, blocks, _BLOCK)
    chosen = whole.amax(2).topk(count, 1).indices  # (N, K): these blocks hold the K largest values
    pool = whole.gather(1, chosen[:, :, None].expand(-1, -1, _BLOCK)).flatten(1)  # (N, K * block)
    pool = torch.cat([pool, values[:, blocks * _BLOCK :]], 1)
    top, places = pool.topk(count, 1)
    block = chosen.gather(1, (places // _BLOCK).clamp(max=count - 1)) * _BLOCK + places % _BLOCK
    rest = places - count * _BLOCK + blocks * _BLOCK  # from the incomplete last block
    return top, torch.where(places < count * _BLOCK, block, rest)


def _settled(values: Tensor, top: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Chooses again the values equal to the last one, by lowest index, and sorts by value, then index."""
    count, width = top.size(1), values.size(1)
    threshold = top[:, -1:]
    backwards = torch.arange(width, 0, -1, device=values.device)  # V at index 0
    equal = torch.where(values == threshold, backwards, 0).topk(count, 1).values  # 0: no such value
    pool = torch.cat([top.where(top > threshold, -torch.inf), threshold.where(equal > 0, -torch.inf)], 1)
    places = torch.cat([ids, (width - equal).clamp(max=width - 1)], 1)
    by_index = places.argsort(1)
    pool, places = pool.gather(1, by_index), places.gather(1, by_index)
    ordered = pool.sort(dim=1, descending=True, stable=True)
    return ordered.values[:, :count], places.gather(1, ordered.indices[:, :count])
