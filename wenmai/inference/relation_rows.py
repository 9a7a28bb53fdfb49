"""Documents with entities as rows of an encoder: their pieces, and to which sentence and entity each belongs.

A document that is longer than the encoder reads becomes several overlapping windows. A piece belongs to the window in
which it has most context: its state there counts for the entities that it is part of, and no other state of it.
"""

from collections.abc import Container, Sequence
from itertools import pairwise, permutations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wenmai.data.batches import pad
from wenmai.data.relations import RelationDocument
from wenmai.inference.backbones import Backbone, Known, joined_ids

__all__ = ["DocumentBatch", "DocumentRows", "batched", "document_rows"]

Ints = npt.NDArray[np.int64]

NONE = -1  # the sentence of a special token, the entity of a piece of none


class DocumentRows(NamedTuple):
    """A document as an encoder reads it.

    Attributes:
        tokens: Of each window, with special tokens, (T,).
        sentences: Of each window, the sentence of each token, (T,); -1 for special tokens.
        entities: Of each window, the entity of each token, (T,), of several the last; -1 outside of entities.
        types: Of each window, the number of the type of that entity, (T,); -1 outside, and for unknown types.
        members: (K, 3) int64, an entity, a window and a token of one of its mentions there.
        firsts: (E,) int64, the piece of the document with which each entity is first mentioned; -1 if it has none.
        pairs: (P, 2) int64, the entities whose relation is asked for, head and tail.
    """

    tokens: list[Ints]
    sentences: list[Ints]
    entities: list[Ints]
    types: list[Ints]
    members: Ints
    firsts: Ints
    pairs: Ints

    @property
    def width(self) -> int:
        """Tokens of the longest window."""
        return max((len(row) for row in self.tokens), default=0)

    @property
    def distances(self) -> Ints:
        """(P,) pieces from the first mention of the head to that of the tail."""
        found: Ints = self.firsts[self.pairs[:, 1]] - self.firsts[self.pairs[:, 0]]
        return found


class DocumentBatch(NamedTuple):
    """Documents as tensors.

    Attributes:
        tokens: (R, T) int64, the windows of all documents.
        real: (R, T) bool, False for padding.
        sentences: (R, T) int64; -1 for special tokens and padding.
        entities: (R, T) int64, numbers within the document; -1 outside of entities.
        types: (R, T) int64; -1 outside of entities.
        members: (K, 3) int64: an entity of the batch, its row, and a token there.
        size: Entities of the batch.
        pairs: (P, 2) int64, entities of the batch.
        distances: (P,) int64.
        sizes: Pairs of each document.
    """

    tokens: Tensor
    real: Tensor
    sentences: Tensor
    entities: Tensor
    types: Tensor
    members: Tensor
    size: int
    pairs: Tensor
    distances: Tensor
    sizes: list[int]


