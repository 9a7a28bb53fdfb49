"""Encoders that learn several tasks from raw text, one after the other or together: ERNIE 1.0 and 2.0.

Sun et al. 2019, "ERNIE: Enhanced Representation through Knowledge Integration", https://arxiv.org/abs/1904.09223; Sun
et al. 2020, "ERNIE 2.0: A Continual Pre-Training Framework for Language Understanding",
https://arxiv.org/abs/1907.12412.

The encoder is a :class:`~wenmai.models.bert.Bert`. What a task is, :mod:`wenmai.data.pretraining` says; which task a
batch is of, :mod:`wenmai.training.stages`. A batch is of one task: its vector is added to the input, some tokens are
masked, and a linear head asks its classes of tokens, or of the vector of [CLS]. The heads of tasks are part of a
checkpoint, not of the finished model.
"""

import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wenmai.config.recipe import Recipe
from wenmai.core.errors import SettingError
from wenmai.core.quantities import plural
from wenmai.core.seeding import mixed_seed
from wenmai.data.batches import plan_batches
from wenmai.data.masking import Masker
from wenmai.data.pretraining import Context, Drawn, Planned, PretrainingTask, WindowTask, task_of
from wenmai.data.running_text import LanguageData
from wenmai.data.sequences import SentenceStream
from wenmai.data.token_marks import ENTITY
from wenmai.inference.masked_model import MaskedModel
from wenmai.models.bert import Bert
from wenmai.nn.blank import blank
from wenmai.nn.linear import Linear
from wenmai.objectives.language import most_probable, next_token_loss
from wenmai.objectives.loss import Loss, Losses
from wenmai.tasks.asked import Asked, asked_of_row
from wenmai.tasks.masked_rows import MaskedRows, RowMaker
from wenmai.tasks.neural import NeuralJob
from wenmai.training.stages import StagePlan, StagesConfig

__all__ = ["ContinualJob"]

_PASS, _MASKS, _VALIDATION = 0x70617373, 0x6D61736B, 0xE7A2  # set apart draws with the same seed
_VALIDATION_TOKENS = 250_000  # of all tasks together
_STD = 0.02  # of the heads
_LOOKED_AT = 20  # rows for each that is shown
_MASKED = "mlm"  # the part of the loss that masked tokens are

Ints = npt.NDArray[np.int64]


class _Batch(NamedTuple):
    """The task of a batch, by number, and how many batches of that task came before."""

    task: int
    rank: int


class _Pass(NamedTuple):
    """One pass of a task over a text: its examples, and which of them are in which batch."""

    number: int
    examples: Planned
    batches: list[Ints]


class _WithHeads(nn.Module):
    """The encoder and the heads of the tasks, which are trained together."""

    def __init__(self, encoder: Bert, heads: nn.ModuleDict) -> None:
        super().__init__()
        self.encoder, self.tasks = encoder, heads

    def forward(self, made: MaskedRows, task: int) -> Tensor:
        """Returns the states that are needed, (B, K, M)."""
        states: Tensor = self.encoder(
            made.tokens, segments=made.segments, mask=made.mask, places=made.places, task_type=task
        )
        return states


