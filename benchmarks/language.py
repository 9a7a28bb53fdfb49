"""How well finished language models predict a text: bits per character, perplexity, cost.

Nothing is trained here (but two tiny models with ``--quick``): the page shows the command of every run.
"""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness import Bench, public_name
from benchmarks.result import Numbers, Result, Row, Rows
from benchmarks.section import Section, table
from benchmarks.translation import train_command

__all__ = ["LSTM_ON", "LSTM_PERPLEXITY", "LSTM_SECONDS", "run"]

LSTM_ON, LSTM_PERPLEXITY, LSTM_SECONDS = "data:ptb-valid", 118, 3600
QUICK_RUNS = {"ngram": ("order=2",), "rnnlm": ("hidden_size=8", "num_layers=1", "steps=5", "threads=1", "min_count=1")}
QUICK_TEXT = "the cat sat on the mat with the dog\n" * 40


def run(bench: Bench) -> None:
    """Evaluates each run of ``--runs`` on ``--on``, unless that has been done."""
    options = bench.options
    runs, on = options.runs, options.on
    if bench.quick and not runs:
        text = bench.work / "text.txt"
        text.write_text(QUICK_TEXT, encoding="utf-8")
        runs, on = _tiny_runs(bench, text), str(text)
    if not runs or on is None:
        print("language: evaluates finished runs on a text; name them: --runs RUN... --on TEXT", flush=True)
        return
    results = bench.results("language", {}, corpus=False, keep=not bench.quick, baselines=("torch",))
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


COLUMNS = {
    "run": "{run}",
    "system": "{system}",
    "parameters": "{parameters:,}",
    "perplexity by token": "{perplexity:.2f}{mark}",
    "by word": "{word_perplexity:.2f}",
    "forward / backward": "{forward_perplexity:.2f} / {backward_perplexity:.2f}",
    "masked tokens right": "{masked_accuracy:.3f}",
    "bits per character": "{bits_per_character:.4f}",
    "spelled": "{spelled_bits_per_character:.4f}",
    "unknown tokens": "{oov:,}",
    "training, s": "{training_seconds:,.0f}",
    "training tokens": "{training_tokens:,}",
    "size, MB": "{size_bytes:MB}",
}


def tables(section: Section, result: Result) -> Iterator[str]:
    for on, rows in result.rows.by("on").items():
        ordered = Rows(sorted(rows, key=lambda row: row["bits_per_character"]))
        groups = section.groups(result, "run memory", ordered)
        yield f"`{on}`:\n"
        filled = [{heading: facts.fill(cell) for heading, cell in COLUMNS.items()} for _, facts in groups]
        empty = {heading for heading in COLUMNS if all(set(row[heading]) <= set("- /") for row in filled)}
        yield table([{heading: cell for heading, cell in row.items() if heading not in empty} for row in filled])
    commands = list(dict.fromkeys(map(train_command, result.rows)))
    first = result.rows[0]
    score = f"wenmai score runs/{first['run']} --file {shlex.quote(first['on'])}"
    yield "```\n" + "\n".join([*commands, score]) + "\n```\n"


def facts(rows: Rows, result: Result) -> dict[str, Any]:
    lstms = rows.where(system="rnnlm", on=LSTM_ON)
    best = lstms.largest(lambda row: (row["training_seconds"] <= LSTM_SECONDS, -row["perplexity"]))
    memory = [with_memory["perplexity"] / without["perplexity"] for with_memory, without in _memory_pairs(rows)]
    return {
        "mark": " (pseudo)" if rows[0].get("pseudo") else "",
        "lstm": best,
        "minutes": Numbers(seconds / 60 for seconds in best.training_seconds),
        "memory_ratio": Numbers(memory),
        "pairs": len(memory),
    }


def _memory_pairs(rows: Rows) -> list[tuple[Row, Row]]:
    """Transformer-XLs with a memory and without one, alike in everything else, the tokens they were trained on too."""
    alike: dict[Any, dict[bool, Row]] = {}
    apart = ("memory_length", "minutes", "steps")  # the number of tokens says how long they were trained
    for row in rows.where(system="transformer-xl"):
        rest = sorted((name, str(value)) for name, value in row["changed"].items() if name not in apart)
        key = (row["corpus"], row["training_tokens"], *rest)
        alike.setdefault(key, {})[row["changed"].get("memory_length") == 0] = row
    return [(both[False], both[True]) for both in alike.values() if len(both) == 2]