def document_rows(
    document: RelationDocument,
    backbone: Backbone,
    types: Sequence[str],
    *,
    length: int,
    stride: int | None,
    known: Known,
    asked: Container[tuple[str, str]] | None = None,
) -> DocumentRows:
    """Cuts a document into pieces and windows.

    Args:
        document: Its pairs, if it does not name them, are all of two different entities of the types ``asked``.
        backbone: The encoder.
        types: The types of entities that a model knows.
        length: Most tokens of a window, special ones included.
        stride: Pieces from the beginning of a window to that of the next; None: a half of it.
        known: Words that were cut before; grows.
        asked: The types of head and tail of pairs; None: any.
    """
    words = [word for sentence in document.sentences for word in sentence]
    begins = np.cumsum([0, *map(len, document.sentences)])
    pieces = joined_ids(words, backbone, known)
    ids = np.array(pieces.ids, np.int64)
    # The pieces of word w are those from edges[w] to edges[w + 1], a space before it among them.
    edges = np.array([0, *(end for _, end in pieces.offsets)], np.int64)
    sentence_of = np.repeat(np.arange(len(document.sentences)), np.diff(edges[begins]))
    entity_of, type_of = np.full(len(ids), NONE), np.full(len(ids), NONE)
    numbers = {name: number for number, name in enumerate(types)}
    inside: list[set[int]] = []
    firsts = []
    for number, entity in enumerate(document.entities):
        own = set[int]()
        for mention in entity.mentions:
            first = begins[mention.sentence]
            low, high = pieces.offsets[first + mention.start][0], int(edges[first + mention.end])
            entity_of[low:high], type_of[low:high] = number, numbers.get(mention.type, NONE)
            own.update(range(low, high))
        inside.append(own)
        firsts.append(min(own, default=NONE))
    begins_of = _windows(len(ids), length - 2, stride)
    room = min(length - 2, len(ids))
    cuts = [0, *((one + other + room) // 2 for one, other in pairwise(begins_of)), len(ids)]
    owner = np.repeat(np.arange(len(begins_of)), np.diff(cuts))
    members = np.array(
        [(number, owner[place], place) for number, own in enumerate(inside) for place in sorted(own)], np.int64
    ).reshape(-1, 3)
    needed = np.unique(members[:, 1])  # a window without a mention of its own is not read
    kept = {int(window): row for row, window in enumerate(needed)}
    tokens: list[Ints] = []
    sentences: list[Ints] = []
    entities: list[Ints] = []
    kinds: list[Ints] = []
    shift = np.zeros(len(begins_of), np.int64)
    for window in needed.tolist():
        begin = begins_of[window]
        row = backbone.framed(ids[begin : begin + room].tolist())
        first, _ = backbone.begins(row)
        shift[window] = first - begin
        tokens.append(np.array(row.tokens, np.int64))
        for found, values in ((sentences, sentence_of), (entities, entity_of), (kinds, type_of)):
            whole = np.full(len(row.tokens), NONE)
            whole[first : first + room] = values[begin : begin + room]
            found.append(whole)
    members[:, 2] += shift[members[:, 1]]
    members[:, 1] = [kept[window] for window in members[:, 1].tolist()]
    places = np.array(firsts, np.int64)
    return DocumentRows(tokens, sentences, entities, kinds, members, places, _pairs(document, places, asked))


def _windows(size: int, room: int, stride: int | None) -> list[int]:
    """Where windows begin among so many pieces."""
    step = min(max(1, room // 2) if stride is None else stride, room)
    return [0] if size <= room else [*range(0, size - room, step), size - room]


def _pairs(document: RelationDocument, firsts: Ints, asked: Container[tuple[str, str]] | None) -> Ints:
    """The pairs that are asked for, of entities that have a mention."""
    if document.pairs is not None:
        found = np.array(document.pairs, np.int64).reshape(-1, 2)
    elif asked is not None:
        types = [entity.type for entity in document.entities]
        named = [number for number, entity in enumerate(document.entities) if entity.id] or range(len(types))
        ordered = permutations(named, 2)  # of PubTator's those without an identifier have no relations
        some = [(head, tail) for head, tail in ordered if (types[head], types[tail]) in asked]
        found = np.array(some, np.int64).reshape(-1, 2)
    else:
        count = len(firsts)
        found = np.stack(np.nonzero(~np.eye(count, dtype=np.bool_)), 1)
    kept: Ints = found[(firsts[found] >= 0).all(1)]
    return kept


def batched(documents: Sequence[DocumentRows], backbone: Backbone, device: torch.device) -> DocumentBatch:
    """Puts documents together."""
    rows = np.cumsum([0, *(len(one.tokens) for one in documents)])
    counts = np.cumsum([0, *(len(one.firsts) for one in documents)])
    members = [one.members + np.array((counts[at], rows[at], 0)) for at, one in enumerate(documents)]
    pairs = [one.pairs + counts[at] for at, one in enumerate(documents)]
    tokens, real = pad([row for one in documents for row in one.tokens], backbone.tokenizer.pad_id)
    filled = [
        pad([row for one in documents for row in getattr(one, name)], NONE)[0]
        for name in ("sentences", "entities", "types")
    ]

    def tensor(array: npt.NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(device)

    sentences, entities, types = map(tensor, filled)
    return DocumentBatch(
        tokens=tensor(tokens),
        real=tensor(real),
        sentences=sentences,
        entities=entities,
        types=types,
        members=tensor(np.concatenate(members)),
        size=int(counts[-1]),
        pairs=tensor(np.concatenate(pairs)),
        distances=tensor(np.concatenate([one.distances for one in documents])),
        sizes=[len(one.pairs) for one in documents],
    )
