"""Translation: a model that turns one sequence into another, trained on pairs."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from wenmai.config.recipe import Recipe
from wenmai.core.errors import SettingError
from wenmai.data.batches import pad, plan_batches
from wenmai.data.encoded_pairs import EncodedPairs
from wenmai.data.parallel import TranslationData
from wenmai.inference.translator import Translator, build
from wenmai.nn.encoder_decoder import EncoderDecoder
from wenmai.nn.softmax import Part, chosen_log_probs
from wenmai.nn.stepwise_attention import Choice
from wenmai.objectives.language import cross_entropy
from wenmai.objectives.loss import Loss, evaluated
from wenmai.objectives.score_function import BASELINE_DECAY, score_function
from wenmai.tasks.neural import NeuralJob, NeuralTask
from wenmai.tasks.settings import TRANSLATION, TranslationConfig
from wenmai.tasks.sources.pairs import Pairs
from wenmai.text.tokenizer import Tokenizer

__all__ = ["TranslationConfig", "TranslationJob", "TranslationTask"]


class TranslationTask(NeuralTask):
    """Translation: models that turn one sequence into another."""

    source = Pairs()
    sections: Mapping[str, type] = TRANSLATION
    verbs = ("translate",)
    replicated = True

    def check(self, recipe: Recipe) -> None:
        """Makes sure that the decoder can read what it predicts, if that is asked for.

        Raises:
            SettingError: for a setting that has no effect on the model.
        """
        if recipe.sections["objective"].scheduled_sampling != "none" and not self.model.samples_targets:
            raise SettingError(
                f"scheduled_sampling needs a decoder that reads token by token; {self.model.kind} reads all at once; "
                "leave it out"
            )

    def load(self, folder: Path) -> Translator:
        """Reads a finished model."""
        return Translator.load(folder)

    def make(self, recipe: Recipe, data: TranslationData, base: Translator | None) -> Translator:
        """Makes a model for two tokenizers."""
        module = build(self.model, recipe.sections["model"], source=data.source, target=data.target)
        return Translator(module, data.source, data.target)

    def job(self, recipe: Recipe, data: TranslationData, model: Translator) -> "TranslationJob":
        """Returns a training."""
        return TranslationJob(recipe, data, model)


class TranslationJob(NeuralJob):
    """Training a translator."""

    objective_name = "cross-entropy of target tokens"

    def __init__(self, recipe: Recipe, data: TranslationData, translator: Translator) -> None:
        super().__init__(recipe, translator)
        self.objective: TranslationConfig = recipe.sections["objective"]
        self.translator = translator
        self._data = data
        self._numbers = data.train_numbers
        self._lengths = data.train.lengths[self._numbers] + 1  # and EOS, or BOS
        self._baseline = -math.log(data.target.vocab_size)  # log-probability of a target before training

    @property
    def module(self) -> EncoderDecoder:
        """The network."""
        return self.translator.module

    # --- what the loop calls ------------------------------------------------------------------------------------

    def plan(self, epoch: int) -> Sequence[Any]:
        """The batches of an epoch."""
        config = self.config
        plan = plan_batches(self._lengths, max_tokens=config.batch_tokens, seed=config.seed, epoch=epoch)
        return [self._numbers[batch] for batch in plan]

    def loss(self, module: nn.Module, batch: Any, step: int) -> Loss:  # noqa: ANN401  numbers of pairs
        """Cross-entropy of the targets of a batch, teacher forced."""
        source, mask, fed, wanted, real = self._tensors(self._data.train, batch)
        fraction, choices = self.objective.teacher_share(step), list[Choice]()
        options = {} if fraction == 1.0 else {"teacher_share": fraction}
        drawing = {"choices": choices} if self.module.samples_attention else {}
        hidden = module(source, mask, fed, **options, **drawing)
        output = Part(hidden[real], self.module.output_weight, self.module.output_bias, wanted[real])
        loss = cross_entropy(*output, label_smoothing=self.objective.label_smoothing)
        if not choices:
            return loss
        with torch.no_grad():
            log_probs = torch.zeros(real.shape, device=real.device)
            log_probs[real] = chosen_log_probs(output)
        drawn, entropies = (torch.cat(parts, 1) for parts in zip(*choices, strict=True))
        term = score_function(drawn, entropies, log_probs, real, baseline=self._baseline)
        return loss._replace(total=loss.total + term)

    def evaluate(self) -> dict[str, float]:
        """Loss (without smoothing) and perplexity by token on the validation pairs, and BLEU if asked for."""
        pairs, numbers = self._data.validated
        plan = plan_batches(pairs.lengths[numbers] + 1, max_tokens=self.config.batch_tokens, seed=0, epoch=0)

        def loss(batch: Any) -> Loss:  # noqa: ANN401
            source, mask, fed, wanted, real = self._tensors(pairs, numbers[batch])
            hidden = self.module(source, mask, fed)
            return cross_entropy(hidden[real], self.module.output_weight, self.module.output_bias, wanted[real])

        metrics = evaluated(map(loss, plan), self.loss_weights)
        metrics["perplexity"] = math.exp(min(700.0, metrics["loss"]))
        if self.objective.validate_bleu:
            from wenmai.measures.translation import measure_translation

            sources = [_text(self._data.source, pairs.source(number)) for number in numbers]
            references = [_text(self._data.target, pairs.target(number)) for number in numbers]
            made = self.translator.translate(sources, beam_size=1)
            metrics["bleu"] = measure_translation(sources, made, references, resamples=1).bleu
        return metrics

    def _tensors(self, pairs: EncodedPairs, batch: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # noqa: ANN401
        first, second = self._data.source, self._data.target
        source, mask = pad([np.append(pairs.source(number), first.eos_id) for number in batch], first.pad_id)
        target, real = pad([np.append(pairs.target(number), second.eos_id) for number in batch], second.pad_id)
        fed = np.concatenate([np.full((len(target), 1), second.bos_id), target[:, :-1]], axis=1)
        device = self.translator.device
        tensors = [torch.from_numpy(array).to(device) for array in (source, mask, fed, target, real)]
        return tensors[0], tensors[1], tensors[2], tensors[3], tensors[4]

    def note(self, means: Mapping[str, float | None]) -> None:
        """Moves the baseline of sampled choices towards the mean of an update."""
        if self.module.samples_attention:
            mean = means["loss"] or 0.0
            self._baseline = BASELINE_DECAY * self._baseline - (1 - BASELINE_DECAY) * mean

    def carried(self) -> dict[str, Tensor]:
        """The baseline of sampled choices."""
        return {"baseline": torch.tensor(self._baseline, dtype=torch.float64)} if self.module.samples_attention else {}

    def carry(self, tensors: Mapping[str, Tensor]) -> None:
        """Restores the baseline."""
        if tensors:
            self._baseline = float(tensors["baseline"])

    # --- what a run calls ---------------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """The sizes of data, vocabulary and model, and the effort."""
        sizes = (
            f"{len(self._numbers):,} pairs, {len(self._data.validated[1]):,} to validate on, vocabulary "
            f"{self._data.target.vocab_size:,}, {self.parameters:,} parameters on {self.translator.device}"
        )
        return {
            "sizes": sizes,
            **self.effort,
            "threads": self.threads,
            "stats": asdict(self._data.train.stats),
        }

    def warnings(self) -> list[str]:
        """Says how many of the given pairs to validate on were left out."""
        stats = self._data.validated[0].stats
        if self._data.valid is None or not (stats.too_long or stats.empty):
            return []
        return [
            f"left out of the pairs to validate on: {stats.too_long:,} too long, {stats.empty:,} with an empty side"
        ]

    def summary(self) -> dict[str, Any]:
        """Speed, loss and sizes."""
        return {**super().summary(), "vocabulary": self._data.target.vocab_size}

    def changes(self, base: Translator | None) -> tuple[dict[str, Any], list[str]]:
        """Notes how many tokens are unknown."""
        stats = self._data.train.stats
        unknown = stats.source_unknown + stats.target_unknown
        notes = [f"{unknown:,} tokens of the training pairs are unknown to the tokenizer"] if unknown else []
        return {}, notes


def _text(tokenizer: Tokenizer, ids: Iterable[int]) -> str:
    """Returns the text of some tokens, the unknown ones as a character that is unknown, and one word, again."""
    return tokenizer.decode(ids).replace(tokenizer.token(tokenizer.unk_id), "\u2612")
