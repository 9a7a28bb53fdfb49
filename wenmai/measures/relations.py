"""Measures of relations between the entities of documents, by the rules of DocRED's official script.

A prediction is right if the document has that relation between the two entities; all documents are counted together.
*Ign F1* leaves predictions out of the precision that are right and that the training could have told: a name of the
head and a name of the tail had that relation there. The recall stays as it is. *Intra* counts pairs with a sentence in
which both are mentioned, *inter* the others; the *distance* of a pair is the sentences from a mention of one to the
nearest of the other. Evidence is measured over the sentences of all predictions and of all gold relations.
"""

from collections.abc import Container, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from wenmai.core.columns import in_columns
from wenmai.core.errors import CorpusError
from wenmai.core.wording import say
from wenmai.measures.bootstrap import percentile_intervals

__all__ = ["Annotations", "RelationResult", "Scored", "best_threshold", "measure_relations"]


class Annotations(Protocol):
    """What is known of a document; :class:`wenmai.data.relations.RelationDocument`."""

    @property
    def entities(self) -> Sequence[Any]:
        """Entities with ``mentions``, which have a ``name`` and the number of their ``sentence``."""

    @property
    def relations(self) -> Sequence[Any]:
        """Relations with ``head``, ``tail``, ``relation`` and ``evidence``, the first three of which come first."""


class Scored(NamedTuple):
    """A relation that a model predicts.

    Attributes:
        document: The number of the document.
        head: The number of the entity that has it.
        tail: The number of the entity that it has it to.
        relation: Its name.
        score: How likely it is.
        evidence: Sentences that are thought to say so.
    """

    document: int
    head: int
    tail: int
    relation: str
    score: float = 1.0
    evidence: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DistanceResult:
    """The relations of pairs of one distance.

    Attributes:
        distance: In sentences; 0: both are mentioned in one. The longest stands for longer ones too.
        gold: Relations that there are.
        found: Relations that were predicted.
        f1: None where there are none.
    """

    distance: int
    gold: int
    found: int
    f1: float | None


