"""How long the ten nearest neighbours of a word take among a million."""

from typing import Any

from benchmarks.harness import Bench, require

__all__ = ["run"]

WORDS, VECTOR_SIZE = 1_000_000, 300


def run(bench: Bench) -> None:
    """Asks ours and gensim for neighbours of the same words among the same random vectors."""
    require("gensim")
    sizes: dict[str, Any] = {"size": 20_000 if bench.quick else WORDS, "vector_size": VECTOR_SIZE}
    results = bench.results("search", sizes, corpus=False)
    for side in ("ours", "gensim"):
        results.add({"side": side, **bench.job("search", **sizes, repeats=bench.repeats(10), side=side)})
