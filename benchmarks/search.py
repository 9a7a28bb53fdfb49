"""How long the ten nearest neighbours of a word take among a million."""

from typing import Any

from benchmarks.harness import Bench, require
from benchmarks.section import Claim, Part, Section

__all__ = ["SECTION", "TARGET_SECONDS", "run"]

TARGET_SECONDS = 1.0
WORDS, VECTOR_SIZE = 1_000_000, 300


def run(bench: Bench) -> None:
    """Asks ours and gensim for neighbours of the same words among the same random vectors."""
    require("gensim")
    sizes: dict[str, Any] = {"size": 20_000 if bench.quick else WORDS, "vector_size": VECTOR_SIZE}
    results = bench.results("search", sizes, corpus=False)
    for side in ("ours", "gensim"):
        results.add({"side": side, **bench.job("search", **sizes, repeats=bench.repeats(10), side=side)})


SECTION = Section(
    "Nearest neighbours",
    (
        Part(
            "`most_similar(word, topn=10)` among {size:,} random vectors of {vector_size} dimensions.",
            {
                "side": "{side}",
                "median, ms": "{median_seconds:ms}",
                "first query, ms": "{first_seconds:ms}",
                "making the object, ms": "{load_seconds:ms}",
            },
            by="side",
        ),
    ),
    Claim(
        "`most_similar` among {size:,} × {vector_size}",
        "{ours.median_seconds:.3gms} ms",
        f"≤ {1000 * TARGET_SECONDS:g} ms",
        chinese="在 1,000,000 个 300 维词向量中查询 `most_similar`",
    ),
)
