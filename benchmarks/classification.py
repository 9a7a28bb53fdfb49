"""fastText's classifier, in turns with the reference implementation, on the same lines with the same settings."""

import os
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT, Bench, require

__all__ = ["ACCURACY", "CONFIGURATIONS", "PREDICTION_TARGET", "SETS", "TRAINING_TARGET", "run"]

TRAINING_TARGET, PREDICTION_TARGET = 2.0, 3.0  # times the speed of the reference implementation
ACCURACY = 0.005  # the mean of the seeds may be lower by this
SETS = ("ag_news", "thucnews", "chnsenticorp", "sst2", "trec")
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "defaults": {"learning_rate": 0.1, "vector_size": 100, "epochs": 5, "word_ngrams": 1, "buckets": 200_000},
    "bigrams": {"learning_rate": 0.5, "vector_size": 50, "epochs": 25, "word_ngrams": 2, "buckets": 200_000},
}
SECONDS = 60.0  # of autotune


def run(bench: Bench) -> None:
    """Measures both sides in turns; who begins changes with every seed. Then autotune against the defaults."""
    require("fasttext")
    folder = Path(os.environ.get("WENMAI_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        raise SystemExit("this needs the folder of public test sets; name it in WENMAI_SHARED_DATA")
    seconds = 2.0 if bench.quick else SECONDS
    settings = {"threads": 2, "autotune_seconds": seconds, "configurations": CONFIGURATIONS}
    results = bench.results("classification", settings, corpus=False, peers=("fasttext-wheel", "fasttext"))
    for name in SETS[-1:] if bench.quick else SETS:
        texts = bench.work / name
        sizes = bench.job("label_texts", folder=folder, dataset=name, target=texts)
        for repeat in range(bench.repeats(3)):
            for configuration, chosen in CONFIGURATIONS.items():
                both = {**chosen, "threads": 2, "seed": repeat + 1}
                for side in ("ours", "reference") if repeat % 2 == 0 else ("reference", "ours"):
                    if side == "ours":
                        bench.clear(bench.work / "run")
                        found = bench.job("classify_ours", folder=texts, settings=both, run=bench.work / "run")
                    else:
                        found = bench.job("classify_reference", folder=texts, settings=both)
                    row = {"set": name, "configuration": configuration, "side": side, "repeat": repeat}
                    results.add({**row, "texts": sizes["train"], **found})
        found = bench.job(
            "autotune_classifier",
            folder=texts,
            seconds=seconds,
            run=bench.work / f"{name}-run",
            settings={"threads": 2},
        )
        results.add({"set": name, "side": "autotune", **found})
