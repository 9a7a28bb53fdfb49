"""The quality of the vectors: similarity and analogy scores against gensim's, by the same measures.

Two sides are gensim's: ``gensim`` as its users have it, and ``gensim-linear`` with a learning rate that really falls as
asked for, see ``jobs.py``.

Trainings with results are skipped, so a long run may be split.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.harness import SETTINGS, Bench, require, settings_of
from benchmarks.plots import Bars
from benchmarks.result import Numbers, Result, Row, Rows, Score
from benchmarks.word2vec import NAMES
from wenmai.data.catalogue import get

__all__ = [
    "ANALOGIES",
    "LARGEST_SHORTFALL",
    "SIDES",
    "SIMILARITY",
    "TESTS",
    "VARIANTS",
    "compared_scores",
    "run",
    "score_vectors",
]

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
TESTS = SIMILARITY | ANALOGIES
RESTRICT_VOCAB = 30_000
LARGEST_SHORTFALL = 0.01
TURN = "seed"


def run(bench: Bench) -> None:
    """Trains each system with each seed on both sides and evaluates the vectors."""
    options = bench.options
    if options.sides != ("ours",):
        require("gensim")
    sets = {name: get(entry) for name, entry in TESTS.items()}
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
                    found = _train_baseline(bench, system, settings, model, linear=side == "gensim-linear")
                results.add(
                    {
                        "system": variant,
                        "side": side,
                        "seed": seed,
                        "scores": score_vectors(bench, model, sets),
                        **found,
                    }
                )


def _train_baseline(bench: Bench, system: str, settings: dict[str, Any], run: Path, *, linear: bool) -> dict[str, Any]:
    """Trains with gensim and imports its vectors in word2vec's binary format, which is exact."""
    target = bench.work / "gensim.bin"
    found = bench.train_baseline(system, settings, linear=linear, target=target)
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


def compared_scores(pairs: Iterable[tuple[Row, Row]], allowed: float) -> dict[str, Score | Numbers]:
    """Returns for each measured test our mean score and a baseline's."""
    found: dict[str, Score | Numbers] = {}
    for test in TESTS:
        scores = [(ours["scores"][test], theirs["scores"][test]) for ours, theirs in pairs]
        known = scores and None not in [one for both in scores for one in both]
        found[test] = Score(scores, allowed=allowed) if known else Numbers()
    return found


def facts(rows: Rows, result: Result) -> dict[str, Any]:
    variant, epochs, threads = rows[0]["system"], result.settings["epochs"], result.settings["threads"]
    facts: dict[str, Any] = {"name": NAMES[variant], "allowed": LARGEST_SHORTFALL}
    facts["seeds"] = ", ".join(map(str, sorted(result.rows.by("seed"))))
    facts["higher"] = (1 - (epochs - 1 + 1 / threads) / (2 * epochs)) / 0.5 - 1
    for baseline in ("gensim", "gensim-linear"):
        both = result.rows.where(system=VARIANTS[variant][0], side=baseline) + rows.where(side="ours")
        facts[f"beside_{baseline}"] = compared_scores(Rows(both).beside(baseline, "seed"), LARGEST_SHORTFALL)
    usual = variant != "sgns-classic"  # the other is for study
    facts["usual"] = facts["beside_gensim"] if usual else dict.fromkeys(TESTS, Numbers())
    for side in SIDES:
        own = rows.where(side="ours") if side == "ours" else result.rows.where(system=VARIANTS[variant][0], side=side)
        facts[f"dots_{side}"] = {test: [row["scores"][test] for row in own if row["scores"][test]] for test in TESTS}
    return facts


plot = Bars(
    by="system",
    label="{name}",
    panels={test: {side: f"dots_{side}[{test}]" for side in SIDES} for test in TESTS},
    x="score of each seed",
    kind="dots",
    size=(9, 3.1),
)
