"""Training speed of word2vec against gensim's ``corpus_file`` path, alternating, with the same words and settings."""

from typing import Any

from benchmarks.harness import SETTINGS, Bench, in_turn, require, settings_of
from benchmarks.plots import Bars
from benchmarks.result import Result, Rows

__all__ = ["NAMES", "TARGETS", "run"]

NAMES = {
    "sgns": "skip-gram, negative sampling",
    "sgns-classic": "skip-gram, negative sampling, negatives not shared",
    "sghs": "skip-gram, hierarchical softmax",
    "cbow-ns": "CBOW, negative sampling",
    "cbow-hs": "CBOW, hierarchical softmax",
    "fasttext-skipgram": "skip-gram with subwords",
    "fasttext-cbow": "CBOW with subwords",
}
TARGETS = {  # (system, vector size): at least this many times gensim's words/s
    ("sgns", 100): 5.0,
    ("sgns", 300): 4.0,
    ("sghs", 100): 2.5,
    ("cbow-ns", 100): 2.0,
    ("cbow-hs", 100): 1.5,
}
SPEED = "words_per_second"


def run(bench: Bench) -> None:
    """Measures ours and gensim alternately; the first changes with every round."""
    require("gensim")
    results = bench.results("word2vec", SETTINGS)
    for repeat in range(bench.repeats(3)):
        for system, size in TARGETS:
            settings = settings_of(system, {"vector_size": size, "seed": repeat + 1})
            for side in in_turn(("ours", "gensim"), repeat):
                if side == "ours":
                    found = bench.train(bench.corpus, system, settings)
                else:
                    found = bench.train_baseline(system, settings)
                results.add({"system": system, "vector_size": size, "side": side, "repeat": repeat, **found})


def facts(rows: Rows, result: Result) -> dict[str, Any]:
    corpus, first = result.content["corpus"], rows[0]
    return {
        "name": NAMES[first["system"]],
        "goal": TARGETS.get((first["system"], first["vector_size"])),
        "encoding": corpus["numbering_seconds"],
        "words": corpus["words"] * result.settings["epochs"],
        "whole": rows.ratios("gensim", "wall_seconds", "repeat"),
    }


plot = Bars(
    by="system vector_size",
    label="{name}, d={vector_size}",
    panels={"": {"ours": "ours.words_per_second", "gensim": "gensim.words_per_second"}},
    x="million words/s, {threads} threads",
    unit=1e6,
    size=(7, 2.8),
)
