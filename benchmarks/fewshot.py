"""How well finished language models answer without training on the task: accuracy beside chance.

Nothing is trained here (but a tiny model with ``--quick``): the page shows the command of every run.
"""

from collections.abc import Iterator
from typing import Any

from benchmarks.harness import Bench
from benchmarks.result import Result, Rows
from benchmarks.section import Section
from benchmarks.translation import train_command

__all__ = ["LIMIT", "SETS", "SHOTS", "run"]

SETS = {"ag-news": "dev", "trec": "dev", "sst2": "dev", "rte": "dev"}
SHOTS = (0, 1, 4)
LIMIT = 400
_WAYS = ("raw", "per_token", "relative")  # to normalise the likelihood of an answer
QUICK_SETTINGS = ("hidden_size=16", "num_layers=1", "num_heads=2", "steps=5", "threads=1", "vocab_size=300")


def run(bench: Bench) -> None:
    """Asks each run of ``--runs`` the questions of all sets, unless that has been done."""
    runs = bench.options.runs
    sets, shots, limit = (SETS, SHOTS, LIMIT) if not bench.quick else ({"rte": "dev"}, (1,), 3)
    if bench.quick and not runs:
        runs = (bench.work / "gpt",)
        settings = [f"--set={assignment}" for assignment in QUICK_SETTINGS]
        bench.wenmai("train", "gpt", "builtin:pydocs", "--out", runs[0], "--quiet", *settings)
    if not runs:
        print("fewshot: evaluates finished runs; name them: --runs RUN...", flush=True)
        return
    results = bench.results("fewshot", {"limit": limit}, corpus=False, keep=not bench.quick, baselines=("torch",))
    there = {(row["model_sha256"], row["set"], row["shots"]) for row in results.rows}
    for path in runs:
        facts = bench.job("run_facts", run=path.absolute())
        for name, split in sets.items():
            for count in shots:
                if (facts["model_sha256"], name, count) in there:
                    continue
                asked = ("--on", f"{name}/{split}", "--few-shot", str(count), "--limit", str(limit))
                found, seconds = bench.wenmai("evaluate", path.absolute(), *asked)
                results.add({**facts, "set": name, "split": split, "shots": count, **_found(found), "seconds": seconds})


def _found(result: dict[str, Any]) -> dict[str, Any]:
    """What the page shows of an evaluation: accuracy and its interval, by normalisation, and the baselines."""
    kept = {name: result[name] for name in ("examples", "chance", "majority", "left_out", "cut", "unknown_options")}
    names = ("accuracy", "low", "high")
    return kept | {one["normalisation"]: {name: one[name] for name in names} for one in result["figures"]}


def facts(rows: Rows, _: Result) -> dict[str, Any]:
    """Returns a row's intervals, and how far the best set is above what needs no question to be read."""
    shown = {name: _interval(rows[0][name]) for name in _WAYS}
    above = max(row[name]["low"] - max(row["chance"], row["majority"]) for row in rows for name in _WAYS)
    return {f"{name}_interval": text for name, text in shown.items()} | {"above": above}


def _interval(found: dict[str, float]) -> str:
    return f"**{found['accuracy']:.1%}** [{found['low']:.1%}, {found['high']:.1%}]"


def tables(_: Section, result: Result) -> Iterator[str]:
    commands = dict.fromkeys(train_command(rows[0]) for rows in result.rows.by("run").values())
    yield "```\n" + "\n".join(commands) + "\n```\n"
