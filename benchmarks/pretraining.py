"""Pre-training speed and memory of BERT against Hugging Face's ``Trainer`` with its masking collator, alternating."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.harness import Bench, in_turn, require
from benchmarks.plots import Panel, Plot, Series
from benchmarks.result import Result, Rows
from benchmarks.section import Section
from benchmarks.training import facts as facts_of_training

__all__ = ["MODES", "facts", "plot", "run", "smoothed"]

MODES = {  # name: (our precision, whether Trainer gets bf16, the newest vector instructions for both)
    "default": ("auto", False, None),  # what each side does if nothing is said
    "bfloat16": ("bfloat16", True, None),
    "float32": ("float32", False, None),
    "avx2": ("float32", False, "avx2"),
}
BASE_MODES = ("float32", "default")  # in which the peak of memory is measured, at the sizes of bert-base
BASE: dict[str, Any] = {
    "hidden_size": 768,
    "num_layers": 12,
    "num_heads": 12,
    "batch_tokens": 8 * 128,
    "steps": 3,
    "warm_up": 1,
}
CURVE: dict[str, Any] = {"minutes": 5, "warmup": 100}  # with a constant rate, so that the end needs not be known
KEY = ("size", "mode", "side", "repeat")
SIDES = {"ours": "wenmai", "trainer": "transformers' Trainer"}
SETTINGS: dict[str, Any] = {
    "hidden_size": 256,
    "num_layers": 4,
    "num_heads": 4,
    "max_length": 128,
    "vocab_size": 30_000,
    "dropout": 0.1,
    "attention_dropout": 0.0,
    "batch_tokens": 4096,
    "threads": 2,
    "learning_rate": 1e-3,
    "weight_decay": 0.01,
    "clip": 1.0,
    "steps": 25,
    "warm_up": 5,
}
QUICK = {
    "hidden_size": 16,
    "num_layers": 1,
    "num_heads": 2,
    "max_length": 16,
    "vocab_size": 300,
    "batch_tokens": 64,
    "threads": 1,
    "steps": 2,
    "warm_up": 1,
}
CORPUS, QUICK_CORPUS = "data:enwiki-sample", "builtin:pydocs"


def run(bench: Bench) -> None:
    """Measures both sides alternately; the first changes with every round. Memory and curves are measured once.

    What is there already is skipped.
    """
    require("transformers")
    require("accelerate")
    settings = SETTINGS | (QUICK if bench.quick else {})
    corpus = QUICK_CORPUS if bench.quick else CORPUS
    named = settings | {"text": corpus, "base": BASE, "curve": CURVE}
    baselines = ("torch", "transformers", "accelerate")
    results = bench.results("pretraining", named, corpus=False, keep=not bench.quick, baselines=baselines)
    there = {tuple(row[name] for name in KEY) for row in results.rows}
    modes = {"default": MODES["default"]} if bench.quick else MODES
    tokenizer = bench.work / "tokenizer.json"

    def wanted(*key: str | int) -> dict[str, Any] | None:
        return None if key in there else dict(zip(KEY, key, strict=True))

    for repeat in range(bench.repeats(3)):
        for mode in modes:
            for side in in_turn(("ours", "trainer"), repeat) if tokenizer.exists() else ("ours", "trainer"):
                if (row := wanted("small", mode, side, repeat)) is None:
                    continue
                folder = bench.work / f"{side}-{mode}-{repeat}"
                results.add(row | _trained(bench, side, mode, settings, corpus, tokenizer, folder))
    for mode in () if bench.quick else BASE_MODES:
        for side in ("ours", "trainer"):
            if (row := wanted("base", mode, side, 0)) is None:
                continue
            found = _trained(bench, side, mode, settings | BASE, corpus, tokenizer, bench.work / f"{side}-{mode}-base")
            del found["tokens_per_second"]  # of so few updates it says nothing
            results.add(row | found)
    given = {name: value for name, value in settings.items() if name not in ("steps", "warm_up")} | CURVE
    if bench.quick:
        given |= {"minutes": 0.02, "warmup": 1}
    for side in ("ours", "trainer"):
        if (row := wanted("curve", "default", side, 0)) is None:
            continue
        folder = bench.work / f"{side}-curve"
        if side == "ours":
            chosen = {**given, "schedule": "constant", "epochs": 1000}
            found = bench.job("curve_of_ours", corpus=corpus, settings=chosen, folder=folder)
        else:
            chosen = {**given, "steps": 1_000_000}
            found = bench.job(
                "curve_of_trainer", corpus=corpus, tokenizer=tokenizer, settings=chosen, bfloat16=False, folder=folder
            )
        results.add(row | found)


def _trained(
    bench: Bench, side: str, mode: str, settings: Mapping[str, Any], corpus: str, tokenizer: Path, folder: Path
) -> dict[str, Any]:
    """Trains on one side; the first training of ours makes the tokenizer of both."""
    precision, bfloat16, instructions = MODES[mode]
    warm_up = settings["warm_up"]
    theirs = {**settings, "steps": settings["steps"] + warm_up}
    if side == "trainer":
        return bench.job(
            "pretrain_trainer",
            instructions=instructions,
            corpus=corpus,
            tokenizer=tokenizer,
            settings=theirs,
            warm_up=warm_up,
            bfloat16=bfloat16,
            folder=folder,
        )
    ours = {name: value for name, value in theirs.items() if name != "warm_up"} | {"precision": precision}
    found = bench.job(
        "pretrain_ours", instructions=instructions, corpus=corpus, settings=ours, warm_up=warm_up, folder=folder
    )
    if not tokenizer.exists():
        folder.with_suffix(".json").rename(tokenizer)
    return found


def facts(rows: Rows, result: Result) -> dict[str, object]:
    """Returns the name of a mode and the seconds of an update on each side; at the sizes of bert-base, the memory."""
    if rows[0]["size"] == "small":
        return facts_of_training(rows, result)
    if rows[0]["size"] == "curve":
        return {}
    return {
        "name": facts_of_training(rows, result)["name"],
        "peak": rows.ratios("trainer", "peak_memory_bytes", "repeat"),
    }


def plot(_: Section, result: Result) -> Plot:
    """The loss against the seconds of training, smoothed over neighbours, with the defaults of both sides."""
    series = [
        Series(SIDES[row["side"]], dict(smoothed(row["curve"])), style="-") for row in result.rows.where(size="curve")
    ]
    ticks = range(0, 60 * CURVE["minutes"] + 1, 60)
    panel = Panel(series=series, x="seconds of training", y="loss of masked tokens", ticks=ticks, bottom=None)
    return Plot(kind="lines", panels=[panel], size=(7, 3))


def smoothed(curve: Sequence[Sequence[float]], points: int = 60) -> Iterator[tuple[float, float]]:
    """Yields the means of about so many stretches of a curve of (seconds, loss)."""
    width = max(1, len(curve) // points)
    for place in range(0, len(curve) - width + 1, width):
        yield tuple(fmean(column) for column in zip(*curve[place : place + width], strict=True))  # type: ignore[misc]
