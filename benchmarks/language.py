"""How well finished language models foretell a text: bits per character, perplexity, cost.

Nothing is trained here (but two tiny models with ``--quick``): the page shows the command of every run.
"""

from pathlib import Path

from benchmarks.harness import Bench, public_name

__all__ = ["LSTM_ON", "LSTM_PERPLEXITY", "LSTM_SECONDS", "run"]

LSTM_ON, LSTM_PERPLEXITY, LSTM_SECONDS = "data:ptb-valid", 118, 3600
QUICK_RUNS = {"ngram": ("order=2",), "rnnlm": ("hidden_size=8", "num_layers=1", "steps=5", "threads=1", "min_count=1")}
QUICK_TEXT = "the cat sat on the mat with the dog\n" * 40


def run(bench: Bench) -> None:
    """Measures each run of ``--runs`` on ``--on``, unless that has been done."""
    options = bench.options
    runs, on = options.runs, options.on
    if bench.quick and not runs:
        text = bench.work / "text.txt"
        text.write_text(QUICK_TEXT, encoding="utf-8")
        runs, on = _tiny_runs(bench, text), str(text)
    if not runs or on is None:
        print("language: measures finished runs on a text; name them: --runs RUN... --on TEXT", flush=True)
        return
    results = bench.results("language", {}, corpus=False, keep=not bench.quick, peers=("torch",))
    there = {(row["model_sha256"], row["on"]) for row in results.rows}
    for path in runs:
        facts = bench.job("run_facts", run=path.absolute())
        if (facts["model_sha256"], public_name(on)) in there:
            print(f"  {facts['run']}: is there already")
            continue
        results.add({**facts, "on": public_name(on), **bench.job("score_run", run=path.absolute(), on=on)})


def _tiny_runs(bench: Bench, text: Path) -> tuple[Path, ...]:
    runs = []
    for system, chosen in QUICK_RUNS.items():
        runs.append(bench.work / system)
        settings = [f"--set={assignment}" for assignment in chosen]
        bench.wenmai("train", system, text, "--out", runs[-1], "--quiet", *settings)
    return tuple(runs)
