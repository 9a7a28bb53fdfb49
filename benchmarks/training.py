"""Training speed of the Transformer against Hugging Face's ``Trainer``, alternating, on the same batches."""

from typing import Any

from benchmarks.harness import Bench, in_turn, require
from benchmarks.result import Numbers, Result, Rows

__all__ = ["MODES", "PAIRS", "run"]

PAIRS = "data:multi30k-train-de,data:multi30k-train-en"
MODES = {  # name: (our precision, whether Trainer gets bf16, the newest vector instructions for both)
    "float32": ("float32", False, None),
    "bfloat16": ("bfloat16", True, None),
    "default": ("auto", False, None),  # what each side does if nothing is said
    "avx2": ("float32", False, "avx2"),  # on processors with no more than AVX2, float32 is also our default
}
SIZES = {"hidden_size": 256, "num_layers": 3, "num_heads": 4, "ffn_size": 1024}
TINY = {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "ffn_size": 32}
SHARED = {"dropout": 0.1, "label_smoothing": 0.1, "beta2": 0.98, "warmup": 4000, "clip": 1.0}
FIXED = {  # of our side: the model and optimiser of the baseline
    "norm": "post",
    "activation": "relu",
    "positions": "sinusoidal",
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
    "attention_bias": True,
    "optimiser": "adam",
    "schedule": "noam",
    "accumulation": 1,
}
TEXT = {"kind": "bpe", "vocab_size": 8000, "batch_tokens": 4096}
STEPS, WARM_UP = 30, 5
QUICK = {"pairs": "builtin:numerals", "vocab_size": 200, "batch_tokens": 256, "steps": 2, "warm_up": 1, "threads": 1}


def run(bench: Bench) -> None:
    """Measures both sides alternately; the first changes with every round."""
    require("transformers")
    require("accelerate")
    settings: dict[str, Any] = {"pairs": PAIRS, **TEXT, **SHARED, "steps": STEPS, "warm_up": WARM_UP, "threads": 2}
    settings |= (TINY | QUICK) if bench.quick else SIZES
    results = bench.results("training", settings, corpus=False, baselines=("torch", "transformers", "accelerate"))
    pairs, warm_up, updates = settings["pairs"], settings["warm_up"], settings["steps"] + settings["warm_up"]
    sizes = {name: settings[name] for name in SIZES}
    ours = {name: settings[name] for name in (*SIZES, *SHARED, *TEXT, "threads")}
    ours |= {**FIXED, "steps": updates}
    batches = bench.work / "batches.npz"
    planned = bench.job("plan_training", pairs=pairs, settings=ours, steps=updates, target=batches)
    if planned["batches"] < updates:
        raise SystemExit(f"{pairs} has only {planned['batches']} batches, expected {updates}; lower batch_tokens")
    theirs = {name: settings[name] for name in (*SHARED, "threads")} | {"learning_rate": planned["learning_rate"]}
    common = {name: planned[name] for name in ("vocab_size", "target_padding")}
    for repeat in range(bench.repeats(3)):
        for mode, (precision, bfloat16, instructions) in MODES.items():
            folder = bench.work / f"{mode}-{repeat}"
            for side in in_turn(("ours", "trainer"), repeat):
                if side == "ours":
                    chosen = ours | {"precision": precision}
                    found = bench.job(
                        "train_ours",
                        instructions=instructions,
                        pairs=pairs,
                        settings=chosen,
                        warm_up=warm_up,
                        folder=folder,
                    )
                else:
                    found = bench.job(
                        "train_trainer",
                        instructions=instructions,
                        batches=batches,
                        sizes=sizes | {"vocab_size": planned["vocab_size"]},
                        settings=theirs,
                        warm_up=warm_up,
                        bfloat16=bfloat16,
                        folder=bench.work / "trainer",
                    )
                if found["parameters"] != planned["parameters"]:
                    raise SystemExit(f"{found['parameters']:,} parameters, expected {planned['parameters']:,}")
                results.add({"mode": mode, "side": side, "repeat": repeat, **common, **found})


NAMES = {
    "float32": "float32",
    "bfloat16": "bfloat16 (autocast)",
    "default": "defaults of each side",
    "avx2": "float32, AVX2 only",
}


def facts(rows: Rows, result: Result) -> dict[str, object]:
    """Returns the name of a mode, and the seconds that an update takes on each side."""
    seconds = {side: rows.where(side=side).seconds for side in ("ours", "trainer")}
    steps = result.settings["steps"]
    update = {side: Numbers(one / steps for one in found) for side, found in seconds.items()}
    return {
        "name": NAMES[rows[0]["mode"]],
        "update": update,
        "whole": rows.ratios("trainer", "wall_seconds", "repeat"),
    }
