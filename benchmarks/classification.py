"""fastText's classifier against the reference implementation, alternating, on the same lines with the same settings.

Measurements with results are skipped, so a long run may be split.
"""

import statistics
from typing import Any

from benchmarks.harness import Bench, in_turn, require
from benchmarks.plots import Bars
from benchmarks.result import Numbers, Result, Row, Rows, Score

__all__ = [
    "CONFIGURATIONS",
    "CUTOFF",
    "LARGEST_SHORTFALL",
    "PREDICTION_TARGET",
    "QUANTISED",
    "SETS",
    "TRAINING_TARGET",
    "run",
]

TRAINING_TARGET, PREDICTION_TARGET = 2.0, 3.0  # times the speed of the reference implementation
LARGEST_SHORTFALL = 0.005  # of the mean accuracy
SETS = {"ag-news": "AG News", "thucnews": "THUCNews", "chnsenticorp": "ChnSentiCorp", "sst2": "SST-2", "trec": "TREC"}
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "defaults": {"learning_rate": 0.1, "vector_size": 100, "epochs": 5, "word_ngrams": 1, "buckets": 200_000},
    "bigrams": {"learning_rate": 0.5, "vector_size": 50, "epochs": 25, "word_ngrams": 2, "buckets": 200_000},
}
QUANTISED = "bigrams"  # hashed n-grams are what makes models large
CUTOFF = 40_000  # rows that the quantised model keeps
TURN = "seed"
_THREADS = 2


def run(bench: Bench) -> None:
    """Measures both sides alternately; the first changes with every seed."""
    require("fasttext")
    settings = {"threads": _THREADS, "configurations": CONFIGURATIONS, "cutoff": CUTOFF}
    baselines = ("fasttext-numpy2-wheel",)
    results = bench.results("classification", settings, corpus=False, keep=not bench.quick, baselines=baselines)
    there = {(row["set"], row["configuration"], row["side"], row["seed"]) for row in results.rows}
    for name in list(SETS)[-1:] if bench.quick else SETS:
        texts = bench.work / name
        sizes = bench.job("label_texts", dataset=name, target=texts)
        for turn, seed in enumerate(bench.seeds(1, 2, 3)):
            for configuration, chosen in CONFIGURATIONS.items():
                both = {**chosen, "threads": _THREADS, "seed": seed}
                for side in in_turn(("ours", "reference"), turn):
                    if (name, configuration, side, seed) in there:
                        continue
                    if side == "ours":
                        found = _ours(bench, name, both, quantised=configuration == QUANTISED and turn == 0)
                    else:
                        found = bench.job("classify_reference", folder=texts, settings=both)
                    row = {"set": name, "configuration": configuration, "side": side, "seed": seed}
                    results.add({**row, "texts": sizes["train"], "tested": sizes["test"], **found})


def _ours(bench: Bench, name: str, settings: dict[str, Any], *, quantised: bool) -> dict[str, Any]:
    """Trains ours; the text is encoded anew, as the other side reads it anew each time."""
    model, texts = bench.work / "run", bench.work / name
    bench.clear(model)
    bench.clear(bench.work / "cache" / "labelled")
    found = bench.job("classify_ours", folder=texts, settings=settings, run=model)
    if quantised:
        small = bench.job("quantise_classifier", folder=texts, run=model, cutoff=CUTOFF, target=bench.work)
        found |= {key: value for key, value in small.items() if key != "wall_seconds"}
    return found


def facts(rows: Rows, result: Result) -> dict[str, Any]:
    scores = []
    for group in rows.by("configuration").values():
        if pairs := [(ours["accuracy"], theirs["accuracy"]) for ours, theirs in _pairs(group)]:
            scores.append(Score(pairs, allowed=LARGEST_SHORTFALL))
    small = [row for row in rows if "ftz_bytes" in row]
    times = {"training": "seconds", "whole": "whole_seconds", "predicting": "predict_seconds"}
    return {
        "name": SETS[rows[0]["set"]],
        "seeds": ", ".join(map(str, sorted(result.rows.by("seed")))),
        "chosen": "; ".join(
            f"*{name}*: " + ", ".join(f"{setting}={value:g}" for setting, value in chosen.items())
            for name, chosen in CONFIGURATIONS.items()
        ),
        "texts_predicted": result.rows[0]["predicted"],
        "medians": {name: _medians(rows, seconds) for name, seconds in times.items()},
        "totals": {name: _totals(rows, seconds) for name, seconds in times.items()},
        "plotted": {
            f"{name} {configuration}": _medians(rows.where(configuration=configuration), seconds)
            for name, seconds in times.items()
            for configuration in CONFIGURATIONS
        },
        "accuracies": scores[0] if scores else Numbers(),
        "lead": Numbers([statistics.mean(map(float, scores))] if scores else []),
        "share": Numbers(row["ftz_bytes"] / row["bin_bytes"] for row in small),
        "gain": Numbers(row["ftz_accuracy"] - row["bin_accuracy"] for row in small),
        "lost": Numbers(row["bin_accuracy"] - row["ftz_accuracy"] for row in small),
    }


def _pairs(rows: Rows) -> list[tuple[Row, Row]]:
    return [pair for group in rows.by("set configuration").values() for pair in group.beside("reference", "seed")]


def _medians(rows: Rows, seconds: str) -> Numbers:
    """The speedup of ours, by the medians of both sides."""
    ours, theirs = (getattr(rows.where(side=side), seconds) for side in ("ours", "reference"))
    return Numbers([float(theirs) / float(ours)] if ours and theirs else [])


def _totals(rows: Rows, seconds: str) -> Numbers:
    """The speedup of ours over all sets that both sides have, seed by seed."""
    sums: dict[int, list[tuple[float, float]]] = {}
    for ours, theirs in _pairs(rows):
        sums.setdefault(ours["seed"], []).append((ours[seconds], theirs[seconds]))
    totals = [[sum(side) for side in zip(*times, strict=True)] for times in sums.values()]
    return Numbers(theirs / ours for ours, theirs in totals)


plot = Bars(
    by="set",
    label="{name}",
    panels={
        "training": {name: f"plotted[training {name}]" for name in CONFIGURATIONS},
        "classifying": {name: f"plotted[predicting {name}]" for name in CONFIGURATIONS},
    },
    x="times as fast as the fastText package",
    size=(9, 2.8),
    mark={"training": TRAINING_TARGET, "classifying": PREDICTION_TARGET},
)
