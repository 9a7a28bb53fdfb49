"""Finished networks of pinyin, alone and joined with n-grams: conversion, readings, and errors by the size of texts."""

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import Bench
from benchmarks.pinyin_ladder import (
    FORMS,
    RUNGS,
    Held,
    bench_text,
    measured,
    session_of,
    tested_sets,
    tuning_sentences,
    typed,
)
from wenmai.runs.conversion import joined
from wenmai.training.run import Run

__all__ = ["NAMES", "SHARES", "in_share", "measure_networks", "measure_sizes"]

NAMES = {"pinyin": "encoder", "pinyin-letters": "letters", "pinyin-ngram": "n-grams"}
JOINED = "with the encoder"
SHARES = (0.01, 0.1, 1.0)  # of the training text
_PARTS = 100  # that a text is divided into by its lines
_TUNED, _QUICK_TUNED = 300, 2  # sentences on which the weight is found
_QUICK = {
    "pinyin": ("hidden_size=12", "num_layers=1", "num_heads=2", "epochs=1", "min_count=1", "share=0.1"),
    "pinyin-letters": ("hidden_size=12", "num_layers=1", "num_heads=2", "epochs=1", "min_count=1", "share=0.1"),
    "pinyin-ngram": ("order=2",),
}

Add = Callable[[Mapping[str, Any]], None]


def measure_networks(bench: Bench, add: Add) -> None:
    """Measures the runs of ``--runs``; an encoder also joined with a run of ``pinyin-ngram``, if there is one.

    What an encoder writes of characters is compared with the gold pinyin of transcripts, beside pypinyin.

    The weight is found for each form of the input, on reviews that are neither trained on nor measured.
    """
    text, held = bench_text(bench)
    runs = [Run(path) for path in bench.options.runs] or (_tiny(bench, text) if bench.quick else [])
    if not runs:
        print("networks: measures finished runs; name them: --runs ENCODER LETTERS NGRAM", flush=True)
        return
    sets = tested_sets(held)
    found = {run.recipe.system: run for run in runs}
    if unknown := sorted({*found} - {*NAMES}):
        raise SystemExit(f"--runs: {', '.join(unknown)} does not convert pinyin; expected some of {', '.join(NAMES)}")
    for system, run in found.items():
        if system != "pinyin-ngram":
            _measure(add, NAMES[system], run.model_for("convert"), sets, _facts(run))
        if system == "pinyin":
            _annotated(bench, add, run, held["aishell"])
    if {"pinyin", "pinyin-ngram"} <= {*found}:
        model: Any = joined(found["pinyin"].model_for("convert"), found["pinyin-ngram"])
        _measure(add, JOINED, model, sets, _facts(found["pinyin"], found["pinyin-ngram"]), _tuning(bench, held))


def _measure(
    add: Add,
    rung: str,
    model: Any,
    sets: Mapping[tuple[str, str], Sequence[tuple[str, str]]],
    facts: Mapping[str, Any],
    tuning: Sequence[Held] = (),
) -> None:
    for form in FORMS:
        weight = {}
        if tuning:
            model.tune([typed(one, form) for one in tuning], [one.text for one in tuning])
            weight = {"weight": model.weight, "tuned_on": len(tuning)}
        for (name, own), pairs in sets.items():
            if own == form:
                add({"part": "networks", "rung": rung, **facts, **weight, **measured(model, name, form, pairs)})
        if form == FORMS[0] and hasattr(model, "session"):
            add({"part": "network-session", "rung": rung, **session_of(model)})


def _annotated(bench: Bench, add: Add, run: Run, held: Sequence[Held]) -> None:
    gold = bench.work / "gold.txt"
    lines = (f"{number}\t{' '.join(one.reading)}\t{one.text}\n" for number, one in enumerate(held))
    gold.write_text("".join(lines), encoding="utf-8")
    found, _ = bench.wenmai("evaluate", run.path, "--on", gold)
    add({"part": "annotation", "rung": NAMES[run.recipe.system], "set": "aishell", **found["annotation"]})


def measure_sizes(bench: Bench, add: Add) -> None:
    """Trains n-grams on parts of the text and measures them, and the runs of ``--runs`` by their own ``share``."""
    text, held = bench_text(bench)
    sets = tested_sets(held)
    for share in SHARES:
        part, run = bench.work / f"text-{share}.txt", bench.work / f"share-{share}"
        with open(text, encoding="utf-8") as whole, open(part, "w", encoding="utf-8") as file:
            file.writelines(in_share(whole, share))
        flags = [f"--set={name}={value}" for name, value in RUNGS["words and 5-gram"].items()]
        bench.wenmai("train", "pinyin-ngram", part, "--out", run, "--quiet", *flags)
        _measure_size(add, Run(run), share, sets)
    for path in bench.options.runs:
        run_of = Run(path)
        _measure_size(add, run_of, float(getattr(run_of.recipe.sections["data"], "share", 1.0)), sets)


def _measure_size(add: Add, run: Run, share: float, sets: Mapping[tuple[str, str], Sequence[tuple[str, str]]]) -> None:
    model: Any = run.model_for("convert")
    for (name, form), pairs in sets.items():
        row = {"part": "sizes", "system": run.recipe.system, "share": share, **_facts(run)}
        add({**row, **measured(model, name, form, pairs)})


def in_share(lines: Iterable[str], share: float) -> Iterable[str]:
    """The lines of a part of a text; those of a smaller part are among those of a larger one."""
    return (line for line in lines if zlib.crc32(line.encode()) % _PARTS < round(share * _PARTS))


def _tuning(bench: Bench, held: Mapping[str, Sequence[Held]]) -> list[Held]:
    return tuning_sentences(held, _QUICK_TUNED if bench.quick else _TUNED)


def _facts(*runs: Run) -> dict[str, Any]:
    """The time of training and the size of runs together."""
    summaries = [run.summary for run in runs]
    return {
        "train_seconds": sum(one["seconds"] for one in summaries),
        "size_bytes": sum(one["size_bytes"] for one in summaries),
        "train_memory_bytes": max(one["peak_memory_bytes"] for one in summaries),
    }


def _tiny(bench: Bench, text: Path) -> list[Run]:
    runs = []
    for system, settings in _QUICK.items():
        bench.wenmai(
            *("train", system, text, "--out", bench.work / system, "--quiet"), *(f"--set={one}" for one in settings)
        )
        runs.append(Run(bench.work / system))
    return runs
