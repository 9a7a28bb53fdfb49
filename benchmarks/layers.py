"""What a layer costs as sequences grow: self-attention, recurrent, convolutional, restricted self-attention.

The table of complexities of Vaswani et al. 2017, section 4, measured.
"""

import math
import statistics
from collections.abc import Iterator
from typing import Any

from benchmarks.harness import Bench
from benchmarks.plots import Panel, Plot, Series
from benchmarks.result import Result, Rows
from benchmarks.section import Section, table

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
    results = bench.results("layers", settings | fit_from, corpus=False, baselines=("torch",))
    for repeat in range(bench.repeats(1)):
        for length in lengths:
            for kind in KINDS:
                found = bench.job("layer", kind=kind, length=length, **settings)
                results.add({"kind": kind, "length": length, "repeat": repeat, **found})


MEASURES = {"milliseconds, forward and backward": ("seconds", 1e-3), "peak memory, MB": ("memory_bytes", 1e6)}


def tables(_: Section, result: Result) -> Iterator[str]:
    for title, (value, unit) in MEASURES.items():
        cells = []
        for kind, (cost, steps) in KINDS.items():
            own = result.rows.where(kind=kind)
            row = {title: kind} | ({"cost": cost, "sequential steps": steps} if value == "seconds" else {})
            row |= {
                f"n = {n:,}": f"{float(getattr(found, value)) / unit:,.1f}" for n, found in own.by("length").items()
            }
            power = exponent(own, value, result.settings["fit_from"])
            cells.append(row | {"exponent": "-" if power is None else f"**{power:.2f}**"})
        yield table(cells)


def exponent(rows: Rows, value: str, fit_from: int) -> float | None:
    """Returns the power of the length with which time or memory grows: a straight line through the logarithms.

    Only lengths from ``fit_from`` on count; None if fewer than two of them have a value.
    """
    long = [row for row in rows if row["length"] >= fit_from and row[value] > 0]
    if len({row["length"] for row in long}) < 2:
        return None
    points = [(math.log(row["length"]), math.log(row[value])) for row in long]
    return statistics.linear_regression(*zip(*points, strict=True)).slope


def plot(_: Section, result: Result) -> Plot:
    panels = []
    for title, (value, unit) in MEASURES.items():
        series = []
        for kind in KINDS:
            own = result.rows.where(kind=kind)
            sizes = {length: float(getattr(found, value)) / unit for length, found in own.by("length").items()}
            power = exponent(own, value, result.settings["fit_from"])
            name = kind if power is None else f"{kind}: n^{power:.2f}"
            series.append(Series(name, {length: size for length, size in sizes.items() if size > 0}))
        ticks = {length: str(length) for length in result.rows.by("length")}
        panels.append(Panel(series=series, x="tokens of a sequence, n", y=title, log="xy", ticks=ticks))
    return Plot(kind="lines", panels=panels, size=(9, 3.6))
