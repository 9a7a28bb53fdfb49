"""Where the entities of a text are, by its marks."""

import numpy as np

from wenmai.data.token_marks import ENTITY, INSIDE

__all__ = ["entity_spans"]


def entity_spans(marks):
    """The first token of each entity and the one behind its last, (N, 2): a phrase may begin inside of an entity."""
    spans, inside = [], False
    for place, mark in enumerate(marks.tolist()):
        if mark & ENTITY:
            spans.append([place, place])
        inside = bool(mark & ENTITY) or (inside and bool(mark & INSIDE))
        if inside:
            spans[-1][1] = place + 1
    return np.array(spans, np.int64).reshape(-1, 2)
