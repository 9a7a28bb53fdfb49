"""How well finished runs translate: BLEU and chrF of a test set, also by the length of the source.

Nothing is trained here (but two tiny models with ``--quick``): the page shows the command of every run.
"""

from pathlib import Path

from benchmarks.harness import Bench, public_name

__all__ = ["BEAM", "SECONDS", "TARGETS", "run"]

BEAM = 5
TARGETS, SECONDS = {"transformer": 39, "seq2seq": 32}, 3600  # BLEU there, after so many seconds of training
QUICK_RUNS = {"with-attention": (), "without-attention": ("--set=context=first_state",)}
QUICK_SETTINGS = ("hidden_size=16", "embedding_size=8", "steps=10", "batch_tokens=256", "threads=1", "max_length=8")
QUICK_PAIRS = 20


def run(bench: Bench) -> None:
    """Measures each run of ``--runs`` on ``--pairs``, unless that has been done."""
    options = bench.options
    runs, pairs = options.runs, options.pairs
    if bench.quick and not runs:
        runs, pairs = _tiny_runs(bench)
    if not runs:
        print("translation: measures finished runs; name them: --runs RUN...", flush=True)
        return
    settings = {"beam": BEAM}
    peers = ("torch", "sacrebleu")
    results = bench.results("translation", settings, corpus=False, keep=not bench.quick, peers=peers)
    there = {(row["model_sha256"], row["pairs"]) for row in results.rows}
    for path in runs:
        facts = bench.job("run_facts", run=path.absolute())
        if (facts["model_sha256"], public_name(pairs)) in there:
            print(f"  {facts['run']}: is there already")
            continue
        found, seconds = bench.wenmai("evaluate", path.absolute(), "--on", pairs, "--beam", str(BEAM))
        scores = {name: value for name, value in found.items() if name not in ("run", "on")}
        results.add({**facts, "pairs": public_name(pairs), "evaluation_seconds": seconds, **scores})


def _tiny_runs(bench: Bench) -> tuple[tuple[Path, ...], str]:
    """Trains for a moment with and without attention; returns the runs and a small test set."""
    test = bench.work / "test.tsv"
    bench.job("beginning_of_pairs", pairs="builtin:numerals-test", count=QUICK_PAIRS, target=test)
    chosen = [f"--set={assignment}" for assignment in QUICK_SETTINGS]
    runs = []
    for name, more in QUICK_RUNS.items():
        runs.append(bench.work / name)
        bench.wenmai("train", "seq2seq", "--data", test, "--valid", test, "--out", runs[-1], "--quiet", *chosen, *more)
    return tuple(runs), str(test)
