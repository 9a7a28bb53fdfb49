"""fastText word vectors against the official package and gensim: speed and quality.

All three learn from the same words with the same settings: n-grams of 3 to 6 characters in 2,000,000 buckets, 5 noise
words drawn by the square root of their counts. Trainings with results are skipped, so a long run may be split.
"""

from pathlib import Path
from typing import Any

from benchmarks.harness import Bench, in_turn, require
from benchmarks.plots import Bars
from benchmarks.quality import ANALOGIES, RESTRICT_VOCAB, SIMILARITY, TESTS, compared_scores, score_vectors
from benchmarks.result import Numbers, Result, Rows
from benchmarks.word2vec import NAMES
from wenmai.data.catalogue import get

__all__ = ["LARGEST_SHORTFALL", "SETTINGS", "SIDES", "SYSTEMS", "TARGETS", "run"]

SETTINGS: dict[str, Any] = {
    "vector_size": 100,
    "window": 5,
    "negative": 5,
    "sample": 1e-4,
    "min_count": 5,
    "min_ngram": 3,
    "max_ngram": 6,
    "buckets": 2_000_000,
    "noise_exponent": 0.5,
    "learning_rate": 0.05,
    "epochs": 1,
    "threads": 2,
}
SYSTEMS = {"fasttext-skipgram": "skipgram", "fasttext-cbow": "cbow"}
SIDES = {"ours": None, "official": "fasttext", "gensim": "gensim"}  # and what each needs
TARGETS = {"fasttext-skipgram": 4.0}  # at least this many times the official words/s
LARGEST_SHORTFALL = 0.01  # of each similarity score, below the official
_MOST_DIFFERENCE = 0.02  # between the words of the text and those that a baseline has read
SPEED, TURN = "words_per_second", "seed"


def run(bench: Bench) -> None:
    """Trains each system on each side alternately and evaluates the vectors; the first changes with every seed."""
    for package in filter(None, SIDES.values()):
        require(package)
    sets = {name: get(entry) for name, entry in (SIMILARITY | ANALOGIES).items()}
    baselines = ("fasttext-numpy2-wheel", "gensim")
    settings = SETTINGS | {"restrict_vocab": RESTRICT_VOCAB}
    results = bench.results("fasttext", settings, keep=not bench.quick, baselines=baselines)
    there = {(row["system"], row["side"], row["seed"]) for row in results.rows}
    for turn, seed in enumerate(bench.seeds(1)):
        for system in SYSTEMS:
            for side in in_turn(SIDES, turn):
                if (system, side, seed) in there:
                    continue
                model, settings = bench.work / "run", SETTINGS | {"seed": seed}
                if side == "ours":
                    found = bench.train(bench.corpus, system, settings, run=model)
                    found["whole_seconds"] = found["wall_seconds"]
                else:
                    found = _train_baseline(bench, side, system, settings, model)
                scores = score_vectors(bench, model, sets)
                results.add({"system": system, "side": side, "seed": seed, "scores": scores, **found})


def _train_baseline(bench: Bench, side: str, system: str, settings: dict[str, Any], run: Path) -> dict[str, Any]:
    """Trains a baseline and imports its model with the n-grams, so that all sides have vectors of unseen words."""
    target = bench.work / "baseline.bin"
    chosen = {"algorithm": SYSTEMS[system], "settings": settings, "target": target}
    found = bench.job(f"{side}_subwords", lines=bench.broken_corpus, **chosen)
    words = bench.corpus.words * settings["epochs"]
    read = found.get("words_read", words)  # the official package does not report it
    if abs(read / words - 1) > _MOST_DIFFERENCE or found["vocabulary"] != bench.corpus.facts["vocabulary"]:
        raise SystemExit(
            f"{side} read {read:,} words and knows {found['vocabulary']:,}, expected {words:,} and "
            f"{bench.corpus.facts['vocabulary']:,}: nothing to compare with"
        )
    bench.clear(run)
    bench.wenmai("import", "fasttext", target, "--out", run)
    return {"words_per_second": words / found["seconds"], **found}


def facts(rows: Rows, result: Result) -> dict[str, Any]:
    system, side = rows[0]["system"], rows[0]["side"]
    own = result.rows.where(system=system)
    seeds = {name: set(group.by("seed")) for name, group in result.rows.by("side").items()}
    shared = seeds.get("ours", set()) & seeds[side]
    scores = {baseline: compared_scores(own.beside(baseline, "seed"), LARGEST_SHORTFALL) for baseline in SIDES}
    judged = system in TARGETS
    return {
        "name": NAMES[system],
        "shared_seeds": ", ".join(map(str, sorted(shared))),
        "goal": f"≥ {TARGETS[system]:g}" if side == "official" and judged else "",
        "over": own.ratios(side, "words_per_second", "seed") if side != "ours" else Numbers(),
        "scores": scores,
        "speed_judged": own.ratios("official", "words_per_second", "seed") if judged else Numbers(),
        "whole": own.ratios("official", "whole_seconds", "seed"),
        "scores_judged": scores["official"] if judged else dict.fromkeys(TESTS, Numbers()),
    }


plot = Bars(
    by="system",
    label="{name}",
    panels={"": {side: f"{side}.words_per_second" for side in SIDES}},
    x="million words/s, {threads} threads",
    unit=1e6,
    size=(7, 2.2),
)
