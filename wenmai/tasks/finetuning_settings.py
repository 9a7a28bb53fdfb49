"""How the settings of fine-tuning go together: what they imply, which have an effect, and what the encoder can do."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from wenmai.config.recipe import Recipe
from wenmai.core.errors import SettingError
from wenmai.core.quantities import plural
from wenmai.core.registry import find_system
from wenmai.inference.backbones import Backbone
from wenmai.inference.families import taught_pooling
from wenmai.inference.finetuned import SHORTEST, FineTuned
from wenmai.inference.reading_config import TextVector, TuneReadingConfig
from wenmai.tasks.settings import FineTuneConfig

__all__ = ["implied_settings", "require_effect", "settled_reading"]

_ALONE = 30  # epochs of a head alone
_HEEDED_BY_SOME = frozenset(  # settings that only some tasks heed; see ``FineTuned.takes``
    {
        "keep",
        "stride",
        "pooling",
        "both_orders",
        "answer_length",
        "n_best",
        "dense_head",
        "crf",
        "tag_ends",
        "class_weight",
    }
)


def implied_settings(model: type[FineTuned], given: Mapping[str, Any], base: Recipe | None) -> dict[str, Any]:
    """Returns what the kind of encoder and the mode ask for.

    A head alone learns in more epochs; ELMo gives a mix of its layers, a GPT that was not fine-tuned reads both orders
    for similarity, and so does what was fine-tuned so before; where the epochs are known, few examples are read no
    more often.

    Args:
        model: The class of the models of the task.
        given: What the user sets, as ``section.name`` or ``name``, unchecked.
        base: The recipe of the run of the encoder.
    """
    plain = {name.rpartition(".")[2]: value for name, value in given.items()}
    implied: dict[str, Any] = {}
    kind = "" if base is None else getattr(find_system(base.system).load_model(), "kind", "")
    before = {} if base is None else base.flat_settings()
    mixes = kind == "elmo" or before.get("tuning.mode") == "mix"
    if mixes and "mode" not in plain and str(plain.get("scratch")).lower() in ("none", "false"):
        implied["mode"] = plain["mode"] = "mix"
    ordered = before.get("reading.both_orders") and "both_orders" in model.takes
    if ordered or (kind == "gpt" and model.task == "regression"):
        implied["both_orders"] = True
    if plain.get("mode") in ("frozen", "mix") and "epochs" not in plain:
        implied["epochs"] = plain["epochs"] = _ALONE
    if "epochs" in plain and "min_updates" not in plain:
        implied["min_updates"] = 0
    return implied


def require_effect(
    system: str, model: type[FineTuned], reading: TuneReadingConfig, tuning: FineTuneConfig, encoder: Backbone
) -> None:
    """Raises SettingError for a setting that the task or the encoder does not heed."""
    for section in (reading, tuning):
        usual = type(section)()
        for name in _HEEDED_BY_SOME & set(type(section).__dataclass_fields__) - model.takes:
            if (value := getattr(section, name)) != getattr(usual, name):
                raise SettingError(f"{name}={value} has no effect on {system}; leave it out")
    if reading.both_orders and not encoder.paired:
        raise SettingError("both_orders has no effect on an encoder that reads two texts one by one; leave it out")
    if tuning.lm_weight != type(tuning)().lm_weight:
        given = f"lm_weight={tuning.lm_weight:g} has no effect"
        if not encoder.predicts:
            raise SettingError(f"{given} on an encoder that does not predict the next token; leave it out")
        if tuning.mode in ("frozen", "mix"):
            raise SettingError(f"{given} with mode={tuning.mode}, where the encoder does not learn; leave it out")


def settled_reading(
    model: type[FineTuned],
    reading: TuneReadingConfig,
    tuning: FineTuneConfig,
    encoder: Backbone,
    base: object,
) -> TuneReadingConfig:
    """Returns how texts are read, with ``pooling`` chosen.

    Args:
        model: The class of the models of the task.
        reading: As the recipe says.
        tuning: How the encoder learns, and from which layer on.
        encoder: What texts are read with.
        base: The model that the training starts from; the pooling that taught it is taken again.

    Raises:
        SettingError: if the encoder reads fewer tokens, or has no such layer or pooler.
    """
    if encoder.max_length < SHORTEST:
        raise SettingError(f"the encoder reads {encoder.max_length} tokens; at least {SHORTEST} are needed")
    if reading.max_length is not None and reading.max_length > encoder.max_length:
        raise SettingError(
            f"max_length={reading.max_length} is more than the {encoder.max_length} tokens that the encoder reads; "
            "give max_length as many at most"
        )
    if reading.pooling == "pooler" and not encoder.has_pooler:
        raise SettingError("pooling=pooler: the encoder has no pooler; pooling=token or mean do without")
    if not -1 <= tuning.layer <= encoder.num_layers:
        raise SettingError(
            f"layer={tuning.layer}: the encoder has {plural(encoder.num_layers, 'layer')}, numbered from 1; 0 are "
            "its embeddings"
        )
    if tuning.layer != -1 and reading.pooling == "pooler":
        raise SettingError("pooling=pooler takes the last layer; leave out layer, or take pooling=token or mean")
    if model.over_tokens:
        return replace(reading, pooling="mean")  # what stands for a text where there is none
    if reading.pooling != "auto":
        return reading
    trained = tuning.mode not in ("frozen", "mix")
    learned: TextVector = "token" if encoder.predicts else "pooler" if encoder.has_pooler else "mean"
    usual: TextVector = learned if trained else "mean"
    return replace(reading, pooling=taught_pooling(base) or usual)
