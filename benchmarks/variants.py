"""Encoders that differ in what they learned from a text: their fine-tuning scores side by side.

Each run is one row of a theme with its ``variant``, and one for each set that it was fine-tuned on. What is compared is
the mean of all runs of a variant: over the seeds of their pre-training, or of a single run over those of the
fine-tuning.
"""

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.finetuned import (
    FACTS,
    LANGUAGES,
    SETS,
    Model,
    amount,
    margin,
    open_model,
    summarised,
    with_same_settings,
)
from benchmarks.harness import Bench
from benchmarks.result import Row, Rows
from benchmarks.section import table
from benchmarks.translation import train_command

__all__ = [
    "STAGES",
    "TUNED",
    "asked",
    "average_gain",
    "commands",
    "difference",
    "gains",
    "opened",
    "set_tables",
    "values",
]

TUNED = {"encoder": ("tuned",)}  # ways of fine-tuning, by the family of the model
STAGES = {"together": "all at once", "mixed": "mixed", "table": "as a table says"}  # what a variant is called
_FACTS = (*FACTS, "training_tokens")


def opened(bench: Bench, runs: Sequence[Path]) -> list[tuple[Model, dict[str, Any]]]:
    """Returns finished runs as models, each with what it learned; see ``pretraining_facts`` of the jobs."""
    found = []
    for path in runs:
        model = open_model(bench, path, _FACTS)
        found.append((model, bench.job("pretraining_facts", run=model.path, language=model.language)))
    return found


def asked(bench: Bench, part: str) -> bool:
    """Whether ``--only`` names a part, or none; ``sets`` are also named by those and by ways of fine-tuning."""
    only = bench.options.only
    return not only or part in only or (part == "sets" and any(name in SETS for name in only))


# --- what is computed -----------------------------------------------------------------------------------------------


def values(rows: Rows, name: str = "score") -> dict[int, float]:
    """Returns the means by the seed of the pre-training; where it is one, the values by that of the fine-tuning."""
    by_seed = rows.by("run_seed")
    if len(by_seed) > 1:
        return {seed: statistics.mean(row[name] for row in own) for seed, own in by_seed.items()}
    return {row.get("seed", 0): row[name] for row in rows}


def gains(rows: Rows, others: Rows) -> list[float]:
    """Returns by how much rows of one set are better than others, seed by seed; of the means if no seed is the same."""
    ours, theirs = values(rows), values(others)
    if not ours or not theirs:
        return []
    alike = (len(rows.by("run_seed")) > 1) == (len(others.by("run_seed")) > 1)  # they are the same kind of seed
    if shared := [seed for seed in ours if alike and seed in theirs]:
        return [ours[seed] - theirs[seed] for seed in shared]
    return [statistics.mean(ours.values()) - statistics.mean(theirs.values())]


def average_gain(rows: Rows, others: Rows) -> list[float]:
    """Returns the mean, over the sets on which both were measured, of the gains; nothing if there are none."""
    of_sets = [gains(*with_same_settings(own, others.where(set=name))) for name, own in rows.by("set").items()]
    means = [statistics.mean(found) for found in of_sets if found]
    return [statistics.mean(means)] if means else []


# --- the page -------------------------------------------------------------------------------------------------------


def set_tables(rows: Rows, variants: Sequence[str], baseline: Callable[[str], str]) -> Iterator[str]:
    """Yields the tables of scores, and of their differences from those of other variants.

    Args:
        rows: Those of fine-tuning, of any language and number of examples.
        variants: In the order of the tables; others follow.
        baseline: Which variant one is compared with.
    """
    for (language, limit, settings), own in rows.by("language limit settings").items():
        known = {name: about for name, about in SETS.items() if any(row["set"] == name for row in own)}
        by_variant = _ordered(own, variants)
        earlier = f" ({settings})" if settings else ""
        title = f"{LANGUAGES[language]}, fine-tuned, {amount(limit)}{earlier}"
        cells: list[dict[str, Any]] = [
            {title: name}
            | {about.title: summarised([*values(some.where(set=one)).values()]) for one, about in known.items()}
            for name, some in by_variant.items()
        ]
        cells.append({title: "measured by"} | {about.title: about.metric for about in known.values()})
        yield table(cells)
        better: dict[str, list[dict[str, Any]]] = {}
        for name, some in by_variant.items():
            base = by_variant.get(baseline(name), Rows())
            differences = {about.title: gains(some.where(set=one), base.where(set=one)) for one, about in known.items()}
            if name == baseline(name) or not any(differences.values()):
                continue
            shown = {one: difference(found) for one, found in differences.items()}
            line = {f"{LANGUAGES[language]}, minus {baseline(name)}": name} | shown
            better.setdefault(baseline(name), []).append(line | {"mean": difference(average_gain(some, base))})
        yield from map(table, better.values())


def difference(found: Sequence[float]) -> str:
    """Returns the mean of differences, with half of its 95 % interval; bold if the interval leaves out zero."""
    if not found:
        return "-"
    if len(found) == 1:
        return f"{found[0]:+.4f}"
    half = margin(found)
    mark = "**" if math.isfinite(half) and abs(statistics.mean(found)) > half else ""
    return f"{mark}{statistics.mean(found):+.4f}{mark} ± {half:.4f}"


def _ordered(rows: Rows, variants: Sequence[str]) -> dict[str, Rows]:
    found = rows.by("variant")
    return {name: found[name] for name in dict.fromkeys((*(one for one in variants if one in found), *found))}


def commands(rows: Rows) -> Iterator[str]:
    """Yields the commands that make the runs."""
    trained: list[Row] = [own[0] for own in rows.by("run").values()]
    if trained:
        lines = dict.fromkeys(map(train_command, trained))
        yield "```\n" + "\n".join(lines) + "\n```\n"
