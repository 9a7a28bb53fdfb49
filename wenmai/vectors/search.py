"""Exact best matches by matrix products in blocks: no index to build, no approximation, bounded memory."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["nearest_rows", "top_scores"]

BLOCK = 1 << 22  # scores held at once: 16 MiB of float32


def nearest_rows(
    vectors: NDArray[np.float32],
    inverse_norms: NDArray[np.float32],
    queries: NDArray[np.float32],
    topn: int,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Finds the rows with the largest cosine to each query.

    Args:
        vectors: (V, d) rows to search.
        inverse_norms: (V,) one over each row's length, 0 for a zero row (its cosine is then 0).
        queries: (B, d) of unit length, or zero.
        topn: how many rows to return per query; at most V are.

    Returns:
        Row numbers (B, topn) and cosines (B, topn), best first, equal cosines in row order.
    """
    topn = min(topn, len(vectors))
    batch = min(256, max(1, BLOCK // max(4 * topn, 1)))
    found = []
    for first in range(0, len(queries), batch):
        chunk = queries[first : first + batch]

        def cosines(start: int, stop: int, chunk: NDArray[np.float32] = chunk) -> NDArray[np.float32]:
            scores: NDArray[np.float32] = chunk @ vectors[start:stop].T
            scores *= inverse_norms[start:stop]
            return scores

        found.append(top_scores(cosines, len(chunk), len(vectors), topn))
    if not found:
        return np.empty((0, topn), np.int64), np.empty((0, topn), np.float32)
    return np.concatenate([ids for ids, _ in found]), np.concatenate([scores for _, scores in found])


def top_scores(
    block_scores: Callable[[int, int], NDArray[np.float32]], num_queries: int, num_rows: int, topn: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Finds the ``topn`` best rows of each query from blocks of scores.

    Args:
        block_scores: gives the finite scores (B, stop - start) of rows ``start`` to ``stop``.
        num_queries: B.
        num_rows: V.
        topn: from 0 to V.

    Returns:
        Row numbers (B, topn) and scores (B, topn), best first, equal scores in row order.
    """
    ids = np.full((num_queries, topn), -1, np.int64)
    best = np.full((num_queries, topn), -np.inf, np.float32)
    if topn == 0:
        return ids, best
    step = max(BLOCK // num_queries, topn)
    for start in range(0, num_rows, step):
        stop = min(start + step, num_rows)
        scores = block_scores(start, stop)
        promising = scores > best[:, -1:]  # strictly: on a tie the earlier row stays
        if stop - start > topn and np.count_nonzero(promising) > 4 * best.size:
            last = stop - start - topn
            promising &= scores >= np.partition(scores, last, axis=1)[:, last, None]
        query, column = np.nonzero(promising)
        queries = np.concatenate([np.repeat(np.arange(num_queries), topn), query])
        merged = np.concatenate([best.ravel(), scores[query, column]])
        merged_ids = np.concatenate([ids.ravel(), column + start])
        order = np.lexsort((-merged, queries))  # stable, and earlier rows come first already
        counts = np.bincount(queries, minlength=num_queries)
        keep = order[(np.cumsum(counts) - counts)[:, None] + np.arange(topn)]
        ids, best = merged_ids[keep], merged[keep]
    return ids, best
