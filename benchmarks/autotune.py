"""What settings found by ``wenmai autotune`` are worth beside the defaults, on the sets of ``classification``.

A set that is there already is skipped, so a long run may be split.
"""

from benchmarks.classification import SETS
from benchmarks.harness import Bench

__all__ = ["LEAST_BETTER", "run"]

LEAST_BETTER = 4  # of the five sets
_SECONDS = 60.0
_SETTINGS = {"threads": 2}


def run(bench: Bench) -> None:
    """Searches on the validation set of each set and measures on its test set."""
    seconds = 2.0 if bench.quick else _SECONDS
    settings = _SETTINGS | {"seconds": seconds}
    results = bench.results("autotune", settings, corpus=False, keep=not bench.quick, peers=())
    there = {(row["set"], row["seed"]) for row in results.rows}
    for name in list(SETS)[-1:] if bench.quick else SETS:
        for seed in bench.seeds(1):
            if (name, seed) in there:
                continue
            texts, model = bench.work / name, bench.work / f"{name}-{seed}"
            sizes = bench.job("label_texts", dataset=name, target=texts)
            chosen = _SETTINGS | {"seed": seed}
            found = bench.job("autotune_classifier", folder=texts, seconds=seconds, run=model, settings=chosen)
            bench.clear(model.with_name(f"{model.name}-tuned"))
            bench.clear(model.with_name(f"{model.name}-default"))
            results.add({"set": name, "seed": seed, "texts": sizes["train"], "tested": sizes["test"], **found})
