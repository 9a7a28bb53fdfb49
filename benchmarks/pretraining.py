"""Pre-training speed of BERT against Hugging Face's ``Trainer`` with its masking collator, alternating."""

from typing import Any

from benchmarks.harness import Bench, in_turn, require
from benchmarks.training import facts

__all__ = ["MODES", "facts", "run"]

MODES = {  # name: (our precision, whether Trainer gets bf16, the newest vector instructions for both)
    "default": ("auto", False, None),  # what each side does if nothing is said
    "bfloat16": ("bfloat16", True, None),
    "float32": ("float32", False, None),
    "avx2": ("float32", False, "avx2"),
}
SETTINGS: dict[str, Any] = {
    "hidden_size": 256,
    "num_layers": 4,
    "num_heads": 4,
    "max_length": 128,
    "vocab_size": 30_000,
    "dropout": 0.1,
    "attention_dropout": 0.0,
    "batch_tokens": 4096,
    "threads": 2,
    "learning_rate": 1e-3,
    "weight_decay": 0.01,
    "clip": 1.0,
    "steps": 25,
    "warm_up": 5,
}
QUICK = {
    "hidden_size": 16,
    "num_layers": 1,
    "num_heads": 2,
    "max_length": 16,
    "vocab_size": 300,
    "batch_tokens": 64,
    "threads": 1,
    "steps": 2,
    "warm_up": 1,
}
CORPUS, QUICK_CORPUS = "data:enwiki-sample", "builtin:pydocs"


def run(bench: Bench) -> None:
    """Measures both sides alternately; the first changes with every round."""
    require("transformers")
    require("accelerate")
    settings = SETTINGS | (QUICK if bench.quick else {})
    corpus = QUICK_CORPUS if bench.quick else CORPUS
    named = settings | {"text": corpus}
    results = bench.results("pretraining", named, corpus=False, baselines=("torch", "transformers", "accelerate"))
    warm_up = settings["warm_up"]
    theirs = settings | {"steps": settings["steps"] + warm_up}
    ours = {name: value for name, value in theirs.items() if name != "warm_up"}
    modes = {"default": MODES["default"]} if bench.quick else MODES
    tokenizer = bench.work / "tokenizer.json"
    for repeat in range(bench.repeats(3)):
        for mode, (precision, bfloat16, instructions) in modes.items():
            for side in in_turn(("ours", "trainer"), repeat) if tokenizer.exists() else ("ours", "trainer"):
                folder = bench.work / f"{side}-{mode}-{repeat}"
                if side == "ours":
                    chosen = ours | {"precision": precision}
                    found = bench.job(
                        "pretrain_ours",
                        instructions=instructions,
                        corpus=corpus,
                        settings=chosen,
                        warm_up=warm_up,
                        folder=folder,
                    )
                    if not tokenizer.exists():
                        folder.with_suffix(".json").rename(tokenizer)
                else:
                    found = bench.job(
                        "pretrain_trainer",
                        instructions=instructions,
                        corpus=corpus,
                        tokenizer=tokenizer,
                        settings=theirs,
                        warm_up=warm_up,
                        bfloat16=bfloat16,
                        folder=folder,
                    )
                results.add({"mode": mode, "side": side, "repeat": repeat, **found})
