"""How the cost of training grows: words/s against vocabulary, dimension and threads."""

import statistics
from collections.abc import Mapping
from typing import Any

from benchmarks.harness import SETTINGS, Bench, settings_of
from benchmarks.plots import Panel, Plot, Series
from benchmarks.result import Numbers, Result, Rows
from benchmarks.section import Section
from wenmai.training.passes import available_cores

__all__ = ["run"]

NAMES = {"skip-gram": "sgns", "CBOW": "cbow-ns"}
VOCABULARIES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
ZIPF_WORDS = 10_000_000
DIMENSIONS = (50, 100, 200, 300, 400, 600)


def run(bench: Bench) -> None:
    """Changes one thing at a time: the vocabulary of synthetic text, then dimension and threads on the corpus."""
    results = bench.results("scaling", SETTINGS | {"epochs": 1})

    def measure(against: str, text: Any, changed: dict[str, Any]) -> None:
        for repeat in range(bench.repeats(2)):
            for system in NAMES.values():
                settings = settings_of(system, {"epochs": 1, "seed": 1, **changed})
                found = bench.train(text, system, settings)
                kept = {"words": text.words, "kept_share": text.facts["kept_share"]}
                sizes = {name: settings[name] for name in ("vector_size", "threads")}
                results.add({"against": against, "system": system, "repeat": repeat, **sizes, **kept, **found})

    vocabularies, words = ((2_000, 20_000), 300_000) if bench.quick else (VOCABULARIES, ZIPF_WORDS)
    for vocabulary in vocabularies:
        text = bench.zipf(vocabulary, words)
        measure("vocabulary", text, {"min_count": 1})
        text.path.unlink()
    for size in (50, 200) if bench.quick else DIMENSIONS:
        measure("dimension", bench.corpus, {"vector_size": size})
    for threads in sorted({1, 2, available_cores()}):
        measure("threads", bench.corpus, {"threads": threads})


LABELS = {"vocabulary": "vocabulary", "dimension": "vector_size", "threads": "threads"}  # and what a row calls it


def facts(rows: Rows, result: Result) -> dict[str, object]:
    by_size = result.rows.where(against="dimension", system="sgns")
    line = statistics.linear_regression(by_size.vector_size, [1e9 / speed for speed in by_size.words_per_second])
    threads = result.rows.where(against="threads", system="sgns").by("threads")
    caches: Mapping[str, float] = result.content["machine"]["caches_bytes"]
    facts = {system: rows.where(system=system).words_per_second for system in NAMES.values()}
    return {
        "caches": ", ".join(f"{name} {size / 2**20:.3g} MiB" for name, size in caches.items()),
        "fixed": line.intercept,
        "each": line.slope,
        "equal": line.intercept / line.slope,
        "most": max(threads),
        "times": float(threads[max(threads)].words_per_second) / float(threads[1].words_per_second),
        "matrices": Numbers(8 * row["vocabulary"] * row["vector_size"] for row in rows),
        **facts,
        **{f"{name} kept": Numbers(speed * rows[0]["kept_share"] for speed in found) for name, found in facts.items()},
    }


COLUMNS = {
    "matrices, MiB": "{matrices:MiB}",
    "skip-gram, M words/s": "{sgns:M}",
    "CBOW, M words/s": "{cbow-ns:M}",
    "skip-gram, kept": "{sgns kept:M}",
    "CBOW, kept": "{cbow-ns kept:M}",
}


def plot(_: Section, result: Result) -> Plot:
    panels = []
    for against, label in LABELS.items():
        rows, marks = result.rows.where(against=against), {}
        values, size = list(rows.by(label)), 8 * result.settings["vector_size"]
        if against == "vocabulary":
            caches = result.content["machine"]["caches_bytes"].items()
            marks = {name: found / size for name, found in caches if values[0] <= found / size <= values[-1]}
        series = []
        for name, system in NAMES.items():
            groups = rows.where(system=system).by(label).items()
            series.append(Series(name, {value: float(own.words_per_second) / 1e6 for value, own in groups}))
        log = "" if against == "threads" else "x"
        panels.append(Panel(series=series, x=against, y="million words/s", log=log, ticks=values, marks=marks))
    return Plot(kind="lines", panels=panels, size=(9, 3))
