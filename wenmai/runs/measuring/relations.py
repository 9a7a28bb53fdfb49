"""Evaluate and compare models that find the relations of documents."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from wenmai.core.errors import CorpusError
from wenmai.core.showing import Table
from wenmai.data.drawing import drawn
from wenmai.data.relation_files import has_identifiers, open_documents, read_documents, require_measurable
from wenmai.data.relation_settings import RelationsConfig
from wenmai.data.relations import Evidence, RelationDocument, key_of
from wenmai.measures.relations import RelationResult, Scored, measure_relations
from wenmai.runs.comparison import Comparison, Kind, Measure
from wenmai.runs.measuring.classification import few, unknown_note
from wenmai.runs.measuring.measurer import Evaluation, Measurer, Progress, Turns, title_of, unwatched
from wenmai.training.run import Run

if TYPE_CHECKING:
    from wenmai.inference.relations import RelationModel

__all__ = ["EXTRACTORS", "RelationEvaluation"]


@dataclass(frozen=True, kw_only=True, repr=False)
class RelationEvaluation(Evaluation):
    """The evaluation on documents.

    Attributes:
        on: The test set.
        threshold: The lowest probability of a relation.
        result: The metrics.
        left_out: Which relations the model does not know, and which pairs were left out, in sentences, if any.
    """

    on: str
    threshold: float
    result: RelationResult
    left_out: tuple[str, ...] = ()

    @property
    def notes(self) -> list[str]:
        """Which relations the model does not know, and which pairs were left out."""
        return list(self.left_out)

    def as_dict(self) -> dict[str, Any]:
        """Returns plain JSON values; the metrics are at the top."""
        return {"run": self.run, "on": self.on, "threshold": self.threshold, **self.result.as_dict()}

    def _facts(self) -> dict[str, Any]:
        return {"run": self.run, "on": self.on, "f1": self.result.f1}

    def __str__(self) -> str:
        return str(self.result)

    def table(self) -> Table:
        """Returns one row of all metrics."""
        found = self.result.as_dict()
        apart = {f"f1, distance {one['distance']}": one["f1"] for one in found.pop("by_distance")}
        return Table.of([found | apart])


def evaluate(
    run: Run,
    *,
    on: Any,  # noqa: ANN401  whatever names or holds documents
    threshold: float | None = None,
    evidence: Evidence = "co-occurrence",
    limit: int | None = None,
) -> RelationEvaluation:
    """Evaluates a model on documents with relations.

    Args:
        run: A finished run.
        on: Documents, as for training.
        threshold: The lowest probability of a relation; None: that of the model, which was best on its validation data.
        evidence: How sentences that speak of a relation are found, see
            :meth:`wenmai.inference.relations.RelationModel.extract`.
        limit: Most documents to evaluate on, drawn by chance; None: all.

    Raises:
        RunError: if the run is not finished.
        CorpusError: if the test set cannot be read, or has no two entities or no relation that the model knows.
        SettingError: if there is no such way to find evidence.
    """
    return _evaluated(run, run.model, on, _hypernyms(run), threshold, evidence, limit)


def _hypernyms(run: Run) -> str | None:
    config: RelationsConfig = run.recipe.sections["data"]
    return config.hypernyms


def _evaluated(
    run: Run,
    model: "RelationModel",
    on: Any,  # noqa: ANN401
    hypernyms: str | None,
    threshold: float | None = None,
    evidence: Evidence = "co-occurrence",
    limit: int | None = None,
) -> RelationEvaluation:
    opened, config = open_documents(on), replace(run.recipe.sections["data"], hypernyms=hypernyms)
    documents = every = read_documents(opened, config)
    if limit is not None:
        kept = drawn([None] * len(documents), limit, seed=1)
        documents = [document for number, document in enumerate(documents) if number in kept]
    require_measurable(documents, opened.describe())
    left_out = _unknown_relations(model.labels[1:], documents, opened.describe())
    if len(documents) < len(every):
        left_out.append(f"evaluated on {len(documents):,} documents, drawn by chance (limit)")
    if known := sum(key_of(document) in model.facts.trained for document in documents):
        left_out.append(
            f"{known:,} of {len(documents):,} documents are among those that the model was trained on; name others to "
            "measure what it has learned"
        )
    if has_identifiers(opened):
        if hypernyms is not None:
            left_out.append(
                f"pairs whose disease is more general than a right one were left out (hypernyms={hypernyms})"
            )
        elif _hypernyms(run) is not None:
            left_out.append("all pairs are asked for; the model was trained without more general ones (hypernyms)")
    cut = model.cut if threshold is None else threshold
    found = []
    for number, extracted in enumerate(model.extract(documents, threshold=cut, evidence=evidence)):
        found += [(number, one) for one in extracted.relations]
    scored = [Scored(number, one.head, one.tail, one.relation, one.probability, one.evidence) for number, one in found]
    return RelationEvaluation(
        run=str(run.path),
        on=opened.describe(),
        threshold=cut,
        result=measure_relations(scored, documents, model.facts.seen),
        left_out=tuple(left_out),
    )


def _unknown_relations(known: Sequence[str], documents: Sequence[RelationDocument], on: str) -> list[str]:
    """Returns a note on the relations that a model does not know, if there are any.

    Raises:
        CorpusError: if it knows none.
    """
    found = Counter(one.relation for document in documents for one in document.relations)
    if not found.keys() & set(known):
        raise CorpusError(
            f"{on}: has the relations {few(found)}, none of which the model knows; it knows {few(known)}; name "
            "documents that are annotated as the training data were"
        )
    return unknown_note(
        {name: count for name, count in found.items() if name not in known},
        "1 relation of the test set is unknown to the model and counts as missed",
        "{count} relations of the test set are unknown to the model and count as missed",
    )


def compare(
    runs: Sequence[Run], comparison: Comparison, *, on: Sequence[str] = (), progress: Progress = unwatched
) -> Comparison:
    """Compares F1 and Ign F1 on test sets; pairs are left out (``hypernyms``) if all runs left out the same ones."""
    filters = {_hypernyms(run) for run in runs}
    hypernyms = filters.pop() if len(filters) == 1 else None
    systems, turns = [], Turns(progress, runs=len(runs), sets=len(on))
    for run, system in zip(runs, comparison.systems, strict=True):
        model, measures = run.read_model(), []
        for name in on:
            turns.begin(name, system.name)
            evaluation = _evaluated(run, model, name, hypernyms)
            found, notes = evaluation.result, evaluation.notes
            for kind, main in (("relations", "f1"), ("new relations", "ign_f1")):
                value = getattr(found, main)
                low, high = getattr(found, f"{main}_low"), getattr(found, f"{main}_high")
                title = title_of(name, on)
                if value is not None or notes:
                    measures.append(Measure(name=title, kind=kind, value=value, low=low, high=high, notes=notes))
                notes = []  # they hold for both
        systems.append(replace(system, measures=measures))
    return replace(comparison, systems=systems)


def check(*, on: Sequence[str] = ()) -> None:
    """Makes sure that the test sets are there."""
    for name in on:
        open_documents(name)


EXTRACTORS = Measurer(
    models="models of relations",
    evaluate=evaluate,
    compare=compare,
    check=check,
    kinds={
        "relations": Kind(title="Relations of documents, F1, %", percent=True),
        "new relations": Kind(title="Relations that the training had not, Ign F1, %", percent=True),
    },
)
