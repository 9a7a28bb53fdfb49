"""Training speed of word2vec, in turns with gensim's ``corpus_file`` path, on the same words with the same settings."""

from typing import Any

from benchmarks.harness import SETTINGS, Bench, require, settings_of
from benchmarks.result import Result, Rows
from benchmarks.section import Bars, Claim, Part, Section

__all__ = ["NAMES", "SECTION", "TARGETS", "run"]

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


def run(bench: Bench) -> None:
    """Measures ours and gensim in turns; who begins changes with every round."""
    require("gensim")
    results = bench.results("word2vec", SETTINGS)
    for repeat in range(bench.repeats(3)):
        for system, size in TARGETS:
            settings = settings_of(system, {"vector_size": size, "seed": repeat + 1})
            for side in ("ours", "gensim") if repeat % 2 == 0 else ("gensim", "ours"):
                if side == "ours":
                    found = bench.train(bench.corpus, system, settings)
                else:
                    found = bench.train_peer(system, settings)
                results.add({"system": system, "vector_size": size, "side": side, "repeat": repeat, **found})


def _facts(rows: Rows, result: Result) -> dict[str, Any]:
    corpus, first = result.content["corpus"], rows[0]
    return {
        "name": NAMES[first["system"]],
        "goal": TARGETS.get((first["system"], first["vector_size"])),
        "encoding": corpus["numbering_seconds"],
        "words": corpus["words"] * result.settings["epochs"],
    }


SECTION = Section(
    "Training speed",
    (
        Part(
            """
            Window {window}, 5 negatives (or none), sample {sample:g}, min_count {min_count}, {epochs} epochs, {threads}
            threads, the same learning rates. Words/s are all words of the text times epochs over the time of training
            alone, computed alike on both sides; pairs of numbers are ours / gensim. What comes before training is not
            in the ratio: encoding the corpus took {encoding:.1f} s (once, it is kept), gensim's vocabulary scan
            {gensim.scan_seconds:.1f} s (every time).

            gensim reads a copy with a line break after every 1,000 words, because its threads share a file by lines and
            cut a line after 10,000 words: of a corpus in one line it would train on 20,000 words. It reports to have
            read {gensim.words_read.most:,} words, of {words:,}.
            """,
            {
                "system": "{name}",
                "d": "{vector_size}",
                "ours, M words/s": "{ours.words_per_second:M}",
                "gensim": "{gensim.words_per_second:M}",
                "ratio (each round)": "{over_gensim:each}",
                "target": "≥ {goal:g}",
                "seconds of training": "{ours.seconds:.1f} / {gensim.seconds:.1f}",
                "seconds of the process": "{ours.wall_seconds:.1f} / {gensim.wall_seconds:.1f}",
                "peak MB": "{ours.peak_memory_bytes:MB} / {gensim.peak_memory_bytes:MB}",
            },
            by="system vector_size",
        ),
    ),
    Claim(
        "{name}, d = {vector_size}: words/s over gensim's",
        "{over_gensim:.2f} ×",
        "≥ {goal:g} ×",
        by="system vector_size",
        chinese="skip-gram，负采样，d = 100：速度与 gensim 之比",
        only=("sgns", 100),
    ),
    facts=_facts,
    speed="words_per_second",
    plot=Bars(
        by="system vector_size",
        label="{system}, d={vector_size}",
        panels={"": {"ours": "ours.words_per_second", "gensim": "gensim.words_per_second"}},
        x="million words/s, {threads} threads",
        unit=1e6,
        size=(7, 2.8),
    ),
)
