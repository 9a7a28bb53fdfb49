"""A fine-tuned model: an encoder, a head on its states, and how texts are put to it.

Each task is one subclass of :class:`FineTuned`, which says what a text, a pair of texts, a sentence, a question or a
choice looks like as rows of the encoder, what the head makes of their states, and what the answer is. All else is the
same for all of them: the encoder, the mix of its layers, batches, files.

Shapes: R rows, K places of a row, J layers that are looked at, M size of a state, C outputs of the head.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wenmai.core.errors import FormatError, SettingError, is_ordered, require_list
from wenmai.core.showing import Shown
from wenmai.core.task_names import TaskName
from wenmai.core.tensors import require_numbers
from wenmai.inference.backbones import Backbone, Fed
from wenmai.inference.families import stored_backbone
from wenmai.inference.finetuned_network import HeadShape, Item, Network, Outputs, fitted
from wenmai.inference.framing import grouped, tokens_at_once
from wenmai.inference.reading_config import TuneReadingConfig
from wenmai.models.folder import CONFIG, checked, read_fields, read_settings, write_fields
from wenmai.nn.lora import add_lora
from wenmai.nn.recomputing import in_parts
from wenmai.objectives.loss import Loss
from wenmai.training.tensors import loaded_model, save_model

if TYPE_CHECKING:
    from wenmai.models.bert import Bert

__all__ = ["SHORTEST", "FineTuned", "are_texts", "parts_of"]

SHORTEST = 8  # tokens that an encoder must read at once
_log = logging.getLogger(__name__)

Floats = npt.NDArray[np.float32]


class FineTuned(Shown, ABC):
    """A model that was trained for a task.

    Args:
        module: The network, as :meth:`network` makes it.
        shape: What it has besides the encoder.
        reading: How it reads texts, with nothing left to be chosen.
        labels: The labels, in the order of the outputs; none where the task has none.
        numbers: What else it learnt, by name.

    Attributes:
        task: Its name.
        kind: The system that trains it.
        verbs: What it can do.
        best_by: The metric of :meth:`measured` that says which of its states is the best.
        objective: The loss, for people.
        takes: The settings of :class:`TuneReadingConfig` and of the head that have an effect.
        over_tokens: Whether the head takes states of tokens, not vectors of texts.
    """

    task: ClassVar[TaskName]
    kind: ClassVar[str]
    verbs: ClassVar[tuple[str, ...]]
    best_by: str
    objective: ClassVar[str]
    takes: ClassVar[frozenset[str]]
    over_tokens: ClassVar[bool] = False

    def __init__(
        self,
        module: Network,
        shape: HeadShape,
        reading: TuneReadingConfig,
        labels: Sequence[str],
        numbers: Mapping[str, float] | None = None,
    ) -> None:
        self.module = module
        self.shape = shape
        self.reading = reading
        self.labels = list(labels)
        self.numbers = dict(numbers or {})
        self.cut = 0  # texts of the last call that were too long

    def _facts(self) -> dict[str, Any]:
        parameters = sum(parameter.numel() for parameter in self.module.parameters())
        facts = {"task": self.task, "encoder": self.backbone.module.kind, "parameters": parameters}
        return {**facts, "labels": len(self.labels), "device": str(self.device)}

    @property
    def backbone(self) -> Backbone:
        """The encoder."""
        return self.module.backbone

    @property
    def config(self) -> Any:  # noqa: ANN401  each architecture has its own
        """The settings of the encoder."""
        return self.module.encoder.config

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.module.parameters()).device

    @property
    def length(self) -> int:
        """Most tokens that are read at once."""
        longest = self.backbone.max_length
        return longest if self.reading.max_length is None else min(longest, self.reading.max_length)

    # --- what each task says ------------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def head(cls, size: int, shape: HeadShape, labels: Sequence[str]) -> nn.Module:
        """Makes the head for vectors of a size."""

    @abstractmethod
    def items(self, inputs: Sequence[Any]) -> list[Item]:
        """Puts inputs as rows; counts in :attr:`cut` those that were too long."""

    def cut_note(self, cut: int, examples: int, *, windows: bool | None = None) -> str:
        """What became of the examples that were too long; ``windows``: they lost nothing, as of a model of tokens."""
        windows = self.over_tokens if windows is None else windows
        what = "read in windows" if windows else f"cut (keep={self.reading.keep})"
        return (
            f"{cut:,} of {examples:,} examples are longer than the {self.length} tokens that the model reads, and "
            f"were {what}"
        )

    def read(self, inputs: Sequence[Any]) -> list[Item]:
        """Puts inputs as rows, as :meth:`items`; a warning is logged if much of them is left out, or not known."""
        found = self.items(inputs)
        if self.cut and not self.over_tokens:
            _log.warning("%s", self.cut_note(self.cut, len(inputs)))
        self.backbone.warn_of_unknown((row.tokens for item in found for row in item.rows), self.kind)
        return found

    @abstractmethod
    def logits(self, vectors: Tensor, filled: Tensor, sizes: Sequence[int]) -> Outputs:
        """Returns what the head makes of the vectors of rows.

        Args:
            vectors: (R, M), or (R, K, M) of places.
            filled: (R, K) which places there are; the first is that of the text.
            sizes: Rows of each item.
        """

    @abstractmethod
    def loss(self, outputs: Outputs, targets: Sequence[Any]) -> Loss:
        """Returns the loss of a batch of items."""

    @abstractmethod
    def split(self, outputs: Outputs) -> list[Floats]:
        """Returns the outputs of each item, without what fills up."""

    @abstractmethod
    def gold(self, example: Any) -> Any:  # noqa: ANN401  each task has its own
        """Returns what is asked of an example: its input."""

    @abstractmethod
    def targets(self, examples: Sequence[Any], items: Sequence[Item]) -> list[Any]:
        """Returns the target of each item.

        Raises:
            CorpusError: if an example has a label that the model does not know.
        """

    @property
    def tunes(self) -> bool:
        """Whether :meth:`tune` chooses something."""
        return False

    def tune(self, examples: Sequence[Any], items: Sequence[Item], outputs: Sequence[Floats]) -> None:
        """Chooses on validation data what is not learnt by gradients: by default nothing."""

    @abstractmethod
    def tallies(
        self, examples: Sequence[Any], items: Sequence[Item], outputs: Sequence[Floats]
    ) -> npt.NDArray[np.float64]:
        """Returns what each of N examples adds to the metrics, (N, S), from the outputs of its item."""

    @abstractmethod
    def metrics(self, tallies: npt.NDArray[np.float64]) -> dict[str, float]:
        """Returns the metrics of some rows of :meth:`tallies`; ``best_by`` is one of them, unless it cannot be told."""

    def count(self, targets: Sequence[Any]) -> int:
        """Returns how many decisions some targets are."""
        return len(targets)

    @classmethod
    def require(cls, examples: Sequence[Any]) -> None:
        """Makes sure that something can be learnt from examples to train on; by default any will do.

        Raises:
            CorpusError: if they have one label only.
        """

    @classmethod
    def compares(cls, example: Any) -> bool:  # noqa: ANN401
        """Whether an example has two texts that are compared."""
        return False

    def learn(self, examples: Sequence[Any]) -> None:
        """Notes what else is to be known of the examples to train on: by default nothing."""

    def weigh(self, examples: Sequence[Any]) -> None:
        """Makes rare labels count more, in a training."""
        raise NotImplementedError

    # --- making and files ---------------------------------------------------------------------------------------

    @classmethod
    def network(
        cls, backbone: Backbone, shape: HeadShape, reading: TuneReadingConfig, labels: Sequence[str]
    ) -> Network:
        """Makes the network around an encoder."""
        size = 4 * backbone.size if shape.compares else backbone.size
        network = Network(
            backbone, shape, cls.head(size, shape, labels), pooling=None if cls.over_tokens else reading.pooling
        )
        if shape.lora_rank:
            add_lora(
                network.encoder,
                rank=shape.lora_rank,
                alpha=shape.lora_alpha,
                dropout=shape.lora_dropout,
                targets=shape.lora_targets,
            )
            if network.pooling == "pooler":  # it belongs to the head
                network.encoder.get_submodule("pooler").requires_grad_(True)
        return network

    @classmethod
    def normal(cls, labels: Sequence[str]) -> Sequence[str]:
        """Returns labels as the data have them: as they are."""
        return labels

    @classmethod
    def same_task(cls, other: object) -> bool:
        """Whether another model has learned the same task."""
        return isinstance(other, cls)

    def differences(self, other: "FineTuned") -> list[str]:
        """Returns what the head of another model of the same task has, and this one has not, such as ``crf=true``."""
        found = [] if other.labels == self.labels else ["other labels"]
        for name in ("pooling", "both_orders"):
            if (value := getattr(other.reading, name)) != getattr(self.reading, name):
                found.append(f"{name}={str(value).lower()}")
        return found + self.shape.differences(other.shape)

    def take_head(self, other: "FineTuned") -> None:
        """Takes over such a head, and its mix of layers."""
        for new, old in ((self.module.head, other.module.head), (self.module.mix, other.module.mix)):
            if new is not None and old is not None:
                new.load_state_dict(old.state_dict())

    def save(self, folder: Path) -> None:
        """Writes ``config.json``, ``model.safetensors`` and the tokenizer."""
        write_fields(
            folder,
            kind=self.kind,
            encoder=self.backbone.facts(),
            head=asdict(self.shape),
            reading=asdict(self.reading),
            labels=self.labels,
            numbers=self.numbers,
        )
        save_model(self.module, folder)
        self.backbone.save(folder)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Reads what :meth:`save` wrote.

        Raises:
            FormatError: if a file is missing, damaged, of another task, or does not fit the others.
        """
        path, facts = folder / CONFIG, read_fields(folder, kind=cls.kind)
        shape = read_settings(path, HeadShape, facts.get("head"), "head")
        reading = read_settings(path, TuneReadingConfig, facts.get("reading"), "reading")
        try:
            labels = checked(list[str], facts.get("labels"))
            numbers = checked(dict[str, float], facts.get("numbers"))
        except SettingError as error:
            raise FormatError(f"{path}: is damaged: labels or numbers: {error}") from None
        named = cls.known <= numbers.keys() <= cls.known | cls.perhaps and all(map(np.isfinite, numbers.values()))
        if len(set(labels)) < len(labels) or bool(labels) != cls.labelled or not named:
            raise FormatError(f"{path}: is damaged: its labels or numbers are not those of a {cls.kind} model")
        stored = stored_backbone(folder, facts.get("encoder"))
        module = loaded_model(lambda: cls.network(stored.make(), shape, reading, labels), stored.config, folder)
        found = cls(module, shape, reading, labels, numbers)
        found.check(path)
        return found

    labelled: ClassVar[bool] = True  # whether the task has labels
    known: ClassVar[frozenset[str]] = frozenset()  # the names of its numbers
    perhaps: ClassVar[frozenset[str]] = frozenset()  # and of those that it may have

    def check(self, path: Path) -> None:
        """Makes sure that a model which was read can be used.

        Raises:
            FormatError: if its encoder reads too little, or it lacks a number.
        """
        if self.length < SHORTEST:
            raise FormatError(f"{path}: is damaged: the encoder reads {self.length} tokens, which is too little")
        if self.reading.pooling == "auto" or (self.reading.pooling == "pooler" and not self.backbone.has_pooler):
            raise FormatError(f"{path}: is damaged: pooling={self.reading.pooling} is nothing that the encoder has")
        layer = self.shape.layer
        if not -1 <= layer <= self.backbone.num_layers or (layer != -1 and self.reading.pooling == "pooler"):
            raise FormatError(f"{path}: is damaged: layer={layer} is nothing that the head can see")

    def published(self) -> "Bert":
        """Returns the same model as a BERT with the head of a task, a copy, to be written in other formats.

        Raises:
            SettingError: if a BERT with such a head computes something else.
        """
        from wenmai.inference.published import published  # which knows all tasks

        return published(self)

    # --- running ------------------------------------------------------------------------------------------------

    def batches(self, items: Sequence[Item]) -> Iterable[npt.NDArray[np.int64]]:
        """Yields batches of items of like lengths, the longest first."""
        sizes = np.array([len(item.rows) * item.width for item in items], np.int64)
        return grouped(sizes, max_tokens=tokens_at_once(self.device))

    def fed(self, items: Sequence[Item]) -> tuple[Fed, list[int]]:
        """Returns the rows of items as tensors, and how many each has."""
        return self.backbone.fed([row for item in items for row in item.rows]), [len(item.rows) for item in items]

    def encoded(self, fed: Fed, module: nn.Module, most: int) -> tuple[Tensor, Tensor | None]:
        """Returns what the network says, see :meth:`Network.forward`; some rows at a time, as a text may have many.

        Args:
            fed: The rows.
            module: The network, perhaps compiled: for rows that are read at once.
            most: How many tokens are.
        """
        parts = [*fed.parts(most)]
        vectors, states = zip(*in_parts(module if len(parts) == 1 else self.module, parts), strict=True)
        return torch.cat(vectors), None if states[0] is None else torch.cat(states)

    def outputs(self, items: Sequence[Item]) -> list[Floats]:
        """Returns the outputs of each item.

        Raises:
            FormatError: if one is not a number: the model is damaged.
        """
        found: list[Floats] = [np.empty(0, np.float32)] * len(items)
        if self.module.training:
            self.module.eval()
        with torch.inference_mode():
            for numbers in self.batches(items) if items else ():
                fed, sizes = self.fed([items[number] for number in numbers])
                vectors, _ = self.encoded(fed, self.module, tokens_at_once(self.device))
                outputs = self.logits(vectors, fed.filled, sizes)
                for number, output in zip(numbers, self.split(outputs), strict=True):
                    require_numbers(not np.isnan(output).any())
                    found[number] = output
        return found

    def embed(self, texts: Iterable[str]) -> Floats:
        """Returns the vectors of texts that the head sees, (N, M) float32; of models of tokens the means of states.

        Raises:
            SettingError: if ``texts`` is one string.
        """
        require_list(texts, "embed")
        backbone, room = self.backbone, self.backbone.room(pair=False) - (self.backbone.max_length - self.length)
        given = backbone.ids(list(texts))
        self.cut = sum(len(ids) > room for ids in given)
        if self.cut:
            _log.warning("%s", self.cut_note(self.cut, len(given), windows=False))
        rows = [backbone.framed(fitted([ids], room, self.reading.keep)[0]) for ids in given]
        found = np.zeros((len(rows), backbone.size), np.float32)
        self.module.eval()
        kept, self.module.pooling = self.module.pooling, "mean" if self.over_tokens else self.module.pooling
        try:
            items = [Item((row,)) for row in rows]
            with torch.inference_mode():
                for numbers in self.batches(items) if items else ():
                    vectors, _ = self.module(backbone.fed([rows[number] for number in numbers]))
                    found[numbers] = vectors.float().cpu().numpy()
        finally:
            self.module.pooling = kept
        require_numbers(not np.isnan(found).any())
        return found


def parts_of(given: object) -> tuple[Any, ...]:
    """Returns the parts of an input such as (question, text); none of one that has no parts in an order."""
    return tuple(given) if isinstance(given, Collection) and is_ordered(given) else ()


def are_texts(given: object) -> bool:
    """Whether something is texts in an order, and no text."""
    return isinstance(given, Collection) and is_ordered(given) and all(isinstance(one, str) for one in given)
