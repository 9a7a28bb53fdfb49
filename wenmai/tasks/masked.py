"""Masked language models: encoders that predict masked tokens, and whether two texts belong together.

A batch costs no more than it must: the vocabulary is projected to at masked positions only; sequences of running text
have no padding; pieces of different documents share a row, where they do not see each other; pairs come in batches of
like lengths.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wenmai.config.recipe import Recipe
from wenmai.core.errors import SettingError
from wenmai.core.seeding import mixed_seed
from wenmai.data.batches import plan_batches
from wenmai.data.masking import Masker
from wenmai.data.running_text import LanguageData
from wenmai.data.sequences import Examples, SentenceStream, documents, packed, pairs, require_pairs, texts_of, windows
from wenmai.formats.huggingface import Pretrained
from wenmai.inference.embedding_config import EmbeddingConfig
from wenmai.inference.masked_model import MaskedModel, build
from wenmai.models.settings import BertConfig
from wenmai.nn.encoder import predicting
from wenmai.objectives.language import most_probable, next_token_loss
from wenmai.objectives.loss import Loss, Losses, evaluated
from wenmai.tasks.asked import Asked, asked_of_row
from wenmai.tasks.masked_rows import MaskedRows, RowMaker
from wenmai.tasks.neural import NeuralJob, NeuralTask
from wenmai.tasks.settings import MASKED, MaskedConfig
from wenmai.tasks.sources.running_text import RunningText

__all__ = ["MaskedJob", "MaskedTask", "refuse_untrained"]

_VALIDATION_TOKENS = 250_000
_PARTS = 1_000_000  # of an epoch, the unit of phases
_VALIDATION_DRAW = 0xE7A1  # the same sequences and masks at every evaluation
_CAUSAL_DRAW = 0xCA05  # keeps the choice of batches apart from other draws of the seed
_SHORTEST_PAIR = 5  # tokens: a text, another one, and the special ones around them

Ints = npt.NDArray[np.int64]


class _Batch(NamedTuple):
    """Rows of examples.

    Attributes:
        rows: The examples of each row.
        epoch: Decides the masks, together with the numbers of the examples.
        number: Of the batch in the epoch.
        causal: Whether each token is predicted from those before it, and none is masked.
    """

    rows: tuple[Examples, ...]
    epoch: int
    number: int
    causal: bool = False


class MaskedTask(NeuralTask):
    """Masked language models."""

    previewed = True
    source = RunningText("cls", "sep", "mask")
    replicated = True
    sections: Mapping[str, type] = MASKED
    verbs = ("score", "fill", "embed")

    def check(self, recipe: Recipe) -> None:
        """Makes sure that the objective fits the network, and that each of its heads is trained."""
        if recipe.start is None:  # else it is the network of that run that counts
            _require_fitting(recipe.sections["objective"], recipe.sections["model"])
            _refuse_unused(recipe.sections["objective"], recipe.sections["model"])

    def load(self, folder: Path) -> MaskedModel:
        """Reads a finished model."""
        return MaskedModel.load(folder)

    def adopt(self, imported: Pretrained, recipe: Recipe) -> MaskedModel:
        """Turns an imported network into an encoder with its verbs."""
        embedding = None if imported.embedding is None else EmbeddingConfig(**imported.embedding)
        return MaskedModel(imported.module, imported.tokenizer, embedding=embedding)

    def make(self, recipe: Recipe, data: LanguageData, base: MaskedModel | None) -> MaskedModel:
        """Makes a model for a tokenizer."""
        size = None if base is None or data.grown else base.module.vocab_size
        module = build(self.model, recipe.sections["model"], data.tokenizer, vocab_size=size)
        return MaskedModel(module, data.tokenizer, embedding=None if base is None else base.embedding)

    def job(self, recipe: Recipe, data: LanguageData, model: MaskedModel) -> "MaskedJob":
        """Returns a training."""
        return MaskedJob(recipe, data, model)


class MaskedJob(NeuralJob):
    """Training a masked language model."""

    def __init__(self, recipe: Recipe, data: LanguageData, model: MaskedModel) -> None:
        super().__init__(recipe, model)
        self.objective: MaskedConfig = recipe.sections["objective"]
        self.masked_model = model
        self._masker = Masker(recipe.sections["masking"], model.tokenizer)
        self._data = data
        self._maker = RowMaker(model.tokenizer, self._masker, model.device)
        self._made: dict[int, tuple[MaskedRows, Tensor | None]] = {}
        tokenizer = model.tokenizer
        assert tokenizer.cls_id is not None
        assert tokenizer.sep_id is not None
        self._cls, self._sep = tokenizer.cls_id, tokenizer.sep_id
        self._train, self._valid = data.sentences(separator=self._sep)
        self._check()
        also = {"pair": self.objective.pairs != "none", "causal": self.objective.causal > 0}
        self.loss_weights = {"mlm": 1.0} | {name: 1.0 for name, there in also.items() if there}

    def _check(self) -> None:
        _require_fitting(self.objective, self.model.config)
        if self.recipe.start is None:
            _refuse_unused(self.objective, self.model.config)
        if self.objective.pairs != "none":
            require_pairs(self._train, self.objective.pairs)
            aside = self._data.valid is None
            what = "the text set aside to validate on" if aside else "the text to validate on"
            require_pairs(self._valid, self.objective.pairs, what, aside=aside)

    @property
    def objective_name(self) -> str:  # type: ignore[override]  # it depends on the settings
        """The losses, for people."""
        also = {
            "none": "",
            "next": ", and is the second text the next one?",
            "order": ", and of the order of two texts",
        }
        causal = ", and of next tokens" if self.objective.causal else ""
        return "cross-entropy of masked tokens" + also[self.objective.pairs] + causal

    # --- sequences ----------------------------------------------------------------------------------------------

    def plan(self, epoch: int) -> Sequence[_Batch]:
        """The batches of an epoch: those of short sequences first, if there are some."""
        turns = self._masker.config.dupe_factor
        random = np.random.default_rng(mixed_seed(self.config.seed, epoch if turns is None else epoch % turns))
        longest = self.model.config.max_length
        batches: list[list[Examples]] = []
        for part, length in self._phases(epoch, longest):
            rows = self._rows(part, length, random)
            batches += self._batches(rows, epoch)
        drawn = np.random.default_rng(mixed_seed(self.config.seed, epoch, _CAUSAL_DRAW)).random(len(batches))
        causal = drawn < self.objective.causal
        return [_Batch(tuple(rows), epoch, number, bool(causal[number])) for number, rows in enumerate(batches)]

    def _phases(self, epoch: int, longest: int) -> Iterator[tuple[slice, int]]:
        """Yields which examples of an epoch, as a slice of millionths, have which length."""
        short = self.objective.short_length
        cut = round(_PARTS * min(1.0, max(0.0, self._short_epochs - epoch)))
        if short is not None and cut:
            yield slice(0, cut), short
        if cut < _PARTS:
            yield slice(cut, _PARTS), longest

    @cached_property
    def _short_epochs(self) -> float:
        """How many epochs, and which part of one more, have short sequences; asked when the processes are known."""
        short, epochs, steps = self.objective.short_length, float(self.config.epochs), self.config.steps
        if short is None:
            return 0.0
        if steps is not None:
            random = np.random.default_rng(mixed_seed(self.config.seed, 0))
            batches = len(self._batches(self._rows(slice(0, _PARTS), short, random), 0))
            epochs = min(epochs, steps / math.ceil(batches / (self.config.accumulation * self.strategy.size)))
        return self.objective.short_share * epochs

    def _rows(self, part: slice, length: int, random: np.random.Generator) -> list[Examples]:
        found = self._examples(self._train, length, random)
        order = random.permutation(len(found.labels))
        first, last = (len(order) * edge // _PARTS for edge in (part.start, part.stop))
        examples = found.take(order[first:last])
        if self.objective.pairs == "none" and self.objective.boundaries == "masked":
            return [examples.take(row) for row in packed(examples.lengths + 2, length)]
        return [examples.take(np.array([place])) for place in range(len(examples.labels))]

    def _examples(self, stream: SentenceStream, length: int, random: np.random.Generator) -> Examples:
        objective = self.objective
        if objective.pairs != "none":
            return pairs(stream, length - 3, random, kind=objective.pairs, short=objective.short_pairs)
        return (documents if objective.boundaries == "masked" else windows)(stream, length - 2, random)

    def _batches(self, rows: list[Examples], epoch: int) -> list[list[Examples]]:
        sizes = np.array([self._size(row) for row in rows], np.int64)
        plan = plan_batches(sizes, max_tokens=self.config.batch_tokens, seed=self.config.seed, epoch=epoch)
        return [[rows[place] for place in batch] for batch in plan]

    def _size(self, row: Examples) -> int:
        """Tokens of a row, special ones included."""
        return int(row.lengths.sum()) + len(row.labels) * (2 if self.objective.pairs == "none" else 3)

    def _tensors(self, batch: _Batch, stream: SentenceStream) -> tuple[MaskedRows, Tensor | None]:
        """Makes the sequences of a batch, with some of their tokens masked, and the labels of its pairs."""
        cls, sep = np.array([self._cls], np.int32), np.array([self._sep], np.int32)
        rows, segments, pieces, positions = [], [], [], []
        number = 0
        for row in batch.rows:
            parts_of_row, second, piece, place = [], [], [], []
            for one, other in texts_of(stream, row):
                parts = [cls, one, sep, other, sep] if len(other) else [cls, one, sep]
                whole = np.concatenate(parts)
                parts_of_row.append(whole)
                second.append((np.arange(len(whole)) >= len(one) + 2).astype(np.int64))
                piece.append(np.full(len(whole), number, np.int64))
                place.append(np.arange(len(whole)))
                number += 1
            rows.append(np.concatenate(parts_of_row))
            segments.append(np.concatenate(second))
            pieces.append(np.concatenate(piece))
            positions.append(np.concatenate(place))
        keys = self._masker.keys(
            np.concatenate([row.numbers for row in batch.rows]), seed=self.config.seed, epoch=batch.epoch
        )
        several = any(len(row.labels) > 1 for row in batch.rows)
        paired = self.objective.pairs != "none"
        made = self._maker(
            rows,
            keys=keys,
            segments=segments if paired and self.model.config.segments > 1 else None,  # one: all are of it
            sequences=pieces if several else None,
            positions=positions if several else None,
            asked=[np.arange(len(row)) == 0 for row in rows] if paired else None,  # [CLS]
            causal=batch.causal,
        )
        labels = np.concatenate([row.labels for row in batch.rows])
        return made, torch.from_numpy(labels).to(made.tokens.device) if paired else None

    def asked(self, count: int) -> list[list[Asked]]:
        """The first rows of the first batches of each kind."""
        names = {"none": (), "next": ("next", "not next"), "order": ("in order", "swapped")}[self.objective.pairs]
        found, plan = [], self.plan(0)
        kinds = ([batch for batch in plan if batch.causal is causal] for causal in (False, True))
        for batch in [batch for kind in kinds for batch in kind[:count]]:
            made, labels = self._tensors(batch._replace(rows=batch.rows[:1]), self._train)
            label = names[int(labels[0])] if labels is not None else ""
            task = "next tokens" if batch.causal else "masked tokens"
            row = asked_of_row(made, self._data.tokenizer, task=task, label=label)
            if batch.causal:  # what stands there is what is to be said, but it is not read for that
                row = row._replace(tokens=tuple(one._replace(fate=one.fate and "asked") for one in row.tokens))
            found.append([row])
        return found

    # --- what the loop calls ------------------------------------------------------------------------------------

    def counts(self, batch: _Batch) -> dict[str, int]:
        """Masked tokens and pairs of a batch, which is kept until its loss is asked for."""
        made, labels = self._made[batch.number] = self._tensors(batch, self._train)
        name = "causal" if batch.causal else "mlm"
        return {name: len(made.targets), "pair": 0 if labels is None else len(labels)}

    def loss(self, module: nn.Module, batch: _Batch, step: int) -> Losses:
        """Cross-entropies of masked tokens and of pairs."""
        found = self._made.pop(batch.number, None) or self._tensors(batch, self._train)
        return self._losses(module, batch, *found)

    def _losses(
        self,
        module: nn.Module,
        batch: _Batch,
        made: MaskedRows,
        labels: Tensor | None,
        right: Counter[str] | None = None,
    ) -> dict[str, Loss]:
        """The losses of a batch; counts in ``right`` how many targets are the most probable ones."""
        model: Any = self.masked_model.module
        places = predicting(made.places, shifted=model.config.shifted)
        hidden: Tensor = module(
            made.tokens, segments=made.segments, mask=made.mask, positions=made.positions, places=places
        )
        head, name = model.heads["mlm"], "causal" if batch.causal else "mlm"
        states = head.transform(hidden.flatten(0, 1)[made.masked])
        losses = {name: next_token_loss(head.output, states, made.targets)._replace(tokens=made.read)}
        if right is not None:
            right[name] += most_probable(head.output, states, made.targets)
        if labels is not None:
            logits = model.heads["pair"](model.pooled(hidden)).float()
            total = F.cross_entropy(logits, labels, reduction="sum")
            losses["pair"] = Loss(total.double(), total.detach().double(), len(labels))
            if right is not None:
                right["pair"] += int((logits.argmax(1) == labels).sum())
        return losses

    def evaluate(self) -> dict[str, float]:
        """The losses and the accuracies on the validation text, always with the same masks."""
        random = np.random.default_rng(_VALIDATION_DRAW)
        found = self._examples(self._valid, self.model.config.max_length, random)
        most = max(1, _VALIDATION_TOKENS // self.model.config.max_length)
        rows = [found.take(np.array([place])) for place in range(min(most, len(found.labels)))]
        batches = [
            _Batch(tuple(batch), _VALIDATION_DRAW, number, causal)
            for causal in ((False, True) if self.objective.causal else (False,))
            for number, batch in enumerate(self._batches(rows, 0))
        ]
        right, counted = Counter[str](), Counter[str]()

        def losses() -> Iterator[dict[str, Loss]]:
            for batch in batches:
                found = self._losses(self.module, batch, *self._tensors(batch, self._valid), right)
                counted.update({name: loss.targets for name, loss in found.items()})
                yield found

        metrics = evaluated(losses(), self.loss_weights)
        named = {"mlm": "masked_accuracy", "pair": "pair_accuracy", "causal": "next_accuracy"}
        return metrics | {named[name]: right[name] / counted[name] for name in self.loss_weights if counted[name]}

    # --- what a run calls ---------------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """The sizes of data, vocabulary and model, and the effort."""
        sizes = (
            f"{len(self._train):,} tokens, {len(self._valid):,} to validate on, vocabulary "
            f"{self._data.tokenizer.vocab_size:,}, {self.parameters:,} parameters on {self.masked_model.device}"
        )
        stats = asdict(self._data.text.stats)
        return {"sizes": sizes, **self.effort, "threads": self.threads, "stats": stats}

    def warnings(self) -> list[str]:
        """That the text is foreign to the vocabulary, or a time cannot be shared between short sequences and long."""
        found = self._data.warnings()
        if self.objective.short_length is None or self.config.minutes is None:
            return found
        return [
            *found,
            f"the epochs decide when sequences of max_length={self.model.config.max_length} come: with "
            f"minutes={self.config.minutes} the training may end before; set epochs or steps to what it reaches",
        ]

    def changes(self, base: Any) -> tuple[dict[str, Any], list[str]]:  # noqa: ANN401
        """Notes if the training ended before its long sequences."""
        state, cut = self.state, self._short_epochs
        if state.epoch >= cut or state.epoch + state.batch / len(self.plan(state.epoch)) > cut:
            return {}, []
        short, longest = self.objective.short_length, self.model.config.max_length
        return {}, [
            f"the training ended before sequences of max_length={longest} tokens: all were of short_length={short}"
        ]

    def summary(self) -> dict[str, Any]:
        """Speed, losses and sizes."""
        found, size = super().summary(), self._data.tokenizer.vocab_size
        words = found["tokens_per_second"] * self._data.text.stats.words_per_token
        sizes = {"words_per_second": words, "vocabulary": size}
        return {**found, **sizes, "objective": f"{self.objective_name}, {size:,} tokens"}


def _require_fitting(objective: MaskedConfig, config: BertConfig) -> None:
    """Makes sure that an objective and a network fit each other.

    Raises:
        SettingError: if they do not.
    """
    if "mlm" not in config.heads:
        raise SettingError(
            f"heads={','.join(config.heads)} cannot predict masked tokens; train a new model with heads=mlm"
        )
    if objective.pairs != "none" and "pair" not in config.heads:
        raise SettingError(
            f"pairs={objective.pairs} needs the head pair; train a new model with heads=mlm,pair pooler=tanh"
        )
    if objective.causal and not config.shifted:
        raise SettingError(
            f"causal={objective.causal:g}: a token that predicts itself reads what it should say; add shifted=true"
        )
    if (objective.short_length or 0) > config.max_length:
        raise SettingError(f"short_length={objective.short_length} is more than max_length={config.max_length}")
    for name, length in (("short_length", objective.short_length), ("max_length", config.max_length)):
        if objective.pairs != "none" and (length or _SHORTEST_PAIR) < _SHORTEST_PAIR:
            raise SettingError(
                f"{name}={length} has no room for pairs={objective.pairs}: two texts and three special tokens; set at "
                f"least {_SHORTEST_PAIR}"
            )


def refuse_untrained(config: BertConfig, trained: Sequence[str]) -> None:
    """Makes sure that all heads of a new model are trained; a continued one may have others.

    Raises:
        SettingError: if some would stay as they are drawn.
    """
    others = [head for head in config.heads if head not in trained]
    if others:
        raise SettingError(f"heads={','.join(config.heads)}: {others[0]} would not be trained; leave out {others[0]}")


def _refuse_unused(objective: MaskedConfig, config: BertConfig) -> None:
    if "pair" in config.heads and objective.pairs == "none":
        raise SettingError("the head pair is not trained with pairs=none; add pairs=next or pairs=order")
    refuse_untrained(config, ("mlm", "pair"))
    if config.pooler != "none" and "pair" not in config.heads:
        raise SettingError(f"pooler={config.pooler} would not be trained without the head pair; leave it out")
    if config.task_types:
        raise SettingError(f"task_types={config.task_types} would not be trained; leave it out, or train ernie-2")
