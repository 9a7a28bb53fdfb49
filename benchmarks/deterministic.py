"""What it costs that the same bytes come out for any number of threads."""

from benchmarks.harness import SETTINGS, Bench, settings_of

__all__ = ["run"]


def run(bench: Bench) -> None:
    """Trains in the ordinary and the deterministic mode in turns, with one thread and with two."""
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
