"""How fast text is read with a long context: by Transformer-XL with its memory, and by a GPT that reads it again."""

from typing import Any

from benchmarks.harness import Bench, in_turn

__all__ = ["LENGTHS", "run"]

LENGTHS = (512, 1024, 2048)
SIZES = {"vocab_size": 8192, "hidden_size": 256, "num_layers": 4, "num_heads": 4}
TINY = {"vocab_size": 100, "hidden_size": 16, "num_layers": 1, "num_heads": 2}
SETTINGS: dict[str, Any] = {"segment": 128, "threads": 2, "seconds": 3.0}
QUICK: dict[str, Any] = {"segment": 8, "threads": 1, "seconds": 0.0}


def run(bench: Bench) -> None:
    """Measures both sides alternately; the first changes with every round."""
    settings, sizes = (QUICK, TINY) if bench.quick else (SETTINGS, SIZES)
    results = bench.results("context", {**settings, **sizes}, corpus=False, baselines=("torch",))
    for repeat in range(bench.repeats(3)):
        for context in (16,) if bench.quick else LENGTHS:
            for side in in_turn(("ours", "vanilla"), repeat):
                found = bench.job("read_context", side=side, sizes=sizes, context=context, **settings)
                results.add({"context": context, "side": side, "repeat": repeat, **found})