@dataclass(frozen=True, kw_only=True)
class RelationResult:
    """The metrics; bounds are those of 95 % bootstrap intervals over documents.

    Attributes:
        documents: How many.
        gold: Relations that they have.
        found: Relations that were predicted.
        right: Those that are right.
        known: Right ones that the training could have told.
        f1: Of all.
        ign_f1: Without what the training could have told; None if there was no training.
        intra_f1: Of pairs that share a sentence; None where there are none.
        inter_f1: Of pairs that share none.
        evidence_f1: Of the sentences; None if the documents name none.
        by_distance: By the distance of the pair, from 0.
    """

    documents: int
    gold: int
    found: int
    right: int
    known: int
    precision: float
    recall: float
    f1: float
    f1_low: float | None
    f1_high: float | None
    ign_f1: float | None
    ign_f1_low: float | None
    ign_f1_high: float | None
    intra_f1: float | None
    inter_f1: float | None
    evidence_f1: float | None
    by_distance: tuple[DistanceResult, ...]

    def as_dict(self) -> dict[str, Any]:
        """Returns plain JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        def row(name: str, value: float | None, low: float | None = None, high: float | None = None) -> list[str]:
            shown = "-" if value is None else f"{value:.4f}"
            return [say(name), shown, "" if low is None or high is None else f"[{low:.4f}, {high:.4f}]"]

        rows = [
            row("F1", self.f1, self.f1_low, self.f1_high),
            row("Ign F1", self.ign_f1, self.ign_f1_low, self.ign_f1_high),
            row("precision", self.precision),
            row("recall", self.recall),
            row("intra F1", self.intra_f1),
            row("inter F1", self.inter_f1),
            row("evidence F1", self.evidence_f1),
        ]
        rows += [row(name, one.f1) for name, one in zip(_APART, self.by_distance[1:], strict=True)]
        counts = f"{self.documents:,} documents, {self.gold:,} relations, {self.found:,} found, {self.right:,} right"
        return f"{counts}\n{in_columns(rows)}"


def best_threshold(scored: Sequence[Scored], documents: Sequence[Annotations]) -> tuple[float, float]:
    """Returns a score that makes the cut with the best F1, and that F1; 1 and 0 if nothing is right.

    It is between the lowest score above the cut and the next one, so that neither depends on how scores are rounded.

    Args:
        scored: Predictions with their scores.
        documents: With the right relations.
    """
    gold = [{one[:3] for one in document.relations} for document in documents]
    total = sum(map(len, gold))
    ordered = sorted({one[:4]: one for one in sorted(scored, key=lambda one: one.score)}.values(), key=_descending)
    if not ordered or not total:
        return 1.0, 0.0
    right = np.cumsum([(one.head, one.tail, one.relation) in gold[one.document] for one in ordered])
    f1 = 2 * right / (np.arange(1, len(ordered) + 1) + total)
    scores = np.array([one.score for one in ordered])
    last = np.append(scores[1:] < scores[:-1], True)  # equal scores are cut together
    best = int(np.where(last, f1, -1.0).argmax())
    if not f1[best] > 0:
        return 1.0, 0.0
    between = (scores[best] + scores[best + 1]) / 2 if best + 1 < len(scores) else scores[best]
    return float(between), float(f1[best])


def _descending(one: Scored) -> float:
    return -one.score


def measure_relations(
    predicted: Sequence[Scored],
    documents: Sequence[Annotations],
    seen: Container[tuple[str, str, str]] | None = None,
    *,
    intervals: bool = True,
    resamples: int = 1000,
    seed: int = 0,
) -> RelationResult:
    """Measures predictions; of one that is made twice the first counts.

    Args:
        predicted: Those that were decided for.
        documents: With the right relations; one that is named twice is one, as in the official script.
        seen: The facts of the training, names of head and tail and a relation; None: there was none.
        intervals: Whether to draw resamples.
        resamples: How many.
        seed: Of the draws.

    Raises:
        CorpusError: if a prediction is of a document or an entity that there is not.
    """
    # Of each document: gold, found, right, known; gold, found, right of evidence, and of each distance.
    counts = np.zeros((len(documents), _BY_DISTANCE + 3 * (_FARTHEST + 1)))
    once = {one[:4]: one for one in reversed(predicted)}  # the first, with its evidence
    distances = [_Distances(document) for document in documents]
    gold = [{one[:3]: one for one in document.relations} for document in documents]
    for number in range(len(documents)):
        for true in gold[number].values():
            counts[number, 0] += 1
            counts[number, _BY_DISTANCE + 3 * distances[number](true.head, true.tail)] += 1
            counts[number, 4] += len(set(true.evidence))
    for one in once.values():
        number = one.document
        known = len(documents[number].entities) if 0 <= number < len(documents) else 0
        if not (0 <= one.head < known and 0 <= one.tail < known):
            raise CorpusError(
                f"a prediction is of document {number}, entities {one.head} and {one.tail}; there is none"
            )
        place = _BY_DISTANCE + 3 * distances[number](one.head, one.tail)
        counts[number, 1] += 1
        counts[number, place + 1] += 1
        counts[number, 5] += len(set(one.evidence))
        said = gold[number].get((one.head, one.tail, one.relation))
        if said is None:
            continue
        counts[number, 2] += 1
        counts[number, place + 2] += 1
        counts[number, 6] += len(set(one.evidence) & set(said.evidence))
        if seen is not None and _is_seen(documents[number], one, seen):
            counts[number, 3] += 1
    sums = counts.sum(0)
    values, apart = _values(sums[None])[0], sums[_BY_DISTANCE:].reshape(-1, 3)
    bounds: list[tuple[float, float] | tuple[None, None]] = [(None, None)] * 2
    if intervals and len(documents) > 1:
        bounds = percentile_intervals(
            lambda weights: _values(weights @ counts)[:, :2], len(documents), 2, resamples=resamples, seed=seed
        )
    has = {name: float(value) for name, value in zip(_NAMES, values, strict=True)}
    return RelationResult(
        documents=len(documents),
        gold=int(sums[0]),
        found=int(sums[1]),
        right=int(sums[2]),
        known=int(sums[3]),
        precision=float(_share(sums[2], sums[1])),
        recall=float(_share(sums[2], sums[0])),
        f1=has["f1"],
        f1_low=bounds[0][0],
        f1_high=bounds[0][1],
        ign_f1=None if seen is None else has["ign_f1"],
        ign_f1_low=None if seen is None else bounds[1][0],
        ign_f1_high=None if seen is None else bounds[1][1],
        intra_f1=has["intra_f1"] if apart[0, 0] else None,
        inter_f1=has["inter_f1"] if apart[1:, 0].any() else None,
        evidence_f1=has["evidence_f1"] if sums[4] else None,
        by_distance=tuple(
            DistanceResult(distance=distance, gold=int(gold), found=int(said), f1=float(f1) if gold else None)
            for distance, ((gold, said, _), f1) in enumerate(zip(apart, _f1(apart), strict=True))
        ),
    )


_BY_DISTANCE = 7  # where the counts by distance begin
_APART = ("next sentence", "two sentences apart", "farther apart")  # distances 1, 2, and all others
_FARTHEST = len(_APART)
_NAMES = ("f1", "ign_f1", "intra_f1", "inter_f1", "evidence_f1")


def _values(sums: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Returns the metrics (R, 5) of sums (R, 19)."""
    gold, found, right, known = sums[:, :4].T
    precision, recall = _share(right - known, found - known), _share(right, gold)
    ign = _share(2 * precision * recall, precision + recall)
    apart = sums[:, _BY_DISTANCE:].reshape(len(sums), -1, 3)
    f1, evidence = _f1(sums[:, :3]), _f1(sums[:, 4:7])
    return np.stack([f1, ign, _f1(apart[:, 0]), _f1(apart[:, 1:].sum(1)), evidence], 1)


def _f1(counts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Returns F1 (...) of what is gold, found and right, (..., 3)."""
    gold, found, right = np.moveaxis(counts, -1, 0)
    f1: npt.NDArray[np.float64] = _share(2 * right, gold + found)
    return f1


def _share(part: Any, whole: Any) -> Any:  # noqa: ANN401  numbers or arrays
    return np.divide(part, whole, out=np.zeros_like(np.asarray(part, np.float64)), where=np.asarray(whole) > 0)


class _Distances:
    """Tells how far apart two entities of a document are mentioned, up to the farthest distance."""

    def __init__(self, document: Annotations) -> None:
        self._sentences = [sorted({one.sentence for one in entity.mentions}) for entity in document.entities]
        self._known: dict[tuple[int, int], int] = {}

    def __call__(self, head: int, tail: int) -> int:
        pair = (min(head, tail), max(head, tail))
        if pair not in self._known:
            one, other = (self._sentences[side] for side in pair)
            self._known[pair] = min((*(abs(a - b) for a in one for b in other), _FARTHEST))
        return self._known[pair]


def _is_seen(document: Annotations, one: Scored, seen: Container[tuple[str, str, str]]) -> bool:
    heads, tails = ({mention.name for mention in document.entities[side].mentions} for side in (one.head, one.tail))
    return any((head, tail, one.relation) in seen for head in heads for tail in tails)
