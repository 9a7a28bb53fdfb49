"""How often finished language models find the acceptable sentence of a minimal pair likelier, beside published ones.

Nothing is trained here (but a tiny model with ``--quick``): the page shows the command of every run.
"""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.harness import DEFAULT_PAIRS, Bench, Results, public_name
from benchmarks.result import Numbers, Result, Row, Rows
from benchmarks.section import Section, table
from benchmarks.translation import train_command
from wenmai.data.catalogue import MIRROR_VARIABLE

__all__ = ["HOUR", "PUBLISHED", "found_pairs", "run"]

PUBLISHED = {"ngram": "5-gram", "lstm": "LSTM", "txl": "Transformer-XL", "gpt2": "GPT-2"}
HOUR = 2 * 3660  # seconds of an hour of training and what writing the model takes, times two threads
FIGURES = Path("blimp") / "published.jsonl"  # in a mirror: the accuracy of each model on each paradigm
QUICK_TEXT = "the cat sat on the mat with the dog .\n" * 40
QUICK_PAIRS = "The cat sat.\tThe sat cat.\tone\tfirst\nThe dog sat.\tThe sat dog.\ttwo\tsecond\n"


def run(bench: Bench) -> None:
    """Evaluates each run of ``--runs`` on ``--pairs``, unless that has been done; with ``--on`` on a text too."""
    options = bench.options
    runs, pairs, on = options.runs, options.pairs, options.on
    pairs = "blimp" if pairs == DEFAULT_PAIRS else pairs
    if bench.quick and not runs:
        runs, pairs, on = _tiny(bench)
    if not runs:
        print("minimal_pairs: evaluates finished runs; name them: --runs RUN... [--on TEXT]", flush=True)
        return
    results = bench.results("minimal_pairs", {}, corpus=False, keep=not bench.quick, baselines=("torch",))
    there = {(row.get("model_sha256"), row.get("pairs"), row.get("on")) for row in results.rows}
    for path in runs:
        facts = bench.job("run_facts", run=path.absolute())
        public = None if on is None else public_name(on)
        if (facts["model_sha256"], public_name(pairs), public) in there:
            print(f"  {facts['run']}: is there already")
            continue
        found, seconds = bench.wenmai("evaluate", path.absolute(), "--pairs", pairs)
        _add_published(results, {one["name"]: one["phenomenon"] for one in found["paradigms"]})
        bits = {} if on is None else _bits(bench, path, on)
        results.add(
            {**facts, "pairs": public_name(pairs), "on": public, **found_pairs(found), **bits, "seconds": seconds}
        )


def _tiny(bench: Bench) -> tuple[tuple[Path, ...], str, str]:
    text, pairs = bench.work / "text.txt", bench.work / "pairs.tsv"
    text.write_text(QUICK_TEXT, encoding="utf-8")
    pairs.write_text(QUICK_PAIRS, encoding="utf-8")
    bench.wenmai("train", "ngram", text, "--out", bench.work / "ngram", "--quiet", "--set=order=2")
    return (bench.work / "ngram",), str(pairs), str(text)


def _bits(bench: Bench, path: Path, on: str) -> dict[str, Any]:
    found, _ = bench.wenmai("evaluate", path.absolute(), "--on", on)
    return {"bits": float(found["spelled_bits_per_character"]), "pseudo": bool(found.get("pseudo"))}


def found_pairs(result: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what the page shows of an evaluation on pairs; of phenomena accuracy and interval."""
    names = ("accuracy", "low", "high", "pair_accuracy", "ties", "unknown_ties", "uneven", "spelling")
    phenomena = {one["name"]: [one["accuracy"], one["low"], one["high"]] for one in result["phenomena"]}
    return {name: result[name] for name in names} | {"count": result["pairs"], "phenomena": phenomena}


def _add_published(results: Results, phenomena: Mapping[str, str]) -> None:
    """Writes down the published figures if a mirror has them and they are not there yet.

    They are grouped by the phenomena of the pairs, as ours are; ``s-selection`` is with argument structure elsewhere.
    """
    path = Path(os.environ.get(MIRROR_VARIABLE, "").removeprefix("file://")) / FIGURES
    if not path.is_file() or any(row.get("published") for row in results.rows):
        return
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    if {row["UID"] for row in rows} != phenomena.keys():
        return
    for key, name in PUBLISHED.items():
        found: dict[str, list[float]] = {phenomenon: [] for phenomenon in phenomena.values()}
        for row in rows:
            found[phenomena[row["UID"]]].append(row[key])
        means = {phenomenon: [mean(own)] for phenomenon, own in found.items()}
        accuracy = mean(row[key] for row in rows)
        results.add({"run": f"{name}, published", "published": True, "accuracy": accuracy, "phenomena": means})


COLUMNS = {
    "run": "{run}",
    "system": "{system}",
    "text": "{corpus}",
    "parameters": "{parameters:,}",
    "training, s": "{training_seconds:,.0f}",
    "threads": "{threads}",
    "training tokens": "{training_tokens:,}",
    "bits per character": "{bits:.4f}{mark}",
    "accuracy": "{interval}",
    "ties": "{ties:,}",
    "spelling": "{spelling}",
}


def tables(section: Section, result: Result) -> Iterator[str]:
    rows = Rows(sorted(result.rows, key=lambda row: row["accuracy"]))
    groups = section.groups(result, "", rows)
    yield table([{heading: facts.fill(cell) for heading, cell in COLUMNS.items()} for _, facts in groups])
    phenomena = dict.fromkeys(name for row in rows for name in row["phenomena"])
    yield "By phenomenon, in %:\n"
    yield table(
        [{"phenomenon": name.replace("_", " ")} | {row["run"]: _cell(row, name) for row in rows} for name in phenomena]
    )
    own = rows.where(published=None)
    commands = [*dict.fromkeys(map(train_command, own))]
    commands += [f"wenmai evaluate runs/{row['run']} --pairs {row['pairs']}" for row in own[-1:]]
    if commands:
        yield "```\n" + "\n".join(commands) + "\n```\n"


def facts(rows: Rows, _: Result) -> dict[str, Any]:
    """Returns a row's interval, the best of our runs, and the points that masked models gain over n-grams."""
    own = rows.where(published=None)
    ngrams = {row["corpus"]: row["accuracy"] for row in own.where(system="ngram")}
    gains = [
        100 * (row["accuracy"] - ngrams[row["corpus"]])
        for row in own
        if row["system"].startswith("bert")
        and row["training_seconds"] * row["threads"] <= HOUR
        and row["corpus"] in ngrams
    ]
    best = own.largest(lambda row: row["accuracy"])
    mark = " (pseudo)" if rows[0].get("pseudo") else ""
    return {"interval": _interval(rows[0]), "best": best, "gain": Numbers(sorted(gains)[-1:]), "mark": mark}


def _interval(row: Row) -> str:
    between = f" [{row['low']:.3f}, {row['high']:.3f}]" if "low" in row else ""
    return f"**{row['accuracy']:.3f}**{between}"


def _cell(row: Row, phenomenon: str) -> str:
    accuracy, *ends = row["phenomena"].get(phenomenon, [None])
    if accuracy is None:
        return "-"
    return f"{100 * accuracy:.1f}" + (f" ± {50 * (ends[1] - ends[0]):.1f}" if ends else "")
