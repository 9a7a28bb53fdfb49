"""GloVe and PPMI + SVD: counting and training speed, and what the vectors are worth beside word2vec's skip-gram.

Counts are made anew for every training. A training that is there already is skipped, so a long run may be split.
"""

from typing import Any

from benchmarks.harness import SETTINGS, Bench, settings_of
from benchmarks.quality import ANALOGIES, RESTRICT_VOCAB, SIMILARITY, score_vectors
from wenmai.data.catalogue import get

__all__ = ["COUNTING_TARGET", "SYSTEMS", "TRAINING_TARGET", "run"]

COUNTING_TARGET = 3e6  # words a second on two threads, vocabulary of min_count 5, window of 10 on both sides
TRAINING_TARGET = 4e6  # non-zero counts a second on two threads, vectors of 100
_SHARED = {name: SETTINGS[name] for name in ("vector_size", "min_count", "threads")}
SYSTEMS: dict[str, dict[str, Any]] = {
    "glove": {"epochs": 15},
    "ppmi-svd": {},
    "word2vec-sgns": settings_of("sgns", {}),
}
_FACTS = ("seconds", "loss", "peak_memory_bytes", "vocabulary", "words_per_second")
_OF_COUNTS = ("counting_seconds", "non_zeros", "non_zeros_per_second")


def run(bench: Bench) -> None:
    """Trains each system with each seed and scores the vectors."""
    sets = {name: get(entry) for name, entry in (SIMILARITY | ANALOGIES).items()}
    settings = {**_SHARED, "systems": SYSTEMS, "restrict_vocab": RESTRICT_VOCAB}
    results = bench.results("glove", settings, keep=not bench.quick, peers=("scipy",))
    there = {(row["system"], row["seed"]) for row in results.rows}
    for seed in bench.seeds(1):
        for system, ours in SYSTEMS.items():
            if (system, seed) in there:
                continue
            model = bench.work / "run"
            bench.clear(model)
            bench.clear(bench.work / "cache" / "cooccurrences")
            chosen = {**bench.corpus.settings, **_SHARED, **ours, "seed": seed}
            flags = [f"--set={name}={value}" for name, value in chosen.items()]
            summary, wall = bench.wenmai("train", system, bench.corpus.path, "--quiet", "--out", model, *flags)
            found = {name: summary[name] for name in (*_FACTS, *_OF_COUNTS) if name in summary}
            if "counting_seconds" in found:
                found["counted_per_second"] = bench.corpus.words / found["counting_seconds"]
            scores = score_vectors(bench, model, sets)
            results.add({"system": system, "seed": seed, "scores": scores, "wall_seconds": wall, **found})
