"""How long a fastText model takes to read: ours and the official package, the same files, in processes of their own."""

from typing import Any

from benchmarks.harness import Bench, in_turn, require
from benchmarks.result import Result, Rows

__all__ = ["BUCKETS", "SIDES", "run"]

SIDES = ("ours", "official")
BUCKETS = {"small": 40_000, "large": 1_900_000}
QUICK = {"small": 100}
SPEED = "seconds"


def run(bench: Bench) -> None:
    """Writes models with the official package, and reads each alternately; the first changes with every round."""
    require("fasttext")
    results = bench.results("loading", {"vector_size": 100}, baselines=("fasttext-numpy2-wheel",))
    for name, buckets in (QUICK if bench.quick else BUCKETS).items():
        model = bench.work / f"{name}.bin"
        bench.job("fasttext_file", lines=bench.broken_corpus, buckets=buckets, target=model)
        for side in SIDES:
            bench.job("read_fasttext", side=side, model=model)  # from now on the file is in the system's memory
        for repeat in range(bench.repeats(5)):
            for side in in_turn(SIDES, repeat):
                found = bench.job("read_fasttext", side=side, model=model)
                results.add({"file": name, "bytes": model.stat().st_size, "side": side, "repeat": repeat, **found})


def facts(rows: Rows, _: Result) -> dict[str, Any]:
    """Returns the ratios of reading, and of the whole process."""
    return {
        "reading": rows.ratios("official", "seconds", "repeat"),
        "whole": rows.ratios("official", "wall_seconds", "repeat"),
    }
