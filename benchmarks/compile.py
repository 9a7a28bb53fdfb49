"""How long the kernels take to compile, and to load from the cache."""

from typing import Any

from benchmarks.harness import Bench
from benchmarks.result import Result, Rows

__all__ = ["run"]


def run(bench: Bench) -> None:
    """Compiles into an empty cache, then starts once more with the cache filled."""
    results = bench.results("compile", {}, corpus=False)
    for repeat in range(bench.repeats(2)):
        for deterministic in (False, True):
            bench.clear(bench.work / "cold")
            for cache in ("empty", "filled"):
                found = bench.job("compile_kernel", cache="cold", deterministic=deterministic)
                results.add({"deterministic": deterministic, "cache": cache, "repeat": repeat, **found})


def facts(rows: Rows, _: Result) -> dict[str, Any]:
    kernel = ("ordinary", "deterministic=true")[rows[0]["deterministic"]]
    times = {cache: rows.where(cache=cache).seconds for cache in ("empty", "filled")}
    return {"kernel": kernel, "which": kernel.partition("=")[0].replace("ordinary", "").strip(), **times}
