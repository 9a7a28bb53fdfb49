"""SSAN: relations between the entities of a document, by an encoder whose attention knows its structure.

Xu, Wang, Lyu, Zhu, Mao, "Entity Structure Within and Throughout: Modeling Mention Dependencies for Document-Level
Relation Extraction", AAAI 2021, https://arxiv.org/abs/2102.10249.

| equation | where |
|---|---|
| ẽ_ij = (q_i·k_j + T(q_i, k_j, s_ij))/√D (eq. 3 to 5) | :mod:`wenmai.nn.structure_bias`, in each layer |
| x_t = relu(W h_t + b), e = the mean of x_t over all tokens of all mentions | ``Ssan.sums`` |
| P(r | h, t) = σ([e_h; d_ht]ᵀ W_r [e_t; d_th] + b_r) (eq. 6) | ``Ssan.logits`` |

``features`` are those of the authors' code: vectors of the type and of the number of an entity at the input, and d, a
vector of the distance between the first mentions of head and tail. Those at the input begin with 0, so that at first
the encoder says what it did without them; so do the parameters of the structure.

Any BERT of ours will do, imported ones too; one with relative positions, whose scores are made otherwise, only without
structure. Tokens of entities are put first while the encoder reads, each with the position that it had: attention does
not mind, and the bias of the scores is one block of rows.

Shapes: R windows, T tokens, E entities of the documents, K tokens of mentions, P pairs, C classes of relations.
"""

from itertools import pairwise
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from wenmai.core.errors import SettingError
from wenmai.models.ssan_settings import SsanConfig
from wenmai.nn.dropout import dropout
from wenmai.nn.encoder import TextEncoder
from wenmai.nn.linear import Linear
from wenmai.nn.masks import real_keys
from wenmai.nn.multihead import MultiHead
from wenmai.nn.structure_bias import Biaffine, Decomposed, StructureBias, dependencies

__all__ = ["Documents", "Ssan", "SsanConfig"]

_SPARSE = 4  # times as many products of heads and tails as there are pairs: fewer are asked for
_AT_ONCE = 512  # pairs
_BUCKETS = 10  # 0, 1, 2-3, 4-7, ..., 256 and more
_BIASES: dict[str, type[StructureBias]] = {"biaffine": Biaffine, "decomposed": Decomposed}


class Documents(Protocol):
    """Documents as tensors; :class:`wenmai.inference.relation_rows.DocumentBatch`."""

    @property
    def tokens(self) -> Tensor:
        """(R, T) int64, the windows of all documents."""

    @property
    def real(self) -> Tensor:
        """(R, T) bool, False for padding."""

    @property
    def sentences(self) -> Tensor:
        """(R, T) int64, the sentence of each token; -1 for special tokens and padding."""

    @property
    def entities(self) -> Tensor:
        """(R, T) int64, the entity of each token within its document; -1 outside of entities."""

    @property
    def types(self) -> Tensor:
        """(R, T) int64, the number of the type of that entity; -1 outside."""

    @property
    def members(self) -> Tensor:
        """(K, 3) int64: an entity of all documents, a row, and a token of one of its mentions there."""

    @property
    def size(self) -> int:
        """E, entities of all documents."""

    @property
    def pairs(self) -> Tensor:
        """(P, 2) int64, head and tail among all entities."""

    @property
    def distances(self) -> Tensor:
        """(P,) int64, tokens from the first mention of the head to that of the tail."""

    @property
    def sizes(self) -> list[int]:
        """Pairs of each document."""


