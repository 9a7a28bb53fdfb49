"""Attention whose weights are dropped, on a CPU: ours beside PyTorch's, forward and backward."""

from typing import Any

from benchmarks.harness import Bench
from benchmarks.result import Result, Rows

__all__ = ["run"]

SPEED = "tokens_per_second"
LENGTHS = (32, 64, 128, 256, 512)
SIDES = ("ours", "torch")
SETTINGS: dict[str, Any] = {"tokens": 4096, "heads": 12, "head_size": 32, "dropout": 0.1, "threads": 2, "seconds": 2.0}
QUICK: dict[str, Any] = SETTINGS | {"tokens": 256, "threads": 1, "seconds": 0.0}


def run(bench: Bench) -> None:
    """Times both sides in turn at every length, with and without a bias of the scores."""
    settings, lengths = (QUICK, LENGTHS[:2]) if bench.quick else (SETTINGS, LENGTHS)
    results = bench.results("attention_dropout", settings, corpus=False, baselines=("torch",))
    for repeat in range(bench.repeats(3)):
        for length in lengths:
            for biased in (False, True):
                for side in SIDES:
                    found = bench.job("dropped_attention", side=side, length=length, biased=biased, **settings)
                    results.add({"side": side, "length": length, "biased": biased, "repeat": repeat, **found})


def facts(rows: Rows, _: Result) -> dict[str, Any]:
    """Returns what the scores have besides products, in words."""
    return {"bias": ("none", "of each score")[rows[0]["biased"]]}
