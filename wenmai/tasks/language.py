"""Language models: networks that predict the next token, trained on running text."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wenmai.config.recipe import Recipe
from wenmai.core.errors import SettingError
from wenmai.core.seeding import mixed_seed
from wenmai.data.running_text import LanguageData, Stream
from wenmai.formats.huggingface import Pretrained
from wenmai.inference.language_model import Context, LanguageModel, build
from wenmai.nn.language import LanguageState, NextToken
from wenmai.objectives.language import next_token_loss
from wenmai.objectives.loss import Loss
from wenmai.tasks.asked import Asked, asked_tokens
from wenmai.tasks.neural import NeuralJob, NeuralTask
from wenmai.tasks.settings import LANGUAGE, LanguageConfig
from wenmai.tasks.sources.running_text import RunningText
from wenmai.training.strategy import Strategy

__all__ = ["LanguageConfig", "LanguageJob", "LanguageTask", "Segment"]

_SEGMENT = 128  # targets, for a model of unlimited length
_VALIDATION_ROWS = 8


class Segment(NamedTuple):
    """Targets of a batch: ``length`` tokens from each of ``starts``; ``first``: nothing was read before them."""

    starts: npt.NDArray[np.int64]
    length: int
    first: bool = False


class LanguageTask(NeuralTask):
    """Language models. Of a stateful one each process reads its share of the rows."""

    previewed = True
    source = RunningText()
    replicated = True
    sections: Mapping[str, type] = LANGUAGE
    verbs: tuple[str, ...] = ("score", "next", "generate")

    def __init__(self, model: type[NextToken]) -> None:
        super().__init__(model)
        if model.layered:
            self.verbs = (*self.verbs, "embed")

    def load(self, folder: Path) -> LanguageModel:
        """Reads a finished model."""
        return LanguageModel.load(folder)

    def adopt(self, imported: Pretrained, recipe: Recipe) -> LanguageModel:
        """Turns an imported network into a language model."""
        return LanguageModel(imported.module, imported.tokenizer, context=imported.context)

    def make(self, recipe: Recipe, data: LanguageData, base: LanguageModel | None) -> LanguageModel:
        """Makes a model for a tokenizer."""
        size = None if base is None or data.grown else base.module.vocab_size
        module = build(self.model, recipe.sections["model"], data.tokenizer, vocab_size=size)
        context: Context = "fresh" if recipe.sections["objective"].boundaries == "masked" else "carried"
        return LanguageModel(module, data.tokenizer, context=context)

    def job(self, recipe: Recipe, data: LanguageData, model: LanguageModel) -> "LanguageJob":
        """Returns a training."""
        return LanguageJob(recipe, data, model)


class LanguageJob(NeuralJob):
    """Training a language model.

    A stateful model reads the text in parallel rows, segment after segment; any other reads segments in random order,
    cut at other places in each epoch. Several processes share the rows out, equally many to each; a plan then has, of
    each segment, a batch for each process in turn.
    """

    objective_name = "cross-entropy of the next token"

    def __init__(self, recipe: Recipe, data: LanguageData, model: LanguageModel) -> None:
        super().__init__(recipe, model)
        self.objective: LanguageConfig = recipe.sections["objective"]
        self.language_model = model
        self._data = data
        self._state: LanguageState | None = None
        self._stateful = model.module.stateful and self.objective.boundaries == "joined"
        if self.objective.boundaries == "masked" and not model.module.masks_documents:
            raise SettingError(f"{model.kind} reads one stream and cannot keep lines apart; use boundaries=joined")
        longest, asked = model.module.max_length, self.objective.segment_length
        if longest is not None and (asked or 0) > longest:
            raise SettingError(
                f"segment_length={asked} is more than max_length={longest}, the longest text of {model.kind}"
            )
        self._length = min(asked or longest or _SEGMENT, len(data.train_stream))
        self._rows = max(1, min(self.config.batch_tokens // self._length, len(data.train_stream) // self._length))

    def share(self, strategy: Strategy) -> None:
        """Shares out the rows: each process has those of ``batch_tokens``, or fewer of a short text."""
        super().share(strategy)
        if self._stateful:
            self._rows = min(self._rows, len(self._data.train_stream) // self._length // strategy.size)
        if not self._rows:
            raise SettingError(
                f"{len(self._data.train_stream):,} tokens are too few for {strategy.size} processes with at least "
                f"one row of segment_length={self._length} each; start fewer"
            )

    def asked(self, count: int) -> list[list[Asked]]:
        """The first rows of the first segments: after each token the next one."""
        stream, token = self._data.train_stream, self._data.tokenizer.token
        found = []
        for batch in self.plan(0)[:count]:
            read = [token(one) for one in stream.read(int(batch.starts[0]), batch.length).tolist()]
            found.append([Asked("next token", asked_tokens(read[:-1], read[1:]))])
        return found

    # --- what the loop calls ------------------------------------------------------------------------------------

    def plan(self, epoch: int) -> Sequence[Segment]:
        """The segments of an epoch."""
        size, length = len(self._data.train_stream), self._length
        if self._stateful:
            processes = self.strategy.size
            row = size // (self._rows * processes)  # targets of a row; a few at the end of the text are left out
            shares = (np.arange(self._rows * processes) * row).reshape(processes, -1)
            return [
                Segment(firsts + place, min(length, row - place), first=place == 0)
                for place in range(0, row, length)
                for firsts in shares
            ]
        random = np.random.default_rng(mixed_seed(self.config.seed, epoch))
        starts = np.arange(random.integers(0, min(length, size - length + 1)), size - length + 1, length)
        random.shuffle(starts)
        return [Segment(starts[place : place + self._rows], length) for place in range(0, len(starts), self._rows)]

    def loss(self, module: nn.Module, batch: Segment, step: int) -> Loss:
        """Cross-entropy of the targets of a batch."""
        return self._next_token_loss(module, self._data.train_stream, batch, self._before(batch))

    def _before(self, batch: Segment) -> LanguageState | None:
        """Returns the state of the rows before a batch, if they have one."""
        if self._stateful and (batch.first or self._state is None):
            self._state = self.language_model.module.start(len(batch.starts))
        return self._state

    def evaluate(self) -> dict[str, float]:
        """Loss, perplexity by token and bits per character on the validation text."""
        stream = self._data.valid_stream
        total, count = 0.0, 0
        for batch, state in self._validation_plan(stream):
            loss = self._next_token_loss(self.module, stream, batch, state)
            total, count = total + float(loss.nll), count + loss.targets
        metrics = {"loss": total / count, "perplexity": math.exp(min(700.0, total / count))}
        if stream.characters is not None:
            metrics["bits_per_character"] = total / math.log(2) / stream.characters
        return metrics

    def _validation_plan(self, stream: Stream) -> Iterator[tuple[Segment, LanguageState | None]]:
        """Every token once, with the state before it: parallel rows, and the rest as a row of its own."""
        state = None
        for batch in self._validation_segments(stream):
            if self._stateful and (state is None or state.batch_size != len(batch.starts)):
                state = self.language_model.module.start(len(batch.starts))
            yield batch, state

    def _validation_segments(self, stream: Stream) -> Iterator[Segment]:
        size, length = len(stream), self._length
        rows = max(1, min(_VALIDATION_ROWS, size // length))
        row = size // rows if self._stateful else size // (rows * length) * length
        firsts = np.arange(rows) * row
        for place in range(0, row, length):
            yield Segment(firsts + place, min(length, row - place))
        for place in range(rows * row, size, length):
            yield Segment(np.array([place]), min(length, size - place))

    def _next_token_loss(self, module: nn.Module, stream: Stream, batch: Segment, state: LanguageState | None) -> Loss:
        device = self.language_model.device
        rows = np.stack([stream.read(int(start), batch.length) for start in batch.starts])
        tokens = torch.from_numpy(rows).to(device).long()  # (B, 1 + T)
        fed, wanted = tokens[:, :-1], tokens[:, 1:].flatten()
        documents = None
        if self.objective.boundaries == "masked":
            documents = (fed == stream.end).cumsum(1)  # the end of a line is where the next one begins
        hidden: Tensor = module(fed, state, documents=documents)
        return next_token_loss(self.language_model.module.output, hidden.flatten(0, 1), wanted)

    def carried(self) -> dict[str, Tensor]:
        """The state of the rows; of several processes ``RANK/NAME``."""
        tensors = {} if self._state is None else self._state.tensors()
        if self.strategy.size == 1:
            return tensors
        return {
            f"{rank}/{name}": tensor
            for name in sorted(tensors)
            for rank, tensor in enumerate(self.strategy.gather(tensors[name]))
        }

    def carry(self, tensors: Mapping[str, Tensor]) -> None:
        """Restores the state of the rows of this process."""
        if not tensors:
            return
        shares: dict[str, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            rank, _, own = name.rpartition("/")
            shares.setdefault(rank or "0", {})[own] = tensor.to(self.language_model.device)
        if len(shares) != self.strategy.size:
            raise SettingError(
                f"the checkpoint holds the states of {len(shares)} processes, which each read some rows of the text; "
                f"resume with as many, not {self.strategy.size}"
            )
        self._state = self.language_model.module.start(self._rows)
        self._state.load(shares[str(self.strategy.rank)])

    # --- what a run calls ---------------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """The sizes of data, vocabulary and model, and the effort."""
        sizes = (
            f"{len(self._data.train_stream):,} tokens, {len(self._data.valid_stream):,} to validate on, vocabulary "
            f"{self._data.tokenizer.vocab_size:,}, {self.parameters:,} parameters on {self.language_model.device}"
        )
        stats = asdict(self._data.text.stats)
        return {"sizes": sizes, **self.effort, "threads": self.threads, "stats": stats}

    def summary(self) -> dict[str, Any]:
        """Speed, loss and sizes."""
        found = super().summary()
        words = found["tokens_per_second"] * self._data.text.stats.words_per_token
        size = self._predicted
        objective = f"{self.objective_name}, {size:,} tokens"  # losses over different tokens cannot be compared
        sizes = {"words_per_second": words, "vocabulary": self._data.tokenizer.vocab_size}
        return {**found, **sizes, "objective": objective}

    @property
    def _predicted(self) -> int:
        """Tokens that are told apart."""
        return self._data.tokenizer.vocab_size

    def changes(self, base: LanguageModel | None) -> tuple[dict[str, Any], list[str]]:
        """Notes how many tokens are unknown."""
        unknown = self._data.text.stats.unknown
        fraction = unknown / max(1, len(self._data.text))
        return {}, [f"{unknown:,} tokens of the text ({fraction:.1%}) are unknown to the tokenizer"] if unknown else []
