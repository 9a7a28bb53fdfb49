"""The cost of the deterministic mode, whose result does not depend on the number of threads."""

from typing import Any

from benchmarks.harness import SETTINGS, Bench, settings_of
from benchmarks.result import Result, Rows
from benchmarks.word2vec import NAMES

__all__ = ["run"]


def run(bench: Bench) -> None:
    """Trains in both modes alternately, with one thread and with two."""
    results = bench.results("deterministic", SETTINGS | {"epochs": 1})
    for repeat in range(bench.repeats(2)):
        for system in ("sgns", "cbow-ns"):
            for threads in (1, 2):
                for deterministic in (False, True):
                    chosen = {"epochs": 1, "seed": 1, "threads": threads}
                    settings = settings_of(system, chosen) | {"deterministic": deterministic}
                    found = bench.train(bench.corpus, system, settings)
                    case = {"system": system, "threads": threads, "deterministic": deterministic}
                    results.add({**case, "repeat": repeat, **found})


def facts(rows: Rows, _: Result) -> dict[str, Any]:
    plain, fixed = (rows.where(deterministic=mode).words_per_second for mode in (False, True))
    cost = float(plain) / float(fixed) if plain and fixed else 0
    return {"name": NAMES[rows[0]["system"]], "plain": plain, "fixed": fixed, "cost": cost}
