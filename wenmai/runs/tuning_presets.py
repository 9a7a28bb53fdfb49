"""Settings of fine-tuning that were published with a model, by name: what ``wenmai finetune --preset`` sets."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from wenmai.core.errors import SettingError, nearest_name

__all__ = ["PRESETS", "TuningPreset", "preset_of"]


class TuningPreset(NamedTuple):
    """The settings for one kind of data.

    Attributes:
        task: What an encoder learns.
        settings: Those that are set, by their names.
    """

    task: str
    settings: Mapping[str, Any]


def _ernie(task: str, *, rate: float, epochs: int, length: int, decay: float, **batch: int) -> TuningPreset:
    """The program of ERNIE 1.0: decoupled weight decay, no warm-up, a linear fall to zero, dropout before the head."""
    settings = {
        "learning_rate": rate,
        "epochs": epochs,
        "max_length": length,
        "optimiser": "adamw",
        "weight_decay": decay,
        "warmup": 0,
        "schedule": "linear",
        "beta2": 0.999,
        "clip": 1.0,
        "head_dropout": 0.1,
    }
    # The house bounds both the examples and the tokens of a batch; the bound that the program has not is out of reach.
    reach = {"batch_tokens": batch.get("batch_tokens", length * batch.get("batch_size", 0)), "batch_size": 1024}
    return TuningPreset(task, settings | reach | batch)


PRESETS: Mapping[str, TuningPreset] = {
    "ernie-chnsenticorp": _ernie("classification", rate=5e-5, epochs=10, length=256, decay=0.01, batch_size=24),
    "ernie-lcqmc": _ernie("pair", rate=2e-5, epochs=3, length=128, decay=0.0, batch_size=32),
    "ernie-msra-ner": _ernie("tagging", rate=5e-5, epochs=3, length=256, decay=0.01, batch_size=16),
    "ernie-xnli": _ernie("pair", rate=1e-4, epochs=3, length=512, decay=0.01, batch_tokens=8192),
}
"""The presets by name: those of the scripts that were released with ERNIE 1.0."""


def preset_of(name: str) -> TuningPreset:
    """Returns a preset.

    Raises:
        SettingError: if none has this name.
    """
    if name not in PRESETS:
        raise SettingError(f"no preset is called {name!r}{nearest_name(name, PRESETS)}; there are {', '.join(PRESETS)}")
    return PRESETS[name]
