"""The settings of the tasks of networks, which are read and listed without torch."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BeforeValidator
from typing_extensions import Doc

from wenmai.config.effects import require_usual
from wenmai.config.lists import listed
from wenmai.core.errors import SettingError
from wenmai.data.encoded_text import LinesConfig
from wenmai.data.example_settings import ExamplesConfig
from wenmai.data.masking import MaskingConfig
from wenmai.data.pairs import PairsConfig
from wenmai.data.pretraining.settings import TasksConfig
from wenmai.data.relation_settings import RelationsConfig
from wenmai.data.transliteration import TransliterationConfig
from wenmai.inference.reading_config import RelationReadingConfig, TuneReadingConfig
from wenmai.models.ssan_settings import SsanConfig
from wenmai.nn.names import LoraTarget
from wenmai.text.pieces import JointTokenizerConfig, StreamTokenizerConfig
from wenmai.training.settings import LoopConfig
from wenmai.training.stages import StagesConfig

__all__ = [
    "BIDIRECTIONAL",
    "CONTINUAL",
    "FINE_TUNED",
    "LANGUAGE",
    "MASKED",
    "PINYIN",
    "PINYIN_LETTERS",
    "RELATIONS",
    "TRANSLATION",
    "BidirectionalConfig",
    "FineTuneConfig",
    "LanguageConfig",
    "MaskedConfig",
    "RelationTuningConfig",
    "SyllablesConfig",
    "TonesConfig",
    "TranslationConfig",
]

_SHORT_SHARE = 0.9  # of BERT
_OF_MODES = {
    "top": ("top_layers",),
    "frozen": ("layer",),
    "lora": ("lora_rank", "lora_alpha", "lora_dropout", "lora_targets"),
}
_LM_WEIGHT = 0.5  # of GPT-1


@dataclass(frozen=True, kw_only=True, slots=True)
class LanguageConfig:
    """How a text is cut into segments."""

    segment_length: Annotated[
        int | None,
        Ge(1),
        Doc("tokens of a segment; gradients reach no farther back. None: max_length, or 128 where there is none"),
    ] = None
    boundaries: Annotated[
        Literal["joined", "masked"],
        Doc("joined: lines follow each other as one text; masked: no position sees another line (nnlm, gpt)"),
    ] = "joined"


@dataclass(frozen=True, kw_only=True, slots=True)
class BidirectionalConfig(LanguageConfig):
    """The same for two language models in opposite directions."""

    sampled: Annotated[
        int | None,
        Ge(1),
        Doc("sampled softmax: each word against so many others that are drawn for the batch; none: against all"),
    ] = None


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskedConfig:
    """The sequences of a masked language model, and what is predicted besides masked tokens.

    Raises:
        SettingError: if a setting would have no effect.
    """

    pairs: Annotated[
        Literal["none", "next", "order"],
        Doc(
            "none: sequences are running text; next: two texts, is the second the next one (NSP)? order: two "
            "neighbours, are they in order (SOP)?"
        ),
    ] = "none"
    boundaries: Annotated[
        Literal["joined", "masked"],
        Doc("pairs=none: whether a sequence goes on in the next document, or documents in a row do not see each other"),
    ] = "joined"
    short_pairs: Annotated[float, Ge(0), Le(1), Doc("pairs: fraction of the sequences that are shorter at random")] = (
        0.1
    )
    short_length: Annotated[
        int | None, Ge(4), Doc("most of the training is on sequences of this length, the rest on max_length; none: all")
    ] = None
    short_share: Annotated[
        float, Gt(0), Lt(1), Doc("short_length: that fraction of the epochs, or of the steps if they end first")
    ] = _SHORT_SHARE
    causal: Annotated[
        float,
        Ge(0),
        Lt(1),
        Doc("fraction of the batches that are read from left to right, each token predicted from those before it"),
    ] = 0.0

    def __post_init__(self) -> None:
        if self.causal and self.pairs != "none":
            raise SettingError(f"causal={self.causal:g} goes with running text; leave out pairs={self.pairs}")
        if self.pairs == "none":
            require_usual(self, ("short_pairs",), "pairs=none", needed="pairs=next")
        elif self.boundaries != "joined":
            raise SettingError(f"pairs={self.pairs} never joins documents; leave out boundaries={self.boundaries}")
        if self.short_length is None and self.short_share != _SHORT_SHARE:
            raise SettingError("short_share goes with short_length; add it, for example short_length=128")


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslationConfig:
    """What is minimised, and what evaluations measure.

    Raises:
        SettingError: if a setting would have no effect.
    """

    label_smoothing: Annotated[float, Ge(0), Lt(1), Doc("fraction of the probability spread over all tokens")] = 0.1
    scheduled_sampling: Annotated[
        Literal["none", "linear", "exponential", "sigmoid"],
        Doc("seq2seq: how the fraction of gold tokens fed to the decoder falls (Bengio et al. 2015); none: all gold"),
    ] = "none"
    sampling_steps: Annotated[int, Ge(1), Doc("updates over which that fraction falls; k of the sigmoid")] = 10_000
    sampling_floor: Annotated[float, Ge(0), Le(1), Doc("that fraction never falls below this")] = 0.25
    validate_bleu: Annotated[
        bool, Doc("translate the validation pairs greedily at each evaluation, and report BLEU")
    ] = False

    def __post_init__(self) -> None:
        if self.scheduled_sampling == "none":
            names = ("sampling_steps", "sampling_floor")
            require_usual(self, names, "scheduled_sampling=none", needed="scheduled_sampling=linear")

    def teacher_share(self, step: int) -> float:
        """Returns the fraction ε of gold tokens at an update from 0 (Bengio et al. 2015, section 2.4)."""
        if self.scheduled_sampling == "none":
            return 1.0
        k = self.sampling_steps
        if self.scheduled_sampling == "linear":
            fraction = 1 - step / k
        elif self.scheduled_sampling == "exponential":
            fraction = math.exp(-step / k)
        else:
            fraction = k / (k + math.exp(min(700.0, step / k)))
        return max(self.sampling_floor, fraction)


@dataclass(frozen=True, kw_only=True, slots=True)
class FineTuneConfig:
    """What of an encoder is trained for a task, and the head that it gets.

    Raises:
        SettingError: if a setting would have no effect.
    """

    mode: Annotated[
        Literal["full", "top", "frozen", "mix", "lora"],
        Doc(
            "what is trained besides the head: full: everything; top: the last layers; frozen: nothing; mix: the "
            "weights of a sum of all layers; lora: products of small matrices beside the large ones"
        ),
    ] = "full"
    top_layers: Annotated[int, Ge(1), Doc("mode=top: how many layers")] = 2
    layer: Annotated[
        int,
        Doc("mode=frozen: the head sees what this layer says: 0 the embeddings, 1 the first layer, -1 the last one"),
    ] = -1
    layer_decay: Annotated[
        float,
        Gt(0),
        Le(1),
        Doc("each layer learns at this fraction of the rate of the layer above; 1: all at one rate"),
    ] = 1.0
    unfreeze: Annotated[
        int | None,
        Ge(1),
        Doc("the head learns alone for one epoch, then so many more layers with every epoch; none: all from the start"),
    ] = None
    lora_rank: Annotated[int, Ge(1), Doc("mode=lora: inner size of the products, r")] = 8
    lora_alpha: Annotated[float, Gt(0), Doc("mode=lora: products are scaled by lora_alpha/lora_rank")] = 16.0
    lora_dropout: Annotated[float, Ge(0), Lt(1), Doc("mode=lora: dropout of the inputs of the products")] = 0.0
    lora_targets: Annotated[
        tuple[LoraTarget, ...],
        BeforeValidator(listed),
        Doc("mode=lora: projections that get a product: query, key, value, output, attention (all four), ffn, all"),
    ] = ("query", "value")
    batch_size: Annotated[int, Ge(1), Doc("most examples of a batch, which has batch_tokens tokens at most")] = 32
    min_updates: Annotated[
        int,
        Ge(0),
        Doc("few examples are read in as many epochs as make so many updates, 20 at most; 0: as many as epochs says"),
    ] = 0
    dropout: Annotated[
        float | None, Ge(0), Lt(1), Doc("of the layers of the encoder while they learn; none: as it was trained before")
    ] = None
    lm_weight: Annotated[
        float, Ge(0), Doc("gpt: weight of the loss of a language model on the same texts, λ; 0: there is none")
    ] = _LM_WEIGHT
    head_dropout: Annotated[float, Ge(0), Lt(1), Doc("dropout before the head")] = 0.1
    dense_head: Annotated[bool, Doc("a new tanh layer before the head of texts, if the encoder has no pooler")] = False
    crf: Annotated[
        bool, Doc("tagging: score whole sequences of tags, of which only possible ones are predicted (CRF)")
    ] = False
    tag_ends: Annotated[bool, Doc("tagging: learn where entities end, too (BIOES, instead of BIO)")] = False
    class_weight: Annotated[
        Literal["none", "balanced"], Doc("balanced: rare labels count more, as if all were equally frequent")
    ] = "none"
    scratch: Annotated[bool, Doc("the same architecture with fresh parameters, for comparison")] = False

    def __post_init__(self) -> None:
        for mode, names in _OF_MODES.items():
            if self.mode != mode:
                require_usual(self, names, f"mode={self.mode}", needed=f"mode={mode}")
        if not self.lora_targets:
            raise SettingError("lora_targets names no projection; name some, or leave it out")
        if self.mode not in ("full", "top") and (self.layer_decay != 1 or self.unfreeze is not None):
            raise SettingError(
                f"layer_decay and unfreeze are for layers that learn, and mode={self.mode} trains none; leave them out"
            )
        if self.scratch and self.mode != "full":
            raise SettingError(f"scratch has parameters that have learned nothing; leave out mode={self.mode}")


@dataclass(frozen=True, kw_only=True, slots=True)
class TonesConfig:
    """What a labeller of pinyin learns from."""

    tone_dropout: Annotated[
        float, Ge(0), Le(1), Doc("fraction of the syllables that are read without their tones; 0: tones are needed")
    ] = 0.5
    label_smoothing: Annotated[float, Ge(0), Lt(1), Doc("fraction of the probability spread over all characters")] = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class SyllablesConfig(TonesConfig):
    """The same for an encoder of syllables.

    Raises:
        SettingError: if nothing is left to learn from.
    """

    symbol_dropout: Annotated[
        float, Ge(0), Lt(1), Doc("fraction of the syllables that cannot be read, as those that are typed in part")
    ] = 0.02
    known_share: Annotated[
        float,
        Ge(0),
        Lt(1),
        Doc("fraction of the sentences whose beginning is read as characters: text before the cursor"),
    ] = 0.1
    reversed_share: Annotated[
        float,
        Ge(0),
        Lt(1),
        Doc("fraction of the sentences of which characters are read, and readings predicted; 0: none"),
    ] = 0.1

    def __post_init__(self) -> None:
        if self.known_share + self.reversed_share >= 1:
            raise SettingError(
                f"known_share={self.known_share} and reversed_share={self.reversed_share} leave no sentence whose "
                "characters are predicted from the beginning"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class RelationTuningConfig:
    """How an encoder learns relations of documents."""

    loss: Annotated[
        Literal["binary", "adaptive"],
        Doc("binary: each relation by itself, with one threshold for all; adaptive: against no relation (ATLOP)"),
    ] = "binary"
    batch_size: Annotated[int, Ge(1), Doc("most documents of a batch, which has batch_tokens tokens at most")] = 4
    encoder_share: Annotated[
        float, Ge(0), Le(1), Doc("the encoder learns at this fraction of the rate of what is new; 0: not at all")
    ] = 0.1
    dropout: Annotated[
        float | None, Ge(0), Lt(1), Doc("of the layers of the encoder while they learn; none: as it was trained before")
    ] = None
    scratch: Annotated[bool, Doc("the same architecture with fresh parameters, for comparison")] = False


LANGUAGE: Mapping[str, type] = {
    "data": LinesConfig,
    "tokenizer": StreamTokenizerConfig,
    "model": object,  # the model's own
    "objective": LanguageConfig,
    "train": LoopConfig,
}

BIDIRECTIONAL: Mapping[str, type] = {**LANGUAGE, "objective": BidirectionalConfig}

CONTINUAL: Mapping[str, type] = {
    "data": LinesConfig,
    "tokenizer": StreamTokenizerConfig,
    "model": object,  # the model's own
    "masking": MaskingConfig,
    "tasks": TasksConfig,
    "stages": StagesConfig,
    "train": LoopConfig,
}
MASKED: Mapping[str, type] = {
    "data": LinesConfig,
    "tokenizer": StreamTokenizerConfig,
    "model": object,  # the model's own
    "masking": MaskingConfig,
    "objective": MaskedConfig,
    "train": LoopConfig,
}

TRANSLATION: Mapping[str, type] = {
    "data": PairsConfig,
    "tokenizer": JointTokenizerConfig,
    "model": object,  # the model's own
    "objective": TranslationConfig,
    "train": LoopConfig,
}

PINYIN: Mapping[str, type] = {
    "data": TransliterationConfig,
    "model": object,  # the model's own
    "objective": SyllablesConfig,
    "train": LoopConfig,
}

PINYIN_LETTERS: Mapping[str, type] = {**PINYIN, "objective": TonesConfig}

FINE_TUNED: Mapping[str, type] = {
    "data": ExamplesConfig,
    "reading": TuneReadingConfig,
    "tuning": FineTuneConfig,
    "train": LoopConfig,
}

RELATIONS: Mapping[str, type] = {
    "data": RelationsConfig,
    "reading": RelationReadingConfig,
    "model": SsanConfig,
    "tuning": RelationTuningConfig,
    "train": LoopConfig,
}
