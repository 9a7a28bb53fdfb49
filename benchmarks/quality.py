"""What the vectors are worth: similarity and analogy scores beside gensim's, by the same measures for both.

Two sides are gensim's: ``gensim`` as its users have it, and ``gensim-linear`` with a learning rate that really falls as
asked for, see ``jobs.py``.

A long run may be split: every training is written down when it is done, and what is there already is skipped.
"""

from pathlib import Path
from typing import Any

from benchmarks.harness import SETTINGS, Bench, require, settings_of
from wenmai.data.catalogue import get

__all__ = ["ANALOGIES", "LARGEST_SHORTFALL", "SIDES", "SIMILARITY", "VARIANTS", "run", "score_vectors"]

VARIANTS = {  # name: (system, settings of ours alone)
    "sgns": ("sgns", {}),
    "sgns-classic": ("sgns", {"shared_negatives": False}),
    "cbow-ns": ("cbow-ns", {}),
    "sghs": ("sghs", {}),
    "cbow-hs": ("cbow-hs", {}),
}
SIDES = ("ours", "gensim", "gensim-linear")
SIMILARITY = {"WS-353": "ws353-all", "SimLex-999": "simlex-999", "MTurk-771": "mturk-771"}
ANALOGIES = {"Google analogies": "google-analogies"}
RESTRICT_VOCAB = 30_000
LARGEST_SHORTFALL = 0.01


def run(bench: Bench) -> None:
    """Trains each system with each seed on both sides and scores the vectors."""
    options = bench.options
    if options.sides != ("ours",):
        require("gensim")
    sets = {name: get(entry) for name, entry in (SIMILARITY | ANALOGIES).items()}
    results = bench.results("quality", SETTINGS | {"restrict_vocab": RESTRICT_VOCAB}, keep=not bench.quick)
    there = {(row["system"], row["side"], row["seed"]) for row in results.rows}
    for seed in bench.seeds(1, 2, 3):
        for variant in options.systems:
            system, ours_alone = VARIANTS[variant]
            settings = settings_of(system, {"seed": seed})
            for side in options.sides:
                if (side != "ours" and variant != system) or (variant, side, seed) in there:
                    continue
                model = bench.work / "run"
                if side == "ours":
                    found = bench.train(bench.corpus, system, settings | ours_alone, run=model)
                else:
                    found = _train_peer(bench, system, settings, model, linear=side == "gensim-linear")
                results.add(
                    {
                        "system": variant,
                        "side": side,
                        "seed": seed,
                        "scores": score_vectors(bench, model, sets),
                        **found,
                    }
                )


def _train_peer(bench: Bench, system: str, settings: dict[str, Any], run: Path, *, linear: bool) -> dict[str, Any]:
    """Trains with gensim and brings its vectors over in word2vec's binary format, which keeps every bit."""
    target = bench.work / "gensim.bin"
    found = bench.train_peer(system, settings, linear=linear, target=target)
    bench.clear(run)
    bench.wenmai("import", "word2vec", target, "--out", run)
    return found


def score_vectors(bench: Bench, run: Path, sets: dict[str, Path]) -> dict[str, float | None]:
    """Spearman's correlation of each similarity set, accuracy of each analogy set, 0 to 1."""
    asked: list[str | Path] = []
    for name, path in sets.items():
        asked += ["--similarity" if name in SIMILARITY else "--analogy", path]
    found, _ = bench.wenmai("evaluate", run, *asked, "--restrict-vocab", str(RESTRICT_VOCAB))
    values = [result["spearman"] for result in found["similarity"]] + [
        result["accuracy"] for result in found["analogy"]
    ]
    return dict(zip(sets, values, strict=True))
