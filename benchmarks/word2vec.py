"""Training speed of word2vec, in turns with gensim's ``corpus_file`` path, on the same words with the same settings."""

from benchmarks.harness import SETTINGS, Bench, require, settings_of

__all__ = ["TARGETS", "run"]

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
