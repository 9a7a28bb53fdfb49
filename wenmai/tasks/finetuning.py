"""Fine-tuning: a trained encoder learns a task from labelled examples.

One task and one job for all of them: what is special about a task is in its model, a subclass of
:class:`wenmai.inference.finetuned.FineTuned`. Devlin et al. 2019, section 3 and appendix A.3; Radford et al. 2018,
sections 3.2 and 3.3; Peters et al. 2018, section 3.2.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wenmai.config.recipe import Recipe
from wenmai.core.errors import CorpusError, SettingError
from wenmai.core.quantities import plural
from wenmai.core.scratch import scratch_array
from wenmai.core.wording import say
from wenmai.data.batches import plan_batches
from wenmai.data.tags import bioes_labels
from wenmai.data.typed import weight_of
from wenmai.inference.backbones import Fed
from wenmai.inference.families import backbone_like, backbone_of
from wenmai.inference.finetuned import FineTuned
from wenmai.inference.finetuned_network import HeadShape, Outputs
from wenmai.inference.finetuned_tokens import scheme_of
from wenmai.inference.published import adopted
from wenmai.inference.reading_config import TuneReadingConfig
from wenmai.models.gpt import Gpt
from wenmai.nn.encoder import TextEncoder
from wenmai.objectives.language import next_token_loss
from wenmai.objectives.loss import Loss, Losses, evaluated
from wenmai.tasks.finetuning_settings import implied_settings, require_effect, settled_reading
from wenmai.tasks.labelled_examples import FineTuneData, LabelledExamples, refuse_without_base
from wenmai.tasks.neural import NeuralJob, NeuralTask, require_measured
from wenmai.tasks.prepared import Prepared
from wenmai.tasks.settings import FINE_TUNED, FineTuneConfig
from wenmai.tasks.task import Session, Task
from wenmai.text.encodable import FOREIGN, MUCH_UNKNOWN
from wenmai.training.settings import LoopConfig
from wenmai.training.shares import RateShares, layer_depths

__all__ = ["FineTuningJob", "FineTuningTask"]

_IN_MEMORY, _OF_DISK = 1 << 31, 0.5  # most bytes of what a frozen encoder says; else a file, of half of the free disk
_LONG = 3  # times the tokens of an epoch in an evaluation that are worth a note: it takes about as long as the epoch
_SMALL, _RATE, _GPT_RATE = 768, 5e-5, 6.25e-5  # the size of the published models, and their rates
_HEAD_RATE = 1e-3  # where the encoder does not learn
_MOST_EPOCHS = 20  # over few examples (Mosbach et al. 2021, "On the Stability of Fine-tuning BERT")


class FineTuningTask(NeuralTask):
    """Trains a model of one task from a run of an encoder; ``model`` is the class of such models."""

    sections: Mapping[str, type] = FINE_TUNED
    inherited = ()
    model: type[FineTuned]

    def __init__(self, model: type[FineTuned]) -> None:
        super().__init__(model)
        self.source = LabelledExamples(model.task)
        self.verbs = model.verbs

    def starts_from(self, other: Task) -> bool:
        """Whether a run has an encoder: BERT and its relatives, GPT, ELMo, and what was fine-tuned before."""
        if isinstance(other, FineTuningTask):
            return True
        kind = other.model
        return isinstance(kind, type) and (issubclass(kind, TextEncoder | Gpt) or getattr(kind, "kind", "") == "elmo")

    def implied(self, given: Mapping[str, Any], base: Recipe | None) -> Mapping[str, Any]:
        """What the kind of encoder and the mode ask for; see :func:`implied_settings`."""
        return implied_settings(self.model, given, base)

    def adopt(self, imported: Any, recipe: Recipe) -> FineTuned:  # noqa: ANN401  of a format
        """Turns an imported network with the head of the task into a model."""
        return adopted(self.model, imported.module, imported.tokenizer, max_length=imported.max_length)

    def load(self, folder: Path) -> FineTuned:
        """Reads a finished model, with nothing of the run that it started from."""
        return self.model.load(folder)

    def make(self, recipe: Recipe, data: FineTuneData, base: Any) -> FineTuned:  # noqa: ANN401
        """Makes a model: the encoder of ``base``, and a head with fresh parameters for the labels of the data."""
        if base is None:
            refuse_without_base(recipe)
        tuning: FineTuneConfig = recipe.sections["tuning"]
        reading: TuneReadingConfig = recipe.sections["reading"]
        known = backbone_like(base)
        require_measured(recipe, data.valid)
        require_effect(recipe.system, self.model, reading, tuning, known)
        self.model.require(data.train)
        labels, entities = list(data.labels), getattr(recipe.sections["data"], "tag_scheme", "auto") != "none"
        if tuning.tag_ends:
            if not entities or scheme_of(labels) != "bio":
                raise SettingError("tag_ends=true has no effect on tags that are no entities; leave it out")
            labels = bioes_labels(labels)
        if self.model.same_task(base) and set(self.model.normal(base.labels)) == set(labels):
            labels = list(base.labels)  # whose outputs have an order
        reading = settled_reading(self.model, reading, tuning, known, base)
        lora = tuning.mode == "lora"
        shape = HeadShape(
            compares=not known.paired and self.model.compares(data.train[0]),
            mix=tuning.mode == "mix",
            layer=-1 if tuning.layer == known.num_layers else tuning.layer,
            dense=tuning.dense_head,
            crf=tuning.crf,
            entities=entities,
            dropout=tuning.head_dropout,
            lora_rank=tuning.lora_rank if lora else 0,
            lora_alpha=tuning.lora_alpha,
            lora_dropout=tuning.lora_dropout,
            lora_targets=tuning.lora_targets,
        )
        backbone = backbone_of(
            base,
            pooler=reading.pooling == "pooler",
            dropout=tuning.dropout,
            fresh=tuning.scratch,
            learning=tuning.mode == "full",
        )
        model = self.model(self.model.network(backbone, shape, reading, labels), shape, reading, labels)
        model.learn(data.train)
        if model.same_task(base) and not tuning.scratch and not model.differences(base):
            model.take_head(base)
        return model

    def initialise(self, model: FineTuned, data: FineTuneData, base: Any) -> None:  # noqa: ANN401
        """Nothing: the model was made of ``base``."""

    def job(self, recipe: Recipe, data: FineTuneData, model: Any) -> "FineTuningJob":  # noqa: ANN401
        """Returns a training."""
        return FineTuningJob(recipe, data, model)


class FineTuningJob(NeuralJob):
    """Training a model of one task."""

    def __init__(self, recipe: Recipe, data: FineTuneData, model: FineTuned) -> None:
        super().__init__(recipe, model)
        self.tuning: FineTuneConfig = recipe.sections["tuning"]
        self.fine_tuned, self._data = model, data
        self.best_by = model.best_by if data.valid else "loss"
        module, encoder = model.module, model.module.encoder
        if self.tuning.mode in ("frozen", "mix"):
            encoder.requires_grad_(False)
            module.frozen = True
        module.whole = model.backbone.predicts and not module.frozen and self.tuning.lm_weight > 0
        self.loss_weights = {"task": 1.0, "lm": self.tuning.lm_weight} if module.whole else {"loss": 1.0}
        depths = layer_depths([name for name, _ in module.named_parameters()], heads=("head", "mix", "encoder.pooler"))
        layers = max(depths.values()) - 1  # embeddings are below them
        if self.tuning.mode == "top" and self.tuning.top_layers > layers:
            raise SettingError(
                f"top_layers={self.tuning.top_layers}: the encoder has {layers} layers; mode=full trains all of it"
            )
        self._shares = RateShares(
            depths=depths,
            decay=self.tuning.layer_decay,
            deepest=self.tuning.top_layers if self.tuning.mode == "top" else None,
            unfreeze=self.tuning.unfreeze,
        )
        if self.tuning.class_weight == "balanced":
            model.weigh(data.train)
        self._train = Prepared(model, data.train)
        weights = np.array([weight_of(example) for example in data.train])
        self._example_shares = weights / weights.mean() if (weights != 1).any() else None  # 1 on average
        self._unknown = self._train.unknown(model)
        if self._unknown >= FOREIGN:
            raise CorpusError(
                f"the vocabulary of the encoder lacks {self._unknown:.0%} of the pieces of the {len(data.train):,} "
                "examples; fine-tune one that was trained on such text, or in this language"
            )
        self._valid = Prepared(model, data.valid) if data.valid else None
        updates = math.ceil(len(self.plan(0)) / self.config.accumulation)
        enough = min(_MOST_EPOCHS, math.ceil(self.tuning.min_updates / updates))
        self.config = replace(self.config, epochs=max(self.config.epochs, enough))

    @property
    def objective_name(self) -> str:  # type: ignore[override]  # it depends on the task
        """The loss, for people."""
        return self.fine_tuned.objective

    @property
    def learning_rate(self) -> float:
        """The published rates for models of the published sizes, more for smaller ones, and for what is new.

        By the square of the size: 5e-5·768/M was too little for encoders of 256 dimensions (docs/adr/0034).
        """
        if self.config.learning_rate is not None:
            return self.config.learning_rate
        if self.tuning.mode in ("frozen", "mix"):
            return _HEAD_RATE
        rate = _GPT_RATE if self.fine_tuned.backbone.predicts else _RATE
        smaller = max(1.0, _SMALL / self.fine_tuned.backbone.size)
        more = 10 if self.tuning.mode == "lora" else 5 if self.tuning.scratch else smaller
        return min(_HEAD_RATE, more * smaller * rate)

    def rate_share(self, name: str, epoch: int) -> float:
        """Less for deeper layers, nothing for those that do not learn yet."""
        return self._shares(name, epoch)

    # --- what the loop calls ------------------------------------------------------------------------------------

    def plan(self, epoch: int) -> Sequence[Any]:
        """Batches of examples of like lengths."""
        config: LoopConfig = self.config
        return plan_batches(
            self._train.widths,
            max_tokens=config.batch_tokens,
            max_rows=self.tuning.batch_size,
            seed=config.seed,
            epoch=epoch,
        )

    def parts(self, batch: npt.NDArray[np.int64]) -> Sequence[npt.NDArray[np.int64]]:
        """Examples of as many tokens as have room: the windows of long texts make a batch large."""
        if self._train.features is not None:
            return (batch,)  # the encoder read them before
        return self.in_room(batch, self._train.widths[batch])

    def counts(self, batch: npt.NDArray[np.int64]) -> dict[str, int]:
        """Targets of the task, and tokens that are predicted."""
        part = self._train
        rows = (row for place in batch for row in part.items[place].rows)
        return {
            "task": self.fine_tuned.count([part.targets[place] for place in batch]),
            "lm": sum(len(row.tokens) - 1 for row in rows),
        }

    def loss(self, module: nn.Module, batch: npt.NDArray[np.int64], step: int) -> Losses:
        """The loss of the task, and of a GPT that of a language model on the same texts (Radford et al., eq. 5)."""
        shares = () if self._example_shares is None else (self._example_shares[batch].tolist(),)
        losses, _ = self._losses(module, self._train, batch, *shares)
        return losses

    def _losses(
        self, module: nn.Module, part: Prepared, batch: npt.NDArray[np.int64], *shares: Sequence[float]
    ) -> tuple[Losses, Outputs]:
        """Returns the losses of some items, and what the head made of them."""
        model = self.fine_tuned
        items = [part.items[place] for place in batch]
        targets = [part.targets[place] for place in batch]
        read = sum(len(row.tokens) for item in items for row in item.rows)
        if part.features is not None:
            features, filled = self._kept([row for place in batch for row in part.features[place]])
            outputs = model.logits(model.module.mixed(features), filled, [len(item.rows) for item in items])
            return model.loss(outputs, targets, *shares)._replace(tokens=read), outputs
        fed, sizes = model.fed(items)
        vectors, states = model.encoded(fed, module, self.tokens_at_once)
        outputs = model.logits(vectors, fed.filled, sizes)
        loss = model.loss(outputs, targets, *shares)._replace(tokens=read)
        if states is None:
            return loss, outputs
        return {"task": loss, "lm": self._next_tokens(fed, states)}, outputs

    def _next_tokens(self, fed: Fed, states: Tensor) -> Loss:
        real = fed.real[:, 1:]
        encoder: Any = self.fine_tuned.module.encoder
        return next_token_loss(encoder.output, states[:, :-1][real], fed.tokens[:, 1:][real])

    def _kept(self, rows: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Joins the features of rows, (J, M) of texts or (J, K, M) of places, which are filled up."""
        device = self.fine_tuned.device
        if not self.fine_tuned.over_tokens:
            return torch.stack([*rows], 1).to(device), torch.ones(len(rows), 1, dtype=torch.bool, device=device)
        sizes = torch.tensor([row.shape[1] for row in rows])
        padded = rows[0].new_zeros((len(rows[0]), len(rows), int(sizes.max()), rows[0].shape[2]))
        for number, row in enumerate(rows):
            padded[:, number, : row.shape[1]] = row
        return padded.to(device), (torch.arange(padded.shape[2]) < sizes[:, None]).to(device)

    def evaluate(self) -> dict[str, float]:
        """The loss on the validation data, and the metrics of the task; a threshold is chosen in full precision."""
        if self._valid is None:
            return {}
        part, model = self._valid, self.fine_tuned
        outputs: list[Any] = [None] * len(part.items)

        def losses() -> Iterator[Losses]:
            for batch in model.batches(part.items):
                found, made = self._losses(self.module, part, batch)
                for place, output in zip(batch, model.split(made), strict=True):
                    outputs[place] = output
                yield found

        exact = torch.autocast(model.device.type, enabled=False) if model.tunes else nullcontext()
        with exact:
            metrics = evaluated(losses(), self.loss_weights)
        model.tune(part.examples, part.items, outputs)
        return metrics | model.metrics(model.tallies(part.examples, part.items, outputs))

    def train(self, session: Session) -> None:
        """Runs the loop; what a frozen encoder says is computed once, if it has room in memory or on the disk."""
        model = self.fine_tuned
        if model.module.frozen:
            parts = [part for part in (self._train, self._valid) if part is not None]
            total, read = sum(len(part.items) for part in parts), 0

            def done(examples: int) -> None:
                nonlocal read
                read += examples
                session.follow("computing the states of the encoder, example", read, total)

            sizes = np.cumsum([part.numbers(model) for part in parts])
            try:
                room = scratch_array((int(sizes[-1]),), in_memory=_IN_MEMORY, share=_OF_DISK)
            except OSError:
                room = None  # the encoder reads each batch anew
            if room is not None:
                for part, own in zip(parts, np.split(room, sizes[:-1]), strict=True):
                    part.compute_features(model, own, done)
        super().train(session)

    # --- what a run calls ---------------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """The sizes of data and model, and the effort."""
        model, labels = self.fine_tuned, len(self.fine_tuned.labels)
        named = f", {plural(labels, 'label')}" if labels else ""
        sizes = (
            f"{len(self._data.train):,} examples, {len(self._data.valid):,} to validate on{named}, "
            f"{self.trained_parameters:,} of {self.parameters:,} parameters on {model.device}"
        )
        return {
            "sizes": sizes,
            **self.effort,
            "threads": self.threads,
            "stats": asdict(self._data.stats),
        }

    def warnings(self) -> list[str]:
        """Says how much of the text the encoder does not know."""
        if self._unknown <= MUCH_UNKNOWN:
            return []
        lacking = f"the vocabulary of the encoder lacks {self._unknown:.0%} of the pieces of the examples"
        return [f"{lacking}; one that was trained on such text knows more"]

    def summary(self) -> dict[str, Any]:
        """Speed, losses, sizes, and the weights of the layers where they are mixed."""
        found, mix = super().summary(), self.fine_tuned.module.mix
        found |= {"best_by": self.best_by, "examples": len(self._data.train), "labels": len(self.fine_tuned.labels)}
        if mix is not None:
            found["layer_weights"] = [round(float(share), 6) for share in mix.shares.tolist()]
        return found

    def changes(self, base: Any) -> tuple[dict[str, Any], list[str]]:  # noqa: ANN401
        """Notes which texts were too long, which labels are rare, and whether a head was left behind."""
        notes, model, part = self._data.stats.left_out(), self.fine_tuned, self._train
        if model.same_task(base) and not self.tuning.scratch and (differing := model.differences(base)):
            listed = ", ".join(map(say, differing))
            notes.append(f"the head of the run is not used, a new one learns: it was trained with {listed}")
        notes += [f"to validate on: {note}" for note in self._data.valid_stats.left_out()]
        notes += self._data.untrained_note() + self._data.numbers_note()
        if (step := self.tuning.unfreeze) is not None:
            last, epochs = (self.config.epochs - 1) * step, plural(self.config.epochs, "epoch")
            if last < (deepest := self._shares.last):
                notes.append(
                    f"unfreeze={step} reaches {last} of {deepest} layers below the head in "
                    f"{epochs}, and the rest never learns: give more epochs or a larger number"
                )
        if part.cut:
            notes.append(model.cut_note(part.cut, len(part.examples)))
        if self._valid is not None and self._valid.cut:
            note = model.cut_note(self._valid.cut, len(self._valid.examples))
            notes.append(f"to validate on: {note}")
        if model.labels and not model.over_tokens and self.tuning.class_weight == "none":
            notes += self._data.imbalance_note()
        if self._valid is not None and not model.module.frozen:
            times = self._valid.widths.sum() / part.widths.sum()
            if times >= _LONG:
                notes.append(
                    f"each evaluation reads {len(self._valid.items):,} examples, {times:.0f} times the tokens of an "
                    "epoch of training, and takes most of the time; valid_limit=N takes N of them"
                )
        return {}, notes
