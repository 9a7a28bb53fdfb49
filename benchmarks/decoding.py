"""Greedy decoding of equal random models: ours, Hugging Face's ``generate`` and CTranslate2, all in float32."""

from typing import Any

from benchmarks.harness import Bench, in_turn, require
from benchmarks.neural import COMPILED_AFTER
from benchmarks.result import Rows

__all__ = ["CASES", "COMPILED_AFTER", "SIDES", "TARGETS", "run"]

SIDES = {"ours": "decode_ours", "generate": "decode_generate", "ctranslate2": "decode_ctranslate2"}
SMALL = {"vocab_size": 8000, "hidden_size": 256, "num_layers": 3, "num_heads": 4, "ffn_size": 1024}
BASE = {"vocab_size": 8000, "hidden_size": 512, "num_layers": 6, "num_heads": 8, "ffn_size": 2048}
TINY = {"vocab_size": 100, "hidden_size": 16, "num_layers": 1, "num_heads": 2, "ffn_size": 32}
CASES = {"3+3 layers of 256": SMALL, "6+6 layers of 512": BASE}
TARGETS = {  # (case, sentences at once): at least this many times the tokens/s of generate, and of CTranslate2
    ("3+3 layers of 256", 1): {"generate": 2.0, "ctranslate2": 1.0},
    ("3+3 layers of 256", 32): {"generate": 1.3, "ctranslate2": 1.0},
    ("6+6 layers of 512", 32): {"generate": 1.1, "ctranslate2": 1.0},
}
SETTINGS: dict[str, Any] = {"source_length": 25, "steps": 32, "threads": 2, "seconds": 2.0}
QUICK: dict[str, Any] = {"source_length": 5, "steps": 4, "threads": 1, "seconds": 0.0}


def run(bench: Bench) -> None:
    """Measures the sides alternately; the first changes with every round."""
    require("transformers")
    require("ctranslate2")
    settings = QUICK if bench.quick else SETTINGS
    results = bench.results("decoding", settings, corpus=False, baselines=("torch", "transformers", "ctranslate2"))
    folder = bench.work / "engine"
    for repeat in range(bench.repeats(3)):
        for case, batch in TARGETS:
            sizes = TINY if bench.quick else CASES[case]
            for side in in_turn(SIDES, repeat):
                bench.clear(folder)
                more: dict[str, Any] = {"folder": folder} if side == "ctranslate2" else {}
                found = bench.job(SIDES[side], sizes=sizes, batch=batch, **settings, **more)
                results.add({"case": case, "batch": batch, "side": side, "repeat": repeat, **found})


def facts(rows: Rows, _: object) -> dict[str, Any]:
    """Returns the targets of a case, and the ratios of the first batches."""
    goals = TARGETS[rows[0]["case"], rows[0]["batch"]]
    first = {f"first_{name}": rows.ratios(name, "first_tokens_per_second", "repeat") for name in goals}
    return (
        {f"goal_{name}": goal for name, goal in goals.items()}
        | first
        | {"vocabulary": CASES[rows[0]["case"]]["vocab_size"]}
    )
