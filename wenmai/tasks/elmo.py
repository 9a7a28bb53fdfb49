"""ELMo: a forward and a backward language model over the same words, trained on running text."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from wenmai.config.recipe import Recipe
from wenmai.core.errors import SettingError
from wenmai.core.seeding import mixed_seed
from wenmai.data.running_text import LanguageData, Stream
from wenmai.inference.elmo_model import ElmoModel, build
from wenmai.models.elmo import Elmo, ElmoState
from wenmai.nn.softmax import AdaptiveSoftmax, Softmax
from wenmai.objectives.language import next_token_loss
from wenmai.objectives.loss import Loss, Losses, evaluated
from wenmai.objectives.sampled import Drawn, log_uniform_draw, sampled_loss
from wenmai.tasks.asked import Asked, asked_tokens
from wenmai.tasks.language import LanguageJob, Segment
from wenmai.tasks.neural import NeuralTask, take_over
from wenmai.tasks.settings import BIDIRECTIONAL, BidirectionalConfig
from wenmai.tasks.sources.running_text import RunningText

__all__ = ["ElmoJob", "ElmoTask"]

_KINDS = ("whitespace", "words", "chinese", "characters")
_SOFTMAX = ("output.", "classes.")  # beginnings of the names of its parameters
_DRAW = 0xE130  # keeps the draws of words apart from others of the seed


class ElmoTask(NeuralTask):
    """ELMo. Each process reads its share of the rows."""

    previewed = True
    source = RunningText()
    replicated = True
    sections: Mapping[str, type] = BIDIRECTIONAL
    verbs = ("score", "embed")

    def load(self, folder: Path) -> ElmoModel:
        """Reads a finished model."""
        return ElmoModel.load(folder)

    def adopt(self, imported: Elmo, recipe: Recipe) -> ElmoModel:
        """Turns an imported network, which predicts nothing, into a model."""
        return ElmoModel(imported, None)

    def make(self, recipe: Recipe, data: LanguageData, base: ElmoModel | None) -> ElmoModel:
        """Makes a model for a tokenizer."""
        kind = recipe.sections["tokenizer"].kind
        if base is None and recipe.sections["tokenizer"].file is None and kind not in _KINDS:
            raise SettingError(
                f"elmo reads words by their characters, not pieces of words; kind={kind}: expected {', '.join(_KINDS)}"
            )
        return ElmoModel(build(self.model, recipe.sections["model"], data.tokenizer), data.tokenizer)

    def initialise(self, model: ElmoModel, data: LanguageData, base: ElmoModel) -> None:
        """Copies all parameters of ``base`` into a new model, by name; an imported one has no softmax.

        Raises:
            SettingError: if any other parameter is missing, is too many, or has another size.
        """
        model.mix = base.mix
        if base.module.vocab_size is None:
            take_over(model.module, base.module, fresh=_SOFTMAX)
            return
        more = (model.module.vocab_size or 0) - base.module.vocab_size
        take_over(model.module, base.module, data.grown[:more])

    def job(self, recipe: Recipe, data: LanguageData, model: ElmoModel) -> "ElmoJob":
        """Returns a training."""
        return ElmoJob(recipe, data, model)


class ElmoJob(LanguageJob):
    """Training an ELMo.

    The backward model reads the mirror image of what the forward model reads: the text from its end to its beginning,
    in as many parallel rows. So its state, too, goes on from segment to segment.
    """

    loss_weights: Mapping[str, float] = {"forward": 0.5, "backward": 0.5}
    objective: BidirectionalConfig

    def __init__(self, recipe: Recipe, data: LanguageData, model: ElmoModel) -> None:
        found: Any = model  # it has what the job of a language model needs of one
        super().__init__(recipe, data, found)
        self._elmo: Elmo = model.module
        self._lexicon = model.lexicon
        self._end, self._unknown = data.tokenizer.eos_id, data.tokenizer.unk_id
        sampled, size = self.objective.sampled, self._predicted
        if sampled is not None and model.config.cutoffs:
            raise SettingError(f"sampled={sampled} and cutoffs are two ways to spare work; leave one of them out")
        if sampled is not None and sampled >= size:
            raise SettingError(f"sampled={sampled} of {size} words that are predicted spares no work; leave it out")

    @property
    def objective_name(self) -> str:  # type: ignore[override]  # it depends on the settings
        """The losses, for people."""
        sampled = self.objective.sampled
        among = "" if sampled is None else f" among {sampled:,} drawn words"
        return f"mean of the cross-entropies of the next and of the previous word{among}"

    @property
    def _predicted(self) -> int:
        return self._elmo.vocab_size or 0

    def asked(self, count: int) -> list[list[Asked]]:
        """The first rows of the first segments, and what is read there from the end of the text."""
        stream, token = self._data.train_stream, self._data.tokenizer.token
        for batch, group in zip(self.plan(0), found := super().asked(count), strict=False):
            mirrored = len(stream) - int(batch.starts[0]) - batch.length
            read = [token(one) for one in stream.read(mirrored, batch.length)[::-1].tolist()]
            group.append(Asked("previous token", asked_tokens(read[:-1], read[1:])))
        return found

    def counts(self, batch: Segment) -> dict[str, int]:
        """As many words in either direction."""
        return dict.fromkeys(self.loss_weights, len(batch.starts) * batch.length)

    def loss(self, module: nn.Module, batch: Segment, step: int) -> Losses:  # type: ignore[override]  # two parts
        """Cross-entropies of both directions."""
        drawn = None
        if self.objective.sampled is not None:
            random = np.random.default_rng(mixed_seed(self.config.seed, step, _DRAW))
            drawn = log_uniform_draw(self._predicted, self.objective.sampled, random)
        return self._losses(module, self._data.train_stream, batch, self._before(batch), drawn)

    def evaluate(self) -> dict[str, float]:
        """Losses and perplexities of both directions on the validation text, and the forward bits per character."""
        stream = self._data.valid_stream
        losses = (
            self._losses(self.module, stream, batch, state, None) for batch, state in self._validation_plan(stream)
        )
        metrics = evaluated(losses, self.loss_weights)
        for name in self.loss_weights:
            metrics[f"{name}_perplexity"] = math.exp(min(700.0, metrics[f"{name}_loss"]))
        if stream.characters is not None:
            metrics["bits_per_character"] = metrics["forward_loss"] * len(stream) / math.log(2) / stream.characters
        return metrics

    def _losses(
        self,
        module: nn.Module,
        stream: Stream,
        batch: Segment,
        state: Any,  # noqa: ANN401  an ElmoState
        drawn: Drawn | None,
    ) -> dict[str, Loss]:
        """The losses of a segment; the full softmax where no words were drawn."""
        device, length = self._elmo.device, batch.length
        state = self._elmo.start(len(batch.starts)) if state is None else state
        assert isinstance(state, ElmoState)
        mirrored = len(stream) - batch.starts - length
        ahead = np.stack([stream.read(int(start), length) for start in batch.starts])  # (B, 1 + T)
        back = np.stack([stream.read(int(start), length)[::-1] for start in mirrored])
        behind = np.where(back[:, :-1] == self._end, self._lexicon.end, back[:, :-1])
        characters, places = self._lexicon.distinct(ahead[:, :-1], behind)
        fed = [torch.from_numpy(one).to(device) for one in (characters, *places)]
        both = module(*fed, state)
        output = self._elmo.output
        assert output is not None
        found = {}
        for name, hidden, read in zip(self.loss_weights, both, (ahead, back), strict=True):
            wanted = torch.from_numpy(read[:, 1:].copy()).to(device).long().flatten()
            wanted = wanted.masked_fill(wanted >= self._predicted, self._unknown)
            found[name] = _loss(output, hidden.flatten(0, 1), wanted, drawn)
        return found


def _loss(output: Softmax | AdaptiveSoftmax, hidden: torch.Tensor, wanted: torch.Tensor, drawn: Drawn | None) -> Loss:
    if drawn is None:
        return next_token_loss(output, hidden, wanted)
    assert isinstance(output, Softmax)
    return sampled_loss(output, hidden, wanted, drawn)
