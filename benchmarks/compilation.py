"""How long the kernels take to compile, once; and to be read from the cache, every time after."""

from benchmarks.harness import Bench

__all__ = ["TARGET_SECONDS", "run"]

TARGET_SECONDS = 15.0


def run(bench: Bench) -> None:
    """Compiles into an empty cache, then starts once more with the cache filled."""
    results = bench.results("compile", {}, corpus=False)
    for repeat in range(bench.repeats(2)):
        for deterministic in (False, True):
            bench.clear(bench.work / "cold")
            for cache in ("empty", "filled"):
                found = bench.job("compile_kernel", cache="cold", deterministic=deterministic)
                results.add({"deterministic": deterministic, "cache": cache, "repeat": repeat, **found})
