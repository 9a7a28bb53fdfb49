"""How long the kernels take to compile, once; and to be read from the cache, every time after."""

from typing import Any

from benchmarks.harness import Bench
from benchmarks.result import Result, Rows
from benchmarks.section import Claim, Part, Section

__all__ = ["SECTION", "TARGET_SECONDS", "run"]

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


def _facts(rows: Rows, _: Result) -> dict[str, Any]:
    kernel = ("ordinary", "deterministic=true")[rows[0]["deterministic"]]
    times = {cache: rows.where(cache=cache).seconds for cache in ("empty", "filled")}
    return {"kernel": kernel, "which": kernel.partition("=")[0].replace("ordinary", "").strip(), **times}


SECTION = Section(
    "Compilation",
    (
        Part(
            "Compiled code is kept in numba's cache, once for a machine; one kernel serves all settings.",
            {"kernel": "{kernel}", "first time, s": "{empty:.1f}", "from the cache, s": "{filled:.1f}"},
            by="deterministic",
        ),
    ),
    Claim(
        "compiling the {which} kernel, the first time", "{empty:.3g} s", f"≤ {TARGET_SECONDS:g} s", by="deterministic"
    ),
    facts=_facts,
)
