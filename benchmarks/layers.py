"""What a layer costs as sequences grow: self-attention, recurrent, convolutional, restricted self-attention.

The table of complexities of Vaswani et al. 2017, section 4, measured.
"""

from typing import Any

from benchmarks.harness import Bench

__all__ = ["FIT_FROM", "KINDS", "run"]

KINDS = {  # name: (cost of a layer, n tokens of width d; steps that cannot be done at once)
    "self-attention": ("O(n²·d)", "O(1)"),
    "recurrent": ("O(n·d²)", "O(n)"),
    "convolutional": ("O(k·n·d²)", "O(1)"),
    "restricted self-attention": ("O(r·n·d)", "O(1)"),
}
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
QUICK_LENGTHS = (16, 32, 64)
FIT_FROM = 512  # the exponents are those of the longer sequences; short ones cost what a call costs
SETTINGS: dict[str, Any] = {
    "width": 256,
    "batch": 4,
    "heads": 4,
    "kernel": 3,
    "radius": 16,
    "threads": 2,
    "seconds": 1.0,
}
QUICK: dict[str, Any] = {"width": 16, "batch": 2, "heads": 2, "kernel": 3, "radius": 2, "threads": 1, "seconds": 0.0}


def run(bench: Bench) -> None:
    """Measures every layer at every length in a process of its own."""
    settings, lengths = (QUICK, QUICK_LENGTHS) if bench.quick else (SETTINGS, LENGTHS)
    fit_from = {"fit_from": min(FIT_FROM, lengths[-2])}
    results = bench.results("layers", settings | fit_from, corpus=False, peers=("torch",))
    for repeat in range(bench.repeats(1)):
        for length in lengths:
            for kind in KINDS:
                found = bench.job("layer", kind=kind, length=length, **settings)
                results.add({"kind": kind, "length": length, "repeat": repeat, **found})
