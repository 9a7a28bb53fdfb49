"""A small GPT-2 against that of Hugging Face, in float32: training, and greedy generation with caches."""

from typing import Any

from benchmarks.harness import Bench, in_turn, require
from benchmarks.neural import COMPILED_AFTER
from benchmarks.result import Rows

__all__ = ["CASES", "COMPILED_AFTER", "SIDES", "TARGETS", "run"]

SIZES = {"vocab_size": 8192, "hidden_size": 256, "num_layers": 4, "num_heads": 4, "max_length": 256}
TINY = {"vocab_size": 100, "hidden_size": 16, "num_layers": 1, "num_heads": 2, "max_length": 24}
CASES = {"training": 8, "generation, batch 1": 1, "generation, batch 16": 16}  # and rows at once
SIDES = ("ours", "transformers")
TARGETS = {"training": 1.3, "generation, batch 1": 3.0, "generation, batch 16": 1.5}
SETTINGS: dict[str, Any] = {"steps": 6, "warm_up": 2, "prompt": 16, "made": 128, "threads": 2, "seconds": 4.0}
QUICK: dict[str, Any] = {"steps": 1, "warm_up": 0, "prompt": 4, "made": 8, "threads": 1, "seconds": 0.0}


def run(bench: Bench) -> None:
    """Measures both sides alternately; the first changes with every round."""
    require("transformers")
    settings, sizes = (QUICK, TINY) if bench.quick else (SETTINGS, SIZES)
    results = bench.results("gpt", {**settings, **sizes}, corpus=False, baselines=("torch", "transformers"))
    for repeat in range(bench.repeats(3)):
        for case, batch in CASES.items():
            for side in in_turn(SIDES, repeat):
                common = {"side": side, "sizes": sizes, "batch": batch, "threads": settings["threads"]}
                if case == "training":
                    found = bench.job("train_gpt", steps=settings["steps"], warm_up=settings["warm_up"], **common)
                else:
                    chosen = {"prompt": settings["prompt"], "steps": settings["made"], "seconds": settings["seconds"]}
                    found = bench.job("generate_gpt", **common, **chosen)
                results.add({"case": case, "side": side, "repeat": repeat, **found})


def facts(rows: Rows, _: object) -> dict[str, Any]:
    """Returns the target of a case, and the ratios of the first calls."""
    first = rows.ratios("transformers", "first_tokens_per_second", "repeat")
    return {"goal": TARGETS[rows[0]["case"]], "first": first}
