"""GloVe and PPMI + SVD: counting and training speed, and quality against word2vec's skip-gram.

Counts are made anew for every training. Trainings with results are skipped, so a long run may be split.
GloVe's own programs, which no package installs, are the side ``reference`` if all four are on the path.
"""

import shutil
import statistics
from typing import Any

from benchmarks.harness import SETTINGS, Bench, settings_of
from benchmarks.plots import Bars
from benchmarks.quality import ANALOGIES, RESTRICT_VOCAB, SIMILARITY, TESTS, score_vectors
from benchmarks.result import Numbers, Result, Rows
from wenmai.data.catalogue import get

__all__ = ["REFERENCE", "SYSTEMS", "run"]

REFERENCE = "glove-reference"
TURN = "seed"
TITLES = {
    "glove": "GloVe",
    REFERENCE: "GloVe, its own programs",
    "ppmi-svd": "PPMI-SVD",
    "word2vec-sgns": "word2vec, skip-gram",
}
_PROGRAMS = ("vocab_count", "cooccur", "shuffle", "glove")
_SHARED = {name: SETTINGS[name] for name in ("vector_size", "min_count", "threads")}
SYSTEMS: dict[str, dict[str, Any]] = {
    "glove": {"epochs": 15},
    "ppmi-svd": {},
    "word2vec-sgns": settings_of("sgns", {}),
}
_FACTS = ("seconds", "loss", "peak_memory_bytes", "vocabulary", "words_per_second")
_OF_COUNTS = ("counting_seconds", "non_zeros", "non_zeros_per_second")


def run(bench: Bench) -> None:
    """Trains each system with each seed and evaluates the vectors."""
    sets = {name: get(entry) for name, entry in (SIMILARITY | ANALOGIES).items()}
    settings = {**_SHARED, "systems": SYSTEMS, "restrict_vocab": RESTRICT_VOCAB}
    results = bench.results("glove", settings, keep=not bench.quick, baselines=("scipy",))
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
    programs = {name: shutil.which(name) for name in _PROGRAMS}
    seed = bench.seeds(1)[0]  # the programs draw the same numbers whenever they are started
    if all(programs.values()) and (REFERENCE, seed) not in there:
        found = _train_reference(bench, programs)
        scores = score_vectors(bench, bench.work / "run", sets)
        results.add({"system": REFERENCE, "seed": seed, "scores": scores, **found})


def _train_reference(bench: Bench, programs: dict[str, str | None]) -> dict[str, Any]:
    """Counts and trains with GloVe's programs and imports the vectors they write."""
    plain, model = bench.work / "plain.txt", bench.work / "run"
    bench.job("ngram_text", source=bench.corpus.path, target=plain)
    settings = {**_SHARED, **SYSTEMS["glove"], "window": 10, "x_max": 10}
    found = bench.job("reference_glove", programs=programs, text=plain, settings=settings, work=bench.work)
    words = bench.corpus.words
    bench.clear(model)
    bench.wenmai("import", "word2vec", bench.work / "vectors.txt", "--out", model)
    trained = found["non_zeros"] * settings["epochs"] / found["seconds"]
    return {**found, "counted_per_second": words / found["counting_seconds"], "non_zeros_per_second": trained}


def facts(rows: Rows, result: Result) -> dict[str, Any]:
    ours, theirs = (_means(result.rows.where(system=system)) for system in ("glove", REFERENCE))
    return {
        "name": TITLES[rows[0]["system"]],
        "epochs": result.settings["systems"]["glove"]["epochs"],
        "seeds": ", ".join(map(str, sorted(result.rows.by("seed")))),
        "glove": result.rows.where(system="glove"),
        "scores": _means(rows),
        "lead": {test: Numbers(one - other for one in ours[test] for other in theirs[test]) for test in TESTS},
    }


def _means(rows: Rows) -> dict[str, Numbers]:
    """The mean score of each test over the seeds."""
    scores = {test: [row["scores"][test] for row in rows if row["scores"][test] is not None] for test in TESTS}
    return {test: Numbers([statistics.mean(found)] if found else []) for test, found in scores.items()}


plot = Bars(
    by="system",
    label="{name}",
    panels={test: {"score": f"scores[{test}]"} for test in TESTS},
    x="mean score",
    size=(9, 2.8),
)
