"""Settings found by ``wenmai autotune`` against the defaults, on the sets of ``classification``.

Sets with results are skipped, so a long run may be split.
"""

from typing import Any

from benchmarks.classification import SETS
from benchmarks.harness import Bench
from benchmarks.result import Numbers, Result, Rows

__all__ = ["run"]

_SECONDS = 60.0
_SETTINGS = {"threads": 2}


def run(bench: Bench) -> None:
    """Searches on the validation part of each set and evaluates on its test part."""
    seconds = 2.0 if bench.quick else _SECONDS
    settings = _SETTINGS | {"seconds": seconds}
    results = bench.results("autotune", settings, corpus=False, keep=not bench.quick, baselines=())
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


_FOUND = ("epochs", "learning_rate", "vector_size", "word_ngrams", "min_ngram", "max_ngram", "buckets")


def facts(rows: Rows, _: Result) -> dict[str, Any]:
    sets, first = rows.by("set").values(), rows[0]
    return {
        "name": SETS[first["set"]],
        "sets": len(sets),
        "better": sum(float(own.tuned) > float(own.default) for own in sets),
        "gain": Numbers([first["tuned"] - first["default"]]),
        "found": ", ".join(f"{name}={first[name]:{'.3g' if name == 'learning_rate' else ''}}" for name in _FOUND),
    }
