"""Language models that need not predict all of a text, because their settings remove some of it."""

import json
from collections.abc import Sequence
from dataclasses import replace

from wenmai.runs.comparison import ComparedSystem
from wenmai.text.settings import TextConfig
from wenmai.text.tokenizer import TokenizerConfig
from wenmai.training.run import Run

__all__ = ["not_predicted", "with_notes"]


def not_predicted(names: Sequence[str], runs: Sequence[Run]) -> str:
    """Names the language models that do not predict all of the text; empty if they are alike."""
    found = [*map(_lossy, runs)]
    if all(settings == found[0] for settings in found):
        return ""
    named = ", ".join(f"{name} ({' '.join(own)})" for name, own in zip(names, found, strict=True) if own)
    return (
        f"{named}: these settings remove case, width or white space, which then costs nothing: bits per character "
        "favour these models"
    )


def with_notes(systems: Sequence[ComparedSystem], runs: Sequence[Run]) -> list[ComparedSystem]:
    """Returns the systems of runs; what such models make of texts says that it is too low to be compared."""
    return [_with_note(system, _lossy(run)) for system, run in zip(systems, runs, strict=True)]


def _with_note(system: ComparedSystem, lossy: Sequence[str]) -> ComparedSystem:
    if not lossy:
        return system
    note = (
        f"{' '.join(lossy)}: removes case, width or white space, which then costs nothing: bits per character favour "
        "this model"
    )
    measures = [
        one if one.kind == "minimal-pairs" else replace(one, notes=[*one.notes, note]) for one in system.measures
    ]
    return replace(system, measures=measures)


def _lossy(run: Run) -> list[str]:
    """Returns the settings of a run that remove what other models predict."""
    return [
        f"{name}={json.dumps(value) if isinstance(value, bool) else value}"
        for settings in run.recipe.sections.values()
        if isinstance(settings, TextConfig | TokenizerConfig)
        for name, value in settings.lossy.items()
    ]
