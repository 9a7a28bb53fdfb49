"""How well finished runs translate: BLEU and chrF of a test set, also by the length of the source.

Nothing is trained here (but two tiny models with ``--quick``): the page shows the command of every run.
"""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness import DEFAULT_PAIRS, Bench, public_name
from benchmarks.plots import Panel, Plot, Series
from benchmarks.result import Numbers, Result, Row, Rows
from benchmarks.section import Section, table

__all__ = ["BEAM", "SECONDS", "TARGETS", "latest", "run", "train_command"]

BEAM = 5
TARGETS, SECONDS = {"transformer": 39, "seq2seq": 32}, 3600  # BLEU there, after so many seconds of training
QUICK_RUNS = {"with-attention": (), "without-attention": ("--set=context=first_state",)}
QUICK_SETTINGS = ("hidden_size=16", "embedding_size=8", "steps=10", "batch_tokens=256", "threads=1", "max_length=8")
QUICK_PAIRS = 20


def run(bench: Bench) -> None:
    """Evaluates each run of ``--runs`` on ``--pairs``, unless that has been done."""
    options = bench.options
    runs, pairs = options.runs, options.pairs
    if bench.quick and not runs:
        runs, pairs = _tiny_runs(bench)
    if not runs:
        print("translation: evaluates finished runs; name them: --runs RUN...", flush=True)
        return
    settings = {"beam": BEAM}
    baselines = ("torch", "sacrebleu")
    results = bench.results("translation", settings, corpus=False, keep=not bench.quick, baselines=baselines)
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
    """Trains briefly with and without attention; returns the runs and a small test set."""
    test = bench.work / "test.tsv"
    bench.job("beginning_of_pairs", pairs="builtin:numerals-test", count=QUICK_PAIRS, target=test)
    chosen = [f"--set={assignment}" for assignment in QUICK_SETTINGS]
    runs = []
    for name, more in QUICK_RUNS.items():
        runs.append(bench.work / name)
        bench.wenmai("train", "seq2seq", "--data", test, "--valid", test, "--out", runs[-1], "--quiet", *chosen, *more)
    return tuple(runs), str(test)


_HIDDEN = ("threads", "seed")  # of a run: they are in its command, but do not make it another model


def tables(_: Section, result: Result) -> Iterator[str]:
    for pairs, rows in latest(result.rows).items():
        yield f"### {pairs}\n"
        yield table([_cells(row, rows) for row in rows])
        signatures = dict.fromkeys(row[name] for row in rows for name in ("signature", "chrf_signature"))
        yield f"{rows[0]['sentences']:,} sentences; {', '.join(f'`{name}`' for name in signatures)}.\n"
        title, buckets = f"BLEU by {rows[0]['length_unit']} of the source", _buckets(rows)
        cells: list[dict[str, object]] = []
        for row in rows:
            scores = {bucket["low"]: bucket["bleu"] for bucket in row["buckets"]}
            cells.append({title: row["run"]} | {name: f"{scores[low]:.1f}" for low, name in buckets.items()})
        sizes = {bucket["low"]: bucket["sentences"] for row in rows for bucket in row["buckets"]}
        yield table([*cells, {title: "sentences"} | {name: sizes[low] for low, name in buckets.items()}])
    yield "The commands that train them (files without their folders):\n"
    runs = {row["run"]: row for rows in latest(result.rows).values() for row in rows}
    yield "```\n" + "\n".join(map(train_command, runs.values())) + "\n```\n"


def _cells(row: Row, rows: Rows) -> dict[str, object]:
    return {
        "run": row["run"],
        "system": row["system"],
        "settings that differ": ", ".join(_differing(row, rows)) or "-",
        "parameters": f"{row['parameters']:,}",
        "training, s": f"{row['training_seconds']:,.0f} ({row['steps']:,} updates, {row['threads']} threads)",
        "BLEU": f"**{row['bleu']:.1f}** [{row['bleu_low']:.1f}, {row['bleu_high']:.1f}]",
        "chrF2": f"{row['chrf']:.1f} [{row['chrf_low']:.1f}, {row['chrf_high']:.1f}]",
        "exact": f"{row['exact_match']:.1%}",
    }


def latest(rows: Rows) -> dict[str, Rows]:
    """Returns the last measurement of each run, by test set; the best BLEU first."""
    newest = Rows({(row["pairs"], row["run"]): row for row in rows}.values())
    return {pairs: Rows(sorted(own, key=lambda row: -row["bleu"])) for pairs, own in newest.by("pairs").items()}


def _buckets(rows: Rows) -> dict[int, str]:
    """The shortest length of each bucket, and its name."""
    found = sorted({(bucket["low"], bucket["high"] or 0) for row in rows for bucket in row["buckets"]})
    return {low: f"{low}-{high}" if high else f"{low}+" for low, high in found}


def _differing(row: Row, rows: Rows) -> list[str]:
    """The settings other than defaults that not all runs have."""
    return [
        f"{name}={_setting(value)}"
        for name, value in row["changed"].items()
        if name not in _HIDDEN
        and not all(name in other["changed"] and other["changed"][name] == value for other in rows)
    ]


def train_command(row: Row) -> str:
    """Returns the command that makes a run again."""
    valid = [] if row["valid"] is None else ["--valid", row["valid"]]
    chosen = [part for name, value in row["changed"].items() for part in ("--set", f"{name}={_setting(value)}")]
    corpus = ["--data", row["corpus"]] if row["system"] in TARGETS else row["corpus"].split(",")  # pairs, or texts
    return shlex.join(["wenmai", "train", row["system"], *corpus, *valid, "--out", f"runs/{row['run']}", *chosen])


def _setting(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(_setting, value))
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def facts(rows: Rows, _: Result) -> dict[str, Any]:
    """The best run of each system within the time limit, on the default test set."""
    own = latest(rows).get(DEFAULT_PAIRS, Rows()).where(attention=True)
    best = {
        system: own.where(system=system).largest(lambda row: (row["training_seconds"] <= SECONDS, row["bleu"]))
        for system in TARGETS
    }
    minutes = {system: Numbers(one / 60 for one in found.training_seconds) for system, found in best.items()}
    return {"best": best, "minutes": minutes}


def plot(_: Section, result: Result) -> Plot:
    panels = []
    for pairs, rows in latest(result.rows).items():
        places, series = {low: place for place, low in enumerate(_buckets(rows))}, []
        for row in rows:
            scores = {places[bucket["low"]]: bucket["bleu"] for bucket in row["buckets"]}
            name, style = (row["run"], "o-") if row["attention"] else (f"{row['run']} (no attention)", "s--")
            series.append(Series(name, scores, style))
        ticks, x = dict(enumerate(_buckets(rows).values())), f"{rows[0]['length_unit']} of the source"
        panels.append(Panel(series=series, title=pairs, x=x, y="BLEU", ticks=ticks))
    return Plot(kind="lines", panels=panels, size=(1.5 + 4.2 * len(panels), 3.4))
