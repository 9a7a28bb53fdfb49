"""Relations of documents: an encoder with structured self-attention learns them from annotated documents.

Xu, Wang, Lyu, Zhu, Mao 2021 (SSAN), section 3.3; the adaptive threshold is that of Zhou et al. 2021 (ATLOP).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wenmai.config.recipe import Recipe
from wenmai.core.errors import CorpusError, SettingError
from wenmai.core.quantities import plural
from wenmai.data.batches import plan_batches
from wenmai.data.relation_files import RelationData, open_documents, read_relation_data
from wenmai.data.relation_settings import RelationsConfig
from wenmai.data.relations import RelationDocument, asked_types, key_of, not_asked
from wenmai.inference.families import backbone_like, backbone_of
from wenmai.inference.finetuned import SHORTEST
from wenmai.inference.relation_facts import RelationFacts
from wenmai.inference.relation_rows import DocumentRows
from wenmai.inference.relations import RelationModel
from wenmai.measures.relations import best_threshold, measure_relations
from wenmai.models.ssan import Ssan
from wenmai.models.ssan_settings import SsanConfig
from wenmai.nn.encoder import TextEncoder
from wenmai.nn.recomputing import in_parts
from wenmai.objectives.loss import Loss, evaluated
from wenmai.objectives.relations import adaptive_threshold_loss, binary_loss
from wenmai.tasks.finetuning import FineTuningTask
from wenmai.tasks.neural import NeuralJob, NeuralTask, require_measured
from wenmai.tasks.settings import RELATIONS, RelationTuningConfig
from wenmai.tasks.task import Opened, ReadProgress, Source, Task
from wenmai.text.encodable import FOREIGN, MUCH_UNKNOWN

__all__ = ["RelationDocuments", "RelationJob", "RelationTask"]

_RATE, _MOST_RATE, _SMALL = 5e-5, 1e-3, 768  # of the encoder at the size of the published models; of what is new
_LISTED = 5  # relations in a note
_MOST_FOUND = 20  # predictions for each right one that a threshold may lead to
_UNDECIDED = 0.5  # the threshold as long as no prediction is right


class RelationDocuments(Source):
    """Documents with entities and relations: files, names of the catalogue, or documents in memory."""

    def open(self, corpus: Any) -> Opened:  # noqa: ANN401
        """Opens documents; they are read once the settings are known."""
        opened = open_documents(corpus)
        return Opened(opened, {}, opened.sources, bool(opened.sources))

    def read(self, recipe: Recipe, source: Any, progress: ReadProgress, base: Any) -> RelationData:  # noqa: ANN401
        """Reads documents to train on and to validate on.

        Raises:
            CorpusError: if they are not as they should be, or have no relation.
            SettingError: if there is no encoder to start from.
        """
        if base is None:
            _require_base(recipe)
        config: RelationsConfig = recipe.sections["data"]
        return read_relation_data(source, config, seed=recipe.sections["train"].seed)

    def reopen(self, fingerprint: str) -> None:
        """None: the files are read again."""


def _require_base(recipe: Recipe) -> None:
    raise SettingError(f"{recipe.system} starts from a trained encoder; name its run with --from RUN")


class RelationTask(NeuralTask):
    """Trains a model of relations from a run of an encoder; ``model`` is its network."""

    source = RelationDocuments()
    sections: Mapping[str, type] = RELATIONS
    inherited = ()
    verbs = ("extract",)

    def starts_from(self, other: Task) -> bool:
        """Whether a run has an encoder: BERT and its relatives, and what was fine-tuned from them."""
        if isinstance(other, FineTuningTask | RelationTask):
            return True
        kind = other.model
        return isinstance(kind, type) and issubclass(kind, TextEncoder)

    def load(self, folder: Path) -> RelationModel:
        """Reads a finished model, with nothing of the run that it started from."""
        return RelationModel.load(folder)

    def make(self, recipe: Recipe, data: RelationData, base: Any) -> RelationModel:  # noqa: ANN401
        """Makes a model: the encoder of ``base``, and everything else with fresh parameters."""
        if base is None:
            _require_base(recipe)
        tuning: RelationTuningConfig = recipe.sections["tuning"]
        reading = recipe.sections["reading"]
        config: SsanConfig = recipe.sections["model"]
        known = backbone_like(base)
        require_measured(recipe, data.valid)
        if not isinstance(known.module, TextEncoder):
            raise SettingError(
                f"{recipe.system} needs an encoder of tokens that see the whole text; start from a run of bert, or of "
                "an imported encoder"
            )
        longest = known.max_length
        if longest < SHORTEST:
            raise SettingError(f"the encoder reads {longest} tokens; at least {SHORTEST} are needed")
        if reading.max_length is not None and reading.max_length > longest:
            raise SettingError(
                f"max_length={reading.max_length} is more than the {longest} tokens that the encoder reads; give "
                "max_length as many at most"
            )
        room = (reading.max_length or longest) - 2
        if reading.stride is not None and reading.stride > room:
            raise SettingError(
                f"stride={reading.stride} is more than the {room} tokens of a window; text between two would be lost"
            )
        backbone = backbone_of(base, pooler=False, dropout=tuning.dropout, fresh=tuning.scratch)
        module = Ssan(config, backbone.module, labels=len(data.labels), types=len(data.types))
        return RelationModel(
            module,
            backbone,
            reading,
            data.labels,
            data.types,
            decision="adaptive" if tuning.loss == "adaptive" else "threshold",
            facts=RelationFacts(data.meanings, data.seen, asked_types(data.train), frozenset(map(key_of, data.train))),
        )

    def initialise(self, model: RelationModel, data: RelationData, base: Any) -> None:  # noqa: ANN401
        """Nothing: the model was made of ``base``."""

    def job(self, recipe: Recipe, data: RelationData, model: Any) -> "RelationJob":  # noqa: ANN401
        """Returns a training."""
        return RelationJob(recipe, data, model)


class RelationJob(NeuralJob):
    """Training a model of relations."""

    def __init__(self, recipe: Recipe, data: RelationData, model: RelationModel) -> None:
        super().__init__(recipe, model)
        self.tuning: RelationTuningConfig = recipe.sections["tuning"]
        self._data, self._relations = data, model
        self.best_by = "f1" if data.valid else "loss"
        inside = {id(one) for one in model.backbone.module.parameters()}
        known = {name: one for name, one in model.module.named_parameters() if id(one) in inside}
        self._of_encoder = {name for name in known if ".relative." not in name}  # the biases of attention are new
        if self.tuning.encoder_share == 0:
            for name in self._of_encoder:
                known[name].requires_grad_(False)
        made = [(model.rows(document), document) for document in data.train]
        some = [(rows, document) for rows, document in made if len(rows.pairs)]
        self._rows = [rows for rows, _ in some]
        self._sizes = np.array([len(one.tokens) * one.width for one in self._rows], np.int64)
        self._targets = [self._right(rows, document) for rows, document in some]
        self._valid_rows = [model.rows(document) for document in data.valid]
        self._valid_right = [self._right(*one) for one in zip(self._valid_rows, data.valid, strict=True)]
        self._unknown = model.backbone.unknown(tokens.tolist() for rows, _ in made for tokens in rows.tokens)
        if self._unknown >= FOREIGN:
            raise CorpusError(
                f"the vocabulary of the encoder lacks {self._unknown:.0%} of the pieces of the documents; start from "
                "one that was trained on such text, or in this language"
            )

    def _right(self, rows: DocumentRows, document: RelationDocument) -> npt.NDArray[np.int64]:
        """Returns where a document has 1 among (P, C): pairs and labels."""
        numbers = {name: number for number, name in enumerate(self._relations.labels)}
        places = {(head, tail): place for place, (head, tail) in enumerate(rows.pairs.tolist())}
        found = {
            (places[one.head, one.tail], numbers[one.relation])
            for one in document.relations
            if (one.head, one.tail) in places and one.relation in numbers
        }
        return np.array(sorted(found), np.int64).reshape(-1, 2)

    @property
    def objective_name(self) -> str:  # type: ignore[override]  # it depends on the settings
        """The loss, for people."""
        if self.tuning.loss == "adaptive":
            return "adaptive threshold loss of the relations of each pair of entities"
        return "binary cross-entropy of the relations of each pair of entities"

    @property
    def learning_rate(self) -> float:
        """Ten times the published rate of the encoder, and more for smaller ones."""
        if self.config.learning_rate is not None:
            return self.config.learning_rate
        size = self._relations.backbone.size
        return min(_MOST_RATE, 10 * _RATE * max(1.0, _SMALL / size))

    def rate_share(self, name: str, epoch: int) -> float:
        """Less for the encoder."""
        return self.tuning.encoder_share if name in self._of_encoder else 1.0

    # --- what the loop calls ----------------------------------------------------------------------------------------

    def plan(self, epoch: int) -> Sequence[npt.NDArray[np.int64]]:
        """Batches of documents of like lengths."""
        return plan_batches(
            self._sizes,
            max_tokens=self.config.batch_tokens,
            max_rows=self.tuning.batch_size,
            seed=self.config.seed,
            epoch=epoch,
        )

    def parts(self, batch: npt.NDArray[np.int64]) -> Sequence[npt.NDArray[np.int64]]:
        """Documents of as many tokens as have room."""
        return self.in_room(batch, self._sizes[batch])

    def loss(self, module: nn.Module, batch: npt.NDArray[np.int64], step: int) -> Loss:
        """The mean over labels and pairs of each document, summed over documents."""
        rows = [self._rows[at] for at in batch]
        if len(batch) == 1 and self._sizes[batch[0]] > self.tokens_at_once:
            total = self._of_long(rows[0], self._targets[batch[0]])
        else:
            made = self._relations.batch(rows)
            parts = zip(torch.split(module(made), made.sizes), (self._targets[at] for at in batch), strict=True)
            total = torch.stack([self._of_document(part, right) for part, right in parts]).sum()
        return Loss(total, total.detach(), len(batch), sum(len(row) for one in rows for row in one.tokens))

    def _of_long(self, rows: DocumentRows, right: npt.NDArray[np.int64]) -> Tensor:
        """The loss of a document whose windows, and perhaps pairs, have no room in memory at once."""
        model = self._relations
        vectors = model.entities(rows)

        def share(part: tuple[int, Tensor, Tensor]) -> Tensor:
            begin, pairs, distances = part
            return self._of_pairs(begin, model.module.logits(vectors, pairs, distances), right, len(rows.pairs))

        return torch.stack(in_parts(share, model.pairs(rows))).sum()

    def _of_pairs(self, begin: int, logits: Tensor, right: npt.NDArray[np.int64], count: int) -> Tensor:
        """The part of some of the pairs of a document, (p, C) from ``begin``, in the loss of all of them."""
        inside = right[(right[:, 0] >= begin) & (right[:, 0] < begin + len(logits))] - (begin, 0)
        return self._of_document(logits, inside) * (len(logits) / count)

    def _of_document(self, logits: Tensor, right: npt.NDArray[np.int64]) -> Tensor:
        """The loss of the pairs (P, C) of one document, float64."""
        logits = logits.float()
        gold = torch.zeros_like(logits)
        gold[right[:, 0], right[:, 1]] = 1.0
        if self.tuning.loss == "adaptive":
            return adaptive_threshold_loss(logits, gold).double()
        gold[:, 0] = (gold[:, 1:].sum(1) == 0).to(gold.dtype)
        return binary_loss(logits, gold).double()

    def evaluate(self) -> dict[str, float]:
        """The loss on the validation data, the best threshold, and F1 there; each document is read once.

        A threshold holds for what computes as it was found, so this is in full precision, as all that reads the model.
        With more than ``_MOST_FOUND`` predictions for each right one F1 is below 2 / (1 + _MOST_FOUND): no such
        threshold is looked for, and the scores of long documents with many entities need not be kept.
        """
        model, documents = self._relations, self._data.valid
        if not documents:
            return {}
        losses: list[Loss] = []

        def follow(number: int, begin: int, logits: Tensor) -> None:
            total = self._of_pairs(begin, logits, self._valid_right[number], len(self._valid_rows[number].pairs))
            losses.append(Loss(total, total, int(begin == 0)))

        gold = sum(len(document.relations) for document in documents)
        with torch.autocast(model.device.type, enabled=False):
            if model.decision == "threshold":
                scored = model.scored(self._valid_rows, most=max(1, _MOST_FOUND * gold), follow=follow)
            else:
                scored = model.scored(self._valid_rows, floor=model.cut, follow=follow)
        metrics = evaluated(losses, self.loss_weights)
        if model.decision == "threshold":
            cut, best = best_threshold(scored, documents)
            model.threshold = float(min(1.0, max(0.0, cut))) if best else _UNDECIDED
        found = measure_relations(
            [one for one in scored if one.score >= model.cut], documents, model.facts.seen, intervals=False
        )
        named = {"f1": found.f1, "precision": found.precision, "recall": found.recall, "ign_f1": found.ign_f1}
        return metrics | {name: value for name, value in named.items() if value is not None}

    # --- what a run calls -------------------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """The sizes of data and model, and the effort."""
        data = self._data
        sizes = (
            f"{len(data.train):,} documents, {len(data.valid):,} to validate on, "
            f"{plural(len(data.labels) - 1, 'relation')}, {self.trained_parameters:,} of {self.parameters:,} "
            f"parameters on {self._relations.device}"
        )
        return {"sizes": sizes, **self.effort, "threads": self.threads, "stats": data.stats}

    def warnings(self) -> list[str]:
        """Says how much of the text the encoder does not know."""
        if self._unknown <= MUCH_UNKNOWN:
            return []
        lacking = f"the vocabulary of the encoder lacks {self._unknown:.0%} of the pieces of the documents"
        return [f"{lacking}; one that was trained on such text knows more"]

    def summary(self) -> dict[str, Any]:
        """Speed, losses, sizes and the threshold."""
        found = super().summary()
        more = {"best_by": self.best_by, "documents": len(self._data.train), "labels": len(self._data.labels) - 1}
        return {**found, **more, "threshold": self._relations.cut}

    def changes(self, base: Any) -> tuple[dict[str, Any], list[str]]:  # noqa: ANN401
        """Notes which documents are of no use, and which were read in windows."""
        notes, data = [], self._data
        if data.unknown:
            listed = ", ".join(f"{name} ({count:,})" for name, count in list(data.unknown.items())[:_LISTED])
            notes.append(
                f"to validate on: {sum(data.unknown.values()):,} relations that no document to train on has count as "
                f"missed: {listed}{', ...' * (len(data.unknown) > _LISTED)}"
            )
        if outside := sum(map(not_asked, data.train)):
            notes.append(f"{outside:,} relations are of pairs of entities that are not asked for, and are not learned")
        if alone := len(data.train) - len(self._rows):
            notes.append(f"{alone:,} of {len(data.train):,} documents have no pair of entities to learn from")
        if several := sum(len(one.tokens) > 1 for one in self._rows):
            notes.append(
                f"{several:,} of {len(self._rows):,} documents are longer than the {self._relations.length} tokens "
                "that the model reads, and were read in windows"
            )
        return {}, notes
