"""Translation: a model that turns one sequence into another, trained on pairs."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import torch
from annotated_types import Ge, Le, Lt
from torch import Tensor, nn
from typing_extensions import Doc

from wenmai.config.recipe import Recipe
from wenmai.core.errors import SettingError
from wenmai.data.batches import pad, plan_batches
from wenmai.data.encoded import EncodedPairs
from wenmai.data.pairs import PairsConfig, read_pairs
from wenmai.models.seq2seq import Seq2SeqConfig
from wenmai.models.transformer import TransformerConfig
from wenmai.nn.encoder_decoder import EncoderDecoder
from wenmai.objectives.language import Loss, cross_entropy
from wenmai.tasks.neural import NeuralTask, refuse_other_tokenizer, take_over
from wenmai.tasks.parallel import TranslationData, read_translation_data
from wenmai.tasks.protocol import ReadProgress
from wenmai.tasks.translator import Translator, build
from wenmai.text.pieces import JointTokenizerConfig
from wenmai.training.distributed import Ranks
from wenmai.training.loop import choose_device
from wenmai.training.settings import LoopConfig
from wenmai.training.tensorboard import require_tensorboard

__all__ = ["Seq2SeqTask", "TransformerTask", "TranslationConfig"]

_SAMPLING_STEPS, _SAMPLING_FLOOR = 10_000, 0.25
_SUGGESTED: dict[str, dict[str, Any]] = {  # settings that fit a set, where the user names none
    "builtin:numerals": {
        "data.valid": "builtin:numerals-valid",
        "tokenizer.vocab_size": 150,
        "model.hidden_size": 128,
        "model.num_layers": 2,
        "model.ffn_size": 512,
        "model.dropout": 0.0,
        "model.norm": "pre",
        "objective.label_smoothing": 0.05,
        "train.epochs": 9,
        "train.batch_tokens": 2048,
        "train.schedule": "cosine",
        "train.learning_rate": 0.002,
        "train.warmup": 200,
        "train.clip": 1.0,
    }
}


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslationConfig:
    """What is minimised, and what is looked at meanwhile.

    Raises:
        SettingError: if a setting would have no effect.
    """

    label_smoothing: Annotated[float, Ge(0), Lt(1), Doc("share of the probability spread over all tokens")] = 0.1
    scheduled_sampling: Annotated[
        Literal["none", "linear", "exponential", "sigmoid"],
        Doc("seq2seq: how the share of gold tokens fed to the decoder falls (Bengio et al. 2015); none: always gold"),
    ] = "none"
    sampling_steps: Annotated[int, Ge(1), Doc("updates over which that share falls; k of the sigmoid")] = (
        _SAMPLING_STEPS
    )
    sampling_floor: Annotated[float, Ge(0), Le(1), Doc("that share never falls below this")] = _SAMPLING_FLOOR
    validate_bleu: Annotated[bool, Doc("translate the validation pairs greedily at each look, and report BLEU")] = False

    def __post_init__(self) -> None:
        usual = (self.sampling_steps, self.sampling_floor) == (_SAMPLING_STEPS, _SAMPLING_FLOOR)
        if self.scheduled_sampling == "none" and not usual:
            raise SettingError("sampling_steps and sampling_floor have no effect with scheduled_sampling=none")

    def teacher_share(self, step: int) -> float:
        """Returns the share ε of gold tokens at an update from 0 (Bengio et al. 2015, section 2.4)."""
        if self.scheduled_sampling == "none":
            return 1.0
        k = self.sampling_steps
        if self.scheduled_sampling == "linear":
            share = 1 - step / k
        elif self.scheduled_sampling == "exponential":
            share = math.exp(-step / k)
        else:
            share = k / (k + math.exp(min(700.0, step / k)))
        return max(self.sampling_floor, share)


class _TranslationTask(NeuralTask):
    """Training a translator; the two classes below say of which architecture."""

    kind: ClassVar[str]
    sections: ClassVar[dict[str, type]]
    verbs: ClassVar[tuple[str, ...]] = ("translate", "export")
    objective_name = "cross-entropy of target tokens"

    def __init__(self, recipe: Recipe, data: TranslationData, translator: Translator) -> None:
        super().__init__(recipe, translator)
        self.objective: TranslationConfig = recipe.sections["objective"]
        self.translator = translator
        self._data = data
        self._numbers = data.train_numbers
        self._lengths = data.train.lengths[self._numbers] + 1  # the end, or the begin token

    @property
    def module(self) -> EncoderDecoder:
        """The network."""
        return self.translator.module

    # --- data ---------------------------------------------------------------------------------------------------

    @classmethod
    def open(cls, corpus: Any) -> tuple["_Source", dict[str, Any], tuple[str, ...]]:  # noqa: ANN401
        """Opens pairs: a TSV file, ``SOURCE,TARGET`` files, JSON lines, a name of the catalogue, or pairs in memory."""
        if isinstance(corpus, str | Path):
            corpus = [corpus]
        if isinstance(corpus, Iterator):
            corpus = list(corpus)  # it cannot start again
        named = isinstance(corpus, list | tuple) and all(isinstance(part, str | Path) for part in corpus)
        spec = ",".join(str(part) for part in corpus) if named and corpus else corpus
        pairs = read_pairs(spec)
        known = {f"{section}.{field.name}" for section, kind in cls.sections.items() for field in fields(kind)}
        hints = {name: value for name, value in _SUGGESTED.get(str(spec), {}).items() if name in known}
        return _Source(spec, repeatable=bool(pairs.sources)), hints, (",".join(pairs.sources),) if pairs.sources else ()

    @classmethod
    def with_absolute_paths(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """The validation pairs are found from anywhere."""
        return {
            name: ",".join(read_pairs(value).sources)
            if name in ("valid", "data.valid") and value is not None
            else value
            for name, value in settings.items()
        }

    @classmethod
    def read(
        cls, recipe: Recipe, source: "_Source", progress: ReadProgress, base: Translator | None
    ) -> TranslationData:
        """Trains the tokenizers, unless a model that is continued has them, and numbers the pairs."""
        if base is not None:
            refuse_other_tokenizer(recipe)
        longest = recipe.sections["model"].max_length - 1  # the end token
        return read_translation_data(
            source.spec,
            recipe.sections["data"],
            recipe.sections["tokenizer"],
            longest=longest,
            inherited=None if base is None else (base.source, base.target),
            progress=progress,
        )

    @classmethod
    def reopen(cls, fingerprint: str) -> TranslationData | None:
        """Opens pairs that were read before; None if the cache has them no more, or damaged."""
        return TranslationData.reopen(fingerprint)

    # --- models -------------------------------------------------------------------------------------------------

    @classmethod
    def load(cls, folder: Path) -> Translator:
        """Reads a finished model."""
        return Translator.load(folder)

    @classmethod
    def load_model(cls, folder: Path) -> Translator:
        """Reads a finished model, to continue it."""
        return Translator.load(folder)

    @classmethod
    def begin(cls, recipe: Recipe, data: TranslationData, base: Translator | None = None) -> Self:
        """Starts a training, of a new model or of ``base``."""
        config: LoopConfig = recipe.sections["train"]
        torch.manual_seed(config.seed)
        settings = recipe.sections["model"]
        module = build(cls.kind, settings, source=data.source, target=data.target)
        if base is not None:
            take_over(module, base.module)
        module.to(choose_device(config, Ranks()))
        if config.tensorboard:
            require_tensorboard()
        return cls(recipe, data, Translator(cls.kind, settings, module, data.source, data.target))

    @classmethod
    def restore(cls, recipe: Recipe, data: TranslationData, checkpoint: Path, noted: Mapping[str, Any]) -> Self:
        """Takes a training up again from the model that a checkpoint holds."""
        translator = Translator.load(checkpoint)
        translator.module.to(choose_device(recipe.sections["train"], Ranks()))
        return cls(recipe, data, translator)

    # --- what the loop asks for ---------------------------------------------------------------------------------

    def plan(self, epoch: int) -> Sequence[Any]:
        """The batches of an epoch."""
        config = self.config
        plan = plan_batches(self._lengths, max_tokens=config.batch_tokens, seed=config.seed, epoch=epoch)
        return [self._numbers[batch] for batch in plan]

    def loss(self, module: nn.Module, batch: Any, step: int) -> Loss:  # noqa: ANN401  numbers of pairs
        """Cross-entropy of the targets of a batch, teacher forced."""
        source, valid, fed, wanted, real = self._tensors(self._data.train, batch)
        share = self.objective.teacher_share(step)
        hidden = module(source, valid, fed) if share == 1.0 else module(source, valid, fed, teacher_share=share)
        return cross_entropy(
            hidden[real],
            self.module.output_weight,
            self.module.output_bias,
            wanted[real],
            label_smoothing=self.objective.label_smoothing,
        )

    def evaluate(self) -> dict[str, float]:
        """Loss (without smoothing) and perplexity by token on the validation pairs, and BLEU if asked for."""
        pairs, numbers = self._data.validated
        plan = plan_batches(pairs.lengths[numbers] + 1, max_tokens=self.config.batch_tokens, seed=0, epoch=0)
        total, count = 0.0, 0
        for batch in plan:
            source, valid, fed, wanted, real = self._tensors(pairs, numbers[batch])
            hidden = self.module(source, valid, fed)
            loss = cross_entropy(hidden[real], self.module.output_weight, self.module.output_bias, wanted[real])
            total, count = total + float(loss.nll), count + loss.targets
        figures = {"loss": total / count, "perplexity": math.exp(min(700.0, total / count))}
        if self.objective.validate_bleu:
            from wenmai.measures.translation import measure_translation

            sources = [self._data.source.decode(pairs.source(number)) for number in numbers]
            references = [self._data.target.decode(pairs.target(number)) for number in numbers]
            made = self.translator.translate(sources, beam_size=1)
            figures["bleu"] = measure_translation(sources, made, references, resamples=1).bleu
        return figures

    def _tensors(self, pairs: EncodedPairs, batch: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # noqa: ANN401
        first, second = self._data.source, self._data.target
        source, valid = pad([np.append(pairs.source(number), first.eos_id) for number in batch], first.pad_id)
        target, real = pad([np.append(pairs.target(number), second.eos_id) for number in batch], second.pad_id)
        fed = np.concatenate([np.full((len(target), 1), second.bos_id), target[:, :-1]], axis=1)
        device = self.translator.device
        tensors = [torch.from_numpy(array).to(device) for array in (source, valid, fed, target, real)]
        return tensors[0], tensors[1], tensors[2], tensors[3], tensors[4]

    # --- what a run asks for ------------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """The sizes of data, vocabulary and model, and the effort."""
        sizes = (
            f"{len(self._numbers):,} pairs, {len(self._data.validated[1]):,} to validate on, vocabulary "
            f"{self._data.target.vocab_size:,}, {self.parameters:,} parameters on {self.translator.device}"
        )
        return {
            "sizes": sizes,
            "epochs": self.config.epochs,
            "threads": self.threads,
            "stats": asdict(self._data.train.stats),
        }

    def summary(self) -> dict[str, Any]:
        """Speed, loss and sizes."""
        return {**super().summary(), "vocabulary": self._data.target.vocab_size}

    def changes(self, base: Translator | None) -> tuple[dict[str, Any], list[str]]:
        """What stands out."""
        stats = self._data.train.stats
        unknown = stats.source_unknown + stats.target_unknown
        notes = [f"{unknown:,} tokens of the training pairs are unknown to the tokenizer"] if unknown else []
        return {}, notes


class TransformerTask(_TranslationTask):
    """Translation with the Transformer."""

    kind = "transformer"
    sections: ClassVar[dict[str, type]] = {
        "data": PairsConfig,
        "tokenizer": JointTokenizerConfig,
        "model": TransformerConfig,
        "objective": TranslationConfig,
        "train": LoopConfig,
    }

    def __init__(self, recipe: Recipe, data: TranslationData, translator: Translator) -> None:
        if recipe.sections["objective"].scheduled_sampling != "none":
            raise SettingError(
                "scheduled_sampling is for seq2seq; the Transformer reads all gold tokens at once, so leave it out"
            )
        super().__init__(recipe, data, translator)


class Seq2SeqTask(_TranslationTask):
    """Translation with recurrent or convolutional encoders and recurrent decoders."""

    kind = "seq2seq"
    sections: ClassVar[dict[str, type]] = {**TransformerTask.sections, "model": Seq2SeqConfig}


class _Source:
    """Pairs that were named but not read."""

    def __init__(self, spec: Any, *, repeatable: bool) -> None:  # noqa: ANN401
        self.spec = spec
        self.repeatable = repeatable