class Ssan(nn.Module):
    """An encoder with structured attention, and a classifier of pairs of entities.

    Args:
        config: What is added to the encoder.
        encoder: A BERT, whose layers get biases.
        labels: C, "no relation" included.
        types: Types of entities.

    Raises:
        SettingError: if the encoder is no BERT, has too few layers, or has relative positions and is to have structure.
    """

    kind: ClassVar[str] = "ssan"
    config_class: ClassVar[type] = SsanConfig

    def __init__(self, config: SsanConfig, encoder: Any, *, labels: int, types: int) -> None:  # noqa: ANN401
        super().__init__()
        self.config = config
        network: Any = encoder
        self._in_order = getattr(network, "buckets", None) is not None  # relative positions
        if not self._in_order and (not isinstance(encoder, TextEncoder) or getattr(network, "positions", None) is None):
            raise SettingError("ssan needs a BERT; the encoder has no vectors of positions")
        if self._in_order and config.structure != "none":
            raise SettingError(
                f"structure={config.structure} needs an encoder with a vector for each position (positions=learned), "
                "but this one knows distances; start from another one, or set structure=none"
            )
        layers = list(network.encoder.layers)
        chosen = config.structured or range(1, len(layers) + 1)
        if max(chosen, default=0) > len(layers):
            raise SettingError(f"structured={max(chosen)}: the encoder has {len(layers)} layers")
        self.encoder = network
        if config.structure != "none":
            for number in chosen:
                attention = layers[number - 1].attention
                assert isinstance(attention, MultiHead)
                attention.relative = _BIASES[config.structure](attention.num_heads, attention.head_size)
        size = encoder.config.hidden_size
        self.entity = Linear(size, config.entity_size)
        wide = config.entity_size
        self.type_vectors = self.number_vectors = self.distance_vectors = None
        if config.features:
            embedded = network.embedding.embedding_dim
            self.type_vectors = nn.Parameter(torch.zeros(types, embedded))
            self.number_vectors = nn.Parameter(torch.zeros(config.most_entities, embedded))
            self.distance_vectors = nn.Parameter(torch.empty(2 * _BUCKETS, config.distance_size).normal_(std=0.02))
            wide += config.distance_size
        self.relation = nn.Parameter(torch.empty(labels, wide, wide))
        self.relation_bias = nn.Parameter(torch.zeros(labels))
        bound = (6 / (wide + wide)) ** 0.5
        nn.init.uniform_(self.relation, -bound, bound)

    @property
    def device(self) -> torch.device:
        """The device of its parameters."""
        return self.relation.device

    def forward(self, documents: Documents) -> Tensor:
        """Returns the logits (P, C) of all pairs of some documents."""
        sums, counts = self.sums(self.states(documents), documents.members, documents.size)
        vectors = sums / counts.clamp_min(1)[:, None]
        ends = [0]
        for size in documents.sizes:
            ends.append(ends[-1] + size)
        parts = [
            self.logits(vectors, documents.pairs[begin:end], documents.distances[begin:end])
            for begin, end in pairwise(ends)
        ]
        return torch.cat(parts)

    def states(self, documents: Documents) -> Tensor:
        """Returns the states (R, T, M) of all tokens."""
        encoder: Any = self.encoder
        order = self.order(documents.entities)
        rows = max(2, int((documents.entities >= 0).sum(1).max()))  # a bias of one row would be that of all
        tokens, sentences, entities, real = (
            part.gather(1, order)
            for part in (documents.tokens, documents.sentences, documents.entities, documents.real)
        )
        features = self._features(entities, documents.types.gather(1, order)) if self.config.features else None
        embedded = encoder.embed(tokens, positions=order, features=features)
        structure = encoder.structure(tokens) if self._in_order else {}
        if self.config.structure != "none":
            structure = {"dependencies": dependencies(sentences, entities, rows)}
        hidden: Tensor = encoder.encoder(embedded, mask=real_keys(real), structure=structure)
        back = order.argsort(dim=1)
        return hidden.gather(1, back[..., None].expand_as(hidden))

    def order(self, entities: Tensor) -> Tensor:
        """Returns the tokens (R, T) int64 in the order in which the encoder reads them, those of entities first.

        An encoder with relative positions reads them as they stand.
        """
        if self._in_order:
            return torch.arange(entities.shape[1], device=entities.device).expand(entities.shape)
        return (entities < 0).to(torch.int8).argsort(dim=1, stable=True)

    def _features(self, entities: Tensor, types: Tensor) -> Tensor:
        """The vectors of types and numbers (R, T, M); 0 outside of entities, and for more than have a vector."""
        assert self.type_vectors is not None
        assert self.number_vectors is not None
        numbers = torch.where(entities < len(self.number_vectors), entities, -1)
        return _rows(self.type_vectors, types) + _rows(self.number_vectors, numbers)

    def sums(self, states: Tensor, members: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Adds up the tokens of entities, for a mean over several calls.

        Args:
            states: (R, T, M).
            members: (K, 3) int64: an entity, a row, and a token of one of its mentions there.
            count: E.

        Returns:
            The sums of relu(W h + b), (E, S), and of how many tokens, (E,).
        """
        entity, row, place = members.unbind(1)
        vectors = self.entity(states[row, place]).relu()
        vectors = vectors.to(torch.promote_types(vectors.dtype, torch.float32))  # bfloat16 cannot count beyond 256
        total = vectors.new_zeros(count, vectors.shape[1]).index_add(0, entity, vectors)
        return total, torch.bincount(entity, minlength=count).to(vectors.dtype)

    def logits(self, vectors: Tensor, pairs: Tensor, distances: Tensor) -> Tensor:
        """Returns the logits of pairs of entities.

        The product is made once for each head, not for each pair, and distances have but twenty vectors.

        Args:
            vectors: (E, S).
            pairs: (P, 2) int64, head and tail.
            distances: (P,) int64, tokens from the first mention of the head to that of the tail.

        Returns:
            (P, C).
        """
        size = self.config.entity_size
        heads, head = torch.unique(pairs[:, 0], return_inverse=True)
        tails, tail = torch.unique(pairs[:, 1], return_inverse=True)
        one = self._dropped(vectors[heads])
        other = self._dropped(vectors[tails])
        weights = self.relation.to(one.dtype)
        of_heads = torch.einsum("hs,cse->hce", one, weights[:, :size, :size])  # e_hᵀ W_r of each head
        if len(heads) * len(tails) <= _SPARSE * len(pairs):
            found = (of_heads @ other.T)[head, :, tail]
        else:  # few of the products of heads and tails are asked for
            parts = zip(head.split(_AT_ONCE), tail.split(_AT_ONCE), strict=True)
            found = torch.cat([torch.einsum("pce,pe->pc", of_heads[some], other[them]) for some, them in parts])
        if self.distance_vectors is not None:
            table = self.distance_vectors.to(one.dtype)
            there, back = _buckets(distances)
            found = found + (torch.einsum("hs,csd->hcd", one, weights[:, :size, size:]) @ table.T)[head, :, back]
            found = found + (torch.einsum("kd,cde->kce", table, weights[:, size:, :size]) @ other.T)[there, :, tail]
            found = found + (torch.einsum("kd,cde->kce", table, weights[:, size:, size:]) @ table.T)[there, :, back]
        logits: Tensor = found + self.relation_bias
        return logits

    def _dropped(self, vectors: Tensor) -> Tensor:
        return dropout(vectors, self.config.head_dropout) if self.training else vectors


def _rows(table: Tensor, numbers: Tensor) -> Tensor:
    """Rows of a table; zeros for -1."""
    if not len(table):
        return table.new_zeros(*numbers.shape, table.shape[1])
    found: Tensor = nn.functional.embedding(numbers.clamp(0, len(table) - 1), table)
    return found * (numbers >= 0)[..., None]


def _buckets(distances: Tensor) -> tuple[Tensor, Tensor]:
    """The number of the vector of a distance, seen from the head and from the tail, 1 to 19."""
    size = torch.where(distances == 0, 0, distances.abs().clamp_min(1).log2().floor().long() + 1)
    there = _BUCKETS + distances.sign() * size.clamp_max(_BUCKETS - 1)
    return there, 2 * _BUCKETS - there