class ContinualJob(NeuralJob):
    """Training an encoder on several tasks."""

    best_by = None

    def __init__(self, recipe: Recipe, data: LanguageData, model: MaskedModel) -> None:
        super().__init__(recipe, model)
        self.masked_model = model
        self.stages: StagesConfig = recipe.sections["stages"]
        self._data = data
        self._check(model.module)
        tokenizer, separator = model.tokenizer, model.tokenizer.sep_id
        assert separator is not None
        self._train, self._valid = data.sentences(separator=separator)
        self.tasks = self._made_tasks(recipe, model)
        for task in self.tasks:
            task.require(self._train)
        self._unmeasured = [task.name for task in self.tasks if not _has_example(task, self._valid)]
        of_texts = any(task.level == "sequence" for task in self.tasks)
        self._has_untrained_pooler = recipe.start is None and model.config.pooler != "none" and not of_texts
        self._dupe_factor = recipe.sections["masking"].dupe_factor
        self._maskers = [None if task.masking is None else Masker(task.masking, tokenizer) for task in self.tasks]
        self._makers = [RowMaker(tokenizer, masker, model.device) for masker in self._maskers]
        self._seeds = [mixed_seed(self.config.seed, zlib.crc32(task.name.encode())) for task in self.tasks]
        self.loss_weights = {_MASKED: 1.0, **{task.name: 1.0 for task in self.tasks if task.classes}}
        self._made: dict[_Batch, tuple[MaskedRows, Tensor | None]] = {}
        self._passes: dict[int, _Pass] = {}
        self._encoder: Bert = model.module  # type: ignore[assignment]  # whatever the recipe's model is
        self._with_heads = _WithHeads(self._encoder, self._heads().to(model.device))
        self.stage_plan = self._planned_stages()

    def _made_tasks(self, recipe: Recipe, model: MaskedModel) -> list[PretrainingTask]:
        config, settings = model.config, recipe.sections["tasks"]
        context = Context(
            tokenizer=model.tokenizer,
            max_length=config.max_length,
            segments=config.segments,
            masking=recipe.sections["masking"],
            settings=settings,
        )
        settings.require_use(self.stages.tasks)
        tasks = [task_of(name, context) for name in self.stages.tasks]
        of_texts = [task.name for task in tasks if task.level == "sequence"]
        if of_texts and config.pooler == "none":
            raise SettingError(f"the task {of_texts[0]} asks for classes of whole texts; add pooler=tanh")
        return tasks

    def _check(self, module: nn.Module) -> None:
        if not isinstance(module, Bert):
            raise SettingError("tasks are learned by a BERT; start from a run of bert or ernie")
        config = module.config
        if not self.stages.tasks:
            raise SettingError("tasks names no task; name some, or leave it out")
        if "mlm" not in config.heads:
            raise SettingError(
                f"heads={','.join(config.heads)} cannot predict masked tokens; train a new model with heads=mlm"
            )
        if config.shifted:
            raise SettingError(
                "tasks ask for tokens and classes at the same places; leave out shifted, or start from a run without it"
            )
        if config.task_types and config.task_types < len(self.stages.tasks):
            raise SettingError(
                f"task_types={config.task_types} are too few for {len(self.stages.tasks)} tasks; set more, or 0 for "
                "tasks without vectors"
            )

    def _heads(self) -> nn.ModuleDict:
        size = self._encoder.config.hidden_size
        with blank():
            heads = nn.ModuleDict({task.name: Linear(size, len(task.classes)) for task in self.tasks if task.classes})
        draw = torch.Generator().manual_seed(self.config.seed)
        for name in heads:
            nn.init.normal_(heads.get_parameter(f"{name}.weight"), std=_STD, generator=draw)
        return heads

    @property
    def module(self) -> _WithHeads:
        """The encoder with the heads of the tasks."""
        return self._with_heads

    @property
    def parameters(self) -> int:
        """How many parameters the model has, without the heads of the tasks."""
        return sum(parameter.numel() for parameter in self._encoder.parameters())

    @property
    def trained_parameters(self) -> int:
        """All of them."""
        return self.parameters

    @property
    def objective_name(self) -> str:  # type: ignore[override]  # it depends on the settings
        """The losses, for people."""
        return f"cross-entropies of {', '.join(task.name for task in self.tasks)}"

    # --- batches ------------------------------------------------------------------------------------------------

    @cached_property
    def _first(self) -> list[int]:
        """How many batches the first pass of each task has; later ones are taken to have as many."""
        return [len(self._pass(number, 0).batches) for number in range(len(self.tasks))]

    def _planned_stages(self) -> StagePlan:
        """Decides the task of each batch."""
        epochs = self.config.epochs
        each = -(-epochs * self._first[0] // len(self.tasks))  # rounded up: a short text has a batch in every epoch
        plan = self.stages.plan(max(1, each), seed=self.config.seed)
        if len(plan) < epochs:
            raise SettingError(f"epochs={epochs} are more than the {len(plan)} batches that there are; set fewer")
        return plan

    def plan(self, epoch: int) -> Sequence[_Batch]:
        """The batches of an epoch, one of so many equal parts of all batches."""
        plan, epochs = self.stage_plan, self.config.epochs
        part = slice(len(plan) * epoch // epochs, len(plan) * (epoch + 1) // epochs)
        return [
            _Batch(task, rank) for task, rank in zip(plan.tasks[part].tolist(), plan.ranks[part].tolist(), strict=True)
        ]

    def _pass(self, task: int, number: int) -> _Pass:
        """A pass of a task over the text; the last one of each task is kept."""
        known = self._passes.get(task)
        if known is None or known.number != number:
            turns = self._dupe_factor
            turn = number if turns is None else number % turns  # the same texts return with the same masks
            random = np.random.default_rng(mixed_seed(self._seeds[task], _PASS, turn))
            known = self._passes[task] = self._planned(self.tasks[task], self._train, random, number)
        return known

    def _planned(
        self, task: PretrainingTask, stream: SentenceStream, random: np.random.Generator, number: int, most: int = 0
    ) -> _Pass:
        examples = task.examples(stream, random)
        lengths = np.asarray(examples.lengths)
        if not len(lengths):
            return _Pass(number, examples, [])
        chosen = np.arange(len(lengths))
        if most:
            chosen = random.permutation(len(lengths))
            chosen = chosen[: max(1, int(np.searchsorted(lengths[chosen].cumsum(), most)))]
        batches = plan_batches(
            lengths[chosen], max_tokens=self.config.batch_tokens, seed=self.config.seed, epoch=number
        )
        return _Pass(number, examples, [chosen[batch] for batch in batches])

    def _tensors(
        self, task: int, found: _Pass, places: Ints, stream: SentenceStream
    ) -> tuple[MaskedRows, Tensor | None]:
        """Makes the rows of a batch, and the classes that are asked for."""
        of, masker = self.tasks[task], self._maskers[task]
        rows = [of.row(stream, found.examples, place) for place in places.tolist()]
        keys = np.zeros(len(rows), np.uint64)
        if masker is not None:
            keys = masker.keys(places, seed=mixed_seed(self._seeds[task], _MASKS), epoch=found.number)
        labels: list[Any] = [row.labels for row in rows]
        asked, classes = None, None
        if of.level == "token":
            asked = [one >= 0 for one in labels]
            classes = np.concatenate([one[one >= 0] for one in labels])
        elif of.level == "sequence":
            asked = [np.arange(len(row.tokens)) == 0 for row in rows]
            classes = np.array(labels, np.int64)
        units = [row.units for row in rows]
        segments = self._encoder.config.segments > 0 and any(row.segments.any() for row in rows)
        made = self._makers[task](
            [row.tokens for row in rows],
            keys=keys,
            segments=[row.segments for row in rows] if segments else None,
            units=None if any(one is None for one in units) else [one for one in units if one is not None],
            asked=asked,
        )
        return made, None if classes is None else torch.from_numpy(classes).to(made.tokens.device)

    def _batch(self, batch: _Batch) -> tuple[MaskedRows, Tensor | None]:
        found = self._pass(batch.task, batch.rank // self._first[batch.task])
        places = found.batches[batch.rank % self._first[batch.task] % len(found.batches)]
        return self._tensors(batch.task, found, places, self._train)

    def asked(self, count: int) -> list[list[Asked]]:
        """Examples of each task; those of running text are of the same parts, with entities if these are masked."""
        running = [number for number, task in enumerate(self.tasks) if isinstance(task, WindowTask)]
        groups = [[number] for number in range(len(self.tasks)) if number not in running]
        found = []
        for group in filter(None, [running, *groups]):
            one = self._pass(group[0], 0)
            places = np.concatenate(one.batches)
            if any(self.tasks[number].marks & ENTITY for number in group):
                places = places[:: max(1, len(places) // (_LOOKED_AT * count))]
                assert isinstance(one.examples, Drawn)  # of a WindowTask
                spans = one.examples.table[places]
                named = [bool((self._train.read_marks(*span) & ENTITY).any()) for span in spans.tolist()]
                places = places[named] if any(named) else places
            for place in places[:: max(1, len(places) // count)][:count]:
                found.append([self._asked(number, one, place) for number in group])
        return found

    def _asked(self, number: int, found: _Pass, place: int) -> Asked:
        task = self.tasks[number]
        made, labels = self._tensors(number, found, np.array([place]), self._train)
        names: list[str] = [] if labels is None else [task.classes[label] for label in labels.tolist()]
        if task.level == "sequence":
            return asked_of_row(made, self._data.tokenizer, task=task.name, label=names[0])
        return asked_of_row(made, self._data.tokenizer, task=task.name, classes=names)

    # --- what the loop calls ------------------------------------------------------------------------------------

    def counts(self, batch: _Batch) -> dict[str, int]:
        """Masked tokens and classes of a batch, which is kept until its loss is asked for."""
        made, labels = self._made[batch] = self._batch(batch)
        asked = {} if labels is None else {self.tasks[batch.task].name: len(labels)}
        return {_MASKED: len(made.targets), **asked}

    def loss(self, module: nn.Module, batch: _Batch, step: int) -> Losses:
        """Cross-entropies of masked tokens, and of the classes of the task."""
        losses, _ = self._losses(module, batch.task, *(self._made.pop(batch, None) or self._batch(batch)))
        return losses

    def _losses(
        self, module: nn.Module, task: int, made: MaskedRows, labels: Tensor | None, *, measured: bool = False
    ) -> tuple[dict[str, Loss], dict[str, int]]:
        """The losses of a batch, and, if it is ``measured``, how many answers are right."""
        hidden: Tensor = module(made, task)
        flat = hidden.flatten(0, 1)
        head: Any = self._encoder.heads["mlm"]
        right, losses = {}, {}
        if len(made.targets) or labels is None:
            states = head.transform(flat[made.masked])
            losses[_MASKED] = next_token_loss(head.output, states, made.targets)._replace(tokens=made.read)
            right[_MASKED] = most_probable(head.output, states, made.targets) if measured else 0
        if labels is not None:
            of = self.tasks[task]
            states = flat[made.asked] if of.level == "token" else self._encoder.pooled(hidden)
            logits = self._with_heads.tasks[of.name](states).float()
            total = F.cross_entropy(logits, labels, reduction="sum")
            losses[of.name] = Loss(total.double(), total.detach().double(), len(labels), made.read)
            right[of.name] = int((logits.argmax(1) == labels).sum()) if measured else 0
        return losses, right

    def evaluate(self) -> dict[str, float]:
        """Loss and accuracy of each task on the validation text, always of the same examples and masks."""
        metrics, measured = dict[str, float](), 0  # tasks; some may have no example in the text
        for number, task in enumerate(self.tasks):
            random = np.random.default_rng(mixed_seed(_VALIDATION, zlib.crc32(task.name.encode())))
            found = self._planned(task, self._valid, random, 0, _VALIDATION_TOKENS // len(self.tasks))
            sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0, 0])
            for places in found.batches:
                made, labels = self._tensors(number, found, places, self._valid)
                losses, right = self._losses(self._with_heads, number, made, labels, measured=True)
                for name, loss in losses.items():
                    sums[name][0] += float(loss.nll)
                    sums[name][1] += loss.targets
                    sums[name][2] += right.get(name, 0)
            if named := dict(_named(task, sums)):
                metrics, measured = metrics | named, measured + 1
        whole = [value for name, value in metrics.items() if name.endswith("_loss")]
        return {"loss": sum(whole) / measured, **metrics} if whole else {}

    def carried(self) -> Mapping[str, Tensor]:
        """The heads of the tasks."""
        return {f"head.{name}": tensor for name, tensor in self._with_heads.tasks.state_dict().items()}

    def carry(self, tensors: Mapping[str, Tensor]) -> None:
        """Restores the heads of the tasks."""
        self._with_heads.tasks.load_state_dict({name.removeprefix("head."): one for name, one in tensors.items()})

    # --- what a run calls ---------------------------------------------------------------------------------------

    def notes(self) -> dict[str, Any]:
        """What the tasks read besides the text."""
        read = {task.name: [dict(source) for source in task.sources] for task in self.tasks if task.sources}
        return {"tasks": read} if read else {}

    def facts(self) -> dict[str, Any]:
        """The sizes of data, vocabulary and model, the batches of the tasks by stage, and the effort."""
        table = self.stage_plan.table.T.tolist()
        stages = "; ".join(
            f"{task.name} {'+'.join(map(str, counts))}" for task, counts in zip(self.tasks, table, strict=True)
        )
        marked = self._data.text.marked
        entities = f"{plural(marked.entities, 'place')} with an entity, " if marked and marked.entities else ""
        sizes = (
            f"{len(self._train):,} tokens, {len(self._valid):,} to validate on, {entities}vocabulary "
            f"{self._data.tokenizer.vocab_size:,}, {self.parameters:,} parameters on {self.masked_model.device}, "
            f"batches by stage ({stages})"
        )
        return {"sizes": sizes, **self.effort, "threads": self.threads, "stats": asdict(self._data.text.stats)}

    def warnings(self) -> list[str]:
        """What the vocabulary lacks, what the tasks left out, which get no batch, and which are not measured."""
        notes = [*self._data.warnings(), *(note for task in self.tasks for note in task.notes)]
        counts = self.stage_plan.table.sum(0).tolist()
        if idle := [task.name for task, count in zip(self.tasks, counts, strict=True) if not count]:
            notes.append(f"there is no batch for {', '.join(idle)}: set more epochs, or other stages or shares")
        if self._has_untrained_pooler:
            notes.append(
                "no task is of whole texts, so the pooler stays as it was drawn; with pooler=none fine-tuning takes "
                "the mean of the states instead"
            )
        if self._unmeasured:
            names = ", ".join(self._unmeasured)
            notes.append(f"the text to validate on has no example for {names}: learned, but not measured")
        return notes

    def summary(self) -> dict[str, Any]:
        """Speed, losses, sizes, and the batches of each task by stage."""
        found, size = super().summary(), self._data.tokenizer.vocab_size
        words = found["tokens_per_second"] * self._data.text.stats.words_per_token
        table = {task.name: counts for task, counts in zip(self.tasks, self.stage_plan.table.T.tolist(), strict=True)}
        return {**found, "words_per_second": words, "vocabulary": size, "stages": table}


def _has_example(task: PretrainingTask, stream: SentenceStream) -> bool:
    return len(task.examples(stream, np.random.default_rng(0)).lengths) > 0


def _named(task: PretrainingTask, sums: Mapping[str, Sequence[float]]) -> Iterator[tuple[str, float]]:
    """Yields the metrics of a task: of its classes, else of what it masks; the latter of both by a name of its own."""
    plain = task.name.replace("-", "_")
    for name, (total, count, right) in sums.items():
        if count:
            of = plain if name == task.name or not task.classes else f"{plain}_masked"
            yield f"{of}_loss", total / count
            yield f"{of}_accuracy", right / count
