"""fastText's classifier, in turns with the reference implementation, on the same lines with the same settings.

A measurement that is there already is skipped, so a long run may be split.
"""

from typing import Any

from benchmarks.harness import Bench, require

__all__ = [
    "ACCURACY_LOST_BY_QUANTISING",
    "CONFIGURATIONS",
    "CUTOFF",
    "LARGEST_SHORTFALL",
    "PREDICTION_TARGET",
    "QUANTISED",
    "QUANTISED_SHARE",
    "SETS",
    "TRAINING_TARGET",
    "run",
]

TRAINING_TARGET, PREDICTION_TARGET = 2.0, 3.0  # times the speed of the reference implementation
LARGEST_SHORTFALL = 0.005  # of the mean accuracy
QUANTISED_SHARE, ACCURACY_LOST_BY_QUANTISING = 0.05, 0.01  # of .ftz against .bin
SETS = {"ag-news": "AG News", "thucnews": "THUCNews", "chnsenticorp": "ChnSentiCorp", "sst2": "SST-2", "trec": "TREC"}
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "defaults": {"learning_rate": 0.1, "vector_size": 100, "epochs": 5, "word_ngrams": 1, "buckets": 200_000},
    "bigrams": {"learning_rate": 0.5, "vector_size": 50, "epochs": 25, "word_ngrams": 2, "buckets": 200_000},
}
QUANTISED = "bigrams"  # hashed n-grams are what makes models large
CUTOFF = 40_000  # rows that the quantised model keeps
_THREADS = 2


def run(bench: Bench) -> None:
    """Measures both sides in turns; who begins changes with every seed."""
    require("fasttext")
    settings = {"threads": _THREADS, "configurations": CONFIGURATIONS, "cutoff": CUTOFF}
    peers = ("fasttext-numpy2-wheel",)
    results = bench.results("classification", settings, corpus=False, keep=not bench.quick, peers=peers)
    there = {(row["set"], row["configuration"], row["side"], row["seed"]) for row in results.rows}
    for name in list(SETS)[-1:] if bench.quick else SETS:
        texts = bench.work / name
        sizes = bench.job("label_texts", dataset=name, target=texts)
        for turn, seed in enumerate(bench.seeds(1, 2, 3)):
            for configuration, chosen in CONFIGURATIONS.items():
                both = {**chosen, "threads": _THREADS, "seed": seed}
                for side in ("ours", "reference") if turn % 2 == 0 else ("reference", "ours"):
                    if (name, configuration, side, seed) in there:
                        continue
                    if side == "ours":
                        found = _ours(bench, name, both, quantised=configuration == QUANTISED and turn == 0)
                    else:
                        found = bench.job("classify_reference", folder=texts, settings=both)
                    row = {"set": name, "configuration": configuration, "side": side, "seed": seed}
                    results.add({**row, "texts": sizes["train"], "tested": sizes["test"], **found})


def _ours(bench: Bench, name: str, settings: dict[str, Any], *, quantised: bool) -> dict[str, Any]:
    """Trains ours; the text is numbered anew, as the other side reads it anew each time."""
    model, texts = bench.work / "run", bench.work / name
    bench.clear(model)
    bench.clear(bench.work / "cache" / "labelled")
    found = bench.job("classify_ours", folder=texts, settings=settings, run=model)
    if quantised:
        small = bench.job("quantise_classifier", folder=texts, run=model, cutoff=CUTOFF, target=bench.work)
        found |= {key: value for key, value in small.items() if key != "wall_seconds"}
    return found
