"""Relations between the entities of documents: a trained model with its verb ``extract``.

See :mod:`wenmai.models.ssan` for the network. A pair of entities has a relation if its score reaches the threshold,
which is the one that was best on the validation data; with ``loss=adaptive``, if it is above that of the class
"no relation" of the same pair (Zhou et al. 2021, ATLOP).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wenmai.core.errors import FormatError, SettingError
from wenmai.core.showing import Shown
from wenmai.core.tensors import require_numbers
from wenmai.data.relations import Evidence, RelationDocument, cooccurring, docred_documents
from wenmai.inference.backbones import Backbone, Known
from wenmai.inference.families import stored_backbone
from wenmai.inference.framing import grouped, tokens_at_once
from wenmai.inference.reading_config import RelationReadingConfig
from wenmai.inference.relation_facts import RelationFacts
from wenmai.inference.relation_rows import DocumentBatch, DocumentRows, batched, document_rows
from wenmai.measures.relations import Scored
from wenmai.models.folder import CONFIG, checked, read_fields, read_settings, write_fields
from wenmai.models.ssan import Ssan
from wenmai.models.ssan_settings import SsanConfig
from wenmai.nn.attention import watch_attention
from wenmai.nn.recomputing import in_parts
from wenmai.training.tensors import loaded_model, save_model

__all__ = ["Decision", "Extracted", "FoundRelation", "RelationModel"]

Decision = Literal["threshold", "adaptive"]

_FLOOR = 0.005  # scores below are of no interest to a measure, and would be millions
_PAIRS_AT_ONCE = 1 << 14
_MOST_KNOWN = 1 << 20  # words whose pieces are remembered
_EVIDENCE = 0.5  # the sentences that make up this share of the attention


@dataclass(frozen=True, kw_only=True, slots=True)
class _Decided:
    """How it is decided, as a file has it."""

    decision: Decision


class FoundRelation(NamedTuple):
    """A relation between two entities of a document.

    Attributes:
        head: The entity that has it, by number.
        tail: The entity that it has it to.
        relation: Its name.
        meaning: What that means, or the name again.
        probability: σ of its score; with ``adaptive`` its probability against "no relation".
        evidence: Sentences that speak of it.
        evidence_by: How these were found: ``co-occurrence`` (both entities are in them) or ``attention``.
    """

    head: int
    tail: int
    relation: str
    meaning: str
    probability: float
    evidence: tuple[int, ...]
    evidence_by: Evidence


class Extracted(NamedTuple):
    """The relations of a document.

    Attributes:
        document: The document.
        relations: Of its entities, the most probable first.
        pairs: How many pairs of entities were asked for.
        threshold: The lowest probability of a relation.
        highest: The highest one, whether it reaches the threshold or not; 0 without pairs.
    """

    document: RelationDocument
    relations: list[FoundRelation]
    pairs: int
    threshold: float
    highest: float


class RelationModel(Shown):
    """An encoder with structured self-attention, and a classifier of pairs of entities.

    Args:
        module: The network.
        backbone: The encoder within it, with its tokenizer.
        reading: How documents are cut into windows.
        labels: The relations, in the order of the outputs; the first is "no relation".
        types: The types of entities, in the order of their vectors.
        decision: How it is decided which relations there are.
        threshold: Of ``threshold``: the lowest score of a relation, a probability.
        facts: What is known of the documents that were trained on.

    Attributes:
        kind: The system that trains it.
        verbs: What it can do.
    """

    kind: ClassVar[str] = "ssan"
    verbs: ClassVar[tuple[str, ...]] = ("extract",)
    config_class: ClassVar[type] = SsanConfig

    def __init__(
        self,
        module: Ssan,
        backbone: Backbone,
        reading: RelationReadingConfig,
        labels: Sequence[str],
        types: Sequence[str],
        *,
        decision: Decision = "threshold",
        threshold: float = 0.5,
        facts: RelationFacts,
    ) -> None:
        self.module = module
        self.backbone = backbone
        self.reading = reading
        self.labels = list(labels)
        self.types = list(types)
        self.decision: Decision = decision
        self.threshold = threshold
        self.facts = facts
        self._known: Known = {}

    def _facts(self) -> dict[str, Any]:
        parameters = sum(parameter.numel() for parameter in self.module.parameters())
        facts = {"structure": self.config.structure, "encoder": self.backbone.module.kind, "parameters": parameters}
        return {**facts, "relations": len(self.labels) - 1, "device": str(self.device)}

    @property
    def config(self) -> SsanConfig:
        """The settings of the network."""
        found: SsanConfig = self.module.config
        return found

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.module.parameters()).device

    @property
    def length(self) -> int:
        """Most tokens of a window."""
        longest = self.backbone.max_length
        return longest if self.reading.max_length is None else min(longest, self.reading.max_length)

    # --- files ------------------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Writes ``config.json``, ``facts.json``, ``model.safetensors`` and the tokenizer."""
        write_fields(
            folder,
            kind=self.kind,
            encoder=self.backbone.facts(),
            ssan=asdict(self.config),
            reading=asdict(self.reading),
            labels=self.labels,
            types=self.types,
            decision=self.decision,
            threshold=self.threshold,
        )
        self.facts.save(folder)
        save_model(self.module, folder)
        self.backbone.save(folder)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Reads what :meth:`save` wrote.

        Raises:
            FormatError: if a file is missing, damaged, of another kind, or does not fit the others.
        """
        path, found = folder / CONFIG, read_fields(folder, kind=cls.kind)
        config = read_settings(path, SsanConfig, found.get("ssan"), "ssan")
        reading = read_settings(path, RelationReadingConfig, found.get("reading"), "reading")
        try:
            labels = checked(list[str], found.get("labels"))
            types = checked(list[str], found.get("types"))
            decision = checked(_Decided, {"decision": found.get("decision")}).decision
            threshold = checked(float, found.get("threshold"))
        except SettingError as error:
            raise FormatError(f"{path}: is damaged: labels, types, decision or threshold: {error}") from None
        if len(set(labels)) < len(labels) or len(labels) < 2 or len(set(types)) < len(types) or not 0 <= threshold <= 1:
            raise FormatError(f"{path}: is damaged: its labels, types or threshold are not those of a {cls.kind} model")
        stored = stored_backbone(folder, found.get("encoder"))
        made: dict[int, Backbone] = {}

        def make() -> Ssan:
            backbone = stored.make()
            module = Ssan(config, backbone.module, labels=len(labels), types=len(types))
            made[id(module)] = backbone
            return module

        module = loaded_model(make, stored.config, folder)
        model = cls(
            module,
            made[id(module)],
            reading,
            labels,
            types,
            decision=decision,
            threshold=threshold,
            facts=RelationFacts.load(folder),
        )
        if model.length < 8:
            raise FormatError(f"{path}: is damaged: the encoder reads {model.length} tokens, which is too little")
        return model

    # --- reading and scoring ----------------------------------------------------------------------------------------

    def rows(self, document: RelationDocument) -> DocumentRows:
        """Returns a document as the encoder reads it."""
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        return document_rows(
            document,
            self.backbone,
            self.types,
            length=self.length,
            stride=self.reading.stride,
            known=self._known,
            asked=self.facts.asked,
        )

    def batch(self, documents: Sequence[DocumentRows]) -> DocumentBatch:
        """Returns documents as tensors on the device of the model."""
        return batched(documents, self.backbone, self.device)

    def entities(self, rows: DocumentRows) -> Tensor:
        """Returns the vectors (E, S) of the entities of a document, whose windows are read some at a time."""
        sizes = np.array([len(row) for row in rows.tokens], np.int64)
        if not len(sizes):
            return torch.zeros((len(rows.firsts), self.config.entity_size), device=self.device)

        def sums(batch: DocumentBatch) -> tuple[Tensor, Tensor]:
            return self.module.sums(self.module.states(batch), batch.members, batch.size)

        groups = grouped(sizes, max_tokens=tokens_at_once(self.device))
        found = in_parts(sums, (self.batch([_windows_of(rows, numbers)]) for numbers in groups))
        total, counts = (torch.stack(part).sum(0) for part in zip(*found, strict=True))
        return total / counts.clamp_min(1)[:, None]

    def likely(self, rows: DocumentRows, lowest: float) -> tuple[list[tuple[int, int, float]], float]:
        """Returns relations of which the probability is not less, and the highest probability of all.

        Each is the number of a pair, a relation from 0 without "no relation", and its probability.
        """
        likely, highest = [], 0.0
        for begin, logits in self.logits(rows):
            found = self.probabilities(logits).cpu().numpy()
            highest = max(highest, float(found.max()))
            places = np.argwhere(found >= lowest).tolist()
            likely += [(begin + pair, label, float(found[pair, label])) for pair, label in places]
        return likely, highest

    def logits(self, rows: DocumentRows) -> Iterator[tuple[int, Tensor]]:
        """Yields the logits (p, C) of some pairs at a time, and the number of the first of them."""
        if not len(rows.pairs):
            return
        self.module.eval()
        with torch.inference_mode():
            vectors = self.entities(rows)
            for begin, pairs, distances in self.pairs(rows):
                logits = self.module.logits(vectors, pairs, distances)
                require_numbers(not bool(logits.isnan().any()))
                yield begin, logits

    def pairs(self, rows: DocumentRows) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Yields the number of the first of some pairs of a document, these pairs, and their distances."""
        pairs, distances = torch.from_numpy(rows.pairs), torch.from_numpy(rows.distances)
        for begin in range(0, len(pairs), _PAIRS_AT_ONCE):
            some = slice(begin, begin + _PAIRS_AT_ONCE)
            yield begin, pairs[some].to(self.device), distances[some].to(self.device)

    def probabilities(self, logits: Tensor) -> Tensor:
        """Returns the probabilities (P, C - 1) of relations from logits (P, C)."""
        logits = logits.float()
        if self.decision == "adaptive":  # each relation against "no relation"
            return (logits[:, 1:] - logits[:, :1]).sigmoid()
        return logits[:, 1:].sigmoid()

    @property
    def cut(self) -> float:
        """The lowest probability of a relation that there is."""
        return 0.5 if self.decision == "adaptive" else self.threshold

    def scored(
        self,
        documents: Sequence[DocumentRows],
        *,
        floor: float = _FLOOR,
        most: int | None = None,
        follow: Callable[[int, int, Tensor], None] = lambda number, begin, logits: None,
    ) -> list[Scored]:
        """Returns the relations of documents whose probability is at least ``floor``.

        Args:
            documents: The documents.
            floor: The lowest probability.
            most: How many, the most probable ones; None: all.
            follow: Is told the number of a document, that of the first of some of its pairs, and their logits (p, C).
        """
        places, scores, count = [np.zeros((0, 3), np.int64)], [np.zeros(0, np.float32)], 0

        def keep_best() -> None:
            together, of_all = np.concatenate(places), np.concatenate(scores)
            best = np.sort(np.argsort(-of_all, kind="stable")[:most])
            places[:], scores[:] = [together[best]], [of_all[best]]

        for number, rows in enumerate(documents):
            for begin, logits in self.logits(rows):
                follow(number, begin, logits)
                found = self.probabilities(logits).cpu().numpy()
                above = np.argwhere(found >= floor)
                scores.append(found[above[:, 0], above[:, 1]])
                places.append(np.insert(np.add(above, (begin, 0)), 0, number, axis=1))
                count += len(above)
                if most is not None and count > 2 * most:
                    keep_best()
                    count, floor = len(scores[0]), float(scores[0].min())
        keep_best()
        predicted = []
        for (number, pair, label), score in zip(places[0].tolist(), scores[0].tolist(), strict=True):
            head, tail = documents[number].pairs[pair].tolist()
            predicted.append(Scored(number, head, tail, self.labels[label + 1], score))
        return predicted

    # --- the verb ---------------------------------------------------------------------------------------------------

    def extract(
        self,
        documents: Iterable[RelationDocument | Mapping[str, Any]],
        *,
        threshold: float | None = None,
        evidence: Evidence = "co-occurrence",
    ) -> list[Extracted]:
        """Finds the relations between the entities of documents.

        Args:
            documents: Documents with entities, or such as DocRED's JSON has.
            threshold: The lowest probability; None: that of the model.
            evidence: How sentences are found that speak of a relation: those in which both entities are, or those that
                the tokens of both attend to in the last layer. Without such a sentence the other way is used, and said.

        Raises:
            CorpusError: if a document is not as it should be.
            SettingError: if the threshold is no probability, or there is no such way to find evidence.
        """
        if evidence not in get_args(Evidence):
            raise SettingError(f"evidence={evidence!r}: expected {' or '.join(get_args(Evidence))}")
        if threshold is not None and not 0 <= threshold <= 1:
            raise SettingError(f"threshold={threshold:g} is no probability; expected 0 to 1")
        if isinstance(documents, RelationDocument | Mapping | str):
            raise SettingError("extract takes a list of documents; put a single one in brackets")
        whole = docred_documents(documents, "documents from Python")
        return [self._extracted(document, self.cut if threshold is None else threshold, evidence) for document in whole]

    def _extracted(self, document: RelationDocument, lowest: float, evidence: Evidence) -> Extracted:
        rows = self.rows(document)
        self.backbone.warn_of_unknown((tokens.tolist() for tokens in rows.tokens), self.kind)
        chosen, highest = self.likely(rows, lowest)
        pairs: list[tuple[int, int]] = [tuple(rows.pairs[pair].tolist()) for pair, _, _ in chosen]
        near = {pair: tuple(cooccurring(document, *pair)) for pair in pairs}
        looked = bool(near) and (evidence == "attention" or not all(near.values()))
        attended = self._attended(document, rows) if looked else None
        found = []
        for (head, tail), (_, label, probability) in zip(pairs, chosen, strict=True):
            name = self.labels[label + 1]
            seen = () if attended is None else _most_attended(attended[head] * attended[tail])
            by: Evidence = (
                "attention" if seen and (evidence == "attention" or not near[head, tail]) else "co-occurrence"
            )
            places = seen if by == "attention" else near[head, tail]
            meaning = self.facts.meanings.get(name, name)
            found.append(FoundRelation(head, tail, name, meaning, probability, places, by))
        found.sort(key=lambda one: (-one.probability, one.head, one.tail, one.relation))
        return Extracted(document, found, len(rows.pairs), lowest, highest)

    def _attended(self, document: RelationDocument, rows: DocumentRows) -> npt.NDArray[np.float64]:
        """Returns how much the tokens of each entity attend to each sentence in the last layer, (E, sentences)."""
        found = np.zeros((len(rows.firsts), len(document.sentences)))
        last = self.module.encoder.encoder.layers[-1]
        for window in range(len(rows.tokens)):
            part = _windows_of(rows, np.array([window]))
            batch = self.batch([part])
            with torch.inference_mode(), watch_attention(last) as watched:
                self.module.states(batch)
            back = self.module.order(batch.entities)[0].argsort()  # attention saw the tokens in another order
            weights = watched["attention"][0].float().mean(1)[0][back][:, back]  # (T, T)
            sentences = part.sentences[0]
            by_sentence = np.zeros((len(sentences), len(document.sentences)))
            for sentence in np.unique(sentences[sentences >= 0]).tolist():
                places = torch.from_numpy(np.flatnonzero(sentences == sentence)).to(weights.device)
                by_sentence[:, sentence] = weights[:, places].sum(1).cpu().numpy()
            np.add.at(found, part.members[:, 0], by_sentence[part.members[:, 2]])
        return found


def _most_attended(weights: npt.NDArray[np.float64]) -> tuple[int, ...]:
    """The fewest sentences that make up a half of the weights."""
    total = weights.sum()
    if not total > 0:
        return ()
    order = np.argsort(-weights, kind="stable")
    enough = int(np.searchsorted(weights[order].cumsum(), _EVIDENCE * total)) + 1
    return tuple(sorted(order[:enough].tolist()))


def _windows_of(rows: DocumentRows, numbers: npt.NDArray[np.int64]) -> DocumentRows:
    """Some windows of a document, without its pairs."""
    place = np.full(len(rows.tokens), -1)
    place[numbers] = np.arange(len(numbers))
    members = rows.members[place[rows.members[:, 1]] >= 0].copy()
    members[:, 1] = place[members[:, 1]]
    tokens, sentences, entities, types = ([part[number] for number in numbers] for part in rows[:4])
    return DocumentRows(tokens, sentences, entities, types, members, rows.firsts, np.zeros((0, 2), np.int64))
