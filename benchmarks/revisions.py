"""Whether a change made wenmai slower: the same work in two checkouts, in turn.

``python -m benchmarks revisions --against FOLDER`` compares this checkout with another one, such as a git worktree of
the commit before. Each piece of work is a process of its own that uses only what both have: ``wenmai.train`` and the
verbs of its result. The clock starts when everything is compiled.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT, STEERING
from wenmai.core.folder import writing_json
from wenmai.data import numerals, pydocs
from wenmai.runs.environment import describe_environment

__all__ = ["check"]

_FIRST = """
import json, sys, time
import wenmai
text, pairs, out, quick = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4] == "quick"

def speed(work, amount, least=0.05 if quick else 2.0):
    work()
    done, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < least:
        work()
        done += amount
    return done / (time.perf_counter() - begin)

"""
_GPT = """
run = wenmai.train("gpt", text, out=out, epochs=1, steps=3 if quick else 20, threads=1, vocab_size=500,
                   hidden_size=128, num_layers=3, seed=1)
model = wenmai.load(run.path)
"""
WORK = {  # name: what prints a speed; higher is better
    "word2vec, words/s": """
run = wenmai.train("word2vec", text, out=out, epochs=1 if quick else 3, threads=1, min_count=1)
print(run.summary["words_per_second"])""",
    "fastText, words/s": """
run = wenmai.train("fasttext", text, out=out, epochs=1, threads=1, min_count=1, buckets=20000)
print(run.summary["words_per_second"])""",
    "GPT training, tokens/s": _GPT + """print(run.summary["tokens_per_second"])""",
    "GPT generation, tokens/s": _GPT
    + """
print(speed(lambda: model.generate("the", max_tokens=100, temperature=0.0, past_end=True), 100))""",
    "translation, sentences/s": """
run = wenmai.train("transformer", pairs, out=out, epochs=1, steps=3 if quick else 60, threads=1, hidden_size=64,
                   num_layers=2, ffn_size=128, vocab_size=150, seed=1)
model = wenmai.load(run.path)
sources = [line.split("\\t")[0] for line in open(pairs, encoding="utf-8").read().splitlines()[:64]]
print(speed(lambda: model.translate(sources, beam_size=4), len(sources)))""",
    "n-grams, words/s": """
run = wenmai.train("ngram", text, out=out)
print(run.summary["words_per_second"])""",
    "n-gram scoring, lines/s": """
run = wenmai.train("ngram", text, out=out)
model, lines = wenmai.load(run.path), open(text, encoding="utf-8").read().splitlines()
print(speed(lambda: sum(one.log_prob for one in model.score(lines, threads=1)), len(lines)))""",
    "encoding, bytes/s": """
from wenmai.runs.train import train
begin = time.perf_counter()
run = train("gpt", text, out=out, epochs=1, minutes=0.001, threads=1, vocab_size=500, hidden_size=8, num_layers=1,
            num_heads=1)
print(len(open(text, "rb").read()) / (time.perf_counter() - begin - run.summary["seconds"]))""",
}


def check(results: Path, against: Path, *, only: Sequence[str], repeats: int, quick: bool) -> None:
    """Does all the work in both checkouts alternately, prints medians and ratios, and writes ``revisions.json``.

    Args:
        results: Folder of the result file.
        against: The other checkout.
        only: Words that the names of the work begin with; then nothing is written. None: all of it.
        repeats: How often each piece of work is done on each side, after one that is not counted.
        quick: Tiny work: shows that it runs, measures nothing.
    """
    sides = {"this": ROOT, "other": against.resolve()}
    with tempfile.TemporaryDirectory(prefix="wenmai-revisions-") as folder:
        text, pairs = pydocs.text_file(folder), numerals.text_file(folder, "train")
        rows = [
            _compared(name, sides, text, pairs, repeats, quick) for name in WORK if name.startswith(tuple(only) or "")
        ]
    if only:
        return
    commits = {side: _commit(folder) for side, folder in sides.items()}
    machine = describe_environment()
    writing_json(results / "revisions.json", {"machine": machine, "commits": commits, "repeats": repeats, "rows": rows})


def _compared(
    name: str, sides: Mapping[str, Path], text: Path, pairs: Path, repeats: int, quick: bool
) -> dict[str, Any]:
    """Does one piece of work on both sides alternately."""
    found: dict[str, list[float]] = {side: [] for side in sides}
    for repeat in range(repeats + 1):
        for side, folder in sides.items():
            value = _run(_FIRST + WORK[name], folder, text, pairs, quick)
            if repeat:  # the first fills caches of compiled code
                found[side].append(value)
    ratios = [this / other for this, other in zip(found["this"], found["other"], strict=True)]
    row = {"what": name, **found, "ratio": statistics.median(ratios), "low": min(ratios), "high": max(ratios)}
    medians = ", ".join(f"{statistics.median(found[side]):,.6g} ({side})" for side in sides)
    print(f"{name}: {medians}; ratio {row['ratio']:.3f} [{row['low']:.3f}, {row['high']:.3f}]", flush=True)
    return row


def _run(code: str, folder: Path, text: Path, pairs: Path, quick: bool) -> float:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(STEERING)}
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    with tempfile.TemporaryDirectory(prefix="wenmai-revisions-") as work:
        command = [sys.executable, "-c", code, str(text), str(pairs), f"{work}/run", "quick" if quick else "whole"]
        environment |= {"PYTHONPATH": str(folder), "WENMAI_CACHE": f"{work}/cache", **threads}
        done = subprocess.run(command, env=environment, cwd=work, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{folder}: {done.stderr.strip()[-2000:]}")
    return float(done.stdout.split()[-1])


def _commit(folder: Path) -> str | None:
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None
