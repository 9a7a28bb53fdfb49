"""How the cost of training grows: words/s against vocabulary, dimension and threads."""

from typing import Any

from benchmarks.harness import SETTINGS, Bench, settings_of
from wenmai.training.sweep import available_cores

__all__ = ["run"]

SYSTEMS = ("sgns", "cbow-ns")
VOCABULARIES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
ZIPF_WORDS = 10_000_000
DIMENSIONS = (50, 100, 200, 300, 400, 600)


def run(bench: Bench) -> None:
    """Changes one thing at a time: the vocabulary of made-up text, then dimension and threads on the corpus."""
    results = bench.results("scaling", SETTINGS | {"epochs": 1})

    def measure(against: str, text: Any, changed: dict[str, Any]) -> None:
        for repeat in range(bench.repeats(2)):
            for system in SYSTEMS:
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
